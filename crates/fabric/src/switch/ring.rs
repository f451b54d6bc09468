//! A ring without a switch: each adapter passes on what is for others (IEEE 1596; SCILAN 4.4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Limit, Span};

use crate::fabric::CableSettings;
use crate::link::LinkSettings;

mod node;

pub use node::{RingDemand, RingKind, RingNode, RingTurn};

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
    /// What the link of each adapter to the next has otherwise than the `link` of the channel: first
    /// that of host 0, as many as there are hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

impl RingSettings {
    /// The link of each of `hosts` adapters to the next, on a channel whose link is `link`.
    pub fn links(&self, hosts: usize, link: &LinkSettings) -> Vec<LinkSettings> {
        let own = |host| {
            self.links.get(host).map_or_else(|| link.clone(), |own: &CableSettings| own.over(link))
        };
        (0..hosts).map(own).collect()
    }
}

fn unlimited() -> Limit {
    Limit::Unlimited
}
