//! Events that a wait gets from the kernel: of descriptors that only the kernel reports, and of
//! accelerated connections that became ready while no thread looked.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, sigset_t};

use super::looking::{Resolved, hand_back, resolve};
use super::nesting;
use super::order;
use super::waiting::silence;
use crate::migration::answering;
use crate::peer::death;
use crate::registry::instance::Instance;
use crate::registry::relay::RELAY;
use crate::registry::{EVENT, Link, is_tagged, link_of};
use crate::segment::Segment;
use crate::signals::cancel;
use crate::stream;
use crate::sys::{self, Errno};
use crate::table::{CONNECTIONS, Guard, REGISTRATIONS};

/// What becomes of accelerated connections that the kernel reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accelerated {
    /// A look follows that finds them.
    Later,
    /// They are reported in the kernel's order, which is that of all arrivals at a sleeping thread.
    InOrder,
}

/// Waits in the kernel, and keeps the events that are the program's.
pub fn from_kernel(
    instance: &Instance,
    events: &mut [epoll_event],
    span: Option<u64>,
    mask: *const sigset_t,
    accelerated: Accelerated,
) -> Result<usize, Errno> {
    let (taken_over, epoll) = (instance.taken_over(), instance.descriptor());
    let time = span.map_or(-1, |span| span.div_ceil(1_000_000).min(i32::MAX as u64) as c_int);
    let count = if time == 0 {
        sys::epoll_now(epoll, events, mask)?
    } else {
        cancel::epoll_pwait(epoll, events, time, mask)?
    };
    Ok(sift(instance, &mut events[..count], taken_over, accelerated))
}

/// Keeps, of what the kernel has told, the events that are the program's; returns of how many.
pub fn sift(
    instance: &Instance,
    events: &mut [epoll_event],
    taken_over: u32,
    accelerated: Accelerated,
) -> usize {
    let mut kept = 0;
    let mut told = [0u64; CONNECTIONS / 64];
    for at in 0..events.len() {
        let event = events[at];
        let link = event.u64 as u32 & !(EVENT as u32);
        let place = Link::of(link).place;
        if event.u64 == RELAY && instance.has_relay() {
            nesting::show(instance, false);
        // A program's own datum may begin like the library's.
        } else if is_tagged(&event)
            && let Some(word) = told.get_mut(place / 64)
        {
            hear(instance, &event);
            let bit = 1 << (place % 64);
            if accelerated == Accelerated::InOrder
                && *word & bit == 0
                && let Some(own) = event_at(instance, place)
            {
                // No connection is reported twice.
                *word |= bit;
                events[kept] = own;
                kept += 1;
            }
        } else if nesting::is_true(instance, &event) {
            if instance.taken_over() != taken_over {
                silence(instance, &event);
            }
            events[kept] = event;
            kept += 1;
        }
    }
    kept
}

/// Takes all events out of the relay of an instance, and looks at their connections.
pub fn drain_relay(instance: &Instance, relay: c_int) {
    let mut events = [epoll_event { events: 0, u64: 0 }; 32];
    while let Ok(count) = sys::epoll_now(relay, &mut events, std::ptr::null()) {
        let woken = events[..count].iter().filter(|event| is_tagged(event));
        woken.for_each(|event| hear(instance, event));
        if count < events.len() {
            return;
        }
    }
}

/// Looks at an accelerated connection again that the kernel has reported, and answers its doorbell if it was one.
fn hear(instance: &Instance, event: &epoll_event) {
    let link = event.u64 as u32 & !(EVENT as u32);
    warm(instance, link);
    if event.u64 & EVENT == 0 {
        answer(instance, link, event.events);
    }
}

/// Looks at a connection again that the kernel has reported, under all its registrations here.
fn warm(instance: &Instance, link: u32) {
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    let place = Link::of(link).place;
    for which in 0..REGISTRATIONS {
        let link = link_of(place, which);
        if let Some(Resolved { registration, .. }) = resolve(link)
            && let Some(at) = inner.position(link)
        {
            registration.cold = false;
            inner.make_warm(at);
        }
    }
}

/// The event of a connection that the kernel has reported, if it has one: that of the first registration
/// that has, and the others' are found by the next look.
fn event_at(instance: &Instance, place: usize) -> Option<epoll_event> {
    let _held = instance.lock.lock()?;
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    let mut back = false;
    let event = (0..REGISTRATIONS)
        .find_map(|which| order::event_at(inner, link_of(place, which), &mut back));
    if back {
        hand_back(instance, inner);
    }
    event
}

/// Whether bytes have come by the kernel's stream behind what is left in a ring that was given up.
fn has_more_behind(guard: &Guard, segment: &Segment) -> bool {
    let in_ring = segment.way(guard.connection.role().peer()).pointers.filling();
    segment.has_ended() && stream::unread(guard, segment).is_some_and(|all| all > in_ring)
}

/// Answers a doorbell. The next pass over all connections finds the event that it announces. The
/// kernel reports each doorbell as an edge, so several may stay unread for a while.
fn answer(instance: &Instance, link: u32, events: u32) {
    const LEFT_LYING: u32 = 32;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
    let Some(_held) = instance.lock.lock() else { return };
    let Some(Resolved { registration, guard, segment }) = resolve(link) else { return };
    if !guard.connection.switched_in.load(Ordering::Acquire) || has_more_behind(&guard, &segment) {
        // Bytes of the kernel's stream, which stand before the ring or behind its rest, may arrive
        // late: a new edge.
        registration.reported.valid = false;
    }
    let lying = guard.connection.doorbells.fetch_add(1, Ordering::Relaxed) + 1;
    // Where the other end signals by an event, no doorbell is rung for this instance: it may be what
    // a program wrote past its library.
    if lying >= LEFT_LYING || registration.by_event {
        guard.connection.doorbells.store(0, Ordering::Relaxed);
        answering::answer_doorbells(&guard);
    } else if events & ended != 0 {
        death::is_gone(&guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::instance::{instance, track};
    use crate::sample::Sample;
    use crate::table::{self, Entry};

    /// An instance that follows an accelerated connection, whose datum is 7, and has a pipe in it, whose is 9.
    struct Both {
        sample: Sample,
        instance: &'static Instance,
        pipe: c_int,
    }

    impl Both {
        fn new() -> Self {
            let sample = Sample::new();
            // SAFETY: takes no memory.
            let epoll = unsafe { libc::epoll_create1(0) };
            track(epoll);
            let Entry::Epoll(index) = table::entry(epoll) else { panic!("it is not followed") };
            let mut own = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
            let add = libc::EPOLL_CTL_ADD;
            assert_eq!(super::super::control(epoll, add, sample.fd, &raw mut own, || -1), 0);
            let mut ends = [0; 2];
            // SAFETY: there is room for two numbers.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            let mut other = epoll_event { events: libc::EPOLLIN as u32, u64: 9 };
            sys::epoll_ctl(epoll, add, ends[0], &mut other).unwrap();
            let both = Self { sample, instance: instance(index).unwrap(), pipe: ends[1] };
            assert_eq!(both.ask(Accelerated::InOrder), [0u64; 0], "nothing is there");
            both
        }

        fn ask(&self, accelerated: Accelerated) -> Vec<u64> {
            let mut events = [epoll_event { events: 0, u64: 0 }; 4];
            let none = std::ptr::null();
            let count =
                from_kernel(self.instance, &mut events, Some(0), none, accelerated).unwrap();
            events[..count].iter().map(|event| event.u64).collect()
        }

        /// Lets the accelerated connection have something to read, and wakes who sleeps for it.
        fn arrive(&self) {
            self.sample.arrive();
            let (guard, _) = self.sample.enter();
            sys::signal_event(guard.local().own_event.descriptor());
        }

        /// Makes the pipe readable.
        fn write(&self) {
            sys::write(self.pipe, b"x");
        }
    }

    #[test]
    fn who_has_slept_is_told_in_the_kernels_order() {
        for accelerated_first in [true, false] {
            let both = Both::new();
            for is_accelerated in [accelerated_first, !accelerated_first] {
                if is_accelerated { both.arrive() } else { both.write() }
            }
            let told = if accelerated_first { [7, 9] } else { [9, 7] };
            assert_eq!(both.ask(Accelerated::InOrder), told);
            assert_eq!(both.ask(Accelerated::Later), [9], "a look finds the other");
        }
    }
}
