//! Calls on connections that stay with the kernel, which go past the library in front of it: what they move,
//! return and leave in `errno` is the kernel's. Here the process has several threads; `tests/live/instructions.py`
//! makes the same calls in one that has one, where the library makes the system calls.

use std::mem::{size_of, zeroed};

use libc::{c_int, c_void, iovec, msghdr};

use crate::pair::{Outcome, Pair, joined, outcome, preloaded, used};

/// A connection that is the kernel's at the first look, since it has an option that the library leaves alone.
fn kernels() -> Pair {
    let pair = used(1);
    let low: c_int = 2;
    for fd in [pair.a, pair.b] {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        let place = (&raw const low).cast();
        assert_eq!(unsafe { libc::setsockopt(fd, level, name, place, 4) }, 0);
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    }
    pair
}

/// The calls that send these bytes, by `how`.
fn send_by(how: usize, fd: c_int, bytes: &mut [u8]) -> Outcome<usize> {
    let (from, length) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
    let mut part = iovec { iov_base: from, iov_len: length };
    // SAFETY: all zeroes are a valid message without parts.
    let mut message: msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    let quiet = libc::MSG_NOSIGNAL;
    let none = std::ptr::null();
    outcome(unsafe {
        match how {
            0 => libc::write(fd, from, length),
            1 => libc::writev(fd, &raw const part, 1),
            2 => libc::send(fd, from, length, quiet),
            3 => libc::sendto(fd, from, length, quiet, none, 0),
            _ => libc::sendmsg(fd, &raw const message, quiet),
        }
    })
}

/// The calls that receive, by `how`.
fn receive_by(how: usize, fd: c_int, to: &mut [u8]) -> Outcome<usize> {
    let (place, room) = (to.as_mut_ptr().cast::<c_void>(), to.len());
    let mut part = iovec { iov_base: place, iov_len: room };
    // SAFETY: as above.
    let mut message: msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    // SAFETY: all zeroes are a valid address.
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    let found = outcome(unsafe {
        match how {
            0 => libc::read(fd, place, room),
            1 => libc::readv(fd, &raw const part, 1),
            2 => libc::recv(fd, place, room, 0),
            3 => libc::recvfrom(fd, place, room, 0, (&raw mut address).cast(), &raw mut length),
            _ => libc::recvmsg(fd, &raw mut message, 0),
        }
    });
    if how == 3 && found.is_ok() {
        assert_eq!(length, 0, "a stream has no addresses");
    }
    found
}

/// Moves bytes by each call, and has each fail.
fn move_by_each() {
    for how in 0..5 {
        let Pair { a, b } = kernels();
        let mut room = [0u8; 16];
        for round in 0..50u8 {
            let mut bytes = [round, how as u8, 2];
            assert_eq!(receive_by(how, b, &mut room), Err(libc::EAGAIN), "{how}");
            assert_eq!(send_by(how, a, &mut bytes), Ok(3), "{how}");
            assert_eq!(receive_by(how, b, &mut room), Ok(3), "{how}");
            assert_eq!(room[..3], bytes);
        }
        let mut much = vec![7u8; 1 << 20];
        let full = (0..200).find_map(|_| send_by(how, a, &mut much).err());
        assert_eq!(full, Some(libc::EAGAIN), "{how}");
        // SAFETY: closes what nobody else uses.
        unsafe { libc::close(b) };
        assert_eq!(receive_by(how, a, &mut room), Err(libc::ECONNRESET), "{how}");
        // Of what is written to one that has ended the signal is ignored.
        assert_eq!(send_by(how, a, &mut much), Err(libc::EPIPE), "{how}");
        // SAFETY: as above.
        unsafe { libc::close(a) };
        assert_eq!(receive_by(how, a, &mut room), Err(libc::EBADF), "{how}");
        assert_eq!(send_by(how, a, &mut much), Err(libc::EBADF), "{how}");
        assert_eq!(receive_by(how, -1, &mut room), Err(libc::EBADF), "{how}");
        assert_eq!(send_by(how, 70_000, &mut much), Err(libc::EBADF), "{how}");
    }
}

#[test]
fn what_goes_past_the_library_is_as_the_kernel_does_it() {
    preloaded("kernels::what_goes_past_the_library_is_as_the_kernel_does_it", || {
        // SAFETY: nobody else handles the signal.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        move_by_each();
        assert_eq!(joined(), 0);
    });
}
