//! Rows of a fabric: throughput of streams, load of cables, and both over time.

use weft_fabric::fabric::{Peer, Wiring};
use weft_units::Time;

use super::PointRuns;
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::simulate::ChannelRun;
use crate::table::Table;

/// Directions of cables beyond which a run has no rows of them: they would be larger than all other
/// tables together.
const MOST_LINKS: usize = 10_000;

impl PointRuns<'_> {
    /// Adds a row for each stream of each run.
    pub fn streams(&self, table: &mut Table) {
        for run in &self.runs {
            for stream in run.network.iter().flat_map(|network| &network.streams) {
                let mut row = self.head(&run.channel);
                row.push(("seed".into(), run.seed.into()));
                row.push(("group".into(), stream.group.as_str().into()));
                row.push(("from".into(), stream.from.as_str().into()));
                row.push(("to".into(), stream.to.as_str().into()));
                row.push(("way".into(), stream.way.as_str().into()));
                row.push(("stream_mb_per_s".into(), stream.mb_per_s.into()));
                row.push(("fair_mb_per_s".into(), stream.fair_mb_per_s.into()));
                row.push(("messages_per_s".into(), stream.messages_per_s.into()));
                row.push(("interval_mean_us".into(), stream.interval_mean_us.into()));
                row.push(("interval_deviation_us".into(), stream.interval_deviation_us.into()));
                row.push(("stream_one_way_mean_us".into(), stream.one_way_mean_us.into()));
                row.push(("stream_one_way_most_us".into(), stream.one_way_most_us.into()));
                row.push(("quenches".into(), (stream.quenches as f64).into()));
                row.push(("completed".into(), (stream.completed as f64).into()));
                row.push(("failed".into(), (stream.failed as f64).into()));
                row.push(("dropped".into(), (stream.dropped as f64).into()));
                row.push(("fault".into(), stream.fault.as_str().into()));
                let victim = if stream.is_victim { "victim" } else { "" };
                row.push(("victim".into(), victim.into()));
                table.push(row);
            }
        }
    }

    /// Adds a row for each direction of each cable of a channel, of the first run.
    pub fn links(&self, settings: &ChannelSettings, table: &mut Table) {
        let Some(run) = self.runs.first() else { return };
        if run.network.as_ref().is_none_or(|network| network.ports.is_empty()) {
            self.busy_links(run, settings, table);
        }
        for link in run.network.iter().flat_map(|network| &network.ports) {
            let mut row = self.head(&run.channel);
            row.push(("link".into(), u64::from(link.link).into()));
            row.push(("name".into(), link.name.as_str().into()));
            row.push(("from".into(), link.from.as_str().into()));
            row.push(("to".into(), link.to.as_str().into()));
            row.push(("from_tier".into(), u64::from(link.from_tier).into()));
            row.push(("to_tier".into(), u64::from(link.to_tier).into()));
            row.push(("link_load".into(), link.load.into()));
            row.push(("indication_load".into(), link.indication_load.into()));
            row.push(("most_held".into(), u64::from(link.most_held).into()));
            table.push(row);
        }
    }

    /// Adds a row for each direction of each cable of a channel that recorded only busy times.
    fn busy_links(&self, run: &ChannelRun, settings: &ChannelSettings, table: &mut Table) {
        let busy = run.observations.busy();
        if busy.is_empty() || busy.len() > MOST_LINKS {
            return;
        }
        let Ok(wiring) = settings.wiring(run.hosts) else { return };
        let leads_on = match &settings.switch {
            SwitchSettings::Hub(hub) => hub.is_direct(),
            SwitchSettings::Ring(_) => wiring.switches() == 1,
            _ => false,
        };
        let (ports, tiers) = (wiring.ports() as usize, wiring.tiers());
        let tier = |switch: u32| tiers.get(switch as usize).copied().unwrap_or(0);
        let measured = run.measured().as_secs();
        let links = busy.len();
        let ends = ports + wiring.ends() as usize;
        let rings = ring_links(&wiring, settings);
        let is_on_ring = |port: u32| rings.iter().any(|own| own.port == port);
        for (link, busy) in busy.iter().enumerate() {
            let on_ring = link.checked_sub(ends).and_then(|place| rings.get(place));
            let host = link.checked_sub(ports).map(|host| host as u32);
            let host = host.filter(|_| link < ends);
            let port = match (on_ring, host) {
                (Some(own), _) => own.port,
                (None, Some(host)) => wiring.host_port(host),
                (None, None) => (link % ports) as u32,
            };
            let own = wiring.switch_of(port);
            let (at, switch) = (tier(own), wiring.switch_name(own));
            let (name, from, to, tiers) = match (host, wiring.peer(port)) {
                _ if leads_on => {
                    let ends = [link, (link + 1) % links];
                    let [own, next] = ends.map(|host| wiring.host_name(host as u32));
                    (own.clone(), own, next, (0, 0))
                }
                _ if on_ring.is_some() => {
                    let next = on_ring.map_or(port, |own| own.next);
                    let [own, next] = [port, next].map(|port| station_name(&wiring, port));
                    (own.clone(), own, next, (at, at))
                }
                // Between a host and its station of a ring there is no cable.
                (_, Peer::Host(_)) if is_on_ring(port) => continue,
                (_, Peer::Unused) => continue,
                (Some(host), _) => (wiring.end_name(host), wiring.end_name(host), switch, (0, at)),
                (None, Peer::Host(host)) => {
                    (wiring.port_name(port), switch, wiring.end_name(host), (at, 0))
                }
                (None, Peer::Port(peer)) => {
                    let other = wiring.switch_of(peer);
                    let to = wiring.switch_name(other);
                    (wiring.port_name(port), switch, to, (at, tier(other)))
                }
            };
            let mut row = self.head(&run.channel);
            row.push(("link".into(), (link as u64).into()));
            row.push(("name".into(), format!("{name} to {to}").as_str().into()));
            row.push(("from".into(), from.as_str().into()));
            row.push(("to".into(), to.as_str().into()));
            row.push(("from_tier".into(), u64::from(tiers.0).into()));
            row.push(("to_tier".into(), u64::from(tiers.1).into()));
            row.push(("link_load".into(), (busy.as_secs() / measured).into()));
            table.push(row);
        }
    }

    /// Adds which port paused which traffic class of which other port, in each run.
    pub fn pauses(&self, table: &mut Table) {
        for run in &self.runs {
            for pause in run.network.iter().flat_map(|network| &network.pauses) {
                let mut row = self.head(&run.channel);
                row.push(("seed".into(), run.seed.into()));
                row.push(("link".into(), u64::from(pause.link).into()));
                row.push(("paused".into(), pause.stopped.as_str().into()));
                row.push(("by".into(), pause.by.as_str().into()));
                row.push(("class".into(), u64::from(pause.class).into()));
                row.push(("pauses".into(), pause.stops.into()));
                row.push(("paused_us".into(), pause.time.as_us().into()));
                table.push(row);
            }
        }
    }

    /// Adds the samples of the first run.
    pub fn samples(&self, table: &mut Table) {
        let Some(run) = self.runs.first() else { return };
        for sample in run.network.iter().flat_map(|network| &network.samples) {
            let mut row = self.head(&run.channel);
            row.push(("time_us".into(), sample.time.since(Time::ZERO).as_us().into()));
            row.push(("link".into(), u64::from(sample.link).into()));
            row.push(("link_load".into(), sample.load.into()));
            row.push(("waiting".into(), u64::from(sample.waiting).into()));
            match run.network.as_ref().is_some_and(|network| network.classes.is_empty()) {
                true => row.push(("held".into(), u64::from(sample.held).into())),
                false => row.push(("waiting_bytes".into(), sample.bytes.into())),
            }
            table.push(row);
        }
        for course in &run.course {
            let mut row = self.head(&run.channel);
            row.push(("time_us".into(), course.time.since(Time::ZERO).as_us().into()));
            row.push(("accepted_mb_per_s".into(), course.accepted_mb_per_s.into()));
            row.push(("nodes_on_line".into(), u64::from(course.on_line).into()));
            table.push(row);
        }
    }
}

/// Columns of a run with streams: each group by its name, then what concerns all of them.
pub(super) fn columns(run: &ChannelRun) -> Vec<(String, f64)> {
    let Some(network) = &run.network else { return Vec::new() };
    if !network.classes.is_empty() {
        return network.classes.clone();
    }
    let mut columns = Vec::new();
    let mut rest = network.streams.as_slice();
    while let Some(first) = rest.first() {
        let (group, others) =
            rest.split_at(rest.iter().take_while(|own| own.group == first.group).count());
        rest = others;
        let rates: Vec<f64> = group.iter().map(|own| own.mb_per_s).collect();
        let messages: f64 = group.iter().map(|own| own.messages_per_s).sum();
        let (sum, count) = (rates.iter().sum::<f64>(), rates.len() as f64);
        let name = &first.group;
        columns.push((format!("{name}_mb_per_s"), sum));
        columns.push((format!("{name}_stream_mb_per_s"), sum / count));
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        columns.push((format!("{name}_least_mb_per_s"), least));
        columns.push((format!("{name}_most_mb_per_s"), rates.iter().copied().fold(0.0, f64::max)));
        columns.push((format!("{name}_stream_messages_per_s"), messages / count));
        let means = || group.iter().filter_map(|own| own.one_way_mean_us.zip(Some(own)));
        let weight: f64 = means().map(|(_, own)| own.messages_per_s).sum();
        let time: f64 = means().map(|(mean, own)| mean * own.messages_per_s).sum();
        if weight > 0.0 {
            columns.push((format!("{name}_one_way_mean_us"), time / weight));
            let most = group.iter().filter_map(|own| own.one_way_most_us).fold(0.0, f64::max);
            columns.push((format!("{name}_one_way_most_us"), most));
        }
    }
    let rates = || network.streams.iter().map(|own| own.mb_per_s);
    let (sum, squares) = (rates().sum::<f64>(), rates().map(|own| own * own).sum::<f64>());
    if squares > 0.0 {
        let jain = sum * sum / (network.streams.len() as f64 * squares);
        columns.push(("stream_jain_index".to_owned(), jain));
        let victims = network.streams.iter().filter(|own| own.is_victim).count();
        columns.push(("victims".to_owned(), victims as f64));
        let fair: f64 = network.streams.iter().map(|own| own.fair_mb_per_s).sum();
        columns.push(("share_of_fair".to_owned(), sum / fair));
    }
    let ms = run.measured().as_secs() * 1e3;
    columns.push(("quenches_per_ms".to_owned(), network.quenches as f64 / ms));
    columns.push(("stops_per_ms".to_owned(), network.stops as f64 / ms));
    let most = network.ports.iter().map(|own| own.most_held).max().unwrap_or(0);
    columns.push(("broken_connections".to_owned(), network.broken as f64));
    columns.push(("dropped_messages".to_owned(), network.dropped as f64));
    columns.push(("most_completions".to_owned(), network.most_completions as f64));
    columns.push(("most_held_cells".to_owned(), f64::from(most)));
    columns
}

/// The link from a station of a ring to the next, by the ports of both.
struct RingLink {
    port: u32,
    next: u32,
}

/// The links of all rings of a channel, in their order.
fn ring_links(wiring: &Wiring, settings: &ChannelSettings) -> Vec<RingLink> {
    let kind = |switch| settings.switches.get(wiring.bare_name(switch)).unwrap_or(&settings.switch);
    let rings =
        (0..wiring.switches()).filter(|switch| matches!(kind(*switch), SwitchSettings::Ring(_)));
    let links = |ring| {
        let stations = wiring.ports_of(ring);
        (0..stations).map(move |own| RingLink {
            port: wiring.port(ring, own),
            next: wiring.port(ring, (own + 1) % stations),
        })
    };
    rings.flat_map(links).collect()
}

/// A station in words: its host, or the port of its bridge.
fn station_name(wiring: &Wiring, port: u32) -> String {
    match wiring.peer(port) {
        Peer::Host(host) => wiring.host_name(host),
        Peer::Port(_) | Peer::Unused => wiring.port_name(port),
    }
}
