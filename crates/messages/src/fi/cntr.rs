//! Counters: `fi_cntr(3)`.

use std::sync::Arc;

use libc::{c_int, c_void};

use super::abi::{
    FI_CLASS_CNTR, FI_EAVAIL, FI_WAIT_NONE, fi_cntr_attr, fi_ops, fi_ops_cntr, fid, fid_cntr,
};
use super::cq::{control_waiter, wait_object};
use super::domain::Domain;
use super::state::{Counter, Shared, Waitable, Waiter};
use super::waiting::{limit, wait};
use super::{hand_out, no_bind, no_ops, outcome};
use crate::sys;

/// A counter as programs hold it.
#[repr(C)]
pub struct Cntr {
    fid: fid_cntr,
    pub shared: Arc<Shared>,
    pub number: usize,
}

static FID: fi_ops =
    fi_ops { size: size_of::<fi_ops>(), close, bind: no_bind, control, ops_open: no_ops };
static OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read,
    readerr,
    add,
    set,
    wait: wait_for,
    adderr,
    seterr,
};

/// `fi_cntr_open`.
pub unsafe fn open(
    domain: &Domain,
    attr: Option<&fi_cntr_attr>,
    place: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    let object = wait_object(attr.map_or(FI_WAIT_NONE, |attr| attr.wait_obj));
    let waiter = match object.and_then(Waiter::new) {
        Ok(waiter) => waiter,
        Err(error) => return -error,
    };
    let number = domain.shared.lock().counters.add(Counter { value: 0, errors: 0, waiter });
    let ops = &raw const FID;
    let fid = fid_cntr { fid: fid { fclass: FI_CLASS_CNTR, context, ops }, ops: &raw const OPS };
    let counter = Cntr { fid, shared: Arc::clone(&domain.shared), number };
    // SAFETY: the caller's promise; the object begins with its identifier.
    unsafe { hand_out(place, Box::new(counter)) }
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    // SAFETY: the program passes an object of this provider, for the last time.
    let counter = unsafe { Box::from_raw(object.cast::<Cntr>()) };
    let mut state = counter.shared.lock();
    if state.is_used(Waitable::Counter(counter.number)) {
        drop(state);
        let _ = Box::into_raw(counter);
        return -libc::EBUSY;
    }
    state.counters.remove(counter.number);
    0
}

unsafe extern "C" fn control(object: *mut fid, command: c_int, place: *mut c_void) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let counter = unsafe { &*object.cast::<Cntr>() };
    let mut state = counter.shared.lock();
    let waiter = state.counters.get(counter.number).map(|it| &it.waiter);
    // SAFETY: the command says what the place has room for.
    outcome(waiter.and_then(|waiter| unsafe { control_waiter(waiter, command, place) }))
}

/// Makes progress, then uses the counter; zero if it is closed.
unsafe fn with(counter: *mut fid_cntr, use_it: impl FnOnce(&mut Counter) -> u64) -> u64 {
    // SAFETY: the program passes an object of this provider.
    let counter = unsafe { &*counter.cast::<Cntr>() };
    let mut state = counter.shared.lock();
    state.progress(Waitable::Counter(counter.number));
    state.counters.get(counter.number).map_or(0, use_it)
}

unsafe extern "C" fn read(counter: *mut fid_cntr) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(counter, |it| it.value) }
}

unsafe extern "C" fn readerr(counter: *mut fid_cntr) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { with(counter, |it| it.errors) }
}

/// Changes the counter and wakes its waiters.
unsafe fn change(counter: *mut fid_cntr, change: impl FnOnce(&mut Counter)) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(counter, |it| {
            change(it);
            sys::set_event(&it.waiter.event);
            0
        })
    };
    0
}

unsafe extern "C" fn add(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(counter, |it| it.value = it.value.wrapping_add(value)) }
}

unsafe extern "C" fn set(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(counter, |it| it.value = value) }
}

unsafe extern "C" fn adderr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(counter, |it| it.errors = it.errors.wrapping_add(value)) }
}

unsafe extern "C" fn seterr(counter: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change(counter, |it| it.errors = value) }
}

unsafe extern "C" fn wait_for(counter: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: the program passes an object of this provider.
    let counter = unsafe { &*counter.cast::<Cntr>() };
    let mut errors = None;
    let found = wait(&counter.shared, Waitable::Counter(counter.number), limit(timeout), |state| {
        let Ok(it) = state.counters.get(counter.number) else { return Some(-libc::EINVAL) };
        sys::clear_event(&it.waiter.event);
        let before = *errors.get_or_insert(it.errors);
        let has_failed = it.errors != before;
        (it.value >= threshold).then_some(0).or(has_failed.then_some(-FI_EAVAIL))
    });
    found.unwrap_or(-libc::ETIMEDOUT)
}
