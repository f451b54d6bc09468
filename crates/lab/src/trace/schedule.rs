//! The operations of every rank and what each waits for.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use weft_units::{Bytes, Span};

use super::error::TraceError;
use crate::program::{CLOCK_END, KeyHasher};

/// The largest message of a trace: as many elements as MPI counts, of 32 B, its largest type.
pub const LARGEST: Bytes = Bytes(1 << 36);

/// The longest computation of a trace: as long as a program can take.
pub const LONGEST: Span = Span(CLOCK_END.0);

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The rank computes.
    Compute(Span),
    /// This much time passes, without a processor.
    Sleep(Span),
    /// The rank sends to another one.
    Send {
        /// The other.
        to: u16,
        /// The tag of the message.
        tag: u32,
        /// Its payload.
        size: Bytes,
    },
    /// The rank receives from another one.
    Receive {
        /// The other.
        from: u16,
        /// The tag of the message.
        tag: u32,
        /// The recorded size; a message of another size is accepted as well.
        size: Bytes,
    },
}

/// One operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub action: Action,
    /// The processor of the rank that it needs.
    pub cpu: u16,
    /// The NIC that it names, for rules of routes.
    pub nic: u16,
    /// Its line, from 1; 0 without a line.
    pub line: u32,
}

/// The event of another operation for which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// That the other operation has begun.
    Begun,
    /// That it has ended.
    Over,
}

/// One operation of a script waits for another one of the same script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The number of the operation waited for.
    pub before: u32,
    /// The number of the operation that waits.
    pub waits: u32,
    /// What it waits for.
    pub after: After,
}

/// The messages of a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// How many there are.
    pub messages: u64,
    /// The payload of all of them.
    pub payload: Bytes,
}

/// The operations of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    operations: Vec<Operation>,
    edges: Vec<Edge>,
}

/// A program of every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The script of each rank.
    pub ranks: Vec<Script>,
}

impl Operation {
    /// An operation without a file.
    pub fn new(action: Action) -> Operation {
        Operation { action, cpu: 0, nic: 0, line: 0 }
    }

    /// Sender, receiver and tag of its message in one number, and 1 if it sends, -1 if it receives.
    fn message(&self, rank: u16) -> Option<(u64, i64)> {
        let key = |from: u16, to: u16, tag: u32| {
            u64::from(from) << 48 | u64::from(to) << 32 | u64::from(tag)
        };
        match self.action {
            Action::Send { to, tag, .. } => Some((key(rank, to, tag), 1)),
            Action::Receive { from, tag, .. } => Some((key(from, rank, tag), -1)),
            Action::Compute(_) | Action::Sleep(_) => None,
        }
    }
}

impl Script {
    /// Adds an operation that waits until each of `after` is over. Returns its number.
    pub fn add(&mut self, operation: Operation, after: &[u32]) -> u32 {
        let number = self.operations.len() as u32;
        self.operations.push(operation);
        let edge = |before: &u32| Edge { before: *before, waits: number, after: After::Over };
        self.edges.extend(after.iter().map(edge));
        number
    }

    /// An operation waits for another one.
    pub fn wait(&mut self, waits: u32, before: u32, after: After) {
        self.edges.push(Edge { before, waits, after });
    }

    /// The operations in order of their numbers.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    pub(super) fn operations_mut(&mut self) -> &mut [Operation] {
        &mut self.operations
    }

    /// Which operation waits for which.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The operations that wait for each, and how many each waits for.
    pub(super) fn followers(&self) -> (Followers, Vec<u32>) {
        let mut waits = vec![0; self.operations.len()];
        let mut first = vec![0_u32; self.operations.len() + 1];
        for edge in &self.edges {
            waits[edge.waits as usize] += 1;
            first[edge.before as usize + 1] += 1;
        }
        for place in 1..first.len() {
            first[place] += first[place - 1];
        }
        let mut next = first.clone();
        let mut all = vec![(0, After::Over); self.edges.len()];
        for edge in &self.edges {
            let place = &mut next[edge.before as usize];
            all[*place as usize] = (edge.waits, edge.after);
            *place += 1;
        }
        (Followers { first, all }, waits)
    }

    /// Refuses operations that wait for each other.
    pub fn check(&self, rank: u16) -> Result<(), TraceError> {
        let (followers, mut waits) = self.followers();
        let all = 0..self.operations.len() as u32;
        let mut ready: Vec<u32> = all.filter(|number| waits[*number as usize] == 0).collect();
        let mut seen = 0;
        while let Some(number) = ready.pop() {
            seen += 1;
            for (next, _) in followers.of(number) {
                waits[*next as usize] -= 1;
                if waits[*next as usize] == 0 {
                    ready.push(*next);
                }
            }
        }
        if seen == self.operations.len() {
            return Ok(());
        }
        let stuck = self.operations.iter().zip(&waits).filter(|(_, waits)| **waits > 0);
        Err(TraceError::Cycle { rank, lines: stuck.map(|(own, _)| own.line).take(8).collect() })
    }
}

/// The operations that wait for each operation.
#[derive(Clone, Debug)]
pub(super) struct Followers {
    first: Vec<u32>,
    all: Vec<(u32, After)>,
}

impl Followers {
    pub fn of(&self, number: u32) -> &[(u32, After)] {
        let place = number as usize;
        &self.all[self.first[place] as usize..self.first[place + 1] as usize]
    }
}

impl Schedule {
    /// Ranks that do nothing.
    pub fn new(ranks: u16) -> Schedule {
        Schedule { ranks: vec![Script::default(); ranks.into()] }
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.ranks.iter().map(|script| script.operations.len()).sum()
    }

    /// Whether no rank does anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses messages that are too large, or that no rank receives or sends. The counts do not depend on the order of
    /// messages, but the sizes of two that match do, which [`play`](super::play()) compares.
    pub fn check_messages(&self) -> Result<(), TraceError> {
        let mut open: HashMap<u64, i64, BuildHasherDefault<KeyHasher>> = HashMap::default();
        for (script, rank) in self.ranks.iter().zip(0..) {
            for own in &script.operations {
                if let Action::Send { size, .. } | Action::Receive { size, .. } = own.action
                    && size > LARGEST
                {
                    return Err(TraceError::TooLarge { line: own.line, size: size.0 });
                }
                let Some((key, count)) = own.message(rank) else { continue };
                *open.entry(key).or_default() += count;
            }
        }
        if open.values().all(|count| *count == 0) {
            return Ok(());
        }
        let all = self.ranks.iter().zip(0..).flat_map(|(script, rank)| {
            script.operations.iter().filter_map(move |own| Some((own, own.message(rank)?)))
        });
        let odd = |(key, count): (u64, i64)| open[&key].signum() == count;
        let Some((_, (wanted, kind))) = all.clone().find(|(_, message)| odd(*message)) else {
            return Ok(());
        };
        let (mut line, mut sent, mut received) = (0, 0, 0);
        for (own, (_, count)) in all.filter(|(_, (key, _))| *key == wanted) {
            if count == kind {
                line = own.line;
            }
            sent += u64::from(count > 0);
            received += u64::from(count < 0);
        }
        let (from, to, tag) = ((wanted >> 48) as u16, (wanted >> 32) as u16, wanted as u32);
        Err(TraceError::Unmatched { line, from, to, tag, sent, received })
    }

    /// How many messages are sent, and their payload.
    pub fn traffic(&self) -> Sent {
        let mut sent = Sent::default();
        for own in self.ranks.iter().flat_map(|script| &script.operations) {
            if let Action::Send { size, .. } = own.action {
                sent.messages += 1;
                sent.payload += size;
            }
        }
        sent
    }
}
