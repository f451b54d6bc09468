//! Prefetching into the cache.

/// Bytes of a line of the cache. Where lines are longer some are asked for twice.
const LINE: usize = 64;

/// Prefetches the cache line of an element that is read or written soon. Changes nothing but the time
/// that takes; an index that is out of range asks for nothing.
#[inline(always)]
pub fn prefetch<T>(all: &[T], index: usize) {
    if let Some(one) = all.get(index) {
        ask((&raw const *one).cast());
    }
}

/// Prefetches all cache lines of a value that is read or written soon.
#[inline(always)]
pub fn prefetch_whole<T>(one: &T) {
    prefetch_first(one, size_of::<T>());
}

/// Prefetches the cache lines of the first `bytes` bytes of a value that are read or written soon.
#[inline(always)]
pub fn prefetch_first<T>(one: &T, bytes: usize) {
    let (first, bytes) = ((&raw const *one).cast::<u8>(), bytes.min(size_of::<T>()));
    for line in 0..bytes.div_ceil(LINE) {
        ask(first.wrapping_add(line * LINE));
    }
    // One that does not begin with a line may end in another.
    if !align_of::<T>().is_multiple_of(LINE) {
        ask(first.wrapping_add(bytes.saturating_sub(1)));
    }
}

/// Prefetches all cache lines of a short list that is read or written soon.
#[inline(always)]
pub fn prefetch_all<T>(all: &[T]) {
    let (first, size) = (all.as_ptr().cast::<u8>(), size_of_val(all));
    for line in 0..size.div_ceil(LINE) {
        ask(first.wrapping_add(line * LINE));
    }
    if let Some(last) = size.checked_sub(1) {
        // A list need not begin with a line, and then may end in one more.
        ask(first.wrapping_add(last));
    }
}

#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn ask(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every processor of this architecture has the instruction, which reads nothing that a program can see
    // and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn ask(_: *const u8) {}
