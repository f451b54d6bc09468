//! Stays in calls on connections, and what a process alone knows of a connection.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::close;
use crate::joining::attach::Attaching;
use crate::leaving::departure::Queue;
use crate::sharing::holders::{free, leave_to_others};
use crate::sharing::lock;
use crate::sys;
use crate::sys::limits;
use crate::table::blocked::Blocked;
use crate::table::connection::{Connection, Registration, phase};
use crate::table::kept::{Kept, let_another_number_be_seen};
use crate::table::lost::{self, Lost, LostTo};
use crate::table::numbers::{change, close_own, entry, is_at, is_single_threaded, word};
use crate::table::word::{Entry, Word};
use crate::table::{self, REGISTRATIONS, connection, is_owner, local, settle};

/// What stands for the number of descriptors while the place is given back.
const RETIRING: u32 = 1 << 31;
/// The same once it is free again.
const RETIRED: u32 = 1 << 30;

/// How long a child of a `vfork` is waited for, in nanoseconds: longer than it takes to leave.
pub const VISIT: u64 = 4_000_000_000;

/// What this process alone knows about a connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Local {
    /// Descriptors of this process that stand for the connection, or a mark.
    descriptors: AtomicU32,
    /// Threads of this process inside a call on it.
    users: AtomicU32,
    /// The thread that keeps the others out while it puts another connection of the kernel in the
    /// place of this one; zero is none.
    shut_by: AtomicU32,
    /// Children of a `vfork` inside, which have this memory and numbers of their own.
    visitors: AtomicU32,
    /// Threads that make it leave.
    pub leaving: Queue,
    /// For threads under whose calls their number was closed.
    kept: Kept,
    /// The number that was last taken away.
    lost: Lost,
    /// The threads that it was taken from, if they sleep.
    pub blocked: Blocked,
    /// Whether the last to leave is to tell the other end how this one closes.
    pub closing: AtomicBool,
    /// Whether the last fork counted the child among the holders.
    pub counted: AtomicBool,
    /// Whether this process has taken itself out of the holders.
    pub let_go: AtomicBool,
    /// Whether an epoll instance has ever followed the connection: then the registrations have been
    /// written, which a short connection never looks at.
    pub watched: AtomicBool,
    pub registrations: UnsafeCell<[Registration; REGISTRATIONS]>,
}

impl Local {
    /// Counts a call in. With one thread the count needs no locked instruction: a signal handler's
    /// own calls come and go within.
    #[inline]
    fn come_in(&self) {
        if is_single_threaded() {
            self.users.store(self.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.users.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The beginning of a connection's life.
    pub fn begin(&self) {
        self.let_go.store(false, Ordering::Relaxed);
        self.counted.store(false, Ordering::Relaxed);
        self.lost.begin();
        self.descriptors.store(1, Ordering::Relaxed);
        if self.watched.load(Ordering::Relaxed) {
            self.watched.store(false, Ordering::Relaxed);
            // SAFETY: the place was free, so no epoll instance follows it.
            unsafe { *self.registrations.get() = [Registration::default(); REGISTRATIONS] };
        }
    }

    /// Whether this process has a descriptor of the connection.
    pub fn has_descriptors(&self) -> bool {
        (1..RETIRED).contains(&self.descriptors.load(Ordering::SeqCst))
    }

    /// Whether this process has more than one descriptor of the connection.
    pub fn has_several_descriptors(&self) -> bool {
        (2..RETIRED).contains(&self.descriptors.load(Ordering::SeqCst))
    }

    /// Counts one descriptor more.
    pub fn gains_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one descriptor less; whether it was the last.
    pub fn loses_descriptor(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether a thread of this process is inside, or gives the place back.
    pub fn is_used(&self) -> bool {
        let is_retiring = self.descriptors.load(Ordering::Relaxed) == RETIRING;
        is_retiring || self.users.load(Ordering::Relaxed) != 0
    }

    /// In the child of a fork, where all other threads are gone.
    pub fn desert(&self) {
        self.users.store(0, Ordering::Relaxed);
        self.shut_by.store(0, Ordering::Relaxed);
        self.visitors.store(0, Ordering::Relaxed);
        self.let_go.store(false, Ordering::Relaxed);
        self.leaving.desert();
        self.blocked.clear();
        self.closing.store(false, Ordering::Relaxed);
        let order = Ordering::Relaxed;
        let _ = self.descriptors.compare_exchange(RETIRING, RETIRED, order, order);
        self.close_kept();
    }

    /// In the child of a fork, which was not counted among the holders: what this stands for is the
    /// parent's.
    pub fn forget(&self) {
        if self.has_descriptors() {
            self.descriptors.store(RETIRED, Ordering::Relaxed);
        }
    }

    /// In a process whose numbers are not this memory's: those kept here stand for something else there.
    pub fn forget_kept(&self) {
        let _ = self.kept.take();
    }

    fn close_kept(&self) {
        if let Some(kept) = self.kept.take() {
            close_own(kept);
        }
    }

    /// Waits until no child of a `vfork` is inside, once there is no descriptor: the last to leave gives
    /// the numbers back, which such a child does not have. Not for long: it may have been killed.
    pub fn await_visitors(&self) {
        let until = sys::now() + VISIT;
        while self.is_visited() && sys::now() < until {
            sys::sleep(20_000);
        }
    }

    /// Whether a child of a `vfork` is inside.
    pub fn is_visited(&self) -> bool {
        self.visitors.load(Ordering::SeqCst) > 0
    }

    /// To be called when a number is forgotten, before the kernel closes it or gives it to something else.
    pub fn loses_number(&self, fd: c_int, to: LostTo) {
        self.lost.set(fd, to);
    }

    /// Whether a number was last lost at a time or after it.
    pub fn lost_since(&self, time: u64) -> bool {
        self.lost.is_since(time)
    }

    /// Whether another thread keeps this one out.
    #[inline]
    fn is_shut(&self) -> bool {
        let by = self.shut_by.load(Ordering::SeqCst);
        by != 0 && by != lock::thread()
    }

    #[cold]
    fn wait_until_open(&self) {
        // The other thread may be one to which this one does not give way.
        while self.is_shut() {
            sys::sleep(20_000);
        }
    }

    /// Counts a call out; returns how many there were.
    #[inline]
    fn go_out(&self) -> u32 {
        if is_single_threaded() {
            let users = self.users.load(Ordering::Relaxed);
            self.users.store(users.wrapping_sub(1), Ordering::Relaxed);
            users
        } else {
            self.users.fetch_sub(1, Ordering::SeqCst)
        }
    }
}

/// The word of the number by which the connection was made, if it still stands for it. By no other
/// number do calls pass by.
pub fn first_word(place: usize, connection: &Connection) -> Option<&'static AtomicU64> {
    let word = word(connection.first_fd.load(Ordering::Relaxed))?;
    let now = Word::from_bits(word.load(Ordering::Relaxed)).entry();
    (now == Entry::Connection(place)).then_some(word)
}

/// A thread's stay in a call on a connection: its memory stays until the stay ends.
pub struct Guard {
    pub place: usize,
    /// The number under which the program has made the call.
    pub fd: c_int,
    pub connection: &'static Connection,
    local: &'static Local,
}

/// A stay that calls the kernel by a number of its own, which nobody closes.
pub struct Apart(Guard);

/// The numbers of such stays, plus one, as far as there is room: the child of a fork has no use for
/// them.
static APART: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];

/// Puts a number in the place of another. Those of the child of a vfork are its own.
fn note_apart(from: u32, to: u32) {
    let order = Ordering::Relaxed;
    let _ = is_owner()
        && APART.iter().any(|number| number.compare_exchange(from, to, order, order).is_ok());
}

/// Closes what a fork has copied of the stays of other threads.
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
        &self.0
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _errno = sys::KeepErrno::new();
        // Nobody forks meanwhile.
        let _attaching = is_owner().then(Attaching::begin);
        note_apart(self.0.fd as u32 + 1, 0);
        sys::close(self.0.fd);
    }
}

/// Enters a call on a descriptor; `None` if it stands for no connection. While another thread puts
/// another connection in the place of this one, it waits.
#[inline(always)]
pub fn enter(fd: c_int) -> Option<Guard> {
    let place = match entry(fd) {
        Entry::Connection(place) => place,
        Entry::Unplaced => settle(fd)?,
        _ => return None,
    };
    let (connection, local) = (connection(place)?, local(place)?);
    local.come_in();
    // In this order: whoever shuts others out sees this one, or is seen, or has changed the number.
    if local.is_shut() {
        local.wait_until_open();
    }
    // Made anew for either end: one that is moved is stored and loaded, which costs 4 ns a call.
    if is_at(fd, place) {
        return Some(Guard { place, fd, connection, local });
    }
    drop(Guard { place, fd, connection, local });
    None
}

/// The same for one that has a place already.
#[inline]
pub fn enter_placed(fd: c_int) -> Option<Guard> {
    if entry(fd) == Entry::Unplaced { None } else { enter(fd) }
}

/// Remembers that a connection is the kernel's for good.
pub fn let_pass(guard: &Guard) {
    if let Some(word) = word(guard.fd) {
        change(word, |word| (word.entry() == Entry::Connection(guard.place)).then(|| word.plain()));
    }
}

/// Looks at a place that an epoll instance follows, with the instance's lock held: it is
/// unfollowed, which needs the lock, before it is retired, so nobody need be counted.
pub fn followed(place: usize, fd: c_int) -> Option<ManuallyDrop<Guard>> {
    let (connection, local) = (connection(place)?, local(place)?);
    Some(ManuallyDrop::new(Guard { place, fd, connection, local }))
}

/// Enters a call on a connection by its place, under a number that the table does not know: one of
/// the library's own, or one in the child of a vfork, whose parent waits.
pub fn borrowed(place: usize, fd: c_int) -> Option<Guard> {
    let (connection, local) = (connection(place)?, local(place)?);
    local.come_in();
    Some(Guard { place, fd, connection, local })
}

/// A stay of the child of a `vfork`, whose parent has the memory, in a connection that it knows by a number
/// of its own. It is never the last: who gives up the last descriptor waits for it.
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

    /// Whether no other call of this process is inside the connection. From now on none passes by
    /// until [`Guard::hush`].
    pub fn is_alone(&self) -> bool {
        self.is_alone_with(1)
    }

    fn is_alone_with(&self, stays: u32) -> bool {
        let mut inside = 0;
        if let Some(word) = first_word(self.place, self.connection) {
            let before = change(word, |word| (word.quiet() > 0).then(|| word.hushed(0)));
            inside = before.inside();
            let operations = &self.connection.operations;
            let counted = operations.load(Ordering::Relaxed);
            operations.store(counted.saturating_sub(before.quiet()), Ordering::Relaxed);
        }
        inside == 0 && self.local.users.load(Ordering::SeqCst) == stays
    }

    /// Keeps the other threads of this process out of a joined connection, until
    /// [`Guard::lets_others_in`]. False if one is inside; this one has so many stays.
    pub fn shuts_others_out(&self, stays: u32) -> bool {
        if !is_owner() {
            // In the child of a vfork the numbers are its own, and nobody else's.
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

    /// The number of the connection's socket, for the kernel: that of the call, or one of the library's
    /// own once another thread has closed it.
    #[inline]
    pub fn socket(&self) -> c_int {
        match self.local.kept.number() {
            // The child of a vfork has numbers of its own.
            Some(kept) if !self.is_current() && is_owner() => kept,
            _ => self.fd,
        }
    }

    /// A stay of the same thread that may last, also where the program does not know that its
    /// descriptor is used: another thread may close it and get its number for something else. `None` if
    /// there is no other number.
    pub fn apart(&self) -> Option<Apart> {
        let _errno = sys::KeepErrno::new();
        // Nobody forks meanwhile.
        let _attaching = is_owner().then(Attaching::begin);
        loop {
            let socket = self.socket();
            let own = limits::duplicate(socket).ok()?;
            // A number that was closed was another's only after this one was no more.
            if self.socket() == socket {
                note_apart(0, own as u32 + 1);
                return borrowed(self.place, own).map(Apart);
            }
            sys::close(own);
        }
    }

    /// To be called when this number is forgotten and not yet closed: threads that are in a call on the
    /// connection go on with its socket under another, as they would in the kernel. False if there are
    /// none, or there is no number for them.
    pub fn keeps_socket_for_others(&self) -> bool {
        if !self.has_others() || self.connection.segment().is_none() {
            return false;
        }
        let kept = &self.local.kept;
        if kept.number().is_none()
            && let Some(own) = Kept::make(self.fd)
        {
            kept.set(own);
        }
        kept.number().is_some()
    }

    /// Whether other calls of this process are inside.
    pub fn has_others(&self) -> bool {
        self.local.users.load(Ordering::SeqCst) > 1
    }

    /// Lets those inside make the calls for which they have asked for the number.
    pub fn lets_others_see_another_number(&self) {
        // With one thread those inside are what this handler has interrupted.
        let_another_number_be_seen(|| !is_single_threaded() && self.has_others());
    }

    /// Whether the descriptor still stands for the connection.
    pub fn is_current(&self) -> bool {
        is_at(self.fd, self.place)
    }

    /// Whether, and to what, another thread has taken the number away under this call.
    pub fn number_lost_to(&self) -> Option<LostTo> {
        self.local.lost.to(self.fd).filter(|_| !self.is_current())
    }

    /// Waits until the kernel has put at the number what it was lost to. False if that does not come.
    pub fn awaits_another(&self) -> bool {
        let cookie = self.connection.cookie.load(Ordering::SeqCst);
        lost::await_put(|| self.is_current() || sys::cookie(self.fd) != Some(cookie))
    }

    /// Lets the next calls pass by, all of which count as made. Called with the right to join, so
    /// that nobody joins meanwhile.
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
    // Whoever moves the count from none to the mark is the one that retires, unless this is about an
    // earlier connection of the place, and somebody is inside this one.
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
        close::say_how(&ManuallyDrop::new(Guard { place, fd, connection, local }));
    }
    release(place, fd, connection, local);
}

/// Gives a place back to which no descriptor leads any more.
pub fn release(place: usize, fd: c_int, connection: &'static Connection, local: &'static Local) {
    // As soon as this process holds it no more, others may take the place for another connection.
    let segment = connection.segment();
    let events = [&connection.own_event, &connection.peer_event];
    let events = events.map(|event| event.load(Ordering::SeqCst));
    // A process that is about to end is no holder any more, whatever its destructors close.
    let last = !local.let_go.swap(false, Ordering::SeqCst) && !leave_to_others(connection);
    if last {
        say_how_as_last(&ManuallyDrop::new(Guard { place, fd, connection, local }));
    }
    if let Some(segment) = segment {
        // SAFETY: no descriptor leads here any more and no thread is inside.
        unsafe { segment.unmap() };
        events.into_iter().filter(|event| *event >= 0).for_each(close_own);
    }
    local.close_kept();
    local.descriptors.store(RETIRED, Ordering::Release);
    if last {
        free(connection);
    }
    table::freed(place);
}

/// Tells the other end how this one closes, if the others have left it to this one only after it had
/// looked, and the number stands for the connection still.
fn say_how_as_last(guard: &Guard) {
    let connection = guard.connection;
    let cookie = connection.cookie.load(Ordering::Relaxed);
    if connection.phase() == phase::JOINED {
        let _errno = sys::KeepErrno::new();
        if sys::cookie(guard.socket()) == Some(cookie) {
            close::say_how(guard);
        }
    }
}

/// Takes a process out of the holders that copies no more, and alone in it knows the connection.
pub fn leave(guard: &Guard) {
    if !leave_to_others(guard.connection) {
        say_how_as_last(guard);
        free(guard.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::segment::closed;

    fn look(fd: c_int) -> Result<usize, sys::Errno> {
        let mut byte = 0u8;
        sys::recv(fd, &raw mut byte, 1, libc::MSG_DONTWAIT)
    }

    #[test]
    fn who_is_inside_goes_on_when_the_number_is_closed_and_tells_the_end() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        assert_eq!(guard.socket(), sample.fd);
        close::forget(sample.fd);
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
        close::say_how(&guard);
        close::say_how(&guard);
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::OPEN);
        assert!(leave_to_others(connection));
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::OPEN);
        assert!(!leave_to_others(connection));
        say_how_as_last(&guard);
        assert_eq!(side.closed.load(Ordering::SeqCst), closed::ORDERLY);
        assert_eq!(connection.phase(), phase::PLAIN);
    }

    #[test]
    fn a_place_is_given_back_once() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (place, connection) = (guard.place, guard.connection);
        drop(guard);
        close::forget(sample.fd);
        // A thread that has asked before what the number stands for.
        drop(borrowed(place, sample.fd));
        // Another test may have the place by now.
        assert!(connection.holders.load(Ordering::SeqCst) < 2);
        sys::close(sample.fd);
    }

    /// Whoever has found the number before it was taken away comes too late, however late that is.
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
                close::hand_over(sample.fd);
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
                close::forget(sample.fd);
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
        close::forget(sample.fd);
        sys::close(sample.fd);
        sys::write(sample.other, b"!");
        assert_eq!(look(apart.socket()), Ok(1));
        drop(apart);
        assert_eq!(look(sample.other), Err(libc::EAGAIN));
        drop(guard);
        assert_eq!(look(sample.other), Ok(0));
    }
}
