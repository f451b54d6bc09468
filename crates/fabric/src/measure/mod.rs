//! Measurement: every latency definition by its own name, counters, conservation.

mod observations;
mod recorder;

pub use observations::{Collision, Drop, Latency, Observations};
pub use recorder::Recorder;
