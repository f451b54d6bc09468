//! The graph that a channel is: hosts and switches as nodes, and cables between their ports, each
//! with a link of its own.
//!
//! Directed ports are numbered through the whole graph: those of all switches, one switch behind
//! the other, and then those of the hosts. A place is where a packet arrives: the port of a switch,
//! or behind them the adapter of a host, under the number that its own port has.

mod port;

use weft_units::{Bytes, Span, Time};

use crate::fabric::{Peer, Wiring};
use crate::link::LinkSettings;
use crate::switch::OutputQueuedSettings;

pub use port::Departure;
use port::Port;

/// Nodes, ports and links, ready to pass packets of one size on. Memory: 28 bytes a directed port
/// and 16 a switch.
#[derive(Clone, Debug)]
pub struct Graph {
    ports: Vec<Port>,
    /// The switch of each port of a switch.
    owners: Vec<u32>,
    switches: Vec<Switch>,
    links: Vec<Link>,
    /// Whether links or switches differ.
    is_mixed: bool,
    /// In which time links are noted as busy.
    window: (Time, Time),
}

/// A switch with queues at its outputs.
#[derive(Clone, Copy, Debug)]
struct Switch {
    /// Its first port.
    first: u32,
    /// How many packets the queue of an output holds, the one that leaves included; the largest
    /// number if that is unlimited.
    most: u32,
    /// From a byte at an input to the same byte at a free output.
    latency: Span,
}

/// What a link does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// How long the packet occupies it.
    span: Span,
    /// From the first byte at its near end to what counts as arrival: the first byte at a switch,
    /// which cuts through, the last one at a host.
    arrival: Span,
    propagation: Span,
}

/// What a packet spent besides waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On cables.
    pub wire: Span,
    /// In switches.
    pub switches: Span,
    /// For its length.
    pub transmission: Span,
}

impl Graph {
    /// The graph of a wiring whose cables are like `link` where they have nothing of their own, for
    /// packets of a size, with the settings of each switch. Links count as busy in the `window` only.
    pub fn new(
        wiring: &Wiring,
        link: &LinkSettings,
        packet: Bytes,
        switches: &[OutputQueuedSettings],
        window: (Time, Time),
    ) -> Graph {
        let kinds = wiring.links(link);
        let to = |link: &LinkSettings, is_host: bool| {
            let (span, propagation) = (link.span(packet), link.propagation());
            let whole = if is_host { span } else { Span::ZERO };
            Link { span, arrival: propagation + whole, propagation }
        };
        let links = kinds.iter().flat_map(|link| [to(link, false), to(link, true)]).collect();
        let (ports, hosts) = (wiring.ports(), wiring.hosts());
        let of_switch = |port| {
            let kind = 2 * wiring.link_of(port) as u32;
            match wiring.peer(port) {
                Peer::Port(peer) => Port::new(peer, kind),
                Peer::Host(host) => Port::new(ports + host, kind + 1),
                Peer::Unused => Port::new(Port::UNUSED, kind),
            }
        };
        let of_host = |host| {
            let port = wiring.host_port(host);
            Port::new(port, 2 * wiring.link_of(port) as u32)
        };
        let switch = |(number, own): (u32, &OutputQueuedSettings)| Switch {
            first: wiring.port(number, 0),
            most: own.buffers.count().map_or(u32::MAX, |count| count.get()),
            latency: own.latency,
        };
        let switches: Vec<Switch> = (0..).zip(switches).map(switch).collect();
        let owners = (0..wiring.switches())
            .flat_map(|switch| (0..wiring.ports_of(switch)).map(move |_| switch));
        Graph {
            ports: (0..ports).map(of_switch).chain((0..hosts).map(of_host)).collect(),
            owners: owners.collect(),
            is_mixed: kinds.iter().any(|kind| *kind != kinds[0])
                || switches.iter().any(|switch| switch.latency != switches[0].latency),
            switches,
            links,
            window,
        }
    }

    /// How many ports all switches have together: places below it are theirs.
    #[inline]
    pub fn switch_ports(&self) -> u32 {
        self.owners.len() as u32
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        (self.ports.len() - self.owners.len()) as u32
    }

    /// The switch that has a port.
    #[inline]
    pub fn switch_of(&self, port: u32) -> u32 {
        self.owners[port as usize]
    }

    /// The first port of a switch.
    #[inline]
    pub fn first_port(&self, switch: u32) -> u32 {
        self.switches[switch as usize].first
    }

    /// The port of a host.
    #[inline]
    pub fn host_port(&self, host: u32) -> u32 {
        self.switch_ports() + host
    }

    /// When a port will be free.
    #[inline]
    pub fn free(&self, port: u32) -> Time {
        self.ports[port as usize].free()
    }

    /// Whether links or switches differ, so that what a packet spends depends on its way.
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

    /// How long a switch holds a packet back that came by one port and leaves by another, so that
    /// it has every byte when its turn comes: what the packet takes longer to come than to leave.
    #[inline]
    pub fn lag(&self, input: u32, output: u32) -> Span {
        Span(self.span(input).0.saturating_sub(self.span(output).0))
    }

    /// A host hands a packet to its port.
    #[inline]
    pub fn send(&mut self, now: Time, host: u32) -> Departure {
        self.depart(now, self.host_port(host))
    }

    /// A packet at an input of a switch joins the queue of an output of it; `None` if that is full.
    #[inline(always)]
    pub fn pass(&mut self, now: Time, switch: u32, output: u32) -> Option<Departure> {
        let Switch { latency, most, .. } = self.switches[switch as usize];
        let ready = now + latency;
        if most < u32::MAX && self.is_full(ready, output, most) {
            return None;
        }
        Some(self.depart(ready, output))
    }

    /// Whether the queue of a port holds `most` packets when one more may start.
    #[inline(never)]
    fn is_full(&self, ready: Time, port: u32, most: u32) -> bool {
        self.ports[port as usize].held(ready, self.span(port)) >= most
    }

    #[inline(always)]
    fn depart(&mut self, ready: Time, port: u32) -> Departure {
        let own = &mut self.ports[port as usize];
        let link = self.links[own.link() as usize];
        let start = own.enqueue(ready, link.span, self.window);
        Departure { start, arrival: start + link.arrival, place: own.peer() }
    }

    /// What a packet spends from the queue of an output, which it joined late by `lag`, to the far
    /// end of the cable.
    pub fn spent(&self, output: u32, lag: Span) -> Spent {
        let link = self.link(output);
        let switch = self.owners.get(output as usize);
        Spent {
            wire: link.propagation,
            switches: switch.map_or(Span::ZERO, |switch| self.switches[*switch as usize].latency),
            transmission: lag + Span(link.arrival.0 - link.propagation.0),
        }
    }

    /// What a packet spends from host to host through so many switches, where all links and
    /// switches are alike.
    #[inline]
    pub fn spent_alike(&self, hops: u8) -> Spent {
        let (link, hops) = (&self.links[0], u64::from(hops));
        Spent {
            wire: link.propagation * (hops + 1),
            switches: self.switches[0].latency * hops,
            transmission: link.span,
        }
    }

    /// The soonest that something sent by a port is at the far end, from when it came to its node.
    pub fn least_delay(&self, port: u32) -> Span {
        let Spent { wire, switches, .. } = self.spent(port, Span::ZERO);
        wire + switches
    }

    /// How long each directed port was busy within the window.
    pub fn busy(&self) -> Vec<Span> {
        self.ports.iter().map(Port::busy).collect()
    }
}

impl Spent {
    /// The same with what another step took.
    #[must_use]
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            wire: self.wire + other.wire,
            switches: self.switches + other.switches,
            transmission: self.transmission + other.transmission,
        }
    }
}
