//! Drivers: how the parts of a channel are moved through simulated time.

pub mod carrier;
mod channel;
pub mod engine;
pub mod faults;
pub mod host_path;
pub mod interface;
pub mod receiver;
pub mod trace;
pub mod traffic;

pub use channel::Channel;
