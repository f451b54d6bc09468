//! The kernel instance that an instance has for its carried connections, once something watches it.

use libc::{c_int, epoll_event};

use super::TAG;
use crate::descriptors;
use crate::sys;
use crate::table::numbers::claim;

/// The `epoll_event` data of a relay in its instance, and of the `eventfd` in the relay. No registration
/// has such a number.
pub const RELAY: u64 = TAG | 0x7fff_ffff;
const SHOWN: u64 = TAG | 0x7fff_fffe;

/// Registers a relay in an instance; returns it and the `eventfd` in it.
pub fn make_relay(epoll: c_int) -> Option<(c_int, c_int)> {
    let relay = descriptors::epoll_create().ok()?;
    let Ok(shown) = descriptors::event() else {
        sys::close(relay);
        return None;
    };
    let level = |data| epoll_event { events: libc::EPOLLIN as u32, u64: data };
    let add = libc::EPOLL_CTL_ADD;
    let put_in = sys::epoll_ctl(relay, add, shown, &mut level(SHOWN))
        .and_then(|()| sys::epoll_ctl(epoll, add, relay, &mut level(RELAY)));
    if put_in.is_err() {
        sys::close(relay);
        sys::close(shown);
        return None;
    }
    claim(relay);
    claim(shown);
    Some((relay, shown))
}
