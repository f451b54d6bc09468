//! Where the warm-up of a run ends.

/// How much of the beginning of a series must be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUp {
    /// Elements to leave out.
    pub truncated: usize,
    /// Whether the rule found an end of the warm-up within the first half. If it did not, the
    /// series still changes where it is cut, and its mean is that of a transient.
    pub found: bool,
}

/// The truncation point of least marginal standard error (White, "An effective truncation
/// heuristic for bias reduction in simulation output", Simulation 69, 1997): the number of leading
/// elements without which the squared standard error of the mean of the rest, taken as if its
/// elements were independent, is least; the fewest if several are. Never more than half: a point
/// beyond says that the series is too short, not where its warm-up ends.
pub fn mser(series: &[f64]) -> WarmUp {
    let bound = series.len() / 2;
    // Deviations from a value within the series, so that the difference of squares keeps digits.
    let origin = series.iter().sum::<f64>() / series.len().max(1) as f64;
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut truncated, mut least) = (0, f64::INFINITY);
    for (index, value) in series.iter().enumerate().rev() {
        let deviation = value - origin;
        sum += deviation;
        squares += deviation * deviation;
        let left = (series.len() - index) as f64;
        let error = (squares - sum * sum / left).max(0.0) / (left * left);
        if index <= bound && error <= least {
            (truncated, least) = (index, error);
        }
    }
    WarmUp { truncated, found: series.len() >= 4 && truncated < bound }
}

/// [`mser`] over the means of each five consecutive samples (MSER-5: White, Cobb and Spratt, "A
/// comparison of five steady-state truncation heuristics for simulation", WSC 2000); `truncated`
/// counts samples. For raw samples: the series of a recorder already consists of such means, or,
/// in a long run, of means of 10, 20, ... samples, and goes into [`mser`] itself.
pub fn mser5(samples: &[f64]) -> WarmUp {
    let means: Vec<f64> =
        samples.chunks_exact(5).map(|five| five.iter().sum::<f64>() / 5.0).collect();
    let warm_up = mser(&means);
    WarmUp { truncated: 5 * warm_up.truncated, ..warm_up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_kernel::Streams;

    #[test]
    fn a_step_is_cut_where_it_ends() {
        // Without the three nines all values are equal, so that the error is zero, and not before
        // that.
        let series = [9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(mser(&series), WarmUp { truncated: 3, found: true });
    }

    #[test]
    fn what_does_not_change_is_not_cut() {
        assert_eq!(mser(&[2.5; 40]), WarmUp { truncated: 0, found: true });
    }

    #[test]
    fn what_keeps_growing_has_no_end_of_warm_up() {
        let series: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(mser(&series), WarmUp { truncated: 100, found: false });
    }

    #[test]
    fn too_short_a_series_finds_nothing() {
        for length in 0..4 {
            assert!(!mser(&vec![1.0; length]).found);
        }
    }

    #[test]
    fn five_samples_count_as_one() {
        let mut noise = Streams::new(7).stream("noise", 0);
        let sample = |index: usize| if index < 100 { 50.0 } else { 0.0 };
        let samples: Vec<f64> = (0..1000).map(|index| sample(index) + noise.unit()).collect();
        let warm_up = mser5(&samples);
        assert!(warm_up.found && warm_up.truncated.is_multiple_of(5));
        assert!((100..=130).contains(&warm_up.truncated), "{warm_up:?}");
    }

    proptest! {
        #[test]
        fn it_is_the_definition(series in prop::collection::vec(-1e3_f64..1e3, 4..60)) {
            let error = |cut: usize| {
                let rest = &series[cut..];
                let mean = rest.iter().sum::<f64>() / rest.len() as f64;
                let squares: f64 = rest.iter().map(|x| (x - mean) * (x - mean)).sum();
                squares / (rest.len() * rest.len()) as f64
            };
            let found = error(mser(&series).truncated);
            let least = (0..=series.len() / 2).map(error).fold(f64::INFINITY, f64::min);
            prop_assert!(found <= least * (1.0 + 1e-9) + 1e-9);
        }
    }
}
