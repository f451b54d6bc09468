//! The segment on its way from the client, which makes it, to the server, which takes it: who may have it, and what
//! stands in the way.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::byte_ring::Capacity;
use weft_protocol::interrupt_flag::Sleep;

use crate::config;
use crate::descriptors;
use crate::joining::bare_calls;
use crate::joining::meeting::{self, Place, Refusal};
use crate::joining::rendezvous;
use crate::options;
use crate::registry;
use crate::report::stats::{self, Reason};
use crate::segment::{Role, Segment};
use crate::sys;
use crate::table::forbidden;
use crate::table::numbers::leaves_others;
use crate::table::{self, Connection, Event, Guard};

/// How many callers a server looks at in one call.
const CALLERS: usize = 4;

/// How long the server waits for the segment once the client has connected, in nanoseconds.
const HAND_OVER: u64 = 50_000_000;

/// Whether the C library's streams may read and write a number, past this library.
pub fn is_of_stdio(fd: c_int) -> bool {
    (0..=2).contains(&fd)
}

/// Whether anything at this end leaves a connection to the kernel.
pub(super) fn refused_here(fd: c_int) -> Result<(), Reason> {
    if is_of_stdio(fd) {
        return Err(Reason::Stdio);
    }
    let signals = sys::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0) & libc::O_ASYNC != 0;
    if signals || options::is_kernels(fd) {
        return Err(Reason::Option);
    }
    Ok(())
}

/// Refuses if the process makes calls that bypass this library, which takes milliseconds to find
/// out for the first connection, and more if there is much code.
pub(super) fn refused_for_calls() -> Result<(), Reason> {
    if bare_calls::are_there() {
        forbidden::begin(Reason::BareCalls);
        return Err(Reason::BareCalls);
    }
    Ok(())
}

/// What a client has offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// A segment to its server.
    Segment,
    /// Nothing, since no server is there.
    ToNobody,
    /// Nothing, since another process waits there to be turned away.
    Later,
}

/// The client's part: hands a segment over, if the server is there. A server that is `late` will
/// not come.
pub(super) fn offer(guard: &Guard, place: &Place, late: bool) -> Result<Offered, Reason> {
    let caller = match place.call() {
        Ok(caller) => caller,
        Err(libc::ECONNREFUSED | libc::ENOENT) if late => return Err(Reason::PeerPlain),
        Err(libc::ECONNREFUSED | libc::ENOENT) => return Ok(Offered::ToNobody),
        Err(libc::EAGAIN) if !late => return Ok(Offered::Later),
        Err(why) => return Err(no_meeting(why)),
    };
    if let Err(reason) = refused_here(guard.fd) {
        sys::close(caller);
        return Err(reason);
    }
    offer_to(guard, caller)
}

/// Hands the segment over to a server that waits at the other end of the socket `caller`.
fn offer_to(guard: &Guard, caller: c_int) -> Result<Offered, Reason> {
    let handed = if meeting::is_trusted(caller) {
        hand_segment_over(guard, caller)
    } else {
        meeting::refuse(caller);
        Err(Reason::OtherUser)
    };
    // The server may leave before it has received the segment, or refuse it, and says so on this
    // socket.
    if handed.is_ok() {
        rendezvous::keep(guard.connection, caller);
    } else {
        sys::close(caller);
    }
    let Handed { segment, own, peer } = handed?;
    guard.attach(segment, own, peer);
    Ok(Offered::Segment)
}

/// Why the ends cannot meet, by the kernel's error for their socket.
pub(super) const fn no_meeting(why: sys::Errno) -> Reason {
    match why {
        libc::EMFILE | libc::ENFILE => Reason::Limit,
        // Another socket is there, or access is denied.
        libc::EADDRINUSE | libc::EAGAIN | libc::EACCES | libc::EPERM => Reason::NoPlace,
        _ => Reason::NoSegment,
    }
}

/// A segment, and the events by which either end is woken.
struct Handed {
    segment: Segment,
    own: c_int,
    peer: c_int,
}

fn hand_segment_over(guard: &Guard, caller: c_int) -> Result<Handed, Reason> {
    within_limit()?;
    registry::can_follow(guard).then_some(()).ok_or(Reason::Epoll)?;
    let capacity = Capacity::new(config::ring_bytes()).map_err(|_| Reason::NoSegment)?;
    let (segment, file) = Segment::create(capacity).map_err(|_| Reason::NoSegment)?;
    // A thread that sleeps in the kernel when the first byte bypasses it must be woken there.
    for role in [Role::Client, Role::Server] {
        segment.way(role).arrived.arm(Sleep::InKernel);
    }
    let events = [descriptors::event(), descriptors::event()];
    let handed = match events {
        [Ok(own), Ok(peer)] if leaves_others(own.max(peer)) => {
            let handed = meeting::hand_over(caller, [file, own, peer]);
            handed.map(|()| Handed { segment, own, peer }).map_err(|why| match why {
                // The other end has checked this one's user before this one could hand over.
                _ if meeting::is_refused(caller) => Reason::OtherUser,
                // The server no longer waits there.
                libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => Reason::PeerPlain,
                _ => Reason::NoSegment,
            })
        }
        _ => Err(Reason::Limit),
    };
    sys::close(file);
    if handed.is_err() {
        events.into_iter().flatten().for_each(sys::close);
        // SAFETY: the segment was made above and nobody else in this process knows it.
        unsafe { segment.unmap() };
    }
    handed
}

fn within_limit() -> Result<(), Reason> {
    let Some(stats) = stats::get() else { return Err(Reason::Limit) };
    let now = || {
        let joined = stats.joined.load(Ordering::Relaxed);
        joined.saturating_sub(stats.closed.load(Ordering::Relaxed))
    };
    let is_within = now() < config::limit() || table::reclaim() && now() < config::limit();
    is_within.then_some(()).ok_or(Reason::Limit)
}

/// The server's part: takes the segment, if the client has brought one. Other users that connect
/// are turned away, and the client may come behind them. It is unknown whether such a user was the
/// client itself, so the server keeps looking as long as if nobody had come: any user may connect
/// to a place, and none may keep the client out.
pub(super) fn look_for_offer(guard: &Guard) -> Result<Option<Event>, Reason> {
    let connection = guard.connection;
    let listener = connection.meeting.load(Ordering::Relaxed) as c_int;
    for _ in 0..CALLERS {
        let caller = match meeting::take_caller(listener) {
            Ok(caller) => caller,
            Err(libc::EAGAIN) => return Ok(None),
            Err(why) => return Err(no_meeting(why)),
        };
        if !meeting::is_trusted(caller) {
            meeting::refuse(caller);
            sys::close(caller);
            connection.had_stranger.store(true, Ordering::Relaxed);
            continue;
        }
        connection.had_stranger.store(false, Ordering::Relaxed);
        let taken = take_segment(guard, caller);
        if taken.is_err() {
            meeting::decline(caller);
        }
        sys::close(caller);
        rendezvous::leave(connection);
        let Handed { segment, own, peer } = taken?;
        guard.attach(segment, own, peer);
        return Ok(Some(Event::Shared));
    }
    Ok(None)
}

fn take_segment(guard: &Guard, caller: c_int) -> Result<Handed, Reason> {
    // The client makes and sends the segment at once after it has connected, so this is a wait of microseconds.
    if sys::poll(caller, libc::POLLIN, HAND_OVER) & libc::POLLIN == 0 {
        return Err(Reason::Withdrawn);
    }
    let [file, peer, own] = meeting::take_over(caller).map_err(|why| match why {
        libc::EACCES => Reason::OtherUser,
        libc::EPROTO => Reason::Unusable,
        libc::EMFILE => Reason::Limit,
        _ => Reason::Withdrawn,
    })?;
    let segment = Segment::join(file).map_err(|why| match why {
        libc::EPERM | libc::EPROTO => Reason::Unusable,
        _ => Reason::NoSegment,
    });
    sys::close(file);
    let events = [own, peer].map(descriptors::move_high);
    let taken = segment.and_then(|segment| match with_events(guard, events) {
        Ok([own, peer]) => Ok(Handed { segment, own, peer }),
        Err(reason) => {
            // SAFETY: the segment was mapped above and nobody else in this process knows it.
            unsafe { segment.unmap() };
            Err(reason)
        }
    });
    if taken.is_err() {
        events.into_iter().flatten().for_each(sys::close);
    }
    taken
}

/// The events of a segment that was handed over, if it can be taken.
fn with_events(
    guard: &Guard,
    events: [Result<c_int, sys::Errno>; 2],
) -> Result<[c_int; 2], Reason> {
    within_limit()?;
    registry::can_follow(guard).then_some(()).ok_or(Reason::Epoll)?;
    match events {
        [Ok(own), Ok(peer)] if leaves_others(own.max(peer)) => Ok([own, peer]),
        _ => Err(Reason::Limit),
    }
}

/// The client's part again, as long as the server is not ready: has it refused the segment?
pub(super) fn refused_there(connection: &Connection) -> Result<Option<Event>, Reason> {
    match rendezvous::refusal(connection) {
        Some(Refusal::OtherUser) => Err(Reason::OtherUser),
        Some(Refusal::Withdrawn) => Err(Reason::Withdrawn),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;
    use std::sync::Mutex;

    use weft_protocol::migration;

    use super::*;
    use crate::joining::attach::{give_up, say_why_not};
    use crate::sample::{self, as_another_user};
    use crate::table::Phase;
    use crate::tracking;

    /// Who is short of numbers takes them from all connections that wait.
    static ALONE: Mutex<()> = Mutex::new(());

    /// An end of a connection, and where the two meet.
    fn end(role: Role) -> (Guard, Place) {
        sample::start();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd = [client, listener.accept().unwrap().0].map(IntoRawFd::into_raw_fd)[role as usize];
        tracking::track(fd, role, 1);
        let guard = table::enter(fd).unwrap();
        assert!(guard.is_alone());
        let place = Place::of(fd, role).unwrap();
        (guard, place)
    }

    fn waiting_server() -> (Guard, Place) {
        let (guard, place) = end(Role::Server);
        rendezvous::wait(guard.connection, &place).unwrap();
        guard.connection.on(Event::Listens);
        (guard, place)
    }

    #[test]
    fn a_stranger_who_calls_first_does_not_keep_the_client_out() {
        let _alone = ALONE.lock();
        let (guard, place) = waiting_server();
        let Some(stranger) = as_another_user(|| place.call().unwrap()) else { return };
        assert_eq!(look_for_offer(&guard), Ok(None));
        assert!(meeting::is_refused(stranger), "it is turned away");
        assert_eq!(look_for_offer(&guard), Ok(None), "it may yet come");
        let caller = place.call().unwrap();
        let (_, file) = Segment::create(Capacity::new(1 << 12).unwrap()).unwrap();
        let [own, peer] = [(); 2].map(|()| descriptors::event().unwrap());
        meeting::hand_over(caller, [file, own, peer]).unwrap();
        assert_eq!(look_for_offer(&guard), Ok(Some(Event::Shared)));
        [stranger, caller, file, own, peer].into_iter().for_each(sys::close);
    }

    #[test]
    fn a_client_of_another_user_behind_which_nobody_comes_was_the_client() {
        let _alone = ALONE.lock();
        let counted = || {
            let counts = &stats::get().unwrap().fallen_through;
            counts[Reason::OtherUser as usize].load(Ordering::Relaxed)
        };
        for ends in [false, true] {
            let (guard, place) = waiting_server();
            let Some(stranger) = as_another_user(|| place.call().unwrap()) else { return };
            assert_eq!(look_for_offer(&guard), Ok(None));
            let before = counted();
            let connection = guard.connection;
            if ends {
                say_why_not(connection)
            } else {
                give_up(connection, Reason::PeerPlain)
            }
            assert_eq!((guard.connection.phase(), counted()), (Phase::PLAIN, before + 1));
            sys::close(stranger);
        }
    }

    #[test]
    fn a_client_hears_that_its_server_cannot_use_what_it_has_taken() {
        let _alone = ALONE.lock();
        let (guard, place) = waiting_server();
        let caller = place.call().unwrap();
        // It is no segment.
        let file = descriptors::event().unwrap();
        let [own, peer] = [(); 2].map(|()| descriptors::event().unwrap());
        meeting::hand_over(caller, [file, own, peer]).unwrap();
        assert_eq!(meeting::refusal(caller), None);
        assert_eq!(look_for_offer(&guard), Err(Reason::NoSegment));
        assert_eq!(meeting::refusal(caller), Some(Refusal::Withdrawn));
        give_up(guard.connection, Reason::NoSegment);
        [caller, file, own, peer].into_iter().for_each(sys::close);
    }

    /// Of the numbers that a program may need no more are kept for offers than for meeting places.
    #[test]
    fn an_offer_needs_room_and_who_waits_makes_it() {
        let _alone = ALONE.lock();
        assert!(rendezvous::makes_room(|| 1));
        let (server, _) = waiting_server();
        assert!(rendezvous::makes_room(|| 1), "who waits may do so later");
        assert_eq!(server.connection.phase(), Phase::CANDIDATE);
        give_up(server.connection, Reason::Limit);
        let (client, place) = end(Role::Client);
        let listener = place.listen().unwrap();
        assert_eq!(offer_to(&client, place.call().unwrap()), Ok(Offered::Segment));
        client.connection.on(Event::Shared);
        assert!(!rendezvous::makes_room(|| 1), "what was offered is to be answered");
        assert!(rendezvous::makes_room(|| 2));
        assert_eq!(client.connection.phase(), Phase::OFFERED);
        give_up(client.connection, Reason::Limit);
        assert!(rendezvous::makes_room(|| 1));
        sys::close(listener);
    }

    #[test]
    fn a_client_hears_that_its_server_has_left_with_what_it_brought() {
        let _alone = ALONE.lock();
        let (guard, place) = end(Role::Client);
        let listener = place.listen().unwrap();
        assert_eq!(offer_to(&guard, place.call().unwrap()), Ok(Offered::Segment));
        guard.connection.on(Event::Shared);
        assert_eq!(refused_there(guard.connection), Ok(None));
        sys::close(listener);
        assert_eq!(refused_there(guard.connection), Err(Reason::Withdrawn));
        give_up(guard.connection, Reason::Withdrawn);
    }

    #[test]
    fn an_offer_is_taken_back_where_the_program_needs_its_number() {
        let _alone = ALONE.lock();
        let (guard, place) = end(Role::Client);
        let listener = place.listen().unwrap();
        offer_to(&guard, place.call().unwrap()).unwrap();
        guard.connection.on(Event::Shared);
        let made = std::cell::Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            sys::set_errno(libc::EMFILE);
            if made.get() == 1 { -1 } else { 7 }
        };
        assert_eq!(rendezvous::with_room(make), 7);
        assert_eq!(guard.connection.phase(), Phase::PLAIN);
        let agreement = guard.connection.segment().unwrap().words().agreement.agreed();
        assert_eq!(agreement, migration::Agreed::Revoked);
        sys::close(listener);
    }
}
