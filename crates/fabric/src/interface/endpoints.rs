//! The host side of a channel of endpoints: what a message costs before its first cell and after its
//! last one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span};

/// Settings of the endpoints of each host (Virtual Interface Architecture 1.0; cLAN C). A program
/// posts a descriptor and rings a doorbell; the adapter fetches descriptor and data, and tells by a
/// completion when it is done. Every stream has an endpoint of its own, with as many descriptors at
/// the adapter as `adapter.send_buffers` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// From the doorbell to the first cell, if nothing else is to be done.
    pub send: Span,
    /// From the last cell to the completion that the receiving program sees, if nothing else is to
    /// be done.
    pub receive: Span,
    /// How long each message occupies the bus of its host for descriptor and completion, at the
    /// sender and again at the receiver; it goes on while cells of other messages are sent.
    #[serde(default)]
    pub per_message: Span,
    /// How many cells the adapter holds whose messages the receiving host has not taken yet.
    pub receive_buffer: PositiveCount,
    /// At how many of them the adapter stops its cable, where links are stopped.
    pub receive_stop: PositiveCount,
    /// At how many it lets it go on; less than `receive_stop`.
    pub receive_go: u32,
}
