//! Waiting for several descriptors.

use libc::{
    c_int, c_long, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval,
};

use crate::epoll;
use crate::interpose::system_calls::int;
use crate::interpose::{Way, interpose, is_off};
use crate::joining::attach;
use crate::memory::pointers;
use crate::poll::{self, Sets};
use crate::ready;
use crate::registry;
use crate::report::stats::Reason;
use crate::signals::cancel;
use crate::stream::fail;
use crate::sys::{self, Errno};
use crate::table::forbidden;
use crate::table::{self, Entry};

fn answer(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|why| fail(why) as c_int)
}

/// A time that the kernel refuses.
pub struct Impossible;

/// A pointer that is null or leads to memory.
fn valid<T>(place: *const T) -> Result<*const T, Impossible> {
    if place.is_null() || pointers::is_there(place) { Ok(place) } else { Err(Impossible) }
}

/// A time in nanoseconds; a null one is forever.
///
/// # Safety
///
/// The time is null or valid.
pub unsafe fn span(time: *const timespec) -> Result<Option<u64>, Impossible> {
    // SAFETY: by the contract of this function.
    let Some(time) = (unsafe { valid(time)?.as_ref() }) else { return Ok(None) };
    if !(0..1_000_000_000).contains(&time.tv_nsec) {
        return Err(Impossible);
    }
    nanoseconds(time.tv_sec, time.tv_nsec, 1).map(Some)
}

fn nanoseconds(seconds: i64, parts: i64, each: u64) -> Result<u64, Impossible> {
    let seconds = u64::try_from(seconds).map_err(|_| Impossible)?;
    let parts = u64::try_from(parts).map_err(|_| Impossible)?;
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(parts.saturating_mul(each)))
}

fn milliseconds(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|timeout| timeout * 1_000_000)
}

/// An epoll instance that is waited for past the library follows nothing: the kernel must see all.
pub fn expose(fd: c_int) {
    if let Entry::Epoll(index) = table::entry(fd) {
        epoll::expose(index);
    }
}

/// Whether a descriptor is an epoll instance that follows connections, now that it is itself waited for.
fn watch(fd: c_int) -> bool {
    matches!(table::entry(fd), Entry::Epoll(index) if epoll::watch(index))
}

/// Keeps a connection from joining under a wait for its end alone, which sleeps in the kernel: no doorbell
/// would wake it.
fn leave_to_kernel(fd: c_int) {
    if let Some(guard) = table::enter(fd)
        && guard.connection.phase().may_join()
    {
        attach::give_up(guard.connection, Reason::Call);
    }
}

/// Whether an entry waits for the end alone.
#[inline(always)]
const fn only_end(entry: &pollfd) -> bool {
    entry.events & (libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP) == libc::POLLRDHUP
}

/// Whether the wait for an entry is the kernel's.
#[inline(always)]
fn is_kernels(entry: &pollfd) -> bool {
    table::is_awaited_in_kernel(entry.fd) && !only_end(entry)
}

/// The way of a `poll`, which is the kernel's if the wait for each entry is. Many are gone through apart.
///
/// # Safety
///
/// There are `count` entries.
#[inline(always)]
unsafe fn way_of_poll(first: *const pollfd, count: nfds_t) -> Way<c_int> {
    const FEW: nfds_t = 16;
    if is_off() {
        return Way::Next;
    }
    if count > FEW || !pointers::are_known(first, count as usize) {
        return Way::Apart;
    }
    // SAFETY: by the contract of this function; there is memory.
    let entries = unsafe { std::slice::from_raw_parts(first, count as usize) };
    if entries.iter().all(is_kernels) { Way::Next } else { Way::Apart }
}

/// The entries of a `poll` that waits, or only looks, if one is of an accelerated connection.
///
/// # Safety
///
/// There are `count` entries.
unsafe fn entries<'a>(first: *mut pollfd, count: nfds_t, waits: bool) -> Option<&'a mut [pollfd]> {
    if count as usize > 1 << 20 || count == 0 || !pointers::are_there(first, count as usize) {
        return None;
    }
    // SAFETY: by the contract of this function.
    let entries = unsafe { std::slice::from_raw_parts_mut(first, count as usize) };
    if entries.iter().all(is_kernels) {
        return None;
    }
    let mut is_any_watched = false;
    for entry in &*entries {
        is_any_watched |= watch(entry.fd);
        if waits && only_end(entry) {
            leave_to_kernel(entry.fd);
        }
    }
    (is_any_watched || entries.iter().any(|entry| ready::is_joined(entry.fd))).then_some(entries)
}

interpose! {
    fn poll(first: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int
    // SAFETY: the program says that there are that many entries.
    = unsafe { way_of_poll(first, count) }, else |next| {
        // SAFETY: the program says that there are that many entries.
        match unsafe { entries(first, count, timeout != 0) } {
            Some(entries) => answer(poll::poll(entries, milliseconds(timeout), std::ptr::null())),
            None => next(first, count, timeout),
        }
    }
}

interpose! {
    fn __poll_chk(
        first: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t,
    ) -> c_int = |next| {
        // SAFETY: as for `poll`.
        match unsafe { entries(first, count, timeout != 0) }
            .filter(|it| size_of_val(*it) <= room)
        {
            Some(entries) => answer(poll::poll(entries, milliseconds(timeout), std::ptr::null())),
            None => next(first, count, timeout, room),
        }
    }
}

interpose! {
    fn ppoll(
        first: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int
    // SAFETY: as for `poll`.
    = unsafe { way_of_poll(first, count) }, else |next| {
        // SAFETY: the program says that there are that many entries and that the time is valid.
        let span = unsafe { span(timeout) };
        // SAFETY: as above.
        let entries = unsafe { entries(first, count, !matches!(span, Ok(Some(0)))) };
        match (entries, span, valid(mask)) {
            (Some(entries), Ok(span), Ok(mask)) => answer(poll::poll(entries, span, mask)),
            _ => next(first, count, timeout, mask),
        }
    }
}

interpose! {
    fn __ppoll_chk(
        first: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t,
    ) -> c_int = |next| {
        // SAFETY: as for `ppoll`.
        let span = unsafe { span(timeout) };
        // SAFETY: as above.
        let entries = unsafe { entries(first, count, !matches!(span, Ok(Some(0)))) };
        match (entries.filter(|it| size_of_val(*it) <= room), span, valid(mask)) {
            (Some(entries), Ok(span), Ok(mask)) => answer(poll::poll(entries, span, mask)),
            _ => next(first, count, timeout, mask, room),
        }
    }
}

pub fn sets(read: *mut fd_set, write: *mut fd_set, except: *mut fd_set) -> Sets {
    Sets { read: read.cast(), write: write.cast(), except: except.cast() }
}

/// Whether a number is open and not the library's own.
fn is_programs(fd: c_int) -> bool {
    table::entry(fd) != Entry::Own && sys::fcntl(fd, libc::F_GETFD, 0).is_ok()
}

/// How many bits of the sets count. Programs name as many as they may have descriptors where their sets
/// have the usual size. The kernel looks at no more than its table of the process has places, which the
/// library's own numbers make longer.
///
/// # Safety
///
/// Each set is null or has `count` bits, or as many as there can be numbers of the program's.
unsafe fn looked_at(count: c_int, sets: Sets) -> c_int {
    const USUAL: c_int = libc::FD_SETSIZE as c_int;
    let is_usual = count <= USUAL || forbidden::reason() == Some(Reason::Filter);
    // The kernel gives the lowest number that is free.
    if is_usual || is_programs(USUAL) {
        return count;
    }
    let most = count.min(1 << 16);
    // SAFETY: by the contract of this function; there is memory.
    let first = unsafe { sets.are_there(most).then(|| sets.first_named(USUAL, most)) };
    if first.flatten().is_some_and(is_programs) { count } else { USUAL }
}

/// # Safety
///
/// Each set is null or has `count` bits.
unsafe fn names_joined(count: c_int, sets: Sets) -> bool {
    // SAFETY: by the contract of this function.
    (0..=1 << 16).contains(&count)
        && sets.are_there(count)
        && unsafe { sets.name_joined(count, watch) }
}

interpose! {
    fn select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int = |next| {
        let sets = sets(read, write, except);
        // SAFETY: the program says that the sets are null or have that many bits.
        let count = unsafe { looked_at(count, sets) };
        // SAFETY: as above.
        if !unsafe { names_joined(count, sets) } {
            return next(count, read, write, except, timeout);
        }
        // SAFETY: the program says that the time is null or valid.
        let time = valid(timeout).map(|_| unsafe { timeout.as_mut() });
        let span = |it: &timeval| nanoseconds(it.tv_sec, it.tv_usec, 1000);
        let spans = time.and_then(|it| Ok((it.as_deref().map(span).transpose()?, it)));
        let Ok((span, time)) = spans else { return next(count, read, write, except, timeout) };
        let begin = sys::now();
        // SAFETY: as above.
        let result = unsafe { poll::select(count, sets, span, std::ptr::null()) };
        if let (Some(time), Some(span)) = (time, span) {
            // Linux leaves there what is left of the time.
            let left = span.saturating_sub(sys::now() - begin);
            time.tv_sec = (left / 1_000_000_000) as c_long;
            time.tv_usec = (left % 1_000_000_000 / 1000) as c_long;
        }
        answer(result)
    }
}

interpose! {
    fn pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int = |next| {
        let sets = sets(read, write, except);
        // SAFETY: the program says that the sets are null or have that many bits.
        let count = unsafe { looked_at(count, sets) };
        // SAFETY: as above.
        if !unsafe { names_joined(count, sets) } {
            return next(count, read, write, except, timeout, mask);
        }
        // SAFETY: as above, and for the time.
        let found = valid(mask).and_then(|mask| unsafe {
            span(timeout).map(|span| poll::select(count, sets, span, mask))
        });
        found.map_or_else(
            |Impossible| next(count, read, write, except, timeout, mask),
            answer,
        )
    }
}

/// An `epoll_ctl` that the only thread does not make here.
#[inline(never)]
fn control_apart(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
    next: impl Fn(c_int, c_int, c_int, *mut epoll_event) -> c_int + Copy,
) -> c_int {
    if registry::is_kernels(epoll, operation, fd) {
        return next(epoll, operation, fd, event);
    }
    let kernel = move || next(epoll, operation, fd, event);
    if let Some(result) = registry::control_passed_by(epoll, operation, fd, event, kernel) {
        return result;
    }
    if operation != libc::EPOLL_CTL_DEL && valid(event).is_err() {
        return kernel();
    }
    epoll::control(epoll, operation, fd, event, kernel)
}

interpose! {
    fn epoll_ctl(
        epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event,
    ) -> c_int
    = registry::way_of_control(epoll, operation, fd, event), else |next| {
        match registry::control_alone(epoll, operation, fd, event) {
            Some(result) => result,
            None => control_apart(epoll, operation, fd, event, next),
        }
    }
}

/// Waits in an instance that may hold accelerated connections, for `timeout` nanoseconds (`None` is
/// forever) and with this mask of signals; `kernel` is the program's own call.
///
/// # Safety
///
/// There is room for `count` events.
#[inline(never)]
unsafe fn wait_apart(
    epoll: c_int,
    first: *mut epoll_event,
    count: c_int,
    timeout: Option<u64>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> c_int {
    // SAFETY: by the contract of this function.
    match unsafe { epoll::wait_in_kernel(epoll, first, timeout, kernel) } {
        Ok(found) => found,
        // SAFETY: as above.
        Err(left) => unsafe { wait(epoll, first, count, left, mask) }.unwrap_or_else(kernel),
    }
}

/// Waits in an instance that has accelerated connections. `None` leaves it to the kernel.
///
/// # Safety
///
/// There is room for `count` events.
unsafe fn wait(
    epoll: c_int,
    first: *mut epoll_event,
    count: c_int,
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Option<c_int> {
    // The kernel refuses more than these.
    let possible = (1..=i32::MAX / size_of::<epoll_event>() as c_int).contains(&count);
    if !possible || valid(mask).is_err() {
        return None;
    }
    // The program need not have room for more events than there can be.
    if !pointers::is_there(first) {
        return epoll::holds_events(epoll).then(|| fail(libc::EFAULT) as c_int);
    }
    let count = count.min(1 << 20);
    // SAFETY: by the contract of this function.
    let events = unsafe { std::slice::from_raw_parts_mut(first, count as usize) };
    cancel::look();
    let found = epoll::wait(epoll, events, timeout, mask)?;
    Some(answer(found.map(|found| found as c_int)))
}

/// The way of a wait with a mask, or with none.
#[inline(always)]
fn way_of_masked_wait(
    epoll: c_int,
    first: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> Way<c_int> {
    /// The size of the kernel's mask of signals, in bytes.
    const SIGNALS: usize = 8;
    let arguments = [int(epoll), first as usize, int(count), int(timeout), mask as usize, SIGNALS];
    epoll::way_of_wait(epoll, first, libc::SYS_epoll_pwait, arguments)
}

/// The way of a wait without a mask, for which there is a call of its own.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn way_of_wait(epoll: c_int, first: *mut epoll_event, count: c_int, timeout: c_int) -> Way<c_int> {
    let arguments = [int(epoll), first as usize, int(count), int(timeout)];
    epoll::way_of_wait(epoll, first, libc::SYS_epoll_wait, arguments)
}

/// The way of a wait without a mask, on processors without a system call of its own.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn way_of_wait(epoll: c_int, first: *mut epoll_event, count: c_int, timeout: c_int) -> Way<c_int> {
    way_of_masked_wait(epoll, first, count, timeout, std::ptr::null())
}

interpose! {
    fn epoll_wait(
        epoll: c_int, first: *mut epoll_event, count: c_int, timeout: c_int,
    ) -> c_int
    = way_of_wait(epoll, first, count, timeout), else |next| {
        let kernel = move || next(epoll, first, count, timeout);
        // SAFETY: the program says that there is room for that many events.
        if let Some(found) = unsafe { epoll::wait_alone(epoll, first, kernel) } {
            return found;
        }
        // SAFETY: as above.
        unsafe { wait_apart(epoll, first, count, milliseconds(timeout), std::ptr::null(), kernel) }
    }
}

interpose! {
    fn epoll_pwait(
        epoll: c_int, first: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t,
    ) -> c_int
    = way_of_masked_wait(epoll, first, count, timeout, mask), else |next| {
        let kernel = move || next(epoll, first, count, timeout, mask);
        // SAFETY: as for `epoll_wait`.
        if let Some(found) = unsafe { epoll::wait_alone(epoll, first, kernel) } {
            return found;
        }
        // SAFETY: as for `epoll_wait`.
        unsafe { wait_apart(epoll, first, count, milliseconds(timeout), mask, kernel) }
    }
}

interpose! {
    fn epoll_pwait2(
        epoll: c_int, first: *mut epoll_event, count: c_int, timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int = |next| {
        let kernel = move || next(epoll, first, count, timeout, mask);
        // SAFETY: as for `epoll_wait`.
        if let Some(found) = unsafe { epoll::wait_alone(epoll, first, kernel) } {
            return found;
        }
        // SAFETY: the program says that the time is null or valid.
        let Ok(span) = (unsafe { span(timeout) }) else { return kernel() };
        // SAFETY: as for `epoll_wait`.
        unsafe { wait_apart(epoll, first, count, span, mask, kernel) }
    }
}
