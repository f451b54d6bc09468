//! A ring of two bytes, small enough for models that visit every state.

use super::{Capacity, Reader, RingPointers, Unpublished, Writer};

const CAPACITY: u64 = 2;

/// The bytes of a ring and its two ends. The model keeps the pointers that both ends share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SmallRing {
    bytes: [u8; CAPACITY as usize],
    pub(crate) writer: Writer,
    pub(crate) reader: Reader,
}

impl SmallRing {
    pub(crate) fn new() -> Self {
        let capacity = Capacity::new(CAPACITY).unwrap();
        let bytes = [0; CAPACITY as usize];
        Self { bytes, writer: Writer::new(capacity), reader: Reader::new(capacity) }
    }

    /// Writes a byte. Returns whether there was room, in a ring that is not sealed.
    pub(crate) fn write(&mut self, pointers: &RingPointers, byte: u8) -> bool {
        if self.writer.room(pointers, 1).unwrap() == 0 {
            return false;
        }
        let place = self.writer.spans(1).first.start;
        match self.writer.publish_unless_sealed(pointers, 1) {
            Ok(()) => {
                self.bytes[place] = byte;
                true
            }
            Err(why) => {
                assert_eq!(why, Unpublished::Sealed);
                false
            }
        }
    }

    /// Reads the next byte, if there is one.
    pub(crate) fn read(&mut self, pointers: &RingPointers) -> Option<u8> {
        if self.reader.available(pointers, 1).unwrap() == 0 {
            return None;
        }
        let byte = self.bytes[self.reader.spans(1).first.start];
        self.reader.release(pointers, 1);
        Some(byte)
    }

    /// The byte with this number, counted from zero, which is still in the ring.
    pub(crate) fn written_at(&self, count: u64) -> u8 {
        self.bytes[self.writer.spans_since(count).first.start]
    }
}
