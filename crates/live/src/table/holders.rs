//! The processes that hold a connection: how many there are, which is the last, and which are
//! known, since a killed process no longer holds it and could not say so.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::descriptors::Process;
use crate::table;
use crate::table::Phase;
use crate::table::connection::Connection;
use crate::table::figures;
use crate::table::local::Local;

/// How many holders of each connection are known.
const KNOWN: usize = 7;

/// Processes, each of which counts once among a connection's holders; zero marks a free place. Of
/// further holders it is not known whether they live.
#[derive(Debug, Default)]
pub struct Sharers([AtomicU32; KNOWN]);

/// What was found out about processes, so that each is examined once.
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
            // If there is no room for it, it is one of the holders that are not known.
            let _ =
                self.0.iter().any(|process| process.compare_exchange(0, own, order, order).is_ok());
        }
    }

    /// Forgets this process before it is no longer counted: it may be killed in between.
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

/// Counts one holder less, but for the last: of several that leave at the same time one stays.
pub fn one_less(connection: &Connection) -> bool {
    let (others, order) = (|count: u32| (count > 1).then(|| count - 1), Ordering::SeqCst);
    connection.holders.fetch_update(order, order, others).is_ok()
}

/// Remembers this process among those that share a connection, and has been counted, unless it has taken
/// itself out of its holders: another thread may just be ending the process.
pub fn share(connection: &Connection, local: &Local) {
    let has_let_go = || local.let_go.load(Ordering::SeqCst);
    if connection.phase() == Phase::JOINED && !has_let_go() {
        connection.sharers.add();
        if has_let_go() {
            connection.sharers.remove();
        }
    }
}

/// Takes this process out of the holders, if there are others: of several that close at the same
/// time one is the last, and knows it.
pub fn leave_to_others(connection: &Connection) -> bool {
    let order = Ordering::SeqCst;
    // Before it leaves: from then on no process holds it alone.
    let _ = connection.keeper.compare_exchange(table::owner(), 0, order, order);
    if connection.holders.load(order) > 1 {
        connection.sharers.remove();
    }
    one_less(connection)
}

/// Holds what this process could not leave to others.
pub fn keep(connection: &Connection) {
    connection.keeper.store(table::owner(), Ordering::SeqCst);
    connection.sharers.remove();
}

/// Takes a process out of the holders that has nothing to say to the other end.
pub fn hold_no_more(connection: &Connection) {
    if !leave_to_others(connection) {
        free(connection);
    }
}

/// Frees the place for its next connection; called by the last holder.
pub fn free(connection: &Connection) {
    if connection.phase() == Phase::JOINED {
        // It was replaced by a copy, or its number stands for something else by now.
        figures::closed(connection);
    }
    if !connection.segment.swap(std::ptr::null_mut(), Ordering::AcqRel).is_null() {
        connection.sharers.reset();
    }
    connection.migration.free();
    connection.holders.store(0, Ordering::Release);
}

/// Takes those out of a connection's holders that have ended without a word, but for the last.
pub fn bury(connection: &Connection, looked: &mut Looked) {
    let order = Ordering::SeqCst;
    if !table::remembers() {
        // A filter of system calls may forbid the look.
        return;
    }
    while connection.holders.load(order) > 1 && connection.sharers.remove_ended(looked) {
        one_less(connection);
    }
}

/// Whether the last holder of a connection has ended, which then is the caller's to free: this is true once.
pub fn is_deserted(connection: &Connection, looked: &mut Looked) -> bool {
    connection.holders.load(Ordering::SeqCst) == 1 && connection.sharers.remove_ended(looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, ended};

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
