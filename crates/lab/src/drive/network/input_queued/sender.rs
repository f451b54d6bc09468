//! The near end of a cable: how much space there is in the buffer at the far end.

use std::collections::VecDeque;

use weft_units::Time;

/// Credits, and when spent ones will be back. What is to come is no event: it is looked at when a
/// packet wants to leave.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    credits: u32,
    /// When credits come back, in order; never more than there are credits in all.
    returns: VecDeque<Time>,
    /// A packet waits for a credit of whose return nothing is known: whoever returns one must see
    /// to it that the packet is looked at.
    pub starved: bool,
}

impl Sender {
    /// As many credits as the buffer at the far end holds packets.
    pub fn new(credits: u32) -> Sender {
        Sender { credits, returns: VecDeque::with_capacity(credits as usize), starved: false }
    }

    /// Whether a packet may be sent at `now`.
    #[inline]
    pub fn has_credit(&mut self, now: Time) -> bool {
        while self.returns.front().is_some_and(|time| *time <= now) {
            self.returns.pop_front();
            self.credits += 1;
        }
        self.credits > 0
    }

    /// A packet is sent; there must be a credit. Returns whether it was the last at hand.
    #[inline]
    pub fn spend(&mut self) -> bool {
        debug_assert!(self.credits > 0, "a packet was sent to a full buffer");
        self.credits -= 1;
        self.credits == 0
    }

    /// A credit will be back at `time`, not before any other.
    #[inline]
    pub fn restore(&mut self, time: Time) {
        debug_assert!(self.returns.back().is_none_or(|last| *last <= time));
        self.returns.push_back(time);
    }

    /// When there is a credit; `None` if it is not known, which makes it [`Sender::starved`].
    #[inline]
    pub fn credit_at(&mut self, now: Time) -> Option<Time> {
        if self.has_credit(now) {
            return Some(now);
        }
        let next = self.returns.front().copied();
        self.starved = next.is_none();
        next
    }

    /// Whether the buffer is full of packets that have no way on.
    pub fn is_without_credit(&self) -> bool {
        self.credits == 0 && self.returns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_come_back_when_their_time_has_come() {
        let mut sender = Sender::new(2);
        sender.spend();
        sender.spend();
        assert_eq!((sender.credit_at(Time(5)), sender.starved), (None, true));
        sender.starved = false;
        sender.restore(Time(9));
        sender.restore(Time(12));
        assert_eq!((sender.credit_at(Time(8)), sender.starved), (Some(Time(9)), false));
        assert!(!sender.has_credit(Time(8)) && sender.has_credit(Time(9)));
        assert_eq!(sender.credit_at(Time(10)), Some(Time(10)));
        sender.spend();
        assert!(!sender.is_without_credit() && sender.credit_at(Time(11)) == Some(Time(12)));
    }
}
