//! Making, copying and closing descriptors, and their settings.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, c_ulong, c_void, sa_family_t, sockaddr};

use crate::close;
use crate::handover::departure::depart;
use crate::handover::yielding;
use crate::hooks::vector::is_address;
use crate::interpose::interpose;
use crate::joining::attach;
use crate::joining::bare_calls;
use crate::joining::offer;
use crate::joining::rendezvous;
use crate::memory::pointers;
use crate::migration::direction;
use crate::ready;
use crate::registry;
use crate::report::stats::Reason;
use crate::segment::{Role, Segment};
use crate::signals::cancel;
use crate::stream::{self, fail};
use crate::sys;
use crate::table::forbidden;
use crate::table::taken::{TakenAll, is_closed};
use crate::table::{self, Entry};
use crate::tracking;

/// Asks for signals as `O_ASYNC` does.
const FIOASYNC: c_ulong = 0x5452;

interpose! {
    fn connect(fd: c_int, address: *const sockaddr, length: c_uint) -> c_int = |next| {
        let possible = length as usize >= size_of::<sa_family_t>();
        let possible = possible && is_address(address, length as c_int);
        // SAFETY: the program says that the address is valid.
        let start = possible.then(|| unsafe { &*address });
        let family = start.map(|it| c_int::from(it.sa_family));
        let inet = matches!(family, Some(libc::AF_INET | libc::AF_INET6));
        let _taken = (family == Some(libc::AF_UNSPEC)).then(|| close::disconnect(fd));
        let result = next(fd, address, length);
        let begun = result == 0 || sys::errno() == libc::EINPROGRESS;
        if inet && begun {
            // The port comes first in the addresses of both families.
            let port = start.map_or([0; 2], |it| [it.sa_data[0] as u8, it.sa_data[1] as u8]);
            connecting(fd, u16::from_be_bytes(port));
        }
        result
    }
}

/// Remembers that a socket connects with a server's port.
fn connecting(fd: c_int, port: u16) {
    match table::entry(fd) {
        Entry::Unknown if !registry::is_watched(fd) => tracking::track(fd, Role::Client, port),
        Entry::Connection(_) | Entry::Unplaced => {
            if let Some(guard) = table::enter(fd) {
                attach::meet_server(&guard, port);
            }
        }
        _ => {}
    }
}

interpose! {
    fn listen(fd: c_int, backlog: c_int) -> c_int = |next| {
        let result = next(fd, backlog);
        if result == 0 && table::is_owner() {
            // It is not one that will be connected.
            table::forget_listener(fd);
        }
        result
    }
}

interpose! {
    fn accept(fd: c_int, address: *mut sockaddr, length: *mut c_uint) -> c_int = |next| {
        let accepted = rendezvous::with_room(|| next(fd, address, length));
        if accepted >= 0 {
            tracking::track_accepted(accepted, fd);
            bare_calls::expect();
        }
        accepted
    }
}

interpose! {
    fn accept4(
        fd: c_int, address: *mut sockaddr, length: *mut c_uint, flags: c_int,
    ) -> c_int = |next| {
        let accepted = rendezvous::with_room(|| next(fd, address, length, flags));
        if accepted >= 0 {
            tracking::track_accepted(accepted, fd);
            bare_calls::expect();
        }
        accepted
    }
}

interpose! {
    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut c_uint) -> c_int = |next| {
        if close::has_no_peer(fd) {
            return fail(libc::ENOTCONN) as c_int;
        }
        next(fd, address, length)
    }
}

interpose! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = |next| {
        let fd = rendezvous::with_room(|| next(domain, kind, protocol));
        if fd >= 0 {
            tracking::drop_stale(fd);
            registry::mark_watched(fd, false);
            let inet = matches!(domain, libc::AF_INET | libc::AF_INET6);
            // The upper bits are flags.
            let stream = kind & 0xf == libc::SOCK_STREAM;
            if inet && stream && matches!(protocol, 0 | libc::IPPROTO_TCP) {
                table::note_stream(fd);
            }
        }
        fd
    }
}

interpose! {
    fn close(fd: c_int) -> c_int = |next| {
        // One that was cancelled before ends here, and closes nothing.
        cancel::look();
        let is_none = table::entry(fd) == Entry::Unplaced && is_closed(fd);
        if is_none && table::is_owner() {
            return fail(libc::EBADF) as c_int;
        }
        yielding::yield_number(fd);
        let _taken = crate::close::forget(fd);
        next(fd)
    }
}

/// Closes the descriptors of a range by a call that does, but for those by which the library goes on.
pub fn close_between(
    first: c_uint,
    last: c_uint,
    flags: c_int,
    close: impl Fn(c_uint, c_uint, c_int) -> c_int,
) -> c_int {
    const UNSHARE: c_int = 2;
    // All others are refused, but for CLOSE_RANGE_CLOEXEC, which closes nothing.
    if flags & !UNSHARE != 0 || first > last {
        return close(first, last, flags);
    }
    yielding::yield_between(first, last);
    let mut from = first;
    let mut all = TakenAll::NONE;
    for (fd, entry) in table::known().filter(|(fd, _)| (first..=last).contains(&(*fd as u32))) {
        if entry != Entry::Own {
            all.add(crate::close::forget(fd));
            continue;
        }
        let fd = fd as c_uint;
        if fd > from {
            let result = close(from, fd - 1, flags);
            if result != 0 {
                return result;
            }
        }
        from = fd + 1;
    }
    if from > last { 0 } else { close(from, last, flags) }
}

interpose! {
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |next| {
        close_between(first, last, flags, next)
    }
}

interpose! {
    fn closefrom(first: c_int) -> () = |next| {
        // SAFETY: takes no memory.
        if unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) } != 0 {
            next(first);
        }
    }
}

interpose! {
    fn dup(fd: c_int) -> c_int = |next| {
        duplicate(fd, || rendezvous::with_room(|| next(fd)))
    }
}

fn duplicate(fd: c_int, make: impl FnOnce() -> c_int) -> c_int {
    let copy = close::duplicate(fd, make);
    depart_for_stdio(fd, copy);
    copy
}

/// Whether the kernel refuses to duplicate a descriptor onto this number, so that the number keeps
/// its meaning.
fn is_refused(fd: c_int, number: c_int) -> bool {
    // Once a filter is set nothing more can be lost, and only the program's own calls may be made.
    let is_filtered = forbidden::reason() == Some(Reason::Filter);
    if table::entry(number) == Entry::Unknown || is_filtered {
        return false;
    }
    let _errno = sys::KeepErrno::new();
    number as u64 >= sys::descriptor_limit(None).rlim_cur
        || sys::fcntl(fd, libc::F_GETFD, 0).is_err()
}

/// To be called before or after a descriptor is duplicated to another number: the C library's own
/// streams bypass this library.
fn depart_for_stdio(fd: c_int, copy: c_int) {
    if offer::is_of_stdio(copy) && table::is_owner() {
        depart(fd, Reason::Stdio);
    }
}

interpose! {
    fn dup2(fd: c_int, copy: c_int) -> c_int = |next| {
        if fd == copy || is_refused(fd, copy) {
            return next(fd, copy);
        }
        depart_for_stdio(fd, copy);
        yielding::yield_number(copy);
        close::put_at(fd, copy, |fd| next(fd, copy))
    }
}

interpose! {
    fn dup3(fd: c_int, copy: c_int, flags: c_int) -> c_int = |next| {
        if fd == copy || flags & !libc::O_CLOEXEC != 0 || is_refused(fd, copy) {
            return next(fd, copy, flags);
        }
        depart_for_stdio(fd, copy);
        yielding::yield_number(copy);
        close::put_at(fd, copy, |fd| next(fd, copy, flags))
    }
}

/// Makes the program's `fcntl`, and learns what there is to learn from it.
fn control(fd: c_int, command: c_int, argument: usize, next: impl Fn() -> c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return duplicate(fd, || rendezvous::with_room(next));
    }
    let result = next();
    if command == libc::F_SETFL && result == 0 {
        set_nonblocking(fd, argument & libc::O_NONBLOCK as usize != 0);
        if argument & libc::O_ASYNC as usize != 0 {
            leave_to_signals(fd);
        }
    }
    result
}

/// Signals that say that bytes have arrived are the kernel's.
fn leave_to_signals(fd: c_int) {
    if let Some(guard) = table::enter(fd) {
        direction::back(&guard, Reason::Option);
    }
}

/// One that is not yet accelerated is asked when it is.
fn set_nonblocking(fd: c_int, nonblocking: bool) {
    if let Some(guard) = table::enter_placed(fd) {
        guard.connection.nonblocking.store(nonblocking, Ordering::Relaxed);
    }
}

interpose! {
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = |next| {
        control(fd, command, argument, || next(fd, command, argument))
    }
}

interpose! {
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = |next| {
        control(fd, command, argument, || next(fd, command, argument))
    }
}

/// How many bytes a joined connection holds, for `FIONREAD` and `SIOCOUTQ`; `None` if the kernel
/// knows. Bytes in the ring count as delivered: TCP would have acknowledged them.
fn queued(fd: c_int, request: c_ulong) -> Option<u64> {
    let guard = table::enter_placed(fd).filter(|_| ready::is_joined(fd))?;
    let (connection, segment) = (guard.connection, guard.connection.segment()?);
    if request == libc::FIONREAD {
        return stream::unread(&guard, &segment);
    }
    connection.switched_out.load(Ordering::Acquire).then_some(0)
}

/// Whether the ring of a connection that goes back is not yet read, behind which an urgent mark stands.
fn is_before_mark(fd: c_int) -> bool {
    let Some(guard) = table::enter_placed(fd).filter(|_| ready::is_joined(fd)) else {
        return false;
    };
    let Some(segment) = guard.connection.segment().filter(Segment::has_ended) else { return false };
    direction::settle(&guard, &segment);
    segment.way(guard.connection.role().peer()).pointers.filling() > 0
}

interpose! {
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = |next| {
        let number = argument.cast::<c_int>();
        match request & 0xffff_ffff {
            // SIOCINQ is the same as FIONREAD, and TIOCOUTQ as SIOCOUTQ.
            queue @ (libc::FIONREAD | libc::TIOCOUTQ) => {
                if let Some(count) = queued(fd, queue).filter(|_| pointers::is_there(number)) {
                    // SAFETY: the program says that there is a number to fill in.
                    unsafe { *number = count as c_int };
                    return 0;
                }
                next(fd, request, argument)
            }
            sys::SIOCATMARK if is_before_mark(fd) && pointers::is_there(number) => {
                // SAFETY: the program says that there is a number to fill in.
                unsafe { *number = 0 };
                0
            }
            libc::FIONBIO => {
                let result = next(fd, request, argument);
                if result == 0 {
                    // SAFETY: the kernel has just read this number.
                    set_nonblocking(fd, unsafe { *number } != 0);
                }
                result
            }
            FIOASYNC => {
                let result = next(fd, request, argument);
                // SAFETY: the kernel has just read this number.
                if result == 0 && unsafe { *number } != 0 {
                    leave_to_signals(fd);
                }
                result
            }
            _ => next(fd, request, argument),
        }
    }
}

interpose! {
    fn epoll_create(size: c_int) -> c_int = |next| {
        let fd = rendezvous::with_room(|| next(size));
        if fd >= 0 {
            registry::track(fd);
        }
        fd
    }
}

interpose! {
    fn epoll_create1(flags: c_int) -> c_int = |next| {
        let fd = rendezvous::with_room(|| next(flags));
        if fd >= 0 {
            registry::track(fd);
        }
        fd
    }
}
