//! What a user sees: figures and the log.

pub mod log;
pub mod stats;
