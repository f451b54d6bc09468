//! Where a program says that its bytes are.

use libc::{c_int, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, sockaddr_storage};

use crate::memory::pointers;

/// The kernel moves no more in one call.
pub const MOST: usize = 0x7fff_f000;

/// Bytes in one place; `None` if the kernel refuses the pointer.
#[inline]
pub fn one(base: *const c_void, length: size_t) -> Option<[iovec; 1]> {
    let refused = pointers::is_refused(base.addr(), length);
    (!refused).then_some([iovec { iov_base: base.cast_mut(), iov_len: length.min(MOST) }])
}

/// Bytes in one place, for a call on a socket: the kernel checks no more of them than it moves.
#[inline]
pub fn message(base: *const c_void, length: size_t) -> Option<[iovec; 1]> {
    one(base, length.min(MOST))
}

/// The parts of a vector; `None` if the kernel refuses it and sets the error.
///
/// # Safety
///
/// The vector is null or has `count` parts, if there is memory where it lies.
pub unsafe fn parts<'a>(vector: *const iovec, count: usize) -> Option<&'a [iovec]> {
    if count == 0 {
        return Some(&[]);
    }
    if count > libc::UIO_MAXIOV as usize || !pointers::are_there(vector, count) {
        return None;
    }
    // SAFETY: by the contract of this function.
    let parts = unsafe { std::slice::from_raw_parts(vector, count) };
    // A single part the kernel shortens before it looks where it lies.
    let looked_at = if count == 1 { MOST } else { usize::MAX };
    let is_refused = |part: &iovec| {
        let length = part.iov_len.min(looked_at);
        part.iov_len > isize::MAX as usize || pointers::is_refused(part.iov_base.addr(), length)
    };
    (!parts.iter().any(is_refused)).then_some(parts)
}

/// The parts of a vector that is to be moved as a file's bytes are: one that says nothing does nothing
/// then, whatever the connection is, and is left to the kernel too.
///
/// # Safety
///
/// The requirements of [`parts`].
pub unsafe fn parts_of_file<'a>(vector: *const iovec, count: usize) -> Option<&'a [iovec]> {
    // SAFETY: by the contract of this function.
    let parts = unsafe { parts(vector, count) };
    parts.filter(|parts| parts.iter().any(|part| part.iov_len > 0))
}

/// Whether the kernel takes this for an address, and looks at it.
pub fn is_address(address: *const sockaddr, length: c_int) -> bool {
    let fits = usize::try_from(length).is_ok_and(|it| it <= size_of::<sockaddr_storage>());
    fits && pointers::are_there(address.cast::<u8>(), length as usize)
}

/// Whether the kernel receives a message by what it says beside its parts.
///
/// # Safety
///
/// The message is null or valid, if there is memory where it lies.
pub unsafe fn is_receivable(message: *const msghdr) -> bool {
    // SAFETY: by the contract of this function.
    pointers::is_there(message) && unsafe { has_possible_name(message) }
}

/// Whether the kernel sends a message, by what it says beside its parts.
///
/// # Safety
///
/// The requirements of [`is_receivable`].
pub unsafe fn is_sendable(message: *const msghdr) -> bool {
    // SAFETY: by the contract of this function.
    unsafe {
        is_receivable(message)
            && ((*message).msg_name.is_null() || has_name_there(message))
            && pointers::are_there((*message).msg_control.cast::<u8>(), (*message).msg_controllen)
    }
}

/// # Safety
///
/// The message is valid.
unsafe fn has_possible_name(message: *const msghdr) -> bool {
    // SAFETY: by the contract of this function.
    unsafe { (*message).msg_name.is_null() || (*message).msg_namelen as c_int >= 0 }
}

/// # Safety
///
/// The message is valid.
unsafe fn has_name_there(message: *const msghdr) -> bool {
    // SAFETY: by the contract of this function.
    let (name, length) = unsafe { ((*message).msg_name, (*message).msg_namelen) };
    let length = (length as usize).min(size_of::<sockaddr_storage>());
    pointers::are_there(name.cast::<u8>(), length)
}

/// One message of an array of messages; `None` if its memory is not there, which the kernel reports.
///
/// # Safety
///
/// There are `count` messages, more than `index`, if there is memory where they lie.
pub unsafe fn message_of<'a>(messages: *mut mmsghdr, index: usize) -> Option<&'a mut mmsghdr> {
    let place = messages.wrapping_add(index);
    // SAFETY: by the contract of this function.
    pointers::is_there(place).then(|| unsafe { &mut *place })
}
