//! Sweeps of the paths, and a barrier made of them (Additional MEMORY CHANNEL Network Features).
//!
//! A packet with the acknowledge attribute passes every queue on its path after everything that was
//! sent before; its acknowledgment confirms that all of that has arrived. A node at the barrier
//! sweeps its paths to all others, so that what it wrote is there, and then announces itself by a
//! broadcast with local copy. It goes on when its own copy shows the announcements of all.

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

    /// The nodes that are waited for, as a set.
    pub const fn on_line(&self) -> u64 {
        self.on_line
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

    /// A node has left the cluster: the barrier no longer waits for it. This may stand for both an
    /// acknowledgment and the last missing announcement.
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

    /// A barrier, how often it was passed, and what is on its way to the node: announcements, and
    /// last of all that one has left.
    type Member = (Barrier, u32, VecDeque<Event>);

    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    enum Event {
        Announced(u8, u32),
        Left(u8),
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        nodes: Vec<Member>,
        /// Sweeps on the way: from, to, and whether it is the acknowledgment.
        sweeps: std::collections::BTreeSet<(u8, u8, bool)>,
        dead: Option<u8>,
        deaths_left: u8,
        most: u32,
    }

    impl World {
        fn new(nodes: u8, most: u32, deaths_left: u8) -> World {
            let all = (1 << nodes) - 1;
            let node = |own| (Barrier::new(Node(own), all), 0, VecDeque::new());
            let nodes = (0..nodes).map(node).collect();
            World { nodes, sweeps: Default::default(), dead: None, deaths_left, most }
        }

        fn is_dead(&self, node: usize) -> bool {
            self.dead == Some(node as u8)
        }

        /// No node is more than one barrier ahead of another one, unless it knows that the other has
        /// left.
        fn check(&self) {
            for (own, passed, _) in &self.nodes {
                for other in members(own.on_line).map(Node::index) {
                    let (barrier, theirs, _) = &self.nodes[other];
                    assert!(theirs + u32::from(barrier.entered) >= *passed);
                }
            }
        }

        fn with(&self, step: impl FnOnce(&mut World)) -> World {
            let mut next = self.clone();
            step(&mut next);
            next
        }

        fn act(&mut self, node: usize, action: Option<BarrierAction>) {
            match action {
                Some(BarrierAction::Sweep(targets)) => {
                    self.sweeps.extend(members(targets).map(|to| (node as u8, to.0, false)));
                }
                Some(BarrierAction::Announce(number)) => {
                    let event = Event::Announced(node as u8, number);
                    self.nodes.iter_mut().for_each(|(_, _, log)| log.push_back(event));
                }
                Some(BarrierAction::Pass) => self.nodes[node].1 += 1,
                None => {}
            }
        }

        /// A node dies: what it sent may have reached some and not others, and each of them hears
        /// behind it that the node has left.
        fn kill(&mut self, node: usize, missed_by: u64) {
            (self.dead, self.deaths_left) = (Some(node as u8), 0);
            self.sweeps.retain(|(from, to, _)| ![*from, *to].contains(&(node as u8)));
            for (other, (_, _, log)) in self.nodes.iter_mut().enumerate() {
                let is_of_dead = |event: &Event| matches!(event, Event::Announced(from, _) if *from == node as u8);
                log.retain(|event| missed_by >> other & 1 == 0 || !is_of_dead(event));
                log.push_back(Event::Left(node as u8));
            }
        }

        fn hear(&mut self, node: usize) {
            let action = match self.nodes[node].2.pop_front() {
                Some(Event::Announced(from, number)) => {
                    self.nodes[node].0.arrive(Node(from), number)
                }
                Some(Event::Left(other)) => self.nodes[node].0.remove(Node(other)),
                None => None,
            };
            self.act(node, action);
        }

        fn sweep(&mut self, sweep: (u8, u8, bool)) {
            let (from, to, is_answer) = sweep;
            self.sweeps.remove(&sweep);
            if is_answer {
                let action = self.nodes[usize::from(to)].0.acknowledge(Node(from));
                self.act(to.into(), action);
            } else {
                self.sweeps.insert((to, from, true));
            }
        }

        fn successors(&self) -> Vec<World> {
            let mut next = Vec::new();
            for node in (0..self.nodes.len()).filter(|node| !self.is_dead(*node)) {
                let (barrier, passed, log) = &self.nodes[node];
                if !barrier.entered && *passed < self.most {
                    next.push(self.with(|world| {
                        let action = world.nodes[node].0.enter();
                        world.act(node, Some(action));
                    }));
                }
                if !log.is_empty() {
                    next.push(self.with(|world| world.hear(node)));
                }
                if self.deaths_left > 0 {
                    let missed = 0..1 << self.nodes.len();
                    next.extend(missed.map(|by| self.with(|world| world.kill(node, by))));
                }
            }
            next.extend(self.sweeps.iter().map(|sweep| self.with(|world| world.sweep(*sweep))));
            next
        }
    }

    /// Every interleaving: nobody passes before all have come, and all can always go on.
    fn explore_all(world: World) {
        let most = world.most;
        let states = explore(world, |world| {
            world.check();
            world.successors()
        });
        assert!(states.len() > 10_000, "{}", states.len());
        let all_through = |world: &World| {
            let mut all = world.nodes.iter().enumerate();
            all.all(|(node, (_, passed, _))| world.is_dead(node) || *passed == most)
        };
        assert!(states.all_can_reach(all_through));
    }

    #[test]
    fn nobody_passes_before_all_have_come() {
        explore_all(World::new(3, 2, 0));
    }

    /// Wherever one of three dies, with what it announced heard by any of the others.
    #[test]
    fn those_who_are_left_pass_without_one_that_died_anywhere() {
        explore_all(World::new(3, 1, 1));
    }
}
