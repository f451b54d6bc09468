//! The settings `[workload.CHANNEL]` of an experiment, and the sources that are built from them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Streams;
use weft_units::{Bytes, Load, Rate, Span, Time};

use super::arrivals::Arrivals;
use super::burst::Burst;
use super::error::check_host;
use super::flows::{self, FlowGroup, FlowList};
use super::source::{Bursts, Law, OpenLoops};
use super::stream::{self, StreamGroup, StreamList};
use super::{ArrivalsSettings, BurstSettings, Demand, PatternSettings, Source, WorkloadError};

/// The traffic of all hosts on one channel. Each kind of source reads some of the settings, and
/// refuses the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSettings {
    /// What each host offers, as a fraction of the bandwidth of its link: the time that its packets
    /// take on the link, without gaps between slots. Required for open-loop sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// How the intervals between packets, or bursts, vary. For open-loop sources; "poisson" if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalsSettings>,
    /// Packets come in bursts. For open-loop sources; single packets if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstSettings>,
    /// The targets of each host. For open-loop, greedy and paced sources; "uniform" if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternSettings>,
    /// Size of a message. It passes the hosts of the channel and is cut into packets; the other
    /// settings then apply to messages where they say packets. If absent, each submission is one
    /// packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Bytes>,
    /// The traffic class of its packets, 0 to 7. For channels with `shared_buffer` switches; 0 if not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// Size of its packets on the wire, at most that of the channel, which is the default. For
    /// traffic in `beside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<Bytes>,
    /// When it begins; at the beginning of the run by default. For traffic in `beside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When it ends; at the end of the run by default. For traffic in `beside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
    /// Further traffic of the same hosts, by name, each with its own settings; it may also run
    /// beside flows. It cannot have messages, nor sources that wait for the fabric. For channels
    /// with `shared_buffer` switches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, WorkloadSettings>,
    /// What makes a host submit a packet.
    #[serde(default)]
    pub source: SourceSettings,
}

/// What makes a host submit a packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SourceSettings {
    /// The arrival process, whatever the fabric does.
    #[default]
    OpenLoop,
    /// The adapter: there is always a packet, submitted as soon as there is space for it.
    Greedy,
    /// A clock: packets at equal intervals, from a random phase on.
    Paced {
        /// How much each host offers, counted in whole packets on the wire.
        rate: Rate,
    },
    /// The response to the previous packet: one packet goes back and forth between the hosts of
    /// each pair.
    PingPong {
        /// The pairs; no host may belong to two.
        pairs: Vec<Pair>,
        /// From the arrival of a packet at a host until the host submits the response.
        #[serde(default)]
        turnaround: Span,
    },
    /// A list: exactly these packets.
    List(Vec<Listed>),
    /// Streams of messages, in named groups. For switches with a shared memory.
    Streams(BTreeMap<String, StreamGroup>),
    /// Flows, in named groups, each with a number of bytes. For adapters with a transport.
    Flows(BTreeMap<String, FlowGroup>),
}

/// Two hosts that play ping-pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The host that sends first.
    pub from: u32,
    /// The host that answers.
    pub to: u32,
}

/// One packet of a list. On a channel with an interface it is a message that may call a handler at
/// its target; on other channels it has no content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// When it is submitted, from the start of the run.
    pub time: Span,
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// The handler that it calls, by its name in `interface.handlers.table`; one that does nothing if
    /// not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Up to five arguments of the handler; those that are not given are zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<u32>,
    /// Its payload, in words of 4 B.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payload: Vec<u32>,
    /// The virtual network of its endpoints, as an index into `interface.virtual_networks`, from
    /// zero; the first that both hosts are in by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<u16>,
}

/// What a workload must know of the channel on which it is offered.
#[derive(Clone, Copy, Debug)]
pub struct ChannelFacts<'a> {
    /// The name of the channel; also names the random streams of its traffic.
    pub name: &'a str,
    /// How many hosts there are.
    pub hosts: u32,
    /// The size of a packet on the wire.
    pub packet: Bytes,
    /// How long a packet takes on the host's link.
    pub packet_span: Span,
    /// From one slot to the next, on channels that have slots.
    pub slot_span: Option<Span>,
}

impl WorkloadSettings {
    /// The source of each host, in order. Random numbers come only from streams that are named
    /// after the channel and its use, one for each host.
    pub fn build(
        &self,
        channel: &ChannelFacts<'_>,
        streams: &Streams,
    ) -> Result<Vec<Source>, WorkloadError> {
        self.build_those(channel, streams, &|_| true)
    }

    /// Like [`build`](Self::build), for some hosts only: all others are silent, and take no memory but
    /// their place.
    pub fn build_those(
        &self,
        channel: &ChannelFacts<'_>,
        streams: &Streams,
        is_needed: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<Source>, WorkloadError> {
        let mut sources =
            self.sources(channel, is_needed, streams).map_err(|error| error.of(channel.name))?;
        for (host, source) in (0..).zip(&mut sources) {
            if !is_needed(host) {
                *source = Source::silent();
            }
        }
        Ok(sources)
    }

    /// Some of the hosts that are not needed are silent already.
    fn sources(
        &self,
        channel: &ChannelFacts<'_>,
        is_needed: &dyn Fn(u32) -> bool,
        streams: &Streams,
    ) -> Result<Vec<Source>, WorkloadError> {
        self.refuse_unread()?;
        match &self.source {
            SourceSettings::OpenLoop => self.open_loop(channel, is_needed, streams),
            SourceSettings::Greedy => {
                let purpose = format!("{}.targets", channel.name);
                let patterns = self.pattern().build(channel.hosts, streams, channel.name)?;
                let sources = patterns.into_iter().enumerate().map(|(host, targets)| {
                    let targets = targets.filter(|_| is_needed(host as u32));
                    let Some(targets) = targets else { return Source::silent() };
                    Source::greedy(targets, streams.stream(&purpose, host))
                });
                Ok(sources.collect())
            }
            SourceSettings::Paced { rate } => {
                let bits = channel.packet.0 as f64 * 8.0;
                let mean = bits * rate.per() as f64 / rate.bits() as f64;
                check_mean("source.paced.rate", rate, mean)?;
                let arrivals = ArrivalsSettings::Constant.build(mean, None)?;
                self.processes(arrivals, None, channel, is_needed, streams)
            }
            SourceSettings::PingPong { pairs, turnaround } => {
                ping_pong(pairs, *turnaround, channel.hosts)
            }
            SourceSettings::List(listed) => by_list(listed, channel.hosts),
            SourceSettings::Streams(_) | SourceSettings::Flows(_) => {
                Ok((0..channel.hosts).map(|_| Source::silent()).collect())
            }
        }
    }

    /// The streams of messages, none for any other source.
    pub fn streams(
        &self,
        channel: &ChannelFacts<'_>,
        streams: &Streams,
    ) -> Result<StreamList, WorkloadError> {
        let SourceSettings::Streams(groups) = &self.source else {
            return Ok(StreamList::default());
        };
        let list = stream::build(groups, channel.hosts, channel.name, streams);
        list.map_err(|error| error.of(channel.name))
    }

    /// The flows that begin up to `until`, none for any other source.
    pub fn flows(
        &self,
        channel: &ChannelFacts<'_>,
        streams: &Streams,
        until: Time,
    ) -> Result<FlowList, WorkloadError> {
        let SourceSettings::Flows(groups) = &self.source else { return Ok(FlowList::default()) };
        flows::build(groups, channel, streams, until).map_err(|error| error.of(channel.name))
    }

    /// The first entry of a list of this workload, or of traffic beside it, that says more than its
    /// target: the key below `source.list`.
    pub fn says(&self) -> Option<&'static str> {
        let of_list = match &self.source {
            SourceSettings::List(listed) => listed.iter().find_map(Listed::says),
            _ => None,
        };
        of_list.or_else(|| self.beside.values().find_map(WorkloadSettings::says))
    }

    /// The packets of a list by initiator, in the order in which each submits them; empty for any other
    /// source. Hosts that do not exist are left out.
    pub fn listed(&self, hosts: u32) -> Vec<Vec<&Listed>> {
        let mut all = vec![Vec::new(); hosts as usize];
        let SourceSettings::List(listed) = &self.source else { return all };
        for packet in listed {
            if let Some(own) = all.get_mut(packet.from as usize) {
                own.push(packet);
            }
        }
        // In the order in which the source of a host sorts them.
        all.iter_mut().for_each(|own: &mut Vec<&Listed>| own.sort_by_key(|packet| packet.time));
        all
    }

    /// Whether the hosts send flows.
    pub const fn has_flows(&self) -> bool {
        matches!(self.source, SourceSettings::Flows(_))
    }

    /// The highest traffic class of a flow; `None` for any other source.
    pub fn highest_class_of_flows(&self) -> Option<u8> {
        let SourceSettings::Flows(groups) = &self.source else { return None };
        Some(groups.values().map(|group| group.class).max().unwrap_or(0))
    }

    /// Refuses settings that the kind of source does not read.
    fn refuse_unread(&self) -> Result<(), WorkloadError> {
        let open_loop = self.source == SourceSettings::OpenLoop;
        let fixed = !matches!(
            self.source,
            SourceSettings::OpenLoop | SourceSettings::Greedy | SourceSettings::Paced { .. }
        );
        let unread = [
            ("load", self.load.is_some() && !open_loop),
            ("arrivals", self.arrivals.is_some() && !open_loop),
            ("burst", self.burst.is_some() && !open_loop),
            ("pattern", self.pattern.is_some() && fixed),
            ("message", self.message.is_some() && self.has_flows()),
            ("class", self.class.is_some() && self.has_flows()),
        ];
        match unread.iter().find(|(_, refused)| *refused) {
            Some((key, _)) => {
                let value = format!("given with source = {}", self.source.name());
                Err(WorkloadError::new(key, value, "no such setting for this source"))
            }
            None => Ok(()),
        }
    }

    fn pattern(&self) -> PatternSettings {
        self.pattern.clone().unwrap_or_default()
    }

    fn open_loop(
        &self,
        channel: &ChannelFacts<'_>,
        is_needed: &dyn Fn(u32) -> bool,
        streams: &Streams,
    ) -> Result<Vec<Source>, WorkloadError> {
        let accepted = "an offered load, such as 0.5";
        let load = self.load.ok_or_else(|| WorkloadError::new("load", "(none)", accepted))?;
        if load.get() == 0.0 {
            return Ok((0..channel.hosts).map(|_| Source::silent()).collect());
        }
        let bursts = self.burst.as_ref().map(BurstSettings::build).transpose()?;
        let arrivals = self.arrivals.clone().unwrap_or_default();
        let slot = channel.slot_span.filter(|_| arrivals.is_slotted());
        let unit = slot.unwrap_or(channel.packet_span).0 as f64;
        let mut mean = unit / load.get();
        if let Some(burst) = &self.burst {
            mean = mean * burst.mean_length() - burst.mean_duration();
            check_spacing(burst.spacing, mean, slot)?;
        }
        check_mean("load", load, mean)?;
        self.processes(arrivals.build(mean, slot)?, bursts, channel, is_needed, streams)
    }

    /// One open-loop source for each host to which the pattern gives a target.
    fn processes(
        &self,
        arrivals: Arrivals,
        burst: Option<Burst>,
        channel: &ChannelFacts<'_>,
        is_needed: &dyn Fn(u32) -> bool,
        streams: &Streams,
    ) -> Result<Vec<Source>, WorkloadError> {
        let purpose = |what| streams.purpose(&format!("{}.{what}", channel.name));
        let [times, destinations, lengths] = ["arrivals", "targets", "bursts"].map(purpose);
        let all = Arc::new(OpenLoops { hosts: channel.hosts, times, destinations });
        let patterns = self.pattern().build(channel.hosts, streams, channel.name)?;
        let sources = (0..).zip(patterns).map(|(host, targets)| {
            let targets = targets.filter(|_| is_needed(host));
            let Some(targets) = targets else { return Source::silent() };
            let bursts = burst.map(|law| {
                Box::new(Bursts { law, lengths: lengths.stream(host as usize), left: 0 })
            });
            Source::open_loop(Law { arrivals, targets, bursts }, host, &all)
        });
        Ok(sources.collect())
    }
}

impl Listed {
    /// The first key that it gives beside time and hosts.
    fn says(&self) -> Option<&'static str> {
        let given = [
            ("handler", self.handler.is_some()),
            ("arguments", !self.arguments.is_empty()),
            ("payload", !self.payload.is_empty()),
            ("network", self.network.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(key, _)| *key)
    }
}

impl SourceSettings {
    fn name(&self) -> &'static str {
        match self {
            SourceSettings::OpenLoop => "open_loop",
            SourceSettings::Greedy => "greedy",
            SourceSettings::Paced { .. } => "paced",
            SourceSettings::PingPong { .. } => "ping_pong",
            SourceSettings::List(_) => "list",
            SourceSettings::Streams(_) => "streams",
            SourceSettings::Flows(_) => "flows",
        }
    }
}

/// Time must go on between packets, or bursts, for which `mean` is the mean interval.
fn check_mean(key: &str, value: impl Display, mean: f64) -> Result<(), WorkloadError> {
    if mean >= 1.0 {
        return Ok(());
    }
    Err(WorkloadError::new(key, value, "a mean interval between packets of at least 1 ps"))
}

/// Bursts must leave time between them, and on a slotted process begin and end with slots.
fn check_spacing(spacing: Span, mean: f64, slot: Option<Span>) -> Result<(), WorkloadError> {
    if mean <= 0.0 {
        let accepted = "a spacing at which the mean burst is shorter than its share of the load";
        return Err(WorkloadError::new("burst.spacing", spacing, accepted));
    }
    match slot {
        Some(slot) if slot.0 > 0 && !spacing.0.is_multiple_of(slot.0) => {
            let accepted = format!("a multiple of the slot of {slot} with bernoulli arrivals");
            Err(WorkloadError::new("burst.spacing", spacing, accepted))
        }
        _ => Ok(()),
    }
}

fn ping_pong(pairs: &[Pair], turnaround: Span, hosts: u32) -> Result<Vec<Source>, WorkloadError> {
    let mut sources: Vec<Source> = (0..hosts).map(|_| Source::silent()).collect();
    let mut taken = vec![false; hosts as usize];
    for pair in pairs {
        check_host("source.ping_pong.pairs.from", pair.from, hosts)?;
        check_host("source.ping_pong.pairs.to", pair.to, hosts)?;
        let (from, to) = (pair.from as usize, pair.to as usize);
        if from == to || taken[from] || taken[to] {
            let value = format!("{{ from = {from}, to = {to} }}");
            let accepted = "two hosts that belong to no other pair";
            return Err(WorkloadError::new("source.ping_pong.pairs", value, accepted));
        }
        (taken[from], taken[to]) = (true, true);
        sources[from] = Source::ping_pong(pair.to, turnaround, true);
        sources[to] = Source::ping_pong(pair.from, turnaround, false);
    }
    Ok(sources)
}

fn by_list(listed: &[Listed], hosts: u32) -> Result<Vec<Source>, WorkloadError> {
    let mut demands = vec![Vec::new(); hosts as usize];
    for packet in listed {
        check_host("source.list.from", packet.from, hosts)?;
        check_host("source.list.to", packet.to, hosts)?;
        let time = Time::ZERO + packet.time;
        demands[packet.from as usize].push(Demand { time, target: packet.to });
    }
    Ok(demands.into_iter().map(Source::list).collect())
}
