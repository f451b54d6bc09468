//! A ring of records in shared memory in which the records themselves show what has arrived: the receive
//! queue of a mapped window, whose reader polls the place where the next packet will be written (Memory
//! Channel 2, section 3.1; Clint 3.1 has a valid bit in each entry of its rings for the same end).
//!
//! The ring is made of slots of one cache line. A record begins a slot with its *head*, a word that is
//! zero until the rest of the record is there; so a short record costs one line that moves from the
//! writer's processor to the reader's, where a ring with a write pointer costs two ([`crate::byte_ring`],
//! which carries a stream and can hand over a part of a message). Before a record is published the head
//! behind it is cleared, so that old bytes of an earlier lap are never taken for a record; one slot is
//! therefore always free.
//!
//! Records do not wrap: where one does not fit before the end of the ring, the writer skips to its
//! beginning. There is one writer and one reader. The reader's pointer is the only shared word beside the
//! heads; the reader publishes it now and then, since the writer looks at it only when its last look
//! leaves too little room.
//!
//! The other side may be broken or hostile. The reader copies a head once, and accepts a record only if it
//! lies inside the ring; the writer accepts the reader's pointer only if it neither moves back nor passes
//! what was written.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::sync::{AtomicU64, Ordering, observe, publish};

/// The bytes of a slot: a cache line.
pub const SLOT: u64 = 64;
/// The bytes of a head, at the beginning of a slot.
pub const HEAD: u64 = size_of::<AtomicU64>() as u64;
/// The value of a head whose record only fills the ring up to its end.
const SKIP: u32 = u32::MAX;

/// How many slots a ring has: a power of two, so that a mask turns a count into a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slots(u64);

/// Why a number of bytes is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring of {bytes} B: it must be a power of two, from 256 B to 1 GiB")]
pub struct BadSize {
    /// The refused size in bytes.
    pub bytes: u64,
}

impl Slots {
    /// The slots of a ring of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// If `bytes` is not a power of two, below four slots or above 1 GiB.
    pub fn of_bytes(bytes: u64) -> Result<Self, BadSize> {
        let fits = bytes.is_power_of_two() && (4 * SLOT..=1 << 30).contains(&bytes);
        if fits { Ok(Self(bytes / SLOT)) } else { Err(BadSize { bytes }) }
    }

    /// The number of slots.
    #[inline]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// The bytes of the ring.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0 * SLOT
    }

    /// The bytes of the longest record, without its head. Two of them and a free slot fit into the
    /// ring, so that one fits wherever the previous one ended.
    #[inline]
    pub const fn longest(self) -> u64 {
        self.0 / 2 * SLOT - HEAD
    }

    #[inline]
    const fn place(self, count: u64) -> u64 {
        count & (self.0 - 1)
    }
}

/// The slots that a record of `length` bytes takes with its head.
#[inline]
const fn slots_of(length: u64) -> u64 {
    (HEAD + length).div_ceil(SLOT)
}

/// The position of a record's bytes in the ring, after its head.
#[inline]
fn bytes_at(place: u64, length: u64) -> Range<usize> {
    let begin = (place * SLOT + HEAD) as usize;
    begin..begin + length as usize
}

/// The heads of a ring, wherever its memory is.
pub trait Heads {
    /// The word at the beginning of a slot, which is below [`Slots::count`].
    fn head(&self, slot: usize) -> &AtomicU64;
}

/// The other side wrote something that no correct side writes. The ring is unusable; the memory of
/// this side was never in danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenRing {
    /// A head that describes no record that could be there.
    #[error("the record at slot {slot} claims to be {what} of {length} B")]
    Head {
        /// The slot of the head.
        slot: u64,
        /// What it claims to be.
        what: u32,
        /// How long it claims to be, in bytes.
        length: u32,
    },
    /// A reader's pointer that went back, or passed the writer.
    #[error("the reader's pointer went from {before} to {now} of {written} slots written")]
    Pointer {
        /// The pointer at the last look.
        before: u64,
        /// The pointer now.
        now: u64,
        /// How much was written by then.
        written: u64,
    },
}

/// The side that writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    slots: Slots,
    written: u64,
    read: u64,
}

impl Writer {
    /// The writer of an empty ring, whose memory is all zeroes.
    pub const fn new(slots: Slots) -> Self {
        Self { slots, written: 0, read: 0 }
    }

    /// The size of the ring.
    pub const fn slots(&self) -> Slots {
        self.slots
    }

    /// The position of the next record of `length` bytes, or `None` if there is no room for it now.
    /// `length` is at most [`Slots::longest`].
    ///
    /// # Errors
    /// If the reader's pointer is impossible.
    #[inline(always)]
    pub fn reserve(
        &mut self,
        heads: &impl Heads,
        read: &AtomicU64,
        length: u64,
    ) -> Result<Option<Range<usize>>, BrokenRing> {
        debug_assert!(length <= self.slots.longest());
        let (needed, place) = (slots_of(length), self.slots.place(self.written));
        // Most records fit where the previous one ended.
        if needed <= self.slots.count() - place && self.room() > needed {
            return Ok(Some(bytes_at(place, length)));
        }
        self.make_room(heads, read, length)
    }

    /// Looks at the reader's pointer, and skips to the beginning of the ring if the record does not fit before its end.
    #[inline(never)]
    fn make_room(
        &mut self,
        heads: &impl Heads,
        read: &AtomicU64,
        length: u64,
    ) -> Result<Option<Range<usize>>, BrokenRing> {
        let (needed, place) = (slots_of(length), self.slots.place(self.written));
        let to_end = self.slots.count() - place;
        let skipped = if needed > to_end { to_end } else { 0 };
        if !self.has_room(read, skipped + needed + 1)? {
            return Ok(None);
        }
        if skipped > 0 {
            self.hand_over(heads, SKIP, 0, skipped);
        }
        Ok(Some(bytes_at(self.slots.place(self.written), length)))
    }

    /// The free slots, as far as this side knows.
    #[inline]
    const fn room(&self) -> u64 {
        self.slots.count() - (self.written - self.read)
    }

    #[inline]
    fn has_room(&mut self, read: &AtomicU64, slots: u64) -> Result<bool, BrokenRing> {
        if self.room() >= slots {
            return Ok(true);
        }
        let (before, now, written) = (self.read, read.load(observe()), self.written);
        if now.wrapping_sub(before) > written - before {
            return Err(BrokenRing::Pointer { before, now, written });
        }
        self.read = now;
        Ok(self.room() >= slots)
    }

    /// Hands the record over whose `length` bytes were written where [`Writer::reserve`] said.
    /// `what` is for the reader; `u32::MAX` is the ring's own.
    #[inline(always)]
    pub fn publish(&mut self, heads: &impl Heads, what: NonZeroU32, length: u64) {
        debug_assert!(what.get() != SKIP && length <= self.slots.longest());
        self.hand_over(heads, what.get(), length, slots_of(length));
    }

    #[inline(always)]
    fn hand_over(&mut self, heads: &impl Heads, what: u32, length: u64, slots: u64) {
        let place = self.slots.place(self.written);
        self.written += slots;
        let next = self.slots.place(self.written);
        heads.head(next as usize).store(0, Ordering::Relaxed);
        let head = u64::from(what) << 32 | length;
        heads.head(place as usize).store(head, publish());
    }

    /// The slot whose head is cleared when a short record is published next: who has its line fetched for writing
    /// before that publishes sooner.
    #[inline]
    pub const fn slot_to_clear(&self) -> usize {
        self.slots.place(self.written + 1) as usize
    }

    /// Whether the reader has given back all that was written, by a fresh look.
    ///
    /// # Errors
    ///
    /// If the reader's pointer is impossible.
    pub fn is_all_read(&mut self, read: &AtomicU64) -> Result<bool, BrokenRing> {
        self.has_room(read, self.slots.count())
    }
}

/// A record as its head describes it, within the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The writer's tag for it: neither zero nor `u32::MAX`.
    pub what: u32,
    /// The position of its bytes in the ring.
    pub place: Range<usize>,
}

impl Record {
    /// The length of its bytes.
    #[inline]
    pub const fn length(&self) -> u64 {
        // A reader makes records, whose places never end before they begin.
        self.place.end.wrapping_sub(self.place.start) as u64
    }
}

/// The side that reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    slots: Slots,
    read: u64,
    released: u64,
}

impl Reader {
    /// The reader of an empty ring.
    pub const fn new(slots: Slots) -> Self {
        Self { slots, read: 0, released: 0 }
    }

    /// The next record, if there is one. It stays until it is taken.
    ///
    /// # Errors
    ///
    /// If its head describes none that could be there.
    #[inline]
    pub fn next(&mut self, heads: &impl Heads) -> Result<Option<Record>, BrokenRing> {
        loop {
            let slot = self.slots.place(self.read);
            let head = heads.head(slot as usize).load(observe());
            if head == 0 {
                return Ok(None);
            }
            let (what, length) = ((head >> 32) as u32, head as u32);
            let to_end = self.slots.count() - slot;
            // A record at the beginning of the ring is never a filler, so the loop ends.
            if what == SKIP && slot > 0 {
                self.read += to_end;
                continue;
            }
            let fits = u64::from(length) <= self.slots.longest()
                && slots_of(u64::from(length)) <= to_end
                && what != SKIP
                && what != 0;
            if !fits {
                return Err(BrokenRing::Head { slot, what, length });
            }
            return Ok(Some(Record { what, place: bytes_at(slot, u64::from(length)) }));
        }
    }

    /// Whether something claims to be a record where the next will be. For polling only: nothing was checked.
    #[inline]
    pub fn has_next(&self, heads: &impl Heads) -> bool {
        heads.head(self.slot()).load(Ordering::Relaxed) != 0
    }

    /// The slot at which the next record is looked for first.
    #[inline]
    pub const fn slot(&self) -> usize {
        self.slots.place(self.read) as usize
    }

    /// Advances past a record whose bytes have been used.
    #[inline]
    pub fn take(&mut self, record: &Record) {
        self.read += slots_of(record.length());
    }

    /// Whether a quarter of the ring has been taken but not returned, so that the writer may soon
    /// wait for it.
    #[inline]
    pub const fn is_release_due(&self) -> bool {
        self.read - self.released >= self.slots.count() / 4
    }

    /// Gives the places of all taken records back. Returns whether there were any.
    #[inline]
    pub fn release(&mut self, read: &AtomicU64) -> bool {
        let any = self.read != self.released;
        if any {
            self.released = self.read;
            read.store(self.read, publish());
        }
        any
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORD: NonZeroU32 = NonZeroU32::MIN;

    struct Memory(Vec<AtomicU64>);

    impl Memory {
        fn new(slots: Slots) -> Self {
            Self((0..slots.bytes() / 8).map(|_| AtomicU64::new(0)).collect())
        }

        fn fill(&self, place: Range<usize>, with: u64) {
            for word in &self.0[place.start / 8..place.end.div_ceil(8)] {
                word.store(with, Ordering::Relaxed);
            }
        }
    }

    impl Heads for Memory {
        fn head(&self, slot: usize) -> &AtomicU64 {
            &self.0[slot * (SLOT / 8) as usize]
        }
    }

    #[allow(clippy::expect_used, reason = "only tests call it")]
    fn ring(bytes: u64) -> (Memory, AtomicU64, Writer, Reader) {
        let slots = Slots::of_bytes(bytes).expect("the sizes of these tests are rings");
        (Memory::new(slots), AtomicU64::new(0), Writer::new(slots), Reader::new(slots))
    }

    #[test]
    fn only_a_power_of_two_of_some_slots_is_a_ring() {
        assert_eq!(Slots::of_bytes(256).unwrap().count(), 4);
        for bytes in [0, 64, 128, 320, 2 << 30] {
            assert_eq!(Slots::of_bytes(bytes), Err(BadSize { bytes }));
        }
    }

    #[test]
    fn a_short_record_takes_one_slot_and_a_byte_more_takes_two() {
        assert_eq!((slots_of(0), slots_of(56), slots_of(57)), (1, 1, 2));
    }

    #[test]
    fn a_record_that_does_not_fit_before_the_end_begins_the_ring_anew() {
        let (memory, read, mut writer, mut reader) = ring(512);
        for _ in 0..7 {
            assert!(writer.reserve(&memory, &read, 56).unwrap().is_some());
            writer.publish(&memory, RECORD, 56);
            let record = reader.next(&memory).unwrap().unwrap();
            reader.take(&record);
        }
        assert!(reader.release(&read) && !reader.release(&read));
        assert_eq!(writer.reserve(&memory, &read, 100).unwrap(), Some(8..108));
        assert!(reader.has_next(&memory), "the skip is there");
        assert_eq!(reader.next(&memory), Ok(None), "the skip alone is no record");
        assert!(!reader.has_next(&memory));
        writer.publish(&memory, RECORD, 100);
        assert_eq!(reader.next(&memory), Ok(Some(Record { what: 1, place: 8..108 })));
    }

    #[test]
    fn the_slot_behind_the_last_record_stays_free() {
        let (memory, read, mut writer, mut reader) = ring(256);
        for _ in 0..3 {
            assert!(writer.reserve(&memory, &read, 0).unwrap().is_some());
            writer.publish(&memory, RECORD, 0);
        }
        assert_eq!(writer.reserve(&memory, &read, 0), Ok(None));
        assert!(reader.has_next(&memory));
        let record = reader.next(&memory).unwrap().unwrap();
        reader.take(&record);
        assert_eq!(writer.reserve(&memory, &read, 0), Ok(None), "not given back yet");
        assert!(reader.is_release_due());
        reader.release(&read);
        assert_eq!(writer.reserve(&memory, &read, 0), Ok(Some(200..200)));
        assert_eq!(writer.is_all_read(&read), Ok(false));
    }

    #[test]
    fn a_head_that_cannot_be_is_refused() {
        let heads = [
            (0, 5),
            (SKIP, 0),
            (1, Slots::of_bytes(512).unwrap().longest() as u32 + 1),
            (1, u32::MAX),
        ];
        for (what, length) in heads {
            let (memory, _, _, mut reader) = ring(512);
            memory.head(0).store(u64::from(what) << 32 | u64::from(length), Ordering::Relaxed);
            let broken = BrokenRing::Head { slot: 0, what, length };
            assert_eq!(reader.next(&memory), Err(broken));
        }
    }

    #[test]
    fn a_record_that_runs_over_the_end_is_refused() {
        let (memory, read, mut writer, mut reader) = ring(512);
        for _ in 0..6 {
            writer.reserve(&memory, &read, 0).unwrap();
            writer.publish(&memory, RECORD, 0);
            let record = reader.next(&memory).unwrap().unwrap();
            reader.take(&record);
        }
        assert_eq!(writer.slot_to_clear(), 7);
        memory.head(6).store(1 << 32 | 150, Ordering::Relaxed);
        let broken = BrokenRing::Head { slot: 6, what: 1, length: 150 };
        assert_eq!(reader.next(&memory), Err(broken));
    }

    #[test]
    fn a_reader_that_goes_back_or_ahead_is_refused() {
        for now in [u64::MAX, 4, 0] {
            let (memory, read, mut writer, mut reader) = ring(256);
            for _ in 0..3 {
                writer.reserve(&memory, &read, 0).unwrap();
                writer.publish(&memory, RECORD, 0);
            }
            let record = reader.next(&memory).unwrap().unwrap();
            reader.take(&record);
            reader.release(&read);
            assert!(writer.reserve(&memory, &read, 0).unwrap().is_some());
            read.store(now, Ordering::Relaxed);
            let broken = BrokenRing::Pointer { before: 1, now, written: 3 };
            assert_eq!(writer.is_all_read(&read), Err(broken));
        }
    }

    proptest! {
        /// Whatever is written where, records come out as they went in: what a payload leaves in
        /// the memory is never taken for a head.
        #[test]
        fn records_come_out_as_they_went_in(
            lengths in prop::collection::vec((0_u64..=248, prop::bool::ANY), 1..200)
        ) {
            let (memory, read, mut writer, mut reader) = ring(512);
            let mut waiting = std::collections::VecDeque::new();
            for (number, (length, reads)) in lengths.into_iter().enumerate() {
                let what = NonZeroU32::new(number as u32 + 1).unwrap();
                if let Some(place) = writer.reserve(&memory, &read, length).unwrap() {
                    memory.fill(place.clone(), u64::MAX / 3);
                    writer.publish(&memory, what, length);
                    waiting.push_back(Record { what: what.get(), place });
                } else {
                    prop_assert!(!waiting.is_empty(), "an empty ring refuses nothing");
                }
                if reads || waiting.len() > 3 {
                    let record = reader.next(&memory).unwrap();
                    prop_assert_eq!(&record, &waiting.pop_front());
                    record.inspect(|record| reader.take(record));
                    reader.release(&read);
                }
            }
        }
    }
}
