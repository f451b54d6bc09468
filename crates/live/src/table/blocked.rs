//! The threads that sleep in calls on a connection, for the thread that takes its descriptor away.
//!
//! A signal that ends such a call is sent once, after its descriptor was closed or reused (as the
//! JDK closes sockets and interrupts threads), and ends the call only while it sleeps in the
//! kernel, not between two sleeps. So the thread that takes the descriptor away wakes those that
//! sleep for a limited time, and goes on when each is in a sleep that lasts until something comes.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::descriptors;
use crate::sharing::lock;
use crate::sys;

/// How many are known of one connection at a time; one more is not waited for.
const THREADS: usize = 4;
/// Stands beside a thread whose next sleep lasts until something comes.
const LASTING: u64 = 1 << 32;
/// Above it stands the number by which the thread has called, plus one.
const NUMBER: u32 = 33;
/// How long all of them are waited for, in nanoseconds: others may have the processor.
const PATIENCE: u64 = 200_000_000;

/// The threads of this process that sleep in calls on a connection, or are about to.
#[derive(Debug, Default)]
pub struct Blocked([AtomicU64; THREADS]);

/// The calling thread among them, until dropped.
#[derive(Debug)]
pub struct Blocking<'a> {
    place: Option<&'a AtomicU64>,
    thread: u32,
}

impl Blocked {
    /// To be called before the last look at whether the descriptor was taken away.
    pub fn begin(&self, fd: c_int) -> Blocking<'_> {
        let (thread, order) = (lock::thread(), Ordering::SeqCst);
        let word = u64::from(thread) | (fd as u64 + 1) << NUMBER;
        let is_ours =
            |place: &&AtomicU64| place.compare_exchange(0, word, order, Ordering::Relaxed).is_ok();
        Blocking { place: self.0.iter().find(is_ours), thread }
    }

    /// In the child of a fork, where all other threads are gone.
    pub fn clear(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// How many other threads that have called by a number sleep until something comes.
    pub fn asleep(&self, fd: c_int) -> u32 {
        self.0.iter().filter(|place| is_other(place, fd) && !is_awake(place, fd)).count() as u32
    }

    /// Waits until each of the other threads that have called by a number has ended its call or sleeps until
    /// something comes. To be called after they can see that the descriptor is taken away, and were
    /// woken.
    pub fn await_sleep(&self, fd: c_int) {
        let until = sys::now() + PATIENCE;
        while self.0.iter().any(|place| is_awake(place, fd)) && sys::now() < until {
            sys::sleep(20_000);
        }
    }
}

/// Whether another thread has called by a number.
fn is_other(place: &AtomicU64, fd: c_int) -> bool {
    let word = place.load(Ordering::SeqCst);
    word >> NUMBER == fd as u64 + 1 && word as u32 != lock::thread()
}

/// Whether it does not sleep until something comes.
fn is_awake(place: &AtomicU64, fd: c_int) -> bool {
    let word = place.load(Ordering::SeqCst);
    is_other(place, fd) && (word & LASTING == 0 || !descriptors::is_asleep(word as u32))
}

impl Blocking<'_> {
    /// The next sleep may not last so long, or something is done before it.
    pub fn is_short(&self) {
        self.change(|word| word & !LASTING);
    }

    /// The next sleep lasts until something comes, and nothing is done before it any more.
    pub fn lasts(&self) {
        self.change(|word| word | LASTING);
    }

    /// Unless the place was cleared in the child of a fork that a handler has made.
    fn change(&self, change: impl Fn(u64) -> u64) {
        let is_ours = |word: u64| (word as u32 == self.thread).then(|| change(word));
        if let Some(place) = self.place {
            let _ = place.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_ours);
        }
    }
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        self.change(|_| 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    /// The descriptor by which the sleepers call, and another.
    const NUMBERS: [c_int; 2] = [0, 7];

    #[test]
    fn who_sleeps_for_a_while_is_waited_for_and_who_sleeps_for_long_is_not() {
        let (blocked, over) = (Blocked::default(), AtomicBool::new(false));
        let own = blocked.begin(NUMBERS[0]);
        let begun = Instant::now();
        blocked.await_sleep(NUMBERS[0]);
        drop(own);
        assert!(begun.elapsed() < Duration::from_nanos(PATIENCE), "nobody waits for itself");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let blocking = blocked.begin(NUMBERS[0]);
                std::thread::sleep(Duration::from_millis(50));
                over.store(true, Ordering::SeqCst);
                blocking.lasts();
                std::thread::sleep(Duration::from_secs(3));
            });
            while blocked.0[0].load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            blocked.await_sleep(NUMBERS[1]);
            let waited = over.load(Ordering::SeqCst);
            blocked.await_sleep(NUMBERS[0]);
            assert!(over.load(Ordering::SeqCst), "its first sleep is over");
            assert_eq!(NUMBERS.map(|number| blocked.asleep(number)), [1, 0]);
            assert!(!sleeper.is_finished());
            // Unless this thread has lost its processor for as long.
            assert!(!waited || begun.elapsed() > Duration::from_millis(50), "another number");
        });
        assert!(blocked.0.iter().all(|place| place.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn one_too_many_is_not_known_and_a_child_knows_none() {
        let blocked = Blocked::default();
        let all: Vec<_> = (0..=THREADS).map(|_| blocked.begin(NUMBERS[1])).collect();
        assert_eq!(all.iter().filter(|it| it.place.is_some()).count(), THREADS);
        blocked.clear();
        all[0].lasts();
        assert_eq!(blocked.0[0].load(Ordering::SeqCst), 0, "its place is another's");
        assert!(blocked.begin(NUMBERS[1]).place.is_some());
    }
}
