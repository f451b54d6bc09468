//! Waiting for descriptors. A filter that the process has inherited may allow the older call of two and
//! not the newer, or the other way round.

use libc::{c_int, c_void};

use super::{Errno, call, timespec};

/// The events of one descriptor at this moment.
pub fn poll_now(fd: c_int, events: i16) -> i16 {
    poll(fd, events, 0)
}

/// The events of one descriptor, waiting for at most a second.
pub fn poll(fd: c_int, events: i16, nanoseconds: u64) -> i16 {
    poll_or_fail(fd, events, nanoseconds).unwrap_or(0)
}

/// The events of one descriptor, waiting for at most a second, or the error that ended the wait.
pub fn poll_or_fail(fd: c_int, events: i16, nanoseconds: u64) -> Result<i16, Errno> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let time = timespec(nanoseconds.min(999_999_999));
    let none: *const c_void = std::ptr::null();
    let looked = call!(libc::SYS_ppoll, &raw mut entry, 1, &raw const time, none, 8);
    #[cfg(target_arch = "x86_64")]
    if looked.is_err_and(is_refusal) {
        let time = nanoseconds.min(999_999_999).div_ceil(1_000_000);
        return call!(libc::SYS_poll, &raw mut entry, 1, time).map(|_| entry.revents);
    }
    looked.map(|_| entry.revents)
}

pub fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: &mut libc::epoll_event,
) -> Result<(), Errno> {
    call!(libc::SYS_epoll_ctl, epoll, operation, fd, &raw mut *event).map(|_| ())
}

/// Whether an inherited filter may have answered: it may allow the older call that a program makes,
/// and not the newer one that stands for it here.
pub const fn is_refusal(why: Errno) -> bool {
    matches!(why, libc::ENOSYS | libc::EPERM | libc::EACCES)
}

/// What an instance has at this moment; the mask is null or valid.
pub fn epoll_now(
    epoll: c_int,
    events: &mut [libc::epoll_event],
    mask: *const libc::sigset_t,
) -> Result<usize, Errno> {
    let (first, room) = (events.as_mut_ptr(), events.len());
    let found = call!(libc::SYS_epoll_pwait, epoll, first, room, 0, mask, 8);
    #[cfg(target_arch = "x86_64")]
    if mask.is_null() && found.is_err_and(is_refusal) {
        return call!(libc::SYS_epoll_wait, epoll, first, room, 0).map(|count| count as usize);
    }
    found.map(|count| count as usize)
}

/// Waits until any of these has an event, or for `span` nanoseconds. False if waiting is not
/// possible.
pub fn poll_all(entries: &mut [libc::pollfd], span: Option<u64>) -> bool {
    let none: *const c_void = std::ptr::null();
    let time = span.map(timespec);
    let time = time.as_ref().map_or(none, |time| std::ptr::from_ref(time).cast());
    let woken = call!(libc::SYS_ppoll, entries.as_mut_ptr(), entries.len(), time, none, 8);
    #[cfg(target_arch = "x86_64")]
    if woken.is_err_and(is_refusal) {
        let time = span.map_or(-1, |span| span.div_ceil(1_000_000) as c_int);
        let woken = call!(libc::SYS_poll, entries.as_mut_ptr(), entries.len(), time);
        return matches!(woken, Ok(_) | Err(libc::EINTR));
    }
    matches!(woken, Ok(_) | Err(libc::EINTR))
}
