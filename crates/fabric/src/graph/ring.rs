//! Rings among the switches of a graph, and the cable between two hosts without a switch.

use std::sync::Arc;

use weft_units::{Bytes, Time};

use super::flow::Flow;
use super::{Departure, Graph, Kind, Link, Pace, Port, RecordingWindow, SwitchParts};
use crate::fabric::{Peer, Wiring};
use crate::link::LinkSettings;
use crate::switch::RingSettings;

/// The switches of a graph that are rings. A station of a ring has the port of its number: the
/// adapter of a host, between which and the ring there is no cable, or a bridge to the far end of
/// the cable there.
pub(super) struct Rings<'a> {
    /// The first port of each ring, how many it has, and its settings.
    rings: Vec<Own<'a>>,
    switches: usize,
}

struct Own<'a> {
    first: u32,
    stations: u32,
    settings: &'a RingSettings,
    has_bridges: bool,
}

impl<'a> Rings<'a> {
    /// The rings among some switches.
    pub fn among(switches: &'a [SwitchParts], wiring: &Wiring) -> Rings<'a> {
        let own = |(switch, parts): (u32, &'a SwitchParts)| {
            let (first, stations) = (wiring.port(switch, 0), wiring.ports_of(switch));
            let is_bridge = |port| matches!(wiring.peer(port), Peer::Port(_));
            let has_bridges = (first..first + stations).any(is_bridge);
            parts.ring().map(|settings| Own { first, stations, settings, has_bridges })
        };
        Rings { rings: (0..).zip(switches).filter_map(own).collect(), switches: switches.len() }
    }

    /// The ports of all switches, then those of the hosts. A port and a host that are a station
    /// have no cable.
    pub fn ports(&self, wiring: &'a Wiring) -> impl Iterator<Item = Port> {
        let ports = wiring.ports();
        let of_switch = move |port| {
            let kind = 2 * wiring.link_of(port) as u32;
            match wiring.peer(port) {
                Peer::Port(peer) => Port::new(peer, kind),
                Peer::Host(_) if self.have(port) => Port::new(Port::UNUSED, kind),
                Peer::Host(host) => Port::new(ports + host, kind + 1),
                Peer::Unused => Port::new(Port::UNUSED, kind),
            }
        };
        let of_host = move |end: u32| {
            let port = wiring.host_port(end);
            let peer = if self.have(port) { Port::UNUSED } else { port };
            Port::new(peer, 2 * wiring.link_of(port) as u32)
        };
        (0..ports).map(of_switch).chain((0..wiring.ends()).map(of_host))
    }

    /// Whether a port is a station of one of them.
    fn have(&self, port: u32) -> bool {
        let behind = self.rings.partition_point(|own| own.first <= port);
        let last = behind.checked_sub(1).map(|at| &self.rings[at]);
        last.is_some_and(|own| port - own.first < own.stations)
    }

    /// Whether there is no ring beside another switch.
    pub fn are_alone(&self) -> bool {
        self.rings.is_empty() || self.switches == 1
    }

    /// Whether any of them has a bridge.
    pub fn have_bridges(&self) -> bool {
        self.rings.iter().any(|own| own.has_bridges)
    }

    /// The links from each station to the next, as ports numbered from `first` on, for packets of a
    /// size. Their times follow those of other links.
    pub fn links(
        &self,
        first: u32,
        packet: Bytes,
        link: &LinkSettings,
        links: &mut Vec<Link>,
    ) -> Vec<Port> {
        let mut ports: Vec<Port> = Vec::new();
        for Own { stations, settings, .. } in &self.rings {
            let begin = first + ports.len() as u32;
            for (station, own) in (0..).zip(settings.links(*stations as usize, link)) {
                let next = begin + (station + 1) % stations;
                ports.push(Port::new(next, links.len() as u32));
                links.push(Link {
                    span: own.span(packet),
                    short: own.span(settings.acknowledgment),
                    arrival: own.propagation(),
                    propagation: own.propagation(),
                });
            }
        }
        ports
    }
}

impl Graph {
    /// The port that sends on the link of a station, by its number among those of all rings.
    #[inline]
    pub fn ring_link(&self, station: u32) -> u32 {
        self.ports.len() as u32 - self.on_rings + station
    }

    /// Whether a bridge has no room for another request before the cable in its port. `crossing`
    /// others have their places although they are not at the cable yet.
    pub fn is_bridge_full(&self, now: Time, port: u32, crossing: u32) -> bool {
        let held = match self.is_gated(port) {
            true => self.held_at_gate(now, port),
            false => self.ports[port as usize].held(now, self.span(port)),
        };
        held + crossing >= self.most(self.switch_of(port))
    }

    /// A packet that has come through a bridge joins the queue before a cable that never waits.
    pub fn leave_bridge(&mut self, now: Time, port: u32) -> Departure {
        self.depart(now, port)
    }

    /// Whether a switch is a ring.
    #[inline]
    pub fn is_ring(&self, switch: u32) -> bool {
        matches!(self.kinds[switch as usize], Kind::Ring { .. })
    }

    /// A cable between two hosts, for packets of a size; it counts as busy within `window`.
    pub fn pair(link: &LinkSettings, packet: Bytes, window: RecordingWindow) -> Graph {
        let (span, propagation) = (link.span(packet), link.propagation());
        Graph {
            ports: [1, 0].map(|peer| Port::new(peer, 0)).into(),
            owners: [].into(),
            hosts: 2,
            planes: 1,
            first_host: 0,
            on_rings: 0,
            switches: Arc::default(),
            latencies: Vec::new(),
            kinds: Vec::new(),
            clocked: Vec::new(),
            pace: Pace::Apart,
            deciding: Vec::new(),
            has_limits: false,
            flow: Flow::none(),
            gates: Arc::default(),
            links: vec![Link { span, short: span, arrival: propagation, propagation }],
            is_mixed: false,
            window,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Span;

    use super::super::GraphParts;
    use super::*;
    use crate::fabric::FabricSettings;
    use crate::link::FlowControl;

    fn ring(links: &str, more: &str) -> SwitchParts {
        let text = format!("acknowledgment = '8 B'\nlinks = [{links}]\n{more}");
        SwitchParts::Ring(Box::new(toml::from_str(&text).expect("a ring")))
    }

    fn graph(hosts: u32, fabric: &str, switches: Vec<SwitchParts>) -> Graph {
        let text = "rate = '200 MB/s'\nlength = '2 m'\ndelay_per_metre = '5 ns'";
        let link: LinkSettings = toml::from_str(text).expect("a link");
        let fabric: FabricSettings = match fabric {
            "star" => FabricSettings::Star,
            table => FabricSettings::Table(toml::from_str(table).expect("a table")),
        };
        Graph::new(GraphParts {
            wiring: &fabric.wiring(hosts, link.rate).expect("a wiring"),
            link: &link,
            packet: Bytes(80),
            switches,
            flow: FlowControl::new(&Default::default(), 4).expect("credits"),
            virtual_channels: 1,
            receive: None,
            window: RecordingWindow { from: Time::ZERO, until: Time(1_000_000) },
            acknowledgment: None,
        })
    }

    /// 80 B take 400 ns at 200 MB/s and 800 ns at 100 MB/s, an acknowledgment of 8 B a tenth.
    #[test]
    fn each_station_has_the_link_to_the_next() {
        let slow = "{}, { rate = '100 MB/s', length = '4 m' }, {}";
        let graph = graph(3, "star", vec![ring(slow, "")]);
        assert_eq!((graph.hosts(), graph.ends(), graph.switches()), (3, 3, 1));
        assert_eq!((graph.has_limits(), graph.is_mixed(), graph.busy().len()), (false, false, 3));
        let links = [0, 1, 2].map(|station| graph.ring_link(station));
        assert_eq!(links.map(|link| graph.peer(link)), [links[1], links[2], links[0]].map(Some));
        assert_eq!(links.map(|link| graph.propagation(link)), [10, 20, 10].map(Span::from_ns));
        assert_eq!(links.map(|link| graph.span_of(link, true)), [40, 80, 40].map(Span::from_ns));
        // From the slow link to a fast one a packet comes slower than it could leave.
        let lag = |before: usize, own: usize| graph.lag_of(links[before], links[own], false);
        assert_eq!([lag(2, 0), lag(0, 1), lag(1, 2)], [0, 0, 400].map(Span::from_ns));
        // Between a host and its station there is no cable.
        assert_eq!([graph.peer(0), graph.peer(graph.host_port(0))], [None, None]);
    }

    /// Two rings and a bridge between them: what comes to a bridge waits for its room.
    #[test]
    fn a_cable_to_a_bridge_is_limited() {
        let table = "switches = [{ name = 'r', ports = 3 }, { name = 'q', ports = 2 }]\n\
            cables = [{ from = 'host 0', to = 'r.0' }, { from = 'host 1', to = 'r.1' }, \
            { from = 'r.2', to = 'q.0' }, { from = 'host 2', to = 'q.1' }]";
        let bridge = "bridge = { buffer = 4, latency = '50 ns' }";
        let graph = graph(3, table, vec![ring("", bridge), ring("", bridge)]);
        assert_eq!((graph.has_limits(), graph.is_mixed(), graph.ends()), (true, true, 3));
        assert_eq!([2, 3].map(|port| graph.peer(port)), [Some(3), Some(2)]);
        assert_eq!([0, 2, 3, 4].map(|port| graph.is_gated(port)), [false, true, true, false]);
        assert_eq!((graph.ring_link(3), graph.peer(graph.ring_link(4))), (11, Some(11)));
        assert_eq!(graph.latency(0), Span::from_ns(50));
        // A bridge of four places, all of which others cross.
        let is_full = |crossing| graph.is_bridge_full(Time::ZERO, 2, crossing);
        assert_eq!([3, 4].map(is_full), [false, true]);
        assert_eq!(graph.busy().len(), 5 + 3 + 5);
    }
}
