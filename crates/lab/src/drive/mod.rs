//! Drivers: how the parts of a channel are moved through simulated time.

pub mod event;
pub mod output_queued;
mod slots;
pub mod slotted;
