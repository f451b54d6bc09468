//! The memory of a host as a channel between programs on it: a message is one copy.
//!
//! The initiator makes the copy, and its next copy begins when this one is complete. Copies of
//! different initiators do not delay each other: the rate is that of one copying processor, not
//! that of the memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate, Span, Time};

/// What a message between two ranks on one host costs: `latency` plus its size divided by `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySettings {
    /// From the last byte of the copy until the target has the message: the time that both programs
    /// and their caches need for a message without bytes.
    pub latency: Span,
    /// How fast the initiator copies.
    pub rate: Rate,
}

/// When a copy is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The initiator may reuse the memory of the message.
    pub made: Time,
    /// The target has the message.
    pub seen: Time,
}

/// The copies that initiators make in the memories of their hosts.
#[derive(Clone, Debug)]
pub struct Memory {
    settings: MemorySettings,
    /// When each initiator has finished its last copy.
    free: Vec<Time>,
}

impl Memory {
    /// No copy is in progress.
    pub fn new(settings: MemorySettings) -> Memory {
        Memory { settings, free: Vec::new() }
    }

    /// An initiator, by its number, has something to copy. What it copies arrives in this order.
    pub fn copy(&mut self, now: Time, initiator: u16, size: Bytes) -> Copied {
        let place = usize::from(initiator);
        if self.free.len() <= place {
            self.free.resize(place + 1, Time::ZERO);
        }
        let made = self.free[place].max(now) + self.settings.rate.span(size);
        self.free[place] = made;
        Copied { made, seen: made + self.settings.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_one_initiator_follow_each_other_and_those_of_two_do_not() {
        // A byte a nanosecond, and 300 ns until it is seen.
        let rate = Rate::from_bits_per_second(8_000_000_000);
        let mut memory = Memory::new(MemorySettings { latency: Span(300_000), rate });
        let mut copy = |now, initiator, size| {
            let Copied { made, seen } = memory.copy(Time(now), initiator, Bytes(size));
            (made.0, seen.0)
        };
        assert_eq!(copy(1_000, 0, 100), (101_000, 401_000));
        assert_eq!(copy(1_000, 0, 50), (151_000, 451_000), "behind the first");
        assert_eq!(copy(1_000, 1, 50), (51_000, 351_000), "beside both");
        assert_eq!(copy(200_000, 0, 0), (200_000, 500_000), "the last was long made");
    }
}
