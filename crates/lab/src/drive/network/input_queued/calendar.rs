//! What happens to switches in slots to come.
//!
//! Everything a switch brings about elsewhere takes the same time wherever it happens: a packet on
//! its way, a port that it leaves, a credit that travels back. Each of them waits in a queue of its
//! own, in order, so that a slot takes them from the front and no switch has to be searched.

use std::collections::VecDeque;

use weft_kernel::Id;

use super::Packet;

/// A slot that does not come.
pub(super) const NEVER: u64 = u64::MAX;

/// Things that are to happen, each in a slot not before that of the one in front of it.
#[derive(Debug)]
pub(super) struct Waiting<T>(VecDeque<(u64, T)>);

/// A packet that can be decided on at a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub id: Id<Packet>,
    pub port: u32,
}

/// An input and an output that a packet has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release {
    pub switch: u32,
    pub input: u8,
    pub output: u8,
}

/// News from the far end of the cable in a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub port: u32,
    pub stops: bool,
}

/// The slots to come.
#[derive(Debug)]
pub(super) struct Calendar {
    pub arrivals: Waiting<Arrival>,
    pub releases: Waiting<Release>,
    /// Credits, each by the port and virtual channel that it is for.
    pub credits: Waiting<u32>,
    pub signals: Waiting<Signal>,
    /// The next slot for which an event is scheduled.
    pub due: u64,
    /// The switches that take part in the present slot, and in the next one, by bit.
    pub present: Vec<u64>,
    pub next: Vec<u64>,
    pub is_next_needed: bool,
}

impl Calendar {
    pub fn new(switches: u32) -> Calendar {
        let words = switches.div_ceil(64) as usize;
        Calendar {
            arrivals: Waiting::new(),
            releases: Waiting::new(),
            credits: Waiting::new(),
            signals: Waiting::new(),
            due: NEVER,
            present: vec![0; words],
            next: vec![0; words],
            is_next_needed: false,
        }
    }

    /// A switch takes part in the present slot.
    #[inline]
    pub fn mark(&mut self, switch: u32) {
        self.present[switch as usize / 64] |= 1 << (switch % 64);
    }

    /// A switch takes part in the next slot.
    #[inline]
    pub fn mark_next(&mut self, switch: u32) {
        self.next[switch as usize / 64] |= 1 << (switch % 64);
        self.is_next_needed = true;
    }

    /// The first slot after `slot` in which something happens. Credits count only where somebody
    /// waits for one.
    #[inline]
    pub fn after(&self, slot: u64, wants_credits: bool) -> u64 {
        if self.is_next_needed {
            return slot + 1;
        }
        let credits = if wants_credits { self.credits.first() } else { NEVER };
        let switches = self.arrivals.first().min(self.releases.first());
        switches.min(credits).min(self.signals.first())
    }
}

impl<T: Copy> Waiting<T> {
    fn new() -> Waiting<T> {
        Waiting(VecDeque::new())
    }

    /// Something happens in `slot`, not before anything else that waits.
    #[inline]
    pub fn push(&mut self, slot: u64, what: T) {
        debug_assert!(self.0.back().is_none_or(|last| last.0 <= slot), "out of order");
        self.0.push_back((slot, what));
    }

    /// What happens next, if it is due by `slot`.
    #[inline]
    pub fn pop(&mut self, slot: u64) -> Option<T> {
        if self.first() > slot {
            return None;
        }
        self.0.pop_front().map(|first| first.1)
    }

    /// The slot of what happens next.
    #[inline]
    fn first(&self) -> u64 {
        self.0.front().map_or(NEVER, |first| first.0)
    }

    /// All that is to happen.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().map(|what| what.1)
    }
}
