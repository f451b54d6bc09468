//! Mapped windows: part of a node's address space is a window onto the memory of other nodes, and a
//! store into it is a message (Memory Channel 1 and 2).
//!
//! The network only pushes: a store becomes a packet, a load reads the node's own memory. What
//! makes it more than a wire is the order that it keeps. Each sender's packets arrive in the order
//! in which they were sent, packets with several targets arrive in one order everywhere, and both
//! hold under errors as well, because hardware discards what follows a damaged packet on its path
//! and software sends it again. Locks, barriers and recovery below rest on nothing else.
//!
//! Document: Fillo and Gillett, Architecture and Implementation of Memory Channel 2, Digital
//! Technical Journal 9(1), 1997. Sections are its headings.

mod barrier;
mod clock;
mod cluster;
mod configuration;
mod connections;
mod control_packet;
mod data_packet;
mod error;
mod lock;
mod membership;
mod order;
mod page;
mod parity;
mod path;
mod rails;
mod recoverable;
mod recovery;
mod reed_solomon;
mod store;

pub use barrier::{Barrier, BarrierAction, Sweep};
pub use clock::{ClockBound, GlobalClock};
pub use cluster::{Cluster, Effect, Frame, Write};
pub use configuration::{Capabilities, Identification, LinkMode, Widths, negotiate};
pub use connections::{Connections, Use};
pub use control_packet::ControlPacket;
pub use data_packet::{Command, CommandKind, DataPacket, Payload};
pub use error::{MapError, PacketError, Target};
pub use lock::{Bid, Lock, LockAction};
pub use membership::{Change, Member, Membership};
pub use order::{OrderChecker, OrderError, PacketName};
pub use page::{
    ControlTable, NetworkPage, PageSize, PageSizeError, Reach, ReceivePage, TransmitPage,
};
pub use parity::Parity;
pub use path::{Admission, Path, PathState};
pub use rails::{Rail, Rails};
pub use recoverable::{Conditional, Outcome, RecoverableAction, RoundTrip};
pub use recovery::{Retransmission, Survey, plan};
pub use reed_solomon::ReedSolomon;
pub use store::{HostWrites, MAX_PAYLOAD, Pieces, WORD};

/// A node by its number; the five bits of an identifier hold 32 (MC-48: crossbars of 8 to 32
/// ports).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Node(pub u8);

impl Node {
    /// How many nodes an identifier tells apart.
    pub const MOST: u16 = 32;

    /// The node as a set of one.
    pub const fn bit(self) -> u64 {
        1 << self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The nodes of a set, in order.
pub(crate) fn members(set: u64) -> impl Iterator<Item = Node> {
    (0..64_u8).filter(move |node| set >> node & 1 == 1).map(Node)
}
