//! Routes around cables that are known to have failed.
//!
//! All switches update their routes at the same instant. A packet chooses among the ports that it could have
//! taken before and that still lead to its target. A table of cables, which routes along shortest paths, searches
//! the shortest paths that remain. Only there can a new cycle of buffers arise. A packet without any path
//! continues as before and is lost at the failed cable. Hosts with a port in each of several planes also learn at
//! that instant which planes still lead to which hosts, and use one of those.

use std::sync::Arc;

use super::next_hops::{NextHops, ShortestPaths};
use super::pairs::HostPair;
use super::routes::Routes;
use super::wiring::{Peer, Wiring};

/// Routes around the failed cables.
#[derive(Clone, Debug)]
pub struct LiveNextHops {
    next_hops: NextHops,
    left: Arc<LivePlanes>,
}

/// Which hosts still reach which others, and in which planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePlanes {
    hosts: u32,
    planes: u32,
    /// The switch of each end.
    homes: Vec<u32>,
    /// Which switches do not reach the hosts of which others, sorted.
    cut: Vec<Unreached>,
    /// Ends whose own cable has failed, in order.
    alone: Vec<u32>,
}

/// A switch that does not reach the hosts of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unreached {
    from: u32,
    to: u32,
}

impl LiveNextHops {
    /// What remains if the cables in these ports have failed (both ends of each are listed; hosts are
    /// numbered after the ports of switches).
    pub fn new(wiring: &Wiring, failed: &[u32]) -> LiveNextHops {
        let mut alone: Vec<u32> =
            failed.iter().filter_map(|port| port.checked_sub(wiring.ports())).collect();
        alone.sort_unstable();
        let mut is_failed = vec![false; wiring.ports() as usize];
        let of_switches = failed.iter().filter(|port| **port < wiring.ports());
        of_switches.for_each(|port| is_failed[*port as usize] = true);
        let is_between =
            |port: &u32| *port < wiring.ports() && matches!(wiring.peer(*port), Peer::Port(_));
        let (next_hops, cut) = match failed.iter().any(is_between) {
            true => left(wiring, &is_failed),
            false => (wiring.next_hops().clone(), Vec::new()),
        };
        let home = |end| wiring.switch_of(wiring.host_port(end));
        let homes = (0..wiring.ends()).map(home).collect();
        let (hosts, planes) = (wiring.hosts(), wiring.planes());
        let left = Arc::new(LivePlanes { hosts, planes, homes, cut, alone });
        LiveNextHops { next_hops, left }
    }

    /// Whether any route from one host to another is left, in any plane.
    pub fn has_way(&self, from: u32, to: u32) -> bool {
        self.left.lead(from, to)
    }

    /// Which planes still lead from one host to another, if not all do.
    pub fn planes(&self) -> Option<Arc<LivePlanes>> {
        let LivePlanes { planes, cut, alone, .. } = &*self.left;
        let is_whole = *planes == 1 || (cut.is_empty() && alone.is_empty());
        (!is_whole).then(|| self.left.clone())
    }
}

impl LivePlanes {
    /// Whether a plane leads from one host to another.
    pub fn leads(&self, plane: u32, from: u32, to: u32) -> bool {
        let [from, to] = [from, to].map(|host| plane * self.hosts + host);
        let is_alone = |end| self.alone.binary_search(&end).is_ok();
        let homes = Unreached { from: self.homes[from as usize], to: self.homes[to as usize] };
        !is_alone(from) && !is_alone(to) && self.cut.binary_search(&homes).is_err()
    }

    /// Whether any plane does.
    fn lead(&self, from: u32, to: u32) -> bool {
        (0..self.planes).any(|plane| self.leads(plane, from, to))
    }

    /// Whether packets from one host to another may go by a plane: it leads there, or none does.
    pub fn admits(&self, plane: u32, HostPair { from, to }: HostPair) -> bool {
        self.leads(plane, from, to) || !self.lead(from, to)
    }

    /// The plane of a connection or a flow that keeps to one: its own as long as that leads to its target, so that
    /// others stay where they are; otherwise one of those that do, chosen by `drawn`.
    pub fn instead(&self, own: u32, HostPair { from, to }: HostPair, drawn: u64) -> u32 {
        if self.leads(own, from, to) {
            return own;
        }
        let others = (0..self.planes).filter(|plane| self.leads(*plane, from, to));
        let count = others.clone().count() as u64;
        let rank = drawn.checked_rem(count).unwrap_or_default();
        others.clone().nth(rank as usize).unwrap_or(own)
    }
}

impl Routes {
    /// From now on packets take routes that are left.
    pub fn keep_to(&mut self, live: &LiveNextHops) {
        self.set_next_hops(live.next_hops.clone());
        self.set_planes(live.planes());
    }

    /// The routes that packets may take in any of these states of failure, or without any, if some of
    /// them are no routes of the whole fabric.
    pub fn with_all(&self, wiring: &Wiring, live: &[LiveNextHops]) -> Option<Routes> {
        if !wiring.next_hops().is_table() {
            return None;
        }
        let all: Vec<&NextHops> =
            live.iter().map(|own| &own.next_hops).chain([wiring.next_hops()]).collect();
        let hosts = wiring.hosts();
        let paths = ShortestPaths::from_choices(wiring, |switch, end| {
            all.iter().flat_map(|next_hops| next_hops.each(switch, end % hosts)).collect()
        });
        let mut routes = self.clone();
        routes.set_next_hops(NextHops::searched(wiring, paths));
        Some(routes)
    }
}

/// The remaining choices, and which switches do not reach which others with hosts.
fn left(wiring: &Wiring, is_failed: &[bool]) -> (NextHops, Vec<Unreached>) {
    let before = wiring.next_hops();
    let searched = || NextHops::searched(wiring, ShortestPaths::of(wiring, is_failed));
    let shortest = before.is_table().then(searched);
    let next_hops = shortest.as_ref().unwrap_or(before);
    let mut cut = Vec::new();
    let mut reach = Reach { of: u32::MAX, ports: vec![Vec::new(); wiring.switches() as usize] };
    let has_hosts = |switch: u32| {
        let ports = (0..wiring.ports_of(switch)).map(|number| wiring.port(switch, number));
        ports.into_iter().any(|port| matches!(wiring.peer(port), Peer::Host(_)))
    };
    let paths = ShortestPaths::from_choices(wiring, |switch, end| {
        reach.look(wiring, next_hops, is_failed, end);
        let ports = &reach.ports[switch as usize];
        if !ports.is_empty() {
            return ports.clone();
        }
        if has_hosts(switch) {
            cut.push(Unreached { from: switch, to: reach.of });
        }
        before.each(switch, end % wiring.hosts()).collect()
    });
    cut.sort_unstable();
    (NextHops::searched(wiring, paths), cut)
}

/// The ports of each switch that lead to a switch with hosts.
struct Reach {
    /// The switch with hosts.
    of: u32,
    /// The ports, by switch.
    ports: Vec<Vec<u32>>,
}

impl Reach {
    /// Walks backwards from the switch of an end along the choices of packets to it.
    fn look(&mut self, wiring: &Wiring, next_hops: &NextHops, is_failed: &[bool], end: u32) {
        let (home, host) = (wiring.switch_of(wiring.host_port(end)), end % wiring.hosts());
        if std::mem::replace(&mut self.of, home) == home {
            return;
        }
        self.ports.iter_mut().for_each(Vec::clear);
        let mut reached = vec![home];
        let mut next = 0;
        while let Some(&switch) = reached.get(next) {
            next += 1;
            for number in 0..wiring.ports_of(switch) {
                let port = wiring.port(switch, number);
                let Peer::Port(far) = wiring.peer(port) else { continue };
                if is_failed[port as usize] || is_failed[far as usize] {
                    continue;
                }
                let other = wiring.switch_of(far);
                let number = far - wiring.port(other, 0);
                if other == home || !next_hops.each(other, host).any(|own| own == number) {
                    continue;
                }
                if self.ports[other as usize].is_empty() {
                    reached.push(other);
                }
                self.ports[other as usize].push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_kernel::Streams;
    use weft_units::Rate;

    use super::super::{FabricSettings, RoutesSettings};
    use super::*;

    const FABRICS: [(&str, u32); 7] = [
        ("leaf_spine = { hosts_per_leaf = 2, leaves = 4, spines = 3 }", 8),
        ("fat_tree = { radix = 4, tiers = 3 }", 16),
        ("torus.dimensions = [3, 4]", 12),
        ("hyperx = { dimensions = [3, 3], hosts_per_switch = 1 }", 9),
        ("dragonfly.hosts_per_router = 1", 6),
        (
            "table = { switches = [{ name = 'a', ports = 3 }, { name = 'b', ports = 3 }, \
             { name = 'c', ports = 3 }, { name = 'd', ports = 3 }], cables = [\
             { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' }, { from = 'host 2', to = 'c.0' }, \
             { from = 'host 3', to = 'd.0' }, { from = 'a.1', to = 'b.2' }, { from = 'b.1', to = 'c.2' }, \
             { from = 'c.1', to = 'd.2' }, { from = 'd.1', to = 'a.2' }] }",
            4,
        ),
        ("k_ary_tree = { arity = 3, levels = 2 }", 9),
    ];

    fn built(fabric: usize, rule: &str, planes: u32) -> (Wiring, Routes) {
        let (text, hosts) = FABRICS[fabric];
        let settings: FabricSettings = toml::from_str(text).expect(text);
        let wiring = settings.planes(planes, hosts, Rate::from_ratio(1, 10)).expect(text);
        let rule: RoutesSettings = toml::from_str(rule).expect(rule);
        let random = Streams::new(1).stream("routes", 0);
        let routes = Routes::new(&rule, &wiring, random).expect(text);
        (wiring, routes)
    }

    /// Whether a packet that leaves by a plane reaches its target without a failed cable.
    fn arrives(
        (wiring, routes): (&Wiring, &mut Routes),
        failed: &[u32],
        plane: u32,
        HostPair { from, to }: HostPair,
    ) -> bool {
        let mut route_state = routes.depart(from, to);
        let end = plane * wiring.hosts() + from;
        if failed.contains(&(wiring.ports() + end)) {
            return false;
        }
        let mut switch = wiring.switch_of(wiring.host_port(end));
        for hop in 0..32 {
            let number = routes.port(switch, hop, to, &mut route_state, |port| port.into());
            let port = wiring.port(switch, number);
            if failed.contains(&port) {
                return false;
            }
            match wiring.peer(port) {
                Peer::Port(peer) => switch = wiring.switch_of(peer),
                Peer::Host(end) => return end == plane * wiring.hosts() + to,
                Peer::Unused => panic!("no cable in {}", wiring.port_name(port)),
            }
        }
        panic!("no end of the way from {from} to {to}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A packet reaches its target where the routes leave it a path, and runs into a failed cable
        /// elsewhere.
        #[test]
        fn packets_take_what_is_left(
            fabric in 0..FABRICS.len(),
            rule in prop::sample::select(vec![
                "per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'hashed'",
            ]),
            draws in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
            planes in 1..4_u32,
        ) {
            let (wiring, mut routes) = built(fabric, rule, planes);
            let mut failed = Vec::new();
            for draw in draws {
                let port = draw.index(wiring.ports() as usize) as u32;
                match wiring.peer(port) {
                    Peer::Port(peer) => failed.extend([port, peer]),
                    Peer::Host(host) => failed.extend([port, wiring.ports() + host]),
                    Peer::Unused => {}
                }
            }
            let live = LiveNextHops::new(&wiring, &failed);
            routes.keep_to(&live);
            for (from, to) in (0..wiring.hosts()).flat_map(|from| (0..wiring.hosts()).map(move |to| (from, to))) {
                let pair = HostPair { from, to };
                if from == to {
                    continue;
                }
                let leads: Vec<bool> = (0..planes).map(|plane| live.left.leads(plane, from, to)).collect();
                prop_assert_eq!(live.has_way(from, to), leads.contains(&true));
                for (plane, expected) in (0..).zip(&leads) {
                    for _ in 0..4 {
                        let arrives = arrives((&wiring, &mut routes), &failed, plane, pair);
                        prop_assert_eq!(arrives, *expected, "{} to {} past {:?}", from, to, &failed);
                    }
                }
                // A host leaves by a plane that leads there, if one does.
                for turn in 0..planes {
                    let plane = routes.plane(planes, pair, turn, |_| 0);
                    prop_assert!(leads[plane as usize] || !leads.contains(&true), "{} to {}", from, to);
                }
            }
        }
    }

    /// In a ring of four the cable between a and b fails: the route then leads through c and d, and
    /// there is none if the cable between c and d fails, too.
    #[test]
    fn a_table_has_the_longer_way_round() {
        let (wiring, mut routes) = built(5, "per_packet = 'random'", 1);
        let [ab, ba, cd, dc] = [("a", 1), ("b", 2), ("c", 1), ("d", 2)]
            .map(|(name, number)| wiring.port(wiring.switch_named(name).expect(name), number));
        let live = LiveNextHops::new(&wiring, &[ab, ba]);
        assert!(live.has_way(0, 1));
        routes.keep_to(&live);
        assert!(arrives((&wiring, &mut routes), &[ab, ba], 0, HostPair { from: 0, to: 1 }));
        let live = LiveNextHops::new(&wiring, &[ab, ba, cd, dc]);
        let pairs = [(0, 1), (0, 2), (0, 3), (1, 2)].map(|(a, b)| live.has_way(a, b));
        assert_eq!(pairs, [false, false, true, true]);
    }

    /// What fails at a host touches no other.
    #[test]
    fn a_host_without_its_cable_is_alone() {
        let (wiring, mut routes) = built(0, "per_packet = 'random'", 1);
        let live = LiveNextHops::new(&wiring, &[wiring.host_port(3_u32), wiring.ports() + 3]);
        let next_hops = [(0, 3), (3, 2), (0, 2), (2, 7)].map(|(a, b)| live.has_way(a, b));
        assert_eq!(next_hops, [false, false, true, true]);
        routes.keep_to(&live);
        assert!(matches!(routes.next_hops(), NextHops::Tree(_)));
    }

    /// Without the cable of host 1 in plane 0 a connection to it moves, and every other one stays.
    #[test]
    fn connections_stay_in_planes_that_lead_on() {
        let (wiring, mut routes) = built(0, "per_connection = 'hashed'", 3);
        let plane = |routes: &Routes, pair| routes.plane(3, pair, 0, |_| 0);
        let pairs: Vec<HostPair> = (0..8)
            .flat_map(|from| (0..8).map(move |to| HostPair { from, to }))
            .filter(|pair| pair.from != pair.to)
            .collect();
        let before: Vec<u32> = pairs.iter().map(|pair| plane(&routes, *pair)).collect();
        routes.keep_to(&LiveNextHops::new(&wiring, &[wiring.host_port(1_u32), wiring.ports() + 1]));
        let mut moved = Vec::new();
        for (pair, before) in pairs.iter().zip(&before) {
            let now = plane(&routes, *pair);
            let must = *before == 0 && (pair.from == 1 || pair.to == 1);
            assert_eq!(now != *before, must, "{pair:?}");
            if must {
                moved.push(now);
            }
        }
        assert!(moved.contains(&1) && moved.contains(&2), "{moved:?}");
        routes.keep_to(&LiveNextHops::new(&wiring, &[]));
        assert!(pairs.iter().zip(before).all(|(pair, before)| plane(&routes, *pair) == before));
    }
}
