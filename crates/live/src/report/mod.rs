//! What a person gets to see: figures and the log.

pub mod log;
pub mod stats;
