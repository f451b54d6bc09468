//! One direction of the model: its ring, the words of its detour, and the kernel's stream.

use crate::byte_ring::RingPointers;
use crate::byte_ring::small::SmallRing;
use crate::detour::{Detour, Inlet, Receiver, Sender};

/// One direction: both halves, the shared words, and the kernel's stream as a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) words: [u64; 4],
    pub(super) pointers: [u64; 2],
    pub(super) ring: SmallRing,
    pub(super) first: Vec<u8>,
    pub(super) put_in: u64,
    pub(super) sender: Sender,
    /// What is written next: bytes are numbered from one on.
    pub(super) next: u8,
    pub(super) receiver: Receiver,
    pub(super) taken: u64,
    pub(super) got: u8,
    /// Which of the three parts of the stream bytes were read of.
    pub(super) read_of: [bool; 3],
}

impl Way {
    pub(super) fn new() -> Self {
        Self {
            words: [0; 4],
            pointers: [0; 2],
            ring: SmallRing::new(),
            first: Vec::new(),
            put_in: 0,
            sender: Sender::default(),
            next: 1,
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
        self.with(|it, _, pointers| {
            it.ring.write(pointers, it.next).then_some(())?;
            it.next += 1;
            Some(())
        })
    }

    pub(super) fn inlet(&mut self) -> Inlet {
        self.with(|it, words, pointers| {
            it.receiver.inlet(words, pointers, &it.ring.reader, it.taken)
        })
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
        self.with(|it, _, pointers| {
            let byte = it.ring.read(pointers)?;
            it.get(byte, 1);
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
