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
        let links = BusyLinks::new(&wiring, settings, busy.len());
        let measured = run.measured().as_secs();
        for (link, busy) in busy.iter().enumerate() {
            let Some(BusyLink { name, from, to }) = links.get(link) else { continue };
            let mut row = self.head(&run.channel);
            row.push(("link".into(), (link as u64).into()));
            row.push(("name".into(), format!("{name} to {}", to.name).as_str().into()));
            row.push(("from".into(), from.name.as_str().into()));
            row.push(("to".into(), to.name.as_str().into()));
            row.push(("from_tier".into(), u64::from(from.tier).into()));
            row.push(("to_tier".into(), u64::from(to.tier).into()));
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

/// The directions of cables of a channel that recorded only busy times: from the ports of all
/// switches, from those of hosts, and from each station of a ring to the next. Where the one switch
/// is a ring, there are only the last ones.
struct BusyLinks<'a> {
    wiring: &'a Wiring,
    tiers: Vec<u32>,
    /// How many cables there are between hosts that lead on from each host to the next; zero
    /// elsewhere.
    between_hosts: usize,
    /// The first one of a ring.
    first_on_ring: usize,
    on_rings: Vec<RingLink>,
    /// By port, whether it is a station of a ring.
    is_station: Vec<bool>,
}

/// A direction of a cable in words.
struct BusyLink {
    /// The port that sends.
    name: String,
    from: LinkEnd,
    to: LinkEnd,
}

/// An end of a cable: its host, switch or station, and how many cables that is away from a host.
struct LinkEnd {
    name: String,
    tier: u32,
}

/// The link from a station of a ring to the next, by the ports of both.
struct RingLink {
    port: u32,
    next: u32,
}

impl<'a> BusyLinks<'a> {
    fn new(wiring: &'a Wiring, settings: &ChannelSettings, links: usize) -> BusyLinks<'a> {
        let is_direct = matches!(&settings.switch, SwitchSettings::Hub(hub) if hub.is_direct());
        let is_ring = |switch: &u32| settings.is_ring(wiring, *switch);
        let on_ring = |ring| {
            let stations = wiring.ports_of(ring);
            (0..stations).map(move |own| RingLink {
                port: wiring.port(ring, own),
                next: wiring.port(ring, (own + 1) % stations),
            })
        };
        let on_rings: Vec<RingLink> =
            (0..wiring.switches()).filter(is_ring).flat_map(on_ring).collect();
        let mut is_station = vec![false; wiring.ports() as usize];
        on_rings.iter().for_each(|own| is_station[own.port as usize] = true);
        let is_one_ring = wiring.switches() == 1 && !on_rings.is_empty();
        let others = wiring.ports() as usize + wiring.ends() as usize;
        BusyLinks {
            wiring,
            tiers: wiring.tiers(),
            between_hosts: if is_direct { links } else { 0 },
            first_on_ring: if is_one_ring { 0 } else { others },
            on_rings,
            is_station,
        }
    }

    /// The direction with a number; `None` without a cable.
    fn get(&self, link: usize) -> Option<BusyLink> {
        let (wiring, ports) = (self.wiring, self.wiring.ports() as usize);
        if self.between_hosts > 0 {
            let [own, next] = [link, (link + 1) % self.between_hosts];
            return Some(BusyLink::between(self.host(own as u32), self.host(next as u32)));
        }
        if let Some(place) = link.checked_sub(self.first_on_ring) {
            let RingLink { port, next } = self.on_rings.get(place)?;
            return Some(BusyLink::between(self.station(*port), self.station(*next)));
        }
        if let Some(end) = link.checked_sub(ports) {
            let end = end as u32;
            let port = wiring.host_port(end);
            let from = LinkEnd { name: wiring.end_name(end), tier: 0 };
            // Between a host and its station of a ring there is no cable.
            let has_cable = !self.is_station[port as usize];
            return has_cable.then(|| BusyLink::between(from, self.switch(port)));
        }
        let port = link as u32;
        let to = match wiring.peer(port) {
            Peer::Host(_) if self.is_station[port as usize] => return None,
            Peer::Host(end) => LinkEnd { name: wiring.end_name(end), tier: 0 },
            Peer::Port(peer) => self.switch(peer),
            Peer::Unused => return None,
        };
        Some(BusyLink { name: wiring.port_name(port), from: self.switch(port), to })
    }

    fn host(&self, host: u32) -> LinkEnd {
        LinkEnd { name: self.wiring.host_name(host), tier: 0 }
    }

    /// The switch that has a port.
    fn switch(&self, port: u32) -> LinkEnd {
        let own = self.wiring.switch_of(port);
        LinkEnd { name: self.wiring.switch_name(own), tier: self.tier(own) }
    }

    /// The station of a ring at a port: its host, or the port of its bridge.
    fn station(&self, port: u32) -> LinkEnd {
        match self.wiring.peer(port) {
            Peer::Host(host) => self.host(host),
            Peer::Port(_) | Peer::Unused => LinkEnd {
                name: self.wiring.port_name(port),
                tier: self.tier(self.wiring.switch_of(port)),
            },
        }
    }

    fn tier(&self, switch: u32) -> u32 {
        self.tiers.get(switch as usize).copied().unwrap_or(0)
    }
}

impl BusyLink {
    /// From one end to another, by the names of both.
    fn between(from: LinkEnd, to: LinkEnd) -> BusyLink {
        BusyLink { name: from.name.clone(), from, to }
    }
}
