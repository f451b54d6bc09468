//! A hub with the mapped windows of the hosts around it: packets of any size in one order (Memory Channel).
//!
//! A store reaches the bus of its host, the adapter takes the whole packet in and then forwards it,
//! the hub gives it its place in the order, the adapter of each target takes the whole packet in,
//! checks it and writes it over the bus to memory, where a program polls. Packets of both
//! directions share the bus of a host. Every link is entered only with known room at its far end.
//!
//! What is certain ahead of time costs no event: when a packet will leave the bus, when it will
//! start on a link with room, when room will be known of. The hub decides behind all events of an
//! instant, so that it knows all requests, and its decisions are no events of the calendar.
//!
//! The mechanisms are parts without events: the hub and its times, the near ends of links, and those of
//! [`weft_fabric::interface::window`]. Here they are moved through time and accounted for.

mod agenda;
mod carrier;
mod cluster;
mod faults;
mod host;
mod link;
mod operations;
mod pages;
mod parts;
mod report;
mod run;
mod side;
mod software;
mod start;
mod traffic;

use weft_fabric::fabric::HostPair;
use weft_fabric::graph::Graph;
use weft_fabric::interface::window::{
    BusTurn, Numbering, NumberingStep, Operations, PageTables, Stores, TakenStore, Through,
};
use weft_fabric::link::{Room, Sendable};
use weft_fabric::measure::Observations;
use weft_fabric::switch::{Awaited, Hub, HubTimes, TimesOfSize};
use weft_fabric::workload::Feedback;
use weft_kernel::{Arena, Calendar, DelayLine, Id};
use weft_protocol::window::OrderChecker;
use weft_units::{Bytes, Time};

pub use cluster::Course;
pub use operations::Operation;
pub use parts::HubParts;

use super::{Delivery, Supply};
use crate::drive::carrier::{Departure, MessageId, Notice, Ticket};
use agenda::{Agenda, Lines};
use cluster::{Management, Step};
use host::{Host, Packet, Purpose, count_of};
use report::{Counters, StageSums};
use side::Side;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The source of a host hands over a message.
    Generate(u16),
    /// The bus of a host may be free for the next packet.
    Bus(u16),
    /// The first byte of a packet is at the far end of its first cable.
    Reach(Id<Packet>),
    /// A host may know of room at the far end of its link.
    Link(u16),
    /// The last byte of a packet is at a target and found whole.
    Arrive(Id<Packet>, u16),
    /// A program has a packet.
    Deliver(Id<Packet>, u16),
    /// A node goes on line.
    Configure(u16, NumberingStep),
    /// A program carries out an access of the file, by its position there.
    Access(u16),
    /// Something happens to the cluster, or its software acts.
    Manage(Step),
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

/// A hub with all windows around it.
#[derive(Debug)]
pub struct Windows {
    state: State,
    shown: Shown,
}

/// What was delivered and not yet shown to whoever watches, if anybody does.
#[derive(Debug, Default)]
struct Shown {
    is_watched: bool,
    deliveries: Vec<Delivery>,
}

/// All that a hub has and the rest of the engine has not.
#[derive(Debug)]
struct State {
    parts: HubParts,
    times: HubTimes,
    hosts: Vec<Host>,
    packets: Arena<Packet>,
    hub: Hub<Id<Packet>>,
    /// Room at the far end of the link of each host, and in the adapter of each target.
    inputs: Vec<Room>,
    adapters: Vec<Room>,
    /// Hosts with control packets of whose room nobody knows yet.
    telling: u64,
    lines: Lines,
    /// When the hub decides next, behind all events of that instant.
    decide: Time,
    /// The time of the event that is handled.
    now: Time,
    checker: Option<OrderChecker>,
    /// The page control tables, if pages are listed.
    pages: Option<Box<PageTables>>,
    /// What keeps the cluster together, where anything can go wrong.
    management: Option<Box<Management>>,
    numbering: Option<Numbering>,
    operations: Operations<Ticket>,
    problem: Option<String>,
    notices: Vec<Notice>,
    departures: Vec<Departure>,
    stages: StageSums,
    counters: Counters,
    /// Deliveries that are still to come: of stores before the bus, and of packets.
    waiting: u64,
    flying: u64,
    /// Deliveries that are only to be counted, and how many may be there before they are, if so.
    uncounted: DelayLine<(Id<Packet>, u16)>,
    count_at: usize,
    counts_later: bool,
}

/// The engine at an instant, as far as a hub reaches.
struct HubStep<'a> {
    own: &'a mut State,
    calendar: &'a mut Calendar,
    graph: &'a mut Graph,
    supply: &'a mut Supply,
    seen: &'a mut Observations,
    shown: &'a mut Shown,
    steps: &'a mut u64,
}

impl Shown {
    /// Something is delivered.
    #[inline]
    fn note(&mut self, delivery: Delivery) {
        if self.is_watched {
            self.deliveries.push(delivery);
        }
    }
}

impl State {
    /// Whether a host sends nothing ordinary.
    #[inline]
    fn is_halted(&self, host: u16) -> bool {
        self.management.as_ref().is_some_and(|own| own.software.is_halted(host))
    }
}

impl HubStep<'_> {
    #[inline]
    fn agenda(&mut self) -> Agenda<'_> {
        Agenda { lines: &mut self.own.lines, calendar: self.calendar }
    }

    /// Does the next thing that there is to do, not after `until`. Whether there was any.
    fn step(&mut self, until: Time) -> bool {
        let limit = until.min(self.own.decide);
        if let Some((now, event)) = self.agenda().pop_until(limit) {
            *self.steps += 1;
            self.own.now = now;
            self.handle(now, event);
            self.own.lines.close();
            if self.own.decide > now || self.own.lines.next_time() == now {
                return true;
            }
        } else if self.own.decide > until || self.own.decide == Time::NEVER {
            return false;
        } else {
            *self.steps += 1;
        }
        self.own.now = std::mem::replace(&mut self.own.decide, Time::NEVER);
        self.pass(self.own.now);
        true
    }

    #[inline(always)]
    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Generate(host) => self.generate(now, host),
            Event::Bus(host) => self.serve_bus(now, host),
            Event::Reach(id) => self.reach(now, id),
            Event::Link(host) => {
                self.feed_link(host);
            }
            Event::Arrive(id, host) => {
                if self.admits(now, id, host) && self.takes(now, id, host) {
                    self.own.hosts[usize::from(host)].bus.arrive(id);
                    self.serve_bus(now, host);
                }
            }
            Event::Configure(node, step) => self.number(now, node, step),
            Event::Access(place) => self.access(now, place),
            Event::Manage(step) => self.manage(now, step),
            Event::Deliver(id, host) => {
                self.count_deliveries(now);
                self.deliver(now, id, host);
            }
        }
    }

    /// A program stores a message.
    fn store(
        &mut self,
        now: Time,
        host: u16,
        targets: u64,
        size: Bytes,
        (purpose, through): (Purpose, Through),
    ) {
        if self.hand_over(now, host, targets, size, (purpose, through)) {
            // The driver of the channel hands stores over between its events.
            self.own.now = now;
            self.serve_bus(now, host);
        }
    }

    /// The stores of a message are behind all others of a host. Whether there are any.
    fn hand_over(
        &mut self,
        now: Time,
        host: u16,
        targets: u64,
        size: Bytes,
        (purpose, through): (Purpose, Through),
    ) -> bool {
        let is_device = matches!(purpose, Purpose::Device);
        let writes = self.own.parts.window.writes(self.own.parts.payload);
        let writes = if is_device { writes.of_device() } else { writes };
        let is_message = matches!(purpose, Purpose::Traffic | Purpose::Message(_));
        let is_flagged = is_message && self.own.parts.window.flag.is_some();
        let ready = if is_device { now } else { now + self.own.times.store };
        let pieces = writes.pieces(0, size);
        let stores = Stores::new(purpose.stores(targets), pieces, is_flagged, (now, ready));
        let deliveries = u64::from(stores.packets()) * u64::from(count_of(targets));
        (0..deliveries).for_each(|_| self.seen.generate(now));
        self.own.waiting += deliveries;
        let Some(stores) = self.only_those_mapped(now, host, stores, through) else { return false };
        let Some(stores) = self.only_those_on_line(now, host, stores) else { return false };
        self.own.hosts[usize::from(host)].bus.push(stores);
        true
    }

    /// The bus of a host is looked at as soon as it can do something.
    fn wake_bus(&mut self, now: Time, host: u16) {
        let bus = &self.own.hosts[usize::from(host)].bus;
        let looked_at = self.own.lines.bus_time(host);
        if looked_at <= bus.free().max(now) {
            return;
        }
        let time = bus.next_turn(now, self.own.is_halted(host));
        if time < looked_at {
            self.own.lines.look_at_bus(host, time);
        }
    }

    /// Gives the bus to whoever's turn it is.
    fn serve_bus(&mut self, now: Time, host: u16) {
        match self.own.hosts[usize::from(host)].bus.turn(now, self.own.is_halted(host)) {
            Some(BusTurn::Write) => self.write(now, host),
            Some(BusTurn::TakeIn) => self.take_in(now, host),
            None => {}
        }
        self.wake_bus(now, host);
    }

    /// The bus takes a store into the adapter, which forwards the packet when it has all of it.
    fn take_in(&mut self, now: Time, place: u16) {
        let host = &mut self.own.hosts[usize::from(place)];
        let Some(size) = host.bus.next_store() else { return };
        let TimesOfSize { bus, link: span } = self.own.times.of(size);
        let Some(taken) = host.bus.take_in(now, bus) else { return };
        let TakenStore { targets, generated, purpose, page, is_copied, last, end } = taken;
        let ready = end + self.own.times.transmit;
        let mut packet = Packet {
            from: place,
            targets,
            size,
            span,
            last,
            purpose,
            page,
            is_copied,
            missing: count_of(targets) as u8,
            number: None,
            generated,
            taken: now,
            ready,
            start: ready,
            granted: Time::ZERO,
            rail: host.rail,
            is_whole: true,
            survey: None,
            is_settled: false,
        };
        if !purpose.is_urgent() {
            let deliveries = u64::from(packet.missing);
            self.own.waiting -= deliveries;
            self.own.flying += deliveries;
        }
        let is_ready = host.feedback == Feedback::Ready && !purpose.is_urgent();
        if last {
            if let Purpose::Message(ticket) = purpose {
                self.own.notices.push(Notice::Sent { time: now, ticket });
            }
            if is_ready {
                self.agenda().generate(now, place);
            }
        }
        if last && self.own.hosts[usize::from(place)].bus.has_no_stores() {
            self.wait_for_source(now, place);
        }
        if self.name(&mut packet) {
            self.forward(packet);
        }
    }

    /// An adapter has all of a packet, and forwards it when it is ready.
    fn forward(&mut self, packet: Packet) {
        let Packet { from: place, ready, span, .. } = packet;
        let id = self.own.packets.insert(packet);
        if self.own.parts.hub.is_bus() {
            // It waits in its adapter for the bus of the hub.
            self.agenda().reach(ready, id, place);
        } else {
            self.own.hosts[usize::from(place)].link.push(Sendable { key: id, ready, span });
            self.feed_link(place);
        }
    }

    fn wake_hub(&mut self, time: Time) {
        self.own.decide = self.own.decide.min(time);
    }

    /// The hub lets pass what can.
    fn pass(&mut self, now: Time) {
        let isolated = self.own.management.as_ref().map_or(0, |own| own.members.isolated());
        let is_bus = self.own.parts.hub.is_bus();
        let own = &mut *self.own;
        let mut side = Side {
            now,
            times: &own.times,
            is_bus,
            is_managed: own.management.is_some(),
            isolated,
            packets: &mut own.packets,
            agenda: Agenda { lines: &mut own.lines, calendar: self.calendar },
            adapters: &mut own.adapters,
            graph: self.graph,
            seen: self.seen,
            hosts: &mut own.hosts,
            telling: &mut own.telling,
            fed: 0,
            granted: Vec::new(),
        };
        let Awaited { next: mut wake, idle } = own.hub.decide(now, &mut side);
        let (mut fed, granted) = (side.fed, side.granted);
        granted.into_iter().for_each(|key| self.let_through(now, key));
        let members = u64::MAX >> (64 - self.own.parts.hosts);
        let mut starved = idle & !isolated & members;
        while starved != 0 {
            let place = starved.trailing_zeros() as u16;
            starved &= starved - 1;
            wake = wake.min(self.own.next_room(now, place));
        }
        self.wake_hub(wake);
        while fed != 0 {
            let input = fed.trailing_zeros() as u16;
            fed &= fed - 1;
            if is_bus {
                self.wake_bus(now, input);
                continue;
            }
            if self.own.inputs[usize::from(input)].free_one() {
                let read = self.own.hub.read_until(input);
                self.own.hub.lane(input).insert(read);
            }
            if !self.own.hosts[usize::from(input)].link.is_empty() {
                self.feed_link(input);
            }
        }
    }

    /// The bus of a target takes a packet out of the adapter.
    fn write(&mut self, now: Time, place: u16) {
        let Some(id) = self.own.hosts[usize::from(place)].bus.take_incoming() else { return };
        let packet = &self.own.packets[id];
        let span = self.own.times.of(self.carried(packet)).bus;
        let rest = match packet.last {
            true => self.own.times.after(self.own.interrupts(packet, place)),
            false => self.own.times.memory,
        };
        let end = self.own.hosts[usize::from(place)].bus.write(now, span);
        let (name, rail) = (packet.name(), packet.rail);
        let request = Some(packet.purpose).filter(|_| packet.last);
        self.will_deliver(end + rest, id, place);
        self.check_order(place, name);
        self.written(end, id, place);
        if let Some(Purpose::Request(operation)) = request {
            self.answer(end, place, operation);
        }
        if self.is_on_working_rail(rail) {
            self.free_adapter(place, end);
        }
    }

    fn source_hears(&mut self, now: Time, host: u16, from: u16) {
        let is_heard = self.own.hosts[usize::from(host)].feedback == Feedback::Delivered;
        let pair = HostPair { from: from.into(), to: host.into() };
        if is_heard && let Some(time) = self.supply.arrived(now, pair, MessageId::NONE) {
            self.agenda().generate(time, host);
        }
    }
}
