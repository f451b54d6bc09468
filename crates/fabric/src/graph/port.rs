//! The sending side of a directed port: a queue before a link.

use std::sync::atomic::{AtomicU64, Ordering};

use weft_units::{Span, Time};

use super::PortUse;

/// Packets leave in the order in which they arrive, each as soon as the link is free, so that the start of
/// a packet is known when it arrives.
///
/// Parts of a graph that run in parallel share its ports, but each port is used by one part alone. Its
/// state is atomic for that reason, with relaxed ordering, which costs as much as plain integers: a
/// barrier orders the threads where one continues the work of another.
#[derive(Debug)]
pub(super) struct Port {
    /// When the last byte of everything that has arrived so far will have been sent, in
    /// picoseconds.
    free: AtomicU64,
    /// In picoseconds.
    busy: AtomicU64,
    /// The place at the far end of the cable.
    peer: u32,
    /// The number of its link.
    link: u32,
}

/// The interval in which busy times of links are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingWindow {
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
}

impl RecordingWindow {
    /// Like [`overlap`](Self::overlap), for an interval whose length is known; most are in the window.
    #[inline]
    pub(crate) fn overlap_of(self, from: Time, until: Time, span: Span) -> Span {
        let is_whole = from >= self.from && until <= self.until;
        if is_whole { span } else { self.overlap(from, until) }
    }

    /// How much of an interval is in the window; zero if they do not meet.
    #[inline]
    pub(crate) fn overlap(self, from: Time, until: Time) -> Span {
        until.min(self.until).since(from.max(self.from))
    }
}

/// The departure of a packet from a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its first byte leaves.
    pub start: Time,
    /// When it arrives: its first byte at a switch, its last at a host.
    pub arrival: Time,
    /// Where.
    pub place: u32,
}

impl Port {
    /// The value of `peer` without a cable.
    pub const UNUSED: u32 = u32::MAX;

    pub fn new(peer: u32, link: u32) -> Port {
        Port { free: AtomicU64::new(0), busy: AtomicU64::new(0), peer, link }
    }

    #[inline]
    pub fn free(&self) -> Time {
        Time(self.free.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn peer(&self) -> u32 {
        self.peer
    }

    #[inline]
    pub fn link(&self) -> u32 {
        self.link
    }

    /// How long it was busy within its window.
    #[inline]
    pub fn busy(&self) -> Span {
        Span(self.busy.load(Ordering::Relaxed))
    }

    /// Postpones the time at which the port is free, and adds busy time.
    pub fn go_on(&self, later: Span, busy: Span) {
        self.free.store((self.free() + later).0, Ordering::Relaxed);
        self.busy.store((self.busy() + busy).0, Ordering::Relaxed);
    }

    /// Sets its use.
    pub fn put(&self, own: PortUse) {
        self.free.store(own.free.0, Ordering::Relaxed);
        self.busy.store(own.busy.0, Ordering::Relaxed);
    }

    /// How many packets, of `span` each, are still waiting or being sent when one more may start.
    #[inline]
    pub fn held(&self, ready: Time, span: Span) -> u32 {
        // Without a gap: the packet that is being sent then and those after it.
        self.free().since(ready).0.div_ceil(span.0).try_into().unwrap_or(u32::MAX)
    }

    /// Appends a packet that takes `span` and may start when it is `ready`. Returns when it starts.
    #[inline]
    pub fn enqueue(&self, ready: Time, span: Span, window: RecordingWindow) -> Time {
        let start = self.free().max(ready);
        self.start(start, span, window);
        start
    }

    /// Starts a packet that takes `span`; the caller knows that it may.
    #[inline]
    pub fn start(&self, start: Time, span: Span, window: RecordingWindow) {
        let free = start + span;
        self.free.store(free.0, Ordering::Relaxed);
        let busy = self.busy() + window.overlap_of(start, free, span);
        self.busy.store(busy.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_behind_the_other_and_count_within_the_window() {
        let port = Port::new(0, 0);
        let window = RecordingWindow { from: Time(50), until: Time(330) };
        let starts = [0, 10, 250, 260].map(|ready| port.enqueue(Time(ready), Span(60), window).0);
        assert_eq!(starts, [0, 60, 250, 310]);
        assert_eq!((port.free(), port.busy()), (Time(370), Span(10 + 60 + 60 + 20)));
        let held = [249, 250, 309, 310, 369, 370].map(|ready| port.held(Time(ready), Span(60)));
        assert_eq!(held, [3, 2, 2, 1, 1, 0]);
    }
}
