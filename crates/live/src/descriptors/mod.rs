//! The numbers of the library's own descriptors, chosen so that the program loses none of its own.
//!
//! `RLIMIT_NOFILE` bounds the descriptors of a process, which may raise its soft limit
//! up to a hard limit, usually a far higher one. An open descriptor stays valid if the
//! limit falls below it. So the library raises the limit for a moment while it opens its
//! descriptors, which then lie beyond the program's. Where the limit cannot be raised, they take
//! part of the last quarter of the descriptors.
//!
//! The kernel's descriptor table is as long as the highest descriptor, and each fork copies it. So
//! no descriptor is much higher than it must be.

mod pair;
mod process;

pub use pair::connection_pair;
pub use process::{Process, is_asleep};

use libc::{c_int, rlimit};

use crate::sharing::process_lock::ProcessLock;
use crate::sys::{self, Errno, call};

/// Held while the limit is raised: a child forked meanwhile would keep the raised limit.
pub static RAISING: ProcessLock = ProcessLock::new();

/// How far beyond the program's limit there may be descriptors of the library.
const ROOM: u64 = 1 << 14;
/// A program that may have more is not short of descriptors.
const MANY: u64 = 1 << 14;

/// The limit raised; `None` if it need not or cannot be.
fn raised(limit: rlimit) -> Option<rlimit> {
    let most = limit.rlim_max.min(limit.rlim_cur.saturating_add(ROOM));
    (limit.rlim_cur <= MANY && most > limit.rlim_cur)
        .then_some(rlimit { rlim_cur: most, rlim_max: limit.rlim_max })
}

/// The library's own descriptors begin here.
pub fn first_own() -> c_int {
    let limit = sys::descriptor_limit(None);
    let there_is_room = raised(limit).is_some();
    if there_is_room { limit.rlim_cur as c_int } else { last_quarter(limit) }
}

fn last_quarter(limit: rlimit) -> c_int {
    limit.rlim_cur.min(MANY) as c_int / 4 * 3
}

/// How many descriptors the library takes at most for what it may do without: the program may need
/// each, unless they lie beyond its own.
pub fn most_dispensable() -> u32 {
    // Where the kernel does not tell the limit, it is taken for the usual one.
    sys::resource_limit(libc::RLIMIT_NOFILE).map_or(OF_USUAL_LIMIT, dispensable_of)
}

/// [`most_dispensable`] of the usual limit of 1024 descriptors.
const OF_USUAL_LIMIT: u32 = 32;

fn dispensable_of(limit: rlimit) -> u32 {
    const PART: u64 = 32;
    let is_short = limit.rlim_cur <= MANY && raised(limit).is_none();
    if is_short { (limit.rlim_cur / PART).max(1) as u32 } else { u32::MAX }
}

/// Duplicates a descriptor; the duplicate is one of the library.
pub fn duplicate(fd: c_int) -> Result<c_int, Errno> {
    let limit = sys::descriptor_limit(None);
    let beyond =
        raised(limit).map_or(Err(libc::EMFILE), |_| duplicate_from(fd, limit.rlim_cur as c_int));
    beyond.or_else(|_| sys::duplicate_from(fd, last_quarter(limit)))
}

/// Duplicates a descriptor; the duplicate is one of the library and not below `first`.
pub fn duplicate_from(fd: c_int, first: c_int) -> Result<c_int, Errno> {
    with_room(|| sys::duplicate_from(fd, first))
}

/// Makes a call while there are descriptors beyond the program's limit, if that may be raised.
pub fn with_room<T>(make: impl FnOnce() -> T) -> T {
    // A handler that interrupted this finds the limit raised, and does without.
    let held = RAISING.lock();
    let limit = sys::descriptor_limit(None);
    let Some(raised) = raised(limit).filter(|_| held.is_some()) else { return make() };
    sys::descriptor_limit(Some(raised));
    let made = make();
    let now = sys::descriptor_limit(Some(limit));
    if now.rlim_cur != raised.rlim_cur {
        // The program has set another meanwhile, which counts.
        sys::descriptor_limit(Some(now));
    }
    made
}

/// Moves a descriptor of the library's own far above those that the program gets, so that the
/// descriptors that the program sees are those that it would see without the library.
pub fn move_high(fd: c_int) -> Result<c_int, Errno> {
    let moved = duplicate(fd);
    sys::close(fd);
    moved
}

/// Makes an event, which counts and never blocks.
pub fn event() -> Result<c_int, Errno> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    move_high(call!(libc::SYS_eventfd2, 0, flags)? as c_int)
}

/// Makes an `epoll` instance with a descriptor beyond the program's.
pub fn epoll_create() -> Result<c_int, Errno> {
    move_high(call!(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC)? as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_it_was_and_the_number_is_beyond_it() {
        let before = sys::descriptor_limit(None);
        let own = duplicate(0).unwrap();
        let after = sys::descriptor_limit(None);
        assert_eq!((before.rlim_cur, before.rlim_max), (after.rlim_cur, after.rlim_max));
        assert!(own >= first_own());
        assert_eq!(raised(before).is_some(), own as u64 >= before.rlim_cur);
        sys::close(own);
    }

    #[test]
    fn nobody_is_raised_beyond_what_it_may_have_or_needs() {
        let of = |rlim_cur, rlim_max| raised(rlimit { rlim_cur, rlim_max }).map(|it| it.rlim_cur);
        assert_eq!(of(1024, 1 << 20), Some(1024 + ROOM));
        assert_eq!(of(1024, 2000), Some(2000));
        assert_eq!(of(1024, 1024), None);
        assert_eq!(of(MANY + 1, 1 << 20), None);
        assert_eq!(of(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn little_is_taken_of_what_the_program_may_need() {
        let of = |rlim_cur, rlim_max| dispensable_of(rlimit { rlim_cur, rlim_max });
        assert_eq!(of(1024, 1024), 32);
        assert_eq!(of(20, 20), 1);
        assert_eq!(of(1024, 4096), u32::MAX);
        assert_eq!(of(MANY + 1, MANY + 1), u32::MAX);
    }
}
