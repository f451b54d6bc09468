//! Taking doorbells out of the kernel's stream, where they mean nothing to the program.

use std::sync::atomic::Ordering;

use weft_protocol::detour::Begun;

use crate::migration::direction;
use crate::peer::death;
use crate::registry;
use crate::report::stats::{self, Reason};
use crate::segment::Segment;
use crate::sys;
use crate::table::Guard;

/// Says that the thread is about to sleep in the kernel. The last to wake takes the doorbells away;
/// until then they stay for the others.
pub fn fall_asleep(guard: &Guard) {
    let _held = guard.connection.draining.lock();
    guard.connection.sleepers.fetch_add(1, Ordering::SeqCst);
}

/// The end of [`fall_asleep`]. Unless something was reported, the kernel has nothing to say about
/// this connection, no doorbell and no end; what it has later it says to the next sleeper.
pub fn wake_up(guard: &Guard, reported: bool) {
    let _errno = sys::KeepErrno::new();
    let taken = {
        let _held = guard.connection.draining.lock();
        let last = guard.connection.sleepers.fetch_sub(1, Ordering::SeqCst) == 1;
        last && reported && take_doorbells(guard)
    };
    if taken {
        registry::kick(guard);
    }
}

/// Takes the doorbells away after an epoll instance reported them, or where they may be, unless a sleeper
/// needs them. Whether there were any.
pub fn answer_doorbells(guard: &Guard) -> bool {
    let _held = guard.connection.draining.lock();
    let mut any = false;
    if guard.connection.sleepers.load(Ordering::SeqCst) == 0 {
        // Data behind them is examined once they are gone.
        while take_doorbells(guard) {
            any = true;
        }
    } else {
        death::is_gone(guard);
    }
    any
}

/// Whether the kernel's stream holds what is no doorbell, once all that were counted are taken: the
/// other end's program has written past its library, and what it wrote is the program's.
fn holds_strange_bytes(guard: &Guard, segment: &Segment, taken: u64) -> bool {
    let detour = &segment.way(guard.connection.role().peer()).detour;
    let all_taken = || {
        let Begun::After(begun) = detour.begun() else { return false };
        !detour.is_ringing() && begun.saturating_add(detour.doorbells()) == taken
    };
    // A doorbell that came between the two checks was being rung at one of them, or was counted.
    // Counting leaves the kernel's error where it is: the program's next call must see it.
    all_taken() && sys::unread_bytes(guard.socket()).is_ok_and(|count| count > 0) && all_taken()
}

/// Reads counted doorbells from the kernel's stream and discards them. True if there were any.
fn take_doorbells(guard: &Guard) -> bool {
    let connection = guard.connection;
    let Some(segment) = connection.segment() else { return false };
    let detour = &segment.way(connection.role().peer()).detour;
    let mut scratch = [0u8; 256];
    let mut any = false;
    while connection.switched_in.load(Ordering::Acquire) && !connection.is_disconnected() {
        let Begun::After(begun) = detour.begun() else { break };
        let taken = connection.taken.load(Ordering::Acquire);
        let room = begun.saturating_add(detour.doorbells()).saturating_sub(taken);
        let room = room.min(scratch.len() as u64) as usize;
        if any {
            break;
        }
        if room == 0 || taken < begun {
            death::is_gone_since_switched(guard, &segment);
            if taken >= begun && holds_strange_bytes(guard, &segment, taken) {
                direction::turn_back(guard, &segment, Reason::Call);
            }
            break;
        }
        stats::count(|stats| &stats.looks, 1);
        match sys::recv(guard.socket(), scratch.as_mut_ptr(), room, libc::MSG_DONTWAIT) {
            Ok(count) if count > 0 => {
                any = true;
                connection.taken.fetch_add(count as u64, Ordering::AcqRel);
            }
            Err(libc::EAGAIN | libc::EINTR) => break,
            _ => {
                death::is_gone_since_switched(guard, &segment);
                break;
            }
        }
    }
    any
}
