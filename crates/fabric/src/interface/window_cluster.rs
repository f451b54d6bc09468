//! What keeps a cluster of mapped windows together: who belongs to it, what finds a damaged packet,
//! the standby network, the global clock (Memory Channel 2, Additional MEMORY CHANNEL Network
//! Features and Enhanced Software Support).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::window::{DataPacket, Parity};
use weft_units::Span;

/// The code by which adapters find damaged packets (Figure 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DetectionSettings {
    /// Two cycles of Reed-Solomon code after each packet (generation 2).
    #[default]
    ReedSolomon,
    /// A parity bit for each word and a word of parity after each packet (generation 1).
    Parity,
}

/// How a message is made recoverable: its target uses it only once it is known to be complete
/// (MEMORY CHANNEL 2 Enhanced Software Support).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RecoverableSettings {
    /// The message, a sweep of its path, and after the response a word that declares the message
    /// valid (generation 1).
    RoundTrip,
    /// The message as a conditional write, whose status is returned (generation 2).
    ConditionalWrite,
}

/// Settings of the cluster. Intervals and time-outs are not given in the document, except that
/// control packets come at an interval of a millisecond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// From one control packet of an adapter to its next, and from one of the hub to its next.
    pub heartbeat: Span,
    /// The silence after which a port isolates its node, and a node gives up its hub.
    pub time_out: Span,
    /// From a message of the recovery to its repetition if there is no reaction.
    pub retry: Span,
    /// Damaged packets within one recovery of a path after which its error is nonrecoverable.
    #[serde(default = "most_tries")]
    pub tries: u8,
    /// Whether a second network stands by, to which software switches over.
    #[serde(default)]
    pub standby: bool,
    /// The global clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSettings>,
    /// Events of the cluster. A node whose first event is to join is off line until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ClusterEvent>,
}

/// An event of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterEvent {
    /// When, from the beginning of the run.
    pub at: Span,
    /// What.
    pub what: ClusterEventKind,
}

/// An event of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClusterEventKind {
    /// The node with this number stops, whatever it is doing.
    Dies(u16),
    /// The node with this number comes on line, with nothing to retransmit.
    Joins(u16),
    /// The active network breaks, and all packets on it are lost.
    Breaks,
}

/// Settings of the global clock. The hub sends a pulse to all nodes; each notes in a service
/// routine how far its own clock is off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockSettings {
    /// From one pulse to the next.
    pub interval: Span,
    /// The largest drift of a node's clock in either direction, in parts per million, drawn
    /// uniformly for each node.
    #[schemars(extend("x-unit" = "ppm"))]
    pub drift_ppm: f64,
    /// The longest time from the pulse to the reading of the local clock by the service routine,
    /// drawn uniformly for each pulse.
    pub service: Span,
}

const fn most_tries() -> u8 {
    u8::MAX
}

impl Default for ClusterSettings {
    /// Software only, for channels on which packets may be damaged and no node leaves.
    fn default() -> ClusterSettings {
        ClusterSettings {
            heartbeat: Span::ZERO,
            time_out: Span::ZERO,
            retry: Span(100_000_000),
            tries: most_tries(),
            standby: false,
            clock: None,
            events: Vec::new(),
        }
    }
}

impl DetectionSettings {
    /// Whether a packet passes the check after some of its bits were inverted in transit. Bits
    /// count from the first one sent, and numbers past the end wrap to the front.
    pub fn accepts(self, sent: &DataPacket, wrong_bits: &[u64]) -> bool {
        let mut bytes = sent.encode();
        match self {
            DetectionSettings::ReedSolomon => {
                flip(&mut bytes, wrong_bits);
                DataPacket::decode(&bytes).is_ok()
            }
            DetectionSettings::Parity => {
                // Header, address and payload in words of the channel; the parity bit of a word
                // travels beside it, the word of parity behind them.
                bytes.truncate(bytes.len() - 4);
                let parity = Parity::of(&words(&bytes));
                bytes.extend_from_slice(&parity.vertical.to_be_bytes());
                flip(&mut bytes, wrong_bits);
                let mut arrived = words(&bytes);
                let vertical = arrived.pop().unwrap_or(0);
                Parity { vertical, ..parity }.accepts(&arrived)
            }
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |own: &[u8]| own.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    bytes.chunks(4).map(word).collect()
}

fn flip(bytes: &mut [u8], wrong_bits: &[u64]) {
    let bits = bytes.len() as u64 * 8;
    for bit in wrong_bits.iter().map(|bit| bit % bits) {
        bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::window::{Command, Node, Payload};

    use super::*;

    fn packet() -> DataPacket {
        let payload = Payload::new((0..32).collect()).unwrap();
        let (destination, sender) = (Node(3), Node(5));
        DataPacket { destination, sender, command: Command::WRITE, address: 0x1000, payload }
    }

    /// The words of Parity count from the header; bit 64 is the first of the payload.
    #[test]
    fn either_code_finds_a_wrong_bit_and_only_one_a_rectangle() {
        let [old, new] = [DetectionSettings::Parity, DetectionSettings::ReedSolomon];
        for code in [old, new] {
            assert!(code.accepts(&packet(), &[]));
            assert!((0..44 * 8).all(|bit| !code.accepts(&packet(), &[bit])));
            assert!(code.accepts(&packet(), &[70, 70]), "twice the same bit is none");
        }
        let corners = [64 + 3, 64 + 20, 96 + 3, 96 + 20];
        assert!(old.accepts(&packet(), &corners));
        assert!(!new.accepts(&packet(), &corners));
    }
}
