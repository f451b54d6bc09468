//! Leaving an instance to the kernel.

use std::sync::atomic::Ordering;

use super::looking::hand_back;
use crate::handover::departure;
use crate::registry::instance::{Instance, instance};
use crate::registry::registrations;
use crate::report::stats::Reason;
use crate::sys;
use crate::table;

/// Leaves an instance to the kernel for good: something watches it that the library does not see, or other
/// processes have it too.
pub fn expose(index: usize) {
    let Some(instance) = instance(index) else { return };
    if instance.is_exposed.swap(true, Ordering::SeqCst) {
        return;
    }
    let _errno = sys::KeepErrno::new();
    for place in table::used() {
        for registration in registrations(place) {
            // SAFETY: numbers are read that another thread may change; one that is registered from
            // now on finds the instance marked.
            let registration = unsafe { *registration };
            if registration.linked && registration.instance == index as u32 + 1 {
                departure::depart(registration.fd, Reason::Epoll);
            }
        }
    }
    hand_back_all(instance);
}

/// Gives everything back that the instance follows and that is the kernel's again.
fn hand_back_all(instance: &Instance) {
    if let Some(_held) = instance.lock.lock() {
        // SAFETY: the lock is held.
        hand_back(instance, unsafe { &mut *instance.inner.get() });
    }
}
