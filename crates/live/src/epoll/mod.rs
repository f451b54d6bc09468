//! `epoll` over joined connections.
//!
//! A followed connection stays registered in the kernel's instance, edge-triggered and for
//! doorbells only, under data of the library's own; what the program asked for is kept in
//! [`crate::registry`]. A wait examines all followed connections, then polls as the policy allows,
//! then arms their flags and sleeps in the kernel. So a busy instance enters the kernel only for
//! its other descriptors.

mod asking;
mod edges;
mod exposing;
mod looking;
mod nesting;
mod order;
mod waiting;

pub use exposing::expose;
pub use nesting::{Below, is_readable, watch};
pub use waiting::{holds_events, wait, wait_alone, wait_in_kernel, way as way_of_wait};

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event};

use crate::handover::departure;
use crate::handover::pump;
use crate::joining::attach;
use crate::registry::instance::{Instance, instance};
use crate::registry::others::{control_other, count_other, discount_other};
use crate::registry::parked::{is_parked, make_room, put_back, unpark};
use crate::registry::{
    CONTROL, FOLLOWED, FULL, link, link_of, mark_watched, passing, registrations, rouse, tagged,
    unlink, unwatch_event, watch_event,
};
use crate::report::stats::Reason;
use crate::sys;
use crate::table::attaching;
use crate::table::{self, Entry, Guard, Phase, Registration, Reported};
use crate::tracking;

/// Whether an instance cannot follow a connection that is joined already.
fn cannot_follow(guard: &Guard, instance: &Instance, event: *const epoll_event) -> bool {
    let full = registrations(guard.place).all(|it| {
        // SAFETY: a number is read that another thread may change; the result may be stale.
        unsafe { (*it).instance != 0 && !(*it).parked }
    });
    // SAFETY: the program says that the event is valid, where there is one.
    let events = unsafe { event.as_ref() }.map_or(0, |event| event.events);
    // SAFETY: as above.
    let count = unsafe { (*instance.inner.get()).count };
    full || events & libc::EPOLLEXCLUSIVE as u32 != 0 || !instance.may_follow() || count >= FULL
}

/// `epoll_ctl` on a descriptor that the library knows, unless it stays with the kernel for good or its calls bypass
/// the library for now ([`crate::registry::control_passed_by`]); `kernel` is the program's call.
pub fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
    kernel: impl Fn() -> c_int + Copy,
) -> c_int {
    if operation == libc::EPOLL_CTL_ADD && matches!(table::entry(epoll), Entry::Epoll(_)) {
        // Registrations made before it is connected count from then on.
        tracking::track_early(fd);
    }
    match (table::entry(epoll), table::entry(fd)) {
        (Entry::Epoll(index), Entry::Connection(_) | Entry::Unplaced) => {
            control_connection((epoll, index), operation, fd, event, kernel)
        }
        (outer, Entry::Epoll(inner)) => {
            let nested = nesting::Control { epoll, outer, operation, fd, inner, event };
            nesting::control(&nested, kernel)
        }
        // In an instance that the library does not know it may stay.
        (_, Entry::Connection(_) | Entry::Unplaced) if table::is_plain(fd) => kernel(),
        (_, Entry::Connection(_) | Entry::Unplaced) => {
            departure::depart(fd, Reason::Epoll);
            kernel()
        }
        _ => {
            pump::await_replacement();
            let result = control_other(epoll, operation, kernel);
            if result == 0 && operation == libc::EPOLL_CTL_ADD {
                mark_watched(fd, true);
            }
            result
        }
    }
}

/// `epoll_ctl` on a connection, in the instance of this index.
fn control_connection(
    (epoll, index): (c_int, usize),
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
    kernel: impl Fn() -> c_int + Copy,
) -> c_int {
    let (Some(guard), Some(instance)) = (table::enter(fd), instance(index)) else {
        pump::await_replacement();
        return control_other(epoll, operation, kernel);
    };
    if operation == libc::EPOLL_CTL_ADD
        && guard.connection.phase() == Phase::JOINED
        && cannot_follow(&guard, instance, event)
    {
        departure::depart_connection(&guard, Reason::Epoll);
        if !guard.is_current() {
            // The connection has been replaced by another one of the kernel.
            drop(guard);
            return control(epoll, operation, fd, event, kernel);
        }
    }
    // What came before this call is an edge under the old event mask.
    nesting::show(instance, false);
    // One that is not joined may have to stay with the kernel.
    let joined = guard.connection.phase() == Phase::JOINED;
    let attaching = (!joined).then(|| attaching::ATTACHING.lock());
    let (Some(controlling), Some(held)) = (CONTROL.lock(), instance.lock.lock()) else {
        return control_other(epoll, operation, kernel);
    };
    // A thread that closes the number forgets it first, and then removes the connection from all
    // instances under these locks: a registration added after that would stay.
    if !guard.is_current() {
        drop((held, controlling, attaching, guard));
        return control(epoll, operation, fd, event, kernel);
    }
    passing::gather(&guard, fd);
    // SAFETY: the program says that the event is valid, where the operation has one.
    let event = if operation == libc::EPOLL_CTL_DEL { None } else { unsafe { event.as_ref() } };
    let result = change(&guard, (instance, index), operation, event, kernel);
    if !joined && fd == guard.connection.first_fd.load(Ordering::Relaxed) {
        passing::note_again(&guard);
    }
    drop((held, controlling, attaching));
    nesting::show(instance, false);
    result
}

/// Changes a registration with the locks held, without which neither the registrations nor the
/// links change.
fn change(
    guard: &Guard,
    (instance, index): (&Instance, usize),
    operation: c_int,
    event: Option<&epoll_event>,
    kernel: impl Fn() -> c_int,
) -> c_int {
    match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => add(guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_MOD, Some(event)) if event.events & libc::EPOLLEXCLUSIVE as u32 != 0 => {
            crate::stream::fail(libc::EINVAL) as c_int
        }
        (libc::EPOLL_CTL_MOD, Some(event)) => modify(guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_DEL, _) => remove(guard, instance, index, kernel),
        _ => kernel(),
    }
}

fn add(
    guard: &Guard,
    instance: &Instance,
    index: usize,
    event: epoll_event,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let joined = guard.connection.phase() == Phase::JOINED;
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
        instance.look_aside_next();
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
        instance.look_aside_next();
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
                // Events that the program did not ask for so far take their place in the order from
                // now on.
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

/// Deletes the registration of an accelerated connection from the kernel instance that has it.
fn delete_from_relay(instance: &Instance, guard: &Guard) -> c_int {
    let mut none = epoll_event { events: 0, u64: 0 };
    match sys::epoll_ctl(instance.registry(), libc::EPOLL_CTL_DEL, guard.fd, &mut none) {
        Ok(()) => 0,
        Err(why) => crate::stream::fail(why) as c_int,
    }
}
