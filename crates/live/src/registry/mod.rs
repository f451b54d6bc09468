//! Which connections are registered in which `epoll` instances of this process, as the program has made them.
//!
//! A followed connection stays registered in the kernel's instance, edge-triggered and for
//! doorbells only, under a datum of the library's own; what the program asked for is kept here.

pub mod instance;
pub mod links;
pub mod nests;
pub mod once;
pub mod others;
pub mod parked;
pub mod passing;
pub mod relay;

pub use instance::{duplicated, forget, forget_all, move_instance, start_in_child, track};
pub use others::{
    TakenOutAll, has_others_registrations, is_registered_by_number, is_watched, mark_watched,
    may_be_shared, put_in_again, release, take_out,
};
pub use parked::leave;
pub use passing::{
    control as control_passed_by, control_alone, forget_number, is_kernels, let_pass,
    way as way_of_control,
};

use std::sync::atomic::{Ordering, fence};

use libc::{c_int, epoll_event};

use crate::peer::doorbell;
use crate::sharing::process_lock::ProcessLock;
use crate::sys;
use crate::table::{self, Guard, REGISTRATIONS, Registration, Reported};
use instance::{Instance, instance};
use links::Inner;
use others::discount_other;

/// By which events the kernel wakes when there is room again.
pub const SPACE: c_int = libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND;

/// The most registrations that an instance follows.
pub const FOLLOWED: usize = 8192;

/// With more than this many, further connections stay with the kernel.
pub const FULL: usize = 8000;

/// The upper half of the datum under which a followed connection is registered.
pub const TAG: u64 = 0xf3e7_1a5b << 32;

/// Set in the datum under which the connection's event is registered: it needs no response.
pub const EVENT: u64 = 1 << 31;

/// Guards which registrations are free.
pub static CONTROL: ProcessLock = ProcessLock::new();

/// The registrations of a place, each to be touched with its instance's lock held.
pub fn registrations(place: usize) -> impl Iterator<Item = *mut Registration> {
    let first = table::local(place).map(|local| local.registrations.get().cast::<Registration>());
    (0..REGISTRATIONS).filter_map(move |index| {
        // SAFETY: the array has this many.
        first.map(|first| unsafe { first.add(index) })
    })
}

/// A registration of a connection that is in use.
pub struct Registered {
    /// Which of the connection's it is.
    pub which: usize,
    /// To be touched with the instance's lock held.
    pub registration: *mut Registration,
    pub instance: &'static Instance,
}

/// The registrations of a connection that are in use. With the
/// control lock held neither changes; without it the result may be stale.
pub fn registered(guard: &Guard) -> impl Iterator<Item = Registered> {
    registrations(guard.place).enumerate().filter_map(|(which, registration)| {
        // SAFETY: a number is read that another thread may change.
        let index = unsafe { (*registration).instance } as usize;
        let instance = index.checked_sub(1).and_then(instance)?;
        Some(Registered { which, registration, instance })
    })
}

/// Whether all instances that contain the connection can follow it, while no thread makes a call on
/// it.
pub fn can_follow(guard: &Guard) -> bool {
    if let Some(_control) = CONTROL.lock() {
        passing::gather(guard, guard.connection.first_fd.load(Ordering::Relaxed));
    }
    registered(guard).all(|Registered { registration, instance: it, .. }| {
        // SAFETY: numbers are read that another thread may change; the result may be stale.
        let (count, known, events) = unsafe {
            let known = once::has_fired(it.descriptor(), &*registration);
            ((*it.inner.get()).count, known.is_some(), (*registration).events)
        };
        let exclusive = events & libc::EPOLLEXCLUSIVE as u32 != 0;
        it.may_follow() && count < FULL && known && !exclusive
    })
}

/// Whether a connection has one registration only.
pub fn is_followed_once(place: usize) -> bool {
    let used = registrations(place).filter(|registration| {
        // SAFETY: with the control lock held the instances cannot change.
        unsafe { (**registration).instance != 0 && !(**registration).parked }
    });
    used.count() == 1
}

/// The number by which an instance knows a registration of a connection.
pub const fn link_of(place: usize, which: usize) -> u32 {
    (place * REGISTRATIONS + which) as u32
}

/// A registration of a connection, as the number says by which an instance knows it.
pub struct Link {
    /// The place of the connection.
    pub place: usize,
    /// Which of its registrations it is.
    pub which: usize,
}

impl Link {
    /// The registration that an instance knows by a number.
    pub const fn of(number: u32) -> Self {
        let number = number as usize;
        Self { place: number / REGISTRATIONS, which: number % REGISTRATIONS }
    }
}

/// What the kernel is asked for a registration of a followed connection, under the library's datum.
pub fn tagged(place: usize, which: usize) -> epoll_event {
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    epoll_event { events, u64: TAG | u64::from(link_of(place, which)) }
}

/// Whether an event is of what is registered under a datum of the library's.
pub const fn is_tagged(event: &epoll_event) -> bool {
    event.u64 & !0xffff_ffff == TAG
}

/// Follows a connection that has just joined wherever it is registered.
pub fn follow(guard: &Guard) {
    let Some(_control) = CONTROL.lock() else { return };
    passing::gather(guard, guard.connection.first_fd.load(Ordering::Relaxed));
    for Registered { which, registration, instance } in registered(guard) {
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
        if registration.linked || inner.count == FOLLOWED {
            continue;
        }
        let event = tagged(guard.place, which);
        let fired = once::has_fired(instance.descriptor(), registration);
        if instance.take_from_kernel(registration.fd, event).is_ok() {
            registration.disabled = fired == Some(true);
            instance.taken_over.fetch_add(1, Ordering::SeqCst);
            link(inner, registration, guard, which);
            watch_event(instance, registration, guard, which);
            discount_other(instance, registration, guard);
            // A thread that fell asleep before has armed no flag, and others may answer a doorbell
            // first.
            rouse(instance, registration, guard.place, which);
        } else {
            discount_other(instance, registration, guard);
            *registration = Registration::default();
        }
    }
}

/// Lets the instance wait for the connection's event too, under the first registration there.
pub fn watch_event(
    instance: &Instance,
    registration: &mut Registration,
    guard: &Guard,
    which: usize,
) {
    let mut event = tagged(guard.place, which);
    event.u64 |= EVENT;
    let epoll = instance.registry();
    let own = guard.local().own_event.descriptor();
    let added = sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, own, &mut event);
    registration.by_event = matches!(added, Ok(()) | Err(libc::EEXIST));
}

/// The end of this, once no registration of the connection is left in the instance, and of one that `had_tag`.
/// While others hold a connection that is accelerated, the event stays: the kernel's instance may be theirs as well.
pub fn unwatch_event(instance: &Instance, inner: &Inner, index: u32, guard: &Guard, had_tag: bool) {
    let more = registrations(guard.place).any(|it| {
        // SAFETY: with the control lock held the instances cannot change.
        unsafe { (*it).instance == index }
    });
    let connection = guard.connection;
    let needed = connection.holders.load(Ordering::SeqCst) > 1 && !connection.is_back();
    let own = guard.local().own_event.number().filter(|_| !more && !needed);
    if let Some(own) = own {
        let epoll = instance.registry();
        let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, own, &mut tagged(guard.place, 0));
    }
    if had_tag && (more || own.is_some()) {
        inner.tagged.remove();
    }
}

/// Replaces the number of a connection's event, also in the instances that wait for it. False if it
/// is another number.
pub fn move_event(place: usize, number: c_int, other: c_int) -> bool {
    let Some(local) = table::local(place).filter(|it| it.own_event.number() == Some(number)) else {
        return false;
    };
    let _control = CONTROL.lock();
    let Some(guard) = table::borrowed(place, -1) else { return false };
    if !local.own_event.replace(number, other) {
        return false;
    }
    for Registered { which, registration, instance } in registered(&guard) {
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        let registration = unsafe { &mut *registration };
        if registration.by_event {
            if !others::is_anothers(&guard, instance) {
                let mut event = tagged(place, which);
                let epoll = instance.registry();
                let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, number, &mut event);
            }
            if registration.linked || registration.parked {
                watch_event(instance, registration, &guard, which);
            }
        }
    }
    true
}

/// Lets an instance follow a connection by one of its registrations. The instance's lock is held.
pub fn link(inner: &mut Inner, registration: &mut Registration, guard: &Guard, which: usize) {
    let Some(segment) = guard.connection.segment() else { return };
    let role = guard.connection.role();
    let pointers = &segment.way(role.peer()).pointers;
    segment.side(role).sorts.store(true, Ordering::Release);
    inner.push(link_of(guard.place, which), pointers.written_word(), pointers.arrivals());
    if !registration.parked {
        inner.tagged.add();
    }
    (registration.linked, registration.parked, registration.cold) = (true, false, false);
    (registration.asks_room, registration.listens, registration.anew) = (false, false, true);
    registration.reported = Reported::default();
    let changes = guard.connection.changes.load(Ordering::Acquire);
    registration.shown = Reported { changes, ..Reported::default() };
}

/// The end of [`link`]. The instance's lock is held.
pub fn unlink(inner: &mut Inner, place: usize, which: usize) {
    if let Some(at) = inner.position(link_of(place, which)) {
        inner.remove(at);
    }
}

/// Lets the instances that follow a connection look at it in their next waits, since something has
/// happened to it that no stimulus says.
pub fn warm(guard: &Guard) {
    let cold = registrations(guard.place).any(|it| {
        // SAFETY: a flag is read that another thread may change; a signal too many does no harm.
        unsafe { (*it).cold }
    });
    if cold {
        doorbell::signal(&guard.local().own_event);
    }
}

/// To be called when a non-blocking sender has filled its ring: a thread that fell asleep in an
/// instance earlier has armed no flag for room, since there was some, and does not watch for a
/// stall.
#[cold]
pub fn full(guard: &Guard) {
    warm(guard);
    // Either this thread sees that another sleeps, or the other sees that there is no room.
    fence(Ordering::SeqCst);
    rouse_all(guard, |it| !it.disabled && it.events & SPACE as u32 != 0);
}

/// Forgets all registrations of a connection that has lost its last descriptor.
pub fn unfollow(guard: &Guard) {
    // A thread that is inside entered before the number was forgotten, and may be adding it to an
    // instance.
    let in_none = || {
        let watched = guard.local().watched.load(Ordering::Relaxed);
        !watched || registered(guard).next().is_none()
    };
    if !guard.has_others() && in_none() {
        return;
    }
    let Some(_control) = CONTROL.lock() else { return };
    for Registered { which, registration, instance } in registered(guard) {
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
        unlink(inner, guard.place, which);
        discount_other(instance, registration, guard);
        let before = std::mem::take(registration);
        let had_tag = before.linked || before.parked;
        unwatch_event(instance, inner, before.instance, guard, had_tag);
    }
}

/// Lets a thread that sleeps in the instance, or in one around it, look again. The kernel reports a socket that can be
/// written immediately when it is asked whether it can, and a followed one always can.
pub fn rouse(instance: &Instance, registration: &Registration, place: usize, which: usize) {
    if instance.is_slept_in() {
        let _errno = sys::KeepErrno::new();
        let mut event = tagged(place, which);
        event.events |= libc::EPOLLOUT as u32;
        let epoll = instance.registry();
        let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, registration.fd, &mut event);
    }
}

/// Lets all instances that follow the connection look again: somebody took its doorbells away.
pub fn kick(guard: &Guard) {
    rouse_all(guard, |_| true);
}

/// Lets those instances look again that follow the connection by a registration of a kind, by its event: another
/// thread may just be handing the descriptor back to the kernel, whose datum is the program's from then on.
pub fn rouse_all(guard: &Guard, is_meant: impl Fn(&Registration) -> bool) {
    let sleeps = registered(guard).any(|Registered { registration, instance, .. }| {
        // SAFETY: numbers are read that another thread may change; a signal too many does no harm.
        let registration = unsafe { *registration };
        registration.linked && is_meant(&registration) && instance.is_slept_in()
    });
    if sleeps {
        doorbell::signal(&guard.local().own_event);
    }
}
