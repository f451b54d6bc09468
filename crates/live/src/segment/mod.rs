//! The memory that the two ends of a connection share: one page of words, then one ring for each
//! direction.
//!
//! It is an anonymous file without a name, sealed so that neither end can shorten it under the
//! other; it vanishes with its last mapping. The other side can write everything in it. Words are
//! accessed only as atomics and believed only within bounds; the bytes of a ring are only copied.

mod copying;
pub mod postmarks;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use weft_protocol::byte_ring::{Capacity, RingPointers, Spans};
use weft_protocol::detour::Detour;
use weft_protocol::interrupt_flag::InterruptFlag;
use weft_protocol::migration::Agreement;
pub use weft_protocol::migration::Role;

use copying::{copy, expect_reading, expect_writing};

use crate::memory::means;
use crate::segment::postmarks::Postmarks;
use crate::sys::{self, Errno};

/// What the two ends must agree on to understand each other. A library with another layout uses
/// another number, and the two leave the connection to the kernel.
pub const VERSION: u32 = 7;
const MAGIC: u64 = u64::from_le_bytes(*b"weftlive");
const PAGE: usize = 4096;
/// The bytes of a cache line, the unit in which processors exchange memory.
const LINE: usize = 64;
/// Messages up to this long, in bytes, are fetched whole; of longer ones processors fetch the rest sooner by
/// themselves than if they are asked: AMD's, on which that was measured.
const FETCHED_WHOLE: usize = 2048;

/// Where those lines of a message begin that are fetched ahead.
#[inline(always)]
fn lines(length: usize) -> impl Iterator<Item = usize> {
    (0..if length <= FETCHED_WHOLE { length } else { 1 }).step_by(LINE)
}

/// How an end has closed.
pub mod closed {
    pub const OPEN: u32 = 0;
    /// All bytes before were delivered.
    pub const ORDERLY: u32 = 1;
    /// As the kernel resets a connection.
    pub const RESET: u32 = 2;
}

/// What one end announces about itself.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Side {
    pub closed: AtomicU32,
    /// The processor on which this end last worked, plus one.
    pub processor: AtomicU32,
    /// Whether its last process is about to end without closing: the kernel will say so soon.
    pub ends_soon: AtomicBool,
    /// Whether the kernel resets the connection whenever this end's last descriptor is closed, also when its
    /// process is killed (`SO_LINGER` with no time).
    pub aborts: AtomicBool,
    /// Whether both directions are the kernel's again at this end: no doorbell is left to it to read.
    pub back: AtomicBool,
    /// Whether it is told of arrivals among those of other connections, and so asks for postmarks.
    pub sorts: AtomicBool,
}

/// One direction of the connection; its index is the role of the end that writes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Way {
    pub pointers: RingPointers,
    /// Stimulated by the writer when bytes have arrived.
    pub arrived: InterruptFlag,
    /// Stimulated by the reader when room has been freed.
    pub freed: InterruptFlag,
    /// Where the direction leaves the kernel's stream for the ring, and where it comes back.
    pub detour: Detour,
}

/// The words at the beginning of the segment.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Words {
    magic: AtomicU64,
    version: AtomicU32,
    ring: AtomicU32,
    /// Which ends read it.
    pub agreement: Agreement,
    pub sides: [Side; 2],
    pub ways: [Way; 2],
    postmarks: [Postmarks; 2],
}

const _: () = assert!(size_of::<Words>() <= PAGE);

/// A mapped segment. It is copied freely and unmapped by hand when the last user in the process has
/// gone, see [`crate::table`].
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    memory: *mut u8,
    capacity: Capacity,
}

impl Segment {
    /// Makes a segment with rings of this capacity; returns it and the file to hand over.
    pub fn create(capacity: Capacity) -> Result<(Self, c_int), Errno> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"weft-live-segment".as_ptr(), flags) };
        if file < 0 {
            return Err(sys::errno());
        }
        let made = Self::fill(file, capacity);
        if made.is_err() {
            sys::close(file);
        }
        made.map(|segment| (segment, file))
    }

    fn fill(file: c_int, capacity: Capacity) -> Result<Self, Errno> {
        sys::set_length(file, Self::length(capacity))?;
        sys::fcntl(file, libc::F_ADD_SEALS, Self::SEALS)?;
        let segment = Self::map(file, capacity)?;
        let words = segment.words();
        words.magic.store(MAGIC, Ordering::Relaxed);
        words.version.store(VERSION, Ordering::Relaxed);
        words.ring.store(capacity.bytes() as u32, Ordering::Relaxed);
        Ok(segment)
    }

    /// Maps a segment, unless the program, or whoever may, has said that its address space is scarce.
    fn map(file: c_int, capacity: Capacity) -> Result<Self, Errno> {
        let length = means::is_address_space_ample().then(|| Self::length(capacity));
        let memory = length.and_then(|length| sys::map(Some(file), length));
        memory.map(|memory| Self { memory, capacity }).ok_or(libc::ENOMEM)
    }

    const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

    /// Maps a segment that the other end handed over, if it is what it should be.
    pub fn join(file: c_int) -> Result<Self, Errno> {
        if sys::fcntl(file, libc::F_GET_SEALS, 0)? & Self::SEALS != Self::SEALS {
            return Err(libc::EPERM);
        }
        // SAFETY: all zeroes is a valid `stat`, and a valid place for the result.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        if unsafe { libc::fstat(file, &mut stat) } < 0 {
            return Err(sys::errno());
        }
        let rings = (stat.st_size as u64).saturating_sub(PAGE as u64);
        let capacity = Capacity::new(rings / 2).map_err(|_| libc::EPROTO)?;
        if stat.st_size as usize != Self::length(capacity) || capacity.bytes() < PAGE as u64 {
            return Err(libc::EPROTO);
        }
        let segment = Self::map(file, capacity)?;
        let words = segment.words();
        let understood = words.magic.load(Ordering::Relaxed) == MAGIC
            && words.version.load(Ordering::Relaxed) == VERSION
            && u64::from(words.ring.load(Ordering::Relaxed)) == capacity.bytes();
        if understood {
            return Ok(segment);
        }
        // SAFETY: the mapping was made above and nobody else knows it.
        unsafe { segment.unmap() };
        Err(libc::EPROTO)
    }

    const fn length(capacity: Capacity) -> usize {
        PAGE + 2 * capacity.bytes() as usize
    }

    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// The address of the mapping, by which it is known to its process family.
    pub const fn address(&self) -> *mut u8 {
        self.memory
    }

    /// The segment that an address and a capacity describe.
    ///
    /// # Safety
    ///
    /// They must be those of a mapped segment.
    pub const unsafe fn from_parts(memory: *mut u8, capacity: Capacity) -> Self {
        Self { memory, capacity }
    }

    pub fn words(&self) -> &Words {
        // SAFETY: the mapping begins with these words, is aligned to a page, and holds only
        // atomics there, so that the other side's writes are no data race.
        unsafe { &*self.memory.cast::<Words>() }
    }

    /// The way that this role writes.
    pub fn way(&self, writer: Role) -> &Way {
        &self.words().ways[writer as usize]
    }

    /// When the last messages came by the way that this role writes.
    pub fn postmarks(&self, writer: Role) -> &Postmarks {
        &self.words().postmarks[writer as usize]
    }

    /// Whether either side has ended the detours: both directions go back to the kernel.
    #[inline]
    pub fn has_ended(&self) -> bool {
        let [one, other] = &self.words().ways;
        one.detour.has_ended() || other.detour.has_ended()
    }

    pub fn side(&self, role: Role) -> &Side {
        &self.words().sides[role as usize]
    }

    fn ring(&self, writer: Role) -> *mut u8 {
        let offset = PAGE + writer as usize * self.capacity.bytes() as usize;
        // SAFETY: both rings lie inside the mapping.
        unsafe { self.memory.add(offset) }
    }

    /// Where these places of a ring are in memory; they lie inside it.
    pub fn bytes(&self, writer: Role, places: &std::ops::Range<usize>) -> *const u8 {
        debug_assert!(places.end as u64 <= self.capacity.bytes());
        // SAFETY: the places lie inside the ring.
        unsafe { self.ring(writer).add(places.start) }
    }

    /// Copies into the ring.
    ///
    /// # Safety
    ///
    /// `from` must be readable for the length of the spans, which are those of this ring's writer.
    #[inline(always)]
    pub unsafe fn fill_ring(&self, writer: Role, spans: &Spans, from: *const u8) {
        let ring = self.ring(writer);
        // SAFETY: spans lie inside the ring; the rest is the caller's word.
        unsafe { copy(from, ring.add(spans.first.start), spans.first.len()) };
        if !spans.second.is_empty() {
            // SAFETY: as above.
            unsafe { copy(from.add(spans.first.len()), ring, spans.second.len()) };
        }
    }

    /// Prefetches the place of the next bytes for writing, after the previous ones are handed over:
    /// the other end's processor holds that cache line since it last read there.
    #[inline(always)]
    pub fn expect_filling(&self, writer: Role, next: &Spans) {
        let first = self.ring(writer).wrapping_add(next.first.start);
        for at in lines(next.first.len()) {
            expect_writing(first.wrapping_add(at));
        }
    }

    /// Has the word fetched for writing by which bytes are handed over, before they are copied: the other end's
    /// processor has it while that end polls.
    #[inline(always)]
    pub fn expect_handing_over(&self, writer: Role) {
        expect_writing(self.way(writer).pointers.written_word().as_ptr().cast());
    }

    /// Has the bytes fetched that the reader takes next, which the other end's processor has written.
    #[inline(always)]
    pub fn expect_emptying(&self, writer: Role) {
        let (pointers, mask) = (&self.way(writer).pointers, self.capacity.bytes() - 1);
        let first = self.ring(writer).wrapping_add((pointers.read() & mask) as usize);
        for at in lines(pointers.filling() as usize) {
            expect_reading(first.wrapping_add(at));
        }
    }

    /// Copies out of the ring.
    ///
    /// # Safety
    ///
    /// `to` must be writable for the length of the spans, which are those of this ring's reader.
    #[inline(always)]
    pub unsafe fn empty_ring(&self, writer: Role, spans: &Spans, to: *mut u8) {
        let ring = self.ring(writer);
        // SAFETY: spans lie inside the ring; the rest is the caller's word.
        unsafe { copy(ring.add(spans.first.start), to, spans.first.len()) };
        if !spans.second.is_empty() {
            // SAFETY: as above.
            unsafe { copy(ring, to.add(spans.first.len()), spans.second.len()) };
        }
    }

    /// Releases the pages of a ring to the kernel: it is full of zeros from now on.
    ///
    /// # Safety
    ///
    /// Nobody may write to the ring meanwhile, and nothing in it may be yet to be read.
    pub unsafe fn empty_pages(&self, writer: Role) {
        sys::give_back(self.ring(writer), self.capacity.bytes() as usize);
    }

    /// Ends the mapping.
    ///
    /// # Safety
    ///
    /// No copy of this segment may be used any more.
    pub unsafe fn unmap(self) {
        // SAFETY: the length is that with which it was mapped; the rest is the caller's word.
        unsafe { sys::unmap(self.memory, Self::length(self.capacity)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_are_fetched_whole_and_of_long_ones_the_first_line() {
        let most = FETCHED_WHOLE / LINE;
        let fetched = |length| lines(length).take(most + 1).collect::<Vec<_>>();
        assert!(fetched(0).is_empty());
        assert_eq!((fetched(1), fetched(64), fetched(65)), (vec![0], vec![0], vec![0, 64]));
        assert_eq!(fetched(FETCHED_WHOLE).len(), most);
        assert_eq!((fetched(FETCHED_WHOLE + 1), fetched(usize::MAX)), (vec![0], vec![0]));
    }
}
