//! A delay line: events that all come the same span after they were scheduled.

use std::collections::VecDeque;

use weft_units::Time;

/// Events that leave in the order in which they came, because their times never decrease. What
/// happens a constant span after an event needs no sorting.
#[derive(Clone, Debug)]
pub struct DelayLine<E> {
    events: VecDeque<(Time, E)>,
    next: Time,
    last: Time,
}

impl<E: Copy> DelayLine<E> {
    /// A delay line without events.
    pub const fn new() -> DelayLine<E> {
        DelayLine { events: VecDeque::new(), next: Time::NEVER, last: Time::ZERO }
    }

    /// Puts an event behind all others. Refuses one that is earlier than the one before it.
    #[inline]
    #[must_use = "an event that is refused must go elsewhere"]
    pub fn push(&mut self, time: Time, event: E) -> bool {
        if time < self.last {
            return false;
        }
        self.last = time;
        self.next = self.next.min(time);
        self.events.push_back((time, event));
        true
    }

    /// The time of the first event; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.next
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let (_, event) = self.events.pop_front()?;
        self.next = self.events.front().map_or(Time::NEVER, |(time, _)| *time);
        Some(event)
    }
}

impl<E: Copy> Default for DelayLine<E> {
    fn default() -> DelayLine<E> {
        DelayLine::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_in_their_order_and_an_earlier_one_is_refused() {
        let mut line = DelayLine::new();
        assert_eq!((line.next_time(), line.pop()), (Time::NEVER, None));
        assert!(line.push(Time(5), 'a') && line.push(Time(5), 'b') && line.push(Time(9), 'c'));
        assert!(!line.push(Time(8), 'd'));
        let mut left = Vec::new();
        while line.next_time() < Time::NEVER {
            left.push((line.next_time().0, line.pop()));
        }
        assert_eq!(left, [(5, Some('a')), (5, Some('b')), (9, Some('c'))]);
        assert!(!line.push(Time(8), 'e'), "earlier than one that has left");
        assert!(line.push(Time(9), 'f') && line.pop() == Some('f'));
    }
}
