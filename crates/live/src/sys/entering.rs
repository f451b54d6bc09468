//! The instruction by which a system call enters the kernel.

use libc::{c_int, c_long};

/// The instruction with these arguments, the fourth and those behind it with their registers.
#[cfg(target_arch = "x86_64")]
macro_rules! syscall {
    ($number:expr, $first:expr, $second:expr, $third:expr $(, in($register:tt) $more:expr)*) => {{
        let result;
        std::arch::asm!(
            "syscall",
            inlateout("rax") $number => result,
            in("rdi") $first,
            in("rsi") $second,
            in("rdx") $third,
            $(in($register) $more,)*
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
        result
    }};
}

/// Makes a system call past the C library, whose `syscall` is interposed too.
///
/// # Safety
///
/// The requirements of the system call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn enter<const COUNT: usize>(number: c_long, passed: [usize; COUNT]) -> c_long {
    // Each register that is not passed saves an instruction.
    match *passed.as_slice() {
        // SAFETY: by the contract of this function.
        [first, second, third] => unsafe { syscall!(number, first, second, third) },
        // SAFETY: as above.
        [first, second, third, fourth] => unsafe {
            syscall!(number, first, second, third, in("r10") fourth)
        },
        _ => {
            let mut all = [0; 6];
            all[..COUNT].copy_from_slice(&passed);
            // SAFETY: as above.
            unsafe {
                syscall!(
                    number, all[0], all[1], all[2],
                    in("r10") all[3], in("r8") all[4], in("r9") all[5]
                )
            }
        }
    }
}

/// Makes a system call past the C library, whose `syscall` is interposed too.
///
/// # Safety
///
/// The requirements of the system call.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub unsafe fn enter<const COUNT: usize>(number: c_long, passed: [usize; COUNT]) -> c_long {
    let mut arguments = [0; 6];
    arguments[..COUNT].copy_from_slice(&passed);
    let result;
    // SAFETY: by the contract of this function.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// An `epoll_ctl`, whose numbers lie in the registers as they were passed: the kernel looks at their lower halves.
///
/// # Safety
///
/// The requirements of the system call.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn enter_epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_long {
    // SAFETY: by the contract of this function.
    unsafe { syscall!(libc::SYS_epoll_ctl, epoll, operation, fd, in("r10") event) }
}

/// An `epoll_ctl`.
///
/// # Safety
///
/// The requirements of the system call.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub unsafe fn enter_epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_long {
    let arguments = [epoll as usize, operation as usize, fd as usize, event as usize];
    // SAFETY: by the contract of this function.
    unsafe { enter(libc::SYS_epoll_ctl, arguments) }
}
