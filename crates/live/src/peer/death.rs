//! The other end's death: detecting it, and reporting it as the kernel would.
//!
//! The kernel's own connection shows a death by the end of its stream, or by a reset if doorbells
//! lay there unread. What the program must see depends on its bytes in the ring: the kernel resets
//! a connection if the killed process has left bytes unread, and otherwise ends it.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::Begun;

use crate::report::stats;
use crate::segment::{Segment, closed};
use crate::sys::{self, Errno};
use crate::table::{Connection, Guard, end};

/// How long the other end may show no activity before the kernel is asked whether it lives, in
/// nanoseconds; up to twice as long, since activity is checked at the same interval.
pub const SILENCE: u64 = 4_000_000;

/// How long to wait for the kernel's response to a byte that nobody reads, in nanoseconds.
const ANSWER: u64 = 10_000_000;

const RESET: i16 = libc::POLLHUP | libc::POLLERR;

/// Asks the kernel whether the other end has closed or died, and remembers that it has. As long as
/// the receiving direction is the kernel's, its end of stream says nothing about the sending one.
pub fn is_gone(guard: &Guard) -> bool {
    let switched = guard.connection.switched_in.load(Ordering::Acquire);
    let segment = guard.connection.segment().filter(|_| switched);
    segment.is_some_and(|segment| is_gone_since_switched(guard, &segment))
}

/// Like [`is_gone`], for a caller that knows that the receiving direction has switched to the ring.
pub fn is_gone_since_switched(guard: &Guard, segment: &Segment) -> bool {
    stats::count(|stats| &stats.looks, 1);
    ask(guard, segment)
}

/// Whether the other end is gone, for a caller that polls: asks the kernel only if the other end
/// has shown no activity for long.
#[inline(always)]
pub fn is_silent_and_gone(guard: &Guard, segment: &Segment) -> bool {
    is_due(guard, segment, sys::coarse_now()) && is_gone_if_due(guard, segment)
}

/// Whether the other end has shown no activity for long; after a `true`, false for as long again.
#[inline(always)]
pub fn is_due(guard: &Guard, segment: &Segment, now: u64) -> bool {
    let listened = guard.connection.listened.load(Ordering::Relaxed);
    now.wrapping_sub(listened) >= SILENCE && is_silent(guard, segment, now)
}

#[cold]
fn is_silent(guard: &Guard, segment: &Segment, now: u64) -> bool {
    let connection = guard.connection;
    let before = connection.listened.swap(now, Ordering::Relaxed);
    if !connection.switched_in.load(Ordering::Acquire) {
        return false;
    }
    // Activity since a check long ago may itself have been long ago.
    let spoke = has_spoken(connection, segment);
    !spoke || now.wrapping_sub(before) >= 3 * SILENCE
}

/// Asks the kernel about an end that has shown no activity for long.
#[cold]
pub fn is_gone_if_due(guard: &Guard, segment: &Segment) -> bool {
    stats::count(|stats| &stats.questions, 1);
    ask(guard, segment)
}

fn ask(guard: &Guard, segment: &Segment) -> bool {
    let _errno = sys::KeepErrno::new();
    let lasting = libc::POLLRDHUP | RESET;
    // An end that was said by the kernel's stream after the detours ended is that stream's.
    let said = sys::poll_now(guard.socket(), lasting) & lasting;
    let gone = said != 0 && !segment.has_ended() && !is_only_deaf(guard, said);
    if gone && guard.connection.end.load(Ordering::Acquire) == end::NONE {
        prepare(guard, segment, said);
        guard.connection.end.fetch_max(end::GONE, Ordering::AcqRel);
    }
    gone
}

/// Whether the kernel reports an end of stream only because this end stopped reading, while the
/// other end goes on.
fn is_only_deaf(guard: &Guard, said: i16) -> bool {
    said == libc::POLLRDHUP
        && guard.connection.deaf.load(Ordering::Acquire)
        && sys::tcp_counts(guard.socket()).is_ok_and(|counts| counts.established)
}

/// Brings the kernel's connection to where it would be if all had gone by it, as far as that can be: from
/// now on it is asked, once the program was told what is left to say.
#[cold]
fn prepare(guard: &Guard, segment: &Segment, said: i16) {
    let connection = guard.connection;
    let peer = connection.role().peer();
    if segment.side(peer).closed.load(Ordering::Acquire) != closed::OPEN {
        return;
    }
    let was_reset = said & RESET != 0;
    // If no doorbell was ever rung, the unread bytes there were the program's, from before the
    // ring; if one was, those bytes had been read before the event that it announced.
    let no_doorbells = segment.way(connection.role()).detour.doorbells() == 0;
    let real = was_reset && (no_doorbells || aborts(connection, segment));
    let is_reset = real || is_reset(connection, segment, closed::OPEN);
    if is_reset && !was_reset {
        provoke(guard.socket());
    }
    if is_reset || was_reset {
        take_error(guard);
    }
    connection.may_send_once.store(was_reset && !is_reset, Ordering::Release);
    // A reset that follows the end of the stream is a broken pipe.
    let finished = segment.way(peer).detour.is_finished();
    let owed = if finished { libc::EPIPE } else { libc::ECONNRESET };
    connection.owed.store(if is_reset { owed } else { 0 }, Ordering::Release);
}

/// Whether the kernel resets the connection whenever the other end goes.
fn aborts(connection: &Connection, segment: &Segment) -> bool {
    segment.side(connection.role().peer()).aborts.load(Ordering::SeqCst)
}

/// Whether the kernel's reset was caused by a doorbell that the other end left unread, and means
/// only that the other end has gone: no data was on its way there. The program then sees an end of
/// stream.
#[cold]
pub fn is_reset_by_doorbell(guard: &Guard) -> bool {
    let connection = guard.connection;
    if connection.reset_by_doorbell.load(Ordering::Acquire) {
        return true;
    }
    let Some(segment) = connection.segment() else { return false };
    if segment.side(connection.role().peer()).back.load(Ordering::Acquire) {
        return false;
    }
    let detour = &segment.way(connection.role()).detour;
    let (Begun::After(begun), doorbells) = (detour.begun(), detour.doorbells()) else {
        return false;
    };
    let how = segment.side(connection.role().peer()).closed.load(Ordering::Acquire);
    let all_before = |counts: sys::TcpCounts| counts.put_in <= begun.saturating_add(doorbells);
    let is = doorbells > 0
        && !(how == closed::OPEN && aborts(connection, &segment))
        && !is_reset(connection, &segment, how)
        && sys::tcp_counts(guard.socket()).is_ok_and(all_before);
    if is {
        take_error(guard);
        connection.reset_by_doorbell.store(true, Ordering::Release);
    }
    is
}

/// Whether the kernel would have reset the connection: the other end said so, or it went without a
/// word and without having read all that it was sent.
pub fn is_reset(connection: &Connection, segment: &Segment, how: u32) -> bool {
    match how {
        closed::ORDERLY => false,
        closed::OPEN => segment.way(connection.role()).pointers.filling() != 0,
        _ => true,
    }
}

/// Whether the kernel has neither a direction nor an error left.
pub fn is_over(guard: &Guard) -> bool {
    let said = sys::poll_now(guard.fd, 0);
    said & libc::POLLHUP != 0 && said & libc::POLLERR == 0 && !guard.connection.owes_error()
}

/// Sends a byte that nobody reads any more, which the kernel answers by a reset.
pub fn provoke(socket: c_int) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if sys::send(socket, [0u8].as_ptr(), 1, flags).is_ok() {
        sys::poll(socket, 0, ANSWER);
    }
}

/// The error that the kernel has for the next call, which it then has no longer.
pub fn take_error(guard: &Guard) -> Option<Errno> {
    let why = sys::socket_option::<c_int>(guard.socket(), libc::SOL_SOCKET, libc::SO_ERROR);
    why.ok().filter(|why| *why != 0)
}

/// Whether a reader must be told now that the other end has reset the connection. It is told once,
/// and not after the end of the stream.
pub fn says_reset(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let (none, order) = (0, Ordering::AcqRel);
    if segment.side(peer).closed.load(Ordering::Acquire) != closed::RESET {
        let reset = libc::ECONNRESET;
        return connection.owed.compare_exchange(reset, none, order, Ordering::Acquire).is_ok();
    }
    let says = !segment.way(peer).detour.is_finished() && !connection.reset_said.swap(true, order);
    if says {
        // The kernel has the same to say, if not yet: the other end says it here first, and then closes.
        sys::poll(guard.socket(), 0, ANSWER);
        take_error(guard);
        connection.owed.store(none, Ordering::Release);
    }
    says
}

/// Whether a reader whose direction is the kernel's again must be told now of a reset that the
/// kernel no longer reports.
pub fn says_owed_reset(guard: &Guard) -> bool {
    let owed = &guard.connection.owed;
    let (reset, none, order) = (libc::ECONNRESET, 0, Ordering::AcqRel);
    owed.load(Ordering::Acquire) == reset
        && sys::unread_bytes(guard.socket()) == Ok(0)
        && owed.compare_exchange(reset, none, order, Ordering::Acquire).is_ok()
}

/// Leaves a reset to the next call: this one has done a part.
#[cold]
pub fn says_reset_later(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let is_reset = segment.side(peer).closed.load(Ordering::Acquire) == closed::RESET;
    if is_reset || connection.end.load(Ordering::Acquire) == end::GONE {
        owes_reset(guard);
    }
}

/// Lets the next call be told of a reset, which the kernel has told already: a send, too.
pub fn owes_reset(guard: &Guard) {
    guard.connection.reset_said.store(false, Ordering::Release);
    guard.connection.owed.store(libc::ECONNRESET, Ordering::Release);
}

/// What the kernel would add to the events of a connection whose other end has gone.
pub fn events(guard: &Guard) -> i16 {
    let connection = guard.connection;
    if connection.may_send_once.load(Ordering::Acquire) {
        return 0;
    }
    let owed = connection.owed.load(Ordering::Acquire) != 0;
    sys::poll_now(guard.socket(), 0) & RESET | if owed { libc::POLLERR } else { 0 }
}

/// The error that the next call of any kind is told, once.
pub fn owed(connection: &Connection) -> Option<Errno> {
    let owed = connection.owed.swap(0, Ordering::AcqRel);
    (owed != 0).then_some(owed)
}

/// What a send to an end that has died returns, `None` if the kernel is to be asked.
pub fn sent(connection: &Connection, wanted: usize) -> Option<Result<usize, Errno>> {
    if wanted > 0 && connection.may_send_once.swap(false, Ordering::AcqRel) {
        // The error that answers it.
        connection.owed.store(libc::EPIPE, Ordering::Release);
        return Some(Ok(wanted));
    }
    owed(connection).map(Err)
}

/// Whether the other end has shown any activity since this was last asked. Whatever it writes or
/// reads proves that it lives, as well as the kernel could.
fn has_spoken(connection: &Connection, segment: &Segment) -> bool {
    let role = connection.role();
    let (written, read) =
        (segment.way(role.peer()).pointers.arrivals(), segment.way(role).pointers.read());
    // Both only grow, so their sum stays the same only if both do.
    let heard = written.wrapping_add(read);
    let before = connection.heard.load(Ordering::Relaxed);
    connection.heard.store(heard, Ordering::Relaxed);
    heard != before
}
