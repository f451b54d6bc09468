//! Hosts: what a message passes between a program and its adapter, on both sides.
//!
//! A path is a list of stages, each with its cost and the resources of the host that it holds
//! meanwhile. Stages form a pipeline: while one works on a piece of a message, the previous one
//! works on the next piece. The throughput of a host is therefore that of its busiest resource, not
//! the reciprocal of the sum of all stages (SCILAN 4.2 and 4.3).

mod flag;
mod limits;
mod memory;
mod processors;
mod program;
mod resource;
mod settings;
mod shared;
mod sockets;
mod stage;
mod station;
mod window;
mod work;

pub use flag::FlagSettings;
pub use limits::HostLimits;
pub use memory::{Copied, Memory, MemorySettings};
pub use processors::Processors;
pub use program::ProgramSettings;
pub use resource::{Resource, ResourceSettings};
pub use settings::{HostError, HostSettings, PostedSettings};
pub use shared::{SharedBuffer, SharedWindowSettings};
pub use sockets::{AddressSettings, SocketsSettings};
pub use stage::{StageSettings, Unit, When};
pub use window::{Connection, WindowSettings};
pub use work::{Host, Output, Piece, StageRecord};
