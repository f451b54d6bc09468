//! A channel of mapped windows around a hub: packets of any size in one order (Memory Channel).
//!
//! A store reaches the bus of its host, the adapter takes the whole packet in and then forwards it,
//! the hub gives it its place in the order, the adapter of each target takes the whole packet in,
//! checks it and writes it over the bus to memory, where a program polls. Packets of both
//! directions share the bus of a host. Every link is entered only with known room at its far end.
//!
//! What is certain ahead of time costs no event: when a packet will leave the bus, when it will
//! start on a link with room, when room will be known of. The hub decides behind all events of an
//! instant, so that it knows all requests, and its decisions are no events of the queue.

mod agenda;
mod carrier;
mod clock;
mod cluster;
mod faults;
mod host;
mod link;
mod logs;
mod operations;
mod pages;
mod parts;
mod recoverable;
mod recovery;
mod report;
mod room;
mod side;
mod start;
mod traffic;

use weft_fabric::measure::Observations;
use weft_fabric::scheduler::MAX_PORTS;
use weft_fabric::switch::{Awaited, Hub, Lane};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Arena, DelayLine, Id, Streams};
use weft_protocol::window::OrderChecker;
use weft_units::{Bytes, Span, Time};

pub use cluster::Course;
pub use operations::Operation;
pub use parts::{HubParts, HubPartsError};

use super::carrier::{Departure, Notice};
use agenda::Agenda;
use cluster::{Management, Step};
use host::{Host, Packet, Purpose, Run, count_of};
use operations::{Pending, Waiting};
use pages::{Pages, Through};
use parts::{BySize, Spans};
use report::{Counters, StageSums};
use room::Room;
use side::Side;
use start::{Configuration, Exchange};

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
    Configure(u16, Exchange),
    /// A program does what the file says, by its place there.
    Access(u16),
    /// Something happens to the cluster, or its software acts.
    Manage(Step),
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

/// One channel with all its parts and their state.
#[derive(Debug)]
pub struct HubChannel {
    parts: HubParts,
    spans: Spans,
    by_size: BySize,
    hosts: Vec<Host>,
    packets: Arena<Packet>,
    hub: Hub<Id<Packet>>,
    /// Room at the far end of the link of each host, and in the adapter of each target.
    inputs: Vec<Room>,
    adapters: Vec<Room>,
    /// Hosts with control packets of whose room nobody knows yet.
    telling: u64,
    /// When the hub decides next, behind all events of that instant.
    decide: Time,
    /// The time of the event that is handled.
    now: Time,
    checker: Option<OrderChecker>,
    /// The page control tables, if pages are listed.
    pages: Option<Box<Pages>>,
    /// What keeps the cluster together, where anything can go wrong.
    management: Option<Box<Management>>,
    configuration: Option<Configuration>,
    operations: Vec<Option<Pending>>,
    barriers: Vec<Waiting>,
    problem: Option<String>,
    notices: Vec<Notice>,
    departures: Vec<Departure>,
    observations: Observations,
    stages: StageSums,
    counters: Counters,
    /// Deliveries that are still to come: of stores before the bus, and of packets.
    waiting: u64,
    flying: u64,
    agenda: Agenda,
    /// Deliveries that are only to be counted, and how many may be there before they are, if so.
    uncounted: DelayLine<(Id<Packet>, u16)>,
    count_at: usize,
    counts_later: bool,
    started: bool,
    steps: u64,
}

impl HubChannel {
    /// A channel at time zero with nothing on the way.
    ///
    /// # Errors
    /// [`HubPartsError`] names what does not fit.
    pub fn new(mut parts: HubParts, streams: &Streams) -> Result<HubChannel, HubPartsError> {
        let cluster = parts.check()?;
        let is_listed = parts.window.is_listed();
        let random = streams.stream(&format!("{}.scheduler", parts.name), 0);
        let spans = parts.spans();
        let hub = Hub::new(&parts.hub, spans.control, random).map_err(|_| HubPartsError {
            key: "switch.hub.ports",
            value: parts.hub.ports.to_string(),
            accepted: format!("1 to {MAX_PORTS} ports"),
        })?;
        let mut sources = std::mem::take(&mut parts.sources).into_iter();
        let hosts = usize::from(parts.hosts);
        let purpose = format!("{}.broadcasts", parts.name);
        let links = parts.link_of(parts.hosts);
        let observations = std::mem::take(&mut parts.observations).of_links(links);
        let mut channel = HubChannel {
            spans,
            by_size: BySize::new(&parts),
            hosts: (0..hosts)
                .map(|host| {
                    let random = streams.stream(&purpose, host);
                    let lane = Lane::new(spans.control);
                    Host::new(sources.next(), parts.send_room(), lane, random)
                })
                .collect(),
            packets: Arena::new(),
            hub,
            inputs: (0..hosts).map(|_| parts.input_room()).collect(),
            adapters: (0..hosts).map(|_| parts.adapter_room()).collect(),
            telling: 0,
            decide: Time::NEVER,
            now: Time::ZERO,
            checker: parts.window.check_order.then(|| OrderChecker::new(parts.hosts)),
            pages: is_listed.then(|| Box::new(Pages::new(cluster))),
            management: Management::new(&parts, streams),
            configuration: Configuration::new(&parts, streams),
            operations: Vec::new(),
            barriers: Vec::new(),
            problem: None,
            notices: Vec::new(),
            departures: Vec::new(),
            observations,
            stages: StageSums::default(),
            counters: Counters::default(),
            waiting: 0,
            flying: 0,
            agenda: Agenda::new(hosts),
            uncounted: DelayLine::new(),
            count_at: 0,
            counts_later: false,
            started: false,
            steps: 0,
            parts,
        };
        channel.start_nodes();
        channel.start_cluster();
        Ok(channel)
    }

    /// Does the next thing that there is to do, not after `until`. Whether there was any.
    fn step(&mut self, until: Time) -> bool {
        if let Some((now, event)) = self.agenda.pop_until(until.min(self.decide)) {
            self.steps += 1;
            self.now = now;
            self.handle(now, event);
            self.agenda.close();
            if self.decide > now || self.agenda.next_time() == now {
                return true;
            }
        } else if self.decide > until || self.decide == Time::NEVER {
            return false;
        } else {
            self.steps += 1;
        }
        self.now = std::mem::replace(&mut self.decide, Time::NEVER);
        self.pass(self.now);
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
                    self.hosts[usize::from(host)].incoming.push_back(id);
                    self.serve_bus(now, host);
                }
            }
            Event::Configure(node, step) => self.exchange(now, node, step),
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
            // Whoever moves the channel hands stores over between its events.
            self.now = now;
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
        let writes = self.parts.window.writes(self.parts.payload);
        let writes = if is_device { writes.of_device() } else { writes };
        let mut pieces = writes.pieces(0, size);
        let next = pieces.next().map_or(Bytes(4), |(_, size)| size);
        let is_message = matches!(purpose, Purpose::Traffic | Purpose::Message(_));
        let flag = u32::from(is_message && self.parts.window.flag.is_some());
        let left = pieces.clone().count() as u32 + flag;
        let ready = if is_device { now } else { now + self.spans.store };
        let (page, is_copied) = (None, false);
        let run =
            Run { targets, generated: now, ready, pieces, next, left, purpose, page, is_copied };
        let deliveries = u64::from(left + 1) * u64::from(count_of(targets));
        (0..deliveries).for_each(|_| self.observations.generate(now));
        self.waiting += deliveries;
        let Some(run) = self.only_those_mapped(now, host, run, through) else { return false };
        let Some(run) = self.only_those_on_line(now, host, run) else { return false };
        self.hosts[usize::from(host)].runs.push_back(run);
        true
    }

    /// The bus of a host is looked at as soon as it can do something.
    fn wake_bus(&mut self, now: Time, host: u16) {
        let state = &self.hosts[usize::from(host)];
        let looked_at = self.agenda.bus_time(host);
        if looked_at <= state.bus_free.max(now) {
            return;
        }
        let work = if state.incoming.is_empty() { state.store_time(now) } else { now };
        let time = work.max(state.bus_free);
        if time < looked_at {
            self.agenda.look_at_bus(host, time);
        }
    }

    /// Gives the bus to a packet from the link or to a store; in turn if there are both.
    fn serve_bus(&mut self, now: Time, host: u16) {
        let state = &self.hosts[usize::from(host)];
        if state.bus_free <= now {
            let is_for_link = !state.incoming.is_empty();
            if is_for_link && !state.received_last {
                self.write(now, host);
            } else if state.store_time(now) <= now {
                self.take_in(now, host);
            } else if is_for_link {
                self.write(now, host);
            }
        }
        self.wake_bus(now, host);
    }

    /// The bus takes a store into the adapter, which forwards the packet when it has all of it.
    fn take_in(&mut self, now: Time, place: u16) {
        let transmit = self.spans.transmit;
        let host = &mut self.hosts[usize::from(place)];
        let Some(run) = host.runs.front_mut() else { return };
        let (size, last) = (run.next, run.left == 0);
        let (bus, span) = self.by_size.spans(&self.parts, size);
        let end = now + bus;
        let mut packet = Packet {
            from: place,
            targets: run.targets,
            size,
            span,
            last,
            purpose: run.purpose,
            page: run.page,
            is_copied: run.is_copied,
            missing: count_of(run.targets) as u8,
            number: None,
            generated: run.generated,
            taken: now,
            ready: end + transmit,
            start: end + transmit,
            granted: Time::ZERO,
            rail: host.rail,
            is_whole: true,
            survey: None,
            is_settled: false,
        };
        let purpose = packet.purpose;
        if last {
            host.runs.pop_front();
        } else {
            run.left -= 1;
            let flag = self.parts.window.flag.as_ref().map_or(Bytes(4), |flag| flag.size);
            run.next = run.pieces.next().map_or(flag, |(_, size)| size);
        }
        if let Some(room) = &mut host.send_room {
            room.take(now);
        }
        host.received_last = false;
        host.bus_free = end + self.spans.stall;
        host.bus_held += host.bus_free.since(now);
        if !purpose.is_urgent() {
            let deliveries = u64::from(packet.missing);
            self.waiting -= deliveries;
            self.flying += deliveries;
        }
        let is_ready = host.feedback == Feedback::Ready && !purpose.is_urgent();
        if last {
            if let Purpose::Message(ticket) = purpose {
                self.notices.push(Notice::Sent { time: now, ticket });
            }
            if is_ready {
                self.agenda.generate(now, place);
            }
        }
        if last && self.hosts[usize::from(place)].runs.is_empty() {
            self.wait_for_source(now, place);
        }
        if self.name(&mut packet) {
            self.forward(packet);
        }
    }

    /// An adapter has all of a packet, and forwards it when it is ready.
    fn forward(&mut self, packet: Packet) {
        let (place, ready) = (packet.from, packet.ready);
        let id = self.packets.insert(packet);
        if self.parts.hub.is_bus() {
            // It waits in its adapter for the bus of the hub.
            self.agenda.reach(ready, id, place);
        } else {
            self.hosts[usize::from(place)].link_queue.push_back(id);
            self.feed_link(place);
        }
    }

    fn wake_hub(&mut self, time: Time) {
        self.decide = self.decide.min(time);
    }

    /// The hub lets pass what can.
    fn pass(&mut self, now: Time) {
        let isolated = self.management.as_ref().map_or(0, |own| own.isolated);
        let is_bus = self.parts.hub.is_bus();
        let HubChannel { packets, agenda, adapters, observations, hosts, telling, .. } = self;
        let mut side = Side {
            now,
            spans: &self.spans,
            is_bus,
            is_managed: self.management.is_some(),
            isolated,
            packets,
            agenda,
            adapters,
            observations,
            hosts,
            telling,
            fed: 0,
            granted: Vec::new(),
        };
        let Awaited { next: mut wake, idle } = self.hub.decide(now, &mut side);
        let (mut fed, granted) = (side.fed, side.granted);
        granted.into_iter().for_each(|key| self.let_through(now, key));
        let members = u64::MAX >> (64 - self.parts.hosts);
        let mut starved = idle & !isolated & members;
        while starved != 0 {
            let place = starved.trailing_zeros() as u16;
            starved &= starved - 1;
            wake = wake.min(self.next_room(now, place));
        }
        self.wake_hub(wake);
        while fed != 0 {
            let input = fed.trailing_zeros() as u16;
            fed &= fed - 1;
            if is_bus {
                self.wake_bus(now, input);
                continue;
            }
            if self.inputs[usize::from(input)].free_one() {
                let read = self.hub.read_until(input);
                self.hub.lane(input).insert(read);
            }
            if !self.hosts[usize::from(input)].link_queue.is_empty() {
                self.feed_link(input);
            }
        }
    }

    /// The bus of a target takes a packet out of the adapter.
    fn write(&mut self, now: Time, place: u16) {
        let Some(id) = self.hosts[usize::from(place)].incoming.pop_front() else { return };
        let packet = &self.packets[id];
        let span = self.span_of_bus(self.carried(packet));
        let rest = match packet.last {
            true => self.spans.after(self.interrupts(packet, place)),
            false => self.spans.memory,
        };
        let host = &mut self.hosts[usize::from(place)];
        host.received_last = true;
        host.bus_free = now + span;
        host.bus_held += span;
        let (end, name, rail) = (host.bus_free, packet.name(), packet.rail);
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

    fn span_of_bus(&self, size: Bytes) -> Span {
        self.by_size.spans(&self.parts, size).0
    }

    fn source_hears(&mut self, now: Time, host: u16, from: u16) {
        let Some(source) = &mut self.hosts[usize::from(host)].source else { return };
        if source.feedback() != Feedback::Delivered {
            return;
        }
        let before = source.next_time();
        source.delivered(now, from.into());
        let next = Source::next_time(source);
        if next != before {
            self.agenda.generate(next, host);
        }
    }
}
