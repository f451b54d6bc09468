//! The near end of a cable from a host: how much space there is in the buffer at the far end.

use weft_units::Time;

/// Credits, and when spent ones will be back. What is to come is no event: it is looked at when a
/// packet wants to leave.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// How many packets were sent, and how many may be as far as is known.
    spent: u64,
    allowed: u64,
    /// When credits come back, in order, each at its number among all modulo their number.
    returns: Vec<Time>,
    restored: u64,
    /// A packet waits for a credit of whose return nothing is known: whoever returns one must see
    /// to it that the packet is looked at.
    pub starved: bool,
}

impl Sender {
    /// As many credits as the buffer at the far end holds packets.
    pub fn new(credits: u32) -> Sender {
        let returns = vec![Time::NEVER; credits as usize];
        Sender { spent: 0, allowed: credits.into(), returns, restored: 0, starved: false }
    }

    /// A packet is sent; there must be a credit.
    #[inline]
    pub fn spend(&mut self) {
        debug_assert!(self.spent < self.allowed, "a packet was sent to a full buffer");
        self.spent += 1;
    }

    /// A credit will be back at `time`, not before any other.
    #[inline]
    pub fn restore(&mut self, time: Time) {
        let place = self.restored % self.returns.len() as u64;
        self.returns[place as usize] = time;
        self.restored += 1;
    }

    /// When there is a credit; `None` if it is not known, which makes it [`Sender::starved`].
    #[inline]
    pub fn credit_at(&mut self, now: Time) -> Option<Time> {
        if self.spent < self.allowed {
            return Some(now);
        }
        let credits = self.returns.len() as u64;
        let number = self.spent - credits;
        if number == self.restored {
            self.starved = true;
            return None;
        }
        let time = self.returns[(number % credits) as usize];
        self.allowed += u64::from(time <= now);
        Some(time.max(now))
    }

    /// Whether the buffer is full of packets that have no way on.
    pub fn is_without_credit(&self) -> bool {
        self.spent == self.restored + self.returns.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_come_back_when_their_time_has_come() {
        let mut sender = Sender::new(2);
        sender.spend();
        assert_eq!(sender.credit_at(Time(0)), Some(Time(0)));
        sender.spend();
        assert_eq!((sender.credit_at(Time(5)), sender.starved), (None, true));
        assert!(sender.is_without_credit());
        sender.starved = false;
        sender.restore(Time(9));
        sender.restore(Time(12));
        assert_eq!((sender.credit_at(Time(8)), sender.starved), (Some(Time(9)), false));
        assert_eq!(sender.credit_at(Time(10)), Some(Time(10)));
        sender.spend();
        assert!(!sender.is_without_credit() && sender.credit_at(Time(11)) == Some(Time(12)));
    }
}
