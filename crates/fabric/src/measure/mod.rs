//! Measurement: every latency definition by its own name, counters, conservation.

mod histogram;
mod observations;
mod recorder;
mod series;

pub use histogram::Histogram;
pub use observations::{Collision, Drop, Latency, Observations};
pub use recorder::Recorder;
pub use series::Series;
