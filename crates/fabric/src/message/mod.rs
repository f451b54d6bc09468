//! Messages: what programs hand over and how the target acts on it.

mod active_message;

pub use active_message::{ActiveMessageCounters, ActiveMessageSettings, ActiveMessages};
