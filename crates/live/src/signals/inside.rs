//! Whether the calling thread is in a call that holds what it must give back.

use std::cell::Cell;

use crate::signals::jump;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static IS_CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// What a thread holds that is given back when this is dropped with it. A jump out of a signal handler past
/// it waits until then.
pub struct Inside(());

impl Inside {
    /// To be called before something is held, of which [`Inside::begun`] is to become a part.
    #[inline]
    pub fn begin() {
        DEPTH.set(DEPTH.get() + 1);
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
        // Who jumped away where it could not be undone has not counted.
        DEPTH.set(DEPTH.get().saturating_sub(1));
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

/// Whether the calling thread holds anything, and can be unwound.
pub fn is_any() -> bool {
    DEPTH.get() > 0 && !IS_CALLED_BACK.get()
}
