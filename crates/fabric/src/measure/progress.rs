//! The counters at equal steps of a run, from which the verdict on the run is formed.

use serde::{Deserialize, Serialize};
use weft_units::Time;

/// The measured window is divided into this many equal steps.
const STEPS: usize = 64;

/// The counters of one channel at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The instant.
    pub time: Time,
    /// Packets submitted by the workload until then.
    pub generated: u64,
    /// Packets delivered until then.
    pub delivered: u64,
    /// Packets given up until then.
    pub abandoned: u64,
}

impl Progress {
    /// Packets generated and neither delivered nor given up.
    pub fn backlog(&self) -> u64 {
        self.generated.saturating_sub(self.delivered).saturating_sub(self.abandoned)
    }
}

/// Samples the counters at the ends of equal steps of a window. The counters only change at
/// events, so what they hold just before the first event at or after an instant is exact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sampler {
    #[serde(with = "instant")]
    from: Time,
    #[serde(with = "instant")]
    until: Time,
    #[serde(with = "instant")]
    due: Time,
    samples: Vec<Progress>,
}

/// A time that may be [`Time::NEVER`], which is none that could be read again.
mod instant {
    use super::Time;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(time: &Time, s: S) -> Result<S::Ok, S::Error> {
        Some(*time).filter(|time| *time < Time::NEVER).serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
        Option::<Time>::deserialize(d).map(|time| time.unwrap_or(Time::NEVER))
    }
}

impl Default for Sampler {
    /// A sampler without a window, which takes no sample.
    fn default() -> Sampler {
        let (from, until) = (Time::NEVER, Time::NEVER);
        Sampler { from, until, due: Time::NEVER, samples: Vec::new() }
    }
}

impl Sampler {
    pub(super) fn new(from: Time, until: Time) -> Sampler {
        if until <= from {
            return Sampler::default();
        }
        Sampler { from, until, due: from, samples: Vec::new() }
    }

    /// When the next sample is due; [`Time::NEVER`] if none is.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Whether a sample is due at an instant.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// Takes every sample that is due at `now`, which is the time of `counters`.
    #[cold]
    #[inline(never)]
    pub(super) fn take(&mut self, counters: Progress) {
        while counters.time >= self.due && self.samples.len() <= STEPS {
            self.samples.push(Progress { time: self.due, ..counters });
            self.due = self.end_of(self.samples.len());
        }
    }

    fn end_of(&self, step: usize) -> Time {
        if step > STEPS {
            return Time::NEVER;
        }
        let window = u128::from(self.until.0 - self.from.0);
        Time(self.from.0 + (window * step as u128 / STEPS as u128) as u64)
    }

    pub(super) fn into_samples(self) -> Vec<Progress> {
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, generated: u64) -> Progress {
        Progress { time: Time(time), generated, delivered: 1, abandoned: 1 }
    }

    #[test]
    fn a_window_has_its_two_ends_and_what_lies_between() {
        let mut sampler = Sampler::new(Time(100), Time(740));
        assert!(!sampler.is_due(Time(99)) && sampler.is_due(Time(100)));
        sampler.take(at(125, 5));
        assert_eq!(sampler.samples, [at(100, 5), at(110, 5), at(120, 5)]);
        sampler.take(at(10_000, 6));
        assert_eq!(sampler.samples.len(), 65);
        assert_eq!(sampler.samples[64], at(740, 6));
        assert!(!sampler.is_due(Time(20_000)));
    }

    #[test]
    fn a_window_shorter_than_its_steps_ends_all_the_same() {
        let mut sampler = Sampler::new(Time(0), Time(3));
        sampler.take(at(3, 0));
        assert_eq!(sampler.samples.len(), 65);
    }

    #[test]
    fn without_a_window_nothing_is_due() {
        assert!(!Sampler::default().is_due(Time(5)));
        assert!(!Sampler::new(Time(5), Time(5)).is_due(Time(5)));
    }

    #[test]
    fn a_backlog_never_underflows() {
        assert_eq!((at(0, 7).backlog(), at(0, 1).backlog()), (5, 0));
    }
}
