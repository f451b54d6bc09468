//! A process that stays and copies, for a descriptor that departs while the other end cannot send
//! again what was left unread: it has gone, or makes no call on its connection.
//!
//! All descriptors of the connection get another connection of the kernel in place of the old one;
//! the process reads the old one with this library, rings included, and copies in both directions.
//! A program notices only that its two addresses are others.

use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_uint};

use crate::descriptors;
use crate::descriptors::Process;
use crate::ending;
use crate::handover::copy;
use crate::handover::departure;
use crate::handover::loan::{self, Ended, Loan};
use crate::joining::meeting::Place;
use crate::peer::death;
use crate::registry;
use crate::segment::closed;
use crate::sharing::lock;
use crate::sharing::process_lock;
use crate::stream::{self, Rest};
use crate::sys;
use crate::table::attaching;
use crate::table::guard;
use crate::table::holders::{self, Looked};
use crate::table::{self, Entry, Guard, Receiving};

/// The size of the buffer for what is being copied, both ways, in bytes.
const MEMORY: usize = 1 << 17;
/// That size if no memory can be mapped.
const LEAST: usize = 1 << 12;
/// How long the data left when the other end has closed may take to arrive and to be moved, in
/// nanoseconds.
const SETTLING: u64 = 100_000_000;
/// The interval of checks for that, in nanoseconds.
const SOON: u64 = 50_000;
/// How long to wait for the first copied bytes, in nanoseconds.
const FIRST: u64 = 100_000_000;

/// How many connections are just being replaced, for which [`attaching::ATTACHING`] is held.
static REPLACING: AtomicU32 = AtomicU32::new(0);

/// Waits until no connection is being replaced: in between its descriptor stands for nothing, and
/// no `epoll` instance has it.
#[inline]
pub fn await_replacement() {
    if REPLACING.load(Ordering::SeqCst) != 0 {
        attaching::await_joiner();
    }
}

/// To be called before a descriptor is given to something else while another process goes on with
/// its connection: nothing ends.
pub fn hand_over(fd: c_int) {
    if let Some(guard) = table::enter(fd) {
        table::set_entry(fd, Entry::Unknown);
        if guard.local().loses_descriptor() {
            registry::unfollow(&guard);
        }
    }
}

/// Replaces this connection by a copied one, under all its descriptors in this process. If that is
/// impossible, the descriptor stays as it is.
pub fn replace(guard: &Guard) {
    let _errno = sys::KeepErrno::new();
    // Another thread may have closed all of them meanwhile.
    if table::is_owner() && numbers(guard).next().is_none() {
        return;
    }
    let flags = sys::fcntl(guard.fd, libc::F_GETFL, 0).unwrap_or(0);
    let is_owner = table::is_owner();
    if is_owner {
        REPLACING.fetch_add(1, Ordering::SeqCst);
    }
    let registrations = if is_owner && !departure::leaves_registrations(guard) {
        registry::take_out(guard)
    } else {
        registry::TakenOutAll::default()
    };
    if let Some(near) = loan::join(guard).or_else(|| begin(guard)) {
        let _ = sys::fcntl(near, libc::F_SETFL, flags & (libc::O_NONBLOCK | libc::O_ASYNC));
        put_in_places(guard, near);
        sys::close(near);
    }
    registry::put_in_again(registrations);
    if is_owner {
        REPLACING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Begins to copy. Returns the program's end of the copied connection.
fn begin(guard: &Guard) -> Option<c_int> {
    holders::bury(guard.connection, &mut Looked::default());
    // The child of a vfork does not count as a holder, which its parent is.
    let is_shared = !table::is_owner() || guard.connection.holders.load(Ordering::SeqCst) > 1;
    if is_shared && !loan::begin(guard.connection) {
        return None;
    }
    let user = is_shared.then(|| Process::open(sys::process()));
    let door = user.and_then(|_| Place::of_loan(sys::cookie(guard.fd)?)).map(|it| it.listen());
    // Another of the family may have begun at the same time.
    let others = matches!(door, Some(Err(libc::EADDRINUSE))).then(|| loan::join(guard)).flatten();
    let door = door.and_then(Result::ok);
    let near = others.or_else(|| begin_to_copy(guard, user, door));
    [user.and_then(|it| it.fd()), door].into_iter().flatten().for_each(sys::close);
    if is_shared && (others.is_some() || near.is_none()) {
        guard.connection.lending.withdraw();
    }
    near
}

/// Begins to copy, with a counted loan, and a socket by which further processes get the connection.
fn begin_to_copy(guard: &Guard, user: Option<Process>, door: Option<c_int>) -> Option<c_int> {
    // The copying process goes on with a stack that may be another thread's, and small.
    let Some(memory) = sys::map(None, MEMORY) else {
        return copy_by(guard, user, door, &mut [0; LEAST]);
    };
    // SAFETY: that much was mapped, and a copying process has its own.
    let near = copy_by(guard, user, door, unsafe { slice::from_raw_parts_mut(memory, MEMORY) });
    // SAFETY: nothing refers to it any more.
    unsafe { sys::unmap(memory, MEMORY) };
    near
}

fn copy_by(
    guard: &Guard,
    user: Option<Process>,
    door: Option<c_int>,
    memory: &mut [u8],
) -> Option<c_int> {
    let [near, far] = descriptors::connection_pair(guard.fd).ok()?;
    shut_as(guard, near);
    if user.is_none() && put_all(guard, near, far, memory) {
        let is_reset = sys::poll_now(guard.fd, 0) & libc::POLLERR != 0;
        sys::close(far);
        if is_reset && !death::is_reset_by_doorbell(guard) {
            // The other end has refused data, and so does the far end of the replacement: the
            // program must see that error.
            death::provoke(near);
        }
        return Some(near);
    }
    let order = Ordering::SeqCst;
    guard.connection.holders.fetch_add(1, order);
    let made = sys::fork_away();
    if made == Ok(sys::Forked::There) {
        run(guard, far, user.map(|user| Loan { near, far, user, door }), memory);
    }
    sys::close(far);
    if made.is_err() {
        guard.connection.holders.fetch_sub(1, order);
        sys::close(near);
        return None;
    }
    // Data that had arrived is there when the program checks for it.
    sys::poll(near, libc::POLLIN, FIRST);
    Some(near)
}

/// Shuts down the same directions of the program's end as the connection that it replaces.
fn shut_as(guard: &Guard, near: c_int) {
    let connection = guard.connection;
    // A process that has the connection on loan may have written bytes that come before the end. Then the
    // process that serves it shuts the direction down.
    let lent = connection.lending.is_lent_again();
    let has_sent_end = || sys::tcp_counts(guard.fd).is_ok_and(|counts| counts.has_sent_end);
    let sends_no_more =
        connection.write_shut.load(Ordering::Acquire) || has_sent_end() || death::is_over(guard);
    if !lent && sends_no_more {
        sys::shutdown(near, libc::SHUT_WR);
    }
    // With both directions shut down it would refuse what is left, behind which the end of stream
    // follows.
    if !sends_no_more && connection.read_shut.load(Ordering::Acquire) {
        sys::shutdown(near, libc::SHUT_RD);
    }
}

fn put_in_places(guard: &Guard, near: c_int) {
    if table::is_owner() {
        for fd in numbers(guard) {
            // A thread that waits to enter sees the old connection until the new one is in its place.
            put_in_place(near, fd);
            hand_over(fd);
        }
    } else {
        let cookie = sys::cookie(guard.fd);
        for fd in (0..departure::numbers_elsewhere()).filter(|fd| sys::cookie(*fd) == cookie) {
            put_in_place(near, fd);
        }
    }
}

/// The descriptors of a connection in this process.
fn numbers(guard: &Guard) -> impl Iterator<Item = c_int> {
    let place = Entry::Connection(guard.place);
    table::known().filter(move |(_, it)| *it == place).map(|(fd, _)| fd)
}

fn put_in_place(near: c_int, fd: c_int) {
    let closes = sys::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0) & libc::FD_CLOEXEC != 0;
    sys::duplicate_to(near, fd, if closes { libc::O_CLOEXEC } else { 0 });
}

/// The life of the copying process.
fn run(guard: &Guard, far: c_int, loan: Option<Loan>, memory: &mut [u8]) -> ! {
    lock::forget_thread();
    process_lock::forget_all();
    REPLACING.store(0, Ordering::Relaxed);
    // The descriptors that matter are kept below, and all others closed.
    table::start_in_copy();
    guard.connection.sharers.add();
    attaching::ATTACHING.reset();
    descriptors::RAISING.reset();
    sys::start_session();
    let lent =
        loan.map_or([far; 3], |it| [it.near, it.user.fd().unwrap_or(far), it.door.unwrap_or(far)]);
    close_all_but([guard.fd, far, lent[0], lent[1], lent[2]]);
    let ended = loan.map_or(Ended::Given, |loan| loan::lend(guard, loan, memory));
    match ended {
        // The others may have closed it before this process had noticed the users' end.
        Ended::Over => guard::leave(guard),
        Ended::Given => {
            copy::copy(guard, far, memory);
            ending::end_doorbells_of(guard);
            holders::hold_no_more(guard.connection);
        }
    }
    sys::exit()
}

fn close_all_but(mut kept: [c_int; 5]) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept.map(|fd| fd as c_uint) {
        if fd > first {
            sys::close_numbers(first, fd - 1);
        }
        first = fd + 1;
    }
    sys::close_numbers(first, c_uint::MAX);
}

/// Writes all that is left into the copied connection, if the other end has closed its own and the
/// copied connection accepts everything immediately: then no process needs to copy. What was
/// accepted is no longer left in either case.
fn put_all(guard: &Guard, near: c_int, far: c_int, buffer: &mut [u8]) -> bool {
    let connection = guard.connection;
    let Some(segment) = connection.segment() else { return false };
    if segment.side(connection.role().peer()).closed.load(Ordering::Acquire) != closed::ORDERLY {
        return false;
    }
    let Some(mut receiving) = connection.receiving() else { return false };
    sys::widen_receive_buffer(near, segment.capacity().bytes());
    let (until, flags) = (sys::now() + SETTLING, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let mut given = 0;
    loop {
        let sent = match left(guard, &mut receiving, buffer, libc::MSG_PEEK) {
            Rest::Bytes(count) => sys::send(far, buffer.as_ptr(), count, flags),
            Rest::End => break,
            Rest::Later if sys::now() < until => Ok(0),
            Rest::Later | Rest::Reset | Rest::Kernel => return false,
        };
        let Ok(mut sent) = sent else { return false };
        given += sent as u64;
        if sent == 0 {
            sys::sleep(SOON);
        }
        while sent > 0 {
            let Rest::Bytes(taken) = left(guard, &mut receiving, &mut buffer[..sent], 0) else {
                return false;
            };
            sent -= taken;
        }
    }
    // What its sender still held would be lost some minutes after it has closed.
    let is_there = || sys::tcp_counts(near).is_ok_and(|counts| counts.arrived >= given);
    while !is_there() && sys::now() < until {
        sys::sleep(SOON);
    }
    is_there()
}

/// Takes bytes that are left wherever they are; with `MSG_PEEK` they stay there.
fn left(guard: &Guard, receiving: &mut Receiving, buffer: &mut [u8], flags: c_int) -> Rest {
    let rest = stream::rest_held(guard, receiving, buffer, flags);
    if !matches!(rest, Rest::Kernel) {
        return rest;
    }
    let flags = flags | libc::MSG_DONTWAIT;
    match sys::recv(guard.socket(), buffer.as_mut_ptr(), buffer.len(), flags) {
        Ok(0) => Rest::End,
        Ok(count) => Rest::Bytes(count),
        Err(libc::EAGAIN | libc::EINTR) => Rest::Later,
        Err(_) if death::is_reset_by_doorbell(guard) => Rest::End,
        Err(_) => Rest::Reset,
    }
}
