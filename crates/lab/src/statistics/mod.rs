//! The statistics of runs: warm-up, intervals, and the verdict on whether a run settled.
//!
//! Everything here works on what a run recorded and touches no simulation. Elementary functions
//! are those of `libm`, so that the same run has the same interval on every machine.

mod curve;
mod estimate;
mod start_up;
mod student;
mod verdict;
mod warm_up;

pub use curve::{LoadPoint, Saturation, saturation};
pub use estimate::{BATCHES, Estimate, RatioTerm, batch_means, ratio, replications, steady_state};
pub use start_up::{in_parts, start_up_bias};
pub use student::student_t;
pub use verdict::{Ending, Judgement, Verdict, judge};
pub use warm_up::{WarmUp, mser, mser5};
