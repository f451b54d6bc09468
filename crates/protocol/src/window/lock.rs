//! A lock by ordered broadcast (MEMORY CHANNEL 2 hardware-supported lock primitive).
//!
//! The lock is a word for each node, mapped incoming and outgoing by all, so that every node has a
//! copy, and its own writes reach its own copy in the same order as everyone else's. A node bids by
//! writing its word. When its bid arrives in its own copy and no other word is set, it was the
//! first, and has the lock. Otherwise it takes its bid back, backs off and tries again.
//!
//! At most one bidder wins: of two bids, one comes second in the common order of writes, and its
//! bidder sees the first bid when its own arrives. This needs rule 2, and under errors rule 3.

use super::Node;

/// A write to the lock structure: one node's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bid {
    /// Whose word.
    pub node: Node,
    /// Set, or cleared.
    pub set: bool,
}

/// What a node does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction {
    /// Writes to the lock structure, by broadcast with local copy.
    Write(Bid),
    /// Has the lock.
    Acquired,
    /// Waits a while of its choice, then calls [`Lock::retry`].
    BackOff,
    /// Has given the lock back.
    Released,
}

/// One node's view of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    own: Node,
    /// The local copy: a bit for each word that is set.
    words: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// The bid is on its way.
    Bidding,
    Held,
    /// The bid is being taken back.
    Retracting,
    BackingOff,
    Releasing,
}

impl Lock {
    /// A free lock.
    pub const fn new(own: Node) -> Lock {
        Lock { own, words: 0, state: State::Idle }
    }

    /// Whether this node has the lock.
    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// Begins to acquire the lock; nothing to do unless the node is idle.
    pub fn acquire(&mut self) -> Option<LockAction> {
        self.bid_from(State::Idle)
    }

    /// The back-off is over.
    pub fn retry(&mut self) -> Option<LockAction> {
        self.bid_from(State::BackingOff)
    }

    fn bid_from(&mut self, state: State) -> Option<LockAction> {
        (self.state == state).then(|| {
            self.state = State::Bidding;
            LockAction::Write(Bid { node: self.own, set: true })
        })
    }

    /// Releases the lock; does nothing unless the node has it.
    pub fn release(&mut self) -> Option<LockAction> {
        self.is_held().then(|| {
            self.state = State::Releasing;
            LockAction::Write(Bid { node: self.own, set: false })
        })
    }

    /// A write arrives in the local copy. The cluster manager clears the word of a node that is no
    /// longer there in the same way.
    pub fn arrive(&mut self, bid: Bid) -> Option<LockAction> {
        if bid.set {
            self.words |= bid.node.bit();
        } else {
            self.words &= !bid.node.bit();
        }
        if bid.node != self.own {
            return None;
        }
        let (state, action) = match (self.state, bid.set) {
            (State::Bidding, true) if self.words == self.own.bit() => {
                (State::Held, LockAction::Acquired)
            }
            (State::Bidding, true) => {
                (State::Retracting, LockAction::Write(Bid { node: self.own, set: false }))
            }
            (State::Retracting, false) => (State::BackingOff, LockAction::BackOff),
            (State::Releasing, false) => (State::Idle, LockAction::Released),
            _ => return None,
        };
        self.state = state;
        Some(action)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::{Admission, Path, PathState};
    use super::*;
    use crate::explore::explore;

    /// A few nodes around one point of ordering, with any interleaving of their steps, at most one
    /// damaged packet anywhere, and at most one death.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        nodes: Vec<Member>,
        /// Writes that passed the point of ordering, as far as some node has not taken them.
        log: VecDeque<Bid>,
        errors_left: u8,
        deaths_left: u8,
        /// Whether hardware discards what follows a damaged packet.
        discards: bool,
        /// How many writes the network holds that some node has not taken.
        buffers: usize,
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Member {
        lock: Lock,
        alive: bool,
        /// Written, and not yet at the point of ordering.
        out: VecDeque<Bid>,
        /// How much of the log has come over the link, and how much of it was taken.
        came: usize,
        taken: usize,
        path: Path,
    }

    impl World {
        fn new(nodes: u8, [errors, deaths]: [u8; 2], discards: bool, buffers: usize) -> World {
            let member = |node| Member {
                lock: Lock::new(Node(node)),
                alive: true,
                out: VecDeque::new(),
                came: 0,
                taken: 0,
                path: Path::new(1),
            };
            World {
                nodes: (0..nodes).map(member).collect(),
                log: VecDeque::new(),
                errors_left: errors,
                deaths_left: deaths,
                discards,
                buffers,
            }
        }

        fn holders(&self) -> usize {
            self.nodes.iter().filter(|node| node.alive && node.lock.is_held()).count()
        }

        fn act(&mut self, node: usize, action: Option<LockAction>) -> bool {
            if let Some(LockAction::Write(bid)) = action {
                self.nodes[node].out.push_back(bid);
            }
            action.is_some()
        }

        fn with(&self, step: impl FnOnce(&mut World) -> bool) -> Option<World> {
            let mut next = self.clone();
            if !step(&mut next) {
                return None;
            }
            let live = next.nodes.iter().filter(|node| node.alive);
            let done = live.map(|node| node.came.min(node.taken)).min().unwrap_or(0);
            next.log.drain(..done);
            for node in &mut next.nodes {
                node.came = node.came.saturating_sub(done);
                node.taken = node.taken.saturating_sub(done);
            }
            Some(next)
        }

        /// The oldest write of a node passes the point of ordering.
        fn pass(&mut self, node: usize) -> bool {
            if self.log.len() == self.buffers {
                return false;
            }
            let bid = self.nodes[node].out.pop_front();
            self.log.extend(bid);
            bid.is_some()
        }

        /// The next packet of the log comes to a node, whole or damaged.
        fn come(&mut self, node: usize, whole: bool) -> bool {
            let Some(&bid) = self.log.get(self.nodes[node].came) else { return false };
            if !whole {
                if self.errors_left == 0 {
                    return false;
                }
                self.errors_left -= 1;
            }
            let member = &mut self.nodes[node];
            member.came += 1;
            let admission = if self.discards {
                member.path.arrive(whole, false)
            } else if whole {
                Admission::Accept
            } else {
                Admission::Damaged
            };
            if admission != Admission::Accept {
                if !self.discards {
                    member.taken = member.came;
                }
                return true;
            }
            member.taken = member.came;
            let action = member.lock.arrive(bid);
            self.act(node, action);
            true
        }

        fn successors(&self) -> Vec<World> {
            let mut next = Vec::new();
            for node in (0..self.nodes.len()).filter(|node| self.nodes[*node].alive) {
                let steps: [&dyn Fn(&mut World) -> bool; 9] = [
                    &|world| {
                        let a = world.nodes[node].lock.acquire();
                        world.act(node, a)
                    },
                    &|world| {
                        let a = world.nodes[node].lock.retry();
                        world.act(node, a)
                    },
                    &|world| {
                        let a = world.nodes[node].lock.release();
                        world.act(node, a)
                    },
                    &|world| world.pass(node),
                    &|world| world.come(node, true),
                    &|world| world.come(node, false),
                    // Software recovers the path, and what was lost comes again in order.
                    &|world| world.nodes[node].path.recover(),
                    &|world| {
                        let member = &mut world.nodes[node];
                        member.came = member.taken;
                        member.path.resume()
                    },
                    &|world| world.kill(node),
                ];
                next.extend(steps.into_iter().filter_map(|step| self.with(step)));
            }
            next
        }

        /// A node dies, with what it had not sent; once it is isolated, the manager clears its
        /// word.
        fn kill(&mut self, node: usize) -> bool {
            if self.deaths_left == 0 {
                return false;
            }
            self.deaths_left -= 1;
            self.nodes[node].alive = false;
            self.nodes[node].out.clear();
            let dead = Bid { node: Node(node as u8), set: false };
            if let Some(manager) = self.nodes.iter_mut().find(|node| node.alive) {
                manager.out.push_back(dead);
            }
            true
        }
    }

    fn most_holders(world: World) -> (usize, usize, bool) {
        let mut most = 0;
        let states = explore(world, |world| {
            most = most.max(world.holders());
            world.successors()
        });
        let can_win = states.all_can_reach(|world| world.holders() == 1);
        (states.len(), most, can_win)
    }

    #[test]
    fn at_most_one_of_two_wins_with_an_error_and_a_death_anywhere() {
        let (states, most, can_win) = most_holders(World::new(2, [1, 1], true, 4));
        assert!(states > 10_000, "{states}");
        assert_eq!((most, can_win), (1, true));
    }

    #[test]
    fn at_most_one_of_three_wins_under_any_interleaving() {
        let (states, most, can_win) = most_holders(World::new(3, [0, 0], true, 2));
        assert!(states > 10_000, "{states}");
        assert_eq!((most, can_win), (1, true));
    }

    /// What rule 3 is for: a node that misses a bid and takes what follows can win beside another.
    #[test]
    fn without_discarding_behind_an_error_two_win() {
        let (_, most, _) = most_holders(World::new(2, [1, 0], false, 4));
        assert_eq!(most, 2);
    }

    #[test]
    fn a_sole_bidder_wins_and_two_back_off() {
        let bid = |node, set| Bid { node: Node(node), set };
        let mut lock = Lock::new(Node(0));
        assert_eq!(lock.acquire(), Some(LockAction::Write(bid(0, true))));
        assert_eq!((lock.acquire(), lock.release()), (None, None));
        assert_eq!(lock.arrive(bid(0, true)), Some(LockAction::Acquired));
        let mut late = Lock::new(Node(1));
        late.acquire();
        assert_eq!(late.arrive(bid(0, true)), None);
        assert_eq!(late.arrive(bid(1, true)), Some(LockAction::Write(bid(1, false))));
        assert_eq!(late.arrive(bid(1, false)), Some(LockAction::BackOff));
        assert_eq!(lock.release(), Some(LockAction::Write(bid(0, false))));
        assert_eq!(lock.arrive(bid(0, false)), Some(LockAction::Released));
        assert_eq!(late.arrive(bid(0, false)), None);
        assert_eq!(late.retry(), Some(LockAction::Write(bid(1, true))));
        assert_eq!(late.arrive(bid(1, true)), Some(LockAction::Acquired));
        assert_eq!(Path::new(1).state(), PathState::Normal);
    }

    mod many {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            /// Sixteen nodes, long random interleavings, errors and deaths as they come.
            #[test]
            fn at_most_one_of_sixteen_wins(
                steps in proptest::collection::vec((0_usize..16, 0_usize..9), 1..1500),
            ) {
                let mut world = World::new(16, [3, 3], true, 40);
                for (node, step) in steps {
                    if !world.nodes[node].alive {
                        continue;
                    }
                    let next = world.with(|world| match step {
                        0 | 1 => {
                            let action = world.nodes[node].lock.acquire()
                                .or_else(|| world.nodes[node].lock.retry());
                            world.act(node, action)
                        }
                        2 => {
                            let action = world.nodes[node].lock.release();
                            world.act(node, action)
                        }
                        3 | 4 => world.pass(node),
                        5 => world.come(node, false),
                        6 if world.nodes[node].path.recover() => {
                            let member = &mut world.nodes[node];
                            member.came = member.taken;
                            member.path.resume()
                        }
                        7 => world.nodes.iter().filter(|node| node.alive).count() > 2
                            && world.kill(node),
                        _ => {
                            let mut came = false;
                            for node in 0..16 {
                                came |= world.nodes[node].alive && world.come(node, true);
                            }
                            came
                        }
                    });
                    world = next.unwrap_or(world);
                    prop_assert!(world.holders() <= 1);
                }
            }
        }
    }
}
