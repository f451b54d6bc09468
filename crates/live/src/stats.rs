//! The figures that `weft live status` shows.
//!
//! They stand at the beginning of the file `weft-live` that every process with the library keeps
//! open, so that whoever may read the process's `/proc/PID/fd` may read them, and nothing is left
//! behind when it ends. `python/weft/live.py` knows this layout.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table;

/// Which layout this is.
const LAYOUT: u64 = 1;

/// Why a connection, or what of it, stays with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The two addresses are of different hosts or network namespaces.
    Elsewhere,
    /// Nobody answered at the place where the other end would.
    PeerPlain,
    /// The other end belongs to another user, or is of another version.
    PeerRefused,
    /// The segment could not be made: memory, descriptors, seals.
    NoSegment,
    /// More connections than the limit.
    Limit,
    /// A call that is not carried came first.
    Call,
    /// The kernel's counters are missing or do not agree.
    Counters,
    /// It is in an epoll instance that is not followed, or in too many.
    Epoll,
}

const REASONS: usize = 8;

/// All counts are since the process began, children that it forked included.
#[derive(Debug)]
#[repr(C)]
pub struct Stats {
    layout: AtomicU64,
    pub candidates: AtomicU64,
    pub joined: AtomicU64,
    pub closed: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
    pub messages_sent: AtomicU64,
    /// Wake-ups through the flag's word.
    pub word_wakes: AtomicU64,
    /// Wake-ups by a byte on the kernel's connection.
    pub doorbells: AtomicU64,
    /// Times that a receiver went to sleep.
    pub sleeps: AtomicU64,
    pub broken: AtomicU64,
    pub fallen_through: [AtomicU64; REASONS],
}

/// Counts on a statistic, if there are any.
pub fn count(which: impl Fn(&Stats) -> &AtomicU64, by: u64) {
    if let Some(stats) = table::stats() {
        which(stats).fetch_add(by, Ordering::Relaxed);
    }
}

/// Counts a connection that stays with the kernel.
pub fn fell_through(reason: Reason) {
    count(|stats| &stats.fallen_through[reason as usize], 1);
}

/// Says which layout the figures have: they are worth reading from now on.
pub fn start() {
    if let Some(stats) = table::stats() {
        stats.layout.store(LAYOUT, Ordering::Release);
    }
}
