//! The calls that may owe a wake-up: each has perhaps taken an interrupt flag, and not yet carried out
//! what it owes for that.
//!
//! Code that disables wake-ups may find no flag armed: either nobody sleeps, or another call has taken the
//! flag and still has to wake the sleeper. At zero, no call owes a wake-up.

use crate::sync::{AtomicU32, Ordering, observe_fence};

/// How many calls may still have to wake a sleeper. A call of a killed process stays counted; its
/// sleeper may never have been woken.
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

    /// Counts a call that may take a flag and wake sleepers, until it has done so.
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
