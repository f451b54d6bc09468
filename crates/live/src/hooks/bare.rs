//! System calls that the program makes by their numbers, through the C library's `syscall`.
//!
//! Calls that only name descriptors, or change what the library knows of them, are passed to the
//! functions of their names. For calls that move bytes, or wait for them, the connections first
//! migrate to the kernel.

use std::ptr;

use libc::{c_int, c_long, c_uint, c_void, fd_set, msghdr, pollfd, sockaddr};

use crate::handover::departure::{depart, depart_all};
use crate::hooks::asynchronous::{KernelRequests, depart_submitted};
use crate::hooks::descriptors::{self, close_between};
use crate::hooks::events::{expose, sets};
use crate::hooks::handover::{self, FILTER_BY_PRCTL, FILTER_BY_SECCOMP};
use crate::hooks::options;
use crate::interpose::{Next, trampoline};
use crate::memory::pointers;
use crate::report::stats::Reason;
use crate::sys;
use crate::table::forbidden;
use crate::table::{self, Entry};

/// Defines a function that is called as `syscall` is, and makes a call by its name.
macro_rules! by_name {
    ($($shim:ident = $function:path: ($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C-unwind" fn $shim(_number: c_long, $($argument: $type),*) -> c_long {
            // SAFETY: the arguments are those that the program passed.
            c_long::from(unsafe { $function($($argument),*) })
        }
    )*};
}

by_name! {
    bare_close = descriptors::close: (fd: c_int);
    bare_close_range = close_range_by_number: (first: c_uint, last: c_uint, flags: c_int);
    bare_dup = descriptors::dup: (fd: c_int);
    bare_dup3 = descriptors::dup3: (fd: c_int, copy: c_int, flags: c_int);
    bare_fcntl = descriptors::fcntl: (fd: c_int, command: c_int, argument: usize);
    bare_connect = descriptors::connect: (fd: c_int, address: *const sockaddr, length: c_uint);
    bare_getpeername =
        descriptors::getpeername: (fd: c_int, address: *mut sockaddr, length: *mut c_uint);
    bare_setsockopt = options::setsockopt:
        (fd: c_int, level: c_int, name: c_int, value: *const c_void, length: c_uint);
    bare_getsockopt = options::getsockopt:
        (fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut c_uint);
}

#[cfg(target_arch = "x86_64")]
by_name! {
    bare_dup2 = descriptors::dup2: (fd: c_int, copy: c_int);
}

/// A C library may be too old for a function of this name.
unsafe fn close_range_by_number(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    close_between(first, last, flags, |first, last, flags| {
        match sys::close_range(first, last, flags) {
            Ok(()) => 0,
            Err(errno) => crate::stream::fail(errno) as c_int,
        }
    })
}

/// The function that makes a call by its name, if that is how it is made.
fn named(number: c_long, fd: c_int, second: usize) -> Option<*mut c_void> {
    Some(match number {
        libc::SYS_close => bare_close as *mut c_void,
        libc::SYS_close_range => bare_close_range as *mut c_void,
        libc::SYS_dup => bare_dup as *mut c_void,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_dup2 => bare_dup2 as *mut c_void,
        libc::SYS_dup3 => bare_dup3 as *mut c_void,
        libc::SYS_fcntl => match second as c_int {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETFL => bare_fcntl as *mut c_void,
            _ => return None,
        },
        // A program that connects in this way has a socket that the library does not know. One that
        // it knows may be disconnected.
        libc::SYS_connect if matches!(table::entry(fd), Entry::Connection(_)) => {
            bare_connect as *mut c_void
        }
        libc::SYS_getpeername => bare_getpeername as *mut c_void,
        libc::SYS_setsockopt => bare_setsockopt as *mut c_void,
        libc::SYS_getsockopt => bare_getsockopt as *mut c_void,
        _ => return None,
    })
}

/// Moves the connections back that a bare `poll` names.
///
/// # Safety
///
/// There are `count` entries.
unsafe fn depart_polled(entries: *const pollfd, count: usize) {
    for at in 0..if pointers::are_there(entries, count) { count } else { 0 } {
        // SAFETY: by the contract of this function.
        depart(unsafe { (*entries.add(at)).fd }, Reason::Call);
    }
}

/// Moves the connections back that a bare `select` names.
///
/// # Safety
///
/// Each set is null or has `count` bits.
unsafe fn depart_selected(count: c_int, named: [usize; 3]) {
    let [read, write, except] = named.map(ptr::with_exposed_provenance_mut::<fd_set>);
    let sets = sets(read, write, except);
    if (0..=1 << 16).contains(&count) && sets.are_there(count) {
        // SAFETY: by the contract of this function.
        unsafe {
            sets.name_joined(count, |fd| {
                depart(fd, Reason::Call);
                false
            })
        };
    }
}

/// Before a call that makes a process, makes another program of this one, or changes what it may do.
fn before_call_of_process(number: c_long, first: usize, second: usize, third: usize) {
    let fd = first as c_int;
    match number {
        libc::SYS_clone => handover::share_with_child(first as u64),
        // SAFETY: the length says that the arguments begin with the flags. A program that only
        // probes for the call passes no arguments.
        libc::SYS_clone3 if second >= 8 && pointers::is_there(first as *const u64) => {
            handover::share_with_child(unsafe { *(first as *const u64) });
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => handover::share_with_child(0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_vfork => table::may_be_shared(),
        libc::SYS_execve | libc::SYS_execveat => depart_all(Reason::Exec),
        libc::SYS_io_uring_setup => forbidden::begin(Reason::IoUring),
        libc::SYS_unshare => handover::leave_namespace(fd),
        libc::SYS_setns if second == 0 => handover::leave_namespace(libc::CLONE_NEWPID),
        libc::SYS_setns => handover::leave_namespace(second as c_int),
        libc::SYS_seccomp if first <= FILTER_BY_SECCOMP => {
            handover::filter(first == FILTER_BY_SECCOMP, third);
        }
        libc::SYS_prctl if fd == libc::PR_SET_SECCOMP => {
            handover::filter(second == FILTER_BY_PRCTL, third);
        }
        _ => {}
    }
}

extern "C-unwind" fn before_syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"syscall");
    let fd = first as c_int;
    if let Some(function) = named(number, fd, second) {
        return function;
    }
    match number {
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_sendto
        | libc::SYS_sendmmsg
        | libc::SYS_sendfile
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_shutdown
        | libc::SYS_ioctl => depart(fd, Reason::Call),
        libc::SYS_splice => {
            depart(fd, Reason::Splice);
            depart(third as c_int, Reason::Splice);
        }
        libc::SYS_sendmsg => {
            depart(fd, Reason::Call);
            // SAFETY: the program says that the message is valid.
            unsafe { handover::depart_passed(second as *const msghdr) };
        }
        // SAFETY: the program says that there are that many requests.
        libc::SYS_io_submit => unsafe {
            depart_submitted(third as KernelRequests, second as c_long);
        },
        libc::SYS_epoll_ctl => depart(third as c_int, Reason::Epoll),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => expose(fd),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => expose(fd),
        // SAFETY: the program says that there are that many entries.
        libc::SYS_ppoll => unsafe { depart_polled(first as *const pollfd, second) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        libc::SYS_poll => unsafe { depart_polled(first as *const pollfd, second) },
        // SAFETY: the program says that the sets are null or have that many bits.
        libc::SYS_pselect6 => unsafe { depart_selected(fd, [second, third, fourth]) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        libc::SYS_select => unsafe { depart_selected(fd, [second, third, fourth]) },
        _ => before_call_of_process(number, first, second, third),
    }
    NEXT.address()
}

trampoline!(syscall, before_syscall);
