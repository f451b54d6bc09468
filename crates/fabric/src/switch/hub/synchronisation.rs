//! How long the arbiters of a crossbar take to prepare for a broadcast (Memory Channel 2, The MEMORY
//! CHANNEL 2 Hub): from the instant at which they take up its request and grant nothing else, until
//! each has completed the packet that it was transferring. As in the document, waiting for room behind
//! an output is not included.

use weft_units::{Span, Time};

/// The synchronisations of a hub.
#[derive(Clone, Copy, Debug, Default)]
pub struct Synchronisation {
    /// When the current synchronisation began, and whether the outputs are ready.
    began: Option<Time>,
    is_ready: bool,
    count: u64,
    /// In picoseconds.
    sum: u128,
    longest: Span,
}

impl Synchronisation {
    /// How many synchronisations there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How long a synchronisation took on average, in microseconds; 0 if there was none.
    pub fn mean_us(&self) -> f64 {
        self.sum as f64 * 1e-6 / self.count.max(1) as f64
    }

    /// The longest one.
    pub fn longest(&self) -> Span {
        self.longest
    }

    pub(super) fn begin(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// Something else is granted first.
    pub(super) fn begin_again(&mut self, now: Time) {
        (self.began, self.is_ready) = (Some(now), false);
    }

    pub(super) fn end(&mut self, now: Time) {
        if let Some(began) = self.began
            && !std::mem::replace(&mut self.is_ready, true)
        {
            let span = now.since(began);
            self.count += 1;
            self.sum += u128::from(span.0);
            self.longest = self.longest.max(span);
        }
    }

    pub(super) fn give_up(&mut self) {
        (self.began, self.is_ready) = (None, false);
    }
}
