//! The order in which the events of several connections are told: that in which their bytes came.

use libc::epoll_event;

use super::edges::SPACE;
use super::waiting::resolve;

/// An event that a look has found.
#[derive(Clone, Copy)]
pub struct Found {
    link: u32,
    /// Those that came at one time are told as they were found.
    nth: u32,
    /// What had arrived when it was put into the instance, and when it came once that is known.
    came: u64,
    event: epoll_event,
}

impl Found {
    pub const fn new(nth: usize, link: u32, before: u64, event: epoll_event) -> Self {
        Self { link, nth: nth as u32, came: before, event }
    }
}

/// Tells of all that was found, in order.
pub fn tell(found: &mut [Found], events: &mut [epoll_event]) {
    if found.len() > 1 {
        for it in &mut *found {
            it.came = came(it.link, it.came, it.event.events);
        }
        found.sort_unstable_by_key(|it| (it.came, it.nth));
    }
    for (place, it) in events.iter_mut().zip(found) {
        *place = it.event;
    }
}

/// When the first of what the event is about came. What had arrived before it was looked for, and room,
/// were there before all else; an end comes after.
fn came(link: u32, before: u64, events: u32) -> u64 {
    let Some((_, guard, segment)) = resolve(link) else { return 0 };
    let writer = guard.connection.role().peer();
    let way = segment.way(writer);
    match way.pointers.filling() {
        0 if events & !(SPACE as u32) == 0 => 0,
        0 => u64::MAX,
        _ if way.pointers.read() < before => 0,
        _ => segment.postmarks(writer).first_after(way.pointers.read()),
    }
}
