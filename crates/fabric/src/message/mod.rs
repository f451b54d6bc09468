//! Messages: what programs submit, and how the target reacts.

mod active_message;
mod handler;
mod segmentation;

pub use active_message::{
    ActiveMessageCounters, ActiveMessageSettings, ActiveMessages, EndpointState,
};
pub use handler::{Called, Content, HandlerSettings};
pub use segmentation::{Aal5Settings, LastCell, Segmentation, SegmentationSettings};
