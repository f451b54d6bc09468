//! A calendar: events of sixteen bytes in the order of time and place.
//!
//! [`Queue`](crate::Queue) orders events of equal times by when they were scheduled, which depends
//! on what happened to be scheduled first. Here events of equal times leave in the order of a place
//! that each event names, so that the order follows from the events alone.
//!
//! Time is divided into slots of a fixed width. Events of a slot are unordered until the slot is
//! opened, when they are sorted as whole numbers; later slots form a hierarchical timing wheel
//! (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987) above them. Where many
//! events have one time, as in fabrics that work in step, a bit for each place sorts them.

mod nodes;
mod places;
mod rows;
mod slots;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use weft_units::{Span, Time};

use crate::prefetch;
use nodes::Nodes;
use places::Places;
use rows::Rows;
use slots::{Chunks, Ring, Slot};

/// Something that happens at a place: `item` says to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time: Time,
    /// Where; equal times leave in ascending order of it.
    pub place: u32,
    /// To what. Among events of one time and place, ascending.
    pub item: u32,
}

/// How many binary digits of a slot's number each level distinguishes: the lowest level slots
/// within a block, each higher level blocks.
const NEAR_DIGIT: u32 = 13;
const FAR_DIGIT: u32 = 8;
const NEAR: usize = 1 << NEAR_DIGIT;
const FAR: usize = 1 << FAR_DIGIT;
/// Slots of the lowest level: the block of the open slot and the next one, so that a whole block
/// ahead is near, wherever in its own block the open slot is.
const RING: usize = 2 * NEAR;
const LEVELS: usize = (u64::BITS - NEAR_DIGIT).div_ceil(FAR_DIGIT) as usize;

/// How many events ahead of one that moves to its slot the slot is fetched, and the chunk there that is not full.
const FETCH_SLOT: usize = 16;
const FETCH_CHUNK: usize = 8;

/// An event that is scheduled for the open slot is inserted among at most this many earlier ones,
/// which move one place forward; a slot is opened with as much room before its events.
const SOON: usize = 16;

/// Future events in order of time, place and item.
///
/// Any time up to [`Time::NEVER`] will do. Memory follows the largest number of events that ever
/// waited at once; nothing is allocated while that number stands.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// The events of the open slot in the order in which they leave, from `head` on. The places before
    /// are free: [`push_late`](Self::push_late) moves events there.
    open: Vec<u128>,
    head: usize,
    /// Events that were scheduled for the open slot after it was opened, and that more than [`SOON`]
    /// others precede, or for which no place is free.
    late: BinaryHeap<Reverse<u128>>,
    /// The number of the open slot. All events of the wheel are in later ones.
    slot: u64,
    /// The block after that of the open slot: the last one that is near.
    reached: u64,
    /// The width of a slot is two to the power of this, in picoseconds.
    shift: u32,
    near: Ring<RING>,
    far: Vec<Ring<FAR>>,
    chunks: Chunks,
    /// Room for the events of a slot that is spread; empty otherwise.
    moving: Vec<u128>,
    places: Places,
    /// The nodes of places, if events leave node by node.
    nodes: Option<Box<Nodes>>,
    /// The near slots that are tables of places.
    rows: Rows,
}

/// The key of no event: no place has the largest number.
const NOTHING: u128 = u128::MAX;

#[inline]
fn pack(event: Event) -> u128 {
    u128::from(event.time.0) << 64 | u128::from(event.place) << 32 | u128::from(event.item)
}

#[inline]
fn unpack(key: u128) -> Event {
    Event { time: time_of(key), place: (key >> 32) as u32, item: key as u32 }
}

#[inline]
fn time_of(key: u128) -> Time {
    Time((key >> 64) as u64)
}

impl Calendar {
    /// How many events a slot has if they are as close as [`new`](Self::new) is told: more take longer to sort; with
    /// fewer, slots are opened more often.
    pub const PER_SLOT: u64 = 16;

    /// A calendar without events. It works best if there is about one event per `spacing`, and
    /// events are scheduled at most `ahead` of the present: then few events are sorted at a time,
    /// and most are never moved before that.
    pub fn new(spacing: Span, ahead: Span) -> Calendar {
        let width = 1 << spacing.0.saturating_mul(Self::PER_SLOT).max(1).ilog2();
        let least = ahead.0.div_ceil(NEAR as u64).max(1).checked_next_power_of_two();
        let width: u64 = least.map_or(u64::MAX, |least| least.max(width));
        Calendar {
            open: vec![0; SOON],
            head: SOON,
            late: BinaryHeap::new(),
            slot: 0,
            reached: 1,
            shift: width.ilog2().min(u64::BITS - NEAR_DIGIT - 1),
            near: Ring::new(),
            far: (0..LEVELS).map(|_| Ring::new()).collect(),
            chunks: Chunks::new(),
            moving: Vec::new(),
            places: Places::default(),
            nodes: None,
            rows: Rows::new(),
        }
    }

    /// Schedules an event, not before the one that left last.
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        let number = event.time.0 >> self.shift;
        // One comparison says that it is in a near slot behind the open one.
        if number.wrapping_sub(self.slot).wrapping_sub(1) < NEAR as u64 {
            let Calendar { near, chunks, rows, .. } = self;
            near.add_to_any(number as usize % RING, event, chunks, rows);
        } else {
            self.push_elsewhere(event, number);
        }
    }

    // None of these is inlined, so that the fast path of `push` need not save registers.

    /// Schedules an event for the open slot, or for one that is further away than a block.
    #[inline(never)]
    fn push_elsewhere(&mut self, event: Event, number: u64) {
        if number <= self.slot {
            self.push_late(event);
        } else if number >> NEAR_DIGIT <= self.reached {
            let Calendar { near, chunks, rows, .. } = self;
            near.add_to_any(number as usize % RING, event, chunks, rows);
        } else {
            self.push_far(event, number >> NEAR_DIGIT);
        }
    }

    /// Inserts an event into the open slot. Most are due soon, so that few events precede them; moving
    /// those forward is cheaper than a heap.
    #[inline(never)]
    fn push_late(&mut self, event: Event) {
        let key = pack(event);
        debug_assert!(
            self.nodes.as_ref().is_none_or(|own| own.is_of_open(key)),
            "nothing gets to another node within a window"
        );
        let waiting = self.open[self.head..].iter().take(SOON);
        let passed = waiting.take_while(|other| **other < key).count();
        if passed == SOON || self.head == 0 {
            return self.late.push(Reverse(key));
        }
        self.head -= 1;
        let between = &mut self.open[self.head..=self.head + passed];
        between.copy_within(1.., 0);
        between[passed] = key;
    }

    #[inline(never)]
    fn push_far(&mut self, event: Event, block: u64) {
        let level = (block ^ self.reached).ilog2() / FAR_DIGIT;
        let digit = (block >> (level * FAR_DIGIT)) as usize % FAR;
        self.far[level as usize].add(digit, pack(event), &mut self.chunks);
    }

    /// Removes the earliest event if its time is not after `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<Event> {
        loop {
            // Either way the event is passed as one number, in registers: a value that is put together
            // in memory cannot be read back before all earlier writes have reached the cache.
            let key = if !self.late.is_empty() {
                self.pop_late(limit)
            } else if let Some(&key) = self.open.get(self.head) {
                if time_of(key) > limit {
                    return None;
                }
                self.head += 1;
                key
            } else if self.open_next(limit) {
                continue;
            } else {
                return None;
            };
            return (key != NOTHING).then(|| unpack(key));
        }
    }

    /// Removes the earliest event if its time is not after `limit`, and shows with it those that leave after `NEXT` and
    /// after `LAST` others, if no more are scheduled for the open slot meanwhile. `None` also if that slot has fewer
    /// events, or some were scheduled late: then [`pop_until`](Self::pop_until) and [`ahead`](Self::ahead) tell.
    #[inline(always)]
    pub fn pop_with<const NEXT: usize, const LAST: usize>(
        &mut self,
        limit: Time,
    ) -> Option<(Event, Event, Event)> {
        const { assert!(NEXT <= LAST) };
        let waiting = self.open.get(self.head..)?.get(..=LAST)?;
        let (key, next, last) = (waiting[0], waiting[NEXT], waiting[LAST]);
        if time_of(key) > limit || !self.late.is_empty() {
            return None;
        }
        self.head += 1;
        Some((unpack(key), unpack(next), unpack(last)))
    }

    /// Removes the earliest event if it is in the open slot, at a time, and at one of these places. `None` also if some
    /// events of the slot were scheduled late.
    #[inline(always)]
    pub fn pop_at(&mut self, time: Time, places: Range<u32>) -> Option<Event> {
        let event = unpack(*self.open.get(self.head)?);
        if event.time != time || !places.contains(&event.place) || !self.late.is_empty() {
            return None;
        }
        self.head += 1;
        Some(event)
    }

    /// The event of the open slot that leaves after this many others, if no more are scheduled for that slot
    /// meanwhile.
    #[inline(always)]
    pub fn ahead(&self, others: usize) -> Option<Event> {
        self.open.get(self.head + others).map(|key| unpack(*key))
    }

    /// Opens the next slot that has events if that which is open has none left, unless it begins after
    /// `limit`. Returns whether it did: [`ahead`](Self::ahead) then tells what is in it.
    #[inline]
    pub fn open(&mut self, limit: Time) -> bool {
        self.head >= self.open.len() && self.late.is_empty() && self.open_next(limit)
    }

    /// Shows the events of the slot that is opened next, in no order, as far as they are scheduled by now: whoever
    /// prefetches what an event needs when its slot is opened asks for much of it too late. Shows none of a slot with
    /// so many events of one time that it is a table of places.
    #[inline]
    pub fn foresee(&self, mut show: impl FnMut(Event)) {
        let Some(place) = self.near.next_after(self.slot as usize % RING) else { return };
        self.chunks.each(self.near.slots[place].list(), |key| show(unpack(key)));
    }

    /// Shows the events of the slot after the next one in the same way, and prefetches the slot after that. Earlier
    /// slots may still get events, so which ones these are is only a forecast.
    #[inline]
    pub fn foresee_behind(&self, mut show: impl FnMut(Event)) {
        let next = self.near.next_after(self.slot as usize % RING);
        let Some(place) = next.and_then(|place| self.near.next_after(place)) else { return };
        self.chunks.each(self.near.slots[place].list(), |key| show(unpack(key)));
        if let Some(behind) = self.near.next_after(place) {
            self.chunks.prefetch(self.near.slots[behind]);
        }
    }

    /// Prefetches the slot after the next one, before [`foresee`](Self::foresee) shows it as the next.
    #[inline]
    pub fn prefetch_behind(&self) {
        let next = self.near.next_after(self.slot as usize % RING);
        if let Some(behind) = next.and_then(|place| self.near.next_after(place)) {
            self.chunks.prefetch(self.near.slots[behind]);
        }
    }

    /// The earliest event of the open slot while late insertions are left, or [`NOTHING`].
    #[inline(never)]
    fn pop_late(&mut self, limit: Time) -> u128 {
        let Some(&Reverse(late)) = self.late.peek() else { return NOTHING };
        let key = self.open.get(self.head).map_or(late, |key| late.min(*key));
        if time_of(key) > limit {
            return NOTHING;
        }
        if key == late {
            self.late.pop();
        } else {
            self.head += 1;
        }
        key
    }

    /// Opens the next slot that has events, unless it begins after `limit`: what is scheduled
    /// before it must still find its place.
    #[inline(never)]
    fn open_next(&mut self, limit: Time) -> bool {
        // None is left. They stay where they are until others take their places.
        self.head = self.open.len();
        let last = limit.0 >> self.shift;
        loop {
            if let Some(number) = self.next_near() {
                if number > last {
                    return false;
                }
                self.enter(number);
                let slot = self.near.take(number as usize % RING);
                self.sort(slot);
                self.head = SOON;
                return true;
            }
            match self.next_far() {
                Some((block, _)) if block << NEAR_DIGIT <= last => {
                    self.enter((block << NEAR_DIGIT) - 1);
                }
                _ => return false,
            }
        }
    }

    /// Moves the events of a near slot into `open`, sorted.
    #[inline]
    fn sort(&mut self, slot: Slot) {
        if let Some(row) = slot.row() {
            return self.rows.drain(row, &mut self.open);
        }
        if self.places.sort_one_time(slot, &mut self.chunks, &mut self.open) {
            // What leaves node by node is not sorted by place.
            if self.nodes.is_none() {
                self.rows.begin(self.places.words());
            }
            return;
        }
        self.open.truncate(SOON);
        self.chunks.drain(slot, |keys| self.open.extend_from_slice(keys));
        self.open[SOON..].sort_unstable();
    }

    /// Shows the events of a slot, in no order.
    #[inline]
    fn each(&self, slot: Slot, show: impl FnMut(u128)) {
        match slot.row() {
            Some(row) => self.rows.each(row, show),
            None => self.chunks.each(slot, show),
        }
    }

    /// Advances to a slot before which there are no events. Its block and the next one are near.
    #[inline]
    fn enter(&mut self, number: u64) {
        self.slot = number;
        let reached = (number >> NEAR_DIGIT) + 1;
        if reached != self.reached {
            self.reach(reached);
        }
    }

    /// A block is near from now on, and so are those before it.
    #[inline(never)]
    fn reach(&mut self, reached: u64) {
        while let Some((block, level)) = self.next_far().filter(|next| next.0 <= reached) {
            // The events there differ from `block` in lower digits only.
            self.reached = block;
            let digit = (block >> (level as u32 * FAR_DIGIT)) as usize % FAR;
            let slot = self.far[level].take(digit);
            self.spread(slot);
        }
        self.reached = reached;
    }

    /// Moves the events of a slot of a higher level to their present slots: these are in no order, and hardly any of
    /// them is in the cache.
    fn spread(&mut self, slot: Slot) {
        let mut moving = std::mem::take(&mut self.moving);
        self.chunks.drain(slot, |keys| moving.extend_from_slice(keys));
        for (index, key) in moving.iter().enumerate() {
            if let Some(later) = moving.get(index + FETCH_SLOT) {
                prefetch(&*self.near.slots, self.near_place(*later));
            }
            if let Some(later) = moving.get(index + FETCH_CHUNK) {
                self.chunks.prefetch_end(self.near.slots[self.near_place(*later)]);
            }
            self.push(unpack(*key));
        }
        moving.clear();
        self.moving = moving;
    }

    /// The slot of the lowest level in which an event is if it is near.
    #[inline]
    fn near_place(&self, key: u128) -> usize {
        (time_of(key).0 >> self.shift) as usize % RING
    }

    /// The number of the next slot of the lowest level that has events.
    fn next_near(&self) -> Option<u64> {
        let place = self.slot as usize % RING;
        let next = self.near.next_after(place)?;
        Some(self.slot + ((next + RING - place) % RING) as u64)
    }

    /// The first block of the next slot of a higher level that has events, and the level.
    fn next_far(&self) -> Option<(u64, usize)> {
        self.far.iter().enumerate().find_map(|(level, ring)| {
            let below = level as u32 * FAR_DIGIT;
            let own = self.reached >> below;
            let digit = ring.first_after(own as usize % FAR)?;
            Some(((own & !(FAR as u64 - 1) | digit as u64) << below, level))
        })
    }

    /// The time of the earliest event, found by looking at all of its slot.
    pub fn earliest(&self) -> Option<Time> {
        let open = self.open.get(self.head).copied();
        let late = self.late.peek().map(|Reverse(key)| *key);
        let first = match (open, late) {
            (Some(open), Some(late)) => Some(open.min(late)),
            (open, late) => open.or(late),
        };
        if let Some(key) = first {
            return Some(time_of(key));
        }
        let slot = match self.next_near() {
            Some(number) => self.near.slots[number as usize % RING],
            None => {
                let (block, level) = self.next_far()?;
                let digit = block >> (level as u32 * FAR_DIGIT);
                self.far[level].slots[digit as usize % FAR]
            }
        };
        let mut first = NOTHING;
        self.each(slot, |key| first = first.min(key));
        (first != NOTHING).then(|| time_of(first))
    }

    /// All events that wait, in the order in which they leave.
    pub fn events(&self) -> impl Iterator<Item = Event> + use<> {
        let mut keys = self.open[self.head..].to_vec();
        keys.extend(self.late.iter().map(|Reverse(key)| *key));
        for slot in self.far.iter().flat_map(Ring::filled).chain(self.near.filled()) {
            self.each(slot, |key| keys.push(key));
        }
        keys.sort_unstable();
        keys.into_iter().map(unpack)
    }

    /// Postpones all events by a span.
    pub fn delay(&mut self, span: Span) {
        let mut moving = std::mem::take(&mut self.moving);
        while let Some(event) = self.pop_until(Time::NEVER) {
            moving.push(pack(Event { time: event.time + span, ..event }));
        }
        moving.drain(..).for_each(|key| self.push(unpack(key)));
        self.moving = moving;
    }

    /// How many events wait, counted slot by slot.
    pub fn len(&self) -> usize {
        let slots = self.far.iter().flat_map(|ring| &*ring.slots).chain(&*self.near.slots);
        let count =
            |slot: &Slot| slot.row().map_or(slot.count as usize, |row| self.rows.count(row));
        let later: usize = slots.map(count).sum();
        self.open.len() - self.head + self.late.len() + later
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        let is_open = self.head < self.open.len() || !self.late.is_empty();
        !is_open && self.next_near().is_none() && self.next_far().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn event(time: u64, place: u32, item: u32) -> Event {
        Event { time: Time(time), place, item }
    }

    fn all(calendar: &mut Calendar, limit: u64) -> Vec<(u64, u32, u32)> {
        let left = std::iter::from_fn(|| calendar.pop_until(Time(limit)));
        left.map(|event| (event.time.0, event.place, event.item)).collect()
    }

    #[test]
    fn equal_times_leave_by_place_and_equal_places_by_item() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        for (time, place, item) in [(5, 2, 0), (5, 1, 9), (4, 7, 0), (5, 1, 3), (900_000, 0, 0)] {
            calendar.push(event(time, place, item));
        }
        assert_eq!((calendar.earliest(), calendar.len()), (Some(Time(4)), 5));
        assert_eq!(all(&mut calendar, 5), [(4, 7, 0), (5, 1, 3), (5, 1, 9), (5, 2, 0)]);
        assert_eq!(calendar.earliest(), Some(Time(900_000)));
        assert_eq!(all(&mut calendar, u64::MAX), [(900_000, 0, 0)]);
        assert!(calendar.is_empty() && calendar.earliest().is_none());
    }

    /// A limit that falls short of the next event moves nothing that an earlier one would miss.
    #[test]
    fn an_event_before_all_that_wait_leaves_first() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        calendar.push(event(1 << 40, 1, 1));
        assert_eq!(calendar.pop_until(Time(1_000)), None);
        calendar.push(event(1_000, 2, 2));
        assert_eq!(all(&mut calendar, u64::MAX), [(1_000, 2, 2), (1 << 40, 1, 1)]);
    }

    /// Slots of 16 ps.
    #[test]
    fn a_slot_that_is_opened_tells_what_is_in_it() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        for (time, place) in [(20, 1), (17, 2), (17, 1), (40, 0)] {
            calendar.push(event(time, place, 0));
        }
        let soon = |calendar: &Calendar| -> Vec<(u64, u32)> {
            let events = (0..).map_while(|others| calendar.ahead(others));
            events.map(|event| (event.time.0, event.place)).collect()
        };
        assert!(!calendar.open(Time(15)) && soon(&calendar).is_empty());
        assert!(calendar.open(Time(20)));
        assert_eq!(soon(&calendar), [(17, 1), (17, 2), (20, 1)]);
        assert!(!calendar.open(Time(99)), "it has events left");
        assert_eq!(all(&mut calendar, 30), [(17, 1, 0), (17, 2, 0), (20, 1, 0)]);
        assert!(calendar.open(Time(99)));
        assert_eq!(soon(&calendar), [(40, 0)]);
    }

    /// Slots of 16 ps: an event leaves with those ahead only where there are so many, none of them late.
    #[test]
    fn an_event_leaves_with_those_ahead_of_it() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        for place in 0..40 {
            calendar.push(event(20, place, 0));
        }
        let pop = |calendar: &mut Calendar, limit: u64| {
            let popped = calendar.pop_with::<2, 5>(Time(limit));
            popped.map(|(own, next, last)| [own, next, last].map(|event| event.place))
        };
        assert_eq!(pop(&mut calendar, 20), None, "the slot is not open");
        assert!(calendar.open(Time(20)));
        assert_eq!([19, 20].map(|limit| pop(&mut calendar, limit)), [None, Some([0, 2, 5])]);
        assert_eq!(
            (pop(&mut calendar, 20), calendar.ahead(5)),
            (Some([1, 3, 6]), Some(event(20, 7, 0)))
        );
        // It leaves behind more others than are moved for it.
        calendar.push(event(20, 30, 1));
        assert_eq!(pop(&mut calendar, 20), None);
        assert_eq!(all(&mut calendar, 20).len(), 39);
        assert!(calendar.is_empty());
    }

    /// Slots of 16 ps: what waits in the next one is shown, whatever block it is in, and nothing else.
    #[test]
    fn the_slot_behind_the_open_one_is_foreseen() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        let foreseen = |calendar: &Calendar| {
            let mut all: Vec<(u64, u32)> = Vec::new();
            calendar.foresee(|event| all.push((event.time.0, event.place)));
            all.sort_unstable();
            all
        };
        let behind = |calendar: &Calendar| {
            let mut all: Vec<u64> = Vec::new();
            calendar.foresee_behind(|event| all.push(event.time.0));
            all.sort_unstable();
            all
        };
        assert!(foreseen(&calendar).is_empty());
        for time in [20, 40, 41, 1 << 30] {
            calendar.push(event(time, 7, 0));
        }
        assert!(calendar.open(Time(20)));
        assert_eq!(foreseen(&calendar), [(40, 7), (41, 7)]);
        for time in [100, 64, 65] {
            calendar.push(event(time, 7, 0));
        }
        assert_eq!(behind(&calendar), [64, 65]);
        calendar.push(event(47, 3, 0));
        calendar.push(event(25, 3, 0));
        assert_eq!(foreseen(&calendar), [(40, 7), (41, 7), (47, 3)]);
        assert_eq!(all(&mut calendar, 41).len(), 4);
        assert_eq!(all(&mut calendar, 100).len(), 4);
        assert!(foreseen(&calendar).is_empty(), "it is in a block far away");
    }

    #[test]
    fn the_last_instant_has_a_place() {
        let mut calendar = Calendar::new(Span(u64::MAX), Span(1));
        calendar.push(event(u64::MAX, 0, 0));
        calendar.push(event(u64::MAX - 1, 0, 0));
        assert_eq!(all(&mut calendar, u64::MAX).len(), 2);
    }

    /// Many events of one time, with and without two at one place, and places too far apart for a bit
    /// each.
    #[test]
    fn events_in_step_leave_by_place() {
        for (step, doubled) in [(7_u32, 0), (7, 3), (1, 60), (1 << 20, 0), (1 << 20, 9)] {
            let mut calendar = Calendar::new(Span(1_000), Span(1));
            let mut expected = Vec::new();
            for time in [64_000, 128_000, 64_000_000] {
                for place in (0..200_u32).map(|place| place * 77 % 200) {
                    calendar.push(event(time, place * step, 1_000 - place));
                    expected.push((time, place * step, 1_000 - place));
                    if place < doubled {
                        calendar.push(event(time, place * step, place));
                        expected.push((time, place * step, place));
                    }
                }
            }
            expected.sort_unstable();
            assert_eq!(calendar.len(), expected.len());
            assert_eq!(all(&mut calendar, 64_000), expected[..expected.len() / 3]);
            assert!(!calendar.is_empty());
            assert_eq!(all(&mut calendar, u64::MAX), expected[expected.len() / 3..]);
        }
    }

    proptest! {
        /// Against a sorted list, with events that are scheduled while others leave.
        #[test]
        fn any_sequence_leaves_in_order(
            spacing in prop_oneof![Just(1_u64), Just(7), Just(1_000), Just(1 << 30)],
            ahead in prop_oneof![Just(0_u64), Just(1 << 20), Just(u64::MAX)],
            first in prop::collection::vec((0_u64..1 << 22, 0_u32..4), 0..60),
            later in prop::collection::vec(
                (prop_oneof![0_u64..3, 0_u64..5_000, 0_u64..300_000, 0_u64..1 << 34], 0_u32..4), 0..200),
        ) {
            let mut calendar = Calendar::new(Span(spacing), Span(ahead));
            let mut plain = Vec::new();
            for (item, (time, place)) in (0..).zip(&first) {
                calendar.push(event(*time, *place, item));
                plain.push((*time, *place, item));
            }
            let mut more = (1_000..).zip(&later);
            let mut last = 0;
            loop {
                plain.sort_unstable();
                prop_assert_eq!(calendar.len(), plain.len());
                prop_assert_eq!(calendar.earliest(), plain.first().map(|first| Time(first.0)));
                let Some(left) = calendar.pop_until(Time(u64::MAX)) else { break };
                prop_assert_eq!((left.time.0, left.place, left.item), plain.remove(0));
                last = left.time.0.max(last);
                for (item, (after, place)) in more.by_ref().take(1 + item_of(left) % 3) {
                    calendar.push(event(last + after, *place, item));
                    plain.push((last + after, *place, item));
                }
            }
            prop_assert!(plain.is_empty());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Where most slots have one time and so become tables of places: against a sorted list, with events of other
        /// times among them, several at one place, and places that were not known before.
        #[test]
        fn events_in_step_leave_in_order(
            ports in prop_oneof![Just(40_u32), Just(300), Just(1_500)],
            seed in any::<u32>(),
            odd in prop_oneof![Just(0_u32), Just(1), Just(40)],
            steps in 5_u64..30,
        ) {
            let mut calendar = Calendar::new(Span(1_000), Span(1 << 16));
            let mut plain: BTreeSet<(u64, u32, u32)> = BTreeSet::new();
            let mut state = seed;
            let mut draw = |bound: u32| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) % bound
            };
            let mut has_rows = false;
            for step in 0..steps {
                let now = step * 64_000;
                for item in 0..ports {
                    let is_odd = draw(1_000) < odd;
                    let place = draw(if is_odd { 4 * ports } else { ports });
                    let late = u64::from(draw(100)) * u64::from(is_odd);
                    let time = now + 64_000 * u64::from(1 + draw(3) * draw(3)) + late;
                    let there = plain.range((time, place, 0)..).next();
                    if is_odd || there.is_none_or(|one| (one.0, one.1) != (time, place)) {
                        let item = 3_000 * step as u32 + item;
                        plain.insert((time, place, item));
                        calendar.push(event(time, place, item));
                    }
                }
                prop_assert_eq!(calendar.len(), plain.len());
                prop_assert_eq!(calendar.earliest(), plain.first().map(|one| Time(one.0)));
                let waiting = calendar.events().map(|one| (one.time.0, one.place, one.item));
                prop_assert!(waiting.eq(plain.iter().copied()));
                let mut ahead = Vec::new();
                calendar.foresee(|one| ahead.push((one.time.0, one.place, one.item)));
                ahead.sort_unstable();
                prop_assert!(odd > 0 || plain.iter().copied().take(ahead.len()).eq(ahead));
                has_rows |= calendar.near.slots.iter().any(|slot| slot.row().is_some());
                let later = plain.split_off(&(now + 64_001, 0, 0));
                let mut due = std::mem::replace(&mut plain, later);
                // Some leave by the slot, one after another, as soon as it is open.
                if let Some(first) = calendar.pop_until(Time(now + 64_000)) {
                    prop_assert_eq!(due.pop_first(), Some((first.time.0, first.place, first.item)));
                    while let Some(next) = calendar.pop_at(first.time, first.place..ports / 2) {
                        prop_assert_eq!(due.pop_first(), Some((next.time.0, next.place, next.item)));
                        prop_assert!(next.time == first.time && next.place < ports / 2);
                    }
                    let left = due.first().filter(|one| one.0 == first.time.0);
                    prop_assert!(left.is_none_or(|one| one.1 >= ports / 2));
                }
                prop_assert!(all(&mut calendar, now + 64_000).into_iter().eq(due));
            }
            prop_assert!(has_rows || odd > 0);
        }
    }

    fn item_of(event: Event) -> usize {
        event.item as usize
    }

    proptest! {
        /// What is moved leaves as what was scheduled so late, whatever has left before.
        #[test]
        fn what_is_delayed_leaves_so_much_later(
            spacing in prop_oneof![Just(1_u64), Just(1_000), Just(1 << 30)],
            times in prop::collection::vec((0_u64..1 << 34, 0_u32..4), 1..80),
            gone in 0_usize..80,
            span in prop_oneof![0_u64..3, 0_u64..5_000, 0_u64..1 << 40],
            more in prop::collection::vec((0_u64..1 << 20, 0_u32..4), 0..20),
        ) {
            let mut calendar = Calendar::new(Span(spacing), Span(1 << 10));
            let mut plain: Vec<(u64, u32, u32)> = Vec::new();
            for (item, (time, place)) in (0..).zip(&times) {
                calendar.push(event(*time, *place, item));
                plain.push((*time, *place, item));
            }
            plain.sort_unstable();
            let gone = gone.min(times.len());
            let last = plain.drain(..gone).next_back().map_or(0, |last| last.0);
            for _ in 0..gone {
                prop_assert!(calendar.pop_until(Time::NEVER).is_some());
            }
            let waiting = calendar.events().map(|own| (own.time.0, own.place, own.item));
            prop_assert_eq!(&waiting.collect::<Vec<_>>(), &plain);
            calendar.delay(Span(span));
            plain.iter_mut().for_each(|own| own.0 += span);
            for (item, (after, place)) in (1_000..).zip(&more) {
                calendar.push(event(last + span + after, *place, item));
                plain.push((last + span + after, *place, item));
            }
            plain.sort_unstable();
            prop_assert_eq!(all(&mut calendar, u64::MAX), plain);
        }
    }
}
