//! Drivers: how the parts of a channel are moved through simulated time.

pub mod event;
