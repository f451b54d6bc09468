//! Which places of connections are free, and recovering those whose process has ended.
//!
//! A process that ends without closing, or is killed, leaves its places taken and its accelerated
//! connections counted. A process that finds no free place, or has reached its limit, searches for
//! such places.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use weft_protocol::break_even::BreakEven;

use crate::sys;
use crate::table::holders::{self, Looked, hold_no_more};
use crate::table::{self, CONNECTIONS, Phase, connection, local};

/// Where the search for a free place begins.
static LOWEST_FREE: AtomicU32 = AtomicU32::new(0);
/// When the last looked for places of ended processes, in nanoseconds.
static RECLAIMED: AtomicU64 = AtomicU64::new(0);
/// No more often than this, in nanoseconds.
const EVERY: u64 = 20_000_000;

/// Begins the life of a connection at a place that was free.
pub fn take(fd: c_int, kind: u32, first: BreakEven) -> Option<usize> {
    take_from(LOWEST_FREE.load(Ordering::Relaxed), fd, kind, first)
        .or_else(|| reclaim().then(|| take_from(0, fd, kind, first))?)
}

fn take_from(lowest: u32, fd: c_int, kind: u32, first: BreakEven) -> Option<usize> {
    for place in lowest as usize..CONNECTIONS {
        let (connection, local) = (connection(place)?, local(place)?);
        let free = connection.phase() == Phase::FREE && !local.is_used();
        let mine = || {
            let order = Ordering::Acquire;
            connection.holders.compare_exchange(0, 1, order, Ordering::Relaxed).is_ok()
        };
        if !free || !mine() {
            continue;
        }
        connection.begin(table::role_of(kind), kind, first.after());
        connection.keeper.store(table::owner(), Ordering::Relaxed);
        connection.first_fd.store(fd, Ordering::Relaxed);
        local.begin();
        LOWEST_FREE.store(place as u32 + 1, Ordering::Relaxed);
        table::use_place(place);
        return Some(place);
    }
    None
}

/// Remembers that a place is free.
pub fn freed(place: usize) {
    if LOWEST_FREE.load(Ordering::Relaxed) > place as u32 {
        LOWEST_FREE.fetch_min(place as u32, Ordering::Relaxed);
    }
}

/// Frees the places that a process held alone which has ended; false if that was tried just now. Other
/// processes of the family may have freed some, too.
#[cold]
pub fn reclaim() -> bool {
    let (now, last, order) = (sys::coarse_now(), &RECLAIMED, Ordering::Relaxed);
    let before = last.load(order);
    let is_due = before == 0 || now.wrapping_sub(before) >= EVERY;
    if !is_due || last.compare_exchange(before, now, order, order).is_err() {
        return false;
    }
    let _errno = sys::KeepErrno::new();
    let (mut known, mut looked) = ((table::owner(), false), Looked::default());
    for place in table::used_by_any() {
        let (Some(connection), Some(local)) = (connection(place), local(place)) else { break };
        holders::bury(connection, &mut looked);
        if !local.has_descriptors() && holders::is_deserted(connection, &mut looked) {
            hold_no_more(connection);
        }
        let keeper = connection.keeper.load(Ordering::SeqCst);
        if keeper == 0 || connection.holders.load(Ordering::SeqCst) != 1 {
            continue;
        }
        if known.0 != keeper {
            known = (keeper, !sys::is_there(keeper));
        }
        let (nobody, order) = (0, Ordering::SeqCst);
        if known.1 && connection.keeper.compare_exchange(keeper, nobody, order, order).is_ok() {
            hold_no_more(connection);
        }
    }
    LOWEST_FREE.store(0, Ordering::Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, ended};

    #[test]
    fn the_places_of_processes_that_have_ended_are_taken_again() {
        let lost = Sample::new();
        let place = lost.enter().0.place;
        let it = connection(place).unwrap();
        let look = || {
            RECLAIMED.store(0, Ordering::Relaxed);
            assert!(reclaim() && !reclaim(), "twice at once");
            it.holders.load(Ordering::SeqCst)
        };
        assert_eq!(look(), 1, "its process is this one");
        it.keeper.store(0, Ordering::SeqCst);
        assert_eq!(look(), 1, "nobody knows who has it");
        it.keeper.store(ended(), Ordering::SeqCst);
        it.holders.store(2, Ordering::SeqCst);
        assert_eq!(look(), 2, "another has it too");
        it.holders.store(1, Ordering::SeqCst);
        assert_eq!(it.phase(), Phase::JOINED);
        let segment = it.segment().unwrap();
        assert_eq!(look(), 0);
        assert_eq!((it.phase(), it.segment().is_none()), (Phase::FREE, true));
        // The sample gives back what it made.
        it.holders.store(1, Ordering::SeqCst);
        crate::sample::join(it);
        it.segment.store(segment.address(), Ordering::SeqCst);
    }
}
