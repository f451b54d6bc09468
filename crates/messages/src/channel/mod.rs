//! One direction between two endpoints: messages one way, answers the other.
//!
//! A short message lies in its record. Of a long one the record says where it is; the receiver
//! fetches it from there, past the ring, once it knows where it belongs, so that it is copied once;
//! then it answers that it is done. Where the kernel does not let it, it asks for the bytes and they
//! come through the ring.

mod receiving;
mod sending;

pub use receiving::{Arrival, Body, Receiving, Remote};
pub use sending::{Held, MOST_HELD, Sending, WHOLE};

use weft_protocol::record_ring::BrokenRing;

use crate::sys::Errno;

/// What a message says of itself beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Whether it is a tagged message.
    pub is_tagged: bool,
    /// Its tag; zero if it has none.
    pub tag: u64,
    /// What its sender gives the receiver's completion along with it.
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
    /// Where a message is: tag, data, number and count of places, length, places.
    pub const PLACES: NonZeroU32 = WHOLE.saturating_add(1);
    /// The next bytes of a message that was asked for: number, 0, bytes.
    pub const PIECE: NonZeroU32 = PLACES.saturating_add(1);
}

/// Kinds of records that a receiver writes: number, length.
mod answer {
    use std::num::NonZeroU32;

    /// The message has been fetched.
    pub const DONE: NonZeroU32 = NonZeroU32::MIN;
    /// So many bytes of the message are to be sent.
    pub const PULL: NonZeroU32 = DONE.saturating_add(1);
}

/// The bytes before those of a message: tag and data.
const HEADER: u64 = 16;

/// Why a channel is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The other process has ended, or closed its endpoint.
    #[error("the other side has gone")]
    Gone,
    /// The other side wrote what no correct side writes.
    #[error("the other side wrote nonsense")]
    Nonsense,
}

impl From<BrokenRing> for Broken {
    fn from(_: BrokenRing) -> Self {
        Self::Nonsense
    }
}

impl Broken {
    /// The error that a program is told.
    pub const fn errno(self) -> Errno {
        match self {
            Self::Gone => libc::ECONNRESET,
            Self::Nonsense => libc::EPROTO,
        }
    }
}
