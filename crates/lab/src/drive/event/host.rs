//! One host's adapter: what waits in it, and what may start next on its link.

use std::collections::VecDeque;

use weft_fabric::adapter::{AdapterSettings, Insertion, PacketQueue, Throttle};
use weft_fabric::link::Errors;
use weft_fabric::switch::PacketKind;
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Id, Stream};
use weft_protocol::resequence::Resequencer;
use weft_protocol::retransmit::{Attempt, ControlSettings, Slot, Window};
use weft_units::{Span, Time};

use super::interface::QuickInterface;
use crate::drive::carrier::MessageId;
use crate::drive::receiver::Receiver;

/// One packet on its way: one transmission of a request, or an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub from: u16,
    pub to: u16,
    pub kind: PacketKind,
    /// The rest of it was dropped in the switch.
    pub killed: bool,
    /// A bit of it arrives wrong.
    pub damaged: bool,
    /// Of an acknowledgment: the target had no receive buffer.
    pub refused: bool,
    /// Back pressure holds it.
    pub blocked: bool,
    /// Others may reach the same output in the same picosecond.
    pub in_company: bool,
    /// The send buffer of the request, its number in the pair, and the transmission.
    pub slot: Slot,
    pub sequence: u32,
    pub attempt: Attempt,
    /// What happened to the packet before, and when this transmission of it started; of an
    /// acknowledgment, those of its request.
    pub past: Past,
    pub start: Time,
    /// How long it occupies a link.
    pub span: Span,
    /// When its last byte reaches its destination, once it has been forwarded.
    pub end: Time,
}

/// When what happened to a packet until a transmission of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// It was handed over.
    pub generated: Time,
    /// It got its send buffer.
    pub buffered: Time,
    /// Its first transmission started.
    pub first: Time,
}

impl Flight {
    /// A request that starts at `start`, with nothing known about it besides.
    #[inline]
    pub fn new(from: u16, to: u16, start: Time) -> Flight {
        Flight {
            from,
            to,
            kind: PacketKind::Request,
            killed: false,
            damaged: false,
            refused: false,
            blocked: false,
            in_company: false,
            slot: Slot::default(),
            sequence: 0,
            attempt: Attempt::default(),
            past: Past { generated: start, buffered: start, first: start },
            start,
            span: Span::ZERO,
            end: Time::NEVER,
        }
    }
}

/// A packet that arrived before an older one of its pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub initiator: u16,
    pub sequence: u32,
    pub generated: Time,
    pub arrived: Time,
}

/// The last departure of a packet to an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub time: Time,
    pub id: Id<Flight>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub source: Option<Source>,
    /// What the source wants to be told.
    pub feedback: Feedback,
    pub queue: PacketQueue<Time>,
    pub window: Window<Past>,
    /// Packets of a schedule that wait for the link.
    pub scheduled: VecDeque<Id<Flight>>,
    /// Acknowledgments that wait for the link.
    pub acknowledgments: VecDeque<Id<Flight>>,
    /// Until when a request, and until when an acknowledgment, occupies the link.
    pub request_until: Time,
    pub acknowledgment_until: Time,
    /// The request that occupies the link, unless the switch has dropped it.
    pub sending: Option<Id<Flight>>,
    /// The message whose last packet is the one on the link.
    pub leaving: MessageId,
    /// The earliest time for which [`super::Happening::Transmit`] is scheduled.
    pub wake: Time,
    /// Whether [`super::Happening::Settle`] is scheduled for now.
    pub settling: bool,
    pub throttle: Option<Throttle>,
    /// What has arrived, by initiator.
    pub received: Vec<Resequencer>,
    pub early: Vec<Early>,
    pub receiver: Receiver,
    /// The interface in front of the send buffers and behind the receive buffers.
    pub interface: Option<Box<QuickInterface>>,
    /// What happens to what this host sends; absent on links free of errors.
    pub errors: Option<Errors>,
    /// From when on the switch refuses its requests.
    pub disabled_from: Time,
    back_off: Span,
    random: Stream,
}

impl Host {
    pub fn new(
        adapter: &AdapterSettings,
        control: &ControlSettings,
        ports: u16,
        source: Option<Source>,
        random: Stream,
    ) -> Host {
        let hosts = usize::from(ports);
        Host {
            feedback: source.as_ref().map_or(Feedback::None, Source::feedback),
            source,
            queue: PacketQueue::new(&adapter.feed, hosts),
            window: Window::new(adapter.send_buffers, control, hosts),
            scheduled: VecDeque::new(),
            acknowledgments: VecDeque::new(),
            request_until: Time::ZERO,
            acknowledgment_until: Time::ZERO,
            sending: None,
            leaving: MessageId::NONE,
            wake: Time::NEVER,
            settling: false,
            throttle: adapter.throttle.clone().map(Throttle::new),
            received: vec![Resequencer::default(); hosts],
            early: Vec::new(),
            receiver: Receiver::new(None),
            interface: None,
            errors: None,
            disabled_from: Time::NEVER,
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
        let waits = !self.acknowledgments.is_empty() || !self.scheduled.is_empty();
        if waits || !self.window.has_candidates() {
            return None;
        }
        let free = self.request_until.max(self.acknowledgment_until);
        Some(self.throttle.as_ref().map_or(free, |throttle| free.max(throttle.ready_at())))
    }

    /// Notes that the link is to be looked at again at `at`. Returns whether an event must be
    /// scheduled for it: not if one comes no later, nor if the end is not known yet.
    #[inline]
    pub fn arm(&mut self, at: Time) -> bool {
        let earlier = at < self.wake;
        if earlier {
            self.wake = at;
        }
        earlier
    }

    /// A random wait before a packet is sent again.
    #[inline]
    pub fn draw_back_off(&mut self) -> Span {
        if self.back_off == Span::ZERO {
            return Span::ZERO;
        }
        Span(self.random.below(self.back_off.0.saturating_add(1)))
    }
}
