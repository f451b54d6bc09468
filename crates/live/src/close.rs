//! Closing, shutting down and duplicating.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::Outlet;

use crate::ending;
use crate::handover::departure;
use crate::joining::attach;
use crate::migration::asking;
use crate::migration::direction;
use crate::peer::death;
use crate::peer::doorbell;
use crate::registry;
use crate::report::stats::Reason;
use crate::segment::{Segment, closed};
use crate::stream;
use crate::sys::{self, Errno};
use crate::table::attaching;
use crate::table::guard::NumberApart;
use crate::table::lost::LostTo;
use crate::table::taken::{self, Taken};
use crate::table::{self, Entry, Guard, Phase, end};
use crate::tracking;

/// To be called before the kernel closes a descriptor; until it has, other threads wait with calls by the
/// descriptor.
pub fn forget(fd: c_int) -> Taken {
    forget_number(fd, LostTo::Nobody)
}

/// Like [`forget`], before the kernel puts another file at the descriptor.
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
            if table::is_owner() && !tracking::forget_newcomer(fd) {
                return forget_connection(fd, to);
            }
        }
        Entry::Epoll(place) => {
            if table::is_owner() {
                table::set_entry(fd, Entry::Unknown);
                registry::forget(place, fd);
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
        // The kernel has the registrations of one that is not accelerated, and keeps them.
        attach::give_up_unless_candidate(&guard, Reason::Call);
        if guard.connection.phase() != Phase::JOINED {
            return Taken::NOTHING;
        }
        registry::release(&guard);
        if guard.has_others() {
            // Before the calls inside have gone, which end with it.
            end_by_itself(&guard);
        }
    }
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    let before = sys::socket_option::<[c_int; 2]>(fd, level, name).unwrap_or_default();
    // As if it were closed with this option, which the descriptor then has no longer.
    ending::set_linger(fd, [1, 0]);
    let taken = forget_number(fd, LostTo::Itself);
    ending::set_linger(fd, before);
    taken
}

/// Tells the other end of a reset, which the kernel is about to make.
fn end_by_itself(guard: &Guard) {
    guard.connection.end.fetch_max(end::DISCONNECTED, Ordering::SeqCst);
    let Some(segment) = guard.connection.segment() else { return };
    let role = guard.connection.role();
    segment.postmarks(role).end();
    segment.side(role).closed.store(closed::RESET, Ordering::Release);
    ending::wake_peer(guard, &segment);
}

fn forget_connection(fd: c_int, to: LostTo) -> Taken {
    let Some(guard) = table::enter_placed(fd) else { return Taken::NOTHING };
    let _errno = sys::KeepErrno::new();
    let several = guard.local().has_several_descriptors();
    if several && guard.connection.holders.load(Ordering::SeqCst) == 1 {
        registry::leave(&guard);
    }
    if several && registry::is_registered_by_number(&guard) {
        // The kernel goes on with a registration of a descriptor that is no more; this library
        // cannot.
        departure::depart_connection(&guard, Reason::Epoll);
        if !guard.is_current() {
            // The connection has been replaced by another one of the kernel.
            return Taken::NOTHING;
        }
        registry::release(&guard);
    } else if guard.connection.is_back() && registry::is_registered_by_number(&guard) {
        // The same holds for a connection that another process has by now, or that is on its way to
        // one in a message.
        registry::release(&guard);
    }
    // On a connection that is the kernel's, no thread needs to wait.
    let others_wait = guard.connection.phase() == Phase::JOINED && !table::is_single_threaded();
    let (unseen, taken, goes_on, last_here) = {
        // A child that another thread is just creating counts among the holders, although it is
        // none if its copy lacks the descriptor: then neither would be the last.
        let _no_copy = others_wait.then(|| attaching::ATTACHING.lock());
        let Some((unseen, taken)) = taken::begin(fd, guard.place, to, others_wait) else {
            return Taken::NOTHING;
        };
        let is_anothers = several || guard.connection.holders.load(Ordering::SeqCst) > 1;
        registry::forget_number(fd, is_anothers);
        guard.local().loses_number(fd, to);
        let goes_on = guard.keeps_socket_for_others();
        let last_here = guard.local().loses_descriptor();
        let is_others = !last_here || guard.connection.holders.load(Ordering::SeqCst) > 1;
        if to == LostTo::Itself && is_others && guard.connection.phase() == Phase::JOINED {
            // From now on, calls on other descriptors, here or elsewhere, act on a socket that is
            // no longer connected.
            end_by_itself(&guard);
            ending::is_kernels_now(guard.connection);
        }
        (unseen, taken, goes_on, last_here)
    };
    if goes_on {
        let_others_sleep_on(&guard);
    }
    if !last_here {
        // Some of the calls inside were not counted, so nobody can tell when all have left: the
        // connection must not join.
        if unseen > 0 {
            attach::give_up(guard.connection, Reason::Call);
        }
        return taken;
    }
    guard.local().await_visitors();
    registry::unfollow(&guard);
    if goes_on {
        // The last to leave says it.
        guard.local().closing.store(true, Ordering::SeqCst);
    } else {
        ending::say_how(&guard);
    }
    taken
}

/// Lets the threads inside see that their descriptor was lost, which they look for before they
/// sleep, and waits until those that sleep do so until something comes.
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

/// Shuts a connection down; `None` leaves it to the kernel.
pub fn shutdown(fd: c_int, how: c_int) -> Option<c_int> {
    let guard = table::enter(fd)?;
    let connection = guard.connection;
    if connection.phase().may_join() {
        attach::give_up(connection, Reason::Call);
    }
    if connection.phase() != Phase::JOINED {
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
        direction::send_rest(&guard, &segment);
        if how == libc::SHUT_RDWR {
            // Set before the other flag: a thread that sees that one then sees both.
            connection.write_shut.store(true, Ordering::Release);
        }
        connection.read_shut.fetch_or(how != libc::SHUT_WR, Ordering::AcqRel);
        if how != libc::SHUT_RD && !asking::may_end(connection) {
            return Some(0);
        }
        let result = direction::shut_down(&guard, how);
        tell_of_a_change(&guard);
        return Some(said(result));
    }
    if how != libc::SHUT_RD && !finish(&guard, &segment) {
        // Without its kernel's direction this end could wake nobody: both stay with the kernel.
        let kernel = || sys::try_shutdown(guard.socket(), how);
        let result = attach::shut_in_kernel(&guard, kernel);
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

/// The program's result of the kernel's own call.
fn said(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|why| stream::fail(why) as c_int, |()| 0)
}

/// An edge for all instances that follow the connection, which the kernel makes of every `shutdown`, also
/// of one that it refuses.
fn tell_of_a_change(guard: &Guard) {
    guard.connection.changes.fetch_add(1, Ordering::Release);
    registry::warm(guard);
    registry::kick(guard);
}

/// Wakes this process's own readers, wherever they sleep; the other end sees nothing. The kernel's
/// socket is shut down only if a reader must be woken: afterwards the kernel could not distinguish
/// doorbells and the other end's end of stream from this shutdown.
fn stop_reading(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    connection.read_shut.store(true, Ordering::SeqCst);
    doorbell::wake_word(&segment.way(connection.role().peer()).arrived);
    // Until the first byte has arrived through the ring, a reader may still sleep there that began
    // before the join.
    if connection.is_slept_on() || !connection.switched_in.load(Ordering::SeqCst) {
        connection.deaf.store(true, Ordering::Release);
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
}

/// Lets the kernel refuse what the other end sends to an end that neither reads nor writes any
/// more: otherwise the other end would fill the ring and wait forever. The kernel would refuse a
/// doorbell too, and reset the connection, so this waits for the last of them first.
fn refuse_more(guard: &Guard, segment: &Segment) {
    direction::back(guard, Reason::Call);
    ending::end_doorbells(guard, segment);
    sys::shutdown(guard.socket(), libc::SHUT_RD);
}

/// Whether this is a connection that the kernel would no longer call one.
pub fn has_no_peer(fd: c_int) -> bool {
    let Some(guard) = table::enter_placed(fd) else { return false };
    let joined = guard.connection.phase() == Phase::JOINED;
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
        direction::turn_back(guard, segment, Reason::Peer);
        let _ = direction::come_back(guard, segment, &mut sending);
    }
    drop(sending);
    doorbell::wake(guard, &way.arrived);
    // This process's own writers end too.
    doorbell::wake_word(&way.freed);
    true
}

/// Lets the kernel duplicate a descriptor, and remembers the duplicate.
pub fn duplicate(fd: c_int, make: impl FnOnce() -> c_int) -> c_int {
    if !table::is_owner() {
        return make();
    }
    tracking::track_early(fd);
    // While a call is inside, no thread replaces this connection.
    let inside = table::enter(fd);
    let copy = make();
    remember(inside.as_ref(), fd, copy);
    copy
}

/// Lets the kernel duplicate a descriptor onto a given one (`dup2`, `dup3`), and remembers it. What
/// the descriptor stood for may have to be forgotten first, which takes a while if other threads
/// are in calls on it. The kernel looks up the source before all else, and another thread may take
/// its descriptor away meanwhile.
pub fn put_at(fd: c_int, number: c_int, put: impl Fn(c_int) -> c_int) -> c_int {
    if !table::is_owner() {
        return put(fd);
    }
    tracking::track_early(fd);
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

/// What a descriptor stands for, and a duplicate of it, if one can be made. `None` if the
/// descriptor stands for nothing by now.
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
                registry::duplicated(place, copy);
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
