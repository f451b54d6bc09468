//! Whether there is memory where a program says that something lies. The kernel refuses a bad
//! pointer with an error; when the library reads it before the kernel does, that must not crash the
//! program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use libc::iovec;

use crate::sys;

/// The unit for which presence is determined, in bytes; pages are as long, or a multiple of it.
const PAGE: usize = 4096;
/// Addresses with this bit are the kernel's own. On arm the bits above it may be a program's marks.
const KERNELS: usize = 1 << if cfg!(target_arch = "aarch64") { 55 } else { 63 };
const REMEMBERED: usize = 64;

/// The pages that were last found present, each in a slot that follows from its number.
static SEEN: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];

/// Whether only the program's own system calls may be made.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// From now on assumes that everything not yet seen is present: a filter of system calls may forbid
/// the check.
pub fn look_no_more() {
    IS_FILTERED.store(true, Ordering::SeqCst);
}

/// Whether memory for one `T` lies at this address, as far as reading it can tell.
#[inline]
pub fn is_there<T>(place: *const T) -> bool {
    are_there(place, 1)
}

/// Whether memory for `count` values lies there. Memory that is unmapped later still counts as
/// present, and so does whatever lies between the first page and the last.
#[inline]
pub fn are_there<T>(first: *const T, count: usize) -> bool {
    let Some(length) = count.checked_mul(size_of::<T>()) else { return false };
    if length == 0 {
        return true;
    }
    let Some(last) = first.addr().checked_add(length - 1) else { return false };
    let first = first.addr();
    is_page_there(first) && (page_of(first) == page_of(last) || is_page_there(last))
}

/// Whether memory for `count` values is known to lie there, without a check.
#[inline(always)]
pub fn are_known<T>(first: *const T, count: usize) -> bool {
    let Some(length) = count.checked_mul(size_of::<T>()).filter(|length| *length > 0) else {
        return false;
    };
    let Some(last) = first.addr().checked_add(length - 1) else { return false };
    is_page_seen(page_of(first.addr())) && is_page_seen(page_of(last))
}

/// Whether a page was seen. The first, whose number stands for none, never is.
#[inline(always)]
fn is_page_seen(page: usize) -> bool {
    page != 0 && SEEN[page / PAGE % REMEMBERED].load(Ordering::Relaxed) == page
}

const fn page_of(place: usize) -> usize {
    place & !(PAGE - 1)
}

#[inline]
fn is_page_there(place: usize) -> bool {
    let page = page_of(place);
    // Nothing lies in the first page, where null pointers point.
    is_page_seen(page) || page != 0 && look(place)
}

#[cold]
fn look(place: usize) -> bool {
    let page = page_of(place);
    // Then no call may be made but the program's.
    let is_filtered = IS_FILTERED.load(Ordering::Relaxed);
    let there = is_filtered || page & KERNELS == 0 && sys::is_readable(place);
    if there && !is_filtered {
        SEEN[page / PAGE % REMEMBERED].store(page, Ordering::Relaxed);
    }
    there
}

/// Whether the kernel refuses to move bytes from or to there, before it looks for any.
#[inline]
pub fn is_refused(place: usize, length: usize) -> bool {
    let end = place.saturating_add(length);
    (place | end) & KERNELS != 0
}

/// The parts of a vector before the first that begins in the page of the null pointer, which is never mapped.
#[inline]
pub fn before_nowhere(vector: &[iovec]) -> &[iovec] {
    let is_nowhere = |part: &iovec| part.iov_base.addr() < PAGE && part.iov_len > 0;
    vector.iter().position(is_nowhere).map_or(vector, |at| &vector[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages, of which only the first can be read.
    fn page_and_gap() -> *const u8 {
        let (all, readable) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory is mapped, whose first page becomes readable.
        unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), 2 * PAGE, all, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(memory, PAGE, readable), 0);
            memory.cast_const().cast()
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        let page = page_and_gap();
        // SAFETY: both pages are mapped.
        let gap = unsafe { page.add(PAGE) };
        for _ in 0..3 {
            assert!(is_there(page) && are_there(page, PAGE) && !are_there(page, PAGE + 1));
            assert!(!is_there(gap) && !is_there(std::ptr::null::<u64>()));
            assert!(are_there(gap, 0) && !are_there(page.cast::<u64>(), usize::MAX / 4));
            assert!(!is_there(usize::MAX as *const u8) && !is_there((KERNELS + PAGE) as *const u8));
        }
    }

    #[test]
    fn a_look_says_what_errno_was() {
        sys::set_errno(77);
        assert!(!is_there(page_and_gap().wrapping_add(PAGE)));
        assert_eq!(sys::errno(), 77);
    }

    #[test]
    fn the_kernels_addresses_are_refused() {
        let place = &raw const SEEN as usize;
        assert!(!is_refused(place, 0) && !is_refused(place, PAGE));
        assert!(
            is_refused(place, usize::MAX) && is_refused(usize::MAX, 0) && is_refused(KERNELS, 1)
        );
    }

    #[test]
    fn a_vector_ends_before_a_null_pointer() {
        let part = |place: usize, length| iovec { iov_base: place as *mut _, iov_len: length };
        let vector = [part(0, 0), part(2 * PAGE, 3), part(0, 1), part(2 * PAGE, 1)];
        assert_eq!(before_nowhere(&vector).len(), 2);
        assert_eq!(before_nowhere(&vector[..2]).len(), 2);
        assert_eq!(before_nowhere(&vector[2..]).len(), 0);
    }
}
