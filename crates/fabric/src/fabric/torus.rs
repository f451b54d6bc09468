//! Tori and meshes: switches in rows along several dimensions (k-ary n-cubes; Dally, "Performance
//! analysis of k-ary n-cube interconnection networks", IEEE Trans. Comput. 39(6) 1990).
//!
//! Packets go dimension by dimension, the first listed first, the shorter way round; where both are
//! as long, either. In one dimension cables form a ring, and packets that wait for each other's
//! buffers around it would never go on. Two virtual channels prevent that: a packet that still has
//! the cable between the last and the first switch before it uses the one, all others use the
//! other, so that neither ring of buffers is closed (Dally and Seitz, "Deadlock-free message
//! routing in multiprocessor interconnection networks", IEEE Trans. Comput. C-36(5) 1987).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

use super::MOST_PORTS_OF_A_SWITCH;
use super::error::FabricError;
use super::ways::{Choice, Ways};
use super::wiring::Wiring;

/// Switches of all dimensions together beyond which a number in a file is taken for a mistake.
const MOST_SWITCHES: u64 = 1 << 15;

/// Settings of a torus or a mesh. A switch is named by its places in all dimensions: `3.0`. Its
/// first ports are those of its hosts; then each dimension has one up and one down.
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

/// How packets find their way in a torus or a mesh.
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

    /// Whether buffers of a torus can wait for each other around a ring: packets that wait in one
    /// buffer for the next one of the same ring take two cables of it or more, which is the shorter
    /// way in rings of four switches or more.
    pub(super) fn closes_rings(&self) -> bool {
        self.dimensions.iter().any(|extent| extent.0 >= 4)
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
        let mut wiring = Wiring::new(all, hosts, Ways::Grid(self.clone()));
        for host in 0..switches * each {
            wiring.attach(host, (host / each, host % each));
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
                wiring.connect((switch, up), (next, up + 1));
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
    #[inline(never)]
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

    /// Whether a packet that leaves by a port has the cable that closes the ring behind it, or will
    /// not pass it.
    #[inline]
    pub fn is_past_dateline(&self, switch: u32, port: u32, target: u32) -> bool {
        let Some(place) = port.checked_sub(self.hosts) else { return false };
        let dimension = place as usize / 2;
        let own = self.places(switch)[dimension];
        let other = self.places(target / self.hosts)[dimension];
        if place % 2 == 0 { own < other } else { own > other }
    }

    /// Whether dimensions are rings.
    pub fn wraps(&self) -> bool {
        self.wraps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    /// Which buffers behind ports, each with its virtual channel if `lanes` says so, a packet holds
    /// while it waits for which: over all pairs of hosts and all ways.
    fn waits(wiring: &Wiring, lanes: bool) -> BTreeMap<(u32, u8), Vec<(u32, u8)>> {
        let mut edges: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (from, to) in
            (0..wiring.hosts()).flat_map(|from| (0..wiring.hosts()).map(move |to| (from, to)))
        {
            let mut ends = vec![(None, wiring.host_port(from))];
            while let Some((held, input)) = ends.pop() {
                let switch = wiring.switch_of(input);
                for number in wiring.ways().ports(switch, to) {
                    let output = wiring.port(switch, number);
                    let Peer::Port(next) = wiring.peer(output) else { continue };
                    let lane = if lanes { wiring.ways().lane(switch, number, to) } else { 0 };
                    edges.entry((output, lane)).or_default();
                    if let Some(held) = held {
                        edges.entry(held).or_default().push((output, lane));
                    }
                    ends.push((Some((output, lane)), next));
                }
            }
        }
        edges
    }

    /// Whether nothing waits for itself: what waits for nothing is taken away until nothing is
    /// left.
    fn is_free_of_circles(mut edges: BTreeMap<(u32, u8), Vec<(u32, u8)>>) -> bool {
        loop {
            let before = edges.len();
            let left: Vec<_> = edges.keys().copied().collect();
            edges.values_mut().for_each(|next| next.retain(|own| left.binary_search(own).is_ok()));
            edges.retain(|_, next| !next.is_empty());
            if edges.len() == before {
                return edges.is_empty();
            }
        }
    }

    /// Dally and Seitz 1987, theorem 1: routes are free of deadlock if and only if no channels
    /// depend on each other in a circle.
    #[test]
    fn two_virtual_channels_break_every_circle_and_one_does_not() {
        for dimensions in [vec![5], vec![4, 4], vec![3, 2, 5]] {
            let torus = wiring(&dimensions, 1, true);
            assert!(is_free_of_circles(waits(&torus, true)), "{dimensions:?}");
            assert!(!is_free_of_circles(waits(&torus, false)), "{dimensions:?}");
            let mesh = wiring(&dimensions, 2, false);
            assert!(is_free_of_circles(waits(&mesh, false)), "{dimensions:?}");
        }
    }

    #[test]
    fn rings_of_two_and_three_switches_close_no_circle() {
        for dimensions in [vec![2], vec![3], vec![4], vec![3, 3], vec![2, 4], vec![3, 2, 3]] {
            let is_closed = !is_free_of_circles(waits(&wiring(&dimensions, 1, true), false));
            assert_eq!(settings(&dimensions, 1).closes_rings(), is_closed, "{dimensions:?}");
        }
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
        assert_eq!((torus.lanes(), mesh.lanes()), (2, 1));
    }

    #[test]
    fn half_way_round_both_ways_are_as_long() {
        let ring = wiring(&[6], 1, true);
        let ways = |to| ring.ways().ports(0, to);
        let expected = [vec![0], vec![1], vec![1], vec![1, 2], vec![2], vec![2]];
        assert_eq!([0, 1, 2, 3, 4, 5].map(ways), expected);
    }
}
