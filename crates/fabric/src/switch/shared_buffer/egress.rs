//! What is kept of the output of a port.

use weft_units::{Span, Time};

use super::Header;
use super::telemetry::HopTelemetry;
use super::turns::Turn;
use crate::switch::Chain;

/// The output of a port, and what its input asks of the far end: what every event at it looks at,
/// in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Egress {
    /// A bit for each queue that has packets, and each class that the far end pauses.
    pub waiting: u8,
    pub paused: u8,
    /// The classes that its input pauses, and whether a frame must still say so to the far end.
    pub pauses: u8,
    pub has_to_tell: bool,
    /// Whether it sends something, until when, and whether that end is an
    /// [event](super::Ports::sent); otherwise the port is [settled](super::Ports::settle) when the
    /// end matters.
    pub is_busy: bool,
    pub is_noted: bool,
    pub until: Time,
    /// Whether packets are planned behind what it sends, and the queue that they would wait in.
    pub has_planned: bool,
    pub planned_queue: u8,
    pub turn: Turn,
    /// What it sends: the size is zero unless that is a packet.
    pub class: u8,
    pub input: u32,
    pub size: u32,
    pub rule: u32,
    pub link: u32,
    /// Where its packets arrive: a port of a switch, or behind those a host.
    pub peer: u32,
    /// From its end of the cable to the memory of the switch at the far end.
    pub ahead: Span,
    /// Whether packets count as arrived with their last byte.
    pub is_whole: bool,
    pub waiting_bytes: u64,
    pub sent: u64,
}

const _: () = assert!(size_of::<Egress>() == 64);

/// What is in a memory until it has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub input: u32,
    pub size: u32,
    pub class: u8,
}

/// No queue lies across two lines of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Queue {
    pub chain: Chain,
    pub packets: u32,
    pub bytes: u64,
}

/// The far end of a cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct CableEnd {
    /// As in [`Egress`], as all below.
    pub peer: u32,
    pub ahead: Span,
    pub is_whole: bool,
}

impl Egress {
    /// An idle output, by the numbers of its rule and its link.
    pub fn new(rule: u32, link: u32, far: CableEnd) -> Egress {
        let CableEnd { peer, ahead, is_whole } = far;
        Egress {
            waiting: 0,
            paused: 0,
            pauses: 0,
            has_to_tell: false,
            is_busy: false,
            is_noted: false,
            until: Time::ZERO,
            has_planned: false,
            planned_queue: 0,
            turn: Turn::default(),
            class: 0,
            input: 0,
            size: 0,
            rule,
            link,
            peer,
            ahead,
            is_whole,
            waiting_bytes: 0,
            sent: 0,
        }
    }

    /// Whether its transmission has ended by `now` without an event for that end.
    #[inline]
    pub fn has_left(&self, now: Time) -> bool {
        self.is_busy && !self.is_noted && self.until <= now
    }

    /// A packet starts.
    #[inline]
    pub fn start(&mut self, header: &Header) {
        let Header { input, size, class, .. } = *header;
        self.is_busy = true;
        self.sent += u64::from(size);
        (self.input, self.size, self.class) = (input, size, class);
    }

    /// What it sent has left: the packet, if that was one.
    #[inline]
    pub fn end(&mut self) -> Option<Held> {
        (self.is_busy, self.is_noted) = (false, false);
        let Egress { input, class, .. } = *self;
        let size = std::mem::take(&mut self.size);
        (size > 0).then_some(Held { input, size, class })
    }

    /// What is known of a port when a packet starts.
    pub fn telemetry(&self, now: Time, port: u32) -> HopTelemetry {
        let queue = self.waiting_bytes.min(u32::MAX.into()) as u32;
        HopTelemetry { port, queue, sent: self.sent, time: now }
    }
}
