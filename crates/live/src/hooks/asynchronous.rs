//! Requests for asynchronous input and output: other threads, or the kernel alone, serve them where the
//! library does not see it. The connection moves back before.

use libc::{c_int, c_long, c_uint, c_void, size_t};

use crate::handover::departure::depart;
use crate::interpose::interpose;
use crate::memory::pointers;
use crate::report::stats::Reason;
use crate::table::forbidden;

/// Moves a connection back that a request for asynchronous input and output names.
///
/// # Safety
///
/// The request is null or valid.
unsafe fn depart_asynchronous(request: *const libc::aiocb) {
    if pointers::is_there(request) {
        // SAFETY: by the contract of this function.
        depart(unsafe { (*request).aio_fildes }, Reason::Call);
    }
}

/// The C library's own threads read and write past every interposed function.
macro_rules! depart_before {
    ($($name:ident)*) => {$(
        interpose! {
            fn $name(request: *mut libc::aiocb) -> c_int = |next| {
                // SAFETY: the program says that the request is valid.
                unsafe { depart_asynchronous(request) };
                next(request)
            }
        }
    )*};
}

depart_before!(aio_read aio_read64 aio_write aio_write64);

/// How many requests there are: none if the list is not readable.
fn how_many<T>(requests: *const T, count: c_long) -> usize {
    let count = usize::try_from(count).unwrap_or(0);
    if pointers::are_there(requests, count) { count } else { 0 }
}

type Requests = *const *mut libc::aiocb;

macro_rules! depart_before_lists {
    ($($name:ident)*) => {$(
        interpose! {
            fn $name(
                mode: c_int, requests: Requests, count: c_int, event: *mut c_void,
            ) -> c_int = |next| {
                for at in 0..how_many(requests, i64::from(count)) {
                    // SAFETY: the program says that there are that many requests.
                    unsafe { depart_asynchronous(*requests.add(at)) };
                }
                next(mode, requests, count, event)
            }
        }
    )*};
}

depart_before_lists!(lio_listio lio_listio64);

/// A request to the kernel for asynchronous input and output, as far as it is looked at here.
#[repr(C)]
pub struct KernelRequest {
    before: [u8; 20],
    fd: c_int,
}

pub type KernelRequests = *const *const KernelRequest;

/// Moves the connections back that requests to the kernel name.
///
/// # Safety
///
/// There are `count` requests.
pub unsafe fn depart_submitted(requests: KernelRequests, count: c_long) {
    for at in 0..how_many(requests, count) {
        // SAFETY: by the contract of this function.
        let request = unsafe { *requests.add(at) };
        if pointers::is_there(request) {
            // SAFETY: as above.
            depart(unsafe { (*request).fd }, Reason::Call);
        }
    }
}

interpose! {
    /// A call of `libaio`: the kernel reads and writes asynchronously.
    fn io_submit(context: *mut c_void, count: c_long, requests: KernelRequests) -> c_int
    = |next| {
        // SAFETY: the program says that there are that many requests.
        unsafe { depart_submitted(requests, count) };
        next(context, count, requests)
    }
}

interpose! {
    fn io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int = |next| {
        forbidden::begin(Reason::IoUring);
        next(entries, parameters)
    }
}

interpose! {
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int = |next| {
        forbidden::begin(Reason::IoUring);
        next(entries, ring, flags)
    }
}

interpose! {
    fn io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void,
    ) -> c_int = |next| {
        forbidden::begin(Reason::IoUring);
        next(entries, ring, parameters)
    }
}

interpose! {
    fn io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, place: *mut c_void,
        length: size_t,
    ) -> c_int = |next| {
        forbidden::begin(Reason::IoUring);
        next(entries, ring, parameters, place, length)
    }
}

interpose! {
    fn io_uring_queue_init_try_nosqarr(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void,
    ) -> c_int = |next| {
        forbidden::begin(Reason::IoUring);
        next(entries, ring, parameters)
    }
}
