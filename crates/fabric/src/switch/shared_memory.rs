//! A switch whose inputs write to one memory, from which its outputs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Limit, PositiveCount, Rate, Span};

/// Settings of a switch with a shared memory (cLAN C: "a non-blocking, shared memory
/// architecture"). Without a `bandwidth` the memory takes cells from all inputs and gives cells to
/// all outputs at the rate of the links.
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
    /// How many cells it holds of all inputs together, including those being sent. Only flow
    /// control (such as `source_quench.memory`) keeps inputs from filling it; a cell that finds it
    /// full ends the run, like a cell that finds `buffer` full.
    #[serde(default = "unlimited", skip_serializing_if = "is_unlimited")]
    pub pool: Limit,
    /// The rate of writes and reads of the memory together (cLAN C: "16 Gb/sec cross-sectional
    /// bandwidth"). When an output takes a cell out, it occupies the memory for a write and a read,
    /// in the order in which outputs ask. By default as fast as the links need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
}

fn unlimited() -> Limit {
    Limit::Unlimited
}

fn is_unlimited(pool: &Limit) -> bool {
    *pool == Limit::Unlimited
}

/// How cells wait in the memory. An output takes one cell from each of its queues in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SharedQueues {
    /// A queue for each connection at each output (cLAN C: "cells are queued on a per VCI per port
    /// basis").
    #[default]
    PerConnection,
    /// A queue for each pair of input and output: the equivalent of virtual output queues, with a
    /// memory that is never short of bandwidth.
    PerInput,
    /// One queue for each input: a cell waits behind earlier cells, whatever their outputs.
    Fifo,
}
