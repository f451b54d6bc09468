//! The buffers of a switch with queues at its inputs: how many packets they hold, and when an input
//! stops its cable.

use weft_kernel::{prefetch, prefetch_all};
use weft_protocol::flow::{Crossing, Hysteresis, Marks};

use super::Outbox;

/// The marks at which an input stops its cable.
#[derive(Clone, Copy, Debug)]
pub struct StopSettings {
    /// The cells that it holds then, and those at which the cable may go on.
    pub marks: Marks,
    /// Cells of a packet.
    pub cells: u64,
    /// Cells for which there is space.
    pub space: u32,
}

/// How many packets all inputs hold, by virtual channel, as far as their cables give credits for them.
#[derive(Debug)]
pub(super) struct Inputs {
    channels: u32,
    room: u32,
    spare: Box<[u32]>,
    /// Packets in each input and travelling to it, by virtual channel.
    held: Box<[u32]>,
}

impl Inputs {
    /// Empty buffers; the rest as in [`InputQueuedParts`](super::InputQueuedParts).
    pub fn new(channels: u8, room: u32, spare: Vec<u32>) -> Inputs {
        let held = vec![0; spare.len() * usize::from(channels)].into();
        Inputs { channels: channels.into(), room, spare: spare.into(), held }
    }

    #[inline]
    fn lot(&self, input: u32, channel: u8) -> usize {
        (input * self.channels) as usize + usize::from(channel)
    }

    /// A packet is sent to an input on a virtual channel.
    #[inline]
    pub fn expect(&mut self, input: u32, channel: u8) {
        let lot = self.lot(input, channel);
        self.held[lot] += 1;
    }

    /// A packet leaves. Returns whether the sender certainly has another credit until the one for
    /// this packet has returned.
    #[inline]
    pub fn release(&mut self, input: u32, channel: u8) -> bool {
        let lot = self.lot(input, channel);
        self.held[lot] -= 1;
        self.held[lot] < self.spare[input as usize]
    }

    /// Prefetches all counts.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_all(&self.held);
        prefetch_all(&self.spare);
    }

    /// Prefetches the counts of an input.
    #[inline]
    pub fn prefetch_input(&self, input: u32) {
        prefetch(&self.held, self.lot(input, 0));
    }

    /// The largest number of packets that one may hold while its sender certainly has a credit left.
    pub fn spare(&self, input: u32) -> u32 {
        self.spare[input as usize]
    }

    /// From now on [`release`](Self::release) returns false.
    pub fn report_every_credit(&mut self) {
        self.spare.fill(0);
    }

    /// From now on [`release`](Self::release) returns false for packets of an input.
    pub fn report_credits_of(&mut self, input: u32) {
        self.spare[input as usize] = 0;
    }

    /// How many packets of each virtual channel an input holds.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Whether an input has no room for another packet of a virtual channel.
    pub fn is_full(&self, input: u32, channel: u8) -> bool {
        self.held[self.lot(input, channel)] >= self.room
    }
}

/// How many cells all inputs hold, as far as they stop their cables because of them.
#[derive(Debug)]
pub(super) struct Levels(Option<(StopSettings, Box<[Hysteresis]>)>);

impl Levels {
    /// Those of empty buffers of this many ports.
    pub fn new(ports: usize, stops: Option<StopSettings>) -> Levels {
        Levels(stops.map(|own| (own, vec![Hysteresis::default(); ports].into())))
    }

    /// Whether inputs stop their cables when they hold much.
    #[inline]
    pub fn may_stop(&self) -> bool {
        self.0.is_some()
    }

    /// How many cells an input has space for, if it stops its cable.
    pub fn space(&self) -> u32 {
        self.0.as_ref().map_or(0, |(own, _)| own.space)
    }

    /// An input that stops its cable holds another packet.
    pub fn count_in(&mut self, input: u16, outbox: &mut Outbox) {
        let Some((StopSettings { marks, cells, space }, levels)) = &mut self.0 else { return };
        let level = &mut levels[usize::from(input)];
        for _ in 0..*cells {
            let crossing = level.raise(*marks);
            if level.held() > *space {
                outbox.overrun = Some(input);
            }
            if crossing == Some(Crossing::High) {
                outbox.signals.push((input, true));
            }
        }
    }

    /// A packet begins to leave: it cuts through, and is held no longer.
    pub fn count_out(&mut self, input: u16, outbox: &mut Outbox) {
        let Some((StopSettings { marks, cells, .. }, levels)) = &mut self.0 else { return };
        for _ in 0..*cells {
            if levels[usize::from(input)].lower(*marks) == Some(Crossing::Low) {
                outbox.signals.push((input, false));
            }
        }
    }
}
