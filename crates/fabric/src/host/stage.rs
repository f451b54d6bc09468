//! One stage of the path of a message through its host.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Limit, Rate, Span};

/// A stage: a copy, a bus, the set-up of a DMA, an entry into the kernel, an interrupt, a wake-up.
///
/// Page pinning is a stage in chunks of a page; programmed I/O against DMA is two stages, one
/// `below` and one `from` the same size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StageSettings {
    /// The time for each unit, whatever its size.
    pub fixed: Span,
    /// How fast the bytes of a unit are processed; without a value only the resources matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The unit of work. A stage begins when it has a whole unit, and passes it on when it is done.
    pub unit: Unit,
    /// The resources that it holds while it works, and how often each byte crosses them. A stage
    /// without resources delays units without ever being busy.
    pub uses: BTreeMap<String, u8>,
    /// The smallest message that the stage handles; smaller ones skip it.
    pub from: Bytes,
    /// The smallest message that the stage no longer handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Bytes>,
    /// How many units may wait in front of it; the previous stage stalls while there is no room.
    /// Models the buffers of a bridge and the posted stores of a processor.
    pub room: Limit,
    /// Whether the stage depends on what the target's program is doing when the message arrives.
    pub when: When,
    /// Whether bytes move on immediately, before the work on them is done. Only the end of the
    /// message waits for the work, and travels as a packet of its own: a check of what was written,
    /// before the message is announced (SCILAN 2.1, MTU).
    pub in_passing: bool,
}

/// The unit of work of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A whole message: the stage waits for its last byte.
    #[default]
    Message,
    /// What one packet of the channel carries.
    Packet,
    /// This number of bytes: a store that an adapter gathers, a page, an MTU.
    Chunk(Bytes),
}

/// Which messages pass a stage of the receive path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Every message.
    #[default]
    Always,
    /// A message that arrives while the program sleeps: interrupt and wake-up.
    Asleep,
    /// A message that arrives while the program polls: the next poll finds it.
    Polling,
}

impl Default for StageSettings {
    fn default() -> StageSettings {
        StageSettings {
            fixed: Span::ZERO,
            rate: None,
            unit: Unit::Message,
            uses: BTreeMap::new(),
            from: Bytes(0),
            below: None,
            room: Limit::Unlimited,
            when: When::Always,
            in_passing: false,
        }
    }
}

impl StageSettings {
    /// Whether messages of `size` pass the stage.
    pub fn is_for(&self, size: Bytes) -> bool {
        size >= self.from && self.below.is_none_or(|below| size < below)
    }

    /// Whether it depends on whether the program sleeps.
    pub fn looks_at_program(&self) -> bool {
        self.when != When::Always
    }
}
