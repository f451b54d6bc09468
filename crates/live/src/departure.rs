//! Descriptors that leave the library's sight: over `exec`, over a Unix socket, into the C
//! library's streams, into `io_uring`, or behind a filter of system calls.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::attach;
use crate::bare_calls;
use crate::epoll;
use crate::pump;
use crate::stats::Reason;
use crate::sys;
use crate::table::{self, Connection, Entry, Guard, phase};
use crate::turn;

/// Whether this process uses `io_uring`, whose calls the library does not see.
static RINGS: AtomicBool = AtomicBool::new(false);
/// Whether this process has a filter of system calls put before it, which knows nothing of the
/// library's.
static FILTERED: AtomicBool = AtomicBool::new(false);
/// Whether this process makes system calls past the C library.
static BARE: AtomicBool = AtomicBool::new(false);

/// Numbers that a descriptor can have in a process whose table of them is not this library's.
pub const LOW_NUMBERS: c_int = 1024;

/// To be called before a descriptor goes where the library cannot follow.
pub fn depart(fd: c_int, reason: Reason) {
    table::track_early(fd);
    if let Some(guard) = table::enter(fd) {
        depart_connection(&guard, reason);
    }
}

fn depart_connection(guard: &Guard, reason: Reason) {
    if table::is_owner() {
        epoll::leave(guard);
    }
    if !turn::leave(guard, reason) {
        pump::replace(guard);
    }
}

/// The same for all descriptors that stay open over `exec`.
pub fn depart_all(reason: Reason) {
    let _errno = sys::KeepErrno::new();
    if table::is_owner() {
        for (fd, entry) in table::known() {
            if matches!(entry, Entry::Connection(_) | Entry::Unplaced) && stays_open(fd) {
                depart(fd, reason);
            }
        }
    } else if held().next().is_some() || table::newcomers().next().is_some() {
        // The child of a vfork: it has its parent's memory and numbers of its own.
        for fd in (0..LOW_NUMBERS).filter(|fd| stays_open(*fd)) {
            let Some(cookie) = sys::cookie(fd).filter(|cookie| *cookie != 0) else { continue };
            match place_of(cookie) {
                Some(place) => {
                    if let Some(guard) = table::borrowed(place, fd) {
                        depart_connection(&guard, reason);
                    }
                }
                None => give_up_unknown(),
            }
        }
    }
}

/// Leaves all connections to the kernel that it was not yet asked about: one of them may be going.
fn give_up_unknown() {
    let _attaching = attach::ATTACHING.lock();
    table::leave_newcomers();
    for (_, connection) in held() {
        if connection.cookie.load(Ordering::Relaxed) == 0 {
            let (candidate, plain, order) = (phase::CANDIDATE, phase::PLAIN, Ordering::SeqCst);
            let _ = connection.phase.compare_exchange(candidate, plain, order, order);
        }
    }
}

fn stays_open(fd: c_int) -> bool {
    sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0)
}

/// The place of the connection that the kernel knows by this number.
fn place_of(cookie: u64) -> Option<usize> {
    held()
        .find(|(_, connection)| connection.cookie.load(Ordering::Relaxed) == cookie)
        .map(|it| it.0)
}

/// All connections of which this process holds a descriptor.
fn held() -> impl Iterator<Item = (usize, &'static Connection)> {
    table::used().filter_map(|place| {
        let holds = table::local(place)?.descriptors.load(Ordering::SeqCst) > 0;
        let connection = table::connection(place)?;
        (holds && connection.phase() != phase::FREE).then_some((place, connection))
    })
}

/// Runs a call that becomes another program, if it succeeds.
pub fn over_exec(exec: impl FnOnce() -> c_int) -> c_int {
    depart_all(Reason::Exec);
    let_go();
    let failed = exec();
    hold_again();
    failed
}

/// Takes this process out of the holders of all connections that others hold too: it is about to
/// end, or to become another program.
pub fn let_go() {
    if !table::is_owner() {
        return;
    }
    for (place, connection) in held() {
        attach::clear_meeting(connection);
        let order = Ordering::SeqCst;
        let fewer = |count: u32| (count > 1).then(|| count - 1);
        let gone = connection.holders.fetch_update(order, order, fewer).is_ok();
        if gone && let Some(local) = table::local(place) {
            local.let_go.store(true, order);
        }
    }
}

fn hold_again() {
    if !table::is_owner() {
        return;
    }
    for (place, connection) in held() {
        if table::local(place).is_some_and(|local| local.let_go.swap(false, Ordering::SeqCst)) {
            connection.holders.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// From now on this process carries nothing: it uses `io_uring`.
pub fn forbid_rings() {
    if !RINGS.swap(true, Ordering::SeqCst) {
        depart_with_all(Reason::IoUring);
    }
}

/// From now on this process carries nothing: what the filter that it is about to get does to a call
/// of the library's, from an error to the end of the process, is not known before.
pub fn forbid_filtered() {
    if !FILTERED.swap(true, Ordering::SeqCst) {
        depart_with_all(Reason::Filter);
    }
}

/// From now on this process carries nothing if it makes system calls of its own; whether it does.
pub fn is_past_the_library() -> bool {
    let found = bare_calls::are_there();
    if found && !BARE.swap(true, Ordering::SeqCst) {
        depart_with_all(Reason::BareCalls);
    }
    found
}

fn depart_with_all(reason: Reason) {
    if !table::is_owner() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    for (fd, entry) in table::known() {
        if matches!(entry, Entry::Connection(_) | Entry::Unplaced) {
            depart(fd, reason);
        }
    }
}

/// Whether this process uses `io_uring`.
pub fn has_forbidden_rings() -> bool {
    RINGS.load(Ordering::SeqCst)
}

/// Whether this process may not make the library's calls any more. To be asked before any is made.
pub fn is_filtered() -> bool {
    FILTERED.load(Ordering::SeqCst)
}
