//! Switches with a shared memory, cell by cell: queues per connection, per input or one for each
//! input, and any flow control between them.
//!
//! Every connection keeps to one way, which is laid down when it is set up. A cell costs two events a
//! switch, one when it is in its queue and one when its output is free again, and a third where a
//! credit goes back. Cells cut through: the first byte of a cell leaves a switch the latency of the
//! switch after it came, if the output is free.
//!
//! The adapters of the hosts are ports like those of the switches: what flow control does to the one
//! it does to the other.

mod connection;
mod endpoints;
mod host;
mod port;
mod quench;
mod report;

use std::collections::HashMap;

use weft_fabric::fabric::{PathHop, Peer, Routes, Wiring};
use weft_fabric::interface::{EndpointSettings, ViHost};
use weft_fabric::link::{Errors, FlowControl, LinkSettings};
use weft_fabric::measure::Observations;
use weft_fabric::message::Segmentation;
use weft_fabric::switch::SharedQueues;
use weft_fabric::workload::StreamList;
use weft_kernel::{Arena, Halt, Id, Stopped, Stream};
use weft_protocol::flow::QuenchMonitor;
use weft_protocol::vi::Registry;
use weft_units::{Bytes, Span, Time};

use super::ends::{Delivery, Ends, NetworkParts};
use super::skeleton::{Agenda, Network};
use crate::drive::Channel;
use crate::drive::carrier::MessageId;
use connection::Connection;
use endpoints::Faults;
use host::StreamState;
use port::{CellQueue, Port};
use quench::Signal;

pub use report::{NetworkReport, PortRow, SampleRow, StreamRow};

/// What switches with a shared memory, and the hosts around them, are made of besides.
#[derive(Debug)]
pub struct SharedMemoryParts {
    /// How cells wait in a switch.
    pub queues: SharedQueues,
    /// How many cells from each input a switch holds.
    pub buffer: u32,
    /// What keeps a buffer from being written while it is full.
    pub control: FlowControl,
    /// The cable, which tells how long cells of any size take.
    pub link: LinkSettings,
    /// The size of a packet.
    pub packet: Bytes,
    /// How messages become cells; each packet of one is a cell if absent.
    pub segmentation: Option<Segmentation>,
    /// What a message costs its hosts; nothing if absent.
    pub endpoints: Option<EndpointSettings>,
    /// What damages the messages of each host; nothing if empty.
    pub errors: Vec<Errors>,
    /// The streams of messages.
    pub streams: StreamList,
    /// What the beginnings of the streams are drawn from.
    pub random: Stream,
    /// How often loads and occupancies are noted; never if absent.
    pub sample: Option<Span>,
}

/// A channel of switches with shared memories.
#[derive(Debug)]
pub struct SharedMemoryNetwork {
    agenda: Agenda<Event>,
    ends: Ends<Note>,
    wiring: Wiring,
    routes: Routes,
    control: FlowControl,
    /// How many virtual channels a cell uses on its way.
    lanes: u8,
    queues_kind: SharedQueues,
    link: LinkSettings,
    segmentation: Segmentation,
    /// Whether what is handed over for a message is the whole of it.
    cuts_messages: bool,
    endpoints: EndpointSettings,
    cells: Arena<Cell>,
    /// The ports of all switches, and behind them those of the adapters.
    ports: Vec<Port>,
    /// The first queue of each port, where queues do not belong to connections.
    first_queue: Vec<u32>,
    queues: Vec<CellQueue>,
    /// How many cells each switch holds.
    stored: Vec<u32>,
    connections: Vec<Connection>,
    /// The ways of all connections, one after another, and what each switch on them watches.
    hops: Vec<PathHop>,
    monitors: Vec<QuenchMonitor>,
    /// The connection of each pair of hosts that has one without being a stream.
    pairs: HashMap<(u16, u16), u32>,
    hosts: Vec<ViHost<Id<Packet>, Received>>,
    /// The memory of each host that RDMA writes may go to.
    registries: Vec<Registry>,
    faults: Faults,
    /// How long what a target tells an initiator takes on a link.
    answer: Span,
    /// From which the streams draw.
    random: Stream,
    streams: Vec<StreamState>,
    groups: Vec<String>,
    /// Messages that wait for their first cell to be sent.
    unsent: u64,
    /// Send descriptors of each endpoint.
    descriptors: u16,
    packet: Span,
    payload: Bytes,
    propagation: Span,
    latency: Span,
    sample: Option<Span>,
    report: NetworkReport,
    overrun: Option<String>,
}

type Packet = super::ends::Packet<Note>;

/// A message that was received, and its connection.
type Received = (u32, Id<Packet>);

/// What is noted on a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    connection: u32,
    size: Bytes,
    /// Cells that are still to be made.
    left: u64,
    /// How long the last cell takes; the others take as long as a packet.
    last: Span,
    /// How long all take, and their bytes.
    whole: Span,
    wire: Bytes,
    /// Whether its check code will be wrong.
    is_damaged: bool,
    /// When the last cell was at the target.
    arrived: Time,
}

/// A cell on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    message: Id<Packet>,
    behind: Option<Id<Cell>>,
    connection: u32,
    /// How long it takes on a link, in picoseconds.
    span: u32,
    /// How many switches it has left.
    hop: u8,
    is_last: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The source of a host hands over a packet.
    Generate(u16),
    /// A stream hands over a message.
    Post(u32),
    /// The bus of a host is free for the next message.
    Bus(u16),
    /// The first cell of a message can be sent.
    Ready(Id<Packet>),
    /// A cell is in its queue in a switch.
    Reach(Id<Cell>),
    /// The last byte of a cell is at its target.
    Arrive(Id<Cell>),
    /// The last byte of a cell has left a port.
    Free(u32),
    /// The host has taken a message whose last cell waited in its adapter.
    Take(u32, u8),
    /// The completion of a message is in the memory of its target.
    Complete(Id<Packet>),
    /// The program of a host has dealt with a message.
    Program(u16),
    /// A credit of a virtual channel is back at a port.
    Credit(u32, u8),
    /// A port hears that it has to stop, or that it may go on.
    Stop(u32, bool),
    /// What a source is to be told is at the switch so far on the way of its connection.
    Indicate { connection: u32, hop: u8, signal: Signal },
    /// It is at the source.
    Hear { connection: u32, signal: Signal },
    /// The last byte of a message has left its initiator.
    Sent(MessageId),
    /// Loads and occupancies are noted.
    Sample,
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

impl Network for SharedMemoryNetwork {
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
            Event::Post(stream) => self.post_due(now, stream),
            Event::Bus(host) => self.fetch(now, host),
            Event::Ready(message) => self.ready(now, message),
            Event::Reach(cell) => self.reach(now, cell),
            Event::Arrive(cell) => self.arrive(now, cell),
            Event::Free(port) => self.free(now, port),
            Event::Take(port, channel) => self.release(now, port, channel),
            Event::Complete(message) => return self.complete(now, message),
            Event::Program(host) => return self.go_on(now, host),
            Event::Credit(port, channel) => self.credit(now, port, channel),
            Event::Stop(port, stops) => self.stop(now, port, stops),
            Event::Indicate { connection, hop, signal } => {
                self.indicate(now, (connection, hop), signal);
            }
            Event::Hear { connection, signal } => self.hear(now, connection, signal),
            Event::Sent(message) => self.sent(now, message),
            Event::Sample => self.sample(now),
        }
        None
    }
}

impl Channel for SharedMemoryNetwork {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.work_off(until, halt, |_| {})
    }

    /// Messages of which nothing has been sent.
    fn backlog(&self) -> u64 {
        self.unsent + self.ends.unfed()
    }

    /// Messages on their way.
    fn in_flight(&self) -> u64 {
        self.ends.packets.len() as u64 - self.unsent
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.ends.observations)
    }

    fn into_observations(self) -> Observations {
        self.ends.observations
    }

    fn network(&self) -> Option<NetworkReport> {
        Some(self.report())
    }

    fn overrun(&self) -> Option<&str> {
        self.overrun.as_deref()
    }
}

impl SharedMemoryNetwork {
    /// A channel at time zero.
    pub fn new(parts: NetworkParts, switches: SharedMemoryParts) -> SharedMemoryNetwork {
        let NetworkParts { packet, payload, propagation, latency, send_buffers, .. } = parts;
        let (mut ends, wiring, routes) = Ends::new(parts);
        let cuts_messages = switches.segmentation.is_some();
        if cuts_messages {
            ends.keep_messages_whole(wiring.hosts());
        }
        let uncut = || Segmentation::none(switches.packet, payload);
        let segmentation = switches.segmentation.unwrap_or_else(uncut);
        let SharedMemoryParts { queues, buffer, control, .. } = switches;
        let channels = u32::from(control.channels);
        let endpoints = switches.endpoints.unwrap_or_else(EndpointSettings::free);
        let (mut first_queue, mut count) = (Vec::new(), 0);
        let ports = (0..wiring.ports()).map(|port| {
            let width = match queues {
                SharedQueues::PerConnection => 0,
                SharedQueues::PerInput => wiring.ports_of(wiring.switch_of(port)) * channels,
                SharedQueues::Fifo => channels,
            };
            first_queue.push(count);
            count += width;
            let peer = match wiring.peer(port) {
                Peer::Port(peer) => peer,
                Peer::Host(host) => wiring.ports() + host,
                Peer::Unused => port,
            };
            Port::new(peer, Some(wiring.switch_of(port)))
        });
        let mut ports: Vec<Port> = ports.collect();
        ports.extend((0..wiring.hosts()).map(|host| Port::new(wiring.host_port(host), None)));
        port::furnish(&control, &mut ports, buffer, &endpoints);
        let mut network = SharedMemoryNetwork {
            agenda: Agenda::new(),
            hosts: vec![ViHost::new(&endpoints); wiring.hosts() as usize],
            registries: vec![Registry::new(); wiring.hosts() as usize],
            faults: Faults(switches.errors),
            answer: endpoints.answer.map_or(packet, |size| switches.link.span(size)),
            random: switches.random,
            stored: vec![0; wiring.switches() as usize],
            queues: vec![CellQueue::default(); count as usize],
            ends,
            wiring,
            lanes: control.lanes(routes.lanes()),
            routes,
            control,
            queues_kind: queues,
            segmentation,
            cuts_messages,
            link: switches.link,
            endpoints,
            cells: Arena::new(),
            ports,
            first_queue,
            connections: Vec::new(),
            hops: Vec::new(),
            monitors: Vec::new(),
            pairs: HashMap::new(),
            streams: Vec::new(),
            groups: Vec::new(),
            unsent: 0,
            descriptors: endpoints::depth(send_buffers),
            packet,
            payload,
            propagation,
            latency,
            sample: switches.sample,
            report: NetworkReport::default(),
            overrun: None,
        };
        network.begin(switches.streams);
        network
    }

    /// The first events.
    fn begin(&mut self, streams: StreamList) {
        for (host, time) in self.ends.begin() {
            self.agenda.push(time, Event::Generate(host));
        }
        self.begin_streams(streams);
        if self.sample.is_some() {
            self.agenda.push(Time::ZERO, Event::Sample);
        }
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
}
