//! The runs that a study still needs, and its progress.

use crate::job::Key;

/// One run that is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The number of the point.
    pub point: usize,
    /// The load that takes the place of the point's own.
    pub load: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// The key that the run is stored under.
    pub key: Key,
}

/// The progress of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many runs exist.
    pub done: usize,
    /// How many runs the study is known to need, including those.
    pub total: usize,
}
