//! Sending.

use std::sync::atomic::Ordering;

use libc::{c_int, iovec};
use weft_protocol::byte_ring::Unpublished;
use weft_protocol::detour::Outlet;

use super::{Moved, broken, fail, in_kernel, is_accelerated, length, lost_its_number, part};
use crate::joining::attach;
use crate::memory::pointers;
use crate::migration::asking::{self, Asked};
use crate::migration::direction;
use crate::options;
use crate::peer::death;
use crate::peer::doorbell;
use crate::registry;
use crate::report::stats::Reason;
use crate::segment::{Role, Segment, Side, closed};
use crate::signals::asleep::{Asleep, How};
use crate::signals::cancel;
use crate::signals::ending::is_interrupting;
use crate::sys::{self, Errno};
use crate::table::{self, Connection, Guard, Phase, Sending, end};
use crate::waiting::call::Call;
use crate::waiting::wait;

/// A long message is handed over in pieces of this many bytes, so that both ends copy at the same
/// time.
const PIECE: u64 = 32 * 1024;

/// How long a blocking send waits for the kernel before it looks again whether it can switch, in
/// nanoseconds.
const UNTIL_SWITCHED: u64 = 1_000_000;

/// Sends in a call that does not bypass the library.
#[inline]
pub fn send_seen(fd: c_int, from: &[iovec], flags: c_int, kernel: impl Fn() -> isize) -> isize {
    cancel::look();
    loop {
        let Some(entered) = table::come_in(fd) else { return kernel() };
        let guard = entered.guard();
        if flags & libc::MSG_FASTOPEN != 0 {
            // A connected socket refuses `MSG_FASTOPEN`: the kernel reports that.
            return kernel();
        }
        if flags & libc::MSG_OOB != 0 {
            direction::back(&guard, Reason::Urgent);
        } else if flags & libc::MSG_ZEROCOPY != 0 && options::sends_without_copy(fd) {
            direction::back(&guard, Reason::Option);
        }
        if !is_accelerated(&guard) {
            return in_kernel(kernel);
        }
        if let Some(count) = plain(from, flags).and_then(|only| sent_at_once(&guard, only)) {
            return count as isize;
        }
        return match sent(&guard, from, flags) {
            Moved::Done(result) => result,
            Moved::Kernel => {
                let result = if guard.connection.lending.is_lent() && length(from) > 0 {
                    sent_beside_loan(&guard, from, flags)
                } else if guard.is_current() {
                    in_kernel(&kernel)
                } else {
                    sent_by_kernel(&guard, from, flags)
                };
                let why = if result < 0 { sys::errno() } else { 0 };
                if was_said_before(&guard, why) {
                    return broken_pipe(flags);
                }
                if why == libc::EAGAIN || result >= 0 && (result as usize) < length(from) {
                    note_full(&guard);
                }
                result
            }
            Moved::Anew => continue,
        };
    }
}

/// What the kernel sends for a call under which another thread has closed the number.
#[cold]
fn sent_by_kernel(guard: &Guard, from: &[iovec], flags: c_int) -> isize {
    match cancel::send_parts(guard.socket(), from, flags) {
        Ok(count) => count as isize,
        Err(why) => fail(why),
    }
}

/// Sends through the kernel while a relay process copies for a program: the kernel may just have
/// reported a reset to that process, which passes it on.
#[cold]
fn sent_beside_loan(guard: &Guard, from: &[iovec], flags: c_int) -> isize {
    let result = sent_by_kernel(guard, from, flags | libc::MSG_NOSIGNAL);
    if result >= 0 || sys::errno() != libc::EPIPE {
        return result;
    }
    // The relay process that answers now has left the error that it was told of to the next call.
    asking::await_answer(guard.connection, &mut None);
    match death::owed(guard.connection) {
        Some(why) => fail(why),
        None => broken_pipe(flags),
    }
}

/// Remembers that the kernel has no room for more, of a connection that has gone back only for sending: room is
/// an event again, of which the library tells as long as it follows the connection.
#[cold]
fn note_full(guard: &Guard) {
    if guard.connection.phase() == Phase::JOINED {
        let _errno = sys::KeepErrno::new();
        guard.connection.filled.fetch_add(1, Ordering::Relaxed);
        registry::full(guard);
    }
}

/// Remembers that the program is told of a reset.
fn note_reset(guard: &Guard, why: Errno) {
    was_said_before(guard, why);
}

/// Notes a reset. Returns whether a receive in another thread has already reported it to the
/// program, from what the other end said, before the kernel did.
fn was_said_before(guard: &Guard, why: Errno) -> bool {
    why == libc::ECONNRESET && guard.connection.reset_said.swap(true, Ordering::AcqRel)
}

#[inline(never)]
fn sent(guard: &Guard, from: &[iovec], flags: c_int) -> Moved {
    let connection = guard.connection;
    let Some(segment) = connection.segment() else { return Moved::Done(fail(libc::EBADF)) };
    if pointers::before_nowhere(from).len() < from.len() {
        return Moved::Done(fail(libc::EFAULT));
    }
    send_all(guard, &segment, from, flags)
}

/// Sends all, and waits for room as the call says.
#[inline(always)]
fn send_all(guard: &Guard, segment: &Segment, from: &[iovec], flags: c_int) -> Moved {
    let (connection, wanted) = (guard.connection, length(from));
    let blocking =
        flags & libc::MSG_DONTWAIT == 0 && !connection.nonblocking.load(Ordering::Relaxed);
    let (mut done, mut since, mut asked, mut call) = (0, None, None, Call::default());
    loop {
        let Some(mut sending) = connection.sending() else {
            // In a signal handler that interrupted a sender there is nothing to wait for.
            return Moved::Done(fail(if blocking { libc::EINTR } else { libc::EAGAIN }));
        };
        attach::switch(guard, segment, &mut sending);
        let outlet = sending.sender.outlet();
        if done == 0
            && let Some(moved) = first_said(guard, segment, outlet, wanted, flags, &mut call)
        {
            return moved;
        }
        let tried = match outlet {
            // It knows whether it sends at all.
            Outlet::Before if wanted == 0 => return Moved::Kernel,
            Outlet::Before => before_ring(guard, from, &mut done, flags),
            Outlet::Ring => into_ring(guard, segment, &mut sending, from, &mut done, flags),
            Outlet::Rest(_) => after_rest(guard, segment, &mut sending),
            Outlet::After => match before_kernel(connection, done, &mut asked) {
                Some(tried) => tried,
                None => {
                    drop(sending);
                    let call = blocking.then_some(&mut call);
                    return go_on_sending(guard, segment, from, done, call);
                }
            },
        };
        drop(sending);
        let waited = match tried {
            Err(why) => Err(why),
            Ok(Tried::Again) => continue,
            Ok(Tried::Behind) if asking::await_answer(connection, &mut asked) => continue,
            Ok(_) if done == wanted => return finish_send(done),
            Ok(tried) if !blocking && would_go_on(guard, segment, &tried, done) => continue,
            Ok(_) if !blocking => Err(libc::EAGAIN),
            Ok(tried) => {
                if let Some(moved) = lost_its_number(guard, done, &mut call) {
                    return moved;
                }
                call.in_part = done > 0;
                if matches!(tried, Tried::RingFull) {
                    wait::writable(guard, segment, &mut call)
                } else if let Err(why) = wait_for_kernel(guard, &mut since, &mut call) {
                    Err(why)
                } else {
                    continue;
                }
            }
        };
        if let Err(why) = waited {
            return failed_after(guard, done, why, flags);
        }
        if done > 0 && has_left(guard, segment, connection.role()) {
            return finish_send(done);
        }
    }
}

/// What a send returns before anything is sent, if the connection has no other end any more.
#[inline(always)]
fn first_said(
    guard: &Guard,
    segment: &Segment,
    outlet: Outlet,
    wanted: usize,
    flags: c_int,
    call: &mut Call,
) -> Option<Moved> {
    let connection = guard.connection;
    if connection.is_disconnected() {
        let moved = lost_its_number(guard, 0, call);
        return Some(moved.unwrap_or_else(|| Moved::Done(broken_pipe(flags))));
    }
    // The kernel has not been told that this end sends no more.
    let shut = outlet == Outlet::Ring && connection.write_shut.load(Ordering::Acquire);
    let is_nobody =
        outlet != Outlet::Before && !shut && has_left(guard, segment, connection.role());
    is_nobody.then(|| sent_to_nobody(guard, wanted, flags))
}

/// What a send to an end that has gone returns first.
#[cold]
fn sent_to_nobody(guard: &Guard, wanted: usize, flags: c_int) -> Moved {
    match death::sent(guard.connection, wanted) {
        None => Moved::Kernel,
        Some(Ok(count)) => finish_send(count),
        Some(Err(libc::EPIPE)) => Moved::Done(broken_pipe(flags)),
        Some(Err(why)) if was_said_before(guard, why) => Moved::Done(broken_pipe(flags)),
        Some(Err(why)) => {
            death::take_error(guard);
            Moved::Done(fail(why))
        }
    }
}

/// What a send must wait for, or returns, before it goes on in the kernel's stream. `None` if
/// nothing precedes it.
fn before_kernel(
    connection: &Connection,
    done: usize,
    asked: &mut Option<Asked>,
) -> Option<Result<Tried, Errno>> {
    if done == 0 && connection.owes_error() {
        // The kernel has reported it to a process that has the stream on loan.
        return Some(Err(death::owed(connection).unwrap_or(libc::EPIPE)));
    }
    if connection.lending.is_end_due() {
        return Some(Err(libc::EPIPE));
    }
    asking::comes_before(connection, asked).then_some(Ok(Tried::Behind))
}

/// Whether a non-blocking send has something to try once more. If not, room in the kernel's stream,
/// or in the ring after it, becomes an event again.
fn would_go_on(guard: &Guard, segment: &Segment, tried: &Tried, done: usize) -> bool {
    if matches!(tried, Tried::RingFull) && done == 0 {
        return wait::go_back_if_stalled(guard, segment);
    }
    guard.connection.filled.fetch_add(1, Ordering::Relaxed);
    if !matches!(tried, Tried::RingFull) {
        registry::full(guard);
    }
    false
}

/// What a send returns that failed after `done` bytes.
#[cold]
fn failed_after(guard: &Guard, done: usize, why: Errno, flags: c_int) -> Moved {
    match why {
        _ if done > 0 => finish_send(done),
        libc::EPIPE => Moved::Done(broken_pipe(flags)),
        why => {
            note_reset(guard, why);
            Moved::Done(fail(why))
        }
    }
}

/// How far a try to send came.
enum Tried {
    /// All was sent, or the ring is full.
    RingFull,
    /// All was sent, or the kernel's buffer is full.
    KernelFull,
    /// Another process may have written what comes before and is not yet sent.
    Behind,
    /// The direction goes another way now.
    Again,
}

/// Sends through the kernel while the other end has not yet joined, without blocking, so that the
/// direction can switch as soon as it has.
fn before_ring(
    guard: &Guard,
    from: &[iovec],
    done: &mut usize,
    flags: c_int,
) -> Result<Tried, Errno> {
    match into_kernel(guard, from, done, flags) {
        Ok(()) | Err(libc::EAGAIN) => Ok(Tried::KernelFull),
        Err(why) => Err(why),
    }
}

/// Waits a little for room in the kernel's buffer, as a blocking send does: until a signal ends it,
/// its timeout since the first such wait is over, or there is an error, which the call after one
/// that has sent a part reports.
#[inline(never)]
fn wait_for_kernel(guard: &Guard, since: &mut Option<u64>, call: &mut Call) -> Result<(), Errno> {
    cancel::look();
    let now = sys::now();
    let gone_by = now - *since.get_or_insert(now);
    let limit = sys::timeout_option(guard.socket(), libc::SO_SNDTIMEO);
    let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(gone_by));
    if left == 0 {
        return Err(libc::EAGAIN);
    }
    let number = call.number(guard);
    call.blocks(guard);
    let waited = if call.is_without_number(guard) {
        // The thread that took it away waits until this call sleeps.
        let until = now.saturating_add(left);
        call.sleeps_for_long(guard, |_| cancel::poll_until(number, libc::POLLOUT, until))
    } else {
        let _asleep = Asleep::begin(How::Short);
        let waited = sys::poll_or_fail(number, libc::POLLOUT, left.min(UNTIL_SWITCHED));
        call.slept_until = sys::now();
        waited
    };
    let ends = || call.in_part || limit.is_some() || is_interrupting();
    match waited {
        Err(libc::EINTR) if ends() => Err(libc::EINTR),
        Err(libc::EINTR) => {
            call.begins_again();
            Ok(())
        }
        Ok(events) if call.in_part && events & (libc::POLLERR | libc::POLLHUP) != 0 => {
            Err(libc::EPIPE)
        }
        _ => Ok(()),
    }
}

/// Sends first what the other end has refused.
fn after_rest(guard: &Guard, segment: &Segment, sending: &mut Sending) -> Result<Tried, Errno> {
    direction::come_back(guard, segment, sending).map_err(|_| libc::ECONNRESET)?;
    let more = matches!(sending.sender.outlet(), Outlet::Rest(_));
    Ok(if more { Tried::KernelFull } else { Tried::Again })
}

/// Sends by the kernel for good, or the rest of a message in whose middle it took over, of a call that waits
/// if it is given. What goes wrong then is the next call's to hear.
fn go_on_sending(
    guard: &Guard,
    segment: &Segment,
    from: &[iovec],
    mut done: usize,
    mut call: Option<&mut Call>,
) -> Moved {
    direction::settle(guard, segment);
    if done == 0 {
        return Moved::Kernel;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let until = call.as_ref().map(|call| wait::until_sent(guard.socket(), call.waited));
    while let Some((place, length)) = part(from, done)
        && wait::for_room(guard, until.unwrap_or(0), call.as_deref_mut())
    {
        match sys::send(guard.socket(), place, length, flags) {
            Ok(sent) => done += sent,
            // Another thread was faster.
            Err(libc::EAGAIN) if until.is_some() => {}
            Err(_) => break,
        }
    }
    if part(from, done).is_some() {
        note_full(guard);
    }
    finish_send(done)
}

fn into_kernel(guard: &Guard, from: &[iovec], done: &mut usize, flags: c_int) -> Result<(), Errno> {
    let flags = flags & libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if *done == 0 && from.len() > 1 {
        // Many parts become one segment; the kernel allows only a few segments in flight.
        *done = sys::send_parts(guard.socket(), from, flags)?;
    }
    while let Some((place, length)) = part(from, *done) {
        *done += sys::send(guard.socket(), place, length, flags)?;
    }
    Ok(())
}

fn finish_send(done: usize) -> Moved {
    Moved::Done(done as isize)
}

/// Copies into the ring as much as there is room for, in pieces.
fn into_ring(
    guard: &Guard,
    segment: &Segment,
    sending: &mut Sending,
    from: &[iovec],
    done: &mut usize,
    flags: c_int,
) -> Result<Tried, Errno> {
    let connection = guard.connection;
    if flags & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if connection.write_shut.load(Ordering::Acquire) {
        // A reset is said once, and before the pipe.
        let _ = death::is_gone(guard);
        let why = death::owed(connection).or_else(|| death::take_error(guard));
        let why = why.filter(|why| !was_said_before(guard, *why));
        return Err(why.unwrap_or(libc::EPIPE));
    }
    let way = segment.way(connection.role());
    let before = *done;
    let filled = fill_ring(guard, segment, sending, from, done);
    let whole = part(from, *done).is_none();
    if sending.unsaid.note((*done - before) as u64, u64::from(whole)) {
        sending.unsaid.say_sent();
    }
    match filled {
        Ok(()) if !whole => {
            connection.filled.fetch_add(1, Ordering::Relaxed);
            registry::full(guard);
            if !way.pointers.is_sealed() {
                return Ok(Tried::RingFull);
            }
        }
        // A send of no bytes also learns that the direction is the kernel's again.
        Ok(()) if *done > 0 || !way.pointers.is_sealed() => return Ok(Tried::RingFull),
        Ok(()) => {}
        Err(Unpublished::Sealed) => {}
        Err(Unpublished::Broken(_)) => {
            return Err(broken(guard));
        }
    }
    direction::turn_back(guard, segment, Reason::Peer);
    direction::come_back(guard, segment, sending).map_err(|_| libc::ECONNRESET)?;
    // In a signal handler that interrupted a ringer.
    let stuck = sending.sender.outlet() == Outlet::Ring;
    if stuck { Err(libc::EINTR) } else { Ok(Tried::Again) }
}

fn fill_ring(
    guard: &Guard,
    segment: &Segment,
    sending: &mut Sending,
    from: &[iovec],
    done: &mut usize,
) -> Result<(), Unpublished> {
    let way = segment.way(guard.connection.role());
    let all = length(from);
    loop {
        let wanted = (all.saturating_sub(*done) as u64).min(PIECE);
        let count = sending.writer.room(&way.pointers, wanted)?.min(wanted);
        if count == 0 {
            break;
        }
        copy_parts(guard, segment, sending, from, *done, count);
        hand_over(guard, segment, guard.connection.role(), sending, count)?;
        *done += count as usize;
    }
    note_processor(segment.side(guard.connection.role()));
    Ok(())
}

/// Copies `count` bytes of a vector, from `skip` bytes on, into the ring, which has room for them.
/// The other end is notified of all of them together: a stimulus for each part would wake it as
/// often.
fn copy_parts(
    guard: &Guard,
    segment: &Segment,
    sending: &Sending,
    from: &[iovec],
    mut skip: usize,
    count: u64,
) {
    let mut copied = 0;
    for part in from {
        let whole = part.iov_len;
        if skip >= whole {
            skip -= whole;
            continue;
        }
        let length = ((whole - skip) as u64).min(count - copied);
        if length == 0 {
            return;
        }
        let spans = sending.writer.spans_after(copied, length);
        let place = part.iov_base.cast::<u8>().wrapping_add(skip);
        // SAFETY: the part has `length` bytes from there by the program's word.
        unsafe { segment.fill_ring(guard.connection.role(), &spans, place) };
        (copied, skip) = (copied + length, 0);
    }
}

/// Publishes `count` bytes that have been copied into the ring to the other end.
#[inline(always)]
fn hand_over(
    guard: &Guard,
    segment: &Segment,
    role: Role,
    sending: &mut Sending,
    count: u64,
) -> Result<(), Unpublished> {
    let way = segment.way(role);
    sending.writer.publish_unless_sealed(&way.pointers, count)?;
    if segment.side(role.peer()).sorts.load(Ordering::Relaxed) {
        // After the bytes are there, since the other end waits for them, and before it is woken.
        segment.postmarks(role).put(sending.posted, sending.writer.written());
        sending.posted = sending.posted.wrapping_add(1);
    }
    doorbell::wake(guard, &way.arrived);
    Ok(())
}

/// Notes the processor on which this end works, for threads that wait for it. The bytes are on
/// their way by then.
#[inline]
fn note_processor(mine: &Side) {
    let processor = sys::processor();
    if mine.processor.load(Ordering::Relaxed) != processor {
        mine.processor.store(processor, Ordering::Relaxed);
    }
}

/// The only part of a message that asks for nothing out of the ordinary.
#[inline]
fn plain(from: &[iovec], flags: c_int) -> Option<&iovec> {
    match pointers::before_nowhere(from) {
        [only] if from.len() == 1 && flags & !(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) == 0 => {
            Some(only)
        }
        _ => None,
    }
}

/// Sends a message of one part through the ring, which is nearly every send of an accelerated
/// connection, in as few instructions as possible: they lie between a message and its response.
/// Every other case is left to the rest of [`sent`], which examines it again; nothing was sent
/// then.
#[inline(always)]
fn sent_at_once(guard: &Guard, from: &iovec) -> Option<usize> {
    let (connection, length) = (guard.connection, from.iov_len as u64);
    if length == 0 || length > PIECE || !connection.switched_out.load(Ordering::Relaxed) {
        return None;
    }
    let (segment, role) = (&connection.segment()?, connection.role());
    segment.expect_handing_over(role);
    let mut sending = connection.sending()?;
    if sending.sender.outlet() != Outlet::Ring
        || connection.write_shut.load(Ordering::Acquire)
        || has_left(guard, segment, role)
    {
        return None;
    }
    if sending.writer.room(&segment.way(role).pointers, length).ok()? < length {
        return None;
    }
    let spans = sending.writer.spans(length);
    // SAFETY: there are `length` bytes by the program's word.
    unsafe { segment.fill_ring(role, &spans, from.iov_base.cast()) };
    hand_over(guard, segment, role, &mut sending, length).ok()?;
    segment.expect_filling(role, &sending.writer.spans(length));
    if sending.unsaid.note(length, 1) {
        sending.unsaid.say_sent();
    }
    note_processor(segment.side(role));
    Some(length as usize)
}

/// Whether the other end has closed or died. From then on the kernel is asked, which knows the
/// right error for each call.
#[inline(always)]
fn has_left(guard: &Guard, segment: &Segment, role: Role) -> bool {
    let connection = guard.connection;
    let peer = segment.side(role.peer());
    peer.closed.load(Ordering::Relaxed) != closed::OPEN
        || connection.end.load(Ordering::Relaxed) != end::NONE
        || death::is_silent_and_gone(guard, segment)
}

/// What a write does after the sending direction was shut down.
fn broken_pipe(flags: c_int) -> isize {
    if flags & libc::MSG_NOSIGNAL == 0 {
        sys::signal_broken_pipe();
    }
    fail(libc::EPIPE)
}

#[cfg(test)]
mod tests {
    use weft_protocol::byte_ring::Reader;

    use super::*;
    use crate::sample::Sample;
    use crate::sharing::lock;

    /// What the other end finds in the ring.
    fn taken(segment: &Segment, guard: &Guard, reader: &mut Reader) -> Vec<u8> {
        let role = guard.connection.role();
        let way = segment.way(role);
        let count = reader.available(&way.pointers, u64::MAX).unwrap();
        let mut bytes = vec![0; count as usize];
        // SAFETY: there is room for all that lies in the ring.
        unsafe { segment.empty_ring(role, &reader.spans(count), bytes.as_mut_ptr()) };
        reader.release(&way.pointers, count);
        bytes
    }

    #[test]
    fn the_parts_of_a_message_are_handed_over_at_once() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        let mut sending = guard.connection.sending().unwrap();
        segment.side(guard.connection.role().peer()).sorts.store(true, Ordering::Relaxed);
        let capacity = segment.capacity().bytes() as usize;
        let mut reader = Reader::new(segment.capacity());
        let bytes: Vec<u8> = (0..capacity + 500).map(|at| (at % 251) as u8).collect();
        let cuts = [0, 3, 3, 1000, 1001, 2500, bytes.len()];
        let parts = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        let from: Vec<iovec> = parts
            .map(|part| iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
            .collect();
        // Each message begins elsewhere in the ring, and what did not fit follows where it was cut.
        let mut handed = 0;
        for first in [0, 2, 700, 1000, 1001, 3000, capacity - 1] {
            let (mut done, mut read) = (first, Vec::new());
            while done < bytes.len() {
                fill_ring(&guard, &segment, &mut sending, &from, &mut done).unwrap();
                handed += 1;
                assert_eq!(sending.posted, handed, "the other end was told more than once");
                read.extend(taken(&segment, &guard, &mut reader));
            }
            assert_eq!(read, bytes[first..]);
        }
    }

    #[test]
    fn who_sends_beside_a_copier_that_is_just_told_of_a_reset_hears_of_it() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let lending = &guard.connection.lending;
        // The kernel tells of it once.
        sys::reset(sample.other);
        sys::poll(guard.socket(), 0, 1_000_000_000);
        assert_eq!(death::take_error(&guard), Some(libc::ECONNRESET));
        lending.begin();
        lending.serve(lock::thread(), lock::lives);
        let byte = [iovec { iov_base: [0u8].as_mut_ptr().cast(), iov_len: 1 }];
        for answered in [libc::ECONNRESET, libc::EPIPE] {
            let fd = sample.fd;
            let copier = std::thread::spawn(move || {
                let guard = table::enter(fd).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
                if answered == libc::ECONNRESET {
                    death::owes_reset(&guard);
                }
                let lending = &guard.connection.lending;
                lending.answer(lending.asked());
            });
            let sent = sent_beside_loan(&guard, &byte, libc::MSG_NOSIGNAL);
            let why = (sent, sys::errno());
            copier.join().unwrap();
            assert_eq!(why, (-1, answered));
        }
        assert!(!lending.end(lock::thread()));
    }
}
