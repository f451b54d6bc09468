//! Descriptors that leave the library's sight: over `exec`, over a Unix socket, into the C
//! library's streams, into `io_uring`, or behind a filter of system calls.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;

use crate::ending;
use crate::handover::pump;
use crate::joining::attach;
use crate::joining::rendezvous;
use crate::memory::pointers;
use crate::migration::direction;
use crate::peer::doorbell;
use crate::registry;
use crate::report::stats::Reason;
use crate::sys;
use crate::table::attaching::{self, Attaching};
use crate::table::figures;
use crate::table::forbidden;
use crate::table::guard::Visit;
use crate::table::holders::{self, Looked};
use crate::table::local::VISIT;
use crate::table::{self, Entry, Event, Guard, Phase};
use crate::tracking;

/// Whether this process is about to become another program.
static BECOMES_ANOTHER: AtomicBool = AtomicBool::new(false);

/// Numbers that a descriptor can have in a process whose table of them is not this library's.
const LOW_NUMBERS: c_int = 1024;

/// Interval of the checks whether other calls have left, in nanoseconds.
const SOON: u64 = 50_000;

/// How many descriptors are searched there: those of this process's connections are usually the
/// same there.
pub fn numbers_elsewhere() -> c_int {
    let highest = table::known().filter(|(_, entry)| *entry != Entry::Own).last();
    highest.map_or(0, |(fd, _)| fd + 1).max(LOW_NUMBERS)
}

/// To be called before a descriptor goes where the library cannot follow.
pub fn depart(fd: c_int, reason: Reason) {
    tracking::track_early(fd);
    if let Some(guard) = table::enter(fd) {
        depart_connection(&guard, reason);
    }
}

/// Like [`depart`], for a connection that the caller has entered.
pub fn depart_connection(guard: &Guard, reason: Reason) {
    // Another thread may be joining it, and has not told the instances of `epoll` yet.
    attaching::await_joiner();
    if guard.connection.phase().may_join() {
        attach::give_up(guard.connection, reason);
    }
    if table::is_owner() && !leaves_registrations(guard) {
        registry::leave(guard);
    }
    if guard.connection.phase() != Phase::JOINED {
        return;
    }
    // The child of a vfork is one of its parent's threads, all of which it is about to leave.
    let turn = table::is_owner().then(|| guard.local().handovers.wait()).flatten();
    if turn.as_ref().is_some_and(|turn| turn.has_waited) && !guard.is_current() {
        // The connection has been replaced by another one of the kernel meanwhile.
        return;
    }
    let apart = guard.apart();
    let own = apart.as_deref().unwrap_or(guard);
    let stays = 1 + u32::from(apart.is_some());
    let mut shut = None;
    let mut is_alone = || {
        shut = shut.take().or_else(|| Shut::begin(own, stays));
        shut.is_some()
    };
    // A connection on loan may already be the kernel's in both directions while another process uses a copy of
    // it. The loan may have begun after this call did.
    let is_lent = || guard.connection.lending.is_lent();
    // The kernel reports an error once: if the library has heard of it, the next owner of the descriptor would
    // not.
    let must_be_copied = || is_lent() || guard.connection.owes_error();
    if !is_lent() && direction::leave(own, reason, &mut is_alone) && !must_be_copied() {
        return;
    }
    let begun = sys::now();
    // A thread that was in a call may have read the rest.
    while must_be_copied() || !own.connection.is_back() {
        shut = shut.or_else(|| Shut::begin(own, stays));
        if shut.is_some() {
            pump::replace(own);
            return;
        }
        // A thread that stays in a call would stay on the connection that was replaced. It reads the rest of
        // the ring itself.
        let patience = if own.local().is_visited() { VISIT } else { direction::DRAINING };
        if sys::now() - begun > patience {
            return;
        }
        sys::sleep(SOON);
    }
}

/// The time in which all other threads are kept out of a connection, which another can replace.
struct Shut<'a> {
    own: &'a Guard,
    _attaching: Option<Attaching>,
    /// Dropped last.
    _signals: sys::NoSignals,
}

impl<'a> Shut<'a> {
    /// `None` if another thread is in a call on the connection, in which this thread has `stays`
    /// stays.
    fn begin(own: &'a Guard, stays: u32) -> Option<Self> {
        // A signal handler of this thread would not be kept out, and a child forked meanwhile would
        // keep the connection that is replaced.
        let signals = sys::NoSignals::begin();
        let attaching = table::is_owner().then(Attaching::begin).flatten();
        // Threads that wait for their turn are counted before all that are inside.
        let alone = own.shuts_others_out(stays + own.local().handovers.waiting());
        alone.then_some(Self { own, _attaching: attaching, _signals: signals })
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.own.lets_others_in();
    }
}

/// To be called before an `exec`: all descriptors that stay open over it depart.
pub fn depart_all(reason: Reason) {
    if !table::remembers() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    if table::is_owner() {
        for (fd, entry) in table::known() {
            if matches!(entry, Entry::Connection(_) | Entry::Unplaced) && stays_open(fd) {
                depart(fd, reason);
            }
        }
    } else if table::held().next().is_some() || table::newcomers().next().is_some() {
        // The child of a vfork: it has its parent's memory and descriptors of its own.
        for fd in (0..numbers_elsewhere()).filter(|fd| stays_open(*fd)) {
            let Some(cookie) = sys::cookie(fd).filter(|cookie| *cookie != 0) else { continue };
            match place_of(cookie) {
                Some(place) => {
                    if let Some(guard) = Visit::begin(place, fd, cookie).guard() {
                        depart_connection(guard, reason);
                    }
                }
                None => give_up_unknown(),
            }
        }
    }
}

/// Descriptors that programs receive as another descriptor, one bit each. A program may say
/// so once, and start others so for each connection that has the descriptor.
static DUPLICATED: [AtomicU64; 1 << 10] = [const { AtomicU64::new(0) }; 1 << 10];

/// Remembers that programs receive this descriptor as another one. False if the table has no room
/// for it.
pub fn note_duplicated(fd: c_int) -> bool {
    DUPLICATED.get(fd as u32 as usize / 64).is_some_and(|word| {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
        true
    })
}

/// Before a program is started that may get them.
pub fn depart_duplicated() {
    if !table::is_owner() || !table::remembers() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    for (at, word) in DUPLICATED.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            depart((64 * at) as c_int + bits.trailing_zeros() as c_int, Reason::Exec);
            bits &= bits - 1;
        }
    }
}

/// Leaves all connections to the kernel that it was not yet asked about: one of them may be going.
fn give_up_unknown() {
    let _attaching = Attaching::begin();
    table::leave_newcomers();
    for (_, connection) in table::held() {
        let is_known = connection.cookie.load(Ordering::Relaxed) != 0;
        if !is_known && connection.phase() == Phase::CANDIDATE {
            connection.on(Event::Refused);
        }
    }
}

fn stays_open(fd: c_int) -> bool {
    sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0)
}

/// The place of the connection that has this cookie in the kernel.
fn place_of(cookie: u64) -> Option<usize> {
    table::held()
        .find(|(_, connection)| connection.cookie.load(Ordering::Relaxed) == cookie)
        .map(|it| it.0)
}

/// Runs a call that becomes another program, if it succeeds.
pub fn over_exec(exec: impl FnOnce() -> c_int) -> c_int {
    let is_owner = table::is_owner();
    BECOMES_ANOTHER.fetch_or(is_owner, Ordering::SeqCst);
    depart_all(Reason::Exec);
    let_go(false);
    let failed = exec();
    BECOMES_ANOTHER.fetch_and(!is_owner, Ordering::SeqCst);
    hold_again();
    failed
}

/// In the child of a fork: the thread that was about to is the parent's.
pub fn start_in_child() {
    BECOMES_ANOTHER.store(false, Ordering::SeqCst);
}

/// Whether a connection's registrations in `epoll` instances stay as they are: this process has no more use
/// for them, and they are its parent's.
pub fn leaves_registrations(guard: &Guard) -> bool {
    BECOMES_ANOTHER.load(Ordering::SeqCst) && registry::has_others_registrations(guard)
}

/// Removes this process from the holders of all connections that other processes hold too, and
/// announces the near end of those that only it holds: it is about to end, or to become another
/// program, which may still have them.
pub fn let_go(ends: bool) {
    if !table::is_owner() {
        return;
    }
    let (mut alone, mut looked) = (false, Looked::default());
    for (place, connection) in table::held() {
        let order = Ordering::SeqCst;
        let Some(local) = table::local(place) else { continue };
        // Another thread, or a destructor, may end the process or close the descriptor meanwhile:
        // one that finds this flag set does not change the count.
        if local.let_go.swap(true, order) {
            continue;
        }
        rendezvous::clear(connection);
        holders::bury(connection, &mut looked);
        if !holders::leave_to_others(connection) {
            holders::keep(connection);
            local.let_go.store(false, order);
            alone |= connection.phase() == Phase::JOINED;
        }
    }
    if alone {
        say_end_is_near(ends);
    }
}

/// Makes the other ends of connections that only this process holds wait in the kernel, which tells
/// them immediately when the process ends. Until then the connections work as before.
fn say_end_is_near(ends: bool) {
    let _errno = sys::KeepErrno::new();
    for (fd, entry) in table::known() {
        if !matches!(entry, Entry::Connection(_)) {
            continue;
        }
        let Some(guard) = table::enter_placed(fd) else { continue };
        let connection = guard.connection;
        if connection.phase() == Phase::JOINED
            && connection.holders.load(Ordering::SeqCst) == 1
            && let Some(segment) = connection.segment()
        {
            figures::closed(connection);
            // The kernel would tell the other end of a reset, and drop what is on its way.
            ending::answer_last_doorbells(&guard, &segment);
            if ends {
                let resets = ending::reset_at_end(&guard, &segment);
                guard.local().resets.store(resets, Ordering::SeqCst);
            }
            let role = connection.role();
            segment.side(role).ends_soon.store(true, Ordering::SeqCst);
            // A thread that sleeps in the kernel learns of it there.
            doorbell::wake_word(&segment.way(role).arrived);
            doorbell::wake_word(&segment.way(role.peer()).freed);
        }
    }
}

fn hold_again() {
    if !table::is_owner() {
        return;
    }
    for (place, connection) in table::held() {
        let local = table::local(place);
        if let Some(local) = local.filter(|it| it.let_go.swap(false, Ordering::SeqCst)) {
            connection.holders.fetch_add(1, Ordering::SeqCst);
            holders::share(connection, local);
        }
        figures::not_closed(connection);
        if let Some(segment) = connection.segment() {
            segment.side(connection.role()).ends_soon.store(false, Ordering::SeqCst);
        }
    }
}

/// All connections depart, whether their descriptors stay open over `exec` or not.
pub fn depart_known(reason: Reason) {
    let _errno = sys::KeepErrno::new();
    for (fd, entry) in table::known() {
        if matches!(entry, Entry::Connection(_) | Entry::Unplaced) {
            depart(fd, reason);
        }
    }
}

/// To be called before a filter of system calls (seccomp) is set. The library cannot know what the
/// filter does to its own calls, from an error to the end of the process, so it makes none from now
/// on: all connections depart, and no new one is remembered.
pub fn forbid_filtered() {
    if !table::is_owner() {
        return;
    }
    table::remember_no_more();
    pointers::look_no_more();
    forbidden::begin(Reason::Filter);
    for (fd, _) in table::known() {
        if let Some(guard) = table::enter_placed(fd) {
            registry::release(&guard);
        }
    }
    registry::forget_all();
}
