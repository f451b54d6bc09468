//! A lock within one process that is released if its holder jumps away.
//!
//! A signal handler may interrupt the holder and leave by `siglongjmp`. The lock would then be held
//! forever by a thread that lives, and the whole process would wait for it. So each thread notes
//! which locks it holds, and where on its stack; a jump past that place releases them. What they
//! guard is mostly changed by single stores, and a change that is left half done concerns the
//! connection whose call the thread has abandoned.

use std::cell::Cell;

use crate::sharing::lock::{Held, Lock};

/// How many locks a thread notes; no call holds more.
const NOTED: usize = 8;

struct Notes {
    count: Cell<usize>,
    /// Each lock that is held, or about to be, and a place on the stack below its holder's frame.
    notes: [Cell<(*const Lock, usize)>; NOTED],
}

thread_local! {
    static NOTES: Notes = const {
        Notes { count: Cell::new(0), notes: [const { Cell::new((std::ptr::null(), 0)) }; NOTED] }
    };
}

/// A note of the calling thread, until dropped.
struct Note(*const Lock);

impl Note {
    fn begin(lock: &Lock) -> Self {
        let place = 0u8;
        NOTES.with(|it| {
            let count = it.count.get();
            if let Some(note) = it.notes.get(count) {
                note.set((lock, (&raw const place).addr()));
                it.count.set(count + 1);
            }
        });
        Self(lock)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        forget(self.0);
    }
}

/// Forgets the last note of a lock.
fn forget(lock: *const Lock) {
    NOTES.with(|it| {
        let all = &it.notes[..it.count.get()];
        if let Some(at) = all.iter().rposition(|note| note.get().0 == lock) {
            for next in at + 1..all.len() {
                all[next - 1].set(all[next].get());
            }
            it.count.set(all.len() - 1);
        }
    });
}

/// To be called by a thread that is about to jump to a place on its stack: frees what was taken in the
/// frames that it jumps past.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "the place is not known"))]
pub fn give_back_before_jump(to: usize) {
    let here = 0u8;
    let here = (&raw const here).addr();
    NOTES.with(|it| {
        for at in (0..it.count.get()).rev() {
            let (lock, place) = it.notes[at].get();
            // A handler on a stack of its own tells nothing by its place.
            if here < place && place < to {
                it.count.set(it.count.get().min(at));
                // SAFETY: a noted lock is one of this library's, which are never unmapped.
                unsafe { (*lock).give_back() };
            }
        }
    });
}

/// Whether the calling thread holds any.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "as above"))]
pub fn holds_any() -> bool {
    NOTES.with(|it| it.count.get() > 0)
}

/// Forgets what was noted: the child of a fork has freed them all.
pub fn forget_all() {
    NOTES.with(|it| it.count.set(0));
}

/// The lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct ProcessLock(Lock);

/// The right to what the lock guards, until dropped.
pub struct HeldHere<'a> {
    _held: Held<'a>,
    /// Dropped last.
    _note: Note,
}

impl ProcessLock {
    /// A free lock.
    pub const fn new() -> Self {
        Self(Lock::new())
    }

    /// Acquires the lock like [`Lock::lock`], and notes that this thread holds it.
    pub fn lock(&self) -> Option<HeldHere<'_>> {
        let note = Note::begin(&self.0);
        self.0.lock().map(|held| HeldHere { _held: held, _note: note })
    }

    /// Acquires the lock if it is free, like [`Lock::try_lock`], and notes that this thread holds
    /// it.
    pub fn try_lock(&self) -> Option<HeldHere<'_>> {
        let note = Note::begin(&self.0);
        self.0.try_lock().map(|held| HeldHere { _held: held, _note: note })
    }

    /// Acquires the lock until [`ProcessLock::give_back`]. Returns whether it was acquired.
    pub fn hold(&self) -> bool {
        let held = self.lock();
        let is_held = held.is_some();
        std::mem::forget(held);
        is_held
    }

    /// Frees the lock that the calling thread holds, and wakes who waits for it.
    pub fn give_back(&self) {
        forget(&raw const self.0);
        self.0.give_back();
    }

    /// Frees the lock in the child of a fork, whoever held it.
    pub fn reset(&self) {
        forget(&raw const self.0);
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors;
    use crate::sharing::lock;

    static OUTER: ProcessLock = ProcessLock::new();
    static INNER: ProcessLock = ProcessLock::new();

    /// A handler that interrupts the holder, and jumps to a place.
    #[inline(never)]
    fn jump_from_below(to: usize) {
        let frame = [0u8; 4096];
        std::hint::black_box(&frame);
        assert!(holds_any());
        give_back_before_jump(to);
    }

    #[test]
    fn what_is_jumped_past_is_free_and_nothing_else() {
        let above = 0u8;
        let above = (&raw const above).addr() + 4096;
        let outer = OUTER.lock();
        let inner = INNER.try_lock();
        assert!(outer.is_some() && inner.is_some() && INNER.lock().is_none());
        // Within the handler.
        jump_from_below(1);
        assert!(OUTER.0.is_held() && INNER.0.is_held());
        jump_from_below(above);
        assert!(!OUTER.0.is_held() && !INNER.0.is_held() && !holds_any());
        std::mem::forget((outer, inner));
        drop(OUTER.lock());
        assert!(!OUTER.0.is_held() && !holds_any());
    }

    #[test]
    fn what_another_holds_by_now_stays_its_own() {
        static LOCK: ProcessLock = ProcessLock::new();
        let above = 0u8;
        let above = (&raw const above).addr() + 4096;
        let held = LOCK.lock();
        // As if it had been given back, and the note was not yet gone.
        LOCK.0.reset();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::mem::forget(LOCK.lock());
            });
        });
        jump_from_below(above);
        assert!(LOCK.0.is_held());
        LOCK.reset();
        std::mem::forget(held);
    }

    #[test]
    fn who_sleeps_until_it_is_given_back_is_woken() {
        static LOCK: ProcessLock = ProcessLock::new();
        assert!(LOCK.hold() && holds_any() && !LOCK.hold());
        let (say, said) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            say.send(lock::thread()).unwrap();
            LOCK.lock().is_some()
        });
        let thread = said.recv().unwrap();
        while !LOCK.0.is_wanted() || !descriptors::is_asleep(thread) {
            std::thread::yield_now();
        }
        LOCK.give_back();
        assert!(!holds_any());
        assert_eq!(LOCK.0.wake_all(), 0, "left asleep");
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn notes_end_in_any_order_and_with_a_reset() {
        let locks: [ProcessLock; NOTED + 1] = [const { ProcessLock::new() }; NOTED + 1];
        let mut held: Vec<_> = locks.iter().map(ProcessLock::lock).collect();
        held.swap(0, 3);
        drop(held);
        assert!(!holds_any() && locks.iter().all(|lock| !lock.0.is_held()));
        std::mem::forget(locks[0].lock());
        assert!(holds_any());
        locks[0].reset();
        assert!(!holds_any() && !locks[0].0.is_held());
    }
}
