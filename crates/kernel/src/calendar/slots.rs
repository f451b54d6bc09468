//! The slots of a calendar: lists of chunks of events, of which all but the first are full.

use super::rows::Rows;
use super::{Event, pack};
use crate::{append, prefetch, prefetch_first, prefetch_whole};

/// Events that stand one after another in memory; a power of two. Those of most slots are in one chunk.
pub(super) const CHUNK: usize = 16;

/// A chunk begins with a line of the cache, so that an event is never written to two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Chunk(pub [u128; CHUNK]);

/// How many chunks ahead of the one that is read are prefetched: a list is not in order in memory.
const CHUNKS_AHEAD: usize = 4;

/// The slots of one level and which of them have events.
#[derive(Clone, Debug)]
pub(super) struct Ring<const SLOTS: usize> {
    pub slots: Box<[Slot; SLOTS]>,
    occupied: Box<[u64]>,
}

/// A list of chunks, of which all but the first are full, or a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// Its first chunk, or the number of its row.
    pub first: u32,
    /// How many events it has, or that it is a [row](IS_ROW).
    pub count: u32,
}

/// The count of a slot that is a row. To whoever adds an event it looks like one whose chunks are full.
const IS_ROW: u32 = 1 << 31;
const _: () = assert!((IS_ROW as usize).is_multiple_of(CHUNK));

impl Slot {
    /// A slot that is a row.
    pub fn of_row(number: u32) -> Slot {
        Slot { first: number, count: IS_ROW }
    }

    /// The same slot, or one without events if it is a row.
    #[inline]
    pub fn list(self) -> Slot {
        if self.row().is_some() { Slot::default() } else { self }
    }

    /// The number of its row, if it is one.
    #[inline]
    pub fn row(self) -> Option<u32> {
        (self.count == IS_ROW).then_some(self.first)
    }
}

/// The chunks of all slots. One that is left is the next to be used, while it is in the cache.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    pub events: Vec<Chunk>,
    /// The next chunk in its slot, or in the stack of free ones.
    next: Vec<u32>,
    free: u32,
}

const NONE: u32 = u32::MAX;

impl<const SLOTS: usize> Ring<SLOTS> {
    pub fn new() -> Ring<SLOTS> {
        let slots = Box::new([Slot::default(); SLOTS]);
        Ring { slots, occupied: vec![0; SLOTS / 64].into_boxed_slice() }
    }

    #[inline]
    pub fn add(&mut self, place: usize, key: u128, chunks: &mut Chunks) {
        let slot = &mut self.slots[place];
        let within = slot.count as usize % CHUNK;
        if within == 0 {
            slot.first = chunks.begin(if slot.count == 0 { NONE } else { slot.first });
            self.occupied[place / 64] |= 1 << (place % 64);
        }
        chunks.events[slot.first as usize].0[within] = key;
        slot.count += 1;
    }

    /// Like [`add`](Self::add), for slots that may be rows.
    #[inline(always)]
    pub fn add_to_any(&mut self, place: usize, event: Event, chunks: &mut Chunks, rows: &mut Rows) {
        let slot = self.slots[place];
        if (slot.count as usize).is_multiple_of(CHUNK) {
            if let Some(row) = slot.row() {
                return rows.add(row, event);
            }
            if slot.count >= rows.least() {
                return self.convert(place, event, chunks, rows);
            }
        }
        self.add(place, pack(event), chunks);
    }

    /// A slot with many events becomes a row, and gets another one.
    #[cold]
    #[inline(never)]
    fn convert(&mut self, place: usize, event: Event, chunks: &mut Chunks, rows: &mut Rows) {
        let slot = rows.convert(self.slots[place], chunks);
        self.slots[place] = slot;
        rows.add(slot.first, event);
    }

    pub fn take(&mut self, place: usize) -> Slot {
        self.occupied[place / 64] &= !(1 << (place % 64));
        std::mem::take(&mut self.slots[place])
    }

    /// The slots with events.
    pub fn filled(&self) -> impl Iterator<Item = Slot> {
        (0..).zip(&*self.occupied).flat_map(move |(word, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let within = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(self.slots[64 * word + within as usize])
            })
        })
    }

    /// The first slot with events after `place`, cyclically.
    #[inline]
    pub fn next_after(&self, place: usize) -> Option<usize> {
        let first = place / 64;
        let bits = self.occupied[first] & (!1 << (place % 64));
        if bits != 0 {
            return Some(64 * first + bits.trailing_zeros() as usize);
        }
        let words = self.occupied.iter().enumerate();
        let mut behind = words.clone().skip(first + 1).chain(words.take(first + 1));
        let (word, bits) = behind.find(|(_, bits)| **bits != 0)?;
        Some(64 * word + bits.trailing_zeros() as usize)
    }

    /// The first slot with events after `place`. There are none before it.
    #[inline]
    pub fn first_after(&self, place: usize) -> Option<usize> {
        let mut word = place / 64;
        let mut bits = self.occupied[word] & (!1 << (place % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(64 * word + bits.trailing_zeros() as usize)
    }
}

impl Chunks {
    pub fn new() -> Chunks {
        Chunks { events: Vec::new(), next: Vec::new(), free: NONE }
    }

    /// A chunk in front of another one.
    #[inline]
    fn begin(&mut self, behind: u32) -> u32 {
        let place = self.free;
        match self.next.get_mut(place as usize) {
            Some(next) => {
                self.free = std::mem::replace(next, behind);
                // The one that is used after this one.
                if let Some(free) = self.events.get(self.free as usize) {
                    prefetch_whole(free);
                }
                place
            }
            None => self.grow(behind),
        }
    }

    #[cold]
    fn grow(&mut self, behind: u32) -> u32 {
        append(&mut self.events, Chunk([0; CHUNK]));
        append(&mut self.next, behind);
        (self.next.len() - 1) as u32
    }

    /// Prefetches the first chunk of a slot.
    #[inline]
    pub fn prefetch(&self, slot: Slot) {
        if let Some(first) = self.events.get(slot.first as usize)
            && slot.row().is_none()
        {
            let held = slot.count.wrapping_sub(1) as usize % CHUNK + 1;
            prefetch_first(first, held * size_of::<u128>());
            prefetch(&self.next, slot.first as usize);
        }
    }

    /// Prefetches where the next event of a slot is written.
    #[inline]
    pub fn prefetch_end(&self, slot: Slot) {
        if let Some(first) = self.events.get(slot.first as usize) {
            prefetch(&first.0, slot.count as usize % CHUNK);
        }
    }

    /// Shows the events of a slot, in no order.
    #[inline]
    pub fn each(&self, slot: Slot, mut show: impl FnMut(u128)) {
        self.walk(slot, |keys| {
            keys.iter().for_each(|key| show(*key));
            true
        });
    }

    /// Shows the events of a slot, some at a time, in no order, while `show` returns true. Returns the last chunk if it
    /// always did.
    #[inline]
    pub fn walk(&self, slot: Slot, mut show: impl FnMut(&[u128]) -> bool) -> Option<u32> {
        let (mut place, mut left) = (slot.first, slot.count as usize);
        let mut ahead = self.prefetch_list(slot.first);
        let mut last = None;
        while left > 0 {
            let held = (left - 1) % CHUNK + 1;
            ahead = self.prefetch_next(ahead);
            if !show(&self.events[place as usize].0[..held]) {
                return None;
            }
            left -= held;
            last = Some(place);
            place = self.next[place as usize];
        }
        last
    }

    /// Hands out the events of a slot, some at a time, and gives its chunks back.
    #[inline]
    pub fn drain(&mut self, slot: Slot, mut take: impl FnMut(&[u128])) {
        let (mut place, mut left) = (slot.first, slot.count as usize);
        let mut ahead = self.prefetch_list(slot.first);
        while left > 0 {
            let held = (left - 1) % CHUNK + 1;
            ahead = self.prefetch_next(ahead);
            let behind = std::mem::replace(&mut self.next[place as usize], self.free);
            take(&self.events[place as usize].0[..held]);
            left -= held;
            self.free = place;
            place = behind;
        }
    }

    /// Prefetches the first chunks of a list from one on. Returns the one before those that are not prefetched yet.
    #[inline]
    fn prefetch_list(&self, first: u32) -> u32 {
        (1..CHUNKS_AHEAD).fold(first, |place, _| self.prefetch_next(place))
    }

    /// Prefetches the chunk behind one, which it returns.
    #[inline(always)]
    fn prefetch_next(&self, place: u32) -> u32 {
        let next = self.next.get(place as usize).copied().unwrap_or(NONE);
        if let Some(chunk) = self.events.get(next as usize) {
            prefetch_whole(chunk);
        }
        next
    }

    /// Gives the chunks of a list back.
    pub fn give_back(&mut self, first: u32, last: u32) {
        self.next[last as usize] = std::mem::replace(&mut self.free, first);
    }
}
