//! FIFOs that say how many bytes can be written and read (Maestro 3.2, FIFO flow control).
//!
//! "The protocol defines its status register that indicates how many bytes the host can write to
//! and read from its FIFO buffers, rather than if the host can send or receive a message": a host
//! spools as much of a message as there is room for and need not wait for a place for all of it.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Bytes;

/// When the content of a FIFO may be read at its other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// Packet by packet (Maestro 3.1, pipelined transfer).
    #[default]
    Packets,
    /// When a message is complete, or the FIFO is full: the conventional transfer with which
    /// Maestro 4.3 compares.
    Messages,
}

/// The status register of a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoStatus {
    /// How many bytes can be written.
    pub writable: Bytes,
    /// How many bytes can be read.
    pub readable: Bytes,
}

/// A FIFO of packets of one size.
#[derive(Clone, Debug)]
pub struct ByteFifo<P> {
    packets: VecDeque<P>,
    capacity: usize,
    packet: Bytes,
    forwarding: Forwarding,
    /// How many packets may be read.
    ready: usize,
    /// Places reserved for packets in flight.
    reserved: usize,
}

impl<P> ByteFifo<P> {
    /// An empty FIFO for this many packets of a size.
    pub fn new(capacity: u16, packet: Bytes, forwarding: Forwarding) -> ByteFifo<P> {
        ByteFifo {
            packets: VecDeque::new(),
            capacity: usize::from(capacity),
            packet,
            forwarding,
            ready: 0,
            reserved: 0,
        }
    }

    /// How many bytes can be written and read.
    pub fn status(&self) -> FifoStatus {
        FifoStatus {
            writable: self.packet * self.room() as u64,
            readable: self.packet * self.ready as u64,
        }
    }

    /// Whether a packet more has a place.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// How many packets more have a place.
    pub fn room(&self) -> usize {
        self.capacity - self.packets.len() - self.reserved
    }

    /// Reserves a place for a packet in flight; only where there is room.
    pub fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Writes a packet, into a place that was reserved if one was; `last` of its message or not.
    pub fn put(&mut self, packet: P, last: bool) {
        debug_assert!(self.packets.len() < self.capacity, "a FIFO is written beyond its end");
        self.reserved = self.reserved.saturating_sub(1);
        self.packets.push_back(packet);
        let full = self.packets.len() == self.capacity;
        if self.forwarding == Forwarding::Packets || last || full {
            self.ready = self.packets.len();
        }
    }

    /// The packet that is read next, if it may be.
    pub fn front(&self) -> Option<&P> {
        self.packets.front().filter(|_| self.ready > 0)
    }

    /// Reads a packet.
    pub fn take(&mut self) -> Option<P> {
        self.ready = self.ready.checked_sub(1)?;
        self.packets.pop_front()
    }

    /// How many packets may be read.
    pub fn readable(&self) -> u16 {
        self.ready as u16
    }

    /// How many packets are there, whether they may be read or not.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether no packet is there.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_counts_bytes() {
        let mut fifo = ByteFifo::new(128, Bytes(16), Forwarding::Packets);
        let status = |writable, readable| FifoStatus {
            writable: Bytes(writable),
            readable: Bytes(readable),
        };
        assert_eq!(fifo.status(), status(2048, 0));
        fifo.put('a', false);
        fifo.reserve();
        assert_eq!(fifo.status(), status(2016, 16));
        fifo.put('b', true);
        assert_eq!((fifo.take(), fifo.status()), (Some('a'), status(2032, 16)));
    }

    #[test]
    fn a_message_is_read_when_it_is_whole_or_the_fifo_full() {
        let mut fifo = ByteFifo::new(3, Bytes(16), Forwarding::Messages);
        fifo.put(1, false);
        assert_eq!((fifo.front(), fifo.len()), (None, 1));
        assert_eq!(fifo.take(), None);
        fifo.put(2, true);
        assert_eq!((fifo.front(), fifo.readable()), (Some(&1), 2));
        fifo.put(3, false);
        assert_eq!((fifo.readable(), fifo.has_room()), (3, false));
        assert_eq!([fifo.take(), fifo.take(), fifo.take()], [Some(1), Some(2), Some(3)]);
        fifo.put(4, false);
        assert_eq!((fifo.take(), fifo.is_empty()), (None, false));
    }
}
