//! Through which ports of a switch a packet comes nearer to its target.

use super::torus::Grid;
use super::wiring::{Peer, Wiring};

/// The ways through a fabric. The ports of a switch are the bits of a word.
#[derive(Clone, Debug)]
pub(super) enum Ways {
    /// What lies below each switch of a tree.
    Tree(Vec<Below>),
    /// The ports on the shortest paths from each switch to each switch with hosts.
    Table(ShortestPaths),
    /// Dimension by dimension.
    Grid(Grid),
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
    pub up: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ShortestPaths {
    /// Of each host, the switch it is at and its port there.
    homes: Vec<(u32, u8)>,
    /// Of each pair of switches, from the first to the second.
    masks: Vec<u64>,
    switches: usize,
}

impl Ways {
    /// The ports of `switch` through which a packet for `target` may leave; never none in a
    /// wiring that was checked.
    #[inline]
    pub fn ports(&self, switch: u32, target: u16) -> u64 {
        match self {
            Ways::Tree(below) => below[switch as usize].ports(u32::from(target)),
            Ways::Table(paths) => {
                let (home, port) = paths.homes[usize::from(target)];
                if home == switch {
                    return 1 << port;
                }
                paths.masks[switch as usize * paths.switches + home as usize]
            }
            Ways::Grid(grid) => grid.ports(switch, target),
        }
    }

    /// See [`super::Routes::lanes`].
    pub fn lanes(&self) -> u8 {
        match self {
            Ways::Grid(grid) if grid.wraps() => 2,
            Ways::Grid(_) | Ways::Tree(_) | Ways::Table(_) => 1,
        }
    }

    /// See [`super::Routes::lane`].
    #[inline]
    pub fn lane(&self, switch: u32, port: u32, target: u16) -> u8 {
        match self {
            Ways::Grid(grid) => u8::from(grid.is_past_dateline(switch, port, target)),
            Ways::Tree(_) | Ways::Table(_) => 0,
        }
    }
}

impl Below {
    #[inline]
    fn ports(&self, target: u32) -> u64 {
        let place = target.wrapping_sub(self.first);
        if place >= self.hosts {
            return self.up;
        }
        let child = place / self.per_child;
        (!0 >> (64 - self.width)) << (child * self.width)
    }
}

impl ShortestPaths {
    /// Searches the cables from each switch outward. What cannot be reached has no port.
    pub fn of(wiring: &Wiring) -> ShortestPaths {
        let switches = wiring.switches() as usize;
        let mut masks = vec![0; switches * switches];
        let mut distance = vec![u32::MAX; switches];
        let mut reached = Vec::with_capacity(switches);
        for target in 0..wiring.switches() {
            distance.fill(u32::MAX);
            distance[target as usize] = 0;
            reached.clear();
            reached.push(target);
            let mut next = 0;
            while let Some(&switch) = reached.get(next) {
                next += 1;
                let own = distance[switch as usize];
                for port in 0..wiring.ports_of(switch) {
                    let Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else {
                        continue;
                    };
                    let other = wiring.switch_of(peer);
                    if distance[other as usize] == u32::MAX {
                        distance[other as usize] = own + 1;
                        reached.push(other);
                    }
                    if distance[other as usize] == own + 1 {
                        let number = peer - wiring.port(other, 0);
                        masks[other as usize * switches + target as usize] |= 1 << number;
                    }
                }
            }
        }
        let homes = (0..wiring.hosts()).map(|host| {
            let port = wiring.host_port(host);
            let home = wiring.switch_of(port);
            (home, (port - wiring.port(home, 0)) as u8)
        });
        ShortestPaths { homes: homes.collect(), masks, switches }
    }
}
