//! Endpoints of the Virtual Interface Architecture (version 1.0, 1997; cLAN C: "the host interface
//! provides a hardware implementation of the Virtual Interface (VI) Architecture").
//!
//! An [`Endpoint`] is a pair of work queues, one for what is sent and one for what is received. A
//! program posts descriptors and rings a doorbell; the adapter works them off in order and hands
//! each back once, completed or with the [`Fault`] that befell it. An endpoint has one connection.
//! What an adapter reads and writes in the memory of a host has been registered before
//! ([`Registry`]), under a protection tag that has to be that of the endpoint. What happens on a
//! fault is a matter of the [`Reliability`] of the connection.
//!
//! Descriptors name memory, but no bytes are moved here. RDMA read, which the architecture leaves
//! open to an implementation, is left out: the document does not say whether cLAN has it.

mod completion;
mod endpoint;
mod memory;
#[cfg(test)]
mod model;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use completion::{Completion, CompletionQueue, WorkQueueKind};
pub use endpoint::{
    Arrival, ConnectError, Descriptor, Endpoint, EndpointState, Outcome, PostError, QueueDepths,
    Reception, Reply, Transfer,
};
pub use memory::{MemoryHandle, ProtectionTag, Region, Registry, RemoteAddress};

/// What a connection guarantees, and so when a send is complete and what a fault does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// In order, at most once. A send is complete when its last byte has left. A message that
    /// cannot be received is dropped silently.
    UnreliableDelivery,
    /// In order, exactly once. A send is complete when its last byte has left, although it may
    /// still be in the network. A message that cannot be received breaks the connection, and the
    /// sender is notified.
    #[default]
    ReliableDelivery,
    /// Like `reliable_delivery`, but a send is complete when the target has confirmed that the
    /// message is in its memory.
    ReliableReception,
}

/// The operation of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The message goes where the oldest receive descriptor of the target says.
    Send,
    /// The message goes to an address in the memory of the target.
    RdmaWrite {
        /// The address at the target.
        to: RemoteAddress,
        /// Whether the completion of a receive descriptor notifies the target.
        immediate: bool,
    },
}

/// Why a descriptor was not carried out, or a message not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// The target had no descriptor for it.
    #[error("no receive descriptor was posted")]
    NoDescriptor,
    /// The receive descriptor has less room.
    #[error("a message of {length} bytes came for a receive descriptor of {room}")]
    TooLong {
        /// Bytes received.
        length: u64,
        /// Bytes that the descriptor has room for.
        room: u64,
    },
    /// Memory of another protection tag.
    #[error("memory with protection tag {} was named by an endpoint with tag {}", .memory.0, .endpoint.0)]
    WrongTag {
        /// The tag of the memory.
        memory: ProtectionTag,
        /// The tag of the endpoint.
        endpoint: ProtectionTag,
    },
    /// No memory is registered under the handle.
    #[error("no memory is registered under handle {}", .0.0)]
    NotRegistered(MemoryHandle),
    /// Bytes outside the region of the handle.
    #[error("{length} bytes at address {address} lie outside of the region of handle {}", .handle.0)]
    OutOfRegion {
        /// The handle.
        handle: MemoryHandle,
        /// The first byte.
        address: u64,
        /// How many.
        length: u64,
    },
    /// The region was registered without leave to write it from elsewhere.
    #[error("the region of handle {} is not open to RDMA writes", .0.0)]
    NotWritable(MemoryHandle),
    /// The check code of the message was wrong.
    #[error("the check code of a message was wrong")]
    Damaged,
    /// A message is missing before this one.
    #[error("message {found} came in place of message {expected}")]
    Lost {
        /// The number that was due.
        expected: u64,
        /// The number received.
        found: u64,
    },
    /// The completion queue of the host has no entry left.
    #[error("the completion queue was full")]
    CompletionQueueFull,
    /// Another descriptor broke the connection, or a program ended it.
    #[error("the connection was gone")]
    Disconnected,
}

impl Operation {
    /// Whether the target needs a receive descriptor for it.
    pub const fn takes_descriptor(self) -> bool {
        matches!(self, Operation::Send | Operation::RdmaWrite { immediate: true, .. })
    }
}
