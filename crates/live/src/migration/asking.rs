//! A sender on a connection that others have on loan first asks whether they have written data that
//! is not yet sent, and waits until that is sent.

use std::sync::atomic::Ordering;

use weft_protocol::lending::{Answerer, Question};

use crate::sharing::lock;
use crate::sys;
use crate::table::Connection;

/// How often the lender of a connection checks for requests, in nanoseconds: at first, and once
/// nothing has happened for long.
pub const SOON: u64 = 50_000;
pub const LATE: u64 = 20_000_000;
/// How long a non-blocking caller waits for an answer; and how long the process that is to answer
/// may take to begin, and the interval of the checks whether it lives, in nanoseconds.
const ANSWER: u64 = LATE + 5_000_000;
const BEGINNING: u64 = 1_000_000_000;

/// A sender's question, when it was asked, and when to check next whether anybody is left to
/// answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    question: Question,
    at: u64,
    look: u64,
}

/// Whether a process that has the connection on loan may have written data that is not yet sent,
/// and that precedes what a caller sends who asks this for the first time.
pub fn comes_before(connection: &Connection, asked: &mut Option<Asked>) -> bool {
    let lending = &connection.lending;
    if !lending.is_lent() {
        return false;
    }
    let now = sys::now();
    let mine = asked.get_or_insert_with(|| Asked { question: lending.ask(), at: now, look: now });
    if lending.is_answered(mine.question) {
        return false;
    }
    if now < mine.look {
        return true;
    }
    mine.look = now + BEGINNING;
    match lending.answerer(lock::lives) {
        Answerer::Lives => true,
        Answerer::Begins => now - mine.at < BEGINNING,
        Answerer::None => false,
    }
}

/// Whether the connection is on loan, or may be as soon as the receiving half is let go. Then all
/// reading is done with that half held, also from the kernel.
pub fn may_be_made(connection: &Connection) -> bool {
    connection.lending.is_lent()
        || connection.holders.load(Ordering::SeqCst) > 1 && !connection.is_back()
}

/// Waits, but not for long, until data that precedes the caller's has been sent. Returns whether
/// nothing precedes it any more.
pub fn await_answer(connection: &Connection, asked: &mut Option<Asked>) -> bool {
    while comes_before(connection, asked) {
        sys::sleep(SOON);
        if asked.is_some_and(|asked| sys::now().saturating_sub(asked.at) > ANSWER) {
            return !comes_before(connection, asked);
        }
    }
    true
}

/// Whether the sending direction may end now. If not, the process that copies ends it, once all is
/// sent that comes before.
pub fn may_end(connection: &Connection) -> bool {
    if !connection.lending.is_lent() {
        return true;
    }
    connection.write_shut.store(true, Ordering::Release);
    if await_answer(connection, &mut None) {
        return true;
    }
    !connection.lending.leave_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn who_sends_waits_until_what_was_written_before_is_sent() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (connection, lending) = (guard.connection, &guard.connection.lending);
        assert!(!comes_before(connection, &mut None), "it is not lent");
        lending.begin();
        lending.serve(lock::thread(), lock::lives);
        let (mut first, mut second) = (None, None);
        assert!(comes_before(connection, &mut first));
        let asked = lending.asked();
        assert!(comes_before(connection, &mut second));
        lending.answer(asked);
        assert!(!comes_before(connection, &mut first) && comes_before(connection, &mut second));
        assert!(!await_answer(connection, &mut second), "nobody answers");
        assert!(!may_end(connection) && lending.is_end_due());
        lending.answer(lending.asked());
        assert!(await_answer(connection, &mut second) && !comes_before(connection, &mut second));
        assert!(lending.end(lock::thread()), "the end was left to the loan");
    }

    #[test]
    fn a_loan_whose_process_was_killed_is_over() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (connection, lending) = (guard.connection, &guard.connection.lending);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        lending.begin();
        lending.serve(child.id(), |_| true);
        assert!(may_end(connection));
        assert!(!lending.is_lent() && !lending.is_end_due());
    }
}
