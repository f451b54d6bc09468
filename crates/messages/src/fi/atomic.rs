//! Atomic operations on remote memory: `fi_atomic(3)`.

use libc::{c_int, c_void, iovec, size_t, ssize_t};

use super::abi::{
    FI_COMPARE_ATOMIC, FI_EBADFLAGS, FI_FETCH_ATOMIC, fi_atomic_attr, fi_ioc, fi_msg_atomic,
    fi_ops_atomic, fid_domain, fid_ep,
};
use super::info::SEND_FLAGS;
use super::message::{Flags, no_more_than};
use super::rma::{Asked, none, post};
use crate::channel::{
    AtomicCode, LONGEST_OPERANDS, MOST_RANGES, Operation, Range, Ranges, Request, Returns,
};
use crate::endpoint::{is_atomic_offered, size_of_datatype};
use crate::parts::{MOST, Parts};

pub static OPS: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// Elements of this process.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [fi_ioc]);

impl Elements<'_> {
    const NONE: Elements<'static> = Elements(&[]);

    /// Their bytes; `None` if there are too many buffers.
    fn parts(self, size: usize) -> Option<Parts> {
        if self.0.is_empty() {
            return none();
        }
        let places = self
            .0
            .iter()
            .map(|it| Some(iovec { iov_base: it.addr, iov_len: it.count.checked_mul(size)? }));
        Parts::new(&places.collect::<Option<Vec<_>>>()?)
    }
}

unsafe fn elements<'a>(vector: *const fi_ioc, count: size_t) -> Elements<'a> {
    if count == 0 {
        return Elements::NONE;
    }
    // SAFETY: the caller has that many; more than are allowed are refused later.
    Elements(unsafe { std::slice::from_raw_parts(vector, count.min(MOST + 1)) })
}

const fn one(buffer: *const c_void, count: size_t) -> [fi_ioc; 1] {
    // Without a buffer there are no operands.
    [fi_ioc { addr: buffer.cast_mut(), count: if buffer.is_null() { 0 } else { count } }]
}

/// An operation as the program names it, and where it goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    to: u64,
    /// Address, number of elements and key of each range.
    ranges: &'a [(u64, usize, u64)],
    datatype: u32,
    operation: u32,
    context: *mut c_void,
    flags: Flags,
}

/// The operands of an operation, and where the old values go.
#[derive(Clone, Copy)]
struct Operands<'a> {
    source: Elements<'a>,
    compare: Option<Elements<'a>>,
    result: Option<Elements<'a>>,
}

fn code(datatype: u32, operation: u32, returns: Returns) -> Option<AtomicCode> {
    let (datatype, operation) = (u8::try_from(datatype).ok()?, u8::try_from(operation).ok()?);
    let code = AtomicCode { operation, datatype, returns };
    is_atomic_offered(code).then_some(code)
}

/// # Safety
///
/// The pointers must be valid as the manual pages require.
unsafe fn start(endpoint: *mut fid_ep, target: &Target<'_>, operands: Operands<'_>) -> ssize_t {
    let returns = match (operands.compare, operands.result) {
        (Some(_), _) => Returns::BeforeCompared,
        (None, Some(_)) => Returns::Before,
        (None, None) => Returns::Nothing,
    };
    let Some(code) = code(target.datatype, target.operation, returns) else {
        return -(libc::EOPNOTSUPP as ssize_t);
    };
    let size = size_of_datatype(code.datatype).unwrap_or(1);
    let ranges = target.ranges.iter().map(|(address, count, key)| {
        Some(Range { address: *address, length: count.checked_mul(size)? as u64, key: *key })
    });
    let ranges = ranges.collect::<Option<Vec<_>>>();
    let ranges = ranges.filter(|it| !it.is_empty()).and_then(|it| Ranges::new(&it));
    let request =
        ranges.map(|ranges| Request { operation: Operation::Atomic(code), ranges, data: None });
    let all = [Some(operands.source), operands.compare];
    let all = all.into_iter().flatten().map(|it| it.parts(size)).collect::<Option<Vec<_>>>();
    let length = |all: &Vec<Parts>| all.iter().map(Parts::length).sum::<usize>();
    let Some(all) = all.filter(|all| length(all) <= 2 * LONGEST_OPERANDS) else {
        return -(libc::EMSGSIZE as ssize_t);
    };
    // Source and comparison lie behind each other in the record, which is written before this returns.
    let mut gathered: Vec<u8> = Vec::with_capacity(length(&all));
    for parts in &all {
        // SAFETY: there is room; the caller's buffers are readable.
        unsafe {
            parts.copy_to(gathered.as_mut_ptr().wrapping_add(gathered.len()));
            gathered.set_len(gathered.len() + parts.length());
        }
    }
    let source = Some(Parts::one(gathered.as_mut_ptr(), gathered.len()));
    let result = operands.result.map_or_else(none, |it| it.parts(size));
    let Target { to, context, flags, .. } = *target;
    // SAFETY: the caller's promise.
    unsafe { post(endpoint, Asked { request, to, source, target: result, context, flags }) }
}

unsafe fn start_message(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
    compare: Option<Elements<'_>>,
    result: Option<Elements<'_>>,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let it = unsafe { &*message };
    let Ok(flags) = no_more_than(flags, SEND_FLAGS) else { return -(FI_EBADFLAGS as ssize_t) };
    if it.rma_iov_count == 0 || it.rma_iov_count > MOST_RANGES {
        return -(libc::EMSGSIZE as ssize_t);
    }
    // SAFETY: the caller has that many ranges.
    let ranges = unsafe { std::slice::from_raw_parts(it.rma_iov, it.rma_iov_count) };
    let ranges: Vec<_> = ranges.iter().map(|it| (it.addr, it.count, it.key)).collect();
    let target = Target {
        to: it.addr,
        ranges: &ranges,
        datatype: it.datatype,
        operation: it.op,
        context: it.context,
        flags,
    };
    // SAFETY: the caller's promise.
    unsafe {
        let source = elements(it.msg_iov, it.iov_count);
        start(endpoint, &target, Operands { source, compare, result })
    }
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: size_t,
    _: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    let ranges = &[(address, count, key)];
    let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
    let operands = Operands { source: Elements(&one(buffer, count)), compare: None, result: None };
    // SAFETY: the caller's promise, here and in the functions below.
    unsafe { start(endpoint, &target, operands) }
}

fn total(elements: Elements<'_>) -> usize {
    elements.0.iter().fold(0, |sum, it| sum.saturating_add(it.count))
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    vector: *const fi_ioc,
    _: *mut *mut c_void,
    count: size_t,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let source = elements(vector, count);
        let ranges = &[(address, total(source), key)];
        let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
        start(endpoint, &target, Operands { source, compare: None, result: None })
    }
}

unsafe extern "C" fn writemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    unsafe { start_message(endpoint, message, flags, None, None) }
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: size_t,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
) -> ssize_t {
    let (ranges, context) = (&[(address, count, key)], std::ptr::null_mut());
    let target = Target { to, ranges, datatype, operation, context, flags: Flags::Injected };
    let operands = Operands { source: Elements(&one(buffer, count)), compare: None, result: None };
    // SAFETY: as above.
    unsafe { start(endpoint, &target, operands) }
}

unsafe extern "C" fn readwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: size_t,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    let ranges = &[(address, count, key)];
    let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
    let (source, result) = (one(buffer, count), one(result, count));
    let result = Some(Elements(&result));
    // SAFETY: as above.
    unsafe {
        start(endpoint, &target, Operands { source: Elements(&source), compare: None, result })
    }
}

unsafe extern "C" fn readwritev(
    endpoint: *mut fid_ep,
    vector: *const fi_ioc,
    _: *mut *mut c_void,
    count: size_t,
    results: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: size_t,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let (source, result) = (elements(vector, count), elements(results, result_count));
        let ranges = &[(address, total(result), key)];
        let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
        start(endpoint, &target, Operands { source, compare: None, result: Some(result) })
    }
}

unsafe extern "C" fn readwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    results: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: size_t,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let result = Some(elements(results, result_count));
        start_message(endpoint, message, flags, None, result)
    }
}

unsafe extern "C" fn compwrite(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    count: size_t,
    _: *mut c_void,
    compare: *const c_void,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    let ranges = &[(address, count, key)];
    let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
    let [source, compare, result] = [buffer, compare, result].map(|it| one(it, count));
    let operands = Operands {
        source: Elements(&source),
        compare: Some(Elements(&compare)),
        result: Some(Elements(&result)),
    };
    // SAFETY: as above.
    unsafe { start(endpoint, &target, operands) }
}

unsafe extern "C" fn compwritev(
    endpoint: *mut fid_ep,
    vector: *const fi_ioc,
    _: *mut *mut c_void,
    count: size_t,
    compares: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: size_t,
    results: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: size_t,
    to: u64,
    address: u64,
    key: u64,
    datatype: u32,
    operation: u32,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let source = elements(vector, count);
        let compare = Some(elements(compares, compare_count));
        let result = Some(elements(results, result_count));
        let ranges = &[(address, total(source), key)];
        let target = Target { to, ranges, datatype, operation, context, flags: Flags::Default };
        start(endpoint, &target, Operands { source, compare, result })
    }
}

unsafe extern "C" fn compwritemsg(
    endpoint: *mut fid_ep,
    message: *const fi_msg_atomic,
    compares: *const fi_ioc,
    _: *mut *mut c_void,
    compare_count: size_t,
    results: *mut fi_ioc,
    _: *mut *mut c_void,
    result_count: size_t,
    flags: u64,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        let compare = Some(elements(compares, compare_count));
        let result = Some(elements(results, result_count));
        start_message(endpoint, message, flags, compare, result)
    }
}

/// Whether an operation is offered, and for how many elements.
unsafe fn valid(datatype: u32, operation: u32, returns: Returns, count: *mut size_t) -> c_int {
    let Some(code) = code(datatype, operation, returns) else { return -libc::EOPNOTSUPP };
    let size = size_of_datatype(code.datatype).unwrap_or(1);
    // SAFETY: the caller has room for the number.
    unsafe { count.write(LONGEST_OPERANDS / size) };
    0
}

unsafe extern "C" fn writevalid(
    _: *mut fid_ep,
    datatype: u32,
    operation: u32,
    count: *mut size_t,
) -> c_int {
    // SAFETY: as above.
    unsafe { valid(datatype, operation, Returns::Nothing, count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    operation: u32,
    count: *mut size_t,
) -> c_int {
    // SAFETY: as above.
    unsafe { valid(datatype, operation, Returns::Before, count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut fid_ep,
    datatype: u32,
    operation: u32,
    count: *mut size_t,
) -> c_int {
    // SAFETY: as above.
    unsafe { valid(datatype, operation, Returns::BeforeCompared, count) }
}

/// `fi_query_atomic`.
pub unsafe extern "C" fn query(
    _: *mut fid_domain,
    datatype: u32,
    operation: u32,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let returns = match flags {
        0 => Returns::Nothing,
        FI_FETCH_ATOMIC => Returns::Before,
        FI_COMPARE_ATOMIC => Returns::BeforeCompared,
        _ => return -libc::EINVAL,
    };
    let Some(code) = code(datatype, operation, returns) else { return -libc::EOPNOTSUPP };
    let size = size_of_datatype(code.datatype).unwrap_or(1);
    // SAFETY: the caller has room for the attributes.
    unsafe { attr.write(fi_atomic_attr { count: LONGEST_OPERANDS / size, size }) };
    0
}
