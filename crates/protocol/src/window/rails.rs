//! Two networks of the same kind, one active and one standing by (Additional MEMORY CHANNEL Network
//! Features). After a nonrecoverable error software switches over, and retransmits what had not
//! been acknowledged; the target drops duplicates, so that a program sees nothing of it.

use std::collections::VecDeque;

/// One of the two networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rail {
    /// The one that is active at first.
    #[default]
    First,
    /// The one that stands by.
    Second,
}

/// One node's sending side over two networks, and its receiving side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rails {
    active: Rail,
    failed: Option<Rail>,
    next: u64,
    unacknowledged: VecDeque<u64>,
    expected: u64,
}

impl Rails {
    /// The network that carries the traffic; `None` when both have failed.
    pub fn active(&self) -> Option<Rail> {
        (self.failed != Some(self.active)).then_some(self.active)
    }

    /// Numbers a message that is sent now.
    pub fn send(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.unacknowledged.push_back(number);
        number
    }

    /// Everything up to and including `number` has arrived.
    pub fn acknowledge(&mut self, number: u64) {
        while self.unacknowledged.front().is_some_and(|oldest| *oldest <= number) {
            self.unacknowledged.pop_front();
        }
    }

    /// A nonrecoverable error on a network. Returns what must be retransmitted, in order, on the
    /// one that is active now; nothing if the error was not on the active one, or both have failed.
    pub fn fail(&mut self, rail: Rail) -> Vec<u64> {
        if self.failed.is_some() || rail != self.active {
            self.failed = self.failed.or(Some(rail));
            if rail == self.active {
                self.failed = Some(rail);
            }
            return Vec::new();
        }
        self.failed = Some(rail);
        self.active = match rail {
            Rail::First => Rail::Second,
            Rail::Second => Rail::First,
        };
        self.unacknowledged.iter().copied().collect()
    }

    /// A message arrives. Returns whether it is new: a message that arrives over both networks
    /// counts once.
    pub fn receive(&mut self, number: u64) -> bool {
        let is_new = number == self.expected;
        self.expected += u64::from(is_new);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::explore;

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        rails: Rails,
        wires: [VecDeque<u64>; 2],
        received: u64,
        acknowledged: Option<u64>,
    }

    /// Four messages, the active network fails at any moment: each arrives exactly once, in order.
    #[test]
    fn a_program_sees_nothing_of_a_fail_over() {
        let start = World {
            rails: Rails::default(),
            wires: Default::default(),
            received: 0,
            acknowledged: None,
        };
        let states = explore(start, |world| {
            let mut next = Vec::new();
            let mut step = |act: &dyn Fn(&mut World)| {
                let mut world = world.clone();
                act(&mut world);
                next.push(world);
            };
            if world.rails.next < 4 {
                step(&|world| {
                    let number = world.rails.send();
                    let rail = world.rails.active().unwrap() as usize;
                    world.wires[rail].push_back(number);
                });
            }
            for rail in 0..2 {
                if let Some(number) = world.wires[rail].front().copied() {
                    step(&|world| {
                        world.wires[rail].pop_front();
                        if world.rails.receive(number) {
                            assert_eq!(number, world.received);
                            world.received += 1;
                        }
                        world.acknowledged = world.rails.expected.checked_sub(1);
                    });
                }
            }
            if let Some(number) = world.acknowledged {
                step(&|world| world.rails.acknowledge(number));
            }
            if world.rails.failed.is_none() {
                step(&|world| {
                    let again = world.rails.fail(Rail::First);
                    world.wires[0].clear();
                    world.wires[1].extend(again);
                });
            }
            next
        });
        assert!(states.all_can_reach(|world| world.received == 4));
    }

    #[test]
    fn the_standby_may_fail_first_and_then_there_is_none() {
        let mut rails = Rails::default();
        rails.send();
        assert!(rails.fail(Rail::Second).is_empty());
        assert_eq!(rails.active(), Some(Rail::First));
        assert!(rails.fail(Rail::First).is_empty());
        assert_eq!(rails.active(), None);
    }
}
