//! One-shot registrations, at the moment when their connection joins. Until then they are the
//! kernel's, which alone knows which of them have fired, and shows that in a file.

use std::fmt::Write;

use libc::c_int;

use crate::report::log::Line;
use crate::sys;
use crate::table::Registration;

/// What is left of the events of a registration that has fired: how it fires, and nothing else.
const HOW: u32 =
    (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLWAKEUP | libc::EPOLLEXCLUSIVE) as u32;

/// Whether a registration that the kernel has is one that fires once and has fired. `None` if the
/// kernel does not say.
pub fn has_fired(epoll: c_int, registration: &Registration) -> Option<bool> {
    if registration.events & libc::EPOLLONESHOT as u32 == 0 {
        return Some(false);
    }
    let is_it = |fd, data| (fd, data) == (registration.fd, registration.data);
    Some(registered_events(epoll, is_it)? & !HOW == 0)
}

/// Whether a descriptor other than these is registered in the kernel's instance with the same data; true if the
/// kernel does not say.
pub fn is_of_another(epoll: c_int, datum: u64, is_one: impl Fn(c_int) -> bool) -> bool {
    registered_events(epoll, |fd, data| data == datum && is_one(fd)).is_none()
        || registered_events(epoll, |fd, data| data == datum && !is_one(fd)).is_some()
}

/// The events of the first registration of a kind that the kernel's instance has.
fn registered_events(epoll: c_int, is_it: impl Fn(c_int, u64) -> bool) -> Option<u32> {
    let _errno = sys::KeepErrno::new();
    let mut path = Line::new();
    write!(path, "/proc/thread-self/fdinfo/{epoll}\0").ok()?;
    let file = sys::open_for_reading(path.as_bytes().as_ptr()).ok()?;
    let events = look_up(file, is_it);
    sys::close(file);
    events
}

/// The events of the first registration of a kind in the kernel's list of an instance's
/// registrations.
fn look_up(file: c_int, is_it: impl Fn(c_int, u64) -> bool) -> Option<u32> {
    let (mut line, mut length, mut place) = ([0u8; 128], 0, 0);
    let mut bytes = [0u8; 4096];
    loop {
        let count = sys::read_at(file, bytes.as_mut_ptr(), bytes.len(), place)
            .ok()
            .filter(|count| *count > 0)?;
        place += count as i64;
        for byte in &bytes[..count] {
            if *byte != b'\n' {
                if length < line.len() {
                    line[length] = *byte;
                    length += 1;
                }
                continue;
            }
            if let Some((fd, events, data)) = parse(&line[..length])
                && is_it(fd, data)
            {
                return Some(events);
            }
            length = 0;
        }
    }
}

/// Number, events and datum of one line.
fn parse(line: &[u8]) -> Option<(c_int, u32, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let mut after = |name| words.find(|word| *word == name).and_then(|_| words.next());
    let fd = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    Some((fd, events, u64::from_str_radix(after("data:")?, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::epoll_event;

    #[test]
    fn the_kernel_says_what_has_fired() {
        let epoll = unsafe { libc::epoll_create1(0) };
        let mut ends = [0; 2];
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) };
        for how in [0, libc::EPOLLET] {
            let events = (libc::EPOLLIN | libc::EPOLLONESHOT | how) as u32;
            let [many, one] = ends.map(|fd| Registration {
                fd,
                events,
                data: 0xfedc_ba98_7654_3210 - fd as u64,
                ..Registration::default()
            });
            for it in [&many, &one] {
                assert_eq!(has_fired(epoll, it), None, "it is not there");
                let mut event = epoll_event { events, u64: it.data };
                sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, it.fd, &mut event).unwrap();
                assert_eq!(has_fired(epoll, it), Some(false));
            }
            sys::write(one.fd, b"!");
            let mut events = [epoll_event { events: 0, u64: 0 }];
            assert_eq!(sys::epoll_now(epoll, &mut events, std::ptr::null()), Ok(1));
            assert_eq!(has_fired(epoll, &many), Some(true));
            assert_eq!(has_fired(epoll, &one), Some(false));
            assert_eq!(has_fired(epoll, &Registration { data: 1, ..many }), None);
            for it in [many, one] {
                let mut event = epoll_event { events: 0, u64: 0 };
                sys::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, it.fd, &mut event).unwrap();
            }
        }
    }

    #[test]
    fn a_registration_that_fires_often_is_not_asked_about() {
        let events = libc::EPOLLIN as u32;
        assert_eq!(has_fired(-1, &Registration { events, ..Registration::default() }), Some(false));
    }
}
