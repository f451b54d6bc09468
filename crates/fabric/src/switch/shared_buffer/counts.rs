//! What is counted of a class at a port.

use weft_units::{Span, Time};

/// What became of packets of a class since records began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// They found their queue full.
    pub dropped: u64,
    /// They found it full and went on as headers.
    pub trimmed: u64,
    /// They were marked.
    pub marked: u64,
    /// Times at which an input paused the class.
    pub pauses: u64,
}

/// The stops of a class at a port since recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseCounts {
    /// How often it had to stop: it received a pause, or it was free for a packet and had no credit
    /// for it.
    pub stops: u64,
    /// For how long it had.
    pub stopped: Span,
    /// Since when it has to, if it does.
    pub(super) since: Option<Time>,
}

impl PauseCounts {
    /// It has to stop, unless it had to already.
    pub(super) fn stop(&mut self, now: Time, from: Time) {
        if self.since.is_none() {
            self.stops += u64::from(now >= from);
            self.since = Some(now);
        }
    }

    /// It resumes, if it had to stop.
    pub(super) fn go_on(&mut self, now: Time, from: Time) {
        if let Some(since) = self.since.take() {
            self.stopped += now.since(since.max(from));
        }
    }
}
