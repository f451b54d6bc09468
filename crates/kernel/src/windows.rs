//! Windows of simulated time through which several threads go together.
//!
//! A model is divided into parts that cannot affect each other for some time, a *window*. All parts
//! run to the end of a window, whichever thread takes which; then the threads meet, and the next
//! window begins with the earliest event of all parts. What leaves a part for another one is
//! written to a list that only these two share, in this window, and read in the next one: the lists
//! of windows with even and with odd numbers take turns, so that no thread ever waits for a list. A
//! list is locked all the same, since that costs nothing where nobody else wants it.
//! `crates/kernel/tests/windows_model.rs` tries every interleaving, with a barrier of its own,
//! since loom has none.

use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use weft_units::{Span, Time};

use meeting::Meeting;

/// The windows of a run, shared by its threads. `C` is a list of what crosses from one part to
/// another, `O` of what a part observes.
#[derive(Debug)]
pub struct TimeWindows<C, O> {
    /// While one is written the other one is read.
    pair: [Window<C, O>; 2],
    /// By part, the number of the last window for which a thread took it.
    taken: Vec<AtomicU64>,
    /// How many threads there should be.
    members: usize,
    meeting: Meeting,
}

/// The span of a run, and the time between its parts, which is the length of its windows.
#[derive(Clone, Copy, Debug)]
pub struct WindowBounds {
    /// The time of the first event.
    pub begin: Time,
    /// The time in which nothing gets from one part to another; at least 1 ps.
    pub apart: Span,
    /// The last instant of the run.
    pub until: Time,
}

/// What one window leaves for the next one.
#[derive(Debug)]
struct Window<C, O> {
    /// By part, the time of its next event, or of the next event that it causes elsewhere.
    next: Vec<AtomicU64>,
    /// By part.
    observed: Vec<Mutex<O>>,
    /// By source and destination part.
    crossing: Vec<Mutex<C>>,
    /// Whether this was the last window, whatever happens next.
    is_last: AtomicBool,
}

/// One part's way through one window.
#[derive(Debug)]
pub struct Step<'a, C, O> {
    /// The number of the part.
    pub part: usize,
    /// The end of the window, which belongs to it.
    pub last: Time,
    before: &'a Window<C, O>,
    own: &'a Window<C, O>,
}

/// What the parts observed in one window.
#[derive(Debug)]
pub struct Observed<'a, O> {
    /// The end of the window.
    pub last: Time,
    lists: &'a [Mutex<O>],
}

impl<C: Default, O: Default> TimeWindows<C, O> {
    /// Windows of so many parts for up to so many threads.
    pub fn new(parts: usize, threads: usize) -> TimeWindows<C, O> {
        TimeWindows {
            pair: [Window::new(parts), Window::new(parts)],
            taken: (0..parts).map(|_| AtomicU64::new(0)).collect(),
            members: threads.clamp(1, parts.max(1)),
            meeting: Meeting::default(),
        }
    }

    /// How many threads there should be.
    pub fn members(&self) -> usize {
        self.members
    }

    /// As many threads as there are, who wait for each other from now on; none comes to the end of
    /// a window before this was called.
    pub fn meet(&self, members: usize) {
        self.meeting.set(members);
    }

    /// What crossed last, by destination part, when all threads have ended.
    pub fn into_crossing(self) -> impl Iterator<Item = (usize, C)> {
        let parts = self.taken.len();
        let of_window = move |window: Window<C, O>| {
            let lists = window.crossing.into_iter().enumerate();
            lists.map(move |(between, list)| (between % parts, open(list)))
        };
        self.pair.into_iter().flat_map(of_window)
    }

    /// Whether a thread ended the run before its last instant.
    pub fn is_ended(&self) -> bool {
        self.pair.iter().any(|window| window.is_last.load(Ordering::Relaxed))
    }

    /// The loop of thread number `member`.
    ///
    /// * `ends` says, at the end of a window, whether the run should end.
    /// * `run` runs a part to the end of a window and returns the time of its next event, or of the
    ///   next event that it causes elsewhere; `None` ends the run with this window.
    /// * `hear` receives the observations of each window while other threads continue with the next
    ///   one; it may take and empty the lists in one thread alone. If it returns false, the run
    ///   ends with the next window.
    ///
    /// None of them may panic: the other threads would wait forever at the end of the window.
    pub fn work(
        &self,
        member: usize,
        bounds: WindowBounds,
        ends: impl Fn() -> bool,
        mut run: impl FnMut(&Step<'_, C, O>) -> Option<Time>,
        mut hear: impl FnMut(&Observed<'_, O>) -> bool,
    ) {
        let count = self.taken.len();
        // Each begins with parts of its own, and helps a thread that is held up.
        let first = member * count / self.members;
        let (mut begin, mut number) = (bounds.begin, 0);
        let mut is_broken = false;
        while begin <= bounds.until {
            let last = Time(begin.0.saturating_add(bounds.apart.0 - 1)).min(bounds.until);
            let before = self.window(number);
            number += 1;
            let own = self.window(number);
            for part in (first..count).chain(0..first) {
                if self.taken[part].fetch_max(number, Ordering::Relaxed) < number {
                    match run(&Step { part, last, before, own }) {
                        Some(next) => own.next[part].store(next.0, Ordering::Relaxed),
                        None => is_broken = true,
                    }
                }
            }
            if ends() || is_broken {
                own.is_last.store(true, Ordering::Relaxed);
            }
            // The meeting orders these writes before the reads after it.
            self.meeting.wait();
            is_broken = !hear(&Observed { last, lists: &own.observed });
            if own.is_last.load(Ordering::Relaxed) {
                break;
            }
            let next = own.next.iter().map(|next| next.load(Ordering::Relaxed)).min();
            begin = Time(next.unwrap_or(Time::NEVER.0));
        }
    }

    fn window(&self, number: u64) -> &Window<C, O> {
        &self.pair[(number % 2) as usize]
    }
}

impl<C: Default, O: Default> Window<C, O> {
    fn new(parts: usize) -> Window<C, O> {
        Window {
            next: (0..parts).map(|_| AtomicU64::new(Time::NEVER.0)).collect(),
            observed: (0..parts).map(|_| Mutex::new(O::default())).collect(),
            crossing: (0..parts * parts).map(|_| Mutex::new(C::default())).collect(),
            is_last: AtomicBool::new(false),
        }
    }
}

impl<C, O> Step<'_, C, O> {
    /// What crossed to this part in the window before, by source part; to be emptied.
    pub fn arriving(&self) -> impl Iterator<Item = MutexGuard<'_, C>> {
        let parts = self.own.next.len();
        self.before.crossing.iter().skip(self.part).step_by(parts).map(lock)
    }

    /// The lists of what leaves this part, by destination part.
    pub fn leaving(&self) -> impl Iterator<Item = MutexGuard<'_, C>> {
        let parts = self.own.next.len();
        self.own.crossing[self.part * parts..][..parts].iter().map(lock)
    }

    /// The list of what this part observes.
    pub fn observed(&self) -> MutexGuard<'_, O> {
        lock(&self.own.observed[self.part])
    }
}

impl<O> Observed<'_, O> {
    /// The lists, by part.
    pub fn lists(&self) -> impl Iterator<Item = MutexGuard<'_, O>> {
        self.lists.iter().map(lock)
    }
}

/// A panic while a lock is held ends the run, so nothing relies on what it left behind.
#[cfg(not(loom))]
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Under loom, a thread that would have to wait for a list fails.
#[cfg(loom)]
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.try_lock().expect("no two threads want one list at a time")
}

fn open<T>(shared: Mutex<T>) -> T {
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(loom))]
mod meeting {
    use std::sync::{Barrier, OnceLock};

    /// A barrier for a number of threads that is known once they have started.
    #[derive(Debug, Default)]
    pub struct Meeting {
        barrier: OnceLock<Barrier>,
    }

    impl Meeting {
        pub fn set(&self, members: usize) {
            self.barrier.get_or_init(|| Barrier::new(members));
        }

        pub fn wait(&self) {
            self.barrier.wait().wait();
        }
    }
}

/// Loom has no barrier.
#[cfg(loom)]
mod meeting {
    use loom::sync::{Condvar, Mutex};

    #[derive(Debug, Default)]
    pub struct Meeting {
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Debug, Default)]
    struct State {
        members: Option<usize>,
        waiting: usize,
        meetings: usize,
    }

    impl Meeting {
        pub fn set(&self, members: usize) {
            let mut state = self.state.lock().expect("nobody panics with it");
            state.members = Some(members);
            self.let_go(&mut state);
        }

        pub fn wait(&self) {
            let mut state = self.state.lock().expect("nobody panics with it");
            let meeting = state.meetings;
            state.waiting += 1;
            self.let_go(&mut state);
            while state.meetings == meeting {
                state = self.changed.wait(state).expect("nobody panics with it");
            }
        }

        fn let_go(&self, state: &mut State) {
            if state.members.is_some_and(|members| members == state.waiting) {
                state.waiting = 0;
                state.meetings += 1;
                self.changed.notify_all();
            }
        }
    }
}
