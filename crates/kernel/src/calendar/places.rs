//! Sorting events of one time by a bit for each place.

use weft_units::Time;

use super::slots::{Chunks, Slot};
use super::{Event, SOON, pack, time_of};

/// Fewer events are sorted by comparing them.
const MANY: usize = 24;

/// Events of one time by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// A bit for each place with an event. None is set between two calls.
    occupied: Vec<u64>,
    /// The item of each. Apart from the bits, which so are few enough to stay in the cache.
    items: Vec<[u32; 64]>,
}

impl Places {
    /// Sorts the events of a slot into `open`, from its place [`SOON`] on, and gives the chunks of the slot back,
    /// if they are many, of one time and of different places, which are dense enough to scan all of them; returns
    /// whether they are.
    pub fn sort_one_time(&mut self, slot: Slot, chunks: &mut Chunks, open: &mut Vec<u128>) -> bool {
        let count = slot.count as usize;
        let most = count.saturating_mul(4);
        if count < MANY || self.occupied.len() > most {
            return false;
        }
        let time = time_of(chunks.events[slot.first as usize].0[0]);
        let mut noted = 0;
        let last = chunks.walk(slot, |keys| {
            let own = self.note_all(keys, time, most);
            noted += own;
            own == keys.len()
        });
        let Some(last) = last else {
            self.forget(slot, chunks, noted);
            return false;
        };
        chunks.give_back(slot.first, last);
        self.emit(time, count, open);
        true
    }

    /// Moves `count` events of a time, which are all that are noted, into `open` in the order of their places, from its
    /// place [`SOON`] on.
    pub fn emit(&mut self, time: Time, count: usize, open: &mut Vec<u128>) {
        open.resize(SOON + count, 0);
        let mut sorted = open[SOON..].iter_mut();
        let words = self.occupied.iter_mut().zip(&self.items);
        for (first, (occupied, items)) in (0_u32..).step_by(64).zip(words) {
            let mut left = std::mem::take(occupied);
            while left != 0
                && let Some(key) = sorted.next()
            {
                let within = left.trailing_zeros();
                let item = items[within as usize % 64];
                *key = pack(Event { time, place: first + within, item });
                left &= left - 1;
            }
        }
    }

    /// Shows the events of a time that are noted.
    #[inline]
    pub fn each(&self, time: Time, mut show: impl FnMut(u128)) {
        let words = self.occupied.iter().zip(&self.items);
        for (first, (occupied, items)) in (0_u32..).step_by(64).zip(words) {
            let mut left = *occupied;
            while left != 0 {
                let within = left.trailing_zeros();
                let item = items[within as usize % 64];
                show(pack(Event { time, place: first + within, item }));
                left &= left - 1;
            }
        }
    }

    /// Makes room for so many words of 64 places at least.
    pub fn make_room(&mut self, words: usize) {
        if self.occupied.len() < words {
            self.occupied.resize(words, 0);
            self.items.resize(words, [0; 64]);
        }
    }

    /// For how many places there is room, in words of 64.
    pub fn words(&self) -> usize {
        self.occupied.len()
    }

    /// Notes an event at a place. Returns whether there is room for it and the place has none yet.
    #[inline(always)]
    pub fn note(&mut self, place: u32, item: u32) -> bool {
        let word = place as usize / 64;
        let (Some(occupied), Some(items)) = (self.occupied.get_mut(word), self.items.get_mut(word))
        else {
            return false;
        };
        let bit = 1 << (place % 64);
        let is_free = *occupied & bit == 0;
        if is_free {
            *occupied |= bit;
            items[place as usize % 64] = item;
        }
        is_free
    }

    /// Records events until one is not of a time, its place has one already, or it would take room for more than this
    /// many words. Returns how many it recorded.
    fn note_all(&mut self, keys: &[u128], time: Time, most: usize) -> usize {
        let mut noted = 0;
        loop {
            let (occupied, items) = (&mut self.occupied[..], &mut self.items[..]);
            let words = 'room: {
                for &key in &keys[noted..] {
                    if time_of(key) != time {
                        return noted;
                    }
                    let place = (key >> 32) as u32;
                    let word = place as usize / 64;
                    let (Some(occupied), Some(own)) = (occupied.get_mut(word), items.get_mut(word))
                    else {
                        break 'room word + 1;
                    };
                    let bit = 1 << (place % 64);
                    if *occupied & bit != 0 {
                        return noted;
                    }
                    *occupied |= bit;
                    own[place as usize % 64] = key as u32;
                    noted += 1;
                }
                return noted;
            };
            if words > most {
                return noted;
            }
            self.make_room(words);
        }
    }

    /// Clears the marks of the first events of a slot.
    #[cold]
    fn forget(&mut self, slot: Slot, chunks: &Chunks, count: usize) {
        let mut left = count;
        chunks.walk(slot, |keys| {
            for key in keys.iter().take(left) {
                self.occupied[(*key >> 32) as u32 as usize / 64] = 0;
            }
            left = left.saturating_sub(keys.len());
            left > 0
        });
    }
}
