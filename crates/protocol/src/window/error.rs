//! Why a mapping, a store or a packet is refused.

use weft_units::Bytes;

use super::{NetworkPage, Node};

/// Why a mapping or an access to one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// More nodes than the hub has ports.
    #[error("{nodes} nodes on a hub of {ports} ports: accepted is 2 to {ports}")]
    Ports {
        /// The nodes asked for.
        nodes: u16,
        /// The ports of the hub.
        ports: u16,
    },
    /// There is no such node.
    #[error("node {node} of a cluster of {nodes}: accepted is 0 to {}", nodes - 1)]
    NoNode {
        /// The node named.
        node: Node,
        /// How many there are.
        nodes: u16,
    },
    /// A page past the end of the window.
    #[error("page {} of a window of {pages} pages: accepted is a number below {pages}", page.0)]
    NoPage {
        /// The page named.
        page: NetworkPage,
        /// How many there are.
        pages: u32,
    },
    /// A write or a read that goes past the window.
    #[error("{size} at offset {offset} of a window of {window}: accepted is what ends within it")]
    PastWindow {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        size: Bytes,
        /// How large the window is.
        window: Bytes,
    },
    /// An access to a page that the node has not mapped for it.
    #[error("page {} is not mapped {direction} on node {node}", page.0)]
    NotMapped {
        /// The page.
        page: NetworkPage,
        /// The node.
        node: Node,
        /// `outgoing` or `incoming`.
        direction: &'static str,
    },
    /// A store to a page whose entry does not enable transmission.
    #[error("page {} of node {node} is not enabled for transmission", page.0)]
    NotEnabled {
        /// The page.
        page: NetworkPage,
        /// The node.
        node: Node,
    },
    /// An access to a node that the page does not lead to.
    #[error("page {} of node {node} is mapped outgoing, and not to node {target}", page.0)]
    Elsewhere {
        /// The page.
        page: NetworkPage,
        /// The node that would send.
        node: Node,
        /// Where it does not lead.
        target: Node,
    },
    /// A store into a page where packets are requests to read it.
    #[error("page {} of node {target} has the attribute {attribute}: it takes no stores", page.0)]
    NoStore {
        /// The page.
        page: NetworkPage,
        /// Whose page.
        target: Node,
        /// What it is for.
        attribute: &'static str,
    },
    /// A sweep by a node none of whose pages to its targets asks for acknowledgments.
    #[error(
        "node {node} maps no page to all of its targets whose packets are acknowledged: accepted is \
         one with the attribute sweep or acknowledge"
    )]
    NoSweep {
        /// The node that sweeps.
        node: Node,
    },
    /// An address on the PCI that has more than 32 bits.
    #[error("page {} of node {node} is remapped to page {remap}: accepted is 0 to {last}", page.0)]
    PastBus {
        /// The page.
        page: NetworkPage,
        /// Whose page.
        node: Node,
        /// Where to.
        remap: u32,
        /// The last page of the address space.
        last: u32,
    },
    /// A page that is mapped again with other attributes.
    #[error(
        "page {} of node {node} is mapped {direction} already, with other attributes: a later map \
         shares the first one", page.0
    )]
    OtherAttributes {
        /// The page.
        page: NetworkPage,
        /// The node.
        node: Node,
        /// `outgoing` or `incoming`.
        direction: &'static str,
    },
    /// One side maps the page outgoing, and no target consents.
    #[error(
        "node {node} maps page {} outgoing to {target}, which maps it incoming nowhere: both sides \
         must consent", page.0
    )]
    NoConsent {
        /// The page.
        page: NetworkPage,
        /// The node that sends.
        node: Node,
        /// `node N`, or `all nodes`.
        target: Target,
    },
    /// A remote read of a page that does not allow it.
    #[error(
        "page {} of node {target} has no attribute remote_read: it can be written and not read",
        page.0
    )]
    NoRemoteRead {
        /// The page.
        page: NetworkPage,
        /// Whose page.
        target: Node,
    },
    /// A conditional write to a page that does not take them.
    #[error("page {} of node {target} has no attribute conditional_write", page.0)]
    NoConditionalWrite {
        /// The page.
        page: NetworkPage,
        /// Whose page.
        target: Node,
    },
}

/// A target in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One node.
    Node(Node),
    /// Every other node.
    All,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Node(node) => write!(f, "node {node}"),
            Target::All => f.write_str("all nodes"),
        }
    }
}

/// Why a packet is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// A packet cannot have this size.
    #[error("{size} bytes: accepted is {accepted}")]
    Size {
        /// The bytes received.
        size: usize,
        /// The sizes that there are.
        accepted: &'static str,
    },
    /// The check code is wrong.
    #[error("the Reed-Solomon check failed")]
    Check,
    /// The packet is of the other type, or of none.
    #[error("packet type {found}: accepted is {accepted}")]
    Type {
        /// The two bits of the field.
        found: u8,
        /// The type wanted.
        accepted: u8,
    },
    /// A field holds what it cannot hold.
    #[error("{field} = {found}: accepted is {accepted}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What would be accepted.
        accepted: &'static str,
    },
}
