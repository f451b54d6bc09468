//! Sweeps of the paths, and a barrier made of them (Additional MEMORY CHANNEL Network Features).
//!
//! A packet with the acknowledge attribute passes every queue on its path behind all that was sent
//! before; its acknowledgment tells that all of that has arrived. A node at the barrier sweeps its
//! paths to all others, so that what it wrote is there, and then announces itself by a broadcast
//! with local copy. It goes on when its own copy shows the announcements of all.

use super::{Node, members};

/// Waits for the acknowledgments of all targets of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sweep {
    waiting: u64,
}

/// What a node does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierAction {
    /// Sends a sweep to each of these nodes.
    Sweep(u64),
    /// Broadcasts, with local copy, that it is at the barrier with this number.
    Announce(u32),
    /// Goes on.
    Pass,
}

/// One node's view of a barrier that is used again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Barrier {
    own: Node,
    on_line: u64,
    /// The barrier that this node is at, or will be at next.
    number: u32,
    sweep: Option<Sweep>,
    entered: bool,
    /// The local copy: the last barrier that each node announced, counted from 1.
    announced: Vec<u32>,
}

impl Sweep {
    /// A sweep to a set of nodes.
    pub const fn of(targets: u64) -> Sweep {
        Sweep { waiting: targets }
    }

    /// An acknowledgment of a target comes. Returns whether all have come now.
    pub fn acknowledge(&mut self, target: Node) -> bool {
        let before = self.waiting;
        self.waiting &= !target.bit();
        before != 0 && self.waiting == 0
    }
}

impl Barrier {
    /// A barrier of a set of nodes; at most 64.
    pub fn new(own: Node, on_line: u64) -> Barrier {
        Barrier { own, on_line, number: 1, sweep: None, entered: false, announced: vec![0; 64] }
    }

    /// The node reaches the barrier.
    pub fn enter(&mut self) -> BarrierAction {
        self.entered = true;
        let others = self.on_line & !self.own.bit();
        if others == 0 {
            return BarrierAction::Announce(self.number);
        }
        self.sweep = Some(Sweep::of(others));
        BarrierAction::Sweep(others)
    }

    /// An acknowledgment of the sweep comes.
    pub fn acknowledge(&mut self, target: Node) -> Option<BarrierAction> {
        let done = self.sweep.as_mut()?.acknowledge(target);
        done.then(|| {
            self.sweep = None;
            BarrierAction::Announce(self.number)
        })
    }

    /// An announcement arrives in the local copy.
    pub fn arrive(&mut self, node: Node, number: u32) -> Option<BarrierAction> {
        self.announced[node.index()] = number;
        self.passes()
    }

    /// A node has left the cluster: nobody waits for it. May be both an acknowledgment and the last
    /// announcement that was missing.
    pub fn remove(&mut self, node: Node) -> Option<BarrierAction> {
        self.on_line &= !node.bit();
        self.acknowledge(node).or_else(|| self.passes())
    }

    fn passes(&mut self) -> Option<BarrierAction> {
        let all = members(self.on_line).all(|node| self.announced[node.index()] >= self.number);
        (self.entered && all).then(|| {
            self.entered = false;
            self.number += 1;
            BarrierAction::Pass
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::explore::explore;

    #[test]
    fn two_nodes_by_hand() {
        let (mut one, mut two) = (Barrier::new(Node(0), 0b11), Barrier::new(Node(1), 0b11));
        assert_eq!(one.enter(), BarrierAction::Sweep(0b10));
        assert_eq!(one.acknowledge(Node(1)), Some(BarrierAction::Announce(1)));
        assert_eq!((one.arrive(Node(0), 1), two.arrive(Node(0), 1)), (None, None));
        assert_eq!(two.enter(), BarrierAction::Sweep(0b01));
        assert_eq!(two.acknowledge(Node(0)), Some(BarrierAction::Announce(1)));
        assert_eq!(two.arrive(Node(1), 1), Some(BarrierAction::Pass));
        assert_eq!(two.enter(), BarrierAction::Sweep(0b01));
        assert_eq!(one.arrive(Node(1), 1), Some(BarrierAction::Pass));
    }

    #[test]
    fn a_node_that_leaves_is_not_waited_for() {
        let mut barrier = Barrier::new(Node(0), 0b111);
        barrier.enter();
        assert_eq!(barrier.acknowledge(Node(1)), None);
        assert_eq!(barrier.remove(Node(2)), Some(BarrierAction::Announce(1)));
        assert_eq!(barrier.arrive(Node(0), 1), None);
        assert_eq!(barrier.remove(Node(1)), Some(BarrierAction::Pass));
    }

    /// A barrier, how often it was passed, and the announcements on their way to the node.
    type Member = (Barrier, u32, VecDeque<(u8, u32)>);

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        nodes: Vec<Member>,
        /// Sweeps on the way: from, to, and whether it is the acknowledgment.
        sweeps: std::collections::BTreeSet<(u8, u8, bool)>,
    }

    /// Three nodes, any interleaving: nobody is more than one barrier ahead of another, and all can
    /// always go on.
    #[test]
    fn nobody_passes_before_all_have_come() {
        let most = 2;
        let node = |own| (Barrier::new(Node(own), 0b111), 0, VecDeque::new());
        let start = World { nodes: (0..3).map(node).collect(), sweeps: Default::default() };
        let states = explore(start, |world| {
            let passed: Vec<u32> = world.nodes.iter().map(|(_, passed, _)| *passed).collect();
            let entered = |node: usize| passed[node] + u32::from(world.nodes[node].0.entered);
            assert!(passed.iter().all(|passed| (0..3).all(|node| entered(node) >= *passed)));
            let mut next = Vec::new();
            for (node, passed) in passed.iter().enumerate() {
                if !world.nodes[node].0.entered && *passed < most {
                    let mut world = world.clone();
                    let action = world.nodes[node].0.enter();
                    act(&mut world, node, Some(action));
                    next.push(world);
                }
                if let Some((from, number)) = world.nodes[node].2.front().copied() {
                    let mut world = world.clone();
                    world.nodes[node].2.pop_front();
                    let action = world.nodes[node].0.arrive(Node(from), number);
                    act(&mut world, node, action);
                    next.push(world);
                }
            }
            for sweep @ (from, to, answer) in world.sweeps.clone() {
                let mut world = world.clone();
                world.sweeps.remove(&sweep);
                if answer {
                    let action = world.nodes[usize::from(to)].0.acknowledge(Node(from));
                    act(&mut world, usize::from(to), action);
                } else {
                    world.sweeps.insert((to, from, true));
                }
                next.push(world);
            }
            next
        });
        assert!(states.len() > 10_000, "{}", states.len());
        let all_through = |world: &World| world.nodes.iter().all(|(_, passed, _)| *passed == most);
        assert!(states.all_can_reach(all_through));
    }

    fn act(world: &mut World, node: usize, action: Option<BarrierAction>) {
        match action {
            Some(BarrierAction::Sweep(targets)) => {
                world.sweeps.extend(members(targets).map(|to| (node as u8, to.0, false)));
            }
            Some(BarrierAction::Announce(number)) => {
                world.nodes.iter_mut().for_each(|(_, _, log)| log.push_back((node as u8, number)));
            }
            Some(BarrierAction::Pass) => world.nodes[node].1 += 1,
            None => {}
        }
    }
}
