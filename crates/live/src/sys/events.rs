//! Events that threads wait for: counters of the kernel.

use libc::c_int;

use super::{Errno, call, move_high};

/// Makes an event, which counts and never blocks.
pub fn event() -> Result<c_int, Errno> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    move_high(call!(libc::SYS_eventfd2, 0, flags)? as c_int)
}

/// Lets whoever waits for an event look.
pub fn signal_event(fd: c_int) {
    let one = 1u64;
    let _ = call!(libc::SYS_write, fd, &raw const one, 8);
}

/// Lets nobody who waits for an event find it signalled any more.
pub fn empty_event(fd: c_int) {
    let mut count = 0u64;
    let _ = call!(libc::SYS_read, fd, &raw mut count, 8);
}
