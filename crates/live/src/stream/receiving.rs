//! Receiving.

mod behind;
mod unread;

use std::sync::atomic::Ordering;

use libc::{c_int, iovec};
use weft_protocol::byte_ring::BrokenRing;
use weft_protocol::detour::{Begun, Inlet};

pub use self::behind::look_behind;
use self::behind::{go_on_elsewhere, go_on_receiving};
pub use self::unread::{Rest, all_unread, rest, rest_held, unread};

use super::{Moved, broken, fail, in_kernel, is_accelerated, length, lost_its_number, part};
use crate::memory::pointers;
use crate::migration::asking;
use crate::migration::direction;
use crate::peer::death;
use crate::peer::doorbell;
use crate::ready;
use crate::report::stats::Reason;
use crate::segment::{Role, Segment, closed};
use crate::signals::cancel;
use crate::sys::{self, Errno};
use crate::table::{self, Guard, Receiving, end};
use crate::waiting::call::Call;
use crate::waiting::wait;

/// Receives in a call that does not bypass the library.
#[inline]
pub fn receive_seen(fd: c_int, to: &[iovec], flags: c_int, kernel: impl Fn() -> isize) -> isize {
    cancel::look();
    loop {
        let Some(entered) = table::come_in(fd) else { return kernel() };
        let guard = entered.guard();
        if !is_accelerated(&guard) {
            return in_kernel(kernel);
        }
        let only = plain(to, flags);
        if let Some(count) = only.and_then(|only| taken_at_once(&guard, only)) {
            return count as isize;
        }
        return match received(&guard, to, flags) {
            Moved::Done(result) => result,
            Moved::Kernel if guard.is_current() => in_kernel(kernel),
            Moved::Kernel => received_from_kernel(&guard, to, flags),
            Moved::Anew => continue,
        };
    }
}

/// What the kernel receives for a call under which another thread has closed the number.
#[cold]
fn received_from_kernel(guard: &Guard, to: &[iovec], flags: c_int) -> isize {
    match sys::receive(guard.socket(), to, flags) {
        Ok(count) => count as isize,
        Err(why) => fail(why),
    }
}

/// What one look for bytes found.
enum Step {
    Bytes(usize),
    /// Nothing yet. `announced` is whether the sender was known to have switched.
    Empty {
        announced: bool,
    },
    End,
    Failed(Errno),
    /// The kernel's stream is the only one again.
    Kernel,
}

#[inline(never)]
fn received(guard: &Guard, to: &[iovec], flags: c_int) -> Moved {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Moved::Done(fail(libc::EAGAIN));
    }
    let Some(segment) = guard.connection.segment() else { return Moved::Done(fail(libc::EBADF)) };
    if flags & libc::MSG_OOB != 0 {
        // An end that sends an urgent byte has ended the detours before; the byte lies outside the
        // stream.
        let may_be = segment.has_ended();
        return if may_be { Moved::Kernel } else { Moved::Done(fail(libc::EINVAL)) };
    }
    const BOTH: c_int = libc::MSG_PEEK | libc::MSG_WAITALL;
    let all = to;
    // Bytes that are only counted are put nowhere.
    let to = if flags & libc::MSG_TRUNC == 0 { pointers::before_nowhere(all) } else { all };
    let wanted = length(to);
    let whole = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
    let blocking =
        flags & libc::MSG_DONTWAIT == 0 && !guard.connection.nonblocking.load(Ordering::Relaxed);
    // A peek leaves its bytes there, so the next one sees all of them again, but never more than
    // the ring holds.
    let looked_for = match flags & BOTH {
        BOTH if blocking => wanted.min(segment.capacity().bytes() as usize),
        _ => 0,
    };
    let in_part = to.len() < all.len();
    let only = plain(all, flags);
    let asked = Asked { to, wanted, in_part, flags, whole, blocking, looked_for, only };
    let mut call = Call::default();
    if (wanted == 0 || in_part)
        && let Some(moved) = partly_asked(guard, &segment, &asked, &mut call)
    {
        return moved;
    }
    receive_all(guard, &segment, &asked, call)
}

/// What a receive asks for.
struct Asked<'a> {
    /// The parts before the first that lies nowhere, and their length.
    to: &'a [iovec],
    wanted: usize,
    /// Whether there are parts behind those.
    in_part: bool,
    flags: c_int,
    /// Whether it waits until it has all that it asked for.
    whole: bool,
    blocking: bool,
    /// How many bytes a look waits for.
    looked_for: usize,
    /// The one part that is asked for, if there is no more to it.
    only: Option<&'a iovec>,
}

/// What a receive returns before it reads, if it asks for nothing, or only for the bytes before a
/// part with an invalid pointer. It still waits until there is something. `None` if it reads what
/// there is.
#[cold]
fn partly_asked(
    guard: &Guard,
    segment: &Segment,
    asked: &Asked<'_>,
    call: &mut Call,
) -> Option<Moved> {
    while ready::events(guard, segment) & libc::POLLIN == 0 {
        let waited = if asked.blocking {
            wait::readable(guard, segment, true, call)
        } else {
            Err(libc::EAGAIN)
        };
        match waited {
            // The kernel ends its wait with all that was asked for.
            Err(libc::EAGAIN | libc::EINTR) if asked.blocking && !asked.in_part => {
                return Some(Moved::Done(0));
            }
            Err(why) => return Some(Moved::Done(fail(why))),
            Ok(()) => {}
        }
    }
    if !asked.in_part {
        return Some(nothing_received(guard, segment, asked.flags));
    }
    let reaches_nowhere = all_unread(guard, segment) > asked.wanted as u64;
    reaches_nowhere.then(|| Moved::Done(fail(libc::EFAULT)))
}

/// Receives what there is, and waits as the call demands.
#[inline(always)]
fn receive_all(guard: &Guard, segment: &Segment, asked: &Asked<'_>, mut call: Call) -> Moved {
    let Asked { to, wanted, flags, whole, blocking, looked_for, only, .. } = *asked;
    let (mut done, mut pause, mut waited) = (0, 0, false);
    while done < wanted {
        if waited && let Some(count) = only.and_then(|only| taken_at_once(guard, only)) {
            return Moved::Done(count as isize);
        }
        let from_kernel = !guard.connection.switched_in.load(Ordering::Relaxed);
        let why = match step(guard, segment, to, done, flags) {
            Step::Bytes(count) => {
                done += count;
                if whole {
                    continue;
                }
                if done < wanted {
                    done += go_on_elsewhere(guard, segment, to, done, flags, from_kernel);
                }
                if done < looked_for
                    && ready::events(guard, segment) & (libc::POLLRDHUP | libc::POLLHUP) == 0
                    && wait::for_more(guard, &mut pause, &mut call)
                {
                    done = 0;
                    continue;
                }
                break;
            }
            Step::End => break,
            // In a signal handler that interrupted a receiver there is nothing to wait for.
            Step::Failed(libc::EINTR) if !blocking => libc::EAGAIN,
            Step::Failed(why) => why,
            Step::Kernel => {
                direction::settle(guard, segment);
                if done == 0 {
                    return Moved::Kernel;
                }
                let call = blocking.then_some(&mut call);
                done += go_on_receiving(guard, to, done, flags, call);
                break;
            }
            Step::Empty { .. } if !blocking => libc::EAGAIN,
            Step::Empty { announced } => {
                if let Some(moved) = lost_its_number(guard, done, &mut call) {
                    return moved;
                }
                call.in_part = done > 0;
                match wait::readable(guard, segment, announced, &mut call) {
                    Ok(()) => {
                        waited = true;
                        continue;
                    }
                    Err(why) => why,
                }
            }
        };
        return failed_after(guard, segment, done, why);
    }
    Moved::Done(done as isize)
}

/// What a receive returns that failed after `done` bytes.
#[cold]
fn failed_after(guard: &Guard, segment: &Segment, done: usize, why: Errno) -> Moved {
    if done == 0 {
        return Moved::Done(fail(why));
    }
    if why == libc::ECONNRESET {
        death::says_reset_later(guard, segment);
    }
    Moved::Done(done as isize)
}

/// What a receive of no bytes returns once there is something to receive: zero, or the error that
/// is there.
#[cold]
fn nothing_received(guard: &Guard, segment: &Segment, flags: c_int) -> Moved {
    if all_unread(guard, segment) > 0 {
        return Moved::Done(0);
    }
    match step(guard, segment, &[], 0, flags) {
        Step::Failed(why) => Moved::Done(fail(why)),
        Step::Kernel => Moved::Kernel,
        _ => Moved::Done(0),
    }
}

fn step(guard: &Guard, segment: &Segment, to: &[iovec], skip: usize, flags: c_int) -> Step {
    match guard.connection.receiving() {
        Some(mut receiving) => step_held(guard, segment, &mut receiving, to, skip, flags),
        None => Step::Failed(libc::EINTR),
    }
}

/// One step of a receive by a caller that has the receiving half.
#[inline]
fn step_held(
    guard: &Guard,
    segment: &Segment,
    receiving: &mut Receiving,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> Step {
    if guard.connection.is_disconnected() {
        return Step::Empty { announced: true };
    }
    loop {
        let Some(inlet) = direction::inlet(guard, segment, receiving) else {
            return Step::Failed(libc::EINTR);
        };
        match inlet {
            Inlet::Before { left } => {
                if let Some(step) = from_kernel(guard, segment, left, to, skip, flags) {
                    return step;
                }
            }
            Inlet::Ring => match from_ring(guard, segment, receiving, to, skip, flags) {
                Ok(0) if segment.has_ended() => direction::turn_back(guard, segment, Reason::Peer),
                Ok(0) => return ending(guard, segment, receiving),
                Ok(count) => return Step::Bytes(count),
                Err(BrokenRing { .. }) => return Step::Failed(broken(guard)),
            },
            Inlet::Doorbells(_) | Inlet::Settling if direction::has_said_all(guard, segment) => {
                // A doorbell left there would turn this end's close into a reset, unless it has yet
                // to wake another thread.
                if !guard.connection.is_slept_on() {
                    direction::discard(guard, segment);
                }
                return Step::End;
            }
            Inlet::Doorbells(_) => match direction::discard(guard, segment) {
                None => return Step::Kernel,
                Some(0) => {}
                Some(_) => return Step::Empty { announced: true },
            },
            Inlet::Settling if has_died_ringing(guard, segment) => {
                direction::discard_all(guard);
                return Step::Kernel;
            }
            Inlet::Settling => {
                guard.connection.wants_refused.store(true, Ordering::Relaxed);
                return Step::Empty { announced: true };
            }
            Inlet::After if death::says_owed_reset(guard) => {
                return Step::Failed(libc::ECONNRESET);
            }
            Inlet::After if asking::may_be_made(guard.connection) => {
                let step = from_kernel_again(guard, to, skip, flags);
                // A reset that follows the end is not a receive's to hear; the kernel was not told of the end.
                let way = segment.way(guard.connection.role().peer());
                let is_behind = matches!(step, Step::Failed(_)) && direction::ends_with_ring(way);
                return if is_behind { Step::End } else { step };
            }
            Inlet::After => return Step::Kernel,
        }
    }
}

/// Reads the kernel's stream for good, as long as that needs the receiving half.
#[cold]
fn from_kernel_again(guard: &Guard, to: &[iovec], skip: usize, flags: c_int) -> Step {
    let mut places = NO_PLACES;
    let flags = flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
    match sys::receive(guard.socket(), cut(to, skip, u64::MAX, &mut places), flags) {
        Ok(0) => Step::End,
        Ok(count) => Step::Bytes(count),
        // A relay process has not shut down the kernel's receiving direction, since the kernel
        // could then not distinguish this end's shutdown from the other end's end of stream.
        Err(libc::EAGAIN) if guard.connection.reads_no_more() => Step::End,
        Err(libc::EAGAIN) => Step::Empty { announced: true },
        Err(why) => Step::Failed(why),
    }
}

/// Whether the other end has died between ringing and counting: then nothing follows the doorbell.
fn has_died_ringing(guard: &Guard, segment: &Segment) -> bool {
    let over = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
    sys::poll_now(guard.socket(), over) & over != 0
        && segment.way(guard.connection.role().peer()).detour.is_ringing()
}

/// Reads the kernel's stream, of which `left` bytes are known to precede the ring. As long as the
/// sender may switch, it peeks first: no byte that follows the ring may be consumed. `None` once
/// the stream is read up to the ring.
#[inline(never)]
fn from_kernel(
    guard: &Guard,
    segment: &Segment,
    left: u64,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> Option<Step> {
    let connection = guard.connection;
    let way = segment.way(connection.role().peer());
    let mut places = NO_PLACES;
    let flags = flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
    let room = cut(to, skip, left, &mut places);
    let looked = sys::receive(guard.socket(), room, flags | libc::MSG_PEEK);
    let begun = way.detour.begun();
    let left = match begun {
        Begun::After(begun) => begun.saturating_sub(connection.taken.load(Ordering::Acquire)),
        Begun::NotYet | Begun::Never => u64::MAX,
    };
    match looked {
        Ok(0) if left == 0 => None,
        Ok(0) => Some(Step::End),
        Ok(count) => {
            let mut count = (count as u64).min(left) as usize;
            if flags & libc::MSG_PEEK == 0 && count > 0 {
                let room = cut(to, skip, count as u64, &mut places);
                count = sys::receive(guard.socket(), room, flags).unwrap_or(0);
                connection.taken.fetch_add(count as u64, Ordering::AcqRel);
            }
            (count > 0).then_some(Step::Bytes(count))
        }
        // An error may come of a doorbell, too.
        Err(_) if left == 0 => None,
        // The kernel has not been told that this end reads no more.
        Err(libc::EAGAIN) if connection.reads_no_more() => Some(Step::End),
        Err(libc::EAGAIN) => Some(Step::Empty { announced: begun != Begun::NotYet }),
        Err(why) => Some(Step::Failed(why)),
    }
}

/// How many parts of a vector can be limited at a time.
const PLACES: usize = 16;
const NO_PLACES: [iovec; PLACES] = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PLACES];

/// The parts of a vector from `skip` bytes on, limited to `left` bytes, or to as many as there are
/// `places` for. A whole vector needs none.
fn cut<'a>(
    to: &'a [iovec],
    mut skip: usize,
    left: u64,
    places: &'a mut [iovec; PLACES],
) -> &'a [iovec] {
    if skip == 0 && length(to) as u64 <= left {
        return to;
    }
    let (mut left, mut count) = (usize::try_from(left).unwrap_or(usize::MAX), 0);
    while count < places.len()
        && left > 0
        && let Some((place, room)) = part(to, skip)
    {
        let length = room.min(left);
        places[count] = iovec { iov_base: place.cast(), iov_len: length };
        (skip, left, count) = (skip + length, left - length, count + 1);
    }
    &places[..count]
}

/// Copies from the ring what is there.
#[inline(always)]
fn from_ring(
    guard: &Guard,
    segment: &Segment,
    receiving: &mut Receiving,
    to: &[iovec],
    mut skip: usize,
    flags: c_int,
) -> Result<usize, BrokenRing> {
    let connection = guard.connection;
    let writer = connection.role().peer();
    let way = segment.way(writer);
    let wanted = length(to).saturating_sub(skip) as u64;
    let known = receiving.reader.available(&way.pointers, wanted)?.min(wanted);
    let mut done = 0;
    while done < known {
        let Some((place, room)) = part(to, skip) else { break };
        let count = (known - done).min(room as u64);
        if flags & libc::MSG_TRUNC == 0 {
            let spans = receiving.reader.spans_after(done, count);
            // SAFETY: the part has room for `count` bytes by the program's word.
            unsafe { segment.empty_ring(writer, &spans, place) };
        }
        done += count;
        skip += count as usize;
    }
    if done == 0 || flags & libc::MSG_PEEK != 0 {
        return Ok(done as usize);
    }
    note_taken(guard, segment, writer, receiving, done)?;
    Ok(done as usize)
}

/// The only place of a receive that asks for nothing out of the ordinary.
#[inline]
fn plain(to: &[iovec], flags: c_int) -> Option<&iovec> {
    match pointers::before_nowhere(to) {
        [only] if to.len() == 1 && flags & !libc::MSG_DONTWAIT == 0 => Some(only),
        _ => None,
    }
}

/// Receives into one buffer what lies in the ring, which is nearly every receive of an accelerated
/// connection, in as few instructions as possible: they lie between a message and its response.
/// Every other case is left to [`step`], which examines it again.
#[inline(always)]
fn taken_at_once(guard: &Guard, to: &iovec) -> Option<usize> {
    let connection = guard.connection;
    if !connection.switched_in.load(Ordering::Relaxed) {
        return None;
    }
    let segment = &connection.segment()?;
    let writer = connection.role().peer();
    let way = segment.way(writer);
    let mut receiving = connection.receiving()?;
    if !receiving.receiver.is_in_ring() || way.pointers.is_sealed() {
        return None;
    }
    let wanted = to.iov_len as u64;
    let count = receiving.reader.available(&way.pointers, wanted).ok()?.min(wanted);
    if count == 0 {
        return None;
    }
    let spans = receiving.reader.spans(count);
    // SAFETY: the part has room for `count` bytes by the program's word.
    unsafe { segment.empty_ring(writer, &spans, to.iov_base.cast()) };
    note_taken(guard, segment, writer, &mut receiving, count).ok()?;
    Some(count as usize)
}

/// Gives the place of bytes back that were copied out, and offers the writer a wake-up every eighth of
/// the ring.
#[inline(always)]
fn note_taken(
    guard: &Guard,
    segment: &Segment,
    writer: Role,
    receiving: &mut Receiving,
    count: u64,
) -> Result<(), BrokenRing> {
    let way = segment.way(writer);
    receiving.reader.release(&way.pointers, count);
    if receiving.unsaid.note(count, 1) {
        receiving.unsaid.say_received();
    }
    receiving.released += count;
    let capacity = segment.capacity().bytes();
    if receiving.released >= capacity / 8 {
        let unread = receiving.reader.available(&way.pointers, u64::MAX)?;
        if capacity - unread >= capacity / 4 {
            receiving.released = 0;
            doorbell::wake(guard, &way.freed);
        }
    }
    Ok(())
}

/// What an empty ring means.
fn ending(guard: &Guard, segment: &Segment, receiving: &mut Receiving) -> Step {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let way = segment.way(peer);
    let how = segment.side(peer).closed.load(Ordering::Acquire);
    let gone = how != closed::OPEN || connection.end.load(Ordering::Acquire) != end::NONE;
    if !gone && !way.detour.is_finished() {
        // An end of its own is told again and again, a reset of the other's once, so the kernel is asked.
        let is_gone = match connection.reads_no_more() {
            true => death::is_gone_since_switched(guard, segment),
            false => death::is_silent_and_gone(guard, segment),
        };
        return match is_gone {
            true => ending(guard, segment, receiving),
            false if connection.reads_no_more() => Step::End,
            false => Step::Empty { announced: true },
        };
    }
    // What was published before the end is read before the end.
    match receiving.reader.available(&way.pointers, 1) {
        Ok(0) => {}
        Ok(_) => return Step::Empty { announced: true },
        Err(BrokenRing { .. }) => return Step::Failed(broken(guard)),
    }
    if death::says_reset(guard, segment) {
        return Step::Failed(libc::ECONNRESET);
    }
    Step::End
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use weft_protocol::byte_ring::Writer;
    use weft_protocol::detour::Sender;
    use weft_protocol::interrupt_flag::Sleep;

    fn into(buffer: &mut [u8]) -> [iovec; 1] {
        [iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }]
    }

    /// The sender switches while the receiver looks at the kernel's stream.
    #[test]
    fn what_follows_the_ring_is_left_in_the_kernels_stream() {
        let (sample, mut buffer) = (Sample::new(), [0; 9]);
        let (guard, segment) = sample.enter();
        Sender::default().begin(&segment.way(guard.connection.role().peer()).detour, 2);
        sys::write(sample.other, b"abX");
        let looked = from_kernel(&guard, &segment, u64::MAX, &into(&mut buffer), 0, 0);
        assert!(matches!(looked, Some(Step::Bytes(2))));
        assert_eq!(&buffer[..2], b"ab");
        assert_eq!(guard.connection.taken.load(Ordering::Relaxed), 2);
        assert_eq!(sys::recv(guard.socket(), buffer.as_mut_ptr(), 9, 0), Ok(1));
        assert_eq!(buffer[0], b'X');
    }

    #[test]
    fn the_end_of_the_kernels_stream_is_not_that_of_the_ring() {
        let (sample, mut buffer) = (Sample::new(), [0; 9]);
        let (guard, segment) = sample.enter();
        sys::close(sample.other);
        let mut look = || from_kernel(&guard, &segment, u64::MAX, &into(&mut buffer), 0, 0);
        assert!(matches!(look(), Some(Step::End)));
        Sender::default().begin(&segment.way(guard.connection.role().peer()).detour, 0);
        assert!(look().is_none());
    }

    /// The last byte arrives after the ring was found empty, and the end with it.
    #[test]
    fn what_was_written_before_the_end_is_read_before_it() {
        let (sample, mut buffer) = (Sample::new(), [0; 9]);
        let (guard, segment) = sample.enter();
        let mut receiving = guard.connection.receiving().unwrap();
        sample.arrive();
        assert!(!segment.way(guard.connection.role().peer()).detour.finish());
        assert!(matches!(ending(&guard, &segment, &mut receiving), Step::Empty { .. }));
        let read = from_ring(&guard, &segment, &mut receiving, &into(&mut buffer), 0, 0);
        assert_eq!(read.unwrap(), 1);
        assert!(matches!(ending(&guard, &segment, &mut receiving), Step::End));
    }

    #[test]
    fn the_writer_of_a_full_ring_is_woken_when_a_quarter_is_free() {
        let (sample, mut buffer) = (Sample::new(), [0; 4096]);
        let (guard, segment) = sample.enter();
        let way = segment.way(guard.connection.role().peer());
        let capacity = segment.capacity().bytes() as usize;
        Writer::new(segment.capacity()).publish(&way.pointers, capacity as u64);
        way.freed.arm(Sleep::OnWord);
        let mut receiving = guard.connection.receiving().unwrap();
        for (count, sleeps) in [(capacity / 8, true), (capacity / 8 - 1, true), (1, false)] {
            let to = into(&mut buffer[..count]);
            let read = from_ring(&guard, &segment, &mut receiving, &to, 0, 0);
            assert_eq!((read.unwrap(), way.freed.is_armed(Sleep::OnWord)), (count, sleeps));
        }
    }
}
