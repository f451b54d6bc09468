//! Reading and writing.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, ssize_t};

use crate::close;
use crate::handover::departure::depart;
use crate::hooks::direct;
use crate::hooks::events;
use crate::hooks::handover::{depart_passed, says_something};
use crate::hooks::unread;
use crate::hooks::vector::{
    is_address, is_receivable, is_sendable, message, message_of, one, parts, parts_of_file,
};
use crate::interpose::Way;
use crate::interpose::interpose;
use crate::interpose::system_calls::int;
use crate::memory::pointers;
use crate::ready;
use crate::report::stats::Reason;
use crate::stream::{self, fail, length, receive, send};
use crate::sys;
use crate::table::{self, Entry};

// The code for an accelerated connection lies apart from the path past the library, and gets the
// program's arguments in the same registers.

#[inline(never)]
fn read_apart(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    next: impl Fn(c_int, *mut c_void, size_t) -> ssize_t + Copy,
) -> ssize_t {
    if length == 0 {
        return next(fd, to, length);
    }
    receive(fd, move || one(to, length), 0, move || next(fd, to, length))
}

#[inline(never)]
fn recv_apart(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    flags: c_int,
    next: impl Fn(c_int, *mut c_void, size_t, c_int) -> ssize_t + Copy,
) -> ssize_t {
    receive(fd, move || message(to, length), flags, move || next(fd, to, length, flags))
}

#[inline(never)]
fn write_apart(
    fd: c_int,
    from: *const c_void,
    length: size_t,
    next: impl Fn(c_int, *const c_void, size_t) -> ssize_t + Copy,
) -> ssize_t {
    send(fd, move || one(from, length), 0, move || next(fd, from, length))
}

#[inline(never)]
fn send_apart(
    fd: c_int,
    from: *const c_void,
    length: size_t,
    flags: c_int,
    next: impl Fn(c_int, *const c_void, size_t, c_int) -> ssize_t + Copy,
) -> ssize_t {
    send(fd, move || message(from, length), flags, move || next(fd, from, length, flags))
}

interpose! {
    fn read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t
    = direct::pass(fd, libc::SYS_read, [int(fd), to as usize, length]), else |next| {
        let arguments = [int(fd), to as usize, length];
        match direct::pass_counted(fd, libc::SYS_read, arguments) {
            Some(result) => result,
            None => read_apart(fd, to, length, next),
        }
    }
}

interpose! {
    fn __read_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t) -> ssize_t = |next| {
        if length > room || length == 0 {
            return next(fd, to, length, room);
        }
        receive(fd, move || one(to, length), 0, move || next(fd, to, length, room))
    }
}

interpose! {
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
    = direct::pass(fd, libc::SYS_readv, [int(fd), vector as usize, count as usize]),
    else |next| {
        // SAFETY: the program says that the vector has that many parts.
        let to = || unsafe { parts_of_file(vector, count as usize) };
        receive(fd, to, 0, move || next(fd, vector, count))
    }
}

interpose! {
    fn recv(fd: c_int, to: *mut c_void, length: size_t, flags: c_int) -> ssize_t
    = direct::pass(
        fd, libc::SYS_recvfrom, [int(fd), to as usize, length, int(flags), 0, 0],
    ),
    else |next| {
        let arguments = [int(fd), to as usize, length, int(flags), 0, 0];
        match direct::pass_counted(fd, libc::SYS_recvfrom, arguments) {
            Some(result) => result,
            None => recv_apart(fd, to, length, flags, next),
        }
    }
}

interpose! {
    fn __recv_chk(
        fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int,
    ) -> ssize_t = |next| {
        if length > room {
            return next(fd, to, length, room, flags);
        }
        receive(fd, move || message(to, length), flags, move || next(fd, to, length, room, flags))
    }
}

/// A stream has no sender address. Returns the result of the call: the kernel checks the memory for
/// the address after it has moved the bytes.
fn no_address(
    fd: c_int,
    result: ssize_t,
    address: *const sockaddr,
    length: *mut c_uint,
) -> ssize_t {
    if result < 0 || address.is_null() || !ready::is_joined(fd) {
        return result;
    }
    if !pointers::is_there(length) {
        return fail(libc::EFAULT);
    }
    // SAFETY: the program says that it is valid.
    let room = unsafe { std::mem::replace(&mut *length, 0) };
    if room as c_int >= 0 { result } else { fail(libc::EINVAL) }
}

interpose! {
    fn recvfrom(
        fd: c_int, to: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr,
        address_length: *mut c_uint,
    ) -> ssize_t
    = direct::pass(
        fd,
        libc::SYS_recvfrom,
        [
            int(fd), to as usize, length, int(flags), address as usize,
            address_length as usize,
        ],
    ),
    else |next| {
        let kernel = move || next(fd, to, length, flags, address, address_length);
        let result = receive(fd, move || message(to, length), flags, kernel);
        no_address(fd, result, address, address_length)
    }
}

interpose! {
    fn __recvfrom_chk(
        fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int,
        address: *mut sockaddr, address_length: *mut c_uint,
    ) -> ssize_t = |next| {
        let kernel = move || next(fd, to, length, room, flags, address, address_length);
        if length > room {
            return kernel();
        }
        let result = receive(fd, move || message(to, length), flags, kernel);
        no_address(fd, result, address, address_length)
    }
}

fn is_connection(fd: c_int) -> bool {
    matches!(table::entry(fd), Entry::Connection(_) | Entry::Unplaced)
}

/// Whether the kernel refuses a message for its flags, whatever it says.
const fn is_refused(flags: c_int) -> bool {
    const MSG_CMSG_COMPAT: c_int = c_int::MIN;
    flags & MSG_CMSG_COMPAT != 0
}

/// Fills in what a message from a stream contains beside its bytes.
///
/// # Safety
///
/// The message is valid as the program passed it.
unsafe fn fill_header(fd: c_int, message: *mut msghdr, flags: c_int) {
    // SAFETY: by the contract of this function.
    unsafe {
        if !(*message).msg_name.is_null() {
            (*message).msg_namelen = 0;
        }
        (*message).msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
    }
    let guard = table::enter_placed(fd);
    let asked = guard.filter(|it| it.connection.says_unread.load(Ordering::Relaxed));
    match asked.and_then(|guard| guard.connection.segment().map(|segment| (guard, segment))) {
        // SAFETY: by the contract of this function.
        Some((guard, segment)) => unsafe { unread::say_unread(&guard, message, &segment) },
        // SAFETY: by the contract of this function.
        None => unsafe { (*message).msg_controllen = 0 },
    }
}

/// # Safety
///
/// The message is valid as the program passed it.
unsafe fn receive_message(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
    kernel: impl Fn() -> ssize_t + Copy,
) -> ssize_t {
    // SAFETY: by the contract of this function.
    if is_refused(flags) || !is_connection(fd) || !unsafe { is_receivable(message) } {
        return kernel();
    }
    // SAFETY: as above.
    let to = || unsafe { parts((*message).msg_iov, (*message).msg_iovlen) };
    let asked = &std::cell::Cell::new(false);
    let noted = move || {
        asked.set(true);
        kernel()
    };
    let result = receive(fd, to, flags, noted);
    if !asked.get() && result >= 0 {
        // SAFETY: as above.
        unsafe { fill_header(fd, message, flags) };
    }
    result
}

interpose! {
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t
    = direct::pass(fd, libc::SYS_recvmsg, [int(fd), message as usize, int(flags)]),
    else |next| {
        // SAFETY: the program says that the message is valid.
        unsafe { receive_message(fd, message, flags, move || next(fd, message, flags)) }
    }
}

interpose! {
    fn recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
        timeout: *mut libc::timespec,
    ) -> c_int = |next| {
        let (before, begin) = (sys::errno(), sys::now());
        let is_joined = !is_refused(flags) && ready::is_joined(fd) && count > 0;
        // SAFETY: the program says that the time is null or valid.
        let limit = is_joined.then(|| unsafe { events::span(timeout) });
        let Some(Ok(limit)) = limit else { return next(fd, messages, count, flags, timeout) };
        // SAFETY: as above.
        let mut time = unsafe { timeout.as_mut() };
        if let Some(why) = stream::error_before_all(fd) {
            return fail(why) as c_int;
        }
        let mut accelerated = flags & !libc::MSG_WAITFORONE;
        for index in 0..count as usize {
            // SAFETY: the program says that there are `count` messages.
            let Some(message) = (unsafe { message_of(messages, index) }) else {
                return if index > 0 { index as c_int } else { fail(libc::EFAULT) as c_int };
            };
            // SAFETY: as above.
            let result = unsafe { recvmsg(fd, &mut message.msg_hdr, accelerated) };
            if result < 0 && index == 0 {
                return -1;
            }
            if result < 0 {
                // As for a file.
                sys::set_errno(before);
                return index as c_int;
            }
            message.msg_len = result as c_uint;
            if flags & libc::MSG_WAITFORONE != 0 {
                accelerated |= libc::MSG_DONTWAIT;
            }
            // The kernel too looks at the time only between two messages, and says what is left of it.
            if let (Some(time), Some(limit)) = (time.as_mut(), limit) {
                let left = limit.saturating_sub(sys::now() - begin);
                **time = sys::timespec(left);
                if left == 0 {
                    return index as c_int + 1;
                }
            }
        }
        count as c_int
    }
}

interpose! {
    fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t
    = direct::pass(fd, libc::SYS_write, [int(fd), from as usize, length]), else |next| {
        let arguments = [int(fd), from as usize, length];
        match direct::pass_counted(fd, libc::SYS_write, arguments) {
            Some(result) => result,
            None => write_apart(fd, from, length, next),
        }
    }
}

interpose! {
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t
    = direct::pass(fd, libc::SYS_writev, [int(fd), vector as usize, count as usize]),
    else |next| {
        // SAFETY: the program says that the vector has that many parts.
        let from = || unsafe { parts_of_file(vector, count as usize) };
        send(fd, from, 0, move || next(fd, vector, count))
    }
}

/// Whether the library looks at what is sent with these flags.
const fn is_looked_at(flags: c_int) -> bool {
    flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY) != 0
}

/// The way of a `sendto` with these arguments.
#[inline(always)]
fn pass_flagged(arguments: [usize; 6]) -> Way<ssize_t> {
    let [fd, .., flags, _, _] = arguments;
    if is_looked_at(flags as c_int) {
        return Way::ApartUnlessOff;
    }
    direct::pass(fd as c_int, libc::SYS_sendto, arguments)
}

// The interposed `send` stands beside the `send` of this file's imports.
pub mod named_send {
    use super::*;

    interpose! {
        fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t
        = pass_flagged([int(fd), from as usize, length, int(flags), 0, 0]), else |next| {
            let arguments = [int(fd), from as usize, length, int(flags), 0, 0];
            if !is_looked_at(flags)
                && let Some(result) = direct::pass_counted(fd, libc::SYS_sendto, arguments)
            {
                return result;
            }
            send_apart(fd, from, length, flags, next)
        }
    }
}

interpose! {
    fn sendto(
        fd: c_int, from: *const c_void, length: size_t, flags: c_int, address: *const sockaddr,
        address_length: c_uint,
    ) -> ssize_t
    = pass_flagged([
        int(fd), from as usize, length, int(flags), address as usize,
        address_length as usize,
    ]),
    else |next| {
        let kernel = move || next(fd, from, length, flags, address, address_length);
        // The kernel reads an address before it finds that a stream needs none.
        let is_possible = || address.is_null() || is_address(address, address_length as c_int);
        send(fd, move || message(from, length).filter(|_| is_possible()), flags, kernel)
    }
}

interpose! {
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t
    = direct::pass_plain(fd, libc::SYS_sendmsg, [int(fd), message as usize, int(flags)]),
    else |next| {
        // SAFETY: the program says that the message is valid.
        if is_refused(flags) || !unsafe { is_sendable(message) } {
            return next(fd, message, flags);
        }
        if !is_connection(fd) {
            // SAFETY: as above.
            unsafe { depart_passed(message) };
            return next(fd, message, flags);
        }
        // SAFETY: as above.
        if unsafe { says_something(message) } {
            depart(fd, Reason::Call);
            return next(fd, message, flags);
        }
        // SAFETY: as above.
        let from = || unsafe { parts((*message).msg_iov, (*message).msg_iovlen) };
        send(fd, from, flags, move || next(fd, message, flags))
    }
}

interpose! {
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int = |next| {
        // The kernel sends no more in one call either.
        let all = count.min(libc::UIO_MAXIOV as c_uint) as usize;
        if is_refused(flags) || !ready::is_joined(fd) {
            // SAFETY: the program says that there are `count` messages.
            for message in (0..all).map_while(|index| unsafe { message_of(messages, index) }) {
                // SAFETY: as above.
                unsafe { depart_passed(&raw const message.msg_hdr) };
            }
            return next(fd, messages, count, flags);
        }
        let before = sys::errno();
        for index in 0..all {
            // SAFETY: as above.
            let Some(message) = (unsafe { message_of(messages, index) }) else {
                return if index > 0 { index as c_int } else { fail(libc::EFAULT) as c_int };
            };
            // SAFETY: as above.
            let result = unsafe { sendmsg(fd, &message.msg_hdr, flags) };
            if result < 0 && index > 0 {
                // As for a file.
                sys::set_errno(before);
                return index as c_int;
            }
            if result < 0 {
                return -1;
            }
            message.msg_len = result as c_uint;
            // Messages after one of which only a part was sent are not sent.
            // SAFETY: as above; a message that was sent has its parts.
            let parts = unsafe { parts(message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) };
            if parts.is_some_and(|parts| (result as usize) < length(parts)) {
                return index as c_int + 1;
            }
        }
        all as c_int
    }
}

/// Whether a call at a place in a file is one at the stream's own: then a stream has it too.
fn at_stream(offset: off_t, flags: c_int) -> bool {
    offset == -1 && flags == 0
}

/// `preadv2` and `preadv64v2`, which are one function.
fn read_vector(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
    kernel: impl Fn() -> ssize_t + Copy,
) -> ssize_t {
    if !at_stream(offset, flags) {
        return elsewhere(fd, offset, kernel);
    }
    // SAFETY: the program says that the vector has that many parts.
    receive(fd, || unsafe { parts_of_file(vector, count as usize) }, 0, kernel)
}

/// Leaves a call to the kernel. Only a call at the stream's own position (`offset` -1) moves bytes,
/// and the connection departs before it.
fn elsewhere(fd: c_int, offset: off_t, kernel: impl Fn() -> ssize_t) -> ssize_t {
    if offset == -1 {
        depart(fd, Reason::Call);
    }
    kernel()
}

/// `pwritev2` and `pwritev64v2`, which are one function.
fn write_vector(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
    kernel: impl Fn() -> ssize_t + Copy,
) -> ssize_t {
    if !at_stream(offset, flags) {
        return elsewhere(fd, offset, kernel);
    }
    // SAFETY: the program says that the vector has that many parts.
    send(fd, || unsafe { parts_of_file(vector, count as usize) }, 0, kernel)
}

interpose! {
    fn preadv2(
        fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = |next| {
        let kernel = move || next(fd, vector, count, offset, flags);
        read_vector(fd, vector, count, offset, flags, kernel)
    }
}

interpose! {
    fn preadv64v2(
        fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = |next| {
        let kernel = move || next(fd, vector, count, offset, flags);
        read_vector(fd, vector, count, offset, flags, kernel)
    }
}

interpose! {
    fn pwritev2(
        fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = |next| {
        let kernel = move || next(fd, vector, count, offset, flags);
        write_vector(fd, vector, count, offset, flags, kernel)
    }
}

interpose! {
    fn pwritev64v2(
        fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int,
    ) -> ssize_t = |next| {
        let kernel = move || next(fd, vector, count, offset, flags);
        write_vector(fd, vector, count, offset, flags, kernel)
    }
}

interpose! {
    fn shutdown(fd: c_int, how: c_int) -> c_int = |next| {
        close::shutdown(fd, how).unwrap_or_else(move || next(fd, how))
    }
}
