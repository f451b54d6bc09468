//! Whether a connection is worth joining, by what became of those like it.

use std::sync::atomic::Ordering;

use weft_protocol::break_even::{BreakEven, Outcome};

use crate::segment::Role;
use crate::table::{self, Connection};

/// So many accelerated calls save twice what joining costs, with the other end on this processor and on
/// another: a join costs some 50 us, a call in the ring about 1 us less than in the kernel, or a
/// wake-up less.
const REPAID_HERE: u64 = 80;
const REPAID_ELSEWHERE: u64 = 20;
/// Whether connections like this one have lasted long enough for a join after so many operations.
/// If not, it is asked again when they have.
pub fn is_worth_it(connection: &Connection, operations: u32) -> bool {
    let kind = connection.kind.load(Ordering::Relaxed);
    let Some(lesson) = table::lesson(kind) else { return false };
    let after = BreakEven::from_word(lesson.load(Ordering::Relaxed)).after();
    if operations < after {
        connection.next_attempt.store(after, Ordering::Relaxed);
    }
    connection.sought_after.store(operations >= after, Ordering::Relaxed);
    operations >= after
}

/// Learns from a connection that is over or stays with the kernel, if it was ever worth a join.
pub fn learn(connection: &Connection) {
    let sought = &connection.sought_after;
    if !sought.load(Ordering::Relaxed) || !sought.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(lesson) = table::lesson(connection.kind.load(Ordering::Relaxed)) else { return };
    let mut state = BreakEven::from_word(lesson.load(Ordering::Relaxed));
    let calls = match (connection.receiving(), connection.sending()) {
        (Some(receiving), Some(sending)) if connection.segment().is_some() => {
            receiving.unsaid.calls + sending.unsaid.calls
        }
        _ => 0,
    };
    let repaid = connection.segment().map_or(u64::MAX, |segment| {
        let [one, other] = [Role::Client, Role::Server]
            .map(|role| segment.side(role).processor.load(Ordering::Relaxed));
        if one == other { REPAID_HERE } else { REPAID_ELSEWHERE }
    });
    state.learn(if calls >= repaid { Outcome::Repaid } else { Outcome::Lost });
    lesson.store(state.word(), Ordering::Relaxed);
}
