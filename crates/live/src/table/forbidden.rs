//! Whether this process carries anything.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::report::stats::Reason;
use crate::table::{above, is_owner};

/// Why this process carries nothing any more: the reason's number and one; zero as long as it may.
static FORBIDDEN: AtomicU32 = AtomicU32::new(0);

/// From now on this process carries nothing, for this reason.
pub fn begin(reason: Reason) {
    let mark = reason as u32 + 1;
    if is_owner() && FORBIDDEN.swap(mark, Ordering::SeqCst) != mark {
        above::depart_all(reason);
    }
}

/// Why this process carries nothing any more, if it does not.
pub fn reason() -> Option<Reason> {
    let mark = FORBIDDEN.load(Ordering::SeqCst);
    let reasons = [Reason::IoUring, Reason::BareCalls, Reason::Filter, Reason::Call];
    reasons.into_iter().find(|reason| *reason as u32 + 1 == mark)
}
