//! What an instance contains beside the connections that it follows, which only the kernel reports.
//! If there is nothing of this kind, a busy instance need not ask the kernel.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, epoll_event};

use super::instance::{self, Instance, instance};
use super::{CONTROL, Registered, passing};
use crate::sys;
use crate::table::{self, Entry, Guard, REGISTRATIONS, Registration};

/// Whether another process may have an instance of this one's, too.
static SHARED: AtomicBool = AtomicBool::new(false);

/// Whether an instance may have got what this process does not know of.
#[inline(always)]
pub fn are_any_shared() -> bool {
    SHARED.load(Ordering::SeqCst)
}

/// From now on other processes may put descriptors into the instances that the kernel then reports.
pub fn may_be_shared() {
    for instance in instance::all() {
        SHARED.store(true, Ordering::SeqCst);
        instance.others.fetch_add(1, Ordering::SeqCst);
        instance.shared.store(true, Ordering::SeqCst);
    }
}

/// Counts a connection that the kernel reports.
pub fn count_other(instance: &Instance, registration: &mut Registration) {
    registration.by_kernel = true;
    instance.unaccelerated.fetch_add(1, Ordering::SeqCst);
}

/// The end of this. While other processes hold the connection too, the kernel may go on with what
/// it has.
pub fn discount_other(instance: &Instance, registration: &mut Registration, guard: &Guard) {
    if std::mem::take(&mut registration.by_kernel) {
        discount(&instance.unaccelerated);
        if guard.connection.holders.load(Ordering::SeqCst) > 1 {
            instance.others.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// One less.
pub fn discount(count: &AtomicU32) {
    let order = Ordering::SeqCst;
    let _ = count.fetch_update(order, order, |count| count.checked_sub(1));
}

/// The kernel's own `epoll_ctl`, on an instance of this library's or not, for descriptors that only
/// the kernel reports.
pub fn control_other(epoll: c_int, operation: c_int, kernel: impl Fn() -> c_int) -> c_int {
    let result = kernel();
    if result == 0
        && let Entry::Epoll(index) = table::entry(epoll)
        && let Some(instance) = instance(index)
    {
        match operation {
            libc::EPOLL_CTL_ADD => drop(instance.others.fetch_add(1, Ordering::SeqCst)),
            libc::EPOLL_CTL_DEL => discount(&instance.others),
            _ => {}
        }
        if operation != libc::EPOLL_CTL_DEL {
            instance.look_aside_next();
        }
    }
    result
}

/// Gives all registrations of a connection to the kernel, which reports for its descriptors from now
/// on, whatever they are connected with.
pub fn release(guard: &Guard) {
    for_each_given_up(guard, |instance, registration, event| {
        if registration.linked {
            instance.give_to_kernel(registration.fd, event);
        }
    });
}

/// Whether the connection is in an instance under this descriptor, or has been until lately.
pub fn is_registered_by_number(guard: &Guard) -> bool {
    let is_kept = guard.local().watched.load(Ordering::Relaxed)
        && super::registered(guard).any(|Registered { registration, .. }| {
            // SAFETY: descriptors are read that another thread may change; the result may be stale.
            unsafe { (*registration).fd == guard.fd }
        });
    is_kept || passing::is_noted(guard.fd)
}

/// Whether the kernel's part of a registration is other processes' as well, that hold the connection and
/// the instance.
pub fn is_anothers(guard: &Guard, instance: &Instance) -> bool {
    let is_shared = guard.connection.holders.load(Ordering::SeqCst) > 1;
    is_shared && instance.inherited.load(Ordering::Relaxed)
}

/// Whether a connection has registrations of other processes.
pub fn has_others_registrations(guard: &Guard) -> bool {
    guard.local().watched.load(Ordering::Relaxed)
        && super::registered(guard).any(|it| is_anothers(guard, it.instance))
}

/// A registration that was taken out of the kernel's instance.
pub struct TakenOut {
    epoll: c_int,
    fd: c_int,
    event: epoll_event,
}

/// As many as a connection may have.
pub type TakenOutAll = [Option<TakenOut>; REGISTRATIONS];

/// Removes all registrations of a connection from the kernel's instances: another connection is
/// about to get its descriptors, for which [`put_in_again`] adds them. Those of other processes
/// stay.
pub fn take_out(guard: &Guard) -> TakenOutAll {
    let mut all = TakenOutAll::default();
    let mut places = all.iter_mut();
    for_each_given_up(guard, |instance, registration, mut event| {
        let (epoll, fd) = (instance.descriptor(), registration.fd);
        if !is_anothers(guard, instance) {
            let from = if registration.linked { instance.registry() } else { epoll };
            let _ = sys::epoll_ctl(from, libc::EPOLL_CTL_DEL, fd, &mut event);
        }
        if let Some(place) = places.next() {
            *place = Some(TakenOut { epoll, fd, event });
        }
    });
    all
}

/// Puts registrations in for what has their descriptors now.
pub fn put_in_again(all: TakenOutAll) {
    let _errno = sys::KeepErrno::new();
    for TakenOut { epoll, fd, mut event } in all.into_iter().flatten() {
        let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event);
    }
}

/// Ends the library's part in all registrations of a connection, and says what the kernel's are to
/// be.
fn for_each_given_up(guard: &Guard, mut act: impl FnMut(&Instance, &Registration, epoll_event)) {
    super::leave(guard);
    let _errno = sys::KeepErrno::new();
    let Some(_control) = CONTROL.lock() else { return };
    for Registered { which, registration, instance } in super::registered(guard) {
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
        super::unlink(inner, guard.place, which);
        let mut event = epoll_event { events: registration.events, u64: registration.data };
        if registration.disabled {
            // Whatever the kernel has to say of one that has fired is not the program's.
            event = super::tagged(guard.place, which);
            event.events = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;
        }
        act(instance, registration, event);
        let had_tag = registration.linked;
        // The kernel goes on with it, unknown here.
        if registration.linked || registration.by_kernel {
            instance.others.fetch_add(1, Ordering::SeqCst);
        }
        if registration.by_kernel {
            discount(&instance.unaccelerated);
        }
        mark_watched(registration.fd, true);
        let index = std::mem::take(registration).instance;
        super::unwatch_event(instance, inner, index, guard, had_tag);
    }
}

/// Which descriptors were put into an instance before they stood for a connection.
static WATCHED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether a socket was added to an instance before it was connected: the library does not know of
/// that registration.
pub fn is_watched(fd: c_int) -> bool {
    let word = WATCHED.get(fd as u32 as usize / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 != 0)
}

/// Remembers that, or forgets it when the descriptor is assigned again.
pub fn mark_watched(fd: c_int, watched: bool) {
    let Some(word) = WATCHED.get(fd as u32 as usize / 64) else { return };
    let bit = 1u64 << (fd % 64);
    if watched {
        word.fetch_or(bit, Ordering::Relaxed);
    } else if word.load(Ordering::Relaxed) & bit != 0 {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}
