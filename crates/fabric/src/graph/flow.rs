//! The near end of the flow control of every cable that leads to a buffer of limited size.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_kernel::{prefetch, prefetch_all};
use weft_units::Span;

use crate::link::FlowControl;

/// Credits by port and virtual channel. Clones share them, as parts of a graph that run side by side share
/// [ports](super::Port).
#[derive(Clone, Debug)]
pub(super) struct Flow {
    channels: u32,
    /// How many virtual channels a packet uses on its route.
    virtual_channels: u8,
    /// [`FREE`] if the far end counts no credits; empty without any buffer of limited size.
    credits: Arc<[AtomicU32]>,
    /// Which ports lead to a buffer of limited size.
    limited: Arc<[bool]>,
    /// The delay from the cause of a stop until it takes effect, besides that of the cable.
    reaction: Span,
    has_credits: bool,
}

/// Credits without end.
const FREE: u32 = u32::MAX;

impl Flow {
    /// The flow control of directed ports: for each, the packets of each virtual channel for which
    /// the far end has room, or none if that has no limit.
    pub fn new(control: &FlowControl, virtual_channels: u8, rooms: &[Option<u32>]) -> Flow {
        let channels = usize::from(control.channels);
        let credits = rooms.iter().flat_map(|room| {
            let credits = room.filter(|_| control.has_credits).unwrap_or(FREE);
            std::iter::repeat_with(move || AtomicU32::new(credits)).take(channels)
        });
        Flow {
            channels: control.channels.into(),
            virtual_channels: control.virtual_channels(virtual_channels),
            credits: credits.collect(),
            limited: rooms.iter().map(Option::is_some).collect(),
            reaction: control.stop_go.map_or(Span::ZERO, |own| own.reaction),
            has_credits: control.has_credits,
        }
    }

    /// The flow control of those ports alone, numbered in that order, before anything was sent.
    pub fn of_ports(&self, ports: &[u32]) -> Flow {
        let channels = self.channels;
        let credits = |port: &u32| {
            let places = (port * channels) as usize..((port + 1) * channels) as usize;
            let own = self.credits.get(places).unwrap_or_default();
            own.iter().map(|own| AtomicU32::new(own.load(Ordering::Relaxed)))
        };
        Flow {
            credits: ports.iter().flat_map(credits).collect(),
            limited: ports.iter().map(|port| self.is_limited(*port)).collect(),
            ..self.clone()
        }
    }

    /// Nothing has a limit.
    pub fn none() -> Flow {
        let (credits, limited) = (Arc::default(), Arc::default());
        let reaction = Span::ZERO;
        Flow { channels: 1, virtual_channels: 1, credits, limited, reaction, has_credits: false }
    }

    /// Whether a port leads to a buffer of limited size.
    #[inline]
    pub fn is_limited(&self, port: u32) -> bool {
        self.limited.get(port as usize).is_some_and(|limited| *limited)
    }

    /// Whether credits are counted.
    #[inline]
    pub fn has_credits(&self) -> bool {
        self.has_credits
    }

    /// The delay from the cause of a stop until it takes effect, besides that of the cable.
    pub fn reaction(&self) -> Span {
        self.reaction
    }

    /// Virtual channels of each cable.
    #[inline]
    pub fn channels(&self) -> u8 {
        self.channels as u8
    }

    /// How many of them a packet uses on its route.
    #[inline]
    pub fn virtual_channels(&self) -> u8 {
        self.virtual_channels
    }

    #[inline]
    fn place(&self, port: u32, channel: u8) -> usize {
        (port * self.channels + u32::from(channel)) as usize
    }

    /// Prefetches the credits of a port.
    #[inline]
    pub fn prefetch(&self, port: u32) {
        prefetch(&self.credits, port.wrapping_mul(self.channels) as usize);
    }

    /// Prefetches credits by their place among all.
    #[inline]
    pub fn prefetch_lot(&self, place: usize) {
        prefetch(&self.credits, place);
    }

    /// Prefetches the credits of these ports.
    #[inline]
    pub fn prefetch_all(&self, ports: Range<usize>) {
        let channels = self.channels as usize;
        let places = ports.start * channels..ports.end * channels;
        prefetch_all(self.credits.get(places).unwrap_or_default());
    }

    /// Whether a packet may be sent.
    #[inline]
    pub fn may_send(&self, port: u32, channel: u8) -> bool {
        self.credits[self.place(port, channel)].load(Ordering::Relaxed) > 0
    }

    /// Spends a credit for a packet. Returns whether it was the last one.
    #[inline]
    pub fn spend(&self, port: u32, channel: u8) -> bool {
        let credits = &self.credits[self.place(port, channel)];
        let before = credits.load(Ordering::Relaxed);
        debug_assert!(before > 0, "a packet was sent to a full buffer");
        if before == FREE {
            return false;
        }
        credits.store(before - 1, Ordering::Relaxed);
        before == 1
    }

    /// Returns a credit if there are so many already, by the place of a port and channel among all. Returns whether
    /// there are.
    #[inline]
    pub fn restore_beyond(&self, place: usize, enough: u32) -> bool {
        let credits = &self.credits[place];
        let before = credits.load(Ordering::Relaxed);
        let has_enough = before >= enough;
        if has_enough {
            credits.store(before.saturating_add(1), Ordering::Relaxed);
        }
        has_enough
    }

    /// How many credits a port has.
    pub fn credits(&self, port: u32, channel: u8) -> u32 {
        self.credits[self.place(port, channel)].load(Ordering::Relaxed)
    }

    /// Returns a credit. Returns whether there was none.
    #[inline]
    pub fn restore(&self, port: u32, channel: u8) -> bool {
        let credits = &self.credits[self.place(port, channel)];
        let before = credits.load(Ordering::Relaxed);
        credits.store(before.saturating_add(1), Ordering::Relaxed);
        before == 0
    }
}
