//! Connections: a way through the fabric that is laid down once, and what waits at its source.

use std::collections::VecDeque;

use weft_fabric::workload::MessageStream;
use weft_kernel::Id;
use weft_protocol::flow::{QuenchMonitor, QuenchedSource};

use super::endpoints::EndpointPair;
use super::port::CellQueue;
use super::{Packet, SharedMemoryNetwork};
use weft_fabric::switch::SharedQueues;

/// A connection, or in the words of ATM a virtual channel.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub from: u16,
    pub to: u16,
    /// The place of its first switch among those of all connections, and how many there are.
    pub first: u32,
    pub hops: u8,
    /// The first of the virtual channels of the cables that it uses.
    pub channel: u8,
    /// Its stream, if it has one.
    pub stream: Option<u32>,
    pub source: QuenchedSource,
    /// Whether it is among those that its adapter serves in turn.
    pub is_listed: bool,
    /// Its two ends.
    pub endpoints: EndpointPair,
    /// Messages without a descriptor at the adapter, oldest first.
    pub posted: VecDeque<Id<Packet>>,
    /// Messages that are cut into cells, oldest first.
    pub ready: VecDeque<Id<Packet>>,
    /// Quenches that its source has heard.
    pub quenches: u64,
}

impl SharedMemoryNetwork {
    /// Sets up a connection. Routes are per connection, so that there is a way.
    pub(super) fn connect(
        &mut self,
        (from, to): (u16, u16),
        stream: Option<(u32, MessageStream)>,
    ) -> u32 {
        let number = self.connections.len() as u32;
        let way = self.routes.path(&self.wiring, from, to).unwrap_or_default();
        let first = self.hops.len() as u32;
        self.hops.extend(&way);
        self.monitors.resize(self.hops.len(), QuenchMonitor::default());
        if self.queues_kind == SharedQueues::PerConnection {
            self.queues.resize(self.hops.len(), CellQueue::default());
        }
        let endpoints = self.pair(number, to, stream.map(|(_, own)| own));
        self.connections.push(Connection {
            from,
            to,
            first,
            hops: way.len() as u8,
            channel: (number % u32::from(self.control.channels / self.lanes)) as u8 * self.lanes,
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
    pub(super) fn between(&mut self, from: u16, to: u16) -> u32 {
        if let Some(connection) = self.pairs.get(&(from, to)) {
            return *connection;
        }
        let connection = self.connect((from, to), None);
        self.pairs.insert((from, to), connection);
        connection
    }

    /// The virtual channels by which cells of a connection come to a switch on their way and leave
    /// it.
    #[inline]
    pub(super) fn channels(&self, connection: u32, hop: u8) -> (u8, u8) {
        let own = &self.connections[connection as usize];
        let (came_by, leaves_by) = self.hops[(own.first + u32::from(hop)) as usize].lanes;
        match self.lanes {
            1 => (own.channel, own.channel),
            _ => (own.channel + came_by, own.channel + leaves_by),
        }
    }

    /// The queue in which a cell waits at a switch on its way.
    pub(super) fn queue_of(&self, connection: u32, hop: u8) -> u32 {
        let own = &self.connections[connection as usize];
        let place = own.first + u32::from(hop);
        let way = &self.hops[place as usize];
        let channels = u32::from(self.control.channels);
        let first = self.first_queue[way.input as usize];
        match self.queues_kind {
            SharedQueues::PerConnection => place,
            SharedQueues::PerInput => {
                let output = way.output - self.wiring.port(way.switch, 0);
                first + output * channels + u32::from(self.channels(connection, hop).1)
            }
            SharedQueues::Fifo => first + u32::from(self.channels(connection, hop).0),
        }
    }
}
