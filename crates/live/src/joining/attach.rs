//! Moves a connection from the kernel to shared memory: carries out, by system calls, the steps
//! that `weft_protocol::migration` decides.
//!
//! After a few operations each end looks for the other, at its own pace and never waiting. Then
//! both announce in the segment that they read it, and only then does each direction switch, by
//! itself: the sender notes how many bytes it has ever put into the kernel's stream and writes to
//! the ring from there on; the receiver reads the kernel's stream up to that count, then the ring.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::Outlet;
use weft_protocol::migration::{self, Action, Switch};

use crate::descriptors;
use crate::joining::meeting::Place;
use crate::joining::offer::{
    Offered, look_for_offer, no_meeting, offer, refused_for_calls, refused_here, refused_there,
};
use crate::joining::pace::{
    LAST_ATTEMPT, SENDS, a_third_later, after_nobody, has_long_sought, seeks_first,
};
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
use crate::table::{self, Connection, Event, Guard, Phase, Sending};

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

/// Lets this end's state machine take its steps, as far as possible in this call. The caller holds
/// the right to join.
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
    // Calls that were to bypass the library no longer do.
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
            // Most connections that end are of this kind; for them the kernel is entered no more
            // than needed. If the right cannot be taken, this thread holds it already.
            let _attaching = attaching::ATTACHING.lock();
            give_up_held(connection, reason);
        }
        _ => {
            let _attaching = Attaching::begin();
            give_up_held(connection, reason);
        }
    }
}

/// Leaves a connection to the kernel for this reason, while the right to join is held.
pub fn give_up_held(connection: &Connection, reason: Reason) {
    let now = connection.phase();
    if now == Phase::FREE || !now.may_join() {
        return;
    }
    rendezvous::leave(connection);
    // The user that was turned away may have been the client. That explains why nobody else came,
    // but nothing that this end has done itself.
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

/// Leaves a connection to the kernel for this reason, unless nobody has looked for the other end:
/// then it may yet be accelerated, perhaps with another end.
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
    // If the kernel gives no number, this value matches no connection.
    connection.cookie.store(sys::cookie(fd).unwrap_or(u64::MAX), Ordering::Relaxed);
    stats::count(|stats| &stats.candidates, 1);
    true
}

/// Goes to the meeting place, if it is time and the connection may be accelerated.
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
            // Only now: a client that finds no server need not check, and a server that is there
            // waits for the segment. What was offered can be taken back.
            refused_for_calls()?;
        }
        return Ok(None);
    }
    rendezvous::wait(guard.connection, &place).map_err(no_meeting)?;
    Ok(Some(Event::Listens))
}

/// Keeps other calls out, and counts what was taken out of the kernel's stream.
fn prepare(guard: &Guard) -> Result<Event, Reason> {
    if !guard.is_alone() {
        // A call that has entered meanwhile has seen the phase, or is in the kernel: try again at
        // the next operation.
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

/// Tells all threads that wait for the connection that this end reads the segment.
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

/// Shuts down the kernel's directions by `kernel`, if this end's sending direction has not
/// switched. If the other end has not yet learned that this one reads the segment, that is revoked,
/// and the connection stays with the kernel from then on.
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

/// Switches the sending direction, if both ends read the segment. The caller holds the sending
/// half, without which no thread sends through the kernel once the connection has joined.
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
