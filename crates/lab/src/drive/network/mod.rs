//! One channel of a fabric with any number of switches, driven by events.
//!
//! Switches cut through: the first byte of a packet leaves a switch the latency of the switch after
//! it came, if the output is free, so that a packet costs an event a switch however long it is. All
//! links are alike, so that no packet is overtaken by its own end. Packets that reach a switch in
//! one picosecond are served in the order in which they left for it.
//!
//! *Queueing* ends where the adapter of the initiator starts to send; what a packet waits in
//! switches belongs to its *transit*.

mod ends;
mod feed;
mod shared_memory;
mod skeleton;
mod supply;

pub use ends::{Delivery, NetworkParts};
pub use shared_memory::{
    NetworkReport, PortRow, SampleRow, SharedMemoryNetwork, SharedMemoryParts, StreamRow,
};
pub(in crate::drive) use supply::{Handed, Supply};
