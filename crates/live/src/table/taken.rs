//! Numbers that a thread is taking away: forgotten already, and the kernel's still.
//!
//! The kernel takes a number away in one moment. This library forgets it first, and may wait then, for
//! threads that sleep on the connection or for its last doorbells. A call that another thread makes by the
//! number meanwhile would reach the bare socket, whose bytes are doorbells; so it waits until the kernel has
//! done its part.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::sharing::lock;
use crate::sys;
use crate::table::lost::LostTo;
use crate::table::numbers::{change, forget_number, word};
use crate::table::reach;
use crate::table::word::Word;

/// How long a call waits at most, in nanoseconds: the thread may have been ended, or wait for this one.
const PATIENCE: u64 = 2_000_000_000;

/// A number, if any, that the calling thread is taking away; calls by it wait until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Taken(Option<(c_int, Word)>);

/// Forgets that a number stands for the connection at a place. How many calls by it are in the kernel that
/// were not counted at the connection, and the number, if other threads are to wait; `None` if another
/// thread has just taken it away, too, and it may stand for something else by now.
pub fn begin(fd: c_int, place: usize, to: LostTo, others_wait: bool) -> Option<(u32, Taken)> {
    if !others_wait {
        return forget_number(fd, place, Word::UNKNOWN).map(|inside| (inside, Taken::NOTHING));
    }
    reach(fd);
    let taken = Word::taken(lock::thread(), to);
    Some((forget_number(fd, place, taken)?, Taken(Some((fd, taken)))))
}

impl Taken {
    pub const NOTHING: Self = Self(None);
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((fd, taken)) = self.0 {
            end(fd, taken);
        }
    }
}

/// The numbers that the calling thread is closing by one call, from the lowest to the highest.
#[derive(Debug)]
pub struct TakenAll(Option<(c_int, c_int)>);

impl TakenAll {
    pub const NONE: Self = Self(None);

    pub fn add(&mut self, taken: Taken) {
        if let Some((fd, _)) = taken.0 {
            let (first, last) = self.0.unwrap_or((fd, fd));
            self.0 = Some((first.min(fd), last.max(fd)));
            std::mem::forget(taken);
        }
    }
}

impl Drop for TakenAll {
    fn drop(&mut self) {
        let taken = Word::taken(lock::thread(), LostTo::Nobody);
        if let Some((first, last)) = self.0 {
            (first..=last).for_each(|fd| end(fd, taken));
        }
    }
}

/// The kernel may have given the number out again, for something that is known.
fn end(fd: c_int, taken: Word) {
    if let Some(word) = word(fd) {
        change(word, |word| (word == taken).then_some(Word::UNKNOWN));
    }
}

/// Whether another thread is closing a number: it is none any more.
pub fn is_closed(fd: c_int) -> bool {
    word(fd).is_some_and(|word| {
        let now = Word::from_bits(word.load(Ordering::Acquire));
        now.is_closed() && !is_own(now)
    })
}

/// Whether it is the calling thread that takes the number away.
fn is_own(taken: Word) -> bool {
    [LostTo::Nobody, LostTo::Another].map(|to| Word::taken(lock::thread(), to)).contains(&taken)
}

/// Waits until a number is no longer being taken away. False if it was not, or by whom the calling
/// handler interrupts.
#[cold]
pub fn await_end(fd: c_int) -> bool {
    let Some(cell) = word(fd) else { return false };
    let now = || Word::from_bits(cell.load(Ordering::Acquire));
    let taken = now();
    if !taken.is_taken() || is_own(taken) {
        return false;
    }
    let until = sys::now() + PATIENCE;
    while now() == taken {
        if sys::now() > until {
            end(fd, taken);
        }
        sys::sleep(20_000);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::numbers::{entry, set_entry};
    use crate::table::word::Entry;

    const FD: c_int = (1 << 16) - 2;

    fn take() -> Taken {
        assert!(set_entry(FD, Entry::Connection(5)));
        assert!(begin(FD, 4, LostTo::Nobody, true).is_none(), "it is another's");
        let (inside, taken) = begin(FD, 5, LostTo::Nobody, true).unwrap();
        assert_eq!((inside, entry(FD)), (0, Entry::Unplaced));
        taken
    }

    #[test]
    fn others_wait_until_a_number_is_taken_and_who_takes_it_does_not() {
        let taken = take();
        assert!(!await_end(FD) && !is_closed(FD), "it would wait for itself");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| is_closed(FD) && await_end(FD));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!other.is_finished());
            drop(taken);
            assert!(other.join().unwrap());
        });
        assert_eq!(entry(FD), Entry::Unknown);
        assert!(!await_end(FD));

        let taken = take();
        assert!(set_entry(FD, Entry::Connection(5)), "the kernel has given it out again");
        drop(taken);
        assert_eq!(entry(FD), Entry::Connection(5));
        let mut all = TakenAll::NONE;
        all.add(take());
        all.add(Taken::NOTHING);
        assert_eq!(entry(FD), Entry::Unplaced);
        drop(all);
        assert_eq!(entry(FD), Entry::Unknown);
    }

    #[test]
    fn nobody_waits_for_ever_for_a_thread_that_is_no_more() {
        let fd = FD - 1;
        word(fd).unwrap().store(Word::taken(1, LostTo::Another).bits(), Ordering::SeqCst);
        let begun = sys::now();
        assert!(await_end(fd));
        assert!(sys::now() - begun >= PATIENCE);
        assert_eq!(entry(fd), Entry::Unknown);
    }
}
