//! What programs run on: ranks with memory, the channels between them, and simulated time.
//!
//! A rank begins operations (a send, a receive, a wait) and is told when each is over; nothing here
//! knows how its program is written. Rank `r` is host `r` of every channel unless
//! [`Machine::placed`] says otherwise.

mod fall_through;
mod remote_read;

use std::collections::BTreeMap;

use weft_kernel::Queue;
use weft_units::{Bytes, Span, Time};

use super::account::{Account, Interval, Passage};
use super::error::ProgramError;
use super::matching::{Matching, Wanted};
use super::operation::{Doing, Op, OpId, Outgoing, Received, State};
use super::placement::Places;
use super::policy::{Kind, Policy};
use crate::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};

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
    /// Notices of messages that are still to come.
    expected: u64,
    /// How many ranks have come to the barrier of each channel.
    at_barrier: Vec<u16>,
}

#[derive(Debug, Default)]
struct Rank {
    matching: Matching,
    memory: BTreeMap<u64, u64>,
    /// Who waits for a word of the memory: address, the least value, the operation.
    watchers: Vec<(u64, u64, OpId)>,
}

/// A message that is under way, or that is there and that no receive has taken.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    from: u16,
    size: Bytes,
    cargo: Cargo,
    /// The operation that is over when the message has left.
    op: OpId,
    offered: Time,
    /// How often it will still be looked at.
    uses: u32,
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
    Barrier {
        op: OpId,
    },
}

/// More than this is not said of a program that is stuck.
const MOST_LINES: usize = 24;

impl<C: Carrier> Machine<C> {
    /// `ranks` at time zero on channels, each with its name. `picture` asks for every stretch of
    /// time and every message besides sums.
    pub fn new(
        ranks: u16,
        channels: Vec<(String, C)>,
        policy: Policy,
        picture: bool,
    ) -> Machine<C> {
        let at_barrier = vec![0; channels.len()];
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
            expected: 0,
            at_barrier,
        }
    }

    /// The same with each rank on the host that stands in its place, each on another one. At time
    /// zero only.
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

    /// A rank computes.
    pub fn compute(&mut self, rank: u16, span: Span) -> OpId {
        let op = self.begin(rank, Doing::Compute);
        let end = Time(self.now.0.saturating_add(span.0));
        if span == Span::ZERO {
            self.complete(op, Received::default());
        } else {
            self.timers.push(end, op);
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

    /// What stands at an address of a rank's own memory; zero where nothing was stored.
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
            self.ranks[usize::from(rank)].watchers.push((address, least, op));
        }
        op
    }

    /// A rank comes to the barrier that a channel itself keeps for all ranks: the one that `channel`
    /// names, or the one that takes the shortest messages. `None` where that channel keeps none.
    pub fn barrier(&mut self, rank: u16, channel: Option<usize>) -> Option<OpId> {
        let channel = channel.or_else(|| self.policy.channel(Bytes(0), Kind::Message, 0))?;
        let op = self.begin(rank, Doing::Barrier);
        let (cargo, size) = (Cargo::Barrier { op }, Bytes(0));
        let parcel = Parcel { from: rank, size, cargo, op, offered: self.now, uses: 1 };
        let place = self.insert(parcel);
        let (host, ranks, ticket) = (self.host(rank), self.ranks(), Ticket(place.into()));
        // A channel keeps a barrier of its first hosts.
        if self.places.are_below(ranks)
            && self.channels[channel].1.barrier(self.now, host, ranks, ticket)
        {
            self.come_to_barrier(channel);
            return Some(op);
        }
        self.use_up(place);
        self.ops[op.index()].state = State::Free;
        self.free_ops.push(op);
        None
    }

    /// What an operation brought, if it is over.
    pub fn outcome(&self, op: OpId) -> Option<Received> {
        let op = &self.ops[op.index()];
        (op.state == State::Done).then_some(op.received)
    }

    /// Nobody asks for an operation any more; its number is used again.
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

    /// When everybody has come, each will be told.
    fn come_to_barrier(&mut self, channel: usize) {
        let ranks = self.ranks();
        let come = &mut self.at_barrier[channel];
        *come += 1;
        if *come == ranks {
            *come = 0;
            self.expected += u64::from(ranks);
        }
    }

    /// When something happens next; [`Time::NEVER`] if nothing does.
    pub fn next_time(&self) -> Time {
        let timer = self.timers.next_time().unwrap_or(Time::NEVER);
        self.channels.iter().fold(timer, |next, (_, channel)| next.min(channel.next_time()))
    }

    /// Goes on to the next instant at which something happens. Returns `false` if nothing does that
    /// a rank could wait for: traffic beside the program alone wakes nobody. Timers of an instant end before anything happens on a channel in it, so that what programs
    /// hand over then is there when the channels look.
    pub fn step(&mut self) -> bool {
        let next = self.next_time();
        if next == Time::NEVER || (self.expected == 0 && self.timers.next_time().is_none()) {
            return false;
        }
        self.now = next;
        let mut timers = false;
        while let Some((_, op)) = self.timers.pop_until(next) {
            self.complete(op, Received::default());
            timers = true;
        }
        if timers {
            return true;
        }
        let mut notices = std::mem::take(&mut self.notices);
        for channel in 0..self.channels.len() {
            let carrier = &mut self.channels[channel].1;
            if carrier.next_time() <= next {
                carrier.advance(next, &mut notices);
                notices.drain(..).for_each(|notice| self.heed(notice, channel));
            }
        }
        self.notices = notices;
        true
    }

    /// How many steps all channels took.
    pub fn steps(&self) -> u64 {
        self.channels.iter().map(|(_, channel)| channel.steps()).sum()
    }

    /// How many messages were handed over to channels.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Where the time went.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Where the time went, to be added to.
    pub fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    /// What a program did wrong, if one did.
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

    /// Who waits for whom, of the operations that a rank is [blocked](Machine::block) by.
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

    /// Hands a message over to the channel that takes it. What a rank sends to itself is there at
    /// once.
    fn dispatch(&mut self, message: Outgoing, kind: Kind, cargo: Cargo, op: OpId) {
        let Outgoing { from, to, size, channel, nic, .. } = message;
        for target in to.hosts() {
            if !self.knows(from, target) {
                return;
            }
        }
        let own = to.hosts().any(|target| target == from);
        let others = match to {
            Destination::Host(_) => u32::from(!own),
            Destination::Hosts(hosts) => hosts.count_ones() - u32::from(own),
        };
        // A channel with one order of its own puts the initiator's copy into it.
        let in_order = own && others > 0 && self.keeps_one_order(&message, kind);
        let uses = others + u32::from(others > 0) + u32::from(own);
        let parcel = Parcel { from, size, cargo, op, offered: self.now, uses };
        let parcel = self.insert(parcel);
        if others > 0 {
            let Some(channel) = channel.or_else(|| self.policy.channel(size, kind, nic)) else {
                let channels = self.channels.iter().map(|(name, _)| name.clone()).collect();
                return self.fail(ProgramError::NoRoute { size: size.0, channels });
            };
            let to = match to {
                Destination::Hosts(hosts) if own && !in_order => {
                    Destination::Hosts(hosts & !(1 << from))
                }
                to => to,
            };
            let Some(to) = self.places.hosts_of(to) else {
                let problem = "several targets at once are on hosts below 64";
                return self.fail(ProgramError::Program(problem.to_owned()));
            };
            let (from, ticket) = (self.host(from), Ticket(parcel.into()));
            self.messages += u64::from(others);
            // One when it has left, and one for each target, the initiator among them or not.
            self.expected += 1 + to.hosts().count() as u64;
            self.channels[channel].1.offer(self.now, Message { from, to, size, ticket });
        } else if op != OpId::NONE {
            self.complete(op, Received::default());
        }
        if own && !in_order {
            self.deliver(from, parcel);
        }
    }

    /// Whether the channel that takes a message keeps one order of those for several ranks.
    pub fn is_ordered(&self, channel: Option<usize>, size: Bytes) -> bool {
        let channel = channel.or_else(|| self.policy.channel(size, Kind::Store, 0));
        channel.is_some_and(|channel| self.channels[channel].1.keeps_one_order())
    }

    fn keeps_one_order(&self, message: &Outgoing, kind: Kind) -> bool {
        let Outgoing { size, channel, nic, .. } = *message;
        let channel = channel.or_else(|| self.policy.channel(size, kind, nic));
        channel.is_some_and(|channel| self.channels[channel].1.keeps_one_order())
    }

    fn insert(&mut self, parcel: Parcel) -> u32 {
        match self.free_parcels.pop() {
            Some(place) => {
                self.parcels[place as usize] = parcel;
                place
            }
            None => {
                self.parcels.push(parcel);
                (self.parcels.len() - 1) as u32
            }
        }
    }

    fn heed(&mut self, notice: Notice, channel: usize) {
        let place = notice.ticket().0 as u32;
        let Parcel { mut from, op, size, offered, cargo, .. } = self.parcels[place as usize];
        if let Cargo::Fetched { target, .. } = cargo {
            from = target;
        }
        self.expected -= 1;
        match notice {
            Notice::Sent { .. } => {
                if op != OpId::NONE {
                    self.complete(op, Received::default());
                }
                self.use_up(place);
            }
            Notice::Delivered { time, to: host, .. } => {
                let to = self.places.rank_on(host);
                self.account.pass(Passage { from, to, offered, delivered: time, size: size.0 });
                self.deliver(to, place);
            }
            Notice::Lost { time, to: host, .. } => {
                let to = self.places.rank_on(host);
                let name = &self.channels[channel].0;
                self.lost.push(format!(
                    "channel {name} lost a message of {size} from rank {from} to rank {to} at {time}"
                ));
                self.use_up(place);
            }
            Notice::FallsThrough { to, .. } => self.fall_through(place, to, channel),
        }
    }

    fn deliver(&mut self, to: u16, place: u32) {
        let Parcel { from, cargo, .. } = self.parcels[place as usize];
        match cargo {
            Cargo::Program { tag, .. } => {
                let matching = &mut self.ranks[usize::from(to)].matching;
                if let Some(op) = matching.arrive(from, tag, place) {
                    self.take(OpId::new(op as usize), place);
                }
            }
            Cargo::Store { address, value } => {
                self.write(to, address, value);
                self.use_up(place);
            }
            Cargo::Ask { address, size, op } => {
                let value = self.load(to, address);
                self.use_up(place);
                let answer = Outgoing {
                    from: to,
                    to: Destination::Host(from),
                    tag: 0,
                    size,
                    value,
                    channel: None,
                    nic: 0,
                };
                self.dispatch(answer, Kind::Read, Cargo::Answer { value, op }, OpId::NONE);
            }
            Cargo::Fetch { .. } | Cargo::Fetched { .. } => self.fetched(to, place),
            Cargo::Barrier { op } => {
                self.complete(op, Received::default());
                self.use_up(place);
            }
            Cargo::Answer { value, op } => {
                let Parcel { from, size, .. } = self.parcels[place as usize];
                self.complete(op, Received { from, size, value, ..Received::default() });
                self.use_up(place);
            }
        }
    }

    fn write(&mut self, rank: u16, address: u64, value: u64) {
        let own = &mut self.ranks[usize::from(rank)];
        own.memory.insert(address, value);
        let mut watchers = std::mem::take(&mut own.watchers);
        watchers.retain(|&(watched, least, op)| {
            let met = watched == address && value >= least;
            if met {
                self.complete(op, Received { value, ..Received::default() });
            }
            !met
        });
        self.ranks[usize::from(rank)].watchers = watchers;
    }

    /// A receive takes a message that is there.
    fn take(&mut self, op: OpId, place: u32) {
        let Parcel { from, size, cargo, .. } = self.parcels[place as usize];
        if let Cargo::Program { tag, value } = cargo {
            self.complete(op, Received { time: self.now, from, tag, size, value });
        }
        self.use_up(place);
    }

    fn use_up(&mut self, place: u32) {
        let parcel = &mut self.parcels[place as usize];
        parcel.uses -= 1;
        if parcel.uses == 0 {
            self.free_parcels.push(place);
        }
    }
}
