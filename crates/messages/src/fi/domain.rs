//! Domains and memory registrations: `fi_domain(3)`, `fi_mr(3)`. Any memory of a process may be sent
//! from and received into, so a registration only gives a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_void, iovec, size_t};

use super::abi::{
    FI_CLASS_DOMAIN, FI_CLASS_MR, FI_THREAD_DOMAIN, fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_info,
    fi_mr_attr, fi_ops, fi_ops_domain, fi_ops_mr, fid, fid_av, fid_cntr, fid_cq, fid_domain,
    fid_ep, fid_fabric, fid_mr,
};
use super::state::Shared;
use super::{NOT_OFFERED, av, cntr, cq, ep, hand_out, no_control, no_ops, only_closed};

/// A domain as programs hold it.
#[repr(C)]
pub struct Domain {
    fid: fid_domain,
    pub shared: Arc<Shared>,
    keys: AtomicU64,
}

#[repr(C)]
struct Mr {
    fid: fid_mr,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind, control: no_control, ops_open: no_ops };
static OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open,
    cq_open,
    endpoint,
    scalable_ep: NOT_OFFERED,
    cntr_open,
    poll_open: NOT_OFFERED,
    stx_ctx: NOT_OFFERED,
    srx_ctx: NOT_OFFERED,
    query_atomic: NOT_OFFERED,
    query_collective: NOT_OFFERED,
};
static MR: fi_ops = only_closed(close_mr);
static MR_OPS: fi_ops_mr = fi_ops_mr { size: size_of::<fi_ops_mr>(), reg, regv, regattr };

/// `fi_domain`.
pub unsafe extern "C" fn open(
    _: *mut fid_fabric,
    info: *mut fi_info,
    place: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: &raw const FID };
    let fid = fid_domain { fid, ops: &raw const OPS, mr: &raw const MR_OPS };
    // SAFETY: the caller has valid attributes, or none.
    let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
    let is_serial = attr.is_some_and(|attr| attr.threading == FI_THREAD_DOMAIN);
    // SAFETY: the program has promised it by the domain's threading model.
    let shared = Arc::new(unsafe { Shared::new(is_serial) });
    let domain = Domain { fid, shared, keys: AtomicU64::new(0) };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(domain)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let domain = unsafe { &*object.cast::<Domain>() };
    let state = domain.shared.lock();
    let is_used = !state.endpoints.is_empty()
        || !state.queues.is_empty()
        || !state.counters.is_empty()
        || !state.vectors.is_empty();
    drop(state);
    if is_used {
        return -libc::EBUSY;
    }
    // SAFETY: for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Domain>()) });
    0
}

/// An event queue may be bound; no event is ever written to it.
unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    place: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an object of this provider, and attributes or null.
    unsafe { av::open(&*domain.cast(), attr.as_ref(), place, context) }
}

unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    place: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { cq::open(&*domain.cast(), attr.as_ref(), place, context) }
}

unsafe extern "C" fn cntr_open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    place: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { cntr::open(&*domain.cast(), attr.as_ref(), place, context) }
}

unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    place: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as above.
    unsafe { ep::open(&*domain.cast(), info.as_ref(), place, context) }
}

unsafe fn register(
    domain: *mut fid,
    requested: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let domain = unsafe { &*domain.cast::<Domain>() };
    let next = || domain.keys.fetch_add(1, Ordering::Relaxed) + 1;
    let key = if requested == 0 { next() } else { requested };
    let fid = fid { fclass: FI_CLASS_MR, context, ops: &raw const MR };
    let region = Mr { fid: fid_mr { fid, mem_desc: std::ptr::null_mut(), key } };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(region)) }
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    _: *const c_void,
    _: size_t,
    _: u64,
    _: u64,
    requested: u64,
    _: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { register(domain, requested, place, context) }
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    _: *const iovec,
    _: size_t,
    _: u64,
    _: u64,
    requested: u64,
    _: u64,
    place: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { register(domain, requested, place, context) }
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    _: u64,
    place: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller has attributes.
    let attr = unsafe { &*attr };
    // SAFETY: the caller's promise.
    unsafe { register(domain, attr.requested_key, place, attr.context) }
}

unsafe extern "C" fn close_mr(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    drop(unsafe { Box::from_raw(object.cast::<Mr>()) });
    0
}
