//! A cut-through switch with queues at its outputs. The mechanism is in the ports: see
//! [`crate::graph`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Limit, Span};

/// A switch with queues at its outputs: a packet joins the queue of its output as soon as it has
/// arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputQueuedSettings {
    /// From an input to an output of the switch.
    #[serde(default)]
    pub latency: Span,
    /// How many packets the queue of an output holds, including the one being sent. A packet that
    /// finds it full is dropped; its initiator retransmits it if `control` reports the loss.
    #[serde(default)]
    pub buffers: Limit,
}
