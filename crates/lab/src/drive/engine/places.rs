//! Places: a number for each kind of event at each port, switch and host, which orders the events of one
//! instant.

use std::hint::select_unpredictable;

use weft_fabric::graph::Graph;

/// The first place of each kind. The places of events that a port or a host schedules for itself
/// come after those at which packets arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    /// The last byte of a packet is at a host. Before them: the first byte is at a port of a switch.
    pub hosts: u32,
    /// The last byte of a packet has left a port of a switch with a shared memory, or of a host.
    pub frees: u32,
    /// A packet that arrived by a port of a switch joins the queue of its output late.
    pub joins: u32,
    /// A packet that arrived by a port of a switch is in the queue of its output, which is a gate, or
    /// in a shared memory.
    pub enters: u32,
    /// Everything that reached an output of a deciding switch in this instant is known.
    pub decides: u32,
    /// A port of a switch or a host receives a signal from the far end of its cable.
    pub signals: u32,
    /// An edge of the clock of a switch, at which it takes part alone or all do that share it.
    pub edges: u32,
    /// A signal to the source of a connection is at a port of a switch, or at the source.
    pub told: u32,
    /// An event that a host with connections or an adapter scheduled for itself.
    pub acts: u32,
    /// A host submits a packet.
    pub generates: u32,
    /// A gate of a switch or a host may let a packet leave, or an adapter.
    pub wakes: u32,
    /// The last byte of a message has left its initiator.
    pub sends: u32,
    /// Loads and occupancies are sampled; if hosts have adapters, an event of a slot.
    pub samples: u32,
}

impl Places {
    /// Whether what happens at a place happens to a packet, in a channel without limits.
    pub fn is_of_packet(&self, place: u32) -> bool {
        place < self.frees || (self.joins..self.enters).contains(&place)
    }

    /// The place at which a packet that has a class arrives at a port: it enters the memory of a switch, or is at a host.
    #[inline(always)]
    pub fn arrival(&self, port: u32) -> u32 {
        // A branch would often be guessed wrong.
        port + select_unpredictable(port < self.hosts, self.enters, 0)
    }

    pub fn new(graph: &Graph, is_classed: bool, has_adapters: bool) -> Places {
        let (ports, hosts, ends) = (graph.switch_ports(), graph.hosts(), graph.ends());
        // Without limited buffers there are no signals, and nothing waits.
        let (own, all, switches) = match graph.has_limits() || is_classed {
            true => (ports, ports + ends, graph.switches()),
            false => (0, 0, 0),
        };
        // Otherwise the departure of a packet is known when it arrives, and hosts only send.
        let is_told = graph.has_memories() || is_classed;
        let (any, acting) = if is_told { (all, hosts) } else { (0, 0) };
        let deciding = if graph.has_deciding() { ports } else { 0 };
        let (acting, waking) = match has_adapters {
            true => (hosts, ports + ends),
            false => (acting, all),
        };
        let frees = ports + ends;
        let joins = frees + any;
        let enters = joins + ports;
        let decides = enters + own;
        let signals = decides + deciding;
        let edges = signals + all;
        let told = edges + switches;
        let acts = told + any;
        let generates = acts + acting;
        let wakes = generates + hosts;
        let sends = wakes + waking;
        let samples = sends + hosts;
        let hosts = ports;
        Places {
            hosts,
            frees,
            joins,
            enters,
            decides,
            signals,
            edges,
            told,
            acts,
            generates,
            wakes,
            sends,
            samples,
        }
    }
}
