//! What an endpoint has carried, for `weft mpi status`: in a file without a name that `/proc` shows
//! while the process lives, and that leaves nothing behind. `python/weft/mpi_figures.py` knows the layout.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::{Errno, Mapping};

/// The layout of [`Counts`].
const LAYOUT: u64 = 1;

/// A count that one thread at a time adds to and anybody reads.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        // No other thread adds at the same time, so this need not be one step.
        self.0.store(self.0.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// What is counted.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counts {
    layout: AtomicU64,
    /// Messages sent, of any size.
    pub sent: Count,
    /// Their bytes.
    pub bytes_sent: Count,
    /// Messages received.
    pub received: Count,
    /// Their bytes.
    pub bytes_received: Count,
    /// Those of them that were copied once, from the sender's memory.
    pub bytes_fetched: Count,
    /// Messages that came before their receive was posted.
    pub unexpected: Count,
    /// Times that a message found the ring full.
    pub full: Count,
    /// Times that the program asked for what has come and there was nothing.
    pub empty_polls: Count,
    /// Times that the program slept until something came.
    pub sleeps: Count,
    /// Times that a sleeping receiver was woken.
    pub wakes: Count,
    /// Endpoints from which messages can come.
    pub peers: Count,
    /// Endpoints that were lost: they ended, or wrote nonsense.
    pub lost: Count,
}

/// The counts of one endpoint.
#[derive(Debug)]
pub struct Figures {
    mapping: Mapping,
    /// By which `/proc` shows them.
    _file: OwnedFd,
}

impl Figures {
    /// New counts, all zero.
    pub fn new() -> Result<Self, Errno> {
        let (mapping, file) = Mapping::create(c"weft-messages", size_of::<Counts>())?;
        let figures = Self { mapping, _file: file };
        figures.counts().layout.store(LAYOUT, Ordering::Release);
        Ok(figures)
    }

    /// The counts.
    #[inline(always)]
    pub fn counts(&self) -> &Counts {
        // SAFETY: the mapping begins with the counts, is aligned to a page and lives as long as this.
        unsafe { &*self.mapping.memory().cast::<Counts>() }
    }
}
