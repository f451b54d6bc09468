//! What an edge is: which changes of a connection are told to a registration that is told of changes.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::table::{Guard, Registration, Reported};

/// By which events the kernel wakes when bytes arrive, and when there is room again.
const ARRIVAL: c_int = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND;
pub const SPACE: c_int = libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND;

/// Whether something that the program asked for has happened since the last report: bytes arrived,
/// the end came, a full ring has room again, or the program has shut the connection down, of whatever it
/// asked for. What is then reported is what there is by now.
pub fn is_edge(before: &Reported, now: &Reported, asked: u32) -> bool {
    let asks = |bits: c_int| asked & bits as u32 != 0;
    let room = now.mask & libc::EPOLLOUT as u32 != 0;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
    !before.valid
        || before.shut != now.shut
        || (asks(ARRIVAL) && before.written != now.written)
        || (asks(SPACE) && before.filled != now.filled && room)
        || now.mask & !before.mask & ended != 0
}

/// Whether nothing but an arrival can make the connection have an event, as far as the other end
/// decides.
pub fn waits_for_bytes(registration: &Registration, guard: &Guard) -> bool {
    let connection = guard.connection;
    let room = registration.events & SPACE as u32 == 0
        || registration.events & libc::EPOLLET as u32 != 0
            && registration.reported.filled == connection.filled.load(Ordering::Relaxed);
    let switched = connection.switched_in.load(Ordering::Relaxed)
        && connection.switched_out.load(Ordering::Relaxed);
    registration.disabled || room && switched
}
