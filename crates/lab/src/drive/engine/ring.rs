//! Hosts that are nodes of a ring, each with a link to the next: packets for other nodes pass a node
//! through its bypass, and it acknowledges or refuses packets for itself over the rest of the ring, so
//! that a request that was damaged is sent again (SCILAN 2.2 and 4.2).
//!
//! A packet costs three events at each node that it passes: its first byte arrives, it has come through
//! the bypass, and its last byte has left. If the link becomes free at the instant at which a packet
//! comes through the bypass, the node sends what has waited before, so that packets that follow each
//! other on the ring without a gap do not keep it from sending its own.

use weft_fabric::fabric::RouteState;
use weft_fabric::link::Errors;
use weft_fabric::measure::Spent;
use weft_fabric::measure::{Drop, Instants, Latency, Stage};
use weft_fabric::switch::{RingDemand, RingKind, RingNode, RingSettings, RingTurn};
use weft_kernel::Event;
use weft_units::{Bytes, Limit, Span, Time};

use super::packets::{Forwarding, Packet};
use super::{Delivery, Engine, Handed};
use crate::drive::carrier::{Message, MessageId};
use crate::drive::receiver::Receiver;

/// The parts of hosts that form a ring.
#[derive(Debug)]
pub struct RingParts {
    /// The settings of its adapters, and how its links differ from that of the channel.
    pub settings: RingSettings,
    /// The receive buffers of each adapter.
    pub receivers: Vec<Receiver>,
    /// The errors of the requests that each adapter sends; empty on links without errors. An
    /// acknowledgment is short, and taken to arrive undamaged.
    pub errors: Vec<Errors>,
    /// Additional errors of requests on the link of each adapter; empty if no link has errors of its own.
    pub link_errors: Vec<Option<Errors>>,
}

/// What the nodes of a ring did, in a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Requests on their first link, repetitions included.
    pub requests: u64,
    /// Requests that arrived damaged.
    pub damaged: u64,
    /// Requests for which the target had no buffer.
    pub refused: u64,
    /// Requests that were given up.
    pub given_up: u64,
}

/// All nodes, and the packets between them.
#[derive(Debug)]
pub(super) struct Ring {
    settings: RingSettings,
    nodes: Vec<RingNode>,
    receivers: Vec<Receiver>,
    errors: Vec<Errors>,
    link_errors: Vec<Option<Errors>>,
    /// By packet number.
    flights: Vec<Flight>,
    counters: RingCounters,
    packet: Bytes,
    /// Requests that were sent and have neither arrived nor been given up.
    under_way: u64,
}

/// A request, or its acknowledgment.
#[derive(Clone, Copy, Debug)]
struct Flight {
    kind: RingKind,
    /// How often it was repeated.
    repeats: u32,
    /// When its first byte was sent for the first time.
    first: Time,
    /// The accumulated times of its last transmission.
    spent: Spent,
}

/// The events of a node, in the order in which those of one instant happen.
mod happens {
    /// The last byte of a message has left its initiator.
    pub const SENT: u32 = 0;
    /// The link is free.
    pub const FREE: u32 = 1;
    /// The first byte of a packet arrives.
    pub const HEAD: u32 = 2;
    /// The last byte of a packet is at its destination.
    pub const TAIL: u32 = 3;
    /// A packet has come through the bypass.
    pub const PASS: u32 = 4;
    /// A request may be repeated.
    pub const REPEAT: u32 = 5;
    /// The source hands a packet over.
    pub const GENERATE: u32 = 6;
}

impl Ring {
    /// Idle nodes, as many as there are receivers, for requests of a size.
    pub fn new(parts: RingParts, packet: Bytes) -> Ring {
        Ring {
            nodes: vec![RingNode::default(); parts.receivers.len()],
            settings: parts.settings,
            receivers: parts.receivers,
            errors: parts.errors,
            link_errors: parts.link_errors,
            flights: Vec::new(),
            counters: RingCounters::default(),
            packet,
            under_way: 0,
        }
    }

    /// Requests that have not been sent.
    pub fn unsent(&self) -> u64 {
        self.nodes.iter().map(RingNode::unsent).sum()
    }

    /// Requests that were sent and have neither arrived nor been given up.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// The counts, with the names of their columns.
    pub fn columns(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("ring_requests", self.counters.requests as f64),
            ("ring_damaged", self.counters.damaged as f64),
            ("ring_refused", self.counters.refused as f64),
            ("ring_given_up", self.counters.given_up as f64),
        ]
    }

    /// What waits for what, one sentence per line.
    pub fn who_waits(&self) -> Vec<String> {
        let waits = |(_, node): &(usize, &RingNode)| node.has_waiting();
        let sentence = |(host, _): (usize, &RingNode)| {
            format!("host {host} waits for acknowledgments or for what passes")
        };
        self.nodes.iter().enumerate().filter(waits).map(sentence).collect()
    }

    /// The place at which something happens at a node.
    fn place(&self, what: u32, node: u32) -> u32 {
        what * self.nodes.len() as u32 + node
    }
}

impl Engine {
    /// What the nodes of a ring did so far; empty without a ring.
    pub fn ring_counters(&self) -> RingCounters {
        self.ring.as_ref().map_or_else(RingCounters::default, |own| own.counters)
    }

    /// The first packets of the sources of nodes.
    pub(super) fn begin_ring(&mut self, send_buffers: Limit) {
        for (host, time) in self.supply.begin(send_buffers) {
            self.at_node(time, host, happens::GENERATE, 0);
        }
    }

    fn at_node(&mut self, time: Time, node: u32, what: u32, item: u32) {
        let Some(own) = &self.ring else { return };
        let place = own.place(what, node);
        self.schedule(time, place, item);
    }

    /// Processes an event of a ring.
    pub(super) fn happen_on_ring(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        let Event { time: now, place, item } = event;
        let nodes = self.graph.hosts();
        let (what, node) = (place / nodes, place % nodes);
        match what {
            happens::SENT => {
                if let Some(feed) = self.supply.messages() {
                    feed.messages.sent(now, MessageId::of(item));
                }
            }
            happens::HEAD => self.come_to_node(now, node, item),
            happens::TAIL => self.end_at_node(now, node, item, watch),
            happens::PASS => {
                if let Some(own) = &mut self.ring {
                    own.nodes[node as usize].pass(item);
                }
                self.serve_node(now, node);
            }
            happens::REPEAT => {
                if let Some(own) = &mut self.ring {
                    own.nodes[node as usize].repeat(item);
                }
                self.serve_node(now, node);
            }
            happens::FREE => self.serve_node(now, node),
            _ => self.generate_at_node(now, node),
        }
    }

    /// Takes a message over at a node.
    pub(super) fn offer_to_node(&mut self, now: Time, message: Message) {
        let from = message.from;
        if let (Some(own), Some(feed)) = (&mut self.ring, self.supply.messages()) {
            let (node, seen) = (&mut own.nodes[usize::from(from)], &mut self.observations);
            feed.messages.post(message, |id, to, packets| {
                (0..packets).for_each(|_| seen.generate_from(from.into(), now));
                let (to, name, generated) = (to.into(), id.number(), now);
                node.submit(RingDemand { to, packets, name, generated });
            });
        }
        self.serve_node(now, from.into());
    }

    fn generate_at_node(&mut self, now: Time, node: u32) {
        let Handed { to, generated, message, next, .. } =
            self.supply.hand_over(now, node, self.payload);
        self.observations.generate_from(node as usize, now);
        if next < Time::NEVER {
            self.at_node(next, node, happens::GENERATE, 0);
        }
        if let Some(own) = &mut self.ring {
            let name = message.number();
            own.nodes[node as usize].submit(RingDemand { to, packets: 1, name, generated });
        }
        self.serve_node(now, node);
    }

    /// The first byte of a packet is at a node.
    fn come_to_node(&mut self, now: Time, node: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let flight = &mut own.flights[id as usize];
        let (way, packet) =
            (&mut self.packets.forwarding[id as usize], &self.packets.packets[id as usize]);
        let is_short = matches!(flight.kind, RingKind::Acknowledgment { .. });
        let destination = if is_short { packet.from } else { way.to };
        if node == destination {
            let before = if node == 0 { self.graph.hosts() - 1 } else { node - 1 };
            let span = self.graph.span_of(before, is_short);
            flight.spent.transmission += span;
            return self.at_node(now + span, node, happens::TAIL, id);
        }
        let (bypass, lag) = (own.settings.bypass, self.graph.lag_on_ring(node, is_short));
        flight.spent.switches += bypass;
        flight.spent.transmission += lag;
        if !is_short {
            way.hops += 1;
        }
        self.at_node(now + bypass + lag, node, happens::PASS, id);
    }

    /// A packet is whole at its destination.
    fn end_at_node(&mut self, now: Time, node: u32, id: u32, watch: &mut impl FnMut(Delivery)) {
        let Some(own) = &mut self.ring else { return };
        match own.flights[id as usize].kind {
            RingKind::Request { damaged } => {
                let accepted = !damaged && own.receivers[node as usize].take(now);
                own.flights[id as usize].kind = RingKind::Acknowledgment { accepted };
                own.nodes[node as usize].pass(id);
                if damaged {
                    own.counters.damaged += 1;
                    self.observations.drop(Drop::Corrupted, now);
                } else if !accepted {
                    own.counters.refused += 1;
                    self.observations.drop(Drop::NoReceiveBuffer, now);
                } else {
                    own.under_way -= 1;
                    self.deliver_at_node(now, node, id, watch);
                }
            }
            RingKind::Acknowledgment { accepted } => {
                own.nodes[node as usize].answered();
                match accepted {
                    true => self.packets.remove(id),
                    false => self.repeat_on_ring(now, node, id),
                }
            }
        }
        self.serve_node(now, node);
    }

    /// A request is taken by its target.
    fn deliver_at_node(&mut self, now: Time, node: u32, id: u32, watch: &mut impl FnMut(Delivery)) {
        let Some(own) = &self.ring else { return };
        let (Flight { first, spent, .. }, Forwarding { hops, .. }) =
            (own.flights[id as usize], self.packets.forwarding[id as usize]);
        let Packet { generated, start, from, message } = self.packets.packets[id as usize];
        let moving = spent.transmission + spent.wire + spent.switches;
        let one = Instants {
            from,
            to: node,
            generated,
            started: start,
            delivered: now,
            hops,
            class: 0,
            payload: self.payload,
            transmission: spent.transmission,
            wire: spent.wire,
            switches: spent.switches,
            initiator: Span::ZERO,
            target: Span::ZERO,
        };
        let stages = [
            (Stage::SlotWait, first.since(generated)),
            (Stage::Retry, start.since(first)),
            (Stage::Transmission, spent.transmission),
            (Stage::Wire, spent.wire),
            (Stage::Switch, spent.switches),
            (Stage::SwitchWait, Span(now.since(start).0 - moving.0)),
        ];
        self.observations.complete_in_stages(&one, |budget| budget.add_all(&stages));
        watch(Delivery::of(&one));
        if let Some(time) = self.supply.arrived(now, (from, node), message) {
            self.at_node(time, node, happens::GENERATE, 0);
        }
    }

    /// The target did not accept a request, which was damaged or found no receive buffer: the node
    /// sends it again, unless it has done so often enough.
    fn repeat_on_ring(&mut self, now: Time, node: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let flight = &mut own.flights[id as usize];
        if own.settings.retries.admits(flight.repeats as usize) {
            flight.repeats += 1;
            let at = now + own.settings.retry_after;
            return self.at_node(at, node, happens::REPEAT, id);
        }
        own.counters.given_up += 1;
        own.under_way -= 1;
        self.observations.abandon_from(node as usize, now);
        let message = self.packets.packets[id as usize].message;
        self.packets.remove(id);
        if let Some(feed) = self.supply.messages() {
            feed.messages.give_up(now, message);
        }
    }

    /// The link of a node takes the next packet, if it is free.
    fn serve_node(&mut self, now: Time, node: u32) {
        if self.graph.free(node) > now {
            return;
        }
        let Some(own) = &mut self.ring else { return };
        let Some(turn) = own.nodes[node as usize].next(&own.settings) else { return };
        let id = match turn {
            RingTurn::Pass(id) => id,
            RingTurn::Repeat(id) => self.start_at_node(now, node, id),
            RingTurn::Fresh(demand) => self.start_fresh(now, node, demand),
        };
        let Some(own) = &mut self.ring else { return };
        let flight = &mut own.flights[id as usize];
        let is_short = matches!(flight.kind, RingKind::Acknowledgment { .. });
        if !is_short
            && let Some(Some(errors)) = own.link_errors.get_mut(node as usize)
            && errors.damages_next(None, own.packet)
        {
            flight.kind = RingKind::Request { damaged: true };
        }
        let (span, wire) = (self.graph.span_of(node, is_short), self.graph.propagation(node));
        flight.spent.wire += wire;
        self.graph.occupy(now, node, span);
        let next = self.graph.peer(node).unwrap_or(node);
        self.at_node(now + wire, next, happens::HEAD, id);
        self.at_node(now + span, node, happens::FREE, 0);
    }

    /// A request starts for the first time.
    fn start_fresh(&mut self, now: Time, node: u32, demand: RingDemand) -> u32 {
        let RingDemand { to, name, generated, .. } = demand;
        let message = MessageId::of(name);
        let route_state = RouteState::DIRECT;
        let way = Forwarding { to, route_state, output: 0, hops: 0, channel: 0 };
        let id = self.packets.insert(way, Packet { generated, start: now, from: node, message });
        let kind = RingKind::Request { damaged: false };
        let flight = Flight { kind, repeats: 0, first: now, spent: Spent::default() };
        if let Some(own) = &mut self.ring {
            own.under_way += 1;
            match own.flights.get_mut(id as usize) {
                Some(place) => *place = flight,
                None => own.flights.push(flight),
            }
        }
        self.observations.latency(Latency::FirstAttempt, now, now.since(generated));
        if message != MessageId::NONE
            && self.supply.messages().is_some_and(|feed| feed.messages.start(message))
        {
            self.at_node(now + self.graph.span(node), node, happens::SENT, name);
        }
        // The buffer of a greedy source is free when the transmission starts.
        if self.supply.has_another(node) {
            self.at_node(now, node, happens::GENERATE, 0);
        }
        self.start_at_node(now, node, id)
    }

    /// A request starts, for the first time or again.
    fn start_at_node(&mut self, now: Time, node: u32, id: u32) -> u32 {
        self.observations.attempt(now);
        self.packets.packets[id as usize].start = now;
        self.packets.forwarding[id as usize].hops = 0;
        let Some(own) = &mut self.ring else { return id };
        own.counters.requests += 1;
        let packet = own.packet;
        let errors = own.errors.get_mut(node as usize);
        let damaged = errors.is_some_and(|errors| errors.damages_next(None, packet));
        let flight = &mut own.flights[id as usize];
        flight.kind = RingKind::Request { damaged };
        flight.spent = Spent::default();
        id
    }
}
