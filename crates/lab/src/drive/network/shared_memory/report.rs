//! What a run shows of streams, cables and queues.

use serde::{Deserialize, Serialize};
use weft_fabric::interface::ViHost;
use weft_fabric::measure::{Capacity, max_min};
use weft_units::{Span, Time};

use super::host::StreamState;
use super::{Event, SharedMemoryNetwork};

/// What streams got and cables carried, and how both went over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetworkReport {
    /// The streams, group by group.
    pub streams: Vec<StreamRow>,
    /// Every cable in each direction.
    pub ports: Vec<PortRow>,
    /// What was noted at intervals, if it was.
    pub samples: Vec<SampleRow>,
    /// How often an input stopped its cable, since records began.
    pub stops: u64,
    /// Quenches that sources heard since records began.
    pub quenches: u64,
    /// Connections that a fault broke.
    pub broken: u64,
    /// Messages that came to their target and were not received.
    pub dropped: u64,
    /// The most entries of the completion queue of a host that were in use.
    pub most_completions: u64,
    /// How long all delivered messages take on a link.
    pub carried: Span,
}

/// One stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamRow {
    /// Its group.
    pub group: String,
    /// The hosts in prose.
    pub from: String,
    /// The target.
    pub to: String,
    /// The switches on its way, in order.
    pub way: String,
    /// Payload that arrived, in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// The same that it would get if what it shares were shared max-min fairly.
    pub fair_mb_per_s: f64,
    /// Messages that arrived per second.
    pub messages_per_s: f64,
    /// Mean time between arrivals of messages; none with fewer than two.
    pub interval_mean_us: Option<f64>,
    /// Their standard deviation.
    pub interval_deviation_us: Option<f64>,
    /// Mean time from handing a message over to its arrival at the program; none without messages.
    pub one_way_mean_us: Option<f64>,
    /// The longest one.
    pub one_way_most_us: Option<f64>,
    /// Quenches that its source heard.
    pub quenches: u64,
    /// Send descriptors that came back carried out.
    pub completed: u64,
    /// Those that came back with an error.
    pub failed: u64,
    /// Messages that came to its target and were not received.
    pub dropped: u64,
    /// Why the last one was not, and whether that broke the connection, in prose; else empty.
    pub fault: String,
    /// Whether it got less than nine tenths of its fair share: others took what was its own.
    pub is_victim: bool,
}

/// One direction of a cable, by the port that sends on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortRow {
    /// Its number, to which samples refer.
    pub link: u32,
    /// Where it begins and ends, in prose.
    pub name: String,
    /// The switch, or host, at its beginning.
    pub from: String,
    /// And that at its end.
    pub to: String,
    /// How many cables both are away from the nearest host.
    pub tiers: (u32, u32),
    /// The share of the time in which it was busy.
    pub load: f64,
    /// That with quenches, unquenches and what targets answer.
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
}

/// The share of its fair share below which a stream is a victim.
const VICTIM: f64 = 0.9;

impl SharedMemoryNetwork {
    /// What was noted, at the end of a run.
    pub fn report(&self) -> NetworkReport {
        let seconds = self.measured().as_secs();
        let mut report = self.report.clone();
        report.quenches = self.connections.iter().map(|own| own.quenches).sum();
        let endpoints = || self.connections.iter().map(|own| &own.endpoints);
        report.broken = endpoints().filter(|own| !own.is_open()).count() as u64;
        report.dropped = endpoints().map(|own| own.dropped).sum();
        let most = self.hosts.iter().map(ViHost::most_completions).max();
        report.most_completions = most.unwrap_or(0) as u64;
        report.streams = self.stream_rows(seconds);
        let tiers = self.wiring.tiers();
        let cables = (0..self.ports.len()).filter(|port| self.ports[*port].peer as usize != *port);
        report.ports = cables.map(|port| self.port_row(port as u32, &tiers)).collect();
        report
    }

    fn measured(&self) -> Span {
        self.agenda.now().since(self.ends.observations.from)
    }

    fn stream_rows(&self, seconds: f64) -> Vec<StreamRow> {
        let shares = self.fair_shares();
        let rows = self.streams.iter().zip(shares).map(|(state, share)| {
            let own = &self.connections[state.connection as usize];
            let ways = &self.hops[own.first as usize..][..usize::from(own.hops)];
            let way: Vec<&str> = ways.iter().map(|hop| self.wiring.bare_name(hop.switch)).collect();
            let mb_per_s = state.payload().0 as f64 / seconds * 1e-6;
            let fair_mb_per_s = share * 1e-6;
            let (mean, deviation) = state.intervals_us();
            StreamRow {
                group: self.groups[usize::from(state.stream.group)].clone(),
                from: self.wiring.host_name(own.from),
                to: self.wiring.host_name(own.to),
                way: way.join(" "),
                mb_per_s,
                fair_mb_per_s,
                messages_per_s: state.messages as f64 / seconds,
                interval_mean_us: mean,
                interval_deviation_us: deviation,
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
        let ports = self.ports.len();
        let hosts = self.hosts.len();
        let bus = self.endpoints.per_message.as_secs();
        // A cable is one second of cells a second, the bus of a host one of messages.
        let capacities = vec![1.0; ports + 2 * hosts];
        let demand = |state: &StreamState| {
            let own = &self.connections[state.connection as usize];
            let ways = &self.hops[own.first as usize..][..usize::from(own.hops)];
            let wire = self.link.span(self.segmentation.wire(state.stream.size)).as_secs();
            let (from, to) = (usize::from(own.from), usize::from(own.to));
            let mut uses = vec![(ports - hosts + from, wire)];
            uses.extend(ways.iter().map(|hop| (hop.output as usize, wire)));
            if bus > 0.0 {
                uses.push((ports + from, bus));
            }
            if bus > 0.0 && own.endpoints.operation.takes_descriptor() {
                uses.push((ports + hosts + to, bus));
            }
            let most = state.interval.map_or(f64::INFINITY, |interval| 1.0 / interval.as_secs());
            Capacity { uses, most }
        };
        let demands: Vec<Capacity> = self.streams.iter().map(demand).collect();
        let rates = max_min(&demands, &capacities);
        let bytes = |(state, rate): (&StreamState, f64)| rate * state.stream.size.0 as f64;
        self.streams.iter().zip(rates).map(bytes).collect()
    }

    fn port_row(&self, port: u32, tiers: &[u32]) -> PortRow {
        let own = &self.ports[port as usize];
        let peer = &self.ports[own.peer as usize];
        let place = |number: u32| match self.ports[number as usize].switch {
            Some(switch) => (self.wiring.switch_name(switch), tiers[switch as usize]),
            None => (self.wiring.host_name((number - self.wiring.ports()) as u16), 0),
        };
        let ((from, own_tier), (to, peer_tier)) = (place(port), place(own.peer));
        let begin = match own.switch {
            Some(_) => self.wiring.port_name(port),
            None => from.clone(),
        };
        let measured = self.measured().as_secs();
        PortRow {
            link: port,
            name: format!("{begin} to {to}"),
            from,
            to,
            tiers: (own_tier, peer_tier),
            load: own.busy_by(self.agenda.now()).as_secs() / measured,
            indication_load: own.busy_indicating.as_secs() / measured,
            most_held: peer.most_held,
        }
    }

    /// Notes how busy cables were since the sample before, and how many cells wait for each.
    pub(super) fn sample(&mut self, now: Time) {
        let Some(every) = self.sample else { return };
        for port in 0..self.ports.len() {
            let held = self.ports[self.ports[port].peer as usize].held();
            let own = &mut self.ports[port];
            let by_now = own.busy_by(now);
            let busy = Span(by_now.0 - own.busy_before.0);
            own.busy_before = by_now;
            if busy > Span::ZERO || own.waiting > 0 || held > 0 {
                let load = busy.0 as f64 / every.0 as f64;
                let (link, waiting) = (port as u32, own.waiting);
                self.report.samples.push(SampleRow { time: now, link, load, waiting, held });
            }
        }
        self.agenda.push(now + every, Event::Sample);
    }

    /// Why a run cannot go on: a buffer was written that was full.
    pub(super) fn describe_overrun(&self, now: Time, port: u32, space: u32) -> String {
        let name = match self.ports[port as usize].switch {
            Some(_) => self.wiring.port_name(port),
            None => self.wiring.host_name((port - self.wiring.ports()) as u16),
        };
        format!(
            "at {} a cell came to {name}, whose buffer of {space} cells was full; a lossless channel \
             needs a larger buffer, or has to stop earlier",
            now.since(Time::ZERO)
        )
    }

    /// Which ports wait for space that nobody makes, one sentence a line.
    pub(super) fn who_waits(&self) -> Vec<String> {
        let blocked = (0..self.ports.len()).filter(|port| self.ports[*port].is_blocked());
        let line = |port: usize| {
            let own = &self.ports[port];
            let name = |number: u32| match self.ports[number as usize].switch {
                Some(_) => self.wiring.port_name(number),
                None => self.wiring.host_name((number - self.wiring.ports()) as u16),
            };
            let (own_name, peer) = (name(port as u32), name(own.peer));
            match own.switch {
                Some(_) => {
                    let waiting = own.waiting;
                    format!("{waiting} cells wait at {own_name} for space in the buffer of {peer}")
                }
                None => format!("{own_name} waits for space in the buffer of {peer}"),
            }
        };
        blocked.map(line).collect()
    }
}

impl StreamState {
    fn one_way_mean_us(&self) -> Option<f64> {
        (self.messages > 0).then(|| self.latencies as f64 / self.messages as f64 * 1e-6)
    }

    /// Mean and standard deviation of the time between arrivals, in microseconds.
    fn intervals_us(&self) -> (Option<f64>, Option<f64>) {
        if self.messages < 2 {
            return (None, None);
        }
        let count = (self.messages - 1) as f64;
        let mean = self.intervals as f64 / count;
        let variance = (self.squares as f64 / count - mean * mean).max(0.0);
        (Some(mean * 1e-6), Some(libm::sqrt(variance) * 1e-6))
    }
}
