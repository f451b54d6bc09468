//! Slots whose events have one time: they are scheduled straight to their places, and need not be sorted.

use weft_units::Time;

use super::places::Places;
use super::slots::{CHUNK, Chunks, Slot};
use super::{Event, SOON, pack, time_of, unpack};

/// For how many places a row may have room, in words of 64: half a megabyte, as much as a second cache has. Lists of
/// events, which are written one after another, need no cache.
const MOST_WORDS: usize = 2_048;

/// The slots that are rows: a number for each place, in place of a list.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Those that no slot uses. The one that was used last, which is in the cache, is the next.
    free: Vec<u32>,
    /// From how many events on a slot becomes a row: as many as make it worth looking at all places. None does before
    /// a slot was found to have one time.
    least: u32,
    /// For how many places rows have room, in words of 64.
    words: usize,
}

/// The events of a slot.
#[derive(Clone, Debug, Default)]
struct Row {
    /// The time of those that are in `places`.
    time: Time,
    count: u32,
    places: Places,
    /// Those of another time, and those whose place has another event or is beyond the places known so far.
    others: Vec<u128>,
}

impl Rows {
    pub fn new() -> Rows {
        Rows { rows: Vec::new(), free: Vec::new(), least: u32::MAX, words: 0 }
    }

    /// From how many events on a slot becomes a row.
    #[inline]
    pub fn least(&self) -> u32 {
        self.least
    }

    /// A slot was found to have one time, and places in so many words of 64: those behind it probably have, too.
    pub fn begin(&mut self, words: usize) {
        self.words = self.words.max(words);
        let least = (self.words / 4).next_multiple_of(CHUNK).max(CHUNK);
        self.least = match self.words <= MOST_WORDS {
            true => u32::try_from(least).unwrap_or(u32::MAX),
            false => u32::MAX,
        };
    }

    /// A slot becomes a row.
    pub fn convert(&mut self, slot: Slot, chunks: &mut Chunks) -> Slot {
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            (self.rows.len() - 1) as u32
        });
        let row = &mut self.rows[number as usize];
        row.places.make_room(self.words);
        row.time = time_of(chunks.events[slot.first as usize].0[0]);
        chunks.drain(slot, |keys| keys.iter().for_each(|key| self.add(number, unpack(*key))));
        Slot::of_row(number)
    }

    /// An event is scheduled for a slot that is a row.
    #[inline(always)]
    pub fn add(&mut self, number: u32, event: Event) {
        let row = &mut self.rows[number as usize];
        if event.time == row.time && row.places.note(event.place, event.item) {
            row.count += 1;
        } else {
            self.add_apart(number, pack(event));
        }
    }

    /// An event that has no place in a row. If there is one, later slots become no rows, until one was found to have
    /// one time.
    #[cold]
    #[inline(never)]
    fn add_apart(&mut self, number: u32, key: u128) {
        self.rows[number as usize].others.push(key);
        self.least = u32::MAX;
    }

    /// Moves the events of a row into `open`, sorted, from its place [`SOON`] on.
    pub fn drain(&mut self, number: u32, open: &mut Vec<u128>) {
        let row = &mut self.rows[number as usize];
        row.places.emit(row.time, row.count as usize, open);
        row.count = 0;
        if !row.others.is_empty() {
            open.append(&mut row.others);
            open[SOON..].sort_unstable();
        }
        self.free.push(number);
    }

    /// How many events a row has.
    pub fn count(&self, number: u32) -> usize {
        let row = &self.rows[number as usize];
        row.count as usize + row.others.len()
    }

    /// Shows the events of a row, in no order.
    #[inline]
    pub fn each(&self, number: u32, mut show: impl FnMut(u128)) {
        let row = &self.rows[number as usize];
        row.places.each(row.time, &mut show);
        row.others.iter().for_each(|key| show(*key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_fit_into_no_cache_are_lists() {
        let mut rows = Rows::new();
        rows.begin(MOST_WORDS);
        assert_eq!(rows.least() as usize, MOST_WORDS / 4);
        rows.begin(MOST_WORDS + 1);
        assert_eq!(rows.least(), u32::MAX);
    }
}
