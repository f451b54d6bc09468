//! What software keeps to send again after an error: each node what it sent, and the order in which
//! it took what others sent.
//!
//! A packet that all its targets have taken is forgotten, unless an error is open: the order of
//! what was lost may then rest on packets between.

use std::collections::VecDeque;

use weft_protocol::window::{Node, PacketName};

use super::host::Packet;

/// A packet of a sender that not all its targets have taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub packet: Packet,
    /// Who is to have it, has it, and has discarded it.
    pub targets: u64,
    pub taken: u64,
    pub lost: u64,
}

#[derive(Clone, Debug, Default)]
struct Sent {
    first: u64,
    entries: VecDeque<Entry>,
}

/// The logs of all nodes.
#[derive(Debug)]
pub(super) struct Logs {
    sent: Vec<Sent>,
    received: Vec<VecDeque<PacketName>>,
}

/// What a node answers when it is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub first: u64,
    pub sent: Vec<u64>,
    pub received: Vec<PacketName>,
}

impl Logs {
    pub fn new(nodes: usize) -> Logs {
        Logs { sent: vec![Sent::default(); nodes], received: vec![VecDeque::new(); nodes] }
    }

    /// The name that the next packet of a sender has.
    pub fn next_name(&self, sender: u16) -> PacketName {
        let own = &self.sent[usize::from(sender)];
        PacketName { sender: Node(sender as u8), number: own.first + own.entries.len() as u64 }
    }

    /// A sender sends the packet of that name.
    pub fn record(&mut self, packet: Packet) {
        let entry = Entry { packet, targets: packet.targets, taken: 0, lost: 0 };
        self.sent[usize::from(packet.from)].entries.push_back(entry);
    }

    pub fn entry(&mut self, name: PacketName) -> Option<&mut Entry> {
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
    pub fn remove_sender(&mut self, node: u16) -> Vec<Entry> {
        let own = &mut self.sent[usize::from(node)];
        own.first += own.entries.len() as u64;
        self.received[usize::from(node)].clear();
        own.entries.drain(..).filter(|entry| entry.lost != 0).collect()
    }

    /// A node is isolated. What it had discarded is not sent again.
    pub fn remove_target(&mut self, node: u16) -> Vec<Entry> {
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
