//! The bus between a host and its adapter, which stores and packets from the link share (Memory
//! Channel 2, The PCI Adapter Card).
//!
//! Stores go over it into the adapter, as long as that has room; packets from the link go over it
//! to memory. If both wait they take turns. The part has no events: it returns which of them has
//! the bus next and when, and is told what was done.

use std::collections::VecDeque;

use weft_protocol::window::{HostWrites, NetworkPage, Pieces};
use weft_units::{Bytes, Span, Time};

use crate::link::Room;

/// The stores of one message, which a program submits together. `W` says what they are for.
#[derive(Clone, Debug)]
pub struct Stores<W> {
    /// A bit for each target.
    pub targets: u64,
    /// When they were submitted.
    pub generated: Time,
    /// When the first store is at the bus.
    pub ready: Time,
    /// What they are for.
    pub purpose: W,
    /// Whether they go before all that are not, also while the host is halted.
    pub is_urgent: bool,
    /// The page that they go to, where pages are mapped.
    pub page: Option<NetworkPage>,
    /// Whether their node is a target only since the page copies what is stored to it.
    pub is_copied: bool,
    pieces: Pieces,
    next: Bytes,
    /// Packets after the next one, the flag among them.
    left: u32,
}

/// The initiator of the stores, and their targets.
#[derive(Clone, Copy, Debug)]
pub struct StoresFor<W> {
    /// A bit for each target.
    pub targets: u64,
    /// What they are for.
    pub purpose: W,
    /// Whether they go before all that are not.
    pub is_urgent: bool,
}

impl<W> Stores<W> {
    /// Stores of these pieces, followed by a flag if they are flagged; without pieces, the store of
    /// one word. They are submitted at `generated` and reach the bus at `ready`.
    pub fn new(
        what: StoresFor<W>,
        mut pieces: Pieces,
        is_flagged: bool,
        (generated, ready): (Time, Time),
    ) -> Stores<W> {
        let StoresFor { targets, purpose, is_urgent } = what;
        let next = pieces.next().map_or(Bytes(4), |(_, size)| size);
        let left = pieces.clone().count() as u32 + u32::from(is_flagged);
        let (page, is_copied) = (None, false);
        Stores {
            targets,
            generated,
            ready,
            purpose,
            is_urgent,
            page,
            is_copied,
            pieces,
            next,
            left,
        }
    }

    /// The store of a single packet of `size`.
    pub fn one(what: StoresFor<W>, size: Bytes, times: (Time, Time)) -> Stores<W> {
        let nothing = HostWrites { write: size, payload: size }.pieces(0, Bytes(0));
        Stores { next: size, ..Stores::new(what, nothing, false, times) }
    }

    /// How many packets are still to be made of them.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.left + 1
    }

    /// The size of the next one.
    #[inline]
    pub fn next_size(&self) -> Bytes {
        self.next
    }
}

/// A packet that the bus has taken into the adapter.
#[derive(Clone, Copy, Debug)]
pub struct TakenStore<W> {
    /// A bit for each target.
    pub targets: u64,
    /// When its message was submitted.
    pub generated: Time,
    /// What it is for.
    pub purpose: W,
    /// The page that it goes to.
    pub page: Option<NetworkPage>,
    /// Whether its node is a target as a copy only.
    pub is_copied: bool,
    /// Whether it is the last one of its message.
    pub last: bool,
    /// When the adapter has all of it.
    pub end: Time,
}

/// Which side has the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusTurn {
    /// A packet from the link, which is written to memory.
    Write,
    /// A store, which is taken into the adapter.
    TakeIn,
}

/// The bus of a host, with what waits for it on either side. `K` names a packet from the link.
#[derive(Debug)]
pub struct HostBus<W, K> {
    stores: VecDeque<Stores<W>>,
    incoming: VecDeque<K>,
    /// Room in the adapter between bus and link; none if it is without limit.
    room: Option<Room>,
    free: Time,
    /// Whether it went to a packet from the link last.
    wrote_last: bool,
    held: Span,
    stall: Span,
    /// The size of the flag behind a message.
    flag: Bytes,
}

impl<W: Copy, K> HostBus<W, K> {
    /// A bus before an adapter with such room, which rests for `stall` after each store; a flag behind
    /// a message has this size.
    pub fn new(room: Option<Room>, stall: Span, flag: Option<Bytes>) -> HostBus<W, K> {
        HostBus {
            stores: VecDeque::new(),
            incoming: VecDeque::new(),
            room,
            free: Time::ZERO,
            wrote_last: false,
            held: Span::ZERO,
            stall,
            flag: flag.unwrap_or(Bytes(4)),
        }
    }

    /// Stores wait, behind all others that are as urgent.
    pub fn push(&mut self, stores: Stores<W>) {
        if stores.is_urgent {
            let place = self.stores.iter().position(|other| !other.is_urgent);
            self.stores.insert(place.unwrap_or(self.stores.len()), stores);
        } else {
            self.stores.push_back(stores);
        }
    }

    /// A packet from the link waits.
    #[inline]
    pub fn arrive(&mut self, key: K) {
        self.incoming.push_back(key);
    }

    /// When what is on it is over.
    #[inline]
    pub fn free(&self) -> Time {
        self.free
    }

    /// It is free from `time` on, whatever was on it; [`Time::NEVER`] keeps everything off.
    pub fn set_free(&mut self, time: Time) {
        self.free = time;
    }

    /// How long it was held.
    pub fn held(&self) -> Span {
        self.held
    }

    /// The room in the adapter between bus and link, if it has a limit.
    #[inline]
    pub fn room_mut(&mut self) -> Option<&mut Room> {
        self.room.as_mut()
    }

    /// The adapter begins anew.
    pub fn set_room(&mut self, room: Option<Room>) {
        self.room = room;
    }

    /// How many messages wait with all or some of their stores.
    pub fn messages(&self) -> usize {
        self.stores.len()
    }

    /// Whether no stores wait.
    #[inline]
    pub fn has_no_stores(&self) -> bool {
        self.stores.is_empty()
    }

    /// Which side has the bus at `now`, in turn if both wait. A host that is halted stores only
    /// what is urgent.
    #[inline]
    pub fn turn(&self, now: Time, is_halted: bool) -> Option<BusTurn> {
        if self.free > now {
            return None;
        }
        let is_for_link = !self.incoming.is_empty();
        if is_for_link && !self.wrote_last {
            Some(BusTurn::Write)
        } else if self.store_time(now, is_halted) <= now {
            Some(BusTurn::TakeIn)
        } else {
            is_for_link.then_some(BusTurn::Write)
        }
    }

    /// When the bus can next be used, as far as is known; [`Time::NEVER`] if neither side waits for it.
    #[inline]
    pub fn next_turn(&self, now: Time, is_halted: bool) -> Time {
        let work = if self.incoming.is_empty() { self.store_time(now, is_halted) } else { now };
        work.max(self.free)
    }

    /// When the next store can have the bus for itself: it is there and the adapter has room.
    #[inline]
    fn store_time(&self, now: Time, is_halted: bool) -> Time {
        let Some(stores) = self.stores.front() else { return Time::NEVER };
        if is_halted && !stores.is_urgent {
            return Time::NEVER;
        }
        let room = self.room.as_ref().map_or(now, |room| room.next(now));
        room.max(stores.ready)
    }

    /// The size of the store that is next, if there is one.
    #[inline]
    pub fn next_store(&self) -> Option<Bytes> {
        self.stores.front().map(|stores| stores.next)
    }

    /// The bus takes the next store into the adapter from `now` on, which takes `span`.
    #[inline]
    pub fn take_in(&mut self, now: Time, span: Span) -> Option<TakenStore<W>> {
        let stores = self.stores.front_mut()?;
        let last = stores.left == 0;
        let end = now + span;
        let Stores { targets, generated, purpose, page, is_copied, .. } = *stores;
        if last {
            self.stores.pop_front();
        } else {
            stores.left -= 1;
            stores.next = stores.pieces.next().map_or(self.flag, |(_, size)| size);
        }
        if let Some(room) = &mut self.room {
            room.take(now);
        }
        self.wrote_last = false;
        self.free = end + self.stall;
        self.held += self.free.since(now);
        Some(TakenStore { targets, generated, purpose, page, is_copied, last, end })
    }

    /// The packet from the link that is next.
    #[inline]
    pub fn take_incoming(&mut self) -> Option<K> {
        self.incoming.pop_front()
    }

    /// The bus writes a packet from the link to memory from `now` on, which takes `span`. Returns when
    /// it has.
    #[inline]
    pub fn write(&mut self, now: Time, span: Span) -> Time {
        self.wrote_last = true;
        self.free = now + span;
        self.held += span;
        self.free
    }

    /// A target is gone: stores to it are removed. Returns, for each message that had stores to it, its
    /// purpose and how many packets were still to be made.
    pub fn remove_target(&mut self, target: u16) -> Vec<(W, u64)> {
        let mut removed = Vec::new();
        for stores in self.stores.iter_mut().filter(|stores| stores.targets >> target & 1 == 1) {
            stores.targets &= !(1 << target);
            removed.push((stores.purpose, u64::from(stores.packets())));
        }
        self.stores.retain(|stores| stores.targets != 0);
        removed
    }

    /// Takes away the messages that `is_wanted` says, in order.
    pub fn take_stores(&mut self, is_wanted: impl Fn(&Stores<W>) -> bool) -> VecDeque<Stores<W>> {
        let all = std::mem::take(&mut self.stores);
        let (taken, left) = all.into_iter().partition(|stores| is_wanted(stores));
        self.stores = left;
        taken
    }

    /// Takes away the packets from the link, in order.
    pub fn take_all_incoming(&mut self) -> VecDeque<K> {
        std::mem::take(&mut self.incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: HostWrites = HostWrites { write: Bytes(32), payload: Bytes(256) };

    fn stores(purpose: u32, size: u64, is_flagged: bool, is_urgent: bool) -> Stores<u32> {
        let what = StoresFor { targets: 0b110, purpose, is_urgent };
        let times = (Time(0), Time(330));
        Stores::new(what, WRITES.pieces(0, Bytes(size)), is_flagged, times)
    }

    fn bus(places: Option<u32>) -> HostBus<u32, char> {
        HostBus::new(places.map(|places| Room::of(places, 1)), Span(30), Some(Bytes(8)))
    }

    /// 40 bytes are a write of 32, one of 8, and the flag of 8: each rests 30 behind its span.
    #[test]
    fn a_message_goes_over_the_bus_write_by_write() {
        let mut bus = bus(None);
        bus.push(stores(7, 40, true, false));
        assert_eq!((bus.turn(Time(329), false), bus.next_turn(Time(0), false)), (None, Time(330)));
        let mut now = Time(330);
        let mut seen = Vec::new();
        while bus.turn(now, false) == Some(BusTurn::TakeIn) {
            let size = bus.next_store().unwrap();
            let taken = bus.take_in(now, Span(10 * size.0)).unwrap();
            assert_eq!((taken.purpose, taken.targets), (7, 0b110));
            seen.push((size.0, taken.last, taken.end.0));
            now = bus.free();
        }
        assert_eq!(seen, [(32, false, 650), (8, false, 760), (8, true, 870)]);
        assert_eq!((bus.held(), bus.messages()), (Span(320 + 80 + 80 + 3 * 30), 0));
        assert_eq!(bus.next_turn(now, false), Time::NEVER);
    }

    #[test]
    fn both_sides_take_turns() {
        let mut bus = bus(None);
        bus.push(stores(1, 64, false, false));
        ['a', 'b', 'c'].into_iter().for_each(|key| bus.arrive(key));
        let mut now = Time(330);
        let mut order = String::new();
        while let Some(turn) = bus.turn(now, false) {
            match turn {
                BusTurn::Write => {
                    order.push(bus.take_incoming().unwrap());
                    bus.write(now, Span(100));
                }
                BusTurn::TakeIn => {
                    order.push('-');
                    bus.take_in(now, Span(100)).unwrap();
                }
            }
            now = bus.free();
        }
        assert_eq!((order.as_str(), now), ("a-b-c", Time(330 + 5 * 100 + 2 * 30)));
    }

    /// The only place of the adapter is given back at 900.
    #[test]
    fn a_store_waits_for_room_in_the_adapter() {
        let mut bus = bus(Some(1));
        bus.push(stores(1, 64, false, false));
        bus.take_in(Time(330), Span(100)).unwrap();
        assert_eq!(bus.next_turn(Time(500), false), Time::NEVER);
        bus.room_mut().unwrap().give(Time(900));
        assert_eq!(bus.next_turn(Time(500), false), Time(900));
        assert_eq!(bus.turn(Time(899), false), None);
        assert_eq!(bus.turn(Time(900), false), Some(BusTurn::TakeIn));
    }

    #[test]
    fn a_halted_host_stores_only_what_is_urgent_and_that_goes_first() {
        let mut bus = bus(None);
        [(1, false), (2, true), (3, false), (4, true)]
            .into_iter()
            .for_each(|(purpose, urgent)| bus.push(stores(purpose, 8, false, urgent)));
        let mut take = |is_halted: bool| {
            let now = bus.next_turn(Time(330), is_halted);
            (now < Time::NEVER).then(|| bus.take_in(now, Span(10)).unwrap().purpose)
        };
        assert_eq!([take(true), take(true), take(true)], [Some(2), Some(4), None]);
        assert_eq!([take(false), take(false), take(false)], [Some(1), Some(3), None]);
    }

    #[test]
    fn stores_are_taken_away_by_target_and_by_purpose() {
        let mut bus = bus(None);
        (1..4).for_each(|purpose| bus.push(stores(purpose, 64, false, false)));
        let mut alone = stores(9, 8, false, false);
        alone.targets = 0b010;
        bus.push(alone);
        assert_eq!(bus.remove_target(1), [(1, 2), (2, 2), (3, 2), (9, 1)]);
        let taken = bus.take_stores(|stores| stores.purpose == 2);
        assert_eq!(taken.iter().map(|stores| stores.targets).collect::<Vec<_>>(), [0b100]);
        assert_eq!(bus.messages(), 2);
    }
}
