//! What is kept of the output of a port.

use weft_units::{Span, Time};

use super::Header;
use super::planned::PlannedList;
use crate::graph::RecordingWindow;
use crate::switch::Chain;

/// The output of a port: all that nearly every event at it reads and writes, in one line of the cache. What less
/// frequent events need is apart.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Egress {
    /// A bit for each queue that has packets, and each class that the far end pauses.
    pub waiting: u8,
    pub paused: u8,
    /// Whether a frame must still tell the far end which classes its input [pauses](super::Ports::pauses).
    pub has_to_tell: bool,
    /// Whether it sends something, until when, and whether that end is an
    /// [event](super::Ports::sent); otherwise the port is [settled](super::Ports::settle) when the
    /// end matters.
    pub is_busy: bool,
    pub is_noted: bool,
    pub until: Time,
    /// Whether packets are planned behind what it sends, the queue that they would wait in, and where they are.
    pub has_planned: bool,
    pub planned_queue: u8,
    pub planned: PlannedList,
    /// When all that it sends and all that is planned will have left.
    pub free: Time,
    /// How long it was busy until then, within the window of the records.
    pub busy: Span,
    /// What it sends: the size is zero unless that is a packet.
    pub class: u8,
    pub input: u32,
    pub size: u32,
    /// The number of its [kind](PortKind).
    pub kind: u32,
    /// Where its packets arrive: a port of a switch, or behind those a host.
    pub peer: u32,
    pub waiting_bytes: u64,
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

/// What the ports of a switch before cables of one kind have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PortKind {
    /// The numbers of its rule and of its link.
    pub rule: u32,
    pub link: u32,
    /// From its end of the cable to the memory of the switch at the far end.
    pub ahead: Span,
    /// Whether packets count as arrived with their last byte.
    pub is_whole: bool,
}

impl PortKind {
    /// How long after its start a packet arrives that is sent for `span`.
    #[inline]
    pub fn delay(&self, span: Span) -> Span {
        if self.is_whole { self.ahead + span } else { self.ahead }
    }
}

impl Egress {
    /// An idle output, by the number of its kind and the port at the far end.
    pub fn new(kind: u32, peer: u32) -> Egress {
        Egress {
            waiting: 0,
            paused: 0,
            has_to_tell: false,
            is_busy: false,
            is_noted: false,
            until: Time::ZERO,
            has_planned: false,
            planned_queue: 0,
            planned: PlannedList::EMPTY,
            free: Time::ZERO,
            busy: Span::ZERO,
            class: 0,
            input: 0,
            size: 0,
            kind,
            peer,
            waiting_bytes: 0,
        }
    }

    /// It sends for `span` from `start` on, when it has sent all that it was given before.
    #[inline(always)]
    pub fn occupy(&mut self, start: Time, span: Span, window: RecordingWindow) {
        self.free = start + span;
        self.busy += window.overlap_of(start, self.free, span);
    }

    /// It sends nothing of what it was given to send when its present transmission ends.
    pub fn vacate(&mut self, window: RecordingWindow) {
        self.busy = Span(self.busy.0 - window.overlap(self.until, self.free).0);
        self.free = self.until;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_counts_within_the_window_and_not_what_is_revoked() {
        let window = RecordingWindow { from: Time(50), until: Time(330) };
        let mut own = Egress::new(0, 0);
        for start in [0, 60, 250, 310] {
            own.occupy(Time(start), Span(60), window);
        }
        assert_eq!((own.free, own.busy), (Time(370), Span(10 + 60 + 60 + 20)));
        // It sends until 310; the last one, of which the records had seen 20, was planned.
        own.until = Time(310);
        own.vacate(window);
        assert_eq!((own.free, own.busy), (Time(310), Span(10 + 60 + 60)));
        own.vacate(window);
        assert_eq!((own.free, own.busy), (Time(310), Span(10 + 60 + 60)));
    }
}
