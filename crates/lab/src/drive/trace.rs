//! Transmissions and their times: the rows of golden schedules and of space-time diagrams.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_fabric::measure::Passage;
use weft_units::Time;

/// The recorded types of packets.
const KINDS: [&str; 10] =
    ["breq", "back", "qreq", "qack", "cfg", "gnt", "frame", "null", "packet", "message"];

/// One transmission of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When its first byte leaves.
    pub time: Time,
    /// When its last byte reaches its destination, unless it is dropped or delayed.
    pub until: Time,
    /// The type of the packet (Clint Table 1): `breq`, `back`, `qreq`, `qack`, `cfg` or `gnt`; with
    /// turns `frame` or `null`; elsewhere `packet`, or `message` where hosts cut them into packets.
    pub kind: &'static str,
    /// Its number: of the pair for requests and their acknowledgments, of the slot that is asked
    /// for or granted otherwise.
    pub sequence: u64,
    /// The host that sends it; `None` for the switch.
    pub initiator: Option<u32>,
    /// The target; `None` for the switch.
    pub target: Option<u32>,
    /// The slot of the pipeline that it belongs to, on a channel with slots.
    pub slot: Option<u64>,
    /// Its content: the targets requested by `cfg`, the target granted by `gnt`, the report of an
    /// acknowledgment.
    pub content: String,
}

/// Passages as entries of a kind, numbered by their beginnings.
pub(crate) fn of_passages(kind: &'static str, passages: Vec<Passage>) -> Vec<TraceEntry> {
    let entry = |(sequence, passage): (u64, Passage)| {
        let Passage { from, to, start, end } = passage;
        TraceEntry {
            time: start,
            until: end,
            kind,
            sequence,
            initiator: Some(from),
            target: Some(to),
            slot: None,
            content: format!("to host {to}"),
        }
    };
    (0..).zip(passages).map(entry).collect()
}

/// A stored entry, whose text has no lifetime.
#[derive(Serialize, Deserialize)]
struct Stored {
    kind: Cow<'static, str>,
    times: (Time, Time),
    ends: (Option<u32>, Option<u32>),
    sequence: u64,
    slot: Option<u64>,
    content: String,
}

impl Serialize for TraceEntry {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if !KINDS.contains(&self.kind) {
            let problem = format!("a packet of type {} could not be read back", self.kind);
            return Err(serde::ser::Error::custom(problem));
        }
        let stored = Stored {
            kind: self.kind.into(),
            times: (self.time, self.until),
            ends: (self.initiator, self.target),
            sequence: self.sequence,
            slot: self.slot,
            content: self.content.clone(),
        };
        stored.serialize(s)
    }
}

// By hand, because a derived form would borrow `kind` for as long as the program runs.
impl<'de> Deserialize<'de> for TraceEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<TraceEntry, D::Error> {
        let stored = Stored::deserialize(d)?;
        let kind = KINDS.into_iter().find(|kind| *kind == stored.kind);
        let kind = kind
            .ok_or_else(|| D::Error::custom(format!("there is no packet type {}", stored.kind)))?;
        let Stored { times: (time, until), ends: (initiator, target), .. } = stored;
        let (sequence, slot, content) = (stored.sequence, stored.slot, stored.content);
        Ok(TraceEntry { time, until, kind, sequence, initiator, target, slot, content })
    }
}
