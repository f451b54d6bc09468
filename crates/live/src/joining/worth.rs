//! Whether a connection is worth joining, judged by the fate of earlier connections of its kind.

use std::sync::atomic::Ordering;

use weft_protocol::break_even::{BreakEven, Outcome};

use crate::segment::Role;
use crate::table::{self, Connection};

/// How many accelerated calls save twice the cost of joining, with the other end on this processor
/// and on another: a join costs some 50 us; a call on the ring saves about 1 us, or a wake-up.
const REPAID_HERE: u64 = 80;
const REPAID_ELSEWHERE: u64 = 20;
/// Whether a join after `operations` calls is likely to pay, judged by how long earlier connections
/// of this kind lasted. If not, sets after how many calls to ask again.
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

/// Learns from a connection that has ended or stays with the kernel, if it was once judged worth a
/// join.
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
