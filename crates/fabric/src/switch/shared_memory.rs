//! A switch whose inputs write to one memory, from which its outputs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span};

/// Settings of a switch with a shared memory (cLAN C: "a non-blocking, shared memory architecture").
/// The memory takes a cell from every input and gives one to every output at the rate of the links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedMemorySettings {
    /// From an input to an output of the switch.
    pub latency: Span,
    /// How cells wait.
    #[serde(default)]
    pub queues: SharedQueues,
    /// How many cells from each input the memory holds.
    pub buffer: PositiveCount,
}

/// How cells wait in the memory. An output takes one cell from each of its queues in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedQueues {
    /// A queue for each connection at each output (cLAN C: "cells are queued on a per VCI per port
    /// basis").
    #[default]
    PerConnection,
    /// A queue for each pair of input and output: what virtual output queues are with a memory that
    /// is never short of bandwidth.
    PerInput,
    /// One queue for each input: a cell waits behind those that came before it, whatever their
    /// outputs.
    Fifo,
}
