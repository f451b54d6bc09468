//! Messages: what programs hand over and how the target acts on it.

mod active_message;
mod handler;
mod segmentation;

pub use active_message::{
    ActiveMessageCounters, ActiveMessageSettings, ActiveMessages, EndpointState,
};
pub use handler::{Called, Content, HandlerSettings};
pub use segmentation::{Aal5Settings, LastCell, Segmentation, SegmentationSettings};
