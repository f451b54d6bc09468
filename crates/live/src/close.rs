//! Closing, shutting down and duplicating.

use std::mem::size_of;
use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::{Begun, Inlet, Outlet};

use crate::epoll;
use crate::joining::rendezvous;
use crate::joining::{attach, worth};
use crate::leaving::departure;
use crate::migration::answering;
use crate::migration::asking;
use crate::migration::turn;
use crate::options;
use crate::peer::death;
use crate::peer::doorbell;
use crate::report::stats::Reason;
use crate::segment::{Segment, closed};
use crate::stream;
use crate::sys::{self, Errno};
use crate::table::attaching;
use crate::table::figures;
use crate::table::guard::NumberApart;
use crate::table::holders::{self, Looked};
use crate::table::lost::LostTo;
use crate::table::taken::{self, Taken};
use crate::table::{self, Connection, Entry, Guard, end, phase};

/// How long a closing end waits for a doorbell that was announced, in nanoseconds: its ringer has lost
/// its processor, or the kernel has yet to deliver it.
const LAST_DOORBELL: u64 = 1_000_000_000;

/// To be called before the kernel closes a descriptor; until it has, other threads wait with calls by the
/// number.
pub fn forget(fd: c_int) -> Taken {
    forget_number(fd, LostTo::Nobody)
}

/// The same where the kernel puts something else at the number.
pub fn forget_for_another(fd: c_int) -> Taken {
    forget_number(fd, LostTo::Another)
}

fn forget_number(fd: c_int, to: LostTo) -> Taken {
    match table::entry(fd) {
        Entry::Unknown => table::forget_listener(fd),
        Entry::Own => {}
        Entry::Unplaced => {
            if taken::await_end(fd) {
                return forget_number(fd, to);
            }
            if table::is_owner() && !table::forget_newcomer(fd) {
                return forget_connection(fd, to);
            }
        }
        Entry::Epoll(place) => {
            if table::is_owner() {
                table::set_entry(fd, Entry::Unknown);
                epoll::forget(place, fd);
            }
        }
        Entry::Connection(_) => {
            // The child of a vfork has descriptors of its own and its parent's memory.
            if table::is_owner() {
                return forget_connection(fd, to);
            }
        }
    }
    Taken::NOTHING
}

/// To be called before the kernel ends a connection and keeps its descriptor: the other end sees a
/// reset.
pub fn disconnect(fd: c_int) -> Taken {
    if !matches!(table::entry(fd), Entry::Connection(_)) {
        return forget_number(fd, LostTo::Itself);
    }
    {
        let Some(guard) = table::enter_placed(fd).filter(|_| table::is_owner()) else {
            return Taken::NOTHING;
        };
        // The kernel has the registrations of one that is not carried, and keeps them.
        attach::give_up_unless_candidate(&guard, Reason::Call);
        if guard.connection.phase() != phase::JOINED {
            return Taken::NOTHING;
        }
        epoll::release(&guard);
        if guard.has_others() {
            // Before the calls inside have gone, which end with it.
            end_by_itself(&guard);
        }
    }
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    let before = sys::socket_option::<[c_int; 2]>(fd, level, name).unwrap_or_default();
    // As if it were closed with this option, which the descriptor then has no longer.
    set_linger(fd, [1, 0]);
    let taken = forget_number(fd, LostTo::Itself);
    set_linger(fd, before);
    taken
}

/// Tells the other end of a reset, which the kernel is about to make.
fn end_by_itself(guard: &Guard) {
    guard.connection.end.fetch_max(end::DISCONNECTED, Ordering::SeqCst);
    let Some(segment) = guard.connection.segment() else { return };
    let role = guard.connection.role();
    segment.postmarks(role).end();
    segment.side(role).closed.store(closed::RESET, Ordering::Release);
    wake_peer(guard, &segment);
}

fn set_linger(fd: c_int, linger: [c_int; 2]) {
    let length = size_of::<[c_int; 2]>();
    // SAFETY: the option has this length.
    unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
        sys::bare!(libc::SYS_setsockopt, fd, level, name, &raw const linger, length);
    }
}

/// To be called before a number is given to something else while another process goes on with its
/// connection: nothing ends.
pub fn hand_over(fd: c_int) {
    if let Some(guard) = table::enter(fd) {
        table::set_entry(fd, Entry::Unknown);
        if guard.local().loses_descriptor() {
            epoll::unfollow(&guard);
        }
    }
}

fn forget_connection(fd: c_int, to: LostTo) -> Taken {
    let Some(guard) = table::enter_placed(fd) else { return Taken::NOTHING };
    let _errno = sys::KeepErrno::new();
    let several = guard.local().has_several_descriptors();
    if several && guard.connection.holders.load(Ordering::SeqCst) == 1 {
        epoll::leave(&guard);
    }
    if several && epoll::is_registered_by_number(&guard) {
        // The kernel goes on with a registration of a number that is no more; this library cannot.
        departure::depart_connection(&guard, Reason::Epoll);
        if !guard.is_current() {
            // Another connection of the kernel has been put in the place of this one.
            return Taken::NOTHING;
        }
        epoll::release(&guard);
    } else if turn::is_back(guard.connection) && epoll::is_registered_by_number(&guard) {
        // So is that of what another process has by now, or a message that is on its way to one.
        epoll::release(&guard);
    }
    // What is the kernel's anyway needs nobody to wait.
    let others_wait = guard.connection.phase() == phase::JOINED && !table::is_single_threaded();
    let (unseen, taken, goes_on, last_here) = {
        // A child that another thread is just making counts among the holders, which it is not if its
        // copy lacks the descriptor: then neither would be the last.
        let _no_copy = others_wait.then(|| attaching::ATTACHING.lock());
        let Some((unseen, taken)) = taken::begin(fd, guard.place, to, others_wait) else {
            return Taken::NOTHING;
        };
        let is_anothers = several || guard.connection.holders.load(Ordering::SeqCst) > 1;
        epoll::forget_number(fd, is_anothers);
        guard.local().loses_number(fd, to);
        let goes_on = guard.keeps_socket_for_others();
        let last_here = guard.local().loses_descriptor();
        let is_others = !last_here || guard.connection.holders.load(Ordering::SeqCst) > 1;
        if to == LostTo::Itself && is_others && guard.connection.phase() == phase::JOINED {
            // Calls by other numbers, here or elsewhere, are of what the kernel makes of it.
            end_by_itself(&guard);
            is_kernels_now(guard.connection);
        }
        (unseen, taken, goes_on, last_here)
    };
    if goes_on {
        let_others_sleep_on(&guard);
    }
    if !last_here {
        // Who is inside can no longer be told from who is not.
        if unseen > 0 {
            attach::give_up(guard.connection, Reason::Call);
        }
        return taken;
    }
    guard.local().await_visitors();
    epoll::unfollow(&guard);
    if goes_on {
        // The last to leave says it.
        guard.local().closing.store(true, Ordering::SeqCst);
    } else {
        say_how(&guard);
    }
    taken
}

/// Lets the threads inside see that their number was lost, which they look for before they sleep, and waits
/// until those that sleep do so until something comes.
fn let_others_sleep_on(guard: &Guard) {
    if let Some(segment) = guard.connection.segment() {
        let role = guard.connection.role();
        for flag in [&segment.way(role.peer()).arrived, &segment.way(role).freed] {
            flag.let_look_again();
            doorbell::wake_word(flag);
        }
    }
    guard.lets_others_see_another_number();
    if !table::is_single_threaded() {
        guard.local().blocked.await_sleep(guard.fd);
    }
}

/// Tells the other end how this one closes, now that nobody in this process is in a call on it.
pub fn say_how(guard: &Guard) {
    let connection = guard.connection;
    if connection.phase() >= phase::JOINED {
        figures::say(connection);
    }
    if connection.is_disconnected() {
        return is_kernels_now(connection);
    }
    holders::bury(connection, &mut Looked::default());
    let last = connection.holders.load(Ordering::SeqCst) == 1;
    let is_others = guard.local().let_go.load(Ordering::SeqCst);
    if !last || is_others {
        // The others may be gone already, killed: then one that lies there would make a reset of the end.
        if connection.phase() == phase::JOINED
            && let Some(segment) = connection.segment()
        {
            answer_last_doorbells(guard, &segment);
        }
        return;
    }
    rendezvous::leave(connection);
    worth::learn(connection);
    if connection.phase() == phase::JOINED
        && let Some(segment) = connection.segment()
    {
        if segment.has_ended() {
            turn::send_rest(guard, &segment);
        }
        say_goodbye(guard, &segment);
    } else {
        attach::give_up_quietly(connection);
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
        // What the kernel would have sent before the reset, which says another thing after it.
        sys::shutdown(guard.socket(), libc::SHUT_WR);
    }
    wake_peer(guard, segment);
    is_kernels_now(connection);
}

/// Whether bytes are left unread at this end, for which the kernel resets a connection that is closed.
fn has_unread(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    match connection.receiving() {
        Some(mut receiving) => match turn::inlet(guard, segment, &mut receiving) {
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

/// Lets the kernel reset a connection whose detours have ended and whose process is about to end, if bytes
/// are left unread in the ring, of which the kernel does not know. Whether it had to be told.
pub fn reset_at_end(guard: &Guard, segment: &Segment) -> bool {
    let tells =
        segment.has_ended() && has_unread(guard, segment) && !options::aborts(guard.socket());
    if tells {
        if guard.connection.write_shut.load(Ordering::Acquire)
            && let Some(mut sending) = guard.connection.sending()
        {
            // The kernel may not know yet that this end sends no more: a reset after that says another thing.
            let _ = turn::come_back(guard, segment, &mut sending);
        }
        set_linger(guard.socket(), [1, 0]);
    }
    tells
}

fn is_kernels_now(connection: &Connection) {
    let (joined, plain, order) = (phase::JOINED, phase::PLAIN, Ordering::SeqCst);
    if connection.phase.compare_exchange(joined, plain, order, order).is_ok() {
        figures::closed(connection);
    }
}

/// Takes the last doorbells out of the kernel's stream before a process ends that alone knows of them.
pub fn end_doorbells_of(guard: &Guard) {
    let segment = guard.connection.segment();
    if let Some(segment) = segment.filter(|_| guard.connection.phase() == phase::JOINED) {
        end_doorbells(guard, &segment);
    }
}

/// Takes the last doorbells out of the kernel's stream: one that lay there unread, or came late, would
/// turn an end of stream into a reset.
fn end_doorbells(guard: &Guard, segment: &Segment) {
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

/// Takes those doorbells out of the kernel's stream that are there, before this end goes.
pub fn answer_last_doorbells(guard: &Guard, segment: &Segment) {
    if guard.connection.switched_in.load(Ordering::Acquire) {
        answering::answer_doorbells(guard);
    } else if are_doorbells_due(guard.connection, segment) && !guard.connection.is_slept_on() {
        // Nothing was ever read from the ring.
        turn::discard(guard, segment);
    }
}

/// Whether a doorbell has yet to come out of the kernel's stream that stands before nothing unread.
fn are_doorbells_due(connection: &Connection, segment: &Segment) -> bool {
    let detour = &segment.way(connection.role().peer()).detour;
    let taken = connection.taken.load(Ordering::Acquire);
    match detour.begun() {
        Begun::After(begun)
            if taken >= begun && !connection.returned_in.load(Ordering::Acquire) =>
        {
            detour.is_ringing() || (begun..begun.saturating_add(detour.bells())).contains(&taken)
        }
        _ => false,
    }
}

fn wake_peer(guard: &Guard, segment: &Segment) {
    let role = guard.connection.role();
    doorbell::wake(guard, &segment.way(role).arrived);
    doorbell::wake(guard, &segment.way(role.peer()).freed);
}

/// Shuts a connection down; `None` leaves it to the kernel.
pub fn shutdown(fd: c_int, how: c_int) -> Option<c_int> {
    let guard = table::enter(fd)?;
    let connection = guard.connection;
    if connection.phase() < phase::JOINED {
        attach::give_up(connection, Reason::Call);
    }
    if connection.phase() != phase::JOINED {
        return None;
    }
    if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) {
        return Some(stream::fail(libc::EINVAL) as c_int);
    }
    let segment = connection.segment()?;
    if is_over(&guard, &segment) {
        tell_of_a_change(&guard);
        return Some(stream::fail(libc::ENOTCONN) as c_int);
    }
    if segment.has_ended() {
        turn::send_rest(&guard, &segment);
        if how == libc::SHUT_RDWR {
            // Before the other: who is told of one is told of both.
            connection.write_shut.store(true, Ordering::Release);
        }
        connection.read_shut.fetch_or(how != libc::SHUT_WR, Ordering::AcqRel);
        if how != libc::SHUT_RD && !asking::may_end(connection) {
            return Some(0);
        }
        let result = turn::shut_down(&guard, how);
        tell_of_a_change(&guard);
        return Some(said(result));
    }
    if how != libc::SHUT_RD && !finish(&guard, &segment) {
        // Without its kernel's direction this end could wake nobody: both stay with the kernel.
        let revoked = attach::revoke(&guard, &segment);
        let result = sys::try_shutdown(guard.socket(), how);
        if revoked {
            // From now on the kernel tells the instances of `epoll`, also of a `shutdown` that changes nothing.
            connection.returned_in.store(true, Ordering::SeqCst);
            connection.returned_out.store(true, Ordering::SeqCst);
        }
        tell_of_a_change(&guard);
        return Some(said(result));
    }
    if how != libc::SHUT_WR {
        stop_reading(&guard, &segment);
    }
    if connection.read_shut.load(Ordering::Acquire)
        && connection.write_shut.load(Ordering::Acquire)
        && !segment.way(connection.role().peer()).detour.is_finished()
    {
        refuse_more(&guard, &segment);
    }
    tell_of_a_change(&guard);
    Some(0)
}

/// What the program is told of the kernel's own call.
fn said(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|why| stream::fail(why) as c_int, |()| 0)
}

/// An edge for all instances that follow the connection, which the kernel makes of every `shutdown`, also
/// of one that it refuses.
fn tell_of_a_change(guard: &Guard) {
    guard.connection.changes.fetch_add(1, Ordering::Release);
    epoll::warm(guard);
    epoll::kick(guard);
}

/// Wakes this process's own readers, wherever they sleep; the other end sees nothing. The kernel is
/// told only if it must wake somebody: it would no longer tell doorbells and the other end's end
/// from this one's.
fn stop_reading(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    connection.read_shut.store(true, Ordering::SeqCst);
    doorbell::wake_word(&segment.way(connection.role().peer()).arrived);
    // Until the first byte has come by the ring, somebody may sleep there since before the join.
    if connection.is_slept_on() || !connection.switched_in.load(Ordering::SeqCst) {
        connection.deaf.store(true, Ordering::Release);
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
}

/// Lets the kernel refuse what the other end sends to one that neither reads nor writes any more:
/// the other end would fill the ring, and then wait for ever. A doorbell would be refused too, and
/// with it the whole connection, so the last of them come before.
fn refuse_more(guard: &Guard, segment: &Segment) {
    turn::back(guard, Reason::Call);
    end_doorbells(guard, segment);
    sys::shutdown(guard.socket(), libc::SHUT_RD);
}

/// Whether this is a connection that the kernel would no longer call one.
pub fn has_no_peer(fd: c_int) -> bool {
    let Some(guard) = table::enter_placed(fd) else { return false };
    let joined = guard.connection.phase() == phase::JOINED;
    let segment = guard.connection.segment().filter(|_| joined);
    segment.is_some_and(|segment| !segment.has_ended() && is_over(&guard, &segment))
}

/// Whether the kernel would no longer call this a connection: both directions have ended, or the
/// other end has reset it.
fn is_over(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let how = segment.side(peer).closed.load(Ordering::Acquire);
    // One that has not joined yet goes without a word: as long as nothing came by the ring, the kernel knows.
    let is_kernels = how == closed::OPEN && !connection.switched_in.load(Ordering::Acquire);
    let both_ended = |counts: sys::TcpCounts| counts.ends_arrived.is_none();
    if is_kernels && sys::tcp_counts(guard.socket()).is_ok_and(both_ended) {
        return true;
    }
    let died = how == closed::OPEN && death::is_gone(guard);
    let ended = died || how != closed::OPEN || segment.way(peer).detour.is_finished();
    let reset = (died || how != closed::OPEN) && death::is_reset(connection, segment, how);
    reset || ended && (connection.write_shut.load(Ordering::Acquire) || death::events(guard) != 0)
}

/// Ends the sending direction after all that was written. The kernel's direction stays open, since
/// doorbells must still pass. False if the direction is the kernel's.
fn finish(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    let Some(mut sending) = connection.sending() else { return false };
    attach::switch(guard, segment, &mut sending);
    if sending.sender.outlet() != Outlet::Ring {
        return false;
    }
    connection.write_shut.store(true, Ordering::Release);
    let way = segment.way(connection.role());
    segment.postmarks(connection.role()).end();
    if way.detour.finish() || segment.has_ended() {
        // The other end may have looked before: it learns it from the kernel.
        turn::turn_back(guard, segment, Reason::Peer);
        let _ = turn::come_back(guard, segment, &mut sending);
    }
    drop(sending);
    doorbell::wake(guard, &way.arrived);
    // This process's own writers end too.
    doorbell::wake_word(&way.freed);
    true
}

/// Lets the kernel make a second number for what a descriptor stands for, and remembers it.
pub fn duplicate(fd: c_int, make: impl FnOnce() -> c_int) -> c_int {
    if !table::is_owner() {
        return make();
    }
    table::track_early(fd);
    // Nobody puts another connection in the place of this one as long as a call is inside.
    let inside = table::enter(fd);
    let copy = make();
    remember(inside.as_ref(), fd, copy);
    copy
}

/// The same at a number that stands for something else, which may have to be forgotten first: that takes a
/// while where others are in calls by it. The kernel finds what is to be put there before all else, and
/// another thread may take its number away meanwhile.
pub fn put_at(fd: c_int, number: c_int, put: impl Fn(c_int) -> c_int) -> c_int {
    if !table::is_owner() {
        return put(fd);
    }
    table::track_early(fd);
    let waits =
        !table::is_single_threaded() && matches!(table::entry(number), Entry::Connection(_));
    let found = if waits { found(fd) } else { Some((table::enter(fd), None)) };
    let Some((inside, own)) = found else { return stream::fail(libc::EBADF) as c_int };
    let taken = forget_number(number, LostTo::Another);
    let copy = put(own.as_ref().map_or(fd, NumberApart::fd));
    remember(inside.as_ref(), fd, copy);
    drop(taken);
    copy
}

/// What a number stands for, and another number for the same, if there is one. `None` if it stands for
/// nothing, by now.
fn found(fd: c_int) -> Option<(Option<Guard>, Option<NumberApart>)> {
    loop {
        let inside = table::enter(fd);
        let socket = || inside.as_ref().map_or(fd, Guard::socket);
        let known = socket();
        let own = NumberApart::make(known);
        let is_same = match &inside {
            Some(_) => socket() == known,
            None => !matches!(table::entry(fd), Entry::Connection(_) | Entry::Unplaced),
        };
        if is_same {
            let is_there = own.is_some() || sys::kind_of(known).is_some();
            return is_there.then_some((inside, own));
        }
    }
}

fn remember(inside: Option<&Guard>, fd: c_int, copy: c_int) {
    match inside {
        _ if copy < 0 || copy == fd => {}
        Some(guard) => remember_copy(guard, copy),
        None => {
            if let Entry::Epoll(place) = table::entry(fd) {
                epoll::duplicated(place, copy);
            }
        }
    }
}

fn remember_copy(guard: &Guard, copy: c_int) {
    let known = guard.connection.cookie.load(Ordering::Relaxed);
    if !guard.is_current() && sys::cookie(copy) != Some(known) {
        // Another thread had closed it before the copy was made.
        return;
    }
    guard.local().gains_descriptor();
    guard.local().closing.store(false, Ordering::SeqCst);
    if !table::set_entry(copy, Entry::Connection(guard.place)) {
        guard.local().loses_descriptor();
        attach::give_up(guard.connection, Reason::Limit);
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
