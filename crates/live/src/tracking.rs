//! Remembering what descriptors stand for, as the program makes sockets and connects them, and
//! forgetting it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::interpose::system_calls;
use crate::registry;
use crate::segment::Role;
use crate::sys;
use crate::table::numbers::{replace, single_threaded, word};
use crate::table::word::Word;
use crate::table::{self, Entry};

/// How many connections were ever remembered.
static LIVES: AtomicU32 = AtomicU32::new(0);

/// Remembers a new connection of a server's port. As long as only its calls matter, its word is all
/// that exists of it: it gets a place when a call enters it.
pub fn track(fd: c_int, role: Role, port: u16) {
    let Some(cell) = word(fd).filter(|_| table::is_owner()) else { return };
    if !table::remembers() || !table::has_tables() {
        return drop_stale(fd);
    }
    system_calls::look(single_threaded);
    let now = cell.load(Ordering::Relaxed);
    if now != Word::STREAM.bits() {
        drop_stale(fd);
    }
    let kind = table::kind(role, port);
    let life = LIVES.load(Ordering::Relaxed).wrapping_add(1);
    // Two threads at once may give one life twice, to two descriptors.
    LIVES.store(life, Ordering::Relaxed);
    table::reach(fd);
    registry::forget_number(fd, false);
    let new = Word::unplaced(kind, table::learned(kind), life).bits();
    if now == Word::STREAM.bits() {
        // Another thread may remember the same socket for another reason: once is enough.
        let _ = replace(cell, now, new);
    } else {
        cell.store(new, Ordering::Release);
    }
}

/// Starts tracking a TCP socket that may not be connected yet, because it is duplicated, passed on
/// or added to an `epoll` instance, which the connection must remember. Its server port is not
/// known yet.
pub fn track_early(fd: c_int) {
    let is_stream = |word: &AtomicU64| word.load(Ordering::Relaxed) == Word::STREAM.bits();
    if word(fd).is_some_and(is_stream) {
        track(fd, Role::Client, 0);
    }
}

/// Gives every connection a place: others than this process will know of it.
pub fn settle_all() {
    for fd in 0..table::reached() as c_int {
        track_early(fd);
    }
    for fd in table::newcomers() {
        table::settle(fd);
    }
}

/// Forgets a connection that has no place. False if it has one by now.
pub fn forget_newcomer(fd: c_int) -> bool {
    let Some(cell) = word(fd) else { return false };
    let mut now = cell.load(Ordering::Relaxed);
    while Word::from_bits(now).entry() == Entry::Unplaced {
        match replace(cell, now, Word::UNKNOWN.bits()) {
            Ok(()) => {
                registry::forget_number(fd, false);
                return true;
            }
            Err(bits) => now = bits,
        }
    }
    false
}

/// Remembers a connection that a listening socket gave, whose port is asked from the kernel once.
pub fn track_accepted(fd: c_int, listener: c_int) {
    let Some(word) = word(listener).filter(|_| table::is_owner()) else { return };
    if !table::remembers() {
        return drop_stale(fd);
    }
    let known = Word::from_bits(word.load(Ordering::Relaxed)).port();
    let port = known.or_else(|| sys::endpoint(fd, sys::Which::Own).map(|end| sys::port_of(&end)));
    let Some(port) = port else { return drop_stale(fd) };
    if known.is_none() {
        // An outdated port costs no more than that a connection learns from others' lives.
        let (none, listening) = (Word::UNKNOWN.bits(), Word::listener(port).bits());
        let _ = word.compare_exchange(none, listening, Ordering::Relaxed, Ordering::Relaxed);
    }
    track(fd, Role::Server, port);
}

/// Forgets what a descriptor stood for that the kernel has given out anew: it was closed past the
/// library.
pub fn drop_stale(fd: c_int) {
    if table::entry(fd) == Entry::Unplaced && forget_newcomer(fd) {
        return;
    }
    if let Some(guard) = table::enter(fd) {
        table::set_entry(fd, Entry::Unknown);
        if guard.local().loses_descriptor() {
            registry::unfollow(&guard);
        }
    } else {
        table::forget_listener(fd);
    }
}
