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
//! | all to all (every rank to every other) | `n (n - 1)` |
//! | gather, scatter (binomial tree) | `n - 1`, of as many `s` as there are ranks below |
//! | gather_v, scatter_v (linear) | `n - 1`, each of what its rank has |
//! | allgather_ring, allgather_v | `n (n - 1)`, each of what one rank has |
//! | allgather_bruck | `n ceil(log2 n)`, `n (n - 1) s` bytes in all |
//! | reduce_scatter_ring | `n (n - 1)`, of `s / n` each |
//! | reduce_scatter_halving | `p log2 p + 2 (n - p)`, the first half, then a quarter, ... |
//!
//! The trees, the halving and doubling and the algorithm of Bruck et al. are those of Thakur,
//! Rabenseifner and Gropp ("Optimization of collective communication operations in MPICH", IJHPCA
//! 19(1), 2005). Where ranks have differently many bytes none but the root knows how many, so that
//! there is no tree, as in MPICH.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate};

use super::schedule::{Action, Operation, Schedule};

/// A collective operation and its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
    /// Data of different sizes from each rank at one rank: every rank sends to it.
    GatherV,
    /// A piece for each from one rank: binomial tree.
    Scatter,
    /// Pieces of different sizes from one rank, which sends to every rank.
    ScatterV,
    /// The data of all at all: each piece travels around a ring.
    AllgatherRing,
    /// Data of different sizes from each rank at all ranks: each piece travels around a ring.
    AllgatherV,
    /// The data of all at all: the algorithm of Bruck, in a logarithm of rounds.
    AllgatherBruck,
    /// A piece of the sum of all at each: pieces around a ring.
    ReduceScatterRing,
    /// A piece of the sum of all at each: recursive halving.
    ReduceScatterHalving,
}

/// The payload of a message that carries no data.
const TOKEN: Bytes = Bytes(1);

/// The first tag of collectives; the round of an algorithm is added.
pub(super) const TAG: u32 = 0xe000_0000;

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 15] = [
        Collective::Barrier,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::AllreduceRing,
        Collective::AllreduceRecursiveDoubling,
        Collective::AllToAll,
        Collective::Gather,
        Collective::GatherV,
        Collective::Scatter,
        Collective::ScatterV,
        Collective::AllgatherRing,
        Collective::AllgatherV,
        Collective::AllgatherBruck,
        Collective::ReduceScatterRing,
        Collective::ReduceScatterHalving,
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
            Collective::GatherV => "gather_v",
            Collective::Scatter => "scatter",
            Collective::ScatterV => "scatter_v",
            Collective::AllgatherRing => "allgather_ring",
            Collective::AllgatherV => "allgather_v",
            Collective::AllgatherBruck => "allgather_bruck",
            Collective::ReduceScatterRing => "reduce_scatter_ring",
            Collective::ReduceScatterHalving => "reduce_scatter_halving",
        }
    }

    /// How many messages it takes among this many ranks.
    pub fn messages(self, ranks: u64) -> u64 {
        let rounds = u64::from(ranks.next_power_of_two().trailing_zeros());
        match self {
            Collective::Barrier | Collective::AllgatherBruck => ranks * rounds,
            Collective::Broadcast
            | Collective::Reduce
            | Collective::Gather
            | Collective::GatherV
            | Collective::Scatter
            | Collective::ScatterV => ranks - 1,
            Collective::AllreduceRing => 2 * ranks * (ranks - 1),
            Collective::AllreduceRecursiveDoubling | Collective::ReduceScatterHalving => {
                let power = 1 << ranks.ilog2();
                power * u64::from(ranks.ilog2()) + 2 * (ranks - power)
            }
            Collective::AllToAll
            | Collective::AllgatherRing
            | Collective::AllgatherV
            | Collective::ReduceScatterRing => ranks * (ranks - 1),
        }
    }

    /// Whether its ranks may have differently many bytes.
    pub const fn takes_sizes(self) -> bool {
        matches!(
            self,
            Collective::GatherV
                | Collective::ScatterV
                | Collective::AllgatherV
                | Collective::ReduceScatterRing
        )
    }

    /// The collective, `rounds` times one after another, with `size` bytes of each rank.
    pub fn schedule(self, ranks: u16, size: Bytes, rounds: u32) -> Schedule {
        self.schedule_of(ranks, Payload { size, ..Payload::default() }, rounds)
    }

    /// The collective, `rounds` times one after another, with everything that can be specified
    /// about the ranks' data.
    pub fn schedule_of(self, ranks: u16, payload: Payload<'_>, rounds: u32) -> Schedule {
        let mut writer = Writer::new(ranks);
        (0..rounds).for_each(|_| writer.collective(self, payload));
        writer.schedule
    }
}

/// A branch of a binomial tree.
struct Branch {
    round: u32,
    /// The rank nearer to the root.
    near: u16,
    /// The other one.
    far: u16,
    /// How many ranks are reached through it, including itself.
    below: u64,
}

/// The data of the ranks of a collective.
#[derive(Clone, Copy, Debug, Default)]
pub struct Payload<'a> {
    /// Bytes of each rank.
    pub size: Bytes,
    /// Bytes of each rank in order, if they differ; empty if all have `size`.
    pub sizes: &'a [Bytes],
    /// The rank that has the data at first, or gets it.
    pub root: u16,
    /// How fast a rank adds what it receives to its own data, in collectives that sum; takes no time
    /// if not given.
    pub reduction: Option<Rate>,
}

impl Payload<'_> {
    /// The data of one rank.
    fn of(&self, rank: u32) -> Bytes {
        self.sizes.get(rank as usize).copied().unwrap_or(self.size)
    }

    /// The piece of one rank, where `size` is what all pieces of a rank are together.
    fn piece(&self, rank: u32, ranks: u32) -> Bytes {
        let even = || Bytes(self.size.0.div_ceil(ranks.into()).max(1));
        self.sizes.get(rank as usize).copied().unwrap_or_else(even)
    }
}

/// Writes the operations of all ranks, those of a rank one after another if they depend on each
/// other.
#[derive(Debug)]
pub(super) struct Writer {
    pub schedule: Schedule,
    /// What the next operation of each rank waits for.
    pub last: Vec<Vec<u32>>,
    /// How fast ranks add.
    reduction: Option<Rate>,
}

impl Writer {
    pub fn new(ranks: u16) -> Writer {
        let last = vec![Vec::new(); ranks.into()];
        Writer { schedule: Schedule::new(ranks), last, reduction: None }
    }

    /// Adds an operation after everything that its rank has done.
    pub fn then(&mut self, rank: u16, operation: Operation) -> u32 {
        let place = usize::from(rank);
        let number = self.schedule.ranks[place].add(operation, &self.last[place]);
        self.last[place] = vec![number];
        number
    }

    /// Adds an operation after everything that its rank has done; later operations do not wait for
    /// it.
    pub fn beside(&mut self, rank: u16, operation: Operation) -> u32 {
        let place = usize::from(rank);
        self.schedule.ranks[place].add(operation, &self.last[place])
    }

    /// Adds operations after everything that the rank has done, which do not wait for each other.
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

    /// A rank adds this many received bytes to its own data.
    fn add(&mut self, rank: u16, size: Bytes) {
        if let Some(rate) = self.reduction {
            self.then(rank, Operation::new(Action::Compute(rate.span(size))));
        }
    }

    fn ranks(&self) -> u16 {
        self.last.len() as u16
    }

    /// Adds a collective of all ranks.
    pub fn collective(&mut self, collective: Collective, payload: Payload<'_>) {
        let Payload { size, root, reduction, .. } = payload;
        self.reduction = reduction;
        match collective {
            Collective::Barrier => self.barrier(),
            Collective::Broadcast => self.down_from(root, |_| size),
            Collective::Scatter => self.down_from(root, |below| size * below),
            Collective::Reduce => self.up_to(root, |_| size, true),
            Collective::Gather => self.up_to(root, |below| size * below, false),
            Collective::GatherV => self.each_with(root, payload, true),
            Collective::ScatterV => self.each_with(root, payload, false),
            Collective::AllreduceRing => self.ring(payload),
            Collective::AllreduceRecursiveDoubling => self.doubling(size),
            Collective::AllToAll => self.all_to_all(size),
            Collective::AllgatherRing | Collective::AllgatherV => self.around(payload),
            Collective::AllgatherBruck => self.bruck(size),
            Collective::ReduceScatterRing => self.pieces_around(payload),
            Collective::ReduceScatterHalving => self.halving(size),
        }
    }

    /// Every rank sends to one and receives from another at the same time; `size` is what a rank
    /// sends.
    fn shift(&mut self, ahead: u32, round: u32, size: impl Fn(u32) -> Bytes) {
        let ranks = u32::from(self.ranks());
        for rank in 0..ranks {
            let to = ((rank + ahead) % ranks) as u16;
            let from = (rank + ranks - ahead) % ranks;
            let tag = TAG + round;
            let (sent, received) = (size(rank), size(from));
            self.together(
                rank as u16,
                [
                    Action::Send { to, tag, size: sent },
                    Action::Receive { from: from as u16, tag, size: received },
                ],
            );
        }
    }

    fn barrier(&mut self) {
        let (mut ahead, mut round) = (1, 0);
        while ahead < u32::from(self.ranks()) {
            self.shift(ahead, round, |_| TOKEN);
            ahead *= 2;
            round += 1;
        }
    }

    /// The branches of a binomial tree over ranks counted from the root, the longest first.
    fn tree(&self, root: u16) -> Vec<Branch> {
        let ranks = u32::from(self.ranks());
        let of = |number: u32| ((number + u32::from(root)) % ranks) as u16;
        let mut pairs = Vec::new();
        let mut half = ranks.next_power_of_two() / 2;
        let mut round = 0;
        while half > 0 {
            let near = (0..ranks).step_by(2 * half as usize).filter(|near| near + half < ranks);
            pairs.extend(near.map(|near| {
                let far = near + half;
                let below = half.min(ranks - far).into();
                Branch { round, near: of(near), far: of(far), below }
            }));
            half /= 2;
            round += 1;
        }
        pairs
    }

    /// Along the tree from the root; the size follows from how many ranks a message speaks to.
    fn down_from(&mut self, root: u16, size: impl Fn(u64) -> Bytes) {
        for Branch { round, near, far, below } in self.tree(root) {
            self.pass(near, far, round, size(below));
        }
    }

    /// Along the tree towards the root; the size follows from how many ranks a message speaks for.
    fn up_to(&mut self, root: u16, size: impl Fn(u64) -> Bytes, adds: bool) {
        for Branch { round, near, far, below } in self.tree(root).into_iter().rev() {
            self.pass(far, near, round, size(below));
            if adds {
                self.add(near, size(below));
            }
        }
    }

    /// One message between the root and every other rank, with the size of the other rank's data.
    fn each_with(&mut self, root: u16, payload: Payload<'_>, to_root: bool) {
        let others: Vec<u16> = (0..self.ranks()).filter(|rank| *rank != root).collect();
        let size = |rank: u16| payload.of(rank.into());
        let message = |rank: u16, sends: bool, other: u16| match sends {
            true => Action::Send { to: other, tag: TAG, size: size(rank) },
            false => Action::Receive { from: other, tag: TAG, size: size(rank) },
        };
        for rank in &others {
            self.together(*rank, [message(*rank, to_root, root)]);
        }
        self.together(root, others.iter().map(|rank| message(*rank, !to_root, *rank)));
    }

    fn ring(&mut self, payload: Payload<'_>) {
        let ranks = u32::from(self.ranks());
        let piece = payload.piece(0, ranks);
        for round in 0..2 * (ranks - 1) {
            self.shift(1, round, |_| piece);
            // The sums are complete after half of the rounds.
            if round < ranks - 1 {
                (0..ranks).for_each(|rank| self.add(rank as u16, piece));
            }
        }
    }

    /// The data of each rank goes around: in each round a rank passes on what it received in the
    /// previous one.
    fn around(&mut self, payload: Payload<'_>) {
        let ranks = u32::from(self.ranks());
        for round in 0..ranks - 1 {
            self.shift(1, round, |rank| payload.of((rank + ranks - round) % ranks));
        }
    }

    /// Sums of pieces go around; the last that a rank gets is its own.
    fn pieces_around(&mut self, payload: Payload<'_>) {
        let ranks = u32::from(self.ranks());
        for round in 0..ranks - 1 {
            let piece = |rank| (rank + 2 * ranks - round - 1) % ranks;
            self.shift(1, round, |rank| payload.piece(piece(rank), ranks));
            for rank in 0..ranks {
                let before = (rank + ranks - 1) % ranks;
                self.add(rank as u16, payload.piece(piece(before), ranks));
            }
        }
    }

    /// In each round a rank has twice as many pieces, and gets the next ones from as far above it.
    fn bruck(&mut self, size: Bytes) {
        let ranks = u32::from(self.ranks());
        let (mut known, mut round) = (1, 0);
        while known < ranks {
            let more = u64::from(known.min(ranks - known));
            self.shift(ranks - known, round, |_| size * more);
            known *= 2;
            round += 1;
        }
    }

    /// Two ranks at a time sum each one half of what is left to them.
    fn halving(&mut self, size: Bytes) {
        let ranks = self.ranks();
        let power = 1_u16 << ranks.ilog2();
        for extra in power..ranks {
            self.pass(extra, extra - power, 0, size);
            self.add(extra - power, size);
        }
        let (mut distance, mut round) = (power / 2, 1);
        while distance > 0 {
            let left = size.0 * u64::from(distance);
            self.exchange(distance, round, Bytes(left.div_ceil(power.into()).max(1)));
            distance /= 2;
            round += 1;
        }
        let piece = Payload { size, ..Payload::default() }.piece(0, ranks.into());
        for extra in power..ranks {
            self.pass(extra - power, extra, round, piece);
        }
    }

    /// The ranks below the largest power of two exchange messages, each with the one whose number
    /// differs in one bit, and add what they get.
    fn exchange(&mut self, distance: u16, round: u32, size: Bytes) {
        let power = 1_u16 << self.ranks().ilog2();
        for rank in 0..power {
            let (other, tag) = (rank ^ distance, TAG + round);
            self.together(
                rank,
                [Action::Send { to: other, tag, size }, Action::Receive { from: other, tag, size }],
            );
            self.add(rank, size);
        }
    }

    fn doubling(&mut self, size: Bytes) {
        let ranks = self.ranks();
        let power = 1_u16 << ranks.ilog2();
        // Ranks beyond the power of two take part through a partner.
        for extra in power..ranks {
            self.pass(extra, extra - power, 0, size);
            self.add(extra - power, size);
        }
        let (mut distance, mut round) = (1, 1);
        while distance < power {
            self.exchange(distance, round, size);
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
}
