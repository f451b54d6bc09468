//! Processes: creating one that has no parent here, and ending this one.

use libc::{c_int, c_void};

use super::{Errno, bare, call, set_signal_mask};

/// Which process returns from a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    Here,
    There,
}

/// Makes a process that is nobody's child, past all that the program does at a fork.
pub fn fork_away() -> Result<Forked, Errno> {
    let between = call!(libc::SYS_clone, 0, 0, 0, 0, 0)?;
    if between == 0 {
        return match call!(libc::SYS_clone, 0, 0, 0, 0, 0) {
            Ok(0) => Ok(Forked::There),
            made => exit_with(c_int::from(made.is_err())),
        };
    }
    let mut status: c_int = 0;
    let none: *mut c_void = std::ptr::null_mut();
    while call!(libc::SYS_wait4, between, &raw mut status, libc::__WALL, none) == Err(libc::EINTR) {
    }
    if status == 0 { Ok(Forked::Here) } else { Err(libc::EAGAIN) }
}

/// Whether `fork_away` can create a process.
pub fn can_fork_away() -> bool {
    match fork_away() {
        Ok(Forked::There) => exit(),
        made => made.is_ok(),
    }
}

fn exit_with(status: c_int) -> ! {
    loop {
        let _ = call!(libc::SYS_exit_group, status);
    }
}

/// Ends this process.
pub fn exit() -> ! {
    exit_with(0)
}

/// Leaves the terminal and its signals.
pub fn start_session() {
    let _ = call!(libc::SYS_setsid);
    set_signal_mask(u64::MAX);
}

pub fn process() -> u32 {
    // SAFETY: takes nothing and cannot fail. Not `getpid`, which is the program's to interpose.
    unsafe { bare!(libc::SYS_getpid) as u32 }
}

/// Whether the process may ask for its own numbers, which a filter of system calls may refuse.
pub fn has_numbers() -> bool {
    // SAFETY: takes nothing.
    process() as i32 > 0 && unsafe { bare!(libc::SYS_gettid) } > 0
}

/// Whether there is a process of this number, if only to be waited for.
pub fn is_there(number: u32) -> bool {
    call!(libc::SYS_kill, number, 0) != Err(libc::ESRCH)
}
