//! The event queue: events by value, equal times in the order of scheduling.
//!
//! Near events stand in a short sorted array, the front; all others in a hierarchical timing
//! wheel (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987) whose levels
//! are the base-64 digits of the time. When the front is empty, the earliest slot that is not is
//! sorted into it. A slot with too many events for that is first spread over the level below, as
//! a ladder queue does (Tang, Goh and Thng, "Ladder queue", TOMACS 15(3) 2005), so that the cost
//! of an event depends neither on how many wait nor on how finely their times are spaced.

use weft_units::Time;

use crate::wheel::{Due, Taken, Wheel};

/// The longest front that is still cheap to sort events into.
const FRONT_LIMIT: usize = 32;

/// A slot with more events than this is spread over the level below before it is sorted.
const OPEN_LIMIT: u32 = 16;

/// Future events in order of time; events of one time leave in the order of scheduling.
///
/// Any time up to [`Time::NEVER`] will do. Memory grows with the largest number of events that ever
/// waited at once; nothing is allocated until that number is exceeded.
#[derive(Clone, Debug)]
pub struct Queue<E> {
    /// Events up to `front_last`, from `head` on, in the order in which they leave.
    front: Vec<Due<E>>,
    head: usize,
    /// The latest time that belongs to the front; every event of the wheel is later.
    front_last: u64,
    wheel: Wheel<E>,
    /// The time of the event that left last, kept to refuse events of the past.
    left_last: u64,
}

impl<E: Copy> Queue<E> {
    /// An empty queue.
    pub fn new() -> Queue<E> {
        Queue {
            front: Vec::new(),
            head: 0,
            front_last: u64::MAX,
            wheel: Wheel::new(),
            left_last: 0,
        }
    }

    /// Schedules an event. `time` must not lie before the time of the event that left last.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        let time = time.0;
        debug_assert!(time >= self.left_last, "{time} ps is before {} ps", self.left_last);
        if time > self.front_last {
            self.wheel.insert(Due { time, event });
        } else {
            self.push_front(Due { time, event });
        }
    }

    /// Removes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.pop_until(Time(u64::MAX))
    }

    /// Removes the earliest event if its time is not after `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, E)> {
        if self.head == self.front.len() {
            // The wheel must not move on to an event that does not leave.
            if self.wheel.earliest()? > limit.0 {
                return None;
            }
            self.refill();
        }
        let due = *self.front.get(self.head)?;
        if due.time > limit.0 {
            return None;
        }
        self.head += 1;
        self.left_last = due.time;
        Some((Time(due.time), due.event))
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        match self.front.get(self.head) {
            Some(due) => Some(Time(due.time)),
            None => self.wheel.earliest().map(Time),
        }
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.front.len() - self.head + self.wheel.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sorts an event into the front, behind those of its own time. Not inlined, like `refill`, so
    /// that the fast paths of `push` and `pop` need not save registers.
    #[inline(never)]
    fn push_front(&mut self, due: Due<E>) {
        if self.head >= FRONT_LIMIT && 2 * self.head >= self.front.len() {
            self.front.drain(..self.head);
            self.head = 0;
        }
        let place = self.front[self.head..].partition_point(|other| other.time <= due.time);
        self.front.insert(self.head + place, due);
        if self.front.len() - self.head > FRONT_LIMIT {
            self.shorten_front();
        }
    }

    /// Hands the later half of the front to the wheel. Equal times stay together, since later
    /// events of the same time must join them.
    #[cold]
    fn shorten_front(&mut self) {
        if self.front[self.head].time == self.front[self.front.len() - 1].time {
            return;
        }
        let middle = self.head + FRONT_LIMIT / 2;
        let split = |place: &usize| self.front[place - 1].time < self.front[*place].time;
        let after = (middle..self.front.len()).find(split);
        let Some(cut) = after.or_else(|| (self.head + 1..middle).rev().find(split)) else {
            return;
        };
        self.front_last = self.front[cut].time - 1;
        for due in self.front.drain(cut..) {
            self.wheel.insert(due);
        }
    }

    /// Fills the empty front with the earliest events of the wheel.
    #[inline(never)]
    fn refill(&mut self) {
        self.front.clear();
        self.head = 0;
        self.front_last = match self.wheel.take_earliest(OPEN_LIMIT, &mut self.front) {
            Taken::UpTo(last) => last,
            Taken::All => u64::MAX,
        };
    }
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_leave_in_the_order_of_scheduling() {
        let mut queue = Queue::new();
        for event in 0..5_000_u32 {
            queue.push(Time(if event % 3 == 0 { 7 } else { 70_000 }), event);
        }
        let order: Vec<(u64, u32)> =
            std::iter::from_fn(|| queue.pop()).map(|(time, event)| (time.0, event)).collect();
        let mut sorted = order.clone();
        sorted.sort();
        assert_eq!((order.len(), order), (5_000, sorted));
    }

    #[test]
    fn an_event_for_the_time_being_drained_comes_after_those_already_there() {
        let mut queue = Queue::new();
        for event in 0..3 {
            queue.push(Time(10), event);
        }
        assert_eq!(queue.pop(), Some((Time(10), 0)));
        queue.push(Time(10), 3);
        queue.push(Time(9 + 2), 4);
        let rest: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(rest, [1, 2, 3, 4]);
    }

    #[test]
    fn looking_ahead_does_not_forbid_an_earlier_event() {
        let mut queue = Queue::new();
        for far in 0..100 {
            queue.push(Time(1_000_000_000 + far), far);
        }
        assert_eq!(queue.next_time(), Some(Time(1_000_000_000)));
        assert_eq!(queue.pop_until(Time(999_999_999)), None);
        for near in 0..100 {
            queue.push(Time(500 - near), near);
        }
        assert_eq!(queue.pop_until(Time(401)), Some((Time(401), 99)));
        assert_eq!(queue.pop_until(Time(401)), None);
        assert_eq!(queue.len(), 199);
    }

    #[test]
    fn the_whole_range_of_times_is_usable() {
        let times = [0, 1, 63, 64, 1 << 36, (1 << 60) - 1, 1 << 60, u64::MAX - 1, u64::MAX];
        let mut queue = Queue::new();
        for copy in 0..40 {
            for (place, time) in times.iter().enumerate().rev() {
                queue.push(Time(*time), (place, copy));
            }
        }
        for (place, time) in times.iter().enumerate() {
            for copy in 0..40 {
                assert_eq!(queue.pop(), Some((Time(*time), (place, copy))));
            }
        }
        assert!(queue.is_empty() && queue.next_time().is_none());
    }

    #[test]
    fn an_emptied_queue_takes_events_again() {
        let mut queue = Queue::new();
        for round in 1..50_u64 {
            for event in 0..round * 3 {
                queue.push(Time(round * 1_000_000 + event * event), event);
            }
            for event in 0..round * 3 {
                assert_eq!(queue.pop(), Some((Time(round * 1_000_000 + event * event), event)));
            }
            assert_eq!(queue.pop(), None);
        }
    }
}
