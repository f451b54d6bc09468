//! Traffic patterns: the targets of each host.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weft_kernel::{Stream, Streams};
use weft_units::Fraction;

use super::error::{WorkloadError, check_host};

/// The targets of each host. A pattern that fixes the targets may name a host as its own target;
/// the packet then passes the switch like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PatternSettings {
    /// Each packet goes to any other host, equally likely.
    Uniform {
        /// Whether the initiator is among the targets, as in most studies of bare switches.
        #[serde(default)]
        self_included: bool,
    },
    /// Each host sends to one host only, and each receives from one.
    Permutation(PermutationSettings),
    /// One host is more popular (Pfister and Norton, IEEE Trans. Comput. 34(10) 1985): this
    /// fraction of the packets goes to it, and the rest goes to all other hosts alike, the popular
    /// one included. The popular host itself sends to all others alike.
    HotSpot {
        /// The popular host.
        target: u32,
        /// The fraction of the packets of each other host that is addressed to it specifically.
        fraction: Fraction,
    },
    /// Fixed flows. Each host at which flows start offers the whole load, divided among its flows
    /// by their weights; other hosts send nothing.
    Flows(Vec<Flow>),
    /// Host `h` sends to host `h + n` modulo the number of hosts.
    Shift(u32),
    /// Host `h` sends to the host whose number is the bitwise complement. The number of hosts must
    /// be a power of two.
    BitComplement,
}

/// Traffic from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// Its weight among the flows from the same host; only ratios count. Above 0.
    #[serde(default = "whole_share")]
    pub share: f64,
}

/// A list with the target of each host, or nothing: one of the permutations in which no host sends
/// to itself, all equally likely, by the seed of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PermutationSettings(pub Option<Vec<u32>>);

/// The targets of one host.
#[derive(Clone, Debug)]
pub(super) enum Targets {
    Fixed(u32),
    Any { hosts: u32 },
    Others { host: u32, others: u32 },
    HotSpot { target: u32, fraction: f64, host: u32, others: u32 },
    Shares(Box<[Share]>),
}

/// One of several targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The sum of the shares up to this one, over the sum of all.
    up_to: f64,
    target: u32,
}

fn whole_share() -> f64 {
    1.0
}

impl Default for PatternSettings {
    fn default() -> PatternSettings {
        PatternSettings::Uniform { self_included: false }
    }
}

impl PatternSettings {
    /// The targets of each host, `None` for hosts that send nothing. Only a random permutation
    /// draws from `streams`, under a name of this channel.
    pub(super) fn build(
        &self,
        hosts: u32,
        streams: &Streams,
        channel: &str,
    ) -> Result<Vec<Option<Targets>>, WorkloadError> {
        let others = hosts.saturating_sub(1);
        let fixed = |target: &dyn Fn(u32) -> u32| {
            Ok((0..hosts).map(|host| Some(Targets::Fixed(target(host)))).collect())
        };
        match self {
            PatternSettings::Uniform { self_included: true } => {
                Ok(vec![Some(Targets::Any { hosts }); hosts as usize])
            }
            PatternSettings::Uniform { self_included: false } if others > 0 => {
                Ok((0..hosts).map(|host| Some(Targets::Others { host, others })).collect())
            }
            PatternSettings::Permutation(PermutationSettings(Some(targets))) => {
                permutation(targets, hosts)
            }
            PatternSettings::Permutation(PermutationSettings(None)) if others > 0 => {
                let purpose = format!("{channel}.permutation");
                let targets = derangement(hosts, &mut streams.stream(&purpose, 0));
                fixed(&|host| targets[host as usize])
            }
            PatternSettings::HotSpot { target, fraction } if others > 0 => {
                check_host("pattern.hot_spot.target", *target, hosts)?;
                let (target, fraction) = (*target, fraction.get());
                let targets = |host| match host == target {
                    true => Targets::Others { host, others },
                    false => Targets::HotSpot { target, fraction, host, others },
                };
                Ok((0..hosts).map(|host| Some(targets(host))).collect())
            }
            PatternSettings::Flows(flows) => by_flows(flows, hosts),
            PatternSettings::Shift(by) => {
                let shifted = |host| (u64::from(host) + u64::from(*by)) % u64::from(hosts);
                fixed(&|host| shifted(host) as u32)
            }
            PatternSettings::BitComplement if hosts.is_power_of_two() => {
                fixed(&|host| !host & (hosts - 1))
            }
            PatternSettings::BitComplement => {
                let value = format!("bit_complement among {hosts} hosts");
                Err(WorkloadError::new("pattern", value, "a number of hosts that is 2^n"))
            }
            _ => {
                let accepted = "at least 2 hosts, or { uniform = { self_included = true } }";
                Err(WorkloadError::new("pattern", "other targets among 1 host", accepted))
            }
        }
    }
}

fn permutation(targets: &[u32], hosts: u32) -> Result<Vec<Option<Targets>>, WorkloadError> {
    let mut sorted = targets.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..hosts) {
        let accepted = format!("each host below {hosts} once");
        return Err(WorkloadError::new("pattern.permutation", format!("{targets:?}"), accepted));
    }
    Ok(targets.iter().map(|target| Some(Targets::Fixed(*target))).collect())
}

/// A permutation that leaves no host in its place. Of all permutations, more than a third are such
/// (1/e), so that a few tries find one, and trying keeps them equally likely.
fn derangement(hosts: u32, random: &mut Stream) -> Vec<u32> {
    let mut targets: Vec<u32> = (0..hosts).collect();
    loop {
        for last in (1..targets.len()).rev() {
            targets.swap(last, random.below(last as u64 + 1) as usize);
        }
        if targets.iter().zip(0..hosts).all(|(target, host)| *target != host) {
            return targets;
        }
    }
}

fn by_flows(flows: &[Flow], hosts: u32) -> Result<Vec<Option<Targets>>, WorkloadError> {
    if flows.is_empty() {
        return Err(WorkloadError::new("pattern.flows", "[]", "at least one flow"));
    }
    let mut shares = vec![Vec::new(); hosts as usize];
    for flow in flows {
        check_host("pattern.flows.from", flow.from, hosts)?;
        check_host("pattern.flows.to", flow.to, hosts)?;
        if !(flow.share > 0.0 && flow.share.is_finite()) {
            let accepted = "a number above 0";
            return Err(WorkloadError::new("pattern.flows.share", flow.share, accepted));
        }
        shares[flow.from as usize].push((flow.share, flow.to));
    }
    Ok(shares.into_iter().map(|shares| of_shares(&shares)).collect())
}

fn of_shares(shares: &[(f64, u32)]) -> Option<Targets> {
    let whole: f64 = shares.iter().map(|(share, _)| share).sum();
    let mut sum = 0.0;
    match shares {
        [] => None,
        [(_, target)] => Some(Targets::Fixed(*target)),
        several => Some(Targets::Shares(
            several
                .iter()
                .map(|(share, target)| {
                    sum += share;
                    Share { up_to: sum / whole, target: *target }
                })
                .collect(),
        )),
    }
}

impl Targets {
    /// Returns these targets without `host`, whose share goes to the others; `None` if no other is
    /// left.
    pub fn without(self, host: u32) -> Option<Targets> {
        match self {
            Targets::Fixed(target) => (target != host).then_some(Targets::Fixed(target)),
            Targets::Any { hosts } => {
                let others = hosts - 1;
                (others > 0).then_some(Targets::Others { host, others })
            }
            Targets::Shares(shares) => {
                let mut before = 0.0;
                let each = shares.iter().map(|share| {
                    (share.target, share.up_to - std::mem::replace(&mut before, share.up_to))
                });
                let kept: Vec<_> = each.filter(|(target, _)| *target != host).collect();
                let all: f64 = kept.iter().map(|(_, share)| share).sum();
                let mut up_to = 0.0;
                let shares = kept.into_iter().map(|(target, share)| {
                    up_to += share / all;
                    Share { up_to, target }
                });
                let shares: Box<[Share]> = shares.collect();
                (!shares.is_empty()).then_some(Targets::Shares(shares))
            }
            others @ (Targets::Others { .. } | Targets::HotSpot { .. }) => Some(others),
        }
    }

    /// The target of the next packet or burst.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> u32 {
        match self {
            Targets::Fixed(target) => *target,
            Targets::Any { hosts } => random.below((*hosts).into()) as u32,
            Targets::Others { host, others } => other(*host, *others, random),
            Targets::HotSpot { target, fraction, host, others } => {
                if random.chance(*fraction) {
                    *target
                } else {
                    other(*host, *others, random)
                }
            }
            Targets::Shares(shares) => {
                let place = random.unit();
                // The last share ends at 1, and no draw is above it.
                let index = shares.partition_point(|share| share.up_to < place);
                shares[index.min(shares.len() - 1)].target
            }
        }
    }

    /// The targets of the next packets. The pattern is looked at once for all of them.
    #[inline]
    pub fn draw_all(&self, targets: &mut [u32], random: &mut Stream) {
        match self {
            Targets::Any { hosts } => {
                let hosts = u64::from(*hosts);
                targets.iter_mut().for_each(|target| *target = random.below(hosts) as u32);
            }
            Targets::Others { host, others } => {
                let (host, others) = (*host, *others);
                targets.iter_mut().for_each(|target| *target = other(host, others, random));
            }
            Targets::Fixed(_) | Targets::HotSpot { .. } | Targets::Shares(_) => {
                targets.iter_mut().for_each(|target| *target = self.draw(random));
            }
        }
    }
}

/// Any host but this one.
#[inline]
fn other(host: u32, others: u32, random: &mut Stream) -> u32 {
    let other = random.below(others.into()) as u32;
    if other >= host { other + 1 } else { other }
}

impl Serialize for PermutationSettings {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(targets) => targets.serialize(s),
            // An empty table: the name of the variant alone.
            None => s.collect_map(std::iter::empty::<(u8, u8)>()),
        }
    }
}

impl<'de> Deserialize<'de> for PermutationSettings {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PermutationSettings, D::Error> {
        struct PermutationVisitor;

        impl<'de> Visitor<'de> for PermutationVisitor {
            type Value = PermutationSettings;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"permutation\", or a list with the target of each host")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut targets = Vec::new();
                while let Some(target) = seq.next_element()? {
                    targets.push(target);
                }
                Ok(PermutationSettings(Some(targets)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                match map.next_key::<String>()? {
                    Some(key) => Err(serde::de::Error::unknown_field(&key, &[])),
                    None => Ok(PermutationSettings(None)),
                }
            }
        }

        d.deserialize_any(PermutationVisitor)
    }
}

impl JsonSchema for PermutationSettings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PermutationSettings".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let target = json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
        json_schema!({ "anyOf": [
            { "type": "object", "additionalProperties": false },
            { "type": "array", "items": target },
        ]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: u32 = 16;
    const DRAWS: u64 = 60_000;

    fn streams() -> Streams {
        Streams::new(5)
    }

    fn built(pattern: &PatternSettings, hosts: u32) -> Vec<Option<Targets>> {
        pattern.build(hosts, &streams(), "bulk").unwrap()
    }

    fn counts(targets: &Targets, host: u32) -> Vec<u64> {
        let mut random = streams().stream("bulk.targets", host as usize);
        let mut counts = vec![0; HOSTS as usize];
        for _ in 0..DRAWS {
            counts[targets.draw(&mut random) as usize] += 1;
        }
        counts
    }

    /// Chi-square of counts against shares of the draws; a share of nothing must be met exactly.
    fn chi_square(counts: &[u64], shares: &[f64]) -> f64 {
        let all = counts.iter().sum::<u64>() as f64;
        let term = |(count, share): (&u64, &f64)| {
            let expected = all * share;
            let deviation = *count as f64 - expected;
            if deviation == 0.0 { 0.0 } else { deviation * deviation / expected }
        };
        counts.iter().zip(shares).map(term).sum()
    }

    /// 16 hosts: at most 15 degrees of freedom, where 37.7 is passed once in a thousand.
    const CHI_SQUARE_BOUND: f64 = 37.7;

    #[test]
    fn targets_have_the_shares_of_their_pattern() {
        let hot = Fraction::new(0.2).unwrap();
        let without_self = |host: usize, each: f64| {
            let mut shares = vec![each; HOSTS as usize];
            shares[host] = 0.0;
            shares
        };
        for host in [0_usize, 7, 15] {
            let mut spot = without_self(host, 0.8 / 15.0);
            spot[3] += 0.2;
            let cases = [
                (PatternSettings::Uniform { self_included: true }, vec![1.0 / 16.0; 16]),
                (PatternSettings::default(), without_self(host, 1.0 / 15.0)),
                (PatternSettings::HotSpot { target: 3, fraction: hot }, spot),
            ];
            for (pattern, shares) in cases {
                let targets = built(&pattern, HOSTS)[host].clone().unwrap();
                let chi_square = chi_square(&counts(&targets, host as u32), &shares);
                assert!(chi_square < CHI_SQUARE_BOUND, "{pattern:?}, {host}: {chi_square}");
            }
        }
        let pattern = PatternSettings::HotSpot { target: 3, fraction: hot };
        let own = counts(built(&pattern, HOSTS)[3].as_ref().unwrap(), 3);
        assert!(chi_square(&own, &without_self(3, 1.0 / 15.0)) < CHI_SQUARE_BOUND);
    }

    #[test]
    fn flows_keep_their_shares_and_other_hosts_are_silent() {
        let flow = |from, to, share| Flow { from, to, share };
        let flows = vec![flow(0, 1, 1.0), flow(0, 2, 3.0), flow(4, 0, 0.1), flow(0, 5, 4.0)];
        let targets = built(&PatternSettings::Flows(flows), HOSTS);
        let sending: Vec<usize> = (0..16).filter(|host| targets[*host].is_some()).collect();
        assert_eq!(sending, [0, 4]);
        let mut shares = vec![0.0; 16];
        (shares[1], shares[2], shares[5]) = (0.125, 0.375, 0.5);
        let chi_square = chi_square(&counts(targets[0].as_ref().unwrap(), 0), &shares);
        assert!(chi_square < CHI_SQUARE_BOUND, "{chi_square}");
        assert_eq!(counts(targets[4].as_ref().unwrap(), 4)[0], DRAWS);
    }

    fn fixed(pattern: &PatternSettings, hosts: u32, seed: u64) -> Vec<u32> {
        let targets = pattern.build(hosts, &Streams::new(seed), "bulk").unwrap();
        let mut random = streams().stream("unused", 0);
        targets.iter().map(|targets| targets.as_ref().unwrap().draw(&mut random)).collect()
    }

    #[test]
    fn patterns_that_fix_the_targets() {
        assert_eq!(fixed(&PatternSettings::Shift(3), 5, 1), [3, 4, 0, 1, 2]);
        assert_eq!(fixed(&PatternSettings::BitComplement, 8, 1), [7, 6, 5, 4, 3, 2, 1, 0]);
        let listed = PatternSettings::Permutation(PermutationSettings(Some(vec![2, 1, 0])));
        assert_eq!(fixed(&listed, 3, 1), [2, 1, 0]);
    }

    /// All nine derangements of four hosts come up, each about as often.
    #[test]
    fn a_random_permutation_is_any_derangement() {
        let pattern = PatternSettings::Permutation(PermutationSettings::default());
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..1_800 {
            *seen.entry(fixed(&pattern, 4, seed)).or_insert(0_u64) += 1;
        }
        assert!(seen.keys().all(|targets| targets.iter().zip(0..).all(|(to, from)| *to != from)));
        let counts: Vec<u64> = seen.into_values().collect();
        assert_eq!(counts.len(), 9);
        // Eight degrees of freedom: 26.1 is passed once in a thousand.
        assert!(chi_square(&counts, &[1.0 / 9.0; 9]) < 26.1, "{counts:?}");
        assert_eq!(fixed(&pattern, 64, 7), fixed(&pattern, 64, 7));
        assert_ne!(fixed(&pattern, 64, 7), fixed(&pattern, 64, 8));
    }

    #[test]
    fn patterns_that_do_not_fit_the_hosts_are_refused() {
        let error = |pattern: PatternSettings, hosts| {
            pattern.build(hosts, &streams(), "bulk").unwrap_err().to_string()
        };
        let one = vec![Flow { from: 0, to: 9, share: 1.0 }];
        let none = vec![Flow { from: 0, to: 1, share: 0.0 }];
        let twice = PermutationSettings(Some(vec![0, 0]));
        let texts = [
            error(PatternSettings::default(), 1),
            error(PatternSettings::BitComplement, 6),
            error(PatternSettings::HotSpot { target: 4, fraction: Fraction::default() }, 4),
            error(PatternSettings::Flows(one), 4),
            error(PatternSettings::Flows(none), 4),
            error(PatternSettings::Flows(Vec::new()), 4),
            error(PatternSettings::Permutation(twice), 2),
        ];
        let expected = [
            "pattern = other targets among 1 host: accepted is at least 2 hosts, or \
             { uniform = { self_included = true } }",
            "pattern = bit_complement among 6 hosts: accepted is a number of hosts that is 2^n",
            "pattern.hot_spot.target = 4: accepted is a host, below 4",
            "pattern.flows.to = 9: accepted is a host, below 4",
            "pattern.flows.share = 0: accepted is a number above 0",
            "pattern.flows = []: accepted is at least one flow",
            "pattern.permutation = [0, 0]: accepted is each host below 2 once",
        ];
        assert_eq!(texts, expected);
    }
}
