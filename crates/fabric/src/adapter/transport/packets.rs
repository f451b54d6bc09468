//! What the ends of a flow send each other, and when hosts want to be woken for it.

use weft_protocol::transport::Answer;
use weft_units::{Bytes, Time};

/// What its congestion control allows a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Bits per second.
    pub rate: f64,
    /// Bytes in flight.
    pub window: f64,
}

/// A packet between the ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The flow, by its number.
    pub flow: u32,
    /// Its content.
    pub content: Content,
    /// When it started, or when the packet that it answers started.
    pub sent: Time,
    /// Its spraying value, or that of the packet that it answers.
    pub spray: u16,
}

/// The content of a packet between the ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of the flow.
    Data {
        /// Its number.
        number: u32,
        /// Whether its sender waits for an acknowledgment.
        asks: bool,
        /// The number up to which its sender requests credits; 0 without credits.
        pull_target: u32,
    },
    /// An acknowledgment.
    Acknowledgment {
        /// What it acknowledges.
        answer: Answer,
        /// Whether the packet that it answers was marked.
        is_marked: bool,
        /// How many switches the acknowledged packet passed.
        hops: u16,
    },
    /// A congestion notification.
    Notification,
    /// A grant of credits.
    Grant {
        /// The number up to which they are granted.
        up_to: u32,
    },
    /// A request for credits, after waiting for them.
    Request {
        /// The number up to which it requests them.
        pull_target: u32,
    },
}

/// A packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its content.
    pub segment: Segment,
    /// The host to which it goes.
    pub to: u32,
    /// Its size on the wire.
    pub size: Bytes,
    /// Its payload.
    pub payload: Bytes,
    /// Its traffic class.
    pub class: u8,
    /// Whether it is a part of a flow that is sent for the first time.
    pub is_first: bool,
}

/// What a packet brings from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenOnPath {
    /// Whether a switch marked it.
    pub is_marked: bool,
    /// How many switches it passed.
    pub hops: u16,
}

/// The effects of a packet that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// How many [responses](super::Transports::take_answers) there are.
    pub answers: usize,
    /// How many bytes of the flow arrived for the first time; zero if the packet carries no part of
    /// a flow.
    pub payload: Option<Bytes>,
}

/// The effects of waking a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The flow that begins.
    pub begins: Option<u32>,
    /// A packet for another host.
    pub says: Option<Outgoing>,
}

/// When a host wants to be woken, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time: Time,
    /// The host.
    pub host: u32,
    /// The reason, which is passed to `Transports::wake`.
    pub item: u32,
}
