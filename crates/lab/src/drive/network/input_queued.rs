//! Switches with virtual output queues in input buffers of limited size, a scheduler each, and a
//! flow control on every cable, so that no buffer overflows.
//!
//! Switches start packets at the beginnings of slots of one cell, all at the same instants. A
//! packet of several cells that a scheduler has let through keeps its input and its output until
//! its end, so that it costs one decision however long it is. What a packet brings about at other
//! switches is known when it leaves: where it can be decided on next, when its ports are free, when
//! its credit is back. These wait in a calendar of slots, and a switch takes part in the slots in
//! which one of its packets may start.
//!
//! Credits are counted in packets: the one for a packet is spent when its first byte is sent and is
//! back when its last byte has left the buffer and the news has come over the cable. Where inputs
//! stop their cables instead, a packet is held from the slot in which it can be decided on until it
//! begins to leave.

mod calendar;
mod circle;
mod flow;
mod host;
mod sender;
mod stage;

use weft_fabric::fabric::{Heading, Routes, Wiring};
use weft_fabric::measure::Observations;
use weft_fabric::scheduler::{AnyScheduler, Matching, Requests};
use weft_kernel::{Halt, Id, Stopped, Stream};
use weft_units::{Span, Time};

use super::control::FlowControl;
use super::ends::{Delivery, Ends, NetworkParts};
use super::skeleton::{Agenda, Network};
use crate::drive::Channel;
use crate::drive::carrier::MessageId;
use calendar::{Calendar, NEVER};
use flow::Flow;
use host::Host;
use sender::Sender;
use stage::{Plug, Stage};

/// What input-queued switches are made of.
#[derive(Debug)]
pub struct InputQueuedParts {
    /// The length of a slot.
    pub cell: Span,
    /// How many slots a packet takes.
    pub cells: u64,
    /// How many cells an input buffer holds; at least a packet for each virtual channel.
    pub buffer: u32,
    /// What keeps it from being written while it is full; credits or stops.
    pub control: FlowControl,
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
    schedulers: Vec<AnyScheduler>,
    /// What is plugged into each port, the switch that it belongs to, how many packets of that
    /// switch wait to leave by it, and the virtual channel by which one left last.
    plugs: Vec<Plug>,
    owner: Vec<u32>,
    waiting: Vec<u32>,
    turns: Vec<u8>,
    /// The outputs that packets in each input wait for, by virtual channel.
    wanted: Vec<u64>,
    /// The outputs of each switch without credit, by virtual channel.
    broke: Vec<u64>,
    /// The queues of all switches, those of one input after another, by output and virtual channel
    /// behind it: oldest and youngest packet.
    queues: Vec<(Link, Link)>,
    calendar: Calendar,
    flow: Flow,
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
    hops: u8,
    /// The virtual channel that it came by, or that it is to leave its host by.
    channel: u8,
}

/// Spans that are the same for all packets.
#[derive(Clone, Copy, Debug)]
struct Timing {
    cell: Span,
    packet: Span,
    propagation: Span,
    /// From the first byte at the beginning of a cable to the first byte at a crossbar.
    pass: Span,
    /// The slots that a packet takes.
    cells: u64,
    /// The slots until the next switch can decide on a packet that left, until a credit is over a
    /// cable, and until a stop is heard.
    hop: u64,
    credit: u64,
    signal: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The source of a host hands over a packet.
    Generate(u16),
    /// A host may be able to send.
    Send(u16),
    /// A slot begins.
    Slot,
    /// A host hears that it has to stop, or that it may go on.
    Stop(u16, bool),
    /// The last byte of a packet is at its target.
    Deliver(Id<Packet>),
    /// The last byte of a message has left its initiator.
    Sent(MessageId),
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

impl Timing {
    fn new(
        (cell, cells): (Span, u64),
        packet: Span,
        (propagation, latency): (Span, Span),
        reaction: Span,
    ) -> Timing {
        let slots = |span: Span| span.0.div_ceil(cell.0);
        let pass = propagation + latency;
        Timing {
            cell,
            packet,
            propagation,
            pass,
            cells,
            hop: slots(pass).max(1),
            credit: slots(propagation),
            signal: slots(propagation + reaction).max(1),
        }
    }

    /// The beginning of a slot.
    #[inline]
    fn time_of(&self, slot: u64) -> Time {
        Time(slot * self.cell.0)
    }

    /// The slot in which a switch can first decide on a packet whose first byte was sent at
    /// `start`: always a later one.
    #[inline]
    fn slot_after(&self, start: Time) -> u64 {
        let slot = (start + self.pass).0.div_ceil(self.cell.0);
        if self.time_of(slot) > start { slot } else { slot + 1 }
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
        self.who_waits()
    }

    #[inline]
    fn happen(&mut self, now: Time, event: Event) -> Option<Delivery> {
        match event {
            Event::Generate(host) => self.generate(now, host),
            Event::Send(host) => self.send(now, host),
            Event::Slot => self.slot_due(now),
            Event::Stop(host, stops) => self.stop(now, host, stops),
            Event::Deliver(id) => return Some(self.deliver(now, id)),
            Event::Sent(message) => self.sent(now, message),
        }
        None
    }
}

impl Channel for InputQueuedNetwork {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.work_off(until, halt, |_| {})
    }

    fn backlog(&self) -> u64 {
        self.waiting_in_hosts() + self.ends.unfed()
    }

    fn in_flight(&self) -> u64 {
        self.ends.packets.len() as u64 - self.waiting_in_hosts()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.ends.observations)
    }

    fn into_observations(self) -> Observations {
        self.ends.observations
    }

    fn overrun(&self) -> Option<&str> {
        self.flow.overrun.as_deref()
    }
}

impl InputQueuedNetwork {
    /// A channel at time zero.
    pub fn new(parts: NetworkParts, switches: InputQueuedParts) -> InputQueuedNetwork {
        let NetworkParts { packet, propagation, latency, .. } = parts;
        let InputQueuedParts { cell, cells, buffer, control, schedulers, random } = switches;
        let (mut ends, wiring, routes) = Ends::new(parts);
        ends.watch_links(&wiring);
        let mut queues = 0;
        let stages = (0..wiring.switches()).map(|switch| {
            let ports = wiring.ports_of(switch);
            let base = queues;
            queues += ports * ports;
            Stage::new(ports, wiring.port(switch, 0), base)
        });
        let stages: Vec<Stage> = stages.collect();
        let most = stages.iter().map(|stage| stage.ports).max().unwrap_or(1) as usize;
        let ports = wiring.ports() as usize;
        let flow = Flow::new(&control, wiring.ports(), routes.lanes(), (buffer, cells));
        let channels = usize::from(flow.channels);
        let sender = Sender::new(flow.credits.first().copied().unwrap_or(1));
        let senders = vec![sender; if flow.has_credits { channels } else { 0 }];
        let delays = (propagation, latency);
        let mut network = InputQueuedNetwork {
            hosts: (0..wiring.hosts())
                .map(|host| Host::new(wiring.host_port(host), senders.clone()))
                .collect(),
            plugs: (0..wiring.ports()).map(|port| wiring.peer(port).into()).collect(),
            owner: (0..wiring.ports()).map(|port| wiring.switch_of(port)).collect(),
            waiting: vec![0; ports],
            turns: vec![0; ports],
            wanted: vec![0; ports * channels],
            broke: vec![0; stages.len() * channels],
            queues: vec![(None, None); queues as usize * channels],
            calendar: Calendar::new(wiring.switches()),
            timing: Timing::new((cell, cells), packet, delays, flow.reaction()),
            flow,
            requests: (1..=most).map(Requests::new).collect(),
            matching: (1..=most).map(Matching::new).collect(),
            stages,
            schedulers,
            ends,
            routes,
            wiring,
            random,
            agenda: Agenda::new(),
        };
        for (host, time) in network.ends.begin() {
            network.agenda.push(time, Event::Generate(host));
        }
        network
    }

    /// [`Channel::run`], showing every delivery to `watch`.
    pub fn run_watched(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        self.work_off(until, halt, watch)
    }

    fn waiting_in_hosts(&self) -> u64 {
        self.hosts.iter().map(|host| host.waiting).sum()
    }

    /// A slot begins, unless another one was scheduled before it.
    fn slot_due(&mut self, now: Time) {
        let slot = self.calendar.due;
        if slot == NEVER || self.timing.time_of(slot) != now {
            return;
        }
        self.calendar.due = NEVER;
        self.slot(slot);
        let next = self.calendar.after(slot, self.flow.starved > 0);
        if next < NEVER {
            self.take_part(next);
        }
    }

    #[inline]
    fn deliver(&mut self, now: Time, id: Id<Packet>) -> Delivery {
        let hops = self.ends.packets[id].note.hops;
        let (delivery, answer) = self.ends.deliver(now, id, hops);
        if let Some(time) = answer {
            self.agenda.push(time, Event::Generate(delivery.to as u16));
        }
        delivery
    }
}
