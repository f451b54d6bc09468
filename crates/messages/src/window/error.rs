//! Why something cannot be done with a window, and what would be accepted.

use std::time::Duration;

use weft_protocol::window::MAX_PAYLOAD;
use weft_protocol::write_log::BrokenLog;

use super::{LOCKS, LONGEST_NAME, MOST_BYTES, NODES};
use crate::meeting::BadDirectory;
use crate::sys::Errno;

/// Why something cannot be done with a window.
#[derive(Debug, thiserror::Error)]
pub enum WindowError {
    /// Processes cannot meet.
    #[error(transparent)]
    Directory(#[from] BadDirectory),
    /// No window is called so.
    #[error(
        "{0:?}: a window's name has 1 to {LONGEST_NAME} letters of a to z, A to Z, digits, - and _"
    )]
    Name(String),
    /// A window has another size.
    #[error("{0} bytes: a window has 1 to {MOST_BYTES}")]
    Size(u64),
    /// The name is taken.
    #[error("window {0} is there already: attach to it, or choose another name")]
    Exists(String),
    /// Nobody has such a window.
    #[error("there is no window {name} in {directory}: a process must have created it and live")]
    Missing {
        /// Its name.
        name: String,
        /// Where it was looked for.
        directory: String,
    },
    /// All numbers are in use.
    #[error("window {0} has {NODES} members, which is the most")]
    Crowded(String),
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
    /// The member did not map the window outgoing.
    #[error("this member has not mapped the window outgoing: attach with writing")]
    NotOutgoing,
    /// The other side does not consent.
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
    /// Nobody gave the lock back in time.
    #[error("lock {0} was not given back within {1:?}")]
    LockTaken(usize, Duration),
    /// Not all came in time.
    #[error("{there} of {wanted} members came to the barrier within {limit:?}")]
    Barrier {
        /// How many came.
        there: u32,
        /// How many were waited for.
        wanted: u32,
        /// How long.
        limit: Duration,
    },
    /// A barrier of fewer than there are.
    #[error("a barrier of {wanted} members: the window has {there} that map it incoming")]
    Crowd {
        /// How many there are.
        there: u32,
        /// How many were wanted.
        wanted: u32,
    },
    /// A message was damaged again and again.
    #[error("a message to node {0} did not arrive whole: errors came between in {1} tries")]
    Lost(u8, u32),
    /// A member is stopped, and all wait for it.
    #[error("node {0} has not gone on for {1:?}: is its process stopped?")]
    Stalled(u8, Duration),
    /// Somebody wrote what nobody may.
    #[error(transparent)]
    Broken(#[from] BrokenLog),
    /// What the kernel says.
    #[error("the kernel says: {}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(Errno),
}
