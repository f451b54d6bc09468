//! Continues a receive behind its first bytes, in the ring or in the kernel's stream.

use libc::{c_int, iovec};
use weft_protocol::detour::Inlet;

use super::{NO_PLACES, PLACES, Step, all_unread, cut, from_ring, step};
use crate::migration::direction;
use crate::segment::Segment;
use crate::stream::{length, part};
use crate::sys;
use crate::table::{Guard, Receiving};
use crate::waiting::call::Call;
use crate::waiting::wait;

/// Continues a receive behind its first bytes, of which it is known whether they came from the
/// kernel.
#[inline]
pub fn go_on_elsewhere(
    guard: &Guard,
    segment: &Segment,
    to: &[iovec],
    skip: usize,
    flags: c_int,
    from_kernel: bool,
) -> usize {
    let mut done = skip;
    if from_kernel {
        done += go_on_in_ring(guard, segment, to, done, flags);
    }
    let is_sealed = segment.way(guard.connection.role().peer()).pointers.is_sealed();
    if is_sealed && part(to, done).is_some() {
        done += go_on_in_kernel(guard, segment, to, done, flags);
    }
    done - skip
}

/// Continues a receive from the kernel's stream: in the ring, or in the same stream if there were
/// more parts than can be limited at a time. A caller that gets less than it had room for concludes
/// that there is no more.
#[inline(never)]
fn go_on_in_ring(
    guard: &Guard,
    segment: &Segment,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> usize {
    if segment.way(guard.connection.role().peer()).pointers.filling() == 0 && to.len() <= PLACES {
        return 0;
    }
    if flags & libc::MSG_PEEK != 0 {
        return look_into_ring(guard, segment, to, skip, flags);
    }
    let (mut done, wanted) = (skip, length(to));
    while done < wanted
        && all_unread(guard, segment) > 0
        && let Step::Bytes(count) = step(guard, segment, to, done, flags)
    {
        done += count;
    }
    done - skip
}

/// Continues a receive with `MSG_PEEK` in the ring, after it has looked at `looked` bytes of the
/// kernel's stream, if these are all that precede the ring.
#[inline(never)]
fn look_into_ring(
    guard: &Guard,
    segment: &Segment,
    to: &[iovec],
    looked: usize,
    flags: c_int,
) -> usize {
    let Some(mut receiving) = guard.connection.receiving() else { return 0 };
    match direction::inlet(guard, segment, &mut receiving) {
        Some(Inlet::Before { left }) if left == looked as u64 => {
            from_ring(guard, segment, &mut receiving, to, looked, flags).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Continues a receive that has emptied the ring, or peeked at all of it, in the kernel's stream
/// behind the ring.
#[cold]
fn go_on_in_kernel(
    guard: &Guard,
    segment: &Segment,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> usize {
    match guard.connection.receiving() {
        Some(mut receiving) => {
            go_on_in_kernel_held(guard, segment, &mut receiving, to, skip, flags)
        }
        None => 0,
    }
}

/// [`go_on_in_kernel`] for a caller that has the receiving half.
fn go_on_in_kernel_held(
    guard: &Guard,
    segment: &Segment,
    receiving: &mut Receiving,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> usize {
    let looks = flags & libc::MSG_PEEK != 0;
    let left = segment.way(guard.connection.role().peer()).pointers.filling();
    let is_behind = match direction::inlet(guard, segment, receiving) {
        Some(Inlet::Ring) => looks && left == skip as u64,
        Some(Inlet::Doorbells(_) | Inlet::After) => !looks,
        _ => false,
    };
    if !is_behind || direction::discard(guard, segment) != Some(0) {
        return 0;
    }
    if !looks && direction::inlet(guard, segment, receiving) != Some(Inlet::After) {
        return 0;
    }
    from_kernel_behind(guard.socket(), to, skip, flags)
}

/// How much follows in the kernel's stream what a look of [`super::rest_held`] has put into a buffer, which goes
/// behind that: if that was all that is in the ring.
pub fn look_behind(
    guard: &Guard,
    receiving: &mut Receiving,
    buffer: &mut [u8],
    looked: usize,
) -> usize {
    let Some(segment) = guard.connection.segment() else { return 0 };
    if guard.connection.is_slept_on() {
        // A doorbell may stand in between that is yet to wake another.
        return 0;
    }
    let to = [iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }];
    go_on_in_kernel_held(guard, &segment, receiving, &to, looked, libc::MSG_PEEK)
}

/// Receives what is there for a call that has received a part. A call ends at an urgent mark, and
/// what ends the stream is the next one's to hear, so it is not asked for.
fn from_kernel_behind(fd: c_int, to: &[iovec], skip: usize, flags: c_int) -> usize {
    if sys::is_at_mark(fd) || sys::unread_bytes(fd).unwrap_or(0) == 0 {
        return 0;
    }
    let mut places = NO_PLACES;
    let flags = flags & (libc::MSG_PEEK | libc::MSG_TRUNC) | libc::MSG_DONTWAIT;
    sys::receive(fd, cut(to, skip, u64::MAX, &mut places), flags).unwrap_or(0)
}

/// The rest of a receive with `MSG_WAITALL` during which the connection migrated to the kernel;
/// nothing for a non-blocking one.
pub fn go_on_receiving(
    guard: &Guard,
    to: &[iovec],
    skip: usize,
    flags: c_int,
    mut call: Option<&mut Call>,
) -> usize {
    let mut done = 0;
    while part(to, skip + done).is_some()
        && call.as_mut().is_none_or(|call| wait::for_rest(guard, call))
    {
        match from_kernel_behind(guard.socket(), to, skip + done, flags) {
            0 => break,
            count => done += count,
        }
    }
    done
}
