//! `poll` over joined connections and other descriptors: it looks, polls for a while, and sleeps in the
//! kernel on doorbells instead of events.

mod sets;

pub use sets::{Sets, select};

use std::cell::Cell;
use std::sync::atomic::Ordering;

use libc::{c_int, pollfd, sigset_t};
use weft_protocol::detour::Refusal;
use weft_protocol::interrupt_flag::Sleep;

use crate::epoll::{self, Below};
use crate::memory::scratch::{List, Scratch};
use crate::migration::answering;
use crate::migration::direction;
use crate::peer::death;
use crate::ready::{
    IN, OUT, arm, begins_in_ring, events_for, has_switched_in, has_switched_out, is_joined, nearest,
};
use crate::report::stats::{self, Reason};
use crate::segment::Segment;
use crate::signals::cancel;
use crate::spin::SpinPolicy;
use crate::sys;
use crate::table::idle;
use crate::table::{self, Entry, Guard, end};
use crate::waiting::wait;

/// While a `poll` polls, one pass in this many examines all connections, not only arrivals.
const WHOLE_LOOK: u32 = 16;

/// How long to wait for room in a full ring before the kernel is asked instead, in nanoseconds.
const FULL_RING: u64 = 50_000_000;

/// One entry of a `poll`, as the library sees it.
struct Polled {
    guard: Guard,
    segment: Segment,
    index: usize,
    /// What [`Polled::arrivals`] was at the last pass, if the entry had no event then and only an
    /// arrival can bring one, as far as the other end decides.
    calm: Cell<Option<u64>>,
    /// Whether the kernel may have an event to report when a sleep ends.
    reported: Cell<bool>,
}

/// A thread that sleeps in the kernel on these, until dropped.
struct Asleep<'a>(&'a [Polled]);

impl<'a> Asleep<'a> {
    fn begin(joined: &'a [Polled]) -> Self {
        for it in joined {
            it.reported.set(true);
            answering::fall_asleep(&it.guard);
        }
        Self(joined)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        for it in self.0 {
            answering::wake_up(&it.guard, it.reported.get());
        }
    }
}

/// The lists of a `poll` over this many entries: the joined connections, and what the kernel is
/// asked.
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
        let asks_room = entry.events & OUT != 0;
        entry.revents = events_for(&self.guard, &self.segment, asks_room) & wanted;
        if entry.revents & libc::POLLIN != 0 {
            self.segment.expect_emptying(connection.role().peer());
        }
        let calm = entry.revents == 0
            && !asks_room
            && connection.switched_in.load(Ordering::Relaxed)
            && connection.switched_out.load(Ordering::Relaxed)
            && !self.segment.has_ended();
        self.calm.set(calm.then_some(arrivals));
        entry.revents != 0
    }
}

/// More descriptors than this the kernel looks at faster than this library, which has to touch the memory
/// of each connection, and then has to ask the kernel as well.
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
        joined.iter().for_each(|it| direction::back(&it.guard, Reason::Limit));
    }
    let below = below(entries);
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
            // A signal that the mask lets through still comes.
            return sleep(&mut [], timeout, mask);
        }
        if any || timeout == Some(0) {
            if !slept {
                look_for_deaths(&joined, entries);
            }
            below.show();
            return others(&joined, entries, &mut kernel, Some(0), mask);
        }
        if !polled {
            polled = true;
            if spin(&joined, entries, &below) {
                continue;
            }
        }
        let Some(woken) = sleep_on(&joined, entries, &mut kernel, &below, deadline, mask, slept)?
        else {
            continue;
        };
        slept = true;
        let over = deadline.is_some_and(|deadline| sys::now() >= deadline);
        if !joined.iter().all(|it| it.guard.is_current()) {
            continue;
        }
        if woken || over {
            let other = |(index, entry): (usize, &pollfd)| {
                entry.revents != 0 && joined.iter().all(|it| it.index != index)
            };
            if evaluate(&joined, entries) || over || kernel.iter().enumerate().any(other) {
                return Ok(counted(&joined, entries, &kernel));
            }
        }
    }
}

/// Sleeps until the kernel has an event to report, or the deadline has passed; returns whether it
/// has an event. `None` if everything must be checked first: something has come, or a number has
/// got another meaning.
fn sleep_on(
    joined: &[Polled],
    entries: &mut [pollfd],
    kernel: &mut List<pollfd>,
    below: &Below,
    deadline: Option<u64>,
    mask: *const sigset_t,
    slept: bool,
) -> Result<Option<bool>, sys::Errno> {
    for it in joined.iter().filter(|it| entries[it.index].events & OUT != 0) {
        if !wait::may_send(it.guard.connection, &it.segment) {
            wait::go_back_if_stalled(&it.guard, &it.segment);
        }
    }
    let asleep = Asleep::begin(joined);
    for it in joined {
        let events = entries[it.index].events;
        arm(it.guard.connection, &it.segment, events, Sleep::InKernel);
    }
    let watching = below.fall_asleep();
    if evaluate(joined, entries) {
        return Ok(None);
    }
    let left = deadline.map(|deadline| deadline.saturating_sub(sys::now()));
    let slice = restrict(joined, entries, kernel);
    let is_over = |it: &Polled| it.guard.connection.end.load(Ordering::Acquire) != end::NONE;
    if joined.iter().any(is_over) && evaluate(joined, entries) {
        // The kernel is not asked about those, of which another thread has just learned it.
        return Ok(None);
    }
    let idle = joined.iter().any(has_pages).then_some(idle::IDLE);
    let span = [left, slice, idle, watching.patience].into_iter().flatten().min();
    stats::count(|stats| &stats.sleeps, 1);
    if !slept && !joined.iter().all(|it| it.guard.is_current()) {
        // It might as well begin only now: see `waiting::call`.
        return Ok(None);
    }
    let woken = sleep(kernel, span, mask)? - silence(kernel);
    drop(watching);
    for it in joined {
        let asked = kernel[it.index];
        it.reported.set(asked.revents != 0 || asked.events & libc::POLLIN == 0);
    }
    drop(asleep);
    if woken == 0 && span == idle {
        for it in joined {
            idle::give_back(it.guard.connection, &it.segment);
        }
    }
    Ok(Some(woken > 0))
}

/// The instances of `epoll` among the entries, and those in them.
fn below(entries: &[pollfd]) -> Below {
    let mut below = Below::none();
    for entry in entries {
        if let Entry::Epoll(index) = table::entry(entry.fd) {
            below.add(index);
        }
    }
    below
}

/// Clears `revents` of instances whose events are gone, and returns how many were cleared.
fn silence(kernel: &mut [pollfd]) -> c_int {
    let mut silent = 0;
    for entry in kernel.iter_mut().filter(|entry| entry.revents & IN != 0) {
        if let Entry::Epoll(index) = table::entry(entry.fd)
            && !epoll::is_readable(index, entry.fd)
        {
            entry.revents = 0;
            silent += 1;
        }
    }
    silent
}

fn has_pages(it: &Polled) -> bool {
    idle::has_pages(it.guard.connection, &it.segment)
}

/// Asks the kernel about other ends that have shown no activity for long, for a program that never
/// sleeps here (a death ends a sleep). Once one has died, the next call asks about the others.
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

/// Like [`evaluate`], after a pass that found no event: looks only at connections where bytes have
/// arrived since.
fn evaluate_arrivals(joined: &[Polled], entries: &mut [pollfd]) -> bool {
    let mut any = false;
    for it in joined.iter().filter(|it| it.calm.get() != Some(it.arrivals())) {
        any |= it.evaluate(&mut entries[it.index]);
    }
    any
}

/// Asks the kernel about all other descriptors, if there are any. Returns how many entries have an
/// event.
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
        // Where an accelerated connection has an event, no signal comes before it, as in the kernel.
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

/// Fills in what the kernel has said about all other descriptors. Returns how many entries have an
/// event.
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
            // The kernel reports an end of stream, whatever is asked about reading.
            entry.events &= libc::POLLPRI;
            slice = Some(1_000_000);
        } else if (wants_in || !it.segment.has_ended()) && has_switched_in(&it.guard, &it.segment) {
            // Once the detours have ended, no doorbell is rung for a poll that does not ask for
            // bytes, and the kernel's bytes would wake it at once.
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

fn spin(joined: &[Polled], entries: &mut [pollfd], below: &Below) -> bool {
    let places = joined.iter().map(|it| {
        let place = wait::place_of_peer(it.guard.connection, &it.segment);
        (it, place)
    });
    let Some((first, place)) = nearest(places) else { return below.spin() };
    let policy: *mut SpinPolicy = first.guard.connection.spin.get();
    let mut looks = 0u32;
    let come = || {
        looks += 1;
        look(joined, entries, looks) || below.has_any(looks.is_multiple_of(WHOLE_LOOK))
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

fn sleep(
    kernel: &mut [pollfd],
    span: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    let time = span.map(sys::timespec);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    cancel::ppoll(kernel, time, mask)
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
