//! The end of a connection, as this process tells the other end of it.

use std::mem::size_of;
use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::{Begun, Inlet};

use crate::joining::{attach, rendezvous, worth};
use crate::migration::{answering, direction};
use crate::options;
use crate::peer::doorbell;
use crate::segment::{Segment, closed};
use crate::sys;
use crate::table::figures;
use crate::table::holders::{self, Looked};
use crate::table::{Connection, Event, Guard, Phase};

/// How long a closing end waits for a doorbell that was announced, in nanoseconds: its ringer has lost
/// its processor, or the kernel has yet to deliver it.
const LAST_DOORBELL: u64 = 1_000_000_000;

/// Tells the other end how this one closes, once no thread of this process is in a call on it.
pub fn say_how(guard: &Guard) {
    let connection = guard.connection;
    if connection.phase() >= Phase::JOINED {
        figures::say(connection);
    }
    if connection.is_disconnected() {
        return is_kernels_now(connection);
    }
    holders::bury(connection, &mut Looked::default());
    let last = connection.holders.load(Ordering::SeqCst) == 1;
    let is_others = guard.local().let_go.load(Ordering::SeqCst);
    if !last || is_others {
        // The other processes may have been killed: then a doorbell left there would turn the end
        // into a reset.
        if connection.phase() == Phase::JOINED
            && let Some(segment) = connection.segment()
        {
            answer_last_doorbells(guard, &segment);
        }
        return;
    }
    attach::say_why_not(connection);
    rendezvous::leave(connection);
    worth::learn(connection);
    if connection.phase() == Phase::JOINED
        && let Some(segment) = connection.segment()
    {
        if segment.has_ended() {
            direction::send_rest(guard, &segment);
        }
        say_goodbye(guard, &segment);
    } else {
        // There is nothing to count.
        connection.on(Event::Closed);
    }
}

/// Tells the other end how this one closes, so that the kernel's own end of the connection, which
/// doorbells may turn into a reset, is not misread.
fn say_goodbye(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    end_doorbells(guard, segment);
    let unread = has_unread(guard, segment);
    let told = guard.local().resets.swap(false, Ordering::SeqCst);
    let aborting = !told && options::aborts(guard.socket());
    // A connection of which both directions have ended is over: there is nothing left to reset.
    let finished = segment.way(connection.role().peer()).detour.is_finished();
    let over = finished && connection.write_shut.load(Ordering::Acquire);
    let reset = (unread || aborting) && !over;
    if reset || aborting || told {
        set_linger(guard.socket(), [c_int::from(reset), 0]);
    }
    let how = if reset { closed::RESET } else { closed::ORDERLY };
    segment.postmarks(connection.role()).end();
    segment.side(connection.role()).closed.store(how, Ordering::Release);
    if reset && connection.write_shut.load(Ordering::Acquire) {
        // The kernel would have sent this before the reset; after the reset it would report
        // something else.
        sys::shutdown(guard.socket(), libc::SHUT_WR);
    }
    wake_peer(guard, segment);
    is_kernels_now(connection);
}

/// Whether bytes are left unread at this end, for which the kernel resets a connection that is closed.
fn has_unread(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    match connection.receiving() {
        Some(mut receiving) => match direction::inlet(guard, segment, &mut receiving) {
            Some(Inlet::Before { .. } | Inlet::After) => {
                sys::unread_bytes(guard.socket()).unwrap_or(0) > 0
            }
            Some(Inlet::Ring) => {
                let way = segment.way(connection.role().peer());
                receiving.reader.available(&way.pointers, u64::MAX).map_or(true, |count| count > 0)
            }
            Some(Inlet::Doorbells(_) | Inlet::Settling) | None => false,
        },
        None => false,
    }
}

/// Makes the kernel reset a connection whose detours have ended and whose process is about to end,
/// if bytes are left unread in the ring, which the kernel does not know of. Returns whether it had
/// to be made to.
pub fn reset_at_end(guard: &Guard, segment: &Segment) -> bool {
    let tells =
        segment.has_ended() && has_unread(guard, segment) && !options::aborts(guard.socket());
    if tells {
        if guard.connection.write_shut.load(Ordering::Acquire)
            && let Some(mut sending) = guard.connection.sending()
        {
            // The kernel may not know yet that this end sends no more: a reset after that says another thing.
            let _ = direction::come_back(guard, segment, &mut sending);
        }
        set_linger(guard.socket(), [1, 0]);
    }
    tells
}

/// Leaves a joined connection to the kernel, which ends it.
pub fn is_kernels_now(connection: &Connection) {
    if connection.returns() {
        figures::closed(connection);
    }
}

/// Reads the last doorbells from the kernel's stream before a process ends that alone knows of
/// them.
pub fn end_doorbells_of(guard: &Guard) {
    let segment = guard.connection.segment();
    if let Some(segment) = segment.filter(|_| guard.connection.phase() == Phase::JOINED) {
        end_doorbells(guard, &segment);
    }
}

/// Reads the last doorbells from the kernel's stream: one that lay there unread, or came late,
/// would turn an end of stream into a reset.
pub fn end_doorbells(guard: &Guard, segment: &Segment) {
    segment.way(guard.connection.role().peer()).detour.silence();
    // A handler that interrupts this may close the number, too.
    let over = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP | libc::POLLNVAL;
    let until = sys::now() + LAST_DOORBELL;
    loop {
        let gone = sys::poll_now(guard.socket(), over) & over != 0;
        answer_last_doorbells(guard, segment);
        if gone || !are_doorbells_due(guard.connection, segment) || sys::now() > until {
            return;
        }
        sys::poll(guard.socket(), libc::POLLIN, 100_000);
    }
}

/// Reads those doorbells from the kernel's stream that are there, before this end goes.
pub fn answer_last_doorbells(guard: &Guard, segment: &Segment) {
    if guard.connection.switched_in.load(Ordering::Acquire) {
        answering::answer_doorbells(guard);
    } else if are_doorbells_due(guard.connection, segment) && !guard.connection.is_slept_on() {
        // Nothing was ever read from the ring.
        direction::discard(guard, segment);
    }
}

/// Whether a doorbell has yet to be read from the kernel's stream, with no unread byte before it.
fn are_doorbells_due(connection: &Connection, segment: &Segment) -> bool {
    let detour = &segment.way(connection.role().peer()).detour;
    let taken = connection.taken.load(Ordering::Acquire);
    match detour.begun() {
        Begun::After(begun)
            if taken >= begun && !connection.returned_in.load(Ordering::Acquire) =>
        {
            detour.is_ringing()
                || (begun..begun.saturating_add(detour.doorbells())).contains(&taken)
        }
        _ => false,
    }
}

/// Wakes the other end, wherever it sleeps.
pub fn wake_peer(guard: &Guard, segment: &Segment) {
    let role = guard.connection.role();
    doorbell::wake(guard, &segment.way(role).arrived);
    doorbell::wake(guard, &segment.way(role.peer()).freed);
}

/// Sets whether, and after how many seconds, the kernel resets a connection that is closed.
pub fn set_linger(fd: c_int, linger: [c_int; 2]) {
    let length = size_of::<[c_int; 2]>();
    // SAFETY: the option has this length.
    unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
        sys::bare!(libc::SYS_setsockopt, fd, level, name, &raw const linger, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use weft_protocol::detour::{Ringing, Sender};

    /// A handler that interrupts the closing thread may have closed it.
    #[test]
    fn nobody_waits_for_the_doorbells_of_a_number_that_is_none() {
        let sample = Sample::new();
        let (mut guard, segment) = sample.enter();
        let detour = &segment.way(guard.connection.role().peer()).detour;
        Sender::default().begin(detour, 0);
        assert!(matches!(detour.ring(), Ringing::Ring));
        assert!(are_doorbells_due(guard.connection, &segment));
        let begun = sys::now();
        end_doorbells(&guard, &segment);
        assert!(sys::now() - begun >= LAST_DOORBELL, "it is due still");
        guard.fd = 1 << 20;
        let begun = sys::now();
        end_doorbells(&guard, &segment);
        assert!(sys::now() - begun < LAST_DOORBELL);
    }
}
