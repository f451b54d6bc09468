//! Errors of windows, with what would be accepted.

use std::time::Duration;

use weft_protocol::window::MAX_PAYLOAD;
use weft_protocol::write_log::BrokenLog;

use super::{LOCKS, LONGEST_NAME, MOST_BYTES, NODES};
use crate::rendezvous::BadDirectory;
use crate::sys::Errno;

/// An error of a window operation.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// The rendezvous directory cannot be used.
    #[error(transparent)]
    Directory(#[from] BadDirectory),
    /// The name is not valid.
    #[error(
        "{0:?}: a window's name has 1 to {LONGEST_NAME} letters of a to z, A to Z, digits, - and _"
    )]
    Name(String),
    /// The size is out of range.
    #[error("{0} bytes: a window has 1 to {MOST_BYTES}")]
    Size(u64),
    /// The name is taken.
    #[error("window {0} exists already: attach to it, or choose another name")]
    Exists(String),
    /// There is no such window.
    #[error(
        "there is no window {name} in {directory}: the process that created it, or another member, must be running"
    )]
    Missing {
        /// Its name.
        name: String,
        /// The directory that was searched.
        directory: String,
    },
    /// All member numbers are in use.
    #[error("window {0} has {NODES} members, which is the maximum")]
    Full(String),
    /// Bytes outside of the window.
    #[error("{length} bytes at {offset} lie outside of the window, which has {bytes}")]
    Outside {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        length: u64,
        /// How many the window has.
        bytes: u64,
    },
    /// This member did not map the window outgoing.
    #[error("this member has not mapped the window outgoing: attach with writing")]
    NotOutgoing,
    /// The target did not map the window incoming.
    #[error("node {0} has not mapped the window incoming, or is no member: accepted are {1}")]
    NotIncoming(u8, String),
    /// A conditional write is one packet.
    #[error(
        "a conditional write of {0} bytes: it has at most {MAX_PAYLOAD}, in one line of {MAX_PAYLOAD}"
    )]
    TooLong(u64),
    /// There is no such lock.
    #[error("lock {0}: a window has locks 0 to {last}", last = LOCKS - 1)]
    NoLock(usize),
    /// The lock is not this member's.
    #[error("lock {0} is not held by this member")]
    NotHeld(usize),
    /// The lock is this member's already.
    #[error("lock {0} is held by this member already: unlock it first")]
    Held(usize),
    /// The lock was not released in time.
    #[error("lock {0} was not released within {1:?}")]
    LockTaken(usize, Duration),
    /// Not all members reached the barrier in time.
    #[error("{there} of {wanted} members reached the barrier within {limit:?}")]
    Barrier {
        /// How many came.
        there: u32,
        /// How many were waited for.
        wanted: u32,
        /// How long.
        limit: Duration,
    },
    /// A barrier of fewer members than the window has.
    #[error("a barrier of {wanted} members, but {there} members map the window incoming")]
    TooManyMembers {
        /// How many there are.
        there: u32,
        /// How many were wanted.
        wanted: u32,
    },
    /// A message could not be delivered intact.
    #[error("a message to node {0} was not delivered intact in {1} attempts")]
    Lost(u8, u32),
    /// A member is stopped, and the others wait for it.
    #[error("node {0} has made no progress for {1:?}: is its process stopped?")]
    Stalled(u8, Duration),
    /// The shared log of writes is corrupt: a member violated its protocol.
    #[error(transparent)]
    Broken(#[from] BrokenLog),
    /// A system call failed.
    #[error("system error: {}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(Errno),
}
