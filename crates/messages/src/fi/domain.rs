//! Domains: `fi_domain(3)`.

use std::sync::Arc;

use libc::{c_int, c_void};

use super::abi::{
    FI_CLASS_DOMAIN, FI_THREAD_DOMAIN, fi_av_attr, fi_cntr_attr, fi_cq_attr, fi_info, fi_ops,
    fi_ops_domain, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_ep, fid_fabric,
};
use super::state::Shared;
use super::{NOT_OFFERED, atomic, av, cntr, cq, ep, hand_out, mr, no_control, no_ops};

/// A domain as programs hold it.
#[repr(C)]
pub struct Domain {
    fid: fid_domain,
    pub shared: Arc<Shared>,
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
    query_atomic: atomic::query,
    query_collective: NOT_OFFERED,
};

/// `fi_domain`.
pub unsafe extern "C" fn open(
    _: *mut fid_fabric,
    info: *mut fi_info,
    place: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: &raw const FID };
    let fid = fid_domain { fid, ops: &raw const OPS, mr: &raw const mr::OPS };
    // SAFETY: the caller has valid attributes, or none.
    let attr = unsafe { info.as_ref().and_then(|info| info.domain_attr.as_ref()) };
    let is_serial = attr.is_some_and(|attr| attr.threading == FI_THREAD_DOMAIN);
    // SAFETY: the program has promised it by the domain's threading model.
    let shared = Arc::new(unsafe { Shared::new(is_serial) });
    shared.lock().regions = mr::Regions::of_mode(attr.map_or(0, |attr| attr.mr_mode));
    let domain = Domain { fid, shared };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(domain)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let domain = unsafe { &*object.cast::<Domain>() };
    let mut state = domain.shared.lock();
    let is_used = !state.endpoints().is_empty()
        || !state.queues.is_empty()
        || !state.counters.is_empty()
        || !state.vectors.is_empty()
        || !state.regions.is_empty();
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
