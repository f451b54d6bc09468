//! Children that are created past the C library's `fork` (by `clone`), without notice to the library.
//!
//! Such a child has a copy of all memory but one page, which the kernel empties for it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::sys;

const PAGE: usize = 4096;

static KEPT: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

fn kept() -> Option<&'static AtomicU32> {
    let page = KEPT.load(Ordering::Acquire);
    // SAFETY: once stored, the page is never unmapped.
    (!page.is_null()).then(|| unsafe { &*page })
}

/// To be called before a child is created past `fork`. Returns whether the child will be
/// recognised.
pub fn expect() -> bool {
    if kept().is_none() {
        let _errno = sys::KeepErrno::new();
        let Some(page) = sys::map_emptied_in_copies(PAGE) else { return false };
        let page = page.cast::<AtomicU32>();
        // SAFETY: the page is this process's, aligned, and full of zeros.
        unsafe { (*page).store(1, Ordering::Relaxed) };
        let (none, order) = (ptr::null_mut(), Ordering::SeqCst);
        if KEPT.compare_exchange(none, page, order, order).is_err() {
            // SAFETY: nobody else has seen it.
            unsafe { sys::unmap(page.cast(), PAGE) };
        }
    }
    true
}

/// Whether the library was not told of the process that runs here.
pub fn is_one() -> bool {
    kept().is_some_and(|it| it.load(Ordering::Relaxed) == 0)
}

/// To be called in a child when the library is told of it.
pub fn tell() {
    if let Some(kept) = kept() {
        kept.store(1, Ordering::Relaxed);
    }
}
