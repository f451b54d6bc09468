//! Whether a program that asks in vain, again and again, had better sleep: where others want the processor, what
//! it burns by asking is theirs, and what it waits for may be theirs to send.
//!
//! A program that computes and asks now and then must never sleep, so it is looked at how much processor time
//! went by while it asked, and not only how much time.

use std::time::Duration;

/// The time, and the processor time of this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since some beginning.
    pub time: Duration,
    /// Of this thread.
    pub used: Duration,
}

/// So long so many questions in vain take at least where somebody else was on the processor in between: with
/// nobody there they take a tenth.
const CROWDED: Duration = Duration::from_micros(150);
/// So long it is believed that others want the processor.
const BELIEVED: Duration = Duration::from_millis(100);
/// After so many questions in vain, one after the other, a program among others sleeps.
const QUESTIONS: u32 = 16;
/// Unless it has used so much processor time for them: then it does something beside asking.
const ASKING: Duration = Duration::from_micros(40);

/// What is known of a program's asking.
#[derive(Debug, Default)]
pub struct Patience {
    /// When processor time was last looked at.
    last: Moment,
    believed_until: Option<Duration>,
    /// Questions in vain, one after the other, and the moment of the first.
    vain: u32,
    first: Moment,
}

impl Patience {
    /// Something has come.
    #[inline(always)]
    pub const fn came(&mut self) {
        self.vain = 0;
    }

    /// Whether others are believed to want the processor.
    #[inline(always)]
    pub const fn is_among_others(&self) -> bool {
        self.believed_until.is_some()
    }

    /// To be called after some questions in vain, which began at `since`.
    pub fn consider(&mut self, since: Duration, now: impl Fn() -> Moment, time: Duration) {
        if time.saturating_sub(since) < CROWDED {
            return;
        }
        let now = now();
        let [time, used] =
            [now.time - self.last.time.min(now.time), now.used - self.last.used.min(now.used)];
        self.last = now;
        if used * 2 < time {
            self.believed_until = Some(now.time + BELIEVED);
        }
    }

    /// A question in vain of a program among others: whether it had better sleep now.
    pub fn sleeps(&mut self, now: impl Fn() -> Moment) -> bool {
        self.vain += 1;
        if self.vain == 1 {
            self.first = now();
        }
        if self.vain < QUESTIONS {
            return false;
        }
        self.vain = 0;
        let now = now();
        if self.believed_until.is_none_or(|until| now.time > until) {
            self.believed_until = None;
            return false;
        }
        now.used - self.first.used.min(now.used) < ASKING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_us: u64, used_us: u64) -> Moment {
        Moment { time: Duration::from_micros(time_us), used: Duration::from_micros(used_us) }
    }

    fn considered(patience: &mut Patience, since: u64, now: Moment) {
        patience.consider(Duration::from_micros(since), || now, now.time);
    }

    /// Asks until it is told to sleep, or so often; each question takes so much.
    fn asks(patience: &mut Patience, from: Moment, each: Moment, often: u32) -> Option<u32> {
        (1..=often).find(|count| {
            let used = from.used + each.used * *count;
            patience.sleeps(|| Moment { time: from.time + each.time * *count, used })
        })
    }

    #[test]
    fn who_is_alone_never_sleeps() {
        let mut patience = Patience::default();
        considered(&mut patience, 0, at(10, 10));
        assert!(!patience.is_among_others());
        // Nor who computes between two questions, however long it takes.
        considered(&mut patience, 0, at(10_000, 9_000));
        assert!(!patience.is_among_others());
    }

    #[test]
    fn who_is_among_others_sleeps_after_some_questions_and_again() {
        let mut patience = Patience::default();
        considered(&mut patience, 0, at(1000, 100));
        assert!(patience.is_among_others());
        assert_eq!(asks(&mut patience, at(1000, 100), at(5, 1), 100), Some(QUESTIONS));
        patience.sleeps(|| at(2000, 200));
        patience.came();
        assert_eq!(asks(&mut patience, at(2000, 200), at(5, 1), 100), Some(QUESTIONS));
    }

    #[test]
    fn who_computes_among_others_does_not_sleep() {
        let mut patience = Patience::default();
        considered(&mut patience, 0, at(1000, 100));
        assert_eq!(asks(&mut patience, at(1000, 100), at(100, 50), 100), None);
    }

    #[test]
    fn what_was_seen_long_ago_is_believed_no_more() {
        let mut patience = Patience::default();
        considered(&mut patience, 0, at(1000, 100));
        assert_eq!(asks(&mut patience, at(200_000, 100), at(5, 1), 100), None);
        assert!(!patience.is_among_others());
    }
}
