//! The processes that share a connection: one that was killed is no holder any more, which it could not
//! say itself.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::connection::Connection;
use crate::sys::Process;
use crate::table;

/// So many are known of each connection.
const KNOWN: usize = 7;

/// Processes, each of which counts once among a connection's holders; zero is none. Of others that count
/// nobody knows whether they live.
#[derive(Debug, Default)]
pub struct Sharers([AtomicU32; KNOWN]);

/// What was found out about processes, so that each is looked at once.
#[derive(Debug, Default)]
pub struct Looked {
    seen: [Option<(u32, bool)>; KNOWN],
    next: usize,
}

impl Looked {
    fn has_ended(&mut self, process: u32) -> bool {
        if let Some((_, ended)) = self.seen.iter().flatten().find(|(it, _)| *it == process) {
            return *ended;
        }
        let there = Process::open(process);
        let ended = there.has_ended();
        there.close();
        self.seen[self.next] = Some((process, ended));
        self.next = (self.next + 1) % KNOWN;
        ended
    }
}

impl Sharers {
    /// As it was before all sharing. Nobody else may use it.
    pub fn reset(&self) {
        self.0.iter().for_each(|process| process.store(0, Ordering::Relaxed));
    }

    /// Remembers this process, which has been counted among the holders.
    pub fn add(&self) {
        let (own, order) = (table::owner(), Ordering::SeqCst);
        let is_known = self.0.iter().any(|process| process.load(order) == own);
        if !is_known {
            // Where there is no room for it, it is one of those that nobody knows.
            let _ =
                self.0.iter().any(|process| process.compare_exchange(0, own, order, order).is_ok());
        }
    }

    /// Forgets this process, before it counts no more: it may be killed in between.
    pub fn remove(&self) {
        let order = Ordering::SeqCst;
        if self.0.iter().any(|process| process.load(order) != 0) {
            let own = table::owner();
            for process in &self.0 {
                let _ = process.compare_exchange(own, 0, order, order);
            }
        }
    }

    /// Forgets one of those that have ended; whether there was any.
    fn remove_ended(&self, looked: &mut Looked) -> bool {
        let order = Ordering::SeqCst;
        self.0.iter().any(|process| {
            let number = process.load(order);
            let is_other = number != 0 && number != table::owner();
            is_other
                && looked.has_ended(number)
                && process.compare_exchange(number, 0, order, order).is_ok()
        })
    }
}

/// Takes those out of a connection's holders that have ended without a word, but for the last.
pub fn bury(connection: &Connection, looked: &mut Looked) {
    let order = Ordering::SeqCst;
    while connection.holders.load(order) > 1 && connection.sharers.remove_ended(looked) {
        let fewer = |count: u32| (count > 1).then(|| count - 1);
        let _ = connection.holders.fetch_update(order, order, fewer);
    }
}

/// Whether the last holder of a connection has ended, which then is the caller's to free: this is true once.
pub fn is_deserted(connection: &Connection, looked: &mut Looked) -> bool {
    connection.holders.load(Ordering::SeqCst) == 1 && connection.sharers.remove_ended(looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    /// A process that has ended and was waited for.
    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    fn known(sharers: &Sharers) -> usize {
        sharers.0.iter().filter(|process| process.load(Ordering::SeqCst) != 0).count()
    }

    #[test]
    fn a_process_is_remembered_once_and_as_long_as_there_is_room() {
        let (_sample, sharers) = (Sample::new(), Sharers::default());
        sharers.add();
        sharers.add();
        assert_eq!(known(&sharers), 1);
        sharers.remove();
        assert_eq!(known(&sharers), 0);
        sharers.0.iter().for_each(|process| process.store(1, Ordering::SeqCst));
        sharers.add();
        sharers.remove();
        assert_eq!(known(&sharers), KNOWN);
    }

    #[test]
    fn those_that_have_ended_hold_nothing_and_the_last_leaves_it_to_whoever_looks() {
        let sample = Sample::new();
        let connection = sample.enter().0.connection;
        let (holders, order) = (&connection.holders, Ordering::SeqCst);
        let sharers = &connection.sharers;
        connection.sharers.add();
        let mut living = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let others = [ended(), living.id(), ended()];
        for (place, process) in sharers.0[1..].iter().zip(others) {
            place.store(process, order);
        }
        // One that nobody knows counts, too.
        holders.store(5, order);
        bury(connection, &mut Looked::default());
        assert_eq!((holders.load(order), known(sharers)), (3, 2));
        living.kill().unwrap();
        bury(connection, &mut Looked::default());
        living.wait().unwrap();
        bury(connection, &mut Looked::default());
        assert_eq!((holders.load(order), known(sharers)), (2, 1));
        let look = || is_deserted(connection, &mut Looked::default());
        sharers.reset();
        sharers.0[1].store(others[0], order);
        sharers.0[2].store(others[2], order);
        assert!(!look(), "there are two");
        bury(connection, &mut Looked::default());
        assert_eq!((holders.load(order), known(sharers)), (1, 1));
        assert!(look() && !look());
    }
}
