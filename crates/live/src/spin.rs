//! How long to poll before going to sleep (SCILAN 4.7: polling that backs off to interrupts).
//!
//! The paper backs off after prolonged unsuccessful polling. Here each receiver learns from its own
//! waits: one that ends within the span is worth polling for again, one that does not makes it
//! sleep at once the next time, then the next two, four and more times. A wait in which the
//! processor was taken away counts as in vain: somebody else needs it. The span of a try stays
//! long, since after a while of sleeping the other end must wake up before it can answer.
//!
//! With both ends on one processor the other end cannot run meanwhile, so each step of the polling
//! gives the processor up: one switch to the other end and none back by an interrupt or a call. An
//! end that has not answered after a few switches is busy with something else, and a third program
//! that took its turn may have had it for milliseconds. So a try in vain is followed by a rest that
//! is a multiple of what it cost, which bounds the loss by time, not by tries.

/// The span of polling in nanoseconds: a little more than a wake-up across processors costs on the
/// slowest machine measured (33 us).
const SPAN: u64 = 50_000;
/// A step of the polling loop that takes this long was not alone on its processor, in nanoseconds.
const TAKEN_AWAY: u64 = 30_000;
/// At most so many waits are not polled between two tries: a try in vain costs a hundredth of them.
const MOST_SKIPPED: u32 = 128;

/// So many times the processor is given up to an other end on the same one.
const MOST_SWITCHES: u32 = 3;
/// A rest is this many times the try in vain before it: the loss stays below a percent or so.
const REST: u64 = 64;
/// Each further try in vain doubles the rest, up to this multiple of the first.
const LONGEST_REST: u64 = 64;

/// Where the other end runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On another processor: it goes on while this end polls.
    Elsewhere,
    /// On this processor.
    Here,
    /// Nobody knows, or it is not worth while.
    Unknown,
}

/// What one receiver has learned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SpinPolicy {
    skip: u32,
    penalty: u32,
    /// When the processor may be given up again, in nanoseconds, and what the next rest is times
    /// [`REST`].
    rests_until: u64,
    rest: u64,
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
        Self { skip: 0, penalty: 1, rests_until: 0, rest: 1 }
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

    /// Gives the processor up until `came` says so, a few times. `now` is a clock in nanoseconds.
    pub fn take_turns(
        &mut self,
        mut came: impl FnMut() -> bool,
        switch: impl Fn(),
        now: impl Fn() -> u64,
    ) -> bool {
        let begin = now();
        if begin < self.rests_until {
            return false;
        }
        if came() {
            return true;
        }
        let mut last = begin;
        for _ in 0..MOST_SWITCHES {
            switch();
            let time = now();
            let taken_away = time - last > TAKEN_AWAY;
            let came = came();
            if came && !taken_away {
                self.rest = 1;
                return true;
            }
            last = time;
            if taken_away {
                self.take_rest(begin, time);
                return came;
            }
        }
        self.take_rest(begin, last);
        false
    }

    fn take_rest(&mut self, begin: u64, now: u64) {
        self.rests_until = now + (now - begin) * REST * self.rest;
        self.rest = (self.rest * 2).min(LONGEST_REST);
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

    /// A clock and a policy, whose switches of the processor take so long each.
    struct Switching {
        policy: SpinPolicy,
        time: Cell<u64>,
        each: u64,
    }

    impl Switching {
        /// How many switches a wait took whose answer comes after so many, and whether it came.
        fn wait(&mut self, answer_after: u32) -> (u32, bool) {
            let switches = Cell::new(0);
            let came = self.policy.take_turns(
                || switches.get() >= answer_after,
                || {
                    switches.set(switches.get() + 1);
                    self.time.set(self.time.get() + self.each);
                },
                || self.time.get(),
            );
            (switches.get(), came)
        }
    }

    #[test]
    fn an_end_on_the_same_processor_gets_it_a_few_times() {
        let mut waits = Switching { policy: SpinPolicy::new(), time: Cell::new(0), each: 500 };
        for after in [0, 1, MOST_SWITCHES, 1] {
            assert_eq!(waits.wait(after), (after, true));
        }
        assert_eq!(waits.wait(MOST_SWITCHES + 1), (MOST_SWITCHES, false));
        assert_eq!(waits.wait(1), (0, false), "it rests");
        waits.time.set(waits.time.get() + REST * u64::from(MOST_SWITCHES) * 500);
        assert_eq!(waits.wait(1), (1, true));
    }

    #[test]
    fn giving_the_processor_to_somebody_else_costs_little_of_the_time() {
        let each = 3_000_000;
        let mut waits = Switching { policy: SpinPolicy::new(), time: Cell::new(0), each };
        let mut lost = 0;
        while waits.time.get() < 100_000_000_000 {
            // A wait of the kernel's takes 5 us; one that gave the processor up came after it.
            lost += u64::from(waits.wait(1).0) * each;
            waits.time.set(waits.time.get() + 5_000);
        }
        let share = lost as f64 / waits.time.get() as f64;
        assert!(lost > 0 && share < 0.01, "{share} of the time");
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
