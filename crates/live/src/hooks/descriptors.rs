//! Making, copying and closing descriptors, and their settings.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, c_ulong, c_void, sockaddr};

use crate::bare_calls;
use crate::close;
use crate::departure::depart;
use crate::epoll;
use crate::ready;
use crate::real::interpose;
use crate::segment::Role;
use crate::stats::Reason;
use crate::stream::fail;
use crate::sys;
use crate::table::{self, Entry};
use crate::turn;

/// Asks for signals as `O_ASYNC` does.
const FIOASYNC: c_ulong = 0x5452;

/// The receive timeout with 64-bit seconds on 32-bit machines.
const SO_RCVTIMEO_NEW: c_int = 66;
/// The same for sending.
const SO_SNDTIMEO_NEW: c_int = 67;

interpose! {
    fn connect(fd: c_int, address: *const sockaddr, length: c_uint) -> c_int = |next| {
        // SAFETY: the program says that the address is valid.
        let start = unsafe { address.as_ref() };
        let family = start.map_or(0, |it| c_int::from(it.sa_family));
        let inet = family == libc::AF_INET || family == libc::AF_INET6;
        if family == libc::AF_UNSPEC {
            close::disconnect(fd);
        }
        let result = next(fd, address, length);
        let begun = result == 0 || sys::errno() == libc::EINPROGRESS;
        if inet && begun && table::entry(fd) == Entry::Unknown {
            // The port comes first in the addresses of both families.
            let port = start.map_or([0; 2], |it| [it.sa_data[0] as u8, it.sa_data[1] as u8]);
            table::track(fd, Role::Client, u16::from_be_bytes(port));
        }
        result
    }
}

interpose! {
    fn accept(fd: c_int, address: *mut sockaddr, length: *mut c_uint) -> c_int = |next| {
        let accepted = next(fd, address, length);
        if accepted >= 0 {
            table::track_accepted(accepted, fd);
            bare_calls::expect();
        }
        accepted
    }
}

interpose! {
    fn accept4(
        fd: c_int, address: *mut sockaddr, length: *mut c_uint, flags: c_int,
    ) -> c_int = |next| {
        let accepted = next(fd, address, length, flags);
        if accepted >= 0 {
            table::track_accepted(accepted, fd);
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
        let fd = next(domain, kind, protocol);
        if fd >= 0 {
            table::drop_stale(fd);
        }
        fd
    }
}

interpose! {
    fn close(fd: c_int) -> c_int = |next| {
        if table::entry(fd) == Entry::Own && table::is_owner() {
            return fail(libc::EBADF) as c_int;
        }
        crate::close::forget(fd);
        next(fd)
    }
}

interpose! {
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = |next| {
        // CLOSE_RANGE_UNSHARE and CLOSE_RANGE_CLOEXEC: the latter closes nothing.
        if flags & 4 != 0 || first > last {
            return next(first, last, flags);
        }
        let mut from = first;
        for (fd, entry) in table::known().filter(|(fd, _)| (first..=last).contains(&(*fd as u32))) {
            if entry != Entry::Own {
                crate::close::forget(fd);
                continue;
            }
            let fd = fd as c_uint;
            if fd > from {
                let result = next(from, fd - 1, flags);
                if result != 0 {
                    return result;
                }
            }
            from = fd + 1;
        }
        if from > last { 0 } else { next(from, last, flags) }
    }
}

interpose! {
    fn closefrom(first: c_int) -> () = |next| {
        for (fd, _) in table::known().filter(|(fd, _)| *fd >= first) {
            crate::close::forget(fd);
        }
        // SAFETY: takes no memory.
        if unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) } != 0 {
            next(first);
        }
    }
}

interpose! {
    fn dup(fd: c_int) -> c_int = |next| {
        let copy = next(fd);
        close::duplicated(fd, copy);
        copy
    }
}

/// The C library's streams may read and write the first three numbers, past this library.
fn depart_for_stdio(fd: c_int, copy: c_int) {
    if (0..=2).contains(&copy) && table::is_owner() {
        depart(fd, Reason::Stdio);
    }
}

interpose! {
    fn dup2(fd: c_int, copy: c_int) -> c_int = |next| {
        if fd == copy {
            return next(fd, copy);
        }
        depart_for_stdio(fd, copy);
        close::forget(copy);
        let result = next(fd, copy);
        close::duplicated(fd, result);
        result
    }
}

interpose! {
    fn dup3(fd: c_int, copy: c_int, flags: c_int) -> c_int = |next| {
        if fd == copy {
            return next(fd, copy, flags);
        }
        depart_for_stdio(fd, copy);
        close::forget(copy);
        let result = next(fd, copy, flags);
        close::duplicated(fd, result);
        result
    }
}

/// What the library learns from a successful `fcntl`.
fn after_fcntl(fd: c_int, command: c_int, argument: usize, result: c_int) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => close::duplicated(fd, result),
        libc::F_SETFL if result == 0 => {
            set_nonblocking(fd, argument & libc::O_NONBLOCK as usize != 0);
            if argument & libc::O_ASYNC as usize != 0 {
                leave_to_signals(fd);
            }
        }
        _ => {}
    }
}

/// Signals that say that bytes have arrived are the kernel's.
fn leave_to_signals(fd: c_int) {
    if let Some(guard) = table::enter(fd) {
        turn::back(&guard, Reason::Option);
    }
}

/// One that is not yet carried is asked when it is.
fn set_nonblocking(fd: c_int, nonblocking: bool) {
    if let Some(guard) = table::enter_placed(fd) {
        guard.connection.nonblocking.store(nonblocking, Ordering::Relaxed);
    }
}

interpose! {
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int = |next| {
        let result = next(fd, command, argument);
        after_fcntl(fd, command, argument, result);
        result
    }
}

interpose! {
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int = |next| {
        let result = next(fd, command, argument);
        after_fcntl(fd, command, argument, result);
        result
    }
}

/// How many bytes a joined connection's rings hold, for `FIONREAD` and `SIOCOUTQ`; `None` if the
/// direction is the kernel's.
fn queued(fd: c_int, request: c_ulong) -> Option<u64> {
    let guard = table::enter_placed(fd).filter(|_| ready::is_joined(fd))?;
    let (connection, segment) = (guard.connection, guard.connection.segment()?);
    let (switched, writer) = if request == libc::FIONREAD {
        (&connection.switched_in, connection.role().peer())
    } else {
        (&connection.switched_out, connection.role())
    };
    let filling = segment.way(writer).pointers.filling();
    switched.load(Ordering::Acquire).then_some(filling.min(segment.capacity().bytes()))
}

interpose! {
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = |next| {
        match request & 0xffff_ffff {
            // SIOCINQ is the same as FIONREAD, and TIOCOUTQ as SIOCOUTQ.
            queue @ (libc::FIONREAD | libc::TIOCOUTQ) => {
                if let Some(count) = queued(fd, queue) {
                    // SAFETY: the program says that there is a number to fill in.
                    unsafe { *argument.cast::<c_int>() = count as c_int };
                    return 0;
                }
                next(fd, request, argument)
            }
            libc::FIONBIO => {
                let result = next(fd, request, argument);
                if result == 0 {
                    // SAFETY: the kernel has just read this number.
                    set_nonblocking(fd, unsafe { *argument.cast::<c_int>() } != 0);
                }
                result
            }
            FIOASYNC => {
                let result = next(fd, request, argument);
                // SAFETY: the kernel has just read this number.
                if result == 0 && unsafe { *argument.cast::<c_int>() } != 0 {
                    leave_to_signals(fd);
                }
                result
            }
            _ => next(fd, request, argument),
        }
    }
}

/// Whether a socket option means the same to a carried connection as to the kernel's. With any
/// other the connection is the kernel's.
fn is_harmless(level: c_int, name: c_int) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_DEBUG
                | libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_KEEPALIVE
                | libc::SO_LINGER
                | libc::SO_SNDBUF
                | libc::SO_RCVBUF
                | libc::SO_SNDTIMEO
                | libc::SO_RCVTIMEO
                | SO_RCVTIMEO_NEW
                | SO_SNDTIMEO_NEW
                | libc::SO_PRIORITY
                | libc::SO_DONTROUTE
                | libc::SO_BROADCAST
                | libc::SO_BUSY_POLL
                | libc::SO_INCOMING_CPU
        ),
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_NODELAY
                | libc::TCP_CORK
                | libc::TCP_KEEPIDLE
                | libc::TCP_KEEPINTVL
                | libc::TCP_KEEPCNT
                | libc::TCP_QUICKACK
                | libc::TCP_USER_TIMEOUT
                | libc::TCP_CONGESTION
                | libc::TCP_MAXSEG
                | libc::TCP_SYNCNT
                | libc::TCP_LINGER2
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_WINDOW_CLAMP
                | libc::TCP_NOTSENT_LOWAT
                | libc::TCP_FASTOPEN
        ),
        libc::IPPROTO_IP => matches!(name, libc::IP_TOS | libc::IP_TTL),
        libc::IPPROTO_IPV6 => {
            matches!(name, libc::IPV6_TCLASS | libc::IPV6_UNICAST_HOPS | libc::IPV6_V6ONLY)
        }
        _ => false,
    }
}

interpose! {
    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: c_uint,
    ) -> c_int = |next| {
        if !is_harmless(level, name)
            && let Some(guard) = table::enter(fd)
        {
            // Where that cannot be, the rest of the ring is still read here.
            let _ = turn::leave(&guard, Reason::Option);
        }
        let result = next(fd, level, name, value, length);
        let timeouts = [libc::SO_RCVTIMEO, SO_RCVTIMEO_NEW];
        if result == 0
            && level == libc::SOL_SOCKET
            && timeouts.contains(&name)
            && let Some(guard) = table::enter_placed(fd)
        {
            let times_out = sys::timeout_option(fd, libc::SO_RCVTIMEO).is_some();
            guard.connection.times_out.store(times_out, Ordering::Relaxed);
        }
        result
    }
}

interpose! {
    fn epoll_create(size: c_int) -> c_int = |next| {
        let fd = next(size);
        if fd >= 0 {
            epoll::track(fd);
        }
        fd
    }
}

interpose! {
    fn epoll_create1(flags: c_int) -> c_int = |next| {
        let fd = next(flags);
        if fd >= 0 {
            epoll::track(fd);
        }
        fd
    }
}
