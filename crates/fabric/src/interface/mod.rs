//! Interfaces: what stands between a host's memory and the wire.

mod bus;
mod nic;

pub use bus::BusSettings;
pub use nic::{Nic, NicCounters, NicSettings};
