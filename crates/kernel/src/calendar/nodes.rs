//! Windows of time within which nothing gets from one node to another: the events of each node leave together.
//!
//! Where an event at one node has no effect at another one before a span of time has passed, the order of events
//! within such a span matters only node by node. With many nodes, consecutive events by time are at nodes whose state is
//! no longer in the cache; events that leave node by node find it there.

use std::sync::Arc;

use weft_units::{Span, Time};

use crate::prefetch;

use super::{Calendar, Event, NEAR, NEAR_DIGIT, NOTHING, RING, SOON, time_of, unpack};

/// How many places forward the events of a node may move on average while they are put in order by inserting them.
const FEW: usize = 8;

/// The events of a window, node by node.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// The node of each place.
    of_place: Arc<[u16]>,
    /// How many slots a window has.
    slots: u64,
    /// By node, its events in the present window, behind as much room as a slot is opened with.
    lists: Box<[Vec<u128>]>,
    /// A bit for each node that has events.
    filled: Box<[u64]>,
    /// The node whose events are open. The calendar has its list, and its list is here meanwhile.
    open: Option<usize>,
}

impl Nodes {
    fn new(of_place: Arc<[u16]>, slots: u64) -> Nodes {
        let count = of_place.iter().max().map_or(0, |last| usize::from(*last) + 1);
        let lists = (0..count).map(|_| vec![0; SOON]).collect();
        let filled = vec![0; count.div_ceil(64)].into();
        Nodes { of_place, slots, lists, filled, open: None }
    }

    #[inline]
    fn of(&self, key: u128) -> usize {
        usize::from(self.of_place[(key >> 32) as u32 as usize])
    }

    #[inline]
    fn add(&mut self, key: u128) {
        let node = self.of(key);
        let list = &mut self.lists[node];
        list.push(key);
        // Its next line of the cache.
        prefetch(list.spare_capacity_mut(), 4);
        self.filled[node / 64] |= 1 << (node % 64);
    }

    /// The first node that has events.
    fn first(&self) -> Option<usize> {
        let (number, word) = self.filled.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(64 * number + word.trailing_zeros() as usize)
    }

    /// Whether an event belongs to the node that is open, if any is.
    pub fn is_of_open(&self, key: u128) -> bool {
        self.open.is_none_or(|open| open == self.of(key))
    }
}

impl Calendar {
    /// Lets events leave node by node in windows shorter than `apart`: an event at one node must not schedule any at
    /// another one less than that later. Each place belongs to a node, of which there are fewer than 65,536. Returns
    /// whether windows have any slots.
    pub fn divide(&mut self, of_place: Arc<[u16]>, apart: Span) -> bool {
        let slots = (apart.0 >> self.shift).min(NEAR as u64);
        self.nodes = (slots > 0).then(|| Box::new(Nodes::new(of_place, slots)));
        self.nodes.is_some()
    }

    /// Opens the next window if the events of the last one have left, and part of it is not after `limit`. All events
    /// of the window must then leave by [`open_node`](Self::open_node) and [`pop_open`](Self::pop_open) before
    /// anything else is asked. Returns `false` also where a slot goes beyond the limit:
    /// [`pop_until`](Self::pop_until) returns its events in order of time.
    pub fn open_window(&mut self, limit: Time) -> bool {
        if self.head < self.open.len() || !self.late.is_empty() {
            return false;
        }
        let Some(mut nodes) = self.nodes.take() else { return false };
        let is_open = self.gather(&mut nodes, limit);
        self.nodes = Some(nodes);
        is_open
    }

    /// Distributes the events of the slots of a window among nodes.
    fn gather(&mut self, nodes: &mut Nodes, limit: Time) -> bool {
        let ended = limit.0.saturating_add(1) >> self.shift;
        let Some(last) = ended.checked_sub(1) else { return false };
        let Some(mut number) = self.enter_next(last) else { return false };
        let last = last.min(number + nodes.slots - 1);
        loop {
            let slot = self.near.take(number as usize % RING);
            self.chunks.drain(slot, |keys| keys.iter().for_each(|key| nodes.add(*key)));
            self.slot = number;
            match self.next_near() {
                Some(next) if next <= last => number = next,
                _ => break,
            }
        }
        self.enter(last);
        true
    }

    /// Advances to the next slot that has events unless that is after `last`.
    fn enter_next(&mut self, last: u64) -> Option<u64> {
        loop {
            if let Some(number) = self.next_near() {
                if number > last {
                    return None;
                }
                self.enter(number);
                return Some(number);
            }
            match self.next_far() {
                Some((block, _)) if block << NEAR_DIGIT <= last => {
                    self.enter((block << NEAR_DIGIT) - 1);
                }
                _ => return None,
            }
        }
    }

    /// Opens the events of the next node that has any in the present window.
    pub fn open_node(&mut self) -> Option<u32> {
        let nodes = self.nodes.as_deref_mut()?;
        if let Some(done) = nodes.open.take() {
            self.open.truncate(SOON);
            std::mem::swap(&mut self.open, &mut nodes.lists[done]);
        }
        let Some(node) = nodes.first() else {
            self.head = self.open.len();
            return None;
        };
        nodes.filled[node / 64] &= !(1 << (node % 64));
        std::mem::swap(&mut self.open, &mut nodes.lists[node]);
        nodes.open = Some(node);
        sort_sorted(&mut self.open[SOON..]);
        self.head = SOON;
        Some(node as u32)
    }

    /// The node that is opened next. Shows `count` of its events, which are among the first ones.
    pub fn foresee_node(&self, count: usize, show: impl FnMut(Event)) -> Option<u32> {
        let nodes = self.nodes.as_deref()?;
        let node = nodes.first()?;
        let events = nodes.lists[node][SOON..].iter().take(count);
        events.map(|key| unpack(*key)).for_each(show);
        Some(node as u32)
    }

    /// Removes the earliest event of the node that is open.
    #[inline(always)]
    pub fn pop_open(&mut self) -> Option<Event> {
        if !self.late.is_empty() {
            let key = self.pop_late(Time::NEVER);
            return (key != NOTHING).then(|| unpack(key));
        }
        let key = *self.open.get(self.head)?;
        self.head += 1;
        debug_assert!(time_of(key).0 >> self.shift <= self.slot, "an event of the window");
        Some(unpack(key))
    }
}

/// Sorts events of which most are in order.
fn sort_sorted(keys: &mut [u128]) {
    let mut moves = FEW * keys.len();
    for place in 1..keys.len() {
        let key = keys[place];
        let mut to = place;
        while to > 0 && keys[to - 1] > key {
            keys[to] = keys[to - 1];
            to -= 1;
        }
        keys[to] = key;
        match moves.checked_sub(place - to) {
            Some(left) => moves = left,
            None => return keys.sort_unstable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Slots of 16 ps, windows of 6 of them; node 0 has the even places below 8, node 1 the odd ones, node 2 all
    /// others.
    const APART: u64 = 100;

    fn divided() -> Calendar {
        let mut calendar = Calendar::new(Span(1), Span(1));
        let of_place: Vec<u16> =
            (0..16).map(|place| if place < 8 { place % 2 } else { 2 }).collect();
        assert!(calendar.divide(of_place.into(), Span(APART)));
        calendar
    }

    fn node_of(place: u32) -> u32 {
        if place < 8 { place % 2 } else { 2 }
    }

    fn event(time: u64, place: u32, item: u32) -> Event {
        Event { time: Time(time), place, item }
    }

    /// Lets all events up to a limit leave, each of which `next` may answer with another one.
    fn run(
        calendar: &mut Calendar,
        limit: u64,
        mut next: impl FnMut(Event) -> Option<Event>,
    ) -> Vec<Event> {
        let mut left = Vec::new();
        loop {
            if calendar.open_window(Time(limit)) {
                loop {
                    let foreseen = calendar.foresee_node(2, |_| {});
                    let opened = calendar.open_node();
                    assert_eq!(foreseen, opened);
                    let Some(node) = opened else { break };
                    while let Some(event) = calendar.pop_open() {
                        assert_eq!(node_of(event.place), node);
                        left.push(event);
                        next(event).into_iter().for_each(|one| calendar.push(one));
                    }
                }
            } else if let Some(event) = calendar.pop_until(Time(limit)) {
                left.push(event);
                next(event).into_iter().for_each(|one| calendar.push(one));
            } else {
                return left;
            }
        }
    }

    #[test]
    fn events_of_a_window_leave_node_by_node() {
        let mut calendar = divided();
        for (time, place) in
            [(70, 1), (17, 2), (17, 1), (30, 9), (30, 4), (111, 1), (112, 0), (200, 3)]
        {
            calendar.push(event(time, place, 0));
        }
        let left = run(&mut calendar, 180, |_| None);
        let left: Vec<_> = left.iter().map(|one| (one.time.0, one.place)).collect();
        // The first window has the slots from 16 to 111.
        let expected = [(17, 2), (30, 4), (17, 1), (70, 1), (111, 1), (30, 9), (112, 0)];
        assert_eq!(left, expected);
        assert_eq!(calendar.len(), 1);
    }

    /// Slots whose events have one time become no tables of places after one of them was opened in order of time.
    #[test]
    fn events_in_step_leave_node_by_node_too() {
        let mut calendar = Calendar::new(Span(1), Span(1));
        let of_place: Vec<u16> = (0..400).map(|place| place % 4).collect();
        assert!(calendar.divide(of_place.into(), Span(APART)));
        let all = |calendar: &mut Calendar, time| {
            (0..400).for_each(|place| calendar.push(event(time, place, 0)));
        };
        all(&mut calendar, 20);
        assert!((0..400).all(|place| calendar.pop_until(Time(20)) == Some(event(20, place, 0))));
        all(&mut calendar, 300);
        all(&mut calendar, 340);
        assert!(calendar.open_window(Time::NEVER));
        let mut left = Vec::new();
        while let Some(node) = calendar.open_node() {
            while let Some(one) = calendar.pop_open() {
                left.push((node, one.time.0, one.place));
            }
        }
        let events = |node, time| (0..100).map(move |number| (node, time, 4 * number + node));
        let expected: Vec<_> =
            (0..4).flat_map(|node| events(node, 300).chain(events(node, 340))).collect();
        assert_eq!(left, expected);
    }

    #[test]
    fn what_is_nearly_sorted_and_what_is_not_is_sorted() {
        for step in [1, 7, 999] {
            let mut keys: Vec<u128> = (0..1_000_u128).map(|key| key * step % 1_000).collect();
            sort_sorted(&mut keys);
            assert!(keys.is_sorted());
        }
        let mut keys: Vec<u128> = (0..1_000_u128).map(|key| key ^ 3).collect();
        sort_sorted(&mut keys);
        assert!(keys.is_sorted());
    }

    proptest! {
        /// Each node sees the events that it sees in order of time, whatever limits end runs; events schedule others at
        /// their node soon, and at other nodes after the time that these are apart.
        #[test]
        fn each_node_sees_its_events_in_order(
            first in prop::collection::vec((0_u64..1 << 21, 0_u32..16), 1..60),
            answers in prop::collection::vec((0_u64..300, 0_u32..16), 0..300),
            limits in prop::collection::vec(0_u64..1 << 21, 0..4),
        ) {
            let (mut calendar, mut plain) = (divided(), Calendar::new(Span(1), Span(1)));
            for (item, (time, place)) in (0..).zip(&first) {
                calendar.push(event(*time, *place, item));
                plain.push(event(*time, *place, item));
            }
            // What an event causes follows from it alone.
            let answer = |one: Event| {
                let number = one.item.wrapping_mul(7).wrapping_add(one.place) as usize;
                let (after, place) = *answers.get(number)?;
                let is_own = node_of(place) == node_of(one.place);
                let after = if is_own { after } else { APART + after };
                (one.item < 400).then(|| event(one.time.0 + after, place, one.item + 60))
            };
            let mut limits = limits;
            limits.sort_unstable();
            limits.push(u64::MAX);
            let (mut own, mut usual) = (Vec::new(), Vec::new());
            for limit in limits {
                own.extend(run(&mut calendar, limit, answer));
                while let Some(one) = plain.pop_until(Time(limit)) {
                    usual.push(one);
                    answer(one).into_iter().for_each(|more| plain.push(more));
                }
                prop_assert_eq!(calendar.len(), plain.len());
                for node in 0..3 {
                    let of = |all: &[Event]| -> Vec<Event> {
                        all.iter().filter(|one| node_of(one.place) == node).copied().collect()
                    };
                    prop_assert_eq!(of(&own), of(&usual));
                }
            }
            prop_assert!(calendar.is_empty());
        }
    }
}
