//! A ring without a switch: each adapter passes on what is for others (IEEE 1596; SCILAN 4.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Limit, Span};

/// A ring of adapters, each connected to the next by one link, the last to the first. A packet goes
/// round to its target, which takes it out and sends an acknowledgment on to the initiator; so
/// every request loads the whole ring. What passes goes before what an adapter inserts itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingSettings {
    /// From a byte at the input of an adapter to the same byte at its free output.
    #[serde(default)]
    pub bypass: Span,
    /// Size of an acknowledgment on the wire.
    pub acknowledgment: Bytes,
    /// How many requests an adapter has on the way unacknowledged.
    #[serde(default = "unlimited")]
    pub outstanding: Limit,
    /// From a negative acknowledgment at the initiator to the repetition, at the earliest.
    #[serde(default)]
    pub retry_after: Span,
    /// How often a request is repeated at most. One whose last repetition does not arrive whole is
    /// given up: its initiator knows, and its message is lost unless `host.resend` stores it again.
    #[serde(default = "unlimited")]
    pub retries: Limit,
}

fn unlimited() -> Limit {
    Limit::Unlimited
}
