//! Instances that others watch, or `poll`: the kernel reports them as it would without the library.
//!
//! What a watched instance follows is registered in a second kernel instance of the library's, its bell,
//! which stands in the program's instance as one descriptor. So what wakes for a connection wakes who sleeps in
//! any instance around it, and what lies in the bell can be thrown away without a question for the program's
//! own events. Who asks the kernel about an instance around makes the bell agree first: it is readable
//! while a connection has something to tell, and each change that no wake-up has announced is announced
//! by an event in it ([`show`]). How the program is told (by level, by edges, once) is the kernel's part.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event};
use weft_protocol::interrupt_flag::Sleep;

use super::asking::take_from_bell;
use super::edges::{is_edge, state};
use super::instance::{Instance, instance};
use super::looking::{examine, hand_back, resolve};
use super::others::{control_other, expose};
use super::{CONTROL, TAG, once, registrations, tagged, waiting};
use crate::ready;
use crate::segment::Segment;
use crate::sys;
use crate::table::numbers::claim;
use crate::table::own_number::OwnNumber;
use crate::table::{self, Entry, Guard, Registration, Reported};
use crate::waiting::spin::Where;

/// The datum under which a watched instance has its bell, and that of the event in the bell. No
/// registration has such a number.
pub const BELL: u64 = TAG | 0x7fff_ffff;
const SHOWN: u64 = TAG | 0x7fff_fffe;

/// An instance follows through so many that are in it.
pub const NESTS: usize = 16;
/// As many instances are looked at in one wait, those inside others included.
const BELOW: usize = 32;
/// How often a bell is emptied in a row, as wake-ups come meanwhile.
const TIMES: usize = 4;

/// A registration of one instance in another, which is the kernel's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nest {
    /// The inner instance's index plus one; zero is free.
    instance: u32,
    fd: c_int,
    event: Registered,
    /// How many changes the inner had shown when the outer was last told of it.
    told: u32,
}

/// What the program registered it with.
#[derive(Clone, Copy, Debug, Default)]
struct Registered {
    events: u32,
    data: u64,
}

impl Instance {
    /// Whether it has a bell.
    pub fn has_bell(&self) -> bool {
        self.bell.number().is_some()
    }

    /// Whether it may follow connections, as far as it is watched. A bell is its maker's alone.
    pub fn may_follow(&self) -> bool {
        let order = Ordering::SeqCst;
        !(self.is_exposed.load(order) || self.has_bell() && self.inherited.load(order))
    }

    /// Where what has a datum of the library's is registered.
    pub fn bells(&self) -> c_int {
        self.bell.number().unwrap_or_else(|| self.descriptor())
    }

    /// Registers a connection of the kernel's under a datum of the library's.
    pub fn take_from_kernel(&self, fd: c_int, mut event: epoll_event) -> Result<(), sys::Errno> {
        if !self.has_bell() {
            return sys::epoll_ctl(self.descriptor(), libc::EPOLL_CTL_MOD, fd, &mut event);
        }
        sys::epoll_ctl(self.descriptor(), libc::EPOLL_CTL_DEL, fd, &mut event)?;
        sys::epoll_ctl(self.bells(), libc::EPOLL_CTL_ADD, fd, &mut event)
    }

    /// Registers a connection under the program's datum that had one of the library's.
    pub fn give_to_kernel(&self, fd: c_int, mut event: epoll_event) {
        let operation = if self.has_bell() {
            let _ = sys::epoll_ctl(self.bells(), libc::EPOLL_CTL_DEL, fd, &mut event);
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_MOD
        };
        let _ = sys::epoll_ctl(self.descriptor(), operation, fd, &mut event);
    }

    /// Whether others are in it.
    pub fn has_nests(&self) -> bool {
        self.nests.load(Ordering::SeqCst) > 0
    }

    /// Whether a thread sleeps in it or in one around it, or is about to.
    pub fn is_slept_in(&self) -> bool {
        let order = Ordering::SeqCst;
        self.waiters.load(order) + self.watchers.load(order) > 0
    }

    /// The end of its bell.
    pub fn end_bell(&self) {
        for own in [&self.bell, &self.shown] {
            if let Some(number) = own.take() {
                table::close_own(number);
            }
        }
    }
}

/// Makes the kernel see what an instance has to tell, from now on: something watches it. False if it is
/// unknown or left to the kernel.
pub fn watch(index: usize) -> bool {
    let Some(it) = instance(index) else { return false };
    if it.has_bell() && it.may_follow() {
        return true;
    }
    let _errno = sys::KeepErrno::new();
    if it.may_follow() && !it.inherited.load(Ordering::SeqCst) && give_bell(it, index) {
        return true;
    }
    expose(index);
    false
}

fn give_bell(it: &Instance, index: usize) -> bool {
    if !table::is_owner() || !table::remembers() {
        return false;
    }
    let (Some(_control), Some(_held)) = (CONTROL.lock(), it.lock.lock()) else { return false };
    if it.has_bell() {
        return true;
    }
    let Some((bell, shown)) = make_bell(it.descriptor()) else { return false };
    // SAFETY: the lock is held.
    let inner = unsafe { &mut *it.inner.get() };
    inner.tagged.fetch_add(1, Ordering::SeqCst);
    for place in table::used() {
        for (which, registration) in registrations(place).enumerate() {
            // SAFETY: the control lock is held, and the instance's.
            let registration = unsafe { &mut *registration };
            let is_here = registration.instance == index as u32 + 1;
            if is_here && (registration.linked || registration.parked) {
                move_to_bell([it.descriptor(), bell], registration, place, which);
            }
        }
    }
    while inner.warm < inner.count {
        inner.make_warm(inner.warm);
    }
    it.shown.set(shown);
    it.bell.set(bell);
    true
}

/// A bell in an instance, and the event in it.
fn make_bell(epoll: c_int) -> Option<(c_int, c_int)> {
    let bell = sys::epoll_create().ok()?;
    let Ok(shown) = sys::event() else {
        sys::close(bell);
        return None;
    };
    let level = |data| epoll_event { events: libc::EPOLLIN as u32, u64: data };
    let add = libc::EPOLL_CTL_ADD;
    let put_in = sys::epoll_ctl(bell, add, shown, &mut level(SHOWN))
        .and_then(|()| sys::epoll_ctl(epoll, add, bell, &mut level(BELL)));
    if put_in.is_err() {
        sys::close(bell);
        sys::close(shown);
        return None;
    }
    claim(bell);
    claim(shown);
    Some((bell, shown))
}

fn move_to_bell(
    [from, to]: [c_int; 2],
    registration: &mut Registration,
    place: usize,
    which: usize,
) {
    let mut event = tagged(place, which);
    let moves = |fd, event: &mut epoll_event| {
        let _ = sys::epoll_ctl(from, libc::EPOLL_CTL_DEL, fd, event);
        sys::epoll_ctl(to, libc::EPOLL_CTL_ADD, fd, event)
    };
    let _ = moves(registration.fd, &mut event);
    registration.cold = false;
    if let Some(local) = table::local(place).filter(|_| registration.by_event) {
        event.u64 |= super::EVENT;
        let _ = moves(local.own_event.descriptor(), &mut event);
    }
}

/// Lets the kernel see what an instance has to tell by now. `is_armed` says that the flags have just been armed:
/// from now on wake-ups announce what comes.
pub fn show(it: &Instance, is_armed: bool) {
    if !it.has_bell() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    for _ in 0..TIMES {
        let look = look(it, is_armed);
        let rings = sys::poll_now(it.bell.descriptor(), libc::POLLIN) != 0;
        // What is gone already is an edge for those around all the same, which may have something else to tell.
        if look.is_anew || look.any && !rings {
            sys::signal_event(it.shown.descriptor());
        }
        if look.any || !rings && !look.is_anew {
            return;
        }
        sys::empty_event(it.shown.descriptor());
        take_from_bell(it, it.bell.descriptor());
    }
    // A wake-up too many shows nothing: see [`is_true`].
    sys::signal_event(it.shown.descriptor());
}

/// What an instance has to tell, and whether there is something anew of which no wake-up has told.
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
        let Some((registration, guard, segment)) = resolve(inner.links[at]) else { continue };
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
        // Once it was woken for, nobody announces the next.
        registration.listens = listens && (is_armed || is_announced);
    }
    if back {
        hand_back(it, inner);
    }
    found
}

/// Takes down what a connection has to show by now. Whether there is a change in it of which no wake-up has told;
/// what came and was read since is one as well, as something else may be there to be told.
fn is_shown_anew(
    it: &Instance,
    registration: &mut Registration,
    now: Reported,
    [is_begun, is_announced]: [bool; 2],
) -> bool {
    // Of one that has fired nothing counts that came after it was told of.
    let until = match registration.disabled {
        true => std::mem::replace(&mut registration.reported, now),
        false => now,
    };
    // Room that is not there now is an edge when it comes, whenever the ring was filled.
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

/// Whether the flags of a connection are armed, so that what comes next is announced.
fn listens(registration: &Registration, guard: &Guard, segment: &Segment) -> bool {
    let role = guard.connection.role();
    let sleep = if registration.by_event { Sleep::OnEvent } else { Sleep::InKernel };
    segment.way(role.peer()).arrived.is_armed(sleep)
}

/// The instances that a wait for others depends on, those inside them included.
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

    /// How many changes they have shown.
    fn edges(&self) -> u32 {
        let edges = self.instances().map(|it| it.edges.load(Ordering::SeqCst));
        edges.fold(0, u32::wrapping_add)
    }

    /// Whether the kernel alone reports anything of them but one another.
    fn has_others(&self) -> bool {
        let order = Ordering::SeqCst;
        let others = |it: &Instance| it.others.load(order) > it.nests.load(order);
        self.instances().any(|it| others(it) || it.uncarried.load(order) > 0)
    }

    /// Adds one, and those in it. One that there is no room for, or that a fork has left to several
    /// processes, is the kernel's from now on.
    pub fn add(&mut self, index: usize) {
        if self.all[..self.count].contains(&(index as u16)) {
            return;
        }
        let Some(it) = instance(index) else { return };
        if self.count == BELOW || it.has_bell() && !it.may_follow() {
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

    /// Lets the kernel see what they have to tell by now.
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

    /// Arms the flags of all that they follow, and lets the kernel see what they have to tell by now.
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

/// A thread that sleeps in the kernel in what is around these instances, until dropped.
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
                // A wake-up has taken out those that sleep on as well.
                waiting::arm(it);
                show(it, true);
            }
        }
    }
}

/// The registrations of others in an instance.
fn nests(it: &Instance) -> [Nest; NESTS] {
    let held = if it.has_nests() { it.lock.lock() } else { None };
    // SAFETY: the lock is held.
    held.map_or([Nest::default(); NESTS], |_held| unsafe { (*it.inner.get()).nests })
}

/// `epoll_ctl` by which an instance is put into another, changed there or taken out.
pub fn control(
    (epoll, outer): (c_int, Entry),
    operation: c_int,
    (fd, index): (c_int, usize),
    event: *const epoll_event,
    kernel: impl Fn() -> c_int + Copy,
) -> c_int {
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
    // The kernel looks whether there is something to tell, and tells those around.
    below.show();
    if let Some(outer) = outer.filter(|_| operation != libc::EPOLL_CTL_DEL) {
        outer.edges.fetch_add(1, Ordering::SeqCst);
    }
    let mut result = control_other(epoll, operation, kernel);
    if result != 0 && operation == libc::EPOLL_CTL_ADD && sys::errno() == libc::ELOOP {
        // The bell of the innermost makes one more than the kernel allows, perhaps.
        for index in &below.all[..below.count] {
            expose(usize::from(*index));
            instance(usize::from(*index)).inspect(|it| take_bell(it));
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

/// Takes the bell out of an instance that follows nothing any more.
fn take_bell(it: &Instance) {
    let Some(_held) = it.lock.lock() else { return };
    let mut none = epoll_event { events: 0, u64: 0 };
    let bell = it.bell.number();
    let taken =
        bell.map(|bell| sys::epoll_ctl(it.descriptor(), libc::EPOLL_CTL_DEL, bell, &mut none));
    if taken == Some(Ok(())) {
        it.end_bell();
        // SAFETY: the lock is held.
        unsafe { &*it.inner.get() }.tagged.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Remembers how an instance is registered in another, `None` if no more. False if there is no room.
fn note(outer: &Instance, fd: c_int, index: usize, event: Option<epoll_event>) -> bool {
    // The kernel tells anew of what was changed.
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
        inner.tagged.fetch_add(1, Ordering::SeqCst);
        outer.nests.fetch_add(1, Ordering::SeqCst);
    }
    let event = Registered { events: event.events, data: event.u64 };
    inner.nests[at] = Nest { instance: own, fd, event, told };
    true
}

/// The lock is held.
fn forget_nest(outer: &Instance, at: usize) {
    // SAFETY: by the contract of this function.
    let inner = unsafe { &mut *outer.inner.get() };
    inner.nests[at] = Nest::default();
    inner.tagged.fetch_sub(1, Ordering::SeqCst);
    outer.nests.fetch_sub(1, Ordering::SeqCst);
}

/// Forgets an instance in all others, since nobody can reach it any more.
pub fn forget(index: usize) {
    for outer in super::instance::all().filter(|it| it.has_nests()) {
        let Some(_held) = outer.lock.lock() else { continue };
        for at in 0..NESTS {
            // SAFETY: the lock is held.
            if unsafe { &*outer.inner.get() }.nests[at].instance == index as u32 + 1 {
                forget_nest(outer, at);
            }
        }
    }
}

/// Whether an instance has something to tell, inside it too.
pub fn is_readable(index: usize, fd: c_int) -> bool {
    Below::from(index).show();
    sys::poll_now(fd, libc::POLLIN) != 0
}

/// Whether an event of an outer instance is to be told. What woke for an inner one may have gone since.
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

/// Whether an inner instance has something to tell through an outer one, which is then told of it.
fn tells(outer: &Instance, nest: &Nest) -> bool {
    let index = nest.instance as usize - 1;
    if !is_readable(index, nest.fd) {
        return false;
    }
    let below = Below::from(index);
    let edges = below.edges();
    let by_edges = nest.event.events & libc::EPOLLET as u32 != 0;
    if by_edges && nest.told == edges && !below.has_others() {
        // It was woken for no change that anybody asked for, or twice for one: an end is announced by its end,
        // and then by the kernel.
        return false;
    }
    let Some(_held) = outer.lock.lock() else { return true };
    // SAFETY: the lock is held.
    let all = unsafe { &mut (*outer.inner.get()).nests };
    let is_it = |one: &&mut Nest| (one.instance, one.fd) == (nest.instance, nest.fd);
    all.iter_mut().filter(is_it).for_each(|one| one.told = edges);
    true
}

/// Remembers another number of a bell's in the place of one; whether it is that.
pub fn move_bell(number: c_int, other: c_int) -> bool {
    let mut all = super::instance::all().flat_map(|it| [&it.bell, &it.shown]);
    all.any(|own: &OwnNumber| own.replace(number, other))
}
