//! Links with turns: messages that travel as packets of 16 bytes through FIFOs, over half-duplex links on
//! which every frame carries credits (Maestro 3).
//!
//! The unit that travels from host to host, and has a number among the packets of the engine, is a
//! message here: only its first packet has a destination, and the others follow it. Three kinds of movers
//! work in parallel: those of the hosts between memory and FIFO, the links between FIFOs, and the
//! switches from FIFO to FIFO, which give an output to a whole message. An event is one packet moved by
//! one of them, or the turn of an end of a link, which takes from its FIFO what it may send.

mod host;
mod message;
mod moving;
mod places;
mod report;
mod switching;

use weft_fabric::adapter::{Release, ThrottleSettings};
use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::graph::{
    CableEvent, Graph, Station, StationPacket, StationParts, StationPlace, TurnCable,
};
use weft_fabric::interface::{Forwarding, Move, TransferSettings};
use weft_fabric::link::{Errors, TurnTiming};
use weft_fabric::measure::{Crossing, Ends, Observations};
use weft_fabric::switch::{BarrierTree, BoxRules, CONTROLLER};
use weft_kernel::{Calendar, Event};
use weft_protocol::turns::{CHANNELS, PACKET, Rules, packets_of};
use weft_units::{Bytes, Limit, Span, Time};

use self::host::Host;
use self::message::{Carried, Leg, Use};
use self::places::{MoverId, Places};
use self::switching::Switch;
use super::packets::Packets;
use super::parts::EventPace;
use super::{Delivery, Engine, Supply};
use crate::drive::trace::TraceEntry;

/// The parts of links with turns, and the transfer and throttle of hosts.
#[derive(Debug)]
pub struct TurnParts {
    /// The parameters on which the ends of a link agree.
    pub rules: Rules,
    /// The capacity of each FIFO in packets.
    pub capacity: u16,
    /// The timing on each kind of cable, in the order of [`Wiring::links`].
    pub timings: Vec<TurnTiming>,
    /// The unit that is moved as a whole, a multiple of 16 bytes.
    pub packet: Bytes,
    /// When the first turn of each link begins, those of the hosts first.
    pub phases: Vec<Time>,
    /// The errors of the packets that each port sends: ports of switches, then the hosts. Empty on
    /// links without errors.
    pub errors: Vec<Errors>,
    /// The path between the memory of a host and its FIFOs.
    pub transfer: TransferSettings,
    /// How often a host may begin a message.
    pub throttle: Option<ThrottleSettings>,
    /// When a message leaves the adapter.
    pub release: Release,
}

/// All links with turns of a channel, with the hosts and switches at their ends.
#[derive(Debug)]
pub(super) struct Turns {
    parts: TurnParts,
    places: Places,
    /// By port.
    stations: Vec<Station<u32>>,
    cables: Vec<TurnCable>,
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    /// By number.
    messages: Vec<Carried>,
    /// How many messages of its source each adapter holds.
    buffers: Limit,
    barrier: BarrierTree,
    /// Messages that have begun, one for each target that does not have it.
    under_way: u64,
    legs: Legs,
    frames: Frames,
    /// What the present event has delivered.
    delivered: Vec<Delivery>,
    trace: Option<Vec<TraceEntry>>,
}

/// The legs of a first packet (Maestro Table 2 and Figure 8). On a link only packets that open a
/// frame count: others do not wait for a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Legs {
    /// From the FIFO of the initiator to the FIFO of the first switch.
    uplink: Leg,
    /// From there to the FIFO of the last switch, to which the target is connected.
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

/// What all links carried.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    data: u64,
    packets: u64,
    damaged: u64,
}

/// A packet in a FIFO: its message, and its position in it.
type Packet = StationPacket<u32>;

/// The engine at an instant, as far as links with turns reach.
struct Step<'a> {
    now: Time,
    own: &'a mut Turns,
    graph: &'a mut Graph,
    routes: &'a mut Routes,
    supply: &'a mut Supply,
    packets: &'a mut Packets,
    seen: &'a mut Observations,
    agenda: &'a mut Calendar,
    payload: Bytes,
}

const _: () = assert!(CHANNELS == 2, "data has one pair of FIFOs, everything else the other");

/// The cost of a message that consists only of its header.
const NO_PAYLOAD: Bytes = Bytes(0);

impl Turns {
    /// Idle links between hosts and switches; `boxes` are the rules of each switch.
    pub fn new(
        parts: TurnParts,
        wiring: &Wiring,
        graph: &Graph,
        boxes: &[BoxRules],
        buffers: Limit,
    ) -> Turns {
        let forwarding: Vec<Forwarding> = boxes.iter().map(|rules| rules.forwarding).collect();
        let stations = StationParts {
            wiring,
            rules: parts.rules,
            capacity: parts.capacity,
            packet: parts.packet,
            timings: &parts.timings,
            hosts: parts.transfer.forwarding,
            switches: &forwarding,
        };
        let (stations, cables) = stations.build();
        let keeps_barrier = boxes.iter().all(|rules| rules.barrier.is_some());
        let switch =
            |(number, rules)| Switch::new(rules, wiring.ports_of(number), boxes.len() == 1);
        Turns {
            places: Places::new(graph),
            stations,
            cables,
            hosts: (0..wiring.hosts()).map(|_| Host::new(parts.throttle.as_ref())).collect(),
            switches: (0..).zip(boxes).map(switch).collect(),
            messages: Vec::new(),
            buffers,
            barrier: match keeps_barrier {
                true => BarrierTree::new(wiring),
                false => BarrierTree::default(),
            },
            under_way: 0,
            legs: Legs::default(),
            frames: Frames::default(),
            delivered: Vec::new(),
            trace: None,
            parts,
        }
    }

    /// How many packets a message with this much payload takes.
    fn packets_of(&self, payload: Bytes) -> u32 {
        let packets = (packets_of(payload.0) * PACKET as u64).div_ceil(self.parts.packet.0);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// How close events are: all cables and hosts are at work, and a frame is seldom longer than sixteen
    /// packets.
    pub fn pace(&self) -> EventPace {
        let packet = self.parts.timings.iter().map(|timing| timing.packet).min();
        let packet = packet.unwrap_or(Span::ZERO);
        let spacing = Span(packet.0 / self.hosts.len().max(1) as u64);
        EventPace { spacing, ahead: packet * 16, widening: 1 }
    }
}

impl Engine {
    /// The first turns of all links, and the first messages of sources.
    pub(super) fn begin_turns(&mut self, send_buffers: Limit) {
        let Some(own) = &self.turns else { return };
        let places = own.places;
        for (cable, time) in (0..own.cables.len() as u32).zip(own.parts.phases.clone()) {
            self.schedule(time, places.cables + cable, 0);
        }
        for (host, time) in self.supply.begin(send_buffers) {
            self.schedule(time, places.generates + host, 0);
        }
        self.next = self.next_with_adapters();
    }

    /// Processes an event of links with turns.
    pub(super) fn happen_on_turns(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        let Some(mut step) = self.step_on_turns(event.time) else { return };
        step.happen(event.place, event.item);
        step.own.delivered.drain(..).for_each(watch);
    }

    #[inline]
    fn step_on_turns(&mut self, now: Time) -> Option<Step<'_>> {
        Some(Step {
            now,
            own: self.turns.as_mut()?,
            graph: &mut self.graph,
            routes: &mut self.routes,
            supply: &mut self.supply,
            packets: &mut self.packets,
            seen: &mut self.observations,
            agenda: self.parts.first(),
            payload: self.payload,
        })
    }
}

impl Step<'_> {
    fn happen(&mut self, place: u32, item: u32) {
        let places = self.own.places;
        if place < places.controllers {
            let switch = self.graph.switch_of(place);
            let input = place - self.graph.first_port(switch);
            self.passed(switch, input, item as usize);
        } else if place < places.headers {
            self.passed(place - places.controllers, CONTROLLER, item as usize);
        } else if place < places.moves {
            self.analysed(place - places.headers, item);
        } else if place < places.throttles {
            match MoverId::of(place - places.moves, item) {
                (mover, false) => self.prepared(mover),
                (mover, true) => self.moved_by_host(mover),
            }
        } else if place < places.generates {
            self.unthrottled(place - places.throttles);
        } else if place < places.cables {
            self.generate(place - places.generates);
        } else {
            self.link_step(place - places.cables);
        }
    }

    #[inline]
    fn at(&mut self, time: Time, place: u32, item: u32) {
        self.agenda.push(Event { time, place, item });
    }

    /// Processes what is due on a cable: a turn begins, or a packet arrives.
    #[allow(clippy::expect_used, reason = "no end sends beyond the room that it was granted")]
    fn link_step(&mut self, number: u32) {
        let now = self.now;
        let cable = &mut self.own.cables[number as usize];
        let holder = cable.stations[cable.link.holder()];
        let waiting = self.own.stations[holder as usize].waiting();
        let (event, next) = cable.step(now, waiting).expect("a credit is room");
        match event {
            CableEvent::Began { side, waited, null_over } => {
                if let Some(waited) = waited {
                    self.own.legs.turn.add(waited);
                }
                if let Some(over) = null_over {
                    self.own.note_frame(over, number, side);
                }
            }
            CableEvent::Moved { side, channel, opens, ends } => {
                self.moved(number, side, channel, opens);
                if ends {
                    self.end_frame(number, side);
                }
            }
        }
        if let Some(next) = next {
            self.at(next, self.own.places.cables + number, 0);
        }
    }

    /// The last symbol of a frame with packets is at the other end of a cable.
    fn end_frame(&mut self, number: u32, side: usize) {
        let cable = &self.own.cables[number as usize];
        self.graph.occupy(cable.first, cable.stations[side], cable.busy(self.now));
        self.own.frames.data += 1;
        self.own.frames.packets += u64::from(cable.packets);
        self.own.note_frame(self.now, number, side);
    }

    /// The last symbol of a packet is at the other end of a cable.
    fn moved(&mut self, number: u32, side: usize, channel: usize, opens: bool) {
        let cable = &self.own.cables[number as usize];
        let (from, to) = (cable.stations[side], cable.stations[1 - side]);
        let stations = &mut self.own.stations;
        let Some(packet) = stations[from as usize].send[channel].take() else { return };
        self.damage(from, packet.message);
        let stations = &mut self.own.stations;
        stations[to as usize].receive[channel].put(packet, packet.last);
        let (sender, receiver) = (stations[from as usize].place, stations[to as usize].place);
        self.account_for_link(number, packet, opens, sender, receiver);
        match sender {
            StationPlace::Host(host) => {
                self.go(MoverId { host, channel, what: Move::Fill });
                if packet.last {
                    self.left(host, packet.message);
                }
            }
            StationPlace::Port { switch, .. } => self.pass(switch),
        }
        match receiver {
            StationPlace::Host(host) => {
                if packet.last {
                    self.own.hosts[host as usize].arrivals[channel].push_back(self.now);
                }
                self.go(MoverId { host, channel, what: Move::Empty });
            }
            StationPlace::Port { switch, number } => {
                if packet.number == 0 {
                    self.header(switch, number, packet.message);
                }
                // The packets after a header may be what its transfer waits for.
                self.pass(switch);
            }
        }
    }

    /// A packet that a port sent may have a wrong bit. Headers, preambles and everything but payload
    /// are taken to arrive undamaged: there is no check code, and the document does not say what
    /// ends do about a wrong credit or a wrong route.
    fn damage(&mut self, from: u32, message: u32) {
        let own = &mut *self.own;
        let message = &mut own.messages[message as usize];
        if message.purpose == Use::Data
            && let Some(errors) = own.parts.errors.get_mut(from as usize)
            && errors.damages_next(None, own.parts.packet)
        {
            message.damaged = true;
            own.frames.damaged += 1;
        }
    }

    fn account_for_link(
        &mut self,
        cable: u32,
        packet: Packet,
        opens: bool,
        sender: StationPlace,
        receiver: StationPlace,
    ) {
        let (now, own) = (self.now, &mut *self.own);
        let message = &mut own.messages[packet.message as usize];
        let is_host = |place| matches!(place, StationPlace::Host(_));
        if packet.number == 0 && message.purpose == Use::Data {
            let span = message.journey.since_head(now);
            if opens && is_host(sender) {
                own.legs.uplink.add(span);
            } else if opens && is_host(receiver) {
                own.legs.downlink.add(span);
            }
            if is_host(sender) {
                message.journey.advance(now);
            }
        }
        // The copies of a multicast separate at the last link, so that it is not added here.
        if packet.last && !is_host(receiver) {
            message.journey.cross(now, crossing(own.cables[cable as usize].link.timing()));
        }
    }

    /// Something was put into the send FIFO of a port: the link is not to sleep.
    fn wake(&mut self, port: u32) {
        let number = self.own.stations[port as usize].link;
        if let Some(time) = self.own.cables[number as usize].wake(self.now) {
            self.at(time, self.own.places.cables + number, 0);
        }
    }

    /// A packet was read from the receive FIFO of a port.
    fn drained(&mut self, port: u32, channel: usize) {
        let Station { link, side, .. } = self.own.stations[port as usize];
        self.own.cables[link as usize].link.drained(side, channel);
    }
}

/// What a packet takes on a link without waiting.
fn crossing(timing: &TurnTiming) -> Crossing {
    Crossing { transmission: timing.packet, wire: timing.propagation }
}

/// The position of a packet in its message.
fn ends(packet: Packet) -> Ends {
    Ends { first: packet.number == 0, last: packet.last }
}
