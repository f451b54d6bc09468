//! One node of a ring: the packets that pass it, the requests that it repeats, and the packets of
//! its host.

use std::collections::VecDeque;

use weft_units::{Limit, Time};

/// The kind of a packet on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Data for the target, and whether a bit of it is wrong.
    Request {
        /// See above.
        damaged: bool,
    },
    /// The answer of the target for the initiator, and whether the request was accepted.
    Acknowledgment {
        /// See above.
        accepted: bool,
    },
}

/// Requests for one target that a host has submitted and its node has not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingDemand {
    /// The target.
    pub to: u32,
    /// How many packets.
    pub packets: u32,
    /// A name that the caller gives them.
    pub name: u32,
    /// When they were submitted.
    pub generated: Time,
}

/// What a node puts on its link. Packets have the numbers that the caller gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingTurn {
    /// A packet that passes, or an acknowledgment of this node.
    Pass(u32),
    /// A request that did not arrive whole before, or one that a bridge has taken from its cable.
    Repeat(u32),
    /// The next request of a demand.
    Fresh(RingDemand),
}

/// A node of a ring. It has one link to the next node. Passing packets and acknowledgments go before
/// requests of its own, so that nothing on the ring waits for a request that has not begun. It owns no
/// clock: the engine asks for the next packet when the link is free.
#[derive(Clone, Debug)]
pub struct RingNode {
    /// Packets that have come through the bypass, and acknowledgments of this node.
    passing: VecDeque<u32>,
    /// Requests that must be repeated, and those that a bridge has taken from its cable.
    again: VecDeque<u32>,
    own: VecDeque<RingDemand>,
    /// Own requests on the ring whose acknowledgment is not back.
    outstanding: usize,
    /// How many there may be.
    most: Limit,
}

impl RingNode {
    /// A node without packets that may have `most` requests on the ring at a time.
    pub fn new(most: Limit) -> RingNode {
        let (passing, again, own) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        RingNode { passing, again, own, outstanding: 0, most }
    }

    /// Whether packets wait that have come through the bypass, or acknowledgments of this node.
    #[inline]
    pub fn has_passing(&self) -> bool {
        !self.passing.is_empty()
    }

    /// A packet has come through the bypass, or the node acknowledges one.
    #[inline]
    pub fn pass(&mut self, packet: u32) {
        self.passing.push_back(packet);
    }

    /// A request may be repeated, or a bridge has one from its cable.
    pub fn repeat(&mut self, packet: u32) {
        self.again.push_back(packet);
    }

    /// The host submits requests.
    pub fn submit(&mut self, demand: RingDemand) {
        if demand.packets > 0 {
            self.own.push_back(demand);
        }
    }

    /// The acknowledgment of an own request is back, whatever it says.
    #[inline]
    pub fn answered(&mut self) {
        debug_assert!(self.outstanding > 0, "an acknowledgment of nothing");
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// The next packet for the link, which is free now; `None` if there is none, or as many
    /// requests as it may have are on the ring. Repetitions go before new requests.
    #[inline]
    pub fn next_turn(&mut self) -> Option<RingTurn> {
        if let Some(packet) = self.passing.pop_front() {
            return Some(RingTurn::Pass(packet));
        }
        if !self.has_waiting() || !self.most.admits(self.outstanding) {
            return None;
        }
        self.next_own()
    }

    /// The next request of this node, again or for the first time.
    #[inline(never)]
    fn next_own(&mut self) -> Option<RingTurn> {
        let turn = match self.again.pop_front() {
            Some(packet) => RingTurn::Repeat(packet),
            None => {
                let oldest = self.own.front_mut()?;
                let demand = RingDemand { packets: 1, ..*oldest };
                oldest.packets -= 1;
                if oldest.packets == 0 {
                    self.own.pop_front();
                }
                RingTurn::Fresh(demand)
            }
        };
        self.outstanding += 1;
        Some(turn)
    }

    /// Requests that have not been sent for the first time.
    pub fn unsent(&self) -> u64 {
        self.own.iter().map(|demand| u64::from(demand.packets)).sum()
    }

    /// Whether requests of this node wait, for the first time or again.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.own.is_empty() || !self.again.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(name: u32, packets: u32) -> RingDemand {
        RingDemand { to: 1, packets, name, generated: Time(5) }
    }

    #[test]
    fn what_passes_goes_first_then_what_is_repeated_then_what_is_new() {
        let mut node = RingNode::new(Limit::Unlimited);
        node.submit(demand(7, 2));
        node.submit(demand(8, 0));
        node.submit(demand(9, 1));
        node.repeat(30);
        node.pass(20);
        node.pass(21);
        assert_eq!((node.unsent(), node.has_waiting(), node.has_passing()), (3, true, true));
        let turns: Vec<_> = std::iter::from_fn(|| node.next_turn()).collect();
        let fresh = |name| RingTurn::Fresh(demand(name, 1));
        let passing = [RingTurn::Pass(20), RingTurn::Pass(21)];
        assert_eq!(turns[..2], passing);
        assert_eq!(turns[2..], [RingTurn::Repeat(30), fresh(7), fresh(7), fresh(9)]);
        assert_eq!((node.unsent(), node.has_waiting(), node.has_passing()), (0, false, false));
    }

    /// So a packet that finds the link free and nothing passing may go on without being queued.
    #[test]
    fn what_passes_alone_is_next_whatever_else_waits() {
        for most in [Limit::Unlimited, Limit::at_most(1).unwrap()] {
            for before in 0..8 {
                let mut node = RingNode::new(most);
                if before & 1 != 0 {
                    node.submit(demand(7, 2));
                    assert!(node.next_turn().is_some());
                }
                if before & 2 != 0 {
                    node.repeat(30);
                }
                if before & 4 != 0 {
                    node.submit(demand(8, 1));
                }
                let untouched = format!("{node:?}");
                node.pass(20);
                assert_eq!(node.next_turn(), Some(RingTurn::Pass(20)));
                assert_eq!(format!("{node:?}"), untouched);
            }
        }
    }

    #[test]
    fn outstanding_requests_are_bounded_and_what_passes_is_not() {
        let mut node = RingNode::new(Limit::at_most(2).unwrap());
        node.submit(demand(0, 2));
        node.repeat(30);
        assert_eq!(node.next_turn(), Some(RingTurn::Repeat(30)));
        assert_eq!(node.next_turn(), Some(RingTurn::Fresh(demand(0, 1))));
        assert_eq!(node.next_turn(), None);
        node.pass(20);
        assert_eq!(node.next_turn(), Some(RingTurn::Pass(20)));
        assert_eq!(node.next_turn(), None);
        node.answered();
        assert_eq!(node.next_turn(), Some(RingTurn::Fresh(demand(0, 1))));
    }
}
