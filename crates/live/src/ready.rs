//! Which events a connection has, in the bits of `poll`.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::{Begun, Inlet};
use weft_protocol::interrupt_flag::Sleep;

use crate::migration::direction;
use crate::peer::death;
use crate::segment::{Segment, closed};
use crate::spin::Where;
use crate::sys;
use crate::table::{self, Connection, Entry, Guard, Phase, end, taken};
use crate::waiting::wait;

pub const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
pub const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;

/// Whether a descriptor stands for a joined connection.
pub fn is_joined(fd: c_int) -> bool {
    let place = match table::entry(fd) {
        Entry::Connection(place) => place,
        Entry::Unplaced => return taken::await_end(fd) && is_joined(fd),
        _ => return false,
    };
    table::connection(place).is_some_and(|it| it.phase() == Phase::JOINED)
}

/// All events that the connection has now.
pub fn events(guard: &Guard, segment: &Segment) -> i16 {
    events_for(guard, segment, true)
}

/// The events that the connection has now, without room to send unless `asks_room`: the other end
/// updates its read position with each receive, so that reading it here costs a cache miss.
pub fn events_for(guard: &Guard, segment: &Segment, asks_room: bool) -> i16 {
    let connection = guard.connection;
    if connection.is_disconnected() {
        return OUT | libc::POLLHUP | libc::POLLERR;
    }
    if segment.has_ended() && !connection.is_back() {
        direction::settle_to_look(guard, segment);
    }
    let (receives, sends) = (has_switched_in(guard, segment), has_switched_out(connection));
    let mut events = 0;
    if receives {
        events |= incoming(guard, segment);
    }
    if asks_room && sends && wait::may_send(connection, segment) {
        events |= OUT;
    }
    let mut asked = 0;
    if !receives {
        asked |= IN | libc::POLLPRI | libc::POLLRDHUP;
    }
    if !sends {
        asked |= OUT;
    }
    if segment.has_ended() {
        // Behind what is left in the ring stand the kernel's urgent bytes, its end and its reset.
        asked |= libc::POLLPRI | libc::POLLRDHUP;
        if connection.owes_error() {
            events |= libc::POLLERR;
        }
    }
    let is_shut = connection.read_shut.load(Ordering::Acquire);
    if !receives && (is_shut || has_come_to_the_end(guard, segment)) {
        // The kernel has bytes that precede the end, which it does not know of.
        events |= IN | libc::POLLRDHUP;
    }
    if asked != 0 {
        let said = sys::poll_now(guard.socket(), asked);
        events |= said & (asked | libc::POLLHUP | libc::POLLERR);
        if said & libc::POLLRDHUP != 0 {
            events |= IN;
        }
    }
    if events & libc::POLLRDHUP != 0 && connection.write_shut.load(Ordering::Acquire) {
        events |= libc::POLLHUP;
    }
    events
}

/// Whether the receiving direction has switched, looking once more whether it just did.
pub fn has_switched_in(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    if connection.switched_in.load(Ordering::Acquire) {
        return true;
    }
    if connection.returned_in.load(Ordering::Acquire) {
        return false;
    }
    let Some(mut receiving) = connection.receiving_unless_lent() else { return false };
    let inlet = direction::inlet(guard, segment, &mut receiving);
    !matches!(inlet, None | Some(Inlet::Before { .. } | Inlet::After))
}

pub fn has_switched_out(connection: &Connection) -> bool {
    connection.switched_out.load(Ordering::Acquire)
}

/// Whether the other end writes to the ring.
pub fn begins_in_ring(guard: &Guard, segment: &Segment) -> bool {
    matches!(segment.way(guard.connection.role().peer()).detour.begun(), Begun::After(_))
}

/// Whether the other end has ended its stream in the ring.
fn ends_in_ring(connection: &Connection, segment: &Segment) -> bool {
    segment.way(connection.role().peer()).detour.has_said_all()
}

/// Whether the other end has ended its stream in the ring, and all that comes before the ring has come: a
/// program takes what it receives next for the last. The other end's kernel may hold some of it yet.
fn has_come_to_the_end(guard: &Guard, segment: &Segment) -> bool {
    if segment.has_ended() || !ends_in_ring(guard.connection, segment) {
        return false;
    }
    // Held, since who takes bytes counts them later.
    let Some(_receiving) = guard.connection.receiving() else { return false };
    let detour = &segment.way(guard.connection.role().peer()).detour;
    let Begun::After(begun) = detour.begun() else { return true };
    let left = begun.saturating_sub(guard.connection.taken.load(Ordering::Acquire));
    sys::unread_bytes(guard.socket()).map_or(true, |here| here >= left)
}

fn incoming(guard: &Guard, segment: &Segment) -> i16 {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let way = segment.way(peer);
    let mut events = if way.pointers.filling() != 0 { IN } else { 0 };
    let how = segment.side(peer).closed.load(Ordering::Acquire);
    // Once the detours have ended, the end comes by the kernel's stream.
    let here = !segment.has_ended();
    let closed = how != closed::OPEN || connection.end.load(Ordering::Acquire) != end::NONE;
    let gone = here && closed;
    // Unless it is refused, the ring is the last, and the kernel hears of the end later.
    let finished = if here { way.detour.is_finished() } else { direction::ends_with_ring(way) };
    if gone || finished || connection.read_shut.load(Ordering::Acquire) {
        events |= IN | libc::POLLRDHUP;
    }
    if gone {
        events |= death::events(guard);
    }
    // After the end of the stream only the kernel knows which error is left.
    if gone && how == closed::RESET {
        let said = way.detour.is_finished() || connection.reset_said.load(Ordering::Acquire);
        events |= libc::POLLHUP | if said { 0 } else { libc::POLLERR };
    }
    events
}

/// Arms the flags that these events would stimulate.
pub fn arm(connection: &Connection, segment: &Segment, events: i16, sleep: Sleep) {
    let arrived = &segment.way(connection.role().peer()).arrived;
    if !arrived.is_armed(sleep) {
        arrived.arm(sleep);
    }
    if events & OUT != 0 {
        segment.way(connection.role()).freed.arm(sleep);
    }
}

/// The connection to poll for: preferably one whose other end runs on another processor, and so
/// goes on meanwhile.
pub fn nearest<T>(places: impl Iterator<Item = (T, Where)>) -> Option<(T, Where)> {
    let mut best = None;
    for (it, place) in places {
        match place {
            Where::Elsewhere => return Some((it, place)),
            Where::Here => best = best.or(Some((it, place))),
            Where::Unknown => {}
        }
    }
    best
}
