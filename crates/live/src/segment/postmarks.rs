//! When the bytes in a ring were handed over.
//!
//! The kernel's `epoll` reports connections in the order in which their bytes arrived, and programs
//! rely on it: what is sent on one connection and then on another is served in this order. A look
//! at many rings shows no order, so each writer notes beside its ring when it handed its last
//! messages over.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// How many messages are noted; with more unread at the same time, the first noted one determines
/// the order.
const MARKS: usize = 8;

/// The marks of one direction. The reader touches them only if it has to choose between connections, so
/// that they stay with the writer otherwise.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Postmarks {
    marks: [Mark; MARKS],
    /// When the writer ended the direction.
    ended: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Mark {
    /// How many bytes were ever handed over by then.
    end: AtomicU64,
    /// By the processor's clock.
    time: AtomicU64,
}

impl Postmarks {
    /// Notes that this many bytes were handed over by now, in the `nth` message.
    #[inline(never)]
    pub fn put(&self, nth: u32, end: u64) {
        let mark = &self.marks[nth as usize % MARKS];
        mark.time.store(sys::ticks(), Ordering::Relaxed);
        mark.end.store(end, Ordering::Release);
    }

    /// Notes that the direction ends now, unless it has before.
    pub fn end(&self) {
        let order = Ordering::Relaxed;
        let _ = self.ended.compare_exchange(0, sys::ticks(), order, order);
    }

    /// When it ended, as far as that was noted: a killed writer notes nothing.
    pub fn ended(&self) -> Option<u64> {
        Some(self.ended.load(Ordering::Relaxed)).filter(|time| *time != 0)
    }

    /// When the first byte after the first `read` bytes arrived, unless that is not noted yet.
    pub fn first_after(&self, read: u64) -> Option<u64> {
        let noted = self.marks.iter().map(|mark| {
            let end = mark.end.load(Ordering::Acquire);
            (end, mark.time.load(Ordering::Relaxed))
        });
        noted.filter(|(end, _)| *end > read).min().map(|(_, time)| time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unread_byte_has_the_time_of_its_message() {
        let marks = Postmarks::default();
        let mut times = Vec::new();
        assert_eq!(marks.first_after(0), None, "nothing is noted");
        for nth in 0..20 {
            times.push(sys::ticks());
            marks.put(nth, 10 * (u64::from(nth) + 1));
            std::thread::sleep(std::time::Duration::from_micros(10));
        }
        times.push(sys::ticks());
        for nth in 12..20 {
            for read in [10 * nth, 10 * nth + 9] {
                let time = marks.first_after(read).unwrap();
                let message = nth as usize;
                assert!((times[message]..times[message + 1]).contains(&time), "{nth} {times:?}");
            }
        }
        assert_eq!(marks.first_after(0), marks.first_after(120), "the first that is noted");
        assert_eq!(marks.first_after(200), None, "it was handed over just now");
    }

    #[test]
    fn an_end_keeps_its_first_time() {
        let marks = Postmarks::default();
        assert_eq!(marks.ended(), None);
        let before = sys::ticks();
        marks.end();
        let noted = marks.ended();
        assert!((before..=sys::ticks()).contains(&noted.unwrap()));
        marks.end();
        assert_eq!(marks.ended(), noted);
    }
}
