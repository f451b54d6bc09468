//! How long to poll before going to sleep (SCILAN 4.7: polling that backs off to interrupts).
//!
//! The paper backs off after prolonged unsuccessful polling. Here each receiver learns from its own
//! waits. One that does not end within the span makes it sleep immediately the next time, then the
//! next two, four and more times; each one that does halves that number again. So a receiver that
//! succeeds in more than half of its attempts polls nearly always, and one that succeeds less often
//! hardly ever: a failed attempt costs more than a successful one saves. A wait in which the
//! processor was taken away counts as failed, since another thread needs it. The span of an attempt
//! stays long, because after a while of sleeping the other end must wake up before it can answer.
//!
//! A receiver spins only for as long as a switch to another thread and back would cost, cache
//! misses included, and then yields the processor once. If another thread was waiting, it runs now
//! instead of waiting for a receiver that does nothing, and the next spin is half as long. If none
//! was, the yield was a short call, and the next spin is twice as long: a thread alone on its
//! processor soon stops calling `sched_yield`. If another thread has kept the processor for long,
//! it computes and does not itself wait for messages, so the receiver does not yield for a while.
//!
//! With both ends on one processor the other end cannot run meanwhile, so each step of the polling
//! yields: one switch to the other end, and none back by an interrupt or a system call. An end that
//! has not answered after a few switches is busy with something else, and a third program that ran
//! instead may have kept the processor for milliseconds. So a failed attempt is followed by a pause
//! that is a multiple of its cost, which bounds the loss by time, not by attempts.
//!
//! Where other threads want the processor, the span is short, since the time spent spinning is
//! theirs.

mod crowd;

use crate::spin::crowd::Crowd;
use crate::sys::Usage;

/// The span of polling in nanoseconds: a wake-up across processors on the slowest machine measured
/// (55 us), after which the other end has yet to answer. With less, two ends that have once fallen
/// asleep there would keep waking each other forever.
const SPAN: u64 = 100_000;
/// The span of polling beside other runnable threads, whose time it takes: about two wake-ups by
/// the kernel.
const SPAN_AMONG_OTHERS: u64 = 20_000;
/// A step of the polling loop that takes this long was not alone on its processor, in nanoseconds.
const TAKEN_AWAY: u64 = 30_000;
/// The most waits without polling between two attempts to poll: a failed attempt costs a hundredth
/// of them.
const MOST_SKIPPED: u32 = 128;

/// How many connections are checked between two reads of the clock: as many nanoseconds or more, up
/// to tens of nanoseconds for each whose cache line another processor is just writing.
const LOOKS: u32 = 16;

/// How long to spin before the processor is yielded, in nanoseconds, as long as no other thread was
/// waiting for it: what a switch and a switch back cost with cold caches. At least a few polls.
const PATIENCE: u64 = 4_000;
const LEAST_PATIENCE: u64 = 100;
/// Once in this many waits the first spin lasts at least [`PATIENCE`]: a thread that has yielded
/// misses a short response.
const TRY_AGAIN: u32 = 16;
/// A thread that yields and runs again sooner than this was alone on the processor, in nanoseconds.
const ALONE: u64 = 1_000;
/// A thread that runs again later than this has yielded to one that computes, not to one that
/// answers and then waits in its turn, in nanoseconds.
const TOO_LONG: u64 = 1_000_000;
/// After that it does not yield for this many times as long, and spins through its whole span.
const KEPT: u64 = 16;
/// The most times that other threads get the processor in one wait for an end on another processor.
const MOST_TURNS: u32 = 12;

/// The most yields in one wait to the other end on the same processor.
const MOST_SWITCHES: u32 = 3;
/// A pause is this many times as long as the failed attempt before it: the loss stays below a
/// percent or so.
const REST: u64 = 64;
/// Each further failed attempt doubles the pause, up to this multiple of the first.
const LONGEST_REST: u64 = 64;

/// Where the other end runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On another processor: it goes on while this end polls.
    Elsewhere,
    /// On this processor.
    Here,
    /// It is not known, or polling is not worth while.
    Unknown,
}

/// What one receiver has learned.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SpinPolicy {
    skip: u32,
    penalty: u32,
    /// How long to spin before the processor is given up, in nanoseconds, and how many waits there
    /// were.
    patience: u64,
    waits: u32,
    /// Whether others wanted the processor of late.
    is_among_others: bool,
    /// When the processor may be given up again, in nanoseconds, and what the next rest is multiplied
    /// by.
    rests_until: u64,
    rest: u64,
    crowd: Crowd,
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
        Self {
            skip: 0,
            penalty: 1,
            patience: PATIENCE,
            waits: 0,
            is_among_others: false,
            rests_until: 0,
            rest: 1,
            crowd: Crowd::new(),
        }
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
            Outcome::Came => self.penalty = (self.penalty / 2).max(1),
            Outcome::DidNot | Outcome::TakenAway => self.back_off(),
        }
    }

    fn back_off(&mut self) {
        self.skip = self.penalty;
        self.penalty = (self.penalty * 2).min(MOST_SKIPPED);
    }

    /// Polls until `came` says so or the span is over: spins, and gives the processor up in between.
    /// `each` is how many connections `came` looks at, `usage` what the thread has used, `now` a clock in
    /// nanoseconds.
    pub fn poll(
        &mut self,
        each: u32,
        mut came: impl FnMut() -> bool,
        switch: impl Fn(),
        usage: impl Fn() -> Option<Usage>,
        now: impl Fn() -> u64,
    ) -> bool {
        if !self.tries() {
            return false;
        }
        let looks = (LOOKS / each.max(1)).max(1);
        let span = if self.is_among_others { SPAN_AMONG_OTHERS } else { SPAN };
        let begin = now();
        let keeps = begin < self.rests_until;
        let mut patience = self.first_patience(keeps);
        let (mut time, mut turns, mut gone) = (begin, 0, 0);
        loop {
            let (outcome, seen) = spin(time, patience.min(span), looks, &mut came, &now);
            if let Some(outcome) = outcome {
                self.learn_from_spin(outcome, if turns == 0 { 2 * patience } else { 0 });
                if seen - begin > SPAN_AMONG_OTHERS {
                    self.look_around(seen, usage);
                }
                return outcome == Outcome::Came || came();
            }
            time = seen;
            if turns == MOST_TURNS || time - begin - gone > span {
                self.learn(Outcome::DidNot);
                self.look_around(time, usage);
                return false;
            }
            switch();
            let away = now() - time;
            time += away;
            if away > TOO_LONG {
                self.take_rest(KEPT * away, time);
                return came();
            }
            patience = self.learn_from_turn(away);
            if away > ALONE {
                (turns, gone) = (turns + 1, gone + away);
            }
        }
    }

    /// Checks, after a wait that was long enough to take time from others, whether they want the
    /// processor.
    fn look_around(&mut self, time: u64, usage: impl Fn() -> Option<Usage>) {
        self.crowd.look(time, usage);
        self.is_among_others = self.crowd.is_there();
    }

    /// How long to spin at the beginning of a wait.
    fn first_patience(&mut self, keeps: bool) -> u64 {
        self.waits = self.waits.wrapping_add(1);
        match (keeps, self.waits.is_multiple_of(TRY_AGAIN)) {
            (true, _) => SPAN,
            (false, true) => self.patience.max(PATIENCE),
            (false, false) => self.patience,
        }
    }

    /// Learns from a spin that ended before its time. A receiver that got its message without
    /// yielding has reason to spin as long again.
    fn learn_from_spin(&mut self, outcome: Outcome, enough: u64) {
        self.patience = match outcome {
            Outcome::Came => self.patience.max(PATIENCE.min(enough)),
            Outcome::DidNot | Outcome::TakenAway => self.patience.min(PATIENCE),
        };
        self.learn(outcome);
    }

    /// Learns from a yield how long the processor was away. Returns how long to spin now.
    fn learn_from_turn(&mut self, away: u64) -> u64 {
        if away <= ALONE {
            self.patience = SPAN.min(2 * self.patience);
        } else {
            self.patience = LEAST_PATIENCE.max(self.patience.min(PATIENCE) / 2);
            self.rest = 1;
        }
        self.patience
    }

    /// Yields the processor until `came` returns true, at most a few times. `now` is a clock in
    /// nanoseconds.
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
            let taken_away = time - last > TOO_LONG;
            let came = came();
            if came && !taken_away {
                self.rest = 1;
                return true;
            }
            last = time;
            if taken_away {
                self.take_rest(REST * (time - begin), time);
                return came;
            }
        }
        self.take_rest(REST * (last - begin), last);
        false
    }

    fn take_rest(&mut self, span: u64, now: u64) {
        self.rests_until = now + span * self.rest;
        self.rest = (self.rest * 2).min(LONGEST_REST);
    }
}

/// Spins for at most `patience`, and reads the clock once every `looks` polls. Returns the outcome,
/// `None` if nothing came, and the last time that was read.
fn spin(
    begin: u64,
    patience: u64,
    looks: u32,
    came: &mut impl FnMut() -> bool,
    now: &impl Fn() -> u64,
) -> (Option<Outcome>, u64) {
    let mut last = begin;
    loop {
        if (0..looks).any(|_| looks_again(came)) {
            return (Some(Outcome::Came), last);
        }
        let time = now();
        if time - last > TAKEN_AWAY {
            return (Some(Outcome::TakenAway), time);
        }
        if time - begin > patience {
            return (None, time);
        }
        last = time;
    }
}

fn looks_again(came: &mut impl FnMut() -> bool) -> bool {
    let came = came();
    if !came {
        std::hint::spin_loop();
    }
    came
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
    }

    /// A clock and a policy, whose switches of the processor take so long each.
    struct Switching {
        policy: SpinPolicy,
        time: Cell<u64>,
        each: u64,
    }

    impl Switching {
        /// How many switches a wait took whose response comes after a given number of them, and
        /// whether it came.
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

    /// A clock that each look moves, and a policy of an end whose other end is elsewhere.
    struct Polling {
        policy: SpinPolicy,
        time: Cell<u64>,
        look: u64,
        /// At how many connections that is.
        each: u32,
        /// How long the processor is away when it is given up, in nanoseconds.
        away: u64,
        /// How often it was taken away, and how often that was asked.
        preemptions: u64,
        asked: Cell<u32>,
    }

    impl Polling {
        fn new(away: u64) -> Self {
            let policy = SpinPolicy::new();
            let (time, asked) = (Cell::new(0), Cell::new(0));
            Self { policy, time, look: 10, each: 1, away, preemptions: 0, asked }
        }

        /// How often the processor was given up in a wait whose answer takes so long, whether it came,
        /// and how long after it would have.
        fn wait(&mut self, answer: u64) -> (u32, bool, u64) {
            let (begin, switches) = (self.time.get(), Cell::new(0));
            let pass = |span| self.time.set(self.time.get() + span);
            let came = self.policy.poll(
                self.each,
                || {
                    pass(self.look);
                    self.time.get() - begin >= answer
                },
                || {
                    switches.set(switches.get() + 1);
                    pass(self.away);
                },
                || {
                    self.asked.set(self.asked.get() + 1);
                    Some(Usage { preemptions: self.preemptions, ran: self.time.get() })
                },
                || self.time.get(),
            );
            let late = self.time.get().saturating_sub(begin + answer);
            (switches.get(), came, late)
        }
    }

    #[test]
    fn a_short_answer_is_spun_for() {
        let mut waits = Polling::new(20_000);
        for _ in 0..100 {
            assert_eq!(waits.wait(PATIENCE / 2), (0, true, 0));
        }
    }

    #[test]
    fn alone_on_a_processor_the_whole_span_is_polled() {
        let mut waits = Polling::new(300);
        let mut switches = 0;
        for _ in 0..2 * TRY_AGAIN {
            let (more, came, late) = waits.wait(SPAN - 1_000);
            assert!(came && late <= waits.away, "{late} ns late");
            switches += more;
        }
        let doubled = (SPAN / PATIENCE).ilog2() + 1;
        assert!((1..=doubled).contains(&switches), "nobody was there {switches} times");
        let (_, came, _) = waits.wait(SPAN + 1_000);
        assert!(!came, "the span is over");
        assert_eq!(waits.wait(0), (0, false, 0), "so the next wait is not polled");
    }

    #[test]
    fn the_span_is_short_where_others_want_the_processor() {
        let mut waits = Polling::new(300);
        let mut came_in = |span, preempted| {
            waits.policy.skip = 0;
            waits.preemptions += preempted;
            let (_, came, _) = waits.wait(span);
            // Time in which it polls, however the wait ended.
            waits.time.set(waits.time.get() + 4_000_000);
            came
        };
        assert!((0..10).all(|_| came_in(SPAN - 1_000, 0)));
        assert!(came_in(SPAN - 1_000, 20), "nobody was seen before this wait was over");
        assert!((0..10).all(|_| !came_in(SPAN - 1_000, 20)));
        assert!((0..10).all(|_| came_in(SPAN_AMONG_OTHERS - 1_000, 20)));
        // A wait that is polled for in vain is among those after which the kernel is asked.
        assert!(
            (0..10).any(|_| came_in(SPAN - 1_000, 0)),
            "who is alone again is so for the whole span"
        );
    }

    #[test]
    fn what_is_used_is_asked_only_after_a_wait_that_took_something_from_others() {
        let mut waits = Polling::new(300);
        for (span, asked) in [(SPAN_AMONG_OTHERS / 2, 0), (SPAN - 1_000, 1), (SPAN + 1_000, 2)] {
            waits.time.set(waits.time.get() + 10_000_000);
            waits.wait(span);
            assert_eq!(waits.asked.get(), asked, "after {span} ns");
        }
    }

    #[test]
    fn who_was_alone_and_met_somebody_gives_way_as_soon_as_at_first() {
        let mut waits = Polling::new(300);
        for _ in 0..5 {
            waits.wait(SPAN - 1_000);
        }
        assert_eq!(waits.policy.patience, SPAN);
        waits.look = 2_000;
        waits.wait(SPAN - 1_000);
        assert_eq!(waits.policy.patience, PATIENCE, "the processor was taken away");
    }

    #[test]
    fn who_waits_among_others_gives_way_sooner_each_time_and_looks_again() {
        let mut waits = Polling::new(20_000);
        for halved in 1..TRY_AGAIN {
            assert_eq!(waits.wait(15_000).0, 1);
            assert_eq!(waits.policy.patience, (PATIENCE >> halved).max(LEAST_PATIENCE));
        }
        assert_eq!(waits.wait(PATIENCE / 2), (0, true, 0), "once in a while it is spun for");
        assert_eq!(waits.policy.patience, PATIENCE);
    }

    #[test]
    fn an_end_that_does_not_answer_is_not_waited_for_among_others() {
        for away in [20_000, 10 * TAKEN_AWAY] {
            let mut waits = Polling::new(away);
            let (switches, came, _) = waits.wait(1_000_000_000);
            assert_eq!((switches, came), (MOST_TURNS, false));
            assert_eq!(waits.wait(0), (0, false, 0));
        }
    }

    /// How many of 10,000 waits are polled if the tries end so by turns.
    fn polled(outcomes: &[Outcome]) -> usize {
        let mut policy = SpinPolicy::new();
        let mut tries = outcomes.iter().cycle();
        let waits = (0..10_000).filter(|_| {
            policy.tries()
                && tries.next().is_some_and(|&outcome| {
                    policy.learn(outcome);
                    true
                })
        });
        waits.count()
    }

    #[test]
    fn who_polls_in_vain_more_often_than_not_hardly_polls() {
        use Outcome::{Came, DidNot, TakenAway};
        assert_eq!(polled(&[Came]), 10_000);
        assert_eq!(polled(&[Came, Came, DidNot]), 7_500);
        assert!(polled(&[Came, DidNot, DidNot]) < 200);
        assert!(polled(&[TakenAway]) < 100);
        // And who has learned so learns the contrary as soon.
        let mut policy = SpinPolicy::new();
        for _ in 0..20 {
            policy.learn(DidNot);
        }
        let waits = (1..).find(|_| {
            policy.tries() && {
                policy.learn(Came);
                policy.penalty == 1
            }
        });
        assert!(waits.is_some_and(|waits| waits < 3 * MOST_SKIPPED));
    }

    #[test]
    fn who_looks_at_many_connections_gives_way_as_soon() {
        for (each, look) in [(1, 10), (40, 400)] {
            let mut waits = Polling::new(20_000);
            (waits.each, waits.look) = (each, look);
            waits.policy.patience = LEAST_PATIENCE;
            let begin = waits.time.get();
            // It comes as soon as the processor is back.
            assert_eq!(waits.wait(15_000), (1, true, waits.time.get() - begin - 15_000));
            let spun = waits.time.get() - begin - waits.away;
            assert!(spun <= 320 + 2 * look, "{spun} ns with {each} connections");
        }
    }

    #[test]
    fn who_was_alone_is_so_no_more_once_somebody_was_met() {
        let mut waits = Polling::new(300);
        assert_eq!(waits.wait(2 * PATIENCE), (1, true, 0));
        assert_eq!(waits.policy.patience, 2 * PATIENCE);
        waits.away = 20_000;
        // The response comes in the spin after the turn, which is no reason to be patient again.
        assert_eq!(waits.wait(2 * PATIENCE + waits.away + 1_000), (1, true, 0));
        assert_eq!(waits.policy.patience, PATIENCE / 2);
    }

    #[test]
    fn an_answer_that_came_while_the_processor_was_away_is_seen() {
        let mut waits = Polling::new(2 * TOO_LONG);
        let (switches, came, _) = waits.wait(TOO_LONG);
        assert_eq!((switches, came), (1, true), "given");
        let mut waits = Polling::new(20_000);
        waits.look = 2 * TAKEN_AWAY / u64::from(LOOKS);
        let (switches, came, _) = waits.wait(2 * TAKEN_AWAY + 1);
        assert_eq!((switches, came), (0, true), "taken");
    }

    #[test]
    fn who_keeps_the_processor_gives_it_to_nobody_however_long_it_takes() {
        let mut waits = Polling::new(2 * TOO_LONG);
        waits.wait(TOO_LONG);
        assert_eq!(waits.policy.rest, 2, "the next rest is longer");
        let (switches, came, _) = waits.wait(SPAN * 3);
        assert_eq!((switches, came), (0, false));
        waits.time.set(waits.policy.rests_until);
        waits.away = 20_000;
        waits.policy.skip = 0;
        assert_eq!(waits.wait(15_000).0, 1);
        assert_eq!(waits.policy.rest, 1, "somebody was there who gave it back soon");
    }

    #[test]
    fn somebody_who_computes_is_given_the_processor_seldom() {
        let away = 4_000_000;
        let mut waits = Polling::new(away);
        assert_eq!(waits.wait(20_000).0, 1);
        assert_eq!(waits.wait(20_000), (0, true, 0), "it is kept, and the whole span is spun");
        waits.look = 1_000;
        let (mut lost, begin) = (0, waits.time.get());
        while waits.time.get() < begin + 5_000_000_000 {
            lost += u64::from(waits.wait(20_000).0) * away;
        }
        let share = lost as f64 / (waits.time.get() - begin) as f64;
        assert!(lost > 0 && share < 0.01, "{share} of the time");
    }

    #[test]
    fn a_jump_of_the_clock_ends_the_polling() {
        let time = Cell::new(0);
        let mut policy = SpinPolicy::new();
        let came = policy.poll(
            1,
            || false,
            || panic!("the processor was taken, not given"),
            || None,
            || {
                time.set(time.get() + TAKEN_AWAY + 1);
                time.get()
            },
        );
        assert!(!came && policy.skip == 1);
    }
}
