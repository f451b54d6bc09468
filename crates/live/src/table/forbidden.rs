//! Whether this process accelerates connections at all.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::report::stats::Reason;
use crate::table::{above, is_owner};

/// Why this process accelerates no more connections: the number of the reason plus one; zero while it does.
static FORBIDDEN: AtomicU32 = AtomicU32::new(0);

/// Sends all connections of this process back to the kernel, and accelerates no more, for this reason.
pub fn begin(reason: Reason) {
    let mark = reason as u32 + 1;
    if is_owner() && FORBIDDEN.swap(mark, Ordering::SeqCst) != mark {
        above::depart_all(reason);
    }
}

/// Why this process accelerates no more connections; `None` while it does.
pub fn reason() -> Option<Reason> {
    let mark = FORBIDDEN.load(Ordering::SeqCst);
    let reasons = [Reason::IoUring, Reason::BareCalls, Reason::Filter, Reason::Call];
    reasons.into_iter().find(|reason| *reason as u32 + 1 == mark)
}
