//! What goes between the ends of a flow, and when hosts want to be woken for it.

use weft_protocol::transport::Answer;
use weft_units::{Bytes, Time};

/// What a congestion control allows a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// Bits per second.
    pub rate: f64,
    /// Bytes under way.
    pub window: f64,
}

/// A packet between the ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The flow, by its number.
    pub flow: u32,
    /// What it says.
    pub content: Content,
    /// When it started, or when the packet started that it answers.
    pub sent: Time,
    /// By which value it is sprayed, or the packet was that it answers.
    pub spray: u16,
}

/// What a packet between the ends of a flow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of the flow.
    Data {
        /// Its number.
        number: u32,
        /// Whether its sender waits for an acknowledgment.
        asks: bool,
        /// Up to where its sender asks for credits; 0 without credits.
        pull_target: u32,
    },
    /// An acknowledgment.
    Acknowledgment {
        /// What it says of what has come.
        answer: Answer,
        /// Whether the packet that it answers was marked.
        is_marked: bool,
        /// How many switches that one passed.
        hops: u16,
    },
    /// A congestion notification.
    Notification,
    /// A grant of credits.
    Grant {
        /// Up to where they are given.
        up_to: u32,
    },
    /// An initiator waits for credits in vain.
    Request {
        /// Up to where it asks for them.
        pull_target: u32,
    },
}

/// A packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says.
    pub segment: Segment,
    /// Where to.
    pub to: u32,
    /// Its size on the wire.
    pub size: Bytes,
    /// What of it a program handed over.
    pub payload: Bytes,
    /// Its traffic class.
    pub class: u8,
    /// Whether it is a part of a flow that is sent for the first time.
    pub is_first: bool,
}

/// What has become of a packet that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// What the target answers.
    pub answers: [Option<Outgoing>; 2],
    /// What of the flow came with it that had not come: nothing if it is no part of a flow.
    pub payload: Option<Bytes>,
}

/// What comes of waking a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The flow that begins.
    pub begins: Option<u32>,
    /// What the host has to say to another.
    pub says: Option<Outgoing>,
}

/// When a host wants to be woken, by what it then says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time: Time,
    /// Whom.
    pub host: u32,
    /// What to say to it: see [`Transports::wake`].
    pub item: u32,
}
