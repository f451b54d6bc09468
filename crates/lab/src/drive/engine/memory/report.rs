//! The results of streams, cables and queues.

use serde::{Deserialize, Serialize};
use weft_fabric::fabric::Wiring;
use weft_fabric::interface::ViHost;
use weft_fabric::measure::{Capacity, max_min};
use weft_units::{Span, Time};

use super::streams::StreamState;
use crate::drive::engine::{Engine, PauseRow};

/// What streams received and cables carried, and how both changed over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetworkReport {
    /// The streams, group by group.
    pub streams: Vec<StreamRow>,
    /// Every cable in each direction.
    pub ports: Vec<PortRow>,
    /// The samples, if there are any.
    pub samples: Vec<SampleRow>,
    /// Which port paused which class of which other port.
    pub pauses: Vec<PauseRow>,
    /// The results of traffic classes, column by column; empty if packets have none.
    pub classes: Vec<(String, f64)>,
    /// How often an input stopped its cable, since recording began.
    pub stops: u64,
    /// Quenches that sources received since recording began.
    pub quenches: u64,
    /// Connections that a fault broke.
    pub broken: u64,
    /// Messages that reached their target and were not received.
    pub dropped: u64,
    /// The most entries of the completion queue of a host that were in use.
    pub most_completions: u64,
    /// How long all delivered messages take on a link.
    pub carried: Span,
    /// How long all submitted messages take there, over the whole run, if packets have sizes of their
    /// own.
    pub offered: Option<Span>,
}

/// One stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamRow {
    /// Its group.
    pub group: String,
    /// The hosts in words.
    pub from: String,
    /// The target.
    pub to: String,
    /// The switches of its route, in order.
    pub way: String,
    /// Payload that arrived, in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// What it would get if shared resources were divided max-min fairly.
    pub fair_mb_per_s: f64,
    /// Messages that arrived per second.
    pub messages_per_s: f64,
    /// Mean time between arrivals of messages; none with fewer than two.
    pub interval_mean_us: Option<f64>,
    /// Their standard deviation.
    pub interval_deviation_us: Option<f64>,
    /// Mean time from the submission of a message to its arrival at the program; none without
    /// messages.
    pub one_way_mean_us: Option<f64>,
    /// The longest one.
    pub one_way_most_us: Option<f64>,
    /// Quenches that its source received.
    pub quenches: u64,
    /// Send descriptors that were completed.
    pub completed: u64,
    /// Descriptors that returned with an error.
    pub failed: u64,
    /// Messages that reached its target and were not received.
    pub dropped: u64,
    /// Why the last one was not, and whether that broke the connection, in prose; else empty.
    pub fault: String,
    /// Whether it got less than nine tenths of its fair share: others took part of it.
    pub is_victim: bool,
}

/// One direction of a cable, by the port that sends on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortRow {
    /// Its number, to which samples refer.
    pub link: u32,
    /// Where it begins and ends, in words.
    pub name: String,
    /// The switch, or host, at its beginning.
    pub from: String,
    /// The switch, or host, at its end.
    pub to: String,
    /// How many cables its beginning is away from the nearest host.
    pub from_tier: u32,
    /// And its end.
    pub to_tier: u32,
    /// The share of the time in which it was busy.
    pub load: f64,
    /// The load including quenches, unquenches and responses of targets.
    pub indication_load: f64,
    /// The most cells that the input at its end held on one virtual channel.
    pub most_held: u32,
}

/// A cable at one instant; those without load and queue are left out.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SampleRow {
    /// When.
    pub time: Time,
    /// The direction of a cable.
    pub link: u32,
    /// The share of the time since the instant before in which it was busy.
    pub load: f64,
    /// Cells that wait for it.
    pub waiting: u32,
    /// Cells that the input at its end holds.
    pub held: u32,
    /// Bytes that wait for it, where packets have sizes of their own.
    pub bytes: u64,
}

/// The share of its fair share below which a stream is a victim.
const VICTIM: f64 = 0.9;

impl Engine {
    /// The results at the end of a run.
    pub(in crate::drive::engine) fn report(&self) -> Option<NetworkReport> {
        let wiring = self.names.as_deref().filter(|_| self.memories.is_on)?;
        let seconds = self.measured().as_secs();
        let mut report = self.memories.report.clone();
        report.quenches = self.memories.connections.iter().map(|own| own.quenches).sum();
        let endpoints = || self.memories.connections.iter().map(|own| &own.endpoints);
        report.broken = endpoints().filter(|own| !own.is_open()).count() as u64;
        report.dropped = endpoints().map(|own| own.dropped).sum();
        let most = self.memories.hosts.iter().map(ViHost::most_completions).max();
        report.most_completions = most.unwrap_or(0) as u64;
        report.streams = self.stream_rows(wiring, seconds);
        let tiers = wiring.tiers();
        let cable = |port| Some((port, self.graph.peer(port)?));
        let cables = (0..self.memories.ports.len() as u32).filter_map(cable);
        report.ports =
            cables.map(|(port, peer)| self.port_row(port, peer, wiring, &tiers)).collect();
        Some(report)
    }

    fn measured(&self) -> Span {
        self.now.since(self.observations.from)
    }

    fn stream_rows(&self, wiring: &Wiring, seconds: f64) -> Vec<StreamRow> {
        let shares = self.fair_shares();
        let rows = self.memories.streams.iter().zip(shares).map(|(state, share)| {
            let own = &self.memories.connections[state.connection as usize];
            let ways = &self.memories.hops[own.first as usize..][..usize::from(own.hops)];
            let way: Vec<&str> = ways.iter().map(|hop| wiring.bare_name(hop.switch)).collect();
            let mb_per_s = state.payload().0 as f64 / seconds * 1e-6;
            let fair_mb_per_s = share * 1e-6;
            let intervals = state.intervals();
            StreamRow {
                group: self.memories.groups[usize::from(state.stream.group)].clone(),
                from: wiring.host_name(own.from),
                to: wiring.host_name(own.to),
                way: way.join(" "),
                mb_per_s,
                fair_mb_per_s,
                messages_per_s: state.messages as f64 / seconds,
                interval_mean_us: intervals.map(|own| own.mean_us),
                interval_deviation_us: intervals.map(|own| own.deviation_us),
                one_way_mean_us: state.one_way_mean_us(),
                one_way_most_us: (state.messages > 0).then(|| state.most_latency.as_us()),
                quenches: own.quenches,
                completed: own.endpoints.completed,
                failed: own.endpoints.failed,
                dropped: own.endpoints.dropped,
                fault: own.endpoints.describe_fault(),
                is_victim: mb_per_s < VICTIM * fair_mb_per_s,
            }
        });
        rows.collect()
    }

    /// What each stream would get in payload bytes per second if cables and buses were shared
    /// max-min fairly.
    fn fair_shares(&self) -> Vec<f64> {
        let ports = self.memories.ports.len();
        let hosts = self.memories.hosts.len();
        let bus = self.memories.endpoints.per_message.as_secs();
        // A cable is one second of cells a second, the bus of a host one of messages.
        let capacities = vec![1.0; ports + 2 * hosts];
        let demand = |state: &StreamState| {
            let own = &self.memories.connections[state.connection as usize];
            let ways = &self.memories.hops[own.first as usize..][..usize::from(own.hops)];
            let wire = self.memories.segmentation.wire(state.stream.size);
            let (from, to) = (own.from as usize, own.to as usize);
            let cable = |port: u32| {
                let link = &self.memories.links[self.graph.link_of(port)];
                (port as usize, link.span(wire).as_secs())
            };
            let mut uses = vec![cable(self.graph.host_port(own.from))];
            uses.extend(ways.iter().map(|hop| cable(hop.output)));
            if bus > 0.0 {
                uses.push((ports + from, bus));
            }
            if bus > 0.0 && own.endpoints.operation.takes_descriptor() {
                uses.push((ports + hosts + to, bus));
            }
            let most = state.interval.map_or(f64::INFINITY, |interval| 1.0 / interval.as_secs());
            Capacity { uses, most }
        };
        let demands: Vec<Capacity> = self.memories.streams.iter().map(demand).collect();
        let rates = max_min(&demands, &capacities);
        let bytes = |(state, rate): (&StreamState, f64)| rate * state.stream.size.0 as f64;
        self.memories.streams.iter().zip(rates).map(bytes).collect()
    }

    fn port_row(&self, port: u32, peer: u32, wiring: &Wiring, tiers: &[u32]) -> PortRow {
        let place = |number: u32| match number < wiring.ports() {
            true => {
                let switch = wiring.switch_of(number);
                (wiring.switch_name(switch), tiers[switch as usize])
            }
            false => (wiring.host_name(number - wiring.ports()), 0),
        };
        let ((from, from_tier), (to, to_tier)) = (place(port), place(peer));
        let begin = match port < wiring.ports() {
            true => wiring.port_name(port),
            false => from.clone(),
        };
        let measured = self.measured().as_secs();
        PortRow {
            link: port,
            name: format!("{begin} to {to}"),
            from,
            to,
            from_tier,
            to_tier,
            load: self.graph.busy_by(self.now, port).as_secs() / measured,
            indication_load: self.memories.ports[port as usize].busy_indicating.as_secs()
                / measured,
            most_held: self.memories.ports[peer as usize].most_held,
        }
    }

    /// Notes how busy cables were since the sample before, and how many packets wait for each.
    #[cold]
    pub(in crate::drive::engine) fn sample(&mut self, now: Time) {
        let Some(every) = self.memories.sample else { return };
        for port in 0..self.memories.ports.len() as u32 {
            let peer = self.graph.peer(port);
            let held = peer.map_or(0, |peer| self.memories.ports[peer as usize].held());
            let by_now = self.graph.busy_by(now, port);
            let own = &mut self.memories.ports[port as usize];
            // Times of an output queue that are known in advance may lie one switch later.
            let busy = Span(by_now.0.saturating_sub(own.busy_before.0));
            own.busy_before = own.busy_before.max(by_now);
            let (waiting, link) = (own.waiting, port);
            if busy > Span::ZERO || waiting > 0 || held > 0 {
                let load = busy.0 as f64 / every.0 as f64;
                let row = SampleRow { time: now, link, load, waiting, held, bytes: 0 };
                self.memories.report.samples.push(row);
            }
        }
        self.schedule(now + every, self.places.samples, 0);
    }
}
