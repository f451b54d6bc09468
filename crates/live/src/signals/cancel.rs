//! Threads that are cancelled (`pthread_cancel`) inside a call.
//!
//! A thread that is cancelled ends in the C library's blocking calls; a sleep of this library's own
//! would go on. So a thread sleeps for long only in the C library's calls, short sleeps are
//! followed by a check, and a process that has ever cancelled a thread also checks at the beginning
//! of each accelerated call, which may not sleep at all.
//!
//! A thread ends by unwinding its stack from there, so nothing that is held across one of these
//! calls may need more than a `drop` to be released.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, epoll_event, iovec, pollfd, sigset_t, size_t, timespec};

use crate::interpose::system_calls;
use crate::interpose::{Next, interpose};
use crate::signals::{asleep, jump};
use crate::sys::{self, Errno};

/// Whether the process has ever cancelled a thread.
static EVER: AtomicBool = AtomicBool::new(false);

interpose! {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int = |next| {
        EVER.store(true, Ordering::SeqCst);
        system_calls::never_again();
        next(thread)
    }
}

/// Ends the thread here if it was cancelled, and goes where it is to jump.
#[inline]
pub fn look() {
    jump::look();
    if EVER.load(Ordering::Relaxed) {
        end_if_cancelled();
    }
}

#[cold]
fn end_if_cancelled() {
    type Function = unsafe extern "C-unwind" fn();
    static NEXT: Next = Next::new(c"pthread_testcancel");
    // SAFETY: the C function of this name has this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())() };
}

/// Waits until the kernel's stream has a byte, and leaves it there.
pub fn wait_for_byte(fd: c_int) -> Result<usize, Errno> {
    let mut byte = 0u8;
    recv(fd, &raw mut byte, 1, libc::MSG_PEEK)
}

/// Waits until the kernel's stream has a byte, at most until a time; returns 0 if the socket has an
/// error.
pub fn wait_for_byte_until(fd: c_int, until: u64) -> Result<usize, Errno> {
    match poll_until(fd, libc::POLLIN, until)? {
        0 => return Err(libc::EAGAIN),
        // The kernel tells of an error once, and a call that has a part leaves it to the next.
        events if events & libc::POLLERR != 0 => return Ok(0),
        _ => {}
    }
    let mut byte = 0u8;
    match sys::recv(fd, &raw mut byte, 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
        // Another thread was faster.
        Err(libc::EAGAIN) => Ok(1),
        looked => looked,
    }
}

/// Waits for events of a descriptor until a time, for none if that is over. Any handled signal ends it.
pub fn poll_until(fd: c_int, events: i16, until: u64) -> Result<i16, Errno> {
    let left = until.saturating_sub(sys::now());
    let time = sys::timespec(left);
    let mut entries = [pollfd { fd, events, revents: 0 }];
    ppoll(&mut entries, &time, std::ptr::null())?;
    Ok(entries[0].revents)
}

/// `recv` into a buffer with this much room.
pub fn recv(fd: c_int, to: *mut u8, room: size_t, flags: c_int) -> Result<usize, Errno> {
    static NEXT: Next = Next::new(c"recv");
    let _errno = sys::KeepErrno::new();
    // SAFETY: the C function of this name takes these, and the place has that much room.
    let received =
        unsafe { asleep::call(&NEXT, [fd as usize, to.expose_provenance(), room, flags as usize]) };
    usize::try_from(received).map_err(|_| sys::errno())
}

/// `sendmsg` of bytes in several buffers, in one call as the program made it: no other thread sends
/// between them.
pub fn send_parts(fd: c_int, parts: &[iovec], flags: c_int) -> Result<usize, Errno> {
    static NEXT: Next = Next::new(c"sendmsg");
    let _errno = sys::KeepErrno::new();
    let message = sys::message_of(parts);
    let passed = [fd as usize, (&raw const message).expose_provenance(), flags as usize];
    // SAFETY: the C function of this name takes these, and the parts are there by the program's word.
    let sent = unsafe { asleep::call(&NEXT, passed) };
    usize::try_from(sent).map_err(|_| sys::errno())
}

/// `ppoll`; the time and the mask are null or valid.
pub fn ppoll(
    entries: &mut [pollfd],
    time: *const timespec,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    static NEXT: Next = Next::new(c"ppoll");
    let _errno = sys::KeepErrno::new();
    let first = entries.as_mut_ptr().expose_provenance();
    let passed = [first, entries.len(), time.expose_provenance(), mask.expose_provenance()];
    // SAFETY: the C function of this name takes these, and the entries are valid.
    let woken = unsafe { asleep::call(&NEXT, passed) } as c_int;
    if woken >= 0 {
        return Ok(woken);
    }
    let why = sys::errno();
    if !mask.is_null() || !sys::is_refusal(why) {
        return Err(why);
    }
    // SAFETY: the time is null or valid.
    let milliseconds = unsafe { time.as_ref() }.map_or(-1, |time| {
        let whole = time.tv_sec.saturating_mul(1000);
        whole.saturating_add((time.tv_nsec + 999_999) / 1_000_000).min(i64::from(i32::MAX)) as c_int
    });
    poll(entries, milliseconds)
}

/// `poll`, where a filter that the process has inherited refuses `ppoll`.
#[cold]
fn poll(entries: &mut [pollfd], milliseconds: c_int) -> Result<c_int, Errno> {
    static NEXT: Next = Next::new(c"poll");
    let first = entries.as_mut_ptr().expose_provenance();
    // SAFETY: the C function of this name takes these, and the entries are valid.
    let woken = unsafe { asleep::call(&NEXT, [first, entries.len(), milliseconds as usize]) };
    let woken = woken as c_int;
    if woken < 0 { Err(sys::errno()) } else { Ok(woken) }
}

/// `epoll_pwait`; the mask is null or valid.
pub fn epoll_pwait(
    epoll: c_int,
    events: &mut [epoll_event],
    milliseconds: c_int,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    static NEXT: Next = Next::new(c"epoll_pwait");
    let _errno = sys::KeepErrno::new();
    let first = events.as_mut_ptr().expose_provenance();
    let time = milliseconds as usize;
    let passed = [epoll as usize, first, events.len(), time, mask.expose_provenance()];
    // SAFETY: the C function of this name takes these, and the events are valid.
    let found = unsafe { asleep::call(&NEXT, passed) } as c_int;
    let why = sys::errno();
    if found < 0 && mask.is_null() && sys::is_refusal(why) {
        return epoll_wait(epoll, events, milliseconds);
    }
    usize::try_from(found).map_err(|_| why)
}

/// `epoll_wait`, where a filter that the process has inherited refuses `epoll_pwait`.
#[cold]
fn epoll_wait(
    epoll: c_int,
    events: &mut [epoll_event],
    milliseconds: c_int,
) -> Result<usize, Errno> {
    static NEXT: Next = Next::new(c"epoll_wait");
    let first = events.as_mut_ptr().expose_provenance();
    let passed = [epoll as usize, first, events.len(), milliseconds as usize];
    // SAFETY: the C function of this name takes these, and the events are valid.
    let found = unsafe { asleep::call(&NEXT, passed) } as c_int;
    usize::try_from(found).map_err(|_| sys::errno())
}
