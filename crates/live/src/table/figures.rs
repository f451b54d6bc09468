//! What is counted and logged of a connection.

use std::sync::atomic::Ordering;

use crate::report::log;
use crate::report::stats::{self, Reason, count};
use crate::table::{Connection, Guard};

/// Counts what both halves of a connection have not yet counted: it goes to sleep, or away.
pub fn say(connection: &Connection) {
    if let Some(mut receiving) = connection.receiving() {
        receiving.unsaid.say_received();
    }
    if let Some(mut sending) = connection.sending() {
        sending.unsaid.say_sent();
    }
}

/// Counts the end of an accelerated connection, once.
pub fn closed(connection: &Connection) {
    if !connection.counted_out.swap(true, Ordering::AcqRel) {
        count(|stats| &stats.closed, 1);
    }
}

/// Takes that back: the process did not end after all.
pub fn not_closed(connection: &Connection) {
    if connection.counted_out.swap(false, Ordering::AcqRel)
        && let Some(stats) = stats::get()
    {
        stats.closed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a connection that stays with the kernel.
pub fn fell_through(connection: &Connection, reason: Reason) {
    count(|stats| &stats.fallen_through[reason as usize], 1);
    let fd = connection.first_fd.load(Ordering::Relaxed);
    log::line(fd, fd, format_args!("left to the kernel: {}", reason.text()));
}

/// Counts a connection that goes back to the kernel.
pub fn moved_back(guard: &Guard, reason: Reason) {
    count(|stats| &stats.moved_back[reason as usize], 1);
    let fd = guard.connection.first_fd.load(Ordering::Relaxed);
    log::line(fd, guard.socket(), format_args!("back to the kernel: {}", reason.text()));
}
