//! How long to poll before going to sleep (SCILAN 4.7: polling that backs off to interrupts).
//!
//! The paper backs off after prolonged unsuccessful polling. Here each receiver learns from its own
//! waits: one that ends within the span is worth polling for again, one that does not makes it
//! sleep at once the next time, then the next two, four and more times. A wait in which the
//! processor was taken away counts as in vain: somebody else needs it. The span of a try stays
//! long, since after a while of sleeping the other end must wake up before it can answer. With both
//! ends on one processor nobody polls, since the other end cannot run meanwhile.

/// The span of polling in nanoseconds: a little more than a wake-up across processors costs on the
/// slowest machine measured (33 us).
const SPAN: u64 = 50_000;
/// A step of the polling loop that takes this long was not alone on its processor, in nanoseconds.
const TAKEN_AWAY: u64 = 30_000;
/// At most so many waits are not polled between two tries: a try in vain costs a hundredth of them.
const MOST_SKIPPED: u32 = 128;

/// What one receiver has learned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SpinPolicy {
    skip: u32,
    penalty: u32,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was waited for came while polling.
    Came,
    /// It did not.
    DidNot,
    /// The processor was taken away.
    TakenAway,
}

impl SpinPolicy {
    pub const fn new() -> Self {
        Self { skip: 0, penalty: 1 }
    }

    /// Whether to poll now.
    pub fn tries(&mut self) -> bool {
        let tries = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        tries
    }

    /// Learns from a wait that polled.
    pub fn learn(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Came => self.penalty = 1,
            Outcome::DidNot | Outcome::TakenAway => self.back_off(),
        }
    }

    fn back_off(&mut self) {
        self.skip = self.penalty;
        self.penalty = (self.penalty * 2).min(MOST_SKIPPED);
    }

    /// Polls until `came` says so or the span is over. `now` is a clock in nanoseconds.
    pub fn poll(&mut self, mut came: impl FnMut() -> bool, now: impl Fn() -> u64) -> bool {
        if !self.tries() {
            return false;
        }
        let begin = now();
        let mut last = begin;
        loop {
            for _ in 0..16 {
                if came() {
                    self.learn(Outcome::Came);
                    return true;
                }
                std::hint::spin_loop();
            }
            let time = now();
            if time - last > TAKEN_AWAY {
                self.learn(Outcome::TakenAway);
                return came();
            }
            if time - begin > SPAN {
                self.learn(Outcome::DidNot);
                return false;
            }
            last = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn waits_that_end_in_time_are_all_polled() {
        let mut policy = SpinPolicy::new();
        for _ in 0..10 {
            assert!(policy.tries());
            policy.learn(Outcome::Came);
        }
    }

    #[test]
    fn waits_in_vain_are_skipped_more_and_more_often() {
        let mut policy = SpinPolicy::new();
        let mut polled = 0;
        for _ in 0..1000 {
            if policy.tries() {
                polled += 1;
                policy.learn(Outcome::DidNot);
            }
        }
        assert!(polled < 20, "{polled} of 1000 waits polled");
        policy.learn(Outcome::Came);
        assert!(policy.penalty == 1);
    }

    #[test]
    fn a_jump_of_the_clock_ends_the_polling() {
        let time = Cell::new(0);
        let mut policy = SpinPolicy::new();
        let came = policy.poll(
            || false,
            || {
                time.set(time.get() + TAKEN_AWAY + 1);
                time.get()
            },
        );
        assert!(!came && policy.skip == 1);
    }
}
