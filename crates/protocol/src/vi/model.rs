//! Every state of two connected endpoints that send a few messages over a wire that may damage or
//! lose them, under each level of reliability.

use std::collections::VecDeque;

use super::{
    Arrival, Completion, Descriptor, Endpoint, EndpointState, Fault, Operation, Outcome,
    ProtectionTag, QueueDepths, Registry, Reliability, Reply, WorkQueueKind,
};
use crate::explore::explore;

const MESSAGES: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    from: Endpoint<u8>,
    to: Endpoint<u8>,
    wire: VecDeque<Arrival>,
    back: VecDeque<Reply>,
    sends: u8,
    receives: u8,
    fetched: u8,
    transmitted: u8,
    /// Returned descriptors: how many sends completed and failed, and the same for receives.
    sent: (u8, u8),
    received: (u8, u8),
    /// The messages that the target has.
    there: Vec<u64>,
    has_fault: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Perfect,
    Damages,
    Loses,
}

impl World {
    fn new(reliability: Reliability) -> World {
        let end = || {
            let depths = QueueDepths { sends: 2, receives: 2 };
            Endpoint::new(reliability, ProtectionTag(1), depths)
        };
        let (mut from, mut to) = (end(), end());
        assert_eq!((from.connect(1), to.connect(0)), (Ok(()), Ok(())));
        World {
            from,
            to,
            wire: VecDeque::new(),
            back: VecDeque::new(),
            sends: 0,
            receives: 0,
            fetched: 0,
            transmitted: 0,
            sent: (0, 0),
            received: (0, 0),
            there: Vec::new(),
            has_fault: false,
        }
    }

    fn count(&mut self, completions: impl IntoIterator<Item = Completion<u8>>) {
        for completion in completions {
            let counts = match completion.queue {
                WorkQueueKind::Send => &mut self.sent,
                WorkQueueKind::Receive => &mut self.received,
            };
            let place = counts.0 + counts.1;
            assert_eq!(completion.cookie, place, "descriptors come back in order");
            match completion.result {
                Ok(()) => counts.0 += 1,
                Err(_) => counts.1 += 1,
            }
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.from.state(), EndpointState::Connected(_))
    }

    /// Every step that is possible, one at a time.
    fn steps(&self, wire: Wire) -> Vec<World> {
        let mut steps = Vec::new();
        let mut step = |change: &dyn Fn(&mut World) -> bool| {
            let mut next = self.clone();
            if change(&mut next) {
                steps.push(next);
            }
        };
        step(&|own| {
            let cookie = own.sends;
            let descriptor = Descriptor { cookie, operation: Operation::Send, length: 1 };
            own.sends += 1;
            cookie < MESSAGES && own.from.post_send(descriptor).is_ok()
        });
        step(&|own| {
            let cookie = own.receives;
            own.receives += 1;
            cookie < MESSAGES && own.to.post_receive(cookie, 1).is_ok()
        });
        step(&World::transmit);
        step(&|own| own.deliver(true));
        match wire {
            Wire::Perfect => {}
            Wire::Damages => step(&|own| own.deliver(false)),
            Wire::Loses => step(&|own| {
                own.has_fault = true;
                own.wire.pop_front().is_some()
            }),
        }
        step(&World::hear);
        step(&|own| {
            // Nothing is under way and a response is missing: the adapter gives up.
            let sends = own.from.outstanding().sends;
            let silent = own.wire.is_empty() && own.back.is_empty();
            let answered = own.transmitted == own.sent.0 + own.sent.1;
            if sends == 0 || !silent || answered || !own.is_connected() {
                return false;
            }
            assert!(own.has_fault);
            let fault = Fault::Lost { expected: 0, found: 0 };
            let completions = own.from.break_off(fault);
            own.count(completions);
            true
        });
        steps
    }

    fn transmit(&mut self) -> bool {
        if !self.is_connected() {
            return false;
        }
        let Some(transfer) = self.from.fetch() else { return false };
        self.fetched += 1;
        self.wire.push_back(Arrival { transfer, is_intact: true });
        let completion = self.from.transmitted();
        self.transmitted += 1;
        self.count(completion);
        true
    }

    fn deliver(&mut self, is_intact: bool) -> bool {
        let Some(arrival) = self.wire.pop_front() else { return false };
        self.has_fault |= !is_intact;
        let reception = self.to.arrive(Arrival { is_intact, ..arrival }, &Registry::new());
        match reception.outcome {
            Outcome::Received(completion) => {
                self.there.push(arrival.transfer.sequence);
                self.count([completion]);
            }
            Outcome::Broken(fault, completions) => {
                assert_eq!(reception.reply, Reply::Break(fault));
                self.count(completions);
            }
            Outcome::Dropped(_) | Outcome::Ignored => assert_eq!(reception.reply, Reply::None),
            Outcome::Written => panic!("nothing is written"),
        }
        if reception.reply != Reply::None {
            self.back.push_back(reception.reply);
        }
        true
    }

    fn hear(&mut self) -> bool {
        match self.back.pop_front() {
            Some(Reply::Accept) => {
                let completion = self.from.accepted();
                self.count(completion);
            }
            Some(Reply::Break(fault)) => {
                let completions = self.from.break_off(fault);
                self.count(completions);
            }
            Some(Reply::None) | None => return false,
        }
        true
    }

    fn check(&self, reliability: Reliability) {
        let (sends, receives) = (self.from.outstanding().sends, self.to.outstanding().receives);
        let back = |counts: (u8, u8)| usize::from(counts.0 + counts.1);
        assert_eq!(back(self.sent) + sends, usize::from(self.sends), "each send once");
        assert_eq!(back(self.received) + receives, usize::from(self.receives), "each receive");
        assert_eq!(self.there.len(), usize::from(self.received.0));
        assert!(self.there.is_sorted_by(|one, other| one < other), "in order, at most once");
        if reliability != Reliability::UnreliableDelivery {
            let prefix = (0..).zip(&self.there).all(|(place, own)| place == *own);
            assert!(prefix, "none is missing before another: {:?}", self.there);
        }
        if reliability == Reliability::ReliableReception {
            assert!(usize::from(self.sent.0) <= self.there.len(), "complete means received");
        }
    }
}

#[test]
fn every_descriptor_comes_back_once_and_messages_keep_their_order() {
    let levels = [
        Reliability::UnreliableDelivery,
        Reliability::ReliableDelivery,
        Reliability::ReliableReception,
    ];
    for reliability in levels {
        for wire in [Wire::Perfect, Wire::Damages, Wire::Loses] {
            let states = explore(World::new(reliability), |world| {
                world.check(reliability);
                world.steps(wire)
            });
            assert!(states.len() > 50, "{} states", states.len());
            // However it went so far, all sends may still come back: nothing hangs.
            let came_back = |world: &World| world.from.outstanding().sends == 0;
            assert!(states.all_can_reach(came_back), "{reliability:?} {wire:?}");
            let all_there = |world: &World| world.there.len() == usize::from(MESSAGES);
            assert!(states.iter().any(all_there), "{reliability:?} {wire:?}");
            let fault = |world: &World| match world.to.state() {
                EndpointState::Broken(fault) => Some(fault),
                _ => None,
            };
            let has_damage = |world: &&World| world.has_fault && wire == Wire::Damages;
            if reliability == Reliability::UnreliableDelivery {
                assert!(states.iter().all(World::is_connected), "nothing breaks it");
            } else {
                assert!(states.iter().filter(has_damage).all(|own| fault(own).is_some()));
                let perfect = |world: &&World| !world.has_fault && fault(world).is_some();
                let mut unposted = states.iter().filter(perfect);
                assert!(unposted.all(|own| fault(own) == Some(Fault::NoDescriptor)));
            }
        }
    }
}
