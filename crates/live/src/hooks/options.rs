//! Socket options.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, c_void};

use crate::interpose::interpose;
use crate::joining::attach;
use crate::memory::pointers;
use crate::migration::direction;
use crate::options::{self, Delay};
use crate::peer::death;
use crate::ready;
use crate::report::stats::Reason;
use crate::table;

interpose! {
    fn setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: c_uint,
    ) -> c_int = |next| {
        let is_there = value.is_null() || pointers::are_there(value.cast::<u8>(), length as usize);
        if (length as c_int) < 0 || !is_there {
            return next(fd, level, name, value, length);
        }
        // SAFETY: the value can be read, and the program says that it has this length.
        let is_harmless = options::is_harmless(level, name)
            && !unsafe { options::is_time_before_now(level, name, value, length) };
        if !is_harmless
            // SAFETY: the program says that the value has this length.
            && !unsafe { options::changes_nothing(fd, level, name, value, length) }
            && let Some(guard) = table::enter(fd)
            && !attach::is_early(&guard)
        {
            // Where that cannot be, the rest of the ring is still read here.
            let _ = direction::leave(&guard, Reason::Option, &mut || true);
        }
        // SAFETY: as above.
        let delay = unsafe { Delay::of(level, name, value, length) };
        let noted = delay.and_then(|delay| {
            let guard = table::enter_placed(fd)?;
            delay.note(guard.connection);
            Some(guard)
        });
        let result = next(fd, level, name, value, length);
        if let (Some(delay), None) = (delay, noted)
            && let Some(guard) = table::enter_placed(fd)
        {
            // Another thread has joined it meanwhile, and may have found the option as it was.
            delay.note(guard.connection);
            options::push(&guard);
        }
        let own = [
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (libc::SOL_SOCKET, options::SO_RCVTIMEO_NEW),
            (libc::IPPROTO_TCP, libc::TCP_INQ),
            (libc::SOL_SOCKET, libc::SO_LINGER),
        ];
        if result == 0
            && own.contains(&(level, name))
            && let Some(guard) = table::enter_placed(fd)
        {
            options::learn(fd, guard.connection);
        }
        result
    }
}

interpose! {
    fn getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut c_uint,
    ) -> c_int = |next| {
        let asks_error = level == libc::SOL_SOCKET && name == libc::SO_ERROR;
        if asks_error && let Some(guard) = table::enter_placed(fd) {
            // What the kernel reports of a death differs from what the program must see.
            death::is_gone(&guard);
        }
        let result = next(fd, level, name, value, length);
        if result == 0 && asks_error {
            // SAFETY: the kernel has just filled as much in as there is room for.
            unsafe { say_reset(fd, value.cast(), length) };
        }
        result
    }
}

/// Reports the pending error of a connection that the other end has reset, which the kernel may
/// learn of only later.
///
/// # Safety
///
/// The value is valid for as many bytes as the length says.
unsafe fn say_reset(fd: c_int, value: *mut c_int, length: *const c_uint) {
    // SAFETY: by the contract of this function.
    if unsafe { *length } as usize != size_of::<c_int>() {
        return;
    }
    let Some(guard) = table::enter_placed(fd).filter(|_| ready::is_joined(fd)) else { return };
    // SAFETY: as above.
    let found = unsafe { value.read_unaligned() };
    let is_reset = || {
        guard
            .connection
            .segment()
            .is_some_and(|segment| ready::events(&guard, &segment) & libc::POLLERR != 0)
    };
    let owed = death::owed(guard.connection);
    if let Some(why) = owed.filter(|_| found == 0) {
        guard.connection.reset_said.fetch_or(why == libc::ECONNRESET, Ordering::AcqRel);
        // SAFETY: as above.
        unsafe { value.write_unaligned(why) };
    } else if found == libc::ECONNRESET {
        // The kernel may have heard of it after the program.
        if guard.connection.reset_said.swap(true, Ordering::AcqRel) {
            // SAFETY: as above.
            unsafe { value.write_unaligned(0) };
        }
    } else if found == 0 && is_reset() && !guard.connection.reset_said.swap(true, Ordering::AcqRel)
    {
        // SAFETY: as above.
        unsafe { value.write_unaligned(libc::ECONNRESET) };
    }
}
