//! Migration from shared memory back to the kernel, at any moment and in both directions, without
//! losing a byte or changing the order.
//!
//! The end that migrates *ends* both directions' detours, which seals the rings, and wakes the
//! other end. From then on both ends write to the kernel's stream again, and read what is left in
//! the rings first. That is enough as long as this library reads. A descriptor that goes where the
//! library cannot follow (to a program without it, or past the C library) *departs*: the other end
//! sends what this one has not read through the kernel's stream, after which the descriptor is as
//! if it had never been accelerated. `weft_protocol::migration::back` decides the steps, and
//! `weft_protocol::detour` the order of bytes. The model of two ends in `weft_protocol::migration`
//! takes these steps in every order, and the model of a detour all of its own. Here system calls
//! carry them out.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::byte_ring::BrokenRing;
use weft_protocol::detour::{Begun, Inlet, Outlet, Refusal};
use weft_protocol::migration::back::{
    self, Answer, Departure, Found, Hearing, Reception, Transmission, Waited,
};

use crate::joining::attach;
use crate::migration::answering;
use crate::peer::death;
use crate::peer::doorbell;
use crate::registry;
use crate::report::stats::Reason;
use crate::segment::{Role, Segment, Way, closed};
use crate::sys::{self, Errno};
use crate::table::connection::Half;
use crate::table::figures;
use crate::table::{Connection, Guard, Phase, Receiving, Sending, end};

/// How long a descriptor that leaves waits for the other end to hear of it, in nanoseconds.
const PATIENCE: u64 = 300_000_000;
/// How long calls of other threads are waited for that are in a connection which is to be replaced, in
/// nanoseconds.
pub const DRAINING: u64 = 20_000_000;
/// How long the other end's doorbells are waited for that were announced, in nanoseconds.
const SETTLING: u64 = 1_000_000_000;
/// How long a closing end tries to send what the other refused, in nanoseconds.
const LINGER: u64 = 2_000_000_000;

/// Ends both detours and wakes whoever sleeps on them. Does nothing the second time.
pub fn turn_back(guard: &Guard, segment: &Segment, reason: Reason) {
    let connection = guard.connection;
    let role = connection.role();
    end_both(segment);
    let is_first = connection.wakers.count(|| {
        let is_first = !connection.turned.swap(true, Ordering::AcqRel);
        if is_first {
            doorbell::wake(guard, &segment.way(role).arrived);
            doorbell::wake(guard, &segment.way(role.peer()).freed);
        }
        is_first
    });
    if !is_first {
        return;
    }
    silence(guard, segment);
    // This end's own sleepers: on the words, and in epoll instances.
    doorbell::wake_word(&segment.way(role.peer()).arrived);
    doorbell::wake_word(&segment.way(role).freed);
    doorbell::signal(&guard.local().own_event);
    figures::moved_back(guard, reason);
}

/// Disables the doorbell, once the detours have ended and every sleeper that had armed its flag by
/// then is awake. Another thread that is about to ring, or to check whom to wake, would come too
/// late, so this rings in its place; a sleeper that arms its flag later sees the end. It does not
/// ring if the kernel has an error to report, which the doorbell would consume, or if the other end
/// is gone, since ringing would cause an error. It skips unnecessary doorbells: one that is left
/// unread turns the other end's exit into a reset.
fn silence(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    let role = connection.role();
    // A thread that has taken the flag, or has announced that all are back, is counted by now.
    let owed = connection.wakers.may_owe();
    let open = segment.side(role.peer()).closed.load(Ordering::Acquire) == closed::OPEN;
    let rings = owed && open && connection.switched_out.load(Ordering::Acquire);
    let said = if rings { sys::poll_now(guard.socket(), libc::POLLRDHUP) } else { 0 };
    // An end that goes on ends its direction in the ring, or in the kernel once it has returned
    // there.
    let detour = &segment.way(role.peer()).detour;
    let goes_on = !matches!(detour.begun(), Begun::After(_))
        || detour.is_finished()
        || detour.resumes_after().is_some()
        || connection.deaf.load(Ordering::Acquire);
    let has_gone = said & libc::POLLRDHUP != 0 && !goes_on;
    if rings && said & libc::POLLERR == 0 && !has_gone {
        doorbell::ring_doorbell(guard, segment);
    }
    segment.way(role).detour.silence();
}

/// Where the next byte to receive comes from; keeps the connection's flags in step. `None` in a
/// signal handler that interrupted a sender.
pub fn inlet(guard: &Guard, segment: &Segment, receiving: &mut Receiving) -> Option<Inlet> {
    let connection = guard.connection;
    let way = segment.way(connection.role().peer());
    let mut look = || {
        let taken = connection.taken.load(Ordering::Acquire);
        receiving.receiver.inlet(&way.detour, &way.pointers, &receiving.reader, taken)
    };
    let mut inlet = look();
    if matches!(inlet, Inlet::Before { .. } | Inlet::Doorbells(_)) && recounts(guard, inlet) {
        inlet = look();
    }
    let has_arrived = connection.switched_in.load(Ordering::Relaxed);
    let is_back = connection.returned_in.load(Ordering::Relaxed);
    match back::receive(inlet, has_arrived, is_back, || way.detour.refusal()) {
        Reception::Read => Some(inlet),
        Reception::Arrive => arrive(guard, segment).then_some(inlet),
        Reception::Settle => Some(Inlet::Settling),
        Reception::AskForEnd
            if back::asked_for_end(has_said_all(guard, segment)) == Reception::Settle =>
        {
            Some(Inlet::Settling)
        }
        Reception::AskForEnd | Reception::Return => {
            return_to_read(guard);
            Some(inlet)
        }
    }
}

/// Returns to the kernel for receiving. If this end reads no more, it shuts the kernel's direction
/// down first: once the direction is back, other threads receive from the kernel, which must report
/// the end.
fn return_to_read(guard: &Guard) {
    let connection = guard.connection;
    let told = connection.reads_no_more();
    if told {
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
    connection.returned_in.store(true, Ordering::SeqCst);
    connection.switched_in.store(false, Ordering::SeqCst);
    if !told && connection.reads_no_more() {
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
}

/// Goes over to the ring for receiving, once the kernel's stream is read up to where the sender
/// switched. This end's own direction switches first: whoever reads from the ring must be able to
/// ring doorbells, which only a switched direction carries.
fn arrive(guard: &Guard, segment: &Segment) -> bool {
    let Some(mut sending) = guard.connection.sending() else { return false };
    attach::switch(guard, segment, &mut sending);
    drop(sending);
    guard.connection.switched_in.store(true, Ordering::Release);
    // The kernel may have reported that, once, while its end of stream meant nothing yet.
    let is_gone = death::is_gone_since_switched(guard, segment);
    // A doorbell that has woken an earlier sleeper would stay there until another one sleeps.
    let has_answered = answering::answer_doorbells(guard);
    if is_gone || has_answered {
        registry::kick(guard);
    }
    true
}

/// Counts again how many bytes were read from the kernel's stream, if a process was killed between
/// reading and counting them: with a count that is too small, too many bytes would be expected
/// before the ring, or too many doorbells behind it. The caller holds the receiving half, which is
/// all that is needed before the ring.
fn recounts(guard: &Guard, inlet: Inlet) -> bool {
    let connection = guard.connection;
    let rings = matches!(inlet, Inlet::Doorbells(_));
    // Waiting for the lock shows whether its holder has died.
    let draining = rings.then(|| connection.draining.lock()).flatten();
    if rings && draining.is_none() || !connection.is_orphaned() {
        return false;
    }
    match sys::bytes_read_by_now(guard.socket()) {
        Ok(taken) => connection.adopt(taken),
        Err(libc::EAGAIN) => return false,
        // The connection is over: what was counted is all that is known.
        Err(_) => connection.adopt(connection.taken.load(Ordering::Acquire)),
    }
    drop(draining);
    true
}

/// Whether nothing follows what is in the ring, of which nothing was refused but its end.
pub fn ends_with_ring(way: &Way) -> bool {
    let refuses_end_only =
        || way.detour.refusal() == Refusal::Unheard && way.pointers.filling() == 0;
    way.detour.has_said_all() || way.detour.is_finished() && refuses_end_only()
}

/// Whether the other end has announced in the segment that it sends no more, but has not yet shut
/// down its kernel socket: nothing follows the bytes in the ring, unless those were refused.
pub fn has_said_all(guard: &Guard, segment: &Segment) -> bool {
    if !ends_with_ring(segment.way(guard.connection.role().peer())) {
        return false;
    }
    let over = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
    let said = sys::poll_now(guard.socket(), over) & over;
    let may_be_reset =
        said & libc::POLLERR != 0 || guard.connection.reset_by_doorbell.load(Ordering::Acquire);
    said == 0 || may_be_reset && death::is_reset_by_doorbell(guard)
}

/// Drains and discards the doorbells that precede the bytes after the ring. Returns how many are
/// still to come, of which one is assumed while nothing may be read; `None` if the other end is
/// gone before they came.
pub fn discard(guard: &Guard, segment: &Segment) -> Option<u64> {
    let connection = guard.connection;
    let Some(_held) = connection.draining.lock() else { return Some(1) };
    if connection.draining.is_orphaned() {
        // `inlet` counts them again.
        return Some(1);
    }
    // Another thread that woke by them may have taken some, so they are counted only now.
    let detour = &segment.way(connection.role().peer()).detour;
    let Some(start) = detour.resumes_after() else { return Some(1) };
    throw_away(guard, start.saturating_sub(connection.taken.load(Ordering::Acquire)))
}

/// Drains and discards the kernel socket, whose last writer died while it rang the doorbell.
pub fn discard_all(guard: &Guard) {
    let _held = guard.connection.draining.lock();
    throw_away(guard, u64::MAX);
}

fn throw_away(guard: &Guard, mut count: u64) -> Option<u64> {
    let connection = guard.connection;
    let mut scratch = [0u8; 256];
    while count > 0 {
        let room = scratch.len().min(count as usize);
        match sys::recv(guard.socket(), scratch.as_mut_ptr(), room, libc::MSG_DONTWAIT) {
            Ok(0) => return None,
            Ok(taken) => {
                connection.taken.fetch_add(taken as u64, Ordering::AcqRel);
                count -= taken as u64;
            }
            Err(libc::EAGAIN | libc::EINTR) => return Some(count),
            Err(_) => return None,
        }
    }
    Some(0)
}

/// Returns to the kernel for sending, once the ring is sealed: what the other end has refused goes
/// before all else, as far as there is room.
pub fn come_back(
    guard: &Guard,
    segment: &Segment,
    sending: &mut Sending,
) -> Result<(), BrokenRing> {
    let connection = guard.connection;
    let way = segment.way(connection.role());
    loop {
        let before = sending.sender.outlet();
        match back::send(before, connection.returned_out.load(Ordering::Acquire)) {
            Transmission::Rest => return Ok(()),
            Transmission::Switch => {
                attach::switch(guard, segment, sending);
                if sending.sender.outlet() == Outlet::Ring {
                    // The detour has not ended.
                    return Ok(());
                }
            }
            Transmission::ComeBack => {
                silence(guard, segment);
                let Some(_ringing) = connection.ringing.lock() else { return Ok(()) };
                if way.detour.is_ringing() {
                    doorbell::count_doorbells(guard, segment);
                }
                sending.sender.come_back(&way.detour, &sending.writer)?;
                connection.switched_out.store(false, Ordering::Release);
            }
            Transmission::SendRest => push(guard, segment, sending),
            Transmission::Return => {
                // The kernel's direction is shut down first: once the direction is back, other
                // threads rely on the kernel to report the end.
                if connection.write_shut.load(Ordering::Acquire) {
                    sys::shutdown(guard.socket(), libc::SHUT_WR);
                }
                connection.returned_out.store(true, Ordering::Release);
                return Ok(());
            }
        }
        if sending.sender.outlet() == before {
            // There is no room for the rest, or the kernel does not say where the detour would begin.
            return Ok(());
        }
    }
}

/// Sends what the other end has refused, as far as the kernel has room.
fn push(guard: &Guard, segment: &Segment, sending: &mut Sending) {
    let role = guard.connection.role();
    let detour = &segment.way(role).detour;
    let mut widened = false;
    while let Outlet::Rest(from) = sending.sender.outlet() {
        let places = sending.writer.spans_since(from).first;
        let bytes = segment.bytes(role, &places);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match sys::send(guard.socket(), bytes, places.len(), flags) {
            Ok(sent) => sending.sender.sent_rest(detour, &sending.writer, sent as u64),
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) if !widened => {
                widened = true;
                sys::widen_send_buffer(guard.socket(), segment.capacity().bytes());
            }
            Err(libc::EAGAIN) => return,
            // The connection is over: nobody will ever read the rest.
            Err(_) => sending.sender.sent_rest(detour, &sending.writer, u64::MAX >> 4),
        }
    }
}

/// Brings a connection whose detours have ended back to the kernel, as far as that goes without
/// waiting. True once it is wholly there.
pub fn settle(guard: &Guard, segment: &Segment) -> bool {
    settle_with(guard, segment, Connection::receiving)
}

/// Like [`settle`], for a caller that only checks for events: it leaves the receiving direction
/// alone while a relay process has it. A sender uses [`settle`], since that may just have been told
/// of a reset, of which the sender must learn.
pub fn settle_to_look(guard: &Guard, segment: &Segment) -> bool {
    settle_with(guard, segment, Connection::receiving_unless_lent)
}

fn settle_with(
    guard: &Guard,
    segment: &Segment,
    half: for<'a> fn(&'a Connection) -> Option<Half<'a, Receiving>>,
) -> bool {
    let _errno = sys::KeepErrno::new();
    let connection = guard.connection;
    turn_back(guard, segment, Reason::Peer);
    if !connection.returned_in.load(Ordering::Acquire)
        && let Some(mut receiving) = half(connection)
        && let Some(Inlet::Doorbells(_)) = inlet(guard, segment, &mut receiving)
        && !connection.is_slept_on()
        && discard(guard, segment) == Some(0)
    {
        inlet(guard, segment, &mut receiving);
    }
    if !connection.returned_out.load(Ordering::Acquire)
        && let Some(mut sending) = connection.sending()
        && come_back(guard, segment, &mut sending).is_err()
    {
        // The other end has written garbage: nothing can be sent any more.
        connection.end.fetch_max(end::BROKEN, Ordering::AcqRel);
        connection.returned_out.store(true, Ordering::Release);
    }
    let back = connection.is_back();
    if back {
        segment.side(connection.role()).back.store(true, Ordering::Release);
        become_plain(connection);
    }
    back
}

/// Shuts down the kernel's directions. The kernel may not know yet that the receiving one is shut,
/// and refuses what comes only if both are.
pub fn shut_down(guard: &Guard, how: c_int) -> Result<(), Errno> {
    let reads_no_more = guard.connection.read_shut.load(Ordering::Acquire);
    let both = reads_no_more && how == libc::SHUT_WR;
    sys::try_shutdown(guard.socket(), if both { libc::SHUT_RDWR } else { how })
}

/// Leaves a connection that is wholly back to the kernel for good, unless it is on loan. Loans begin
/// with the receiving half held, too.
fn become_plain(connection: &Connection) {
    let is_lent = || connection.lending.is_lent();
    if is_lent() || connection.owes_error() {
        return;
    }
    let Some(_receiving) = connection.receiving().filter(|_| !is_lent()) else { return };
    if connection.returns() {
        figures::closed(connection);
    }
}

/// Sends what the other end has refused, waiting for room: this end is about to go.
pub fn send_rest(guard: &Guard, segment: &Segment) {
    let until = sys::now() + LINGER;
    while !settle_sending(guard, segment) && sys::now() < until {
        sys::poll(guard.socket(), libc::POLLOUT, 10_000_000);
    }
}

fn settle_sending(guard: &Guard, segment: &Segment) -> bool {
    settle(guard, segment);
    guard.connection.returned_out.load(Ordering::Acquire)
}

/// Moves a connection back whose descriptor the library still sees: both directions go by the
/// kernel, and what is left in the ring is read first.
pub fn back(guard: &Guard, reason: Reason) {
    let connection = guard.connection;
    if connection.phase().may_join() {
        attach::give_up(connection, reason);
    } else if connection.phase() == Phase::JOINED
        && let Some(segment) = connection.segment()
    {
        // Once the detours have ended the kernel's stream says by itself how it ends, and knows of no ring.
        death::is_gone(guard);
        turn_back(guard, &segment, reason);
        send_rest(guard, &segment);
    }
}

/// Moves a connection back whose descriptor goes where the library cannot follow: afterwards the
/// kernel's stream holds all that was not read. False if that could not be: the other end has gone,
/// or does not look at the connection; then `is_alone` was asked to keep other threads out, and did unless
/// the other end has gone.
#[must_use = "if it could not leave, the rest must get to whoever takes the descriptor"]
pub fn leave(guard: &Guard, reason: Reason, is_alone: &mut dyn FnMut() -> bool) -> bool {
    let connection = guard.connection;
    if connection.phase().may_join() {
        attach::give_up(connection, reason);
    }
    let (joined, segment) = (connection.phase() == Phase::JOINED, connection.segment());
    let Some(segment) = segment.filter(|_| joined) else { return true };
    let _errno = sys::KeepErrno::new();
    // Before the detours end, as in `back`.
    death::is_gone(guard);
    let refused = refuse_rest(guard, &segment);
    turn_back(guard, &segment, reason);
    send_rest(guard, &segment);
    match refused {
        Departure::Stay => return false,
        Departure::Withdraw | Departure::Settle => {}
        Departure::Hear => match hearing(guard, &segment, is_alone) {
            Heard::Now => {}
            Heard::Never => return false,
            Heard::Later => {
                discard_counted(guard, &segment);
                return true;
            }
        },
    }
    let until = sys::now() + SETTLING;
    while !settle(guard, &segment) {
        if sys::now() > until || connection.reset_by_doorbell.load(Ordering::Acquire) {
            return false;
        }
        sys::poll(guard.socket(), libc::POLLIN, 1_000_000);
    }
    true
}

/// Refuses what is left to read and ends the detours. Returns how this end departs. A writer that
/// sees the end before the refusal goes on without it, so the refusal comes first.
fn refuse_rest(guard: &Guard, segment: &Segment) -> Departure {
    let connection = guard.connection;
    let way = segment.way(connection.role().peer());
    // In a handler that has interrupted a reader or a sender.
    let Some(mut receiving) = connection.receiving() else { return Departure::Stay };
    if inlet(guard, segment, &mut receiving).is_none() {
        return Departure::Stay;
    }
    if way.detour.begun() == Begun::NotYet {
        end_both(segment);
    }
    let taken = connection.taken.load(Ordering::Acquire);
    let is_before = matches!(way.detour.begun(), Begun::After(begun) if begun > taken);
    let Receiving { reader, receiver, .. } = &mut *receiving;
    connection.wants_refused.store(false, Ordering::Relaxed);
    let has_left = receiver.leave(&way.detour, reader, taken);
    end_both(segment);
    let Ok(unread) = reader.available(&way.pointers, u64::MAX) else { return Departure::Stay };
    let is_rest = unread > 0 || way.detour.is_finished();
    let found = Found { has_left, is_rest, is_before, refusal: way.detour.refusal() };
    let departure = back::depart(found);
    if departure == Departure::Withdraw {
        receiver.withdraw(&way.detour);
    }
    departure
}

fn end_both(segment: &Segment) {
    for writer in [Role::Client, Role::Server] {
        let way = segment.way(writer);
        way.detour.end(&way.pointers);
    }
}

/// Throws all doorbells away that were counted, as far as they come.
fn discard_counted(guard: &Guard, segment: &Segment) {
    let until = sys::now() + SETTLING;
    let is_left = || {
        // `inlet` counts again if it must.
        guard.connection.receiving().map(|mut half| inlet(guard, segment, &mut half));
        guard.connection.is_slept_on() || discard(guard, segment).is_some_and(|left| left > 0)
    };
    while is_left() && sys::now() < until {
        sys::poll(guard.socket(), libc::POLLIN, 1_000_000);
    }
}

/// Whether the other end has heard of a refusal.
enum Heard {
    Now,
    /// It was taken back.
    Never,
    /// The refusal stands, since no relay process is possible, or another thread would remain in a
    /// call on the connection that is replaced: the rest comes with the other end's next call.
    Later,
}

/// Waits until the other end has learned of the refusal, or does nothing for long.
fn hearing(guard: &Guard, segment: &Segment, is_alone: &mut dyn FnMut() -> bool) -> Heard {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let begun = sys::now();
    let mut pause = 1_000;
    loop {
        let refusal = segment.way(peer).detour.refusal();
        let closed = segment.side(peer).closed.load(Ordering::Acquire) != closed::OPEN;
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
        let is_over = refusal == Refusal::Unheard
            && (closed || sys::poll_now(guard.socket(), gone) & gone != 0);
        let until = begun + if is_over { 0 } else { PATIENCE };
        let now = sys::now();
        let waited = match refusal {
            Refusal::Unheard if now > until + DRAINING => Waited::TooLong,
            Refusal::Unheard if now > until => Waited::Long,
            _ => Waited::Briefly,
        };
        let is_alone = waited > Waited::Briefly && is_alone();
        let answer = back::hear(Hearing {
            refusal,
            is_over,
            waited,
            is_alone,
            is_wanted: connection.wants_refused.load(Ordering::Relaxed),
            can_copy: is_over || !is_alone || sys::can_fork_away(),
        });
        match answer {
            Answer::Heard => return Heard::Now,
            // By another thread or process that left at the same time.
            Answer::Gone => return Heard::Never,
            Answer::Stand => return Heard::Later,
            Answer::TakeBack => {
                if let Some(mut receiving) = connection.receiving()
                    && receiving.receiver.withdraw(&segment.way(peer).detour)
                {
                    drop(receiving);
                    let_look_again(guard);
                    return Heard::Never;
                }
            }
            Answer::Wait => {}
        }
        sys::sleep(pause);
        pause = (pause * 2).min(1_000_000);
    }
}

/// Makes the processes that share the connection check again: they found nothing to read, although
/// they had been notified, while a refusal stood; or another process has shut down the receiving
/// direction.
pub fn let_look_again(guard: &Guard) {
    guard.connection.changes.fetch_add(1, Ordering::Release);
    doorbell::signal(&guard.local().own_event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::table;
    use weft_protocol::byte_ring::Writer;
    use weft_protocol::detour::Sender;

    fn received(sample: &Sample) -> Vec<u8> {
        let mut bytes = [0u8; 16];
        let got = sys::recv(sample.fd, bytes.as_mut_ptr(), bytes.len(), libc::MSG_DONTWAIT);
        bytes[..got.unwrap_or(0)].to_vec()
    }

    /// Lets a thread that has taken so much die with a lock in its hands.
    fn die_with(fd: c_int, taken: usize, rings: bool) {
        let dies = move || {
            let connection = table::enter(fd).unwrap().connection;
            std::mem::forget((!rings).then(|| connection.receiving()));
            std::mem::forget(rings.then(|| connection.draining.lock()));
            let mut bytes = [0u8; 16];
            assert_eq!(sys::recv(fd, bytes.as_mut_ptr(), taken, 0), Ok(taken));
        };
        std::thread::spawn(dies).join().unwrap();
    }

    #[test]
    fn doorbells_that_the_dead_have_taken_are_not_waited_for() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        let way = segment.way(guard.connection.role().peer());
        let mut sender = Sender::default();
        sender.begin(&way.detour, 0);
        for _ in 0..3 {
            way.detour.ring();
            sys::write(sample.other, b"!");
            way.detour.rung(true);
        }
        die_with(sample.fd, 2, true);
        way.detour.end(&way.pointers);
        sender.come_back(&way.detour, &Writer::new(segment.capacity())).unwrap();
        sys::write(sample.other, b"abc");
        let mut receiving = guard.connection.receiving().unwrap();
        assert_eq!(inlet(&guard, &segment, &mut receiving), Some(Inlet::Doorbells(1)));
        assert_eq!(discard(&guard, &segment), Some(0));
        assert_eq!(inlet(&guard, &segment, &mut receiving), Some(Inlet::After));
        assert_eq!(received(&sample), b"abc");
    }

    #[test]
    fn what_the_dead_have_read_before_the_ring_is_not_read_of_the_doorbells() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        guard.connection.switched_in.store(false, Ordering::SeqCst);
        let way = segment.way(guard.connection.role().peer());
        sys::write(sample.other, b"abcd");
        Sender::default().begin(&way.detour, 4);
        way.detour.ring();
        sys::write(sample.other, b"!");
        way.detour.rung(true);
        die_with(sample.fd, 3, false);
        let mut receiving = guard.connection.receiving().unwrap();
        assert_eq!(inlet(&guard, &segment, &mut receiving), Some(Inlet::Before { left: 1 }));
    }

    #[test]
    fn who_silences_rings_only_where_somebody_may_have_taken_the_flag() {
        for owed in [false, true] {
            let sample = Sample::new();
            let (guard, segment) = sample.enter();
            guard.connection.switched_out.store(true, Ordering::SeqCst);
            if owed {
                guard.connection.wakers.begin();
            }
            turn_back(&guard, &segment, Reason::Call);
            let mut bytes = [0u8; 2];
            let flags = libc::MSG_DONTWAIT;
            let rung = sys::recv(sample.other, bytes.as_mut_ptr(), bytes.len(), flags);
            assert_eq!(rung, if owed { Ok(1) } else { Err(libc::EAGAIN) });
        }
    }
}
