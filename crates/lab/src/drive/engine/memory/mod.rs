//! What switches with a shared memory bring to a channel: queues per connection, per input or one for
//! each input, whose outputs take one packet from each queue in turn; and connections, among which
//! hosts share their adapter in the same way.
//!
//! Every connection keeps to one route, which is fixed when it is set up, whichever switches are on
//! it. A packet costs two events per switch with a shared memory, one when it is in its queue and one
//! when its output is free again, and a third if a credit is returned. A packet that leaves a memory
//! at an instant frees its place before another one arrives.
//!
//! The adapters of the hosts are ports like those of the switches, and flow control treats them
//! alike.

mod bank;
mod connection;
mod endpoints;
mod host;
mod port;
mod quench;
mod report;
mod streams;
mod waiting;

use std::collections::VecDeque;

use weft_fabric::fabric::{PathHop, Wiring};
use weft_fabric::graph::Graph;
use weft_fabric::interface::{EndpointSettings, ViHost};
use weft_fabric::link::{Errors, FlowControl, LinkSettings};
use weft_fabric::measure::Spent;
use weft_fabric::message::Segmentation;
use weft_fabric::switch::SharedQueues;
use weft_fabric::workload::StreamList;
use weft_kernel::Stream;
use weft_protocol::flow::QuenchMonitor;
use weft_protocol::vi::Registry;
use weft_units::{Bytes, Limit, Span, Time};

use super::Engine;
use crate::drive::carrier::MessageId;
use bank::Bank;
use connection::Connection;
use endpoints::Faults;
use port::{CellQueue, Port};
use streams::StreamState;

pub use report::{NetworkReport, PortRow, SampleRow, StreamRow};

/// The parts of connections, on a channel where a switch has a shared memory.
#[derive(Debug, Default)]
pub struct ConnectionParts {
    /// How messages become packets; if absent, each packet is a message.
    pub segmentation: Option<Segmentation>,
    /// What a message costs its hosts; nothing if absent.
    pub endpoints: Option<EndpointSettings>,
    /// The errors of the messages of each host; none if empty.
    pub errors: Vec<Errors>,
    /// The streams of messages.
    pub streams: StreamList,
    /// The random stream of the beginnings of all streams, followed by those of the bursts of each.
    pub random: Vec<Stream>,
    /// How often loads and occupancies are sampled; never if absent.
    pub sample: Option<Span>,
}

/// What the shared memories of a channel need to know of it.
#[derive(Debug)]
pub(super) struct MemoryChannel<'a> {
    pub wiring: &'a Wiring,
    pub graph: &'a Graph,
    pub link: &'a LinkSettings,
    pub control: FlowControl,
    /// How many virtual channels the routes need.
    pub virtual_channels: u8,
    /// The size of a full packet on the wire, and what it carries.
    pub packet: Bytes,
    pub payload: Bytes,
    /// The send descriptors of each endpoint.
    pub send_buffers: Limit,
}

/// The settings that do not depend on the switches.
struct MemorySettings {
    control: FlowControl,
    /// How many virtual channels a packet uses on its route.
    virtual_channels: u8,
    segmentation: Segmentation,
    endpoints: EndpointSettings,
    /// Send descriptors of each endpoint.
    descriptors: u16,
}

/// The state of a channel in addition to its graph if a switch has a shared memory; almost empty
/// otherwise.
#[derive(Debug)]
pub(super) struct Memories {
    /// Whether any switch has one.
    pub is_on: bool,
    /// Whether all switches do.
    are_alone: bool,
    control: FlowControl,
    /// How many virtual channels a packet uses on its route.
    virtual_channels: u8,
    /// The queueing of each switch with a memory.
    kinds: Vec<Option<SharedQueues>>,
    /// By kind of cable, in the numbering of the wiring.
    links: Vec<LinkSettings>,
    /// How long an indication and a response of a target take on each of them.
    signals: Vec<Signals>,
    segmentation: Segmentation,
    /// Whether a message is submitted as a whole.
    cuts_messages: bool,
    endpoints: EndpointSettings,
    /// Whether hosts must accept whatever arrives.
    has_endpoints: bool,
    /// By packet.
    cells: Vec<Cell>,
    messages: Vec<Message>,
    free: Vec<u32>,
    /// The ports of all switches, followed by those of the adapters.
    ports: Vec<Port>,
    /// The first queue of each port, where queues do not belong to connections.
    first_queue: Vec<u32>,
    queues: Vec<CellQueue>,
    /// The memory of each switch, and whether the bandwidth of any limits it.
    banks: Vec<Bank>,
    has_turns: bool,
    connections: Vec<Connection>,
    /// The routes of all connections, one after another: for each switch what it watches, and its
    /// queue for the connection.
    hops: Vec<PathHop>,
    monitors: Vec<QuenchMonitor>,
    queue_at: Vec<u32>,
    /// By host, the connections without a stream, in ascending order of the target.
    pairs: Vec<Vec<(u32, u32)>>,
    hosts: Vec<ViHost<u32, Received>>,
    /// Messages of each host that are fetched and cannot be sent yet.
    fetched: Vec<VecDeque<u32>>,
    /// The memory of each host to which RDMA writes may go.
    registries: Vec<Registry>,
    faults: Faults,
    streams: Vec<StreamState>,
    groups: Vec<String>,
    /// Messages that wait for their first packet to be sent.
    unsent: u64,
    /// Send descriptors of each endpoint.
    descriptors: u16,
    sample: Option<Span>,
    report: NetworkReport,
}

/// Messages that have not ended.
#[derive(Clone, Copy, Debug)]
pub struct HeldMessages {
    /// Messages of which nothing has been sent.
    pub unsent: u64,
    /// Messages in flight.
    pub under_way: u64,
}

/// How long packets of flow control take on a cable.
#[derive(Clone, Copy, Debug)]
struct Signals {
    indication: Span,
    answer: Span,
}

/// A message that was received, and its connection.
type Received = (u32, u32);

/// A message that has been submitted, or a packet that is one.
#[derive(Clone, Copy, Debug)]
struct Message {
    generated: Time,
    start: Time,
    /// The message of a program that it belongs to.
    message: MessageId,
    connection: u32,
    size: Bytes,
    /// Packets that are still to be made.
    left: u64,
    /// The size of the last one if it is shorter than a whole one; else zero.
    last: u32,
    /// How long it takes on the link of the initiator.
    last_span: Span,
    /// How long all of its packets take there, and their bytes.
    whole: Span,
    wire: Bytes,
    /// Whether its check code will be wrong.
    is_damaged: bool,
    /// When the last packet reached the target, and its accumulated times, if they depend on its
    /// route.
    arrived: Time,
    spent: Spent,
}

/// The fields of a packet in addition to its route.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    message: u32,
    connection: u32,
    /// How long it takes on the link of its initiator.
    span: Span,
    /// Its size if it is shorter than a full packet; otherwise zero.
    short: u32,
    is_last: bool,
}

/// The events that a host schedules for itself, in the upper bits of an event; the lower bits are
/// the number of what it concerns.
pub(super) mod acts {
    /// The completion of a message is in the memory of its target.
    pub const COMPLETE: u32 = 0;
    /// The program of a host has processed a message.
    pub const PROGRAM: u32 = 1;
    /// The host has taken a message whose last packet waited in its adapter, on a virtual channel.
    pub const TAKE: u32 = 2;
    /// The bus of a host is free for the next message.
    pub const BUS: u32 = 3;
    /// The first packet of a message can be sent.
    pub const READY: u32 = 4;
    /// A stream submits a message.
    pub const POST: u32 = 5;
    /// The bits of the number.
    pub const DIGITS: u32 = 29;
}

impl Memories {
    /// What the switches with a shared memory of a graph need.
    pub fn new(
        channel: MemoryChannel<'_>,
        kinds: Vec<Option<SharedQueues>>,
        parts: &mut ConnectionParts,
    ) -> Memories {
        let MemoryChannel { wiring, graph, link, control, packet, payload, .. } = channel;
        let is_on = graph.has_memories();
        let links = wiring.links(link);
        let has_endpoints = parts.endpoints.is_some();
        let endpoints = parts.endpoints.take().unwrap_or_else(EndpointSettings::free);
        let indication = control.quench.map_or(packet, |quench| quench.indication);
        let answer = endpoints.answer.unwrap_or(packet);
        let signals = links
            .iter()
            .map(|link| Signals { indication: link.span(indication), answer: link.span(answer) });
        let hosts = if is_on { wiring.hosts() as usize } else { 0 };
        let switches = 0..kinds.len() as u32;
        let segmentation = parts.segmentation;
        let plain = Memories::none(MemorySettings {
            virtual_channels: control.virtual_channels(channel.virtual_channels),
            control,
            segmentation: segmentation.unwrap_or_else(|| Segmentation::none(packet, payload)),
            endpoints,
            descriptors: endpoints::depth(channel.send_buffers),
        });
        let mut memories = Memories {
            is_on,
            are_alone: kinds.iter().all(Option::is_some),
            signals: signals.collect(),
            links,
            cuts_messages: segmentation.is_some(),
            has_endpoints,
            banks: switches.clone().map(|switch| Bank::new(graph, switch, packet)).collect(),
            has_turns: switches.clone().any(|switch| graph.memory_limits(switch).1.is_some()),
            pairs: vec![Vec::new(); hosts],
            hosts: vec![ViHost::new(&plain.endpoints); hosts],
            fetched: vec![VecDeque::new(); hosts],
            registries: vec![Registry::new(); hosts],
            faults: Faults(std::mem::take(&mut parts.errors)),
            sample: parts.sample.filter(|_| is_on),
            kinds,
            ..plain
        };
        if is_on {
            memories.furnish(wiring, graph);
        }
        memories
    }

    /// The state without any switch with shared memory, with the same settings.
    pub fn without_any(&self) -> Memories {
        Memories::none(MemorySettings {
            control: self.control.clone(),
            virtual_channels: self.virtual_channels,
            segmentation: self.segmentation,
            endpoints: self.endpoints.clone(),
            descriptors: self.descriptors,
        })
    }

    /// Nothing but settings.
    fn none(settings: MemorySettings) -> Memories {
        let MemorySettings { control, virtual_channels, segmentation, endpoints, descriptors } =
            settings;
        Memories {
            is_on: false,
            are_alone: false,
            control,
            virtual_channels,
            kinds: Vec::new(),
            links: Vec::new(),
            signals: Vec::new(),
            segmentation,
            cuts_messages: false,
            endpoints,
            has_endpoints: false,
            cells: Vec::new(),
            messages: Vec::new(),
            free: Vec::new(),
            ports: Vec::new(),
            first_queue: Vec::new(),
            queues: Vec::new(),
            banks: Vec::new(),
            has_turns: false,
            connections: Vec::new(),
            hops: Vec::new(),
            monitors: Vec::new(),
            queue_at: Vec::new(),
            pairs: Vec::new(),
            hosts: Vec::new(),
            fetched: Vec::new(),
            registries: Vec::new(),
            faults: Faults::default(),
            streams: Vec::new(),
            groups: Vec::new(),
            unsent: 0,
            descriptors,
            sample: None,
            report: NetworkReport::default(),
        }
    }

    /// The messages that have not ended.
    pub fn held(&self) -> HeldMessages {
        let all = (self.messages.len() - self.free.len()) as u64;
        HeldMessages { unsent: self.unsent, under_way: all - self.unsent }
    }

    /// Counts a stop of a port, if `is_stop`: it was stopped, and recording has begun.
    #[inline]
    pub fn count_stop(&mut self, is_stop: bool) {
        self.report.stops += u64::from(is_stop);
    }

    fn insert(&mut self, message: Message) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.messages[id as usize] = message;
                id
            }
            None => {
                self.messages.push(message);
                (self.messages.len() - 1) as u32
            }
        }
    }

    fn remove(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id), "message {id} is gone already");
        self.free.push(id);
    }
}

impl Engine {
    /// The first events of streams and samples.
    pub(super) fn begin_memories(&mut self, list: StreamList, random: Vec<Stream>) {
        if !self.memories.is_on {
            return;
        }
        self.begin_streams(list, random);
        if self.memories.sample.is_some() {
            self.schedule(Time::ZERO, self.places.samples, 0);
        }
    }

    /// Whether a port takes its packets from queues in turn.
    #[inline]
    pub(super) fn is_served(&self, port: u32) -> bool {
        self.memories.is_on && (port >= self.graph.switch_ports() || self.graph.is_of_memory(port))
    }

    /// Schedules an action of a host.
    #[inline]
    fn act_at(&mut self, time: Time, host: u32, act: u32, number: u32) {
        self.schedule(time, self.places.acts + host, act << acts::DIGITS | number);
    }
}
