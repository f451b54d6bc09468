//! What an edge is: the changes of a connection that an edge-triggered registration reports.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::ready;
use crate::registry::SPACE;
use crate::registry::links::News;
use crate::segment::{Segment, closed};
use crate::table::{Guard, Registration, Reported};

/// By which events the kernel wakes when bytes arrive.
const ARRIVAL: c_int = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND;
/// Set in what was reported, above all events, once the other end sends no more: an edge also where this end
/// had shut down its receiving before, of which its events are the same.
const PEER_DONE: u32 = 1 << 16;

/// What a followed connection has to tell the program, if anything. Once it is the kernel's again, the
/// kernel tells.
pub fn news(registration: &Registration, guard: &Guard, segment: &Segment) -> Option<News> {
    let (events, now) = (!registration.disabled).then(|| state(registration, guard, segment))??;
    let before = &registration.reported;
    let by_edges = registration.events & libc::EPOLLET as u32 != 0;
    let from = if by_edges && before.valid { before.written } else { 0 };
    let is_news = events != 0 && (!by_edges || is_edge(before, &now, registration.events));
    is_news.then_some(News { events, from, now })
}

/// The requested events that the connection has now, and the state against which the next edge is
/// determined. `None` if the kernel reports them.
pub fn state(
    registration: &Registration,
    guard: &Guard,
    segment: &Segment,
) -> Option<(u32, Reported)> {
    // Read before the events: what arrives in between is an edge of its own at the next pass. In
    // the other order it would count as reported, although this event need not be the one that it
    // causes.
    let written = segment.way(guard.connection.role().peer()).pointers.arrivals();
    let filled = guard.connection.filled.load(Ordering::Relaxed);
    let changes = guard.connection.changes.load(Ordering::Acquire);
    let asks_room = registration.events & SPACE as u32 != 0;
    let mask = ready::events_for(guard, segment, asks_room) as u16 as u32;
    if guard.connection.is_told_by_kernel() {
        return None;
    }
    let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    let events = mask & (registration.events | always);
    let peer = guard.connection.role().peer();
    let done = segment.way(peer).detour.is_finished()
        || segment.side(peer).closed.load(Ordering::Acquire) != closed::OPEN;
    let mask = mask | if done { PEER_DONE } else { 0 };
    Some((events, Reported { valid: true, written, filled, changes, mask }))
}

/// Whether something that the program asked for has happened since the last report (bytes arrived,
/// the stream ended, a full ring has room again), or, whatever it asked for, the program has shut
/// the connection down or has nearly left it. The report then contains all that holds by now.
pub fn is_edge(before: &Reported, now: &Reported, asked: u32) -> bool {
    let asks = |bits: c_int| asked & bits as u32 != 0;
    let room = now.mask & libc::EPOLLOUT as u32 != 0;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 | PEER_DONE;
    !before.valid
        || before.changes != now.changes
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
