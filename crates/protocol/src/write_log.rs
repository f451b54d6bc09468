//! The point of global ordering, in memory that several processes share: a log of writes, and for each node how
//! far its own memory has come.
//!
//! Memory Channel gives all targets the packets of several senders in one order, and no target takes what follows
//! a packet that it misses (Memory Channel 2, ordering rules 1 to 3). Here a sender claims the next place of the
//! log, fills it and publishes it; a worker copies the log into the memory of a node, record by record. Any
//! process may do this work of an adapter, mostly the sender, so that the node's program needs only to look at its
//! memory.
//!
//! A process may be killed anywhere. A place that it claimed and did not publish is voided, once and for all
//! nodes, so that all miss it or none; work that it had begun for a node is done again from the last whole record.

use crate::sync::{AtomicU64, Ordering, exchange, full_fence, observe, publish};

/// The words of a log. All zero is an empty log; see [`Log::open`] for the positions.
pub trait Places {
    /// How many places were claimed, or one less for a moment.
    fn tail(&self) -> &AtomicU64;
    /// The state of a place, by its index.
    fn place(&self, index: usize) -> &AtomicU64;
    /// How far the log has been copied into the memory of a node.
    fn position(&self, node: usize) -> &AtomicU64;
    /// The worker of a node.
    fn worker(&self, node: usize) -> &AtomicU64;
}

/// The position of a node that takes no writes.
pub const OFF_LINE: u64 = u64::MAX;

/// The number of a record: its place in the one order of all.
pub type Ticket = u64;

/// The identity of a process that claims and works: a small number, used by one process at a time.
pub type Who = u8;

const CLAIMED: u64 = 1;
const PUBLISHED: u64 = 2;
const VOID: u64 = 3;

const fn word(ticket: Ticket, who: Who, state: u64) -> u64 {
    ticket << 16 | (who as u64) << 8 | state
}

const fn ticket_of(word: u64) -> Ticket {
    word >> 16
}

const fn who_of(word: u64) -> Who {
    (word >> 8) as Who
}

const fn state_of(word: u64) -> u64 {
    word & 0xff
}

/// The state of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none yet.
    None,
    /// It is being written.
    Claimed(Who),
    /// It is whole.
    Published(Who),
    /// It was given up: its sender ended while writing it.
    Void(Who),
}

/// The result of a request to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The record is the caller's to fill and to publish.
    Claimed(Ticket),
    /// There is no room until this node has advanced.
    Behind(usize),
}

/// What has become of work for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// All that was published up to here is in its memory.
    Done,
    /// Another does it, who will also see what was published before this call.
    Busy(Who),
    /// A record is being written, and nothing behind it is taken before.
    Waits(Who),
}

/// The words hold values that no correct process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the words of the log contradict each other")]
pub struct BrokenLog;

/// The parameters on which all sides agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    places: u64,
    nodes: usize,
}

/// How often in a row another process may have been faster.
const TRIES: u32 = 1 << 12;

impl Log {
    /// A log of this many places for this many nodes.
    pub const fn new(places: u64, nodes: usize) -> Log {
        Log { places, nodes }
    }

    /// The index of a record's place.
    pub const fn index(&self, ticket: Ticket) -> usize {
        (ticket % self.places) as usize
    }

    /// Begins a log on which no node is on line yet.
    pub fn open(&self, words: &impl Places) {
        for node in 0..self.nodes {
            words.position(node).store(OFF_LINE, Ordering::Relaxed);
        }
    }

    /// Claims the next record. `least` is the caller's copy of the lowest position, zero at first. Positions
    /// never go back, and a node that comes on line starts at another's position, so the caller need not read
    /// them each time.
    ///
    /// # Errors
    /// [`BrokenLog`] if somebody does not keep to the rules.
    pub fn claim(
        &self,
        words: &impl Places,
        who: Who,
        least: &mut Ticket,
    ) -> Result<Claim, BrokenLog> {
        for _ in 0..TRIES {
            let ticket = words.tail().load(observe());
            if least.saturating_add(self.places) <= ticket
                && let Some(node) = self.behind(words, ticket, least)
            {
                return Ok(Claim::Behind(node));
            }
            let place = words.place(self.index(ticket));
            let now = place.load(observe());
            let is_next = match ticket.checked_sub(self.places) {
                None => now == 0,
                Some(before) => ticket_of(now) == before && state_of(now) >= PUBLISHED,
            };
            if is_next {
                let own = word(ticket, who, CLAIMED);
                let claimed = place.compare_exchange(now, own, exchange(), Ordering::Relaxed);
                if claimed.is_ok() {
                    self.advance(words, ticket);
                    return Ok(Claim::Claimed(ticket));
                }
            } else if now != 0 && ticket_of(now) == ticket {
                // Claimed by another, who has not counted it yet.
                self.advance(words, ticket);
            }
        }
        Err(BrokenLog)
    }

    /// The node that holds a record up, if one does; notes the least position.
    fn behind(&self, words: &impl Places, ticket: Ticket, least: &mut Ticket) -> Option<usize> {
        // Where no node is on line, the next comes on at the end of the log.
        let (mut first, mut behind) = (ticket, None);
        for node in 0..self.nodes {
            let position = words.position(node).load(observe());
            if position < first {
                (first, behind) = (position, Some(node));
            }
        }
        *least = first;
        behind.filter(|_| first.saturating_add(self.places) <= ticket)
    }

    fn advance(&self, words: &impl Places, ticket: Ticket) {
        // Another may have done it.
        let tail = words.tail();
        let _ = tail.compare_exchange(ticket, ticket + 1, exchange(), Ordering::Relaxed);
    }

    /// Publishes a record that was claimed and filled. Returns whether it counts: it does not if the caller was
    /// taken for dead.
    pub fn publish(&self, words: &impl Places, ticket: Ticket, who: Who) -> bool {
        self.decide(words, ticket, who, PUBLISHED)
    }

    /// Gives a record up whose sender has ended. Returns whether it is void now; it may have been whole.
    pub fn void(&self, words: &impl Places, ticket: Ticket, dead: Who) -> bool {
        self.decide(words, ticket, dead, VOID)
    }

    fn decide(&self, words: &impl Places, ticket: Ticket, who: Who, state: u64) -> bool {
        let place = words.place(self.index(ticket));
        let (from, to) = (word(ticket, who, CLAIMED), word(ticket, who, state));
        place.compare_exchange(from, to, publish(), Ordering::Relaxed).is_ok()
    }

    /// The state of a record that no position has passed.
    pub fn look(&self, words: &impl Places, ticket: Ticket) -> State {
        let now = words.place(self.index(ticket)).load(observe());
        let who = who_of(now);
        match state_of(now) {
            _ if ticket_of(now) != ticket => State::None,
            CLAIMED => State::Claimed(who),
            PUBLISHED => State::Published(who),
            VOID => State::Void(who),
            _ => State::None,
        }
    }

    /// The records that are claimed by one who has ended are given up, from `first` on. Returns how many.
    pub fn give_up(&self, words: &impl Places, first: Ticket, dead: Who) -> u64 {
        let end = words.tail().load(observe()).min(first.saturating_add(self.places));
        (first..=end).filter(|ticket| self.void(words, *ticket, dead)).count() as u64
    }

    /// Works for a node: brings into its memory, by `take`, what is there for it. A record that is void is taken
    /// as [`State::Void`]. Each is taken once, or again from its beginning if a worker was killed meanwhile.
    pub fn work(
        &self,
        words: &impl Places,
        node: usize,
        who: Who,
        mut take: impl FnMut(Ticket, State),
    ) -> Work {
        loop {
            if let Some(end) = self.end(words, node) {
                return end;
            }
            if let Err(other) = self.enter(words, node, 0, who) {
                return Work::Busy(other);
            }
            self.catch_up(words, node, &mut take);
            self.leave(words, node);
        }
    }

    /// Why there is nothing to do for a node; `None` if there is.
    fn end(&self, words: &impl Places, node: usize) -> Option<Work> {
        let position = words.position(node).load(observe());
        if position == OFF_LINE {
            return Some(Work::Done);
        }
        match self.look(words, position) {
            State::None => Some(Work::Done),
            State::Claimed(who) => Some(Work::Waits(who)),
            State::Published(_) | State::Void(_) => None,
        }
    }

    /// Makes the caller the only process that works for a node, after `before`: none, if zero, or
    /// one that has ended, as [`Log::mark`] says.
    ///
    /// # Errors
    /// The process that works for it now.
    pub fn enter(
        &self,
        words: &impl Places,
        node: usize,
        before: u64,
        who: Who,
    ) -> Result<(), Who> {
        let worker = words.worker(node);
        let entered =
            worker.compare_exchange(before, Self::mark(who), exchange(), Ordering::Relaxed);
        entered.map(drop).map_err(|other| other.wrapping_sub(1) as Who)
    }

    /// The encoding of a worker.
    pub const fn mark(who: Who) -> u64 {
        who as u64 + 1
    }

    /// Brings all that is decided into a node's memory; the caller is its only worker.
    pub fn catch_up(&self, words: &impl Places, node: usize, mut take: impl FnMut(Ticket, State)) {
        let own = words.position(node);
        let mut position = own.load(Ordering::Relaxed);
        while position != OFF_LINE {
            let state = self.look(words, position);
            if !matches!(state, State::Published(_) | State::Void(_)) {
                break;
            }
            take(position, state);
            position += 1;
            own.store(position, publish());
        }
    }

    /// Ends the work for a node. What is published from now on is another's to bring, and the caller looks once
    /// more for what was published before.
    pub fn leave(&self, words: &impl Places, node: usize) {
        words.worker(node).store(0, publish());
        full_fence();
    }

    /// To be called between publishing and working: who then finds another at work knows that the other will see
    /// what was published.
    pub fn announce(&self) {
        full_fence();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Words {
        tail: AtomicU64,
        places: [AtomicU64; 4],
        positions: [AtomicU64; 2],
        workers: [AtomicU64; 2],
    }

    impl Places for Words {
        fn tail(&self) -> &AtomicU64 {
            &self.tail
        }
        fn place(&self, index: usize) -> &AtomicU64 {
            &self.places[index]
        }
        fn position(&self, node: usize) -> &AtomicU64 {
            &self.positions[node]
        }
        fn worker(&self, node: usize) -> &AtomicU64 {
            &self.workers[node]
        }
    }

    fn log() -> (Log, Words) {
        let zero = || AtomicU64::new(0);
        let words = Words {
            tail: zero(),
            places: std::array::from_fn(|_| zero()),
            positions: std::array::from_fn(|_| zero()),
            workers: std::array::from_fn(|_| zero()),
        };
        (Log::new(4, 2), words)
    }

    fn taken(log: &Log, words: &Words, node: usize) -> (Vec<(u64, State)>, Work) {
        let mut all = Vec::new();
        let work = log.work(words, node, 9, |ticket, state| all.push((ticket, state)));
        (all, work)
    }

    #[test]
    fn records_are_taken_in_the_order_of_their_claims() {
        let (log, words) = log();
        assert_eq!(log.claim(&words, 1, &mut 0), Ok(Claim::Claimed(0)));
        assert_eq!(log.claim(&words, 2, &mut 0), Ok(Claim::Claimed(1)));
        assert!(log.publish(&words, 1, 2));
        assert_eq!(taken(&log, &words, 0), (vec![], Work::Waits(1)), "the first is not there yet");
        assert!(log.publish(&words, 0, 1));
        let both = vec![(0, State::Published(1)), (1, State::Published(2))];
        assert_eq!(taken(&log, &words, 0), (both.clone(), Work::Done));
        assert_eq!(taken(&log, &words, 0), (vec![], Work::Done));
        assert_eq!(taken(&log, &words, 1).0, both);
    }

    #[test]
    fn a_node_that_is_behind_holds_writers_up_unless_it_is_off_line() {
        let (log, words) = log();
        for ticket in 0..4 {
            assert_eq!(log.claim(&words, 0, &mut 0), Ok(Claim::Claimed(ticket)));
            assert!(log.publish(&words, ticket, 0));
        }
        taken(&log, &words, 0);
        assert_eq!(log.claim(&words, 0, &mut 0), Ok(Claim::Behind(1)));
        words.position(1).store(OFF_LINE, Ordering::Relaxed);
        assert_eq!(log.claim(&words, 0, &mut 0), Ok(Claim::Claimed(4)));
        assert_eq!(taken(&log, &words, 1), (vec![], Work::Done));
    }

    #[test]
    fn what_a_dead_sender_did_not_publish_is_void_for_all() {
        let (log, words) = log();
        for who in [1, 2, 1] {
            assert!(matches!(log.claim(&words, who, &mut 0), Ok(Claim::Claimed(_))));
        }
        assert!(log.publish(&words, 0, 1) && log.publish(&words, 1, 2));
        assert_eq!(log.give_up(&words, 0, 1), 1);
        assert!(!log.publish(&words, 2, 1), "it was taken for dead");
        let all = vec![(0, State::Published(1)), (1, State::Published(2)), (2, State::Void(1))];
        assert_eq!(taken(&log, &words, 0).0, all);
        assert_eq!(taken(&log, &words, 1).0, all);
    }

    #[test]
    fn work_of_one_who_has_ended_is_taken_over() {
        let (log, words) = log();
        assert_eq!(log.claim(&words, 1, &mut 0), Ok(Claim::Claimed(0)));
        assert!(log.publish(&words, 0, 1));
        assert_eq!(log.enter(&words, 0, 0, 5), Ok(()));
        assert_eq!(taken(&log, &words, 0), (vec![], Work::Busy(5)));
        assert_eq!(log.enter(&words, 0, Log::mark(5), 9), Ok(()));
        log.leave(&words, 0);
        assert_eq!(taken(&log, &words, 0).0.len(), 1);
    }

    #[test]
    fn words_that_contradict_each_other_are_an_error_and_no_loop() {
        let (log, words) = log();
        words.place(0).store(word(77, 0, PUBLISHED), Ordering::Relaxed);
        assert_eq!(log.claim(&words, 0, &mut 0), Err(BrokenLog));
    }
}
