//! The packets of a channel that have been handed over and not delivered.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::Spent;
use weft_units::Time;

use crate::drive::carrier::MessageId;

/// What a switch must know of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarding {
    pub to: u32,
    pub route_state: RouteState,
    /// The output whose queue it joins late.
    pub output: u32,
    /// How many switches have sent it on its way.
    pub hops: u16,
    /// The virtual channel that it came by, or that it is to leave its host by.
    pub channel: u8,
}

/// What its delivery must know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub generated: Time,
    pub start: Time,
    pub from: u32,
    /// The message that it belongs to.
    pub message: MessageId,
}

/// Packets by number. Freed numbers are used again, so that memory follows the largest number of
/// packets at once. What is read at every switch stands apart from what is read at the end.
#[derive(Debug)]
pub(super) struct Packets {
    pub forwarding: Vec<Forwarding>,
    pub packets: Vec<Packet>,
    /// What each has spent so far, where that depends on its way.
    spent: Option<Vec<Spent>>,
    /// The packet behind each in its queue, where packets may wait for room.
    pub behind: Vec<u32>,
    has_queues: bool,
    free: Vec<u32>,
}

impl Packets {
    /// None yet. `is_mixed` tells whether what a packet spends depends on its way, `has_queues`
    /// whether packets may wait for room.
    pub fn new(is_mixed: bool, has_queues: bool) -> Packets {
        let spent = is_mixed.then(Vec::new);
        let (forwarding, packets, behind, free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Packets { forwarding, packets, spent, behind, has_queues, free }
    }

    #[inline]
    pub fn insert(&mut self, forwarding: Forwarding, packet: Packet) -> u32 {
        let Some(id) = self.free.pop() else { return self.grow(forwarding, packet) };
        self.forwarding[id as usize] = forwarding;
        self.packets[id as usize] = packet;
        id
    }

    /// A packet of which all but its way is noted elsewhere.
    #[inline]
    pub fn insert_forwarding(&mut self, forwarding: Forwarding) -> u32 {
        if let Some(id) = self.free.pop() {
            self.forwarding[id as usize] = forwarding;
            return id;
        }
        let (generated, start, message) = (Time::NEVER, Time::NEVER, MessageId::NONE);
        self.grow(forwarding, Packet { generated, start, from: 0, message })
    }

    #[cold]
    fn grow(&mut self, forwarding: Forwarding, packet: Packet) -> u32 {
        self.forwarding.push(forwarding);
        self.packets.push(packet);
        if let Some(spent) = &mut self.spent {
            spent.push(Spent::default());
        }
        if self.has_queues {
            self.behind.push(0);
        }
        (self.forwarding.len() - 1) as u32
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id), "packet {id} is gone already");
        self.free.push(id);
    }

    /// What a packet has spent so far, where that depends on its way.
    #[inline]
    pub fn spent(&mut self, id: u32) -> Option<&mut Spent> {
        self.spent.as_mut().map(|spent| &mut spent[id as usize])
    }

    /// Whether what packets spend depends on their ways.
    #[inline]
    pub fn has_spent(&self) -> bool {
        self.spent.is_some()
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.forwarding.len() - self.free.len()
    }
}
