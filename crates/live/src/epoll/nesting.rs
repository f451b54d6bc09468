//! `epoll` instances that another instance watches, or `poll` and `select`: the kernel reports them as it would
//! without the library.
//!
//! Such an instance gets a *relay*: a second kernel instance, owned by the library and registered
//! in the program's, that holds the registrations of the accelerated connections. An event in the
//! relay wakes the threads that sleep in any outer instance, and draining the relay leaves the
//! program's own events alone. Before the library asks the kernel about an outer instance it brings
//! the relay up to date ([`show`]): the relay is readable while an accelerated connection has an
//! event to report, and a change that no wake-up has announced is announced by an `eventfd` in it.
//! Level, edge and one-shot reporting to the program is left to the kernel.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event};
use weft_protocol::interrupt_flag::Sleep;

use super::asking::drain_relay;
use super::edges::{is_edge, state};
use super::exposing::expose;
use super::looking::{Resolved, examine, hand_back, resolve};
use super::waiting;
use crate::ready;
use crate::registry::instance::{Instance, instance};
use crate::registry::nests::{Nest, Registered, forget_nest, nests};
use crate::registry::once;
use crate::registry::others::control_other;
use crate::registry::relay::{add_relay, remove_relay};
use crate::segment::Segment;
use crate::spin::Where;
use crate::sys;
use crate::table::{Entry, Guard, Registration, Reported};

/// The most instances that one wait looks at, nested ones included.
const BELOW: usize = 32;
/// How often a relay is drained in a row while wake-ups keep arriving.
const TIMES: usize = 4;

/// Gives an instance a relay, since something watches it from now on. False if the instance is unknown or left
/// to the kernel.
pub fn watch(index: usize) -> bool {
    let Some(it) = instance(index) else { return false };
    if it.has_relay() && it.may_follow() {
        return true;
    }
    let _errno = sys::KeepErrno::new();
    if it.may_follow() && !it.inherited.load(Ordering::SeqCst) && add_relay(it, index) {
        return true;
    }
    expose(index);
    false
}

/// Brings the relay of an instance up to date. `is_armed` says that the interrupt flags have just been armed, so
/// that wake-ups announce whatever comes later.
pub fn show(it: &Instance, is_armed: bool) {
    if !it.has_relay() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    for _ in 0..TIMES {
        let look = look(it, is_armed);
        let is_readable = sys::poll_now(it.relay.descriptor(), libc::POLLIN) != 0;
        // Data that arrived and was read in the meantime still counts as an edge for outer
        // instances, because another event may be pending.
        if look.is_anew || look.any && !is_readable {
            sys::signal_event(it.shown.descriptor());
        }
        if look.any || !is_readable && !look.is_anew {
            return;
        }
        sys::empty_event(it.shown.descriptor());
        drain_relay(it, it.relay.descriptor());
    }
    // A spurious wake-up reports nothing to the program: see [`is_true`].
    sys::signal_event(it.shown.descriptor());
}

/// Whether an instance has an event to report, and whether there is a change that no wake-up has announced.
struct Look {
    any: bool,
    is_anew: bool,
}

fn look(it: &Instance, is_armed: bool) -> Look {
    let mut found = Look { any: false, is_anew: false };
    let Some(_held) = it.lock.lock() else { return found };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *it.inner.get() };
    let mut back = false;
    for at in 0..inner.count {
        let Some(Resolved { registration, guard, segment }) = resolve(inner.links[at]) else {
            continue;
        };
        let listens = listens(registration, &guard, &segment);
        let is_announced = registration.listens;
        let news = examine(registration, &guard, &segment, &mut inner.watches[at], &mut back);
        if news.is_some() {
            found.any = true;
            segment.expect_emptying(guard.connection.role().peer());
        }
        let is_begun = registration.anew && news.is_some();
        let now = news.map(|news| news.now);
        if let Some(now) = now.or_else(|| Some(state(registration, &guard, &segment)?.1)) {
            found.is_anew |= is_shown_anew(it, registration, now, [is_begun, is_announced]);
        }
        registration.anew = false;
        // A wake-up disarms the flag, so that nobody announces the next change.
        registration.listens = listens && (is_armed || is_announced);
    }
    if back {
        hand_back(it, inner);
    }
    found
}

/// Records the state of a connection as shown. Returns whether it has changed without an announcement; data that
/// came and was read since counts as a change, because another event may be pending.
fn is_shown_anew(
    it: &Instance,
    registration: &mut Registration,
    now: Reported,
    [is_begun, is_announced]: [bool; 2],
) -> bool {
    // Of a one-shot registration that has fired, nothing counts that came after it was reported.
    let until = match registration.disabled {
        true => std::mem::replace(&mut registration.reported, now),
        false => now,
    };
    // When the ring is full now, the next room is an edge, whenever the ring was filled.
    let is_full = now.mask & libc::EPOLLOUT as u32 == 0;
    let filled = now.filled.wrapping_sub(u32::from(is_full));
    let before = std::mem::replace(&mut registration.shown, Reported { filled, ..now });
    let is_both = before.valid && until.valid;
    let has_changed = is_both && is_edge(&before, &until, registration.events);
    if is_begun || has_changed {
        it.edges.fetch_add(1, Ordering::SeqCst);
    }
    is_begun || has_changed && (before.changes != until.changes || !is_announced)
}

/// Whether the interrupt flag of a connection is armed, so that what comes next is announced.
fn listens(registration: &Registration, guard: &Guard, segment: &Segment) -> bool {
    let role = guard.connection.role();
    let sleep = if registration.by_event { Sleep::OnEvent } else { Sleep::InKernel };
    segment.way(role.peer()).arrived.is_armed(sleep)
}

/// The inner instances on which a wait depends, at every depth.
pub struct Below {
    all: [u16; BELOW],
    count: usize,
}

impl Below {
    pub const fn none() -> Self {
        Self { all: [0; BELOW], count: 0 }
    }

    /// Those in an instance.
    pub fn of(it: &Instance) -> Self {
        let mut below = Self::none();
        if it.has_nests() {
            below.add_inside(it);
        }
        below
    }

    /// One, and those in it.
    fn from(index: usize) -> Self {
        let mut below = Self::none();
        below.add(index);
        below
    }

    /// How many changes they have shown in total.
    fn edges(&self) -> u32 {
        let edges = self.instances().map(|it| it.edges.load(Ordering::SeqCst));
        edges.fold(0, u32::wrapping_add)
    }

    /// Whether they hold descriptors that only the kernel reports, other than one another.
    fn has_others(&self) -> bool {
        let order = Ordering::SeqCst;
        let others = |it: &Instance| it.others.load(order) > it.nests.load(order);
        self.instances().any(|it| others(it) || it.unaccelerated.load(order) > 0)
    }

    /// Adds an instance and those in it. One beyond the limit, or that several processes share after `fork`, is
    /// left to the kernel from now on.
    pub fn add(&mut self, index: usize) {
        if self.all[..self.count].contains(&(index as u16)) {
            return;
        }
        let Some(it) = instance(index) else { return };
        if self.count == BELOW || it.has_relay() && !it.may_follow() {
            return expose(index);
        }
        self.all[self.count] = index as u16;
        self.count += 1;
        self.add_inside(it);
    }

    fn add_inside(&mut self, it: &Instance) {
        for nest in nests(it) {
            if let Some(inner) = nest.instance.checked_sub(1) {
                self.add(inner as usize);
            }
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn instances(&self) -> impl Iterator<Item = &'static Instance> {
        self.all[..self.count].iter().filter_map(|index| instance(usize::from(*index)))
    }

    /// Brings their relays up to date.
    pub fn show(&self) {
        self.instances().for_each(|it| show(it, false));
    }

    /// Whether any connection in them has an event. `whole` as for a look.
    pub fn has_any(&self, whole: bool) -> bool {
        self.instances().any(|it| waiting::holds_any(it, whole))
    }

    /// Where the other ends run that are worth polling for.
    pub fn place(&self) -> Where {
        let places = self.instances().map(|it| ((), waiting::place_of_peers(it)));
        ready::nearest(places).map_or(Where::Unknown, |(_, place)| place)
    }

    /// Polls for a while; whether any connection in them has an event.
    pub fn spin(&self) -> bool {
        let first = self.instances().next();
        first.is_some_and(|first| waiting::spin(first, self, self.place()))
    }

    /// Arms the interrupt flags of all connections that they follow, and brings their relays up to date.
    pub fn fall_asleep(&self) -> Watching<'_> {
        let mut watching = Watching { below: self, patience: None };
        for it in self.instances() {
            it.watchers.fetch_add(1, Ordering::SeqCst);
            let looks_again = waiting::arm(it).then_some(crate::waiting::wait::STALLED);
            let spans = [watching.patience, looks_again, waiting::sweep(it)];
            watching.patience = spans.into_iter().flatten().min();
            show(it, true);
        }
        watching
    }
}

/// While it exists, a thread sleeps in the kernel in an instance around these.
pub struct Watching<'a> {
    below: &'a Below,
    /// How long it may sleep at once.
    pub patience: Option<u64>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let _errno = sys::KeepErrno::new();
        for it in self.below.instances() {
            it.watchers.fetch_sub(1, Ordering::SeqCst);
            if !it.is_slept_in() {
                waiting::disarm(it);
            } else if it.has_tagged() {
                // A wake-up has disarmed the flags for the threads that go on sleeping, too.
                waiting::arm(it);
                show(it, true);
            }
        }
    }
}

/// An `epoll_ctl` that adds an instance to another one, changes its registration or removes it.
pub struct Control {
    pub epoll: c_int,
    /// What the library knows of the outer instance.
    pub outer: Entry,
    pub operation: c_int,
    pub fd: c_int,
    /// The index of the inner instance.
    pub inner: usize,
    pub event: *const epoll_event,
}

/// Makes an `epoll_ctl` that adds, changes or removes an inner instance.
pub fn control(call: &Control, kernel: impl Fn() -> c_int + Copy) -> c_int {
    let Control { epoll, outer, operation, fd, inner: index, event } = *call;
    let outer = match outer {
        Entry::Epoll(outer) => instance(outer).filter(|it| !it.inherited.load(Ordering::SeqCst)),
        _ => None,
    };
    if outer.is_none() {
        expose(index);
    }
    let mut below = Below::none();
    if operation != libc::EPOLL_CTL_DEL && outer.is_some() && watch(index) {
        below.add(index);
    }
    // The kernel looks whether the inner instance is readable, and wakes those around.
    below.show();
    if let Some(outer) = outer.filter(|_| operation != libc::EPOLL_CTL_DEL) {
        outer.edges.fetch_add(1, Ordering::SeqCst);
    }
    let mut result = control_other(epoll, operation, kernel);
    if result != 0 && operation == libc::EPOLL_CTL_ADD && sys::errno() == libc::ELOOP {
        // The relay adds a level: perhaps the chain is deeper with it than the kernel allows.
        for index in &below.all[..below.count] {
            expose(usize::from(*index));
            instance(usize::from(*index)).inspect(|it| remove_relay(it));
        }
        result = control_other(epoll, operation, kernel);
    }
    if let Some(outer) = outer.filter(|_| result == 0) {
        // SAFETY: the kernel has just read it, where the operation has one.
        let event = (operation != libc::EPOLL_CTL_DEL).then(|| unsafe { event.read_unaligned() });
        if !note(outer, fd, index, event) {
            expose(index);
        }
    }
    result
}

/// Records how an instance is registered in another; `None` if it no longer is. False if there is no room.
fn note(outer: &Instance, fd: c_int, index: usize, event: Option<epoll_event>) -> bool {
    // The kernel reports a changed registration again.
    let told = Below::from(index).edges().wrapping_sub(1);
    let Some(_held) = outer.lock.lock() else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *outer.inner.get() };
    let own = index as u32 + 1;
    let is_it = |nest: &Nest| nest.instance == own && nest.fd == fd;
    let found = inner.nests.iter().position(is_it);
    let Some(event) = event else {
        if let Some(found) = found {
            forget_nest(outer, found);
        }
        return true;
    };
    let free = || inner.nests.iter().position(|nest| nest.instance == 0);
    let Some(at) = found.or_else(free) else { return false };
    if found.is_none() {
        inner.tagged.add();
        outer.nests.fetch_add(1, Ordering::SeqCst);
    }
    let event = Registered { events: event.events, data: event.u64 };
    inner.nests[at] = Nest { instance: own, fd, event, told };
    true
}

/// Whether an instance has an event to report, its inner ones included.
pub fn is_readable(index: usize, fd: c_int) -> bool {
    Below::from(index).show();
    sys::poll_now(fd, libc::POLLIN) != 0
}

/// Whether an event of an outer instance is still true. What woke an inner one may have been read since.
pub fn is_true(outer: &Instance, event: &epoll_event) -> bool {
    if !outer.has_nests() {
        return true;
    }
    let all = nests(outer);
    let is_it = |nest: &&Nest| nest.instance != 0 && nest.event.data == { event.u64 };
    let mut alike = all.iter().filter(is_it).peekable();
    if alike.peek().is_none() {
        return true;
    }
    if alike.any(|nest| tells(outer, nest)) {
        return true;
    }
    let epoll = outer.descriptor();
    let is_nest = |fd| all.iter().any(|nest| nest.instance != 0 && nest.fd == fd);
    if once::is_of_another(epoll, event.u64, is_nest) {
        return true;
    }
    for nest in all.iter().filter(is_it) {
        if nest.event.events & libc::EPOLLONESHOT as u32 != 0 {
            // It has not fired for the program.
            let mut event = epoll_event { events: nest.event.events, u64: nest.event.data };
            let _ = sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, nest.fd, &mut event);
        }
    }
    false
}

/// Whether an inner instance has an event to report through an outer one; records that it is reported.
fn tells(outer: &Instance, nest: &Nest) -> bool {
    let index = nest.instance as usize - 1;
    if !is_readable(index, nest.fd) {
        return false;
    }
    let below = Below::from(index);
    let edges = below.edges();
    let by_edges = nest.event.events & libc::EPOLLET as u32 != 0;
    if by_edges && nest.told == edges && !below.has_others() {
        // The wake-up was for a change that was not asked for, or the second one for the same change: the end of
        // a connection is announced by the other end, and then by the kernel.
        return false;
    }
    let Some(_held) = outer.lock.lock() else { return true };
    // SAFETY: the lock is held.
    let all = unsafe { &mut (*outer.inner.get()).nests };
    let is_it = |one: &&mut Nest| (one.instance, one.fd) == (nest.instance, nest.fd);
    all.iter_mut().filter(is_it).for_each(|one| one.told = edges);
    true
}
