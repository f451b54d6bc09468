//! Whether the calling thread is in a call that holds what it must give back.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::signals::jump;
use crate::sys;

thread_local! {
    static IS_CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// What a thread holds that is given back when this is dropped with it. A jump out of a signal handler past
/// it waits until then.
pub struct Inside(());

impl Inside {
    /// To be called before something is held, of which [`Inside::begun`] is to become a part.
    #[inline]
    pub fn begin() {
        let depth = &sys::own().depth;
        depth.store(depth.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // A signal handler sees it before anything is held.
        compiler_fence(Ordering::SeqCst);
    }

    /// What was begun, or of something that is never dropped.
    #[inline]
    pub const fn begun() -> Self {
        Self(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        let depth = &sys::own().depth;
        depth.store(depth.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
        // A thread whose jump waits for that has announced it before, or jumps itself.
        compiler_fence(Ordering::SeqCst);
        jump::look();
    }
}

/// The C library has called one of the library's functions, which cannot be unwound, until dropped.
pub struct CalledBack(bool);

impl CalledBack {
    pub fn begin() -> Self {
        Self(IS_CALLED_BACK.replace(true))
    }
}

impl Drop for CalledBack {
    fn drop(&mut self) {
        IS_CALLED_BACK.set(self.0);
    }
}

/// Whether the C library has called back the function that the calling thread is in.
pub fn is_called_back() -> bool {
    IS_CALLED_BACK.get()
}

/// Whether the calling thread holds anything.
#[cfg(target_arch = "x86_64")]
pub fn is_any() -> bool {
    sys::own().depth.load(Ordering::Relaxed) > 0
}
