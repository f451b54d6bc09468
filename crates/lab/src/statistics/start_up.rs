//! The bias of a mean that includes the beginning of a run, when queues fill.

use super::{Estimate, WarmUp, mser, replications};

/// The largest number of parts of a series that is kept: enough to see where it becomes steady.
const PARTS: usize = 256;

/// The means of at most 256 parts of a series, each of equally many elements; what does not fill the
/// last one is left out.
pub fn in_parts(series: &[f64]) -> Vec<f64> {
    let size = series.len().div_ceil(PARTS).max(1);
    series.chunks_exact(size).map(|part| part.iter().sum::<f64>() / size as f64).collect()
}

/// By how much the mean over whole series differs from the mean after their warm-up: the bias that
/// starting from empty queues gives it, negative if the mean is too low. `series` are the batch
/// means of replications, oldest first, in any unit. The warm-up is that of the series averaged over
/// replications, in which chance is smaller and a common beginning shows (Welch, "The statistical
/// analysis of simulation results", 1983), where [`mser`] ends it. `None` if no warm-up is found, or
/// if what it would cut is no different from what other parts of the series are by chance.
pub fn start_up_bias(series: &[&[f64]]) -> Option<f64> {
    let length = series.iter().map(|own| own.len()).min()?;
    let at = |index: usize| series.iter().map(|own| own[index]).sum::<f64>() / series.len() as f64;
    let average: Vec<f64> = (0..length).map(at).collect();
    let WarmUp { truncated, .. } = mser(&average);
    let (cut, rest) = average.split_at(truncated);
    let (beginning, steady) = (replications(cut)?.mean, parts(rest, cut.len())?);
    let differs = (beginning - steady.mean).abs() > steady.half_width_95?;
    let whole = replications(&average)?.mean;
    differs.then_some(whole - steady.mean)
}

/// The mean of a series, and the width of the interval in which the mean of this many consecutive
/// elements of it lies with a probability of 95 %.
fn parts(series: &[f64], length: usize) -> Option<Estimate> {
    let means: Vec<f64> = series
        .chunks_exact(length.max(1))
        .filter_map(|part| Some(replications(part)?.mean))
        .collect();
    let of_parts = replications(&means)?;
    let one = libm::sqrt(means.len() as f64);
    let half_width_95 = of_parts.half_width_95.map(|half_width| half_width * one);
    let mean = replications(series)?.mean;
    Some(Estimate { mean, half_width_95, ..of_parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_kernel::Streams;

    /// Series of 400 around 10, of which the first 40 rise from 0; four of them.
    fn rising(seed: u64, depth: f64) -> Vec<Vec<f64>> {
        let streams = Streams::new(seed);
        (0..4)
            .map(|number| {
                let mut random = streams.stream("noise", number);
                let noise = |_| (random.below(2_000) as f64 - 1_000.0) * 1e-3;
                let level = |step: usize| depth * (1.0 - step.min(40) as f64 / 40.0);
                (0..400)
                    .map(noise)
                    .enumerate()
                    .map(|(step, one)| 10.0 - level(step) + one)
                    .collect()
            })
            .collect()
    }

    fn bias(series: &[Vec<f64>]) -> Option<f64> {
        start_up_bias(&series.iter().map(|own| &own[..]).collect::<Vec<_>>())
    }

    #[test]
    fn a_long_series_is_kept_in_parts_of_equal_size() {
        let series: Vec<f64> = (0..1_001).map(f64::from).collect();
        let parts = in_parts(&series);
        assert_eq!((parts.len(), parts[0], parts[249]), (250, 1.5, 997.5));
        assert_eq!(in_parts(&[2.0, 4.0]), [2.0, 4.0]);
        assert!(in_parts(&[]).is_empty());
    }

    /// The 40 elements lack 205 together, of 400.
    #[test]
    fn a_start_from_empty_shows_as_a_mean_that_is_too_low() {
        let bias = bias(&rising(1, 10.0)).unwrap();
        assert!((bias + 205.0 / 400.0).abs() < 0.06, "{bias}");
    }

    #[test]
    fn series_too_short_have_no_start_up() {
        assert_eq!(start_up_bias(&[]), None);
        assert_eq!(start_up_bias(&[&[]]), None);
        assert_eq!(start_up_bias(&[&[1.0, 2.0]]), None);
    }

    proptest! {
        /// Without a start-up hardly any is found, and what is found is small.
        #[test]
        fn noise_has_hardly_any_bias(seed: u64) {
            let bias = bias(&rising(seed, 0.0)).unwrap_or(0.0);
            prop_assert!(bias.abs() < 0.1, "{}", bias);
        }
    }
}
