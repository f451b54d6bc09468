//! A ring of adapters that pass on what is for others, acknowledge what is for them, and repeat
//! what did not arrive whole, without a limit or a number of times (SCILAN 2.2 and 4.2: 64-byte requests, carried out and acknowledged in
//! hardware).

use std::collections::VecDeque;

use weft_fabric::link::Errors;
use weft_fabric::link::LinkSettings;
use weft_fabric::measure::Observations;
use weft_fabric::switch::RingSettings;
use weft_kernel::{Halt, Queue, Stopped};
use weft_units::{Bytes, Span, Time};

use super::Channel;
use super::carrier::{Carrier, Message, MessageId, Messages, Notice};
use super::receiver::Receiver;

/// What a ring is made of.
#[derive(Debug)]
pub struct RingParts {
    /// The adapters' part in it.
    pub ring: RingSettings,
    /// The link from each adapter to the next.
    pub link: LinkSettings,
    /// Size of a request on the wire, and what of it a program handed over.
    pub packet: Bytes,
    /// See `packet`.
    pub payload: Bytes,
    /// The receive buffers of each adapter.
    pub receivers: Vec<Receiver>,
    /// What happens to the requests that each adapter sends; empty on links free of errors. An
    /// acknowledgment is short, and taken to arrive whole.
    pub errors: Vec<Errors>,
    /// Where it is noted how long each link is busy: that of a node to the next has its number.
    pub observations: Observations,
}

/// What adapters on a ring did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Requests on their first link, repetitions included.
    pub requests: u64,
    /// Requests that arrived damaged.
    pub damaged: u64,
    /// Requests for which the target had no buffer.
    pub refused: u64,
    /// Requests that were not repeated any more.
    pub given_up: u64,
}

/// A ring.
#[derive(Debug)]
pub struct Ring {
    settings: RingSettings,
    /// The time of a request, and of an acknowledgment, on a link.
    request: Span,
    acknowledgment: Span,
    propagation: Span,
    packet: Bytes,
    nodes: Vec<Node>,
    messages: Messages,
    receivers: Vec<Receiver>,
    errors: Vec<Errors>,
    queue: Queue<Event>,
    counters: RingCounters,
    observations: Observations,
    steps: u64,
}

/// An adapter with the link that leaves it.
#[derive(Debug, Default)]
struct Node {
    /// Until when the link is occupied.
    busy: Time,
    /// What passes, and the acknowledgments of this adapter.
    passing: VecDeque<Packet>,
    /// Messages that have packets to send, and how many.
    own: VecDeque<(MessageId, u16, u32)>,
    /// Requests that are to be repeated.
    again: VecDeque<Packet>,
    outstanding: usize,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    from: u16,
    to: u16,
    message: MessageId,
    kind: Kind,
    /// How often it was repeated.
    repeats: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request { damaged: bool },
    Acknowledgment { accepted: bool },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The first byte of a packet is at a node.
    Head(Packet, u16),
    /// The last byte of a packet is at its destination.
    Tail(Packet),
    /// A packet has come through the bypass of a node.
    Pass(Packet, u16),
    /// A request may be repeated.
    Again(Packet),
    /// The link from a node is free.
    Free(u16),
    /// The last byte of a message has left its initiator.
    Left(MessageId),
}

impl Ring {
    /// An idle ring of as many adapters as there are receivers.
    pub fn new(parts: RingParts) -> Ring {
        let hosts = parts.receivers.len();
        Ring {
            request: parts.link.span(parts.packet),
            acknowledgment: parts.link.span(parts.ring.acknowledgment),
            propagation: parts.link.propagation(),
            packet: parts.packet,
            settings: parts.ring,
            nodes: (0..hosts).map(|_| Node::default()).collect(),
            messages: Messages::new(hosts, parts.payload),
            receivers: parts.receivers,
            errors: parts.errors,
            queue: Queue::new(),
            counters: RingCounters::default(),
            observations: parts.observations,
            steps: 0,
        }
    }

    /// What was done so far.
    pub fn counted(&self) -> RingCounters {
        self.counters
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Head(packet, node) if node == packet.destination() => {
                self.queue.push(now + self.span(packet), Event::Tail(packet));
            }
            Event::Head(packet, node) => {
                self.queue.push(now + self.settings.bypass, Event::Pass(packet, node));
            }
            Event::Pass(packet, node) => {
                self.nodes[usize::from(node)].passing.push_back(packet);
                self.serve(now, node);
            }
            Event::Tail(packet) => self.reach(now, packet),
            Event::Again(packet) => {
                self.nodes[usize::from(packet.from)].again.push_back(packet);
                self.serve(now, packet.from);
            }
            Event::Free(node) => self.serve(now, node),
            Event::Left(message) => self.messages.sent(now, message),
        }
    }

    /// A packet is whole at its destination.
    fn reach(&mut self, now: Time, packet: Packet) {
        match packet.kind {
            Kind::Request { damaged } => {
                let accepted = !damaged && self.receivers[usize::from(packet.to)].take(now);
                match (damaged, accepted) {
                    (true, _) => self.counters.damaged += 1,
                    (_, false) => self.counters.refused += 1,
                    _ => self.messages.arrive(now, packet.message),
                }
                let answer = Packet { kind: Kind::Acknowledgment { accepted }, ..packet };
                self.nodes[usize::from(packet.to)].passing.push_back(answer);
                self.serve(now, packet.to);
            }
            Kind::Acknowledgment { accepted } => {
                let from = packet.from;
                self.nodes[usize::from(from)].outstanding -= 1;
                if !accepted {
                    self.repeat(now, packet);
                }
                self.serve(now, from);
            }
        }
    }

    /// A request did not arrive whole: it is sent again, unless that was done often enough.
    fn repeat(&mut self, now: Time, packet: Packet) {
        if !self.settings.retries.admits(packet.repeats as usize) {
            self.counters.given_up += 1;
            return self.messages.give_up(now, packet.message);
        }
        let (kind, repeats) = (Kind::Request { damaged: false }, packet.repeats + 1);
        let again = Packet { kind, repeats, ..packet };
        self.queue.push(now + self.settings.retry_after, Event::Again(again));
    }

    /// The link from a node takes the next packet, if it is free.
    fn serve(&mut self, now: Time, node: u16) {
        if self.nodes[usize::from(node)].busy > now {
            return;
        }
        let Some(packet) = self.next_packet(now, node) else { return };
        let span = self.span(packet);
        let state = &mut self.nodes[usize::from(node)];
        state.busy = now + span;
        self.observations.occupy(node.into(), now, span);
        let next = if usize::from(node) + 1 == self.nodes.len() { 0 } else { node + 1 };
        self.queue.push(now + self.propagation, Event::Head(packet, next));
        self.queue.push(now + span, Event::Free(node));
    }

    fn next_packet(&mut self, now: Time, node: u16) -> Option<Packet> {
        let state = &mut self.nodes[usize::from(node)];
        if let Some(packet) = state.passing.pop_front() {
            return Some(packet);
        }
        if !self.settings.outstanding.admits(state.outstanding) {
            return None;
        }
        let packet = match state.again.pop_front() {
            Some(packet) => packet,
            None => {
                let (message, to, packets) = state.own.front_mut()?;
                let (message, to) = (*message, *to);
                *packets -= 1;
                if *packets == 0 {
                    state.own.pop_front();
                }
                if self.messages.start(message) {
                    self.queue.push(now + self.request, Event::Left(message));
                }
                Packet {
                    from: node,
                    to,
                    message,
                    kind: Kind::Request { damaged: false },
                    repeats: 0,
                }
            }
        };
        self.nodes[usize::from(node)].outstanding += 1;
        self.counters.requests += 1;
        let errors = self.errors.get_mut(usize::from(node));
        let damaged = errors.is_some_and(|errors| errors.damages_next(None, self.packet));
        Some(Packet { kind: Kind::Request { damaged }, ..packet })
    }

    fn span(&self, packet: Packet) -> Span {
        match packet.kind {
            Kind::Request { .. } => self.request,
            Kind::Acknowledgment { .. } => self.acknowledgment,
        }
    }
}

impl Packet {
    fn destination(&self) -> u16 {
        match self.kind {
            Kind::Request { .. } => self.to,
            Kind::Acknowledgment { .. } => self.from,
        }
    }
}

/// A ring has no traffic of its own, and keeps no account of its packets but of its links.
impl Channel for Ring {
    fn run(&mut self, _: Time, _: &Halt) -> Option<Stopped> {
        None
    }

    fn backlog(&self) -> u64 {
        0
    }

    fn in_flight(&self) -> u64 {
        0
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        None
    }

    fn into_observations(self) -> Observations {
        self.observations
    }

    fn counters(&self, _: Time) -> Vec<(&'static str, f64)> {
        vec![
            ("ring_requests", self.counters.requests as f64),
            ("ring_damaged", self.counters.damaged as f64),
            ("ring_refused", self.counters.refused as f64),
            ("ring_given_up", self.counters.given_up as f64),
        ]
    }
}

impl Carrier for Ring {
    fn offer(&mut self, now: Time, message: Message) {
        let from = message.from;
        let own = &mut self.nodes[usize::from(from)].own;
        self.messages.post(message, |id, to, packets| own.push_back((id, to, packets)));
        self.serve(now, from);
    }

    fn next_time(&self) -> Time {
        let next = self.messages.next_notice().or_else(|| self.queue.next_time());
        next.unwrap_or(Time::NEVER)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while let Some((time, event)) = self.queue.pop_until(now) {
            self.steps += 1;
            self.handle(time, event);
        }
        self.messages.take_notices(notices);
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        let waits = |(_, node): &(usize, &Node)| !node.own.is_empty() || !node.again.is_empty();
        let sentence = |(host, _): (usize, &Node)| {
            format!("host {host} waits for acknowledgments or for what passes")
        };
        self.nodes.iter().enumerate().filter(waits).map(sentence).collect()
    }
}
