//! Packets that keep to a global schedule (Clint 3.3), as the channel that carries them sees them:
//! configurations end in the switch, grants begin there, acknowledgments pass through it.

use weft_units::{Bytes, Span, Time};

/// The ends of a scheduled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From an adapter to the switch, where it ends.
    ToSwitch {
        /// The host of the adapter.
        from: u16,
    },
    /// From the switch, where it begins, to an adapter.
    FromSwitch {
        /// The host of the adapter.
        to: u16,
    },
    /// From an adapter through the switch to another one.
    Through {
        /// The host that sends it.
        from: u16,
        /// The host that receives it.
        to: u16,
    },
}

/// A packet that keeps to the schedule of another channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledPacket {
    /// Its route.
    pub route: Route,
    /// Its size on the wire, and its transmission time on a link.
    pub size: Bytes,
    /// See [`size`](Self::size).
    pub span: Span,
    /// The caller's name of it.
    pub token: u32,
}

/// A scheduled packet whose last byte is at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledArrival {
    /// The caller's name of it.
    pub token: u32,
    /// When its first byte was sent.
    pub start: Time,
    /// Its check code is wrong.
    pub damaged: bool,
}
