//! Reliable, ordered delivery of the packets of a flow: the state of a flow at both ends, and the
//! responses of the target.
//!
//! A flow is a sequence of packets, numbered from 0. The target answers each packet with an
//! acknowledgment, which says up to which packet everything has arrived. With *go-back-N*, as in
//! RoCE NICs (Guo et al., "RDMA over Commodity Ethernet at Scale", SIGCOMM 2016, section 4.1), it
//! discards packets after a gap, and says so once; the sender then sends everything again from
//! there. With *selective repeat*, as in IRN (Mittal et al., "Revisiting Network Support for RDMA",
//! SIGCOMM 2018, section 3.1), it keeps what comes and names it, and the sender sends again what is
//! missing below that. IRN leaves packets that are lost twice to the timer; here the sender detects
//! the second loss as Linux's TCP does: a packet sent after the retransmission has arrived. Where
//! switches trim packets instead of dropping them, the target rejects a trimmed packet, and the
//! sender retransmits it immediately (Handley et al., "Re-architecting datacenter networks and
//! stacks for low latency and high performance", SIGCOMM 2017, section 3.2).

mod notifier;
mod receiver;
mod sender;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use notifier::Notifier;
pub use receiver::{Answer, Arrival, Receiver};
pub use sender::{Heard, Sender};

/// How lost packets are retransmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossRecovery {
    /// Everything from the first gap on. The target discards packets behind a gap.
    #[default]
    GoBackN,
    /// Only what is missing. The target keeps packets behind a gap.
    SelectiveRepeat,
}

impl LossRecovery {
    /// The name of the kind in files.
    pub const fn name(self) -> &'static str {
        match self {
            LossRecovery::GoBackN => "go_back_n",
            LossRecovery::SelectiveRepeat => "selective_repeat",
        }
    }
}

/// The packets received from a number on, a bit for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bits {
    /// The number of the first bit, a multiple of 64.
    first: u32,
    words: std::collections::VecDeque<u64>,
}

impl Bits {
    fn has(&self, number: u32) -> bool {
        let Some(bit) = number.checked_sub(self.first) else { return false };
        self.words.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    /// Sets a bit. Returns whether it was not set; those before the first are.
    fn set(&mut self, number: u32) -> bool {
        let Some(bit) = number.checked_sub(self.first) else { return false };
        let index = bit as usize / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let word = &mut self.words[index];
        let before = *word;
        *word |= 1 << (bit % 64);
        *word != before
    }

    /// The first number from `from` on whose bit is not set.
    fn first_gap(&self, from: u32) -> u32 {
        let mut bit = from.saturating_sub(self.first);
        while let Some(word) = self.words.get(bit as usize / 64) {
            let missing = !word >> (bit % 64);
            if missing != 0 {
                return self.first + bit + missing.trailing_zeros();
            }
            bit = (bit / 64 + 1) * 64;
        }
        self.first + bit
    }

    /// Forgets what is before `number`.
    fn forget_before(&mut self, number: u32) {
        while number.saturating_sub(self.first) >= 64 {
            if self.words.pop_front().is_none() {
                self.first = number - number % 64;
                return;
            }
            self.first += 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A route that loses and reorders: packets and responses in flight, removed by number.
    fn carry(reliability: LossRecovery, threshold: u32, count: u32, fates: &[(u8, u8)]) {
        let trims = reliability == LossRecovery::SelectiveRepeat;
        let mut sender = Sender::new(reliability, count, threshold);
        let mut receiver = Receiver::new(reliability, count);
        let (mut packets, mut answers): (Vec<u32>, Vec<Answer>) = (Vec::new(), Vec::new());
        let mut delivered = 0;
        let mut fates = fates.iter().copied();
        for step in 0.. {
            assert!(step < 100_000, "the flow comes to an end");
            // When all fates are used up nothing is lost or reordered any more.
            let (what, which) = fates.next().unwrap_or((step as u8 % 3, 0));
            match what % 5 {
                0 => {
                    if sender.outstanding() < 8
                        && let Some(number) = sender.next()
                    {
                        sender.sent(number);
                        packets.push(number);
                    } else if packets.is_empty() && answers.is_empty() {
                        sender.timed_out();
                    }
                }
                1 if !packets.is_empty() && which % 7 == 6 && trims => {
                    let number = packets.remove(usize::from(which) % packets.len());
                    answers.push(receiver.arrive_cut(number));
                }
                1 if !packets.is_empty() => {
                    let number = packets.remove(usize::from(which) % packets.len());
                    let arrival = receiver.arrive(number);
                    delivered += u32::from(arrival.is_new);
                    answers.extend(arrival.answer);
                }
                2 if !answers.is_empty() => {
                    let answer = answers.remove(usize::from(which) % answers.len());
                    sender.hear(&answer);
                }
                3 if !packets.is_empty() => drop(packets.remove(0)),
                4 if !answers.is_empty() => drop(answers.remove(0)),
                _ => {}
            }
            if sender.is_done() {
                break;
            }
        }
        assert!(receiver.is_complete());
        assert_eq!(delivered, count, "each packet is handed over once");
    }

    proptest! {
        #[test]
        fn every_packet_is_handed_over_once_whatever_is_lost_or_overtaken(
            count in 1_u32..200,
            threshold in 1_u32..8,
            fates in prop::collection::vec((any::<u8>(), any::<u8>()), 0..400),
        ) {
            for reliability in [LossRecovery::GoBackN, LossRecovery::SelectiveRepeat] {
                carry(reliability, threshold, count, &fates);
            }
        }

        #[test]
        fn bits_are_a_set(numbers in prop::collection::vec(0_u32..500, 0..100)) {
            let mut bits = Bits::default();
            let mut set = std::collections::BTreeSet::new();
            for number in numbers {
                prop_assert_eq!(bits.set(number), set.insert(number));
                let gap = (0..).find(|own| !set.contains(own));
                prop_assert_eq!(Some(bits.first_gap(0)), gap);
            }
            let gap = bits.first_gap(0);
            bits.forget_before(gap);
            for number in gap..500 {
                prop_assert_eq!(bits.has(number), set.contains(&number));
            }
        }
    }
}
