//! The barrier of several switches: each counts the requests of its ports and hands one request on
//! to the switch above it; the uppermost one answers, and the answer goes down the same cables
//! (Maestro 3.3: the controller counts "a barrier request from each node" and broadcasts; for the
//! "hierarchical tree network" of the same section nothing more is said).

use weft_fabric::fabric::{Peer, Wiring};

/// Which cables the barrier uses: a tree over the switches, and how far each switch has counted.
#[derive(Debug, Default)]
pub(super) struct BarrierTree {
    nodes: Vec<Node>,
    /// The switch and the number of the port that each host is at.
    hosts: Vec<(u32, u32)>,
    /// How many hosts meet; the first ones.
    meeting: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The own port towards the switch above, which has its port `above.1` to this one.
    up: Option<u32>,
    above: Option<(u32, u32)>,
    depth: u32,
    /// Ports below which hosts meet, a bit each.
    below: u64,
    /// How many of those ports have asked.
    asked: u32,
}

/// What follows from a request that a switch has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Others are missing.
    Waits,
    /// All below this switch have come: a request leaves by this port.
    Up(u32),
    /// All have come.
    Complete,
}

impl BarrierTree {
    /// The tree whose uppermost switch is nearest to the switch farthest from it, the first such.
    pub fn new(wiring: &Wiring) -> BarrierTree {
        let trees = (0..wiring.switches()).map(|top| grown_from(wiring, top));
        let nodes = trees.min_by_key(|nodes| nodes.iter().map(|node| node.depth).max());
        let place = |host| {
            let port = wiring.host_port(host);
            let switch = wiring.switch_of(port);
            (switch, port - wiring.port(switch, 0))
        };
        let hosts = (0..wiring.hosts()).map(place).collect();
        BarrierTree { nodes: nodes.unwrap_or_default(), hosts, meeting: 0 }
    }

    /// The first `hosts` hosts meet.
    pub fn meet(&mut self, hosts: u16) {
        if self.meeting == hosts {
            return;
        }
        self.meeting = hosts;
        self.nodes.iter_mut().for_each(|node| (node.below, node.asked) = (0, 0));
        for &(mut switch, mut port) in self.hosts.iter().take(hosts.into()) {
            self.nodes[switch as usize].below |= 1 << port;
            while let Some(above) = self.nodes[switch as usize].above {
                (switch, port) = above;
                self.nodes[switch as usize].below |= 1 << port;
            }
        }
    }

    /// A switch has a request of one of its ports.
    pub fn count(&mut self, switch: u32) -> Counted {
        let node = &mut self.nodes[switch as usize];
        node.asked += 1;
        if node.asked < node.below.count_ones() {
            return Counted::Waits;
        }
        node.asked = 0;
        node.up.map_or(Counted::Complete, Counted::Up)
    }

    /// The ports by which the answer leaves a switch.
    pub fn below(&self, switch: u32) -> u64 {
        self.nodes[switch as usize].below
    }
}

/// The tree of shortest ways to one switch, by the lowest ports.
fn grown_from(wiring: &Wiring, top: u32) -> Vec<Node> {
    let mut nodes = vec![Node::default(); wiring.switches() as usize];
    let mut reached = vec![false; nodes.len()];
    reached[top as usize] = true;
    let mut queue = std::collections::VecDeque::from([top]);
    while let Some(switch) = queue.pop_front() {
        for number in 0..wiring.ports_of(switch) {
            let Peer::Port(peer) = wiring.peer(wiring.port(switch, number)) else { continue };
            let other = wiring.switch_of(peer);
            if std::mem::replace(&mut reached[other as usize], true) {
                continue;
            }
            nodes[other as usize] = Node {
                up: Some(peer - wiring.port(other, 0)),
                above: Some((switch, number)),
                depth: nodes[switch as usize].depth + 1,
                ..Node::default()
            };
            queue.push_back(other);
        }
    }
    nodes
}
