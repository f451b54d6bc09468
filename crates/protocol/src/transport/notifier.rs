//! The notification point of DCQCN (Zhu et al., SIGCOMM 2015, section 3.1, figure 6).

use weft_units::{Span, Time};

/// The target of a flow as the source of congestion notifications: it answers a marked packet
/// unless it has answered one within an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifier {
    /// When it may notify next.
    ready: Time,
}

impl Notifier {
    /// A marked packet has arrived. Returns whether to notify the sender.
    #[inline]
    pub fn marked(&mut self, now: Time, interval: Span) -> bool {
        let may = now >= self.ready;
        if may {
            self.ready = now + interval;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_notified_at_most_once_in_an_interval() {
        let mut own = Notifier::default();
        let at = [0, 49, 50, 51, 99, 149, 150].map(|now| own.marked(Time(now), Span(50)));
        assert_eq!(at, [true, false, true, false, false, true, false]);
    }
}
