//! The rows of a point with a failed run.

use crate::failure::{FAILED, Failure};
use crate::rows::{Row, head};
use crate::table::{Cell, Table};

/// The runs of a point that have no result.
#[derive(Clone, Debug)]
pub struct FailedRuns<'a> {
    /// The number of the point.
    pub point: usize,
    /// The value on each axis.
    pub at: &'a [(String, Cell)],
    /// The channel that the rows name.
    pub channel: &'a str,
    /// The seed of each, and why it failed; at least one.
    pub failures: Vec<(u64, &'a Failure)>,
}

impl FailedRuns<'_> {
    /// The columns of these rows, after those of measurements.
    pub const COLUMNS: [&'static str; 4] = ["verdict", "waiting_for", "replications", "reason"];

    /// Adds a row per run that failed.
    pub fn replications(&self, table: &mut Table) {
        for (seed, failure) in &self.failures {
            let mut row = self.head();
            row.push(("seed".into(), (*seed).into()));
            table.push(told(row, &failure.reason));
        }
    }

    /// Adds the row of the point, of which this many runs have a result.
    pub fn point(&self, results: usize, table: &mut Table) {
        let Some((_, first)) = self.failures.first() else { return };
        let (failed, all) = (self.failures.len(), self.failures.len() + results);
        let reason = match all {
            1 => first.reason.clone(),
            _ => format!("{failed} of {all} runs failed; {}", first.reason),
        };
        let mut row = self.head();
        row.push(("replications".into(), (results as u64).into()));
        table.push(told(row, &reason));
    }

    fn head(&self) -> Row {
        head(self.point, self.at, self.channel)
    }
}

fn told(mut row: Row, reason: &str) -> Row {
    row.push(("verdict".into(), FAILED.into()));
    row.push(("reason".into(), reason.into()));
    row
}
