//! A connection in the place of another.

use std::mem::size_of;

use libc::{c_int, c_long, c_void};

use super::{move_high, with_room};
use crate::sys::{Errno, call, close, fcntl, set_socket_option, socket_option};

/// Two ends of a new TCP connection of this host, of the family of `like` and on its address.
pub fn connection_pair(like: c_int) -> Result<[c_int; 2], Errno> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    call!(libc::SYS_getsockname, like, &raw mut address, &raw mut length)?;
    // The port stands at the same place in both families.
    address.sin6_port = 0;
    let family = c_int::from(address.sin6_family);
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // The program may be using all numbers that it is allowed, and each of these sockets has one of
    // them at first.
    let new = || call!(libc::SYS_socket, family, kind, 0);
    let socket = || move_high(with_room(new)? as c_int);
    let listener = socket()?;
    let connected = socket().and_then(|near| {
        call!(libc::SYS_bind, listener, &raw const address, length)?;
        call!(libc::SYS_listen, listener, 1)?;
        call!(libc::SYS_getsockname, listener, &raw mut address, &raw mut length)?;
        call!(libc::SYS_connect, near, &raw const address, length)?;
        let none: *mut c_void = std::ptr::null_mut();
        let take = || call!(libc::SYS_accept4, listener, none, none, libc::SOCK_CLOEXEC);
        loop {
            let far = move_high(with_room(take)? as c_int)?;
            // Anybody may connect to the listener meanwhile.
            if names(libc::SYS_getpeername, far) == names(libc::SYS_getsockname, near) {
                return Ok([near, far]);
            }
            close(far);
        }
    });
    close(listener);
    if let Ok(pair) = connected {
        copy_options(like, pair[0]);
        for fd in pair {
            let one: c_int = 1;
            let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
            let _ = call!(libc::SYS_setsockopt, fd, level, name, &raw const one, 4);
        }
    }
    connected
}

/// The address that a call returns for an end of a connection.
fn names(asked: c_long, fd: c_int) -> Option<[u8; 28]> {
    let (mut address, mut length) = ([0u8; 28], 28u32);
    call!(asked, fd, address.as_mut_ptr(), &raw mut length).ok().map(|_| address)
}

/// Copies the options that a program notices from one connection to another: timeouts, linger,
/// keepalive, buffer sizes, and who gets its signals.
fn copy_options(from: c_int, to: c_int) {
    let (socket, tcp) = (libc::SOL_SOCKET, libc::IPPROTO_TCP);
    let options = [
        (socket, libc::SO_RCVTIMEO),
        (socket, libc::SO_SNDTIMEO),
        (socket, libc::SO_LINGER),
        (socket, libc::SO_KEEPALIVE),
        (socket, libc::SO_OOBINLINE),
        (socket, libc::SO_RCVLOWAT),
        (socket, libc::SO_REUSEADDR),
        // This sets the priority too.
        (libc::IPPROTO_IP, libc::IP_TOS),
        (socket, libc::SO_PRIORITY),
        (tcp, libc::TCP_KEEPIDLE),
        (tcp, libc::TCP_KEEPINTVL),
        (tcp, libc::TCP_KEEPCNT),
        (tcp, libc::TCP_USER_TIMEOUT),
    ];
    for (level, name) in options {
        let (mut value, mut room) = ([0u8; 16], 16u32);
        let place = value.as_mut_ptr();
        if call!(libc::SYS_getsockopt, from, level, name, place, &raw mut room).is_ok() {
            let _ = call!(libc::SYS_setsockopt, to, level, name, place, room);
        }
    }
    copy_lengths(from, to);
    copy_owner(from, to);
}

/// Copies the sizes of the socket buffers that the program has set, which Linux 5.14 and later
/// report.
fn copy_lengths(from: c_int, to: c_int) {
    const SO_BUF_LOCK: c_int = 72;
    let socket = libc::SOL_SOCKET;
    let set = socket_option::<c_int>(from, socket, SO_BUF_LOCK).unwrap_or(0);
    for (bit, name) in [(1, libc::SO_SNDBUF), (2, libc::SO_RCVBUF)] {
        if set & bit != 0
            && let Ok(length) = socket_option::<c_int>(from, socket, name)
        {
            // The kernel reports twice the size that was set.
            let _ = set_socket_option(to, socket, name, length / 2);
        }
    }
}

/// Copies who gets the signals of an urgent byte, and which signal.
fn copy_owner(from: c_int, to: c_int) {
    const F_SETSIG: c_int = 10;
    const F_GETSIG: c_int = 11;
    const F_SETOWN_EX: c_int = 15;
    const F_GETOWN_EX: c_int = 16;
    let mut owner = [0 as c_int; 2];
    let place = owner.as_mut_ptr();
    if call!(libc::SYS_fcntl, from, F_GETOWN_EX, place).is_ok() && owner[1] != 0 {
        let _ = call!(libc::SYS_fcntl, to, F_SETOWN_EX, place);
    }
    if let Ok(signal) = fcntl(from, F_GETSIG, 0) {
        let _ = fcntl(to, F_SETSIG, signal);
    }
}
