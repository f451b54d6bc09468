//! The packets of a channel that have been submitted and not delivered.

use weft_fabric::fabric::RouteState;
use weft_fabric::measure::Spent;
use weft_kernel::append;
use weft_units::Time;

use crate::drive::carrier::MessageId;

/// The fields of a packet that a switch reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarding {
    pub to: u32,
    pub route_state: RouteState,
    /// The output whose queue it joins late, or [`NOT_CHOSEN`].
    pub output: u32,
    /// How many switches have forwarded it.
    pub hops: u16,
    /// The virtual channel on which it arrived, or on which it will leave its host.
    pub channel: u8,
}

/// The output of a packet that has not chosen any in the switch that it is in or comes to.
pub(super) const NOT_CHOSEN: u32 = u32::MAX;

/// The fields of a packet that its delivery reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub generated: Time,
    pub start: Time,
    pub from: u32,
    /// The message that it belongs to.
    pub message: MessageId,
}

/// Packets by number. Freed numbers are reused, so that memory follows the largest number of
/// packets at the same time. Fields that every switch reads are stored apart from those read at the
/// end.
#[derive(Debug)]
pub(super) struct Packets {
    pub forwarding: Vec<Forwarding>,
    pub packets: Vec<Packet>,
    /// The accumulated times of each packet, if they depend on its route.
    spent: Option<Vec<Spent>>,
    /// The next packet in each packet's queue, if packets may wait for room.
    pub behind: Vec<u32>,
    has_queues: bool,
    free: Vec<u32>,
}

impl Packets {
    /// No packets yet. `is_mixed` says whether the times of a packet depend on its route,
    /// `has_queues` whether packets may wait for room.
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

    /// A packet of which everything but its route is stored elsewhere.
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
        append(&mut self.forwarding, forwarding);
        append(&mut self.packets, packet);
        if let Some(spent) = &mut self.spent {
            append(spent, Spent::default());
        }
        if self.has_queues {
            append(&mut self.behind, 0);
        }
        (self.forwarding.len() - 1) as u32
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id), "packet {id} is gone already");
        self.free.push(id);
    }

    /// The accumulated times of a packet, if they depend on its route.
    #[inline]
    pub fn spent(&mut self, id: u32) -> Option<&mut Spent> {
        self.spent.as_mut().map(|spent| &mut spent[id as usize])
    }

    /// Whether the times of packets depend on their routes.
    #[inline]
    pub fn has_spent(&self) -> bool {
        self.spent.is_some()
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.forwarding.len() - self.free.len()
    }
}
