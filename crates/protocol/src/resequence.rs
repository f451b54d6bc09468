//! The target's side of a retransmitting protocol: recognises duplicates and restores order.

/// How far a sequence number may be ahead of the oldest packet that is still missing. The sender
/// must respect this (see [`super::retransmit::Window`]), so that one word of bits records what has
/// arrived.
pub const REACH: u32 = 64;

/// What has arrived from one initiator, by sequence number (one instance a pair).
#[derive(Clone, Debug, Default)]
pub struct Resequencer {
    /// The oldest sequence number that has not arrived.
    expected: u32,
    /// Bit `k`: number `expected + 1 + k` has arrived.
    early: u64,
}

/// The meaning of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was the oldest missing packet. It and the `also` packets after it, which arrived before
    /// it, are now in order.
    InOrder {
        /// How many packets that had arrived early are in order by this arrival.
        also: u32,
    },
    /// An older packet is still missing.
    Early,
    /// It has arrived before.
    Duplicate,
    /// It is further ahead than [`REACH`]: the sender violated the agreement.
    OutOfReach,
}

impl Resequencer {
    /// Records the arrival of one packet.
    pub fn receive(&mut self, sequence: u32) -> Received {
        let ahead = sequence.wrapping_sub(self.expected);
        if ahead == 0 {
            let also = self.early.trailing_ones();
            self.expected = self.expected.wrapping_add(also + 1);
            // A shift by the full width is not defined for a word.
            self.early = self.early.checked_shr(also + 1).unwrap_or(0);
            return Received::InOrder { also };
        }
        if ahead > u32::MAX / 2 {
            return Received::Duplicate;
        }
        if ahead >= REACH {
            return Received::OutOfReach;
        }
        let bit = 1 << (ahead - 1);
        if self.early & bit != 0 {
            return Received::Duplicate;
        }
        self.early |= bit;
        Received::Early
    }

    /// How many packets have arrived so far, modulo 2^32.
    pub fn arrived(&self) -> u32 {
        self.expected.wrapping_add(self.early.count_ones())
    }

    /// The oldest sequence number that has not arrived.
    pub fn expected(&self) -> u32 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::{REACH, Received, Resequencer};

    #[test]
    fn early_packets_are_released_behind_the_missing_one() {
        let mut target = Resequencer::default();
        assert_eq!(target.receive(0), Received::InOrder { also: 0 });
        assert_eq!(target.receive(2), Received::Early);
        assert_eq!(target.receive(3), Received::Early);
        assert_eq!(target.receive(5), Received::Early);
        assert_eq!(target.receive(3), Received::Duplicate);
        assert_eq!((target.expected(), target.arrived()), (1, 4));
        assert_eq!(target.receive(1), Received::InOrder { also: 2 });
        assert_eq!(target.expected(), 4);
        assert_eq!(target.receive(4), Received::InOrder { also: 1 });
        assert_eq!(target.receive(0), Received::Duplicate);
    }

    #[test]
    fn the_whole_reach_is_remembered() {
        let mut target = Resequencer::default();
        for sequence in 1..REACH {
            assert_eq!(target.receive(sequence), Received::Early);
        }
        assert_eq!(target.receive(REACH), Received::OutOfReach);
        assert_eq!(target.receive(0), Received::InOrder { also: REACH - 1 });
        assert_eq!(target.expected(), REACH);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut target = Resequencer { expected: u32::MAX, early: 0 };
        assert_eq!(target.receive(0), Received::Early);
        assert_eq!(target.receive(u32::MAX - 1), Received::Duplicate);
        assert_eq!(target.receive(u32::MAX), Received::InOrder { also: 1 });
        assert_eq!(target.expected(), 1);
    }
}
