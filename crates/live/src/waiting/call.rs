//! What a blocking call knows of itself while it waits.

use libc::c_int;

use crate::sys;
use crate::table::blocked::Blocking;
use crate::table::guard::Apart;
use crate::table::lost::LostTo;
use crate::table::{Guard, is_single_threaded};

/// How far a call has come, as far as that bears on how it waits.
#[derive(Default)]
pub struct Call {
    /// Whether it has moved a part.
    pub in_part: bool,
    /// How long a send has waited.
    pub waited: u64,
    /// When the time of a receive is over, if it has waited before.
    pub until: Option<u64>,
    /// Until when it has slept, in nanoseconds, if it has. From then on it might as well begin only now.
    pub slept_until: u64,
    /// From its first sleep on.
    pub blocking: Option<Blocking<'static>>,
    /// For sleeps in which the kernel looks again what the descriptor stands for.
    apart: Option<Apart>,
}

impl Call {
    /// Whether, and for what, another thread has taken the descriptor away while the call was
    /// running. Such a call begins again: a signal that should end it, and arrives while it polls,
    /// is sent only once, after the descriptor was reused (as the JDK closes sockets).
    pub fn number_lost_to(&self, guard: &Guard) -> Option<LostTo> {
        lost_since(guard, self.slept_until)
    }

    /// Registers the thread of the call, which is about to sleep, for threads that take its
    /// descriptor away.
    pub fn blocks(&mut self, guard: &Guard) -> &Blocking<'static> {
        self.blocking.get_or_insert_with(|| guard.local().blocked.begin(guard.fd))
    }

    /// A descriptor for a sleep in `poll` that no other thread takes away. `poll` looks the
    /// descriptor up again when it wakes: it would report that the descriptor is closed, or the
    /// events of another file, instead of a signal.
    pub fn number(&mut self, guard: &Guard) -> c_int {
        let socket = guard.socket();
        // The thread that takes the descriptor away may not have kept another yet.
        if is_single_threaded() || socket != guard.fd {
            return socket;
        }
        if self.apart.is_none() {
            self.apart = guard.apart();
        }
        self.apart.as_ref().map_or(guard.fd, |apart| apart.fd)
    }

    /// Sleeps, as `sleep` does, until something comes. A thread that takes the descriptor away
    /// waits until this call sleeps.
    pub fn sleeps_for_long<T>(&mut self, guard: &Guard, sleep: impl FnOnce(&mut Self) -> T) -> T {
        self.blocks(guard).lasts();
        let slept = sleep(self);
        self.blocks(guard).is_short();
        self.slept_until = sys::now();
        slept
    }

    /// Whether another thread has taken the descriptor away while the call slept, which then goes
    /// on.
    pub fn is_without_number(&self, guard: &Guard) -> bool {
        guard.number_lost_to().is_some() && self.number_lost_to(guard).is_none()
    }

    /// From now on a thread that takes the descriptor away no longer waits for this call, which
    /// waits for that thread instead.
    pub fn no_longer_blocks(&mut self) {
        self.blocking = None;
    }

    /// A signal whose handler restarts calls (`SA_RESTART`) has ended the sleep: the kernel then
    /// looks the descriptor up again, and finds nothing, or something else, if another thread has
    /// taken it away.
    pub fn begins_again(&mut self) {
        self.slept_until = 0;
    }

    /// Goes on with the connection whose descriptor was taken away.
    pub fn stays(&mut self) {
        self.slept_until = u64::MAX;
    }

    /// When its time is over, which begins now unless it has begun.
    pub fn limit(&mut self, fd: c_int) -> u64 {
        *self.until.get_or_insert_with(|| {
            let limit = sys::timeout_option(fd, libc::SO_RCVTIMEO);
            limit.map_or(u64::MAX, |limit| sys::now().saturating_add(limit))
        })
    }
}

/// What the descriptor was lost to at a time or after it.
pub fn lost_since(guard: &Guard, time: u64) -> Option<LostTo> {
    guard.number_lost_to().filter(|_| guard.local().lost_since(time))
}
