//! The operations of every rank and what each waits for.

use weft_units::{Bytes, Span};

use super::error::TraceError;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The rank computes.
    Compute(Span),
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
        /// The size that was recorded; a message of another one is taken all the same.
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
    /// The line that it stands in, from 1; 0 where it stands in none.
    pub line: u32,
}

/// What an operation waits for of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// That it has begun.
    Begun,
    /// That it is over.
    Over,
}

/// The operations of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    operations: Vec<Operation>,
    /// Which operation waits for which: the one waited for, the one that waits.
    edges: Vec<(u32, u32, After)>,
}

/// A program of every rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The script of each rank.
    pub ranks: Vec<Script>,
}

impl Operation {
    /// An operation that stands in no file.
    pub fn new(action: Action) -> Operation {
        Operation { action, cpu: 0, nic: 0, line: 0 }
    }
}

impl Script {
    /// Adds an operation that waits until each of `after` is over. Returns its number.
    pub fn add(&mut self, operation: Operation, after: &[u32]) -> u32 {
        let number = self.operations.len() as u32;
        self.operations.push(operation);
        self.edges.extend(after.iter().map(|before| (*before, number, After::Over)));
        number
    }

    /// An operation waits for another one.
    pub fn wait(&mut self, waits: u32, before: u32, after: After) {
        self.edges.push((before, waits, after));
    }

    /// The operations in order of their numbers.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Which operation waits for which: the one waited for, the one that waits.
    pub fn edges(&self) -> &[(u32, u32, After)] {
        &self.edges
    }

    /// The operations that wait for each, and how many each waits for.
    pub(super) fn followers(&self) -> (Followers, Vec<u32>) {
        let mut waits = vec![0; self.operations.len()];
        let mut first = vec![0_u32; self.operations.len() + 1];
        for (before, waiting, _) in &self.edges {
            waits[*waiting as usize] += 1;
            first[*before as usize + 1] += 1;
        }
        for place in 1..first.len() {
            first[place] += first[place - 1];
        }
        let mut next = first.clone();
        let mut all = vec![(0, After::Over); self.edges.len()];
        for (before, waiting, after) in &self.edges {
            let place = &mut next[*before as usize];
            all[*place as usize] = (*waiting, *after);
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

    /// How many messages are sent, and their payload.
    pub fn traffic(&self) -> (u64, Bytes) {
        let all = self.ranks.iter().flat_map(|script| &script.operations);
        all.fold((0, Bytes(0)), |(count, bytes), own| match own.action {
            Action::Send { size, .. } => (count + 1, bytes + size),
            _ => (count, bytes),
        })
    }
}
