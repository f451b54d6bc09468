//! What the kernel has to say to a wait: of descriptors that it alone reports, and of carried connections
//! that it was told of while nobody looked.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, sigset_t};

use super::instance::Instance;
use super::waiting::{LOOK_ASIDE, hand_back, report, resolve};
use super::{EVENT, TAG, once};
use crate::cancel;
use crate::death;
use crate::segment::Segment;
use crate::stream;
use crate::sys::{self, Errno};
use crate::table::{CONNECTIONS, Guard, REGISTRATIONS};
use crate::wait;

/// What becomes of carried connections that the kernel reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// A look follows that finds them.
    Later,
    /// They are told in the kernel's order, which is that of all arrivals at who sleeps.
    InOrder,
}

/// Waits in the kernel, and keeps the events that are the program's.
pub fn from_kernel(
    instance: &Instance,
    events: &mut [epoll_event],
    span: Option<u64>,
    mask: *const sigset_t,
    carried: Carried,
) -> Result<usize, Errno> {
    let (taken_over, epoll) = (instance.taken_over(), instance.descriptor());
    let time = span.map_or(-1, |span| span.div_ceil(1_000_000).min(i32::MAX as u64) as c_int);
    let count = if time == 0 {
        sys::epoll_now(epoll, events, mask)?
    } else {
        cancel::epoll_pwait(epoll, events, time, mask)?
    };
    if count > 0 {
        // SAFETY: a number is written that another thread may change; a look aside too many or one
        // late does no harm.
        unsafe { (*instance.inner.get()).aside_every = LOOK_ASIDE };
    }
    let mut kept = 0;
    let mut told = [0u64; CONNECTIONS / 64];
    for at in 0..count {
        let event = events[at];
        if event.u64 & !0xffff_ffff == TAG {
            let link = event.u64 as u32 & !(EVENT as u32);
            warm(instance, link);
            if event.u64 & EVENT == 0 {
                answer(instance, link, event.events);
            }
            let place = link as usize / REGISTRATIONS;
            let (word, bit) = (&mut told[place / 64], 1 << (place % 64));
            if carried == Carried::InOrder
                && *word & bit == 0
                && let Some(own) = event_at(instance, place)
            {
                // Nobody is told of twice.
                *word |= bit;
                events[kept] = own;
                kept += 1;
            }
        } else {
            if instance.taken_over() != taken_over {
                once::silence(instance, &event);
            }
            events[kept] = event;
            kept += 1;
        }
    }
    Ok(kept)
}

/// Looks at a connection again that the kernel has reported, under all its registrations here.
fn warm(instance: &Instance, link: u32) {
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    let place = link as usize / REGISTRATIONS;
    for which in 0..REGISTRATIONS {
        let link = (place * REGISTRATIONS + which) as u32;
        if let Some((registration, ..)) = resolve(link)
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
    let event = (0..REGISTRATIONS).find_map(|which| {
        let link = (place * REGISTRATIONS + which) as u32;
        let at = inner.position(link)?;
        report(link, &mut inner.watches[at], &mut back)
    });
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

/// Answers a doorbell; what it stands for is found by the next look at all connections. The kernel
/// reports each as an edge, so they may lie where they are for a while.
fn answer(instance: &Instance, link: u32, events: u32) {
    const LEFT_LYING: u32 = 32;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
    let Some(_held) = instance.lock.lock() else { return };
    let Some((registration, guard, segment)) = resolve(link) else { return };
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
        wait::answer_doorbells(&guard);
    } else if events & ended != 0 {
        death::is_gone(&guard);
    }
}
