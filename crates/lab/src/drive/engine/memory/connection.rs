//! Connections: a route through the fabric that is fixed once, and what waits at its source.

use std::collections::VecDeque;

use weft_fabric::fabric::{HostPair, PathHop, Routes};
use weft_fabric::switch::SharedQueues;
use weft_fabric::workload::MessageStream;
use weft_protocol::flow::{QuenchMonitor, QuenchedSource};

use super::Memories;
use super::endpoints::EndpointPair;
use super::port::CellQueue;
use crate::drive::engine::Engine;
use crate::drive::engine::packets::Forwarding;

/// A connection, or in the words of ATM a virtual channel.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub from: u32,
    pub to: u32,
    /// The position of its first switch among those of all connections, and how many there are.
    pub first: u32,
    pub hops: u16,
    /// The route state of its packets when they leave their host, including the first virtual
    /// channel that they use.
    pub forwarding: Forwarding,
    /// Its stream, if it has one.
    pub stream: Option<u32>,
    pub source: QuenchedSource,
    /// Whether it is in the list that its adapter serves in round-robin order.
    pub is_listed: bool,
    /// Its two ends.
    pub endpoints: EndpointPair,
    /// Messages without a descriptor at the adapter, oldest first.
    pub posted: VecDeque<u32>,
    /// Messages that are cut into packets, oldest first.
    pub ready: VecDeque<u32>,
    /// Quenches that its source has received.
    pub quenches: u64,
}

impl Engine {
    /// Sets up a connection. Routes are per connection, so there is one. Streams are distributed
    /// over the virtual channels in turn; the virtual channel of other connections follows from
    /// their hosts.
    pub(super) fn connect(
        &mut self,
        HostPair { from, to }: HostPair,
        stream: Option<(u32, MessageStream)>,
    ) -> u32 {
        let memories = &mut self.memories;
        let number = memories.connections.len() as u32;
        let wiring = self.names.as_deref();
        let path = wiring.and_then(|wiring| self.routes.path(wiring, from, to));
        let path = path.unwrap_or_default();
        let classes = memories.control.channels / memories.virtual_channels;
        let class = match &stream {
            Some(_) => (number % u32::from(classes)) as u8,
            None => Routes::class(from, to, classes),
        };
        let (channel, hops) = (class * memories.virtual_channels, path.len() as u16);
        let first = memories.hops.len() as u32;
        memories.hops.extend(&path);
        memories.monitors.resize(memories.hops.len(), QuenchMonitor::default());
        for hop in &path {
            let queue = memories.queue_of(&self.graph, hop, channel);
            memories.queue_at.push(queue);
        }
        let endpoints = memories.pair(number, to, stream.as_ref().map(|(_, own)| own));
        let route_state = self.routes.depart(from, to);
        memories.connections.push(Connection {
            from,
            to,
            first,
            hops,
            forwarding: Forwarding::starting(to, route_state, channel),
            stream: stream.map(|(number, _)| number),
            endpoints,
            source: QuenchedSource::default(),
            is_listed: false,
            posted: VecDeque::new(),
            ready: VecDeque::new(),
            quenches: 0,
        });
        number
    }

    /// The connection between two hosts that no stream has for itself.
    #[inline]
    pub(super) fn between(&mut self, from: u32, to: u32) -> u32 {
        let pairs = &self.memories.pairs[from as usize];
        match pairs.binary_search_by_key(&to, |pair| pair.0) {
            Ok(place) => pairs[place].1,
            Err(place) => {
                let connection = self.connect(HostPair { from, to }, None);
                self.memories.pairs[from as usize].insert(place, (to, connection));
                connection
            }
        }
    }
}

impl Memories {
    /// The virtual channel on which packets of a connection leave a switch of their route.
    #[inline]
    pub(super) fn leaves_by(&self, connection: u32, hop: u16) -> u8 {
        let own = &self.connections[connection as usize];
        let hop = || &self.hops[(own.first + u32::from(hop)) as usize];
        match self.virtual_channels {
            1 => own.forwarding.channel,
            _ => own.forwarding.channel + hop().leaves_by,
        }
    }

    /// The queue in which packets of a connection wait at a switch of their route, if it has a memory.
    fn queue_of(&mut self, graph: &weft_fabric::graph::Graph, hop: &PathHop, channel: u8) -> u32 {
        let (came_by, leaves_by) = match self.virtual_channels {
            1 => (channel, channel),
            _ => (channel + hop.came_by, channel + hop.leaves_by),
        };
        let first = self.first_queue[hop.input as usize];
        match self.kinds[hop.switch as usize] {
            None => u32::MAX,
            Some(SharedQueues::PerConnection) => {
                self.queues.push(CellQueue::EMPTY);
                (self.queues.len() - 1) as u32
            }
            Some(SharedQueues::PerInput) => {
                let output = hop.output - graph.first_port(hop.switch);
                first + output * u32::from(self.control.channels) + u32::from(leaves_by)
            }
            Some(SharedQueues::Fifo) => first + u32::from(came_by),
        }
    }
}
