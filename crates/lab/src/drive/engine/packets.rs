//! The packets of a channel that have been submitted and not delivered.

use weft_fabric::fabric::RouteState;
use weft_fabric::measure::Spent;
use weft_kernel::{append, prefetch_whole};
use weft_units::Time;

use super::border::Crossing;
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

impl Forwarding {
    const NOTHING: Forwarding = Forwarding {
        to: 0,
        route_state: RouteState::DIRECT,
        output: NOT_CHOSEN,
        hops: 0,
        channel: 0,
    };
}

/// The fields of a packet that its delivery reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub generated: Time,
    pub start: Time,
    pub from: u32,
    /// The message that it belongs to.
    pub message: MessageId,
}

impl Packet {
    const NOTHING: Packet =
        Packet { generated: Time::NEVER, start: Time::NEVER, from: 0, message: MessageId::NONE };
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
    /// How many numbers there are.
    count: u32,
    free: Vec<u32>,
}

impl Packets {
    /// No packets yet. `is_mixed` says whether the times of a packet depend on its route,
    /// `has_queues` whether packets may wait for room.
    pub fn new(is_mixed: bool, has_queues: bool) -> Packets {
        let spent = is_mixed.then(Vec::new);
        let (forwarding, packets, behind, free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Packets { forwarding, packets, spent, behind, has_queues, count: 0, free }
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
        self.grow(forwarding, Packet::NOTHING)
    }

    #[cold]
    fn grow(&mut self, forwarding: Forwarding, packet: Packet) -> u32 {
        append(&mut self.forwarding, forwarding);
        append(&mut self.packets, packet);
        self.grow_beside()
    }

    /// A packet that has a header elsewhere, with all but its queue and its accumulated times.
    #[inline]
    pub fn insert_header(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow_beside())
    }

    #[cold]
    fn grow_beside(&mut self) -> u32 {
        if let Some(spent) = &mut self.spent {
            append(spent, Spent::default());
        }
        if self.has_queues {
            append(&mut self.behind, 0);
        }
        self.count += 1;
        self.count - 1
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id), "packet {id} is gone already");
        self.free.push(id);
    }

    /// Prefetches what a switch reads and writes of a packet.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        if let Some(forwarding) = self.forwarding.get(id as usize) {
            prefetch_whole(forwarding);
        }
        if let Some(spent) = self.spent.as_ref().and_then(|spent| spent.get(id as usize)) {
            prefetch_whole(spent);
        }
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

    /// A packet that leaves for a place in another part at a time; nothing of one that has a
    /// [header](Self::insert_header).
    pub fn crossing(&self, time: Time, place: u32, id: u32) -> Crossing {
        let nothing = (Forwarding::NOTHING, Packet::NOTHING);
        let own = self.forwarding.get(id as usize).zip(self.packets.get(id as usize));
        let (forwarding, packet) = own.map_or(nothing, |own| (*own.0, *own.1));
        Crossing { time, place, forwarding, packet }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.count as usize - self.free.len()
    }
}
