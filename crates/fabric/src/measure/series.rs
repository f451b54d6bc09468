//! The course of a quantity over a run, in batches, in memory that does not depend on its length.

use weft_units::Time;

/// Batches begin with five records each, those of MSER-5 (White 1997).
const FIRST_SIZE: u64 = 5;

/// When this many batches are full, neighbouring batches are merged and the batch size doubles.
const CAPACITY: usize = 4096;

/// Sums of equally many consecutive records, in the order of time: between 2048 and 4096 batches
/// once a run is long, fewer before. The open batch at the end is not part of the series.
#[derive(Clone, Debug)]
pub struct Series {
    sums: Vec<u128>,
    ends: Vec<Time>,
    size: u64,
    full_at: u64,
    before: u128,
}

impl Default for Series {
    fn default() -> Series {
        let (sums, ends) = (Vec::new(), Vec::new());
        Series { sums, ends, size: FIRST_SIZE, full_at: FIRST_SIZE, before: 0 }
    }
}

impl Series {
    /// How many batches are full.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether no batch is full.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// How many records each batch has: 5, 10, 20, ...
    pub fn batch_size(&self) -> u64 {
        self.size
    }

    /// The mean of each batch, in picoseconds, oldest first.
    pub fn means_ps(&self) -> Vec<f64> {
        self.sums.iter().map(|&sum| sum as f64 / self.size as f64).collect()
    }

    /// When the last record of a batch became known; `None` beyond the last full batch.
    pub fn end(&self, batch: usize) -> Option<Time> {
        self.ends.get(batch).copied()
    }

    /// The number of records at which the open batch is full. The recorder compares its own
    /// counter with it, so that a record costs one comparison and no counter of its own.
    #[inline]
    pub(super) fn full_at(&self) -> u64 {
        self.full_at
    }

    /// Closes the open batch; `total` is the sum of all records so far.
    #[cold]
    #[inline(never)]
    pub(super) fn close(&mut self, now: Time, total: u128) {
        self.sums.push(total - self.before);
        self.ends.push(now);
        self.before = total;
        if self.sums.len() == CAPACITY {
            self.halve();
        }
        self.full_at += self.size;
    }

    /// Empties the series for good: records of several runs have no common order of time.
    pub(super) fn give_up(&mut self) {
        *self = Series { full_at: u64::MAX, ..Series::default() };
    }

    fn halve(&mut self) {
        for pair in 0..CAPACITY / 2 {
            self.sums[pair] = self.sums[2 * pair] + self.sums[2 * pair + 1];
            self.ends[pair] = self.ends[2 * pair + 1];
        }
        self.sums.truncate(CAPACITY / 2);
        self.ends.truncate(CAPACITY / 2);
        self.size *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(records: u64) -> Series {
        let mut series = Series::default();
        let mut total = 0;
        for count in 1..=records {
            total += u128::from(count);
            if count == series.full_at() {
                series.close(Time(count), total);
            }
        }
        series
    }

    #[test]
    fn the_open_batch_is_not_part_of_it() {
        assert!(recorded(4).is_empty());
        let series = recorded(14);
        assert_eq!(series.means_ps(), [3.0, 8.0]);
        assert_eq!(
            [series.end(0), series.end(1), series.end(2)],
            [Some(Time(5)), Some(Time(10)), None]
        );
    }

    #[test]
    fn a_full_series_doubles_its_batches_and_stays_exact() {
        let series = recorded(5 * 4096);
        assert_eq!((series.len(), series.batch_size()), (2048, 10));
        assert_eq!(series.means_ps()[..2], [5.5, 15.5]);
        assert_eq!(series.end(1), Some(Time(20)));

        let series = recorded(5 * 4096 + 9);
        assert_eq!(series.len(), 2048);
        let series = recorded(5 * 4096 + 10);
        assert_eq!(series.len(), 2049);
        assert_eq!(series.means_ps().last(), Some(&(5.0 * 4096.0 + 5.5)));
    }

    #[test]
    fn memory_does_not_grow_with_the_run() {
        let series = recorded(3_000_000);
        assert_eq!(series.batch_size(), 1280);
        assert_eq!(series.len(), 3_000_000 / 1280);
        assert!(series.sums.capacity() <= CAPACITY && series.ends.capacity() <= CAPACITY);
    }
}
