//! A delay line: events that all happen the same time after they were scheduled.

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

    /// Appends an event. Refuses one that is earlier than the last one.
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

    /// How many events there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes the first event, with its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let first = self.events.pop_front()?;
        self.next = self.events.front().map_or(Time::NEVER, |(time, _)| *time);
        Some(first)
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
        assert_eq!((line.next_time(), line.pop(), line.is_empty()), (Time::NEVER, None, true));
        assert!(line.push(Time(5), 'a') && line.push(Time(5), 'b') && line.push(Time(9), 'c'));
        assert!(!line.push(Time(8), 'd'));
        let mut left = Vec::new();
        assert_eq!((line.len(), line.next_time(), line.is_empty()), (3, Time(5), false));
        while let Some((time, event)) = line.pop() {
            left.push((time.0, event));
        }
        assert_eq!(left, [(5, 'a'), (5, 'b'), (9, 'c')]);
        assert!(!line.push(Time(8), 'e'), "earlier than one that has left");
        assert!(line.push(Time(9), 'f') && line.pop() == Some((Time(9), 'f')));
    }
}
