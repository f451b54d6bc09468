//! How many bytes are left unread, for a program that asks with each message.

use std::sync::atomic::Ordering;

use libc::{c_int, c_uint, msghdr};

use crate::segment::{Segment, closed};
use crate::stream;
use crate::table::{Guard, end};

/// Adds to a received message how many bytes are left unread, where `TCP_INQ` asks for it.
///
/// # Safety
///
/// The message is valid as the program passed it.
pub unsafe fn say_unread(guard: &Guard, message: *mut msghdr, segment: &Segment) {
    let connection = guard.connection;
    let unread = stream::all_unread(guard, segment);
    let role = connection.role().peer();
    let ended = segment.way(role).detour.is_finished()
        || segment.side(role).closed.load(Ordering::Acquire) != closed::OPEN
        || connection.end.load(Ordering::Acquire) != end::NONE;
    // After the end of stream there is one more read, which reports it.
    let unread = if ended { unread.max(1) } else { unread } as c_int;
    // SAFETY: by the contract of this function.
    unsafe {
        let whole = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as usize;
        let header = (*message).msg_control.cast::<libc::cmsghdr>();
        if header.is_null() || (*message).msg_controllen < whole {
            (*message).msg_controllen = 0;
            (*message).msg_flags |= libc::MSG_CTRUNC;
            return;
        }
        (*header).cmsg_level = libc::IPPROTO_TCP;
        (*header).cmsg_type = libc::TCP_CM_INQ;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(unread);
        (*message).msg_controllen = whole;
    }
}
