//! Flows: a number of bytes from one host to another, starting at some time. What is offered does
//! not depend on the state of the channel, so all flows are drawn before a run; those of closed loops are
//! drawn one by one.

mod closed;
mod sizes;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Stream, Streams};
use weft_units::{Bytes, Load, PositiveCount, Span, Time};

use super::error::{WorkloadError, check_host};
use super::pattern::{PatternSettings, Targets};
use super::settings::ChannelFacts;
use crate::fabric::HostPair;
use closed::LoopHost;
use sizes::SizeLaw;

pub use closed::{ClosedLoop, FlowLoop};
pub use sizes::FlowSizes;

/// Settings of a group of flows: drawn, or listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowGroup {
    /// How large they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<FlowSizes>,
    /// The mean load of each host, as a fraction of the bandwidth of its link. It counts the bytes
    /// of flows, not the headers of their packets, as is usual in comparisons of completion times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// In place of a load: each host begins a flow when one of its flows has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedLoop>,
    /// The targets of each host; "uniform" if not given. Each host begins flows at exponential
    /// intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternSettings>,
    /// Flows come in incasts, several at the same time to one host, instead of one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<IncastSettings>,
    /// Exactly these flows, instead of random ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<ListedFlow>,
    /// The traffic class of their packets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub class: u8,
    /// When the first flows may begin.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub start: Span,
    /// When the last flows may begin; the end of the run if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Span>,
}

/// Many hosts send to one at the same time (Phanishayee et al., FAST 2008: the responses to a
/// request that was sent to all of them). Incasts come at exponential intervals, each with its own
/// random target and senders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncastSettings {
    /// How many hosts send; less than the number of hosts.
    pub senders: PositiveCount,
    /// The target; by default a random host each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
}

/// One flow of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedFlow {
    /// When it begins, from the start of the run.
    #[serde(default)]
    pub time: Span,
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// Its size.
    pub size: Bytes,
}

/// A flow that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowDemand {
    /// When.
    pub start: Time,
    /// Its bytes; at least one.
    pub size: Bytes,
    /// The initiator.
    pub from: u32,
    /// The target, another host.
    pub to: u32,
    /// Its group, an index into [`FlowList::groups`].
    pub group: u16,
    /// The traffic class of its packets.
    pub class: u8,
}

impl FlowDemand {
    /// Its initiator and its target.
    pub fn hosts(&self) -> HostPair {
        HostPair { from: self.from, to: self.to }
    }
}

/// All flows of a channel, in the order in which they begin; those of one instant by their initiators.
#[derive(Debug, Default)]
pub struct FlowList {
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The flows.
    pub flows: Vec<FlowDemand>,
    /// What follows them in closed loops.
    pub loops: Vec<FlowLoop>,
}

/// This many flows take some gigabytes.
const MOST_FLOWS: f64 = 16_777_216.0;

/// The highest traffic class: the priority of IEEE 802.1Q has three bits.
const LAST_CLASS: u8 = 7;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(class: &u8) -> bool {
    *class == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_nothing(span: &Span) -> bool {
    *span == Span::ZERO
}

/// The flows of all groups that begin up to `until`. Random numbers come from streams that are named
/// after the channel and the group, for each host its own.
pub(super) fn build(
    groups: &BTreeMap<String, FlowGroup>,
    channel: &ChannelFacts<'_>,
    streams: &Streams,
    until: Time,
) -> Result<FlowList, WorkloadError> {
    let mut list = FlowList::default();
    for (name, group) in groups {
        let key = format!("source.flows.{name}");
        let number = list.groups.len() as u16;
        list.groups.push(name.clone());
        group.check(&key, channel.hosts)?;
        let end = group.end.map_or(until, |end| (Time::ZERO + end).min(until));
        let purpose = |what: &str| format!("{}.{name}.{what}", channel.name);
        let mut begin = Beginning { number, class: group.class, flows: &mut list.flows };
        if !group.list.is_empty() {
            group.list(&mut begin, until);
            continue;
        }
        if let Some(closed) = &group.closed {
            let drawn =
                group.closed_loop(closed, (&key, number, end), channel, (streams, &purpose))?;
            list.begin_loop(drawn, closed, Time::ZERO + group.start);
            continue;
        }
        let drawn = group.drawn(&key, channel, end)?;
        match &group.incast {
            Some(incast) => {
                let random = streams.stream(&purpose("incast"), 0);
                drawn.incast(incast, channel.hosts, random, &mut begin);
            }
            None => {
                let targets = group.targets(&key, channel, streams, &purpose("pattern"))?;
                for (host, targets) in targets.into_iter().enumerate() {
                    let Some(targets) = targets else { continue };
                    let random = ["arrivals", "targets", "sizes"]
                        .map(|what| streams.stream(&purpose(what), host));
                    drawn.one_by_one(host as u32, &targets, random, &mut begin);
                }
            }
        }
    }
    list.flows.sort_by_key(|flow| (flow.start, flow.from, flow.group));
    Ok(list)
}

/// The table in which flows of one group are recorded.
struct Beginning<'a> {
    number: u16,
    class: u8,
    flows: &'a mut Vec<FlowDemand>,
}

impl Beginning<'_> {
    fn push(&mut self, start: Time, from: u32, to: u32, size: Bytes) {
        let (group, class) = (self.number, self.class);
        self.flows.push(FlowDemand { start, size, from, to, group, class });
    }
}

/// The random streams of flows.
struct Drawn {
    sizes: SizeLaw,
    /// The mean time between two flows of one host in picoseconds, all that it sends counted.
    mean: f64,
    start: Time,
    end: Time,
}

impl FlowList {
    /// The first flows of a closed loop.
    fn begin_loop(&mut self, mut own: FlowLoop, closed: &ClosedLoop, start: Time) {
        for host in 0..own.hosts.len() as u32 {
            for _ in 0..closed.outstanding.get() {
                self.flows.extend(own.begin(host, start));
            }
        }
        self.loops.push(own);
    }
}

impl FlowGroup {
    fn check(&self, key: &str, hosts: u32) -> Result<(), WorkloadError> {
        let at = |own: &str| format!("{key}.{own}");
        if self.class > LAST_CLASS {
            let accepted = format!("a class in 0..={LAST_CLASS}");
            return Err(WorkloadError::new(&at("class"), self.class, accepted));
        }
        let unread = [
            ("sizes", self.sizes.is_some()),
            ("load", self.load.is_some()),
            ("closed", self.closed.is_some()),
            ("pattern", self.pattern.is_some()),
            ("incast", self.incast.is_some()),
            ("start", self.start > Span::ZERO),
            ("end", self.end.is_some()),
        ];
        if let (false, Some((own, _))) =
            (self.list.is_empty(), unread.iter().find(|(_, given)| *given))
        {
            let accepted = "either a list of flows or how they are drawn";
            return Err(WorkloadError::new(&at(own), "given beside a list", accepted));
        }
        for flow in &self.list {
            check_host(&at("list.from"), flow.from, hosts)?;
            check_host(&at("list.to"), flow.to, hosts)?;
            if flow.from == flow.to {
                let accepted = "another host than the flow begins at";
                return Err(WorkloadError::new(&at("list.to"), flow.to, accepted));
            }
            if flow.size.0 == 0 {
                return Err(WorkloadError::new(&at("list.size"), flow.size, "a size above 0"));
            }
        }
        if self.closed.is_some() {
            let beside = [("load", self.load.is_some()), ("incast", self.incast.is_some())];
            if let Some((own, _)) = beside.iter().find(|(_, given)| *given) {
                let accepted = "either closed, in which flows begin when others end, or flows that come by themselves";
                return Err(WorkloadError::new(&at(own), "given beside closed", accepted));
            }
        }
        let Some(incast) = &self.incast else { return Ok(()) };
        if self.pattern.is_some() {
            let accepted = "either a pattern or an incast, which has targets of its own";
            return Err(WorkloadError::new(&at("pattern"), "given beside incast", accepted));
        }
        if incast.senders.get() >= hosts {
            let accepted = format!("fewer than the {hosts} hosts");
            return Err(WorkloadError::new(&at("incast.senders"), incast.senders, accepted));
        }
        incast.target.map_or(Ok(()), |host| check_host(&at("incast.target"), host, hosts))
    }

    fn list(&self, begin: &mut Beginning<'_>, until: Time) {
        for flow in &self.list {
            let start = Time::ZERO + flow.time;
            if start <= until {
                begin.push(start, flow.from, flow.to, flow.size);
            }
        }
    }

    fn targets(
        &self,
        key: &str,
        channel: &ChannelFacts<'_>,
        streams: &Streams,
        purpose: &str,
    ) -> Result<Vec<Option<Targets>>, WorkloadError> {
        let pattern = self.pattern.clone().unwrap_or_default();
        let targets = pattern.build(channel.hosts, streams, purpose);
        targets.map_err(|error| error.below(key))
    }

    fn closed_loop(
        &self,
        closed: &ClosedLoop,
        (key, group, end): (&str, u16, Time),
        channel: &ChannelFacts<'_>,
        (streams, purpose): (&Streams, &dyn Fn(&str) -> String),
    ) -> Result<FlowLoop, WorkloadError> {
        if closed.outstanding.get() as f64 * f64::from(channel.hosts) > MOST_FLOWS {
            let accepted = format!("at most {MOST_FLOWS} flows under way in all");
            let key = format!("{key}.closed.outstanding");
            return Err(WorkloadError::new(&key, closed.outstanding, accepted));
        }
        let targets = self.targets(key, channel, streams, &purpose("pattern"))?;
        let hosts = (0..).zip(targets).map(|(host, targets)| {
            let [destinations, lengths] =
                ["targets", "sizes"].map(|what| streams.stream(&purpose(what), host as usize));
            let targets = targets?.without(host)?;
            Some(LoopHost { targets, destinations, lengths })
        });
        let (class, think, sizes) = (self.class, closed.think, self.sizes(key)?);
        Ok(FlowLoop { group, class, think, end, sizes, hosts: hosts.collect() })
    }

    fn sizes(&self, key: &str) -> Result<SizeLaw, WorkloadError> {
        let key = format!("{key}.sizes");
        let accepted = "sizes of flows, such as \"web_search\"";
        let sizes = self.sizes.as_ref();
        let sizes = sizes.ok_or_else(|| WorkloadError::new(&key, "(none)", accepted))?;
        sizes.build(&key)
    }

    fn drawn(
        &self,
        key: &str,
        channel: &ChannelFacts<'_>,
        end: Time,
    ) -> Result<Drawn, WorkloadError> {
        let accepted = "an offered load, such as 0.5, or closed, such as closed.outstanding = 1";
        let absent = || WorkloadError::new(&format!("{key}.load"), "(none)", accepted);
        let load = self.load.ok_or_else(absent)?;
        let sizes = self.sizes(key)?;
        let bytes_per_ps = channel.packet.0 as f64 / channel.packet_span.0 as f64;
        let mean = sizes.mean() / (bytes_per_ps * load.get());
        let start = Time::ZERO + self.start;
        let expected = end.since(start).0 as f64 / mean * f64::from(channel.hosts);
        if expected > MOST_FLOWS {
            let value = format!("{load}, which are {expected:.0} flows");
            let accepted =
                format!("a load of at most {MOST_FLOWS} flows in a run, or a shorter run");
            return Err(WorkloadError::new(&format!("{key}.load"), value, accepted));
        }
        Ok(Drawn { sizes, mean, start, end })
    }
}

impl Drawn {
    fn one_by_one(
        &self,
        host: u32,
        targets: &Targets,
        [mut times, mut destinations, mut lengths]: [Stream; 3],
        begin: &mut Beginning<'_>,
    ) {
        let mut now = self.start;
        while let Some(next) = self.next(now, self.mean, &mut times) {
            now = next;
            let to = targets.draw(&mut destinations);
            let size = self.sizes.draw(&mut lengths);
            // A pattern may name a host as its own target; a flow to oneself does not enter the
            // network.
            if to != host {
                begin.push(now, host, to, size);
            }
        }
    }

    /// All hosts together offer the load, so that the more senders an incast has, the rarer incasts
    /// are.
    fn incast(
        &self,
        incast: &IncastSettings,
        hosts: u32,
        mut random: Stream,
        begin: &mut Beginning<'_>,
    ) {
        let senders = incast.senders.as_usize();
        let mean = self.mean * incast.senders.get() as f64 / f64::from(hosts);
        let mut now = self.start;
        let mut others: Vec<u32> = Vec::new();
        while let Some(next) = self.next(now, mean, &mut random) {
            now = next;
            let drawn = || random.below(u64::from(hosts)) as u32;
            let to = incast.target.unwrap_or_else(drawn);
            others.clear();
            others.extend((0..hosts).filter(|host| *host != to));
            for place in 0..senders {
                let rest = (others.len() - place) as u64;
                others.swap(place, place + random.below(rest) as usize);
                begin.push(now, others[place], to, self.sizes.draw(&mut random));
            }
        }
    }

    /// When the next flow begins, if one does before the end.
    fn next(&self, now: Time, mean: f64, random: &mut Stream) -> Option<Time> {
        // Without load the mean is infinite.
        let after = Span((random.exponential() * mean) as u64);
        Some(now + after).filter(|next| *next < self.end)
    }
}

#[cfg(test)]
mod tests;
