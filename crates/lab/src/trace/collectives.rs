//! Traces of collective operations by their usual algorithms, so that nothing has to be downloaded.
//!
//! Messages and bytes in closed form, of `n` ranks with `s` bytes each:
//!
//! | collective | messages |
//! |---|---|
//! | barrier (dissemination) | `n ceil(log2 n)` |
//! | broadcast, reduce (binomial tree) | `n - 1` |
//! | allreduce, ring | `2 n (n - 1)`, of `s / n` each |
//! | allreduce, recursive doubling | `p log2 p + 2 (n - p)`, `p` the power of two below |
//! | all to all (each with each) | `n (n - 1)` |
//! | gather (binomial tree) | `n - 1`, of as many `s` as there are ranks below |
//!
//! The trees and the doubling are those of Thakur, Rabenseifner and Gropp ("Optimization of
//! collective communication operations in MPICH", IJHPCA 19(1), 2005).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Span};

use super::schedule::{Action, Operation, Schedule};

/// A collective operation and its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Everybody waits for everybody: dissemination.
    Barrier,
    /// One rank's data to all: binomial tree.
    Broadcast,
    /// The sum of all at one rank: binomial tree.
    Reduce,
    /// The sum of all at all: pieces around a ring, twice.
    AllreduceRing,
    /// The sum of all at all: recursive doubling.
    AllreduceRecursiveDoubling,
    /// A piece of each for each: every rank begins with its neighbour.
    AllToAll,
    /// The data of all at one rank: binomial tree.
    Gather,
}

/// The payload of a message that says no more than that it came.
const TOKEN: Bytes = Bytes(1);

/// The first tag of collectives; the round of an algorithm is added.
const TAG: u32 = 0xe000_0000;

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 7] = [
        Collective::Barrier,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllreduceRing,
        Collective::AllreduceRecursiveDoubling,
        Collective::AllToAll,
        Collective::Gather,
    ];

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Broadcast => "broadcast",
            Collective::Reduce => "reduce",
            Collective::AllreduceRing => "allreduce_ring",
            Collective::AllreduceRecursiveDoubling => "allreduce_recursive_doubling",
            Collective::AllToAll => "all_to_all",
            Collective::Gather => "gather",
        }
    }

    /// How many messages it takes among so many ranks.
    pub fn messages(self, ranks: u64) -> u64 {
        let rounds = u64::from(ranks.next_power_of_two().trailing_zeros());
        match self {
            Collective::Barrier => ranks * rounds,
            Collective::Broadcast | Collective::Reduce | Collective::Gather => ranks - 1,
            Collective::AllreduceRing => 2 * ranks * (ranks - 1),
            Collective::AllreduceRecursiveDoubling => {
                let power = 1 << ranks.ilog2();
                power * u64::from(ranks.ilog2()) + 2 * (ranks - power)
            }
            Collective::AllToAll => ranks * (ranks - 1),
        }
    }

    /// The collective, `rounds` times one after another, with `size` bytes of each rank.
    pub fn schedule(self, ranks: u16, size: Bytes, rounds: u32) -> Schedule {
        let mut writer = Writer::new(ranks);
        (0..rounds).for_each(|_| writer.collective(self, size, 0));
        writer.schedule
    }
}

/// Writes the operations of all ranks, those of a rank one behind another where they depend on each
/// other.
#[derive(Debug)]
pub(super) struct Writer {
    pub schedule: Schedule,
    /// What the next operation of each rank waits for.
    pub last: Vec<Vec<u32>>,
}

impl Writer {
    pub fn new(ranks: u16) -> Writer {
        Writer { schedule: Schedule::new(ranks), last: vec![Vec::new(); ranks.into()] }
    }

    /// Adds an operation behind all that its rank did.
    pub fn then(&mut self, rank: u16, operation: Operation) -> u32 {
        let place = usize::from(rank);
        let number = self.schedule.ranks[place].add(operation, &self.last[place]);
        self.last[place] = vec![number];
        number
    }

    /// Adds operations behind all that the rank did, which do not wait for each other.
    fn together(&mut self, rank: u16, actions: impl IntoIterator<Item = Action>) {
        let place = usize::from(rank);
        let script = &mut self.schedule.ranks[place];
        let after = std::mem::take(&mut self.last[place]);
        let add = |action| script.add(Operation::new(action), &after);
        self.last[place] = actions.into_iter().map(add).collect();
        if self.last[place].is_empty() {
            self.last[place] = after;
        }
    }

    /// A message of one rank to another one, each in the order of what it did.
    fn pass(&mut self, from: u16, to: u16, round: u32, size: Bytes) {
        self.together(from, [Action::Send { to, tag: TAG + round, size }]);
        self.together(to, [Action::Receive { from, tag: TAG + round, size }]);
    }

    fn ranks(&self) -> u16 {
        self.last.len() as u16
    }

    /// Adds a collective of all ranks; `root` is the rank that has or gets the data.
    pub fn collective(&mut self, collective: Collective, size: Bytes, root: u16) {
        match collective {
            Collective::Barrier => self.barrier(),
            Collective::Broadcast => self.broadcast(size, root),
            Collective::Reduce => self.towards(root, |_| size),
            Collective::Gather => self.towards(root, |below| size * u64::from(below)),
            Collective::AllreduceRing => self.ring(size),
            Collective::AllreduceRecursiveDoubling => self.doubling(size),
            Collective::AllToAll => self.all_to_all(size),
        }
    }

    /// Every rank sends to one and receives from another one, at once.
    fn shift(&mut self, ahead: u32, round: u32, size: Bytes) {
        let ranks = u32::from(self.ranks());
        for rank in 0..ranks {
            let to = ((rank + ahead) % ranks) as u16;
            let from = ((rank + ranks - ahead) % ranks) as u16;
            let tag = TAG + round;
            self.together(
                rank as u16,
                [Action::Send { to, tag, size }, Action::Receive { from, tag, size }],
            );
        }
    }

    fn barrier(&mut self) {
        let (mut ahead, mut round) = (1, 0);
        while ahead < u32::from(self.ranks()) {
            self.shift(ahead, round, TOKEN);
            ahead *= 2;
            round += 1;
        }
    }

    /// The pairs of a binomial tree over ranks counted from the root, the longest way first: round,
    /// the one nearer to the root, the other.
    fn tree(&self, root: u16) -> Vec<(u32, u16, u16)> {
        let ranks = u32::from(self.ranks());
        let of = |number: u32| ((number + u32::from(root)) % ranks) as u16;
        let mut pairs = Vec::new();
        let mut half = ranks.next_power_of_two() / 2;
        let mut round = 0;
        while half > 0 {
            let near = (0..ranks).step_by(2 * half as usize).filter(|near| near + half < ranks);
            pairs.extend(near.map(|near| (round, of(near), of(near + half))));
            half /= 2;
            round += 1;
        }
        pairs
    }

    fn broadcast(&mut self, size: Bytes, root: u16) {
        for (round, near, far) in self.tree(root) {
            self.pass(near, far, round, size);
        }
    }

    /// Along the tree towards the root; the size follows from how many ranks a message speaks for.
    fn towards(&mut self, root: u16, size: impl Fn(u32) -> Bytes) {
        let mut speaks = vec![1; self.last.len()];
        for (round, near, far) in self.tree(root).into_iter().rev() {
            let below = speaks[usize::from(far)];
            speaks[usize::from(near)] += below;
            self.pass(far, near, round, size(below));
        }
    }

    fn ring(&mut self, size: Bytes) {
        let ranks = u64::from(self.ranks());
        let piece = Bytes(size.0.div_ceil(ranks).max(1));
        for round in 0..2 * (ranks as u32 - 1) {
            self.shift(1, round, piece);
        }
    }

    fn doubling(&mut self, size: Bytes) {
        let ranks = self.ranks();
        let power = 1_u16 << ranks.ilog2();
        // Those beyond the power of two speak through a partner.
        for extra in power..ranks {
            self.pass(extra, extra - power, 0, size);
        }
        let (mut distance, mut round) = (1, 1);
        while distance < power {
            for rank in 0..power {
                let (other, tag) = (rank ^ distance, TAG + round);
                self.together(
                    rank,
                    [
                        Action::Send { to: other, tag, size },
                        Action::Receive { from: other, tag, size },
                    ],
                );
            }
            distance *= 2;
            round += 1;
        }
        for extra in power..ranks {
            self.pass(extra - power, extra, round, size);
        }
    }

    fn all_to_all(&mut self, size: Bytes) {
        let ranks = self.ranks();
        for rank in 0..ranks {
            let others = (1..ranks)
                .map(move |ahead| (u32::from(rank) + u32::from(ahead)) % u32::from(ranks));
            let sends = others.clone().map(|to| Action::Send { to: to as u16, tag: TAG, size });
            let receives = others.map(|from| Action::Receive { from: from as u16, tag: TAG, size });
            self.together(rank, sends.chain(receives));
        }
    }

    /// Every rank computes.
    pub fn compute(&mut self, span: Span) {
        if span > Span::ZERO {
            (0..self.ranks()).for_each(|rank| self.together(rank, [Action::Compute(span)]));
        }
    }
}
