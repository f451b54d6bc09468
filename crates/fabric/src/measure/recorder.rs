//! The statistics of one latency: count, exact sum, extremes, histogram, batch series.

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::{Histogram, Series};

/// Records one kind of span. Memory does not grow with the number of records: about 8 KiB for
/// each factor of two below the largest span (200 KiB at 10 µs) and 96 KiB for the series; nothing
/// is allocated before the first record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorder {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    histogram: Histogram,
    // By far the largest member, of which a finished run shows two numbers.
    #[serde(skip)]
    series: Series,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let (histogram, series) = (Histogram::default(), Series::default());
        Recorder { count: 0, sum: 0, min: u64::MAX, max: 0, histogram, series }
    }
}

/// How repeated spans differ from those recorded before.
#[derive(Clone, Copy)]
pub(super) struct Later {
    /// How much later they are.
    pub period: Span,
    /// How much longer they are.
    pub growth: Span,
}

impl Recorder {
    /// Records one span that became known at `now`. Calls are in the order of time.
    #[inline]
    pub fn record(&mut self, now: Time, span: Span) {
        self.count += 1;
        self.sum += u128::from(span.0);
        // One branch that is almost never taken, instead of two loads, moves and stores.
        if span.0 < self.min || span.0 > self.max {
            self.widen(span.0);
        }
        self.histogram.record(span.0);
        if self.count == self.series.full_at() {
            self.series.close(now, self.sum);
        }
    }

    /// Prefetches what recording a span writes.
    #[inline]
    pub fn prefetch(&self, span: Span) {
        self.histogram.prefetch(span.0);
    }

    /// Records spans again that were recorded last, `times` times.
    pub(super) fn repeat(
        &mut self,
        seen: &[(Time, Span)],
        Later { period, growth }: Later,
        times: u64,
    ) {
        let count = seen.len() as u64;
        if count == 0 || times == 0 {
            return;
        }
        let sums: Vec<u128> = std::iter::once(0)
            .chain(seen.iter().scan(0, |sum, (_, span)| {
                *sum += u128::from(span.0);
                Some(*sum)
            }))
            .collect();
        // The sum of the first `records` of them.
        let sum = |records: u64| {
            let (whole, rest) = (u128::from(records / count), records % count);
            let grown =
                u128::from(count) * (whole * (whole + 1) / 2) + u128::from(rest) * (whole + 1);
            whole * sums[count as usize] + sums[rest as usize] + grown * u128::from(growth.0)
        };
        let (before, all) = (self.count, count * times);
        while self.series.full_at() <= before + all {
            let records = self.series.full_at() - before;
            let (whole, last) = ((records - 1) / count, (records - 1) % count);
            let time = seen[last as usize].0 + period * (whole + 1);
            self.series.close(time, self.sum + sum(records));
        }
        self.count += all;
        self.sum += sum(all);
        let mut spans: Vec<u64> = seen.iter().map(|(_, span)| span.0).collect();
        self.histogram.repeat(&mut spans, growth.0, times);
        // They are in order now.
        self.widen(spans[0] + growth.0);
        self.widen(spans[spans.len() - 1] + growth.0 * times);
    }

    /// The part of [`record`](Self::record) that does not depend on the order of records: how spans
    /// are spread. Another recorder [counts them in order](Self::count_in_order) and
    /// [takes them over](Self::take_spread).
    #[inline]
    pub fn spread(&mut self, span: Span) {
        if span.0 < self.min || span.0 > self.max {
            self.widen(span.0);
        }
        self.histogram.record(span.0);
    }

    /// The part of [`record`](Self::record) that depends on the order of records, calls coming in the order of
    /// time.
    #[inline]
    pub fn count_in_order(&mut self, now: Time, span: Span) {
        self.count += 1;
        self.sum += u128::from(span.0);
        if self.count == self.series.full_at() {
            self.series.close(now, self.sum);
        }
    }

    /// Takes over how the spans were spread that are counted here, and leaves nothing of them there.
    pub fn take_spread(&mut self, other: &mut Recorder) {
        let Recorder { min, max, histogram, .. } = std::mem::take(other);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        self.histogram.merge(&histogram);
    }

    /// Pools the records of another run with these. Count, sum, extremes and histogram are those of
    /// one recorder that saw both. The series is dropped, for runs have no common order of time.
    pub fn merge(&mut self, other: &Recorder) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.histogram.merge(&other.histogram);
        self.series.give_up();
    }

    /// How many spans were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum in picoseconds.
    pub fn sum_ps(&self) -> u128 {
        self.sum
    }

    /// The mean in picoseconds; `None` without records.
    pub fn mean_ps(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The shortest span; `None` without records.
    pub fn min(&self) -> Option<Span> {
        (self.count > 0).then_some(Span(self.min))
    }

    /// The longest span; `None` without records.
    pub fn max(&self) -> Option<Span> {
        (self.count > 0).then_some(Span(self.max))
    }

    /// The span that a share of the records does not exceed (0.5 for the median, 0.999 for
    /// p99.9): the nearest rank, to 0.05 %, and never beyond the extremes. `None` without records.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let rank = libm::ceil(share * self.count as f64) as u64;
        let middle = self.histogram.at_rank(rank.min(self.count))?;
        Some(Span(middle.clamp(self.min, self.max)))
    }

    /// The distribution.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// The course over the run, for warm-up and batch means; empty after [`merge`](Self::merge).
    pub fn series(&self) -> &Series {
        &self.series
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, span: u64) {
        self.min = self.min.min(span);
        self.max = self.max.max(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(spans: &[u64]) -> Recorder {
        let mut recorder = Recorder::default();
        for (index, &span) in spans.iter().enumerate() {
            recorder.record(Time(index as u64), Span(span));
        }
        recorder
    }

    #[test]
    fn without_records_there_is_nothing_to_tell() {
        let recorder = Recorder::default();
        assert_eq!((recorder.mean_ps(), recorder.min(), recorder.max()), (None, None, None));
        assert_eq!(recorder.quantile(0.5), None);
    }

    #[test]
    fn five_spans_by_hand() {
        let recorder = recorded(&[30, 10, 50, 20, 40]);
        assert_eq!((recorder.count(), recorder.sum_ps(), recorder.mean_ps()), (5, 150, Some(30.0)));
        assert_eq!((recorder.min(), recorder.max()), (Some(Span(10)), Some(Span(50))));
        assert_eq!(
            [0.0, 0.5, 0.6, 0.61, 1.0].map(|share| recorder.quantile(share)),
            [10, 30, 30, 40, 50].map(|span| Some(Span(span)))
        );
        assert_eq!(recorder.series().means_ps(), [30.0]);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_exact() {
        let recorder = recorded(&[u64::MAX, u64::MAX, 0]);
        assert_eq!(recorder.sum_ps(), 2 * u128::from(u64::MAX));
        assert_eq!((recorder.min(), recorder.max()), (Some(Span(0)), Some(Span(u64::MAX))));
    }

    #[test]
    fn a_pool_has_no_series_and_begins_none() {
        let mut pool = Recorder::default();
        pool.merge(&recorded(&[1, 2, 3, 4, 5]));
        for _ in 0..100 {
            pool.record(Time(9), Span(1));
        }
        assert_eq!((pool.count(), pool.series().len()), (105, 0));
    }

    proptest! {
        #[test]
        fn quantiles_are_within_half_a_thousandth_of_the_sorted_spans(
            mut spans in prop::collection::vec(1_u64..10_000_000_000_000, 1..300),
            share in 0.0_f64..=1.0,
        ) {
            let found = recorded(&spans).quantile(share).map_or(0, |span| span.0);
            spans.sort_unstable();
            let rank = ((share * spans.len() as f64).ceil() as usize).max(1);
            let exact = spans[rank - 1];
            prop_assert!(found.abs_diff(exact) as f64 <= exact as f64 / 2048.0, "{found} {exact}");
        }

        #[test]
        fn two_that_spread_and_one_that_counts_record_the_same(
            spans in prop::collection::vec((any::<u64>(), any::<bool>()), 0..90),
        ) {
            let all: Vec<u64> = spans.iter().map(|(span, _)| *span).collect();
            let (mut counts, mut one, mut other) =
                (Recorder::default(), Recorder::default(), Recorder::default());
            for (index, (span, is_other)) in spans.into_iter().enumerate() {
                counts.count_in_order(Time(index as u64), Span(span));
                if is_other { &mut other } else { &mut one }.spread(Span(span));
            }
            counts.take_spread(&mut other);
            counts.take_spread(&mut one);
            counts.take_spread(&mut one);
            prop_assert_eq!(format!("{counts:?}"), format!("{:?}", recorded(&all)));
        }

        #[test]
        fn a_pool_is_the_same_in_any_order(
            left in prop::collection::vec(any::<u64>(), 0..40),
            right in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let (mut one, mut other) = (recorded(&left), recorded(&right));
            let both = recorded(&[left, right].concat());
            let before = one.clone();
            one.merge(&other);
            other.merge(&before);
            for pool in [one, other] {
                prop_assert_eq!(
                    (pool.count(), pool.sum_ps(), pool.min(), pool.max(), pool.histogram()),
                    (both.count(), both.sum_ps(), both.min(), both.max(), both.histogram())
                );
            }
        }
    }
}
