//! The right to join connections, and to leave them to the kernel.

use crate::sharing::process_lock::{HeldHere, ProcessLock};
use crate::sys;

/// Guards joining against forking, since a connection is joined only while one process holds it, and
/// against whatever leaves a connection to the kernel. Taken before the locks of `epoll`.
pub static ATTACHING: ProcessLock = ProcessLock::new();

/// The right to join, held where more is done than changing a word. No signal handler runs
/// meanwhile: it would wait for what its own thread is doing, or jump out of it and keep the right
/// forever.
pub struct Attaching {
    _held: HeldHere<'static>,
    /// Dropped last.
    _signals: sys::NoSignals,
}

impl Attaching {
    /// Waits for it. `None` if the calling thread has it already.
    pub fn begin() -> Option<Self> {
        let signals = sys::NoSignals::begin();
        ATTACHING.lock().map(|held| Self { _held: held, _signals: signals })
    }

    /// Takes it if no thread has it.
    pub fn try_begin() -> Option<Self> {
        let signals = sys::NoSignals::begin();
        ATTACHING.try_lock().map(|held| Self { _held: held, _signals: signals })
    }
}

/// Waits until nobody joins a connection.
pub fn await_joiner() {
    drop(ATTACHING.lock());
}
