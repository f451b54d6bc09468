//! What the inputs of a switch share of its memory: the space, and the bandwidth for writes and
//! reads.

use weft_fabric::graph::Graph;
use weft_units::{Bytes, Limit, Span, Time};

use super::Memories;
use crate::drive::engine::Engine;
use crate::drive::engine::limits::Overrun;

/// The memory of one switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bank {
    /// How many packets it has room for; the largest number if that is unlimited.
    space: u32,
    /// How many it holds, including those being sent.
    pub stored: u32,
    /// The time of a write and of a read of a packet; zero if the memory never limits.
    turn: Span,
    /// When it is free for the next packet.
    free: Time,
}

impl Bank {
    /// The memory of a switch whose packets have a size; one without limits if the switch has none.
    pub fn new(graph: &Graph, switch: u32, packet: Bytes) -> Bank {
        let (pool, bandwidth) = graph.memory_limits(switch);
        let space = match pool {
            Limit::Unlimited => u32::MAX,
            Limit::AtMost(count) => count.get(),
        };
        let turn = bandwidth.map_or(Span::ZERO, |rate| rate.span(packet * 2));
        Bank { space, stored: 0, turn, free: Time::ZERO }
    }

    /// Adds a packet. Returns whether there was room for it.
    pub fn store(&mut self) -> bool {
        self.stored += 1;
        self.stored <= self.space
    }

    /// When a packet that an output requests at an instant begins to leave.
    pub fn turn(&mut self, now: Time) -> Time {
        let begins = now.max(self.free);
        self.free = begins + self.turn;
        begins
    }
}

impl Memories {
    /// When a packet that a port of a switch takes now begins to leave.
    #[inline]
    pub(super) fn begins(&mut self, now: Time, switch: u32) -> Time {
        match self.has_turns {
            true => self.banks[switch as usize].turn(now),
            false => now,
        }
    }
}

impl Engine {
    /// A packet is in a switch whose memory has no room for it.
    pub(super) fn note_full_memory(&mut self, now: Time, switch: u32) {
        let (Some(wiring), None) = (&self.names, &self.overrun) else { return };
        let said = format!(
            "at {} a cell came to {}, whose memory of {} cells was full; a lossless channel needs a \
             larger pool, or has to stop earlier",
            now.since(Time::ZERO),
            wiring.switch_name(switch),
            self.memories.banks[switch as usize].space,
        );
        self.overrun = Some(Overrun { time: now, place: switch, space: 0, said });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three outputs ask at once, and one when the memory has been idle.
    #[test]
    fn outputs_take_turns_at_the_memory() {
        let turn = Span::from_ns(53);
        let mut bank = Bank { space: 2, stored: 0, turn, free: Time::ZERO };
        let begins = [0, 0, 10, 500].map(|ns| bank.turn(Time(ns * 1_000)).0 / 1_000);
        assert_eq!(begins, [0, 53, 106, 500]);
        assert_eq!([(); 3].map(|()| bank.store()), [true, true, false]);
    }
}
