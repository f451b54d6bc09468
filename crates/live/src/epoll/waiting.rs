//! Waiting in an instance that follows connections.

use std::sync::atomic::Ordering;

use libc::{c_int, c_long, epoll_event, sigset_t};

use weft_protocol::interrupt_flag::Sleep;

use super::asking::{self, Accelerated, from_kernel};
use super::exposing::expose;
use super::looking::{Resolved, WHOLE_LOOK, any_ready, look, resolve, wanted};
use super::nesting::{self, Below};
use crate::interpose::{Way, system_calls};
use crate::peer::death;
use crate::ready;
use crate::registry::instance::{Instance, Stay, instance};
use crate::registry::{self, CONTROL, Link, others};
use crate::report::stats;
use crate::segment::Segment;
use crate::signals::asleep::{Asleep, How};
use crate::spin::Where;
use crate::sys::{self, Errno};
use crate::table::idle;
use crate::table::{self, Entry, Guard, Registration};
use crate::waiting::wait;

/// How often the kernel is asked about other descriptors while accelerated connections have events,
/// in nanoseconds. A client that connects to a busy server waits at most this long, and the system
/// call costs a hundredth of it.
const LOOK_ASIDE: u64 = 50_000;
/// The clock is read once in this many passes. If they take longer than half of [`LOOK_ASIDE`],
/// every pass reads it, until one takes no more than a sixteenth.
const EVERY_TURN: u32 = 4;
const SLOW: u64 = LOOK_ASIDE / 2;
const FAST: u64 = LOOK_ASIDE / 16;

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
    if stay.instance.has_relay() && !stay.instance.may_follow() {
        expose(stay.index);
    }
    let _others = Others(stay.instance);
    // A thread that waits again may have sent something.
    // SAFETY: a flag is written that another thread may change; a check too many or too late does
    // no harm.
    unsafe { (*stay.instance.inner.get()).has_pages = true };
    Some(wait_in(stay.instance, events, timeout, mask))
}

fn has_tagged(epoll: c_int) -> bool {
    let Entry::Epoll(index) = table::entry(epoll) else { return false };
    instance(index).is_some_and(Instance::has_tagged)
}

/// The way of a wait: by a bare system call, if no instance contains anything of the library's and
/// only one thread waits, which is also the one that would add something, through a handler.
#[inline(always)]
pub fn way<const COUNT: usize>(
    epoll: c_int,
    first: *mut epoll_event,
    number: c_long,
    arguments: [usize; COUNT],
) -> Way<c_int> {
    if !system_calls::is_undisturbed() || others::are_any_shared() {
        return Way::ApartUnlessOff;
    }
    // SAFETY: the call is the one that the function makes, whose arguments the program says are valid.
    let result = unsafe { sys::enter(number, arguments) };
    if result < 0 {
        return Way::Done(system_calls::refused(result));
    }
    if result > 0 && system_calls::is_disturbed() {
        return Way::Done(told_beside_handler(epoll, first, result as c_int));
    }
    Way::Done(result as c_int)
}

/// The result of a wait that returned `count` events, during which a signal handler has joined a connection.
#[cold]
#[inline(never)]
fn told_beside_handler(epoll: c_int, first: *mut epoll_event, count: c_int) -> c_int {
    let Entry::Epoll(index) = table::entry(epoll) else { return count };
    match instance(index).filter(|it| it.has_tagged()) {
        // SAFETY: the kernel has just put that many there.
        Some(instance) => unsafe { joined_by_handler(instance, first, count) },
        None => count,
    }
}

/// A wait, made by `kernel`, in an instance that is the kernel's alone: no registration in it
/// carries data of the library's, and none gets any meanwhile, except through a signal handler.
/// `None` if the instance is not the kernel's alone.
///
/// # Safety
///
/// There is room for that many events as the call returns.
#[inline(always)]
pub unsafe fn wait_alone(
    epoll: c_int,
    first: *mut epoll_event,
    kernel: impl Fn() -> c_int,
) -> Option<c_int> {
    let Entry::Epoll(index) = table::entry(epoll) else { return Some(kernel()) };
    let Some(instance) = instance(index) else { return Some(kernel()) };
    let may_get_one = !table::is_single_threaded() || instance.shared.load(Ordering::Relaxed);
    if may_get_one || instance.has_tagged() {
        return None;
    }
    let count = kernel();
    if count > 0 && instance.has_tagged() {
        // SAFETY: by the contract of this function.
        return Some(unsafe { joined_by_handler(instance, first, count) });
    }
    Some(count)
}

/// Keeps the program's own events of those that the kernel has reported, after a signal handler has joined a
/// connection during the wait. If none is left, the handler has interrupted the wait.
///
/// # Safety
///
/// There are that many events.
#[cold]
unsafe fn joined_by_handler(instance: &Instance, first: *mut epoll_event, count: c_int) -> c_int {
    // SAFETY: by the contract of this function.
    let events = unsafe { std::slice::from_raw_parts_mut(first, count as usize) };
    // Any that fires once may have been taken over since.
    let before = instance.taken_over().wrapping_sub(1);
    match asking::sift(instance, events, before, Accelerated::InOrder) {
        0 => crate::stream::fail(libc::EINTR) as c_int,
        kept => kept as c_int,
    }
}

/// A wait, made by `kernel`, in an instance in which no registration carries data of the library's.
/// Another thread may join one of its connections at any time, and must know that this one sleeps;
/// another process may add a connection that it has joined. If more is to be done, returns the time
/// that is left of the wait.
///
/// # Safety
///
/// There is room for that many events as the call returns.
pub unsafe fn wait_in_kernel(
    epoll: c_int,
    first: *mut epoll_event,
    timeout: Option<u64>,
    kernel: impl Fn() -> c_int,
) -> Result<c_int, Option<u64>> {
    if has_tagged(epoll) {
        return Err(timeout);
    }
    let Some(stay) = Stay::begin(epoll) else { return Ok(kernel()) };
    let instance = stay.instance;
    // For a wait that ends in this way the coarse clock is precise enough.
    let begun = timeout.filter(|span| *span > 0).map(|_| sys::coarse_now());
    let taken_over = instance.taken_over();
    let _waiter = Waiter::begin(instance);
    if instance.has_tagged() {
        return Err(timeout);
    }
    let count = {
        let _asleep = Asleep::begin(How::Elsewhere);
        kernel()
    };
    if count <= 0 {
        return Ok(count);
    }
    // SAFETY: the kernel has just put that many there.
    let events = unsafe { std::slice::from_raw_parts_mut(first, count as usize) };
    let is_programs = !instance.has_tagged() && instance.taken_over() == taken_over;
    if is_programs && !events.iter().any(registry::is_tagged) {
        return Ok(count);
    }
    let _others = Others(instance);
    match asking::sift(instance, events, taken_over, Accelerated::InOrder) {
        0 => {
            let gone = begun.map_or(0, |begun| sys::coarse_now().saturating_sub(begun));
            Err(timeout.map(|span| span.saturating_sub(gone)))
        }
        kept => Ok(kept as c_int),
    }
}

/// Whether a followed instance has an event of an accelerated connection to report, which stays to
/// be reported.
pub fn holds_events(epoll: c_int) -> bool {
    Stay::begin(epoll).is_some_and(|stay| holds_any(stay.instance, true))
}

fn wait_in(
    instance: &Instance,
    events: &mut [epoll_event],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let below = Below::of(instance);
    if !below.is_empty() && timeout == Some(0) {
        return look_below(instance, &below, events, mask);
    }
    let deadline = timeout.map(|span| sys::now().saturating_add(span));
    let mut polled = timeout == Some(0);
    let mut asked = false;
    loop {
        below.show();
        // Accelerated connections may fill the whole list: the kernel's descriptors come first now
        // and then, lest they starve, and always while some connections are not accelerated yet,
        // since what arrives on those was probably sent earlier.
        let behind = comes_behind_the_kernel(instance);
        let aside =
            behind || !below.is_empty() || !asked && is_time_to_look_aside(instance, EVERY_TURN);
        let shared = aside && (behind || has_any(instance, &mut 0));
        let room = if shared { places_of_kernel(instance, events.len()) } else { events.len() };
        let first = if aside && room > 0 {
            asked = true;
            let events = &mut events[..room];
            from_kernel(instance, events, Some(0), std::ptr::null(), Accelerated::Later)?
        } else {
            0
        };
        let (found, followed) = look(instance, &mut events[first..], aside || asked);
        if first + found > 0 {
            return Ok(first + found);
        }
        if (followed || !below.is_empty()) && !polled {
            polled = true;
            let places = [place_of_peers(instance), below.place()].map(|place| ((), place));
            let place = ready::nearest(places.into_iter()).map_or(Where::Unknown, |it| it.1);
            if !asked && is_time_to_look_aside(instance, 1) {
                asked = true;
                let known = from_kernel(instance, events, Some(0), mask, Accelerated::InOrder)?;
                if known > 0 {
                    return Ok(known);
                }
            }
            if spin(instance, &below, place) {
                continue;
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::now()));
        let slept = sleep(instance, &below, events, left, mask)?;
        if slept > 0 {
            return Ok(slept);
        }
        if deadline.is_some_and(|deadline| timeout == Some(0) || sys::now() >= deadline) {
            return Ok(look(instance, events, true).0);
        }
    }
}

/// A look at an instance with others in it, without a wait.
fn look_below(
    instance: &Instance,
    below: &Below,
    events: &mut [epoll_event],
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    below.show();
    let shared = has_any(instance, &mut 0);
    let room = if shared { places_of_kernel(instance, events.len()) } else { events.len() };
    let first = match room {
        0 => 0,
        _ => from_kernel(instance, &mut events[..room], Some(0), mask, Accelerated::Later)?,
    };
    Ok(first + look(instance, &mut events[first..], true).0)
}

/// Arms the flags, looks once more, and waits in the kernel.
fn sleep(
    instance: &Instance,
    below: &Below,
    events: &mut [epoll_event],
    left: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let _waiter = Waiter::begin(instance);
    let looks_again = arm(instance);
    nesting::show(instance, true);
    let (found, ..) = look(instance, events, true);
    if found > 0 {
        return Ok(found);
    }
    let watching = below.fall_asleep();
    stats::count(|stats| &stats.sleeps, 1);
    let patience = looks_again.then_some(wait::STALLED);
    let left = [left, patience, watching.patience, sweep(instance)].into_iter().flatten().min();
    let known = from_kernel(instance, events, left, mask, Accelerated::InOrder);
    // A thread that has slept has time to check other descriptors in the next wait: many may have
    // become ready at once.
    // SAFETY: as in `is_time_to_look_aside`.
    unsafe { (*instance.inner.get()).turn = EVERY_TURN - 1 };
    known
}

/// Lets idle connections release their pages, as often as one may have become idle. Returns how
/// long it is until then, if any has pages.
pub fn sweep(instance: &Instance) -> Option<u64> {
    let _held = instance.lock.lock()?;
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    let (now, links) = (sys::coarse_now(), &inner.links[..inner.count]);
    let gone_by = now.saturating_sub(inner.swept);
    if gone_by < idle::IDLE {
        return inner.has_pages.then(|| idle::IDLE - gone_by);
    }
    inner.swept = now;
    inner.has_pages = links.iter().fold(false, |any, link| {
        let found = resolve(*link)
            .is_some_and(|Resolved { guard, segment, .. }| idle::sweep(guard.connection, &segment));
        any | found
    });
    inner.has_pages.then_some(idle::IDLE)
}

/// Whether an accelerated connection has an event, and the kernel's are to be reported first: the
/// kernel does not say when its events came, but connections that are not accelerated yet are more
/// often used before accelerated ones than after.
fn comes_behind_the_kernel(instance: &Instance) -> bool {
    instance.unaccelerated.load(Ordering::Relaxed) > 0 && has_any(instance, &mut 0)
}

/// How many of `all` places the kernel may fill if an accelerated connection has an event too: all
/// but one, and a single one in every other wait.
fn places_of_kernel(instance: &Instance, all: usize) -> usize {
    if all > 1 {
        return all - 1;
    }
    // SAFETY: a flag is read and written that another thread may change; a turn too many does no harm.
    let had_it = unsafe { &mut (*instance.inner.get()).had_place };
    *had_it = !*had_it;
    usize::from(*had_it)
}

/// The threads that still sleep in an instance when another one leaves it and stops looking: the
/// next event is theirs. A stimulus takes all sleepers out of a flag and wakes one of them, so a
/// thread that leaves arms the flag again, and wakes the next sleeper if an event is left, as the
/// kernel does.
struct Others<'a>(&'a Instance);

impl Drop for Others<'_> {
    fn drop(&mut self) {
        if self.0.waiters.load(Ordering::SeqCst) > 0 {
            leave_to_others(self.0);
        }
        if self.0.watchers.load(Ordering::SeqCst) > 0 {
            arm(self.0);
            nesting::show(self.0, true);
        }
    }
}

#[cold]
fn leave_to_others(instance: &Instance) {
    let _errno = sys::KeepErrno::new();
    arm(instance);
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let ready = any_ready(unsafe { &*instance.inner.get() }, true);
    if let Some((link, Resolved { registration, .. })) =
        ready.and_then(|link| Some((link, resolve(link)?)))
    {
        let Link { place, which } = Link::of(link);
        registry::rouse(instance, registration, place, which);
    }
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
        if self.0.waiters.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.has_tagged() {
            disarm(self.0);
        }
    }
}

/// Whether this pass asks the kernel before it looks at the accelerated connections. It reads the
/// exact clock once in `turns` passes, in each pass if the program works for long between them, and
/// when the coarse clock, which costs less, has ticked. The kernel knows of descriptors that are
/// not accelerated, and of peers that were silent for long; an instance with neither does not ask
/// it.
fn is_time_to_look_aside(instance: &Instance, turns: u32) -> bool {
    // SAFETY: numbers are read that another thread may change; a look aside too many or one late
    // does no harm.
    let inner = unsafe { &*instance.inner.get() };
    let is_turn = inner.is_slow || inner.turn.is_multiple_of(turns);
    if inner.warm == 0 || !is_turn && !has_ticked(instance) {
        return false;
    }
    let now = sys::now();
    note_pace(instance, now);
    let others = instance.has_others() || inner.warm < inner.count;
    let (last, every) = match others {
        true => (inner.looked_aside, LOOK_ASIDE),
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
        stats::count(|stats| &stats.asides, 1);
        return true;
    }
    let silent = inner.is_any_silent();
    if silent {
        stats::count(|stats| &stats.questions, 1);
    }
    silent
}

/// Learns from the time since the clock was last read whether passes take long.
fn note_pace(instance: &Instance, now: u64) {
    // SAFETY: as in `is_time_to_look_aside`.
    let inner = unsafe { &mut *instance.inner.get() };
    let gone = now.saturating_sub(std::mem::replace(&mut inner.clocked, now));
    inner.is_slow = gone > if inner.is_slow { FAST } else { SLOW };
}

fn has_ticked(instance: &Instance) -> bool {
    let tick = sys::coarse_now();
    // SAFETY: as in `is_time_to_look_aside`.
    std::mem::replace(unsafe { &mut (*instance.inner.get()).ticked }, tick) != tick
}

/// Arms the flags of all warm connections. True if something may happen without a wake-up: a full
/// ring stalls, or the kernel's instance did not accept the event by which a connection signals
/// changes.
pub fn arm(instance: &Instance) -> bool {
    let Some(_held) = instance.lock.lock() else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    let mut untold = false;
    for link in &inner.links[..inner.warm] {
        if let Some(Resolved { registration, guard, segment }) = resolve(*link)
            && !registration.disabled
        {
            let wanted = wanted(registration, &guard, &segment);
            if wanted & libc::POLLOUT != 0 {
                untold = true;
                wait::go_back_if_stalled(&guard, &segment);
            }
            untold |= !registration.by_event;
            let sleep = if registration.by_event { Sleep::OnEvent } else { Sleep::InKernel };
            ready::arm(guard.connection, &segment, wanted, sleep);
            let out = libc::EPOLLOUT as u32 & registration.events;
            // Done once: after each change of the registration the kernel reports readable data
            // again, so that no thread would sleep.
            if out != 0
                && waits_for_kernels_room(&guard, &segment)
                && !std::mem::replace(&mut registration.asks_room, true)
            {
                let which = Link::of(*link).which;
                registry::rouse(instance, registration, guard.place, which);
            }
        }
    }
    untold
}

/// Whether the kernel has the sending direction, still or again, and no room: it reports when there
/// is room, since it was asked to.
fn waits_for_kernels_room(guard: &Guard, segment: &Segment) -> bool {
    let order = Ordering::Acquire;
    if guard.connection.returned_out.load(order) {
        return sys::poll_now(guard.socket(), libc::POLLOUT) & libc::POLLOUT == 0;
    }
    !guard.connection.switched_out.load(order) && ready::events(guard, segment) & libc::POLLOUT == 0
}

/// Disarms the flags that this thread has armed: while it is awake, no other end need enter the
/// kernel for it. Not while another thread may sleep on the same flag.
pub fn disarm(instance: &Instance) {
    // While the control lock is held, no thread registers a connection elsewhere.
    let Some(_control) = CONTROL.try_lock() else { return };
    let Some(_held) = instance.lock.lock() else { return };
    if instance.is_slept_in() {
        return;
    }
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    for link in &inner.links[..inner.warm] {
        let Some(Resolved { registration, guard, segment }) = resolve(*link) else { continue };
        let alone = registration.by_event
            && guard.connection.holders.load(Ordering::SeqCst) == 1
            && registry::is_followed_once(guard.place);
        if alone {
            let role = guard.connection.role();
            let arrived = &segment.way(role.peer()).arrived;
            registration.listens &= !arrived.is_armed(Sleep::OnEvent);
            arrived.disarm(Sleep::OnEvent);
            segment.way(role).freed.disarm(Sleep::OnEvent);
        }
    }
}

/// Where the other ends run that are worth polling for.
pub fn place_of_peers(instance: &Instance) -> Where {
    let Some(_held) = instance.lock.lock() else { return Where::Unknown };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    let places = inner.links[..inner.warm].iter().filter_map(|link| {
        let Resolved { guard, segment, .. } = resolve(*link)?;
        Some(((), wait::place_of_peer(guard.connection, &segment)))
    });
    ready::nearest(places).map_or(Where::Unknown, |(_, place)| place)
}

pub fn spin(instance: &Instance, below: &Below, place: Where) -> bool {
    // SAFETY: a policy is plain numbers; two threads that wait in one instance at once may spoil
    // each other's lesson and nothing else.
    let inner = unsafe { &mut *instance.inner.get() };
    let mut times = 0;
    wait::poll(&mut inner.spin, place, inner.warm.max(1) as u32, || {
        has_any(instance, &mut times) || below.has_any(times.is_multiple_of(WHOLE_LOOK))
    })
}

/// Whether any warm connection has an event, without taking it. `times` counts the looks.
fn has_any(instance: &Instance, times: &mut u32) -> bool {
    *times += 1;
    holds_any(instance, times.is_multiple_of(WHOLE_LOOK))
}

/// Whether any warm connection has an event, without taking it: looks at all of them if `whole`,
/// otherwise only where something may have arrived.
pub fn holds_any(instance: &Instance, whole: bool) -> bool {
    let Some(_held) = instance.lock.lock() else { return true };
    // SAFETY: the lock is held.
    any_ready(unsafe { &*instance.inner.get() }, whole).is_some()
}

/// Does something to each registration that the instance follows.
fn for_each(instance: &Instance, act: impl Fn(&mut Registration)) {
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    for link in &inner.links[..inner.count] {
        if let Some(Resolved { registration, .. }) = resolve(*link) {
            act(registration);
        }
    }
}

/// Silences a registration whose one event the kernel has just given to a waiting thread, while
/// another was joining the connection and had seen that it had none.
pub fn silence(instance: &Instance, event: &epoll_event) {
    for_each(instance, |registration| {
        let once = registration.events & libc::EPOLLONESHOT as u32 != 0;
        if once && registration.data == event.u64 {
            registration.disabled = true;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::instance::instance;
    use crate::sample::Sample;
    use crate::table::{self, Entry};

    /// An instance that follows a connection, and its number.
    fn following(sample: &Sample) -> (&'static Instance, c_int) {
        // SAFETY: takes no memory.
        let epoll = unsafe { libc::epoll_create1(0) };
        crate::registry::track(epoll);
        let Entry::Epoll(index) = table::entry(epoll) else { panic!("it is not followed") };
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        let place = &raw mut event;
        assert_eq!(super::super::control(epoll, libc::EPOLL_CTL_ADD, sample.fd, place, || -1), 0);
        (instance(index).unwrap(), epoll)
    }

    #[test]
    fn who_cannot_be_told_of_an_event_looks_by_himself() {
        let sample = Sample::new();
        let (instance, epoll) = following(&sample);
        assert!(!arm(instance), "the kernel's instance has the event");
        let (guard, _) = sample.enter();
        let own = guard.local().own_event.descriptor();
        let mut none = epoll_event { events: 0, u64: 0 };
        sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, own, &mut none).unwrap();
        for_each(instance, |registration| registration.by_event = false);
        assert!(arm(instance));
        let begun = sys::now();
        let mut events = [none];
        let forever = sleep(instance, &Below::none(), &mut events, None, std::ptr::null());
        assert!(forever == Ok(0) && sys::now() - begun >= wait::STALLED);
    }

    #[test]
    fn what_a_handler_has_joined_is_told_as_the_programs_own() {
        let sample = Sample::new();
        let (instance, epoll) = following(&sample);
        let told = || {
            let (guard, _) = sample.enter();
            sys::signal_event(guard.local().own_event.descriptor());
            let mut events = [epoll_event { events: 0, u64: 0 }];
            assert_eq!(sys::epoll_now(epoll, &mut events, std::ptr::null()), Ok(1));
            assert!(crate::registry::is_tagged(&events[0]));
            // SAFETY: there is one event.
            let left = unsafe { joined_by_handler(instance, events.as_mut_ptr(), 1) };
            (left, { events[0].u64 })
        };
        assert_eq!((told().0, sys::errno()), (-1, libc::EINTR), "it has nothing");
        sample.arrive();
        assert_eq!(told(), (1, 7));
    }

    #[test]
    fn the_kernel_is_asked_as_often_though_it_never_has_anything_to_say() {
        let sample = Sample::new();
        let (instance, _) = following(&sample);
        instance.others.store(1, Ordering::SeqCst);
        // SAFETY: nobody else uses the instance.
        let looked_aside = || unsafe { &mut (*instance.inner.get()).looked_aside };
        for _ in 0..100 {
            *looked_aside() = sys::now() - LOOK_ASIDE;
            assert!(is_time_to_look_aside(instance, 1));
            *looked_aside() = u64::MAX;
            assert!(!is_time_to_look_aside(instance, 1));
        }
    }

    #[test]
    fn the_clock_is_looked_at_in_each_turn_only_where_these_take_long() {
        let sample = Sample::new();
        let (instance, _) = following(&sample);
        // SAFETY: nobody else uses the instance.
        let is_slow = || unsafe { (*instance.inner.get()).is_slow };
        let mut now = 1_000 * LOOK_ASIDE;
        let mut slow_after = |gone: u64| {
            now += gone;
            note_pace(instance, now);
            is_slow()
        };
        slow_after(0);
        slow_after(0);
        assert!(!slow_after(SLOW), "four turns");
        assert!(slow_after(SLOW + 1), "four turns");
        assert!(slow_after(FAST + 1), "a turn");
        assert!(!slow_after(FAST), "a turn");
        assert!(!slow_after(FAST + 1), "four turns");
    }

    #[test]
    fn most_looks_see_arrivals_alone() {
        let sample = Sample::new();
        let (instance, _) = following(&sample);
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
