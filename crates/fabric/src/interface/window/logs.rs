//! What software keeps to send again after an error: each node what it sent, and the order in which
//! it took what others sent.
//!
//! A packet that all its targets have taken is forgotten, unless an error is open: the order of
//! what was lost may then rest on packets between.

use std::collections::VecDeque;

use weft_protocol::window::{Node, PacketName};

/// A packet of a sender that not all its targets have taken; `P` is what its sender keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<P> {
    /// A packet to be retransmitted.
    pub packet: P,
    /// Its targets, a bit each.
    pub targets: u64,
    /// The targets that have it.
    pub taken: u64,
    /// The targets that have discarded it.
    pub lost: u64,
}

#[derive(Clone, Debug)]
struct Sent<P> {
    first: u64,
    entries: VecDeque<Entry<P>>,
}

/// The logs of all nodes.
#[derive(Debug)]
pub struct Logs<P> {
    sent: Vec<Sent<P>>,
    received: Vec<VecDeque<PacketName>>,
}

/// A node's response to a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The number of the first packet that it has not forgotten.
    pub first: u64,
    /// The targets of that one and of those behind it.
    pub sent: Vec<u64>,
    /// What it took, in order.
    pub received: Vec<PacketName>,
}

impl<P: Copy> Logs<P> {
    /// The logs of nodes that have sent nothing.
    pub fn new(nodes: usize) -> Logs<P> {
        let nothing = Sent { first: 0, entries: VecDeque::new() };
        Logs { sent: vec![nothing; nodes], received: vec![VecDeque::new(); nodes] }
    }

    /// The name that the next packet of a sender has.
    pub fn next_name(&self, sender: u16) -> PacketName {
        let own = &self.sent[usize::from(sender)];
        PacketName { sender: Node(sender as u8), number: own.first + own.entries.len() as u64 }
    }

    /// A sender sends the packet of that name to these targets.
    pub fn record(&mut self, sender: u16, targets: u64, packet: P) {
        let entry = Entry { packet, targets, taken: 0, lost: 0 };
        self.sent[usize::from(sender)].entries.push_back(entry);
    }

    /// The sender's record of a packet, unless it has forgotten it.
    pub fn entry(&mut self, name: PacketName) -> Option<&mut Entry<P>> {
        let own = &mut self.sent[usize::from(name.sender.0)];
        own.entries.get_mut(name.number.checked_sub(own.first)? as usize)
    }

    /// A target has taken a packet.
    pub fn take(&mut self, target: u16, name: PacketName, is_error_open: bool) {
        if let Some(entry) = self.entry(name) {
            entry.taken |= 1 << target;
        }
        self.received[usize::from(target)].push_back(name);
        if !is_error_open {
            self.forget(name.sender.0.into(), target);
        }
    }

    /// A target has discarded a packet. Whether its sender can send it again.
    pub fn lose(&mut self, target: u16, name: PacketName) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        let is_wanted = entry.targets >> target & 1 == 1;
        if is_wanted {
            entry.lost |= 1 << target;
        }
        is_wanted
    }

    /// A packet will not be retransmitted after all, although those of these targets that are on line
    /// still lack it. Returns it, and the targets for which it is lost for good.
    pub fn take_back(&mut self, name: PacketName, targets: u64) -> Option<(P, u64)> {
        let entry = self.entry(name)?;
        entry.lost |= targets & entry.targets;
        Some((entry.packet, targets & !entry.targets))
    }

    /// A copy of a packet does not reach its target, and will not be missed.
    pub fn let_go(&mut self, target: u16, name: PacketName) {
        if let Some(entry) = self.entry(name) {
            entry.targets &= !(1 << target);
            entry.lost &= !(1 << target);
        }
    }

    /// Forgets what all have taken.
    pub fn forget_all(&mut self) {
        let nodes = self.sent.len() as u16;
        (0..nodes).for_each(|node| self.forget(node, node));
    }

    fn forget(&mut self, sender: u16, target: u16) {
        let own = &mut self.sent[usize::from(sender)];
        while own.entries.front().is_some_and(|entry| entry.targets & !entry.taken == 0) {
            own.entries.pop_front();
            own.first += 1;
        }
        let Logs { sent, received } = self;
        let own = &mut received[usize::from(target)];
        while own.front().is_some_and(|name| name.number < sent[usize::from(name.sender.0)].first) {
            own.pop_front();
        }
    }

    /// Whether anybody misses anything.
    pub fn is_anything_lost(&self) -> bool {
        self.sent.iter().any(|own| own.entries.iter().any(|entry| entry.lost != 0))
    }

    /// A node has died. What others had discarded of its packets is lost for good.
    pub fn remove_sender(&mut self, node: u16) -> Vec<Entry<P>> {
        let own = &mut self.sent[usize::from(node)];
        own.first += own.entries.len() as u64;
        self.received[usize::from(node)].clear();
        own.entries.drain(..).filter(|entry| entry.lost != 0).collect()
    }

    /// A node is isolated. What it had discarded is not retransmitted.
    pub fn remove_target(&mut self, node: u16) -> Vec<Entry<P>> {
        let mut given_up = Vec::new();
        for entry in self.sent.iter_mut().flat_map(|own| &mut own.entries) {
            if entry.lost >> node & 1 == 1 {
                given_up.push(*entry);
            }
            entry.targets &= !(1 << node);
            entry.lost &= !(1 << node);
        }
        given_up
    }

    /// What a node answers.
    pub fn answer(&self, node: u16) -> Answer {
        let own = &self.sent[usize::from(node)];
        Answer {
            first: own.first,
            sent: own.entries.iter().map(|entry| entry.targets).collect(),
            received: self.received[usize::from(node)].iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(sender: u8, number: u64) -> PacketName {
        PacketName { sender: Node(sender), number }
    }

    /// Node 0 sends `a` to 1 and 2, `b` to 1, `c` to 2.
    fn logs() -> Logs<char> {
        let mut logs = Logs::new(3);
        for (number, (targets, packet)) in (0..).zip([(0b110, 'a'), (0b010, 'b'), (0b100, 'c')]) {
            assert_eq!(logs.next_name(0), name(0, number));
            logs.record(0, targets, packet);
        }
        logs
    }

    #[test]
    fn what_all_have_taken_is_forgotten_unless_an_error_is_open() {
        let mut logs = logs();
        logs.take(1, name(0, 0), false);
        logs.take(1, name(0, 1), false);
        assert_eq!(logs.answer(0).sent, [0b110, 0b010, 0b100], "node 2 does not have the first");
        logs.take(2, name(0, 0), true);
        assert_eq!((logs.answer(0).first, logs.answer(2).received.len()), (0, 1));
        logs.forget_all();
        let Answer { first, sent, .. } = logs.answer(0);
        assert_eq!((first, sent), (2, vec![0b100]));
        assert_eq!((logs.answer(1).received, logs.next_name(0)), (vec![], name(0, 3)));
    }

    #[test]
    fn what_was_discarded_is_missed_until_it_is_let_go() {
        let mut logs = logs();
        assert!(logs.lose(2, name(0, 0)) && !logs.lose(2, name(0, 1)), "it is for node 1 alone");
        assert!(logs.is_anything_lost());
        logs.let_go(2, name(0, 0));
        assert!(!logs.is_anything_lost() && !logs.lose(2, name(0, 0)));
        // A node on line misses it again; a node that is not has lost it for good.
        assert_eq!(logs.take_back(name(0, 0), 0b110), Some(('a', 0b100)));
        assert!(logs.is_anything_lost());
        assert_eq!(logs.take_back(name(1, 0), 0b001), None);
    }

    #[test]
    fn what_a_node_that_is_gone_sent_or_discarded_is_given_up() {
        let mut logs = logs();
        logs.lose(1, name(0, 0));
        logs.lose(2, name(0, 2));
        let given_up: Vec<char> = logs.remove_target(2).iter().map(|own| own.packet).collect();
        assert_eq!(given_up, ['c']);
        let given_up: Vec<char> = logs.remove_sender(0).iter().map(|own| own.packet).collect();
        assert_eq!((given_up, logs.next_name(0)), (vec!['a'], name(0, 3)));
        assert!(!logs.is_anything_lost());
    }
}
