//! Fabrics: `fi_fabric(3)`.

use std::ffi::CStr;

use libc::{c_int, c_void};

use super::abi::{
    FI_CLASS_CQ, FI_CLASS_EQ, FI_CLASS_FABRIC, FI_ENODATA, fi_fabric_attr, fi_ops, fi_ops_fabric,
    fid, fid_fabric,
};
use super::{NAME, NOT_OFFERED, cq, domain, eq, hand_out, only_closed, pep};

#[repr(C)]
struct Fabric {
    fid: fid_fabric,
}

static FABRIC: fi_ops = only_closed(close_fabric);
static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: domain::open,
    passive_ep: pep::open,
    eq_open: eq::open,
    wait_open: NOT_OFFERED,
    trywait,
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
        // SAFETY: the caller has that many objects.
        let object = unsafe { *objects.add(index) };
        // SAFETY: as above.
        match unsafe { (*object).fclass } {
            FI_CLASS_EQ => {
                // SAFETY: an object of this class of this provider.
                if let Err(error) = eq::try_wait(unsafe { &*object.cast() }) {
                    return -error;
                }
            }
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
