//! Receiving and sending on a connection: through the kernel until its directions have switched,
//! through the rings from then on.

use std::sync::atomic::Ordering;

use libc::{c_int, iovec};
use weft_protocol::byte_ring::BrokenRing;

use crate::attach;
use crate::ready;
use crate::segment::{Segment, closed};
use crate::stats;
use crate::sys::{self, Errno};
use crate::table::{self, Connection, Guard, Receiving, Sending, end, phase};
use crate::wait;

/// A long message is handed over in pieces of this many bytes, so that both ends copy at once.
const PIECE: u64 = 32 * 1024;

/// How long a blocking send waits for the kernel before it looks again whether it can switch, in
/// nanoseconds.
const UNTIL_SWITCHED: u64 = 1_000_000;

/// Sets `errno` and returns what a failed call returns.
pub fn fail(errno: Errno) -> isize {
    sys::set_errno(errno);
    -1
}

/// The whole length of a vector.
fn length(vector: &[iovec]) -> usize {
    vector.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// Counts a thread inside a call of the kernel that must not be overtaken by joining or switching.
fn inside<R>(counter: &std::sync::atomic::AtomicU32, kernel: impl FnOnce() -> R) -> R {
    let result = kernel();
    counter.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Receives as `recvmsg` does; `kernel` is the call that the program made.
pub fn receive(fd: c_int, to: &[iovec], flags: c_int, kernel: impl Fn() -> isize) -> isize {
    let Some(guard) = table::enter(fd) else { return kernel() };
    let connection = guard.connection;
    if connection.phase() < phase::JOINED {
        attach::tick(&guard);
    }
    loop {
        match connection.phase() {
            phase::JOINED => return received(&guard, to, flags),
            phase::PLAIN | phase::FREE => return kernel(),
            _ => {}
        }
        connection.kernel_readers.fetch_add(1, Ordering::SeqCst);
        match connection.phase() {
            phase::JOINING | phase::JOINED => {
                connection.kernel_readers.fetch_sub(1, Ordering::SeqCst);
                std::thread::yield_now();
            }
            _ => return inside(&connection.kernel_readers, kernel),
        }
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
}

fn received(guard: &Guard, to: &[iovec], flags: c_int) -> isize {
    if flags & libc::MSG_OOB != 0 {
        return fail(libc::EINVAL);
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return fail(libc::EAGAIN);
    }
    let Some(segment) = guard.connection.segment() else { return fail(libc::EBADF) };
    let wanted = length(to);
    let whole = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0;
    let blocking =
        flags & libc::MSG_DONTWAIT == 0 && !guard.connection.nonblocking.load(Ordering::Relaxed);
    let mut done = 0;
    // Asking for nothing still waits for something.
    while wanted == 0 && ready::events(guard, &segment) & libc::POLLIN == 0 {
        let waited =
            if blocking { wait::readable(guard, &segment, true) } else { Err(libc::EAGAIN) };
        if let Err(why) = waited {
            return fail(why);
        }
    }
    while done < wanted {
        let why = match step(guard, &segment, to, done, flags) {
            Step::Bytes(count) => {
                done += count;
                if whole {
                    continue;
                }
                break;
            }
            Step::End => break,
            Step::Failed(why) => why,
            Step::Empty { .. } if !blocking => libc::EAGAIN,
            Step::Empty { announced } => match wait::readable(guard, &segment, announced) {
                Ok(()) => continue,
                Err(why) => why,
            },
        };
        if done == 0 {
            return fail(why);
        }
        break;
    }
    stats::count(|stats| &stats.bytes_received, done as u64);
    done as isize
}

fn step(guard: &Guard, segment: &Segment, to: &[iovec], skip: usize, flags: c_int) -> Step {
    let Some(mut receiving) = guard.connection.receiving() else {
        return Step::Failed(libc::EINTR);
    };
    if !receiving.switched {
        match from_kernel(guard, segment, &mut receiving, to, skip, flags) {
            Some(step) => return step,
            None if attach::arrive(guard, segment, &mut receiving) => {}
            None => return Step::Failed(libc::EINTR),
        }
    }
    match from_ring(guard, segment, &mut receiving, to, skip, flags) {
        Ok(0) => ending(guard, segment, &mut receiving),
        Ok(count) => Step::Bytes(count),
        Err(BrokenRing { .. }) => broken(guard),
    }
}

/// The first part of the vector that still has room, `skip` bytes into it.
fn part(to: &[iovec], mut skip: usize) -> Option<(*mut u8, usize)> {
    for part in to {
        if skip < part.iov_len {
            // SAFETY: `skip` lies inside the part.
            return Some((unsafe { part.iov_base.cast::<u8>().add(skip) }, part.iov_len - skip));
        }
        skip -= part.iov_len;
    }
    None
}

/// Reads the kernel's stream, up to where the sender has switched. `None` once it is read.
fn from_kernel(
    guard: &Guard,
    segment: &Segment,
    receiving: &mut Receiving,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> Option<Step> {
    let way = segment.way(guard.connection.role().peer());
    let announced = way.switched.load(Ordering::Acquire);
    let left = match announced {
        0 => u64::MAX,
        count => (count - 1).saturating_sub(receiving.from_kernel),
    };
    if left == 0 {
        return None;
    }
    let (place, room) = part(to, skip)?;
    let flags = flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
    let taken = sys::recv(guard.fd, place, room.min(left as usize), flags);
    // Bytes beyond the announced count are doorbells, which follow the announcement.
    let announced = way.switched.load(Ordering::Acquire);
    let left = match announced {
        0 => u64::MAX,
        count => (count - 1).saturating_sub(receiving.from_kernel),
    };
    match taken {
        Ok(0) => Some(Step::End),
        Ok(count) => {
            let count = (count as u64).min(left);
            if flags & libc::MSG_PEEK == 0 {
                receiving.from_kernel += count;
            }
            (count > 0).then_some(Step::Bytes(count as usize))
        }
        Err(libc::EAGAIN) if left == 0 => None,
        Err(libc::EAGAIN) => Some(Step::Empty { announced: announced != 0 }),
        Err(why) => Some(Step::Failed(why)),
    }
}

/// Copies from the ring what is there, and offers the writer a wake-up every eighth of the ring.
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
    receiving.reader.release(&way.pointers, done);
    receiving.released += done;
    let capacity = segment.capacity().bytes();
    if receiving.released >= capacity / 8 {
        let unread = receiving.reader.available(&way.pointers, u64::MAX)?;
        if capacity - unread >= capacity / 4 {
            receiving.released = 0;
            wait::wake(guard, &way.freed);
        }
    }
    Ok(done as usize)
}

/// What an empty ring means.
fn ending(guard: &Guard, segment: &Segment, receiving: &mut Receiving) -> Step {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let way = segment.way(peer);
    let how = segment.side(peer).closed.load(Ordering::Acquire);
    let gone = how != closed::OPEN || connection.end.load(Ordering::Acquire) != end::NONE;
    if !gone && way.finished.load(Ordering::Acquire) == 0 {
        if connection.read_shut.load(Ordering::Acquire) {
            return Step::End;
        }
        if wait::is_due(connection) && wait::is_gone_since_switched(guard) {
            return ending(guard, segment, receiving);
        }
        return Step::Empty { announced: true };
    }
    // What was published before the end is read before the end.
    match receiving.reader.available(&way.pointers, 1) {
        Ok(0) => {}
        Ok(_) => return Step::Empty { announced: true },
        Err(BrokenRing { .. }) => return broken(guard),
    }
    // After the end of the stream a reset says nothing new to a reader.
    let finished = way.finished.load(Ordering::Acquire) != 0;
    if !finished && is_reset(connection, segment, how) && !receiving.reset_reported {
        receiving.reset_reported = true;
        return Step::Failed(libc::ECONNRESET);
    }
    Step::End
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

/// The other end has written garbage: the connection is over, and nothing else is harmed.
#[cold]
fn broken(guard: &Guard) -> Step {
    if guard.connection.end.swap(end::BROKEN, Ordering::AcqRel) != end::BROKEN {
        stats::count(|stats| &stats.broken, 1);
    }
    Step::Failed(libc::ECONNRESET)
}

/// Sends as `sendmsg` does; `kernel` is the call that the program made.
pub fn send(fd: c_int, from: &[iovec], flags: c_int, kernel: impl Fn() -> isize) -> isize {
    let Some(guard) = table::enter(fd) else { return kernel() };
    if flags & libc::MSG_OOB != 0 {
        attach::give_up(guard.connection, stats::Reason::Call);
    }
    if let Some(result) = before_joining(&guard, &kernel) {
        return result;
    }
    match sent(&guard, from, flags) {
        Sent::Done(result) => result,
        Sent::Kernel => kernel(),
    }
}

/// Makes a sending call of the kernel on a connection that is not joined. `None` if it is.
pub fn before_joining(guard: &Guard, kernel: impl Fn() -> isize) -> Option<isize> {
    let connection = guard.connection;
    if connection.phase() < phase::JOINED {
        attach::tick(guard);
    }
    loop {
        match connection.phase() {
            phase::JOINED => return None,
            phase::PLAIN | phase::FREE => return Some(kernel()),
            _ => {}
        }
        connection.kernel_writers.fetch_add(1, Ordering::SeqCst);
        match connection.phase() {
            phase::JOINING | phase::JOINED => {
                connection.kernel_writers.fetch_sub(1, Ordering::SeqCst);
                std::thread::yield_now();
            }
            _ => return Some(inside(&connection.kernel_writers, kernel)),
        }
    }
}

enum Sent {
    Done(isize),
    /// The other end has left, and the kernel knows the right error.
    Kernel,
}

fn sent(guard: &Guard, from: &[iovec], flags: c_int) -> Sent {
    let connection = guard.connection;
    let Some(segment) = connection.segment() else { return Sent::Done(fail(libc::EBADF)) };
    let wanted = length(from);
    let blocking =
        flags & libc::MSG_DONTWAIT == 0 && !connection.nonblocking.load(Ordering::Relaxed);
    let mut done = 0;
    loop {
        let Some(mut sending) = connection.sending() else {
            return Sent::Done(fail(libc::EINTR));
        };
        attach::switch(guard, &segment, &mut sending);
        if done == 0 && has_left(guard, &segment) {
            return Sent::Kernel;
        }
        if !sending.switched {
            let sent = into_kernel(guard, from, &mut done, flags);
            drop(sending);
            match sent {
                Ok(()) if done == wanted => return finish_send(done),
                Err(why) if why != libc::EAGAIN && done == 0 => return Sent::Done(fail(why)),
                Err(why) if why != libc::EAGAIN => return finish_send(done),
                _ if !blocking && done > 0 => return finish_send(done),
                _ if !blocking => return Sent::Done(fail(libc::EAGAIN)),
                _ => sys::poll(guard.fd, libc::POLLOUT, UNTIL_SWITCHED),
            };
            continue;
        }
        if flags & libc::MSG_OOB != 0 {
            return Sent::Done(fail(libc::EOPNOTSUPP));
        }
        if connection.write_shut.load(Ordering::Acquire) {
            return Sent::Done(if done > 0 { done as isize } else { broken_pipe(flags) });
        }
        let full = match into_ring(guard, &segment, &mut sending, from, &mut done) {
            Ok(()) => done < wanted,
            Err(BrokenRing { .. }) => {
                broken(guard);
                return Sent::Done(fail(libc::ECONNRESET));
            }
        };
        drop(sending);
        if !full {
            return finish_send(done);
        }
        connection.filled.fetch_add(1, Ordering::Relaxed);
        let waited = if blocking { wait::writable(guard, &segment) } else { Err(libc::EAGAIN) };
        match waited {
            Ok(()) => {}
            Err(_) if done > 0 => return finish_send(done),
            Err(why) => return Sent::Done(fail(why)),
        }
        if done > 0 && has_left(guard, &segment) {
            return finish_send(done);
        }
    }
}

/// Sends through the kernel while the other end has not yet joined, without blocking, so that the
/// direction can switch as soon as it has.
fn into_kernel(guard: &Guard, from: &[iovec], done: &mut usize, flags: c_int) -> Result<(), Errno> {
    let flags = flags & libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    while let Some((place, length)) = part(from, *done) {
        *done += sys::send(guard.fd, place, length, flags)?;
    }
    Ok(())
}

fn finish_send(done: usize) -> Sent {
    stats::count(|stats| &stats.bytes_sent, done as u64);
    stats::count(|stats| &stats.messages_sent, 1);
    Sent::Done(done as isize)
}

/// Copies into the ring as much as there is room for, in pieces.
fn into_ring(
    guard: &Guard,
    segment: &Segment,
    sending: &mut Sending,
    from: &[iovec],
    done: &mut usize,
) -> Result<(), BrokenRing> {
    let role = guard.connection.role();
    let way = segment.way(role);
    let mine = &segment.side(role).processor;
    let processor = sys::processor();
    if mine.load(Ordering::Relaxed) != processor {
        mine.store(processor, Ordering::Relaxed);
    }
    while let Some((place, length)) = part(from, *done) {
        let wanted = (length as u64).min(PIECE);
        let count = sending.writer.room(&way.pointers, wanted)?.min(wanted);
        if count == 0 {
            break;
        }
        let spans = sending.writer.spans(count);
        // SAFETY: the part has `count` bytes by the program's word.
        unsafe { segment.fill_ring(role, &spans, place) };
        sending.writer.publish(&way.pointers, count);
        *done += count as usize;
        wait::wake(guard, &way.arrived);
    }
    Ok(())
}

/// Whether the other end has closed or died. From then on the kernel is asked, which knows the
/// right error for each call.
fn has_left(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    let peer = segment.side(connection.role().peer());
    peer.closed.load(Ordering::Relaxed) != closed::OPEN
        || connection.end.load(Ordering::Relaxed) != end::NONE
        || (wait::is_due(connection) && wait::is_gone(guard))
}

/// What a write does after the sending direction was shut down.
fn broken_pipe(flags: c_int) -> isize {
    if flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: sends the calling thread the signal that the kernel would send it.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    fail(libc::EPIPE)
}
