//! Sequence numbers of an (initiator, target) pair.
//!
//! Packets of one pair arrive in order; across pairs nothing is promised (Clint 3.2). A packet
//! carries its number modulo 128, so a receiver first restores the whole number from the one that
//! it expects, and then sees what the arrival means.

use crate::packet::Sequence;

/// The numbers of the packets of one pair, at the initiator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Numbering {
    sent: u64,
}

/// The order of the packets of one pair, at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderCheck {
    expected: u64,
}

/// What an arrival means for the order of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next packet.
    InOrder,
    /// `missing` packets before it have not arrived.
    Ahead {
        /// How many packets, at least one.
        missing: u16,
    },
    /// It, or a later one, was in order before: it is a repetition.
    Behind,
}

impl Numbering {
    /// The number of the next packet. A retransmitted packet keeps its number.
    pub fn assign(&mut self) -> Sequence {
        let sequence = Sequence::of(self.sent);
        self.sent += 1;
        sequence
    }

    /// How many packets have been numbered.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

impl OrderCheck {
    /// How far ahead of the expected number a packet can be distinguished from a repetition. A
    /// sender keeps fewer than this many packets unacknowledged.
    pub const REACH: u16 = Sequence::MODULUS / 2;

    /// The whole number of a packet, counted from zero: the one nearest to the expected number
    /// that agrees with the seven bits.
    pub fn whole(&self, sequence: Sequence) -> u64 {
        let ahead = sequence.since(Sequence::of(self.expected));
        if ahead < OrderCheck::REACH {
            return self.expected + u64::from(ahead);
        }
        self.expected.saturating_sub(u64::from(Sequence::MODULUS - ahead))
    }

    /// What the arrival of a packet means. Changes nothing: a packet counts as received only when
    /// the target [accepts](OrderCheck::accept) it, which it does not without a receive buffer.
    pub fn arrival(&self, sequence: Sequence) -> Arrival {
        let ahead = sequence.since(Sequence::of(self.expected));
        match ahead {
            0 => Arrival::InOrder,
            missing if missing < OrderCheck::REACH => Arrival::Ahead { missing },
            _ => Arrival::Behind,
        }
    }

    /// The target accepts the packet: the next one is expected from now on. An old packet changes
    /// nothing.
    pub fn accept(&mut self, sequence: Sequence) -> Arrival {
        let arrival = self.arrival(sequence);
        if arrival != Arrival::Behind {
            self.expected = self.whole(sequence) + 1;
        }
        arrival
    }

    /// The number of the packet that is expected.
    pub fn expected(&self) -> u64 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_in_order_stays_in_order_past_the_wrap() {
        let (mut numbering, mut check) = (Numbering::default(), OrderCheck::default());
        for count in 0..300 {
            let sequence = numbering.assign();
            assert_eq!(check.whole(sequence), count);
            assert_eq!(check.accept(sequence), Arrival::InOrder);
        }
        assert_eq!((numbering.sent(), check.expected()), (300, 300));
    }

    #[test]
    fn a_gap_and_a_repetition_are_told_apart() {
        let mut check = OrderCheck { expected: 126 };
        assert_eq!(check.arrival(Sequence::of(129)), Arrival::Ahead { missing: 3 });
        assert_eq!(check.arrival(Sequence::of(125)), Arrival::Behind);
        assert_eq!((check.whole(Sequence::of(129)), check.whole(Sequence::of(70))), (129, 70));
        assert_eq!(check.accept(Sequence::of(125)), Arrival::Behind);
        assert_eq!(check.expected(), 126);
        assert_eq!(check.accept(Sequence::of(129)), Arrival::Ahead { missing: 3 });
        assert_eq!(check.expected(), 130);
    }

    #[test]
    fn the_reach_is_the_last_number_that_is_not_taken_for_a_repetition() {
        let check = OrderCheck { expected: 1000 };
        let reach = u64::from(OrderCheck::REACH);
        assert_eq!(check.arrival(Sequence::of(999 + reach)), Arrival::Ahead { missing: 63 });
        assert_eq!(check.arrival(Sequence::of(1000 + reach)), Arrival::Behind);
    }
}
