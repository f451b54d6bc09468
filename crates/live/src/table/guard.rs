//! Stays in calls on connections.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::descriptors;
use crate::segment::Segment;
use crate::sharing::lock;
use crate::signals::inside::Inside;
use crate::sys;
use crate::table::Phase;
use crate::table::above;
use crate::table::attaching::Attaching;
use crate::table::connection::Connection;
use crate::table::holders::{free, leave_to_others};
use crate::table::local::{Local, RETIRED, RETIRING};
use crate::table::lost::{self, LostTo};
use crate::table::numbers::{change, claim, close_own, entry, is_at, is_single_threaded, word};
use crate::table::own_number::{OwnNumber, let_another_number_be_seen};
use crate::table::word::{Entry, Word};
use crate::table::{self, connection, is_owner, local, settle, taken};

/// The word of the descriptor with which the connection was made, if it still stands for it. Calls
/// on its other descriptors never bypass the library.
pub fn first_word(place: usize, connection: &Connection) -> Option<&'static AtomicU64> {
    let word = word(connection.first_fd.load(Ordering::Relaxed))?;
    let now = Word::from_bits(word.load(Ordering::Relaxed)).entry();
    (now == Entry::Connection(place)).then_some(word)
}

/// A thread's stay in a call on a connection: its memory stays until the stay ends.
pub struct Guard {
    pub place: usize,
    /// The descriptor under which the program has made the call.
    pub fd: c_int,
    pub connection: &'static Connection,
    local: &'static Local,
    /// Dropped after the stay has ended.
    _inside: Inside,
}

/// A stay that calls the kernel by a number of its own, which nobody closes.
pub struct Apart {
    /// Closed before the stay ends.
    _number: NumberApart,
    guard: Guard,
}

/// A duplicate that a call makes of a descriptor, so that no thread closes it meanwhile.
pub struct NumberApart(c_int);

impl NumberApart {
    /// `None` if no descriptor is free.
    pub fn make(fd: c_int) -> Option<Self> {
        let _errno = sys::KeepErrno::new();
        // No thread forks meanwhile.
        let _attaching = is_owner().then(Attaching::begin);
        let own = descriptors::duplicate(fd).ok()?;
        note_apart(0, own as u32 + 1);
        Some(Self(own))
    }

    pub const fn fd(&self) -> c_int {
        self.0
    }
}

impl Drop for NumberApart {
    fn drop(&mut self) {
        let _errno = sys::KeepErrno::new();
        // No thread forks meanwhile.
        let _attaching = is_owner().then(Attaching::begin);
        note_apart(self.0 as u32 + 1, 0);
        sys::close(self.0);
    }
}

/// The descriptors of calls ([`NumberApart`]), plus one, as far as there is room: the child of a
/// fork has no use for them.
static APART: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];

/// Replaces one descriptor by another. The child of a `vfork` has descriptors of its own.
fn note_apart(from: u32, to: u32) {
    let order = Ordering::Relaxed;
    let _ = is_owner()
        && APART.iter().any(|number| number.compare_exchange(from, to, order, order).is_ok());
}

/// Closes what a fork has copied of the calls of other threads.
pub fn close_numbers_apart() {
    for number in &APART {
        if let Some(own) = number.swap(0, Ordering::Relaxed).checked_sub(1) {
            sys::close(own as c_int);
        }
    }
}

impl std::ops::Deref for Apart {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.guard
    }
}

/// The data of a stay before it begins: only the [`Guard`] made of it ends it. A guard that is made
/// where it stays is not stored and loaded again, which would cost 4 ns per call.
#[must_use]
pub struct Entered {
    place: usize,
    fd: c_int,
    connection: &'static Connection,
    local: &'static Local,
}

impl Entered {
    #[inline(always)]
    pub fn guard(self) -> Guard {
        let Self { place, fd, connection, local } = self;
        Guard { place, fd, connection, local, _inside: Inside::begun() }
    }
}

/// Enters a call on a descriptor; `None` if it stands for no connection. Waits while another thread
/// replaces the connection.
#[inline(always)]
pub fn come_in(fd: c_int) -> Option<Entered> {
    loop {
        let place = match entry(fd) {
            Entry::Connection(place) => place,
            Entry::Unplaced => settle(fd)?,
            _ => return None,
        };
        let (connection, local) = (connection(place)?, local(place)?);
        Inside::begin();
        local.come_in();
        // In this order: a thread that shuts others out sees this call, or is seen by it, or has
        // changed the descriptor.
        if local.is_shut() {
            local.wait_until_open();
        }
        if is_at(fd, place) {
            return Some(Entered { place, fd, connection, local });
        }
        if !is_to_come_again(place, fd, connection, local) {
            return None;
        }
    }
}

/// Leaves a connection whose descriptor was taken away meanwhile. Returns whether the descriptor
/// may stand for another one.
#[cold]
#[inline(never)]
fn is_to_come_again(
    place: usize,
    fd: c_int,
    connection: &'static Connection,
    local: &'static Local,
) -> bool {
    drop(Entered { place, fd, connection, local }.guard());
    taken::await_end(fd)
}

/// Enters a connection, for calls that are not made for every message.
#[inline]
pub fn enter(fd: c_int) -> Option<Guard> {
    come_in(fd).map(Entered::guard)
}

/// Enters a connection that already has a place in the table.
#[inline]
pub fn enter_placed(fd: c_int) -> Option<Guard> {
    if entry(fd) == Entry::Unplaced && !(taken::await_end(fd) && entry(fd) != Entry::Unplaced) {
        return None;
    }
    enter(fd)
}

/// Remembers that a connection stays with the kernel for good.
pub fn let_pass(guard: &Guard) {
    if let Some(word) = word(guard.fd) {
        change(word, |word| (word.entry() == Entry::Connection(guard.place)).then(|| word.plain()));
    }
}

/// Returns the connection at a place that an `epoll` instance follows. The instance's lock is held:
/// a connection is unfollowed under that lock before its place is retired, so this stay need not be
/// counted.
pub fn followed(place: usize, fd: c_int) -> Option<ManuallyDrop<Guard>> {
    let (connection, local) = (connection(place)?, local(place)?);
    let _inside = Inside::begun();
    Some(ManuallyDrop::new(Guard { place, fd, connection, local, _inside }))
}

/// Enters a call on a connection by its place, under a descriptor that the table does not know: one
/// of the library's own, or one in the child of a vfork, whose parent waits.
pub fn borrowed(place: usize, fd: c_int) -> Option<Guard> {
    let (connection, local) = (connection(place)?, local(place)?);
    Inside::begin();
    local.come_in();
    Some(Guard { place, fd, connection, local, _inside: Inside::begun() })
}

/// A stay of the child of a `vfork`, whose parent owns the memory, in a connection that the child
/// knows by a number of its own. It is never the last stay: the thread that closes the last
/// descriptor waits for it.
pub struct Visit {
    place: usize,
    guard: Option<Guard>,
}

impl Visit {
    pub fn begin(place: usize, fd: c_int, cookie: u64) -> Self {
        let mut visit = Self { place, guard: None };
        let Some(local) = local(place) else { return visit };
        local.visitors.fetch_add(1, Ordering::SeqCst);
        if local.has_descriptors() {
            let is_there = |it: &Guard| it.connection.cookie.load(Ordering::SeqCst) == cookie;
            visit.guard = borrowed(place, fd).filter(is_there);
        }
        visit
    }

    /// The stay, unless the place is another connection's by now, or about to be.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        drop(self.guard.take());
        if let Some(local) = local(self.place) {
            local.visitors.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Guard {
    pub fn local(&self) -> &'static Local {
        self.local
    }

    /// Gives the connection its segment and the events of both ends. Called by the one process that holds
    /// the connection, before the phase is joined.
    pub fn attach(&self, segment: Segment, own_event: c_int, peer_event: c_int) {
        let local = self.local;
        for (place, event) in [(&local.own_event, own_event), (&local.peer_event, peer_event)] {
            claim(event);
            place.set(event);
        }
        self.connection.attach(segment);
    }

    /// Whether no other call of this process is inside the connection. From now on no call bypasses
    /// the library, until [`Guard::hush`].
    pub fn is_alone(&self) -> bool {
        self.is_alone_with(1)
    }

    fn is_alone_with(&self, stays: u32) -> bool {
        let mut inside = 0;
        if let Some(word) = first_word(self.place, self.connection) {
            let is_here = |word: Word| word.entry() == Entry::Connection(self.place);
            let before =
                change(word, |word| (is_here(word) && word.quiet() > 0).then(|| word.hushed(0)));
            // Another thread may have put something else at the descriptor since.
            if is_here(before) {
                inside = before.inside() + u32::from(before.is_controlled());
                let operations = &self.connection.operations;
                let counted = operations.load(Ordering::Relaxed);
                operations.store(counted.saturating_sub(before.quiet()), Ordering::Relaxed);
            }
        }
        inside == 0 && self.local.users.load(Ordering::SeqCst) == stays
    }

    /// Keeps the other threads of this process out of a joined connection, until
    /// [`Guard::lets_others_in`]. False if another thread is inside; this thread has `stays` stays.
    pub fn shuts_others_out(&self, stays: u32) -> bool {
        if !is_owner() {
            // In the child of a vfork the descriptors are its own, and nobody else's.
            return true;
        }
        self.local.shut_by.store(lock::thread(), Ordering::SeqCst);
        let alone = self.is_alone_with(stays);
        if !alone {
            self.lets_others_in();
        }
        alone
    }

    pub fn lets_others_in(&self) {
        if is_owner() {
            self.local.shut_by.store(0, Ordering::SeqCst);
        }
    }

    /// The descriptor of the connection's socket, for the kernel: that of the call, or one of the
    /// library's own once another thread has closed it.
    #[inline]
    pub fn socket(&self) -> c_int {
        match self.local.kept.number() {
            // The child of a vfork has descriptors of its own.
            Some(kept) if !self.is_current() && is_owner() => kept,
            _ => self.fd,
        }
    }

    /// A stay of the same thread that may last, also where the program does not know that its
    /// descriptor is in use: another thread may close it and reuse its number. `None` if no
    /// descriptor is free.
    pub fn apart(&self) -> Option<Apart> {
        loop {
            let socket = self.socket();
            let number = NumberApart::make(socket)?;
            // A descriptor that was closed was another's only after this one was no more.
            if self.socket() == socket {
                let guard = borrowed(self.place, number.fd())?;
                return Some(Apart { _number: number, guard });
            }
        }
    }

    /// Duplicates the socket for the threads that are in a call on the connection, so that they can
    /// go on as they would in the kernel. To be called after this descriptor has been removed from
    /// the table and before it is closed. False if there are no such threads, or no free
    /// descriptor.
    pub fn keeps_socket_for_others(&self) -> bool {
        if !self.has_others() || self.connection.segment().is_none() {
            return false;
        }
        let kept = &self.local.kept;
        if kept.number().is_none()
            && let Some(own) = OwnNumber::make(self.fd)
        {
            kept.set(own);
        }
        kept.number().is_some()
    }

    /// Whether other calls of this process are inside.
    pub fn has_others(&self) -> bool {
        self.local.users.load(Ordering::SeqCst) > 1
    }

    /// Lets the calls inside make the system calls for which they have read the descriptor. A
    /// thread that sleeps until something comes has made its call.
    pub fn lets_others_see_another_number(&self) {
        let others = || self.local.users.load(Ordering::SeqCst).saturating_sub(1);
        // With one thread those inside are what this handler has interrupted.
        let_another_number_be_seen(|| {
            !is_single_threaded() && others() > 0 && others() > self.local.blocked.asleep(self.fd)
        });
    }

    /// Whether the descriptor still stands for the connection.
    pub fn is_current(&self) -> bool {
        is_at(self.fd, self.place)
    }

    /// Whether, and to what, another thread has taken the descriptor away under this call.
    pub fn number_lost_to(&self) -> Option<LostTo> {
        self.local.lost.to(self.fd).filter(|_| !self.is_current())
    }

    /// Waits until the kernel has put at the descriptor what it was lost to. False if that does not
    /// come.
    pub fn awaits_another(&self) -> bool {
        let cookie = self.connection.cookie.load(Ordering::SeqCst);
        lost::await_put(|| self.is_current() || sys::cookie(self.fd) != Some(cookie))
    }

    /// Lets the next calls bypass the library; all of them count as made. The caller has the right
    /// to join, so that no thread joins meanwhile.
    pub fn hush(&self, calls: u32) {
        let Some(word) = first_word(self.place, self.connection) else { return };
        let quiet = |word: Word| {
            let here = word.entry() == Entry::Connection(self.place) && word.quiet() == 0;
            here.then(|| word.hushed(calls))
        };
        let before = change(word, quiet);
        if let Some(after) = quiet(before) {
            let operations = &self.connection.operations;
            let counted = operations.load(Ordering::Relaxed);
            operations.store(counted.saturating_add(after.quiet()), Ordering::Relaxed);
        }
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.local.go_out() == 1 && self.local.descriptors.load(Ordering::SeqCst) == 0 {
            // By its parts: a guard whose place in memory is asked for has one, in every call.
            retire(self.place, self.fd, self.connection, self.local);
        }
    }
}

/// Ends a connection that has neither descriptor nor user in this process.
#[cold]
fn retire(place: usize, fd: c_int, connection: &'static Connection, local: &'static Local) {
    let order = Ordering::SeqCst;
    // The thread that moves the count from none to the mark retires the place, unless the count
    // concerns an earlier connection of the place and a call is inside this one.
    loop {
        if local.descriptors.compare_exchange(0, RETIRING, order, order).is_err() {
            return;
        }
        if local.users.load(order) == 0 {
            break;
        }
        local.descriptors.store(0, order);
        if local.users.load(order) != 0 {
            return;
        }
    }
    if local.closing.swap(false, order) {
        let _errno = sys::KeepErrno::new();
        let _inside = Inside::begun();
        above::say_how(&ManuallyDrop::new(Guard { place, fd, connection, local, _inside }));
    }
    release(place, fd, connection, local);
}

/// Releases a place to which no descriptor leads any more.
pub fn release(place: usize, fd: c_int, connection: &'static Connection, local: &'static Local) {
    // As soon as this process holds it no more, others may take the place for another connection.
    let segment = connection.segment();
    // A process that is about to end is no holder any more, whatever its destructors close.
    let last = !local.let_go.swap(false, Ordering::SeqCst) && !leave_to_others(connection);
    if last {
        let _inside = Inside::begun();
        say_how_as_last(&ManuallyDrop::new(Guard { place, fd, connection, local, _inside }));
    }
    if let Some(segment) = segment {
        // SAFETY: no descriptor leads here any more and no thread is inside.
        unsafe { segment.unmap() };
        let events = [local.own_event.take(), local.peer_event.take()];
        events.into_iter().flatten().for_each(close_own);
    }
    local.close_kept();
    local.descriptors.store(RETIRED, Ordering::Release);
    if last {
        free(connection);
    }
    table::freed(place);
}

/// Tells the other end how this one closes, if the other processes left that to this one only after
/// it had checked, and the descriptor still stands for the connection.
fn say_how_as_last(guard: &Guard) {
    let connection = guard.connection;
    let cookie = connection.cookie.load(Ordering::Relaxed);
    if connection.phase() == Phase::JOINED {
        let _errno = sys::KeepErrno::new();
        if sys::cookie(guard.socket()) == Some(cookie) {
            above::say_how(guard);
        }
    }
}

/// Removes a process from the holders that no longer copies, and in which no other thread knows the
/// connection.
pub fn leave(guard: &Guard) {
    if !leave_to_others(guard.connection) {
        say_how_as_last(guard);
        free(guard.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close;
    use crate::handover::pump;

    use crate::sample::Sample;
    use crate::segment::closed;
    use std::sync::atomic::AtomicBool;

    fn look(fd: c_int) -> Result<usize, sys::Errno> {
        let mut byte = 0u8;
        sys::recv(fd, &raw mut byte, 1, libc::MSG_DONTWAIT)
    }

    #[test]
    fn who_is_inside_goes_on_when_the_number_is_closed_and_tells_the_end() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        assert_eq!(guard.socket(), sample.fd);
        drop(close::forget(sample.fd));
        let kept = guard.socket();
        assert_ne!(kept, sample.fd);
        sys::close(sample.fd);
        assert_eq!(look(sample.other), Err(libc::EAGAIN));
        let side = segment.side(guard.connection.role());
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::OPEN);
        sys::write(sample.other, b"!");
        assert_eq!(look(kept), Ok(1));
        drop(guard);
        assert_eq!(look(sample.other), Ok(0));
    }

    #[test]
    fn who_closes_the_last_descriptor_gives_the_place_back_after_a_visit() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (place, connection, local) = (guard.place, guard.connection, guard.local());
        connection.cookie.store(u64::MAX - 7, Ordering::SeqCst);
        drop(guard);
        assert!(Visit::begin(place, sample.fd, 1).guard().is_none(), "it is another connection");
        let visit = Visit::begin(place, sample.fd, u64::MAX - 7);
        assert!(visit.guard().is_some());
        let holders = || connection.holders.load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| close::forget(sample.fd));
            while local.has_descriptors() {
                sys::sleep(10_000);
            }
            assert!(Visit::begin(place, sample.fd, u64::MAX - 7).guard().is_none());
            sys::sleep(5_000_000);
            assert!(!closing.is_finished() && holders() == 1);
            drop(visit);
        });
        assert!(!local.has_descriptors() && local.kept.number().is_none());
        sys::close(sample.fd);
        assert_eq!(look(sample.other), Ok(0));
    }

    #[test]
    fn of_several_that_close_at_once_one_is_the_last() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        let (connection, side) = (guard.connection, segment.side(guard.connection.role()));
        connection.cookie.store(sys::cookie(sample.fd).unwrap(), Ordering::SeqCst);
        connection.holders.store(2, Ordering::SeqCst);
        // Each has looked, and seen the other.
        above::say_how(&guard);
        above::say_how(&guard);
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::OPEN);
        assert!(leave_to_others(connection));
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::OPEN);
        assert!(!leave_to_others(connection));
        say_how_as_last(&guard);
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::ORDERLY);
        assert_eq!(connection.phase(), Phase::PLAIN);
    }

    #[test]
    fn a_place_is_given_back_once() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (place, connection) = (guard.place, guard.connection);
        drop(guard);
        drop(close::forget(sample.fd));
        // A thread that has asked before what the descriptor stands for.
        drop(borrowed(place, sample.fd));
        // Another test may have the place by now.
        assert!(connection.holders.load(Ordering::SeqCst) < 2);
        sys::close(sample.fd);
    }

    /// Whoever has found the descriptor before it was taken away comes too late, however late that
    /// is.
    #[test]
    fn who_was_kept_out_finds_what_the_number_stands_for_by_then() {
        for delay in [0, 1_000_000] {
            let sample = Sample::new();
            let (guard, _) = sample.enter();
            assert!(guard.shuts_others_out(1));
            let begun = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    begun.store(true, Ordering::SeqCst);
                    enter(sample.fd).is_some()
                });
                while !begun.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                sys::sleep(delay);
                pump::hand_over(sample.fd);
                guard.lets_others_in();
                assert!(!other.join().unwrap());
            });
        }
    }

    #[test]
    fn nobody_closes_a_number_while_another_connection_is_put_there() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        assert!(guard.shuts_others_out(1));
        let open = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                drop(close::forget(sample.fd));
                open.load(Ordering::SeqCst)
            });
            sys::sleep(1_000_000);
            assert!(guard.is_current());
            open.store(true, Ordering::SeqCst);
            guard.lets_others_in();
            assert!(other.join().unwrap() && !guard.is_current());
        });
    }

    #[test]
    fn a_stay_apart_does_not_end_with_the_number() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let apart = guard.apart().unwrap();
        assert_ne!(apart.socket(), sample.fd);
        drop(close::forget(sample.fd));
        sys::close(sample.fd);
        sys::write(sample.other, b"!");
        assert_eq!(look(apart.socket()), Ok(1));
        drop(apart);
        assert_eq!(look(sample.other), Err(libc::EAGAIN));
        drop(guard);
        assert_eq!(look(sample.other), Ok(0));
    }
}
