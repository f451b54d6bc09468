//! What an engine is made of, and its state at time zero.

use std::ops::Range;
use std::sync::Arc;

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::graph::{Graph, GraphParts, Passed, RecordingWindow, SwitchParts};
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::measure::Observations;
use weft_fabric::switch::{BoxRules, Outbox, SharedQueues};
use weft_fabric::workload::Source;
use weft_kernel::SlottedEvents;
use weft_units::{Bytes, Limit, Time};

use super::Engine;
use super::adapter::{AdapterParts, Adapters};
use super::classed::{Classed, ClassedParts};
use super::clocks::Clocks;
use super::flows::{FlowParts, Flows};
use super::hub::Windows;
use super::memory::{ConnectionParts, Memories, MemoryChannel};
use super::packets::{Packets, Times};
use super::parts::Parts;
use super::places::Places;
use super::planes::PlaneTurns;
use super::ring::{RingParts, RingSwitch, Rings};
use super::supply::Supply;
use super::turns::{TurnParts, Turns};

/// The parts of a channel.
#[derive(Debug)]
pub struct EngineParts {
    /// The switches and cables.
    pub wiring: Wiring,
    /// The routes that packets take.
    pub routes: Routes,
    /// The link of every cable that has none of its own.
    pub link: LinkSettings,
    /// The size of a packet on the wire. It takes a picosecond or more on every link.
    pub packet: Bytes,
    /// The payload of a packet.
    pub payload: Bytes,
    /// Each switch.
    pub switches: Vec<SwitchParts>,
    /// The flow control of buffers of limited size.
    pub flow: FlowControl,
    /// How many packets each adapter holds.
    pub send_buffers: Limit,
    /// The source of each host, or none if all packets are those of messages.
    pub sources: Vec<Source>,
    /// The observations, and the time that they cover.
    pub observations: Observations,
    /// The end of the run; links count as busy up to then.
    pub until: Time,
    /// What hosts need in addition if a switch has a shared memory.
    pub connections: ConnectionParts,
    /// The parts of switches whose packets have sizes and classes of their own. All switches then
    /// have queues at their outputs.
    pub classed: Option<ClassedParts>,
    /// The adapters of the hosts. Without adapters, hosts send submitted packets as soon as the
    /// link is free, and learn nothing about them. Adapters cannot be combined with a shared
    /// memory.
    pub adapters: Option<AdapterParts>,
    /// The transports of hosts that send flows; only if packets have sizes and classes of their
    /// own.
    pub flows: Option<FlowParts>,
    /// What the stations of switches that are rings have in addition to the settings of these.
    pub ring: Option<RingParts>,
    /// The parts of links whose ends take turns; all switches then have FIFOs at their ports.
    pub turns: Option<TurnParts>,
    /// The hub of all hosts, with what they have before it, or the ends of the cable that stands in
    /// its place; there is then no other switch.
    pub hub: Option<Windows>,
}

impl EngineParts {
    /// When ports are recorded as busy.
    fn window(&self) -> RecordingWindow {
        RecordingWindow { from: self.observations.from, until: self.until }
    }

    /// The nodes and cables at time zero. Takes the switches.
    fn graph(&mut self) -> Graph {
        let (link, packet) = (&self.link, self.packet);
        let window = self.window();
        // Without a hub its two hosts are wired to each other.
        if self.hub.as_ref().is_some_and(Windows::is_direct) {
            return Graph::pair(link, packet, window);
        }
        Graph::new(GraphParts {
            wiring: &self.wiring,
            link,
            packet,
            switches: std::mem::take(&mut self.switches),
            flow: self.flow.clone(),
            virtual_channels: self.routes.virtual_channels(),
            receive: self.connections.endpoints.as_ref().map(|own| own.receive_buffer.get()),
            window,
            acknowledgment: self.adapters.as_ref().map(AdapterParts::acknowledgment),
        })
    }

    /// What switches with a shared memory, whose queues are given by switch, need on a graph. Takes
    /// what connections have for it, but not their streams.
    fn memories(&mut self, graph: &Graph, queues: Vec<Option<SharedQueues>>) -> Memories {
        let channel = MemoryChannel {
            wiring: &self.wiring,
            graph,
            link: &self.link,
            control: self.flow.clone(),
            virtual_channels: self.routes.virtual_channels(),
            packet: self.packet,
            payload: self.payload,
            send_buffers: self.send_buffers,
        };
        Memories::new(channel, queues, &mut self.connections)
    }

    /// How much of what a host submits is handed to the engine at a time: a packet, or a message as
    /// a whole if that is cut into packets later.
    fn fed(&self) -> Bytes {
        let is_whole = self.connections.segmentation.is_some() || self.turns.is_some();
        if is_whole { Bytes(u64::MAX) } else { self.payload }
    }

    /// The switches, ports and cables where packets have sizes and classes of their own.
    fn classed(&mut self) -> Option<Box<Classed>> {
        let own = self.classed.take()?;
        Some(Box::new(Classed::new(own, &self.wiring, &self.link, self.packet, self.window())))
    }

    /// The stations of the switches of a graph that are rings.
    fn rings(&mut self, rings: Vec<RingSwitch>, graph: &Graph) -> Option<Box<Rings>> {
        let own = self.ring.take()?;
        Some(Box::new(Rings::new(own, rings, &self.wiring, graph, self.packet)))
    }

    /// The links with turns of a graph, between switches with these rules.
    fn turns(&mut self, graph: &Graph, boxes: &[BoxRules]) -> Option<Box<Turns>> {
        let own = self.turns.take()?;
        Some(Box::new(Turns::new(own, &self.wiring, graph, boxes, self.send_buffers)))
    }
}

impl Engine {
    /// A channel at time zero.
    pub fn new(mut parts: EngineParts) -> Engine {
        let queues = parts.switches.iter().map(SwitchParts::queues).collect();
        let boxes: Vec<BoxRules> = parts.switches.iter().filter_map(SwitchParts::fifos).collect();
        let rings = Rings::among(&parts.switches, &parts.wiring);
        let graph = parts.graph();
        let memories = parts.memories(&graph, queues);
        let fed = parts.fed();
        let classed = parts.classed();
        let turns = parts.turns(&graph, &boxes);
        let ring = parts.rings(rings, &graph);
        let EngineParts { wiring, routes, payload, sources, connections, .. } = parts;
        let adapters = Adapters::new(parts.adapters, &graph, &sources);
        let places = Places::new(&graph, classed.is_some(), adapters.is_on);
        let hub = parts.hub.map(Box::new);
        let is_elsewhere = classed.is_some() || turns.is_some() || hub.is_some();
        let has_queues = graph.has_limits() || classed.is_some();
        let supply = Supply::new(sources, graph.hosts(), fed);
        let times = match &classed {
            Some(own) if own.are_alike() => Times::Alike,
            None if !graph.is_mixed() => Times::Alike,
            None if adapters.is_on || memories.is_on || ring.is_some() || is_elsewhere => {
                Times::Stored(Vec::new())
            }
            None => Times::in_steps(&graph),
            Some(_) => Times::Stored(Vec::new()),
        };
        let mut engine = Engine {
            packets: Packets::new(times, has_queues),
            parts: match (&turns, &hub) {
                (Some(own), _) => Parts::whole(own.pace()),
                (None, Some(own)) => Parts::whole(own.pace()),
                (None, None) => Parts::one(&graph, adapters.is_on, classed.is_some()),
            },
            is_large: Engine::is_large(graph.switch_ports() + graph.ends()),
            clocks: Clocks::new(&graph),
            plane_turns: PlaneTurns::new(graph.hosts(), graph.planes()),
            names: (has_queues || turns.is_some()).then(|| Arc::new(wiring)),
            tells_deliveries: supply.awaits_arrivals(),
            supply,
            submissions: SlottedEvents::default(),
            flows: parts.flows.map(|own| Box::new(Flows::new(own, routes.clone()))),
            graph,
            routes,
            observations: parts.observations,
            payload,
            places,
            ranges: if is_elsewhere { Places::default() } else { places },
            now: Time::ZERO,
            steps: 0,
            next: Time::NEVER,
            is_cut_off: false,
            outbox: Outbox::default(),
            passed: Passed::default(),
            overrun: None,
            memories,
            adapters,
            classed,
            forward: None,
            beside: None,
            ranks: None,
            ring,
            turns,
            hub,
        };
        engine.begin(parts.send_buffers, connections);
        engine
    }

    /// The first events.
    fn begin(&mut self, send_buffers: Limit, connections: ConnectionParts) {
        if self.adapters.is_on {
            return self.begin_adapters();
        }
        if self.ring.is_some() {
            return self.begin_rings(send_buffers);
        }
        if self.turns.is_some() {
            return self.begin_turns(send_buffers);
        }
        if self.hub.is_some() {
            return self.begin_hub(send_buffers);
        }
        self.submissions = self.submissions_of(0..self.graph.hosts());
        for (host, time) in self.supply.begin(send_buffers) {
            self.schedule(time, self.places.generates + host, 0);
        }
        self.begin_memories(connections.streams, connections.random);
        self.begin_classed();
        self.schedule_wakes();
    }

    /// What notes the packets that these hosts submit at the beginnings of slots. Nothing does if sources do not keep
    /// to slots, or need to know what becomes of their packets.
    pub(super) fn submissions_of(&self, hosts: Range<u32>) -> SlottedEvents {
        let is_elsewhere = self.adapters.is_on || self.memories.is_on || self.classed.is_some();
        let is_elsewhere = is_elsewhere || self.ring.is_some() || self.graph.planes() > 1;
        // Otherwise packets would arrive in between.
        let is_whole = !is_elsewhere && self.graph.is_far_from_hosts();
        SlottedEvents::new(self.supply.slot().filter(|_| is_whole), hosts)
    }
}
