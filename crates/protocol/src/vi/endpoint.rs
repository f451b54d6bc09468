//! One endpoint: two work queues, a connection, and what faults do to it.

use std::collections::VecDeque;

use super::completion::{Completion, WorkQueueKind};
use super::memory::{ProtectionTag, Registry};
use super::{Fault, Operation, Reliability};
use crate::ring::Doorbell;

/// The request of a program to its adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor<T> {
    /// The program's name for it.
    pub cookie: T,
    /// In the send queue, what to do; in the receive queue it is [`Operation::Send`].
    pub operation: Operation,
    /// Bytes to send, or room to receive.
    pub length: u64,
}

/// An outgoing message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Its number on the connection, from 0.
    pub sequence: u64,
    /// Its operation.
    pub operation: Operation,
    /// Its bytes.
    pub length: u64,
}

/// An incoming message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The message that was sent.
    pub transfer: Transfer,
    /// Whether its check code is right.
    pub is_intact: bool,
}

/// Descriptors that have been posted and have not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outstanding {
    /// Of the send queue.
    pub sends: usize,
    /// Of the receive queue.
    pub receives: usize,
}

/// Whether an endpoint has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointState {
    /// No connection. Receive descriptors may be posted already.
    Idle,
    /// Connected to the endpoint with this number.
    Connected(u32),
    /// Disconnected by a fault.
    Broken(Fault),
}

/// What the initiator learns about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// Nothing.
    None,
    /// That it is in the memory of the target.
    Accept,
    /// That the connection is broken.
    Break(Fault),
}

/// The outcome of a message at its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// It filled a receive descriptor.
    Received(Completion<T>),
    /// It was written to the address that it names, and the program is not notified.
    Written,
    /// It is lost, and the connection continues.
    Dropped(Fault),
    /// It broke the connection; these descriptors complete in error.
    Broken(Fault, Vec<Completion<T>>),
    /// There is no connection that it belongs to.
    Ignored,
}

/// The effects of a message at its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reception<T> {
    /// There.
    pub outcome: Outcome<T>,
    /// And what goes back.
    pub reply: Reply,
}

/// Why a descriptor is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// All descriptors of the queue are in use.
    #[error("all {depth} descriptors of the queue are in use")]
    Full {
        /// How many there are.
        depth: u16,
    },
    /// Nothing can be sent without a connection.
    #[error("the endpoint has no connection")]
    NotConnected,
    /// The connection was broken.
    #[error("the connection is broken: {0}")]
    Broken(Fault),
}

/// Why a connection is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An endpoint has one connection.
    #[error("the endpoint is connected to endpoint {peer}")]
    Connected {
        /// The other end.
        peer: u32,
    },
    /// A broken connection is ended first.
    #[error("the connection is broken and has not been ended: {0}")]
    Broken(Fault),
}

/// A pair of work queues with a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint<T> {
    reliability: Reliability,
    tag: ProtectionTag,
    state: EndpointState,
    sends: WorkQueue<T>,
    receives: WorkQueue<T>,
    /// The number of the next message to send, and of the next one to receive.
    next: u64,
    expected: u64,
    /// How many of the current descriptors have left and wait for a reply of the target.
    unanswered: usize,
}

/// Descriptors in the order in which they were posted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WorkQueue<T> {
    /// Posted, and not seen by the adapter.
    doorbell: Doorbell<Descriptor<T>>,
    /// At the adapter.
    at_hand: VecDeque<Descriptor<T>>,
    depth: u16,
}

impl<T: Copy> WorkQueue<T> {
    fn new(depth: u16) -> WorkQueue<T> {
        WorkQueue { doorbell: Doorbell::new(depth), at_hand: VecDeque::new(), depth }
    }

    fn len(&self) -> usize {
        self.doorbell.len() + self.at_hand.len()
    }

    fn post(&mut self, descriptor: Descriptor<T>) -> Result<(), PostError> {
        let full = PostError::Full { depth: self.depth };
        if self.len() >= usize::from(self.depth) {
            return Err(full);
        }
        self.doorbell.write(descriptor).map_err(|_| full)
    }

    /// The adapter reads the oldest descriptor whose doorbell has rung.
    fn fetch(&mut self) -> Option<Descriptor<T>> {
        let descriptor = self.doorbell.read()?;
        self.at_hand.push_back(descriptor);
        Some(descriptor)
    }

    /// Completes all descriptors in error, the oldest with the fault `first` if there is one.
    fn flush(
        &mut self,
        queue: WorkQueueKind,
        first: Option<Fault>,
    ) -> impl Iterator<Item = Completion<T>> {
        while self.fetch().is_some() {}
        let faults = first.into_iter().chain(std::iter::repeat(Fault::Disconnected));
        let all = std::mem::take(&mut self.at_hand).into_iter().zip(faults);
        all.map(move |(own, fault)| Completion { cookie: own.cookie, queue, result: Err(fault) })
    }
}

/// How many descriptors each queue of an endpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepths {
    /// Descriptors of the send queue.
    pub sends: u16,
    /// Descriptors of the receive queue.
    pub receives: u16,
}

impl<T: Copy> Endpoint<T> {
    /// An endpoint without a connection, with queues of these depths.
    pub fn new(reliability: Reliability, tag: ProtectionTag, depths: QueueDepths) -> Endpoint<T> {
        Endpoint {
            reliability,
            tag,
            state: EndpointState::Idle,
            sends: WorkQueue::new(depths.sends),
            receives: WorkQueue::new(depths.receives),
            next: 0,
            expected: 0,
            unanswered: 0,
        }
    }

    /// Whether it has a connection.
    pub fn state(&self) -> EndpointState {
        self.state
    }

    /// The reliability of its connection.
    pub fn reliability(&self) -> Reliability {
        self.reliability
    }

    /// Descriptors that have been posted and have not completed.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { sends: self.sends.len(), receives: self.receives.len() }
    }

    /// Whether the send queue takes a descriptor.
    pub fn has_room(&self) -> bool {
        self.sends.len() < usize::from(self.sends.depth)
    }

    /// Makes the connection to the endpoint `peer`.
    ///
    /// # Errors
    /// [`ConnectError`] if there is one, or one that broke.
    pub fn connect(&mut self, peer: u32) -> Result<(), ConnectError> {
        match self.state {
            EndpointState::Idle => {
                self.state = EndpointState::Connected(peer);
                Ok(())
            }
            EndpointState::Connected(peer) => Err(ConnectError::Connected { peer }),
            EndpointState::Broken(fault) => Err(ConnectError::Broken(fault)),
        }
    }

    /// Ends the connection, broken or not: all descriptors complete in error, and the endpoint is
    /// as new.
    pub fn disconnect(&mut self) -> Vec<Completion<T>> {
        let completions = self.flush(None);
        self.state = EndpointState::Idle;
        (self.next, self.expected) = (0, 0);
        completions
    }

    /// A program posts a descriptor to the send queue and rings its doorbell.
    ///
    /// # Errors
    /// [`PostError`]; the descriptor was not taken then.
    pub fn post_send(&mut self, descriptor: Descriptor<T>) -> Result<(), PostError> {
        match self.state {
            EndpointState::Idle => Err(PostError::NotConnected),
            EndpointState::Connected(_) => self.sends.post(descriptor),
            EndpointState::Broken(fault) => Err(PostError::Broken(fault)),
        }
    }

    /// A program posts room for a message. It may do so before there is a connection.
    ///
    /// # Errors
    /// [`PostError`]; the descriptor was not taken then.
    pub fn post_receive(&mut self, cookie: T, room: u64) -> Result<(), PostError> {
        if let EndpointState::Broken(fault) = self.state {
            return Err(PostError::Broken(fault));
        }
        self.receives.post(Descriptor { cookie, operation: Operation::Send, length: room })
    }

    /// A program takes back the oldest receive descriptor for which `is_it` holds; its place in the queue, counted
    /// from the oldest, and its cookie. The architecture leaves it out, programs of libfabric ask for it (`fi_cancel`).
    pub fn withdraw_receive(&mut self, is_it: impl Fn(&T) -> bool) -> Option<(usize, T)> {
        while self.receives.fetch().is_some() {}
        let at_hand = &mut self.receives.at_hand;
        let place = at_hand.iter().position(|it| is_it(&it.cookie))?;
        at_hand.remove(place).map(|it| (place, it.cookie))
    }

    /// The adapter reads the oldest descriptor whose doorbell has rung: the message to be sent.
    pub fn fetch(&mut self) -> Option<Transfer> {
        let Descriptor { operation, length, .. } = self.sends.fetch()?;
        let sequence = self.next;
        self.next += 1;
        Some(Transfer { sequence, operation, length })
    }

    /// The last byte of the oldest message that was fetched has left. Returns its completion, unless
    /// that needs a reply of the target first.
    pub fn transmitted(&mut self) -> Option<Completion<T>> {
        if self.reliability == Reliability::ReliableReception {
            self.unanswered = (self.unanswered + 1).min(self.sends.at_hand.len());
            return None;
        }
        self.complete_send()
    }

    /// The target has put the oldest message that left into its memory. Returns its completion;
    /// none if nothing is waited for.
    pub fn accepted(&mut self) -> Option<Completion<T>> {
        self.unanswered = self.unanswered.checked_sub(1)?;
        self.complete_send()
    }

    fn complete_send(&mut self) -> Option<Completion<T>> {
        let Descriptor { cookie, .. } = self.sends.at_hand.pop_front()?;
        Some(Completion { cookie, queue: WorkQueueKind::Send, result: Ok(()) })
    }

    /// The target reports, or the adapter detects, that the connection is broken. All descriptors
    /// complete in error: the oldest unacknowledged send with `fault`, the others with
    /// [`Fault::Disconnected`]. Later reports are ignored.
    pub fn break_off(&mut self, fault: Fault) -> Vec<Completion<T>> {
        if !matches!(self.state, EndpointState::Connected(_)) {
            return Vec::new();
        }
        self.state = EndpointState::Broken(fault);
        let first = (self.unanswered > 0).then_some(fault);
        self.flush(first)
    }

    fn flush(&mut self, first: Option<Fault>) -> Vec<Completion<T>> {
        self.unanswered = 0;
        let sends = self.sends.flush(WorkQueueKind::Send, first);
        sends.chain(self.receives.flush(WorkQueueKind::Receive, None)).collect()
    }

    /// A message is whole at the adapter of the target, whose registered memory is `memory`.
    pub fn arrive(&mut self, arrival: Arrival, memory: &Registry) -> Reception<T> {
        let ignored = Reception { outcome: Outcome::Ignored, reply: Reply::None };
        if !matches!(self.state, EndpointState::Connected(_)) {
            return ignored;
        }
        // A damaged message cannot be identified, so its number is ignored.
        if arrival.is_intact && arrival.transfer.sequence < self.expected {
            return ignored;
        }
        let unreliable = self.reliability == Reliability::UnreliableDelivery;
        let checked = self.check(arrival, memory);
        // A hostile initiator may write any number.
        let arrived = match arrival.is_intact {
            true => arrival.transfer.sequence,
            false => self.expected,
        };
        self.expected = arrived.saturating_add(1);
        match checked {
            Ok(()) => self.receive(arrival.transfer),
            Err(fault) if unreliable => {
                Reception { outcome: Outcome::Dropped(fault), reply: Reply::None }
            }
            Err(fault) => {
                let completions = self.break_off(fault);
                let outcome = Outcome::Broken(fault, completions);
                Reception { outcome, reply: Reply::Break(fault) }
            }
        }
    }

    fn check(&mut self, arrival: Arrival, memory: &Registry) -> Result<(), Fault> {
        let Arrival { transfer: Transfer { sequence: found, operation, length }, .. } = arrival;
        if !arrival.is_intact {
            return Err(Fault::Damaged);
        }
        let expected = self.expected;
        if found != expected && self.reliability != Reliability::UnreliableDelivery {
            return Err(Fault::Lost { expected, found });
        }
        if let Operation::RdmaWrite { to, .. } = operation {
            memory.check_write(self.tag, to, length)?;
        }
        if operation.takes_descriptor() {
            while self.receives.fetch().is_some() {}
            let oldest = self.receives.at_hand.front().ok_or(Fault::NoDescriptor)?;
            if operation == Operation::Send && oldest.length < length {
                return Err(Fault::TooLong { length, room: oldest.length });
            }
        }
        Ok(())
    }

    fn receive(&mut self, transfer: Transfer) -> Reception<T> {
        let reply = match self.reliability {
            Reliability::ReliableReception => Reply::Accept,
            _ => Reply::None,
        };
        let taken = match transfer.operation.takes_descriptor() {
            true => self.receives.at_hand.pop_front(),
            false => None,
        };
        let queue = WorkQueueKind::Receive;
        let outcome = taken.map_or(Outcome::Written, |Descriptor { cookie, .. }| {
            Outcome::Received(Completion { cookie, queue, result: Ok(()) })
        });
        Reception { outcome, reply }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{MemoryHandle, Region, RemoteAddress};
    use super::*;

    const TAG: ProtectionTag = ProtectionTag(3);

    fn pair(reliability: Reliability) -> (Endpoint<char>, Endpoint<char>) {
        let end = || Endpoint::new(reliability, TAG, QueueDepths { sends: 2, receives: 2 });
        let (mut from, mut to) = (end(), end());
        assert_eq!((from.connect(1), to.connect(0)), (Ok(()), Ok(())));
        (from, to)
    }

    fn send(cookie: char, length: u64) -> Descriptor<char> {
        Descriptor { cookie, operation: Operation::Send, length }
    }

    /// Posts, fetches and submits a message; what is complete at the sender before it arrives.
    fn pass(
        from: &mut Endpoint<char>,
        to: &mut Endpoint<char>,
        descriptor: Descriptor<char>,
        memory: &Registry,
    ) -> (Option<Completion<char>>, Reception<char>) {
        assert_eq!(from.post_send(descriptor), Ok(()));
        let transfer = from.fetch().expect("what was posted");
        let completion = from.transmitted();
        (completion, to.arrive(Arrival { transfer, is_intact: true }, memory))
    }

    fn done(cookie: char, queue: WorkQueueKind) -> Completion<char> {
        Completion { cookie, queue, result: Ok(()) }
    }

    #[test]
    fn a_send_is_complete_when_the_level_says() {
        use Reliability::{ReliableDelivery, ReliableReception, UnreliableDelivery};
        let memory = Registry::new();
        for (level, leaves) in
            [(UnreliableDelivery, true), (ReliableDelivery, true), (ReliableReception, false)]
        {
            let (mut from, mut to) = pair(level);
            assert_eq!(to.post_receive('r', 8), Ok(()));
            let (completion, reception) = pass(&mut from, &mut to, send('s', 8), &memory);
            let sent = done('s', WorkQueueKind::Send);
            assert_eq!(completion, leaves.then_some(sent), "{level:?}");
            let received = Outcome::Received(done('r', WorkQueueKind::Receive));
            let reply = if leaves { Reply::None } else { Reply::Accept };
            assert_eq!(reception, Reception { outcome: received, reply }, "{level:?}");
            assert_eq!(from.accepted(), (!leaves).then_some(sent), "{level:?}");
            let none = Outstanding { sends: 0, receives: 0 };
            assert_eq!([from.outstanding(), to.outstanding()], [none; 2]);
        }
    }

    /// VI Architecture 1.0: without a posted descriptor an unreliable message is dropped, and a
    /// reliable connection is broken.
    #[test]
    fn without_a_receive_descriptor_the_level_decides() {
        let memory = Registry::new();
        let (mut from, mut to) = pair(Reliability::UnreliableDelivery);
        let (completion, reception) = pass(&mut from, &mut to, send('s', 8), &memory);
        assert_eq!(completion, Some(done('s', WorkQueueKind::Send)));
        assert_eq!(reception.outcome, Outcome::Dropped(Fault::NoDescriptor));
        assert_eq!((reception.reply, to.state()), (Reply::None, EndpointState::Connected(0)));
        // The next one finds a descriptor.
        assert_eq!(to.post_receive('r', 8), Ok(()));
        let (_, reception) = pass(&mut from, &mut to, send('t', 8), &memory);
        let received = Outcome::Received(done('r', WorkQueueKind::Receive));
        assert_eq!(reception.outcome, received);

        let (mut from, mut to) = pair(Reliability::ReliableReception);
        let (_, reception) = pass(&mut from, &mut to, send('s', 8), &memory);
        let fault = Fault::NoDescriptor;
        assert_eq!(reception.reply, Reply::Break(fault));
        assert_eq!(from.post_send(send('t', 8)), Ok(()));
        let failed =
            |cookie, fault| Completion { cookie, queue: WorkQueueKind::Send, result: Err(fault) };
        let back = from.break_off(fault);
        assert_eq!(back, [failed('s', fault), failed('t', Fault::Disconnected)]);
        assert_eq!(from.break_off(fault), [], "a second time nothing happens");
        assert_eq!(from.post_send(send('u', 8)), Err(PostError::Broken(fault)));
        assert_eq!(to.post_receive('r', 8), Err(PostError::Broken(fault)));
        let refused = from.post_send(send('u', 8)).map_err(|error| error.to_string());
        let expected = "the connection is broken: no receive descriptor was posted";
        assert_eq!(refused, Err(expected.to_owned()));
    }

    #[test]
    fn an_rdma_write_needs_a_descriptor_only_for_immediate_data() {
        let mut memory = Registry::new();
        let region = Region { tag: TAG, address: 0, length: 64, is_writable: true };
        let to_region = RemoteAddress { handle: memory.register(region), address: 32 };
        let write = |immediate| Descriptor {
            cookie: 'w',
            operation: Operation::RdmaWrite { to: to_region, immediate },
            length: 32,
        };
        let (mut from, mut to) = pair(Reliability::ReliableDelivery);
        let (_, reception) = pass(&mut from, &mut to, write(false), &memory);
        assert_eq!(reception.outcome, Outcome::Written);
        assert_eq!(to.post_receive('r', 0), Ok(()));
        let (_, reception) = pass(&mut from, &mut to, write(true), &memory);
        let received = Outcome::Received(done('r', WorkQueueKind::Receive));
        assert_eq!(reception.outcome, received);
        let (_, reception) = pass(&mut from, &mut to, write(true), &memory);
        assert!(matches!(reception.outcome, Outcome::Broken(Fault::NoDescriptor, _)));
    }

    #[test]
    fn memory_of_another_tag_breaks_the_connection_with_the_reason() {
        let mut memory = Registry::new();
        let tag = ProtectionTag(4);
        let region = Region { tag, address: 0, length: 64, is_writable: true };
        let place = RemoteAddress { handle: memory.register(region), address: 0 };
        let operation = Operation::RdmaWrite { to: place, immediate: false };
        let (mut from, mut to) = pair(Reliability::ReliableDelivery);
        assert_eq!(to.post_receive('r', 8), Ok(()));
        let write = Descriptor { cookie: 'w', operation, length: 8 };
        let (_, reception) = pass(&mut from, &mut to, write, &memory);
        let fault = Fault::WrongTag { memory: tag, endpoint: TAG };
        let queue = WorkQueueKind::Receive;
        let back = Completion { cookie: 'r', queue, result: Err(Fault::Disconnected) };
        assert_eq!(reception.outcome, Outcome::Broken(fault, vec![back]));
        assert_eq!(to.state(), EndpointState::Broken(fault));
        let unknown = RemoteAddress { handle: MemoryHandle(9), address: 0 };
        let operation = Operation::RdmaWrite { to: unknown, immediate: false };
        let (mut from, mut to) = pair(Reliability::UnreliableDelivery);
        let write = Descriptor { cookie: 'w', operation, length: 8 };
        let (_, reception) = pass(&mut from, &mut to, write, &memory);
        let fault = Fault::NotRegistered(MemoryHandle(9));
        assert_eq!(reception.outcome, Outcome::Dropped(fault));
    }

    #[test]
    fn damage_gaps_and_size_are_found_at_the_target() {
        let memory = Registry::new();
        let (mut from, mut to) = pair(Reliability::ReliableDelivery);
        assert_eq!(to.post_receive('r', 8), Ok(()));
        let (_, reception) = pass(&mut from, &mut to, send('s', 9), &memory);
        let too_long = Fault::TooLong { length: 9, room: 8 };
        assert_eq!(reception.reply, Reply::Break(too_long));

        let (mut from, mut to) = pair(Reliability::ReliableDelivery);
        assert_eq!(from.post_send(send('s', 1)), Ok(()));
        assert_eq!(from.post_send(send('t', 1)), Ok(()));
        assert_eq!(from.post_send(send('u', 1)), Err(PostError::Full { depth: 2 }));
        let transfers = [from.fetch(), from.fetch()].map(|own| own.expect("two messages"));
        let late = Arrival { transfer: transfers[1], is_intact: true };
        let reception = to.clone().arrive(late, &memory);
        assert_eq!(reception.reply, Reply::Break(Fault::Lost { expected: 0, found: 1 }));
        let highest = Transfer { sequence: u64::MAX, ..transfers[1] };
        let reception = to.clone().arrive(Arrival { transfer: highest, ..late }, &memory);
        let lost = Fault::Lost { expected: 0, found: u64::MAX };
        assert_eq!(reception.reply, Reply::Break(lost));
        let damaged = Arrival { transfer: transfers[0], is_intact: false };
        assert_eq!(to.arrive(damaged, &memory).reply, Reply::Break(Fault::Damaged));
    }

    #[test]
    fn a_receive_descriptor_that_is_taken_back_receives_nothing() {
        let (mut from, mut to) = pair(Reliability::ReliableDelivery);
        assert_eq!((to.post_receive('a', 8), to.post_receive('b', 8)), (Ok(()), Ok(())));
        assert_eq!(to.withdraw_receive(|cookie| *cookie == 'c'), None);
        assert_eq!(to.withdraw_receive(|cookie| *cookie == 'a'), Some((0, 'a')));
        let one = Outstanding { sends: 0, receives: 1 };
        assert_eq!((to.outstanding(), to.withdraw_receive(|it| *it == 'a')), (one, None));
        let (_, reception) = pass(&mut from, &mut to, send('s', 8), &Registry::new());
        let received = Outcome::Received(done('b', WorkQueueKind::Receive));
        assert_eq!(reception.outcome, received);
    }

    #[test]
    fn an_endpoint_has_one_connection() {
        let (mut from, _) = pair(Reliability::ReliableDelivery);
        assert_eq!(from.connect(2), Err(ConnectError::Connected { peer: 1 }));
        assert_eq!(from.break_off(Fault::Damaged), []);
        assert_eq!(from.connect(2), Err(ConnectError::Broken(Fault::Damaged)));
        assert_eq!(from.post_receive('r', 8), Err(PostError::Broken(Fault::Damaged)));
        assert_eq!(from.disconnect(), []);
        assert_eq!(from.post_send(send('s', 1)), Err(PostError::NotConnected));
        assert_eq!(from.post_receive('r', 8), Ok(()));
        assert_eq!(from.connect(2), Ok(()));
        let queue = WorkQueueKind::Receive;
        let back = Completion { cookie: 'r', queue, result: Err(Fault::Disconnected) };
        assert_eq!(from.disconnect(), [back]);
    }
}
