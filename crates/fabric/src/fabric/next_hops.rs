//! The ports of a switch that bring a packet nearer to its target.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::detour::Between;
use super::dragonfly::Groups;
use super::hyperx::Lattice;
use super::rails::Rails;
use super::torus::Grid;
use super::wiring::{Peer, Wiring};

/// The next hops in a fabric. The tag is a separate byte, since every hop reads it.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(super) enum NextHops {
    /// The hosts below each switch of a tree.
    Tree(Arc<[Below]>),
    /// The ports on the shortest paths from each switch to each switch with hosts.
    Table(ShortestPaths),
    /// Dimension by dimension.
    Grid(Grid),
    /// Over at most one cable between groups.
    Dragonfly(Groups),
    /// One cable in each dimension.
    HyperX(Lattice),
    /// Up from one leaf and down to another, where hosts of a server are at different leaves.
    Rails(Rails),
    /// The next hops of one plane with this many switches, the same in every plane.
    Planes(Box<NextHops>, u32),
    /// The next hops in planes that are no longer equal.
    Unlike(Box<UnlikePlanes>),
}

/// Ports among which a packet may choose: `count` ports from `first` on, which [`NextHops::port`]
/// turns into their numbers. In regular fabrics, ports that lead to the same switches have
/// consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub first: u32,
    pub count: u32,
}

/// A switch of a tree: the hosts below it are numbered one after another, and every child has
/// equally many of them. What is not below is reached by any port up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    pub first: u32,
    pub hosts: u32,
    /// Hosts below each child.
    pub per_child: u32,
    /// How many ports lead to each child.
    pub width: u32,
    pub up: Choice,
}

#[derive(Clone, Debug)]
pub(super) struct ShortestPaths {
    /// For each end, its switch and its port there.
    homes: Arc<[(u32, Choice)]>,
    /// For each pair of switches of a plane, the ports from the first towards the second.
    choices: Arc<[Choice]>,
    /// The port numbers of all choices. Equal choices are stored once.
    ports: Arc<[u32]>,
    /// In a plane.
    switches: usize,
}

/// The next hops in each of several planes.
#[derive(Clone, Debug)]
pub(super) struct UnlikePlanes {
    paths: ShortestPaths,
    hosts: u32,
}

impl Choice {
    /// No port.
    pub const NONE: Choice = Choice { first: 0, count: 0 };

    /// One port.
    pub const fn one(port: u32) -> Choice {
        Choice { first: port, count: 1 }
    }

    /// The position that `rank` selects among these.
    #[inline]
    fn place(self, rank: impl FnOnce(u32) -> u32) -> u32 {
        match self.count {
            1 => self.first,
            count => self.first + rank(count),
        }
    }
}

impl NextHops {
    /// The ports of `switch` through which a packet for `target` may leave; never none in a
    /// wiring that was checked.
    #[inline(always)]
    pub fn choice(&self, switch: u32, target: u32) -> Choice {
        match self {
            NextHops::Tree(below) => below[switch as usize].choice(target),
            _ => self.choice_elsewhere(switch, target),
        }
    }

    /// Like `choice`, outside trees.
    #[inline]
    fn choice_elsewhere(&self, switch: u32, target: u32) -> Choice {
        match self {
            NextHops::Tree(_) => Choice::NONE,
            NextHops::Table(paths) => paths.choice(switch, target),
            NextHops::Grid(grid) => grid.choice(switch, target),
            NextHops::Dragonfly(groups) => groups.choice(switch, target),
            NextHops::HyperX(lattice) => lattice.choice(switch, target),
            NextHops::Rails(rails) => rails.choice(switch, target),
            NextHops::Planes(one, switches) => one.choice_again(switch % switches, target),
            NextHops::Unlike(planes) => planes.choice(switch, target),
        }
    }

    /// The port of `switch` through which a packet for `target` leaves; `rank` chooses among
    /// several, given their number.
    #[inline(always)]
    pub fn next(&self, switch: u32, target: u32, rank: impl FnOnce(u32) -> u32) -> u32 {
        match self {
            // Its ports stand in the order of their numbers.
            NextHops::Tree(below) => below[switch as usize].choice(target).place(rank),
            _ => self.next_elsewhere(switch, target, rank),
        }
    }

    /// Like `next`, outside trees.
    #[inline(never)]
    fn next_elsewhere(&self, switch: u32, target: u32, rank: impl FnOnce(u32) -> u32) -> u32 {
        self.port(self.choice_elsewhere(switch, target).place(rank))
    }

    /// The number of a port of a choice, from `first` on.
    #[inline]
    pub fn port(&self, place: u32) -> u32 {
        match self {
            NextHops::Tree(_) | NextHops::Grid(_) | NextHops::Rails(_) => place,
            NextHops::Table(paths) => paths.ports[place as usize],
            NextHops::Dragonfly(groups) => groups.port(place),
            NextHops::HyperX(lattice) => lattice.port(place),
            NextHops::Planes(one, _) => one.port(place),
            NextHops::Unlike(planes) => planes.paths.ports[place as usize],
        }
    }

    /// See [`super::Routes::virtual_channels`].
    pub fn virtual_channels(&self) -> u8 {
        match self {
            NextHops::Grid(grid) if grid.wraps() => 2,
            NextHops::Dragonfly(_) => 2,
            NextHops::HyperX(lattice) => lattice.virtual_channels(),
            NextHops::Planes(one, _) => one.virtual_channels(),
            NextHops::Grid(_)
            | NextHops::Tree(_)
            | NextHops::Table(_)
            | NextHops::Rails(_)
            | NextHops::Unlike(_) => 1,
        }
    }

    /// See [`super::Routes::virtual_channel`].
    #[inline]
    pub fn virtual_channel(&self, switch: u32, port: u32, target: u32) -> u8 {
        match self {
            NextHops::Grid(grid) => u8::from(grid.is_past_dateline(switch, port, target)),
            NextHops::Dragonfly(groups) => u8::from(groups.is_in_last_group(switch, port, target)),
            NextHops::HyperX(lattice) => lattice.virtual_channel(switch, target),
            NextHops::Planes(one, switches) => {
                one.virtual_channel_again(switch % switches, port, target)
            }
            NextHops::Tree(_) | NextHops::Table(_) | NextHops::Rails(_) | NextHops::Unlike(_) => 0,
        }
    }

    /// The intermediate places of detours, and how many switches a plane has; none in fabrics whose
    /// minimal routes already use all intermediate switches.
    #[inline]
    pub fn between(&self) -> Option<(Between<'_>, u32)> {
        match self {
            NextHops::Dragonfly(groups) => Some((Between::Groups(groups), u32::MAX)),
            NextHops::Grid(grid) => Some((Between::Switches(self, grid.switches()), u32::MAX)),
            NextHops::HyperX(own) => Some((Between::Switches(self, own.switches()), u32::MAX)),
            NextHops::Planes(one, switches) => one.between_again().map(|own| (own.0, *switches)),
            NextHops::Tree(_) | NextHops::Table(_) | NextHops::Rails(_) | NextHops::Unlike(_) => {
                None
            }
        }
    }

    // What a plane asks of the next hops that all planes have. These are functions of their own, so
    // that the others do not call themselves and can be inlined.

    #[inline(never)]
    fn choice_again(&self, switch: u32, target: u32) -> Choice {
        self.choice(switch, target)
    }

    #[inline(never)]
    fn virtual_channel_again(&self, switch: u32, port: u32, target: u32) -> u8 {
        self.virtual_channel(switch, port, target)
    }

    #[inline(never)]
    fn between_again(&self) -> Option<(Between<'_>, u32)> {
        self.between()
    }

    /// Ports for hosts at each switch of a torus, a mesh or a `HyperX`, whose hosts are numbered switch by
    /// switch; elsewhere one.
    #[inline]
    pub fn hosts_per_switch(&self) -> u32 {
        match self {
            NextHops::Grid(grid) => grid.hosts_per_switch(),
            NextHops::HyperX(lattice) => lattice.hosts_per_switch(),
            _ => 1,
        }
    }

    /// Cables on a minimal route between two switches of a torus, a mesh or a `HyperX`; elsewhere
    /// none.
    pub fn cables(&self, from: u32, to: u32) -> u32 {
        match self {
            NextHops::Grid(grid) => grid.cables(from, to),
            NextHops::HyperX(lattice) => lattice.cables(from, to),
            _ => 0,
        }
    }

    /// The next hops of paths that were searched, in one plane or in several.
    pub fn searched(wiring: &Wiring, paths: ShortestPaths) -> NextHops {
        match wiring.planes() {
            1 => NextHops::Table(paths),
            _ => NextHops::Unlike(Box::new(UnlikePlanes { paths, hosts: wiring.hosts() })),
        }
    }

    /// Whether paths are searched in the fabric, which has no order of its own.
    pub fn is_table(&self) -> bool {
        match self {
            NextHops::Table(_) => true,
            NextHops::Planes(one, _) => one.is_table(),
            _ => false,
        }
    }

    /// The numbers of the ports of a choice.
    pub fn each(&self, switch: u32, target: u32) -> impl Iterator<Item = u32> {
        let Choice { first, count } = self.choice(switch, target);
        (first..first + count).map(|place| self.port(place))
    }
}

impl Below {
    #[inline]
    fn choice(&self, target: u32) -> Choice {
        let place = target.wrapping_sub(self.first);
        if place >= self.hosts {
            return self.up;
        }
        Choice { first: place / self.per_child * self.width, count: self.width }
    }
}

impl UnlikePlanes {
    /// Packets do not change planes: the target's switch is the one in the plane of `switch`.
    fn choice(&self, switch: u32, target: u32) -> Choice {
        let paths = &self.paths;
        let plane = switch as usize / paths.switches;
        let (home, port) = paths.homes[plane * self.hosts as usize + target as usize];
        if home == switch {
            return port;
        }
        paths.choices[switch as usize * paths.switches + home as usize % paths.switches]
    }
}

impl ShortestPaths {
    #[inline]
    fn choice(&self, switch: u32, target: u32) -> Choice {
        let (home, port) = self.homes[target as usize];
        if home == switch {
            return port;
        }
        self.choices[switch as usize * self.switches + home as usize]
    }

    /// Searches the cables from each switch outward, but those at the ports that have failed. What cannot
    /// be reached has no port.
    pub fn of(wiring: &Wiring, is_failed: &[bool]) -> ShortestPaths {
        let switches = switches_of_a_plane(wiring);
        let mut list = Listed::default();
        let mut choices = vec![Choice::NONE; wiring.switches() as usize * switches];
        for target in 0..wiring.switches() {
            let distance = distances(wiring, target, is_failed);
            for switch in plane_of(wiring, target).filter(|switch| *switch != target) {
                let own = distance[switch as usize];
                let is_nearer = |number: &u32| {
                    let port = wiring.port(switch, *number);
                    let other = behind(wiring, port, is_failed);
                    let other = other.map(|switch| distance[switch as usize]);
                    other.is_some_and(|other| own != u32::MAX && other.checked_add(1) == Some(own))
                };
                let ports = (0..wiring.ports_of(switch)).filter(is_nearer).collect();
                choices[switch as usize * switches + target as usize % switches] =
                    list.choice(ports);
            }
        }
        ShortestPaths::with_hosts(wiring, choices, list)
    }

    /// Other choices, which need not be on shortest paths: of each switch and, as hosts at one switch are
    /// alike to all others, one end of each switch that has any, target by target.
    pub fn from_choices(
        wiring: &Wiring,
        mut choice: impl FnMut(u32, u32) -> Vec<u32>,
    ) -> ShortestPaths {
        let (switches, mut list) = (switches_of_a_plane(wiring), Listed::default());
        let mut choices = vec![Choice::NONE; wiring.switches() as usize * switches];
        let mut is_seen = vec![false; wiring.switches() as usize];
        for end in 0..wiring.ends() {
            let home = wiring.switch_of(wiring.host_port(end));
            if std::mem::replace(&mut is_seen[home as usize], true) {
                continue;
            }
            for switch in plane_of(wiring, home).filter(|switch| *switch != home) {
                let mut ports = choice(switch, end);
                ports.sort_unstable();
                ports.dedup();
                choices[switch as usize * switches + home as usize % switches] = list.choice(ports);
            }
        }
        ShortestPaths::with_hosts(wiring, choices, list)
    }

    fn with_hosts(wiring: &Wiring, choices: Vec<Choice>, mut list: Listed) -> ShortestPaths {
        let homes = (0..wiring.ends()).map(|end| {
            let port = wiring.host_port(end);
            let home = wiring.switch_of(port);
            (home, list.choice(vec![port - wiring.port(home, 0)]))
        });
        let homes = homes.collect();
        let switches = switches_of_a_plane(wiring);
        ShortestPaths { homes, choices: choices.into(), ports: list.ports.into(), switches }
    }
}

fn switches_of_a_plane(wiring: &Wiring) -> usize {
    (wiring.switches() / wiring.planes()) as usize
}

/// The switches of the plane of a switch.
fn plane_of(wiring: &Wiring, switch: u32) -> std::ops::Range<u32> {
    let switches = wiring.switches() / wiring.planes();
    let first = switch / switches * switches;
    first..first + switches
}

/// The ports of all choices, concatenated.
#[derive(Default)]
struct Listed {
    ports: Vec<u32>,
    known: BTreeMap<Vec<u32>, Choice>,
}

impl Listed {
    fn choice(&mut self, ports: Vec<u32>) -> Choice {
        if let Some(choice) = self.known.get(&ports) {
            return *choice;
        }
        let choice = Choice { first: self.ports.len() as u32, count: ports.len() as u32 };
        self.ports.extend(&ports);
        self.known.insert(ports, choice);
        choice
    }
}

/// The switch at the other end of the cable in a port; `None` if no working cable leads to one.
fn behind(wiring: &Wiring, port: u32, is_failed: &[bool]) -> Option<u32> {
    match wiring.peer(port) {
        Peer::Port(_) if is_failed.get(port as usize).is_some_and(|failed| *failed) => None,
        Peer::Port(peer) => Some(wiring.switch_of(peer)),
        Peer::Host(_) | Peer::Unused => None,
    }
}

/// How many cables each switch is away from `target`; the largest number if there is no path.
fn distances(wiring: &Wiring, target: u32, is_failed: &[bool]) -> Vec<u32> {
    let mut distance = vec![u32::MAX; wiring.switches() as usize];
    distance[target as usize] = 0;
    let mut reached = vec![target];
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for number in 0..wiring.ports_of(switch) {
            let port = wiring.port(switch, number);
            let Some(other) = behind(wiring, port, is_failed) else { continue };
            if distance[other as usize] == u32::MAX {
                distance[other as usize] = distance[switch as usize] + 1;
                reached.push(other);
            }
        }
    }
    distance
}
