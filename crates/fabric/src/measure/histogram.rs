//! A log-linear histogram of unsigned integers: exact to merge, and small in relative error.

use serde::{Deserialize, Serialize};
use weft_kernel::prefetch;

/// Each octave is cut into `2^PRECISION` buckets of equal width.
const PRECISION: u32 = 10;

/// Counts of values in buckets whose width is at most `2^-10` of the value (values below 2048
/// have a bucket of their own), so a quantile is off by at most `2^-11`, 0.05 %: three digits.
///
/// The layout is that of `HdrHistogram` (Tene) at three digits, without its bounds: any `u64` has
/// a bucket. It allocates 8 KiB an octave up to the largest value seen, nothing before the first.
/// Kept here instead of the crate because of its cost: the crate alone takes 43 instructions a
/// record (its own total, extremes and bounds), the whole recorder around this one 24.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u64)>", into = "Vec<(u32, u64)>")]
pub struct Histogram {
    counts: Vec<u64>,
}

/// How many of the values are in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value that it takes.
    pub lowest: u64,
    /// The largest value that it takes.
    pub highest: u64,
    /// How many values are in it.
    pub count: u64,
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let index = index(value);
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.grow(index),
        }
    }

    /// Prefetches the bucket of a value.
    #[inline]
    pub fn prefetch(&self, value: u64) {
        prefetch(&self.counts, index(value));
    }

    /// Counts values again, `times` times, each time larger by `growth`.
    pub(super) fn repeat(&mut self, values: &mut [u64], growth: u64, times: u64) {
        values.sort_unstable();
        for same in values.chunk_by(u64::eq) {
            let (value, weight) = (same[0], same.len() as u64);
            let mut done = 0;
            while done < times {
                let next = value + growth * (done + 1);
                let index = index(next);
                let room = lowest(index) + (width(index) - 1) - next;
                // How many of them the bucket takes; mostly one, which spares the division.
                let more = match growth {
                    0 => times - done,
                    _ if room < growth => 1,
                    _ => (room / growth + 1).min(times - done),
                };
                self.add(index, more * weight);
                done += more;
            }
        }
    }

    fn add(&mut self, index: usize, more: u64) {
        if index >= self.counts.len() {
            self.grow(index);
            self.counts[index] = 0;
        }
        self.counts[index] += more;
    }

    /// Adds every count of another histogram: the same as if all had been recorded in one.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The middle of the bucket that holds the value of a rank, 1 for the smallest; `None` if
    /// fewer values were recorded.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut left = rank.max(1);
        for (index, &count) in self.counts.iter().enumerate() {
            if left <= count {
                return Some(middle(index));
            }
            left -= count;
        }
        None
    }

    /// The buckets that hold something, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| Bucket {
            lowest: lowest(index),
            highest: lowest(index) + (width(index) - 1),
            count,
        })
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: usize) {
        // Whole octaves, so that the table grows a few times in a run.
        self.counts.resize((index | ((1 << PRECISION) - 1)) + 1, 0);
        self.counts[index] = 1;
    }
}

/// The filled buckets by their number, which is how a histogram is stored: nearly all are empty.
impl From<Histogram> for Vec<(u32, u64)> {
    fn from(histogram: Histogram) -> Vec<(u32, u64)> {
        let filled = histogram.counts.into_iter().zip(0..).filter(|(count, _)| *count > 0);
        filled.map(|(count, index)| (index, count)).collect()
    }
}

impl From<Vec<(u32, u64)>> for Histogram {
    fn from(filled: Vec<(u32, u64)>) -> Histogram {
        let mut histogram = Histogram::default();
        if let Some((last, _)) = filled.last() {
            histogram.grow(*last as usize);
        }
        for (index, count) in filled {
            if let Some(place) = histogram.counts.get_mut(index as usize) {
                *place = count;
            }
        }
        histogram
    }
}

/// The bucket of a value. Below `2^11` the bucket is the value; above, each octave appends
/// `2^10` buckets, and the shifted value, which lies in `2^10..2^11`, counts within them.
#[inline]
fn index(value: u64) -> usize {
    let shift = (value | (1 << PRECISION)).ilog2() - PRECISION;
    ((u64::from(shift) << PRECISION) + (value >> shift)) as usize
}

fn shift(index: usize) -> u32 {
    ((index >> PRECISION) as u32).saturating_sub(1)
}

fn width(index: usize) -> u64 {
    1 << shift(index)
}

fn lowest(index: usize) -> u64 {
    (index as u64 - (u64::from(shift(index)) << PRECISION)) << shift(index)
}

fn middle(index: usize) -> u64 {
    lowest(index) + width(index) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_worked_by_hand() {
        assert_eq!([index(0), index(1023), index(2047)], [0, 1023, 2047]);
        assert_eq!([index(2048), index(2049), index(2050)], [2048, 2048, 2049]);
        assert_eq!([index(4095), index(4096), index(4099), index(4100)], [3071, 3072, 3072, 3073]);
        assert_eq!(index(u64::MAX), 55 * 1024 - 1);
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        let bucket = histogram.buckets().next();
        let lowest = u64::MAX - ((1 << 53) - 1);
        assert_eq!(bucket, Some(Bucket { lowest, highest: u64::MAX, count: 1 }));
    }

    #[test]
    fn nothing_is_allocated_before_the_first_value() {
        assert_eq!(Histogram::default().counts.capacity(), 0);
        assert_eq!(Histogram::default().at_rank(1), None);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_and_is_narrow(
            value in prop_oneof![0_u64..10_000, any::<u64>()],
        ) {
            let index = index(value);
            prop_assert!(lowest(index) <= value && value - lowest(index) < width(index));
            prop_assert!(width(index) == 1 || width(index) <= lowest(index) >> PRECISION);
        }

        #[test]
        fn buckets_leave_no_gap(index in 0_usize..55 * 1024 - 1) {
            prop_assert_eq!(lowest(index) + width(index), lowest(index + 1));
        }

        #[test]
        fn what_is_stored_comes_back(values in prop::collection::vec(0_u64..1 << 44, 0..50)) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            let filled = Vec::<(u32, u64)>::from(histogram.clone());
            prop_assert!(filled.len() <= values.len());
            prop_assert_eq!(Histogram::from(filled), histogram);
        }

        #[test]
        fn merged_is_the_same_as_recorded_in_one(
            left in prop::collection::vec(0_u64..1 << 44, 0..50),
            right in prop::collection::vec(0_u64..1 << 44, 0..50),
        ) {
            let [mut one, mut other, mut both] = [(); 3].map(|()| Histogram::default());
            left.iter().for_each(|&value| { one.record(value); both.record(value) });
            right.iter().for_each(|&value| { other.record(value); both.record(value) });
            one.merge(&other);
            prop_assert_eq!(one, both);
        }
    }
}
