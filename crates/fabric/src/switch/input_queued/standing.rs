//! What waits for what in an input-queued switch.

use super::InputQueued;
use crate::scheduler::bits::{Members, only};

impl InputQueued {
    /// Packets that wait for an output.
    pub fn waiting(&self, output: u32) -> u32 {
        self.waiting[output as usize]
    }

    /// Whether the far end has stopped an output.
    pub fn is_stopped(&self, output: u32) -> bool {
        self.stopped & only(output as usize) != 0
    }

    /// Whether packets of a virtual channel wait for an output.
    pub fn is_wanted(&self, output: u32, channel: u8) -> bool {
        let any = |input| !self.queues[self.queue(input, output, channel.into())].is_empty();
        (0..self.ports).any(any)
    }

    /// The outputs that packets in an input wait for.
    pub fn wanted_of(&self, input: u32) -> impl Iterator<Item = u32> {
        Members(self.wanted.row(input as usize)).map(|output| output as u32)
    }

    /// How many packets of each virtual channel an input holds, if it gives credits.
    pub fn room(&self) -> u32 {
        self.inputs.room()
    }

    /// How many cells an input has space for, if it stops its cable.
    pub fn space(&self) -> u32 {
        self.inputs.space()
    }

    /// Whether an input has no room for another packet of a virtual channel.
    pub fn is_full(&self, input: u32, channel: u8) -> bool {
        self.inputs.is_full((input * self.channels) as usize + usize::from(channel))
    }
}
