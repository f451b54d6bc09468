//! The monotonic clock, in nanoseconds.
//!
//! It is read by the C library's own function, past any that another preloaded library puts before
//! it: how long a call waits is the kernel's time, also where a program is shown another.

use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_long, c_void, clockid_t};

/// The C library's own `clock_gettime`, once it was found.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Finds the clock. Called before the program begins.
pub fn find_clock() {
    // SAFETY: both names are C strings, and the C library is loaded.
    let found = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return;
        }
        libc::dlsym(library, c"clock_gettime".as_ptr())
    };
    OWN.store(found, Ordering::Relaxed);
}

#[inline]
fn read(clock: clockid_t) -> u64 {
    type Function = unsafe extern "C" fn(clockid_t, *mut libc::timespec) -> c_int;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let own = OWN.load(Ordering::Relaxed);
    // SAFETY: `time` is a valid place for the result, and the C function of this name has this type.
    unsafe {
        if own.is_null() {
            libc::clock_gettime(clock, &mut time);
        } else {
            std::mem::transmute::<*mut c_void, Function>(own)(clock, &mut time);
        }
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time now.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The time now, a few milliseconds coarse, but cheaper.
pub fn coarse_now() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// Converts nanoseconds for the kernel.
pub const fn timespec(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as c_long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_the_same_and_its_own() {
        let before = now();
        find_clock();
        assert!(!OWN.load(Ordering::Relaxed).is_null());
        let (coarse, after) = (coarse_now(), now());
        assert!(before <= after);
        // The coarse one stands still for up to 10 ms.
        assert!(coarse <= after && coarse + 20_000_000 > before);
        assert_eq!(timespec(3_000_000_007).tv_nsec, 7);
    }
}
