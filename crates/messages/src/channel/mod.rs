//! One direction between two endpoints: messages in one ring, the receiver's responses in another.
//!
//! A short message is sent eagerly, inside its record. For a long one the record holds the addresses of its
//! buffers (rendezvous): once the receiver has a matching receive it copies the message directly from the sender's
//! memory and responds that it is done. Where the kernel forbids that, the receiver asks for the
//! bytes and they are sent through the ring in pieces.

mod receiving;
mod remote;
mod sending;

pub use receiving::{Arrival, Body, Look, Receiving, Remote, Short};
pub use remote::{
    AtomicCode, LONGEST_OPERANDS, MOST_RANGES, Operation, Range, Ranges, Request, Requested,
    Returns,
};
pub use sending::{Held, MOST_HELD, Purpose, Sending, WHOLE};

use weft_protocol::record_ring::BrokenRing;

use crate::sys::Errno;

/// The metadata of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Whether it is a tagged message.
    pub is_tagged: bool,
    /// Its tag; zero if it has none.
    pub tag: u64,
    /// The remote completion data that the sender attached.
    pub data: Option<u64>,
}

/// Bits of a record's kind.
const KIND: u32 = 0xff;
const IS_TAGGED: u32 = 1 << 8;
const HAS_DATA: u32 = 1 << 9;

/// Kinds of records that a sender writes.
mod kind {
    use std::num::NonZeroU32;

    /// A whole message: tag, data, bytes.
    pub const WHOLE: NonZeroU32 = NonZeroU32::MIN;
    /// A rendezvous request: tag, data, message number and count of buffers, length, buffers.
    pub const PLACES: NonZeroU32 = WHOLE.saturating_add(1);
    /// The next bytes of a message that the receiver pulls: number, 0, bytes.
    pub const PIECE: NonZeroU32 = PLACES.saturating_add(1);
    /// A request for remote memory access: number, data, and what `remote` lays out.
    pub const REQUEST: NonZeroU32 = PIECE.saturating_add(1);
    /// Bytes that a request of the receiver returns: number, offset, bytes.
    pub const REPLY: NonZeroU32 = REQUEST.saturating_add(1);
    /// The due time of the next record under emulation: nanoseconds of the monotonic clock, bytes of the message.
    pub const DUE: NonZeroU32 = REPLY.saturating_add(1);
}

/// Kinds of records that a receiver writes: number, and a length or an error number.
mod answer {
    use std::num::NonZeroU32;

    /// The message has been fetched, or is not wanted; the request was carried out, or failed with this error.
    pub const DONE: NonZeroU32 = NonZeroU32::MIN;
    /// The given number of bytes is to be sent through the ring.
    pub const PULL: NonZeroU32 = DONE.saturating_add(1);
}

/// The bytes before those of a message: tag and data.
const HEADER: u64 = 16;

/// Why a channel cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The peer process has ended, or closed its endpoint.
    #[error("the peer has closed its endpoint or ended")]
    Closed,
    /// The peer violated the protocol of the shared memory.
    #[error("the peer violated the protocol of the shared memory")]
    Protocol,
}

impl From<BrokenRing> for Broken {
    fn from(_: BrokenRing) -> Self {
        Self::Protocol
    }
}

impl Broken {
    /// The error that is reported to the program.
    pub const fn errno(self) -> Errno {
        match self {
            Self::Closed => libc::ECONNRESET,
            Self::Protocol => libc::EPROTO,
        }
    }
}
