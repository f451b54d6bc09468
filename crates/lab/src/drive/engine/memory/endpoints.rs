//! The endpoints of a connection: descriptors are posted and returned, and faults break the
//! connection.

use std::collections::VecDeque;

use weft_fabric::link::Errors;
use weft_fabric::measure::Drop;
use weft_fabric::workload::{MessageStream, StreamOperation};
use weft_protocol::vi::{
    Arrival, Completion, Descriptor, Endpoint, EndpointState, Fault, Operation, Outcome,
    ProtectionTag, QueueDepths, Region, RemoteAddress, Reply, Transfer, WorkQueueKind,
};
use weft_units::{Bytes, Limit, PositiveCount, Span, Time};

use super::quench::Signal;
use super::{Memories, Message, acts};
use crate::drive::carrier::MessageId;
use crate::drive::engine::{Delivery, Engine};

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub(super) struct EndpointPair {
    pub initiator: Endpoint<MessageId>,
    pub target: Endpoint<()>,
    pub operation: Operation,
    /// The messages that the adapter has fetched and the target has not seen.
    under_way: VecDeque<Transfer>,
    /// Descriptors that were returned: completed, and failed.
    pub completed: u64,
    pub failed: u64,
    /// Messages that reached the target and were not received.
    pub dropped: u64,
    /// Why the last of them was not.
    pub fault: Option<Fault>,
}

/// The errors of the messages of each host, if there are any.
#[derive(Debug, Default)]
pub(super) struct Faults(pub Vec<Errors>);

/// What the adapter does with a complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// The message goes over the bus, with a descriptor.
    WithDescriptor,
    /// It writes the message to the address that the message names.
    Write,
    /// It discards the message.
    Not,
}

impl Faults {
    /// Whether a message of this many bytes from a host over this many switches arrives damaged.
    /// Cells are forwarded whatever their content; AAL5 has one check code for a message, after it.
    pub fn damages(&mut self, host: u32, hops: u16, wire: Bytes) -> bool {
        let errors = self.0.get_mut(host as usize);
        errors.is_some_and(|own| own.damages_next(None, Bytes(wire.0 * (u64::from(hops) + 1))))
    }
}

impl EndpointPair {
    /// Whether the connection is intact as far as the initiator knows.
    pub fn is_open(&self) -> bool {
        matches!(self.initiator.state(), EndpointState::Connected(_))
    }

    /// A program posts a descriptor; returns `false` if none is free, or there is no connection.
    pub fn post(&mut self, cookie: MessageId, size: Bytes) -> bool {
        let descriptor = Descriptor { cookie, operation: self.operation, length: size.0 };
        self.initiator.post_send(descriptor).is_ok()
    }

    /// The adapter reads the oldest descriptor whose doorbell has rung.
    pub fn fetch(&mut self) {
        self.under_way.extend(self.initiator.fetch());
    }

    /// A program posts a receive descriptor, for a message of any size.
    pub fn post_receive(&mut self) {
        // It is refused if the connection is broken, and the program does not use it.
        let _ = self.target.post_receive((), u64::MAX);
    }

    /// What went wrong, in words; empty if nothing did.
    pub fn describe_fault(&self) -> String {
        match (self.fault, self.target.state()) {
            (None, _) => String::new(),
            (Some(fault), EndpointState::Broken(_)) => format!("broken: {fault}"),
            (Some(fault), _) => format!("dropped: {fault}"),
        }
    }

    /// Counts the descriptors that complete at the initiator.
    pub fn come_back(&mut self, completions: &[Completion<MessageId>]) {
        let sends = completions.iter().filter(|own| own.queue == WorkQueueKind::Send);
        for completion in sends {
            match completion.result {
                Ok(()) => self.completed += 1,
                Err(_) => self.failed += 1,
            }
        }
    }
}

/// Descriptors that a queue of an endpoint has.
pub(super) fn depth(limit: Limit) -> u16 {
    let count = limit.count().map_or(u32::MAX, PositiveCount::get);
    u16::try_from(count).unwrap_or(u16::MAX)
}

impl Memories {
    /// The endpoints of a connection, connected; receive descriptors are posted before.
    pub(super) fn pair(
        &mut self,
        number: u32,
        to: u32,
        stream: Option<&MessageStream>,
    ) -> EndpointPair {
        let (tag, memory_tag) = stream.map_or((0, 0), |own| (own.tag, own.memory_tag));
        let tag = ProtectionTag(tag);
        let mut region = |immediate| {
            let (tag, length) = (ProtectionTag(memory_tag), u64::MAX);
            let region = Region { tag, address: 0, length, is_writable: true };
            let handle = self.registries[to as usize].register(region);
            Operation::RdmaWrite { to: RemoteAddress { handle, address: 0 }, immediate }
        };
        let operation = match stream.map(|own| own.operation).unwrap_or_default() {
            StreamOperation::Send => Operation::Send,
            StreamOperation::RdmaWrite => region(false),
            StreamOperation::RdmaWriteImmediate => region(true),
        };
        let receives = self.endpoints.receive_descriptors;
        let level = self.endpoints.reliability;
        let mut pair = EndpointPair {
            initiator: Endpoint::new(
                level,
                tag,
                QueueDepths { sends: self.descriptors, receives: 0 },
            ),
            target: Endpoint::new(level, tag, QueueDepths { sends: 0, receives: depth(receives) }),
            operation,
            under_way: VecDeque::new(),
            completed: 0,
            failed: 0,
            dropped: 0,
            fault: None,
        };
        if receives != Limit::Unlimited {
            (0..depth(receives)).for_each(|_| pair.post_receive());
        }
        // Both are new, and so without a connection.
        let connected = pair.initiator.connect(number).and(pair.target.connect(number));
        debug_assert!(connected.is_ok());
        pair
    }
}

impl Engine {
    /// The last packet of a message starts, and takes this long.
    pub(super) fn transmitted(&mut self, now: Time, connection: u32, span: Span) {
        let pair = &mut self.memories.connections[connection as usize].endpoints;
        if let Some(completion) = pair.initiator.transmitted() {
            pair.come_back(&[completion]);
            self.hand_back(now, connection, completion.cookie, span);
        }
    }

    /// The source of a connection learns that a message is in the memory of its target.
    pub(super) fn hear_accept(&mut self, now: Time, connection: u32) {
        let pair = &mut self.memories.connections[connection as usize].endpoints;
        if let Some(completion) = pair.initiator.accepted() {
            pair.come_back(&[completion]);
            self.hand_back(now, connection, completion.cookie, Span::ZERO);
        }
    }

    /// A message is whole at the adapter of its target.
    pub(super) fn receive(&mut self, now: Time, connection: u32, is_damaged: bool) -> Taking {
        let own = &mut self.memories.connections[connection as usize];
        let (pair, hops) = (&mut own.endpoints, own.hops);
        let Some(transfer) = pair.under_way.pop_front() else { return Taking::Not };
        if self.memories.endpoints.receive_descriptors == Limit::Unlimited
            && pair.target.outstanding().receives == 0
        {
            pair.post_receive();
        }
        let arrival = Arrival { transfer, is_intact: !is_damaged };
        let reception = pair.target.arrive(arrival, &self.memories.registries[own.to as usize]);
        if let Reply::Break(_) = reception.reply {
            self.indicate(now, connection, hops, Signal::Break);
        }
        match reception.outcome {
            Outcome::Received(_) => Taking::WithDescriptor,
            Outcome::Written => Taking::Write,
            Outcome::Ignored => Taking::Not,
            Outcome::Dropped(fault) | Outcome::Broken(fault, _) => {
                self.note_fault(now, connection, fault);
                Taking::Not
            }
        }
    }

    fn note_fault(&mut self, now: Time, connection: u32, fault: Fault) {
        let pair = &mut self.memories.connections[connection as usize].endpoints;
        pair.dropped += 1;
        pair.fault = Some(fault);
        let rule = match fault {
            Fault::Damaged => Drop::Corrupted,
            Fault::Lost { .. } => Drop::OutOfOrder,
            Fault::NoDescriptor | Fault::TooLong { .. } | Fault::CompletionQueueFull => {
                Drop::NoReceiveBuffer
            }
            _ => Drop::Protected,
        };
        self.observations.drop(rule, now);
    }

    /// The completion queue of the target was full: that breaks the connection, whatever it promises.
    pub(super) fn overflow(&mut self, now: Time, connection: u32) {
        let own = &mut self.memories.connections[connection as usize];
        let hops = own.hops;
        let fault = Fault::CompletionQueueFull;
        own.endpoints.target.break_off(fault);
        self.note_fault(now, connection, fault);
        self.indicate(now, connection, hops, Signal::Break);
    }

    /// The source of a connection learns that it is broken: all descriptors complete in error. What
    /// has not begun to leave never does.
    pub(super) fn break_off(&mut self, now: Time, connection: u32) {
        let own = &mut self.memories.connections[connection as usize];
        let fault = own.endpoints.fault.unwrap_or(Fault::Disconnected);
        let completions = own.endpoints.initiator.break_off(fault);
        own.endpoints.come_back(&completions);
        let mut waiting = std::mem::take(&mut own.ready);
        let posted = std::mem::take(&mut own.posted);
        let has_begun = |id: &u32| self.memories.messages[*id as usize].start != Time::NEVER;
        let begun = waiting.front().copied().filter(has_begun);
        if begun.is_some() {
            waiting.pop_front();
        }
        self.memories.connections[connection as usize].ready.extend(begun);
        for message in waiting.into_iter().chain(posted) {
            self.give_up_message(now, message);
        }
    }

    /// A message that is in no queue any more is never delivered.
    pub(super) fn give_up_message(&mut self, now: Time, id: u32) {
        let Message { start, message, connection, .. } = self.memories.messages[id as usize];
        self.memories.remove(id);
        let from = self.memories.connections[connection as usize].from;
        self.observations.abandon_from(from as usize, now);
        let has_started = start != Time::NEVER;
        self.memories.unsent -= u64::from(!has_started);
        if message != MessageId::NONE
            && let Some(feed) = self.supply.messages()
        {
            if !has_started && feed.messages.start(message) {
                feed.messages.sent(now, message);
            }
            feed.messages.give_up(now, message);
        }
    }

    /// The program of a host takes the next completion, if it is idle.
    pub(super) fn work(&mut self, now: Time, host: u32, watch: &mut impl FnMut(Delivery)) {
        let Some(((_, message), busy)) = self.memories.hosts[host as usize].begin() else { return };
        if busy == Span::ZERO {
            self.worked(host);
        } else {
            self.act_at(now + busy, host, acts::PROGRAM, 0);
        }
        self.deliver_message(now, message, watch);
    }

    /// The program has processed a message, and posts its descriptor again.
    pub(super) fn worked(&mut self, host: u32) {
        let Some((connection, _)) = self.memories.hosts[host as usize].end() else { return };
        if self.memories.endpoints.receive_descriptors != Limit::Unlimited {
            self.memories.connections[connection as usize].endpoints.post_receive();
        }
    }
}
