//! Interfaces: the parts between a host's memory and the wire.

mod bus;
mod byte_fifo;
mod endpoints;
mod movers;
mod nic;
mod transfer;
mod vi;
pub mod window;
mod window_cluster;
mod window_start;

pub use bus::BusSettings;
pub use byte_fifo::{ByteFifo, FifoStatus, Forwarding};
pub use endpoints::EndpointSettings;
pub use movers::{Cargo, Due, Move, MovedPacket, Movers};
pub use nic::{Nic, NicCounters, NicSettings};
pub use transfer::{ManagerSettings, MoverSettings, PioBy, PioSettings};
pub use transfer::{TransferBus, TransferPath, TransferSettings};
pub use vi::ViHost;
pub use window::{
    FlagSettings, IncomingPage, MappingSettings, OutgoingPage, WindowBusSettings, WindowSettings,
};
pub use window_cluster::{
    ClockSettings, ClusterEvent, ClusterEventKind, ClusterSettings, DetectionSettings,
    RecoverableSettings,
};
pub use window_start::{AccessKind, AccessSettings, ConfigurationSettings};
