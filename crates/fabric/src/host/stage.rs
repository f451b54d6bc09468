//! One stage on the way of a message through its host.

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
    /// What each unit costs whatever its size.
    pub fixed: Span,
    /// How fast the bytes of a unit are worked on; without a value only the resources decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What is worked on at once. A stage begins when it has one, and hands it on when it is done.
    pub unit: Unit,
    /// The resources that it holds meanwhile, and how often each of its bytes crosses them. A stage
    /// without any delays what passes, however much that is, and is never busy.
    pub uses: BTreeMap<String, u8>,
    /// The smallest message that it is for; other messages pass it.
    pub from: Bytes,
    /// The smallest message that it is no longer for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<Bytes>,
    /// How much may wait before it: units of the stage before, which stalls while there is no room.
    /// Buffers of a bridge, and the stores that a processor has posted.
    pub room: Limit,
    /// Whether it depends on what the program of the target does as the message comes.
    pub when: When,
    /// Whether bytes go on at once and the work is done behind them. Only the end of the message
    /// waits for it, and travels as a packet of its own: a check of what was written, before the
    /// message is announced (SCILAN 2.1, MTU).
    pub in_passing: bool,
}

/// What a stage works on at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A whole message: the stage waits for its last byte.
    #[default]
    Message,
    /// What one packet of the channel carries.
    Packet,
    /// So many bytes: a store that an adapter gathers, a page, an MTU.
    Chunk(Bytes),
}

/// For which messages a stage of the receive way is gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// For every message.
    #[default]
    Always,
    /// For a message that comes while the program sleeps: interrupt and wake-up.
    Asleep,
    /// For a message that comes while the program polls: it is found at the next look.
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
    /// Whether the stage is gone through by messages of `size`.
    pub fn is_for(&self, size: Bytes) -> bool {
        size >= self.from && self.below.is_none_or(|below| size < below)
    }

    /// Whether what passes depends on whether the program sleeps.
    pub fn looks_at_program(&self) -> bool {
        self.when != When::Always
    }
}
