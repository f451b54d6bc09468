//! One direction of the model: its ring, the words of its detour, and the kernel's stream.

use crate::byte_ring::{Capacity, Reader, RingPointers, Unpublished, Writer};
use crate::detour::{Detour, Inlet, Receiver, Sender};

pub(super) const CAPACITY: u64 = 2;

/// One direction: both halves, the shared words, and the kernel's stream as a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) words: [u64; 4],
    pub(super) pointers: [u64; 2],
    pub(super) cells: [u8; CAPACITY as usize],
    pub(super) first: Vec<u8>,
    pub(super) put_in: u64,
    pub(super) writer: Writer,
    pub(super) sender: Sender,
    /// What is written next: bytes are numbered from one on.
    pub(super) next: u8,
    pub(super) reader: Reader,
    pub(super) receiver: Receiver,
    pub(super) taken: u64,
    pub(super) got: u8,
    /// Which of the three parts of the stream bytes were read of.
    pub(super) read_of: [bool; 3],
}

impl Way {
    pub(super) fn new() -> Self {
        let capacity = Capacity::new(CAPACITY).unwrap();
        Self {
            words: [0; 4],
            pointers: [0; 2],
            cells: [0; CAPACITY as usize],
            first: Vec::new(),
            put_in: 0,
            writer: Writer::new(capacity),
            sender: Sender::default(),
            next: 1,
            reader: Reader::new(capacity),
            receiver: Receiver::default(),
            taken: 0,
            got: 0,
            read_of: [false; 3],
        }
    }

    /// Takes a step with the shared words.
    pub(super) fn with<T>(
        &mut self,
        step: impl FnOnce(&mut Self, &Detour, &RingPointers) -> T,
    ) -> T {
        let (words, ring) = (Detour::with(self.words), RingPointers::with(self.pointers));
        let result = step(self, &words, &ring);
        (self.words, self.pointers) = (words.words(), ring.words());
        result
    }

    /// Writes to the kernel's stream.
    pub(super) fn put(&mut self) {
        self.first.push(self.next);
        (self.put_in, self.next) = (self.put_in + 1, self.next + 1);
    }

    /// Writes by the ring, if there is room.
    pub(super) fn publish(&mut self) -> Option<()> {
        self.with(|it, _, ring| {
            if it.writer.room(ring, 1).unwrap() == 0 {
                return None;
            }
            let place = it.writer.spans(1).first.start;
            match it.writer.publish_unless_sealed(ring, 1) {
                Ok(()) => it.cells[place] = it.next,
                Err(why) => {
                    assert_eq!(why, Unpublished::Sealed);
                    return None;
                }
            }
            it.next += 1;
            Some(())
        })
    }

    pub(super) fn inlet(&mut self) -> Inlet {
        self.with(|it, words, ring| it.receiver.inlet(words, ring, &it.reader, it.taken))
    }

    /// Reads of the kernel's stream, before the ring or after it.
    pub(super) fn take(&mut self, part: usize) -> Option<()> {
        if self.first.is_empty() {
            return None;
        }
        self.taken += 1;
        let byte = self.first.remove(0);
        self.get(byte, part);
        Some(())
    }

    /// Reads of the ring.
    pub(super) fn empty(&mut self) -> Option<()> {
        self.with(|it, _, ring| {
            if it.reader.available(ring, 1).unwrap() == 0 {
                return None;
            }
            let place = it.reader.spans(1).first.start;
            it.get(it.cells[place], 1);
            it.reader.release(ring, 1);
            Some(())
        })
    }

    pub(super) fn get(&mut self, byte: u8, part: usize) {
        assert_eq!(byte, self.got + 1, "lost, doubled or overtaken: {self:?}");
        (self.got, self.read_of[part]) = (byte, true);
    }

    /// Whether all is read that was written.
    pub(super) fn is_read(&self) -> bool {
        self.got + 1 == self.next
    }
}
