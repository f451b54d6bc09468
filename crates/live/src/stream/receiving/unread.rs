//! What is left to be received, and how much.

use std::sync::atomic::Ordering;

use libc::{c_int, iovec};
use weft_protocol::detour::{Begun, Inlet};

use super::{Step, step_held};
use crate::migration::direction;
use crate::peer::death;
use crate::segment::Segment;
use crate::sys;
use crate::table::{Guard, Phase, Receiving};

/// What a look for the bytes of a connection that goes back to the kernel found.
pub enum Rest {
    Bytes(usize),
    /// Nothing yet.
    Later,
    End,
    Reset,
    /// What follows is the kernel's stream's.
    Kernel,
}

/// Takes bytes out of a connection whose detours have ended, without waiting.
pub fn rest(guard: &Guard, buffer: &mut [u8]) -> Rest {
    match guard.connection.receiving() {
        Some(mut receiving) => rest_held(guard, &mut receiving, buffer, 0),
        None => Rest::Later,
    }
}

/// [`rest`] for a caller that has the receiving half; with `MSG_PEEK` the bytes stay unread.
pub fn rest_held(
    guard: &Guard,
    receiving: &mut Receiving,
    buffer: &mut [u8],
    flags: c_int,
) -> Rest {
    let connection = guard.connection;
    let segment = connection.segment().filter(|_| connection.phase() == Phase::JOINED);
    let Some(segment) = segment else { return Rest::Kernel };
    let to = [iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }];
    match step_held(guard, &segment, receiving, &to, 0, flags | libc::MSG_DONTWAIT) {
        Step::Bytes(count) => Rest::Bytes(count),
        Step::Empty { .. } | Step::Failed(libc::EINTR) => Rest::Later,
        Step::End => Rest::End,
        Step::Failed(_) if death::is_reset_by_doorbell(guard) => Rest::End,
        Step::Failed(_) => Rest::Reset,
        Step::Kernel => Rest::Kernel,
    }
}

/// How many bytes can be received without waiting, wherever they are; `None` if the kernel knows,
/// or in a signal handler that interrupted a receiver.
pub fn unread(guard: &Guard, segment: &Segment) -> Option<u64> {
    let connection = guard.connection;
    let way = segment.way(connection.role().peer());
    let mut receiving = connection.receiving()?;
    let inlet = direction::inlet(guard, segment, &mut receiving)?;
    let in_ring = way.pointers.filling().min(segment.capacity().bytes());
    if inlet == Inlet::Ring && !segment.has_ended() {
        return Some(in_ring);
    }
    let in_kernel = sys::unread_bytes(guard.socket()).ok()?;
    let arrived = connection.taken.load(Ordering::Acquire).saturating_add(in_kernel);
    // What the kernel holds between the ring's beginning and its end is doorbells.
    let after_ring = way.detour.resumes_after().map_or(0, |start| arrived.saturating_sub(start));
    match (inlet, way.detour.begun()) {
        (Inlet::After, _) | (Inlet::Before { .. }, Begun::NotYet | Begun::Never) => None,
        (Inlet::Before { left }, Begun::After(_)) if in_kernel < left => None,
        (Inlet::Before { left }, Begun::After(_)) => Some(left + in_ring + after_ring),
        (Inlet::Ring | Inlet::Doorbells(_) | Inlet::Settling, _) => Some(in_ring + after_ring),
    }
}

/// How many bytes can be received without waiting; asks the kernel if only the kernel knows.
pub fn all_unread(guard: &Guard, segment: &Segment) -> u64 {
    let known = unread(guard, segment);
    known.or_else(|| sys::unread_bytes(guard.socket()).ok()).unwrap_or_default()
}
