//! What programs run on: ranks with memory, the channels between them, and simulated time.
//!
//! A rank begins operations (a send, a receive, a wait) and learns when each ends; the machine does
//! not depend on how programs are written. Rank `r` is host `r` of every channel unless
//! [`Machine::placed`] says otherwise; ranks on one host share its place on every channel, and send
//! to each other through [its memory](Machine::on_hosts).

mod conditional_write;
mod fall_through;
mod forward;
mod host;
mod meeting;
mod passing;
mod remote_read;

use std::collections::{BTreeMap, BTreeSet};

use weft_kernel::Queue;
use weft_units::{Bytes, PositiveCount, Time};

use super::account::{Account, Interval};
use super::error::ProgramError;
use super::matching::{Matching, Wanted};
use super::operation::{Doing, Op, OpId, Outgoing, Received, State};
use super::placement::Places;
use super::policy::{Kind, Policy};
use super::tables::RankReport;
use crate::drive::carrier::{Carrier, Departure, Destination, Notice};
use conditional_write::{Leg, Word};
use host::Hosts;
use meeting::{Gathering, Waiting};

/// Ranks, channels and time.
#[derive(Debug)]
pub struct Machine<C> {
    now: Time,
    ranks: Vec<Rank>,
    channels: Vec<(String, C)>,
    policy: Policy,
    ops: Vec<Op>,
    free_ops: Vec<OpId>,
    parcels: Vec<Parcel>,
    free_parcels: Vec<u32>,
    timers: Queue<OpId>,
    done: Vec<OpId>,
    notices: Vec<Notice>,
    account: Account,
    failure: Option<ProgramError>,
    lost: Vec<String>,
    messages: u64,
    places: Places,
    hosts: Hosts,
    /// Notices of messages that are still to come.
    expected: u64,
    /// The ranks at the barrier of each channel, and the ranks of hosts that meet before.
    at_barrier: Vec<Vec<Waiting>>,
    gathering: Vec<Gathering>,
    /// Ranks that have stopped and have not been asked for; which rank will learn of which.
    stopped: Vec<u16>,
    tidings: BTreeSet<(u16, u16)>,
    departures: Vec<Departure>,
    /// For each channel, why nothing of it is skipped, if that was requested.
    forbidden: Option<Vec<Option<String>>>,
}

/// An operation that waits until a word of its rank's memory is at least `least`.
#[derive(Clone, Copy, Debug)]
struct Watcher {
    address: u64,
    least: u64,
    op: OpId,
}

#[derive(Debug, Default)]
struct Rank {
    matching: Matching,
    memory: BTreeMap<u64, u64>,
    watchers: Vec<Watcher>,
    is_gone: bool,
    /// The ranks of which it has learned that they are gone, and the operations that wait for the
    /// next one, by number.
    departed: Vec<u16>,
    mourners: Vec<(usize, OpId)>,
}

/// A message in flight, or one that has arrived and that no receive has taken.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    from: u16,
    /// The ranks that get a notice of it.
    to: Destination,
    size: Bytes,
    cargo: Cargo,
    /// The operation that is over when the message has left.
    op: OpId,
    offered: Time,
    /// How many more times it will be looked at.
    uses: u32,
    /// By how many routes it has still to leave: a channel, the memory of the host, or both.
    leaving: u8,
}

#[derive(Clone, Copy, Debug)]
enum Cargo {
    Program {
        tag: u32,
        value: u64,
    },
    Store {
        address: u64,
        value: u64,
    },
    Ask {
        address: u64,
        size: Bytes,
        op: OpId,
    },
    Answer {
        value: u64,
        op: OpId,
    },
    /// A read by the adapters: asked for, and with what was read.
    Fetch {
        address: u64,
        target: u16,
        op: OpId,
    },
    Fetched {
        value: u64,
        target: u16,
        op: OpId,
    },
    /// A word that the adapters write recoverably, or a message of a round trip.
    Confirmed(Word),
    RoundTrip(Word, Leg),
    Barrier {
        op: OpId,
        channel: usize,
    },
    /// Another rank of the host has reached the barrier of a channel; all have.
    Comes {
        channel: usize,
    },
    Released {
        op: OpId,
    },
}

/// The end of a program's clock: 100 days. Picoseconds can count as much again after it, so that
/// whatever is in progress then ends without an overflow.
pub const CLOCK_END: Time = Time(100 * 86_400 * 1_000_000_000_000);

/// More than this is not said of a program that is stuck.
const MOST_LINES: usize = 24;

impl<C: Carrier> Machine<C> {
    /// `ranks` at time zero on channels, each with its name. `picture` requests every interval and
    /// message in addition to sums.
    pub fn new(
        ranks: u16,
        channels: Vec<(String, C)>,
        policy: Policy,
        picture: bool,
    ) -> Machine<C> {
        let at_barrier = vec![Vec::new(); channels.len()];
        Machine {
            now: Time::ZERO,
            ranks: (0..ranks).map(|_| Rank::default()).collect(),
            channels,
            policy,
            ops: Vec::new(),
            free_ops: Vec::new(),
            parcels: Vec::new(),
            free_parcels: Vec::new(),
            timers: Queue::new(),
            done: Vec::new(),
            notices: Vec::new(),
            account: Account::new(ranks, picture),
            failure: None,
            lost: Vec::new(),
            messages: 0,
            places: Places::default(),
            hosts: Hosts::default(),
            expected: 0,
            at_barrier,
            gathering: Vec::new(),
            stopped: Vec::new(),
            tidings: BTreeSet::new(),
            departures: Vec::new(),
            forbidden: None,
        }
    }

    /// Like [`new`](Self::new), with each rank on the host at its position. Several ranks on a host
    /// need a memory to send to each other, which [`Machine::on_hosts`] provides. At time zero
    /// only.
    #[must_use]
    pub fn placed(mut self, hosts: Vec<u16>) -> Machine<C> {
        self.places = Places::new(hosts);
        self
    }

    /// The host of a rank.
    pub fn host(&self, rank: u16) -> u16 {
        self.places.host(rank)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u16 {
        self.ranks.len() as u16
    }

    /// The number of a channel, by its name.
    pub fn channel(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|(other, _)| other == name)
    }

    /// A rank sends. The operation is over when the last byte has left.
    pub fn send(&mut self, message: Outgoing) -> OpId {
        let Outgoing { from, to, tag, value, .. } = message;
        let op = self.begin(from, Doing::Send { to, tag });
        self.dispatch(message, Kind::Message, Cargo::Program { tag, value }, op);
        op
    }

    /// A rank receives. The operation is over when a message that fits is there.
    pub fn receive(&mut self, rank: u16, wanted: Wanted) -> OpId {
        let op = self.begin(rank, Doing::Receive(wanted));
        if let Some(from) = wanted.from
            && !self.knows(rank, from)
        {
            return op;
        }
        if let Some(parcel) =
            self.ranks[usize::from(rank)].matching.receive(wanted, op.index() as u32)
        {
            self.take(op, parcel);
        }
        op
    }

    /// A rank stores into the memory of another one, or of several. The operation is over when the
    /// last byte has left.
    pub fn store(&mut self, message: Outgoing, address: u64) -> OpId {
        let Outgoing { from, to, tag, value, .. } = message;
        let op = self.begin(from, Doing::Send { to, tag });
        self.dispatch(message, Kind::Store, Cargo::Store { address, value }, op);
        op
    }

    /// The word at an address of a rank's own memory; zero if nothing was stored.
    pub fn load(&self, rank: u16, address: u64) -> u64 {
        self.ranks[usize::from(rank)].memory.get(&address).copied().unwrap_or(0)
    }

    /// A rank waits until a word of its own memory is at least `least`.
    pub fn until(&mut self, rank: u16, address: u64, least: u64) -> OpId {
        let op = self.begin(rank, Doing::Until { address, least });
        let value = self.load(rank, address);
        if value >= least {
            self.complete(op, Received { value, ..Received::default() });
        } else {
            self.ranks[usize::from(rank)].watchers.push(Watcher { address, least, op });
        }
        op
    }

    /// The result of an operation, if it has ended.
    pub fn outcome(&self, op: OpId) -> Option<Received> {
        let op = &self.ops[op.index()];
        (op.state == State::Done).then_some(op.received)
    }

    /// An operation is no longer needed; its number is reused.
    pub fn release(&mut self, id: OpId) {
        let op = &mut self.ops[id.index()];
        match op.state {
            State::Done => {
                op.state = State::Free;
                self.free_ops.push(id);
            }
            State::Open => op.state = State::Dropped,
            State::Dropped | State::Free => {}
        }
    }

    /// The rank of an operation does nothing else until it is over.
    pub fn block(&mut self, op: OpId) {
        let now = self.now;
        self.ops[op.index()].blocked.get_or_insert(now);
    }

    /// The operations that are over and were not taken yet, in the order in which they ended.
    pub fn take_done(&mut self, done: &mut Vec<OpId>) {
        done.append(&mut self.done);
    }

    /// When something happens next; [`Time::NEVER`] if nothing does.
    pub fn next_time(&self) -> Time {
        let timer = self.timers.next_time().unwrap_or(Time::NEVER).min(self.next_copy());
        self.channels.iter().fold(timer, |next, (_, channel)| next.min(channel.next_time()))
    }

    /// Goes on to the next instant at which something happens. Returns `false` if nothing does for
    /// which a rank could wait: traffic beside the program alone wakes no rank. Timers of an instant
    /// end before anything happens on a channel in it, so that the channels see what programs submit
    /// then.
    pub fn step(&mut self) -> bool {
        let next = self.next_time();
        let is_idle = self.expected == 0 && self.timers.next_time().is_none();
        if next == Time::NEVER || (is_idle && !self.awaits_tidings()) {
            return false;
        }
        if next > CLOCK_END {
            self.fail(ProgramError::ClockEnds { time: self.now });
            return true;
        }
        self.now = next;
        if self.end_computations() {
            return true;
        }
        self.heed_copies();
        let mut notices = std::mem::take(&mut self.notices);
        for channel in 0..self.channels.len() {
            let carrier = &mut self.channels[channel].1;
            if carrier.next_time() <= next {
                carrier.advance(next, &mut notices);
                notices.drain(..).for_each(|notice| self.heed(notice, channel));
                self.heed_departures(channel);
            }
        }
        self.notices = notices;
        true
    }

    /// How many steps all channels took.
    pub fn steps(&self) -> u64 {
        self.channels.iter().map(|(_, channel)| channel.steps()).sum()
    }

    /// How many messages were submitted, to channels or to the memory of their host.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The account of the ranks' time.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account of the ranks' time, to be added to.
    pub fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    /// The results of the ranks, given the time at which each had finished.
    pub fn report(&self, ends: Vec<Time>) -> RankReport {
        RankReport {
            account: self.account.clone(),
            ends,
            hosts: (0..self.ranks()).map(|rank| self.host(rank)).collect(),
            processors: self.processors().map(PositiveCount::get),
        }
    }

    /// The error of a program, if there was one.
    pub fn failure(&mut self) -> Option<ProgramError> {
        self.failure.take()
    }

    /// Notes what a program did wrong; the first counts.
    pub fn fail(&mut self, error: ProgramError) {
        self.failure.get_or_insert(error);
    }

    /// The channels with their names; ends the machine.
    pub fn into_channels(self) -> Vec<(String, C)> {
        self.channels
    }

    /// What waits for what, for the operations by which ranks are [blocked](Machine::block).
    pub fn deadlock(&self) -> ProgramError {
        let blocked = |op: &&Op| op.state == State::Open && op.blocked.is_some();
        let mut open: Vec<&Op> = self.ops.iter().filter(blocked).collect();
        open.sort_by_key(|op| op.rank);
        let waiting = open.into_iter().map(Op::says).collect();
        self.stuck(waiting)
    }

    /// A program is stuck for these reasons, and for what the channels say.
    pub fn stuck(&self, mut waiting: Vec<String>) -> ProgramError {
        waiting.extend(self.lost.iter().cloned());
        for (name, channel) in &self.channels {
            let lines = channel.waiting();
            waiting.extend(lines.into_iter().map(|line| format!("on {name}, {line}")));
        }
        let more = waiting.len().saturating_sub(MOST_LINES);
        if more > 0 {
            waiting.truncate(MOST_LINES);
            waiting.push(format!("and {more} more"));
        }
        ProgramError::Deadlock { time: self.now, waiting }
    }

    fn begin(&mut self, rank: u16, doing: Doing) -> OpId {
        let op =
            Op { rank, doing, state: State::Open, blocked: None, received: Received::default() };
        match self.free_ops.pop() {
            Some(id) => {
                self.ops[id.index()] = op;
                id
            }
            None => {
                self.ops.push(op);
                OpId::new(self.ops.len() - 1)
            }
        }
    }

    fn complete(&mut self, id: OpId, received: Received) {
        let now = self.now;
        let op = &mut self.ops[id.index()];
        if op.state == State::Dropped {
            op.state = State::Free;
            self.free_ops.push(id);
            return;
        }
        op.state = State::Done;
        op.received = Received { time: now, ..received };
        if let Some(from) = op.blocked {
            let activity = op.activity();
            self.account.spend(Interval { rank: op.rank, from, until: now, activity });
        }
        self.done.push(id);
    }

    fn knows(&mut self, rank: u16, other: u16) -> bool {
        let ranks = self.ranks();
        if other < ranks {
            return true;
        }
        self.fail(ProgramError::UnknownRank { rank, other: other.into(), ranks });
        false
    }
}
