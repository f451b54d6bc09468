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

    /// A halt that shares this one's flag and has a step limit of its own.
    pub fn with_step_limit(&self, step_limit: Option<u64>) -> Halt {
        Halt { flag: Arc::clone(&self.flag), step_limit }
    }

    /// Asks every run that holds a clone of this halt to stop.
    pub fn ask(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// How many steps a run that has taken `steps` of them may take at once, so that it stops
    /// exactly at the limit.
    #[inline]
    pub fn left(&self, steps: u64) -> u64 {
        self.step_limit.map_or(u64::MAX, |limit| limit.saturating_sub(steps + 1))
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

    /// After how many steps a run that has taken `steps` of them must [check](Self::check) again.
    #[inline]
    pub fn next_check(&self, steps: u64) -> u64 {
        let next = (steps | 0xfff) + 1;
        self.step_limit.map_or(next, |limit| next.min(limit.max(steps + 1)))
    }

    /// Like [`check`](Self::check), for a run that has just taken all steps from `before` to `steps`,
    /// which may be several.
    #[inline]
    pub fn check_since(&self, before: u64, steps: u64) -> Option<Stopped> {
        let is_due = before >> 12 != steps >> 12;
        self.check(steps).or((is_due && self.is_asked()).then_some(Stopped::Asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_that_is_asked_stops_the_run_within_4096_steps() {
        let halt = Halt::new();
        let run = halt.clone();
        assert!((0..10_000).all(|step| run.check(step).is_none()));
        std::thread::spawn(move || halt.ask()).join().unwrap();
        let stop = (10_001..).find_map(|step| run.check(step).map(|why| (step, why)));
        assert_eq!(stop, Some((3 * 4_096, Stopped::Asked)));
    }

    #[test]
    fn a_run_that_is_asked_stops_though_it_takes_many_steps_at_once() {
        let halt = Halt::new();
        assert_eq!(halt.check_since(1, 9_001), None);
        halt.ask();
        assert_eq!(halt.check_since(9_001, 9_002), None);
        assert_eq!(halt.check_since(4_001, 9_001), Some(Stopped::Asked));
    }

    #[test]
    fn a_run_that_checks_when_it_must_stops_at_the_same_step() {
        for limit in [None, Some(0), Some(1), Some(4_095), Some(4_096), Some(4_097), Some(9_000)] {
            for begin in [0, 1, 4_095, 4_096, 5_000] {
                for asks in [false, true] {
                    let halt = Halt { step_limit: limit, ..Halt::new() };
                    if asks {
                        halt.ask();
                    }
                    let each = (begin + 1..10_000).find(|steps| halt.check(*steps).is_some());
                    let mut due = halt.next_check(begin);
                    let seldom = (begin + 1..10_000).find(|steps| {
                        let is_due = *steps >= due;
                        if is_due {
                            due = halt.next_check(*steps);
                        }
                        is_due && halt.check(*steps).is_some()
                    });
                    assert_eq!(each, seldom, "{limit:?} from {begin}");
                }
            }
        }
    }

    #[test]
    fn the_limit_on_steps_is_exact() {
        let halt = Halt { step_limit: Some(10_001), ..Halt::new() };
        let stop = (0..).find_map(|step| halt.check(step).map(|why| (step, why)));
        assert_eq!(stop, Some((10_001, Stopped::StepLimit)));
        // This many at once, and the next one stops.
        assert_eq!([0, 9_999, 10_000, 20_000].map(|steps| halt.left(steps)), [10_000, 1, 0, 0]);
        assert_eq!(Halt::new().left(7), u64::MAX);
    }
}
