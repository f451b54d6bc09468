//! The buffers of a switch with queues at its inputs: how many packets they hold, and when an input
//! stops its cable.

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

/// The buffers of all inputs.
#[derive(Debug)]
pub(super) struct Inputs {
    room: u32,
    spare: Box<[u32]>,
    /// Packets in each input and travelling to it, by virtual channel.
    held: Box<[u32]>,
    stops: Option<(StopSettings, Box<[Hysteresis]>)>,
}

impl Inputs {
    /// Empty buffers for this many ports and, in each, virtual channels; the rest as in
    /// [`InputQueuedParts`](super::InputQueuedParts).
    pub fn new(
        (ports, lots): (usize, usize),
        room: u32,
        spare: Vec<u32>,
        stops: Option<StopSettings>,
    ) -> Inputs {
        let levels = |own| (own, vec![Hysteresis::default(); ports].into());
        Inputs { room, spare: spare.into(), held: vec![0; lots].into(), stops: stops.map(levels) }
    }

    /// A packet of a virtual channel of an input, which `lot` numbers, is sent there.
    #[inline]
    pub fn expect(&mut self, lot: usize) {
        self.held[lot] += 1;
    }

    /// A packet leaves. Returns whether the sender certainly has another credit until the one for
    /// this packet has returned.
    #[inline]
    pub fn release(&mut self, input: u8, lot: usize) -> bool {
        self.held[lot] -= 1;
        self.held[lot] < self.spare[usize::from(input)]
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
    pub fn is_full(&self, lot: usize) -> bool {
        self.held[lot] >= self.room
    }

    /// Whether inputs stop their cables when they hold much.
    #[inline]
    pub fn may_stop(&self) -> bool {
        self.stops.is_some()
    }

    /// How many cells an input has space for, if it stops its cable.
    pub fn space(&self) -> u32 {
        self.stops.as_ref().map_or(0, |(own, _)| own.space)
    }

    /// An input that stops its cable holds another packet.
    pub fn count_in(&mut self, input: u8, outbox: &mut Outbox) {
        let Some((StopSettings { marks, cells, space }, levels)) = &mut self.stops else { return };
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
    pub fn count_out(&mut self, input: u8, outbox: &mut Outbox) {
        let Some((StopSettings { marks, cells, .. }, levels)) = &mut self.stops else { return };
        for _ in 0..*cells {
            if levels[usize::from(input)].lower(*marks) == Some(Crossing::Low) {
                outbox.signals.push((input, false));
            }
        }
    }
}
