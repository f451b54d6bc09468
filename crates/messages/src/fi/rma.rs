//! Remote memory access: `fi_rma(3)`.

use libc::{c_void, iovec, size_t, ssize_t};

use super::abi::{
    FI_EBADFLAGS, FI_EOPBADSTATE, FI_INJECT, FI_REMOTE_CQ_DATA, fi_msg_rma, fi_ops_rma, fi_rma_iov,
    fid_ep,
};
use super::ep::Ep;
use super::info::SEND_FLAGS;
use super::message::{Flags, no_more_than, one, places};
use super::result;
use super::state::Working;
use crate::channel::{MOST_RANGES, Operation, Range, Ranges, Request};
use crate::endpoint::{Access, LONGEST_INJECTED};
use crate::parts::Parts;
use crate::sys::Errno;

pub static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

/// A remote access as a program asks for it.
pub struct Asked {
    /// What, and where; `None` if there are too many ranges.
    pub request: Option<Request>,
    /// The peer's address.
    pub to: u64,
    /// The bytes to be written, or operands; `None` if there are too many buffers.
    pub source: Option<Parts>,
    /// Where bytes go that come back.
    pub target: Option<Parts>,
    /// The program's context.
    pub context: *mut c_void,
    /// The flags of the operation.
    pub flags: Flags,
}

/// # Safety
///
/// The pointers must be valid as the manual pages require.
pub unsafe fn post(endpoint: *mut fid_ep, asked: Asked) -> ssize_t {
    // SAFETY: the caller's promise.
    result(unsafe { try_post(endpoint, asked) }.map(|()| 0))
}

unsafe fn try_post(endpoint: *mut fid_ep, asked: Asked) -> Result<(), Errno> {
    // SAFETY: the program passes an object of this provider.
    let endpoint = unsafe { &*endpoint.cast::<Ep>() };
    let mut state = endpoint.shared.lock();
    let Working { bound, peers, vector, mut reporter } = state.working(endpoint.number)?;
    if !bound.is_enabled {
        return Err(FI_EOPBADSTATE);
    }
    let is_injected = asked.flags.of(&reporter.bindings.sends) & FI_INJECT != 0;
    let source = asked.source.ok_or(libc::EMSGSIZE)?;
    if is_injected && source.length() > LONGEST_INJECTED {
        return Err(libc::EMSGSIZE);
    }
    let to = bound.destination(vector, asked.to)?;
    let access = Access {
        context: asked.context.expose_provenance(),
        request: asked.request.ok_or(libc::EMSGSIZE)?,
        source,
        result: asked.target.ok_or(libc::EMSGSIZE)?,
        is_reported: asked.flags.is_reported(&reporter.bindings.sends),
        is_injected,
    };
    // SAFETY: the caller keeps the buffers valid until the completion.
    unsafe { bound.endpoint.access(peers, to, access, &mut reporter) }
}

/// No buffer.
pub const fn none() -> Option<Parts> {
    Some(Parts::one(std::ptr::null_mut(), 0))
}

fn request(operation: Operation, ranges: &[Range], data: Option<u64>) -> Option<Request> {
    Some(Request { operation, ranges: Ranges::new(ranges)?, data })
}

/// One range of this many bytes.
fn range(parts: Option<&Parts>, address: u64, key: u64) -> [Range; 1] {
    [Range { address, length: parts.map_or(0, Parts::length) as u64, key }]
}

/// The ranges of a vector; `None` if there are too many.
unsafe fn ranges(vector: *const fi_rma_iov, count: size_t) -> Option<Vec<Range>> {
    if count == 0 || count > MOST_RANGES {
        return None;
    }
    // SAFETY: the caller has that many ranges.
    let vector = unsafe { std::slice::from_raw_parts(vector, count) };
    let range = |it: &fi_rma_iov| Range { address: it.addr, length: it.len as u64, key: it.key };
    Some(vector.iter().map(range).collect())
}

fn reading(
    to: Option<Parts>,
    peer: u64,
    ranges: Option<&[Range]>,
    context: *mut c_void,
    flags: Flags,
) -> Asked {
    let request = ranges.and_then(|it| request(Operation::Read, it, None));
    Asked { request, to: peer, source: none(), target: to, context, flags }
}

fn writing(
    from: Option<Parts>,
    peer: u64,
    ranges: Option<&[Range]>,
    data: Option<u64>,
    context: *mut c_void,
    flags: Flags,
) -> Asked {
    let request = ranges.and_then(|it| request(Operation::Write, it, data));
    Asked { request, to: peer, source: from, target: none(), context, flags }
}

unsafe extern "C" fn read(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: size_t,
    _: *mut c_void,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    let parts = one(buffer, length);
    let ranges = range(parts.as_ref(), address, key);
    // SAFETY: the caller's promise, here and in the functions below.
    unsafe { post(endpoint, reading(parts, from, Some(&ranges), context, Flags::Default)) }
}

unsafe extern "C" fn readv(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    from: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let parts = places(vector, count);
        let ranges = range(parts.as_ref(), address, key);
        post(endpoint, reading(parts, from, Some(&ranges), context, Flags::Default))
    }
}

unsafe extern "C" fn readmsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_rma,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let it = &*message;
        let Ok(flags) = no_more_than(flags, SEND_FLAGS & !FI_INJECT) else {
            return -(FI_EBADFLAGS as ssize_t);
        };
        let (parts, ranges) =
            (places(it.msg_iov, it.iov_count), ranges(it.rma_iov, it.rma_iov_count));
        post(endpoint, reading(parts, it.addr, ranges.as_deref(), it.context, flags))
    }
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    let parts = one(buffer, length);
    let ranges = range(parts.as_ref(), address, key);
    // SAFETY: as above.
    unsafe { post(endpoint, writing(parts, to, Some(&ranges), None, context, Flags::Default)) }
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    vector: *const iovec,
    _: *mut *mut c_void,
    count: size_t,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let parts = places(vector, count);
        let ranges = range(parts.as_ref(), address, key);
        post(endpoint, writing(parts, to, Some(&ranges), None, context, Flags::Default))
    }
}

unsafe extern "C" fn writemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_rma,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let it = &*message;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(it.data);
        let Ok(flags) = no_more_than(flags, SEND_FLAGS | FI_REMOTE_CQ_DATA) else {
            return -(FI_EBADFLAGS as ssize_t);
        };
        let (parts, ranges) =
            (places(it.msg_iov, it.iov_count), ranges(it.rma_iov, it.rma_iov_count));
        post(endpoint, writing(parts, it.addr, ranges.as_deref(), data, it.context, flags))
    }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    to: u64,
    address: u64,
    key: u64,
) -> ssize_t {
    let (parts, context) = (one(buffer, length), std::ptr::null_mut());
    let ranges = range(parts.as_ref(), address, key);
    // SAFETY: as above.
    unsafe { post(endpoint, writing(parts, to, Some(&ranges), None, context, Flags::Injected)) }
}

unsafe extern "C" fn writedata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _: *mut c_void,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    let parts = one(buffer, length);
    let ranges = range(parts.as_ref(), address, key);
    // SAFETY: as above.
    unsafe {
        post(endpoint, writing(parts, to, Some(&ranges), Some(data), context, Flags::Default))
    }
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
) -> ssize_t {
    let (parts, context) = (one(buffer, length), std::ptr::null_mut());
    let ranges = range(parts.as_ref(), address, key);
    // SAFETY: as above.
    unsafe {
        post(endpoint, writing(parts, to, Some(&ranges), Some(data), context, Flags::Injected))
    }
}
