//! Waiting in an instance that follows connections.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, sigset_t};

use weft_protocol::interrupt_flag::Sleep;

use super::asking::{Carried, from_kernel};
use super::edges::{is_edge, waits_for_bytes};
use super::instance::{Instance, Stay};
use super::links::{Inner, Watch};
use super::order::{self, Found};
use super::{CONTROL, FOLLOWED, registrations};
use crate::death;
use crate::ready;
use crate::segment::Segment;
use crate::spin::Where;
use crate::stats;
use crate::sys::{self, Errno};
use crate::table::{self, Guard, REGISTRATIONS, Registration, Reported};
use crate::turn;
use crate::wait;

/// While there are events without the kernel, it is asked about other descriptors this often, in
/// nanoseconds: as long as it has something to say. Each time that it has nothing, half as often.
pub const LOOK_ASIDE: u64 = 50_000;
/// But no less often than this.
const LEAST_ASIDE: u64 = 16 * LOOK_ASIDE;
const EVERY_TURN: u32 = 4;
/// Every so many looks, connections that have heard nothing are looked at as a whole all the same:
/// this process itself may have changed what they have to say.
const WHOLE_LOOK: u32 = 16;
/// An instance looks at so many connections in each wait without a second thought.
const ALWAYS_WARM: usize = 64;
/// With more, one that had nothing for so many looks grows cold.
const QUIET: u32 = 32;

/// `epoll_pwait` on a followed instance. `None` leaves it to the kernel.
pub fn wait(
    epoll: c_int,
    events: &mut [epoll_event],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Option<Result<usize, Errno>> {
    if events.is_empty() {
        return None;
    }
    let stay = Stay::begin(epoll)?;
    Some(wait_in(stay.instance, events, timeout, mask))
}

fn wait_in(
    instance: &Instance,
    events: &mut [epoll_event],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let deadline = timeout.map(|span| sys::now().saturating_add(span));
    let mut polled = timeout == Some(0);
    let mut asked = false;
    loop {
        // A look may fill all there is room for: every so often other descriptors come first. So do
        // connections that are not carried yet, by which something may have been sent before.
        let aside = comes_behind_the_kernel(instance)
            || !asked && is_time_to_look_aside(instance, EVERY_TURN);
        let first = if aside {
            asked = true;
            from_kernel(instance, events, Some(0), std::ptr::null(), Carried::Later)?
        } else {
            0
        };
        let (found, followed) = look(instance, &mut events[first..], aside || asked);
        if first + found > 0 {
            return Ok(first + found);
        }
        if followed && !polled {
            polled = true;
            let place = place_of_peers(instance);
            if !asked && is_time_to_look_aside(instance, 1) {
                asked = true;
                let known = from_kernel(instance, events, Some(0), mask, Carried::InOrder)?;
                if known > 0 {
                    return Ok(known);
                }
            }
            if spin(instance, place) {
                continue;
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::now()));
        let slept = sleep(instance, events, left, mask)?;
        if slept > 0 {
            return Ok(slept);
        }
        if deadline.is_some_and(|deadline| timeout == Some(0) || sys::now() >= deadline) {
            return Ok(look(instance, events, true).0);
        }
    }
}

/// Arms the flags, looks once more, and waits in the kernel.
fn sleep(
    instance: &Instance,
    events: &mut [epoll_event],
    left: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let _waiter = Waiter::begin(instance);
    let full = arm(instance);
    let (found, ..) = look(instance, events, true);
    if found > 0 {
        return Ok(found);
    }
    stats::count(|stats| &stats.sleeps, 1);
    let patience = full.then_some(wait::STALLED);
    let left = patience.map_or(left, |most| Some(left.map_or(most, |left| left.min(most))));
    let known = from_kernel(instance, events, left, mask, Carried::InOrder);
    // Who has slept has time for a look aside in the next wait: much may have become ready at once.
    // SAFETY: as in `is_time_to_look_aside`.
    unsafe { (*instance.inner.get()).turn = EVERY_TURN - 1 };
    known
}

/// A thread that is about to sleep in an instance. The last to wake takes the flags back.
struct Waiter<'a>(&'a Instance);

impl<'a> Waiter<'a> {
    fn begin(instance: &'a Instance) -> Self {
        instance.waiters.fetch_add(1, Ordering::SeqCst);
        Self(instance)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.0.waiters.fetch_sub(1, Ordering::SeqCst) == 1 {
            disarm(self.0);
        }
    }
}

/// Lets the next wait look aside: the program has put something in that may be ready.
pub fn look_aside_next(instance: &Instance) {
    // SAFETY: as in `is_time_to_look_aside`.
    unsafe { ((*instance.inner.get()).turn, (*instance.inner.get()).looked_aside) = (0, 0) };
}

/// Whether the kernel is to be asked before the followed connections are looked at: at every so
/// many turns the clock is looked at, and at each tick of the coarse one, which costs less. It is
/// asked for two reasons: about descriptors that it alone can report, and about other ends of which
/// nothing was heard for long. Where there is neither, it is not asked at all.
fn is_time_to_look_aside(instance: &Instance, turns: u32) -> bool {
    // SAFETY: numbers are read that another thread may change; a look aside too many or one late
    // does no harm.
    let inner = unsafe { &*instance.inner.get() };
    if inner.warm == 0 || !inner.turn.is_multiple_of(turns) && !has_ticked(instance) {
        return false;
    }
    let now = sys::now();
    let others = instance.others.load(Ordering::SeqCst) > 0 || inner.warm < inner.count;
    let (last, every) = match others {
        true => (inner.looked_aside, inner.aside_every),
        false => (inner.listened, death::SILENCE),
    };
    if now.saturating_sub(last) < every {
        return false;
    }
    let Some(_held) = instance.lock.lock() else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    inner.listened = now;
    if others {
        inner.looked_aside = now;
        // What the kernel has to say sets it back.
        inner.aside_every = (2 * every).min(LEAST_ASIDE);
        stats::count(|stats| &stats.asides, 1);
        return true;
    }
    let silent = inner.is_any_silent();
    if silent {
        stats::count(|stats| &stats.questions, 1);
    }
    silent
}

fn has_ticked(instance: &Instance) -> bool {
    let tick = death::coarse_now();
    // SAFETY: as in `is_time_to_look_aside`.
    std::mem::replace(unsafe { &mut (*instance.inner.get()).ticked }, tick) != tick
}

/// Looks at the warm connections: at the `whole` of each, or where something has arrived. Returns
/// how many events there are, and whether there is anybody to look at.
fn look(instance: &Instance, events: &mut [epoll_event], whole: bool) -> (usize, bool) {
    let Some(_held) = instance.lock.lock() else { return (0, false) };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    inner.turn = inner.turn.wrapping_add(1);
    let whole = whole || inner.turn.is_multiple_of(WHOLE_LOOK);
    let (mut found, mut back) = (0, false);
    let room = events.len().min(FOLLOWED);
    // The next look begins where this one ended, so that nobody is served first for ever.
    let mut at = inner.next;
    for _ in 0..inner.warm {
        if found == room {
            break;
        }
        at = if at < inner.warm { at } else { 0 };
        let watch = &mut inner.watches[at];
        if watch.is_calm() && !whole {
            watch.quiet = watch.quiet.saturating_add(1);
        } else if let Some(event) = report(inner.links[at], watch, &mut back) {
            inner.found[found] = Found { at: at as u32, nth: found as u32, event, came: 0 };
            found += 1;
        }
        at += 1;
    }
    inner.next = at;
    order::tell(inner, found, events);
    if inner.warm > ALWAYS_WARM {
        cool(inner);
    }
    if back {
        hand_back(instance, inner);
    }
    (found, inner.count > 0)
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
        let Some((registration, guard, segment)) = resolve(inner.links[at]) else {
            at += 1;
            continue;
        };
        if !registration.by_event || segment.has_ended() {
            at += 1;
            continue;
        }
        let wanted = wanted(registration, &guard, &segment);
        if wanted & libc::POLLOUT != 0 {
            // It may have to go back, which is looked at before a sleep.
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
fn wanted(registration: &Registration, guard: &Guard, segment: &Segment) -> i16 {
    let full = !wait::may_send(guard.connection, segment);
    registration.events as i16 & if full { !0 } else { !libc::POLLOUT }
}

/// Whether a connection has an event for the program, without taking it.
fn is_ready(registration: &Registration, guard: &Guard, segment: &Segment) -> bool {
    let peer = guard.connection.role().peer();
    let arrivals = segment.way(peer).pointers.arrivals();
    let fresh = !registration.reported.valid || registration.reported.written != arrivals;
    let edge = registration.events & libc::EPOLLET as u32 != 0;
    let mask = ready::events(guard, segment) as u16 as u32;
    let always = (libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLRDHUP) as u32;
    let ended = mask & !registration.reported.mask & always & registration.events != 0;
    let filled = guard.connection.filled.load(Ordering::Relaxed);
    let room = registration.reported.filled != filled && mask & libc::EPOLLOUT as u32 != 0;
    let shut = registration.reported.shut != guard.connection.shut.load(Ordering::Acquire);
    let news = fresh || !edge || ended || room || shut;
    !registration.disabled && mask & registration.events != 0 && news
}

/// Gives everything back that the instance follows and that is the kernel's again.
pub fn hand_back_all(instance: &Instance) {
    if let Some(_held) = instance.lock.lock() {
        // SAFETY: the lock is held.
        hand_back(instance, unsafe { &mut *instance.inner.get() });
    }
}

/// Gives the registrations of connections that are the kernel's again back to it, as the program
/// made them. What is there by now is then reported as a new edge.
pub fn hand_back(instance: &Instance, inner: &mut Inner) {
    let _errno = sys::KeepErrno::new();
    let epoll = instance.descriptor();
    let mut at = 0;
    while at < inner.count {
        match resolve(inner.links[at]) {
            Some((registration, guard, _))
                if turn::is_back(guard.connection) && !registration.disabled =>
            {
                let mut event = epoll_event { events: registration.events, u64: registration.data };
                let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, registration.fd, &mut event);
                let own = guard.connection.own_event.load(Ordering::Relaxed);
                let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, own, &mut event);
                (registration.linked, registration.cold) = (false, false);
                super::count_other(instance, registration);
                inner.remove(at);
            }
            _ => at += 1,
        }
    }
}

/// The registration behind a link, its connection and segment. The instance's lock is held.
pub fn resolve(
    link: u32,
) -> Option<(&'static mut Registration, std::mem::ManuallyDrop<Guard>, Segment)> {
    let (place, which) = (link as usize / REGISTRATIONS, link as usize % REGISTRATIONS);
    let registration = registrations(place).nth(which)?;
    // SAFETY: the instance's lock is held, and the reference is gone before it is released.
    let registration = unsafe { &mut *registration };
    let guard = table::followed(place, registration.fd)?;
    let segment = guard.connection.segment()?;
    registration.linked.then_some((registration, guard, segment))
}

/// The event that a followed connection has for the program, if any. `back` becomes true if the
/// connection is the kernel's again, which then reports for it.
pub fn report(link: u32, watch: &mut Watch, back: &mut bool) -> Option<epoll_event> {
    let (registration, guard, segment) = resolve(link)?;
    watch.calm = Watch::ANEW;
    watch.quiet = watch.quiet.saturating_add(1);
    let word = watch.value();
    let event = event_of(registration, &guard, &segment, back);
    if event.is_some() {
        watch.quiet = 0;
    } else if !*back && waits_for_bytes(registration, &guard) {
        watch.calm = word;
    }
    event
}

fn event_of(
    registration: &mut Registration,
    guard: &Guard,
    segment: &Segment,
    back: &mut bool,
) -> Option<epoll_event> {
    if registration.disabled {
        return None;
    }
    // Counted before the look: what comes in between is an edge of its own at the next look. The
    // other way round it would count as reported, and this event need not be the one it brings.
    let written = segment.way(guard.connection.role().peer()).pointers.arrivals();
    let filled = guard.connection.filled.load(Ordering::Relaxed);
    let shut = guard.connection.shut.load(Ordering::Acquire);
    let mask = ready::events(guard, segment) as u16 as u32;
    if turn::is_back(guard.connection) {
        *back = true;
        return None;
    }
    let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    let events = mask & (registration.events | always);
    if registration.events & libc::EPOLLET as u32 != 0 {
        let now = Reported { valid: true, written, filled, shut, mask };
        let before = registration.reported;
        if events == 0 || !is_edge(&before, &now, registration.events) {
            return None;
        }
        registration.reported = now;
        if before.valid && events & libc::EPOLLOUT as u32 == 0 {
            // A full ring that has no room yet stays an edge for when it has.
            registration.reported.filled = before.filled;
        }
    }
    if events == 0 {
        return None;
    }
    registration.disabled = registration.events & libc::EPOLLONESHOT as u32 != 0;
    Some(epoll_event { events, u64: registration.data })
}

/// Which of its connection's registrations a link is.
const fn link_index(link: u32) -> usize {
    link as usize % REGISTRATIONS
}

/// Arms the flags of all that is looked at. True if a full ring is among what is waited for.
fn arm(instance: &Instance) -> bool {
    let Some(_held) = instance.lock.lock() else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    let mut full = false;
    for link in &inner.links[..inner.warm] {
        if let Some((registration, guard, segment)) = resolve(*link)
            && !registration.disabled
        {
            let wanted = wanted(registration, &guard, &segment);
            if wanted & libc::POLLOUT != 0 {
                full = true;
                wait::go_back_if_stalled(&guard, &segment);
            }
            let sleep = if registration.by_event { Sleep::OnEvent } else { Sleep::InKernel };
            ready::arm(guard.connection, &segment, wanted, sleep);
            let order = Ordering::Acquire;
            let out = libc::EPOLLOUT as u32 & registration.events;
            if out != 0
                && (guard.connection.returned_out.load(order)
                    || !guard.connection.switched_out.load(order)
                        && ready::events(&guard, &segment) & libc::POLLOUT == 0)
            {
                // The kernel has the sending direction, yet or again, and says when there is room.
                super::rouse(instance, registration, guard.place, link_index(*link));
            }
        }
    }
    full
}

/// Takes the flags back that this thread has armed: while it is awake, none of the other ends need
/// enter the kernel for it. Not while anybody else may sleep by the same flag.
fn disarm(instance: &Instance) {
    // With the control lock held nobody registers a connection elsewhere meanwhile.
    let Some(_control) = CONTROL.try_lock() else { return };
    let Some(_held) = instance.lock.lock() else { return };
    if instance.waiters.load(Ordering::SeqCst) != 0 {
        return;
    }
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    for link in &inner.links[..inner.warm] {
        let Some((registration, guard, segment)) = resolve(*link) else { continue };
        let alone = registration.by_event
            && guard.connection.holders.load(Ordering::SeqCst) == 1
            && super::is_followed_once(guard.place);
        if alone {
            let role = guard.connection.role();
            segment.way(role.peer()).arrived.disarm(Sleep::OnEvent);
            segment.way(role).freed.disarm(Sleep::OnEvent);
        }
    }
}

/// Where the other ends run that are worth polling for.
fn place_of_peers(instance: &Instance) -> Where {
    let Some(_held) = instance.lock.lock() else { return Where::Unknown };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    let places = inner.links[..inner.warm].iter().filter_map(|link| {
        let (_, guard, segment) = resolve(*link)?;
        Some(((), wait::place_of_peer(guard.connection, &segment)))
    });
    ready::nearest(places).map_or(Where::Unknown, |(_, place)| place)
}

fn spin(instance: &Instance, place: Where) -> bool {
    // SAFETY: a policy is plain numbers; two threads that wait in one instance at once may spoil
    // each other's lesson and nothing else.
    let policy = unsafe { &mut (*instance.inner.get()).spin };
    let mut times = 0;
    wait::poll(policy, place, || has_any(instance, &mut times))
}

/// Whether any followed connection has an event, without taking it. `times` counts the looks.
fn has_any(instance: &Instance, times: &mut u32) -> bool {
    let Some(_held) = instance.lock.lock() else { return true };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    *times += 1;
    let whole = times.is_multiple_of(WHOLE_LOOK);
    let warm = inner.links[..inner.warm].iter().zip(&inner.watches);
    warm.filter(|(_, watch)| whole || !watch.is_calm()).any(|(link, _)| {
        resolve(*link)
            .is_some_and(|(registration, guard, segment)| is_ready(registration, &guard, &segment))
    })
}

/// Whether a connection has an event that is to be told after what the kernel has to say: the kernel does
/// not say when that came, but fresh connections are more often sent on before than after.
fn comes_behind_the_kernel(instance: &Instance) -> bool {
    instance.uncarried.load(Ordering::Relaxed) > 0 && has_any(instance, &mut 0)
}

/// Does something to each registration that the instance follows.
pub fn for_each(instance: &Instance, act: impl Fn(&mut Registration)) {
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    for link in &inner.links[..inner.count] {
        if let Some((registration, ..)) = resolve(*link) {
            act(registration);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::instance;
    use super::*;
    use crate::sample::Sample;
    use crate::table::Entry;

    #[test]
    fn most_looks_see_arrivals_alone() {
        let sample = Sample::new();
        // SAFETY: takes no memory.
        let epoll = unsafe { libc::epoll_create1(0) };
        super::super::track(epoll);
        let Entry::Epoll(index) = table::entry(epoll) else { panic!("it is not followed") };
        let instance = instance(index).unwrap();
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        let place = &raw mut event;
        assert_eq!(super::super::control(epoll, libc::EPOLL_CTL_ADD, sample.fd, place, || -1), 0);
        let mut events = [epoll_event { events: 0, u64: 0 }];
        assert_eq!(look(instance, &mut events, true), (0, true));
        let (guard, _) = sample.enter();
        let shut = &guard.connection.read_shut;
        shut.store(true, Ordering::Release);
        let mut times = 0;
        assert!((1..WHOLE_LOOK).all(|_| !has_any(instance, &mut times)));
        assert!(has_any(instance, &mut times));
        assert_eq!(look(instance, &mut events, false), (0, true));
        shut.store(false, Ordering::Release);
        sample.arrive();
        times = 0;
        assert!(has_any(instance, &mut times));
        assert_eq!(look(instance, &mut events, false), (1, true));
        let [event] = events;
        assert_eq!({ event.u64 }, 7);
    }
}
