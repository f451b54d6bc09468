//! Fetching what is needed soon into the cache.

/// Asks the processor for the cache line of an element that is read or written soon. Changes nothing but the time
/// that takes; an index that is out of range asks for nothing.
#[inline(always)]
pub fn prefetch<T>(all: &[T], index: usize) {
    let Some(one) = all.get(index) else { return };
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, which reads nothing that a program can
        // see and never faults; the address is that of a live element.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *one).cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = one;
}
