//! Switches with virtual output queues in input buffers of limited size, a scheduler each, and
//! credits on every cable, so that no buffer overflows.
//!
//! Switches start packets at the beginnings of slots of one cell, all at the same instants. A
//! packet of several cells that a scheduler has let through keeps its input and its output until
//! its end, so that it costs one decision however long it is. Whoever sends a packet knows the slot
//! in which it is there, and leaves it with the next switch, so that packets cost no events between
//! their hosts: a switch takes part in the slots in which it has packets.
//!
//! A buffer is counted in packets: the credit for a packet is spent when its first byte is sent
//! and is back when its last byte has left the buffer and the news has come over the cable.

mod host;
mod sender;
mod stage;

use weft_fabric::fabric::{Heading, Peer, Routes, Wiring};
use weft_fabric::measure::Observations;
use weft_fabric::scheduler::{AnyScheduler, Matching, Requests};
use weft_kernel::{Halt, Id, Stopped, Stream};
use weft_units::{Span, Time};

use super::ends::{Delivery, Ends, NetworkParts};
use super::skeleton::{Agenda, Network};
use crate::drive::carrier::MessageId;
use host::Host;
use sender::Sender;
use stage::{Input, Output, Stage};

/// What input-queued switches are made of.
#[derive(Debug)]
pub struct InputQueuedParts {
    /// The length of a slot.
    pub cell: Span,
    /// How many slots a packet takes.
    pub cells: u64,
    /// How many packets an input buffer holds; at least one.
    pub buffer: u32,
    /// The scheduler of each switch.
    pub schedulers: Vec<AnyScheduler>,
    /// What schedulers draw from.
    pub random: Stream,
}

/// A channel of input-queued switches.
#[derive(Debug)]
pub struct InputQueuedNetwork {
    ends: Ends<Note>,
    routes: Routes,
    wiring: Wiring,
    hosts: Vec<Host>,
    stages: Vec<Stage>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// The switch of each port.
    owner: Vec<u32>,
    /// The queues of all switches, those of one input after another: oldest and youngest packet.
    queues: Vec<(Link, Link)>,
    requests: Vec<Requests>,
    matching: Vec<Matching>,
    random: Stream,
    timing: Timing,
    agenda: Agenda<Event>,
}

/// The packet behind another one in a queue.
type Link = Option<Id<Packet>>;
type Packet = super::ends::Packet<Note>;

/// What switches note on a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    heading: Heading,
    behind: Link,
    /// The slot in which the switch that it is on its way to can first decide on it.
    slot: Time,
    hops: u8,
}

/// Spans that are the same for all packets.
#[derive(Clone, Copy, Debug)]
struct Timing {
    cell: Span,
    packet: Span,
    /// The slots that a packet takes.
    held: Span,
    propagation: Span,
    /// From the first byte at the beginning of a cable to the first byte at a crossbar.
    pass: Span,
    /// From a slot to the one in which the next switch can decide on a packet that left in it.
    hop: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The source of a host hands over a packet.
    Generate(u16),
    /// A host may be able to send.
    Send(u16),
    /// A slot of a switch begins.
    Slot(u32),
    /// The last byte of a packet is at its target.
    Deliver(Id<Packet>),
    /// The last byte of a message has left its initiator.
    Sent(MessageId),
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

impl Timing {
    fn new(cell: Span, cells: u64, packet: Span, (propagation, latency): (Span, Span)) -> Timing {
        let pass = propagation + latency;
        let mut timing =
            Timing { cell, packet, held: Span(cell.0 * cells), propagation, pass, hop: cell };
        timing.hop = timing.slot_after(Time::ZERO).since(Time::ZERO);
        timing
    }

    /// The beginning of the first slot at or after `time`.
    #[inline]
    fn slot_at(&self, time: Time) -> Time {
        Time(time.0.div_ceil(self.cell.0) * self.cell.0)
    }

    /// The slot in which a switch can first decide on a packet whose first byte was sent at
    /// `start`: always a later one.
    #[inline]
    fn slot_after(&self, start: Time) -> Time {
        let slot = self.slot_at(start + self.pass);
        if slot > start { slot } else { slot + self.cell }
    }
}

impl Network for InputQueuedNetwork {
    type Event = Event;
    type Note = Note;

    fn agenda(&self) -> &Agenda<Event> {
        &self.agenda
    }

    #[inline]
    fn agenda_mut(&mut self) -> &mut Agenda<Event> {
        &mut self.agenda
    }

    fn ends(&self) -> &Ends<Note> {
        &self.ends
    }

    fn ends_mut(&mut self) -> &mut Ends<Note> {
        &mut self.ends
    }

    fn generate_at(host: u16) -> Event {
        Event::Generate(host)
    }

    fn blocked(&self) -> Vec<String> {
        self.waiting()
    }

    #[inline]
    fn happen(&mut self, now: Time, event: Event) -> Option<Delivery> {
        match event {
            Event::Generate(host) => self.generate(now, host),
            Event::Send(host) => self.send(now, host),
            Event::Slot(switch) => self.slot(now, switch),
            Event::Deliver(id) => return Some(self.deliver(now, id)),
            Event::Sent(message) => self.sent(now, message),
        }
        None
    }
}

impl InputQueuedNetwork {
    /// A channel at time zero.
    pub fn new(parts: NetworkParts, switches: InputQueuedParts) -> InputQueuedNetwork {
        let NetworkParts { packet, propagation, latency, .. } = parts;
        let InputQueuedParts { cell, cells, buffer, schedulers, random } = switches;
        let (ends, wiring, routes) = Ends::new(parts);
        let mut queues = 0;
        let stages = (0..wiring.switches()).zip(schedulers).map(|(switch, scheduler)| {
            let ports = wiring.ports_of(switch);
            let base = queues;
            queues += ports * ports;
            Stage::new(scheduler, ports, wiring.port(switch, 0), base)
        });
        let stages: Vec<Stage> = stages.collect();
        let most = stages.iter().map(|stage| stage.ports).max().unwrap_or(1) as usize;
        let mut network = InputQueuedNetwork {
            hosts: (0..wiring.hosts())
                .map(|host| Host::new(wiring.host_port(host), Sender::new(buffer)))
                .collect(),
            inputs: (0..wiring.ports()).map(|port| Input::new(wiring.peer(port))).collect(),
            outputs: (0..wiring.ports())
                .map(|port| Output::new(wiring.peer(port), buffer))
                .collect(),
            owner: (0..wiring.ports()).map(|port| wiring.switch_of(port)).collect(),
            queues: vec![(None, None); queues as usize],
            requests: (1..=most).map(Requests::new).collect(),
            matching: (1..=most).map(Matching::new).collect(),
            stages,
            ends,
            routes,
            wiring,
            random,
            timing: Timing::new(cell, cells, packet, (propagation, latency)),
            agenda: Agenda::new(),
        };
        for (host, time) in network.ends.begin() {
            network.agenda.push(time, Event::Generate(host));
        }
        network
    }

    /// Runs up to and including `until`, or until `halt` stops it; to be called once.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.run_watched(until, halt, |_| {})
    }

    /// The same, showing every delivery to `watch`.
    pub fn run_watched(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        self.work_off(until, halt, watch)
    }

    /// What is observed.
    pub fn observations_mut(&mut self) -> &mut Observations {
        &mut self.ends.observations
    }

    /// What was observed; ends the channel.
    pub fn into_observations(self) -> Observations {
        self.ends.observations
    }

    /// Packets whose transmission has not begun.
    pub fn backlog(&self) -> u64 {
        self.waiting_in_hosts() + self.ends.unfed()
    }

    fn waiting_in_hosts(&self) -> u64 {
        self.hosts.iter().map(|host| host.waiting).sum()
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> u64 {
        self.ends.packets.len() as u64 - self.waiting_in_hosts()
    }

    /// How many events have happened.
    pub fn steps(&self) -> u64 {
        self.agenda.steps()
    }

    /// Which outputs and hosts wait for buffers that nobody empties, one sentence a line.
    pub fn waiting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (port, output) in (0..).zip(&self.outputs) {
            if output.waiting > 0
                && output.sender.is_without_credit()
                && let Peer::Port(peer) = output.peer
            {
                lines.push(format!(
                    "{} packets wait at {} for space in the buffer of {}",
                    output.waiting,
                    self.wiring.port_name(port),
                    self.wiring.port_name(peer),
                ));
            }
        }
        for (number, host) in (0..).zip(&self.hosts) {
            if host.waiting > 0 && host.sender.is_without_credit() {
                lines.push(format!(
                    "{} packets wait at {} for space in the buffer of {}",
                    host.waiting,
                    self.wiring.host_name(number),
                    self.wiring.port_name(host.port),
                ));
            }
        }
        lines
    }

    #[inline]
    fn deliver(&mut self, now: Time, id: Id<Packet>) -> Delivery {
        let hops = self.ends.packets[id].note.hops;
        let (delivery, answer) = self.ends.deliver(now, id, hops);
        if let Some(time) = answer {
            self.agenda.push(time, Event::Generate(delivery.to));
        }
        delivery
    }
}
