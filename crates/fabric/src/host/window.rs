//! Flow control between two programs: the receiver buffer of a socket, the read pointer that its
//! sender reads, and the flag on which the sender sleeps (SCILAN 3.4, Figure 5).
//!
//! The state machines are those of the live library. The model adds their costs.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::byte_ring::{Capacity, Reader, RingPointers, Writer};
use weft_units::{Bytes, Span};

use super::FlagSettings;
use super::flag::Flag;
use super::shared::{SharedReceiver, SharedWindowSettings, Sharing};

/// A receiver buffer for each pair of hosts, allocated with its first message. A message to several
/// hosts at the same time does not use it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostWindowSettings")]
pub struct WindowSettings {
    /// Size of the receive buffer, a power of two: how much may be sent before any of it is
    /// received (SCILAN 2.1).
    pub buffer: Bytes,
    /// The stage of the send path that writes into the buffer, and stalls while it is full.
    pub fill: String,
    /// The stage of the receive path whose end frees the bytes.
    pub release: String,
    /// The time of the sender to read the read pointer in the other host's memory. It does so if
    /// its own copy of the pointer shows too little room.
    #[serde(default)]
    pub look: Span,
    /// From a release until a sender that slept for lack of room is working again.
    #[serde(default)]
    pub wake: Span,
    /// One receive buffer of a host that all its senders share, without connections. Without it
    /// there is a buffer for each pair of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedWindowSettings>,
}

/// The state in shared memory of both sides of a connection.
#[derive(Debug)]
pub struct Connection {
    pointers: RingPointers,
    /// The flag on which the transmitter sleeps.
    room: Flag,
}

impl Connection {
    /// An empty buffer, and a flag of a kind.
    pub fn new(flag: FlagSettings) -> Connection {
        Connection { pointers: RingPointers::default(), room: Flag::new(flag) }
    }
}

/// The side that writes into a buffer of another host.
#[derive(Debug)]
pub(super) struct Transmitter {
    pub peer: u16,
    way: Way,
    asleep: bool,
    /// Reads of the read pointer whose cost has not been charged.
    looks: u64,
}

/// Whether a transmitter has a buffer of its own.
#[derive(Debug)]
enum Way {
    Alone(Arc<Connection>, Writer),
    Sharing(Sharing),
}

/// The side of a connection that reads.
#[derive(Debug)]
pub(super) struct Receiver {
    pub peer: u16,
    connection: Arc<Connection>,
    reader: Reader,
}

/// The buffers that a host reads: one for each connection, or one in all.
#[derive(Debug)]
pub(super) enum Receivers {
    Connected(Vec<Receiver>),
    Shared(SharedReceiver),
}

impl Transmitter {
    pub fn new(peer: u16, connection: Arc<Connection>, capacity: Capacity) -> Transmitter {
        let way = Way::Alone(connection, Writer::new(capacity));
        Transmitter { peer, way, asleep: false, looks: 0 }
    }

    /// One of many transmitters of the buffer of `peer`.
    pub fn sharing(peer: u16, sharing: Sharing) -> Transmitter {
        Transmitter { peer, way: Way::Sharing(sharing), asleep: false, looks: 0 }
    }

    /// Whether this many bytes of a message may be written: only with the lock if other
    /// transmitters use the buffer, and only if there is room. Without room the transmitter sleeps
    /// until [`Transmitter::wake`].
    pub fn may_write(&mut self, message: u32, bytes: Bytes) -> bool {
        if self.asleep || self.shares().is_some_and(|own| !own.has_turn(message)) {
            return false;
        }
        if self.room(0) >= bytes.0 || self.look(bytes) {
            return true;
        }
        self.flag().enable();
        if self.look(bytes) {
            self.flag().disable();
            return true;
        }
        self.asleep = true;
        false
    }

    /// Its side of the shared buffer, if there is one.
    pub fn shares(&mut self) -> Option<&mut Sharing> {
        match &mut self.way {
            Way::Alone(..) => None,
            Way::Sharing(own) => Some(own),
        }
    }

    fn flag(&self) -> &Flag {
        match &self.way {
            Way::Alone(connection, _) => &connection.room,
            Way::Sharing(own) => own.flag(),
        }
    }

    fn look(&mut self, bytes: Bytes) -> bool {
        self.looks += 1;
        self.room(bytes.0) >= bytes.0
    }

    /// Only this host's receiver moves the pointer, and no further than was written.
    fn room(&mut self, wanted: u64) -> u64 {
        match &mut self.way {
            Way::Alone(connection, writer) => {
                writer.room(&connection.pointers, wanted).unwrap_or(0)
            }
            Way::Sharing(own) => own.room(wanted),
        }
    }

    /// How often it read the read pointer since this was last asked.
    pub fn take_looks(&mut self) -> u64 {
        std::mem::take(&mut self.looks)
    }

    pub fn wake(&mut self) {
        self.asleep = false;
    }

    /// This many bytes are written, the last ones of their message or not.
    pub fn publish(&mut self, bytes: Bytes, last: bool) {
        match &mut self.way {
            Way::Alone(connection, writer) => writer.publish(&connection.pointers, bytes.0),
            Way::Sharing(own) => own.publish(bytes, last),
        }
    }
}

impl Receiver {
    pub fn new(peer: u16, connection: Arc<Connection>, capacity: Capacity) -> Receiver {
        Receiver { peer, connection, reader: Reader::new(capacity) }
    }

    /// This many bytes have been read. Returns whether the transmitter must be woken.
    pub fn release(&mut self, bytes: Bytes) -> bool {
        let known = self.reader.available(&self.connection.pointers, bytes.0);
        debug_assert!(known.is_ok_and(|known| known >= bytes.0), "{known:?} of {bytes}");
        self.reader.release(&self.connection.pointers, bytes.0);
        self.connection.room.stimulate()
    }
}

impl Receivers {
    /// Bytes from a host have been read. Returns the transmitter to wake, if any.
    pub fn release(&mut self, peer: u16, bytes: Bytes) -> Option<u16> {
        match self {
            Receivers::Connected(all) => {
                let own = all.iter_mut().find(|own| own.peer == peer)?;
                own.release(bytes).then_some(peer)
            }
            Receivers::Shared(own) => own.release(bytes),
        }
    }
}
