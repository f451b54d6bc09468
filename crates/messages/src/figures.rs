//! Counters of what an endpoint has carried, for `weft mpi status`. They live in a memfd, which `/proc` exposes
//! while the process runs and which disappears with it. `python/weft/mpi_figures.py` knows the layout.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::{Errno, Mapping};

/// The layout of [`Counts`].
const LAYOUT: u64 = 1;

/// A counter with one writing thread at a time and any number of readers.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    #[inline(always)]
    pub fn add(&self, more: u64) {
        // There is one writer at a time, so no atomic read-modify-write is needed.
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
    /// Those of them that were copied directly from the sender's memory.
    pub bytes_fetched: Count,
    /// Messages that came before their receive was posted.
    pub unexpected: Count,
    /// Times that a message found the ring full.
    pub full: Count,
    /// Polls by the program that found nothing.
    pub empty_polls: Count,
    /// Times that the program blocked until something arrived.
    pub sleeps: Count,
    /// Times that a sleeping receiver was woken.
    pub wakes: Count,
    /// Endpoints that have connected to this one.
    pub peers: Count,
    /// Endpoints whose connection was lost: they ended, or violated the protocol.
    pub lost: Count,
}

/// The counts of one endpoint.
#[derive(Debug)]
pub struct Figures {
    mapping: Mapping,
    /// Kept open so that `/proc` lists it.
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
