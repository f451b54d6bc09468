//! Whose turn it is to move a connection back to the kernel.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sharing::process_lock::{HeldHere, ProcessLock};

/// Serializes the threads of this process that move one connection back to the kernel: a thread
/// that replaces it by another connection of the kernel needs it without other threads in a call.
#[derive(Debug, Default)]
pub struct Queue {
    turn: ProcessLock,
    /// How many wait, each with one stay in the connection.
    waiting: AtomicU32,
}

/// A thread's turn in a queue, until dropped.
pub struct Turn<'a> {
    _held: HeldHere<'a>,
    /// Whether another had it before.
    pub has_waited: bool,
}

impl Queue {
    /// Waits for the turn. `None` in a signal handler that interrupted it.
    pub fn wait(&self) -> Option<Turn<'_>> {
        if let Some(held) = self.turn.try_lock() {
            return Some(Turn { _held: held, has_waited: false });
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let held = self.turn.lock();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        held.map(|held| Turn { _held: held, has_waited: true })
    }

    /// How many stays there are of threads that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// In the child of a fork, where all other threads are gone.
    pub fn desert(&self) {
        self.turn.reset();
        self.waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn threads_leave_one_after_the_other_and_are_counted_while_they_wait() {
        let queue = Queue::default();
        let turn = queue.wait().unwrap();
        assert!(!turn.has_waited && queue.wait().is_none(), "a handler has no turn of its own");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| queue.wait().is_some_and(|turn| turn.has_waited));
            while queue.waiting() == 0 {
                sys::yield_now();
            }
            assert!(!other.is_finished());
            drop(turn);
            assert!(other.join().unwrap());
        });
        assert!(queue.waiting() == 0 && queue.wait().is_some_and(|turn| !turn.has_waited));
    }
}
