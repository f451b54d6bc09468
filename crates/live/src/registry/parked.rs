//! Registrations that the program has taken out and that stay in the kernel's instance: most programs put them in
//! again soon.

use libc::epoll_event;

use super::instance::Instance;
use super::{CONTROL, Registered, link, registered, registrations, rouse, tagged, unwatch_event};
use crate::sys;
use crate::table::{Guard, Registration};

/// Whether the program has taken a registration out.
pub fn is_parked(registration: *mut Registration) -> bool {
    // SAFETY: the instance's lock is held, or the control lock, without which none is parked.
    unsafe { (*registration).parked }
}

/// Puts a parked registration to use again: the kernel's instance still has it.
pub fn put_back(
    guard: &Guard,
    instance: &Instance,
    which: usize,
    registration: *mut Registration,
    event: epoll_event,
) {
    // SAFETY: the instance's lock is held.
    let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
    (registration.events, registration.data) = (event.events, event.u64);
    registration.disabled = false;
    link(inner, registration, guard, which);
    rouse(instance, registration, guard.place, which);
}

/// Tells the kernel's instance that a parked registration was taken out. Does nothing to another.
pub fn unpark(guard: &Guard, instance: &Instance, which: usize) {
    let Some(registration) = registrations(guard.place).nth(which) else { return };
    // SAFETY: the instance's lock is held.
    let registration = unsafe { &mut *registration };
    if !registration.parked {
        return;
    }
    let _errno = sys::KeepErrno::new();
    let epoll = instance.registry();
    let mut event = tagged(guard.place, which);
    let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, registration.fd, &mut event);
    let index = std::mem::take(registration).instance;
    // SAFETY: as above.
    unwatch_event(instance, unsafe { &*instance.inner.get() }, index, guard, true);
}

/// Frees the parked registrations of a connection, if no other place is free. The control lock is
/// held, and perhaps one instance's.
pub fn make_room(guard: &Guard) {
    // SAFETY: the control lock is held, which guards what is free.
    if registrations(guard.place).all(|it| unsafe { (*it).instance } != 0) {
        unpark_all(guard);
    }
}

fn unpark_all(guard: &Guard) {
    for Registered { which, instance, .. } in registered(guard) {
        // Without it, this thread has it already.
        let _held = instance.lock.lock();
        unpark(guard, instance, which);
    }
}

/// Takes what the program has taken out of the kernel's instances too: the connection goes where
/// the library does not see it, or this descriptor is closed.
pub fn leave(guard: &Guard) {
    if let Some(_control) = CONTROL.lock() {
        unpark_all(guard);
    }
}
