//! Completions: each descriptor completes once, and one queue may serve many endpoints.

use std::collections::VecDeque;

use super::Fault;

/// Which of the two queues of an endpoint a descriptor was posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkQueueKind {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// A descriptor that returns to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion<T> {
    /// The program's name for the descriptor.
    pub cookie: T,
    /// The queue that it was posted to.
    pub queue: WorkQueueKind,
    /// Whether the operation succeeded.
    pub result: Result<(), Fault>,
}

/// The entries by which a program learns of completions of any of its endpoints. The program makes it
/// long enough; an entry too many is lost, which the architecture counts as a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompletionQueue<T> {
    entries: VecDeque<T>,
    capacity: usize,
}

impl<T> CompletionQueue<T> {
    /// An empty queue of this many entries.
    pub fn new(capacity: usize) -> CompletionQueue<T> {
        CompletionQueue { entries: VecDeque::new(), capacity }
    }

    /// The adapter writes an entry.
    ///
    /// # Errors
    /// The entry, if all are in use.
    pub fn push(&mut self, entry: T) -> Result<(), T> {
        if self.entries.len() >= self.capacity {
            return Err(entry);
        }
        self.entries.push_back(entry);
        Ok(())
    }

    /// The program takes the oldest entry.
    pub fn poll(&mut self) -> Option<T> {
        self.entries.pop_front()
    }

    /// Entries that the program has not taken.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the program has taken all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_one_too_many_is_refused() {
        let mut queue = CompletionQueue::new(2);
        assert_eq!((queue.push('a'), queue.push('b'), queue.push('c')), (Ok(()), Ok(()), Err('c')));
        assert_eq!((queue.poll(), queue.len()), (Some('a'), 1));
        assert_eq!(queue.push('d'), Ok(()));
        assert_eq!([queue.poll(), queue.poll(), queue.poll()], [Some('b'), Some('d'), None]);
        assert!(queue.is_empty());
    }
}
