//! Tori and meshes: switches in rows along several dimensions (k-ary n-cubes; Dally, "Performance
//! analysis of k-ary n-cube interconnection networks", IEEE Trans. Comput. 39(6) 1990).
//!
//! Packets take the dimensions in the order listed, in each the shorter direction; if both are
//! equally long, either. The cables of one row form a ring, in which packets could wait for each
//! other's buffers forever. Two virtual channels prevent that: a packet that has yet to cross the
//! cable between the last and the first switch uses one, all others use the other, so that neither
//! ring of buffers is closed (Dally and Seitz, "Deadlock-free message routing in multiprocessor
//! interconnection networks", IEEE Trans. Comput. C-36(5) 1987).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

use super::MOST_PORTS_OF_A_SWITCH;
use super::error::FabricError;
use super::next_hops::{Choice, NextHops};
use super::pairs::SwitchPort;
use super::wiring::Wiring;

/// More switches in all than this are taken for a mistake in the file.
pub(super) const MOST_SWITCHES: u64 = 1 << 15;

/// Settings of a torus or a mesh. The name of a switch is its position in all dimensions: `3.0`.
/// Its first ports are those of its hosts; then each dimension has one up and one down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TorusSettings {
    /// How many switches there are along each dimension, 2 or more. A k-ary n-cube has n times k;
    /// one dimension is a ring, or as a mesh a row.
    pub dimensions: Vec<Extent>,
    /// Hosts at every switch.
    #[serde(default = "one_host")]
    pub hosts_per_switch: PositiveCount,
}

/// How many switches there are along a dimension: a bare whole number from 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
pub struct Extent(#[schemars(range(min = 2))] u32);

impl TryFrom<u32> for Extent {
    type Error = String;

    fn try_from(switches: u32) -> Result<Extent, String> {
        match switches {
            0 | 1 => Err(format!("a dimension has 2 switches or more, got {switches}")),
            _ => Ok(Extent(switches)),
        }
    }
}

impl From<Extent> for u32 {
    fn from(extent: Extent) -> u32 {
        extent.0
    }
}

fn one_host() -> PositiveCount {
    PositiveCount::ONE
}

/// How packets are routed in a torus or a mesh.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    sizes: Vec<u16>,
    hosts: u32,
    wraps: bool,
    /// The places of each switch, dimension by dimension.
    places: Vec<u16>,
}

impl TorusSettings {
    fn sizes(&self) -> Vec<u32> {
        self.dimensions.iter().map(|extent| extent.0).collect()
    }

    /// How many ports for hosts all switches have together.
    pub(super) fn room(&self) -> u64 {
        let lengths = self.dimensions.iter().map(|extent| u64::from(extent.0));
        lengths.fold(u64::from(self.hosts_per_switch.get()), u64::saturating_mul)
    }

    /// The wiring as a torus, whose dimensions are rings, or as a mesh, whose dimensions are rows.
    pub(super) fn wiring(&self, hosts: u32, wraps: bool) -> Result<Wiring, FabricError> {
        let kind = if wraps { "torus" } else { "mesh" };
        let refuse = |key: &str, value: String, accepted: String| {
            Err(FabricError::new(&format!("fabric.{kind}.{key}"), value, accepted))
        };
        let sizes: Vec<u32> = self.sizes();
        let listed = format!("{sizes:?}");
        if sizes.is_empty() {
            return refuse("dimensions", listed, "one length or more, each 2 or more".to_owned());
        }
        let switches = sizes.iter().try_fold(1_u64, |all, &size| all.checked_mul(size.into()));
        let Some(switches) = switches.filter(|switches| *switches <= MOST_SWITCHES) else {
            return refuse("dimensions", listed, format!("at most {MOST_SWITCHES} switches"));
        };
        let each = self.hosts_per_switch.get();
        let ports = each as usize + 2 * sizes.len();
        if ports > MOST_PORTS_OF_A_SWITCH as usize {
            let accepted = format!(
                "at most {MOST_PORTS_OF_A_SWITCH} ports of a switch, two for each dimension and one a host"
            );
            return refuse("hosts_per_switch", each.to_string(), accepted);
        }
        let most = switches * u64::from(each);
        if u64::from(hosts) > most {
            let names: Vec<String> = sizes.iter().map(u32::to_string).collect();
            let fabric = format!("a {kind} of {} switches", names.join(" x "));
            return Err(FabricError::hosts(hosts, most as usize, &fabric));
        }
        let grid = Grid::new(&sizes, each, wraps);
        Ok(grid.wiring(hosts, switches as u32))
    }
}

impl Grid {
    fn new(sizes: &[u32], hosts: u32, wraps: bool) -> Grid {
        let switches: u32 = sizes.iter().product();
        let mut places = Vec::with_capacity(switches as usize * sizes.len());
        for switch in 0..switches {
            let mut rest = switch;
            for size in sizes {
                places.push((rest % size) as u16);
                rest /= size;
            }
        }
        let sizes = sizes.iter().map(|size| *size as u16).collect();
        Grid { sizes, hosts, wraps, places }
    }

    fn wiring(self, hosts: u32, switches: u32) -> Wiring {
        let (each, dimensions) = (self.hosts, self.sizes.len() as u32);
        let name = |switch: u32| {
            let places: Vec<String> = self.places(switch).iter().map(u16::to_string).collect();
            (places.join("."), each + 2 * dimensions)
        };
        let all = (0..switches).map(name).collect();
        let mut wiring = Wiring::new(all, hosts, NextHops::Grid(self.clone()));
        for host in 0..switches * each {
            wiring.attach(host, SwitchPort { switch: host / each, port: host % each });
        }
        let mut stride = 1;
        for (dimension, &size) in (0..).zip(&self.sizes) {
            for switch in 0..switches {
                let is_last = self.places(switch)[dimension as usize] + 1 == size;
                if is_last && !self.wraps {
                    continue;
                }
                let next = switch + stride - if is_last { stride * u32::from(size) } else { 0 };
                let up = each + 2 * dimension;
                let far = SwitchPort { switch: next, port: up + 1 };
                wiring.connect(SwitchPort { switch, port: up }, far);
            }
            stride *= u32::from(size);
        }
        wiring
    }

    #[inline]
    fn places(&self, switch: u32) -> &[u16] {
        let first = switch as usize * self.sizes.len();
        &self.places[first..first + self.sizes.len()]
    }

    /// The ports through which a packet for `target` may leave.
    #[inline]
    pub fn choice(&self, switch: u32, target: u32) -> Choice {
        let home = target / self.hosts;
        let places = self.places(switch).iter().zip(self.places(home)).zip(&self.sizes);
        for (dimension, ((&own, &other), &size)) in (0..).zip(places) {
            if own == other {
                continue;
            }
            let up = self.hosts + 2 * dimension;
            let above = if other > own { other - own } else { other + size - own };
            return match self.wraps {
                false if other > own => Choice::one(up),
                false => Choice::one(up + 1),
                true if 2 * above == size => Choice { first: up, count: 2 },
                true if 2 * above < size => Choice::one(up),
                true => Choice::one(up + 1),
            };
        }
        Choice::one(target % self.hosts)
    }

    /// Whether a packet that leaves by a port no longer has the cable ahead of it that closes the
    /// ring: it has passed that cable already, or its route does not use it. A mesh has no such
    /// cable, and its packets need no second virtual channel.
    #[inline]
    pub fn is_past_dateline(&self, switch: u32, port: u32, target: u32) -> bool {
        let Some(place) = port.checked_sub(self.hosts) else { return false };
        if !self.wraps {
            return false;
        }
        let dimension = place as usize / 2;
        let own = self.places(switch)[dimension];
        let other = self.places(target / self.hosts)[dimension];
        if place % 2 == 0 { own < other } else { own > other }
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.sizes.iter().map(|size| u32::from(*size)).product()
    }

    /// Ports for hosts at each switch.
    #[inline]
    pub fn hosts_per_switch(&self) -> u32 {
        self.hosts
    }

    /// Cables on a minimal route between two switches.
    pub fn cables(&self, from: u32, to: u32) -> u32 {
        let places = self.places(from).iter().zip(self.places(to)).zip(&self.sizes);
        let apart = places.map(|((&own, &other), &size)| {
            let apart = own.abs_diff(other);
            u32::from(if self.wraps { apart.min(size - apart) } else { apart })
        });
        apart.sum()
    }

    /// Whether dimensions are rings.
    pub fn wraps(&self) -> bool {
        self.wraps
    }
}

#[cfg(test)]
mod tests {
    use super::super::wiring::Peer;
    use super::*;

    fn settings(dimensions: &[u32], each: u32) -> TorusSettings {
        TorusSettings {
            dimensions: dimensions.iter().map(|size| Extent::try_from(*size).unwrap()).collect(),
            hosts_per_switch: PositiveCount::new(each).unwrap(),
        }
    }

    fn wiring(dimensions: &[u32], each: u32, wraps: bool) -> Wiring {
        let settings = settings(dimensions, each);
        settings.wiring(dimensions.iter().product::<u32>() * each, wraps).unwrap()
    }

    #[test]
    fn cables_join_neighbours_and_close_each_row() {
        let torus = wiring(&[3, 4], 2, true);
        let switch = |name: &str| torus.switch_named(name).unwrap();
        let next = |name: &str, port| match torus.peer(torus.port(switch(name), port)) {
            Peer::Port(peer) => torus.port_name(peer),
            other => format!("{other:?}"),
        };
        assert_eq!(next("0.0", 0), "Host(0)");
        assert_eq!(next("1.0", 1), "Host(3)");
        assert_eq!(next("1.0", 2), "port 3 of switch 2.0");
        assert_eq!(next("2.0", 2), "port 3 of switch 0.0");
        assert_eq!(next("2.3", 4), "port 5 of switch 2.0");
        let mesh = wiring(&[3, 4], 2, false);
        assert_eq!(mesh.peer(mesh.port(switch("2.0"), 2)), Peer::Unused);
        assert_eq!((torus.virtual_channels(), mesh.virtual_channels()), (2, 1));
    }

    #[test]
    fn half_way_round_both_ways_are_as_long() {
        let ring = wiring(&[6], 1, true);
        let next_hops = |to| ring.next_hops().each(0, to).collect::<Vec<_>>();
        let expected = [vec![0], vec![1], vec![1], vec![1, 2], vec![2], vec![2]];
        assert_eq!([0, 1, 2, 3, 4, 5].map(next_hops), expected);
    }
}
