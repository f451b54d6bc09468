//! Interfaces: what stands between a host's memory and the wire.

mod bus;
mod nic;
mod window;

pub use bus::BusSettings;
pub use nic::{Nic, NicCounters, NicSettings};
pub use window::{FlagSettings, IncomingPage, OutgoingPage, WindowBusSettings, WindowSettings};
