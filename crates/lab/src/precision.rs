//! How many runs a point needs until its interval is as narrow as asked.
//!
//! A sequential procedure: after every round the interval over the runs so far is compared with
//! what is asked, and the number of runs that would have been enough, at the present scatter, is
//! made next, at most twice as many as before (Law, Simulation Modeling and Analysis, 9.4.1). The
//! rule reads the runs in the order of their seeds, so that the number of runs is a function of the
//! study alone.

use std::sync::Arc;

use weft_fabric::measure::Latency;

use crate::experiment::{PreciseQuantity, PrecisionSettings};
use crate::simulate::ChannelRun;
use crate::statistics::{Verdict, replications};

/// Fewer runs than this are not judged: their interval is itself a guess.
pub const LEAST_RUNS: u32 = 5;

/// How many more runs a point needs; `None` if it has enough.
pub fn wanted(asked: PrecisionSettings, runs: &[Arc<[ChannelRun]>]) -> Option<u32> {
    let made = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let all = runs.iter().flat_map(|run| run.iter());
    let beyond = [
        Verdict::Saturated,
        Verdict::PartlyStuck,
        Verdict::Stuck,
        Verdict::Unreachable,
        Verdict::Stopped,
    ];
    if made >= asked.most.get() || all.clone().any(|run| beyond.contains(&run.judgement.verdict)) {
        return None;
    }
    let channels = runs.first().map_or(0, |run| run.len());
    let of_channel = |channel: usize| {
        let values: Vec<f64> =
            runs.iter().filter_map(|run| value(&run[channel], asked.quantity)).collect();
        needed(&values, asked.relative.get())
    };
    let needed = (0..channels).filter_map(of_channel).max()?;
    Some(needed.clamp(made + 1, made.saturating_mul(2)).min(asked.most.get()))
}

/// How many values would have an interval of a relative half width, if they scattered as these do;
/// `None` if these are enough, or have no mean to which a width could be relative.
fn needed(values: &[f64], relative: f64) -> Option<u32> {
    let estimate = replications(values)?;
    let width = estimate.half_width_95? / estimate.mean.abs();
    if !width.is_finite() || width <= relative {
        return None;
    }
    let excess = width / relative.max(f64::MIN_POSITIVE);
    // Saturates where a number of runs has no more digits.
    Some(libm::ceil(values.len() as f64 * excess * excess) as u32)
}

fn value(run: &ChannelRun, quantity: PreciseQuantity) -> Option<f64> {
    let latency = match quantity {
        PreciseQuantity::AcceptedLoad => return Some(run.accepted_load()),
        PreciseQuantity::Queueing => Latency::Queueing,
        PreciseQuantity::FirstAttempt => Latency::FirstAttempt,
        PreciseQuantity::OneWay => Latency::OneWay,
        PreciseQuantity::Transit => Latency::Transit,
        PreciseQuantity::RoundTrip => Latency::RoundTrip,
    };
    run.means[latency as usize].map(|estimate| estimate.mean)
}

#[cfg(test)]
mod tests {
    use super::needed;

    #[test]
    fn the_number_goes_with_the_square_of_the_width() {
        // Mean 10, standard deviation 1, five values: t = 2.776, half width 1.2415.
        let values = [9.0, 9.5, 10.0, 10.5, 11.0];
        let width = 2.776_445 * libm::sqrt(0.625 / 5.0) / 10.0;
        assert_eq!(needed(&values, width * 1.001), None);
        assert_eq!(needed(&values, width / 1.999), Some(20));
        assert_eq!(needed(&values, width / 2.999), Some(45));
    }

    #[test]
    fn what_never_varies_or_has_no_mean_needs_no_more() {
        assert_eq!(needed(&[3.0, 3.0, 3.0], 0.01), None);
        assert_eq!(needed(&[0.0, 0.0, 0.0], 0.01), None);
        assert_eq!(needed(&[], 0.01), None);
        assert_eq!(needed(&[1.0], 0.01), None);
    }
}
