//! Rings: hosts, and bridges to switches and to other rings, are stations, each with a link to the
//! next. Packets for other stations pass a station through its bypass, and it acknowledges or
//! refuses packets for itself over the rest of the ring, so that a request that was damaged is sent
//! again (SCILAN 2.2 and 4.2).
//!
//! A packet costs three events at each station that it passes: its first byte arrives, it has come
//! through the bypass, and its last byte has left. If the link becomes free at the instant at which
//! a packet comes through the bypass, the station sends what has waited before, so that packets
//! that follow each other on the ring without a gap do not keep it from sending its own.
//!
//! What is on a ring is a *flight*: a request, then its acknowledgment. It names a packet until a
//! station has accepted that; the packet then is delivered, or leaves the ring by a bridge while
//! the acknowledgment goes round.

mod bridge;
mod stations;

use weft_fabric::fabric::HostPair;
use weft_fabric::link::Errors;
use weft_fabric::measure::{Drop, Instants, Latency, Spent, Stage};
use weft_fabric::switch::{RingDemand, RingKind, RingTurn};
use weft_kernel::Event;
use weft_units::{Limit, Span, Time};

use super::packets::{Forwarding, Packet};
use super::{Delivery, Engine, Handed};
use crate::drive::carrier::{Message, MessageId};
use crate::drive::receiver::Receiver;

use stations::{End, Flight, Times};
pub(super) use stations::{RingSwitch, Rings};

/// What the stations of rings have apart from the settings of their rings. Stations are numbered
/// ring by ring.
#[derive(Debug)]
pub struct RingParts {
    /// The receive buffers of each host.
    pub receivers: Vec<Receiver>,
    /// The errors of the requests that each station sends; empty on links without errors. An
    /// acknowledgment is short, and taken to arrive undamaged.
    pub errors: Vec<Errors>,
    /// Additional errors of requests on the link of each station; empty if no link has errors of
    /// its own.
    pub link_errors: Vec<Option<Errors>>,
}

/// What the stations of all rings did, in a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Requests on their first link, repetitions included.
    pub requests: u64,
    /// Requests that arrived damaged.
    pub damaged: u64,
    /// Requests for which the target, or a bridge, had no buffer.
    pub refused: u64,
    /// Requests that were given up.
    pub given_up: u64,
    /// Requests that left a ring by a bridge.
    pub bridged: u64,
    /// Those among the refused ones for which a bridge had no room.
    pub bridge_refused: u64,
    /// Those among the given up ones that a bridge had put on the ring.
    pub bridge_given_up: u64,
}

/// The events of a station, in the order in which those of one instant happen.
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
    /// A request may be repeated, or a bridge may send it for the first time.
    pub const REPEAT: u32 = 5;
    /// The source hands a packet over.
    pub const GENERATE: u32 = 6;
    /// A packet has come through a bridge and joins the queue before its cable.
    pub const CROSS: u32 = 7;
}

impl Engine {
    /// What the stations of rings did so far; nothing without a ring.
    pub fn ring_counters(&self) -> RingCounters {
        self.ring.as_ref().map_or_else(RingCounters::default, |own| own.counters)
    }

    /// The first packets of the sources of all hosts.
    pub(super) fn begin_rings(&mut self, send_buffers: Limit) {
        for (host, time) in self.supply.begin(send_buffers) {
            self.ask_on_rings(time, host);
        }
    }

    /// The source of a host will be asked for a packet.
    fn ask_on_rings(&mut self, time: Time, host: u32) {
        match self.ring.as_ref().and_then(|own| own.of_host(host)) {
            Some(station) => self.at_station(time, station, happens::GENERATE, 0),
            None => self.schedule(time, self.places.generates + host, 0),
        }
    }

    fn at_station(&mut self, time: Time, station: u32, what: u32, item: u32) {
        let Some(own) = &self.ring else { return };
        self.schedule(time, self.places.samples + own.place(what, station), item);
    }

    /// Processes an event of a ring.
    pub(super) fn happen_on_ring(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        let Event { time: now, place, item } = event;
        let Some(own) = &mut self.ring else { return };
        let (place, stations) = (place - self.places.samples, own.stations.len() as u32);
        let (what, station) = (place / stations, place % stations);
        match what {
            happens::SENT => {
                if let Some(feed) = self.supply.messages() {
                    feed.messages.sent(now, MessageId::of(item));
                }
            }
            happens::HEAD => self.come_to_station(now, station, item),
            happens::TAIL => self.end_at_station(now, station, item, watch),
            happens::PASS => self.pass_station(now, station, item),
            happens::REPEAT => {
                own.stations[station as usize].node.repeat(item);
                self.serve_station(now, station);
            }
            happens::FREE => self.serve_station(now, station),
            happens::CROSS => self.leave_bridge(now, station, item),
            _ => self.generate_at_station(now, station),
        }
    }

    /// Takes a message over at the station of its host. Returns whether that is on a ring.
    pub(super) fn offer_to_station(&mut self, now: Time, message: Message) -> bool {
        let from = message.from.into();
        let Some(own) = &mut self.ring else { return false };
        let (Some(station), Some(feed)) = (own.of_host(from), self.supply.messages()) else {
            return false;
        };
        let (node, seen) = (&mut own.stations[station as usize].node, &mut self.observations);
        feed.messages.post(message, |id, to, packets| {
            (0..packets).for_each(|_| seen.generate_from(from as usize, now));
            let (to, name, generated) = (to.into(), id.number(), now);
            node.submit(RingDemand { to, packets, name, generated });
        });
        self.serve_station(now, station);
        true
    }

    fn generate_at_station(&mut self, now: Time, station: u32) {
        let Some(End::Host(host)) = self.ring.as_ref().map(|own| own.end(station)) else { return };
        let Handed { to, generated, message, next, .. } =
            self.supply.hand_over(now, host, self.payload);
        self.observations.generate_from(host as usize, now);
        if next < Time::NEVER {
            self.at_station(next, station, happens::GENERATE, 0);
        }
        if let Some(own) = &mut self.ring {
            let name = message.number();
            let node = &mut own.stations[station as usize].node;
            node.submit(RingDemand { to, packets: 1, name, generated });
        }
        self.serve_station(now, station);
    }

    /// The first byte of a packet is at a station.
    fn come_to_station(&mut self, now: Time, station: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let (flight, at) = (&mut own.flights[id as usize], &own.stations[station as usize]);
        let is_short = flight.is_short();
        let Times { arrival, lag, .. } = *at.times(is_short);
        let (what, time) = if station == flight.goal() {
            flight.spent.transmission += arrival;
            (happens::TAIL, now + arrival)
        } else {
            flight.spent.switches += at.bypass;
            flight.spent.transmission += lag;
            flight.passed += u16::from(!is_short);
            (happens::PASS, now + at.bypass + lag)
        };
        let place = own.place(what, station);
        self.schedule(time, self.places.samples + place, id);
    }

    /// A packet has come through the bypass of a station.
    #[inline]
    fn pass_station(&mut self, now: Time, station: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let at = &mut own.stations[station as usize];
        // The next one for the link would be this one.
        if self.graph.free(at.link) <= now && !at.node.has_passing() {
            return self.start_on_link(now, station, id);
        }
        at.node.pass(id);
        self.serve_station(now, station);
    }

    /// A packet is whole at its destination on this ring.
    fn end_at_station(
        &mut self,
        now: Time,
        station: u32,
        id: u32,
        watch: &mut impl FnMut(Delivery),
    ) {
        let Some(own) = &mut self.ring else { return };
        match own.flights[id as usize].kind {
            RingKind::Request { damaged } => self.take_request(now, station, id, damaged, watch),
            RingKind::Acknowledgment { accepted } => {
                own.stations[station as usize].node.answered();
                match accepted {
                    true => self.end_flight(now, station, id),
                    false => self.repeat_on_ring(now, station, id),
                }
            }
        }
        self.serve_station(now, station);
    }

    /// A request is whole at its target or at the bridge by which it leaves the ring, which accepts
    /// or refuses it.
    fn take_request(
        &mut self,
        now: Time,
        station: u32,
        id: u32,
        damaged: bool,
        watch: &mut impl FnMut(Delivery),
    ) {
        let Some(own) = &mut self.ring else { return };
        let end = own.end(station);
        let accepted = !damaged
            && match end {
                End::Host(host) => own.receivers[host as usize].take(now),
                End::Bridge => self.take_at_bridge(now, station, id),
                End::Nobody => false,
            };
        let Some(own) = &mut self.ring else { return };
        own.answer(station, id, accepted);
        if damaged {
            own.counters.damaged += 1;
            self.observations.drop(Drop::Corrupted, now);
        } else if !accepted {
            own.counters.refused += 1;
            own.counters.bridge_refused += u64::from(end == End::Bridge);
            self.observations.drop(Drop::NoReceiveBuffer, now);
        } else if let End::Host(host) = end {
            let packet = own.flights[id as usize].packet;
            let spent = self.count_ring(id);
            self.deliver_over_rings(now, host, packet, spent, watch);
        }
    }

    /// The packet of a flight has come over a ring. Returns the times of its whole way so far.
    #[inline]
    fn count_ring(&mut self, id: u32) -> Spent {
        let Some(own) = &mut self.ring else { return Spent::default() };
        let Flight { packet, spent, passed, .. } = own.flights[id as usize];
        own.journeys[packet as usize].count_ring(passed);
        let Some(all) = self.packets.stored(packet) else { return spent };
        *all = all.and(spent);
        *all
    }

    /// A packet is whole at its target, on a ring or behind a switch.
    pub(super) fn deliver_over_rings(
        &mut self,
        now: Time,
        host: u32,
        id: u32,
        spent: Spent,
        watch: &mut impl FnMut(Delivery),
    ) {
        let Some(own) = &self.ring else { return };
        let Forwarding { hops, .. } = self.packets.forwarding[id as usize];
        let Packet { generated, start, from, message } = self.packets.packets[id as usize];
        let journey = own.journeys[id as usize];
        // A host behind a switch has one attempt.
        let first = if own.of_host(from).is_some() { journey.first } else { start };
        self.packets.remove(id);
        let moving = spent.transmission + spent.wire + spent.switches;
        let one = Instants {
            from,
            to: host,
            generated,
            started: start,
            delivered: now,
            hops: journey.hops(hops),
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
        let pair = HostPair { from, to: host };
        if let Some(time) = self.supply.arrived(now, pair, message) {
            self.ask_on_rings(time, host);
        }
    }

    /// A request was not accepted, because it was damaged or found no buffer: the station sends it
    /// again, unless it has done so often enough.
    fn repeat_on_ring(&mut self, now: Time, station: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let at = &own.stations[station as usize];
        let (settings, flight) =
            (&own.rings[at.ring as usize].settings, &mut own.flights[id as usize]);
        if settings.retries.admits(flight.repeats as usize) {
            flight.repeats += 1;
            let at = now + settings.retry_after;
            return self.at_station(at, station, happens::REPEAT, id);
        }
        own.counters.given_up += 1;
        own.counters.bridge_given_up += u64::from(at.end == End::Bridge);
        let packet = flight.packet;
        let Packet { from, message, .. } = self.packets.packets[packet as usize];
        self.observations.abandon_from(from as usize, now);
        self.packets.remove(packet);
        self.end_flight(now, station, id);
        if let Some(feed) = self.supply.messages() {
            feed.messages.give_up(now, message);
        }
    }

    /// The link of a station takes the next packet, if it is free.
    fn serve_station(&mut self, now: Time, station: u32) {
        let Some(own) = &mut self.ring else { return };
        let at = &mut own.stations[station as usize];
        if self.graph.free(at.link) > now {
            return;
        }
        let Some(turn) = at.node.next_turn() else { return };
        let id = match turn {
            RingTurn::Pass(id) => id,
            RingTurn::Repeat(id) => self.start_at_station(now, station, id),
            RingTurn::Fresh(demand) => match self.start_fresh(now, station, demand) {
                Some(id) => id,
                None => return,
            },
        };
        self.start_on_link(now, station, id);
    }

    /// A packet starts on the link of a station, which is free.
    fn start_on_link(&mut self, now: Time, station: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let (flight, at) = (&mut own.flights[id as usize], &own.stations[station as usize]);
        let is_short = flight.is_short();
        if !is_short
            && let Some(Some(errors)) = own.link_errors.get_mut(station as usize)
            && errors.damages_next(None, own.packet)
        {
            flight.kind = RingKind::Request { damaged: true };
        }
        let (span, wire) = (at.times(is_short).span, at.wire);
        flight.spent.wire += wire;
        self.graph.occupy(now, at.link, span);
        let first = self.places.samples;
        let (head, free) = (own.place(happens::HEAD, at.next), own.place(happens::FREE, station));
        self.schedule(now + wire, first + head, id);
        self.schedule(now + span, first + free, 0);
    }

    /// A request of a host starts for the first time.
    fn start_fresh(&mut self, now: Time, station: u32, demand: RingDemand) -> Option<u32> {
        let RingDemand { to, name, generated, .. } = demand;
        let message = MessageId::of(name);
        // Only stations of hosts have demands.
        let End::Host(host) = self.ring.as_ref()?.end(station) else { return None };
        let route_state = self.routes.depart(host, to);
        let channel = self.channel_of(host, to);
        let way = Forwarding::starting(to, route_state, channel);
        let packet =
            self.packets.insert(way, Packet { generated, start: now, from: host, message });
        if let Some(spent) = self.packets.stored(packet) {
            *spent = Spent::default();
        }
        let exit = self.choose_exit(now, station, packet);
        let own = self.ring.as_mut()?;
        own.begin_journey(packet, now);
        let link = own.stations[station as usize].link;
        let id = own.begin_flight(Flight::new(packet, station, exit));
        self.observations.latency(Latency::FirstAttempt, now, now.since(generated));
        if message != MessageId::NONE
            && self.supply.messages().is_some_and(|feed| feed.messages.start(message))
        {
            self.at_station(now + self.graph.span(link), station, happens::SENT, name);
        }
        // The buffer of a greedy source is free when the transmission starts.
        if self.supply.has_another(host) {
            self.at_station(now, station, happens::GENERATE, 0);
        }
        Some(self.start_at_station(now, station, id))
    }

    /// A request starts, for the first time or again.
    fn start_at_station(&mut self, now: Time, station: u32, id: u32) -> u32 {
        let Some(own) = &mut self.ring else { return id };
        own.counters.requests += 1;
        let packet = own.packet;
        let errors = own.errors.get_mut(station as usize);
        let damaged = errors.is_some_and(|errors| errors.damages_next(None, packet));
        let flight = &mut own.flights[id as usize];
        flight.start(damaged);
        let packet = flight.packet;
        if matches!(own.end(station), End::Host(_)) {
            self.observations.attempt(now);
            self.packets.packets[packet as usize].start = now;
        }
        id
    }
}
