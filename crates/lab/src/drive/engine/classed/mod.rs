//! Channels whose packets have sizes and traffic classes of their own, and whose switches share a memory
//! among their ports.
//!
//! A packet costs a switch one event when it enters the memory, and another when its last byte has
//! left, if anything waits for that ([`departures`]). Departures of an instant free memory before
//! arrivals of that instant take it. Pause frames travel like packets, ahead of those that wait.
//! Hosts obey pauses by class as switches do; they have a queue for each class, and read arriving
//! packets at the same time.

mod cables;
mod departures;
mod division;
mod nodes;
mod report;
mod soon;
mod traffic;
mod waiting;

use weft_fabric::fabric::{HostPair, Wiring};
use weft_fabric::graph::RecordingWindow;
use weft_fabric::link::LinkSettings;
use weft_fabric::measure::Spent;
use weft_fabric::measure::{Drop, Instants};
use weft_fabric::switch::PortPair;
use weft_fabric::switch::shared_buffer::{
    Admission, FarEnd, Header, Next, Passage, Ports, PortsParts, ScheduleSettings, SwitchRule,
    Telemetry,
};
use weft_kernel::{Event, append};
use weft_units::{Bytes, Rate, Span, Time};

use super::{Delivery, Engine, Handed};
use crate::drive::carrier::MessageId;

use cables::{Cables, Fate, LOSS};

pub use cables::CableParts;
pub use report::PauseRow;
pub use traffic::Traffic;

/// What switches do where packets have sizes and classes of their own.
#[derive(Debug)]
pub struct ClassedParts {
    /// Each switch.
    pub switches: Vec<SwitchRule>,
    /// How many traffic classes there are, 1 to 8.
    pub classes: usize,
    /// How they share the cable of a host.
    pub hosts: Vec<ScheduleSettings>,
    /// The class of the packets of all sources and messages.
    pub class: u8,
    /// What a packet has on the wire besides its payload.
    pub overhead: Bytes,
    /// What hosts hand over besides.
    pub traffic: Vec<Traffic>,
    /// Whether switches write into packets what they know.
    pub has_telemetry: bool,
    /// How often queues are noted; never if absent.
    pub sample: Option<Span>,
    /// The cables that fail or slow down, if any do.
    pub cables: Option<CableParts>,
}

/// The state of a channel with traffic classes besides its graph.
#[derive(Debug)]
pub(super) struct Classed {
    ports: Ports,
    /// By packet.
    headers: Vec<Header>,
    telemetry: Option<Vec<Telemetry>>,
    class: u8,
    overhead: u32,
    traffic: Vec<Traffic>,
    /// Packets of it that are in flight; in a part those more that left than came.
    apart: i64,
    sample: Option<Span>,
    samples: Vec<super::SampleRow>,
    /// How long all that was handed over takes on the links of its hosts, and what was delivered since
    /// records began.
    offered: Span,
    carried: Span,
    /// How long each port was busy at the last sample.
    busy_before: Vec<Span>,
    hosts: u32,
    ends: u32,
    switch_ports: u32,
    cables: Option<Box<Cables>>,
    /// Whether packets may pass through switches in one step: nothing is written into them, no cable fails, and what
    /// they spend follows from their size.
    passes: bool,
}

impl Classed {
    pub fn new(
        parts: ClassedParts,
        wiring: &Wiring,
        link: &LinkSettings,
        packet: Bytes,
        window: RecordingWindow,
    ) -> Classed {
        let ClassedParts { switches, classes, hosts, .. } = parts;
        let has_telemetry = parts.has_telemetry;
        let count = wiring.ports() + wiring.ends();
        let own = PortsParts { wiring, link, packet, classes, switches, hosts, window };
        let mut ports = Ports::new(own);
        let cables = parts.cables.map(|own| Box::new(Cables::new(own, &mut ports, count)));
        // What is noted at intervals, or written into packets, is asked when they leave.
        if !has_telemetry && cables.is_none() && parts.sample.is_none() {
            ports.let_plan();
        }
        let sampled = if parts.sample.is_some() { count as usize } else { 0 };
        Classed {
            passes: !has_telemetry && ports.let_pass(),
            ports,
            cables,
            headers: Vec::new(),
            telemetry: has_telemetry.then(Vec::new),
            class: parts.class,
            overhead: parts.overhead.0 as u32,
            traffic: parts.traffic,
            apart: 0,
            sample: parts.sample,
            samples: Vec::new(),
            offered: Span::ZERO,
            carried: Span::ZERO,
            busy_before: vec![Span::ZERO; sampled],
            hosts: wiring.hosts(),
            ends: wiring.ends(),
            switch_ports: wiring.ports(),
        }
    }

    /// Whether a port takes a packet of a class immediately, or as soon as it has sent what it
    /// sends: none waits, and the class is neither paused nor without credit.
    #[inline]
    pub fn takes_packet_of(&self, port: u32, class: u8) -> bool {
        let is_held =
            self.ports.paused(port) >> class & 1 == 1 || !self.ports.has_credit(port, class.into());
        self.ports.is_idle(port) && !is_held && self.ports.waiting(port, class.into()) == 0
    }

    /// What switches wrote into a packet, where they do.
    pub fn telemetry_of(&self, id: u32) -> Option<Telemetry> {
        self.telemetry.as_ref().map(|all| all[id as usize])
    }

    /// A packet carries what switches wrote into another one.
    pub fn carry_telemetry(&mut self, id: u32, said: Telemetry) {
        if let Some(all) = &mut self.telemetry {
            all[id as usize] = said;
        }
    }

    /// The rate of the link of a port.
    pub fn rate(&self, port: u32) -> Rate {
        self.ports.rate(port)
    }

    /// How long a packet takes on the link that a port has at first.
    pub fn span(&self, port: u32, size: Bytes) -> Span {
        let laid = self.cables.as_ref().and_then(|own| own.laid(port));
        self.ports.span_on(laid.unwrap_or_else(|| self.ports.link(port)), size.0 as u32)
    }

    /// How long the port of a host is busy from `now` on with what it sends and with all that waits there.
    pub fn until_empty(&self, now: Time, port: u32) -> Span {
        self.ports.free(port).since(now) + self.ports.until_empty(port)
    }

    /// Whether all cables and switches are alike.
    pub fn are_alike(&self) -> bool {
        self.ports.are_alike()
    }

    /// When a packet arrives that starts at a port and takes `span`, and where.
    pub fn arrival(&self, start: Time, port: u32, span: Span) -> FarEnd {
        self.ports.arrival(start, port, span)
    }

    /// How much later a packet joins the queue of an output because it takes longer to come.
    pub fn lag(&self, ports: PortPair, size: Bytes) -> Span {
        self.ports.lag(ports, size.0 as u32)
    }

    /// Packets in flight that belong to no flow and to none of the first sources.
    pub fn apart(&self) -> u64 {
        self.apart.try_into().unwrap_or_default()
    }

    /// Packets that wait at hosts.
    pub fn waiting_in_hosts(&self) -> u64 {
        let waiting =
            |port| (0..self.ports.classes()).map(move |class| self.ports.waiting(port, class));
        let hosts = self.switch_ports..self.switch_ports + self.ends;
        hosts.flat_map(waiting).map(u64::from).sum()
    }
}

impl Engine {
    /// The first event of what is noted at intervals.
    pub(super) fn begin_classed(&mut self) {
        if self.is_sampled() {
            self.schedule(Time::ZERO, self.places.samples, 0);
        }
        self.begin_cables();
        self.begin_traffic();
    }

    /// Whether switches mark packets that have left.
    pub(super) fn marks_departures(&self) -> bool {
        self.classed.as_ref().is_some_and(|own| own.ports.marks_departures())
    }

    fn is_sampled(&self) -> bool {
        self.classed.as_ref().is_some_and(|own| own.sample.is_some())
    }

    /// An event at a place behind all others: a sample is taken, or packets have classes, or hosts
    /// form a ring, or links have turns.
    #[inline(never)]
    pub(super) fn happen_elsewhere(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        if self.classed.is_some() {
            self.happen_classed(event, watch);
        } else if self.ring.is_some() {
            self.happen_on_ring(event, watch);
        } else if self.turns.is_some() {
            self.happen_on_turns(event, watch);
        } else {
            self.sample(event.time);
        }
    }

    /// An event at a place of a channel whose packets have sizes and classes of their own. Most often a packet enters a
    /// switch. What happens is not inlined: each kind saves the registers that it needs, and the loop around it none.
    #[inline(always)]
    fn happen_classed(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        let Event { time: now, place, item } = event;
        let places = &self.places;
        if place >= places.enters && place < places.signals {
            self.admit(now, place - places.enters, item);
        } else if place < places.frees {
            self.deliver_classed(now, place - places.hosts, item, watch);
        } else {
            self.happen_besides(now, place, item);
        }
    }

    /// What happens less often: neither does a packet enter a switch, nor is its last byte at its target.
    #[inline(never)]
    fn happen_besides(&mut self, now: Time, place: u32, item: u32) {
        let places = self.places;
        if place < places.joins {
            self.has_sent(now, place - places.frees, item);
        } else if place < places.enters {
            let Some(own) = &mut self.classed else { return };
            let header = &mut own.headers[item as usize];
            let port = std::mem::replace(&mut header.output, Header::NOT_CHOSEN);
            self.line_up(now, port, item);
        } else if place < places.edges {
            self.heed(now, place - places.signals, item);
        } else if place < places.generates {
            self.wake_flow(now, place - places.acts, item);
        } else if place < places.wakes {
            match item {
                0 => self.generate_classed(now, place - places.generates),
                number => self.generate_beside(now, place - places.generates, number),
            }
        } else if place > places.samples {
            self.happen_to_cables(Event { time: now, place, item });
        } else if place == places.samples {
            self.sample_classed(now);
        } else if let Some(feed) = self.supply.messages() {
            feed.messages.sent(now, MessageId::of(item));
        }
    }

    /// The source of a host hands over a packet, or a message does.
    fn generate_classed(&mut self, now: Time, host: u32) {
        let handed = self.supply.hand_over(now, host, self.payload);
        if handed.message == MessageId::NONE {
            self.count_handed(now, host);
        }
        if handed.next < Time::NEVER {
            self.schedule(handed.next, self.places.generates + host, 0);
        }
        let Some(own) = &self.classed else { return };
        let header = Header {
            size: handed.part.0 as u32 + own.overhead,
            payload: handed.part.0 as u32,
            class: own.class,
            bits: Header::ECN_CAPABLE | Header::TRIMMABLE,
            ..Header::NOTHING
        };
        self.submit(now, host, &handed, header);
    }

    /// A packet with its header is in the adapter of a host, in the queue of its class.
    pub(super) fn submit(&mut self, now: Time, host: u32, handed: &Handed, header: Header) {
        let Handed { to, generated, message, .. } = *handed;
        let route_state = self.routes.depart(host, to);
        let message = message.number();
        let header = Header { to, route_state, generated, from: host, message, ..header };
        let id = self.packets.insert_header();
        self.note_header(id, header);
        let end = self.end_for(now, host, to);
        let port = self.graph.host_port(end);
        if let Some(own) = &mut self.classed {
            own.offered += own.ports.span(port, header.size);
        }
        self.line_up(now, port, id);
    }

    /// The header of a packet that is new.
    #[inline(always)]
    pub(super) fn note_header(&mut self, id: u32, header: Header) {
        if let Some(spent) = self.packets.stored(id) {
            *spent = Spent::default();
        }
        let Some(own) = &mut self.classed else { return };
        while own.headers.len() <= id as usize {
            append(&mut own.headers, Header::default());
        }
        own.headers[id as usize] = header;
        if let Some(telemetry) = &mut own.telemetry {
            if telemetry.len() <= id as usize {
                telemetry.resize(id as usize + 1, Telemetry::default());
            }
            telemetry[id as usize].clear();
        }
    }

    /// A packet joins the queue of its class at a port, which sends if it may.
    #[inline]
    fn line_up(&mut self, now: Time, port: u32, id: u32) {
        // A host may have another packet to send beside this one.
        if port < self.graph.switch_ports() {
            self.settle_port(now, port);
            if let Some(span) = self.start_at_once(now, port, id) {
                return self.send(now, port, id, span);
            }
            if self.plan(now, port, id) {
                return;
            }
        }
        self.put_in_queue(now, port, id);
        self.send_on(now, port);
    }

    /// A packet joins the queue of its class at a port.
    #[inline]
    pub(super) fn put_in_queue(&mut self, now: Time, port: u32, id: u32) {
        let Some(own) = &mut self.classed else { return };
        let header = &mut own.headers[id as usize];
        own.ports.enqueue(now, port, id, header, &mut self.packets.behind);
    }

    /// Whether a packet starts that comes to a port, and for how long it is then sent.
    #[inline(always)]
    pub(super) fn start_at_once(&mut self, now: Time, port: u32, id: u32) -> Option<Span> {
        let own = self.classed.as_deref_mut()?;
        let header = &own.headers[id as usize];
        own.ports.start_at_once(now, port, id, header, own.telemetry.as_mut())
    }

    /// A port sends what is next, if it may.
    #[inline]
    pub(super) fn send_on(&mut self, now: Time, port: u32) {
        self.settle_port(now, port);
        self.send_next(now, port);
    }

    /// A settled port sends what is next, if it may.
    pub(super) fn send_next(&mut self, now: Time, port: u32) {
        if port < self.graph.switch_ports() {
            self.recall_if_held(port);
        } else if self.flows.is_some()
            && (self.has_nothing_to_send(port) || self.feed_port(now, port))
        {
            return;
        }
        let is_awaited = self.is_awaited(port);
        let Some(own) = &mut self.classed else { return };
        let (headers, behind) = (&mut own.headers[..], &self.packets.behind[..]);
        let telemetry = own.telemetry.as_mut();
        let (id, span) = match own.ports.next(now, port, is_awaited, headers, behind, telemetry) {
            Next::Packet(id, span) => (id, span),
            Next::Pause(paused, span) => return self.pause(now, port, paused, span),
            Next::Later(until) => return self.schedule(until, self.places.frees + port, 0),
            Next::Nothing => return,
        };
        self.send(now, port, id, span);
    }

    /// A packet starts, and is sent for so long.
    #[inline(never)]
    pub(super) fn send(&mut self, now: Time, port: u32, id: u32, span: Span) {
        let is_awaited = self.is_awaited(port);
        let Some(own) = &mut self.classed else { return };
        let is_noted = own.ports.note_end(now, port, span, is_awaited);
        let credit = own.ports.credit(port);
        let marks_departures = own.ports.marks_departures();
        if let Some(credit) = credit {
            self.give_credit(now + span, credit);
        }
        let arrives = self.set_out(now, port, id, span);
        if is_noted {
            // A packet that is lost may be freed before it has left, and its mark is never seen.
            let leaves = if marks_departures && arrives { id + 1 } else { 0 };
            self.schedule(now + span, self.places.frees + port, leaves);
        }
        if port >= self.graph.switch_ports() {
            self.start_classed(now, id, span);
        }
    }

    /// A packet sets out on the cable of a port at an instant, and is sent for so long. Returns whether it comes to
    /// the far end.
    #[inline(always)]
    fn set_out(&mut self, start: Time, port: u32, id: u32, span: Span) -> bool {
        let Some(own) = &mut self.classed else { return false };
        let mut arrives = true;
        let FarEnd { mut time, port: peer } = own.ports.arrival(start, port, span);
        let mut place = self.places.arrival(peer);
        if let Some(spent) = self.packets.stored(id) {
            *spent = spent.and(own.ports.spent(port, self.graph.propagation(port), span));
            // Where cables fail, the time of packets depends on their routes.
            if let Some(cables) = &own.cables {
                let waits_for_all = own.ports.waits_for_all(port);
                let cable = self.graph.propagation(port);
                match cables.fate(start, port, waits_for_all, span, cable) {
                    None => {}
                    Some(Fate::Lost(at)) => {
                        (time, place, arrives) = (at, self.places.samples + LOSS, false);
                    }
                    Some(Fate::Damaged) => own.headers[id as usize].bits |= Header::DAMAGED,
                }
            }
        }
        self.forward(Event { time, place, item: id });
        arrives
    }

    /// A packet leaves its host.
    #[inline(always)]
    fn start_classed(&mut self, now: Time, id: u32, span: Span) {
        let Some(own) = &mut self.classed else { return };
        let header = &mut own.headers[id as usize];
        header.start = now;
        let Header { message, from: host, .. } = *header;
        let is_of_source = self.flows.is_none() || header.has(Header::APART);
        let message = MessageId::of(message);
        if !header.has(Header::CONTROL) {
            self.observations.attempt(now);
        }
        if message != MessageId::NONE
            && let Some(feed) = self.supply.messages()
            && feed.messages.start(message)
        {
            self.schedule(now + span, self.places.sends + host, message.number());
        }
        // The buffer of a greedy source is free when the transmission starts. Packets of flows come from no source.
        if is_of_source && self.supply.has_another(host) {
            self.schedule(now, self.places.generates + host, 0);
        }
    }

    /// A packet enters the memory of a switch, and chooses its output.
    #[inline(never)]
    fn admit(&mut self, now: Time, input: u32, id: u32) {
        let switch = self.graph.switch_of(input);
        self.admit_at(now, (switch, self.graph.first_port(switch)), input, id);
    }

    /// A packet enters the memory of a switch, given by its number and its first port.
    #[inline(always)]
    fn admit_at(&mut self, now: Time, (switch, first): (u32, u32), input: u32, id: u32) {
        let Some(own) = &mut self.classed else { return };
        let header = &mut own.headers[id as usize];
        if std::mem::take(&mut header.is_early) {
            return;
        }
        header.input = input;
        let output = match std::mem::replace(&mut header.output, Header::NOT_CHOSEN) {
            Header::NOT_CHOSEN => {
                let ports = &own.ports;
                let occupied = |number: u32| ports.occupied(now, first.wrapping_add(number)).0;
                let Header { to, hops, .. } = *header;
                first + self.routes.port(switch, hops, to, &mut header.route_state, occupied)
            }
            chosen => chosen,
        };
        header.hops += 1;
        if own.passes
            && let Some(passage) = own.ports.pass(now, output, id, header)
        {
            let Passage { arrival: time, peer } = passage;
            let place = self.places.arrival(peer);
            return self.forward(Event { time, place, item: id });
        }
        self.admit_in_steps(now, PortPair { input, output }, id);
    }

    /// Admits a packet that does not pass the switch in one step.
    #[inline(never)]
    fn admit_in_steps(&mut self, now: Time, ports: PortPair, id: u32) {
        let PortPair { input, output } = ports;
        let Some(own) = &mut self.classed else { return };
        let header = &mut own.headers[id as usize];
        match own.ports.admit(now, output, header) {
            Admission::Held => {}
            Admission::Pauses => {
                self.note_departures(now, input);
                self.send_on(now, input);
            }
            Admission::Full => return self.give_up_classed(now, id, Drop::Overflow),
        }
        let Some(own) = &mut self.classed else { return };
        let header = &mut own.headers[id as usize];
        let lag = own.ports.lag(ports, header.size);
        if lag == Span::ZERO {
            return self.line_up(now, output, id);
        }
        header.output = output;
        if let Some(spent) = self.packets.stored(id) {
            spent.transmission += lag;
        }
        self.schedule(now + lag, self.places.joins + input, id);
    }

    /// A packet is given up by a rule. Messages are sent only where none is.
    fn give_up_classed(&mut self, now: Time, id: u32, why: Drop) {
        let Some(own) = &mut self.classed else { return };
        let header = &own.headers[id as usize];
        match header.has(Header::APART) {
            true => own.apart -= 1,
            false if self.flows.is_some() => return self.lose_segment(now, id, why),
            false => {}
        }
        let from = header.from;
        self.packets.remove(id);
        self.observe_loss(now, from, why);
    }

    /// What a packet has spent from host to host.
    pub(super) fn spent_in_all(&mut self, id: u32, size: u32) -> Spent {
        if let Some(spent) = self.packets.spent(id) {
            return spent;
        }
        let Some(own) = &self.classed else { return Spent::default() };
        let (cable, hops) = (self.graph.propagation(0), own.headers[id as usize].hops);
        own.ports.spent_alike(cable, size, hops)
    }

    /// The last byte of a packet is at its target.
    #[inline(never)]
    fn deliver_classed(&mut self, now: Time, end: u32, id: u32, watch: &mut impl FnMut(Delivery)) {
        let Some(own) = &mut self.classed else { return };
        let header = own.headers[id as usize];
        if header.is_early {
            own.headers[id as usize].is_early = false;
            return;
        }
        if self.flows.is_some() && !header.has(Header::APART) {
            return self.deliver_segment(now, end, id, header, watch);
        }
        if header.has(Header::TRIMMED | Header::DAMAGED) {
            let is_damaged = header.has(Header::DAMAGED);
            let why = if is_damaged { Drop::FailedCable } else { Drop::Trimmed };
            return self.give_up_classed(now, id, why);
        }
        own.apart -= i64::from(header.has(Header::APART));
        let Header { hops, to: host, generated, start, from, message, .. } = header;
        if now >= self.observations.from {
            own.carried += own.ports.span(self.graph.host_port(from), header.size);
        }
        let spent = self.spent_in_all(id, header.size);
        self.packets.remove(id);
        let pair = HostPair { from, to: host };
        if let Some(time) = self.supply.arrived(now, pair, MessageId::of(message)) {
            self.schedule(time, self.places.generates + host, 0);
        }
        let instants = Instants {
            from,
            to: host,
            generated,
            started: start,
            delivered: now,
            hops,
            class: header.class,
            payload: Bytes(header.payload.into()),
            transmission: spent.transmission,
            wire: spent.wire,
            switches: spent.switches,
            initiator: Span::ZERO,
            target: Span::ZERO,
        };
        self.observe_delivery(instants, watch);
    }
}
