//! Data without connections: one receive buffer of a host, to which every other host writes while
//! it holds the lock (SCILAN 3.4).
//!
//! The state machine is [`weft_protocol::shared_ring`]. What a model adds is what the turn costs: attempts to
//! lock, and the write pointer, which its transmitter reads in the memory of the target since another one may
//! have moved it.

use std::mem;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::byte_ring::{Capacity, Reader};
use weft_protocol::shared_ring::{SharedRing, SharedWriter, Turn};
use weft_units::{Bytes, Span};

use super::FlagSettings;
use super::flag::Flag;

/// A receive buffer to which all other hosts write, one message at a time. A sender locks it over
/// the channel, reads the write pointer, stores the message, and unlocks with a store that reaches
/// the target's memory after all others. While a program waits for the lock, its processor is free
/// for arriving messages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedWindowSettings {
    /// The time of a test-and-set in another host's memory, more than "0 ns". While another sender
    /// holds the lock, it is repeated, each time for this long.
    pub lock: Span,
    /// The time to read the write pointer in another host's memory, once for each message.
    pub pointer: Span,
}

/// The memory of a host that all others see.
#[derive(Debug)]
pub struct SharedBuffer {
    ring: SharedRing,
    /// The flags on which transmitters sleep, by host.
    room: Vec<Flag>,
}

impl SharedBuffer {
    /// An empty buffer for this many transmitters, with flags of this kind.
    pub fn new(hosts: u16, flag: FlagSettings) -> SharedBuffer {
        let room = (0..hosts).map(|_| Flag::new(flag)).collect();
        SharedBuffer { ring: SharedRing::default(), room }
    }

    /// The last store of a turn has reached the memory of the host.
    pub(super) fn unlock(&self) {
        self.ring.unlock();
    }
}

/// A transmitter of a shared buffer.
#[derive(Debug)]
pub(super) struct Sharing {
    host: u16,
    buffer: Arc<SharedBuffer>,
    writer: SharedWriter,
    stand: Stand,
}

/// The progress of a transmitter with a message.
#[derive(Debug)]
enum Stand {
    Idle,
    /// It must request the lock.
    Wishes(u32),
    Asks(u32),
    /// It has the lock, and reads the write pointer.
    Won(u32, Turn),
    Writes(u32, Turn),
    /// It has written everything, and its last store is in flight.
    LetsGo,
}

impl Sharing {
    pub fn new(host: u16, buffer: &Arc<SharedBuffer>, capacity: Capacity) -> Sharing {
        let writer = SharedWriter::new(capacity, host.into());
        Sharing { host, buffer: Arc::clone(buffer), writer, stand: Stand::Idle }
    }

    /// Whether it has the lock for this message. If nothing prevents it, it requests the lock.
    pub fn has_turn(&mut self, message: u32) -> bool {
        if let Stand::Idle = self.stand {
            self.stand = Stand::Wishes(message);
        }
        matches!(&self.stand, Stand::Writes(own, _) if *own == message)
    }

    /// Whether it has just requested the lock; querying resets it.
    pub fn take_wish(&mut self) -> bool {
        let Stand::Wishes(message) = self.stand else { return false };
        self.stand = Stand::Asks(message);
        true
    }

    /// One attempt to take the lock. Returns whether it succeeds.
    pub fn try_turn(&mut self) -> bool {
        let Stand::Asks(message) = self.stand else { return false };
        let Some(turn) = self.writer.try_turn(&self.buffer.ring) else { return false };
        self.stand = Stand::Won(message, turn);
        true
    }

    /// It has read the pointer, and writes.
    pub fn begin(&mut self) {
        self.stand = match mem::replace(&mut self.stand, Stand::Idle) {
            Stand::Won(message, turn) => Stand::Writes(message, turn),
            other => other,
        };
    }

    /// Its last store has reached the target: it may request the lock again.
    pub fn let_go(&mut self) {
        self.stand = Stand::Idle;
    }

    pub fn flag(&self) -> &Flag {
        &self.buffer.room[usize::from(self.host)]
    }

    /// How many bytes it may write; zero without the lock.
    pub fn room(&mut self, wanted: u64) -> u64 {
        match &mut self.stand {
            Stand::Writes(_, turn) => turn.room(&self.buffer.ring, wanted).unwrap_or(0),
            _ => 0,
        }
    }

    pub fn publish(&mut self, bytes: Bytes, last: bool) {
        let Stand::Writes(_, turn) = &mut self.stand else { return };
        turn.publish(&self.buffer.ring, bytes.0);
        if last {
            self.writer.finish(turn);
            self.stand = Stand::LetsGo;
        }
    }
}

/// The reading side.
#[derive(Debug)]
pub(super) struct SharedReceiver {
    pub buffer: Arc<SharedBuffer>,
    reader: Reader,
}

impl SharedReceiver {
    pub fn new(buffer: &Arc<SharedBuffer>, capacity: Capacity) -> SharedReceiver {
        SharedReceiver { buffer: Arc::clone(buffer), reader: Reader::new(capacity) }
    }

    /// This many bytes have been read. Returns the transmitter to wake, if any: only the one with
    /// the lock waits for room.
    pub fn release(&mut self, bytes: Bytes) -> Option<u16> {
        let pointers = &self.buffer.ring.pointers;
        let known = self.reader.available(pointers, bytes.0);
        debug_assert!(known.is_ok_and(|known| known >= bytes.0), "{known:?} of {bytes}");
        self.reader.release(pointers, bytes.0);
        let holder = u16::try_from(self.buffer.ring.holder()?).ok()?;
        self.buffer.room.get(usize::from(holder))?.stimulate().then_some(holder)
    }
}
