//! The event queue: events by value, equal times in the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_units::Time;

/// Future events in order of time; events of one time leave in the order of scheduling.
#[derive(Clone, Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    scheduled: u64,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    time: Time,
    order: u64,
    event: E,
}

impl<E: Copy> Queue<E> {
    /// An empty queue.
    pub fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), scheduled: 0 }
    }

    /// Schedules an event. `time` must not lie before the time of the event that left last.
    pub fn push(&mut self, time: Time, event: E) {
        let order = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Reverse(Entry { time, order, event }));
    }

    /// Removes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.time, entry.event))
    }

    /// The time of the earliest event.
    pub fn next_time(&mut self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Queue<E> {
        Queue::new()
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Entry<E>) -> std::cmp::Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        (self.time, self.order) == (other.time, other.order)
    }
}

impl<E> Eq for Entry<E> {}
