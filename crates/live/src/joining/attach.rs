//! From a connection of the kernel to one in shared memory: what `weft_protocol::migration` says that an end
//! is to do, done by system calls.
//!
//! After a few operations each end looks for the other, at its own pace and never waiting. Then
//! both say in the segment that they look for what the other announces there, and only then does
//! each direction switch, by itself: the sender notes how many bytes it has ever put into the
//! kernel's stream and writes to the ring from there on; the receiver reads the kernel's stream up
//! to that count, then the ring.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::break_even::BreakEven;
use weft_protocol::byte_ring::Capacity;
use weft_protocol::detour::Outlet;
use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::migration::{self, Action, Switch};

use crate::config;
use crate::descriptors;
use crate::joining::bare_calls;
use crate::joining::meeting::{self, Place, Refusal};
use crate::joining::rendezvous;
use crate::joining::worth::{is_worth_it, learn};
use crate::options;
use crate::registry;
use crate::report::log;
use crate::report::stats::{self, Reason};
use crate::segment::{Role, Segment};
use crate::sys;
use crate::table::attaching::{self, Attaching};
use crate::table::figures;
use crate::table::forbidden;
use crate::table::numbers::leaves_others;
use crate::table::{self, Connection, Event, Guard, Phase, Sending};

/// After so many operations nobody will come any more, unless they took no time: the other end of
/// a stream may read rarely, and much at a time.
const LAST_ATTEMPT: u32 = 4096;
/// How long a client looks for its server at least, in nanoseconds. A server need not be waited
/// for: it makes its place before its client comes.
const PATIENCE: u64 = 1_000_000_000;
/// But no longer than until the server has sent so often: it would have looked at its
/// [`BreakEven::LATEST`] operation, and a few more times if others were in a call then.
const SENDS: u64 = BreakEven::LATEST as u64 * 4 / 3;
/// A client's last look is so many sends of its server later than that: those may still be on their way then, which
/// the kernel has not counted.
const ON_THEIR_WAY: u64 = 2;

/// So many callers a server looks at in one call.
const CALLERS: usize = 4;

/// How long the server waits for the segment once the client has connected, in nanoseconds.
const HAND_OVER: u64 = 50_000_000;

/// Called at the beginning of every operation on a connection that is not joined and does not pass
/// by.
#[inline]
pub fn tick(guard: &Guard) {
    let connection = guard.connection;
    // Two threads at once may count one for two: the count only sets the pace.
    let operations = connection.operations.load(Ordering::Relaxed) + 1;
    connection.operations.store(operations, Ordering::Relaxed);
    let offered = connection.phase() == Phase::OFFERED;
    let next = connection.next_attempt.load(Ordering::Relaxed);
    if offered || operations >= next {
        attempt(guard, operations);
    } else if guard.fd == connection.first_fd.load(Ordering::Relaxed) {
        pass_on(guard, next - operations);
    }
}

/// Lets more calls pass by: those before the next attempt are more than a word has room for.
#[cold]
fn pass_on(guard: &Guard, left: u32) {
    // It only changes a word.
    let Some(_attaching) = attaching::ATTACHING.try_lock() else { return };
    if matches!(guard.connection.phase(), Phase::CANDIDATE | Phase::LISTENING) {
        guard.hush(left - 1);
    }
}

#[cold]
fn attempt(guard: &Guard, operations: u32) {
    let Some(_attaching) = Attaching::try_begin() else { return };
    let _errno = sys::KeepErrno::new();
    let connection = guard.connection;
    connection.next_attempt.store(a_third_later(operations), Ordering::Relaxed);
    let alone = connection.holders.load(Ordering::SeqCst) == 1;
    if !alone || !guard.is_alone() || !table::is_owner() {
        return;
    }
    let result = forbidden::reason().map_or_else(|| advance(guard, operations), Err);
    let over = operations > LAST_ATTEMPT
        && connection.phase() <= Phase::LISTENING
        && (connection.role() == Role::Server || has_long_sought(connection));
    let reason = if over { Err(Reason::PeerPlain) } else { result };
    if let Err(reason) = reason {
        learn(connection);
        give_up_held(connection, reason);
    }
    if matches!(connection.phase(), Phase::CANDIDATE | Phase::LISTENING) {
        let next = connection.next_attempt.load(Ordering::Relaxed);
        guard.hush(next.saturating_sub(operations + 1));
    }
}

/// The operation before which an end does not look again that looks after so many: a third of those later.
const fn a_third_later(operations: u32) -> u32 {
    operations.saturating_add(if operations < 3 { 1 } else { operations / 3 })
}

/// The same for a client that has found nobody, and not for the first time, after its server has sent so often. A
/// server waits from its twelfth operation on, or from one that is twice, four times, ... as late
/// ([`BreakEven::doubled`]), so a client looks a third after each of these, if both make as many operations. If not, it
/// looks about twice as late at most. It looks once more when the server will have sent so often that it comes no more.
fn after_nobody(operations: u32, sends: u64) -> u32 {
    if operations > LAST_ATTEMPT {
        return a_third_later(operations);
    }
    let left = (SENDS + ON_THEIR_WAY).saturating_sub(sends);
    let until_late = (left * u64::from(operations)).checked_div(sends).unwrap_or(u64::MAX);
    // Neither much sooner, whatever the server does, nor a little before.
    let an_eighth = operations / 8;
    let pause = match u32::try_from(until_late) {
        Ok(until_late) if until_late <= operations + an_eighth => until_late.max(an_eighth),
        _ => operations,
    };
    operations.saturating_add(pause.max(1)).min(LAST_ATTEMPT + 1)
}

/// Lets this end's machine take its steps, as far as they go in this call. With the right to join held.
fn advance(guard: &Guard, operations: u32) -> Result<(), Reason> {
    let connection = guard.connection;
    let mut action = connection.on(Event::Called);
    loop {
        let event = match action {
            Action::Offer | Action::Listen => begin(guard, operations)?,
            Action::Take => look_for_offer(guard)?,
            Action::AskForRefusal => refused_there(connection)?,
            Action::Prepare => Some(prepare(guard)?),
            Action::Learn => Some(learn_socket(guard)),
            Action::Follow => follow(guard),
            Action::GiveUp => return Err(Reason::Withdrawn),
            Action::Rest | Action::TellKernel | Action::Leave => None,
        };
        let Some(event) = event else { return Ok(()) };
        action = connection.on(event);
    }
}

/// Whether the other end was first looked for long ago.
fn has_long_sought(connection: &Connection) -> bool {
    sys::now().saturating_sub(connection.sought.load(Ordering::Relaxed)) >= PATIENCE
}

/// Notes that this end looks for its peer. Returns whether it does so for the first time.
fn seeks_first(connection: &Connection) -> bool {
    let order = Ordering::Relaxed;
    connection.sought.load(order) == 0
        && connection.sought.compare_exchange(0, sys::now(), order, order).is_ok()
}

/// Learns which server's port a socket connects to that was remembered before.
pub fn meet_server(guard: &Guard, port: u16) {
    let connection = guard.connection;
    let kind = table::kind(Role::Client, port);
    let _errno = sys::KeepErrno::new();
    let Some(_attaching) = Attaching::begin() else { return };
    let same = connection.kind.load(Ordering::Relaxed) == kind;
    if same || connection.phase() != Phase::CANDIDATE {
        return;
    }
    connection.kind.store(kind, Ordering::Relaxed);
    let after = table::learned(kind).after();
    // Those that were to pass by no longer do.
    let _ = guard.is_alone();
    connection.operations.store(0, Ordering::Relaxed);
    connection.next_attempt.store(after, Ordering::Relaxed);
    guard.hush(after - 1);
}

/// Whether a socket is remembered that is not connected yet.
pub fn is_early(guard: &Guard) -> bool {
    let _errno = sys::KeepErrno::new();
    guard.connection.phase() == Phase::CANDIDATE
        && sys::tcp_counts(guard.fd).is_ok_and(|counts| !counts.established)
}

/// Leaves a connection to the kernel for good, unless it is joined, by now: another thread may be
/// joining it, and ends that first.
pub fn give_up(connection: &Connection, reason: Reason) {
    match connection.phase() {
        Phase::PLAIN => {}
        Phase::CANDIDATE => {
            // Most connections that end are such, for which the kernel is entered no more than needed.
            // Without the right, this thread has it already.
            let _attaching = attaching::ATTACHING.lock();
            give_up_held(connection, reason);
        }
        _ => {
            let _attaching = Attaching::begin();
            give_up_held(connection, reason);
        }
    }
}

/// The same with the right to join held.
pub fn give_up_held(connection: &Connection, reason: Reason) {
    let now = connection.phase();
    if now == Phase::FREE || !now.may_join() {
        return;
    }
    rendezvous::leave(connection);
    // As far as anybody knows, whoever was turned away was the client. That says why nobody else came, and nothing of
    // what this end has done itself.
    let had_stranger = connection.had_stranger.load(Ordering::Relaxed);
    let is_awaited = reason == Reason::PeerPlain;
    let reason = if had_stranger && is_awaited { Reason::OtherUser } else { reason };
    let leaves = connection.on(Event::Refused) == Action::Leave;
    if leaves && is_tcp(connection, connection.first_fd.load(Ordering::Relaxed)) {
        figures::fell_through(connection, reason);
    }
}

/// Says of a connection that is about to end why it was not accelerated, if anybody was turned away.
pub fn say_why_not(connection: &Connection) {
    if connection.had_stranger.load(Ordering::Relaxed) {
        give_up(connection, Reason::OtherUser);
    }
}

/// The same unless nobody has looked for the other end, so that it may yet be accelerated, perhaps with
/// another.
pub fn give_up_unless_candidate(guard: &Guard, reason: Reason) {
    let Some(_attaching) = Attaching::begin() else { return };
    if guard.connection.phase() != Phase::CANDIDATE {
        give_up_held(guard.connection, reason);
    }
}

/// Whether this is a TCP connection at all, which the kernel is asked once; from then on its number
/// is known.
fn is_tcp(connection: &Connection, fd: c_int) -> bool {
    if connection.cookie.load(Ordering::Relaxed) != 0 {
        return true;
    }
    let _errno = sys::KeepErrno::new();
    let protocol = sys::socket_option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL);
    if protocol != Ok(libc::IPPROTO_TCP) {
        return false;
    }
    // Where the kernel gives no number, this one is nobody's.
    connection.cookie.store(sys::cookie(fd).unwrap_or(u64::MAX), Ordering::Relaxed);
    stats::count(|stats| &stats.candidates, 1);
    true
}

/// Whether the C library's streams may read and write a number, past this library.
pub fn is_of_stdio(fd: c_int) -> bool {
    (0..=2).contains(&fd)
}

/// Goes to the meeting place, if it is time and the connection is one that may be accelerated.
fn begin(guard: &Guard, operations: u32) -> Result<Option<Event>, Reason> {
    let fd = guard.fd;
    let role = guard.connection.role();
    if !is_worth_it(guard.connection, operations) {
        return Ok(None);
    }
    if !is_tcp(guard.connection, fd) {
        return Ok(Some(Event::Refused));
    }
    let counts = sys::tcp_counts(fd).map_err(|_| Reason::Counters)?;
    if !counts.established {
        return Ok(None);
    }
    let is_client = role == Role::Client;
    // A client asks again once its server is there.
    let is_first = seeks_first(guard.connection);
    if is_first || !is_client {
        refused_here(fd)?;
    }
    if !is_client {
        refused_for_calls()?;
    }
    let place = Place::of(fd, role).ok_or(Reason::Elsewhere)?;
    if !rendezvous::makes_room(descriptors::most_dispensable) {
        return Ok(None);
    }
    if is_client {
        let sends = counts.sends();
        let offered = offer(guard, &place, sends >= SENDS);
        if offered == Ok(Offered::ToNobody) && !is_first {
            let next = after_nobody(operations, sends);
            guard.connection.next_attempt.store(next, Ordering::Relaxed);
        }
        if offered? == Offered::Segment {
            guard.connection.on(Event::Shared);
            // Only now: who finds no server need not look, and a server that is there waits for the segment. What
            // was offered can be taken back.
            refused_for_calls()?;
        }
        return Ok(None);
    }
    rendezvous::wait(guard.connection, &place).map_err(no_meeting)?;
    Ok(Some(Event::Listens))
}

/// Whether anything at this end leaves a connection to the kernel.
fn refused_here(fd: c_int) -> Result<(), Reason> {
    if is_of_stdio(fd) {
        return Err(Reason::Stdio);
    }
    let signals = sys::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0) & libc::O_ASYNC != 0;
    if signals || options::is_kernels(fd) {
        return Err(Reason::Option);
    }
    Ok(())
}

/// Whether the process makes calls past this library, which takes milliseconds to find out for the first
/// connection, and more if there is much code.
fn refused_for_calls() -> Result<(), Reason> {
    if bare_calls::are_there() {
        forbidden::begin(Reason::BareCalls);
        return Err(Reason::BareCalls);
    }
    Ok(())
}

/// What a client has offered to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    /// A segment to its server.
    Segment,
    /// Nothing, since nobody is there.
    ToNobody,
    /// Nothing, since somebody else waits there to be turned away.
    Later,
}

/// The client's part: hand a segment over, if the server is there. One that is `late` will not come.
fn offer(guard: &Guard, place: &Place, late: bool) -> Result<Offered, Reason> {
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

/// The same at a server that waits at the other end of a socket.
fn offer_to(guard: &Guard, caller: c_int) -> Result<Offered, Reason> {
    let handed = if meeting::is_trusted(caller) {
        hand_segment_over(guard, caller)
    } else {
        meeting::refuse(caller);
        Err(Reason::OtherUser)
    };
    // The server may leave before it has taken the segment, or refuse it, and says so there.
    if handed.is_ok() {
        rendezvous::keep(guard.connection, caller);
    } else {
        sys::close(caller);
    }
    let (segment, [own, peer]) = handed?;
    guard.attach(segment, own, peer);
    Ok(Offered::Segment)
}

/// Why the ends cannot meet, by what the kernel says of their socket.
const fn no_meeting(why: sys::Errno) -> Reason {
    match why {
        libc::EMFILE | libc::ENFILE => Reason::Limit,
        // Somebody else is there, or forbids it.
        libc::EADDRINUSE | libc::EAGAIN | libc::EACCES | libc::EPERM => Reason::NoPlace,
        _ => Reason::NoSegment,
    }
}

/// The segment, the own event and the other's.
type Handed = (Segment, [c_int; 2]);

fn hand_segment_over(guard: &Guard, caller: c_int) -> Result<Handed, Reason> {
    within_limit()?;
    registry::can_follow(guard).then_some(()).ok_or(Reason::Epoll)?;
    let capacity = Capacity::new(config::ring_bytes()).map_err(|_| Reason::NoSegment)?;
    let (segment, file) = Segment::create(capacity).map_err(|_| Reason::NoSegment)?;
    // Whoever sleeps in the kernel when the first byte passes it by must be woken there.
    for role in [Role::Client, Role::Server] {
        segment.way(role).arrived.arm(Sleep::InKernel);
    }
    let events = [descriptors::event(), descriptors::event()];
    let handed = match events {
        [Ok(own), Ok(peer)] if leaves_others(own.max(peer)) => {
            let handed = meeting::hand_over(caller, [file, own, peer]);
            handed.map(|()| (segment, [own, peer])).map_err(|why| match why {
                // The other end was faster to look whose this is than this one to hand over.
                _ if meeting::is_refused(caller) => Reason::OtherUser,
                // It waits there no longer.
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

/// The server's part: take the segment, if the client has brought one. Whoever else calls there is turned away,
/// and the client may come behind. Nobody can tell whether that was the client itself, so the server goes on to look
/// as long as if nobody had come: any user may call at a place, and none is to keep the client out.
fn look_for_offer(guard: &Guard) -> Result<Option<Event>, Reason> {
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
        let (segment, [own, peer]) = taken?;
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
        Ok(events) => Ok((segment, events)),
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
fn refused_there(connection: &Connection) -> Result<Option<Event>, Reason> {
    match rendezvous::refusal(connection) {
        Some(Refusal::OtherUser) => Err(Reason::OtherUser),
        Some(Refusal::Withdrawn) => Err(Reason::Withdrawn),
        None => Ok(None),
    }
}

/// Keeps other calls out, and counts what was taken out of the kernel's stream.
fn prepare(guard: &Guard) -> Result<Event, Reason> {
    if !guard.is_alone() {
        // Whoever came in meanwhile saw the phase, or is in the kernel: at the next operation.
        return Ok(Event::Busy);
    }
    let taken = sys::bytes_read(guard.fd).map_err(|why| match why {
        libc::ENOTCONN => Reason::Peer,
        _ => Reason::Counters,
    })?;
    guard.connection.taken.store(taken, Ordering::Relaxed);
    Ok(Event::Prepared)
}

/// Learns what the program has set the socket to.
fn learn_socket(guard: &Guard) -> Event {
    let connection = guard.connection;
    let nonblocking = sys::fcntl(guard.fd, libc::F_GETFL, 0).unwrap_or(0) & libc::O_NONBLOCK != 0;
    connection.nonblocking.store(nonblocking, Ordering::Relaxed);
    options::learn(guard.fd, connection);
    options::learn_delays(guard.fd, connection);
    connection.keeper.store(table::owner(), Ordering::Relaxed);
    Event::Learned
}

/// Tells all who wait for the connection that this end looks into the segment.
fn follow(guard: &Guard) -> Option<Event> {
    let connection = guard.connection;
    rendezvous::leave(connection);
    if let (Some(segment), Some(mut sending)) = (connection.segment(), connection.sending()) {
        switch(guard, &segment, &mut sending);
    }
    registry::follow(guard);
    stats::count(|stats| &stats.joined, 1);
    log::line(guard.fd, guard.fd, format_args!("accelerated through shared memory"));
    None
}

/// Shuts the kernel's directions down by `kernel`, where this end's sending direction has not switched. If the
/// other end has not heard that this one looks into the segment, that is taken back, and the connection is the
/// kernel's from then on.
pub fn shut_in_kernel<T>(guard: &Guard, kernel: impl FnOnce() -> T) -> T {
    let connection = guard.connection;
    let tells = connection.on(Event::Shut) == Action::TellKernel;
    if tells && connection.read_shut.load(Ordering::SeqCst) {
        // Only this library knows so far.
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
    let result = kernel();
    if tells {
        if connection.on(Event::Returned) == Action::Leave {
            figures::fell_through(connection, Reason::Call);
        }
        // From now on the kernel tells the instances of `epoll`, also of a `shutdown` that changes nothing.
        connection.returned_in.store(true, Ordering::SeqCst);
        connection.returned_out.store(true, Ordering::SeqCst);
    }
    result
}

/// Switches the sending direction, if both ends look into the segment. Called with the sending half
/// held, without which nobody sends through the kernel once joined.
pub fn switch(guard: &Guard, segment: &Segment, sending: &mut Sending) {
    let connection = guard.connection;
    let detour = &segment.way(connection.role()).detour;
    match migration::switch(&sending.sender, detour, &segment.words().agreement) {
        Switch::Stay => return,
        Switch::Skip => sending.sender.begin(detour, 0),
        Switch::Begin => {
            let _errno = sys::KeepErrno::new();
            match sys::tcp_counts(guard.socket()) {
                Ok(counts) if counts.established => sending.sender.begin(detour, counts.put_in),
                _ => {}
            }
        }
    }
    match sending.sender.outlet() {
        Outlet::Ring => connection.switched_out.store(true, Ordering::Release),
        Outlet::After => connection.returned_out.store(true, Ordering::Release),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::IntoRawFd;
    use std::sync::Mutex;

    use super::*;
    use crate::sample::{self, as_another_user};
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
    fn a_client_looks_soon_after_each_operation_at_which_its_server_may_begin_to_wait() {
        // The server answers each of the client's messages, which is two operations at both ends.
        let looks = |first: u32| {
            let mut all = vec![first, a_third_later(first)];
            while u64::from(all[all.len() - 1]) / 2 < SENDS {
                let last = all[all.len() - 1];
                all.push(after_nobody(last, u64::from(last) / 2));
            }
            all
        };
        assert_eq!(looks(12), [12, 16, 32, 64, 128, 256, 512, 1024, 2052]);
        for doublings in 0..=BreakEven::DOUBLINGS {
            let begins = BreakEven::doubled(doublings).after();
            for all in (0..=doublings).map(|own| looks(BreakEven::doubled(own).after())) {
                let later = |look: &&u32| (begins..=a_third_later(begins)).contains(*look);
                assert!(all.iter().any(|look| later(&look)), "{begins}: {all:?}");
            }
            let last = looks(begins).pop();
            assert_eq!(last, Some(2 * (SENDS + ON_THEIR_WAY) as u32), "{begins}");
        }
    }

    #[test]
    fn a_client_looks_by_twice_the_operation_at_which_a_slower_or_faster_server_begins_to_wait() {
        // So many operations of the server for so many of the client; every other one is a send.
        for (servers, own) in [(1, 3), (1, 2), (2, 3), (3, 2), (2, 1), (3, 1)] {
            let sends = |operations: u32| u64::from(operations * servers / own) / 2;
            let (mut looks, mut last) = (vec![12], 16);
            while sends(last) < SENDS && last <= LAST_ATTEMPT {
                looks.push(last);
                last = after_nobody(last, sends(last));
            }
            looks.push(last);
            for doublings in 0..=BreakEven::DOUBLINGS {
                let begins = (BreakEven::doubled(doublings).after() * own).div_ceil(servers);
                // It looks first at its twelfth operation, and the last look may wait an eighth longer.
                let soon = begins..=(2 * begins + begins / 8).max(12);
                assert!(looks.iter().any(|look| soon.contains(look)), "{soon:?}: {looks:?}");
            }
        }
    }

    #[test]
    fn a_client_that_has_found_nobody_looks_a_bounded_number_of_times() {
        // Whatever the server has sent by each look: never so often that it is late.
        for ratio in [0, 1, 2, 3, 7, 100, 1000, 100_000] {
            for most in [1, SENDS / 2, SENDS - 1] {
                let (mut operations, mut looks) = (16, 0);
                while operations <= LAST_ATTEMPT {
                    let sends = (u64::from(operations) * ratio / 100).min(most);
                    let next = after_nobody(operations, sends);
                    assert!(next > operations && next <= LAST_ATTEMPT + 1);
                    (operations, looks) = (next, looks + 1);
                }
                // An eighth 47 times comes to 256 times as many; the first few are rounded down.
                assert!(looks <= 50, "{ratio} of 100, {most}: {looks}");
                assert_eq!(operations, LAST_ATTEMPT + 1, "nobody comes any more");
            }
        }
        assert_eq!(after_nobody(LAST_ATTEMPT + 1, 0), a_third_later(LAST_ATTEMPT + 1));
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
