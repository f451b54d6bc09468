//! What a study has still to run, and how far it is.

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

/// How far a study is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many runs are there.
    pub done: usize,
    /// How many the study is known to need, those included.
    pub total: usize,
}
