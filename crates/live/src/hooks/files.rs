//! `sendfile` to an accelerated connection: through a buffer.

use libc::{c_int, off_t, size_t, ssize_t};

use crate::handover::departure::depart;
use crate::hooks::vector::{MOST, message};
use crate::interpose::interpose;
use crate::memory::pointers;
use crate::memory::pool;
use crate::report::stats::Reason;
use crate::stream::{self, fail, send};
use crate::sys::{self, Errno};
use crate::table;
use crate::table::numbers::passed_by;

/// Copies as far as there is room.
///
/// # Safety
///
/// The offset is null or valid.
unsafe fn copy_file(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: by the contract of this function.
    let at =
        unsafe { if offset.is_null() { libc::lseek(from, 0, libc::SEEK_CUR) } else { *offset } };
    let end = off_t::try_from(count).ok().and_then(|count| at.checked_add(count));
    if at < 0 || end.is_none() {
        // Whether it may be read at all is asked first.
        return fail(sys::send_nothing_of(from, to, 0).err().unwrap_or(libc::EINVAL));
    }
    let done = match pool::with(|room| copy_by(room, to, from, at, count.min(MOST))) {
        Ok(done) => done,
        Err(why) => return fail(why),
    };
    // SAFETY: by the contract of this function.
    unsafe {
        if offset.is_null() {
            libc::lseek(from, at + done as off_t, libc::SEEK_SET);
        } else {
            *offset = at + done as off_t;
        }
    }
    done as ssize_t
}

/// Copies `count` bytes from a place in a file through a buffer, and returns how many it copied.
fn copy_by(
    room: &mut [u8],
    to: c_int,
    from: c_int,
    start: off_t,
    count: usize,
) -> Result<usize, Errno> {
    let (buffer, room) = (room.as_mut_ptr(), room.len());
    let (mut done, before) = (0, sys::errno());
    while done < count {
        let at = start + done as off_t;
        let found = match sys::read_at(from, buffer, room.min(count - done), at) {
            Ok(0) => break,
            Ok(found) => found,
            Err(why) if done == 0 => return Err(why),
            Err(_) => break,
        };
        let piece = message(buffer.cast_const().cast(), found);
        let kernel = move || match sys::send(to, buffer, found, 0) {
            Ok(count) => count as ssize_t,
            Err(why) => fail(why),
        };
        let sent = send(to, || piece, 0, kernel);
        if sent < 0 && done == 0 {
            return Err(sys::errno());
        }
        if sent < 0 {
            // The result says how much was sent, not why no more was.
            sys::set_errno(before);
            break;
        }
        done += sent as usize;
        if sent < found as ssize_t {
            break;
        }
    }
    if done == 0 {
        // Of a file that holds nothing there the kernel says whether there could be anything: the
        // first byte would be asked for by its end.
        sys::send_nothing_of(from, to, start + off_t::from(count > 0))?;
    }
    Ok(done)
}

/// # Safety
///
/// The offset is null or valid.
unsafe fn send_file(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
    kernel: impl Fn() -> ssize_t + Copy,
) -> ssize_t {
    if let Some(result) = passed_by(to, kernel) {
        return result;
    }
    let Some(guard) = table::enter(to) else { return kernel() };
    if !stream::is_accelerated(&guard) || !offset.is_null() && !pointers::is_there(offset) {
        return kernel();
    }
    match sys::kind_of(from) {
        Some(libc::S_IFREG | libc::S_IFBLK) => {}
        // Some kernels copy from some devices.
        Some(libc::S_IFCHR) => {
            drop(guard);
            depart(to, Reason::Splice);
            return kernel();
        }
        // From nothing else, and says why.
        _ => return kernel(),
    }
    // SAFETY: by the contract of this function.
    unsafe { copy_file(to, from, offset, count) }
}

interpose! {
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t = |next| {
        // SAFETY: the program says that the offset is null or valid.
        unsafe { send_file(to, from, offset, count, move || next(to, from, offset, count)) }
    }
}

interpose! {
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t = |next| {
        // SAFETY: as for `sendfile`.
        unsafe { send_file(to, from, offset, count, move || next(to, from, offset, count)) }
    }
}
