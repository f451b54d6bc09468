//! A process that stays and copies, for a descriptor that leaves while the other end cannot send
//! what was left unread: it has gone, or does not look at its connection.
//!
//! The descriptor's numbers get another connection of the kernel in the place of the old one; the
//! process reads the old one with this library, rings included, and copies both ways. What a
//! program sees of it: its own two addresses are others.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint};

use crate::attach;
use crate::close;
use crate::departure;
use crate::epoll;
use crate::guard::hold_no_more;
use crate::limits;
use crate::loan::{self, Ended, Loan};
use crate::lock;
use crate::meeting::Place;
use crate::segment::closed;
use crate::stream::{self, Rest};
use crate::sys::{self, Process};
use crate::table::{self, Entry, Guard, Receiving};

/// How often a quiet connection is looked at, in nanoseconds.
const LOOK_EVERY: u64 = 50_000_000;
/// How long what is left when the other end has closed may take to come and to be put elsewhere, in
/// nanoseconds.
const SETTLING: u64 = 100_000_000;
/// How often it is looked for that, in nanoseconds.
const SOON: u64 = 50_000;
/// How long the first copied bytes are waited for, in nanoseconds.
const FIRST: u64 = 100_000_000;

/// Puts a copied connection in the place of this one, under all its numbers in this process. If that
/// cannot be, the descriptor stays as it is.
pub fn replace(guard: &Guard) {
    let _errno = sys::KeepErrno::new();
    // Another thread may have closed all of them meanwhile.
    if table::is_owner() && numbers(guard).next().is_none() {
        return;
    }
    let flags = sys::fcntl(guard.fd, libc::F_GETFL, 0).unwrap_or(0);
    let registrations = if table::is_owner() { epoll::take_out(guard) } else { Vec::new() };
    if let Some(near) = loan::join(guard).or_else(|| begin(guard)) {
        let _ = sys::fcntl(near, libc::F_SETFL, flags & (libc::O_NONBLOCK | libc::O_ASYNC));
        put_in_places(guard, near);
        sys::close(near);
    }
    epoll::put_in_again(registrations);
}

/// Begins to copy. Returns the program's end of the copied connection.
fn begin(guard: &Guard) -> Option<c_int> {
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

/// The same with a loan that is counted, and a place for others.
fn begin_to_copy(guard: &Guard, user: Option<Process>, door: Option<c_int>) -> Option<c_int> {
    let [near, far] = sys::connection_pair(guard.fd).ok()?;
    if user.is_none() && put_all(guard, near, far) {
        sys::close(far);
        return Some(near);
    }
    let order = Ordering::SeqCst;
    guard.connection.holders.fetch_add(1, order);
    let made = sys::fork_away();
    if made == Ok(sys::Forked::There) {
        run(guard, far, user.map(|user| Loan { near, far, user, door }));
    }
    sys::close(far);
    if made.is_err() {
        guard.connection.holders.fetch_sub(1, order);
        sys::close(near);
        return None;
    }
    // What had arrived is there when the program looks for it.
    sys::poll(near, libc::POLLIN, FIRST);
    Some(near)
}

fn put_in_places(guard: &Guard, near: c_int) {
    if table::is_owner() {
        for fd in numbers(guard) {
            // Who waits to enter sees the old one until the new one is there.
            put_in_place(near, fd);
            close::hand_over(fd);
        }
    } else {
        let cookie = sys::cookie(guard.fd);
        for fd in (0..departure::numbers_elsewhere()).filter(|fd| sys::cookie(*fd) == cookie) {
            put_in_place(near, fd);
        }
    }
}

/// The numbers of a connection in this process.
fn numbers(guard: &Guard) -> impl Iterator<Item = c_int> {
    let place = Entry::Connection(guard.place);
    table::known().filter(move |(_, it)| *it == place).map(|(fd, _)| fd)
}

fn put_in_place(near: c_int, fd: c_int) {
    let closes = sys::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0) & libc::FD_CLOEXEC != 0;
    sys::duplicate_to(near, fd, if closes { libc::O_CLOEXEC } else { 0 });
}

/// The life of the copying process.
fn run(guard: &Guard, far: c_int, loan: Option<Loan>) -> ! {
    lock::forget_thread();
    table::start_in_child();
    attach::ATTACHING.reset();
    limits::RAISING.reset();
    sys::start_session();
    let lent =
        loan.map_or([far; 3], |it| [it.near, it.user.fd().unwrap_or(far), it.door.unwrap_or(far)]);
    close_all_but([guard.fd, far, lent[0], lent[1], lent[2]]);
    let ended = loan.map_or(Ended::Given, |loan| loan::lend(guard, loan));
    if ended == Ended::Over {
        // The others may have closed it before this process had noticed the users' end.
        close::say_how(guard);
    }
    if ended == Ended::Given
        && let Some(more) = copy_rest(guard, far)
    {
        copy_both(guard.fd, far, more);
    }
    hold_no_more(guard.connection);
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

/// Puts all that is left into the copied connection, if the other end has closed its own and this one
/// takes all at once: then nobody needs to copy. What it took is not left any more either way.
fn put_all(guard: &Guard, near: c_int, far: c_int) -> bool {
    let connection = guard.connection;
    let Some(segment) = connection.segment() else { return false };
    if segment.side(connection.role().peer()).closed.load(Ordering::Acquire) != closed::ORDERLY {
        return false;
    }
    let Some(mut receiving) = connection.receiving() else { return false };
    sys::widen_receive_buffer(near, segment.capacity().bytes());
    let (until, flags) = (sys::now() + SETTLING, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let (mut buffer, mut given) = ([0u8; 1 << 14], 0);
    loop {
        let sent = match left(guard, &mut receiving, &mut buffer, libc::MSG_PEEK) {
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
        Err(_) => Rest::Reset,
    }
}

/// Copies what is left in the ring. Whether more may follow; `None` if the connection is over.
fn copy_rest(guard: &Guard, far: c_int) -> Option<bool> {
    let mut buffer = [0u8; 1 << 14];
    loop {
        match stream::rest(guard, &mut buffer) {
            Rest::Bytes(count) => {
                if !sys::write_all(far, &buffer[..count]) {
                    return None;
                }
            }
            Rest::End => {
                sys::shutdown(far, libc::SHUT_WR);
                return Some(false);
            }
            Rest::Reset => {
                sys::reset(far);
                return None;
            }
            Rest::Later => drop(sys::poll(guard.fd, libc::POLLIN, LOOK_EVERY)),
            Rest::Kernel => return Some(true),
        }
    }
}

/// Copies both ways between two connections of the kernel until both ways have ended; if the first
/// has nothing more to say, the other way.
fn copy_both(one: c_int, other: c_int, more: bool) {
    let ways = [(one, other), (other, one)];
    let mut open = [more, true];
    let mut buffer = [0u8; 1 << 16];
    while open.contains(&true) {
        let mut entries = [one, other].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
        for (entry, open) in entries.iter_mut().zip(open) {
            entry.fd = if open { entry.fd } else { -1 };
            entry.events = libc::POLLIN;
        }
        if !sys::poll_all(&mut entries, None) {
            return;
        }
        for (which, (from, to)) in ways.into_iter().enumerate() {
            if !open[which] || entries[which].revents == 0 {
                continue;
            }
            match sys::recv(from, buffer.as_mut_ptr(), buffer.len(), libc::MSG_DONTWAIT) {
                Ok(0) => {
                    sys::shutdown(to, libc::SHUT_WR);
                    open[which] = false;
                }
                Ok(count) if sys::write_all(to, &buffer[..count]) => {}
                Err(libc::EAGAIN | libc::EINTR) => {}
                Ok(_) => {
                    // Nobody reads there any more: the kernel would reset who writes here.
                    sys::reset(from);
                    return;
                }
                Err(_) => {
                    sys::reset(to);
                    return;
                }
            }
        }
    }
}
