//! A process that stays and copies, for a descriptor that leaves while the other end cannot send
//! what was left unread: it has gone, or does not look at its connection.
//!
//! The descriptor's numbers get another connection of the kernel in the place of the old one; the
//! process reads the old one with this library, rings included, and copies both ways. What a
//! program sees of it: its own two addresses are others.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint};

use crate::attach;
use crate::departure;
use crate::epoll;
use crate::guard::let_go;
use crate::lock;
use crate::stream::{self, Rest};
use crate::sys;
use crate::table::{self, Entry, Guard};

/// How often a quiet connection is looked at, in nanoseconds.
const LOOK_EVERY: u64 = 50_000_000;
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
    let Ok([near, far]) = sys::connection_pair(guard.fd) else { return };
    // The other process changes them, which is to wait where the program may not.
    let flags = sys::fcntl(guard.fd, libc::F_GETFL, 0).unwrap_or(0);
    let registrations = if table::is_owner() { epoll::take_out(guard) } else { Vec::new() };
    guard.connection.holders.fetch_add(1, Ordering::SeqCst);
    match sys::fork_away() {
        Ok(sys::Forked::Here) => {}
        Ok(sys::Forked::There) => run(guard, far),
        Err(_) => {
            guard.connection.holders.fetch_sub(1, Ordering::SeqCst);
            sys::close(near);
            sys::close(far);
            epoll::put_in_again(registrations);
            return;
        }
    }
    sys::close(far);
    // What had arrived is there when the program looks for it.
    sys::poll(near, libc::POLLIN, FIRST);
    let _ = sys::fcntl(near, libc::F_SETFL, flags & (libc::O_NONBLOCK | libc::O_ASYNC));
    if table::is_owner() {
        for fd in numbers(guard) {
            // Who waits to enter sees the old one until the new one is there.
            put_in_place(near, fd);
            crate::close::hand_over(fd);
        }
    } else {
        let cookie = sys::cookie(guard.fd);
        for fd in (0..departure::LOW_NUMBERS).filter(|fd| sys::cookie(*fd) == cookie) {
            put_in_place(near, fd);
        }
    }
    epoll::put_in_again(registrations);
    sys::close(near);
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
fn run(guard: &Guard, far: c_int) -> ! {
    lock::forget_thread();
    table::start_in_child();
    attach::ATTACHING.reset();
    sys::start_session();
    let (low, high) = (guard.fd.min(far) as c_uint, guard.fd.max(far) as c_uint);
    for (first, last) in [(0, low.wrapping_sub(1)), (low + 1, high - 1), (high + 1, c_uint::MAX)] {
        if first <= last && last != c_uint::MAX || first == high + 1 {
            sys::close_numbers(first, last);
        }
    }
    for fd in [guard.fd, far] {
        let flags = sys::fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
        let _ = sys::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK);
    }
    let whole = copy_rest(guard, far);
    if whole {
        copy_both(guard.fd, far);
    }
    let_go(guard.connection);
    sys::exit()
}

/// Copies what is left in the ring. False if the connection is over.
fn copy_rest(guard: &Guard, far: c_int) -> bool {
    let mut buffer = [0u8; 1 << 14];
    loop {
        match stream::rest(guard, &mut buffer) {
            Rest::Bytes(count) => {
                if !sys::write_all(far, &buffer[..count]) {
                    return false;
                }
            }
            Rest::End => {
                sys::shutdown(far, libc::SHUT_WR);
                return false;
            }
            Rest::Reset => {
                sys::reset(far);
                return false;
            }
            Rest::Later => drop(sys::poll(guard.fd, libc::POLLIN, LOOK_EVERY)),
            Rest::Kernel => return true,
        }
    }
}

/// Copies both ways between two connections of the kernel until both ways have ended.
fn copy_both(one: c_int, other: c_int) {
    let ways = [(one, other), (other, one)];
    let mut open = [true; 2];
    let mut buffer = [0u8; 1 << 16];
    while open.contains(&true) {
        let mut entries = [one, other].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
        for (entry, open) in entries.iter_mut().zip(open) {
            entry.fd = if open { entry.fd } else { -1 };
            entry.events = libc::POLLIN;
        }
        if !sys::poll_all(&mut entries) {
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
