//! Numbers that another thread takes away under a call.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::sys;

/// What a number is lost to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostTo {
    /// Nothing: it was closed.
    Nobody,
    /// What `dup2` puts there.
    Another,
}

/// Stands in the word of a lost number that is another's from then on.
const ANOTHERS: u64 = 1 << 32;
/// How long it is waited for that the kernel has put something else at a number, in nanoseconds.
const PUT: u64 = 1_000_000_000;

/// The number that stood for a connection until it was last taken away.
#[derive(Debug, Default)]
pub struct Lost {
    /// Plus one, with a mark where it is another's.
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
        let mark = if to == LostTo::Another { ANOTHERS } else { 0 };
        self.at.store(sys::now(), Ordering::Relaxed);
        self.number.store((fd as u64 + 1) | mark, Ordering::SeqCst);
    }

    /// To what the number was lost, if it was the last.
    pub fn to(&self, fd: c_int) -> Option<LostTo> {
        let lost = self.number.load(Ordering::SeqCst);
        let to = if lost & ANOTHERS == 0 { LostTo::Nobody } else { LostTo::Another };
        (lost & (ANOTHERS - 1) == fd as u64 + 1).then_some(to)
    }

    /// Whether that was at a time or after it, in nanoseconds.
    pub fn is_since(&self, time: u64) -> bool {
        self.at.load(Ordering::Relaxed) >= time
    }
}

/// Waits until the kernel has put something else at a number. False if that does not come.
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
