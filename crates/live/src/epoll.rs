//! `epoll` over joined connections.
//!
//! A followed connection stays registered in the kernel's instance, edge-triggered and for doorbells
//! only, under a datum of the library's own; what the program asked for is kept here. A wait looks
//! at all followed connections, then polls as the policy says, then arms their flags and sleeps in
//! the kernel. So a busy instance never enters the kernel but to look after its other descriptors.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::{c_int, epoll_event, sigset_t};

use crate::attach;
use crate::lock::Lock;
use crate::ready;
use crate::segment::Segment;
use crate::spin::SpinPolicy;
use crate::stats::{self, Reason};
use crate::sys::{self, Errno};
use crate::table::{self, Entry, Guard, REGISTRATIONS, Registration, Reported, phase};
use crate::wait;

const INSTANCES: usize = 256;
/// An instance follows so many registrations at most: it looks at each in every wait.
const FOLLOWED: usize = 512;
/// With more than this many, further connections stay with the kernel.
const FULL: usize = 256;
/// The upper half of the datum under which a followed connection is registered.
const TAG: u64 = 0xf3e7_1a5b << 32;
/// Every so many waits that found something, the kernel is asked about other descriptors too.
const LOOK_ASIDE: u32 = 4;

/// One epoll instance of this process.
struct Instance {
    /// Its descriptor plus one; zero is free.
    fd: AtomicU32,
    descriptors: AtomicU32,
    lock: Lock,
    /// Threads that are about to sleep in it, or do.
    waiters: AtomicU32,
    /// Whether it is itself watched by another, which sees only what the kernel sees.
    nested: AtomicU32,
    inner: std::cell::UnsafeCell<Inner>,
}

struct Inner {
    count: usize,
    /// Place and registration of each followed connection.
    links: [u32; FOLLOWED],
    turn: u32,
    spin: SpinPolicy,
}

static MEMORY: AtomicPtr<Instance> = AtomicPtr::new(std::ptr::null_mut());
/// Guards which registrations are free.
static CONTROL: Lock = Lock::new();

fn instance(index: usize) -> Option<&'static Instance> {
    let memory = MEMORY.load(Ordering::Acquire);
    if memory.is_null() || index >= INSTANCES {
        return None;
    }
    // SAFETY: once stored, the instances are never unmapped; all zeroes are valid ones.
    unsafe { memory.add(index).as_ref() }
}

/// Makes the table of instances. Without it no instance is followed.
pub fn start() {
    if let Some(memory) = sys::map(None, size_of::<Instance>() * INSTANCES) {
        MEMORY.store(memory.cast(), Ordering::Release);
    }
}

pub fn start_in_child() {
    CONTROL.reset();
    for instance in (0..INSTANCES).filter_map(instance) {
        if instance.fd.load(Ordering::Relaxed) != 0 {
            instance.lock.reset();
            instance.waiters.store(0, Ordering::Relaxed);
        }
    }
}

/// Remembers an instance that the program has made.
pub fn track(fd: c_int) {
    if !table::is_owner() {
        return;
    }
    for index in 0..INSTANCES {
        let Some(instance) = instance(index) else { return };
        let order = Ordering::SeqCst;
        if instance.fd.compare_exchange(0, fd as u32 + 1, order, order).is_ok() {
            instance.descriptors.store(1, order);
            instance.nested.store(0, order);
            // SAFETY: the place was free, so nobody else uses it.
            let inner = unsafe { &mut *instance.inner.get() };
            inner.count = 0;
            inner.spin = SpinPolicy::new();
            if !table::set_entry(fd, Entry::Epoll(index)) {
                instance.fd.store(0, order);
            }
            return;
        }
    }
}

/// Remembers a second number for an instance.
pub fn duplicated(index: usize, copy: c_int) {
    if let Some(instance) = instance(index)
        && table::set_entry(copy, Entry::Epoll(index))
    {
        instance.descriptors.fetch_add(1, Ordering::SeqCst);
    }
}

/// Forgets a number of an instance, and with the last the instance.
pub fn forget(index: usize, fd: c_int) {
    let Some(instance) = instance(index) else { return };
    if instance.descriptors.fetch_sub(1, Ordering::SeqCst) > 1 {
        if instance.fd.load(Ordering::Relaxed) == fd as u32 + 1
            && let Some((other, _)) = table::known().find(|(_, it)| *it == Entry::Epoll(index))
        {
            instance.fd.store(other as u32 + 1, Ordering::SeqCst);
        }
        return;
    }
    let _control = CONTROL.lock();
    for place in table::used() {
        for registration in registrations(place) {
            // SAFETY: the instance has no descriptor any more, so nobody else looks at its
            // registrations.
            unsafe {
                if (*registration).instance == index as u32 + 1 {
                    *registration = Registration::default();
                }
            }
        }
    }
    instance.fd.store(0, Ordering::SeqCst);
}

/// The registrations of a place, each to be touched with its instance's lock held.
fn registrations(place: usize) -> impl Iterator<Item = *mut Registration> {
    let first = table::local(place).map(|local| local.registrations.get().cast::<Registration>());
    (0..REGISTRATIONS).filter_map(move |index| {
        // SAFETY: the array has this many.
        first.map(|first| unsafe { first.add(index) })
    })
}

/// Whether all instances that the connection is in can follow it.
pub fn can_follow(guard: &Guard) -> bool {
    registrations(guard.place).all(|registration| {
        // SAFETY: a number is read that another thread may change; the answer may be old.
        let index = unsafe { (*registration).instance };
        index == 0
            || instance(index as usize - 1).is_some_and(|it| {
                // SAFETY: as above.
                let count = unsafe { (*it.inner.get()).count };
                it.nested.load(Ordering::Relaxed) == 0 && count < FULL
            })
    })
}

fn tagged(place: usize, which: usize) -> epoll_event {
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
    epoll_event { events, u64: TAG | (place * REGISTRATIONS + which) as u64 }
}

/// Follows a connection that has just joined wherever it is registered.
pub fn follow(guard: &Guard) {
    let Some(_control) = CONTROL.lock() else { return };
    for (which, registration) in registrations(guard.place).enumerate() {
        // SAFETY: with the control lock held the instance cannot change.
        let index = unsafe { (*registration).instance };
        let Some(instance) = (index as usize).checked_sub(1).and_then(instance) else { continue };
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        let (registration, inner) = unsafe { (&mut *registration, &mut *instance.inner.get()) };
        if registration.linked || inner.count == FOLLOWED {
            continue;
        }
        let mut event = tagged(guard.place, which);
        let epoll = instance.fd.load(Ordering::Relaxed) as c_int - 1;
        if sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, registration.fd, &mut event).is_ok() {
            link(inner, registration, guard.place, which);
        } else {
            *registration = Registration::default();
        }
    }
}

fn link(inner: &mut Inner, registration: &mut Registration, place: usize, which: usize) {
    inner.links[inner.count] = (place * REGISTRATIONS + which) as u32;
    inner.count += 1;
    registration.linked = true;
    registration.reported = Reported::default();
}

fn unlink(inner: &mut Inner, place: usize, which: usize) {
    let link = (place * REGISTRATIONS + which) as u32;
    if let Some(at) = inner.links[..inner.count].iter().position(|it| *it == link) {
        inner.count -= 1;
        inner.links[at] = inner.links[inner.count];
    }
}

/// Forgets all registrations of a connection that has lost its last descriptor.
pub fn unfollow(guard: &Guard) {
    let Some(_control) = CONTROL.lock() else { return };
    for (which, registration) in registrations(guard.place).enumerate() {
        // SAFETY: with the control lock held the instance cannot change.
        let index = unsafe { (*registration).instance };
        let Some(instance) = (index as usize).checked_sub(1).and_then(instance) else { continue };
        let Some(_held) = instance.lock.lock() else { continue };
        // SAFETY: the instance's lock is held.
        unsafe {
            unlink(&mut *instance.inner.get(), guard.place, which);
            *registration = Registration::default();
        }
    }
}

/// `epoll_ctl` on something that the library knows; `kernel` is the program's call.
pub fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let index = match (table::entry(epoll), table::entry(fd)) {
        (Entry::Epoll(index), Entry::Connection(_)) => index,
        (_, Entry::Epoll(inner)) => {
            if let Some(inner) = instance(inner) {
                inner.nested.store(1, Ordering::SeqCst);
            }
            return kernel();
        }
        (_, Entry::Connection(_)) => {
            if let Some(guard) = table::enter(fd) {
                attach::give_up(guard.connection, Reason::Epoll);
            }
            return kernel();
        }
        _ => return kernel(),
    };
    let (Some(guard), Some(instance)) = (table::enter(fd), instance(index)) else {
        return kernel();
    };
    let (Some(_control), Some(_held)) = (CONTROL.lock(), instance.lock.lock()) else {
        return kernel();
    };
    // SAFETY: the program says that the event is valid, where the operation has one.
    let event = if operation == libc::EPOLL_CTL_DEL { None } else { unsafe { event.as_ref() } };
    match (operation, event) {
        (libc::EPOLL_CTL_ADD, Some(event)) => add(&guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_MOD, Some(event)) => modify(&guard, instance, index, *event, kernel),
        (libc::EPOLL_CTL_DEL, _) => remove(&guard, instance, index, kernel),
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
    // SAFETY: the control lock is held, which guards what is free.
    let free = registrations(guard.place).position(|it| unsafe { (*it).instance } == 0);
    let joined = guard.connection.phase() == phase::JOINED;
    let exclusive = event.events & libc::EPOLLEXCLUSIVE as u32 != 0;
    let Some(which) = free.filter(|_| joined || !exclusive) else {
        attach::give_up(guard.connection, Reason::Epoll);
        return kernel();
    };
    let result = if joined {
        let epoll = instance.fd.load(Ordering::Relaxed) as c_int - 1;
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
    *registration = Registration {
        instance: index as u32 + 1,
        fd: guard.fd,
        events: event.events,
        data: event.u64,
        ..Registration::default()
    };
    if joined && inner.count < FOLLOWED {
        link(inner, registration, guard.place, which);
        rouse(instance, registration, guard.place, which);
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
    // SAFETY: the instance's lock is held.
    let registration = unsafe { &mut *registration };
    if !registration.linked {
        let result = kernel();
        if result != 0 {
            return result;
        }
    }
    registration.events = event.events;
    registration.data = event.u64;
    registration.disabled = false;
    registration.reported = Reported::default();
    if registration.linked {
        rouse(instance, registration, guard.place, which);
    }
    0
}

fn remove(guard: &Guard, instance: &Instance, index: usize, kernel: impl Fn() -> c_int) -> c_int {
    let result = kernel();
    if result == 0
        && let Some((which, registration)) = find(guard, index)
    {
        // SAFETY: the instance's lock is held.
        unsafe {
            unlink(&mut *instance.inner.get(), guard.place, which);
            *registration = Registration::default();
        }
    }
    result
}

/// Lets a thread that sleeps in the instance look again. The kernel reports a socket that can be
/// written at once when it is asked whether it can, and a followed one always can.
fn rouse(instance: &Instance, registration: &Registration, place: usize, which: usize) {
    if instance.waiters.load(Ordering::SeqCst) > 0 {
        let _errno = sys::KeepErrno::new();
        let mut event = tagged(place, which);
        event.events |= libc::EPOLLOUT as u32;
        let epoll = instance.fd.load(Ordering::Relaxed) as c_int - 1;
        let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, registration.fd, &mut event);
    }
}

/// Lets all instances that follow the connection look again: somebody took its doorbells away.
pub fn kick(guard: &Guard) {
    for (which, registration) in registrations(guard.place).enumerate() {
        // SAFETY: numbers are read that another thread may change; a look too many does no harm.
        let registration = unsafe { *registration };
        if registration.linked
            && let Some(instance) =
                (registration.instance as usize).checked_sub(1).and_then(instance)
        {
            rouse(instance, &registration, guard.place, which);
        }
    }
}

/// `epoll_pwait` on a followed instance. `None` leaves it to the kernel.
pub fn wait(
    epoll: c_int,
    events: &mut [epoll_event],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Option<Result<usize, Errno>> {
    let Entry::Epoll(index) = table::entry(epoll) else { return None };
    let instance = instance(index)?;
    if events.is_empty() {
        return None;
    }
    Some(wait_in(instance, epoll, events, timeout, mask))
}

fn wait_in(
    instance: &Instance,
    epoll: c_int,
    events: &mut [epoll_event],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let deadline = timeout.map(|span| sys::now().saturating_add(span));
    let mut polled = timeout == Some(0);
    loop {
        let (found, followed, aside) = look(instance, events);
        if found > 0 {
            let more = if aside && found < events.len() {
                from_kernel(instance, epoll, &mut events[found..], Some(0), mask).unwrap_or(0)
            } else {
                0
            };
            return Ok(found + more);
        }
        if followed && !polled && is_elsewhere(instance) {
            polled = true;
            let known = from_kernel(instance, epoll, events, Some(0), mask)?;
            if known > 0 {
                return Ok(known);
            }
            if spin(instance) {
                continue;
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::now()));
        instance.waiters.fetch_add(1, Ordering::SeqCst);
        arm(instance);
        let (found, ..) = look(instance, events);
        let slept = if found > 0 {
            Ok(found)
        } else {
            stats::count(|stats| &stats.sleeps, 1);
            from_kernel(instance, epoll, events, left, mask)
        };
        instance.waiters.fetch_sub(1, Ordering::SeqCst);
        let found = slept?;
        if found > 0 {
            return Ok(found);
        }
        if deadline.is_some_and(|deadline| timeout == Some(0) || sys::now() >= deadline) {
            return Ok(look(instance, events).0);
        }
    }
}

/// Looks at all followed connections. Returns how many events there are, whether there is anybody
/// to look at, and whether it is time to look aside.
fn look(instance: &Instance, events: &mut [epoll_event]) -> (usize, bool, bool) {
    let Some(_held) = instance.lock.lock() else { return (0, false, true) };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *instance.inner.get() };
    let mut found = 0;
    // The next look begins where this one ended, so that nobody is served first for ever.
    for step in 0..inner.count {
        let at = (inner.turn as usize + step) % inner.count;
        if found == events.len() {
            break;
        }
        if let Some(event) = report(inner.links[at]) {
            events[found] = event;
            found += 1;
        }
    }
    if found > 0 {
        inner.turn = inner.turn.wrapping_add(1);
    }
    (found, inner.count > 0, inner.turn.is_multiple_of(LOOK_ASIDE))
}

/// The registration behind a link, its connection and segment. The instance's lock is held.
fn resolve(
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

/// The event that a followed connection has for the program, if any.
fn report(link: u32) -> Option<epoll_event> {
    let (registration, guard, segment) = resolve(link)?;
    if registration.disabled {
        return None;
    }
    let mask = ready::events(&guard, &segment) as u16 as u32;
    let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
    let events = mask & (registration.events | always);
    if registration.events & libc::EPOLLET as u32 != 0 {
        let peer = guard.connection.role().peer();
        let now = Reported {
            valid: true,
            written: segment.way(peer).pointers.arrivals(),
            filled: guard.connection.filled.load(Ordering::Relaxed),
            mask,
        };
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

/// Whether something that the program asked for has happened since the last report: bytes arrived,
/// the end came, or a full ring has room again. What is then reported is what there is by now.
fn is_edge(before: &Reported, now: &Reported, asked: u32) -> bool {
    let asks = |bit: c_int| asked & bit as u32 != 0;
    let room = now.mask & libc::EPOLLOUT as u32 != 0;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
    !before.valid
        || (asks(libc::EPOLLIN) && before.written != now.written)
        || (asks(libc::EPOLLOUT) && before.filled != now.filled && room)
        || now.mask & !before.mask & ended != 0
}

fn arm(instance: &Instance) {
    let Some(_held) = instance.lock.lock() else { return };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    for link in &inner.links[..inner.count] {
        if let Some((registration, guard, segment)) = resolve(*link)
            && !registration.disabled
        {
            let full = !wait::may_send(guard.connection, &segment);
            let wanted = registration.events as i16 & if full { !0 } else { !libc::POLLOUT };
            ready::arm(guard.connection, &segment, wanted);
        }
    }
}

/// Whether any other end runs on another processor, so that polling makes sense.
fn is_elsewhere(instance: &Instance) -> bool {
    let Some(_held) = instance.lock.lock() else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    inner.links[..inner.count].iter().any(|link| {
        resolve(*link)
            .is_some_and(|(_, guard, segment)| wait::is_elsewhere(guard.connection, &segment))
    })
}

fn spin(instance: &Instance) -> bool {
    // SAFETY: a policy is plain numbers; two threads that wait in one instance at once may spoil
    // each other's lesson and nothing else.
    unsafe { (*instance.inner.get()).spin.poll(|| has_any(instance), sys::now) }
}

/// Whether any followed connection has an event, without taking it.
fn has_any(instance: &Instance) -> bool {
    let Some(_held) = instance.lock.lock() else { return true };
    // SAFETY: the lock is held.
    let inner = unsafe { &*instance.inner.get() };
    inner.links[..inner.count].iter().any(|link| {
        let Some((registration, guard, segment)) = resolve(*link) else { return false };
        let peer = guard.connection.role().peer();
        let arrivals = segment.way(peer).pointers.arrivals();
        let fresh = !registration.reported.valid || registration.reported.written != arrivals;
        let edge = registration.events & libc::EPOLLET as u32 != 0;
        let mask = ready::events(&guard, &segment) as u16 as u32;
        !registration.disabled && mask & registration.events != 0 && (fresh || !edge)
    })
}

/// Waits in the kernel, and keeps the events that are the program's.
fn from_kernel(
    instance: &Instance,
    epoll: c_int,
    events: &mut [epoll_event],
    span: Option<u64>,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let time = span.map_or(-1, |span| span.div_ceil(1_000_000).min(i32::MAX as u64) as c_int);
    let (place, room) = (events.as_mut_ptr(), events.len() as c_int);
    // SAFETY: the events are valid, and so is the mask by the program's word.
    let count = unsafe { libc::syscall(libc::SYS_epoll_pwait, epoll, place, room, time, mask, 8) };
    if count < 0 {
        return Err(sys::errno());
    }
    let mut kept = 0;
    for at in 0..count as usize {
        let event = events[at];
        if event.u64 & !0xffff_ffff == TAG {
            answer(instance, event.u64 as u32, event.events);
        } else {
            events[kept] = event;
            kept += 1;
        }
    }
    Ok(kept)
}

/// Answers a doorbell; what it stands for is found by the next look at all connections. The kernel
/// reports each as an edge, so they may lie where they are for a while.
fn answer(instance: &Instance, link: u32, events: u32) {
    const LEFT_LYING: u32 = 32;
    let ended = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
    let Some(_held) = instance.lock.lock() else { return };
    let Some((_, guard, _)) = resolve(link) else { return };
    let lying = guard.connection.doorbells.fetch_add(1, Ordering::Relaxed) + 1;
    if lying >= LEFT_LYING {
        guard.connection.doorbells.store(0, Ordering::Relaxed);
        wait::answer_doorbells(&guard);
    } else if events & ended != 0 {
        wait::is_gone(&guard);
    }
}
