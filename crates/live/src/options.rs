//! Socket options: which of them an accelerated connection honours.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, c_void};

use crate::sys;
use crate::table::Guard;
use crate::table::connection::Connection;

/// The receive timeout with 64-bit seconds on 32-bit machines.
pub const SO_RCVTIMEO_NEW: c_int = 66;
/// The send timeout with 64-bit seconds on 32-bit machines.
const SO_SNDTIMEO_NEW: c_int = 67;

/// The longest value of an option that is compared with the previous one, in bytes.
const LONGEST: usize = 64;

/// Whether an option sets a negative timeout: the kernel then does not wait at all, and afterwards
/// reports that there is no limit.
///
/// # Safety
///
/// The value is null or can be read for its length.
pub unsafe fn is_time_before_now(
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: c_uint,
) -> bool {
    let times = [libc::SO_RCVTIMEO, SO_RCVTIMEO_NEW, libc::SO_SNDTIMEO, SO_SNDTIMEO_NEW];
    level == libc::SOL_SOCKET
        && times.contains(&name)
        && !value.is_null()
        && length as usize >= size_of::<i64>()
        // SAFETY: by the contract of this function.
        && unsafe { value.cast::<i64>().read_unaligned() } < 0
}

/// Whether a socket option means the same to an accelerated connection as to the kernel's. With any
/// other the connection is the kernel's.
pub fn is_harmless(level: c_int, name: c_int) -> bool {
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
                | libc::SO_SNDBUFFORCE
                | libc::SO_RCVBUFFORCE
                | libc::SO_MARK
                | libc::SO_ZEROCOPY
                | libc::SO_OOBINLINE
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
                | libc::TCP_INQ
        ),
        libc::IPPROTO_IP => {
            matches!(name, libc::IP_TOS | libc::IP_TTL | libc::IP_BIND_ADDRESS_NO_PORT)
        }
        libc::IPPROTO_IPV6 => {
            matches!(name, libc::IPV6_TCLASS | libc::IPV6_UNICAST_HOPS | libc::IPV6_V6ONLY)
        }
        _ => false,
    }
}

/// Whether an option is set to what it is already, as servers do that give each connection the
/// options of its listening socket.
///
/// # Safety
///
/// The value has the length that goes with it.
pub unsafe fn changes_nothing(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: c_uint,
) -> bool {
    let (mut now, mut room) = ([0u8; LONGEST], LONGEST as c_uint);
    if value.is_null() || length == 0 || length as usize > LONGEST {
        return false;
    }
    // Not every option can be asked for.
    let _errno = sys::KeepErrno::new();
    let place = now.as_mut_ptr();
    // SAFETY: the place has as much room as is said.
    let asked = unsafe { sys::bare!(libc::SYS_getsockopt, fd, level, name, place, &raw mut room) };
    // SAFETY: by the contract of this function.
    let wanted = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) };
    asked == 0 && room == length && now[..length as usize] == *wanted
}

/// Whether an option that only the kernel honours was set on a connection, perhaps when it was not
/// yet one.
pub fn is_kernels(fd: c_int) -> bool {
    let number = |name| sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, name);
    let switches = [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING];
    number(libc::SO_RCVLOWAT).is_ok_and(|bytes| bytes > 1)
        || number(libc::SO_PEEK_OFF).is_ok_and(|offset| offset >= 0)
        || switches.into_iter().any(|name| number(name).is_ok_and(|value| value != 0))
}

/// Whether the flag of a send without a copy means anything: only the kernel answers one.
pub fn sends_without_copy(fd: c_int) -> bool {
    sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY).is_ok_and(|on| on != 0)
}

/// Whether the kernel resets a connection whenever its last descriptor is closed.
pub fn aborts(fd: c_int) -> bool {
    let linger = sys::socket_option::<[c_int; 2]>(fd, libc::SOL_SOCKET, libc::SO_LINGER);
    linger.is_ok_and(|linger| linger[0] != 0 && linger[1] == 0)
}

/// Learns what a connection was set to that the library does instead of the kernel.
pub fn learn(fd: c_int, connection: &Connection) {
    let times_out = sys::timeout_option(fd, libc::SO_RCVTIMEO).is_some();
    connection.times_out.store(times_out, Ordering::Relaxed);
    let says = sys::socket_option::<c_int>(fd, libc::IPPROTO_TCP, libc::TCP_INQ);
    connection.says_unread.store(says.is_ok_and(|says| says != 0), Ordering::Relaxed);
    if let Some(segment) = connection.segment() {
        segment.side(connection.role()).aborts.store(aborts(fd), Ordering::SeqCst);
    }
}

/// Learns whether the kernel is to hold small segments of a connection back.
pub fn learn_delays(fd: c_int, connection: &Connection) {
    let is_on = |name| sys::socket_option::<c_int>(fd, libc::IPPROTO_TCP, name) != Ok(0);
    Delay::None(is_on(libc::TCP_NODELAY)).note(connection);
    Delay::Cork(is_on(libc::TCP_CORK)).note(connection);
}

/// What the program has set `TCP_NODELAY` or `TCP_CORK` to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    None(bool),
    Cork(bool),
}

impl Delay {
    /// What a call sets, if it is one of these.
    ///
    /// # Safety
    ///
    /// The value has the length that goes with it.
    pub unsafe fn of(
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: c_uint,
    ) -> Option<Self> {
        let which = match (level, name) {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Self::None as fn(bool) -> Self,
            (libc::IPPROTO_TCP, libc::TCP_CORK) => Self::Cork,
            _ => return None,
        };
        let is_number = !value.is_null() && length as usize >= size_of::<c_int>();
        // SAFETY: by the contract of this function.
        is_number.then(|| which(unsafe { value.cast::<c_int>().read_unaligned() } != 0))
    }

    /// Remembers it. To be called before the kernel is told, so that [`push`] leaves it so.
    pub fn note(self, connection: &Connection) {
        match self {
            Self::None(on) => connection.undelayed.store(on, Ordering::SeqCst),
            Self::Cork(on) => connection.corked.store(on, Ordering::SeqCst),
        }
    }
}

/// Makes the kernel send immediately what it holds back: a doorbell is a small segment, which waits
/// some 40 ms for the acknowledgment of the one before, unless the program has set otherwise. The
/// program's options stay as they are.
pub fn push(guard: &Guard) {
    let connection = guard.connection;
    let says_at_once = || connection.undelayed.load(Ordering::SeqCst);
    if says_at_once() && !connection.corked.load(Ordering::SeqCst) {
        return;
    }
    let set = |on: bool| {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        let _ = sys::set_socket_option(guard.socket(), level, name, c_int::from(on));
    };
    // Setting it sends also what a cork holds back.
    set(true);
    let mut now = true;
    // Another thread may say otherwise meanwhile.
    while now != says_at_once() {
        now = !now;
        set(now);
    }
}
