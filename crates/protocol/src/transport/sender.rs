//! The sender of a flow.

use std::collections::VecDeque;
use std::mem::offset_of;

use super::{Answer, Bits, LossRecovery};

/// The state of one flow at its sender: first what both kinds of recovery read, then what only selective repeat does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sender {
    count: u32,
    /// Everything before this number is acknowledged.
    acknowledged: u32,
    /// The packet that is sent next unless one is missing. Go-back-N sets it back.
    next: u32,
    /// The first packet that has never been sent.
    fresh: u32,
    /// Selective repeat: how many packets after `acknowledged` are known to have arrived.
    come_count: u32,
    /// Packets that are to be sent again, and so not under way.
    missing: u32,
    /// During a retransmission of missing packets: the next packet to check.
    again: Option<u32>,
    reliability: LossRecovery,
    /// Those of the missing packets that the target has refused, in ascending order. They go first.
    refused: VecDeque<u32>,
    /// Selective repeat: which packets have come, and one more than the highest of them.
    come: Bits,
    highest: u32,
    /// A packet counts as lost when one whose number is higher by this many has arrived.
    threshold: u32,
    /// What was missing below it has been sent again, or is about to be.
    again_to: u32,
    /// The first packet that had never been sent when the last of those was sent again.
    behind_again: u32,
    /// All packets that it ever refused, whether they were retransmitted or not: gaps do not mark
    /// these as lost again.
    named: Bits,
}

/// What a response means to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How many packets are newly known to have arrived.
    pub packets: u32,
    /// Whether it reveals a loss that the sender did not know of.
    pub is_loss: bool,
}

impl Sender {
    /// How many of its first bytes hold all that go-back-N reads.
    pub const OF_GO_BACK_N: usize = offset_of!(Sender, come);

    /// The sender of a flow of `count` packets, for selective repeat with the number of packets by
    /// which a packet may be overtaken before it counts as lost, 1 or more.
    pub fn new(reliability: LossRecovery, count: u32, threshold: u32) -> Sender {
        Sender {
            reliability,
            count,
            acknowledged: 0,
            next: 0,
            fresh: 0,
            come: Bits::default(),
            come_count: 0,
            highest: 0,
            threshold: threshold.max(1),
            again: None,
            again_to: 0,
            behind_again: 0,
            missing: 0,
            refused: VecDeque::new(),
            named: Bits::default(),
        }
    }

    /// The next packet to send, if there is one.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        let missing = self.refused.front().copied().or(self.again);
        missing.or(Some(self.next).filter(|next| *next < self.count))
    }

    /// The packet that [`next`](Self::next) named starts. Returns whether it is the first time.
    pub fn sent(&mut self, number: u32) -> bool {
        let is_first = number >= self.fresh;
        if self.refused.front() == Some(&number) {
            self.refused.pop_front();
            self.missing -= 1;
        } else if self.again == Some(number) {
            self.missing -= 1;
            self.look_on(number + 1);
        } else {
            self.next = number + 1;
            self.fresh = self.fresh.max(self.next);
        }
        is_first
    }

    /// How many packets are in flight, as far as is known.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.next - self.acknowledged - self.come_count - self.missing
    }

    /// How many packets must be sent, again or for the first time.
    pub fn waiting(&self) -> u32 {
        self.count - self.next + self.missing
    }

    /// Whether the last packet is among those that are still to be sent in order, not again because
    /// they are missing.
    pub fn has_last_to_send(&self) -> bool {
        self.next < self.count
    }

    /// Everything before this number is acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// The first packet that has never been sent.
    pub fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Whether everything is acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.count
    }

    /// A response has arrived.
    pub fn hear(&mut self, answer: &Answer) -> Heard {
        match self.reliability {
            LossRecovery::GoBackN => self.hear_all_or_nothing(answer),
            LossRecovery::SelectiveRepeat if answer.is_refusal => self.hear_refusal(answer.number),
            LossRecovery::SelectiveRepeat => self.hear_of_some(answer),
        }
    }

    fn hear_all_or_nothing(&mut self, answer: &Answer) -> Heard {
        let packets = answer.expected.saturating_sub(self.acknowledged);
        self.acknowledged += packets;
        // Acknowledged packets need not be retransmitted.
        self.next = self.next.max(self.acknowledged);
        let is_loss = answer.is_refusal
            && answer.expected == self.acknowledged
            && self.next > self.acknowledged;
        if is_loss {
            self.next = self.acknowledged;
        }
        Heard { packets, is_loss }
    }

    fn hear_of_some(&mut self, answer: &Answer) -> Heard {
        let mut packets = self.note(answer.number);
        let mut before = answer.before;
        while before != 0 {
            let back = before.trailing_zeros();
            before &= before - 1;
            packets += answer.number.checked_sub(back + 1).map_or(0, |number| self.note(number));
        }
        while self.acknowledged < answer.expected {
            match self.come.has(self.acknowledged) {
                true => self.come_count -= 1,
                false => {
                    packets += 1;
                    self.strike(self.acknowledged);
                }
            }
            self.acknowledged += 1;
        }
        self.next = self.next.max(self.acknowledged);
        self.come.forget_before(self.acknowledged);
        self.named.forget_before(self.acknowledged);
        Heard { packets, is_loss: self.find_missing() }
    }

    /// Records that a packet has arrived. Returns 1 if that was not known.
    fn note(&mut self, number: u32) -> u32 {
        let is_new = number >= self.acknowledged && self.come.set(number);
        if is_new {
            self.come_count += 1;
            self.highest = self.highest.max(number + 1);
            self.strike(number);
        }
        is_new.into()
    }

    /// The target has received only a packet's header: the packet is retransmitted before all others,
    /// unless it is already due for retransmission or has arrived meanwhile.
    fn hear_refusal(&mut self, number: u32) -> Heard {
        let is_known = number < self.acknowledged || self.come.has(number);
        let is_missing = self.again.is_some_and(|again| (again..self.again_to).contains(&number));
        let is_missing = is_missing && !self.named.has(number);
        let Err(place) = self.refused.binary_search(&number) else { return Heard::default() };
        if is_known || is_missing || number >= self.fresh {
            return Heard::default();
        }
        self.refused.insert(place, number);
        self.named.set(number);
        self.missing += 1;
        Heard { packets: 0, is_loss: true }
    }

    /// A packet that was to be retransmitted is no longer missing.
    fn strike(&mut self, number: u32) {
        if self.named.has(number) {
            if let Ok(place) = self.refused.binary_search(&number) {
                self.refused.remove(place);
                self.missing -= 1;
            }
            return;
        }
        let Some(again) = self.again else { return };
        if number < again || number >= self.again_to {
            return;
        }
        self.missing -= 1;
        if number == again {
            self.look_on(number + 1);
        }
    }

    /// Checks the packets far enough below the highest that has arrived. Returns whether one is
    /// newly known to be missing.
    fn find_missing(&mut self) -> bool {
        let to = self.highest.saturating_sub(self.threshold).min(self.next);
        let from = self.again_to.max(self.acknowledged);
        if to <= from {
            return self.find_missing_again();
        }
        let missing = self.count_missing(from, to);
        self.again_to = to;
        if missing == 0 {
            return self.find_missing_again();
        }
        self.missing += missing;
        if self.again.is_none() {
            self.look_on(from);
        }
        true
    }

    /// Checks whether a packet has arrived that was sent `threshold` or more packets after the last
    /// retransmission: retransmissions that are still missing then were lost again.
    fn find_missing_again(&mut self) -> bool {
        let is_waiting = self.again.is_none() && self.acknowledged < self.again_to;
        if !is_waiting || self.highest < self.behind_again.saturating_add(self.threshold) {
            return false;
        }
        let missing = self.count_missing(self.acknowledged, self.again_to);
        self.missing += missing;
        self.look_on(self.acknowledged);
        missing > 0
    }

    /// How many packets from a number to another have not come, but for those that were refused.
    fn count_missing(&self, from: u32, to: u32) -> u32 {
        let is_missing = |number: &u32| !self.come.has(*number) && !self.named.has(*number);
        (from..to).filter(is_missing).count() as u32
    }

    /// The next missing packet from a number on.
    fn look_on(&mut self, from: u32) {
        let mut number = self.come.first_gap(from.max(self.acknowledged));
        while number < self.again_to && self.named.has(number) {
            number = self.come.first_gap(number + 1);
        }
        self.again = Some(number).filter(|number| *number < self.again_to);
        if self.again.is_none() {
            self.behind_again = self.next;
        }
    }

    /// The timer of the oldest packet has expired: everything that is not known to have arrived is
    /// retransmitted. Returns whether anything was in flight.
    pub fn timed_out(&mut self) -> bool {
        let is_loss = self.next > self.acknowledged;
        match self.reliability {
            LossRecovery::GoBackN => self.next = self.acknowledged,
            LossRecovery::SelectiveRepeat => {
                self.refused.clear();
                self.named = Bits::default();
                self.again_to = self.next;
                self.missing = self.next - self.acknowledged - self.come_count;
                self.look_on(self.acknowledged);
            }
        }
        is_loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(own: &mut Sender, count: usize) -> Vec<u32> {
        let one = |_| {
            let number = own.next()?;
            own.sent(number);
            Some(number)
        };
        (0..count).filter_map(one).collect()
    }

    fn answer(expected: u32, number: u32, is_refusal: bool) -> Answer {
        Answer { expected, number, before: 0, is_refusal }
    }

    #[test]
    fn go_back_n_sends_everything_from_a_gap_on_again() {
        let mut own = Sender::new(LossRecovery::GoBackN, 6, 1);
        assert_eq!(send(&mut own, 5), [0, 1, 2, 3, 4]);
        assert_eq!(own.hear(&answer(1, 0, false)), Heard { packets: 1, is_loss: false });
        assert_eq!(own.hear(&answer(1, 2, true)), Heard { packets: 0, is_loss: true });
        assert_eq!((own.outstanding(), own.fresh()), (0, 5));
        assert_eq!(send(&mut own, 9), [1, 2, 3, 4, 5]);
        // A response to what had been sent before that says more than was sent again is as good.
        own.timed_out();
        assert_eq!(own.next(), Some(1));
        own.hear(&answer(5, 4, false));
        assert_eq!((own.next(), own.outstanding()), (Some(5), 0));
        assert_eq!(send(&mut own, 9), [5]);
        own.hear(&answer(6, 5, false));
        assert!(own.is_done());
    }

    #[test]
    fn selective_repeat_sends_what_is_missing_again() {
        let mut own = Sender::new(LossRecovery::SelectiveRepeat, 10, 2);
        assert_eq!(send(&mut own, 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(own.hear(&answer(0, 1, false)), Heard { packets: 1, is_loss: false });
        assert_eq!(own.next(), Some(7), "0 was overtaken by one packet only");
        assert_eq!(own.hear(&answer(0, 3, false)), Heard { packets: 1, is_loss: true });
        assert_eq!((own.outstanding(), own.next()), (4, Some(0)), "0 is missing; 2 not yet");
        assert_eq!(own.hear(&answer(0, 4, false)), Heard { packets: 1, is_loss: true });
        assert_eq!(send(&mut own, 3), [0, 2, 7]);
        assert_eq!(own.outstanding(), 5, "0, 2, 5, 6 and 7");
        // 2 was late and not lost.
        assert_eq!(own.hear(&answer(0, 2, false)), Heard { packets: 1, is_loss: false });
        assert_eq!(own.hear(&answer(5, 0, false)), Heard { packets: 1, is_loss: false });
        assert_eq!((own.acknowledged(), own.outstanding()), (5, 3));
        assert!(own.timed_out());
        assert_eq!((own.outstanding(), send(&mut own, 9)), (0, vec![5, 6, 7, 8, 9]));
    }

    #[test]
    fn what_is_lost_again_is_found_by_what_was_sent_behind_it() {
        let mut own = Sender::new(LossRecovery::SelectiveRepeat, 20, 2);
        send(&mut own, 7);
        // 0 and 2 are lost: 3 and 4 tell of them.
        let told = [1, 3, 4].map(|number| own.hear(&answer(0, number, false)).is_loss);
        assert_eq!(told, [false, true, true]);
        assert_eq!(send(&mut own, 4), [0, 2, 7, 8]);
        // 0 is lost once more. What was sent before it tells nothing of that, and 7 alone may have overtaken it.
        for number in [5, 6, 2, 7] {
            assert!(!own.hear(&answer(0, number, false)).is_loss, "{number}");
        }
        assert_eq!((own.outstanding(), own.next()), (2, Some(9)), "0 and 8");
        assert_eq!(own.hear(&answer(0, 8, false)), Heard { packets: 1, is_loss: true });
        assert_eq!((own.outstanding(), own.next()), (0, Some(0)));
        // For the third time: with nothing behind it but 9 it waits for the timer.
        assert_eq!(send(&mut own, 2), [0, 9]);
        assert_eq!(own.hear(&answer(0, 9, false)), Heard { packets: 1, is_loss: false });
        assert_eq!((own.outstanding(), own.next()), (1, Some(10)));
        assert!(own.timed_out());
        assert_eq!(own.next(), Some(0));
    }

    #[test]
    fn what_was_to_be_sent_again_and_came_is_not() {
        let mut own = Sender::new(LossRecovery::SelectiveRepeat, 10, 1);
        send(&mut own, 5);
        own.hear(&answer(0, 4, false));
        assert_eq!((own.outstanding(), own.next()), (0, Some(0)));
        own.hear(&answer(1, 0, false));
        own.hear(&answer(1, 2, false));
        assert_eq!((own.outstanding(), send(&mut own, 9)), (0, vec![1, 3, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn what_was_refused_goes_first_and_no_gap_tells_of_it() {
        let mut own = Sender::new(LossRecovery::SelectiveRepeat, 10, 1);
        send(&mut own, 6);
        // Switches trimmed 3 and 1.
        assert_eq!(own.hear(&answer(0, 3, true)), Heard { packets: 0, is_loss: true });
        assert_eq!(own.hear(&answer(0, 1, true)), Heard { packets: 0, is_loss: true });
        assert_eq!(own.hear(&answer(0, 1, true)), Heard::default(), "said twice");
        assert_eq!((own.outstanding(), own.next()), (4, Some(1)));
        assert_eq!(send(&mut own, 2), [1, 3]);
        // 5 overtook 0, 2 and 4, which are missing; 1 and 3 are under way for the second time.
        assert_eq!(own.hear(&answer(0, 5, false)), Heard { packets: 1, is_loss: true });
        assert_eq!((own.outstanding(), send(&mut own, 4)), (2, vec![0, 2, 4, 6]));
        assert_eq!(own.hear(&answer(0, 1, true)), Heard { packets: 0, is_loss: true }, "trimmed");
        // It came by another route.
        assert_eq!(own.hear(&answer(2, 1, false)), Heard { packets: 2, is_loss: false });
        assert_eq!((own.outstanding(), own.next()), (4, Some(7)));
        assert_eq!(own.hear(&answer(2, 0, true)), Heard::default(), "0 has come");
        assert!(own.timed_out());
        assert_eq!(own.hear(&answer(2, 3, true)), Heard::default(), "it is to be sent again");
        assert_eq!(send(&mut own, 9), [2, 3, 4, 6, 7, 8, 9]);
    }

    #[test]
    fn an_answer_tells_of_up_to_32_packets_before_its_own() {
        let mut own = Sender::new(LossRecovery::SelectiveRepeat, 80, 40);
        send(&mut own, 50);
        let told = Answer { expected: 2, number: 40, before: 1 | 1 << 31, is_refusal: false };
        assert_eq!(own.hear(&told), Heard { packets: 5, is_loss: false }, "0, 1, 8, 39 and 40");
        assert_eq!(own.outstanding(), 45);
        assert_eq!(own.hear(&told), Heard::default());
    }
}
