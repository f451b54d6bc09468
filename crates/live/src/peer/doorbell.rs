//! Waking the other end: on the word of its flag, by an event, or by a doorbell, a byte that means nothing on
//! the kernel's stream.

use std::sync::atomic::Ordering;

use weft_protocol::detour::{Begun, Ringing};
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep, Wake};

use crate::options;
use crate::report::stats;
use crate::segment::Segment;
use crate::sys;
use crate::table::own_number::OwnNumber;
use crate::table::{self, Guard, end};

/// Stimulates a flag, and wakes the threads that sleep on it.
#[inline]
pub fn wake(guard: &Guard, flag: &InterruptFlag) {
    if flag.is_armed_after_change() {
        wake_armed(guard, flag);
    }
}

fn wake_armed(guard: &Guard, flag: &InterruptFlag) {
    let _errno = sys::KeepErrno::new();
    guard.connection.wakers.count(|| carry_out(guard, flag, flag.take()));
}

/// Carries the wake-ups out that a flag's sleepers are owed.
fn carry_out(guard: &Guard, flag: &InterruptFlag, wake: Wake) {
    if wake.includes(Sleep::OnWord) {
        sys::futex_wake(flag.word().as_ptr());
        stats::count(|stats| &stats.word_wakes, 1);
    }
    if wake.includes(Sleep::OnEvent) {
        signal(&guard.local().peer_event);
        stats::count(|stats| &stats.doorbells, 1);
    }
    // Before this end has switched, a byte on its kernel's stream would be the program's.
    if wake.includes(Sleep::InKernel)
        && guard.connection.switched_out.load(Ordering::Acquire)
        && let Some(segment) = guard.connection.segment()
    {
        ring_doorbell(guard, &segment);
    }
}

/// Signals an event of a connection. The child of a vfork, and a process that copies, have
/// descriptors of their own: that of an event is nothing there, or something else.
pub fn signal(event: &OwnNumber) {
    loop {
        let number = event.descriptor();
        if table::has_own_numbers() || sys::may_be_event(number) {
            sys::signal_event(number);
        }
        // The program may have taken the descriptor away meanwhile.
        if event.descriptor() == number {
            return;
        }
    }
}

/// Rings the doorbell: sends a byte without meaning through the kernel's stream, unless the
/// direction is back there, or the other end has gone, when the kernel would answer by a reset.
pub fn ring_doorbell(guard: &Guard, segment: &Segment) {
    let connection = guard.connection;
    if connection.end.load(Ordering::Acquire) == end::GONE {
        return;
    }
    let detour = &segment.way(connection.role()).detour;
    connection.ring_again.store(true, Ordering::Release);
    // In a signal handler that interrupted a ringer: the ringer rings once more.
    let Some(_ringing) = connection.ringing.lock() else { return };
    while connection.ring_again.swap(false, Ordering::AcqRel) {
        match detour.ring() {
            Ringing::Silenced => return,
            Ringing::Ring => {
                // A full stream is full of doorbells: the other end is awake.
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                detour.rung(sys::send(guard.socket(), [0u8].as_ptr(), 1, flags) == Ok(1));
                options::push(guard);
                stats::count(|stats| &stats.doorbells, 1);
            }
            Ringing::Doubtful => {
                count_doorbells(guard, segment);
                connection.ring_again.store(true, Ordering::Release);
            }
        }
    }
}

/// Counts this end's doorbells again from the kernel's counters, after a ringer died between
/// ringing and counting. No other thread is ringing.
pub fn count_doorbells(guard: &Guard, segment: &Segment) {
    let detour = &segment.way(guard.connection.role()).detour;
    let put_in = sys::tcp_counts(guard.socket()).map_or(0, |counts| counts.put_in);
    match detour.begun() {
        Begun::After(begun) => detour.count_doorbells(put_in.saturating_sub(begun)),
        Begun::NotYet | Begun::Never => detour.count_doorbells(0),
    }
}

/// Wakes the threads that sleep on the word of a flag, without a stimulus. Those that sleep in the
/// kernel are woken by it.
pub fn wake_word(flag: &InterruptFlag) {
    let _errno = sys::KeepErrno::new();
    sys::futex_wake(flag.word().as_ptr());
}
