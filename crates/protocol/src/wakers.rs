//! The calls that may owe a wake-up: each has perhaps taken an interrupt flag, and not yet carried out
//! what it owes for that.
//!
//! Whoever forbids wake-ups finds no flag armed, and must know whether that is because nobody sleeps, or
//! because a call that he is about to keep from waking has taken it. All zeroes, nobody owes anything.

use crate::sync::{AtomicU32, Ordering, observe_fence};

/// How many there are. One that is killed stays counted, and may have left its sleepers asleep.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Wakers {
    calls: AtomicU32,
}

impl Wakers {
    /// As it was before all calls. Nobody else may use it.
    pub fn reset(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }

    /// Counts a call that may take a flag, and wakes whom it takes out, until it has done so.
    pub fn count<T>(&self, wakes: impl FnOnce() -> T) -> T {
        self.begin();
        let result = wakes();
        self.calls.fetch_sub(1, Ordering::Release);
        result
    }

    /// Counts one that does not end.
    pub fn begin(&self) {
        // The flag is taken with release, and whoever finds it taken has seen this.
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there are any, or have been at the moment at which the caller found a flag not armed.
    pub fn may_owe(&self) -> bool {
        observe_fence();
        self.calls.load(Ordering::Relaxed) != 0
    }
}
