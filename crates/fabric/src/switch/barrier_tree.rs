//! The barrier of several switches: each counts the requests of its ports and hands one request on
//! to the switch above it; the uppermost one answers, and the answer goes down the same cables
//! (Maestro 3.3: the controller counts "a barrier request from each node" and broadcasts; for the
//! "hierarchical tree network" of the same section nothing more is said).

use std::collections::VecDeque;

use crate::fabric::{Peer, Wiring};

/// The tree of cables that the barrier uses, and how far each switch has counted.
#[derive(Debug, Default)]
pub struct BarrierTree {
    nodes: Vec<Node>,
    /// The switch and the number of the port that each host is at.
    hosts: Vec<(u32, u32)>,
    /// How many hosts take part, counted from host 0.
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
    /// How many of those ports have sent their request.
    asked: u32,
}

/// The effect of a request that a switch has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Others are missing.
    Waits,
    /// All below this switch have arrived: a request leaves by this port.
    Up(u32),
    /// All have arrived.
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

/// The tree of shortest paths to one switch, by the lowest ports.
fn grown_from(wiring: &Wiring, top: u32) -> Vec<Node> {
    let mut nodes = vec![Node::default(); wiring.switches() as usize];
    let mut reached = vec![false; nodes.len()];
    reached[top as usize] = true;
    let mut queue = VecDeque::from([top]);
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

#[cfg(test)]
mod tests {
    use weft_units::Rate;

    use super::*;
    use crate::fabric::FabricSettings;

    const LEFT: u32 = 0;
    const RIGHT: u32 = 1;
    const ROOT: u32 = 2;

    /// Two boxes below a third, which has them at its ports 0 and 1; each has its hosts at ports 0 and
    /// 1, and the root at port 2.
    fn tree() -> Wiring {
        let text = "[table]\nswitches = [{ name = 'left', ports = 3 }, { name = 'right', ports = 3 }, \
                    { name = 'root', ports = 2 }]\ncables = [\
                    { from = 'host 0', to = 'left.0' }, { from = 'host 1', to = 'left.1' }, \
                    { from = 'host 2', to = 'right.0' }, { from = 'host 3', to = 'right.1' }, \
                    { from = 'left.2', to = 'root.0' }, { from = 'right.2', to = 'root.1' }]\n";
        let fabric: FabricSettings = toml::from_str(text).unwrap();
        fabric.wiring(4_u32, Rate::from_bits_per_second(200_000_000)).unwrap()
    }

    #[test]
    fn requests_meet_at_the_switch_in_the_middle() {
        let mut barrier = BarrierTree::new(&tree());
        barrier.meet(4);
        let asked = [LEFT, RIGHT, LEFT, ROOT, RIGHT, ROOT].map(|switch| barrier.count(switch));
        let [waits, up] = [Counted::Waits, Counted::Up(2)];
        assert_eq!(asked, [waits, waits, up, waits, up, Counted::Complete]);
        let below = [LEFT, RIGHT, ROOT].map(|switch| barrier.below(switch));
        assert_eq!(below, [0b011, 0b011, 0b011]);
    }

    /// One host alone: the root receives requests from the left side only, and answers it.
    #[test]
    fn only_those_who_meet_are_waited_for_and_answered() {
        let mut barrier = BarrierTree::new(&tree());
        barrier.meet(1);
        let asked = [LEFT, ROOT].map(|switch| barrier.count(switch));
        assert_eq!(asked, [Counted::Up(2), Counted::Complete]);
        assert_eq!([LEFT, RIGHT, ROOT].map(|switch| barrier.below(switch)), [1, 0, 1]);
    }

    /// A different set of hosts discards the counts, and a completed barrier counts from zero.
    #[test]
    fn a_barrier_counts_from_zero_again() {
        let mut barrier = BarrierTree::new(&tree());
        barrier.meet(4);
        assert_eq!(barrier.count(RIGHT), Counted::Waits);
        barrier.meet(3);
        for _ in 0..2 {
            let asked = [RIGHT, LEFT, LEFT, ROOT, ROOT].map(|switch| barrier.count(switch));
            let [waits, up] = [Counted::Waits, Counted::Up(2)];
            assert_eq!(asked, [up, waits, up, waits, Counted::Complete]);
        }
    }
}
