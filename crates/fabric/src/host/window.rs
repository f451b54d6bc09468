//! Flow control between two programs: the receiver buffer of a socket, with the read pointer that
//! its sender looks at and the flag on which the sender sleeps (SCILAN 3.4, Figure 5).
//!
//! The state machines are those of the live library. What a model adds is what they cost.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::byte_ring::{Capacity, Reader, RingPointers, Writer};
use weft_units::{Bytes, Span};

use super::FlagSettings;
use super::flag::Flag;

/// A receiver buffer for each pair of hosts, allocated with its first message. A message to several
/// hosts at once passes by it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostWindowSettings")]
pub struct WindowSettings {
    /// Size of the receiver buffer, a power of two: what may be sent before any of it is received
    /// (SCILAN 2.1).
    pub buffer: Bytes,
    /// The stage of the send way that writes into the buffer, and stalls while it is full.
    pub fill: String,
    /// The stage of the receive way with whose end bytes make room.
    pub release: String,
    /// What a look at the read pointer in the other host's memory costs the sender. It looks when
    /// by its own copy of the pointer there is too little room.
    #[serde(default)]
    pub look: Span,
    /// From a release to the sender that slept for room working again.
    #[serde(default)]
    pub wake: Span,
}

/// What both sides of a connection have in shared memory.
#[derive(Debug)]
pub struct Connection {
    pointers: RingPointers,
    /// On which the transmitter sleeps.
    room: Flag,
}

impl Connection {
    /// An empty buffer, and a flag of a kind.
    pub fn new(flag: FlagSettings) -> Connection {
        Connection { pointers: RingPointers::default(), room: Flag::new(flag) }
    }
}

/// The side of a connection that writes.
#[derive(Debug)]
pub(super) struct Transmitter {
    pub peer: u16,
    connection: Arc<Connection>,
    writer: Writer,
    asleep: bool,
    /// Looks at the read pointer that have not been paid for.
    looks: u64,
}

/// The side of a connection that reads.
#[derive(Debug)]
pub(super) struct Receiver {
    pub peer: u16,
    connection: Arc<Connection>,
    reader: Reader,
}

impl Transmitter {
    pub fn new(peer: u16, connection: Arc<Connection>, capacity: Capacity) -> Transmitter {
        let writer = Writer::new(capacity);
        Transmitter { peer, connection, writer, asleep: false, looks: 0 }
    }

    /// Whether there is room for so many bytes. If not, the transmitter sleeps until
    /// [`Transmitter::wake`].
    pub fn has_room(&mut self, bytes: Bytes) -> bool {
        if self.asleep {
            return false;
        }
        if self.room(0) >= bytes.0 || self.look(bytes) {
            return true;
        }
        self.connection.room.enable();
        if self.look(bytes) {
            self.connection.room.disable();
            return true;
        }
        self.asleep = true;
        false
    }

    fn look(&mut self, bytes: Bytes) -> bool {
        self.looks += 1;
        self.room(bytes.0) >= bytes.0
    }

    /// Only this host's receiver moves the pointer, and no further than was written.
    fn room(&mut self, wanted: u64) -> u64 {
        self.writer.room(&self.connection.pointers, wanted).unwrap_or(0)
    }

    /// How often it looked since it was last asked.
    pub fn take_looks(&mut self) -> u64 {
        std::mem::take(&mut self.looks)
    }

    pub fn wake(&mut self) {
        self.asleep = false;
    }

    /// So many bytes are written.
    pub fn publish(&mut self, bytes: Bytes) {
        self.writer.publish(&self.connection.pointers, bytes.0);
    }
}

impl Receiver {
    pub fn new(peer: u16, connection: Arc<Connection>, capacity: Capacity) -> Receiver {
        Receiver { peer, connection, reader: Reader::new(capacity) }
    }

    /// So many bytes are read. Returns whether the transmitter is to be woken.
    pub fn release(&mut self, bytes: Bytes) -> bool {
        let known = self.reader.available(&self.connection.pointers, bytes.0);
        debug_assert!(known.is_ok_and(|known| known >= bytes.0), "{known:?} of {bytes}");
        self.reader.release(&self.connection.pointers, bytes.0);
        self.connection.room.stimulate()
    }
}
