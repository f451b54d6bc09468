//! What was sent when: the rows of golden schedules and of space-time pictures.

use serde::{Deserialize, Deserializer, Serialize};
use weft_units::Time;

/// The types of packets that are noted.
const KINDS: [&str; 6] = ["breq", "back", "qreq", "qack", "cfg", "gnt"];

/// One transmission of one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// When its first byte leaves.
    pub time: Time,
    /// When its last byte is at its destination unless something happens to it on the way.
    pub until: Time,
    /// The type of the packet (Clint Table 1): `breq`, `back`, `qreq`, `qack`, `cfg` or `gnt`.
    #[serde(deserialize_with = "kind")]
    pub kind: &'static str,
    /// Its number: of the pair for requests and their acknowledgments, of the slot that is asked
    /// for or granted otherwise.
    pub sequence: u64,
    /// The host that sends it; `None` for the switch.
    pub initiator: Option<u16>,
    /// The host that it is for; `None` for the switch.
    pub target: Option<u16>,
    /// The slot of the pipeline that it belongs to, on a channel with slots.
    pub slot: Option<u64>,
    /// What it says: the targets requested by `cfg`, the target granted by `gnt`, the report of an
    /// acknowledgment.
    pub content: String,
}

fn kind<'de, D: Deserializer<'de>>(d: D) -> Result<&'static str, D::Error> {
    let text = String::deserialize(d)?;
    let found = KINDS.into_iter().find(|kind| *kind == text);
    found.ok_or_else(|| serde::de::Error::custom(format!("there is no packet type {text}")))
}
