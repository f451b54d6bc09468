//! The graph that a channel is: hosts and switches as nodes, and cables between their ports, each with
//! a link of its own.
//!
//! Directed ports are numbered through the whole graph: first the ports of the switches, switch by
//! switch, then those of the hosts, plane by plane. A place is where a packet arrives: the port of a
//! switch, or the adapter of a host, which has the number of the host's port.
//!
//! If nothing holds packets back, a port knows at once when a packet will leave. If its cable leads to
//! a buffer of limited size, that buffer gives credits, or stops the cable; ports of hosts and of
//! output-queued switches are then *gates*.

mod apart;
mod clocked;
mod deciding;
mod division;
mod flow;
mod gate;
mod lockstep;
mod memory;
mod port;
mod repeat;
mod ring;
mod standing;
mod stations;
mod steps;

use std::sync::Arc;

use weft_kernel::Stream;
use weft_units::{Bytes, Limit, Rate, Span, Time};

use crate::fabric::Wiring;
use crate::link::{FlowControl, LinkSettings};
use crate::measure::Spent;
use crate::switch::{
    BoxRules, CrossbarSettings, InputQueued, OutputBufferedSettings, OutputQueuedSettings,
    RingSettings, SharedMemorySettings, SharedQueues,
};

pub use apart::{Apart, Beyond, Numbers};
use clocked::Surroundings;
pub use clocked::{ClockedBusParts, ClockedHubParts, ClockedParts, Heard, Leave, Wakes};
use deciding::Deciding;
pub use division::Together;
use flow::Flow;
use gate::Gate;
pub use gate::Passage;
use lockstep::Pace;
pub use lockstep::{Passed, Passing};
use port::Port;
pub use port::{Departure, RecordingWindow};
pub use repeat::PortUse;
use ring::Rings;
pub use standing::{HeldAt, PortState};
pub use stations::{CableEvent, Station, StationPacket, StationParts, StationPlace, TurnCable};

/// What a graph is built from.
#[derive(Debug)]
pub struct GraphParts<'a> {
    /// Nodes and cables.
    pub wiring: &'a Wiring,
    /// The link of every cable that has none of its own.
    pub link: &'a LinkSettings,
    /// The size of a packet on the wire.
    pub packet: Bytes,
    /// Each switch.
    pub switches: Vec<SwitchParts>,
    /// The flow control of buffers of limited size.
    pub flow: FlowControl,
    /// How many virtual channels a packet uses on its route.
    pub virtual_channels: u8,
    /// How many packets each host can hold; unlimited if absent.
    pub receive: Option<u32>,
    /// The interval in which busy times of links are recorded.
    pub window: RecordingWindow,
    /// The size of an acknowledgment on the wire, where hosts have adapters: then no switch is plain.
    pub acknowledgment: Option<Bytes>,
}

/// What a switch is built from.
#[derive(Debug)]
pub enum SwitchParts {
    /// With queues at its outputs.
    OutputQueued(OutputQueuedSettings),
    /// With queues at its inputs.
    InputQueued(Box<ClockedParts>),
    /// With queues at its inputs, and a bus that carries one packet at a time.
    Bus(ClockedBusParts),
    /// With the crossbar of a hub, which has one queue at each input.
    FifoCrossbar(ClockedHubParts),
    /// With a shared memory.
    SharedMemory(SharedMemorySettings),
    /// Without buffers, and the random stream of its choices.
    Crossbar(CrossbarSettings, Stream),
    /// With buffers at its outputs into which few can write at a time, and what it draws from.
    OutputBuffered(OutputBufferedSettings, Stream),
    /// With FIFOs at its ports, between links with turns.
    Fifos(BoxRules),
    /// A hub among mapped windows, which gives all packets one order, and how long a byte takes
    /// through it.
    Hub(Span),
    /// A ring, whose stations are its ports.
    Ring(Box<RingSettings>),
}

impl SwitchParts {
    /// How packets wait in its memory, if it has a shared one.
    pub fn queues(&self) -> Option<SharedQueues> {
        if let SwitchParts::SharedMemory(own) = self { Some(own.queues) } else { None }
    }

    /// The settings of a switch between links with turns.
    pub fn fifos(&self) -> Option<BoxRules> {
        if let SwitchParts::Fifos(rules) = self { Some(*rules) } else { None }
    }

    /// The settings of a ring.
    pub fn ring(&self) -> Option<&RingSettings> {
        if let SwitchParts::Ring(own) = self { Some(own) } else { None }
    }
}

/// Nodes, ports and links, ready to pass packets of one size on. Memory: 28 bytes a directed port
/// and 32 a switch; where buffers have limits, some 30 a port and what the switches need.
#[derive(Debug)]
pub struct Graph {
    ports: Arc<[Port]>,
    /// The switch of each port of a switch.
    owners: Arc<[u32]>,
    /// How many hosts there are, and in how many planes each has a port.
    hosts: u32,
    planes: u32,
    /// The first host that has a port: not 0 in the part of a process that has others.
    first_host: u32,
    /// How many links of rings there are, which are ports behind all others.
    on_rings: u32,
    /// Shared by all parts of a graph.
    switches: Arc<[Switch]>,
    /// The latencies that switches have, each once, up to 256 of them.
    latencies: Vec<Span>,
    kinds: Vec<Kind>,
    clocked: Vec<InputQueued>,
    /// Whether these decide together, which then has them.
    pace: Pace,
    deciding: Vec<Deciding>,
    /// Whether there are buffers of limited size.
    has_limits: bool,
    flow: Flow,
    /// By port; empty if no buffer has a limit.
    gates: Arc<[Gate]>,
    links: Vec<Link>,
    /// Whether links or switches differ.
    is_mixed: bool,
    /// The interval in which busy times of links are recorded.
    window: RecordingWindow,
}

/// What all kinds of switches have.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Its first port.
    pub first: u32,
    /// Its number in the whole graph, by which routes know it: its own but in a part that a process
    /// [has alone](Apart).
    pub number: u32,
    /// Whether it has queues without a limit at its outputs, before cables that never wait.
    pub is_plain: bool,
    /// Whether it is plain and all links and switches of the graph are alike, so that packets only pass it.
    pub is_direct: bool,
    /// From a byte at an input to the same byte at a free output.
    pub latency: Span,
    /// Which of the latencies of switches that is.
    latency_kind: u8,
}

/// How a switch queues.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Without a limit at its outputs, before cables that never wait.
    Plain,
    /// At its outputs, which hold this many packets including those being sent; the largest number
    /// if unlimited.
    Queued { most: u32 },
    /// At its inputs: its index among the clocked switches, beyond all of them if it is in another part of
    /// the graph.
    Clocked(u32),
    /// In a shared memory, which holds this many packets of each input, and this many of all.
    Memory { buffer: u32, pool: Limit, bandwidth: Option<Rate> },
    /// It decides on everything that reaches an output in one instant: its index among such
    /// switches.
    Deciding(u32),
    /// In the [FIFOs](stations) at its ports, which links with turns fill and empty.
    Fifos,
    /// Nowhere, or in buffers of a [hub](crate::switch::Hub), which knows of room at all its hosts.
    Hub,
    /// In the nodes of a ring, whose bridges hold this many packets in each direction.
    Ring { buffer: u32 },
}

/// The times of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// How long a packet occupies the link, and how long an acknowledgment does.
    span: Span,
    short: Span,
    /// From the first byte at its near end to the arrival: of the first byte at a switch, which
    /// cuts through, of the last one at a host.
    arrival: Span,
    propagation: Span,
}

impl Link {
    /// For packets of a size, with acknowledgments of another one if there are any, to a switch or
    /// to a host.
    fn new(
        own: &LinkSettings,
        packet: Bytes,
        acknowledgment: Option<Bytes>,
        to_host: bool,
    ) -> Link {
        let (span, propagation) = (own.span(packet), own.propagation());
        let whole = if to_host { span } else { Span::ZERO };
        let short = acknowledgment.map_or(span, |size| own.span(size));
        Link { span, short, arrival: propagation + whole, propagation }
    }
}

impl Graph {
    /// The graph at time zero.
    pub fn new(parts: GraphParts<'_>) -> Graph {
        let GraphParts {
            wiring,
            link,
            packet,
            switches,
            flow,
            virtual_channels,
            receive,
            window,
            ..
        } = parts;
        let acknowledgment = parts.acknowledgment;
        let kinds = wiring.links(link);
        let both = |link: &LinkSettings| {
            [false, true].map(|to_host| Link::new(link, packet, acknowledgment, to_host))
        };
        let mut links: Vec<Link> = kinds.iter().flat_map(both).collect();
        let rings = Rings::among(&switches, wiring);
        let first = wiring.ports() + wiring.ends();
        let on_rings = rings.links(first, packet, link, &mut links);
        let (is_alone, has_bridges) = (rings.are_alone(), rings.have_bridges());
        let owners = (0..wiring.switches())
            .flat_map(|switch| (0..wiring.ports_of(switch)).map(move |_| switch));
        let mut graph = Graph {
            on_rings: on_rings.len() as u32,
            ports: rings.ports(wiring).chain(on_rings).collect(),
            owners: owners.collect(),
            hosts: wiring.hosts(),
            planes: wiring.planes(),
            first_host: 0,
            is_mixed: !is_alone || kinds.iter().any(|kind| *kind != kinds[0]),
            switches: Arc::default(),
            latencies: Vec::new(),
            kinds: Vec::with_capacity(switches.len()),
            clocked: Vec::new(),
            pace: Pace::Open,
            deciding: Vec::new(),
            has_limits: false,
            flow: Flow::none(),
            gates: Arc::default(),
            links,
            window,
        };
        let around = Surroundings { wiring, links: &kinds, packet, flow: &flow };
        let add = |(number, own)| graph.add_switch(number, own, &around);
        let added: Vec<Switch> = (0..).zip(switches).map(add).collect();
        graph.is_mixed |= graph.latencies.len() > 1;
        graph.switches = added.into();
        if acknowledgment.is_some() {
            (0..graph.switches()).for_each(|switch| graph.is_not_plain(switch));
        }
        graph.has_limits = !graph.clocked.is_empty() || graph.has_memories() || has_bridges;
        if graph.has_limits {
            graph.limit(&flow, virtual_channels, receive);
        }
        for own in Arc::make_mut(&mut graph.switches) {
            own.is_direct = own.is_plain && !graph.is_mixed;
        }
        graph
    }

    fn add_switch(&mut self, number: u32, parts: SwitchParts, around: &Surroundings<'_>) -> Switch {
        let (kind, latency) = match parts {
            SwitchParts::OutputQueued(own) => match own.buffers.count() {
                Some(most) => (Kind::Queued { most: most.get() }, own.latency),
                None => (Kind::Plain, own.latency),
            },
            SwitchParts::InputQueued(own) => {
                let latency = own.latency;
                self.clocked.push(around.switch(number, *own));
                (Kind::Clocked(self.clocked.len() as u32 - 1), latency)
            }
            SwitchParts::Bus(own) => {
                self.clocked.push(around.bus(number, own));
                (Kind::Clocked(self.clocked.len() as u32 - 1), own.latency + own.arbitration)
            }
            SwitchParts::FifoCrossbar(own) => {
                let latency = own.latency;
                self.clocked.push(around.fifo_crossbar(number, own));
                (Kind::Clocked(self.clocked.len() as u32 - 1), latency)
            }
            SwitchParts::SharedMemory(own) => {
                let SharedMemorySettings { latency, pool, bandwidth, .. } = own;
                (Kind::Memory { buffer: own.buffer.get(), pool, bandwidth }, latency)
            }
            SwitchParts::Crossbar(own, random) => {
                let (ports, latency) = (around.wiring.ports_of(number), own.latency);
                (self.add_deciding(Deciding::crossbar(own, ports, random)), latency)
            }
            SwitchParts::OutputBuffered(own, random) => {
                let (ports, latency) = (around.wiring.ports_of(number), own.latency);
                (self.add_deciding(Deciding::output_buffered(own, ports, random)), latency)
            }
            SwitchParts::Fifos(own) => (Kind::Fifos, own.analysis),
            SwitchParts::Hub(latency) => (Kind::Hub, latency),
            SwitchParts::Ring(own) => {
                let buffer = own.bridge.map_or(0, |bridge| bridge.buffer.get());
                (Kind::Ring { buffer }, own.bridge.map_or(Span::ZERO, |bridge| bridge.latency))
            }
        };
        let (first, is_plain) = (around.wiring.port(number, 0), matches!(kind, Kind::Plain));
        self.kinds.push(kind);
        let latency_kind = self.latency_kind(latency);
        // Whether it is, only the whole graph tells.
        Switch { first, number, is_plain, is_direct: false, latency, latency_kind }
    }

    /// Tells each port whether its cable leads to a buffer of limited size.
    fn limit(&mut self, flow: &FlowControl, virtual_channels: u8, receive: Option<u32>) {
        let channels = flow.channels.into();
        let room = |port| self.room(self.peer(port)?, channels, receive);
        let rooms: Vec<Option<u32>> = (0..self.ports.len() as u32).map(room).collect();
        for (port, room) in rooms.iter().enumerate() {
            if let (Some(_), Some(&switch)) = (room, self.owners.get(port)) {
                self.is_not_plain(switch);
            }
        }
        self.flow = Flow::new(flow, virtual_channels, &rooms);
        self.gates = rooms.iter().map(|_| Gate::empty()).collect();
    }

    /// A switch must check arriving packets: it is not plain any more.
    fn is_not_plain(&mut self, switch: u32) {
        let kind = &mut self.kinds[switch as usize];
        if matches!(kind, Kind::Plain) {
            *kind = Kind::Queued { most: u32::MAX };
            Arc::make_mut(&mut self.switches)[switch as usize].is_plain = false;
        }
    }

    /// How many packets of each virtual channel fit at the far end of a cable; `None` if unlimited.
    /// A host has room for `receive`.
    fn room(&self, place: u32, channels: u32, receive: Option<u32>) -> Option<u32> {
        let share = |cells: u32| (cells / channels).max(1);
        let Some(&switch) = self.owners.get(place as usize) else { return receive.map(share) };
        match self.kinds[switch as usize] {
            Kind::Clocked(index) => Some(self.clocked[index as usize].room()),
            Kind::Memory { buffer, .. } | Kind::Ring { buffer } => Some(share(buffer)),
            Kind::Plain | Kind::Queued { .. } | Kind::Deciding(_) => None,
            Kind::Fifos | Kind::Hub => None,
        }
    }

    /// How many ports all switches have together; lower places belong to switches.
    #[inline]
    pub fn switch_ports(&self) -> u32 {
        self.owners.len() as u32
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// In how many planes each of them has a port.
    #[inline]
    pub fn planes(&self) -> u32 {
        self.planes
    }

    /// How many ports all hosts have together.
    pub fn ends(&self) -> u32 {
        (self.ports.len() - self.owners.len()) as u32 - self.on_rings
    }

    /// The host of a port, by its number among those of hosts.
    #[inline]
    pub fn host_of(&self, end: u32) -> u32 {
        if end < self.hosts { end } else { end % self.hosts }
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.switches.len() as u32
    }

    /// The switch that has a port.
    #[inline]
    pub fn switch_of(&self, port: u32) -> u32 {
        self.owners[port as usize]
    }

    /// Number, first port, kind and latency of a switch at once, for a packet that passes.
    #[inline(always)]
    pub fn switch(&self, switch: u32) -> Switch {
        self.switches[switch as usize]
    }

    /// The first port of a switch.
    #[inline]
    pub fn first_port(&self, switch: u32) -> u32 {
        self.switches[switch as usize].first
    }

    /// The number of a switch in the whole graph, by which routes know it: its own but in a part that a process
    /// [has alone](Apart).
    #[inline]
    pub fn number(&self, switch: u32) -> u32 {
        self.switches[switch as usize].number
    }

    /// The port of a host in the first plane; by the number of an end, that in its own.
    #[inline]
    pub fn host_port(&self, end: u32) -> u32 {
        self.switch_ports() + end - self.first_host
    }

    /// When a port will be free.
    #[inline]
    pub fn free(&self, port: u32) -> Time {
        self.ports[port as usize].free()
    }

    /// Whether links or switches differ, so that the latency of a packet depends on its route.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// How long a packet occupies the link behind a port.
    #[inline]
    pub fn span(&self, port: u32) -> Span {
        self.link(port).span
    }

    /// The place at the far end of the cable in a port; `None` without a cable.
    pub fn peer(&self, port: u32) -> Option<u32> {
        Some(self.ports[port as usize].peer()).filter(|place| *place != Port::UNUSED)
    }

    #[inline]
    fn link(&self, port: u32) -> &Link {
        &self.links[self.ports[port as usize].link() as usize]
    }

    /// How long a switch delays a packet that comes by one port and leaves by another, so that no
    /// byte is missing when it is sent: the difference if it takes longer to arrive than to leave.
    #[inline]
    pub fn lag(&self, input: u32, output: u32) -> Span {
        Span(self.span(input).0.saturating_sub(self.span(output).0))
    }

    /// Whether a switch has queues without a limit at its outputs, before cables that never wait.
    #[inline]
    pub fn is_plain(&self, switch: u32) -> bool {
        self.switches[switch as usize].is_plain
    }

    /// Whether there are buffers of limited size, so that packets may have to wait for them.
    #[inline]
    pub fn has_limits(&self) -> bool {
        self.has_limits
    }

    /// From a byte at an input of a switch to the same byte at a free output.
    #[inline]
    pub fn latency(&self, switch: u32) -> Span {
        self.switches[switch as usize].latency
    }

    /// Virtual channels of each cable.
    #[inline]
    pub fn channels(&self) -> u8 {
        self.flow.channels()
    }

    /// How many virtual channels of a cable packets use on their routes.
    #[inline]
    pub fn virtual_channels(&self) -> u8 {
        self.flow.virtual_channels()
    }

    /// Whether every packet that a host sends takes time to arrive anywhere.
    pub fn is_far_from_hosts(&self) -> bool {
        let mut hosts = self.ports.iter().skip(self.owners.len()).take(self.ends() as usize);
        hosts.all(|port| self.links[port.link() as usize].arrival > Span::ZERO)
    }

    /// A host sends a packet by a port of its own, which is no gate.
    #[inline]
    pub fn send(&mut self, now: Time, end: u32) -> Departure {
        self.depart(now, self.host_port(end))
    }

    /// A packet that has come through a plain switch at `ready` joins the queue of an output of it.
    #[inline(always)]
    pub fn pass(&mut self, ready: Time, output: u32) -> Departure {
        self.depart(ready, output)
    }

    /// A packet passes a switch whose outputs may be full, by a port that is no gate; `None` if the
    /// output is full.
    pub fn pass_limited(&mut self, now: Time, switch: u32, output: u32) -> Option<Departure> {
        let (ready, most) = (now + self.latency(switch), self.most(switch));
        let held = || self.ports[output as usize].held(ready, self.span(output));
        (most == u32::MAX || held() < most).then(|| self.depart(ready, output))
    }

    /// How many packets each output of a switch holds.
    #[inline]
    fn most(&self, switch: u32) -> u32 {
        match self.kinds[switch as usize] {
            Kind::Queued { most } | Kind::Ring { buffer: most } => most,
            Kind::Plain
            | Kind::Clocked(_)
            | Kind::Memory { .. }
            | Kind::Deciding(_)
            | Kind::Fifos
            | Kind::Hub => u32::MAX,
        }
    }

    #[inline(always)]
    fn depart(&mut self, ready: Time, port: u32) -> Departure {
        let own = &self.ports[port as usize];
        let link = self.links[own.link() as usize];
        let start = own.enqueue(ready, link.span, self.window);
        Departure { start, arrival: start + link.arrival, place: own.peer() }
    }

    /// The shortest delay between an event at the node of a port and its effect at the far end of
    /// the cable, in either direction.
    pub fn least_delay(&self, port: u32) -> Span {
        let peer = self.peer(port);
        let may_wait =
            |port| self.flow.is_limited(port) || self.is_clocked(port) || self.is_of_memory(port);
        let Spent { wire, switches, .. } = self.spent(port, Span::ZERO);
        if may_wait(port) || peer.is_some_and(may_wait) { wire } else { wire + switches }
    }

    fn busy_of(&self, port: u32) -> Span {
        match (&self.pace, self.owners.get(port as usize)) {
            (Pace::Together(own), Some(&switch)) => {
                own.busy((switch, port - self.first_port(switch)))
            }
            _ => self.ports[port as usize].busy(),
        }
    }

    /// How long each directed port was busy within the window; the links of rings come last, and in
    /// a graph that is one ring there are no others.
    pub fn busy(&self) -> Vec<Span> {
        let is_one_ring = self.on_rings > 0 && self.switches.len() == 1;
        let first = if is_one_ring { self.ring_link(0) } else { 0 };
        (first..self.ports.len() as u32).map(|port| self.busy_of(port)).collect()
    }
}
