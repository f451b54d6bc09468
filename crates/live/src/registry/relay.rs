//! The kernel instance that an instance has for its accelerated connections, once something watches it.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event};

use super::instance::Instance;
use super::{CONTROL, EVENT, TAG, registrations, tagged};
use crate::descriptors;
use crate::sys;
use crate::table::numbers::claim;
use crate::table::{self, Registration};

/// The `epoll_event` data of a relay in its instance, and of the `eventfd` in the relay. No registration
/// has this value.
pub const RELAY: u64 = TAG | 0x7fff_ffff;
const SHOWN: u64 = TAG | 0x7fff_fffe;

/// Registers a relay in an instance; returns it and the `eventfd` in it.
fn make_relay(epoll: c_int) -> Option<(c_int, c_int)> {
    let relay = descriptors::epoll_create().ok()?;
    let Ok(shown) = descriptors::event() else {
        sys::close(relay);
        return None;
    };
    let level = |data| epoll_event { events: libc::EPOLLIN as u32, u64: data };
    let add = libc::EPOLL_CTL_ADD;
    let put_in = sys::epoll_ctl(relay, add, shown, &mut level(SHOWN))
        .and_then(|()| sys::epoll_ctl(epoll, add, relay, &mut level(RELAY)));
    if put_in.is_err() {
        sys::close(relay);
        sys::close(shown);
        return None;
    }
    claim(relay);
    claim(shown);
    Some((relay, shown))
}

/// Gives an instance a relay. False if none could be made.
pub fn add_relay(it: &Instance, index: usize) -> bool {
    if !table::is_owner() || !table::remembers() {
        return false;
    }
    let (Some(_control), Some(_held)) = (CONTROL.lock(), it.lock.lock()) else { return false };
    if it.has_relay() {
        return true;
    }
    let Some((relay, shown)) = make_relay(it.descriptor()) else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *it.inner.get() };
    inner.tagged.add();
    for place in table::used() {
        for (which, registration) in registrations(place).enumerate() {
            // SAFETY: the control lock is held, and the instance's.
            let registration = unsafe { &mut *registration };
            let is_here = registration.instance == index as u32 + 1;
            if is_here && (registration.linked || registration.parked) {
                move_to_relay([it.descriptor(), relay], registration, place, which);
            }
        }
    }
    while inner.warm < inner.count {
        inner.make_warm(inner.warm);
    }
    it.shown.set(shown);
    it.relay.set(relay);
    true
}

fn move_to_relay(
    [from, to]: [c_int; 2],
    registration: &mut Registration,
    place: usize,
    which: usize,
) {
    let mut event = tagged(place, which);
    let moves = |fd, event: &mut epoll_event| {
        let _ = sys::epoll_ctl(from, libc::EPOLL_CTL_DEL, fd, event);
        sys::epoll_ctl(to, libc::EPOLL_CTL_ADD, fd, event)
    };
    let _ = moves(registration.fd, &mut event);
    registration.cold = false;
    if let Some(local) = table::local(place).filter(|_| registration.by_event) {
        event.u64 |= EVENT;
        let _ = moves(local.own_event.descriptor(), &mut event);
    }
}

/// Removes the relay of an instance that follows nothing any more.
pub fn remove_relay(it: &Instance) {
    let Some(_held) = it.lock.lock() else { return };
    let mut none = epoll_event { events: 0, u64: 0 };
    let relay = it.relay.number();
    let taken =
        relay.map(|relay| sys::epoll_ctl(it.descriptor(), libc::EPOLL_CTL_DEL, relay, &mut none));
    if taken == Some(Ok(())) {
        it.end_relay();
        // SAFETY: the lock is held.
        unsafe { &*it.inner.get() }.tagged.remove();
    }
}

impl Instance {
    /// Whether it has a relay.
    pub fn has_relay(&self) -> bool {
        self.relay.number().is_some()
    }

    /// Whether it may follow connections although it is watched. A relay belongs to the process that made it.
    pub fn may_follow(&self) -> bool {
        let order = Ordering::SeqCst;
        !(self.is_exposed.load(order) || self.has_relay() && self.inherited.load(order))
    }

    /// The kernel instance in which accelerated connections are registered.
    pub fn registry(&self) -> c_int {
        self.relay.number().unwrap_or_else(|| self.descriptor())
    }

    /// Registers with the library's data a connection that was the kernel's.
    pub fn take_from_kernel(&self, fd: c_int, mut event: epoll_event) -> Result<(), sys::Errno> {
        if !self.has_relay() {
            return sys::epoll_ctl(self.descriptor(), libc::EPOLL_CTL_MOD, fd, &mut event);
        }
        sys::epoll_ctl(self.descriptor(), libc::EPOLL_CTL_DEL, fd, &mut event)?;
        sys::epoll_ctl(self.registry(), libc::EPOLL_CTL_ADD, fd, &mut event)
    }

    /// Registers with the program's data a connection that had the library's.
    pub fn give_to_kernel(&self, fd: c_int, mut event: epoll_event) {
        let operation = if self.has_relay() {
            let _ = sys::epoll_ctl(self.registry(), libc::EPOLL_CTL_DEL, fd, &mut event);
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_MOD
        };
        let _ = sys::epoll_ctl(self.descriptor(), operation, fd, &mut event);
    }

    /// Whether other instances are registered in it.
    pub fn has_nests(&self) -> bool {
        self.nests.load(Ordering::SeqCst) > 0
    }

    /// Whether a thread sleeps in it or in an instance around it, or is about to.
    pub fn is_slept_in(&self) -> bool {
        let order = Ordering::SeqCst;
        self.waiters.load(order) + self.watchers.load(order) > 0
    }

    /// Closes its relay.
    pub fn end_relay(&self) {
        for own in [&self.relay, &self.shown] {
            if let Some(number) = own.take() {
                table::close_own(number);
            }
        }
    }
}
