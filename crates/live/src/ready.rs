//! Which events a connection has, in the bits of `poll`, and `poll` and `select` over them.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use libc::{c_int, pollfd, sigset_t};
use weft_protocol::detour::{Begun, Inlet, Refusal};
use weft_protocol::interrupt_flag::Sleep;

use crate::leaving::turn;
use crate::memory::pointers;
use crate::memory::scratch::{List, Scratch};
use crate::report::stats::{self, Reason};
use crate::segment::{Segment, closed};
use crate::signals::cancel;
use crate::sys;
use crate::table::{self, Connection, Entry, Guard, end, phase, taken};
use crate::waiting::death;
use crate::waiting::spin::{SpinPolicy, Where};
use crate::waiting::wait;

const IN: i16 = libc::POLLIN | libc::POLLRDNORM;
const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;

/// While a `poll` polls, every so many looks are at all connections, not only at arrivals.
const WHOLE_LOOK: u32 = 16;

/// How long a full ring is waited for before the kernel is asked instead, in nanoseconds.
const FULL_RING: u64 = 50_000_000;

/// Whether a descriptor stands for a joined connection.
pub fn is_joined(fd: c_int) -> bool {
    let place = match table::entry(fd) {
        Entry::Connection(place) => place,
        Entry::Unplaced => return taken::await_end(fd) && is_joined(fd),
        _ => return false,
    };
    table::connection(place).is_some_and(|it| it.phase() == phase::JOINED)
}

/// All events that the connection has now.
pub fn events(guard: &Guard, segment: &Segment) -> i16 {
    let connection = guard.connection;
    if connection.is_disconnected() {
        return OUT | libc::POLLHUP | libc::POLLERR;
    }
    if segment.has_ended() && !turn::is_back(connection) {
        turn::settle(guard, segment);
    }
    let (receives, sends) = (has_switched_in(guard, segment), has_switched_out(connection));
    let mut events = 0;
    if receives {
        events |= incoming(guard, segment);
    }
    if sends && wait::may_send(connection, segment) {
        events |= OUT;
    }
    let mut asked = 0;
    if !receives {
        asked |= IN | libc::POLLPRI | libc::POLLRDHUP;
    }
    if !sends {
        asked |= OUT;
    }
    if segment.has_ended() {
        // Behind what is left in the ring stand the kernel's urgent bytes, its end and its reset.
        asked |= libc::POLLPRI | libc::POLLRDHUP;
    }
    let is_shut = connection.read_shut.load(Ordering::Acquire);
    if !receives && (is_shut || has_come_to_the_end(guard, segment)) {
        // The kernel has bytes that come before the end, of which it does not know.
        events |= IN | libc::POLLRDHUP;
    }
    if asked != 0 {
        let said = sys::poll_now(guard.socket(), asked);
        events |= said & (asked | libc::POLLHUP | libc::POLLERR);
        if said & libc::POLLRDHUP != 0 {
            events |= IN;
        }
    }
    if events & libc::POLLRDHUP != 0 && connection.write_shut.load(Ordering::Acquire) {
        events |= libc::POLLHUP;
    }
    events
}

/// Whether the receiving direction has switched, looking once more whether it just did.
fn has_switched_in(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    if connection.switched_in.load(Ordering::Acquire) {
        return true;
    }
    if connection.returned_in.load(Ordering::Acquire) {
        return false;
    }
    let Some(mut receiving) = connection.receiving() else { return false };
    let inlet = turn::inlet(guard, segment, &mut receiving);
    !matches!(inlet, None | Some(Inlet::Before { .. } | Inlet::After))
}

fn has_switched_out(connection: &Connection) -> bool {
    connection.switched_out.load(Ordering::Acquire)
}

/// Whether the other end writes to the ring.
fn begins_in_ring(guard: &Guard, segment: &Segment) -> bool {
    matches!(segment.way(guard.connection.role().peer()).detour.begun(), Begun::After(_))
}

/// Whether the other end has ended its stream in the ring.
fn ends_in_ring(connection: &Connection, segment: &Segment) -> bool {
    segment.way(connection.role().peer()).detour.has_said_all()
}

/// Whether the other end has ended its stream in the ring, and all that comes before the ring has come: a
/// program takes what it receives next for the last. The other end's kernel may hold some of it yet.
fn has_come_to_the_end(guard: &Guard, segment: &Segment) -> bool {
    if segment.has_ended() || !ends_in_ring(guard.connection, segment) {
        return false;
    }
    // Held, since who takes bytes counts them later.
    let Some(_receiving) = guard.connection.receiving() else { return false };
    let detour = &segment.way(guard.connection.role().peer()).detour;
    let Begun::After(begun) = detour.begun() else { return true };
    let left = begun.saturating_sub(guard.connection.taken.load(Ordering::Acquire));
    sys::unread_bytes(guard.socket()).map_or(true, |here| here >= left)
}

fn incoming(guard: &Guard, segment: &Segment) -> i16 {
    let connection = guard.connection;
    let peer = connection.role().peer();
    let way = segment.way(peer);
    let mut events = if way.pointers.filling() != 0 { IN } else { 0 };
    let how = segment.side(peer).closed.load(Ordering::Acquire);
    // Once the detours have ended, the end comes by the kernel's stream.
    let here = !segment.has_ended();
    let closed = how != closed::OPEN || connection.end.load(Ordering::Acquire) != end::NONE;
    let gone = here && closed;
    // Unless it is refused, the ring is the last, and the kernel hears of the end later.
    let finished = if here { way.detour.is_finished() } else { turn::ends_with_ring(way) };
    if gone || finished || connection.read_shut.load(Ordering::Acquire) {
        events |= IN | libc::POLLRDHUP;
    }
    if gone {
        events |= death::events(guard);
    }
    // After the end of the stream only the kernel knows which error is left.
    if gone && how == closed::RESET {
        let said = way.detour.is_finished() || connection.reset_said.load(Ordering::Acquire);
        events |= libc::POLLHUP | if said { 0 } else { libc::POLLERR };
    }
    events
}

/// Arms the flags that these events would stimulate.
pub fn arm(connection: &Connection, segment: &Segment, events: i16, sleep: Sleep) {
    let arrived = &segment.way(connection.role().peer()).arrived;
    if !arrived.is_armed(sleep) {
        arrived.arm(sleep);
    }
    if events & OUT != 0 {
        segment.way(connection.role()).freed.arm(sleep);
    }
}

/// One entry of a `poll`, as the library sees it.
struct Polled {
    guard: Guard,
    segment: Segment,
    index: usize,
    /// What [`Polled::arrivals`] was at the last look, if the entry had no event then and nothing but
    /// an arrival can bring one, as far as the other end decides.
    calm: Cell<Option<u64>>,
    /// Whether the kernel may have something to say when a sleep ends.
    reported: Cell<bool>,
}

/// A thread that sleeps in the kernel on these, until dropped.
struct Asleep<'a>(&'a [Polled]);

impl<'a> Asleep<'a> {
    fn begin(joined: &'a [Polled]) -> Self {
        for it in joined {
            it.reported.set(true);
            wait::fall_asleep(&it.guard);
        }
        Self(joined)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        for it in self.0 {
            wait::wake_up(&it.guard, it.reported.get());
        }
    }
}

/// The lists of a `poll` over so many entries: the joined, and what the kernel is asked.
fn lists(scratch: &Scratch, count: usize) -> Option<(List<'_, Polled>, List<'_, pollfd>)> {
    Some((scratch.list(count)?, scratch.list(count)?))
}

fn scratch(count: usize) -> Option<Scratch> {
    let joined = Scratch::length_of::<Polled>(count)?;
    Scratch::take(joined.checked_add(Scratch::length_of::<pollfd>(count)?)?)
}

impl Polled {
    fn new(fd: c_int, index: usize) -> Option<Self> {
        let guard = table::enter(fd)?;
        let segment = guard.connection.segment()?;
        Some(Self { guard, segment, index, calm: Cell::new(None), reported: Cell::new(true) })
    }

    /// The word that changes whenever bytes arrive.
    fn arrivals(&self) -> u64 {
        let way = self.segment.way(self.guard.connection.role().peer());
        way.pointers.written_word().load(Ordering::Acquire)
    }

    /// Fills the entry's result in; whether there is any.
    fn evaluate(&self, entry: &mut pollfd) -> bool {
        let (connection, arrivals) = (self.guard.connection, self.arrivals());
        let wanted = entry.events | libc::POLLERR | libc::POLLHUP;
        entry.revents = events(&self.guard, &self.segment) & wanted;
        let calm = entry.revents == 0
            && entry.events & OUT == 0
            && connection.switched_in.load(Ordering::Relaxed)
            && connection.switched_out.load(Ordering::Relaxed)
            && !self.segment.has_ended();
        self.calm.set(calm.then_some(arrivals));
        entry.revents != 0
    }
}

/// More descriptors than this the kernel looks at faster than this library, which has to touch the memory
/// of each connection, and then asks the kernel all the same.
const WIDEST: usize = 2000;

/// `ppoll` over joined connections and other descriptors. `sleep` is the kernel's call. `ENOMEM` where
/// there is no memory for what it remembers of each.
pub fn poll(
    entries: &mut [pollfd],
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    cancel::look();
    let scratch = scratch(entries.len()).ok_or(libc::ENOMEM)?;
    let (mut joined, mut kernel) = lists(&scratch, entries.len()).ok_or(libc::ENOMEM)?;
    find_joined(&mut joined, entries);
    if entries.len() > WIDEST {
        joined.iter().for_each(|it| turn::back(&it.guard, Reason::Limit));
    }
    let begin = sys::now();
    let deadline = timeout.map(|span| begin.saturating_add(span));
    let (mut polled, mut slept) = (timeout == Some(0), false);
    loop {
        if !joined.iter().all(|it| it.guard.is_current()) {
            // Another thread has closed a number: what it stands for now is asked, as the kernel does.
            find_joined(&mut joined, entries);
        }
        let any = evaluate(&joined, entries);
        if !any && timeout == Some(0) && joined.len() == entries.len() && !mask.is_null() {
            // A signal that the mask lets through comes all the same.
            return sleep(&mut [], timeout, mask);
        }
        if any || timeout == Some(0) {
            if !slept {
                look_for_deaths(&joined, entries);
            }
            return others(&joined, entries, &mut kernel, Some(0), mask);
        }
        if !polled {
            polled = true;
            if spin(&joined, entries) {
                look_for_deaths(&joined, entries);
                return others(&joined, entries, &mut kernel, Some(0), mask);
            }
        }
        for it in joined.iter().filter(|it| entries[it.index].events & OUT != 0) {
            if !wait::may_send(it.guard.connection, &it.segment) {
                wait::go_back_if_stalled(&it.guard, &it.segment);
            }
        }
        let asleep = Asleep::begin(&joined);
        for it in &*joined {
            let events = entries[it.index].events;
            arm(it.guard.connection, &it.segment, events, Sleep::InKernel);
        }
        if evaluate(&joined, entries) {
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_sub(sys::now()));
        let slice = restrict(&joined, entries, &mut kernel);
        let is_over = |it: &Polled| it.guard.connection.end.load(Ordering::Acquire) != end::NONE;
        if joined.iter().any(is_over) && evaluate(&joined, entries) {
            // The kernel is not asked about those, of which another thread has just learned it.
            continue;
        }
        let span = slice.map_or(left, |slice| Some(left.map_or(slice, |left| left.min(slice))));
        stats::count(|stats| &stats.sleeps, 1);
        if !slept && !joined.iter().all(|it| it.guard.is_current()) {
            // It might as well begin only now: see `waiting::call`.
            continue;
        }
        let woken = sleep(&mut kernel, span, mask)?;
        slept = true;
        for it in &*joined {
            let asked = kernel[it.index];
            it.reported.set(asked.revents != 0 || asked.events & libc::POLLIN == 0);
        }
        drop(asleep);
        let over = deadline.is_some_and(|deadline| sys::now() >= deadline);
        if !joined.iter().all(|it| it.guard.is_current()) {
            continue;
        }
        if woken > 0 || over {
            let other = |(index, entry): (usize, &pollfd)| {
                entry.revents != 0 && joined.iter().all(|it| it.index != index)
            };
            if evaluate(&joined, entries) || over || kernel.iter().enumerate().any(other) {
                return Ok(counted(&joined, entries, &kernel));
            }
        }
    }
}

/// Asks the kernel about those other ends of which nothing was heard for long, for a program that never
/// sleeps here: a sleep is ended by a death. Once one has died, the next call asks on.
fn look_for_deaths(joined: &[Polled], entries: &mut [pollfd]) {
    let now = sys::coarse_now();
    let mut due = joined.iter().filter(|it| death::is_due(&it.guard, &it.segment, now));
    if due.any(|it| death::is_gone_if_due(&it.guard, &it.segment)) {
        evaluate(joined, entries);
    }
}

/// Finds the joined connections among the entries.
fn find_joined(joined: &mut List<Polled>, entries: &[pollfd]) {
    joined.clear();
    for (index, entry) in entries.iter().enumerate() {
        if is_joined(entry.fd)
            && let Some(polled) = Polled::new(entry.fd, index)
        {
            joined.push(polled);
        }
    }
}

/// Fills the results of the joined connections in; whether any has one.
fn evaluate(joined: &[Polled], entries: &mut [pollfd]) -> bool {
    let mut any = false;
    for it in joined {
        any |= it.evaluate(&mut entries[it.index]);
    }
    any
}

/// The same once all were looked at, and none had an event: looks at those alone where bytes have
/// arrived.
fn evaluate_arrivals(joined: &[Polled], entries: &mut [pollfd]) -> bool {
    let mut any = false;
    for it in joined.iter().filter(|it| it.calm.get() != Some(it.arrivals())) {
        any |= it.evaluate(&mut entries[it.index]);
    }
    any
}

/// Asks the kernel about all other descriptors, unless there are none, and counts.
fn others(
    joined: &[Polled],
    entries: &mut [pollfd],
    kernel: &mut List<pollfd>,
    span: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    if joined.len() < entries.len() {
        kernel.copy_from(entries);
        for it in joined {
            kernel[it.index].fd = -1;
        }
        stats::count(|stats| &stats.asides, 1);
        // Where a carried connection has an event, no signal comes before it, as in the kernel.
        let any = joined.iter().any(|it| entries[it.index].revents != 0);
        let mask = if any { std::ptr::null() } else { mask };
        while let Err(why) = sleep(kernel, span, mask) {
            if !(any && why == libc::EINTR) {
                return Err(why);
            }
        }
        return Ok(counted(joined, entries, kernel));
    }
    Ok(counted(joined, entries, &[]))
}

/// Fills in what the kernel has said about all other descriptors, and counts.
fn counted(joined: &[Polled], entries: &mut [pollfd], kernel: &[pollfd]) -> c_int {
    let mut next = joined.iter().map(|it| it.index).peekable();
    for (index, (entry, known)) in entries.iter_mut().zip(kernel).enumerate() {
        if next.next_if_eq(&index).is_none() {
            entry.revents = known.revents;
        }
    }
    entries.iter().filter(|entry| entry.revents != 0).count() as c_int
}

/// What the kernel is asked while sleeping: doorbells and ends of the joined connections instead of
/// their events. Returns a limit in nanoseconds where the kernel cannot be asked.
fn restrict(joined: &[Polled], entries: &[pollfd], kernel: &mut List<pollfd>) -> Option<u64> {
    kernel.copy_from(entries);
    let mut slice = None;
    for it in joined {
        let connection = it.guard.connection;
        let entry = &mut kernel[it.index];
        let (wants_in, wants_out) = (entry.events & IN != 0, entry.events & OUT != 0);
        if it.segment.way(connection.role().peer()).detour.refusal() == Refusal::Unheard {
            connection.wants_refused.store(true, Ordering::Relaxed);
            slice = Some(1_000_000);
        }
        if connection.deaf.load(Ordering::Acquire) {
            // The kernel says that there is an end to read, whatever is asked about reading.
            entry.events &= libc::POLLPRI;
            slice = Some(1_000_000);
        } else if (wants_in || !it.segment.has_ended()) && has_switched_in(&it.guard, &it.segment) {
            // Once the detours have ended nobody rings for who does not ask for bytes, and the
            // kernel's bytes would wake it at once.
            entry.events = libc::POLLIN | libc::POLLRDHUP | entry.events & libc::POLLPRI;
        } else if !wants_in {
            // Bytes that the program does not ask for may stand before the doorbell.
            let begins = has_switched_out(connection) || begins_in_ring(&it.guard, &it.segment);
            slice = Some(slice.unwrap_or(if begins { 1_000_000 } else { FULL_RING }));
        }
        if has_switched_out(connection) && wants_out {
            entry.events &= !OUT;
            // Another thread may bring the connection back, and with it the kernel's own room.
            slice = Some(slice.unwrap_or(FULL_RING));
        } else if wants_out {
            entry.events |= libc::POLLOUT;
        }
        if connection.end.load(Ordering::Acquire) != end::NONE {
            entry.fd = -1;
        }
    }
    slice
}

fn spin(joined: &[Polled], entries: &mut [pollfd]) -> bool {
    let places = joined.iter().map(|it| {
        let place = wait::place_of_peer(it.guard.connection, &it.segment);
        (it, place)
    });
    let Some((first, place)) = nearest(places) else { return false };
    let policy: *mut SpinPolicy = first.guard.connection.spin.get();
    let mut looks = 0u32;
    let come = || {
        looks += 1;
        look(joined, entries, looks)
    };
    // SAFETY: a policy is plain numbers; see `wait::polled`.
    wait::poll(unsafe { &mut *policy }, place, joined.len() as u32, come)
}

/// One of the looks of a `poll` that polls, from the first on. Every so often at all: this process
/// itself may have changed what they have to say.
fn look(joined: &[Polled], entries: &mut [pollfd], which: u32) -> bool {
    let whole = which.is_multiple_of(WHOLE_LOOK);
    if whole { evaluate(joined, entries) } else { evaluate_arrivals(joined, entries) }
}

/// The one to poll for: one whose other end runs elsewhere, which goes on meanwhile, before others.
pub fn nearest<T>(places: impl Iterator<Item = (T, Where)>) -> Option<(T, Where)> {
    let mut best = None;
    for (it, place) in places {
        match place {
            Where::Elsewhere => return Some((it, place)),
            Where::Here => best = best.or(Some((it, place))),
            Where::Unknown => {}
        }
    }
    best
}

fn sleep(
    kernel: &mut [pollfd],
    span: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    let time = span.map(sys::timespec);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    cancel::ppoll(kernel, time, mask)
}

/// The three sets of `select`, each null or of `count` bits.
#[derive(Clone, Copy)]
pub struct Sets {
    pub read: *mut u64,
    pub write: *mut u64,
    pub except: *mut u64,
}

impl Sets {
    fn all(self) -> [*mut u64; 3] {
        [self.read, self.write, self.except]
    }

    /// Whether there is memory for so many bits of each.
    pub fn are_there(self, count: c_int) -> bool {
        let words = (count.max(0) as usize).div_ceil(64);
        self.all().into_iter().all(|set| set.is_null() || pointers::are_there(set, words))
    }

    /// Whether any set names a joined connection; `look` is called with every number that any names.
    ///
    /// # Safety
    ///
    /// Each set is null or has `count` bits.
    pub unsafe fn name_joined(self, count: c_int, mut look: impl FnMut(c_int)) -> bool {
        let mut any = false;
        for fd in 0..count {
            // SAFETY: by the contract of this function.
            if self.all().into_iter().any(|set| unsafe { has(set, fd) }) {
                look(fd);
                any |= is_joined(fd);
            }
        }
        any
    }

    /// The first number that any set names, from this one on and of so many.
    ///
    /// # Safety
    ///
    /// Each set is null or has `count` bits.
    pub unsafe fn first_named(self, from: c_int, count: c_int) -> Option<c_int> {
        // SAFETY: by the contract of this function.
        (from..count).find(|fd| self.all().into_iter().any(|set| unsafe { has(set, *fd) }))
    }
}

/// # Safety
///
/// The set is null or has a bit for `fd`.
unsafe fn has(set: *const u64, fd: c_int) -> bool {
    // SAFETY: by the contract of this function.
    !set.is_null() && unsafe { *set.add(fd as usize / 64) } >> (fd as usize % 64) & 1 != 0
}

/// `pselect` by way of [`poll`], with the kernel's own correspondence of their events.
///
/// # Safety
///
/// Each set is null or has `count` bits, rounded up to whole words.
pub unsafe fn select(
    count: c_int,
    sets: Sets,
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    let asks = [IN, OUT, libc::POLLPRI];
    let ready = [
        IN | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
        OUT | libc::POLLWRBAND | libc::POLLERR,
        libc::POLLPRI,
    ];
    let room = count.max(0) as usize;
    let scratch = Scratch::length_of::<pollfd>(room).and_then(Scratch::take);
    let scratch = scratch.ok_or(libc::ENOMEM)?;
    let mut entries = scratch.list(room).ok_or(libc::ENOMEM)?;
    for fd in 0..count {
        // SAFETY: by the contract of this function.
        let named = |which: usize| unsafe { has(sets.all()[which], fd) };
        let events = (0..3).filter(|which| named(*which)).fold(0, |all, which| all | asks[which]);
        if events != 0 {
            entries.push(pollfd { fd, events, revents: 0 });
        }
    }
    poll(&mut entries, timeout, mask)?;
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(libc::EBADF);
    }
    let mut found = 0;
    for (which, set) in sets.all().into_iter().enumerate() {
        for entry in entries.iter().filter(|_| !set.is_null()) {
            let (word, bit) = (entry.fd as usize / 64, 1u64 << (entry.fd as usize % 64));
            let asked = entry.events & asks[which] != 0;
            if asked && entry.revents & ready[which] != 0 {
                found += 1;
            } else {
                // SAFETY: the descriptor is below `count`.
                unsafe { *set.add(word) &= !bit };
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn most_looks_see_arrivals_alone() {
        let samples = [Sample::new(), Sample::new()];
        let mut entries = samples.each_ref().map(|it| pollfd { fd: it.fd, events: IN, revents: 0 });
        let joined = [0, 1].map(|index| {
            let (guard, segment) = samples[index].enter();
            Polled { guard, segment, index, calm: Cell::new(None), reported: Cell::new(true) }
        });
        assert!(!evaluate(&joined, &mut entries));
        let shut = &joined[0].guard.connection.read_shut;
        shut.store(true, Ordering::Release);
        assert!((1..WHOLE_LOOK).all(|which| !look(&joined, &mut entries, which)));
        assert!(look(&joined, &mut entries, WHOLE_LOOK));
        shut.store(false, Ordering::Release);
        assert!(!evaluate(&joined, &mut entries));
        samples[1].arrive();
        assert!(look(&joined, &mut entries, 1));
        assert_eq!(entries.map(|entry| entry.revents), [0, IN]);
    }
}
