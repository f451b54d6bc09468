//! Polls that find nothing: one look at each word at which something would be seen.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Queue, State, Waitable};

/// So many polls in a row look at everything and find nothing before an endpoint is asked for its words: an answer that
/// comes within half a microsecond is not delayed by it.
const PATIENCE: u32 = 16;

/// The words that tell a poll whether anything has arrived, as long as its endpoints are left alone.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// The heads of the next records and answers of all endpoints of a queue: zero until these are there.
    heads: Vec<NonNull<AtomicU64>>,
    /// The number of [`State::changes`] when the endpoints named these words.
    changes: u64,
    /// How many polls may look at them alone, and how many of these are left.
    granted: u32,
    left: u32,
    /// How many polls in a row have looked at everything and found nothing.
    empty: u32,
}

impl State {
    /// Whether a poll of a queue would find nothing, by one look at each word at which something would be seen. False
    /// if more has to be done to know it: see [`State::poll`].
    #[inline(always)]
    pub fn is_quiet(&mut self, queue: usize) -> bool {
        let changes = self.changes;
        let Ok(Queue { quiet, .. }) = self.queues.get(queue) else { return false };
        if quiet.left == 0 || quiet.changes != changes {
            return false;
        }
        for head in &quiet.heads {
            // SAFETY: it lies in a segment of an endpoint. Endpoints unmap segments only in calls that count as a
            // change, see `State::endpoints`, and there was none.
            if unsafe { head.as_ref() }.load(Ordering::Relaxed) != 0 {
                return false;
            }
        }
        quiet.left -= 1;
        true
    }

    /// Makes progress on the endpoints bound to a queue; if nothing arrives, the next polls may be short
    /// ([`State::is_quiet`]).
    #[inline(never)]
    pub fn poll(&mut self, queue: usize) {
        let of = Waitable::Queue(queue);
        let Ok(Queue { quiet, .. }) = self.queues.get(queue) else { return };
        let passed = std::mem::take(&mut quiet.granted) - std::mem::take(&mut quiet.left);
        quiet.empty = if quiet.changes == self.changes { quiet.empty } else { 0 };
        if passed > 0 {
            for it in self.endpoints.iter_mut().filter(|it| of.concerns(&it.bindings)) {
                it.bound.endpoint.pass(passed);
            }
        }
        if self.progress(of) {
            return;
        }
        let Self { endpoints, queues, changes, .. } = self;
        let Ok(Queue { entries, quiet, .. }) = queues.get(queue) else { return };
        quiet.changes = *changes;
        quiet.empty += 1;
        // A record of the program's calls has to know of every poll.
        if quiet.empty < PATIENCE || self.record.is_some() {
            return;
        }
        quiet.empty = PATIENCE;
        quiet.heads.clear();
        let its = endpoints.iter_mut().filter(|it| of.concerns(&it.bindings));
        let grants = its.map(|it| match it.bound.is_armed {
            true => 0,
            false => it.bound.endpoint.watch_for_news(&mut quiet.heads),
        });
        let granted = grants.min().unwrap_or(0);
        quiet.granted = if entries.is_empty() { granted } else { 0 };
        quiet.left = quiet.granted;
    }
}
