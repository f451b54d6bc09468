//! Fabrics and event queues: `fi_fabric(3)`, `fi_eq(3)`. Connectionless endpoints produce no events, but programs
//! open a queue for them.

use std::ffi::CStr;
use std::time::Duration;

use libc::{c_char, c_int, c_void, size_t, ssize_t};

use super::abi::{
    FI_CLASS_CQ, FI_CLASS_EQ, FI_CLASS_FABRIC, FI_ENODATA, FI_ENOSYS, fi_eq_attr, fi_fabric_attr,
    fi_ops, fi_ops_eq, fi_ops_fabric, fid, fid_eq, fid_fabric,
};
use super::state::limit;
use super::{NAME, NOT_OFFERED, cq, domain, hand_out, only_closed};

#[repr(C)]
struct Fabric {
    fid: fid_fabric,
}

#[repr(C)]
struct Eq {
    fid: fid_eq,
}

static FABRIC: fi_ops = only_closed(close_fabric);
static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open,
    passive_ep: NOT_OFFERED,
    eq_open,
    wait_open: NOT_OFFERED,
    trywait,
};
static EQ: fi_ops = only_closed(close_eq);
static EQ_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: eq_read,
    readerr: eq_readerr,
    write: eq_write,
    sread: eq_sread,
    strerror: eq_strerror,
};

/// `fi_fabric`.
pub unsafe extern "C" fn open(
    attr: *mut fi_fabric_attr,
    place: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller has attributes, or none.
    let attr = unsafe { attr.as_ref() };
    // SAFETY: their name is a C string, or none.
    let other =
        attr.is_some_and(|it| !it.name.is_null() && unsafe { CStr::from_ptr(it.name) } != NAME);
    if other {
        return -FI_ENODATA;
    }
    let api_version = attr.map_or(super::abi::FI_API, |attr| attr.api_version);
    let fid = fid { fclass: FI_CLASS_FABRIC, context, ops: &raw const FABRIC };
    let fid = fid_fabric { fid, ops: &raw const FABRIC_OPS, api_version };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(Fabric { fid })) }
}

unsafe extern "C" fn close_fabric(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Fabric>()) });
    0
}

unsafe extern "C" fn trywait(_: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller has so many objects.
        let object = unsafe { *objects.add(index) };
        // SAFETY: as above.
        match unsafe { (*object).fclass } {
            FI_CLASS_EQ => {}
            FI_CLASS_CQ => {
                // SAFETY: an object of this class of this provider.
                if let Err(error) = cq::try_wait(unsafe { &*object.cast() }) {
                    return -error;
                }
            }
            _ => return -libc::EINVAL,
        }
    }
    0
}

unsafe extern "C" fn eq_open(
    _: *mut fid_fabric,
    _: *mut fi_eq_attr,
    place: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    let fid = fid { fclass: FI_CLASS_EQ, context, ops: &raw const EQ };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(Eq { fid: fid_eq { fid, ops: &raw const EQ_OPS } })) }
}

unsafe extern "C" fn close_eq(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Eq>()) });
    0
}

unsafe extern "C" fn eq_read(
    _: *mut fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: size_t,
    _: u64,
) -> ssize_t {
    -(libc::EAGAIN as ssize_t)
}

unsafe extern "C" fn eq_readerr(_: *mut fid_eq, _: *mut c_void, _: u64) -> ssize_t {
    -(libc::EAGAIN as ssize_t)
}

unsafe extern "C" fn eq_write(
    _: *mut fid_eq,
    _: u32,
    _: *const c_void,
    _: size_t,
    _: u64,
) -> ssize_t {
    -(FI_ENOSYS as ssize_t)
}

unsafe extern "C" fn eq_sread(
    _: *mut fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: size_t,
    timeout: c_int,
    _: u64,
) -> ssize_t {
    std::thread::sleep(limit(timeout).unwrap_or(Duration::MAX));
    -(libc::EAGAIN as ssize_t)
}

unsafe extern "C" fn eq_strerror(
    _: *mut fid_eq,
    error: c_int,
    _: *const c_void,
    buffer: *mut c_char,
    length: size_t,
) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { cq::say(error, buffer, length) }
}
