//! Looking at the connections that an instance follows.

use libc::epoll_event;
use std::mem::ManuallyDrop;
use weft_protocol::interrupt_flag::Sleep;

use super::edges::{news, waits_for_bytes};
use super::order;
use crate::ready;
use crate::registry::instance::Instance;
use crate::registry::links::{Found, News};
use crate::registry::links::{Inner, Watch};
use crate::registry::{Link, others, registrations};
use crate::segment::Segment;
use crate::sys;
use crate::table::{self, Guard, Registration};
use crate::waiting::wait;

/// Once in this many passes, connections without arrivals are nevertheless examined fully: this
/// process itself may have changed their events.
pub const WHOLE_LOOK: u32 = 16;
/// Up to this many connections, an instance checks all of them in each wait.
const ALWAYS_WARM: usize = 64;
/// With more, a connection without events for this many passes grows cold.
const QUIET: u32 = 32;

/// The registration behind a link, its connection and segment.
pub struct Resolved {
    pub registration: &'static mut Registration,
    pub guard: ManuallyDrop<Guard>,
    pub segment: Segment,
}

/// The registration behind a link, its connection and segment. The instance's lock is held.
pub fn resolve(link: u32) -> Option<Resolved> {
    let Link { place, which } = Link::of(link);
    let registration = registrations(place).nth(which)?;
    // SAFETY: the instance's lock is held, and the reference is gone before it is released.
    let registration = unsafe { &mut *registration };
    let guard = table::followed(place, registration.fd)?;
    let segment = guard.connection.segment()?;
    registration.linked.then_some(Resolved { registration, guard, segment })
}

/// Examines the warm connections: each fully if `whole`, otherwise those where something has
/// arrived. Returns how many events there are, and whether there are any connections to examine.
pub fn look(instance: &Instance, events: &mut [epoll_event], whole: bool) -> (usize, bool) {
    let Some(_held) = instance.lock.lock() else { return (0, false) };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    inner.turn = inner.turn.wrapping_add(1);
    let whole = whole || inner.turn.is_multiple_of(WHOLE_LOOK);
    let mut back = false;
    let mut told = 0;
    let mut before = u64::MAX;
    if !inner.left.is_empty() {
        let now = sys::ticks();
        told = order::tell_left(inner, events, &mut back);
        // No connection is reported twice in one wait.
        before = if told > 0 { now } else { before };
    }
    if told < events.len() {
        let found = find(inner, whole, before, &mut back);
        told += order::tell(inner, found, &mut events[told..]);
        if inner.warm > ALWAYS_WARM && !instance.has_relay() {
            cool(inner);
        }
    }
    if back {
        hand_back(instance, inner);
    }
    (told, inner.count > 0)
}

/// Finds the connections that have an event and were queued before the time `before`, without
/// taking any event. Returns how many there are.
fn find(inner: &mut Inner, whole: bool, before: u64, back: &mut bool) -> usize {
    let mut found = 0;
    for at in 0..inner.warm {
        let watch = &mut inner.watches[at];
        let link = inner.links[at];
        if watch.queued >= before {
            continue;
        }
        if watch.is_calm() && !whole {
            watch.quiet = watch.quiet.saturating_add(1);
        } else if let Some(Resolved { registration, guard, segment }) = resolve(link)
            && let Some(news) = examine(registration, &guard, &segment, watch, back)
        {
            inner.found[found] = Found { link, nth: found as u32, key: 0, registration, news };
            found += 1;
        }
    }
    found
}

/// What a followed connection has to tell the program, if anything. `back` becomes true if the
/// connection is the kernel's again, which then reports for it.
pub fn examine(
    registration: &Registration,
    guard: &Guard,
    segment: &Segment,
    watch: &mut Watch,
    back: &mut bool,
) -> Option<News> {
    watch.calm = Watch::ANEW;
    watch.quiet = watch.quiet.saturating_add(1);
    let word = watch.value();
    let news = news(registration, guard, segment);
    if news.is_some() {
        watch.quiet = 0;
    } else if !registration.disabled && guard.connection.is_told_by_kernel() {
        *back = true;
    } else if waits_for_bytes(registration, guard) {
        watch.calm = word;
    }
    news
}

/// Tells news: what the program is told, it is not told again.
pub fn tell(registration: &mut Registration, news: &News) -> epoll_event {
    let is_once = registration.events & libc::EPOLLONESHOT as u32 != 0;
    if is_once || registration.events & libc::EPOLLET as u32 != 0 {
        registration.reported = news.now;
        if news.events & libc::EPOLLOUT as u32 == 0 {
            // Room that is not there now is an edge when it comes, whenever the ring was filled.
            registration.reported.filled = news.now.filled.wrapping_sub(1);
        }
    }
    registration.disabled = is_once;
    epoll_event { events: news.events, u64: registration.data }
}

/// Stops looking at connections that have long had nothing: their flags are armed, as before a
/// sleep, and looked at once more.
fn cool(inner: &mut Inner) {
    let mut at = 0;
    while at < inner.warm {
        if inner.watches[at].quiet < QUIET {
            at += 1;
            continue;
        }
        inner.watches[at].quiet = 0;
        let Some(Resolved { registration, guard, segment }) = resolve(inner.links[at]) else {
            at += 1;
            continue;
        };
        if !registration.by_event || segment.has_ended() {
            at += 1;
            continue;
        }
        let wanted = wanted(registration, &guard, &segment);
        if wanted & libc::POLLOUT != 0 {
            // It may have to migrate back, which is checked before a sleep.
            at += 1;
            continue;
        }
        registration.cold = true;
        ready::arm(guard.connection, &segment, wanted, Sleep::OnEvent);
        if is_ready(registration, &guard, &segment) {
            registration.cold = false;
            at += 1;
        } else {
            inner.make_cold(at);
        }
    }
}

/// The events whose flags must be armed before an instance stops looking at a connection.
pub fn wanted(registration: &Registration, guard: &Guard, segment: &Segment) -> i16 {
    let full = !wait::may_send(guard.connection, segment);
    registration.events as i16 & if full { !0 } else { !libc::POLLOUT }
}

/// Whether a connection has an event for the program, or something to be done about it.
fn is_ready(registration: &Registration, guard: &Guard, segment: &Segment) -> bool {
    news(registration, guard, segment).is_some()
        || !registration.disabled && guard.connection.is_told_by_kernel()
}

/// The link of any followed connection that has an event, without taking it: of those where something has
/// arrived, or looking at the `whole` of each.
pub fn any_ready(inner: &Inner, whole: bool) -> Option<u32> {
    let warm = inner.links[..inner.warm].iter().zip(&inner.watches);
    let mut looked_at = warm.filter(|(_, watch)| whole || !watch.is_calm()).map(|(link, _)| *link);
    looked_at.find(|link| {
        resolve(*link).is_some_and(|Resolved { registration, guard, segment }| {
            // Prefetches the bytes while the program learns of them and comes to read them.
            segment.expect_emptying(guard.connection.role().peer());
            is_ready(registration, &guard, &segment)
        })
    })
}

/// Puts the registrations of connections that have migrated back to the kernel into its instance
/// again, as the program made them. Events that exist by then are reported as a new edge.
pub fn hand_back(instance: &Instance, inner: &mut Inner) {
    let _errno = sys::KeepErrno::new();
    let mut at = 0;
    while at < inner.count {
        match resolve(inner.links[at]) {
            Some(Resolved { registration, guard, .. })
                if guard.connection.is_told_by_kernel() && !registration.disabled =>
            {
                let mut event = epoll_event { events: registration.events, u64: registration.data };
                instance.give_to_kernel(registration.fd, event);
                let own = guard.local().own_event.descriptor();
                let _ = sys::epoll_ctl(instance.registry(), libc::EPOLL_CTL_DEL, own, &mut event);
                (registration.linked, registration.cold) = (false, false);
                inner.tagged.remove();
                others::count_other(instance, registration);
                inner.remove(at);
                // The kernel is asked about it in the next wait.
                (inner.turn, inner.looked_aside) = (0, 0);
            }
            _ => at += 1,
        }
    }
}
