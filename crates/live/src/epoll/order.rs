//! The order in which the events of several connections are reported: that in which their bytes
//! arrived.
//!
//! The kernel keeps a queue. A descriptor that becomes ready goes to its end, and so does one that
//! was reported and may have something left, so that none waits forever if the program's list has
//! room for few. Here a connection's place in the queue is a time by the processor's clock.

use libc::epoll_event;

use super::looking::{self, Resolved, examine, resolve};
use crate::registry::SPACE;
use crate::registry::links::{Inner, News, Watch};
use crate::sys;

/// Reports the `found` connections in order, as far as there is room, and returns how many; the
/// others are left for [`tell_left`].
pub fn tell(inner: &mut Inner, found: usize, events: &mut [epoll_event]) -> usize {
    if found > 1 {
        sort(inner, found);
    }
    let told = found.min(events.len());
    for (place, it) in events.iter_mut().zip(&inner.found[..told]) {
        // SAFETY: the lock has been held since it was found.
        *place = looking::tell(unsafe { &mut *it.registration }, &it.news);
    }
    inner.left = told..found;
    told
}

/// Tells of those that there was no room for, in order, if they still have something.
pub fn tell_left(inner: &mut Inner, events: &mut [epoll_event], back: &mut bool) -> usize {
    let mut told = 0;
    while told < events.len()
        && let Some(next) = inner.left.next()
    {
        let link = inner.found[next].link;
        if let Some(event) = event_at(inner, link, back) {
            events[told] = event;
            told += 1;
        }
    }
    told
}

/// Tells what the connection behind a link has now, if it has something.
pub fn event_at(inner: &mut Inner, link: u32, back: &mut bool) -> Option<epoll_event> {
    let at = inner.position(link)?;
    let Resolved { registration, guard, segment } = resolve(link)?;
    let watch = &mut inner.watches[at];
    let news = examine(registration, &guard, &segment, watch, back)?;
    watch.queued = sys::ticks();
    Some(looking::tell(registration, &news))
}

/// Sorts the connections that were found, and moves them to the end of the queue: those for which
/// the program's list has no room are reported before the next search.
fn sort(inner: &mut Inner, found: usize) {
    let now = sys::ticks();
    for which in 0..found {
        let it = &inner.found[which];
        let Some(at) = inner.position(it.link) else { continue };
        let queued = inner.watches[at].queued;
        let key = match came(it.link, &inner.watches[at], &it.news, now) {
            Some(time) => time.max(queued),
            // The end of a killed writer.
            None if queued == 0 => now,
            None => queued,
        };
        inner.found[which].key = key;
        inner.watches[at].queued = now;
    }
    inner.found[..found].sort_unstable_by_key(|it| (it.key, it.nth));
}

/// When the first byte of the reported news arrived, if that is known; for bytes that arrived
/// before the connection was registered, when it was registered. Room to send counts as older than
/// all else.
fn came(link: u32, watch: &Watch, news: &News, now: u64) -> Option<u64> {
    let Resolved { guard, segment, .. } = resolve(link)?;
    let writer = guard.connection.role().peer();
    let pointers = &segment.way(writer).pointers;
    let first = pointers.read().max(news.from);
    let marks = segment.postmarks(writer);
    if first < pointers.arrivals() {
        // What is not noted yet was handed over just now.
        let noted = || marks.first_after(first).or(Some(now));
        if first < watch.before { Some(watch.since) } else { noted() }
    } else if news.events & !(SPACE as u32) == 0 {
        Some(0)
    } else {
        marks.ended()
    }
}
