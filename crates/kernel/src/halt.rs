//! Ending a run from outside: a flag that another thread sets, and a limit on steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a run ended before its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Somebody asked for it (Ctrl-C, another thread).
    Asked,
    /// The limit on steps was reached.
    StepLimit,
}

/// Tells a run when to stop. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Halt {
    flag: Arc<AtomicBool>,
    /// The largest number of steps (events or slots) that the run may take.
    pub step_limit: Option<u64>,
}

impl Halt {
    /// A halt that never stops a run by itself.
    pub fn new() -> Halt {
        Halt::default()
    }

    /// Asks every run that holds a clone of this halt to stop.
    pub fn ask(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether a run that has taken `steps` steps must stop. The flag is looked at once in 4096
    /// steps, since an atomic load per event shows in the event rate.
    #[inline]
    pub fn check(&self, steps: u64) -> Option<Stopped> {
        if self.step_limit.is_some_and(|limit| steps >= limit) {
            return Some(Stopped::StepLimit);
        }
        if steps & 0xfff == 0 && self.flag.load(Ordering::Relaxed) {
            return Some(Stopped::Asked);
        }
        None
    }
}
