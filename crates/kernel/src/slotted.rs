//! Events of many owners at the beginnings of slots. Where several have theirs at one instant, each needs only a bit,
//! and one event in the calendar stands for all of them.

use std::ops::Range;

use weft_units::{Span, Time};

/// How many slots there are bits for, counted from any instant.
const AHEAD: u64 = 64;

/// Which owners have an event at the beginning of which of the next slots.
#[derive(Debug, Default)]
pub struct SlottedEvents {
    slot: Span,
    /// 2^64 divided by the slot, so that a product tells the number of a slot.
    inverse: u64,
    /// How far ahead of the present there are bits for.
    reach: Span,
    /// The first owner that has bits.
    first: u32,
    /// Words for each slot.
    words: usize,
    /// The slots with an owner, by their number modulo [`AHEAD`].
    occupied: u64,
    /// By slot, a bit for each owner.
    due: Box<[u64]>,
    /// Room for the owners of a slot that begins.
    owners: Vec<u32>,
}

/// What a calendar needs for an event of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlottedNeeds {
    /// Nothing: there is an event for its slot.
    Nothing,
    /// An event for all owners of its slot.
    Slot,
    /// An event of its own: it is not at the beginning of a slot, or too far ahead.
    Own,
}

impl SlottedEvents {
    /// None yet, for a range of owners. Without a slot, every owner [needs](SlottedNeeds::Own) events of its own.
    pub fn new(slot: Option<Span>, owners: Range<u32>) -> SlottedEvents {
        let Some(slot) = slot.filter(|slot| slot.0 > 1 && slot.0 < u64::MAX / AHEAD) else {
            return SlottedEvents::default();
        };
        let words = owners.len().div_ceil(64);
        SlottedEvents {
            slot,
            inverse: u64::MAX / slot.0 + 1,
            reach: slot * (AHEAD - 1),
            first: owners.start,
            words,
            occupied: 0,
            due: vec![0; words * AHEAD as usize].into(),
            owners: Vec::with_capacity(owners.len()),
        }
    }

    /// The number of the slot that begins at an instant; that of any slot if none does.
    #[inline]
    fn number(&self, time: Time) -> u64 {
        ((u128::from(time.0) * u128::from(self.inverse)) >> 64) as u64
    }

    /// An owner has an event at a time, at which it has none yet. `now` is the present.
    #[inline]
    pub fn note(&mut self, now: Time, time: Time, owner: u32) -> SlottedNeeds {
        let number = self.number(time);
        // Not at the present either, whose owners may be taking part.
        let is_near = time.0.wrapping_sub(now.0).wrapping_sub(1) < self.reach.0;
        if !is_near || number.wrapping_mul(self.slot.0) != time.0 {
            return SlottedNeeds::Own;
        }
        let (at, owner) = (number % AHEAD, owner - self.first);
        let Some(due) = self.due.get_mut(at as usize * self.words + owner as usize / 64) else {
            return SlottedNeeds::Own;
        };
        *due |= 1 << (owner % 64);
        let bit = 1 << at;
        if self.occupied & bit != 0 {
            return SlottedNeeds::Nothing;
        }
        self.occupied |= bit;
        SlottedNeeds::Slot
    }

    /// The owners that have an event at the beginning of the slot that begins now, in the order of their numbers. To be
    /// [given back](Self::give_back).
    pub fn begin(&mut self, now: Time) -> Vec<u32> {
        let at = self.number(now) % AHEAD;
        self.occupied &= !(1 << at);
        let mut owners = std::mem::take(&mut self.owners);
        let words = at as usize * self.words..(at as usize + 1) * self.words;
        for (first, due) in (self.first..).step_by(64).zip(&mut self.due[words]) {
            let mut left = std::mem::take(due);
            while left != 0 {
                owners.push(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
        owners
    }

    /// Takes a list of owners back, so that the next one needs no memory.
    pub fn give_back(&mut self, mut owners: Vec<u32>) {
        owners.clear();
        self.owners = owners;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a sorted list, for owners that have one event after another: each has one of its own, or is among
        /// those of the one of its slot.
        #[test]
        fn every_event_comes_at_its_time(
            slot in prop_oneof![Just(2_u64), Just(7), Just(64_000), Just(3 << 40)],
            first in 0_u32..70,
            owners in 1_u32..150,
            gaps in prop::collection::vec((0_u64..100, any::<bool>()), 1..400),
        ) {
            let mut own = SlottedEvents::new(Some(Span(slot)), first..first + owners);
            // Each owner once; and the events that a calendar would have.
            let mut expected: BTreeSet<(u64, u32)> = (0..owners).map(|owner| (0, first + owner)).collect();
            let mut events: BTreeSet<(u64, Option<u32>)> = BTreeSet::new();
            expected.iter().for_each(|(time, owner)| { events.insert((*time, Some(*owner))); });
            let mut gaps = gaps.into_iter();
            while let Some((time, owner)) = events.pop_first() {
                let now = Time(time);
                let due = match owner {
                    Some(owner) => vec![owner],
                    None => own.begin(now),
                };
                prop_assert!(!due.is_empty() && due.is_sorted());
                for owner in &due {
                    prop_assert!(expected.remove(&(time, *owner)));
                    let Some((gap, is_off)) = gaps.next() else { continue };
                    let next = time + gap * slot + u64::from(is_off && gap % 3 == 0);
                    prop_assert!(expected.insert((next, *owner)));
                    let is_at_slot = next % slot == 0 && next > time && next - time <= 63 * slot;
                    match own.note(now, Time(next), *owner) {
                        SlottedNeeds::Nothing => prop_assert!(is_at_slot && events.contains(&(next, None))),
                        SlottedNeeds::Slot => prop_assert!(is_at_slot && events.insert((next, None))),
                        SlottedNeeds::Own => prop_assert!(!is_at_slot && events.insert((next, Some(*owner)))),
                    }
                }
                if owner.is_none() {
                    own.give_back(due);
                }
            }
            prop_assert!(expected.is_empty());
        }
    }

    #[test]
    fn without_slots_each_event_is_one_of_its_own() {
        for slot in [None, Some(Span(0)), Some(Span(1))] {
            let mut own = SlottedEvents::new(slot, 0..9);
            assert_eq!(own.note(Time(5), Time(6), 3), SlottedNeeds::Own);
        }
    }
}
