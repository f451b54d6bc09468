//! The C interface of windows; the header is `python/weft/include/weft_messages.h`.
//!
//! Every call returns zero or more, or a negative number of `errno.h`; [`weft_window_why`] then says why. A
//! handle may be used by several threads, one at a time.

use std::ffi::CStr;

use libc::{c_char, c_int, c_longlong, c_void, size_t};
use weft_protocol::window::{Node, Outcome};

use super::{Access, Targets, Window, WindowError};
use crate::c::{Numbered, call, close, directory, give, limit, locked, slice, why};

/// What the C handle points to.
type Shared = crate::c::Shared<Window>;

impl Numbered for WindowError {
    fn number(&self) -> c_int {
        match self {
            Self::Directory(_) | Self::NotOutgoing => libc::EACCES,
            Self::Name(_) | Self::Size(_) | Self::TooLong(_) | Self::NoLock(_) => libc::EINVAL,
            Self::TooManyMembers { .. } => libc::EINVAL,
            Self::Exists(_) => libc::EEXIST,
            Self::Missing { .. } => libc::ENOENT,
            Self::Full(_) => libc::EUSERS,
            Self::Outside { .. } => libc::ERANGE,
            Self::NotIncoming(..) => libc::EHOSTUNREACH,
            Self::NotHeld(_) => libc::EPERM,
            Self::Held(_) => libc::EDEADLK,
            Self::LockTaken(..) | Self::Barrier { .. } | Self::Stalled(..) => libc::ETIMEDOUT,
            Self::Lost(..) => libc::EIO,
            Self::Broken(_) => libc::EPROTO,
            Self::Kernel(number) => *number,
        }
    }
}

/// # Safety
/// Strings are C strings; `path` may be null; `number` is writable or null; `text` has room for `room` bytes or is
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_create(
    path: *const c_char,
    name: *const c_char,
    bytes: u64,
    number: *mut c_int,
    text: *mut c_char,
    room: size_t,
) -> *mut Shared {
    // SAFETY: the caller's promise.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy();
        let made = directory(path).map_err(WindowError::from);
        let made = made.and_then(|it| Window::create(it, &name, bytes));
        give(made, number, text, room)
    }
}

/// # Safety
/// The requirements of [`weft_window_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_attach(
    path: *const c_char,
    name: *const c_char,
    access: c_int,
    number: *mut c_int,
    text: *mut c_char,
    room: size_t,
) -> *mut Shared {
    let access = Access { takes: access & 1 != 0, writes: access & 2 != 0 };
    // SAFETY: the caller's promise.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy();
        let made = directory(path).map_err(WindowError::from);
        let made = made.and_then(|it| Window::attach(it, &name, access));
        give(made, number, text, room)
    }
}

/// # Safety
/// The handle came from one of the two calls above, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_close(handle: *mut Shared) {
    // SAFETY: the caller's promise.
    unsafe { close(handle) }
}

/// Leaves the window; its memory stays readable until the handle is closed.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_leave(handle: *mut Shared) {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).object.leave() }
}

/// The targets of a write: zero is all, the highest bit is all others, anything else is a set.
const fn targets(set: u64) -> Targets {
    const OTHERS: u64 = 1 << 63;
    match set {
        0 => Targets::All,
        OTHERS => Targets::Others,
        set => Targets::Some(set),
    }
}

/// Why the last call failed; until the next call with this handle.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_why(handle: *const Shared) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { why(handle) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_memory(handle: *const Shared) -> *const c_void {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).object.memory().cast() }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_bytes(handle: *const Shared) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).object.bytes() }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_node(handle: *const Shared) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).object.node().0.into() }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_members(handle: *const Shared) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).object.members() }
}

/// # Safety
/// The handle is open, and that many bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_write(
    handle: *const Shared,
    set: u64,
    offset: u64,
    bytes: *const c_void,
    length: size_t,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = slice(bytes, length);
        call(handle, |it| it.write(targets(set), offset, bytes).map(|()| 0))
    }
}

unsafe fn place<'a>(bytes: *mut c_void, length: size_t) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(bytes.cast(), length) }
}

/// # Safety
/// The handle is open, and that many bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_read(
    handle: *const Shared,
    offset: u64,
    bytes: *mut c_void,
    length: size_t,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = place(bytes, length);
        call(handle, |it| it.read(offset, bytes).map(|()| 0))
    }
}

/// # Safety
/// The requirements of [`weft_window_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_read_remote(
    handle: *const Shared,
    node: c_int,
    offset: u64,
    bytes: *mut c_void,
    length: size_t,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = place(bytes, length);
        call(handle, |it| it.read_remote(Node(node as u8), offset, bytes).map(|()| 0))
    }
}

/// One if it was applied, zero if not.
///
/// # Safety
/// The requirements of [`weft_window_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_write_conditional(
    handle: *const Shared,
    node: c_int,
    offset: u64,
    bytes: *const c_void,
    length: size_t,
    errors: u64,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = slice(bytes, length);
        call(handle, |it| {
            let outcome = it.write_conditional(Node(node as u8), offset, bytes, errors)?;
            Ok::<_, WindowError>((outcome == Outcome::Arrived).into())
        })
    }
}

/// The number of attempts.
///
/// # Safety
/// The requirements of [`weft_window_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_deliver(
    handle: *const Shared,
    node: c_int,
    offset: u64,
    bytes: *const c_void,
    length: size_t,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = slice(bytes, length);
        call(handle, |it| it.deliver(Node(node as u8), offset, bytes).map(c_longlong::from))
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_sweep(handle: *const Shared, set: u64) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call(handle, |it| it.sweep(targets(set)).map(|()| 0)) }
}

/// One if the copy has changed, zero on timeout.
///
/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_wait(handle: *const Shared, seconds: f64) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call::<_, WindowError>(handle, |it| Ok(it.wait(limit(seconds)).into())) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_errors(handle: *const Shared, node: c_int) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe {
        call(handle, |it| {
            let node = if node < 0 { it.node() } else { Node(node as u8) };
            it.errors_of(node).map(|errors| errors as c_longlong)
        })
    }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_lock(
    handle: *const Shared,
    index: c_int,
    seconds: f64,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call(handle, |it| it.lock(index as usize, limit(seconds)).map(|()| 0)) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_unlock(handle: *const Shared, index: c_int) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call(handle, |it| it.unlock(index as usize).map(|()| 0)) }
}

/// # Safety
/// The handle is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_window_barrier(
    handle: *const Shared,
    members: c_int,
    seconds: f64,
) -> c_longlong {
    // SAFETY: the caller's promise.
    unsafe { call(handle, |it| it.barrier(members as u32, limit(seconds)).map(|()| 0)) }
}
