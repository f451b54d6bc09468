//! The hierarchical timing wheel under the event queue.

/// Binary digits of a time that one level distinguishes; a level's occupied slots fit one word.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// The end of a list of chunks.
const NONE: u32 = u32::MAX;

/// Events that are consecutive in memory; a power of two.
const CHUNK: usize = 8;

/// An event, and when it leaves in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due<E> {
    pub time: u64,
    pub event: E,
}

/// The result of [`Wheel::take_earliest`].
pub(crate) enum Taken {
    /// Every event up to and including this time.
    UpTo(u64),
    /// Every event there was.
    All,
}

/// Events later than those in the queue's front. An event is filed at the level of the highest
/// base-64 digit in which its time differs from `base`, in the slot of that digit. All events of
/// one time therefore share a slot, in the order in which they were inserted.
///
/// A slot is a list of chunks, so that its events are read and written consecutively: with a
/// hundred thousand events, a list of single events would take a cache miss for each of them.
#[derive(Clone, Debug)]
pub(crate) struct Wheel<E> {
    /// No event is earlier; moves only to the time of the event that leaves next.
    base: u64,
    /// Which levels have events, by bit.
    levels: u32,
    /// Which slots of each level have events, by bit.
    occupied: [u64; LEVELS],
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    chunks: Chunks<E>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The chunks with the events that were added first and last; all but the last are full.
    oldest: u32,
    youngest: u32,
    count: u32,
    /// The earliest time in the slot.
    earliest: u64,
    /// The bits in which its times differ.
    difference: u64,
}

const EMPTY: Slot =
    Slot { oldest: NONE, youngest: NONE, count: 0, earliest: u64::MAX, difference: 0 };

/// The chunks of all slots. One that is left is the next to be used, while it is in the cache.
#[derive(Clone, Debug)]
struct Chunks<E> {
    all: Vec<Chunk<E>>,
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Chunk<E> {
    events: [Due<E>; CHUNK],
    /// The next chunk in the slot, or in the stack of free ones.
    next: u32,
}

impl<E: Copy> Chunks<E> {
    /// A chunk that begins with an event.
    #[inline]
    fn begin(&mut self, due: Due<E>) -> u32 {
        let place = self.free;
        match self.all.get_mut(place as usize) {
            Some(chunk) => {
                self.free = chunk.next;
                chunk.next = NONE;
                chunk.events[0] = due;
                place
            }
            None => self.grow(due),
        }
    }

    #[cold]
    fn grow(&mut self, due: Due<E>) -> u32 {
        self.all.push(Chunk { events: [due; CHUNK], next: NONE });
        (self.all.len() - 1) as u32
    }

    /// Frees a chunk and returns the next one.
    #[inline]
    fn release(&mut self, place: u32) -> u32 {
        let free = self.free;
        self.free = place;
        std::mem::replace(&mut self.all[place as usize].next, free)
    }
}

/// Which slot, and on which level.
#[derive(Clone, Copy, Debug)]
struct SlotPlace {
    level: usize,
    slot: usize,
}

impl<E: Copy> Wheel<E> {
    pub fn new() -> Wheel<E> {
        Wheel {
            base: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: Box::new([[EMPTY; SLOTS]; LEVELS]),
            chunks: Chunks { all: Vec::new(), free: NONE },
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The time of the earliest event, found without moving any.
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        self.lowest().map(|SlotPlace { level, slot }| self.slots[level][slot].earliest)
    }

    /// Adds an event that is not earlier than any that was taken.
    #[inline]
    pub fn insert(&mut self, due: Due<E>) {
        self.len += 1;
        self.add(level_of(due.time ^ self.base), due);
    }

    /// Moves the earliest events, sorted, to the empty `front`: those of one slot, narrowed until
    /// it holds at most `limit` events or only one time. Events of one time keep the order in
    /// which they were inserted. The earliest event must leave the queue next, since the wheel
    /// moves on to its time.
    pub fn take_earliest(&mut self, limit: u32, front: &mut Vec<Due<E>>) -> Taken {
        let Some(SlotPlace { mut level, slot: place }) = self.lowest() else {
            return Taken::All;
        };
        let mut slot = std::mem::replace(&mut self.slots[level][place], EMPTY);
        self.mark_empty(level, place);
        self.base = slot.earliest;
        while slot.count > limit && level > 0 {
            level = level_of(slot.difference);
            if slot.difference == 0 {
                break;
            }
            slot = self.spread(slot, level);
        }
        self.len -= slot.count as usize;
        let (mut place, mut left) = (slot.oldest, slot.count as usize);
        while left > 0 {
            for due in &self.chunks.all[place as usize].events[..left.min(CHUNK)] {
                front.push(*due);
            }
            left = left.saturating_sub(CHUNK);
            place = self.chunks.release(place);
        }
        if slot.difference != 0 {
            sort(front);
        }
        let within_slot = (1 << (level as u32 * DIGIT)) - 1;
        if self.len == 0 { Taken::All } else { Taken::UpTo(slot.earliest | within_slot) }
    }

    /// Spreads a slot over those of `level`, except for the events that share the digit of the
    /// earliest one: these are returned.
    fn spread(&mut self, slot: Slot, level: usize) -> Slot {
        let digit = level as u32 * DIGIT;
        let mut near = EMPTY;
        let (mut place, mut left) = (slot.oldest, slot.count as usize);
        while left > 0 {
            // Copied, since its place may be the next that is used.
            let events = self.chunks.all[place as usize].events;
            place = self.chunks.release(place);
            for &due in &events[..left.min(CHUNK)] {
                if (due.time ^ slot.earliest) >> digit == 0 {
                    near.add(&mut self.chunks, due);
                } else {
                    self.add(level, due);
                }
            }
            left = left.saturating_sub(CHUNK);
        }
        near
    }

    /// Appends an event to the slot of its time on `level`.
    #[inline]
    fn add(&mut self, level: usize, due: Due<E>) {
        let place = (due.time >> (level as u32 * DIGIT)) as usize % SLOTS;
        self.levels |= 1 << level;
        self.occupied[level] |= 1 << place;
        self.slots[level][place].add(&mut self.chunks, due);
    }

    /// The lowest level that has events, and its first slot that has: all other events are later,
    /// because they differ from `base` in a higher digit or by more in the same one.
    #[inline]
    fn lowest(&self) -> Option<SlotPlace> {
        let level = self.levels.trailing_zeros() as usize;
        let occupied = self.occupied.get(level)?;
        Some(SlotPlace { level, slot: occupied.trailing_zeros() as usize })
    }

    #[inline]
    fn mark_empty(&mut self, level: usize, place: usize) {
        self.occupied[level] &= !(1 << place);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

impl Slot {
    #[inline]
    fn add<E: Copy>(&mut self, chunks: &mut Chunks<E>, due: Due<E>) {
        let within = self.count as usize % CHUNK;
        if within > 0 {
            chunks.all[self.youngest as usize].events[within] = due;
        } else {
            let chunk = chunks.begin(due);
            match chunks.all.get_mut(self.youngest as usize) {
                Some(before) => before.next = chunk,
                None => (self.oldest, self.earliest) = (chunk, due.time),
            }
            self.youngest = chunk;
        }
        self.count += 1;
        // Whatever was the earliest before, some pair of times differs in these bits.
        self.difference |= due.time ^ self.earliest;
        self.earliest = self.earliest.min(due.time);
    }
}

/// Sorts a few events by time and leaves equal times in their order.
#[inline]
fn sort<E: Copy>(front: &mut [Due<E>]) {
    for sorted in 1..front.len() {
        let due = front[sorted];
        let mut place = sorted;
        while place > 0 && front[place - 1].time > due.time {
            front[place] = front[place - 1];
            place -= 1;
        }
        front[place] = due;
    }
}

/// The highest base-64 digit of a difference that is not zero; zero for no difference.
#[inline]
fn level_of(difference: u64) -> usize {
    ((difference | 1).ilog2() / DIGIT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_digits_of_the_difference() {
        assert_eq!(level_of(0), 0);
        assert_eq!(level_of(63), 0);
        assert_eq!(level_of(64), 1);
        assert_eq!(level_of(u64::MAX), LEVELS - 1);
    }

    #[test]
    fn places_are_used_again() {
        let (mut wheel, mut front) = (Wheel::new(), Vec::new());
        for round in 0..1_000_u64 {
            for event in 0..40_u64 {
                wheel.insert(Due { time: round * 1_000 + event, event });
            }
            while wheel.len() > 0 {
                wheel.take_earliest(4, &mut front);
                for due in front.drain(..) {
                    assert_eq!(round * 1_000 + due.event, due.time);
                }
            }
        }
        // Each event may stand in a chunk of its own.
        assert!(wheel.chunks.all.len() <= 40, "{}", wheel.chunks.all.len());
    }
}
