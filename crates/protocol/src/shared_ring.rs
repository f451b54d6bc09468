//! A ring of bytes with many writers, one at a time: the receiver buffer of a socket without a connection
//! (SCILAN 3.4).
//!
//! It is the ring of [`crate::byte_ring`] with a disabled interrupt flag beside it, used as a
//! test-and-set lock. The writer that makes the first stimulus has the lock: it reads the write pointer, which no
//! writer can keep to itself here, writes after it, publishes what it has written, and releases the lock with a
//! store that comes after all its others. The reader is that of the other ring and takes no lock.
//!
//! The document does not say how a reader that has made room finds the one transmitter of many that sleeps.
//! Here the writer with the lock stores its number beside it. Only that writer waits for room, so its flag is the
//! one to stimulate; a writer that is stimulated without need looks once more.
//!
//! A writer that dies with the lock locks the others out for good; the document has nothing against that either.

use crate::byte_ring::{BrokenRing, Capacity, RingPointers, Spans, Writer};
use crate::counting_flag::CountingFlag;
use crate::sync::{AtomicU32, full_fence, observe, publish};

/// The words that all share.
#[derive(Debug, Default)]
pub struct SharedRing {
    /// The pointers, for the reader.
    pub pointers: RingPointers,
    lock: CountingFlag,
    /// The number of who had the turn last, plus one.
    holder: AtomicU32,
}

impl SharedRing {
    /// The writer whose flag must be stimulated: the one that has the lock, or had it last. The reader must call
    /// this after every release. As with the flag itself, the writer with the lock stores its number, fences, and
    /// checks for room; the reader makes room, fences, and reads the number: at least one of the two sees the
    /// other.
    pub fn holder(&self) -> Option<u32> {
        full_fence();
        self.holder.load(observe()).checked_sub(1)
    }

    /// The store that releases the lock. The writer with the lock must call it once, after everything that it
    /// wrote and after [`SharedWriter::finish`].
    pub fn unlock(&self) {
        let _ = self.lock.disable();
    }
}

/// One of the writers.
#[derive(Clone, Debug)]
pub struct SharedWriter {
    capacity: Capacity,
    number: u32,
    /// The read pointer as last seen: it only grows.
    read: u64,
}

/// The ring while this writer holds the lock.
#[derive(Debug)]
#[must_use = "a turn that is not finished locks all others out"]
pub struct Turn {
    writer: Writer,
}

impl SharedWriter {
    /// A writer of a ring of this capacity, with a unique number below `u32::MAX`.
    pub const fn new(capacity: Capacity, number: u32) -> SharedWriter {
        SharedWriter { capacity, number, read: 0 }
    }

    /// One attempt to take the lock, by test-and-set, without waiting. After 2^32 failed attempts during one turn
    /// the word of the lock is back at its initial value.
    pub fn try_turn(&self, ring: &SharedRing) -> Option<Turn> {
        if !ring.lock.try_lock() {
            return None;
        }
        ring.holder.store(self.number + 1, publish());
        let written = ring.pointers.arrivals();
        // The copy may be older than a whole ring; what has been written since then shows how far it must
        // have come.
        let read = self.read.max(written.saturating_sub(self.capacity.bytes()));
        Some(Turn { writer: Writer::taken_over(self.capacity, written, read.min(written)) })
    }

    /// The turn ends: nothing more is written in it. [`SharedRing::unlock`] lets the others know.
    pub fn finish(&mut self, turn: &Turn) {
        self.read = turn.writer.last_read();
    }
}

impl Turn {
    /// How many bytes can be written now; see [`Writer::room`].
    ///
    /// # Errors
    ///
    /// If the reader's pointer is impossible.
    pub fn room(&mut self, ring: &SharedRing, wanted: u64) -> Result<u64, BrokenRing> {
        self.writer.room(&ring.pointers, wanted)
    }

    /// The position of the next `length` bytes; see [`Writer::spans`].
    pub fn spans(&self, length: u64) -> Spans {
        self.writer.spans(length)
    }

    /// Publishes the next `length` bytes; see [`Writer::publish`]. A message that is published in parts still
    /// arrives in one piece, since no other writer writes in between.
    pub fn publish(&mut self, ring: &SharedRing, length: u64) {
        self.writer.publish(&ring.pointers, length);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use super::*;
    use crate::byte_ring::Reader;
    use proptest::prelude::*;

    fn capacity(bytes: u64) -> Capacity {
        Capacity::new(bytes).unwrap()
    }

    /// Two writers in turn: the second one goes on where the first one stopped, and has to look at the read
    /// pointer only where its copy, which is older than the ring, says too little.
    #[test]
    fn the_write_pointer_is_handed_over_under_the_lock() {
        let ring = SharedRing::default();
        let (mut one, mut other) =
            (SharedWriter::new(capacity(8), 0), SharedWriter::new(capacity(8), 1));
        let mut reader = Reader::new(capacity(8));
        assert_eq!(ring.holder(), None);
        let mut turn = one.try_turn(&ring).unwrap();
        assert!(other.try_turn(&ring).is_none() && other.try_turn(&ring).is_none());
        assert_eq!(ring.holder(), Some(0));
        turn.publish(&ring, 6);
        one.finish(&turn);
        assert!(other.try_turn(&ring).is_none(), "it has finished, and not yet let go");
        ring.unlock();

        let mut turn = other.try_turn(&ring).unwrap();
        assert_eq!((ring.holder(), turn.spans(8).first), (Some(1), 6..8));
        assert_eq!(turn.room(&ring, 3), Ok(2));
        assert_eq!(reader.available(&ring.pointers, 6), Ok(6));
        reader.release(&ring.pointers, 6);
        assert_eq!(turn.room(&ring, 3), Ok(8));
        turn.publish(&ring, 8);
        other.finish(&turn);
        ring.unlock();

        // The first one saw the read pointer at 0, 14 bytes ago.
        let mut turn = one.try_turn(&ring).unwrap();
        assert_eq!(turn.room(&ring, 0), Ok(0), "no room but what is sure, and no look");
        assert_eq!(reader.available(&ring.pointers, 8), Ok(8));
        reader.release(&ring.pointers, 8);
        assert_eq!(turn.room(&ring, 1), Ok(8));
    }

    proptest! {
        /// Whatever the writers write, in whatever order, messages come out whole, one after
        /// another.
        #[test]
        fn messages_of_many_come_out_whole_and_in_the_order_of_their_turns(
            exponent in 3u32..8,
            steps in prop::collection::vec((0u32..4, 1u64..20, any::<bool>()), 1..200),
        ) {
            let capacity = capacity(1 << exponent);
            let ring = SharedRing::default();
            let mut memory = vec![(0u32, 0u64); capacity.bytes() as usize];
            let mut writers: Vec<_> =
                (0..4).map(|number| SharedWriter::new(capacity, number)).collect();
            let mut reader = Reader::new(capacity);
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            let mut read = |memory: &[(u32, u64)], got: &mut Vec<(u32, u64)>, length: u64| {
                let length = length.min(reader.available(&ring.pointers, length).unwrap());
                let spans = reader.spans(length);
                got.extend(spans.first.chain(spans.second).map(|place| memory[place]));
                reader.release(&ring.pointers, length);
                length
            };
            for (number, length, reads) in steps {
                if reads {
                    read(&memory, &mut got, length);
                    continue;
                }
                let mut turn = writers[number as usize].try_turn(&ring).unwrap();
                for byte in 0..length {
                    while turn.room(&ring, 1).unwrap() == 0 {
                        read(&memory, &mut got, 1);
                    }
                    memory[turn.spans(1).first.start] = (number, byte);
                    sent.push((number, byte));
                    turn.publish(&ring, 1);
                }
                writers[number as usize].finish(&turn);
                ring.unlock();
            }
            while read(&memory, &mut got, 7) > 0 {}
            prop_assert_eq!(got, sent);
        }

        /// Whatever the shared words contain, no place outside the ring is ever returned.
        #[test]
        fn no_value_of_a_word_leads_outside_the_ring(
            exponent in 0u32..12,
            words in prop::collection::vec((any::<u64>(), any::<u64>(), 0u64..10_000), 1..50),
        ) {
            let capacity = capacity(1 << exponent);
            let mut writer = SharedWriter::new(capacity, 7);
            for (written, read, length) in words {
                let ring = SharedRing {
                    pointers: RingPointers::with([written, read]),
                    ..SharedRing::default()
                };
                let mut turn = writer.try_turn(&ring).unwrap();
                if let Ok(room) = turn.room(&ring, length) {
                    prop_assert!(room <= capacity.bytes());
                    let spans = turn.spans(length.min(room));
                    prop_assert!(spans.first.end as u64 <= capacity.bytes());
                    prop_assert!(spans.second.end as u64 <= capacity.bytes());
                    turn.publish(&ring, length.min(room));
                }
                writer.finish(&turn);
            }
        }
    }
}
