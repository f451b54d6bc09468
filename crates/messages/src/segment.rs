//! The shared memory of a channel: a page of control words, a ring of messages, and a smaller ring for the
//! receiver's responses.
//!
//! Each process creates the segments through which it sends. A segment is a memfd and disappears with its last
//! mapping. The peer may write anywhere in it at any time: control words are accessed as atomics and range-checked,
//! and the bytes of a ring are only copied.

use std::num::NonZeroU32;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weft_protocol::interrupt_flag::InterruptFlag;
use weft_protocol::record_ring::{BrokenRing, Heads, Reader, Record, SLOT, Slots, Writer};

use crate::sys::{Errno, Mapping};

/// The version of the layout, which both sides must share.
pub const VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"weftmsgs");
const PAGE: usize = 4096;

/// The bytes of a message ring. A smaller ring stays in nearer caches, a larger one lets a sender run further
/// ahead.
pub const RING: u64 = 128 << 10;
/// The bytes of a response ring.
pub const ANSWERS: u64 = 64 << 10;

/// One of the two sides of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Creates the segment and sends messages.
    Sender = 0,
    /// Receives them and responds.
    Receiver = 1,
}

/// A word on cache lines of its own.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line(AtomicU64);

/// The words at the beginning of a segment. All zeroes is a new channel.
#[derive(Debug, Default)]
#[repr(C)]
struct Words {
    magic: AtomicU64,
    version: AtomicU32,
    ring: AtomicU32,
    /// Indexed by the side that sleeps.
    flags: [InterruptFlag; 2],
    /// The read position of each ring, indexed by the side that writes the ring.
    read: [Line; 2],
}

const _: () = assert!(size_of::<Words>() <= PAGE);

/// A mapped segment.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    slots: Slots,
}

/// The slots of a ring; both constants of this file are valid ring sizes.
fn slots(bytes: u64) -> Option<Slots> {
    Slots::of_bytes(bytes).ok()
}

impl Segment {
    /// Creates a segment; returns it and the descriptor to pass to the peer.
    pub fn create() -> Result<(Self, OwnedFd), Errno> {
        let slots = slots(RING).ok_or(libc::EINVAL)?;
        let (mapping, file) = Mapping::create(c"weft-channel", length(slots))?;
        let segment = Self { mapping, slots };
        let words = segment.words();
        words.magic.store(MAGIC, Ordering::Relaxed);
        words.version.store(VERSION, Ordering::Relaxed);
        words.ring.store(slots.bytes() as u32, Ordering::Relaxed);
        Ok((segment, file))
    }

    /// Maps and validates a segment that the peer passed.
    pub fn join(file: &OwnedFd) -> Result<Self, Errno> {
        let mapping = Mapping::join(file, PAGE, PAGE + (1 << 30) + ANSWERS as usize)?;
        let ring = (mapping.length() - PAGE).checked_sub(ANSWERS as usize).ok_or(libc::EPROTO)?;
        let slots = slots(ring as u64).ok_or(libc::EPROTO)?;
        let segment = Self { mapping, slots };
        let words = segment.words();
        let understood = words.magic.load(Ordering::Relaxed) == MAGIC
            && words.version.load(Ordering::Relaxed) == VERSION
            && u64::from(words.ring.load(Ordering::Relaxed)) == slots.bytes();
        if understood { Ok(segment) } else { Err(libc::EPROTO) }
    }

    /// Overwrites everything behind the first two words, as a hostile process may. For tests.
    pub fn corrupt(&self, mut word: impl FnMut() -> u64) {
        let words = self.mapping.length() / size_of::<u64>();
        for index in (0..words).filter(|index| *index >= 2) {
            // SAFETY: the word lies inside the mapping, whose readers use atomics or copies.
            let place = unsafe { &*self.mapping.memory().cast::<AtomicU64>().add(index) };
            place.store(word(), Ordering::Relaxed);
        }
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping begins with these words, is aligned to a page, and holds only atomics
        // there, so that the peer's writes are no data race.
        unsafe { &*self.mapping.memory().cast::<Words>() }
    }

    /// The flag with which a side asks for wake-ups.
    pub fn flag(&self, side: Side) -> &InterruptFlag {
        &self.words().flags[side as usize]
    }

    /// The ring that `writer` writes.
    pub fn ring(&self, writer: Side) -> Ring<'_> {
        let (offset, slots) = match writer {
            Side::Sender => (PAGE, self.slots.bytes()),
            Side::Receiver => (PAGE + self.slots.bytes() as usize, ANSWERS),
        };
        // SAFETY: both rings lie inside the mapping.
        let memory = unsafe { self.mapping.memory().add(offset) };
        let read = &self.words().read[writer as usize].0;
        Ring { memory, bytes: slots as usize, read }
    }

    /// The initial state of the writer of the ring that `side` writes.
    pub fn writer(&self, side: Side) -> Writer {
        Writer::new(self.slots_of(side))
    }

    /// The initial state of the reader of the ring that `side` writes.
    pub fn reader(&self, side: Side) -> Reader {
        Reader::new(self.slots_of(side))
    }

    /// The slots of the ring that a side writes.
    pub fn slots_of(&self, side: Side) -> Slots {
        match side {
            Side::Sender => self.slots,
            // The answers' size is a constant of this file.
            Side::Receiver => slots(ANSWERS).unwrap_or(self.slots),
        }
    }
}

const fn length(slots: Slots) -> usize {
    PAGE + (slots.bytes() + ANSWERS) as usize
}

/// Prefetches a cache line for writing. Any address is allowed.
#[inline(always)]
fn expect_writing(at: *const u8) {
    // SAFETY: a prefetch is a hint, which does not fault.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// One ring of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    memory: *mut u8,
    bytes: usize,
    read: &'a AtomicU64,
}

impl Heads for Ring<'_> {
    #[inline(always)]
    fn head(&self, slot: usize) -> &AtomicU64 {
        let offset = slot * SLOT as usize;
        debug_assert!(offset < self.bytes);
        // SAFETY: the slot lies inside the ring, which begins with a page, so the word is aligned;
        // no side touches a head but as an atomic.
        unsafe { &*self.memory.add(offset).cast::<AtomicU64>() }
    }
}

impl<'a> Ring<'a> {
    /// The address of a record's bytes, whose range came from the ring's writer or reader.
    #[inline(always)]
    pub fn at(&self, place: &Range<usize>) -> *mut u8 {
        debug_assert!(place.end <= self.bytes);
        // SAFETY: the place lies inside the ring.
        unsafe { self.memory.add(place.start) }
    }

    /// Writes one record, filled by `fill`; false if the ring is full.
    #[inline(always)]
    pub fn write(
        &self,
        writer: &mut Writer,
        what: NonZeroU32,
        length: u64,
        fill: impl FnOnce(*mut u8),
    ) -> Result<bool, BrokenRing> {
        let Some(place) = writer.reserve(self, self.read, length)? else { return Ok(false) };
        fill(self.at(&place));
        writer.publish(self, what, length);
        expect_writing(self.head(writer.slot_to_clear()).as_ptr().cast());
        Ok(true)
    }

    /// The next record, if there is one.
    #[inline(always)]
    pub fn next(&self, reader: &mut Reader) -> Result<Option<Record>, BrokenRing> {
        reader.next(self)
    }

    /// Whether the next slot holds a record; it is not validated yet.
    #[inline(always)]
    pub fn has_next(&self, reader: &Reader) -> bool {
        reader.has_next(self)
    }

    /// The word that is zero until the next slot holds a record. It lies in the segment.
    #[inline(always)]
    pub fn next_head(&self, reader: &Reader) -> NonNull<AtomicU64> {
        NonNull::from(self.head(reader.slot()))
    }

    /// Returns the slots that were read to the writer; whether there were any.
    #[inline(always)]
    pub fn release(&self, reader: &mut Reader) -> bool {
        reader.release(self.read)
    }

    /// The read position.
    pub const fn read(&self) -> &'a AtomicU64 {
        self.read
    }
}
