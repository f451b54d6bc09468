//! `epoll` over joined connections.
//!
//! A followed connection stays registered in the kernel's instance, edge-triggered and for
//! doorbells only, under a datum of the library's own; what the program asked for is kept here. A
//! wait looks at all followed connections, then polls as the policy says, then arms their flags and
//! sleeps in the kernel. So a busy instance enters the kernel for its other descriptors alone.

mod asking;
mod edges;
mod instance;
mod links;
mod looking;
mod nesting;
mod once;
mod order;
mod others;
mod parked;
mod passing;
mod relay;
mod waiting;

pub use instance::{duplicated, forget, forget_all, move_instance, start_in_child, track};
pub use nesting::{Below, is_readable, watch};
pub use others::{
    TakenOutAll, expose, has_others_registrations, is_registered_by_number, is_watched,
    mark_watched, may_be_shared, put_in_again, release, take_out,
};
pub use parked::leave;
pub use passing::{
    control as control_passed_by, forget_number, is_kernels, let_pass, way as way_of_control,
};
pub use waiting::{holds_events, wait, wait_alone, wait_in_kernel, way as way_of_wait};

use std::sync::atomic::{Ordering, fence};

use libc::{c_int, epoll_event};

use instance::{Instance, instance};
use links::Inner;
use others::{control_other, count_other, discount_other};
use parked::{is_parked, make_room, put_back, unpark};

use crate::joining::attach;
use crate::leaving::departure;
use crate::leaving::pump;
use crate::migration::turn;
use crate::peer::doorbell;
use crate::report::stats::Reason;
use crate::sharing::process_lock::ProcessLock;
use crate::sys;
use crate::table::attaching;
use crate::table::{self, Entry, Guard, REGISTRATIONS, Registration, Reported, phase};

/// An instance follows so many registrations at most.
const FOLLOWED: usize = 8192;
/// With more than this many, further connections stay with the kernel.
const FULL: usize = 8000;
/// The upper half of the datum under which a followed connection is registered.
const TAG: u64 = 0xf3e7_1a5b << 32;

/// Set in the datum under which the connection's event is registered: it needs no answer.
const EVENT: u64 = 1 << 31;

/// Guards which registrations are free.
static CONTROL: ProcessLock = ProcessLock::new();

/// The registrations of a place, each to be touched with its instance's lock held.
fn registrations(place: usize) -> impl Iterator<Item = *mut Registration> {
    let first = table::local(place).map(|local| local.registrations.get().cast::<Registration>());
    (0..REGISTRATIONS).filter_map(move |index| {
        // SAFETY: the array has this many.
        first.map(|first| unsafe { first.add(index) })
    })
}

/// The registrations of a connection that are in use, each with its number and its instance. With the
/// control lock held neither changes; without it the answer may be old.
fn registered(
    guard: &Guard,
) -> impl Iterator<Item = (usize, *mut Registration, &'static Instance)> {
    registrations(guard.place).enumerate().filter_map(|(which, registration)| {
        // SAFETY: a number is read that another thread may change.
        let index = unsafe { (*registration).instance } as usize;
        Some((which, registration, index.checked_sub(1).and_then(instance)?))
    })
}

/// Whether all instances that the connection is in can follow it, which nobody calls on meanwhile.
pub fn can_follow(guard: &Guard) -> bool {
    if let Some(_control) = CONTROL.lock() {
        passing::gather(guard, guard.connection.first_fd.load(Ordering::Relaxed));
    }
    registered(guard).all(|(_, registration, it)| {
        // SAFETY: numbers are read that another thread may change; the answer may be old.
        let (count, known, events) = unsafe {
            let known = once::has_fired(it.descriptor(), &*registration);
            ((*it.inner.get()).count, known.is_some(), (*registration).events)
        };
        let exclusive = events & libc::EPOLLEXCLUSIVE as u32 != 0;
        it.may_follow() && count < FULL && known && !exclusive
    })
}

/// Whether a connection has one registration only.
fn is_followed_once(place: usize) -> bool {
    let used = registrations(place).filter(|registration| {
        // SAFETY: with the control lock held the instances cannot change.
        unsafe { (**registration).instance != 0 && !(**registration).parked }
    });
    used.count() == 1
}

/// The number by which an instance knows a registration of a connection.
const fn link_of(place: usize, which: usize) -> u32 {
    (place * REGISTRATIONS + which) as u32
}

/// The place of the connection behind a link, and which of its registrations it is.
const fn link_place(link: u32) -> (usize, usize) {
    (link as usize / REGISTRATIONS, link as usize % REGISTRATIONS)
}

fn tagged(place: usize, which: usize) -> epoll_event {
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    epoll_event { events, u64: TAG | u64::from(link_of(place, which)) }
}

/// Whether an event is of what is registered under a datum of the library's.
const fn is_tagged(event: &epoll_event) -> bool {
    event.u64 & !0xffff_ffff == TAG
}

/// Follows a connection that has just joined wherever it is registered.
pub fn follow(guard: &Guard) {
    let Some(_control) = CONTROL.lock() else { return };
    passing::gather(guard, guard.connection.first_fd.load(Ordering::Relaxed));
    for (which, registration, instance) in registered(guard) {
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
            // Who fell asleep before has armed no flag, and others may answer a doorbell first.
            rouse(instance, registration, guard.place, which);
        } else {
            discount_other(instance, registration, guard);
            *registration = Registration::default();
        }
    }
}

/// Lets the instance wait for the connection's event too, under the first registration there.
fn watch_event(instance: &Instance, registration: &mut Registration, guard: &Guard, which: usize) {
    let mut event = tagged(guard.place, which);
    event.u64 |= EVENT;
    let epoll = instance.registry();
    let own = guard.local().own_event.descriptor();
    let added = sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, own, &mut event);
    registration.by_event = matches!(added, Ok(()) | Err(libc::EEXIST));
}

/// The end of this, once no registration of the connection is left in the instance, and of one that `had_tag`.
/// While others hold a connection that is carried, the event stays: the kernel's instance may be theirs as well.
fn unwatch_event(instance: &Instance, inner: &Inner, index: u32, guard: &Guard, had_tag: bool) {
    let more = registrations(guard.place).any(|it| {
        // SAFETY: with the control lock held the instances cannot change.
        unsafe { (*it).instance == index }
    });
    let connection = guard.connection;
    let needed = connection.holders.load(Ordering::SeqCst) > 1 && !turn::is_back(connection);
    let own = guard.local().own_event.number().filter(|_| !more && !needed);
    if let Some(own) = own {
        let epoll = instance.registry();
        let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, own, &mut tagged(guard.place, 0));
    }
    if had_tag && (more || own.is_some()) {
        inner.tagged.remove();
    }
}

/// Remembers another number of a connection's event in the place of one, also in the instances that wait for
/// it; whether it is that.
pub fn move_event(place: usize, number: c_int, other: c_int) -> bool {
    let Some(local) = table::local(place).filter(|it| it.own_event.number() == Some(number)) else {
        return false;
    };
    let _control = CONTROL.lock();
    let Some(guard) = table::borrowed(place, -1) else { return false };
    if !local.own_event.replace(number, other) {
        return false;
    }
    for (which, registration, instance) in registered(&guard) {
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

fn link(inner: &mut Inner, registration: &mut Registration, guard: &Guard, which: usize) {
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

fn unlink(inner: &mut Inner, place: usize, which: usize) {
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

/// To be called when a sender that does not wait has filled its way: a thread that has fallen asleep in an
/// instance before has armed no flag for room, since there was some, and lets nobody look for a stall.
#[cold]
pub fn full(guard: &Guard) {
    warm(guard);
    // Either it is seen here that somebody sleeps, or he sees that there is no room.
    fence(Ordering::SeqCst);
    rouse_all(guard, |it| !it.disabled && it.events & edges::SPACE as u32 != 0);
}

/// Whether an instance cannot follow a connection that is joined already.
fn cannot_follow(guard: &Guard, instance: &Instance, event: *const epoll_event) -> bool {
    let full = registrations(guard.place).all(|it| {
        // SAFETY: a number is read that another thread may change; the answer may be old.
        unsafe { (*it).instance != 0 && !(*it).parked }
    });
    // SAFETY: the program says that the event is valid, where there is one.
    let events = unsafe { event.as_ref() }.map_or(0, |event| event.events);
    // SAFETY: as above.
    let count = unsafe { (*instance.inner.get()).count };
    full || events & libc::EPOLLEXCLUSIVE as u32 != 0 || !instance.may_follow() || count >= FULL
}

/// Forgets all registrations of a connection that has lost its last descriptor.
pub fn unfollow(guard: &Guard) {
    // Whoever is inside came in before the number was forgotten, and may be putting it in.
    let in_none = || {
        let watched = guard.local().watched.load(Ordering::Relaxed);
        !watched || registered(guard).next().is_none()
    };
    if !guard.has_others() && in_none() {
        return;
    }
    let Some(_control) = CONTROL.lock() else { return };
    for (which, registration, instance) in registered(guard) {
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

/// `epoll_ctl` on something that the library knows, that is not the kernel's for good, and of which no calls pass by
/// ([`control_passed_by`]); `kernel` is the program's call.
pub fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
    kernel: impl Fn() -> c_int + Copy,
) -> c_int {
    if operation == libc::EPOLL_CTL_ADD && matches!(table::entry(epoll), Entry::Epoll(_)) {
        // What it was put in for before it is connected counts from then on.
        table::track_early(fd);
    }
    let index = match (table::entry(epoll), table::entry(fd)) {
        (Entry::Epoll(index), Entry::Connection(_) | Entry::Unplaced) => index,
        (outer, Entry::Epoll(inner)) => {
            return nesting::control((epoll, outer), operation, (fd, inner), event, kernel);
        }
        // In an instance that the library does not know it may stay.
        (_, Entry::Connection(_) | Entry::Unplaced) if table::is_plain(fd) => return kernel(),
        (_, Entry::Connection(_) | Entry::Unplaced) => {
            departure::depart(fd, Reason::Epoll);
            return kernel();
        }
        _ => {
            pump::await_replacement();
            let result = control_other(epoll, operation, kernel);
            if result == 0 && operation == libc::EPOLL_CTL_ADD {
                mark_watched(fd, true);
            }
            return result;
        }
    };
    let (Some(guard), Some(instance)) = (table::enter(fd), instance(index)) else {
        pump::await_replacement();
        return control_other(epoll, operation, kernel);
    };
    if operation == libc::EPOLL_CTL_ADD
        && guard.connection.phase() == phase::JOINED
        && cannot_follow(&guard, instance, event)
    {
        departure::depart_connection(&guard, Reason::Epoll);
        if !guard.is_current() {
            // Another connection of the kernel has been put in the place of this one.
            drop(guard);
            return control(epoll, operation, fd, event, kernel);
        }
    }
    // What came before this call is an edge under the old event mask.
    nesting::show(instance, false);
    // One that is not joined may have to stay with the kernel.
    let joined = guard.connection.phase() == phase::JOINED;
    let attaching = (!joined).then(|| attaching::ATTACHING.lock());
    let (Some(controlling), Some(held)) = (CONTROL.lock(), instance.lock.lock()) else {
        return control_other(epoll, operation, kernel);
    };
    // Whoever closes the number forgets it first, and takes the connection out of all instances with
    // these locks: what would be put in after that would stay.
    if !guard.is_current() {
        drop((held, controlling, attaching, guard));
        return control(epoll, operation, fd, event, kernel);
    }
    passing::gather(&guard, fd);
    // SAFETY: the program says that the event is valid, where the operation has one.
    let event = if operation == libc::EPOLL_CTL_DEL { None } else { unsafe { event.as_ref() } };
    let result = match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => add(&guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_MOD, Some(event)) if event.events & libc::EPOLLEXCLUSIVE as u32 != 0 => {
            crate::stream::fail(libc::EINVAL) as c_int
        }
        (libc::EPOLL_CTL_MOD, Some(event)) => modify(&guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_DEL, _) => remove(&guard, instance, index, kernel),
        _ => kernel(),
    };
    if !joined && fd == guard.connection.first_fd.load(Ordering::Relaxed) {
        passing::note_again(&guard);
    }
    drop((held, controlling, attaching));
    nesting::show(instance, false);
    result
}

fn add(
    guard: &Guard,
    instance: &Instance,
    index: usize,
    event: epoll_event,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let joined = guard.connection.phase() == phase::JOINED;
    match find(guard, index) {
        Some((which, registration)) if joined && is_parked(registration) => {
            put_back(guard, instance, which, registration, event);
            return 0;
        }
        Some((which, _)) => unpark(guard, instance, which),
        None => {}
    }
    make_room(guard);
    // SAFETY: the control lock is held, which guards what is free.
    let free = registrations(guard.place).position(|it| unsafe { (*it).instance } == 0);
    let exclusive = event.events & libc::EPOLLEXCLUSIVE as u32 != 0;
    let Some(which) = free.filter(|_| joined || !exclusive) else {
        attach::give_up_held(guard.connection, Reason::Epoll);
        return control_other(instance.descriptor(), libc::EPOLL_CTL_ADD, kernel);
    };
    let result = if joined {
        let epoll = instance.registry();
        let mut event = tagged(guard.place, which);
        match sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, guard.fd, &mut event) {
            Ok(()) => 0,
            Err(why) => crate::stream::fail(why) as c_int,
        }
    } else {
        kernel()
    };
    let Some(registration) = registrations(guard.place).nth(which).filter(|_| result == 0) else {
        return result;
    };
    // SAFETY: the instance's lock is held.
    let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
    guard.local().watched.store(true, Ordering::Relaxed);
    *registration = Registration {
        instance: index as u32 + 1,
        fd: guard.fd,
        events: event.events,
        data: event.u64,
        ..Registration::default()
    };
    if joined && inner.count < FOLLOWED {
        link(inner, registration, guard, which);
        watch_event(instance, registration, guard, which);
        rouse(instance, registration, guard.place, which);
    } else {
        count_other(instance, registration);
        waiting::look_aside_next(instance);
    }
    0
}

/// The registration of this descriptor in this instance.
fn find(guard: &Guard, index: usize) -> Option<(usize, *mut Registration)> {
    registrations(guard.place).enumerate().find(|(_, it)| {
        // SAFETY: the control lock is held.
        let it = unsafe { &**it };
        it.instance == index as u32 + 1 && it.fd == guard.fd
    })
}

fn modify(
    guard: &Guard,
    instance: &Instance,
    index: usize,
    event: epoll_event,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let Some((which, registration)) = find(guard, index) else { return kernel() };
    if is_parked(registration) {
        return crate::stream::fail(libc::ENOENT) as c_int;
    }
    // SAFETY: the instance's lock is held.
    let registration = unsafe { &mut *registration };
    if !registration.linked {
        let result = kernel();
        if result != 0 {
            return result;
        }
        waiting::look_aside_next(instance);
    }
    let segment = guard.connection.segment().filter(|_| registration.linked);
    let had_none = segment.filter(|it| edges::news(registration, guard, it).is_none());
    registration.events = event.events;
    registration.data = event.u64;
    registration.disabled = false;
    registration.reported = Reported::default();
    registration.anew |= had_none.is_some();
    if registration.linked {
        // SAFETY: the instance's lock is held.
        let inner = unsafe { &mut *instance.inner.get() };
        if let Some(at) = inner.position(link_of(guard.place, which)) {
            if let Some(segment) = had_none {
                // What the program did not ask for so far has its place in the order from now on.
                let way = segment.way(guard.connection.role().peer());
                inner.watches[at].begin(way.pointers.arrivals());
            }
            inner.make_warm(at);
            registration.cold = false;
        }
        rouse(instance, registration, guard.place, which);
    }
    0
}

fn remove(guard: &Guard, instance: &Instance, index: usize, kernel: impl Fn() -> c_int) -> c_int {
    let Some((which, registration)) = find(guard, index) else {
        return control_other(instance.descriptor(), libc::EPOLL_CTL_DEL, kernel);
    };
    // SAFETY: the instance's lock is held.
    let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
    if registration.parked {
        return crate::stream::fail(libc::ENOENT) as c_int;
    }
    if registration.linked && guard.connection.holders.load(Ordering::SeqCst) == 1 {
        unlink(inner, guard.place, which);
        (registration.linked, registration.cold, registration.parked) = (false, false, true);
        return 0;
    }
    let result = if registration.linked { delete_from_relay(instance, guard) } else { kernel() };
    if result == 0 {
        unlink(inner, guard.place, which);
        discount_other(instance, registration, guard);
        let had_tag = std::mem::take(registration).linked;
        unwatch_event(instance, inner, index as u32 + 1, guard, had_tag);
    }
    result
}

/// Deletes the registration of a carried connection from the kernel instance that has it.
fn delete_from_relay(instance: &Instance, guard: &Guard) -> c_int {
    let mut none = epoll_event { events: 0, u64: 0 };
    match sys::epoll_ctl(instance.registry(), libc::EPOLL_CTL_DEL, guard.fd, &mut none) {
        Ok(()) => 0,
        Err(why) => crate::stream::fail(why) as c_int,
    }
}

/// Lets a thread that sleeps in the instance, or in one around it, look again. The kernel reports a socket that can be
/// written at once when it is asked whether it can, and a followed one always can.
fn rouse(instance: &Instance, registration: &Registration, place: usize, which: usize) {
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
fn rouse_all(guard: &Guard, is_meant: impl Fn(&Registration) -> bool) {
    let sleeps = registered(guard).any(|(_, registration, instance)| {
        // SAFETY: numbers are read that another thread may change; a signal too many does no harm.
        let registration = unsafe { *registration };
        registration.linked && is_meant(&registration) && instance.is_slept_in()
    });
    if sleeps {
        doorbell::signal(&guard.local().own_event);
    }
}
