//! Links with turns: a driver for messages that travel as packets of 16 bytes through FIFOs, over
//! half-duplex links on which every frame carries credits (Maestro 3).
//!
//! A message has one way and its packets follow each other on it, through three kinds of movers that
//! work at the same time: those of the hosts between memory and FIFO, the links between FIFOs, and
//! the switches from FIFO to FIFO. An event is one packet moved by one of them. Those of one instant are
//! ordered by place, as on the engine.

mod agenda;
mod host;
mod message;
mod moving;
mod parts;
mod report;
mod switching;

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::graph::{Station, StationParts, StationPlace, TurnCable};
use weft_fabric::interface::{Forwarding, Move, TransferSettings};
use weft_fabric::link::TurnEvent;
use weft_fabric::measure::Observations;
use weft_fabric::switch::{BarrierTree, BoxRules};
use weft_kernel::{Arena, Id};
use weft_protocol::turns::{CHANNELS, Kind};
use weft_units::{Bytes, Span, Time};

use self::agenda::Agenda;
use self::host::{Host, Messages};
use self::message::{Carried, Leg, Packet, Use};
use self::switching::Switch;
use super::carrier::{Carrier, Message, Notice, Ticket};
use super::trace::TraceEntry;

pub use self::parts::{LinkParts, TurnParts};

/// A channel of links with turns.
#[derive(Debug)]
pub struct TurnChannel {
    queue: Agenda,
    stations: Vec<Station<Id<Carried>>>,
    cables: Vec<TurnCable>,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    messages: Arena<Carried>,
    rules: Messages,
    wiring: Wiring,
    routes: Routes,
    transfer: TransferSettings,
    rules_of_switches: Vec<BoxRules>,
    link: LinkParts,
    observations: Observations,
    notices: Vec<Notice>,
    /// Multicast messages that the adapters copy: how many copies have not left.
    copies: Vec<(Ticket, u32)>,
    barrier: BarrierTree,
    /// Messages that have begun, one for each target that does not have it.
    under_way: u64,
    legs: Legs,
    frames: Frames,
    trace: Option<Vec<TraceEntry>>,
    steps: u64,
}

/// The parts of the way of a first packet (Maestro Table 2 and Figure 8). On a link only those count
/// that open a frame: others do not wait for a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Legs {
    /// From the FIFO of the initiator to that of the first switch.
    uplink: Leg,
    /// From there to the FIFO of the last switch that the target is behind.
    switch: Leg,
    /// In each switch, from the reading of a header to the order to move its message (t2).
    analysis: Leg,
    /// In each switch, from the set-up of the transfer of a message until all of it is moved (t3).
    transfer: Leg,
    /// From there to the FIFO of the target.
    downlink: Leg,
    /// From the end of a frame of one end to the beginning of its next one, on any link.
    turn: Leg,
}

/// What travelled on all links.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    data: u64,
    packets: u64,
    damaged: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The source of a host hands over a message.
    Generate(u16),
    /// The throttle of a host lets it begin with a message.
    Unthrottled(u16),
    /// A mover of a host can begin with a message.
    Prepared { host: u16, channel: u8, what: Move },
    /// A mover of a host has moved a packet.
    Moved { host: u16, channel: u8, what: Move },
    /// Something is due on a cable.
    Link(u32),
    /// A switch knows where a message goes.
    Analysed { station: u32, message: Id<Carried> },
    /// A packet has passed a switch.
    Passed { switch: u32, input: u32, channel: u8 },
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

impl TurnChannel {
    /// A channel at time zero.
    pub fn new(parts: TurnParts) -> TurnChannel {
        let (stations, cables) = laid(&parts);
        let alone = parts.switches.len() == 1;
        let switch = |(number, rules)| Switch::new(rules, parts.wiring.ports_of(number), alone);
        let switches = (0..).zip(&parts.switches).map(switch).collect();
        let rules_of_switches = parts.switches;
        let TurnParts { wiring, routes, link, transfer, observations, .. } = parts;
        let links = wiring.ports() as usize + wiring.hosts() as usize;
        let observations = observations.of_links(links);
        let (payload, release) = (parts.payload, parts.release);
        let rules = Messages { payload, buffers: parts.send_buffers, release };
        let kept = rules_of_switches.iter().all(|rules| rules.barrier.is_some());
        let barrier = if kept { BarrierTree::new(&wiring) } else { BarrierTree::default() };
        let packet = link.timings.iter().map(|timing| timing.packet).min();
        let mut queue = Agenda::new(&wiring, packet.unwrap_or(Span::ZERO));
        for (cable, phase) in (0..cables.len() as u32).zip(&link.phases) {
            queue.push(*phase, Event::Link(cable));
        }
        let mut sources = parts.sources.into_iter();
        let hosts: Vec<Host> = (0..wiring.hosts())
            .map(|_| Host::new(sources.next(), parts.throttle.clone()))
            .collect();
        for (number, host) in (0..).zip(&hosts) {
            host.first(&rules).for_each(|time| queue.push(time, Event::Generate(number)));
        }
        TurnChannel {
            queue,
            stations,
            cables,
            hosts,
            switches,
            messages: Arena::new(),
            rules,
            wiring,
            routes,
            transfer,
            rules_of_switches,
            link,
            observations,
            notices: Vec::new(),
            copies: Vec::new(),
            barrier,
            under_way: 0,
            legs: Legs::default(),
            frames: Frames::default(),
            trace: None,
            steps: 0,
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        self.steps += 1;
        match event {
            Event::Generate(host) => self.generate(now, host),
            Event::Unthrottled(host) => self.unthrottled(now, host),
            Event::Prepared { host, channel, what } => {
                self.prepared(now, host, usize::from(channel), what);
            }
            Event::Moved { host, channel, what } => {
                self.moved_by_host(now, host, usize::from(channel), what);
            }
            Event::Link(cable) => self.link_step(now, cable),
            Event::Analysed { station, message } => self.analysed(now, station, message),
            Event::Passed { switch, input, channel } => {
                self.passed(now, switch, input, usize::from(channel));
            }
        }
    }

    /// What is due on a cable: a turn begins, or a packet arrives.
    #[allow(clippy::expect_used, reason = "no end sends beyond the room that it was granted")]
    fn link_step(&mut self, now: Time, number: u32) {
        let cable = &mut self.cables[number as usize];
        let holder = cable.stations[cable.link.holder()];
        let waiting = self.stations[holder as usize].waiting();
        let (event, next) = cable.link.step(now, waiting).expect("a credit is room");
        if let Some(next) = next {
            self.queue.push(next, Event::Link(number));
        }
        match event {
            TurnEvent::Began { side, preamble, first, over } => {
                cable.first = first;
                cable.packets = 0;
                cable.credits = preamble.credits;
                if let Some(released) = cable.released[side].take() {
                    self.legs.turn.add(first.since(released));
                }
                if preamble.kind == Kind::Null {
                    cable.released[side] = Some(over);
                    self.note_frame(over, number, side);
                }
            }
            TurnEvent::Moved { side, channel, last } => {
                cable.packets += 1;
                self.moved(now, number, side, channel);
                if last {
                    let cable = &mut self.cables[number as usize];
                    let packets = cable.packets;
                    // An end that keeps the link begins its next frame at this very time.
                    cable.released[side] = Some(now).filter(|_| cable.link.holder() != side);
                    self.frames.data += 1;
                    self.frames.packets += u64::from(packets);
                    self.occupy(now, number, side);
                    self.note_frame(now, number, side);
                }
            }
        }
    }

    /// The last symbol of a frame with packets is at the other end of a cable.
    fn occupy(&mut self, now: Time, number: u32, side: usize) {
        let TurnCable { ref link, first, stations, .. } = self.cables[number as usize];
        let propagation = link.timing().propagation;
        let (station, hosts) = (stations[side] as usize, self.wiring.hosts() as usize);
        // The hosts are the first stations, and the last links.
        let link = station.checked_sub(hosts).unwrap_or(self.wiring.ports() as usize + station);
        let span = Span(now.since(first).0.saturating_sub(propagation.0));
        self.observations.occupy(link, first, span);
    }

    /// The last symbol of a packet is at the other end of a cable.
    fn moved(&mut self, now: Time, number: u32, side: usize, channel: usize) {
        let cable = &self.cables[number as usize];
        let (from, to) = (cable.stations[side], cable.stations[1 - side]);
        let opens = cable.packets == 1;
        let Some(packet) = self.stations[from as usize].send[channel].take() else { return };
        self.damage(from, packet.message);
        self.stations[to as usize].receive[channel].put(packet, packet.last);
        let (sender, receiver) =
            (self.stations[from as usize].place, self.stations[to as usize].place);
        self.account_for_link(now, (number, packet, opens), sender, receiver);
        match sender {
            StationPlace::Host(host) => {
                self.go(now, host, channel, Move::Fill);
                if packet.last {
                    self.left(now, host, packet.message);
                }
            }
            StationPlace::Port { switch, .. } => self.pass(now, switch),
        }
        match receiver {
            StationPlace::Host(host) => {
                if packet.last {
                    self.hosts[usize::from(host)].arrivals[channel].push_back(now);
                }
                self.go(now, host, channel, Move::Empty);
            }
            StationPlace::Port { switch, number } => {
                if packet.number == 0 {
                    self.header(now, to, (switch, number), packet.message);
                }
                // What follows a header may be what its transfer waits for.
                self.pass(now, switch);
            }
        }
    }

    /// A packet that a station sent may have a wrong bit. Headers, preambles and what is not payload
    /// are taken to arrive whole: there is no check code, and what ends do about a wrong credit or a
    /// wrong route is not described.
    fn damage(&mut self, from: u32, id: Id<Carried>) {
        let message = &mut self.messages[id];
        if message.purpose == Use::Data
            && let Some(errors) = self.link.errors.get_mut(from as usize)
            && errors.damages_next(None, self.link.packet)
        {
            message.damaged = true;
            self.frames.damaged += 1;
        }
    }

    fn account_for_link(
        &mut self,
        now: Time,
        (cable, packet, opens): (u32, Packet, bool),
        sender: StationPlace,
        receiver: StationPlace,
    ) {
        let timing = self.cables[cable as usize].link.timing();
        let message = &mut self.messages[packet.message];
        if packet.number == 0 && message.purpose == Use::Data {
            let span = now.since(message.head);
            match (sender, receiver) {
                _ if !opens => {}
                (StationPlace::Host(_), _) => self.legs.uplink.add(span),
                (_, StationPlace::Host(_)) => self.legs.downlink.add(span),
                _ => {}
            }
            if matches!(sender, StationPlace::Host(_)) {
                message.head = now;
            }
        }
        // The copies of a multicast message part at the last link, so that it is not added here.
        if packet.last && !matches!(receiver, StationPlace::Host(_)) {
            let moving = timing.packet + timing.propagation;
            let wait = Span(now.since(message.tail).0.saturating_sub(moving.0));
            message.spent.link_wait += wait;
            message.spent.transmission += timing.packet;
            message.spent.wire += timing.propagation;
            message.tail = now;
        }
    }

    /// Something was put into a send FIFO: the link is not to sleep.
    fn wake(&mut self, now: Time, station: u32) {
        let number = self.stations[station as usize].link;
        let cable = &mut self.cables[number as usize];
        if let Some(time) = cable.link.wake(now) {
            cable.released = [None; 2];
            self.queue.push(time, Event::Link(number));
        }
    }

    /// A packet was read from the receive FIFO of a station.
    fn drained(&mut self, station: u32, channel: usize) {
        let Station { link, side, .. } = self.stations[station as usize];
        self.cables[link as usize].link.drained(side, channel);
    }
}

/// The stations of a channel and the links between them.
fn laid(parts: &TurnParts) -> (Vec<Station<Id<Carried>>>, Vec<TurnCable>) {
    let switches: Vec<Forwarding> = parts.switches.iter().map(|rules| rules.forwarding).collect();
    let stations = StationParts {
        wiring: &parts.wiring,
        rules: parts.link.rules,
        capacity: parts.link.capacity,
        packet: parts.link.packet,
        timings: &parts.link.timings,
        hosts: parts.transfer.forwarding,
        switches: &switches,
    };
    stations.build()
}

impl Carrier for TurnChannel {
    fn offer(&mut self, now: Time, message: Message) {
        self.take_over(now, message);
    }

    fn keeps_barrier(&self) -> bool {
        self.rules_of_switches.iter().all(|rules| rules.barrier.is_some())
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        let keeps = self.keeps_barrier();
        if keeps {
            self.arrive_at_barrier(now, host, hosts, ticket);
        }
        keeps
    }

    fn next_time(&self) -> Time {
        let notice = self.notices.first().map(|notice| notice.time());
        notice.or_else(|| self.queue.next_time()).unwrap_or(Time::NEVER)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while let Some((time, event)) = self.queue.pop_until(now) {
            self.happen(time, event);
        }
        notices.append(&mut self.notices);
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        self.who_waits()
    }
}

const _: () = assert!(CHANNELS == 2, "data has one pair of FIFOs, everything else the other");

/// What a message costs that carries nothing but its header.
const NO_PAYLOAD: Bytes = Bytes(0);
