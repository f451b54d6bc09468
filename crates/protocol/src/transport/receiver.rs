//! The target of a flow.

use super::{Bits, LossRecovery};

/// The state of one flow at its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    reliability: LossRecovery,
    count: u32,
    /// Everything before this number has arrived.
    expected: u32,
    /// The packets received after it.
    kept: Bits,
    /// One more than the highest number that has arrived.
    seen: u32,
    /// Whether the present gap has been answered.
    has_refused: bool,
}

/// The content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Everything before this number has arrived.
    pub expected: u32,
    /// The packet that it answers.
    pub number: u32,
    /// Which of the 32 packets before that one have arrived, as far as the response says: bit 0 is
    /// the one right before it.
    pub before: u32,
    /// That packet was discarded. Go-back-N: it came after a gap. Selective repeat: a switch had trimmed
    /// its payload.
    pub is_refusal: bool,
}

/// The fate of a packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whether it is new and was kept.
    pub is_new: bool,
    /// Whether a packet with a higher number has arrived before it.
    pub is_late: bool,
    /// How many packets are in order now that were not before.
    pub in_order: u32,
    /// The response to the sender, if there is one.
    pub answer: Option<Answer>,
}

impl Receiver {
    /// The target of a flow of `count` packets.
    pub fn new(reliability: LossRecovery, count: u32) -> Receiver {
        let (kept, has_refused) = (Bits::default(), false);
        Receiver { reliability, count, expected: 0, kept, seen: 0, has_refused }
    }

    /// A packet has arrived.
    pub fn arrive(&mut self, number: u32) -> Arrival {
        let is_late = number + 1 < self.seen;
        self.seen = self.seen.max(number + 1);
        let before = self.expected;
        let is_behind_a_gap = number > self.expected;
        let is_new = match self.reliability {
            LossRecovery::GoBackN => number == self.expected,
            LossRecovery::SelectiveRepeat => number >= self.expected && self.kept.set(number),
        };
        if is_new && !is_behind_a_gap {
            self.expected = match self.reliability {
                LossRecovery::GoBackN => number + 1,
                LossRecovery::SelectiveRepeat => self.kept.first_gap(number),
            };
            self.kept.forget_before(self.expected);
            self.has_refused = false;
        }
        let is_refusal = is_behind_a_gap && self.reliability == LossRecovery::GoBackN;
        // A gap is refused once: the sender goes back at every refusal.
        let is_silent = is_refusal && std::mem::replace(&mut self.has_refused, true);
        let answer = Answer { expected: self.expected, number, before: 0, is_refusal };
        Arrival {
            is_new,
            is_late,
            in_order: self.expected - before,
            answer: (!is_silent).then_some(answer),
        }
    }

    /// The header of a packet has arrived, whose payload a switch had trimmed. Returns the
    /// response: a refusal, or that the packet has already arrived.
    pub fn arrive_cut(&self, number: u32) -> Answer {
        let is_refusal = number >= self.expected && !self.kept.has(number);
        Answer { expected: self.expected, number, before: 0, is_refusal }
    }

    /// A bit for each of the 32 packets before a number that has arrived, as acknowledgments carry
    /// it.
    pub fn before(&self, number: u32) -> u32 {
        (0..32).fold(0, |bits, back| {
            let has = number.checked_sub(back + 1).is_some_and(|own| self.kept.has(own));
            bits | u32::from(has) << back
        })
    }

    /// Whether there is no gap below the highest packet that has arrived.
    pub fn is_in_order(&self) -> bool {
        self.expected >= self.seen
    }

    /// Whether everything has arrived.
    pub fn is_complete(&self) -> bool {
        self.expected == self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(receiver: &mut Receiver, number: u32) -> Option<(u32, bool)> {
        receiver.arrive(number).answer.map(|answer| (answer.expected, answer.is_refusal))
    }

    #[test]
    fn go_back_n_keeps_nothing_behind_a_gap_and_says_so_once() {
        let mut own = Receiver::new(LossRecovery::GoBackN, 4);
        assert_eq!(told(&mut own, 0), Some((1, false)));
        assert_eq!(told(&mut own, 2), Some((1, true)));
        assert_eq!(told(&mut own, 3), None);
        assert_eq!(told(&mut own, 1), Some((2, false)));
        assert_eq!(told(&mut own, 1), Some((2, false)), "one that came already");
        assert_eq!(told(&mut own, 3), Some((2, true)), "another gap");
        assert_eq!([told(&mut own, 2), told(&mut own, 3)], [Some((3, false)), Some((4, false))]);
        assert!(own.is_complete());
    }

    #[test]
    fn selective_repeat_keeps_what_comes_and_names_it() {
        let mut own = Receiver::new(LossRecovery::SelectiveRepeat, 130);
        for number in (2..130).rev() {
            let arrival = own.arrive(number);
            assert_eq!((arrival.is_new, arrival.in_order), (true, 0));
            assert_eq!(arrival.is_late, number < 129);
        }
        let twice = own.arrive(7);
        assert_eq!((twice.is_new, twice.answer.map(|own| own.expected)), (false, Some(0)));
        assert_eq!(own.arrive(0).in_order, 1);
        assert_eq!(own.arrive(1).in_order, 129);
        assert!(own.is_complete());
        assert_eq!(told(&mut own, 64), Some((130, false)));
    }

    #[test]
    fn a_packet_that_was_cut_is_refused_unless_it_has_come() {
        let mut own = Receiver::new(LossRecovery::SelectiveRepeat, 40);
        assert!([0, 3, 35].into_iter().all(|number| own.arrive(number).is_new));
        let told = [0, 1, 3].map(|number| own.arrive_cut(number));
        assert_eq!(
            told.map(|own| (own.expected, own.number, own.is_refusal)),
            [(1, 0, false), (1, 1, true), (1, 3, false),]
        );
        assert_eq!(own.before(36), 1, "35; 3 is 33 before it");
        assert_eq!(own.before(35), 1 << 31, "3");
        assert!(!own.is_in_order());
    }
}
