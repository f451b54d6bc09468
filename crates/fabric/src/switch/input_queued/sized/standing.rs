//! What waits for what in an input-queued switch.

use super::InputQueuedOf;

impl<const W: usize> InputQueuedOf<W> {
    pub fn waiting(&self, output: u32) -> u32 {
        self.waiting[output as usize]
    }

    pub fn is_stopped(&self, output: u32) -> bool {
        self.stopped.contains(output as usize)
    }

    pub fn is_wanted(&self, output: u32, channel: u8) -> bool {
        if self.channels > 1 {
            let lanes = self.lanes.iter().skip(output as usize).step_by(self.ports as usize);
            return lanes.fold(0, |all, lanes| all | lanes) >> channel & 1 == 1;
        }
        let any = |input| !self.queues[self.queue(input, output, channel.into())].is_empty();
        (0..self.ports).any(any)
    }

    pub fn wanted_of(&self, input: u32) -> Vec<u32> {
        self.wanted.row(input as usize).into_iter().map(|output| output as u32).collect()
    }

    pub fn space(&self) -> u32 {
        self.levels.space()
    }
}
