//! Streams of messages: groups of connections that each carry messages of one size, as fast as they
//! can or at a pace.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Streams;
use weft_units::{Bytes, Load, PositiveCount};

use super::burst::{BurstLaw, BurstLength};
use super::error::{WorkloadError, check_host};
use super::settings::Pair;

/// Settings of a group of streams. Each has a connection of its own, even where two share both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamGroup {
    /// The hosts at its ends.
    pub flows: FlowsSettings,
    /// The size of a message.
    pub size: Bytes,
    /// What each stream offers, as a fraction of what a link carries with messages of this size.
    /// Without a value it is greedy: there is always a message, submitted as soon as a descriptor
    /// is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// How many streams of the group send, the first ones; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// The operation of the descriptors of its streams.
    #[serde(default, skip_serializing_if = "StreamOperation::is_send")]
    pub operation: StreamOperation,
    /// The protection tag of both endpoints of each stream.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tag: u32,
    /// The protection tag of the memory at the target to which RDMA writes go; by default that of
    /// the endpoints. With any other tag the writes are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_tag: Option<u32>,
    /// How many messages a burst has, submitted together; intervals between bursts keep the mean at
    /// the `load`. One message at a time by default. For streams with a `load`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstLength>,
}

/// The operation that a stream of messages requests from its endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamOperation {
    /// Messages go to the buffers of the target's receive descriptors.
    #[default]
    Send,
    /// Messages are written to memory of the target, whose program is not notified.
    RdmaWrite,
    /// Like `rdma_write`, and a receive descriptor notifies the program.
    RdmaWriteImmediate,
}

impl StreamOperation {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            StreamOperation::Send => "send",
            StreamOperation::RdmaWrite => "rdma_write",
            StreamOperation::RdmaWriteImmediate => "rdma_write_immediate",
        }
    }

    /// Whether it is the operation that needs no registered memory at the target.
    pub fn is_send(&self) -> bool {
        *self == StreamOperation::Send
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(tag: &u32) -> bool {
    *tag == 0
}

/// The ends of the streams of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowsSettings {
    /// The pairs, listed one by one.
    Listed(Vec<Pair>),
    /// At random, by the seed of the run (cLAN F: "connections are made between random nodes").
    Random(RandomFlows),
}

/// Settings of random flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomFlows {
    /// The number of streams.
    pub connections: PositiveCount,
    /// The hosts at which they start; each occurs equally often, to within one.
    pub from: HostRange,
    /// The hosts at which they end.
    pub to: HostRange,
    /// Whether each end is drawn independently from `to`, so that several streams may share it,
    /// instead of every host being an end equally often.
    #[serde(default)]
    pub repeated: bool,
}

/// Hosts with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRange {
    /// The first one.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// One stream.
#[derive(Clone, Copy, Debug)]
pub struct MessageStream {
    /// Its group, an index into [`StreamList::groups`].
    pub group: u16,
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// The size of its messages.
    pub size: Bytes,
    /// What it offers; greedy if absent.
    pub load: Option<Load>,
    /// The operation of its descriptors.
    pub operation: StreamOperation,
    /// The protection tag of its endpoints.
    pub tag: u32,
    /// The protection tag of the memory that it writes.
    pub memory_tag: u32,
    /// Its bursts; none without bursts.
    pub burst: Option<BurstLaw>,
}

/// All streams of a channel, those of a group one after another.
#[derive(Clone, Debug, Default)]
pub struct StreamList {
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The streams.
    pub streams: Vec<MessageStream>,
}

pub(super) fn build(
    groups: &BTreeMap<String, StreamGroup>,
    hosts: u32,
    channel: &str,
    streams: &Streams,
) -> Result<StreamList, WorkloadError> {
    let mut list = StreamList::default();
    for (name, group) in groups {
        let number = list.groups.len() as u16;
        list.groups.push(name.clone());
        let key = format!("source.streams.{name}");
        let mut pairs = match &group.flows {
            FlowsSettings::Listed(pairs) => pairs.clone(),
            FlowsSettings::Random(random) => random
                .draw(hosts, &key, || streams.stream(&format!("{channel}.flows.{name}"), 0))?,
        };
        for pair in &pairs {
            check_host(&format!("{key}.flows.from"), pair.from, hosts)?;
            check_host(&format!("{key}.flows.to"), pair.to, hosts)?;
        }
        if group.load.is_some_and(|load| load.get() == 0.0) {
            pairs.clear();
        }
        pairs.truncate(group.first.map_or(usize::MAX, |first| first as usize));
        if group.burst.is_some() && group.load.is_none() {
            let accepted = "no bursts without a load: a greedy stream has no pauses";
            return Err(WorkloadError::new(&format!("{key}.burst"), "given", accepted));
        }
        let burst = group.burst.as_ref().map(|own| own.law(&format!("{key}.burst")));
        let burst = burst.transpose()?;
        let of_pair = |Pair { from, to }| MessageStream {
            group: number,
            from,
            to,
            size: group.size,
            load: group.load,
            operation: group.operation,
            tag: group.tag,
            memory_tag: group.memory_tag.unwrap_or(group.tag),
            burst,
        };
        list.streams.extend(pairs.into_iter().map(of_pair));
    }
    Ok(list)
}

impl RandomFlows {
    fn draw(
        &self,
        hosts: u32,
        key: &str,
        random: impl FnOnce() -> weft_kernel::Stream,
    ) -> Result<Vec<Pair>, WorkloadError> {
        for (end, range) in [("from", self.from), ("to", self.to)] {
            let last = u64::from(range.first) + u64::from(range.count);
            if range.count == 0 || last > u64::from(hosts) {
                let value = format!("{{ first = {}, count = {} }}", range.first, range.count);
                let accepted = format!("one or more hosts below {hosts}");
                return Err(WorkloadError::new(
                    &format!("{key}.flows.random.{end}"),
                    value,
                    accepted,
                ));
            }
        }
        let mut random = random();
        let count = self.connections.as_usize();
        let from = rounds(self.from, count, &mut random);
        let to = match self.repeated {
            true => (0..count)
                .map(|_| self.to.first + random.below(u64::from(self.to.count)) as u32)
                .collect(),
            false => rounds(self.to, count, &mut random),
        };
        Ok(from.into_iter().zip(to).map(|(from, to)| Pair { from, to }).collect())
    }
}

/// This many hosts of a range: all of them in random order, then all again, until there are enough.
fn rounds(range: HostRange, count: usize, random: &mut weft_kernel::Stream) -> Vec<u32> {
    let mut hosts = Vec::with_capacity(count);
    while hosts.len() < count {
        let mut round: Vec<u32> = (range.first..range.first + range.count).collect();
        for last in (1..round.len()).rev() {
            round.swap(last, random.below(last as u64 + 1) as usize);
        }
        hosts.extend(round);
    }
    hosts.truncate(count);
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(repeated: bool) -> Vec<Pair> {
        let flows = RandomFlows {
            connections: PositiveCount::new(32).expect("a count"),
            from: HostRange { first: 0, count: 32 },
            to: HostRange { first: 32, count: 32 },
            repeated,
        };
        flows.draw(64, "k", || Streams::new(7).stream("flows", 0)).expect("flows")
    }

    fn greedy(flows: FlowsSettings) -> StreamGroup {
        StreamGroup {
            flows,
            size: Bytes(4),
            load: None,
            first: None,
            operation: StreamOperation::Send,
            tag: 0,
            memory_tag: None,
            burst: None,
        }
    }

    #[test]
    fn bursts_of_a_greedy_stream_are_refused() {
        let flows = FlowsSettings::Listed(vec![Pair { from: 0, to: 1 }]);
        let burst = Some(BurstLength::Fixed(PositiveCount::ONE));
        let groups = BTreeMap::from([("one".to_owned(), StreamGroup { burst, ..greedy(flows) })]);
        let refused = build(&groups, 4, "c", &Streams::new(1));
        let refused = refused.map(drop).map_err(|error| error.to_string());
        let expected = "source.streams.one.burst = given: accepted is no bursts without a load: a \
                        greedy stream has no pauses";
        assert_eq!(refused, Err(expected.to_owned()));
    }

    #[test]
    fn random_flows_use_every_end_once() {
        let mut pairs = drawn(false);
        assert_ne!(pairs[0].to - pairs[0].from, pairs[1].to - pairs[1].from);
        pairs.sort_by_key(|pair| pair.from);
        assert!(pairs.iter().zip(0..).all(|(pair, host)| pair.from == host));
        pairs.sort_by_key(|pair| pair.to);
        assert!(pairs.iter().zip(32..).all(|(pair, host)| pair.to == host));
    }

    #[test]
    fn repeated_ends_leave_some_host_out() {
        let mut ends: Vec<u32> = drawn(true).iter().map(|pair| pair.to).collect();
        ends.sort_unstable();
        ends.dedup();
        assert!(ends.len() < 32 && ends.iter().all(|host| (32..64).contains(host)));
    }

    #[test]
    fn only_the_first_streams_of_a_group_send() {
        let pair = |from, to| Pair { from, to };
        let flows = FlowsSettings::Listed(vec![pair(0, 1), pair(2, 1), pair(3, 1)]);
        let group = StreamGroup { first: Some(2), ..greedy(flows) };
        let groups = BTreeMap::from([("one".to_owned(), group)]);
        let list = build(&groups, 4, "c", &Streams::new(1)).expect("streams");
        assert_eq!((list.groups, list.streams.len()), (vec!["one".to_owned()], 2));
    }

    #[test]
    fn hosts_that_are_not_there_are_refused() {
        let flows = FlowsSettings::Listed(vec![Pair { from: 0, to: 9 }]);
        let groups = BTreeMap::from([("one".to_owned(), greedy(flows))]);
        let refused = build(&groups, 4, "c", &Streams::new(1));
        let refused = refused.map(drop).map_err(|error| error.to_string());
        let expected = "source.streams.one.flows.to = 9: accepted is a host, below 4";
        assert_eq!(refused, Err(expected.to_owned()));
    }
}
