//! Messages: what programs hand over and how the target acts on it.

mod active_message;
mod segmentation;

pub use active_message::{ActiveMessageCounters, ActiveMessageSettings, ActiveMessages};
pub use segmentation::{Aal5Settings, LastCell, Segmentation, SegmentationSettings};
