//! Copies between a program's memory and a ring, and prefetches for the next copies.
//!
//! Long copies are one instruction on today's processors (`rep movsb`). On AMD's since Zen 3 it
//! takes 15 to 30 times as long if the destination lies a few bytes further into its page than the
//! source: 2 GB/s instead of 60. A ring begins at a page boundary and `malloc` places large blocks
//! 16 bytes behind one, so receives of blocks of whole pages met that. Copies in short parts use
//! vector registers, as fast as otherwise.

/// The distance within a page at which that happens, and some more: it was measured for 1 to 31
/// bytes.
const AHEAD: std::ops::Range<usize> = 1..64;
/// The page within which the processor compares.
const PAGE: usize = 4096;
/// No C library in use copies up to this length by that instruction.
const SHORT: usize = 2048;

/// Copies memory.
///
/// # Safety
///
/// The requirements of [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    if count <= SHORT {
        // SAFETY: the caller's word.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    } else {
        // SAFETY: as above.
        unsafe { copy_long(from, to, count) };
    }
}

/// Copies a large block of memory.
///
/// # Safety
///
/// The requirements of [`copy`].
#[inline(never)]
unsafe fn copy_long(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's word.
    unsafe {
        if AHEAD.contains(&(to.addr().wrapping_sub(from.addr()) % PAGE)) {
            copy_in_parts(from, to, count);
        } else {
            std::ptr::copy_nonoverlapping(from, to, count);
        }
    }
}

/// Declares a function that has a line of memory fetched, by each processor's own instruction.
macro_rules! fetch {
    ($(#[$about:meta])* $name:ident, $x86_64:literal, $aarch64:literal) => {
        $(#[$about])*
        #[inline(always)]
        pub fn $name(at: *const u8) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch is a hint, which does not fault.
            unsafe {
                std::arch::asm!($x86_64, in(reg) at, options(nostack, preserves_flags));
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            unsafe {
                std::arch::asm!($aarch64, in(reg) at, options(nostack, preserves_flags));
            }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            let _ = at;
        }
    };
}

fetch! {
    /// Has a line of memory fetched, to be written soon. Any address will do.
    expect_writing, "prefetchw [{}]", "prfm pstl1keep, [{}]"
}
fetch! {
    /// Has a line of memory fetched, to be read soon. Any address will do.
    expect_reading, "prefetcht0 [{}]", "prfm pldl1keep, [{}]"
}

/// Copies in parts that are short.
///
/// # Safety
///
/// The requirements of [`copy`].
unsafe fn copy_in_parts(from: *const u8, to: *mut u8, count: usize) {
    for at in (0..count).step_by(SHORT) {
        // SAFETY: each part lies within the whole, for which the caller gives his word.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), SHORT.min(count - at)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_may_be_fetched() {
        for place in [0, 1, usize::MAX] {
            expect_writing(std::ptr::without_provenance(place));
            expect_reading(std::ptr::without_provenance(place));
        }
    }

    #[test]
    fn what_is_copied_is_the_same_wherever_it_lies() {
        let source: Vec<u8> = (0..5 * PAGE).map(|at| (at % 251) as u8).collect();
        for ahead in [0, 1, 16, 31, 32, 63, 64, 65, 4032, 4095] {
            for count in [0, 1, SHORT - 1, SHORT, SHORT + 1, 2 * SHORT, 3 * SHORT + 7] {
                let mut target = vec![255u8; 5 * PAGE];
                let shift =
                    (source.as_ptr().addr() + ahead).wrapping_sub(target.as_ptr().addr()) % PAGE;
                // SAFETY: both are five pages long, and no more than three are used.
                unsafe { copy(source.as_ptr(), target.as_mut_ptr().add(shift), count) };
                assert_eq!(target[shift..shift + count], source[..count], "{ahead} {count}");
                let untouched = target[..shift].iter().chain(&target[shift + count..]);
                assert!(untouched.copied().all(|byte| byte == 255), "{ahead} {count}");
            }
        }
    }
}
