//! The host side of a channel of endpoints: what a message costs before its first cell and after its
//! last one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::vi::Reliability;
use weft_units::{Bytes, Limit, PositiveCount, Span};

/// Settings of the endpoints of each host (Virtual Interface Architecture 1.0; cLAN C). A program
/// posts a descriptor and rings a doorbell; the adapter fetches descriptor and data, and posts a
/// completion when it is done. Every stream has its own endpoint, with `adapter.send_buffers`
/// descriptors at the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// From the doorbell to the first cell, if the adapter is idle.
    pub send: Span,
    /// From the last cell to the completion that the receiving program sees, if the adapter is
    /// idle.
    pub receive: Span,
    /// How long each message occupies the bus of its host for descriptor and completion, at the
    /// sender and again at the receiver. Cells of other messages can be sent during that time.
    #[serde(default)]
    pub per_message: Span,
    /// How many cells the adapter holds of messages that the receiving host has not taken yet.
    pub receive_buffer: PositiveCount,
    /// At how many of them the adapter stops its cable, under `stop_go`.
    pub receive_stop: PositiveCount,
    /// At how many it lets it continue; less than `receive_stop`.
    pub receive_go: u32,
    /// When a send is complete, and what happens to a connection on a fault.
    #[serde(default)]
    pub reliability: Reliability,
    /// How many receive descriptors the program at the end of a connection posts; it posts each
    /// again when it has processed the message. A message that finds none is dropped, or breaks its
    /// connection, depending on `reliability`. "unlimited": there is always one.
    #[serde(default = "unlimited")]
    pub receive_descriptors: Limit,
    /// Entries of the completion queue of each host, to which all its receive queues report. If it
    /// overflows, the connection of the extra entry breaks.
    #[serde(default = "unlimited")]
    pub completions: Limit,
    /// How long a program processes a received message, one message at a time.
    #[serde(default)]
    pub program: Span,
    /// Size on the wire of a notification from target to initiator: that a message is in its memory
    /// (with `reliable_reception`), or that the connection is broken. It travels back along the
    /// route of the connection, ahead of waiting cells. One packet by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Bytes>,
}

fn unlimited() -> Limit {
    Limit::Unlimited
}

impl EndpointSettings {
    /// Endpoints that cost nothing and never lack a descriptor.
    pub fn free() -> EndpointSettings {
        EndpointSettings {
            send: Span::ZERO,
            receive: Span::ZERO,
            per_message: Span::ZERO,
            receive_buffer: PositiveCount::new(u32::MAX).unwrap_or(PositiveCount::ONE),
            receive_stop: PositiveCount::ONE,
            receive_go: 0,
            reliability: Reliability::default(),
            receive_descriptors: Limit::Unlimited,
            completions: Limit::Unlimited,
            program: Span::ZERO,
            answer: None,
        }
    }
}
