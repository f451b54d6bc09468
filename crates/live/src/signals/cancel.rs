//! Threads that are cancelled (`pthread_cancel`) inside a call.
//!
//! The C library's blocking calls are where a thread ends that was cancelled before or is cancelled
//! meanwhile; a sleep of this library's own would go on. So a thread sleeps for long in the C
//! library's calls only, short sleeps are followed by a look, and a process that has ever cancelled
//! a thread looks at the beginning of each carried call too, which may not sleep at all.
//!
//! A thread ends by unwinding its stack from there, so nothing that is held across one of these
//! calls may need more than a `drop` to be given back.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, epoll_event, pollfd, sigset_t, size_t, ssize_t, timespec};

use crate::hooks::direct;
use crate::hooks::real::{Next, interpose};
use crate::signals::jump::Asleep;
use crate::sys::{self, Errno};

/// Whether the process has ever cancelled a thread.
static EVER: AtomicBool = AtomicBool::new(false);

interpose! {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int = |next| {
        EVER.store(true, Ordering::SeqCst);
        direct::never_again();
        next(thread)
    }
}

/// Ends the thread here if it was cancelled.
#[inline]
pub fn look() {
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

/// The same until a time.
pub fn wait_for_byte_until(fd: c_int, until: u64) -> Result<usize, Errno> {
    if poll_until(fd, libc::POLLIN, until)? == 0 {
        return Err(libc::EAGAIN);
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

/// `recv` into a place that has so much room.
pub fn recv(fd: c_int, to: *mut u8, room: size_t, flags: c_int) -> Result<usize, Errno> {
    type Function = unsafe extern "C-unwind" fn(c_int, *mut u8, size_t, c_int) -> ssize_t;
    static NEXT: Next = Next::new(c"recv");
    let (_errno, _asleep) = (sys::KeepErrno::new(), Asleep::begin());
    // SAFETY: the C function of this name has this type, and the place has so much room.
    let received = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(fd, to, room, flags)
    };
    usize::try_from(received).map_err(|_| sys::errno())
}

/// `send` of so many bytes that stand at a place.
pub fn send(fd: c_int, from: *const u8, length: size_t, flags: c_int) -> Result<usize, Errno> {
    type Function = unsafe extern "C-unwind" fn(c_int, *const u8, size_t, c_int) -> ssize_t;
    static NEXT: Next = Next::new(c"send");
    let (_errno, _asleep) = (sys::KeepErrno::new(), Asleep::begin());
    // SAFETY: the C function of this name has this type, and there are so many bytes.
    let sent = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(fd, from, length, flags)
    };
    usize::try_from(sent).map_err(|_| sys::errno())
}

/// `ppoll`; the time and the mask are null or valid.
pub fn ppoll(
    entries: &mut [pollfd],
    time: *const timespec,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    type Function = unsafe extern "C-unwind" fn(
        *mut pollfd,
        libc::nfds_t,
        *const timespec,
        *const sigset_t,
    ) -> c_int;
    static NEXT: Next = Next::new(c"ppoll");
    let (first, count) = (entries.as_mut_ptr(), entries.len() as libc::nfds_t);
    let (_errno, _asleep) = (sys::KeepErrno::new(), Asleep::begin());
    // SAFETY: the C function of this name has this type, and the entries are valid.
    let woken = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(first, count, time, mask)
    };
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
    poll(first, count, milliseconds)
}

/// `poll`, where a filter that the process has inherited refuses `ppoll`.
#[cold]
fn poll(first: *mut pollfd, count: libc::nfds_t, milliseconds: c_int) -> Result<c_int, Errno> {
    type Function = unsafe extern "C-unwind" fn(*mut pollfd, libc::nfds_t, c_int) -> c_int;
    static NEXT: Next = Next::new(c"poll");
    // SAFETY: the C function of this name has this type, and the entries are valid.
    let woken = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
            first,
            count,
            milliseconds,
        )
    };
    if woken < 0 { Err(sys::errno()) } else { Ok(woken) }
}

/// `epoll_pwait`; the mask is null or valid.
pub fn epoll_pwait(
    epoll: c_int,
    events: &mut [epoll_event],
    milliseconds: c_int,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    type Function = unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        c_int,
        *const sigset_t,
    ) -> c_int;
    static NEXT: Next = Next::new(c"epoll_pwait");
    let (first, room) = (events.as_mut_ptr(), events.len() as c_int);
    let (_errno, _asleep) = (sys::KeepErrno::new(), Asleep::begin());
    // SAFETY: the C function of this name has this type, and the events are valid.
    let found = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
            epoll,
            first,
            room,
            milliseconds,
            mask,
        )
    };
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
    type Function = unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    static NEXT: Next = Next::new(c"epoll_wait");
    let (first, room) = (events.as_mut_ptr(), events.len() as c_int);
    // SAFETY: the C function of this name has this type, and the events are valid.
    let found = unsafe {
        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
            epoll,
            first,
            room,
            milliseconds,
        )
    };
    usize::try_from(found).map_err(|_| sys::errno())
}
