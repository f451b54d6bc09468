//! Receiving and sending on a connection: through the kernel until its directions have switched,
//! through the rings from then on, and through the kernel again once they are back.

mod receiving;
mod sending;

use receiving::receive_seen;
pub use receiving::{Rest, all_unread, look_behind, rest, rest_held, unread};
use sending::send_seen;

use std::sync::atomic::Ordering;

use libc::{c_int, iovec};

use crate::joining::attach;
use crate::peer::death;
use crate::registry;
use crate::report::stats;
use crate::segment::closed;
use crate::signals::asleep::{Asleep, How};
use crate::sys::{self, Errno};
use crate::table::attaching;
use crate::table::lost::LostTo;
use crate::table::numbers::passed_by;
use crate::table::{self, Guard, Phase, end};
use crate::waiting::call::Call;

/// Sets `errno` and returns what a failed call returns.
pub fn fail(errno: Errno) -> isize {
    sys::set_errno(errno);
    -1
}

/// The whole length of a vector.
#[inline]
pub fn length(vector: &[iovec]) -> usize {
    vector.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// Whether the library moves the connection's bytes. If not, the call is the kernel's, and as long
/// as it lasts the guard keeps others from joining.
#[inline(always)]
pub fn is_accelerated(guard: &Guard) -> bool {
    guard.connection.phase() == Phase::JOINED || may_be_accelerated(guard)
}

#[inline(never)]
fn may_be_accelerated(guard: &Guard) -> bool {
    let connection = guard.connection;
    if connection.phase().may_join() {
        attach::tick(guard);
    }
    loop {
        match connection.phase() {
            Phase::JOINED => return true,
            Phase::PLAIN | Phase::FREE => {
                registry::let_pass(guard);
                return false;
            }
            phase if phase.is_joining() => attaching::await_joiner(),
            _ => return false,
        }
    }
}

/// Receives as `recvmsg` does, into the buffers that `to` returns; `kernel` is the program's own
/// call, which the kernel refuses if `to` returns none.
#[inline(always)]
pub fn receive<T: AsRef<[iovec]>>(
    fd: c_int,
    to: impl FnOnce() -> Option<T>,
    flags: c_int,
    kernel: impl Fn() -> isize + Copy,
) -> isize {
    match passed_by(fd, kernel) {
        Some(result) => result,
        None => match to() {
            Some(to) => receive_seen(fd, to.as_ref(), flags, kernel),
            None => kernel(),
        },
    }
}

/// Makes the program's call within a stay on the connection.
fn in_kernel(kernel: impl Fn() -> isize) -> isize {
    let _asleep = Asleep::begin(How::Elsewhere);
    kernel()
}

/// Sends as `sendmsg` does, from the buffers that `from` returns; `kernel` is the program's own
/// call, which the kernel refuses if `from` returns none.
#[inline(always)]
pub fn send<T: AsRef<[iovec]>>(
    fd: c_int,
    from: impl FnOnce() -> Option<T>,
    flags: c_int,
    kernel: impl Fn() -> isize + Copy,
) -> isize {
    if flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY) == 0
        && let Some(result) = passed_by(fd, kernel)
    {
        return result;
    }
    match from() {
        Some(from) => send_seen(fd, from.as_ref(), flags, kernel),
        None => kernel(),
    }
}

/// What became of a call.
enum Moved {
    Done(isize),
    /// The kernel is to be asked: it has the direction again, or knows the right error.
    Kernel,
    /// Nothing, and the number is another's by now, of which the call is to be made.
    Anew,
}

/// What becomes of a running call when another thread takes its number away: it returns what it has
/// done, or begins again. `None` if it goes on with the connection that it had.
#[cold]
fn without_number(guard: &Guard, lost: LostTo, done: usize, call: &mut Call) -> Option<Moved> {
    if done > 0 {
        return Some(Moved::Done(done as isize));
    }
    call.no_longer_blocks();
    match lost {
        LostTo::Nobody => Some(Moved::Done(fail(libc::EBADF))),
        LostTo::Itself => Some(Moved::Anew),
        LostTo::Another if guard.awaits_another() => Some(Moved::Anew),
        LostTo::Another => {
            call.stays();
            None
        }
    }
}

/// What becomes of a call that is about to sleep after another thread has taken its number away.
/// `None` if it still has its number, or goes on with its connection.
fn lost_its_number(guard: &Guard, done: usize, call: &mut Call) -> Option<Moved> {
    let lost = call.number_lost_to(guard)?;
    without_number(guard, lost, done, call)
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

/// The error of which a receive of several messages hears before it looks for any.
pub fn error_before_all(fd: c_int) -> Option<Errno> {
    let guard = table::enter_placed(fd)?;
    let segment = guard.connection.segment().filter(|segment| !segment.has_ended())?;
    let connection = guard.connection;
    let how = segment.side(connection.role().peer()).closed.load(Ordering::Acquire);
    let gone = how != closed::OPEN
        || connection.end.load(Ordering::Acquire) != end::NONE
        || death::is_silent_and_gone(&guard, &segment);
    if !gone {
        return None;
    }
    if death::says_reset(&guard, &segment) {
        return Some(libc::ECONNRESET);
    }
    if death::is_reset_by_doorbell(&guard) {
        return None;
    }
    // A send after the end was answered by a broken pipe.
    death::owed(connection).or_else(|| death::take_error(&guard))
}

/// The other end has written garbage: the connection is over, and nothing else is harmed.
#[cold]
fn broken(guard: &Guard) -> Errno {
    if guard.connection.end.swap(end::BROKEN, Ordering::AcqRel) != end::BROKEN {
        stats::count(|stats| &stats.broken, 1);
    }
    libc::ECONNRESET
}
