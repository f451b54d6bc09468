//! Instances that are registered in others.

use std::sync::atomic::Ordering;

use libc::c_int;

use super::instance::{Instance, all};
use crate::table::own_number::OwnNumber;

/// The most inner instances through which an outer one follows connections.
pub const NESTS: usize = 16;

/// A registration of one instance in another, which is the kernel's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nest {
    /// The inner instance's index plus one; zero is free.
    pub instance: u32,
    pub fd: c_int,
    pub event: Registered,
    /// The count of changes shown by the inner instance when the outer one last reported it.
    pub told: u32,
}

/// The `epoll_event` that the program registered it with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registered {
    pub events: u32,
    pub data: u64,
}

/// The registrations of others in an instance.
pub fn nests(it: &Instance) -> [Nest; NESTS] {
    let held = if it.has_nests() { it.lock.lock() } else { None };
    // SAFETY: the lock is held.
    held.map_or([Nest::default(); NESTS], |_held| unsafe { (*it.inner.get()).nests })
}

/// Forgets one of them. The lock is held.
pub fn forget_nest(outer: &Instance, at: usize) {
    // SAFETY: by the contract of this function.
    let inner = unsafe { &mut *outer.inner.get() };
    inner.nests[at] = Nest::default();
    inner.tagged.remove();
    outer.nests.fetch_sub(1, Ordering::SeqCst);
}

/// Removes an instance from the records of all others, since its last descriptor was closed.
pub fn forget(index: usize) {
    for outer in all().filter(|it| it.has_nests()) {
        let Some(_held) = outer.lock.lock() else { continue };
        for at in 0..NESTS {
            // SAFETY: the lock is held.
            if unsafe { &*outer.inner.get() }.nests[at].instance == index as u32 + 1 {
                forget_nest(outer, at);
            }
        }
    }
}

/// Records that the descriptor of a relay has been replaced by another. Returns whether `number`
/// was one of a relay.
pub fn renumber_relay(number: c_int, other: c_int) -> bool {
    let mut all = all().flat_map(|it| [&it.relay, &it.shown]);
    all.any(|own: &OwnNumber| own.replace(number, other))
}
