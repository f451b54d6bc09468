//! The order in which the events of several connections are told: that in which their bytes came.

use libc::epoll_event;

use super::edges::SPACE;
use super::links::{Inner, Watch};
use super::waiting::resolve;

/// An event that a look has found.
#[derive(Clone, Copy)]
pub struct Found {
    /// Where its link stands.
    pub at: u32,
    /// Those that came at one time are told as they were found.
    pub nth: u32,
    pub event: epoll_event,
    pub came: u64,
}

/// Tells of so many that were found, in order.
pub fn tell(inner: &mut Inner, found: usize, events: &mut [epoll_event]) {
    let found = &mut inner.found[..found];
    if found.len() > 1 {
        for it in &mut *found {
            let at = it.at as usize;
            it.came = came(inner.links[at], &inner.watches[at], it.event.events);
        }
        found.sort_unstable_by_key(|it| (it.came, it.nth));
    }
    for (place, it) in events.iter_mut().zip(found) {
        *place = it.event;
    }
}

/// When the first of what the event is about came; of what had arrived before it was put in, when that was.
/// Room was there before all else, and an end comes after.
fn came(link: u32, watch: &Watch, events: u32) -> u64 {
    let Some((_, guard, segment)) = resolve(link) else { return 0 };
    let writer = guard.connection.role().peer();
    let way = segment.way(writer);
    match way.pointers.filling() {
        0 if events & !(SPACE as u32) == 0 => 0,
        0 => u64::MAX,
        _ if way.pointers.read() < watch.before => watch.since,
        _ => segment.postmarks(writer).first_after(way.pointers.read()),
    }
}
