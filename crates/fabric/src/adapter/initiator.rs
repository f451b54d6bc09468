//! The sending side of an adapter: what waits in it, and what may start next on its link.

use std::collections::VecDeque;

use weft_kernel::Stream;
use weft_protocol::retransmit::{ControlSettings, Standing, Window};
use weft_units::{Span, Time};

use super::{AdapterSettings, Insertion, PacketQueue, Throttle};

/// The history of a packet up to a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// It was submitted.
    pub generated: Time,
    /// It got its send buffer.
    pub buffered: Time,
    /// Its first transmission started.
    pub first: Time,
}

/// The sending side of the adapter of one host. The caller starts the packets that it returns, and
/// records until when they occupy the link. Packets in flight have identifiers that the caller
/// assigns.
#[derive(Debug)]
pub struct Initiator {
    /// Packets that wait for a send buffer.
    pub queue: PacketQueue<Time>,
    /// The send buffers.
    pub window: Window<Past>,
    /// Packets of a schedule that wait for the link.
    pub scheduled: VecDeque<u32>,
    /// Acknowledgments that wait for the link.
    pub acknowledgments: VecDeque<u32>,
    /// Until when a request occupies the link.
    pub request_until: Time,
    /// Until when an acknowledgment, or a packet of a schedule, occupies the link.
    pub acknowledgment_until: Time,
    /// The limit on how often requests start, if there is one.
    pub throttle: Option<Throttle>,
    /// The earliest time at which the link must be served again.
    wake: Time,
    back_off: Span,
    random: Stream,
}

impl Initiator {
    /// An empty adapter among this many hosts. `random` is drawn from only for a `back_off`.
    pub fn new(
        settings: &AdapterSettings,
        control: &ControlSettings,
        hosts: usize,
        random: Stream,
    ) -> Initiator {
        Initiator {
            queue: PacketQueue::new(&settings.feed, hosts),
            window: Window::new(settings.send_buffers, control, hosts),
            scheduled: VecDeque::new(),
            acknowledgments: VecDeque::new(),
            request_until: Time::ZERO,
            acknowledgment_until: Time::ZERO,
            throttle: settings.throttle.clone().map(Throttle::new),
            wake: Time::NEVER,
            back_off: control.back_off(),
            random,
        }
    }

    /// Moves packets from the packet queue into the send buffers that are free.
    #[inline]
    pub fn feed(&mut self, now: Time) {
        while !self.queue.is_empty() && self.window.has_space() {
            let Some((target, generated)) = self.queue.take() else { break };
            self.window.admit(target, Past { generated, buffered: now.max(generated), first: now });
        }
    }

    /// Whether a source that fills free buffers can submit another packet.
    #[inline]
    pub fn has_space(&self) -> bool {
        self.queue.is_empty() && self.window.has_space()
    }

    /// Whether something waits that goes before requests.
    #[inline]
    pub fn has_priority(&self) -> bool {
        !self.acknowledgments.is_empty() || !self.scheduled.is_empty()
    }

    /// When something with priority over requests may start on the link.
    #[inline]
    pub fn priority_at(&self, insertion: Insertion) -> Time {
        match insertion {
            Insertion::Wait => self.acknowledgment_until.max(self.request_until),
            Insertion::Interleave => self.acknowledgment_until,
        }
    }

    /// When the next acknowledgment may start on the link, if one waits.
    #[inline]
    pub fn acknowledgment_at(&self, insertion: Insertion) -> Option<Time> {
        if self.acknowledgments.is_empty() || !self.scheduled.is_empty() {
            return None;
        }
        Some(self.priority_at(insertion))
    }

    /// When the next request may start on the link, if one may be sent: acknowledgments go first.
    #[inline]
    pub fn request_at(&self) -> Option<Time> {
        if self.has_priority() || !self.window.has_candidates() {
            return None;
        }
        let free = self.request_until.max(self.acknowledgment_until);
        Some(self.throttle.as_ref().map_or(free, |throttle| free.max(throttle.ready_at())))
    }

    /// Schedules the link for `at`. Returns whether no earlier time was scheduled.
    #[inline]
    pub fn arm(&mut self, at: Time) -> bool {
        let earlier = at < self.wake;
        if earlier {
            self.wake = at;
        }
        earlier
    }

    /// The link is served, for which it may have been [armed](Self::arm).
    #[inline]
    pub fn look(&mut self, now: Time) {
        if self.wake == now {
            self.wake = Time::NEVER;
        }
    }

    /// A random wait before a retransmission.
    #[inline]
    pub fn draw_back_off(&mut self) -> Span {
        if self.back_off == Span::ZERO {
            return Span::ZERO;
        }
        Span(self.random.below(self.back_off.0.saturating_add(1)))
    }

    /// Packets in send buffers that have never been sent.
    pub fn fresh(&self) -> u64 {
        let fresh = self.window.iter().filter(|held| held.standing == Standing::Fresh);
        fresh.count() as u64
    }
}
