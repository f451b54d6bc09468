//! Interfaces: what stands between a host's memory and the wire.

mod bus;
mod endpoints;
mod nic;

pub use bus::BusSettings;
pub use endpoints::EndpointSettings;
pub use nic::{Nic, NicCounters, NicSettings};
