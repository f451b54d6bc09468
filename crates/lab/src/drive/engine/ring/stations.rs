//! The stations of rings, and what is on the way between them.

use weft_fabric::fabric::{Peer, Wiring};
use weft_fabric::graph::{Graph, SwitchParts};
use weft_fabric::link::Errors;
use weft_fabric::measure::Spent;
use weft_fabric::switch::{RingKind, RingNode, RingSettings};
use weft_units::{Bytes, Span, Time};

use super::{RingCounters, RingParts};
use crate::drive::receiver::Receiver;

/// A switch of the graph that is a ring.
#[derive(Clone, Debug)]
pub(in crate::drive::engine) struct RingSwitch {
    /// Its number.
    pub switch: u32,
    pub settings: RingSettings,
    /// Its first station.
    pub first: u32,
}

/// All rings of a channel, and what is on them.
#[derive(Debug)]
pub(in crate::drive::engine) struct Rings {
    pub(super) rings: Vec<RingSwitch>,
    pub(super) stations: Vec<Station>,
    /// The station of each host, or [`ELSEWHERE`].
    of_hosts: Vec<u32>,
    pub(super) receivers: Vec<Receiver>,
    pub(super) errors: Vec<Errors>,
    pub(super) link_errors: Vec<Option<Errors>>,
    pub(super) flights: Vec<Flight>,
    /// The numbers of flights that have ended.
    free: Vec<u32>,
    /// By packet number.
    pub(super) journeys: Vec<Journey>,
    pub(super) counters: RingCounters,
    pub(super) packet: Bytes,
}

/// A host that is on no ring.
const ELSEWHERE: u32 = u32::MAX;

/// A station of a ring.
#[derive(Debug)]
pub(super) struct Station {
    pub node: RingNode,
    pub end: End,
    /// The number of its ring among all.
    pub ring: u32,
    /// Its port of the ring.
    pub port: u32,
    /// The port of its link.
    pub link: u32,
    /// The station at the far end of its link.
    pub next: u32,
    /// From a byte at its input to the same byte at its free output.
    pub bypass: Span,
    /// Its link from end to end.
    pub wire: Span,
    /// The times of a request and of an acknowledgment.
    times: [Times; 2],
    /// Packets that a bridge has taken from the ring, and that have not joined the queue before its
    /// cable.
    pub crossing: u32,
}

/// The times of a packet at a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// How long it takes to arrive whole by the link before the station, and to leave.
    pub arrival: Span,
    pub span: Span,
    /// How much longer it takes to arrive than to leave.
    pub lag: Span,
}

impl Station {
    /// The times of an acknowledgment, or of a request.
    #[inline]
    pub fn times(&self, is_short: bool) -> &Times {
        &self.times[usize::from(is_short)]
    }
}

/// What a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The adapter of a host.
    Host(u32),
    /// A bridge to the far end of the cable in its port.
    Bridge,
    /// Neither: it lets everything pass.
    Nobody,
}

/// A request on a ring, then its acknowledgment, until its sender need not repeat it any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The packet, which is gone from the ring once the request is accepted.
    pub packet: u32,
    pub kind: RingKind,
    /// The station that sends the request, and the one that takes it.
    pub sender: u32,
    pub exit: u32,
    /// How often it was repeated.
    pub repeats: u32,
    /// How many stations its last transmission has passed.
    pub passed: u16,
    /// The virtual channel of its place in the bridge that sends it.
    pub channel: u8,
    /// The accumulated times of its last transmission.
    pub spent: Spent,
}

impl Flight {
    /// A request that has not been sent from one station to another.
    pub fn new(packet: u32, sender: u32, exit: u32) -> Flight {
        let (kind, spent) = (RingKind::Request { damaged: false }, Spent::default());
        Flight { packet, kind, sender, exit, repeats: 0, passed: 0, channel: 0, spent }
    }

    /// Whether it is an acknowledgment.
    #[inline]
    pub fn is_short(&self) -> bool {
        matches!(self.kind, RingKind::Acknowledgment { .. })
    }

    /// Whether its packet waits at its sender, since no station has accepted it.
    #[inline]
    pub fn waits(&self) -> bool {
        !matches!(self.kind, RingKind::Acknowledgment { accepted: true })
    }

    /// The station to which it goes.
    #[inline]
    pub fn goal(&self) -> u32 {
        if self.is_short() { self.sender } else { self.exit }
    }

    /// The request is sent, for the first time or again.
    #[inline]
    pub fn start(&mut self, damaged: bool) {
        self.kind = RingKind::Request { damaged };
        self.spent = Spent::default();
        self.passed = 0;
    }
}

/// What is known of a packet on its whole way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Journey {
    /// When its host sent it for the first time.
    pub first: Time,
    /// The stations that it has passed, less the rings, which count as switches.
    more: u16,
}

impl Journey {
    /// It has come over a ring, past so many stations.
    pub fn count_ring(&mut self, passed: u16) {
        self.more = self.more.wrapping_add(passed).wrapping_sub(1);
    }

    /// How many switches and stations it has passed, if that many switches and rings have forwarded
    /// it.
    pub fn hops(self, nodes: u16) -> u16 {
        nodes.wrapping_add(self.more)
    }
}

impl Rings {
    /// The rings among some switches, before the parts of these are used up.
    pub fn among(switches: &[SwitchParts], wiring: &Wiring) -> Vec<RingSwitch> {
        let mut rings: Vec<RingSwitch> = Vec::new();
        let mut first = 0;
        for (switch, parts) in (0..).zip(switches) {
            let Some(settings) = parts.ring().cloned() else { continue };
            rings.push(RingSwitch { switch, settings, first });
            first += wiring.ports_of(switch);
        }
        rings
    }

    /// Idle stations, for requests of a size.
    pub fn new(
        parts: RingParts,
        rings: Vec<RingSwitch>,
        wiring: &Wiring,
        graph: &Graph,
        packet: Bytes,
    ) -> Rings {
        let mut of_hosts = vec![ELSEWHERE; wiring.hosts() as usize];
        let mut stations: Vec<Station> = Vec::new();
        for (ring, own) in (0..).zip(&rings) {
            let ports = wiring.ports_of(own.switch);
            for number in 0..ports {
                let (station, port) = (own.first + number, wiring.port(own.switch, number));
                let end = match wiring.peer(port) {
                    Peer::Host(host) => End::Host(host),
                    Peer::Port(_) => End::Bridge,
                    Peer::Unused => End::Nobody,
                };
                if let End::Host(host) = end {
                    of_hosts[host as usize] = station;
                }
                let before = graph.ring_link(own.first + (number + ports - 1) % ports);
                let link = graph.ring_link(station);
                let times = |is_short| Times {
                    arrival: graph.span_of(before, is_short),
                    span: graph.span_of(link, is_short),
                    lag: graph.lag_of(before, link, is_short),
                };
                stations.push(Station {
                    node: RingNode::new(own.settings.outstanding),
                    end,
                    ring,
                    port,
                    link,
                    next: own.first + (number + 1) % ports,
                    bypass: own.settings.bypass,
                    wire: graph.propagation(link),
                    times: [false, true].map(times),
                    crossing: 0,
                });
            }
        }
        let RingParts { receivers, errors, link_errors } = parts;
        Rings {
            rings,
            stations,
            of_hosts,
            receivers,
            errors,
            link_errors,
            flights: Vec::new(),
            free: Vec::new(),
            journeys: Vec::new(),
            counters: RingCounters::default(),
            packet,
        }
    }

    /// The station of a host, if it is on a ring.
    #[inline]
    pub fn of_host(&self, host: u32) -> Option<u32> {
        Some(self.of_hosts[host as usize]).filter(|station| *station != ELSEWHERE)
    }

    /// The place of what happens at a station, counted from the first of all.
    #[inline]
    pub(super) fn place(&self, what: u32, station: u32) -> u32 {
        what * self.stations.len() as u32 + station
    }

    /// What a station is.
    #[inline]
    pub(super) fn end(&self, station: u32) -> End {
        self.stations[station as usize].end
    }

    /// The station at a port of a ring.
    pub(super) fn at_port(&self, port: u32) -> Option<u32> {
        let is_before = |own: &RingSwitch| self.stations[own.first as usize].port <= port;
        let ring = self.rings.partition_point(is_before).checked_sub(1)?;
        let first = self.rings[ring].first;
        let station = first + (port - self.stations[first as usize].port);
        let own = self.stations.get(station as usize)?;
        (own.port == port).then_some(station)
    }

    /// A packet is handed to its host, or starts there at `now`.
    pub fn begin_journey(&mut self, packet: u32, now: Time) {
        let journey = Journey { first: now, more: 0 };
        match self.journeys.get_mut(packet as usize) {
            Some(place) => *place = journey,
            None => self.journeys.resize(packet as usize + 1, journey),
        }
    }

    /// The number of a flight that begins.
    #[inline]
    pub(super) fn begin_flight(&mut self, flight: Flight) -> u32 {
        let Some(id) = self.free.pop() else {
            self.flights.push(flight);
            return self.flights.len() as u32 - 1;
        };
        self.flights[id as usize] = flight;
        id
    }

    /// A flight has ended. Returns the virtual channel of its place in the bridge that sent it.
    #[inline]
    pub(super) fn end_flight(&mut self, id: u32) -> u8 {
        self.free.push(id);
        self.flights[id as usize].channel
    }

    /// A station answers a request.
    #[inline]
    pub(super) fn answer(&mut self, station: u32, id: u32, accepted: bool) {
        self.flights[id as usize].kind = RingKind::Acknowledgment { accepted };
        self.stations[station as usize].node.pass(id);
    }

    /// All flights that have not ended.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Flight> {
        let mut has_ended = vec![false; self.flights.len()];
        self.free.iter().for_each(|id| has_ended[*id as usize] = true);
        self.flights.iter().zip(has_ended).filter(|(_, ended)| !ended).map(|(own, _)| own)
    }

    /// Requests that have not been sent.
    pub fn unsent(&self) -> u64 {
        self.stations.iter().map(|own| own.node.unsent()).sum()
    }

    /// The counts, with the names of their columns.
    pub fn columns(&self) -> Vec<(&'static str, f64)> {
        let own = &self.counters;
        let mut columns = vec![
            ("ring_requests", own.requests as f64),
            ("ring_damaged", own.damaged as f64),
            ("ring_refused", own.refused as f64),
            ("ring_given_up", own.given_up as f64),
        ];
        if self.stations.iter().any(|own| own.end == End::Bridge) {
            columns.push(("bridge_accepted", own.bridged as f64));
            columns.push(("bridge_refused", own.bridge_refused as f64));
            columns.push(("bridge_given_up", own.bridge_given_up as f64));
        }
        columns
    }

    /// What waits for what, one sentence per line. Bridges have the names of their ports.
    pub fn who_waits(&self, wiring: Option<&Wiring>) -> Vec<String> {
        let mut held = vec![0_u64; self.stations.len()];
        self.under_way().filter(|own| own.waits()).for_each(|own| held[own.sender as usize] += 1);
        let sentence = |(own, held): (&Station, u64)| match (own.end, wiring) {
            (End::Host(host), _) => own
                .node
                .has_waiting()
                .then(|| format!("host {host} waits for acknowledgments or for what passes")),
            (End::Bridge, Some(wiring)) if held > 0 => Some(format!(
                "{held} packets wait in the bridge at {} until a station of the ring accepts them",
                wiring.port_name(own.port)
            )),
            (End::Bridge | End::Nobody, _) => None,
        };
        self.stations.iter().zip(held).filter_map(sentence).collect()
    }
}
