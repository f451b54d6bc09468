//! Whether other threads want the processor of a thread that polls.
//!
//! `sched_yield` runs only threads of the same scheduling group, which is a session or a container:
//! a poller seems to be alone while threads of all other groups wait. How often a thread was
//! preempted before it slept counts the threads of every group.

use crate::sys::Usage;

/// The kernel is asked at most once in this many nanoseconds.
const PERIOD: u64 = 4_000_000;
/// A thread that is preempted once in this many nanoseconds of running is among others. One that is
/// alone on its processor is preempted by threads of the kernel some thirty times a second; two
/// threads that compute take turns of 3 ms, and servers that share processors are preempted after
/// 0.1 ms.
const USUAL: u64 = 5_000_000;
/// Two preemptions in close succession also happen to a thread that is alone.
const FEW: u64 = 2 * USUAL;
/// A thread that was among many counts as alone again after this many nanoseconds of running.
const MOST: u64 = 4 * USUAL;

/// What one receiver has noticed of others.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Crowd {
    asked_at: u64,
    used: Option<Usage>,
    /// By how much recent preemptions outweigh the time that it ran, in nanoseconds.
    weight: u64,
}

impl Crowd {
    pub const fn new() -> Self {
        Self { asked_at: 0, used: None, weight: 0 }
    }

    /// Whether others wanted the processor recently.
    pub fn is_there(&self) -> bool {
        self.weight > FEW
    }

    /// Asks what this thread has used, if that is due at `now`, in nanoseconds.
    pub fn look(&mut self, now: u64, usage: impl FnOnce() -> Option<Usage>) {
        if now.saturating_sub(self.asked_at) < PERIOD {
            return;
        }
        self.asked_at = now;
        let before = self.used;
        self.used = usage();
        // Another thread may have waited here before, whose counts are others.
        if let (Some(before), Some(after)) = (before, self.used)
            && let Some(preemptions) = after.preemptions.checked_sub(before.preemptions)
            && let Some(ran) = after.ran.checked_sub(before.ran)
        {
            let added = self.weight.saturating_add(preemptions.saturating_mul(USUAL));
            self.weight = added.saturating_sub(ran).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is preempted once in `every` nanoseconds that it runs, of which it runs `share`, for a second.
    fn noticed(crowd: &mut Crowd, from: u64, every: u64, share: f64) -> bool {
        for step in 0..250 {
            let now = from + step * PERIOD;
            let ran = (now as f64 * share) as u64;
            crowd.look(now, || Some(Usage { preemptions: ran / every, ran }));
        }
        crowd.is_there()
    }

    #[test]
    fn who_is_preempted_often_is_among_others_however_little_it_runs() {
        for (every, share, is_there) in [
            (33_000_000, 1.0, false),
            (33_000_000, 0.1, false),
            (3_000_000, 0.5, true),
            (100_000, 0.3, true),
            (100_000, 0.03, true),
        ] {
            assert_eq!(
                noticed(&mut Crowd::new(), PERIOD, every, share),
                is_there,
                "{every} {share}"
            );
        }
    }

    #[test]
    fn who_was_among_others_is_alone_after_a_while() {
        let mut crowd = Crowd::new();
        assert!(noticed(&mut crowd, PERIOD, 100_000, 0.3));
        let (from, Usage { preemptions, ran }) = (crowd.asked_at, crowd.used.unwrap());
        for step in 1..=5 {
            let later = ran + step * PERIOD;
            crowd.look(from + step * PERIOD, || Some(Usage { preemptions, ran: later }));
        }
        assert!(!crowd.is_there());
    }

    #[test]
    fn the_kernel_is_asked_seldom_and_need_not_answer() {
        let mut crowd = Crowd::new();
        let mut asked = 0;
        for now in (PERIOD..11 * PERIOD).step_by(1_000) {
            crowd.look(now, || {
                asked += 1;
                None
            });
        }
        assert_eq!((asked, crowd.is_there()), (10, false));
    }

    #[test]
    fn another_threads_counts_say_nothing() {
        let mut crowd = Crowd::new();
        crowd.look(PERIOD, || None);
        crowd.look(2 * PERIOD, || Some(Usage { preemptions: 1_000, ran: 5_000_000 }));
        assert!(!crowd.is_there(), "the first answer is of all the thread's life");
        crowd.look(3 * PERIOD, || Some(Usage { preemptions: 10, ran: 9_000_000 }));
        assert!(!crowd.is_there());
    }
}
