//! Arrival processes: the span from one burst to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Geometric, Stream};
use weft_units::{Span, Time};

use super::WorkloadError;

/// How the intervals between a host's packets, or bursts of packets, vary about their mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalsSettings {
    /// Memoryless: exponential intervals.
    #[default]
    Poisson,
    /// Intervals uniform between `low` and `high`; without them, between zero and twice the mean
    /// (Clint 4.1: "the injection interval varies according to a uniform distribution").
    Uniform {
        /// The shortest interval, as a multiple of the mean.
        #[serde(default = "uniform_low")]
        low: f64,
        /// The longest interval, as a multiple of the mean; `low` and `high` add up to 2.
        #[serde(default = "uniform_high")]
        high: f64,
    },
    /// All intervals equal the mean. Each host starts at a random phase, because synchronised hosts
    /// would collide always or never.
    Constant,
    /// One trial in every slot of the channel, as in studies of slotted switches (Karol, Hluchyj
    /// and Morgan, IEEE Trans. Commun. 35(12) 1987). The load is the probability of a packet in a
    /// slot, and so a fraction of the slots, gaps included, not of the link's bandwidth. Packets
    /// are submitted at the beginning of their slot. Only for channels with slots.
    Bernoulli,
}

fn uniform_low() -> f64 {
    0.0
}

fn uniform_high() -> f64 {
    2.0
}

/// An arrival process that draws.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arrivals {
    Poisson { mean: f64 },
    Uniform { low: u64, choices: u64 },
    Constant(Interval),
    Bernoulli { slot: u64, law: Geometric },
}

/// An interval that need not be a whole number of picoseconds; it does not drift.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    whole: u64,
    /// In parts of 2^64 of a picosecond, as is what has been carried over.
    part: u64,
    carried: u64,
}

impl ArrivalsSettings {
    /// Every process with its default settings, for tests that hold all of them to the same laws.
    pub fn all() -> [ArrivalsSettings; 5] {
        let (low, high) = (uniform_low(), uniform_high());
        [
            ArrivalsSettings::Poisson,
            ArrivalsSettings::Uniform { low, high },
            ArrivalsSettings::Uniform { low: 0.5, high: 1.5 },
            ArrivalsSettings::Constant,
            ArrivalsSettings::Bernoulli,
        ]
    }

    /// Whether arrivals fall on the beginnings of slots.
    pub(super) fn is_slotted(&self) -> bool {
        *self == ArrivalsSettings::Bernoulli
    }

    /// The process with a mean interval in picoseconds, above zero and finite. `slot` must be
    /// there if the process is slotted.
    pub(super) fn build(&self, mean: f64, slot: Option<Span>) -> Result<Arrivals, WorkloadError> {
        Ok(match *self {
            ArrivalsSettings::Poisson => Arrivals::Poisson { mean },
            ArrivalsSettings::Uniform { low, high } => {
                let within = low >= 0.0 && high >= low && (low + high - 2.0).abs() < 1e-9;
                if !within {
                    let value = format!("{{ low = {low}, high = {high} }}");
                    let accepted = "0 <= low <= high with low + high = 2, so that the load holds";
                    return Err(WorkloadError::new("arrivals.uniform", value, accepted));
                }
                let low = libm::round(low * mean) as u64;
                let choices = (libm::round(high * mean) as u64 - low).saturating_add(1);
                Arrivals::Uniform { low, choices }
            }
            ArrivalsSettings::Constant => Arrivals::Constant(Interval::new(mean)),
            ArrivalsSettings::Bernoulli => {
                let accepted = "poisson, uniform or constant on a channel without slots";
                let slot = slot
                    .filter(|slot| slot.0 > 0)
                    .ok_or_else(|| WorkloadError::new("arrivals", "bernoulli", accepted))?;
                let probability = slot.0 as f64 / mean;
                if probability > 1.0 {
                    let accepted = "a mean of at least one slot from a packet or burst to the next";
                    let value = format!("bernoulli with a probability of {probability}");
                    return Err(WorkloadError::new("arrivals", value, accepted));
                }
                Arrivals::Bernoulli { slot: slot.0, law: Geometric::new(probability) }
            }
        })
    }
}

impl Arrivals {
    /// The slot at whose beginnings all arrivals are, if they are.
    pub fn slot(&self) -> Option<Span> {
        if let Arrivals::Bernoulli { slot, .. } = self { Some(Span(*slot)) } else { None }
    }

    /// The time of the first arrival.
    pub fn first(&mut self, random: &mut Stream) -> Time {
        match self {
            Arrivals::Constant(interval) => Time(random.below(interval.whole.saturating_add(1))),
            // The first trial is that of the slot at time zero.
            Arrivals::Bernoulli { slot, .. } => {
                let slot = *slot;
                Time(self.gap(random) - slot)
            }
            _ => Time(self.gap(random)),
        }
    }

    /// The next interval in picoseconds. It saturates: no run is that long.
    #[inline]
    pub fn gap(&mut self, random: &mut Stream) -> u64 {
        match self {
            Arrivals::Poisson { mean } => (random.exponential() * *mean + 0.5) as u64,
            Arrivals::Uniform { low, choices } => *low + random.below(*choices),
            Arrivals::Constant(interval) => interval.next(),
            Arrivals::Bernoulli { slot, law } => random.geometric(*law).saturating_mul(*slot),
        }
    }

    /// The times of the next arrivals after the last one, which saturate. The law is looked at once for all of them.
    #[inline]
    pub fn follow(&mut self, last: Time, times: &mut [Time], random: &mut Stream) {
        match self {
            Arrivals::Poisson { mean } => {
                let mean = *mean;
                follow(last, times, || (random.exponential() * mean + 0.5) as u64);
            }
            Arrivals::Bernoulli { slot, law } => {
                let (slot, law) = (*slot, *law);
                follow(last, times, || random.geometric(law).saturating_mul(slot));
            }
            Arrivals::Uniform { .. } | Arrivals::Constant(_) => {
                follow(last, times, || self.gap(random));
            }
        }
    }
}

/// Times with these gaps between them.
#[inline(always)]
fn follow(mut last: Time, times: &mut [Time], mut gap: impl FnMut() -> u64) {
    for time in times {
        last = Time(last.0.saturating_add(gap()));
        *time = last;
    }
}

impl Interval {
    fn new(interval: f64) -> Interval {
        let whole = interval as u64;
        let part = (interval - whole as f64) * (1_u128 << 64) as f64;
        Interval { whole, part: part as u64, carried: 0 }
    }

    fn next(&mut self) -> u64 {
        let (carried, carry) = self.carried.overflowing_add(self.part);
        self.carried = carried;
        self.whole.saturating_add(u64::from(carry))
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    #[test]
    fn a_constant_interval_does_not_drift() {
        let mut interval = Interval::new(1_000.0 / 3.0);
        let sum: u64 = (0..3_000_000).map(|_| interval.next()).sum();
        assert!((999_999_999..=1_000_000_000).contains(&sum), "{sum}");
    }

    /// Mean and variance of the intervals, in units of the mean and of its square.
    #[test]
    fn intervals_have_the_moments_of_their_law() {
        const MEAN: f64 = 8_344_000.0 / 0.6;
        const SLOT: Span = Span(2_000_000);
        let skipped = 1.0 - SLOT.0 as f64 / MEAN;
        let variances = [1.0, 1.0 / 3.0, 1.0 / 12.0, 0.0, skipped];
        for (settings, expected) in ArrivalsSettings::all().iter().zip(variances) {
            let mut arrivals = settings.build(MEAN, Some(SLOT)).unwrap();
            let mut random = Streams::new(1).stream("intervals", 0);
            let gaps: Vec<f64> =
                (0..200_000).map(|_| arrivals.gap(&mut random) as f64 / MEAN).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let squares = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>();
            let variance = squares / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.01, "{settings:?}: mean {mean}");
            assert!((variance - expected).abs() < 0.015, "{settings:?}: variance {variance}");
        }
    }

    #[test]
    fn what_does_not_hold_the_load_is_refused() {
        let error = |settings: ArrivalsSettings, slot| {
            settings.build(1_000.0, slot).unwrap_err().to_string()
        };
        assert_eq!(
            error(ArrivalsSettings::Uniform { low: 0.5, high: 2.0 }, None),
            "arrivals.uniform = { low = 0.5, high = 2 }: accepted is 0 <= low <= high with \
             low + high = 2, so that the load holds"
        );
        assert_eq!(
            error(ArrivalsSettings::Bernoulli, None),
            "arrivals = bernoulli: accepted is poisson, uniform or constant on a channel \
             without slots"
        );
        let text = error(ArrivalsSettings::Bernoulli, Some(Span(1_500)));
        assert!(text.starts_with("arrivals = bernoulli with a probability of 1.5:"), "{text}");
    }
}
