//! Events that threads wait for: counters of the kernel.

use libc::c_int;

use super::call;

/// Lets whoever waits for an event look.
pub fn signal_event(fd: c_int) {
    let one = 1u64;
    let _ = call!(libc::SYS_write, fd, &raw const one, 8);
}

/// Resets an event, so that no waiting thread finds it signalled any more.
pub fn empty_event(fd: c_int) {
    let mut count = 0u64;
    let _ = call!(libc::SYS_read, fd, &raw mut count, 8);
}
