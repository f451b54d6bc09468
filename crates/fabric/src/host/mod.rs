//! Hosts: what a message passes between a program and its adapter, on both sides.
//!
//! A way is a list of stages, each with what it costs and which resources of the host it holds
//! meanwhile. Stages work at the same time as hardware does: while one has a piece of a message,
//! the one before has the next. What the busiest resource can do is therefore what the host can
//! do, and not what the stages take one after the other (SCILAN 4.2 and 4.3).

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
