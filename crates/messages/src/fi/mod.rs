//! The libfabric provider `weft`, for the processes of one host.
//!
//! libfabric loads it from a directory of `FI_PROVIDER_PATH`, as `libweft-fi.so`. [`info`] offers only what is
//! implemented.

pub mod abi;
mod atomic;
mod av;
mod cm;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod fabric;
pub mod info;
mod message;
mod mr;
mod pep;
mod record;
mod rma;
mod state;
mod waiting;

use std::cell::UnsafeCell;

use libc::{c_char, c_int, c_void, ssize_t};

use abi::{Call, FI_ENOSYS, fi_context, fi_ops, fi_provider, fid};

/// The name by which programs ask for the provider.
pub const NAME: &std::ffi::CStr = c"weft";

struct Provider(UnsafeCell<fi_provider>);

// SAFETY: libfabric alone writes to it, under its own lock, while it loads the provider.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: info::VERSION,
    fi_version: abi::FI_API,
    context: fi_context { internal: [std::ptr::null_mut(); 4] },
    name: NAME.as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup,
}));

unsafe extern "C" fn cleanup() {}

/// The entry point that libfabric calls.
// SAFETY: no other library of a program has a reason to define this name.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    PROVIDER.0.get()
}

/// The implementation of calls that are not offered.
unsafe extern "C" fn not_offered() -> ssize_t {
    -(FI_ENOSYS as ssize_t)
}

const NOT_OFFERED: Call = not_offered;

unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_ops(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

/// The operations of an object that can only be closed.
const fn only_closed(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close,
        bind: no_bind,
        control: no_control,
        ops_open: no_ops,
    }
}

/// Returns a new object to the program through `place`.
///
/// # Safety
///
/// `place` must be writable, and the object must begin with a `U`.
unsafe fn hand_out<T, U>(place: *mut *mut U, object: Box<T>) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { place.write(Box::into_raw(object).cast()) };
    0
}

/// The result of a call that returns a number or an error.
fn result(done: Result<usize, c_int>) -> ssize_t {
    match done {
        Ok(count) => count as ssize_t,
        Err(error) => -(error as ssize_t),
    }
}

/// The result of a call that returns nothing or an error.
fn outcome(done: Result<(), c_int>) -> c_int {
    done.map_or_else(|error| -error, |()| 0)
}
