//! What switches with a shared buffer and hosts before them keep of a packet.

use weft_units::Time;

use crate::fabric::RouteState;

/// The header of a packet, and what is noted of it besides: all in one line of the cache, since with a million packets
/// under way an event finds none of it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Header {
    /// The flow that it belongs to, as its hosts number flows; switches do not read it.
    pub flow: u32,
    /// Its size on the wire, in bytes.
    pub size: u32,
    /// The payload that it was sent with, in bytes.
    pub payload: u32,
    /// The port by which it came to the switch that it is in.
    pub input: u32,
    /// Its target.
    pub to: u32,
    /// The output whose queue it joins late or that was chosen ahead, or [`Header::NOT_CHOSEN`].
    pub output: u32,
    /// Its initiator.
    pub from: u32,
    /// The number of the message that it belongs to, if there is one; switches do not read it.
    pub message: u32,
    /// When it was submitted.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub start: Time,
    /// Its route.
    pub route_state: RouteState,
    /// How many switches have forwarded it.
    pub hops: u16,
    /// Its traffic class, 0 to 7. It keeps it from host to host unless it is trimmed.
    pub class: u8,
    /// Bits of the constants below.
    pub bits: u8,
    /// The event of its arrival at the next switch no longer counts: the plan was revoked after that
    /// event had been scheduled.
    pub is_early: bool,
}

const _: () = assert!(size_of::<Header>() == 64);

impl Header {
    /// No output is chosen in the switch that it is in or comes to.
    pub const NOT_CHOSEN: u32 = u32::MAX;

    /// The header in a place that no packet takes.
    pub const NOTHING: Header = Header {
        flow: 0,
        size: 0,
        payload: 0,
        input: 0,
        to: 0,
        output: Header::NOT_CHOSEN,
        from: 0,
        message: u32::MAX,
        generated: Time::ZERO,
        start: Time::NEVER,
        route_state: RouteState::DIRECT,
        hops: 0,
        class: 0,
        bits: 0,
        is_early: false,
    };

    /// Switches may mark it (RFC 3168: ECT).
    pub const ECN_CAPABLE: u8 = 1;
    /// A switch has marked it (RFC 3168: CE).
    pub const MARKED: u8 = 2;
    /// A switch has trimmed it: its payload is gone.
    pub const TRIMMED: u8 = 4;
    /// Switches may trim it if its queue is full.
    pub const TRIMMABLE: u8 = 8;
    /// Switches write down what they know when it leaves.
    pub const TELEMETRY: u8 = 16;
    /// It carries something that hosts say to each other and no program: an acknowledgment, or a
    /// notification of congestion.
    pub const CONTROL: u8 = 32;
    /// A cable failed while it was on it and its first byte had come to a switch that did not wait
    /// for the last one: its check code is wrong.
    pub const DAMAGED: u8 = 64;

    /// It belongs to no flow, on a channel that has some; switches do not read it.
    pub const APART: u8 = 128;

    /// Whether it has any of the bits.
    #[inline]
    pub const fn has(&self, bits: u8) -> bool {
        self.bits & bits != 0
    }
}

impl Default for Header {
    fn default() -> Header {
        Header::NOTHING
    }
}
