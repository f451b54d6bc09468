//! What the ranks on one host share in addition to its channels: a memory, through which they send
//! to each other, and processors.

use weft_fabric::host::{Copied, Memory, MemorySettings, Processors};
use weft_kernel::Queue;
use weft_units::{Bytes, PositiveCount, Span, Time};

use super::{CLOCK_END, Machine, Parcel};
use crate::drive::carrier::{Carrier, Notice, Ticket};
use crate::program::account::{Activity, Interval, Passage};
use crate::program::error::ProgramError;
use crate::program::operation::{Doing, Op, OpId, Received};

/// Memory and processors of all hosts.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    memory: Option<Memory>,
    /// The copies in progress.
    copies: Queue<Notice>,
    /// How many messages were copied.
    copied: u64,
    /// How many messages of a rank to itself there were.
    to_self: u64,
    /// The processors of hosts, and how many each has, if that is limited.
    processors: Option<(PositiveCount, Processors<OpId>)>,
    /// The computations that waited for a processor and have begun in this instant.
    begun: Vec<OpId>,
}

impl<C: Carrier> Machine<C> {
    /// Returns the machine on hosts with this memory and this many processors each; without a
    /// number, every computation has a processor of its own. At time zero only.
    #[must_use]
    pub fn on_hosts(
        mut self,
        memory: Option<MemorySettings>,
        processors: Option<PositiveCount>,
    ) -> Machine<C> {
        self.hosts.memory = memory.map(Memory::new);
        self.hosts.processors = processors.map(|count| (count, Processors::new(count)));
        self
    }

    /// How many computations a host executes at the same time, if that is limited.
    pub fn processors(&self) -> Option<PositiveCount> {
        self.hosts.processors.as_ref().map(|(count, _)| *count)
    }

    /// How many messages went through the memory of a host, if several ranks are on one or a
    /// message of a rank to itself was copied.
    pub fn copied(&self) -> Option<u64> {
        let copied = self.hosts.copied;
        (self.places.are_shared() || copied > 0).then_some(copied)
    }

    /// How many messages ranks sent to themselves.
    pub fn to_self(&self) -> u64 {
        self.hosts.to_self
    }

    /// A message of a rank to itself is copied like one to another rank on the host. Without a cost
    /// of copies it arrives immediately.
    pub(super) fn send_to_self(&mut self, parcel: Parcel) {
        let Parcel { from, size, op, offered, .. } = parcel;
        self.hosts.to_self += 1;
        if self.hosts.memory.is_some() {
            let place = self.insert(Parcel { uses: 2, leaving: 1, ..parcel });
            return self.copy(from, place, size, 1);
        }
        let place = self.insert(Parcel { uses: 1, leaving: 0, ..parcel });
        self.messages += 1;
        self.account.pass(Passage { from, to: from, offered, delivered: offered, size: size.0 });
        self.complete(op, Received::default());
        self.deliver(from, place);
    }

    /// Whether a computation that begins now would go on past the end of the clock.
    pub fn outlasts_clock(&self, span: Span) -> bool {
        span > CLOCK_END.since(self.now)
    }

    /// How many hosts have ranks.
    pub fn hosts_in_use(&self) -> u16 {
        self.places.hosts_in_use(self.ranks())
    }

    /// A rank computes, when its host has a processor for it.
    pub fn compute(&mut self, rank: u16, span: Span) -> OpId {
        let op = self.begin(rank, Doing::Compute);
        if span == Span::ZERO {
            self.complete(op, Received::default());
            return op;
        }
        if self.outlasts_clock(span) {
            self.fail(ProgramError::TooLong { rank, line: 0, time: self.now, span });
            return op;
        }
        let host = self.host(rank);
        let own = self.hosts.processors.as_mut();
        if own.is_none_or(|(_, processors)| processors.begin(host, op, span)) {
            self.timers.push(self.now + span, op);
        }
        op
    }

    /// A rank waits for a span, which takes no processor.
    pub fn sleep(&mut self, rank: u16, span: Span) -> OpId {
        let op = self.begin(rank, Doing::Sleep);
        if self.outlasts_clock(span) {
            self.fail(ProgramError::TooLong { rank, line: 0, time: self.now, span });
            return op;
        }
        self.timers.push(self.now + span, op);
        op
    }

    /// Whether a computation waits for a processor.
    pub fn is_queued(&self, op: OpId) -> bool {
        let Some((_, processors)) = &self.hosts.processors else { return false };
        processors.waits(self.host(self.ops[op.index()].rank), op)
    }

    /// The computations that waited for a processor and have begun in the present instant.
    pub fn begun(&self) -> &[OpId] {
        &self.hosts.begun
    }

    /// Ends the computations and waits that are due, and begins the computations that waited for
    /// a processor. Returns whether there were any.
    pub(super) fn end_computations(&mut self) -> bool {
        self.hosts.begun.clear();
        let mut any = false;
        while let Some((_, op)) = self.timers.pop_until(self.now) {
            any = true;
            let Op { rank, doing, .. } = self.ops[op.index()];
            self.complete(op, Received::default());
            let host = self.host(rank);
            let Some((_, processors)) = &mut self.hosts.processors else { continue };
            if matches!(doing, Doing::Sleep) {
                continue;
            }
            if let Some((next, span)) = processors.end(host) {
                self.timers.push(self.now + span, next);
                self.leave_queue(next);
            }
        }
        any
    }

    /// A computation has its processor at last.
    fn leave_queue(&mut self, next: OpId) {
        self.hosts.begun.push(next);
        let until = self.now;
        let op = &mut self.ops[next.index()];
        if let Some(since) = &mut op.blocked {
            let from = std::mem::replace(since, until);
            let activity = Activity::Queued;
            self.account.spend(Interval { rank: op.rank, from, until, activity });
        }
    }

    /// When the next notice of a copy is due.
    pub(super) fn next_copy(&self) -> Time {
        match self.hosts.memory {
            Some(_) => self.hosts.copies.next_time().unwrap_or(Time::NEVER),
            None => Time::NEVER,
        }
    }

    /// A rank copies a message in the memory of its host.
    pub(super) fn copy(&mut self, initiator: u16, place: u32, size: Bytes, messages: u32) {
        let host = self.host(initiator);
        let Some(memory) = &mut self.hosts.memory else {
            return self.fail(ProgramError::NoMemory { host });
        };
        let Copied { made, seen } = memory.copy(self.now, initiator, size);
        let ticket = Ticket(place.into());
        self.hosts.copied += u64::from(messages);
        self.messages += u64::from(messages);
        self.expected += 2;
        self.hosts.copies.push(made, Notice::Sent { time: made, ticket });
        self.hosts.copies.push(seen, Notice::Delivered { time: seen, ticket, to: host });
    }

    /// Heeds what has become of copies.
    pub(super) fn heed_copies(&mut self) {
        if self.hosts.memory.is_none() {
            return;
        }
        while let Some((_, notice)) = self.hosts.copies.pop_until(self.now) {
            // No channel: a copy is neither lost nor left to an ordinary stack.
            self.heed(notice, usize::MAX);
        }
    }
}
