//! Numbers that another thread takes away under a call.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::sys;

/// What a descriptor is lost to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostTo {
    /// Nothing: it was closed.
    Nobody,
    /// What `dup2` puts there.
    Another,
    /// What it stood for, which is no longer a connection.
    Itself,
}

/// From this bit on, the word of a lost number says to what it was lost.
const TO: u32 = 32;
/// How long it is waited for that the kernel has put something else at a descriptor, in
/// nanoseconds.
const PUT: u64 = 1_000_000_000;

/// The descriptor that stood for a connection until it was last taken away.
#[derive(Debug, Default)]
pub struct Lost {
    /// Plus one, and to what it was lost.
    number: AtomicU64,
    /// When that was, in nanoseconds.
    at: AtomicU64,
}

impl Lost {
    /// The beginning of a connection's life.
    pub fn begin(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    pub fn set(&self, fd: c_int, to: LostTo) {
        let mark = (to as u64) << TO;
        self.at.store(sys::now(), Ordering::Relaxed);
        self.number.store((fd as u64 + 1) | mark, Ordering::SeqCst);
    }

    /// To what the descriptor was lost, if it was the last.
    pub fn to(&self, fd: c_int) -> Option<LostTo> {
        let lost = self.number.load(Ordering::SeqCst);
        let all = [LostTo::Nobody, LostTo::Another, LostTo::Itself];
        all.into_iter().find(|to| lost == (fd as u64 + 1) | (*to as u64) << TO)
    }

    /// Whether that was at a time or after it, in nanoseconds.
    pub fn is_since(&self, time: u64) -> bool {
        self.at.load(Ordering::Relaxed) >= time
    }
}

/// Waits until the kernel has put something else at a descriptor. False if that does not come.
pub fn await_put(is_put: impl Fn() -> bool) -> bool {
    let until = sys::now() + PUT;
    while !is_put() {
        if sys::now() >= until {
            return false;
        }
        sys::sleep(20_000);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_number_is_lost_and_to_what_it_was() {
        let lost = Lost::default();
        assert_eq!(lost.to(0), None);
        lost.set(7, LostTo::Another);
        assert_eq!((lost.to(7), lost.to(8)), (Some(LostTo::Another), None));
        lost.set(8, LostTo::Nobody);
        assert_eq!((lost.to(7), lost.to(8)), (None, Some(LostTo::Nobody)));
        lost.set(8, LostTo::Itself);
        assert_eq!((lost.to(7), lost.to(8)), (None, Some(LostTo::Itself)));
        lost.begin();
        assert_eq!(lost.to(8), None);
    }

    #[test]
    fn the_moment_of_a_loss_counts_as_since_then() {
        let lost = Lost::default();
        lost.set(7, LostTo::Nobody);
        let at = lost.at.load(Ordering::Relaxed);
        assert_eq!([at - 1, at, at + 1].map(|time| lost.is_since(time)), [true, true, false]);
    }
}
