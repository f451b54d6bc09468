//! Which nodes belong to the cluster (Additional MEMORY CHANNEL Network Features).
//!
//! Each port hears control packets of its node at a regular interval. A node that has not been
//! heard for a time-out is isolated; one that comes on line is added. Either event is broadcast, in
//! the order of all packets, so that every node sees the same sequence of memberships. Intervals
//! and time-outs are not given in the document.

use weft_units::{Span, Time};

use super::{Node, members};

/// A change of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A node came on line.
    Added(Node),
    /// A node was isolated, or went off line.
    Removed(Node),
}

/// When each node was last heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node.
    pub node: Node,
    /// The arrival of its last control packet.
    pub heard: Time,
}

/// The view of one port or node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    time_out: Span,
    heard: Vec<Option<Time>>,
    on_line: u64,
    changes: u64,
}

impl Membership {
    /// Nobody is on line yet.
    pub fn new(nodes: u16, time_out: Span) -> Membership {
        Membership { time_out, heard: vec![None; nodes.into()], on_line: 0, changes: 0 }
    }

    /// The nodes on line, as bits: the global status of control packets.
    pub fn on_line(&self) -> u64 {
        self.on_line
    }

    /// How many changes there were: two nodes with equal numbers have equal memberships.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A control packet of a node came. Returns the change if it was off line.
    pub fn hear(&mut self, now: Time, node: Node) -> Option<Change> {
        *self.heard.get_mut(node.index())? = Some(now);
        let change = Change::Added(node);
        self.apply(change).then_some(change)
    }

    /// The next node whose time-out expires, and when, unless it is heard before.
    pub fn next_time_out(&self) -> Option<Member> {
        let member = |node: Node| Some(Member { node, heard: self.heard[node.index()]? });
        members(self.on_line).filter_map(member).min_by_key(|member| member.heard)
    }

    /// Isolates the nodes that have been silent for the time-out.
    pub fn expire(&mut self, now: Time) -> Vec<Change> {
        let mut removed = Vec::new();
        while let Some(member) = self.next_time_out()
            && now.since(member.heard) >= self.time_out
        {
            removed.push(Change::Removed(member.node));
            self.apply(Change::Removed(member.node));
        }
        removed
    }

    /// A change that was broadcast arrives, or is made here. Returns whether it changed anything.
    pub fn apply(&mut self, change: Change) -> bool {
        let before = self.on_line;
        match change {
            Change::Added(node) => self.on_line |= node.bit(),
            Change::Removed(node) => {
                self.on_line &= !node.bit();
                if let Some(heard) = self.heard.get_mut(node.index()) {
                    *heard = None;
                }
            }
        }
        let changed = self.on_line != before;
        self.changes += u64::from(changed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_is_isolated_and_may_come_back() {
        let mut membership = Membership::new(3, Span(1000));
        assert_eq!(membership.hear(Time(0), Node(0)), Some(Change::Added(Node(0))));
        assert_eq!(membership.hear(Time(10), Node(2)), Some(Change::Added(Node(2))));
        assert_eq!(membership.hear(Time(900), Node(0)), None);
        assert_eq!(membership.next_time_out(), Some(Member { node: Node(2), heard: Time(10) }));
        assert_eq!(membership.expire(Time(1009)), []);
        assert_eq!(membership.expire(Time(1010)), [Change::Removed(Node(2))]);
        assert_eq!((membership.on_line(), membership.changes()), (0b001, 3));
        assert_eq!(membership.hear(Time(5000), Node(2)), Some(Change::Added(Node(2))));
        assert_eq!(membership.expire(Time(5000)), [Change::Removed(Node(0))]);
        assert_eq!(membership.hear(Time(5000), Node(9)), None);
    }

    #[test]
    fn the_same_changes_give_the_same_membership() {
        let changes = [Change::Added(Node(1)), Change::Added(Node(0)), Change::Removed(Node(1))];
        let [mut one, mut other] = [Membership::new(2, Span(1)), Membership::new(2, Span(9))];
        for change in changes {
            assert_eq!((one.apply(change), other.apply(change)), (true, true));
        }
        assert!(!one.apply(Change::Removed(Node(1))));
        assert_eq!((one.on_line(), one.changes()), (other.on_line(), other.changes()));
    }
}
