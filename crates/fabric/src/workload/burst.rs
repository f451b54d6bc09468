//! Bursts: several packets that a program submits together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Geometric, Stream};
use weft_units::{PositiveCount, Span};

use super::WorkloadError;

/// Packets come in bursts. The arrival process then sets the times of the bursts; its mean interval
/// is multiplied by the mean length of a burst, so that the load stays the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstSettings {
    /// How many packets a burst has.
    pub length: BurstLength,
    /// Whether the packets of a burst go to one target.
    #[serde(default)]
    pub targets: BurstTargets,
    /// From one packet of a burst to the next; "0 ns" submits all of them together. Intervals of
    /// the arrival process then run from the last packet of a burst to the first of the next,
    /// shortened by the mean duration of a burst, so that the load stays the same.
    #[serde(default)]
    pub spacing: Span,
}

/// The law of the number of packets in a burst.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BurstLength {
    /// Each length from the first to the second, equally likely (Clint 4.1: 1 to 5).
    Uniform(PositiveCount, PositiveCount),
    /// Always this length.
    Fixed(PositiveCount),
    /// At least one packet and, after each, another with the same probability; the value is the
    /// mean length, from 1.
    Geometric(f64),
}

/// The targets of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BurstTargets {
    /// One target for all packets of a burst.
    #[default]
    Same,
    /// A target for each packet.
    Independent,
}

/// Bursts that draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    length: BurstLaw,
    pub same_target: bool,
    pub spacing: u64,
}

/// A law of the number of packets in a burst that can be drawn from.
#[derive(Clone, Copy, Debug)]
pub struct BurstLaw(Law);

#[derive(Clone, Copy, Debug)]
enum Law {
    Uniform { least: u64, choices: u64 },
    Geometric(Geometric),
}

impl BurstSettings {
    /// The mean number of packets in a burst.
    pub fn mean_length(&self) -> f64 {
        match self.length {
            BurstLength::Uniform(least, most) => {
                (f64::from(least.get()) + f64::from(most.get())) / 2.0
            }
            BurstLength::Fixed(length) => f64::from(length.get()),
            BurstLength::Geometric(mean) => mean,
        }
    }

    /// The mean span from the first packet of a burst to the last, in picoseconds.
    pub(super) fn mean_duration(&self) -> f64 {
        (self.mean_length() - 1.0) * self.spacing.0 as f64
    }

    pub(super) fn build(&self) -> Result<Burst, WorkloadError> {
        let length = self.length.law("burst.length")?;
        let same_target = self.targets == BurstTargets::Same;
        Ok(Burst { length, same_target, spacing: self.spacing.0 })
    }
}

impl BurstLength {
    /// Ready to be drawn from.
    ///
    /// # Errors
    /// An impossible length, under the name `key`.
    pub(super) fn law(&self, key: &str) -> Result<BurstLaw, WorkloadError> {
        let law = match *self {
            BurstLength::Uniform(least, most) if least > most => {
                let value = format!("[{}, {}]", least.get(), most.get());
                let accepted = "the least length, then the greatest, such as [1, 5]";
                return Err(WorkloadError::new(&format!("{key}.uniform"), value, accepted));
            }
            BurstLength::Uniform(least, most) => {
                let choices = u64::from(most.get() - least.get()) + 1;
                Law::Uniform { least: u64::from(least.get()), choices }
            }
            BurstLength::Fixed(length) => {
                Law::Uniform { least: u64::from(length.get()), choices: 1 }
            }
            BurstLength::Geometric(mean) if (1.0..=1e9).contains(&mean) => {
                Law::Geometric(Geometric::new(1.0 / mean))
            }
            BurstLength::Geometric(mean) => {
                let accepted = "a mean number of packets, 1 to 1e9";
                return Err(WorkloadError::new(&format!("{key}.geometric"), mean, accepted));
            }
        };
        Ok(BurstLaw(law))
    }
}

impl Burst {
    /// The length of the next burst, at least 1.
    pub fn draw(&self, random: &mut Stream) -> u64 {
        self.length.draw(random)
    }
}

impl BurstLaw {
    /// The length of the next burst, at least 1.
    pub fn draw(&self, random: &mut Stream) -> u64 {
        match self.0 {
            Law::Uniform { least, choices } => least + random.below(choices),
            Law::Geometric(law) => random.geometric(law),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    fn count(count: u32) -> PositiveCount {
        PositiveCount::new(count).unwrap()
    }

    fn bursts(length: BurstLength) -> BurstSettings {
        BurstSettings { length, targets: BurstTargets::Same, spacing: Span::ZERO }
    }

    #[test]
    fn lengths_have_the_moments_of_their_law() {
        let laws = [
            (BurstLength::Uniform(count(1), count(5)), 2.0),
            (BurstLength::Fixed(count(4)), 0.0),
            (BurstLength::Geometric(3.0), 6.0),
            (BurstLength::Geometric(1.0), 0.0),
        ];
        for (length, expected) in laws {
            let settings = bursts(length);
            let burst = settings.build().unwrap();
            let mut random = Streams::new(1).stream("lengths", 0);
            let lengths: Vec<u64> = (0..200_000).map(|_| burst.draw(&mut random)).collect();
            let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
            let squares = lengths.iter().map(|length| (*length as f64 - mean).powi(2));
            let variance = squares.sum::<f64>() / lengths.len() as f64;
            assert!((mean / settings.mean_length() - 1.0).abs() < 0.01, "{settings:?}: {mean}");
            assert!((variance - expected).abs() < 0.1, "{settings:?}: variance {variance}");
            assert!(lengths.iter().all(|length| *length >= 1));
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let error = |length| bursts(length).build().unwrap_err().to_string();
        assert_eq!(
            error(BurstLength::Uniform(count(5), count(1))),
            "burst.length.uniform = [5, 1]: accepted is the least length, then the greatest, \
             such as [1, 5]"
        );
        assert_eq!(
            error(BurstLength::Geometric(0.5)),
            "burst.length.geometric = 0.5: accepted is a mean number of packets, 1 to 1e9"
        );
    }
}
