//! What the C interfaces share; the header is `python/weft/include/weft_messages.h`.
//!
//! Every call returns zero or more, or a negative number of `errno.h`; a `..._why` function then returns the text. A
//! handle may be used by several threads, one at a time.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{c_char, c_int, c_longlong, c_void, size_t};

use crate::rendezvous::{BadDirectory, Directory};

/// An error with a number.
pub trait Numbered: std::fmt::Display {
    /// The closest number of `errno.h`.
    fn number(&self) -> c_int;
}

/// What a C handle points to: an object, and the text of its last error.
pub struct Handle<T> {
    /// The object.
    pub object: T,
    why: CString,
}

/// A handle with its lock.
pub type Shared<T> = Mutex<Handle<T>>;

fn text(error: &impl Numbered) -> CString {
    // The text has no NUL: names are checked, paths come from C strings.
    CString::new(error.to_string()).unwrap_or_default()
}

/// The rendezvous directory of a path; the default one if it is null.
///
/// # Safety
/// The path is a C string or null.
pub unsafe fn directory(path: *const c_char) -> Result<Directory, BadDirectory> {
    if path.is_null() {
        return Directory::find();
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    Directory::at(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// Returns a new handle, or stores the error.
///
/// # Safety
/// `number` is writable or null; `why` has room for `room` bytes or is null.
pub unsafe fn give<T, E: Numbered>(
    made: Result<T, E>,
    number: *mut c_int,
    why: *mut c_char,
    room: size_t,
) -> *mut Shared<T> {
    let error = match made {
        Ok(object) => {
            let handle = Handle { object, why: CString::default() };
            return Box::into_raw(Box::new(Mutex::new(handle)));
        }
        Err(error) => error,
    };
    let said = text(&error);
    let length = said.as_bytes().len().min(room.saturating_sub(1));
    // SAFETY: the caller's promise.
    unsafe {
        if !number.is_null() {
            number.write(error.number());
        }
        if !why.is_null() && room > 0 {
            std::ptr::copy_nonoverlapping(said.as_ptr(), why, length);
            why.add(length).write(0);
        }
    }
    std::ptr::null_mut()
}

/// Frees a handle.
///
/// # Safety
/// The handle came from [`give`] and is not used any more, or is null.
pub unsafe fn close<T>(handle: *mut Shared<T>) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// # Safety
/// The handle is open.
pub unsafe fn locked<'a, T>(handle: *const Shared<T>) -> MutexGuard<'a, Handle<T>> {
    // SAFETY: the caller's promise. After a panic the object is in the state between two calls.
    unsafe { (*handle).lock().unwrap_or_else(PoisonError::into_inner) }
}

/// Uses the object, and keeps the text of an error.
///
/// # Safety
/// The handle is open.
pub unsafe fn call<T, E: Numbered>(
    handle: *const Shared<T>,
    what: impl FnOnce(&mut T) -> Result<c_longlong, E>,
) -> c_longlong {
    // SAFETY: the caller's promise.
    let mut handle = unsafe { locked(handle) };
    match what(&mut handle.object) {
        Ok(value) => value,
        Err(error) => {
            handle.why = text(&error);
            -c_longlong::from(error.number())
        }
    }
}

/// The text of the last error; until the next call with this handle.
///
/// # Safety
/// The handle is open.
pub unsafe fn why<T>(handle: *const Shared<T>) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { locked(handle).why.as_ptr() }
}

/// A timeout in seconds; infinity is as long as a program runs.
pub fn limit(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::from_secs(u32::MAX.into()))
}

/// # Safety
/// That many bytes are readable.
pub unsafe fn slice<'a>(bytes: *const c_void, length: size_t) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes.cast(), length) }
}
