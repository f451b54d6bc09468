//! Oversubscription: the rate of the hosts of a leaf relative to the rate of its cables up.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_units::Rate;

use super::cable::CableSettings;
use super::error::FabricError;

/// A ratio, written "3:1": the links of a leaf's hosts have three times the rate of its links up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscription {
    hosts: u32,
    up: u32,
}

/// Larger terms than this are taken for a mistake.
const LARGEST: u32 = 1_000_000;

/// The ratio of hosts to cables up that an oversubscription and the rates of both require.
pub(super) struct Uplinks {
    asked: Oversubscription,
    rates: [Rate; 2],
    /// This many hosts need this many cables up, in lowest terms.
    share: [u128; 2],
}

impl Uplinks {
    /// `links` are the settings of the tiers, `rate` is the rate of cables without their own.
    pub fn new(asked: Oversubscription, links: &[CableSettings], rate: Rate) -> Uplinks {
        let rates = [0, 1].map(|tier: usize| links.get(tier).and_then(|own| own.rate));
        let rates = rates.map(|own| own.unwrap_or(rate));
        let [hosts, up] = relative(rates);
        let share = product([asked.hosts.into(), asked.up.into()], [up, hosts]);
        Uplinks { asked, rates, share }
    }

    /// The spines of leaves with this many hosts.
    pub fn of_hosts(&self, hosts: u32, key: &str) -> Result<u32, FabricError> {
        let [of, cables] = self.share;
        // The terms have no common divisor, so that the rest of this one divides nothing.
        let [times, of] = lowest([hosts.into(), of]);
        let needed = cables.saturating_mul(times);
        if of == 1 {
            // More than a leaf has ports are refused as such.
            return Ok(u32::try_from(needed).unwrap_or(u32::MAX));
        }
        let like = |spines: u128| self.made(hosts.into(), spines);
        let [host, up] = self.rates;
        let what = format!(
            "spines: of {hosts} hosts at {host} and cables at {up} to spines, {} would need {}",
            self.asked,
            mixed(needed, of),
        );
        Err(self.refuse(key, &what, needed / of, u128::MAX, like))
    }

    /// The ports up of a leaf with this many ports in all.
    pub fn of_radix(&self, ports: u32, key: &str) -> Result<u32, FabricError> {
        let ports = u128::from(ports);
        let [hosts, cables] = self.share;
        let [times, of] = lowest([ports, hosts.saturating_add(cables)]);
        let needed = cables.saturating_mul(times);
        if of == 1 {
            // There are at most as many as ports.
            return Ok(needed as u32);
        }
        let like = |up: u128| self.made(ports - up, up);
        let [host, up] = self.rates;
        let what = format!(
            "ports up: of {ports} ports of a leaf, with hosts at {host} and cables up at {up}, {} \
             would need {}",
            self.asked,
            mixed(needed, of),
        );
        Err(self.refuse(key, &what, needed / of, ports - 1, like))
    }

    /// The spines, which are given, too.
    pub fn check(&self, hosts: u32, spines: u32, key: &str) -> Result<u32, FabricError> {
        if self.of_hosts(hosts, key) == Ok(spines) {
            return Ok(spines);
        }
        let [host, up] = self.rates;
        let accepted = format!(
            "{}, which is what {hosts} hosts at {host} and {spines} spines at {up} make, or one of \
             `spines` and `oversubscription` alone",
            self.made(hosts.into(), spines.into())
        );
        Err(FabricError::new(key, self.asked, accepted))
    }

    /// The ratio of this many hosts and this many cables up.
    fn made(&self, hosts: u128, cables: u128) -> String {
        let [hosts, up] = product(relative(self.rates), [hosts, cables]);
        format!("{hosts}:{up}")
    }

    /// The refusal of a part of a cable, with the ratios of the whole numbers on both sides of it.
    fn refuse(
        &self,
        key: &str,
        what: &str,
        below: u128,
        most: u128,
        like: impl Fn(u128) -> String,
    ) -> FabricError {
        let near = [below, below.saturating_add(1)].into_iter();
        let near = near.filter(|cables| (1..=most).contains(cables));
        let near: Vec<String> =
            near.map(|cables| format!("{} with {cables}", like(cables))).collect();
        let accepted = format!("a ratio with whole {what}; nearest are {}", near.join(" and "));
        FabricError::new(key, self.asked, accepted)
    }
}

/// Two rates in relation to each other, in lowest terms.
fn relative([one, other]: [Rate; 2]) -> [u128; 2] {
    let [one, other] = [one, other].map(|rate| [rate.bits().into(), rate.per().into()]);
    product(one, [other[1], other[0]])
}

/// The product of two fractions in lowest terms. Terms beyond 128 bits, which no number of cables
/// makes whole, become the largest there is.
fn product(one: [u128; 2], other: [u128; 2]) -> [u128; 2] {
    let ([a, b], [c, d]) = (lowest(one), lowest(other));
    let ([a, d], [c, b]) = (lowest([a, d]), lowest([c, b]));
    [a.saturating_mul(c), b.saturating_mul(d)]
}

fn lowest([over, under]: [u128; 2]) -> [u128; 2] {
    let (mut divisor, mut rest) = (over, under);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    [over / divisor.max(1), under / divisor.max(1)]
}

/// A fraction as people write it: "2 2/3".
fn mixed(over: u128, under: u128) -> String {
    let [rest, part] = lowest([over % under, under]);
    match over / under {
        0 => format!("{rest}/{part}"),
        whole => format!("{whole} {rest}/{part}"),
    }
}

impl fmt::Display for Oversubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.hosts, self.up)
    }
}

impl FromStr for Oversubscription {
    type Err = String;

    fn from_str(text: &str) -> Result<Oversubscription, String> {
        let term =
            |text: &str| text.trim().parse().ok().filter(|term| (1..=LARGEST).contains(term));
        let ratio = text
            .split_once(':')
            .and_then(|(hosts, up)| Some(Oversubscription { hosts: term(hosts)?, up: term(up)? }));
        ratio.ok_or_else(|| {
            format!(
                "`{text}` is no ratio; accepted: two whole numbers from 1 to {LARGEST}, such as \
                 \"3:1\""
            )
        })
    }
}

impl Serialize for Oversubscription {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Oversubscription {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Oversubscription, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Oversubscription {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Oversubscription".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": "^[0-9]+ *: *[0-9]+$", "x-unit": "", "examples": ["3:1"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FabricSettings, Wiring};
    use super::*;

    /// Of the channel: 1 Gbit/s.
    const RATE: Rate = Rate::from_ratio(1, 1000);

    fn fabric(text: &str) -> FabricSettings {
        toml::from_str(text).expect(text)
    }

    fn wiring(text: &str, hosts: u16) -> Wiring {
        fabric(text).wiring(hosts, RATE).expect(text)
    }

    fn refusal(text: &str, hosts: u16) -> String {
        fabric(text).wiring(hosts, RATE).expect_err(text).to_string()
    }

    /// Of the 8 ports of a leaf 6 lead to hosts and 2 up. Each of the 8 pods has 4 leaves and 2 middle
    /// switches, whose 4 ports up lead to a core of 8.
    #[test]
    fn leaves_of_a_fat_tree_have_fewer_ports_up() {
        let text = "fat_tree = { radix = 8, tiers = 3, oversubscription = '3:1' }";
        let wiring = wiring(text, 192);
        let up = |first: &[String]| {
            let hosts = (30..36).map(|host| format!("host {host}"));
            hosts.chain(first.iter().cloned()).collect::<Vec<_>>()
        };
        let middles = ["port 1 of switch 1.2", "port 1 of switch 1.3"].map(str::to_owned);
        assert_eq!(wiring.plugged("0.5"), up(&middles));
        let leaves = (4..8).map(|leaf| format!("port 7 of switch 0.{leaf}"));
        let cores = (4..8).map(|core| format!("port 1 of switch 2.{core}"));
        assert_eq!(wiring.plugged("1.3"), leaves.chain(cores).collect::<Vec<_>>());
        let pods = (0..8).map(|pod| format!("port 7 of switch 1.{}", 2 * pod + 1));
        assert_eq!(wiring.plugged("2.7"), pods.collect::<Vec<_>>());
        assert_eq!(fabric(text).room(RATE), Some(192));
    }

    /// Hosts of a leaf times their rate over spines times theirs, where the channel has 1 Gbit/s.
    #[test]
    fn rates_count_in_an_oversubscription() {
        let spines = |hosts: u16, settings: &str| {
            let text =
                format!("leaf_spine = {{ leaves = 2, hosts_per_leaf = {hosts}, {settings} }}");
            wiring(&text, 2 * hosts).switches() - 2
        };
        assert_eq!(spines(12, "oversubscription = '3:1'"), 4);
        assert_eq!(spines(12, "oversubscription = '3:2'"), 8);
        assert_eq!(spines(12, "oversubscription = '6:8'"), 16);
        let fast = "links = [{}, { rate = '4 Gbit/s' }]";
        assert_eq!(spines(12, &format!("oversubscription = '3:1', {fast}")), 1);
        assert_eq!(spines(12, &format!("oversubscription = '3:1', spines = 1, {fast}")), 1);
        let both = "links = [{ rate = '2.5 Gbit/s' }, { rate = '10 Gbit/s' }]";
        assert_eq!(spines(12, &format!("oversubscription = '1:1', {both}")), 3);
        assert_eq!(spines(6, "oversubscription = '3:1', links = [{ rate = '2 Gbit/s' }]"), 4);
        // Of 10 ports 8 hosts at 1 Gbit/s are to 2 cables up at 4 Gbit/s as 1 to 1.
        let text =
            format!("fat_tree = {{ radix = 10, tiers = 2, oversubscription = '1:1', {fast} }}");
        assert_eq!(wiring(&text, 80).switches(), 12);
    }

    #[test]
    fn what_makes_no_whole_number_is_refused_with_the_nearest_ratios() {
        let cases = [
            (
                refusal("leaf_spine = { hosts_per_leaf = 2, leaves = 3 }", 6),
                "fabric.leaf_spine.spines = (none): accepted is a number of spines, or an \
             oversubscription such as \"3:1\"",
            ),
            (
                refusal(
                    "leaf_spine = { hosts_per_leaf = 8, leaves = 3, oversubscription = '3:1' }",
                    6,
                ),
                "fabric.leaf_spine.oversubscription = 3:1: accepted is a ratio with whole spines: of 8 \
             hosts at 1 Gbit/s and cables at 1 Gbit/s to spines, 3:1 would need 2 2/3; nearest are \
             4:1 with 2 and 8:3 with 3",
            ),
            (
                refusal(
                    "leaf_spine = { hosts_per_leaf = 2, leaves = 3, oversubscription = '3:1' }",
                    6,
                ),
                "fabric.leaf_spine.oversubscription = 3:1: accepted is a ratio with whole spines: of 2 \
             hosts at 1 Gbit/s and cables at 1 Gbit/s to spines, 3:1 would need 2/3; nearest are \
             2:1 with 1",
            ),
            (
                refusal(
                    "leaf_spine = { hosts_per_leaf = 8, leaves = 3, spines = 2, \
                 oversubscription = '3:1', links = [{}, { rate = '2 Gbit/s' }] }",
                    6,
                ),
                "fabric.leaf_spine.oversubscription = 3:1: accepted is 2:1, which is what 8 hosts at 1 \
             Gbit/s and 2 spines at 2 Gbit/s make, or one of `spines` and `oversubscription` alone",
            ),
            (
                refusal("fat_tree = { radix = 8, tiers = 2, oversubscription = '2:1' }", 6),
                "fabric.fat_tree.oversubscription = 2:1: accepted is a ratio with whole ports up: of 8 \
             ports of a leaf, with hosts at 1 Gbit/s and cables up at 1 Gbit/s, 2:1 would need \
             2 2/3; nearest are 3:1 with 2 and 5:3 with 3",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_ratio_is_two_whole_numbers() {
        let ratio: Oversubscription = " 3 : 1".parse().unwrap();
        assert_eq!(ratio.to_string(), "3:1");
        for text in ["3", "3:0", "0:1", "1.5:1", "-3:1", "3:1:1", "1000001:1", "", ":", "3 to 1"] {
            let error = text.parse::<Oversubscription>().unwrap_err();
            assert_eq!(
                error,
                format!(
                    "`{text}` is no ratio; accepted: two whole numbers from 1 to 1000000, such as \
                     \"3:1\""
                )
            );
        }
    }

    /// Terms beyond 128 bits make no number of cables whole.
    #[test]
    fn rates_without_a_common_measure_are_refused() {
        let rate = |bits| Rate::from_ratio(bits, u64::MAX - 58);
        let own = |rate| CableSettings { rate: Some(rate), ..CableSettings::default() };
        let links = [own(rate(u64::MAX - 82)), own(Rate::from_ratio(u64::MAX - 94, u64::MAX))];
        let asked = Oversubscription { hosts: 999_983, up: 999_979 };
        let uplinks = Uplinks::new(asked, &links, rate(1));
        assert!(uplinks.of_hosts(65_536, "key").is_err());
        assert!(uplinks.of_radix(65_536, "key").is_err());
        assert!(uplinks.check(65_536, 65_536, "key").is_err());
    }
}
