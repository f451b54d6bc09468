//! `HyperX`: switches at the positions of a lattice, each with cables to every other of its row in
//! every dimension (Ahn, Binkert, Davis, McLaren and Schreiber, "HyperX: topology, routing, and
//! packaging of efficient large-scale networks", SC 2009). One dimension is a complete graph,
//! dimensions of two a hypercube, and two alike a flattened butterfly.
//!
//! A minimal route has one cable in each dimension in which the positions of its ends differ. If
//! packets take the dimensions in order, buffers cannot form a cycle. In any order they need a
//! virtual channel for each dimension: a packet uses the next one with each cable, and the last one
//! on its last cable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

use super::cable::CableSettings;
use super::error::FabricError;
use super::next_hops::{Choice, NextHops};
use super::pairs::SwitchPort;
use super::torus::{Extent, MOST_SWITCHES};
use super::tree::check_tiers;
use super::wiring::Wiring;
use super::{MOST_PORTS, MOST_PORTS_OF_A_SWITCH};

/// Settings of a `HyperX`: in the letters of Ahn et al. `L` dimensions of `S` switches, `K` cables
/// between each two of a row, and `T` hosts at every switch.
///
/// A switch is named by its places in all dimensions: `3.0`. Its first ports are those of its
/// hosts; then come, dimension by dimension, those to the other switches of its row in their order,
/// parallel cables side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HyperXSettings {
    /// How many switches there are along each dimension (S), 2 or more.
    pub dimensions: Vec<Extent>,
    /// Hosts at every switch (T).
    #[serde(default = "one")]
    pub hosts_per_switch: PositiveCount,
    /// Cables between two switches of a row (K), one number for each dimension; one cable by
    /// default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parallel_cables: Vec<PositiveCount>,
    /// In which order a packet takes its dimensions.
    #[serde(default)]
    pub order: DimensionOrder,
    /// How the cables of each tier differ from the `link` of the channel: first those of the hosts,
    /// then those of each dimension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

/// Which of the minimal routes through a `HyperX` packets may choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DimensionOrder {
    /// In the listed order: routes differ only in parallel cables, and any number of virtual
    /// channels is enough.
    #[default]
    Listed,
    /// Any order, so that every minimal route is possible. Buffers of limited size need a virtual
    /// channel for each dimension.
    Any,
}

fn one() -> PositiveCount {
    PositiveCount::ONE
}

/// One dimension of a `HyperX`.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    switches: u32,
    /// Parallel cables between two switches of a row.
    cables: u32,
}

impl Dimension {
    /// How many ports a switch has for this dimension.
    fn ports(&self) -> u32 {
        (self.switches - 1) * self.cables
    }
}

/// How packets are routed in a `HyperX`.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    dimensions: Vec<Dimension>,
    hosts: u32,
    order: DimensionOrder,
    /// The places of each switch, dimension by dimension.
    places: Vec<u16>,
    /// The ports towards a target switch. The index is a mixed-radix number with a digit for each
    /// dimension, the first one lowest: zero if the coordinates of both switches agree, otherwise
    /// the position of the target among the other switches of the row, counted from one.
    choices: Vec<Choice>,
    /// The port numbers of choices: first those of hosts, at the hosts' numbers.
    ports: Vec<u32>,
}

impl HyperXSettings {
    fn cables(&self, dimension: usize) -> u32 {
        self.parallel_cables.get(dimension).map_or(1, |own| own.get())
    }

    fn lengths(&self) -> impl Iterator<Item = u64> {
        self.dimensions.iter().map(|extent| u32::from(*extent).into())
    }

    fn switches(&self) -> u64 {
        self.lengths().fold(1, u64::saturating_mul)
    }

    /// How many ports for hosts there are.
    pub(super) fn room(&self) -> u64 {
        self.switches().saturating_mul(self.hosts_per_switch.get().into())
    }

    pub(super) fn wiring(&self, hosts: u32) -> Result<Wiring, FabricError> {
        self.check()?;
        let each = self.hosts_per_switch.get();
        if u64::from(hosts) > self.room() {
            let names: Vec<String> = self.lengths().map(|length| length.to_string()).collect();
            let fabric = format!("a HyperX of {} switches", names.join(" x "));
            return Err(FabricError::hosts(hosts, self.room() as usize, &fabric));
        }
        let dimensions = self.dimensions.iter().enumerate();
        let dimensions = dimensions.map(|(place, extent)| Dimension {
            switches: u32::from(*extent),
            cables: self.cables(place),
        });
        Ok(Lattice::new(dimensions.collect(), each, self.order).wiring(hosts, &self.links))
    }

    fn check(&self) -> Result<(), FabricError> {
        let refuse = |key: &str, value: String, accepted: String| {
            Err(FabricError::new(&format!("fabric.hyperx.{key}"), value, accepted))
        };
        let lengths: Vec<u64> = self.lengths().collect();
        if lengths.is_empty() {
            let accepted = "one length or more, each 2 or more".to_owned();
            return refuse("dimensions", "[]".to_owned(), accepted);
        }
        let parallel = self.parallel_cables.len();
        if parallel != 0 && parallel != lengths.len() {
            let accepted = format!("{}, one for each dimension", lengths.len());
            return refuse("parallel_cables", format!("{parallel} numbers"), accepted);
        }
        if self.switches() > MOST_SWITCHES {
            return refuse(
                "dimensions",
                format!("{lengths:?}"),
                format!("at most {MOST_SWITCHES} switches"),
            );
        }
        let rows = lengths.iter().enumerate();
        let rows = rows.map(|(place, length)| (length - 1) * u64::from(self.cables(place)));
        let ports = rows.sum::<u64>() + u64::from(self.hosts_per_switch.get());
        if ports > MOST_PORTS_OF_A_SWITCH.into() || ports * self.switches() > MOST_PORTS {
            let accepted = format!(
                "lengths with which a switch has at most {MOST_PORTS_OF_A_SWITCH} ports, and all \
                 switches together {MOST_PORTS}; these give each switch {ports}"
            );
            return refuse("dimensions", format!("{lengths:?}"), accepted);
        }
        check_tiers(&self.links, 1 + lengths.len() as u32, "fabric.hyperx.links")
    }
}

impl Lattice {
    fn new(dimensions: Vec<Dimension>, hosts: u32, order: DimensionOrder) -> Lattice {
        let switches = dimensions.iter().map(|own| own.switches).product();
        let digits = |number: u32| {
            let mut rest = number;
            dimensions.iter().map(move |own| {
                let digit = rest % own.switches;
                rest /= own.switches;
                digit
            })
        };
        let places = (0..switches).flat_map(digits).map(|place| place as u16).collect();
        let mut ports: Vec<u32> = (0..hosts).collect();
        let mut choices = Vec::with_capacity(switches as usize);
        for number in 0..switches {
            let first = ports.len() as u32;
            let mut port = hosts;
            for (digit, own) in digits(number).zip(&dimensions) {
                let is_open = order == DimensionOrder::Any || ports.len() as u32 == first;
                if digit > 0 && is_open {
                    let first = port + (digit - 1) * own.cables;
                    ports.extend(first..first + own.cables);
                }
                port += own.ports();
            }
            choices.push(Choice { first, count: ports.len() as u32 - first });
        }
        Lattice { dimensions, hosts, order, places, choices, ports }
    }

    fn wiring(self, hosts: u32, links: &[CableSettings]) -> Wiring {
        let each = self.hosts;
        let rows: u32 = self.dimensions.iter().map(Dimension::ports).sum();
        let name = |switch: u32| {
            let places: Vec<String> = self.places(switch).iter().map(u16::to_string).collect();
            (places.join("."), each + rows)
        };
        let switches = self.choices.len() as u32;
        let all = (0..switches).map(name).collect();
        let mut wiring = Wiring::new(all, hosts, NextHops::HyperX(self.clone()));
        let like_all = CableSettings::default();
        let tier = |tier: usize| links.get(tier).unwrap_or(&like_all);
        for host in 0..hosts {
            wiring.attach(host, SwitchPort { switch: host / each, port: host % each });
            wiring.lay(wiring.host_port(host), tier(0));
        }
        let (mut stride, mut port) = (1, each);
        for (dimension, own) in self.dimensions.iter().enumerate() {
            let Dimension { switches: size, cables } = *own;
            for switch in 0..switches {
                let near = switch / stride % size;
                for far in near + 1..size {
                    for cable in 0..cables {
                        // From the far end the near one is among those in front of it.
                        let near_end =
                            SwitchPort { switch, port: port + (far - 1) * cables + cable };
                        let far_end = SwitchPort {
                            switch: switch + (far - near) * stride,
                            port: port + near * cables + cable,
                        };
                        wiring.connect(near_end, far_end);
                        wiring.lay(wiring.port_at(near_end), tier(dimension + 1));
                    }
                }
            }
            stride *= size;
            port += own.ports();
        }
        wiring
    }

    #[inline]
    fn places(&self, switch: u32) -> &[u16] {
        let first = switch as usize * self.dimensions.len();
        &self.places[first..first + self.dimensions.len()]
    }

    /// The ports through which a packet for `target` may leave.
    #[inline]
    pub fn choice(&self, switch: u32, target: u32) -> Choice {
        let home = target / self.hosts;
        if home == switch {
            return Choice::one(target % self.hosts);
        }
        let (mut number, mut stride) = (0, 1);
        let places = self.places(switch).iter().zip(self.places(home)).zip(&self.dimensions);
        for ((&own, &other), dimension) in places {
            let digit = if own == other { 0 } else { u32::from(other) + u32::from(other < own) };
            number += digit * stride;
            stride *= dimension.switches;
        }
        self.choices[number as usize]
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.choices.len() as u32
    }

    /// Ports for hosts at each switch.
    #[inline]
    pub fn hosts_per_switch(&self) -> u32 {
        self.hosts
    }

    /// Cables on a minimal route between two switches.
    pub fn cables(&self, from: u32, to: u32) -> u32 {
        let pairs = self.places(from).iter().zip(self.places(to));
        pairs.filter(|(own, other)| own != other).count() as u32
    }

    /// The number of a port of a choice.
    #[inline]
    pub fn port(&self, place: u32) -> u32 {
        self.ports[place as usize]
    }

    /// How many virtual channels a packet uses one after another.
    pub fn virtual_channels(&self) -> u8 {
        match self.order {
            DimensionOrder::Listed => 1,
            // A number of switches that is allowed has fewer than 16 dimensions.
            DimensionOrder::Any => self.dimensions.len() as u8,
        }
    }

    /// Which of them a packet uses after a switch: the last one if its target is one cable away.
    #[inline]
    pub fn virtual_channel(&self, switch: u32, target: u32) -> u8 {
        let home = target / self.hosts;
        if self.order == DimensionOrder::Listed || home == switch {
            return 0;
        }
        let pairs = self.places(switch).iter().zip(self.places(home));
        pairs.filter(|(own, other)| own == other).count() as u8
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Rate;

    use super::super::next_hops::ShortestPaths;
    use super::super::{FabricSettings, Peer};
    use super::*;

    fn built(text: &str, hosts: u32) -> Result<Wiring, FabricError> {
        let fabric: FabricSettings = toml::from_str(&format!("hyperx = {text}")).expect(text);
        fabric.wiring(hosts, Rate::from_ratio(1, 1000))
    }

    /// Three columns and two rows, with two hosts per switch and two cables between rows. Switch
    /// 1.1 is the fifth: its row is 0.1, 1.1, 2.1, and above it is 1.0.
    #[test]
    fn a_switch_has_cables_to_every_other_of_its_rows() {
        let text = "{ dimensions = [3, 2], hosts_per_switch = 2, parallel_cables = [1, 2] }";
        let wiring = built(text, 12).unwrap();
        assert_eq!((wiring.switches(), wiring.ports()), (6, 6 * 6));
        let middle = [
            "host 8",
            "host 9",
            "port 2 of switch 0.1",
            "port 3 of switch 2.1",
            "port 4 of switch 1.0",
            "port 5 of switch 1.0",
        ];
        assert_eq!(wiring.plugged("1.1"), middle);
        let last = ["port 3 of switch 0.1", "port 3 of switch 1.1"];
        assert_eq!(wiring.plugged("2.1")[2..4], last);
    }

    /// A search of the wiring finds the same routes as the places of switches tell; in the order of
    /// the dimensions those that differ first.
    #[test]
    fn routes_are_the_shortest() {
        let cases = [
            ("dimensions = [5]", 5, 1),
            ("dimensions = [2, 2, 2]", 8, 3),
            ("dimensions = [4, 3], hosts_per_switch = 2, parallel_cables = [2, 3]", 24, 2),
            ("dimensions = [3, 2, 4], parallel_cables = [1, 3, 2]", 24, 3),
        ];
        for (text, hosts, dimensions) in cases {
            let any = built(&format!("{{ {text}, order = 'any' }}"), hosts).unwrap();
            let listed = built(&format!("{{ {text} }}"), hosts).unwrap();
            let searched = NextHops::Table(ShortestPaths::of(&any, &[]));
            for (switch, target) in
                (0..any.switches()).flat_map(|switch| (0..hosts).map(move |to| (switch, to)))
            {
                let of = |next_hops: &NextHops| next_hops.each(switch, target).collect::<Vec<_>>();
                let all = of(&searched);
                assert_eq!(of(any.next_hops()), all, "{text}: {switch} to {target}");
                let first = of(listed.next_hops());
                assert_eq!(first, all[..first.len()], "{text}: {switch} to {target}");
                let next = |port: u32| match any.peer(any.port(switch, port)) {
                    Peer::Port(peer) => Some(any.switch_of(peer)),
                    Peer::Host(_) | Peer::Unused => None,
                };
                assert!(first.windows(2).all(|pair| next(pair[0]) == next(pair[1])), "{text}");
                assert!(first.len() == all.len() || next(first[0]) != next(all[first.len()]));
            }
            assert_eq!(
                (any.next_hops().virtual_channels(), listed.next_hops().virtual_channels()),
                (dimensions, 1),
                "{text}"
            );
        }
    }

    #[test]
    fn cables_have_the_link_of_their_dimension() {
        let text = "{ dimensions = [2, 2], links = [{}, { length = '1 m' }, { length = '9 m' }] }";
        let wiring = built(text, 4).unwrap();
        let links = wiring.links(&toml::from_str("rate = '1 Gbit/s'").expect("a link"));
        let length = |port: u32| links[wiring.link_of(wiring.port(0, port))].length;
        assert_eq!([0, 1, 2].map(length), ["0 m", "1 m", "9 m"].map(|own| own.parse().unwrap()));
    }

    #[test]
    fn what_cannot_be_wired_is_refused_by_key() {
        let refusal = |text: &str| built(text, 5).unwrap_err().to_string();
        let cases = [
            (
                "{ dimensions = [] }",
                "fabric.hyperx.dimensions = []: accepted is one length or more, each 2 or more",
            ),
            (
                "{ dimensions = [2, 2] }",
                "hosts = 5: accepted is at most 4, the ports for hosts of a HyperX of 2 x 2 switches",
            ),
            (
                "{ dimensions = [3, 3], parallel_cables = [2] }",
                "fabric.hyperx.parallel_cables = 1 numbers: accepted is 2, one for each dimension",
            ),
            (
                "{ dimensions = [256, 256] }",
                "fabric.hyperx.dimensions = [256, 256]: accepted is at most 32768 switches",
            ),
            (
                "{ dimensions = [4096] }",
                "fabric.hyperx.dimensions = [4096]: accepted is lengths with which a switch has at \
                 most 65536 ports, and all switches together 4194304; these give each switch 4096",
            ),
            (
                "{ dimensions = [3, 3], links = [{}, {}, {}, {}] }",
                "fabric.hyperx.links = 4 entries: accepted is at most 3, one for each tier from \
                 that of the hosts on",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refusal(text), expected);
        }
    }
}
