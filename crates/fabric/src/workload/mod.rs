//! Workload: arrival process x destination pattern x burst, one source per host and channel.

mod source;

pub use source::{Demand, Source};
