//! What was sent when: the rows of golden schedules and of space-time pictures.

use weft_units::Time;

/// One transmission of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When its first byte leaves.
    pub time: Time,
    /// When its last byte is at its destination unless something happens to it on the way.
    pub until: Time,
    /// The type of the packet (Clint Table 1): `breq`, `back`, `qreq`, `qack`, `cfg` or `gnt`.
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
