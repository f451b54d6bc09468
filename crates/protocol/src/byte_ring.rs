//! A ring of bytes in shared memory with a read and a write pointer: the receiver buffer of a
//! connected socket (SCILAN 3.4, Figure 5).
//!
//! There is exactly one writer and one reader, so no lock is needed. Both pointers count bytes from
//! the beginning of the stream and never wrap back; a place in the ring is a count modulo the
//! capacity. Each side keeps its own pointer and a copy of the other's in private memory, and reads
//! the shared word only when that copy is too small, since such a read is a remote load (SCILAN 2.1,
//! footnote 1).
//!
//! The other side may be broken or hostile. A pointer of its own is never read back from shared
//! memory, and the other's is read once and believed only if it neither goes back nor promises more
//! than the capacity; so a span always lies inside the ring.
//!
//! Either side may seal the ring, once and for good: the number of bytes in its stream is then fixed,
//! and whatever the writer would have added goes another way (see [`crate::detour`]). The seal is a
//! bit of the writer's word, so that it and [`Writer::publish_unless_sealed`] exclude each other.
//!
//! This is a state machine without memory: [`Writer::spans`] says where bytes belong, the caller
//! copies them, and [`Writer::publish`] hands them over.

use std::ops::Range;

use crate::sync::{AtomicU64, Ordering, observe, publish};

/// The bit of the writer's word that says that nothing more may be published. Counts stay below it:
/// at a terabyte a second they would reach it after a hundred days.
const SEALED: u64 = 1 << 63;

/// One pointer on cache lines of its own: 128 bytes, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Pointer(AtomicU64);

/// The two shared words of a ring. All bits zero is an empty ring at the beginning of its stream.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RingPointers {
    written: Pointer,
    read: Pointer,
}

impl RingPointers {
    /// How many bytes are in the ring according to the shared words. Neither word is checked, so
    /// this is only for polling and for deciding when to sleep.
    #[inline]
    pub fn filling(&self) -> u64 {
        let written = self.written.0.load(observe()) & !SEALED;
        written.wrapping_sub(self.read.0.load(observe()))
    }

    /// The writer's pointer, unchecked; it differs after every arrival.
    #[inline]
    pub fn arrivals(&self) -> u64 {
        self.written.0.load(observe()) & !SEALED
    }

    /// The writer's word itself. It changes with every arrival and with the seal, so that a poll of
    /// many rings need look at nothing else while it stays the same.
    pub const fn written_word(&self) -> &AtomicU64 {
        &self.written.0
    }

    /// The reader's pointer, unchecked.
    #[inline]
    pub fn read(&self) -> u64 {
        self.read.0.load(observe())
    }

    /// Seals the ring: from now on [`Writer::publish_unless_sealed`] publishes nothing. Either side
    /// may do so at any time, even twice. Returns how many bytes were published before, unchecked.
    pub fn seal(&self) -> u64 {
        self.written.0.fetch_or(SEALED, Ordering::AcqRel) & !SEALED
    }

    /// How many bytes the sealed stream has, unchecked; `None` while it is not sealed.
    #[inline]
    pub fn sealed_at(&self) -> Option<u64> {
        let written = self.written.0.load(observe());
        (written & SEALED != 0).then_some(written & !SEALED)
    }

    /// Whether the ring is sealed.
    #[inline]
    pub fn is_sealed(&self) -> bool {
        self.sealed_at().is_some()
    }
}

#[cfg(all(test, not(loom)))]
impl RingPointers {
    /// Pointers with these words, for models that keep states by value.
    pub(crate) fn with(words: [u64; 2]) -> Self {
        let pointer = |word| Pointer(AtomicU64::new(word));
        Self { written: pointer(words[0]), read: pointer(words[1]) }
    }

    /// The current words.
    pub(crate) fn words(&self) -> [u64; 2] {
        [&self.written, &self.read].map(|pointer| pointer.0.load(observe()))
    }
}

/// The capacity of a ring in bytes: a power of two, so that a mask turns a count into a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacity(u64);

/// Why a size is no capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring of {bytes} B: the capacity must be a power of two of at most {} B", Capacity::MAX)]
pub struct BadCapacity {
    /// The refused size in bytes.
    pub bytes: u64,
}

impl Capacity {
    /// The largest capacity in bytes: it fits the address space of every 64-bit processor many
    /// times over, and leaves the counts 2^32 rings before they wrap.
    pub const MAX: u64 = 1 << 31;

    /// A capacity of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// If `bytes` is not a power of two or above [`Capacity::MAX`].
    pub fn new(bytes: u64) -> Result<Self, BadCapacity> {
        if bytes.is_power_of_two() && bytes <= Self::MAX {
            Ok(Self(bytes))
        } else {
            Err(BadCapacity { bytes })
        }
    }

    /// The capacity in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The place of a count in the ring.
    const fn place(self, count: u64) -> usize {
        (count & (self.0 - 1)) as usize
    }

    /// The position of `length` bytes from `count` on. `length` is at most the capacity.
    #[inline]
    fn spans(self, count: u64, length: u64) -> Spans {
        let start = self.place(count);
        let first = length.min(self.0 - start as u64) as usize;
        let second = length as usize - first;
        Spans { first: start..start + first, second: 0..second }
    }
}

/// The position of a run of bytes in the ring: up to its end, then from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    /// The part that comes first in the stream.
    pub first: Range<usize>,
    /// The part after the wrap; empty if there is none.
    pub second: Range<usize>,
}

/// The other side moved its pointer to a position that no correct side uses. The ring is unusable;
/// the memory of this side was never in danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side's pointer went from {before} to {now}; at most {limit} was possible")]
pub struct BrokenRing {
    /// The pointer at the last look, in bytes since the beginning.
    pub before: u64,
    /// The pointer now.
    pub now: u64,
    /// The largest value that it can have.
    pub limit: u64,
}

/// Why nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpublished {
    /// The ring is sealed: the bytes were not published and never will be in this ring.
    #[error("the ring is sealed")]
    Sealed,
    /// The other side has written over this side's pointer.
    #[error(transparent)]
    Broken(#[from] BrokenRing),
}

/// Reads the other side's pointer once and believes it only between its last value and `limit`.
#[inline]
fn look(pointer: &Pointer, before: u64, limit: u64) -> Result<u64, BrokenRing> {
    let now = pointer.0.load(observe()) & !SEALED;
    if now.wrapping_sub(before) <= limit.wrapping_sub(before) {
        Ok(now)
    } else {
        Err(BrokenRing { before, now, limit })
    }
}

/// The side that writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writer {
    capacity: Capacity,
    written: u64,
    read: u64,
}

impl Writer {
    /// The writer of an empty ring at the beginning of its stream.
    pub const fn new(capacity: Capacity) -> Self {
        Self { capacity, written: 0, read: 0 }
    }

    /// A writer that continues where another one stopped. `read` must not be ahead of `written`, nor more
    /// than the capacity behind it.
    pub(crate) const fn taken_over(capacity: Capacity, written: u64, read: u64) -> Self {
        Self { capacity, written, read }
    }

    /// The reader's pointer as it was last seen.
    pub(crate) const fn last_read(&self) -> u64 {
        self.read
    }

    /// How many bytes can be written now. Reads the shared read pointer only if the copy of it
    /// leaves less room than `wanted`.
    ///
    /// # Errors
    ///
    /// If the reader's pointer is impossible.
    #[inline(always)]
    pub fn room(&mut self, pointers: &RingPointers, wanted: u64) -> Result<u64, BrokenRing> {
        let room = self.capacity.0 - (self.written - self.read);
        if room >= wanted {
            return Ok(room);
        }
        Ok(self.capacity.0 - self.unread(pointers)?)
    }

    /// How many written bytes the reader has not yet taken, according to the shared pointer.
    ///
    /// # Errors
    ///
    /// If the reader's pointer is impossible.
    #[inline]
    pub fn unread(&mut self, pointers: &RingPointers) -> Result<u64, BrokenRing> {
        self.read = look(&pointers.read, self.read, self.written)?;
        Ok(self.written - self.read)
    }

    /// The spans of the next `length` bytes from the write position on, fewer if the known room is
    /// smaller.
    #[inline]
    pub fn spans(&self, length: u64) -> Spans {
        let room = self.capacity.0 - (self.written - self.read);
        self.capacity.spans(self.written, length.min(room))
    }

    /// The spans of the `length` bytes that begin `skip` bytes past the write position, for a
    /// caller that fills several parts and publishes them together.
    #[inline]
    pub fn spans_after(&self, skip: u64, length: u64) -> Spans {
        let room = self.capacity.0 - (self.written - self.read);
        let skip = skip.min(room);
        self.capacity.spans(self.written + skip, length.min(room - skip))
    }

    /// Hands the next `length` bytes over, which must have been written to [`Writer::spans`].
    #[inline]
    pub fn publish(&mut self, pointers: &RingPointers, length: u64) {
        debug_assert!(length <= self.capacity.0 - (self.written - self.read));
        self.written += length;
        pointers.written.0.store(self.written, publish());
    }

    /// Publishes the next `length` bytes as [`Writer::publish`] does, unless the ring is sealed:
    /// then it publishes none of them. At most [`Writer::spans`] of them.
    ///
    /// # Errors
    ///
    /// [`Unpublished::Sealed`], or if this side's own word is not what it wrote there.
    #[inline]
    pub fn publish_unless_sealed(
        &mut self,
        pointers: &RingPointers,
        length: u64,
    ) -> Result<(), Unpublished> {
        debug_assert!(length <= self.capacity.0 - (self.written - self.read));
        let after = self.written + length;
        match pointers.written.0.compare_exchange(self.written, after, publish(), Ordering::Relaxed)
        {
            Ok(_) => {
                self.written = after;
                Ok(())
            }
            Err(now) if now == self.written | SEALED => Err(Unpublished::Sealed),
            Err(now) => {
                let before = self.written;
                Err(BrokenRing { before, now, limit: before }.into())
            }
        }
    }

    /// The position of the published bytes from `count` on, for a writer that sends them by another
    /// route because the reader will not take them. At most the capacity.
    pub fn spans_since(&self, count: u64) -> Spans {
        let length = self.written.saturating_sub(count).min(self.capacity.0);
        self.capacity.spans(self.written - length, length)
    }

    /// How many bytes have ever been published.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// The capacity of the ring.
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }
}

/// The side that reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    capacity: Capacity,
    read: u64,
    written: u64,
}

impl Reader {
    /// The reader of an empty ring at the beginning of its stream.
    pub const fn new(capacity: Capacity) -> Self {
        Self { capacity, read: 0, written: 0 }
    }

    /// How many bytes can be read now. Reads the shared write pointer only if the copy of it gives
    /// fewer than `wanted`.
    ///
    /// # Errors
    ///
    /// If the writer's pointer is impossible.
    #[inline]
    pub fn available(&mut self, pointers: &RingPointers, wanted: u64) -> Result<u64, BrokenRing> {
        let known = self.written - self.read;
        if known >= wanted {
            return Ok(known);
        }
        let limit = self.read + self.capacity.0;
        self.written = look(&pointers.written, self.written, limit)?;
        Ok(self.written - self.read)
    }

    /// The position of the next `length` bytes. Never exceeds the bytes that are known to be there.
    #[inline]
    pub fn spans(&self, length: u64) -> Spans {
        self.capacity.spans(self.read, length.min(self.written - self.read))
    }

    /// The position of `length` bytes after the next `skip`, for a caller that looks ahead.
    #[inline]
    pub fn spans_after(&self, skip: u64, length: u64) -> Spans {
        let known = self.written - self.read;
        let skip = skip.min(known);
        self.capacity.spans(self.read + skip, length.min(known - skip))
    }

    /// Gives back the place of the next `length` bytes, which must have been read.
    #[inline]
    pub fn release(&mut self, pointers: &RingPointers, length: u64) {
        debug_assert!(length <= self.written - self.read);
        self.read += length;
        pointers.read.0.store(self.read, publish());
    }

    /// How many bytes were ever read.
    pub const fn read(&self) -> u64 {
        self.read
    }

    /// The capacity of the ring.
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a model that cannot go on fails its test")]
pub(crate) mod small;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering;
    use proptest::prelude::*;

    fn capacity(bytes: u64) -> Capacity {
        assert!(bytes.is_power_of_two());
        Capacity(bytes)
    }

    #[test]
    fn only_a_power_of_two_is_a_capacity() {
        assert_eq!(Capacity::new(8).unwrap().bytes(), 8);
        for bytes in [0, 3, 4097, Capacity::MAX * 2] {
            assert_eq!(Capacity::new(bytes), Err(BadCapacity { bytes }));
        }
    }

    #[test]
    fn a_run_over_the_end_lies_in_two_spans() {
        let pointers = RingPointers::default();
        let (mut writer, mut reader) = (Writer::new(capacity(8)), Reader::new(capacity(8)));
        writer.publish(&pointers, 6);
        assert_eq!(reader.available(&pointers, 1), Ok(6));
        reader.release(&pointers, 6);
        assert_eq!(writer.room(&pointers, 3), Ok(8));
        assert_eq!(writer.spans(5), Spans { first: 6..8, second: 0..3 });
    }

    #[test]
    fn the_other_pointer_is_looked_at_only_when_the_copy_says_too_little() {
        let pointers = RingPointers::default();
        let mut writer = Writer::new(capacity(8));
        writer.publish(&pointers, 3);
        pointers.read.0.store(2, Ordering::Relaxed);
        assert_eq!(writer.room(&pointers, 5), Ok(5), "the copy is enough: no remote load");
        assert_eq!(writer.room(&pointers, 6), Ok(7), "too little: one remote load");
    }

    #[test]
    fn a_pointer_that_goes_back_or_too_far_is_not_believed() {
        let pointers = RingPointers::default();
        let mut reader = Reader::new(capacity(8));
        pointers.written.0.store(9, Ordering::Relaxed);
        let broken = BrokenRing { before: 0, now: 9, limit: 8 };
        assert_eq!(reader.available(&pointers, 1), Err(broken));
        pointers.written.0.store(4, Ordering::Relaxed);
        assert_eq!(reader.available(&pointers, 1), Ok(4));
        pointers.written.0.store(3, Ordering::Relaxed);
        let broken = BrokenRing { before: 4, now: 3, limit: 8 };
        assert_eq!(reader.available(&pointers, 5), Err(broken));
    }

    #[test]
    fn a_sealed_ring_takes_nothing_more_and_gives_all_that_it_took() {
        let pointers = RingPointers::default();
        let (mut writer, mut reader) = (Writer::new(capacity(8)), Reader::new(capacity(8)));
        assert_eq!(writer.publish_unless_sealed(&pointers, 3), Ok(()));
        assert_eq!((pointers.sealed_at(), pointers.seal()), (None, 3));
        assert_eq!(writer.publish_unless_sealed(&pointers, 2), Err(Unpublished::Sealed));
        assert_eq!((writer.written(), writer.unread(&pointers)), (3, Ok(3)));
        assert_eq!((pointers.seal(), pointers.sealed_at()), (3, Some(3)), "sealed once for good");
        assert_eq!((pointers.filling(), pointers.arrivals()), (3, 3));
        assert_eq!(reader.available(&pointers, 8), Ok(3));
        reader.release(&pointers, 1);
        assert_eq!(writer.spans_since(1), Spans { first: 1..3, second: 0..0 });
    }

    #[test]
    fn a_writer_whose_own_word_was_overwritten_publishes_nothing() {
        let pointers = RingPointers::default();
        let mut writer = Writer::new(capacity(8));
        pointers.written.0.store(5, Ordering::Relaxed);
        let broken = BrokenRing { before: 0, now: 5, limit: 0 };
        assert_eq!(writer.publish_unless_sealed(&pointers, 1), Err(broken.into()));
    }

    proptest! {
        /// A hostile reader and a hostile writer store anything at any time. Every span stays
        /// inside the ring, and no more is ever promised than the ring holds.
        #[test]
        fn no_value_of_a_pointer_leads_outside_the_ring(
            exponent in 0u32..12,
            steps in prop::collection::vec(
                (any::<u64>(), 0u64..10_000, any::<bool>(), any::<bool>()),
                1..200,
            ),
        ) {
            let capacity = capacity(1 << exponent);
            let pointers = RingPointers::default();
            let (mut writer, mut reader) = (Writer::new(capacity), Reader::new(capacity));
            for (garbage, length, near, writing) in steps {
                if writing {
                    let close = writer.read.wrapping_add(garbage % 5000);
                    let value = if near { close } else { garbage };
                    pointers.read.0.store(value, Ordering::Relaxed);
                    if let Ok(room) = writer.room(&pointers, length) {
                        prop_assert!(room <= capacity.bytes());
                        let length = length.min(room);
                        inside(&writer.spans(length), length, capacity)?;
                        let rest = length.min(room - length);
                        inside(&writer.spans_after(length, rest), rest, capacity)?;
                        writer.publish(&pointers, length);
                    }
                } else {
                    let close = reader.written.wrapping_add(garbage % 5000);
                    let value = if near { close } else { garbage };
                    pointers.written.0.store(value, Ordering::Relaxed);
                    if let Ok(known) = reader.available(&pointers, length) {
                        prop_assert!(known <= capacity.bytes());
                        let length = length.min(known);
                        inside(&reader.spans(length), length, capacity)?;
                        let rest = length.min(known - length);
                        inside(&reader.spans_after(length, rest), rest, capacity)?;
                        reader.release(&pointers, length);
                    }
                }
            }
        }

        /// Whatever the sizes of the calls, the bytes come out as they went in.
        #[test]
        fn a_stream_comes_out_as_it_went_in(
            exponent in 0u32..8,
            calls in prop::collection::vec((0u64..300, any::<bool>()), 1..300),
        ) {
            let capacity = capacity(1 << exponent);
            let pointers = RingPointers::default();
            let mut memory = vec![0u8; capacity.bytes() as usize];
            let (mut writer, mut reader) = (Writer::new(capacity), Reader::new(capacity));
            let mut sent = 0u64;
            let mut received = 0u64;
            for (length, writing) in calls {
                if writing {
                    let length = length.min(writer.room(&pointers, length).unwrap());
                    let spans = writer.spans(length);
                    for place in spans.first.chain(spans.second) {
                        memory[place] = (sent % 251) as u8;
                        sent += 1;
                    }
                    writer.publish(&pointers, length);
                } else {
                    let length = length.min(reader.available(&pointers, length).unwrap());
                    let spans = reader.spans(length);
                    for place in spans.first.chain(spans.second) {
                        prop_assert_eq!(memory[place], (received % 251) as u8);
                        received += 1;
                    }
                    reader.release(&pointers, length);
                }
                prop_assert_eq!(writer.unread(&pointers).unwrap(), sent - received);
            }
        }
    }

    fn inside(spans: &Spans, length: u64, capacity: Capacity) -> Result<(), TestCaseError> {
        prop_assert!(spans.first.end as u64 <= capacity.bytes());
        prop_assert!(spans.second.end <= spans.first.start || spans.second.is_empty());
        prop_assert_eq!((spans.first.len() + spans.second.len()) as u64, length);
        Ok(())
    }
}
