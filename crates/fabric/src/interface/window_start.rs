//! How a node of mapped windows comes on line, and accesses of single programs at given times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::window::{Cluster, MapError, Node};
use weft_units::{Bytes, Span};

/// Autoconfiguration: an adapter accepts nothing before it has a node number (Memory Channel 2,
/// MEMORY CHANNEL 2 Link Protocol).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationSettings {
    /// From a control packet that requests a node number to the one that assigns it.
    pub answer: Span,
}

/// An access of a program to the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    /// When.
    pub at: Span,
    /// Whose program.
    pub node: Node,
    /// What it does.
    pub what: AccessKind,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AccessKind {
    /// It stores into pages that it maps outgoing.
    Write {
        /// Where in the window.
        offset: Bytes,
        /// How much.
        size: Bytes,
    },
    /// A device on the node's PCI bus, such as a disk, writes into pages that the node maps
    /// outgoing, by DMA: the processor stores nothing, and packets are as large as they can be.
    DeviceWrite {
        /// Where in the window.
        offset: Bytes,
        /// How much.
        size: Bytes,
    },
    /// It reads the memory of another node, at most one packet.
    Read {
        /// Whose memory.
        target: Node,
        /// Where in the window.
        offset: Bytes,
        /// How much.
        size: Bytes,
    },
    /// It writes to the memory of another node and learns whether the write was accepted.
    ConditionalWrite {
        /// Whose memory.
        target: Node,
        /// Where in the window.
        offset: Bytes,
        /// How much.
        size: Bytes,
    },
}

impl AccessSettings {
    /// Whether the page control tables allow it.
    ///
    /// # Errors
    /// [`MapError`] tells what is missing.
    pub fn check(&self, cluster: &Cluster) -> Result<(), MapError> {
        match self.what {
            AccessKind::Write { offset, size } => {
                cluster.check_stores(&cluster.store(self.node, offset.0, size)?)
            }
            AccessKind::DeviceWrite { offset, size } => {
                cluster.check_stores(&cluster.device_write(self.node, offset.0, size)?)
            }
            AccessKind::Read { target, offset, .. } => {
                cluster.check_read(self.node, target, offset.0)
            }
            AccessKind::ConditionalWrite { target, offset, .. } => {
                cluster.check_conditional(self.node, target, offset.0)
            }
        }
    }
}

impl std::fmt::Display for AccessSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let node = self.node;
        match self.what {
            AccessKind::Write { offset, size } => {
                write!(f, "node {node} writes {size} at {offset}")
            }
            AccessKind::DeviceWrite { offset, size } => {
                write!(f, "a device of node {node} writes {size} at {offset}")
            }
            AccessKind::Read { target, offset, size } => {
                write!(f, "node {node} reads {size} at {offset} of node {target}")
            }
            AccessKind::ConditionalWrite { target, offset, size } => {
                write!(f, "node {node} writes {size} at {offset} of node {target} conditionally")
            }
        }
    }
}
