//! The atomics of the shared-memory parts, in one place, so that loom can stand in for them under
//! `--cfg loom`.
//!
//! The orderings are named by their purpose. Under loom each can be weakened, so that the tests
//! show that every one of them is needed.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) use strength::{exchange, full_fence, observe, observe_fence, publish};

#[cfg(not(loom))]
mod strength {
    use super::Ordering;

    /// The ordering of a store that publishes what was written before it.
    #[inline]
    pub const fn publish() -> Ordering {
        Ordering::Release
    }

    /// The ordering of a load after which published data may be read.
    #[inline]
    pub const fn observe() -> Ordering {
        Ordering::Acquire
    }

    /// The ordering of a read-modify-write that both publishes and acquires.
    #[inline]
    pub const fn exchange() -> Ordering {
        Ordering::AcqRel
    }

    /// Orders an earlier store before a later load: what neither release nor acquire does.
    #[inline]
    pub fn full_fence() {
        core::sync::atomic::fence(Ordering::SeqCst);
    }

    /// Lets data be read whose publication an earlier load of any ordering has seen.
    #[inline]
    pub fn observe_fence() {
        core::sync::atomic::fence(Ordering::Acquire);
    }
}

#[cfg(loom)]
mod strength {
    use super::{Ordering, Weakening};

    pub fn publish() -> Ordering {
        match super::weakening() {
            Weakening::Publish => Ordering::Relaxed,
            _ => Ordering::Release,
        }
    }

    pub fn observe() -> Ordering {
        match super::weakening() {
            Weakening::Observe => Ordering::Relaxed,
            _ => Ordering::Acquire,
        }
    }

    pub fn exchange() -> Ordering {
        match super::weakening() {
            Weakening::Publish => Ordering::Acquire,
            Weakening::Observe => Ordering::Release,
            _ => Ordering::AcqRel,
        }
    }

    pub fn full_fence() {
        if super::weakening() != Weakening::Fence {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    pub fn observe_fence() {
        if super::weakening() != Weakening::Observe {
            loom::sync::atomic::fence(Ordering::Acquire);
        }
    }
}

/// Which ordering a loom model omits on purpose.
#[cfg(loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakening {
    /// None: the code as it runs.
    Sound,
    /// Stores that publish are relaxed.
    Publish,
    /// Loads that observe are relaxed, and no fence takes over what a relaxed one has seen.
    Observe,
    /// No fence between a store and the read of the other side's word.
    Fence,
}

#[cfg(loom)]
std::thread_local! {
    static WEAKENING: std::cell::Cell<Weakening> = const { std::cell::Cell::new(Weakening::Sound) };
}

#[cfg(loom)]
fn weakening() -> Weakening {
    WEAKENING.get()
}

/// Weakens the models that this thread runs from now on: loom runs the threads of a model as
/// coroutines of the thread that began it.
#[cfg(loom)]
pub fn weaken(weakening: Weakening) {
    WEAKENING.set(weakening);
}
