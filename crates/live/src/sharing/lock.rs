//! A lock in memory that processes share after a fork, which survives the death of its holder.
//!
//! What it guards is one stream's local state, whose changes are single stores that come last, so
//! that a holder may die anywhere and leave it whole.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::sharing::family;
use crate::sys;

#[derive(Debug, Default)]
#[repr(C)]
pub struct Lock {
    /// Zero is free; else the thread that holds it, with the top bit if somebody waits.
    word: AtomicU32,
    /// Whether a holder has died since [`Lock::adopt`].
    orphaned: AtomicBool,
}

const WAITED_FOR: u32 = 1 << 31;
/// How long a waiter sleeps before it asks whether the holder still lives, in nanoseconds.
const PATIENCE: u64 = 100_000_000;

/// The calling thread's number, asked from the kernel once per thread and process.
#[inline]
pub fn thread() -> u32 {
    let number = sys::own().thread.load(Ordering::Relaxed);
    if number == 0 { ask_thread() } else { number }
}

#[cold]
fn ask_thread() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    let number = unsafe { sys::bare!(libc::SYS_gettid) } as u32;
    sys::own().thread.store(number, Ordering::Relaxed);
    number
}

/// Forgets the thread's number: the child of a fork has another, and no other thread.
pub fn forget_thread() {
    sys::own().thread.store(0, Ordering::Relaxed);
    for wait in &WAITS {
        wait.thread.store(0, Ordering::Relaxed);
    }
}

/// Which thread of this process waits for which lock, as far as there is room. A signal handler may
/// wait for a lock whose holder waits for what the handler's own thread held when it was
/// interrupted.
static WAITS: [Wait; 64] =
    [const { Wait { thread: AtomicU32::new(0), lock: AtomicUsize::new(0) } }; 64];

/// One thread's wait; thread number zero marks a free entry.
struct Wait {
    thread: AtomicU32,
    lock: AtomicUsize,
}

/// A wait that others may see, until dropped.
struct Waiting(Option<&'static Wait>);

impl Waiting {
    fn begin(lock: &Lock) -> Self {
        let order = Ordering::SeqCst;
        let free = WAITS.iter().find(|wait| {
            wait.thread.compare_exchange(0, thread(), order, Ordering::Relaxed).is_ok()
        });
        if let Some(wait) = free {
            wait.lock.store(std::ptr::from_ref(lock).expose_provenance(), order);
        }
        Self(free)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(wait) = self.0 {
            wait.lock.store(0, Ordering::SeqCst);
            wait.thread.store(0, Ordering::SeqCst);
        }
    }
}

/// The right to what the lock guards, until dropped.
pub struct Held<'a> {
    lock: &'a Lock,
    /// Whether it was taken as the only one that could.
    alone: bool,
}

impl Lock {
    /// A free lock.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0), orphaned: AtomicBool::new(false) }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Held<'_>> {
        self.word
            .compare_exchange(0, thread(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Held { lock: self, alone: false })
    }

    /// Takes the lock as the only thread that can reach it, which needs no locked instruction: what
    /// a signal handler takes in between it has given back before. `None` as for [`Lock::lock`].
    #[inline]
    pub fn lock_alone(&self) -> Option<Held<'_>> {
        if self.word.load(Ordering::Acquire) != 0 {
            return self.lock();
        }
        self.word.store(thread(), Ordering::Relaxed);
        Some(Held { lock: self, alone: true })
    }

    /// Takes the lock. `None` if the calling thread holds it already, that is, in a signal handler
    /// that interrupted the holder, or if its holder waits for one that the calling thread holds.
    #[inline(never)]
    pub fn lock(&self) -> Option<Held<'_>> {
        for _ in 0..100 {
            if let Some(held) = self.try_lock() {
                return Some(held);
            }
            std::hint::spin_loop();
        }
        self.lock_slowly()
    }

    /// Whether the holder waits for a thread, or for one that does.
    fn is_held_up_by(&self, thread: u32, steps: u32) -> bool {
        let holder = self.word.load(Ordering::SeqCst) & !WAITED_FOR;
        holder == thread
            || holder != 0
                && steps > 0
                && WAITS.iter().any(|wait| {
                    let lock = wait.lock.load(Ordering::SeqCst);
                    wait.thread.load(Ordering::SeqCst) == holder
                        && lock != 0
                        // SAFETY: somebody waits there, so it is a lock, and none is ever unmapped.
                        && unsafe { &*std::ptr::with_exposed_provenance::<Self>(lock) }
                            .is_held_up_by(thread, steps - 1)
                })
    }

    #[cold]
    fn lock_slowly(&self) -> Option<Held<'_>> {
        let mut waiting = None;
        loop {
            let now = self.word.load(Ordering::Relaxed);
            let holder = now & !WAITED_FOR;
            if holder == thread() {
                return None;
            }
            if holder == 0 {
                let mine = thread() | WAITED_FOR;
                if self
                    .word
                    .compare_exchange(now, mine, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
                {
                    return Some(Held { lock: self, alone: false });
                }
                continue;
            }
            let waited = now | WAITED_FOR;
            let marked =
                self.word.compare_exchange(now, waited, Ordering::Relaxed, Ordering::Relaxed);
            if now != waited && marked.is_err() {
                continue;
            }
            waiting.get_or_insert_with(|| Waiting::begin(self));
            let timed_out =
                sys::futex_wait(self.word.as_ptr(), waited, PATIENCE) == Err(libc::ETIMEDOUT);
            if timed_out && self.is_held_up_by(thread(), 8) {
                return None;
            }
            if timed_out && !lives(holder) {
                // Before it is free: whoever takes it next is to know.
                self.orphaned.store(true, Ordering::SeqCst);
                let (order, failed) = (Ordering::Release, Ordering::Relaxed);
                let _ = self.word.compare_exchange(waited, WAITED_FOR, order, failed);
            }
        }
    }

    /// Frees the lock if the calling thread holds it.
    pub fn give_back(&self) {
        if self.word.load(Ordering::Relaxed) & !WAITED_FOR == thread() {
            drop(Held { lock: self, alone: false });
        }
    }

    /// Whether a holder has died, and may have left something half done. One that another thread has found
    /// dead and freed counts, too.
    pub fn is_orphaned(&self) -> bool {
        self.orphaned.load(Ordering::Relaxed)
    }

    /// Remembers no death, once what was half done is mended.
    pub fn adopt(&self) {
        self.orphaned.store(false, Ordering::Relaxed);
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody waits for it.
    pub fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITED_FOR != 0
    }

    /// Wakes all that sleep until it is free, and returns how many those were.
    #[cfg(test)]
    pub fn wake_all(&self) -> isize {
        let word = self.word.as_ptr();
        // SAFETY: a word of this process's memory.
        unsafe { sys::bare!(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) as isize }
    }

    /// Frees the lock in the child of a fork, whose other threads are gone.
    pub fn reset(&self) {
        self.adopt();
        self.word.store(0, Ordering::Release);
    }
}

/// Whether the thread with this number may hold a lock: it exists, and its process has the
/// connections in its memory. A thread that has ended and was not waited for has none, nor has a
/// thread of another program that got its number.
pub fn lives(thread: u32) -> bool {
    // SAFETY: signal zero only asks.
    let asked = unsafe { sys::split(libc::SYS_tkill, [thread as usize, 0]) };
    asked != Err(libc::ESRCH) && family::has(thread)
}

impl Held<'_> {
    /// Whether somebody waits for it.
    pub fn is_wanted(&self) -> bool {
        self.lock.is_wanted()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let word = &self.lock.word;
        if self.alone {
            // A child that a signal handler forked meanwhile looks again when its patience ends.
            word.store(0, Ordering::Release);
        } else if word.swap(0, Ordering::Release) & WAITED_FOR != 0 {
            sys::futex_wake(word.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::Arc;

    struct Counter(Lock, UnsafeCell<u64>);
    // SAFETY: the cell is only used with the lock held.
    unsafe impl Sync for Counter {}
    // SAFETY: as above.
    unsafe impl Send for Counter {}

    #[test]
    fn threads_exclude_each_other() {
        let counter = Arc::new(Counter(Lock::default(), UnsafeCell::new(0)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || {
                    for _ in 0..10_000 {
                        let _held = counter.0.lock().unwrap();
                        // SAFETY: the lock is held.
                        unsafe { *counter.1.get() += 1 };
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: no other thread is left.
        assert_eq!(unsafe { *counter.1.get() }, 40_000);
    }

    #[test]
    fn the_holder_does_not_wait_for_itself() {
        let lock = Lock::default();
        let _held = lock.lock().unwrap();
        assert!(lock.lock().is_none());
    }

    #[test]
    fn whoever_is_alone_takes_it_once_and_gives_it_back() {
        let lock = Lock::default();
        let held = lock.lock_alone().unwrap();
        assert!(lock.lock_alone().is_none() && lock.try_lock().is_none());
        drop(held);
        let held = lock.lock().unwrap();
        assert!(lock.lock_alone().is_none());
        drop(held);
        assert!(lock.lock_alone().is_some());
    }

    #[test]
    fn a_lock_of_a_thread_that_died_is_taken_over() {
        let lock = Arc::new(Lock::default());
        let theirs = Arc::clone(&lock);
        std::thread::spawn(move || std::mem::forget(theirs.lock())).join().unwrap();
        sys::set_errno(0);
        assert!(!lock.is_orphaned() && lock.lock().is_some() && lock.is_orphaned());
        assert_eq!(sys::errno(), 0);
        lock.adopt();
        assert!(lock.lock().is_some() && !lock.is_orphaned());
    }

    /// As handlers would: each thread holds one lock and waits for the other's.
    #[test]
    fn who_would_wait_for_itself_gives_up() {
        let locks = Arc::new([Lock::default(), Lock::default()]);
        let both = Arc::new(std::sync::Barrier::new(2));
        let threads = [0, 1].map(|mine| {
            let (locks, both) = (Arc::clone(&locks), Arc::clone(&both));
            std::thread::spawn(move || {
                let held = locks[mine].lock();
                both.wait();
                let other = locks[1 - mine].lock().is_some();
                assert!(held.is_some());
                other
            })
        });
        let got = threads.map(|thread| thread.join().unwrap());
        assert!(got.contains(&false), "neither had both at once");
        assert!(locks.iter().all(|lock| lock.try_lock().is_some()));
    }

    #[test]
    fn a_long_wait_for_who_goes_on_ends_with_the_lock() {
        let lock = Arc::new(Lock::default());
        let (held, theirs) = (lock.lock(), Arc::clone(&lock));
        let waiter = std::thread::spawn(move || theirs.lock().is_some());
        std::thread::sleep(std::time::Duration::from_nanos(3 * PATIENCE));
        drop(held);
        assert!(waiter.join().unwrap());
    }
}
