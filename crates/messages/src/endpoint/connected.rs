//! Messages of an endpoint with a connection: the pair of work queues of a virtual interface ([`weft_protocol::vi`]).
//!
//! The state machine numbers the messages, holds the descriptors of both queues and returns each of
//! them once, in order; the channel is its wire. It follows libfabric rather than the VI
//! Architecture in two respects. A message that arrives before its descriptor is held back until
//! there is one, where the architecture breaks the connection (`FI_RM_ENABLED`: "retried"). A
//! message that is longer than its descriptor is truncated.

use std::collections::VecDeque;

use weft_protocol::vi;
use weft_protocol::vi::{
    Arrival, Completion, Descriptor, EndpointState, Fault, Outcome, PostError, ProtectionTag,
    QueueDepths, Registry, Reliability, Transfer, WorkQueueKind,
};

use super::queue::{Receive, Stored, Unexpected};
use super::{Admits, Endpoint, Event, Events, Message, failed};
use crate::channel::{Body, Broken, Envelope, Sending};
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::sys::Errno;

/// The most descriptors in each of the two queues.
pub const MOST_DESCRIPTORS: u16 = u16::MAX;

/// By what a program knows its operation.
#[derive(Clone, Copy, Debug)]
struct Cookie {
    context: usize,
    is_reported: bool,
}

/// A message that has been written to the channel.
#[derive(Debug)]
struct Written {
    /// Its number on the connection.
    sequence: u64,
    /// Zero or an error once its buffers are free again.
    left: Option<Errno>,
}

/// The virtual interface of an endpoint.
#[derive(Debug)]
pub(super) struct Connected {
    machine: vi::Endpoint<Cookie>,
    /// Written messages whose descriptors have not completed, oldest first.
    written: VecDeque<Written>,
    /// The buffers of the receive descriptors, oldest first.
    buffers: VecDeque<Parts>,
    /// Messages that wait for a descriptor, oldest first.
    waiting: VecDeque<Unexpected>,
    /// Whether the message that was received last is still being pulled through the ring.
    is_pulling: bool,
    /// Why the connection has ended.
    lost: Option<Errno>,
}

impl Connected {
    fn new() -> Self {
        let depths = QueueDepths { sends: MOST_DESCRIPTORS, receives: MOST_DESCRIPTORS };
        Self {
            machine: vi::Endpoint::new(
                Reliability::ReliableDelivery,
                ProtectionTag::default(),
                depths,
            ),
            written: VecDeque::new(),
            buffers: VecDeque::new(),
            waiting: VecDeque::new(),
            is_pulling: false,
            lost: None,
        }
    }

    /// A message is pulled through the ring: those behind it wait, so that they complete in order.
    pub(super) const fn begin_pull(&mut self) {
        self.is_pulling = true;
    }

    /// The buffers of a held message are free again, or it has failed. Completes the oldest messages of which that is
    /// so.
    pub(super) fn has_left(&mut self, sequence: usize, error: Errno, events: &mut impl Events) {
        let its = self.written.iter_mut().find(|it| it.sequence == sequence as u64);
        if let Some(written) = its {
            written.left = Some(error);
        }
        while let Some(error) = self.written.front().and_then(|it| it.left) {
            self.written.pop_front();
            if let Some(completion) = self.machine.transmitted() {
                events.on_event(sent(completion.cookie, error));
            }
        }
    }

    /// The connection has ended: all descriptors complete in error, and what has arrived in part is
    /// lost.
    pub(super) fn break_off(&mut self, error: Errno, events: &mut impl Events) {
        self.lost = Some(error);
        self.is_pulling = false;
        self.written.clear();
        self.waiting.retain(|it| matches!(it.stored, Stored::Bytes(_)));
        let completions = self.machine.break_off(Fault::Disconnected);
        self.give_back(completions, error, events);
    }

    fn give_back(
        &mut self,
        completions: Vec<Completion<Cookie>>,
        error: Errno,
        events: &mut impl Events,
    ) {
        for Completion { cookie, queue, .. } in completions {
            events.on_event(match queue {
                WorkQueueKind::Send => sent(cookie, error),
                WorkQueueKind::Receive => {
                    let to = self.buffers.pop_front().unwrap_or_else(|| Parts::one(NOWHERE, 0));
                    failed(&receive(cookie, to), false, error)
                }
            });
        }
    }

    /// The descriptor for a message of this number and length.
    ///
    /// # Errors
    ///
    /// If it is not the message that is due.
    fn arrive(
        &mut self,
        sequence: u64,
        length: usize,
        events: &mut impl Events,
    ) -> Result<Receive, Broken> {
        let room = self.buffers.front().map_or(0, Parts::length);
        let operation = vi::Operation::Send;
        let length = length.min(room) as u64;
        let arrival =
            Arrival { transfer: Transfer { sequence, operation, length }, is_intact: true };
        // Messages name no memory of their target; remote accesses are not the virtual interface's.
        match self.machine.arrive(arrival, &Registry::new()).outcome {
            Outcome::Received(completion) => {
                let to = self.buffers.pop_front().ok_or(Broken::Protocol)?;
                Ok(receive(completion.cookie, to))
            }
            Outcome::Broken(_, completions) => {
                self.give_back(completions, Broken::Protocol.errno(), events);
                Err(Broken::Protocol)
            }
            Outcome::Written | Outcome::Dropped(_) | Outcome::Ignored => Err(Broken::Protocol),
        }
    }
}

const NOWHERE: *mut u8 = std::ptr::null_mut();

const fn receive(cookie: Cookie, to: Parts) -> Receive {
    Receive { context: cookie.context, to, is_reported: cookie.is_reported }
}

/// The event of a message that was sent, or was not.
const fn sent(cookie: Cookie, error: Errno) -> Event {
    let Cookie { context, is_reported } = cookie;
    match error {
        0 => Event::Sent { context, is_tagged: false, is_reported },
        error => Event::SendFailed { context, is_tagged: false, error },
    }
}

impl Endpoint {
    /// Accepts no channels until it has a connection.
    pub fn admit_nobody(&mut self) {
        self.admits = Admits::NoneYet;
        self.connected = Some(Box::new(Connected::new()));
    }

    /// Accepts the channels of one peer alone: it is the other end of its connection.
    ///
    /// # Errors
    ///
    /// `EISCONN` if it has or had a connection.
    pub fn admit(&mut self, peer: PeerId) -> Result<(), Errno> {
        if let Some(connected) = &mut self.connected {
            connected.machine.connect(peer.index() as u32).map_err(|_| libc::EISCONN)?;
        }
        self.admits = Admits::One(peer);
        Ok(())
    }

    /// Ends the connection: whatever is under way with the peer fails.
    pub fn disconnect(&mut self, peer: PeerId, events: &mut impl Events) {
        self.drop_peer(peer, Broken::Closed, events);
    }

    /// Sends a message to the other end of the connection.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::send`], and `ENOTCONN` without a connection.
    ///
    /// # Safety
    ///
    /// The requirements of [`Endpoint::send`].
    #[inline(never)]
    pub unsafe fn send_connected(
        &mut self,
        peers: &Peers,
        to: PeerId,
        message: &Message,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let length = message.parts.length();
        let is_held = message.must_arrive || !Sending::is_short(length);
        let state = self.connected.as_ref().map(|it| it.machine.state());
        if state.is_none_or(|it| it == EndpointState::Idle) {
            return Err(libc::ENOTCONN);
        }
        if self.emulation.is_some() {
            self.announce(peers, to, length as u64, events)?;
        }
        // The doorbell rings once the wire has room, so that each message leaves as soon as it is fetched.
        let has_room = self.outgoing_channel(peers, to)?.has_room_for(length, is_held);
        if has_room != Ok(true) {
            return Err(self.not_written(to, has_room.err(), events));
        }
        let connected = self.connected.as_mut().ok_or(libc::ENOTCONN)?;
        let cookie = Cookie { context: message.context, is_reported: message.is_reported };
        let descriptor =
            Descriptor { cookie, operation: vi::Operation::Send, length: length as u64 };
        connected.machine.post_send(descriptor).map_err(refused)?;
        let Some(Transfer { sequence, .. }) = connected.machine.fetch() else { return Ok(()) };
        let envelope = Envelope { tag: sequence, ..message.envelope };
        // SAFETY: the caller's promise.
        let written =
            unsafe { self.transmit(peers, to, message, &envelope, sequence as usize, events) };
        // Where it was not written the peer was dropped, and the descriptor has come back with the error.
        if let (Ok(is_free), Some(connected)) = (written, &mut self.connected) {
            connected.written.push_back(Written { sequence, left: None });
            if is_free {
                connected.has_left(sequence as usize, 0, events);
            }
        }
        Ok(())
    }

    /// Posts a receive for a message of the other end of the connection, which need not be there yet.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if all descriptors are in use.
    ///
    /// # Safety
    ///
    /// The requirements of [`Endpoint::receive`].
    pub unsafe fn receive_connected(
        &mut self,
        receive: Receive,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let connected = self.connected.as_mut().ok_or(libc::ENOTCONN)?;
        if let Some(error) = connected.lost {
            // What had arrived before the end is received after it.
            match connected.waiting.pop_front() {
                Some(mut message) => {
                    message.envelope.tag = 0;
                    self.deliver(message, &receive, events);
                }
                None => events.on_event(failed(&receive, false, error)),
            }
            return Ok(());
        }
        let Receive { context, to, is_reported } = receive;
        let cookie = Cookie { context, is_reported };
        connected.machine.post_receive(cookie, to.length() as u64).map_err(refused)?;
        connected.buffers.push_back(to);
        self.receive_waiting(events);
        Ok(())
    }

    /// Cancels a receive of a connection by its context.
    pub(super) fn cancel_connected(&mut self, context: usize, events: &mut impl Events) -> bool {
        let Some(connected) = &mut self.connected else { return false };
        let withdrawn = connected.machine.withdraw_receive(|cookie| cookie.context == context);
        let Some((place, cookie)) = withdrawn else { return false };
        let to = connected.buffers.remove(place).unwrap_or_else(|| Parts::one(NOWHERE, 0));
        events.on_event(failed(&receive(cookie, to), false, libc::ECANCELED));
        true
    }

    /// A message has arrived.
    pub(super) fn arrive_connected(
        &mut self,
        channel: u32,
        source: PeerId,
        envelope: Envelope,
        body: Body,
        events: &mut impl Events,
    ) {
        let Some(connected) = &mut self.connected else { return };
        if envelope.is_tagged {
            self.drop_peer(source, Broken::Protocol, events);
            return;
        }
        let must_wait =
            connected.is_pulling || connected.buffers.is_empty() || !connected.waiting.is_empty();
        if must_wait {
            let message = self.unexpected(channel, source, envelope, body);
            if let Some(connected) = &mut self.connected {
                connected.waiting.push_back(message);
            }
            return;
        }
        let length = match &body {
            Body::Here(_, length) => *length,
            Body::There(remote) => remote.length,
        };
        match connected.arrive(envelope.tag, length, events) {
            Ok(receive) => {
                let envelope = Envelope { tag: 0, ..envelope };
                self.put(channel, source, envelope, body, &receive, events);
            }
            Err(why) => self.drop_peer(source, why, events),
        }
    }

    /// Receives the messages that have waited for descriptors.
    fn receive_waiting(&mut self, events: &mut impl Events) {
        while let Some(connected) = &mut self.connected
            && !connected.is_pulling
            && !connected.buffers.is_empty()
            && let Some(mut message) = connected.waiting.pop_front()
        {
            match connected.arrive(message.envelope.tag, message.length(), events) {
                Ok(receive) => {
                    message.envelope.tag = 0;
                    self.deliver(message, &receive, events);
                }
                Err(why) => self.drop_peer(message.source, why, events),
            }
        }
    }

    /// The message that was pulled through the ring is complete.
    pub(super) fn end_pull(&mut self, events: &mut impl Events) {
        if let Some(connected) = &mut self.connected {
            connected.is_pulling = false;
            self.receive_waiting(events);
        }
    }
}

/// Why a descriptor is not accepted.
const fn refused(why: PostError) -> Errno {
    match why {
        PostError::Full { .. } => libc::EAGAIN,
        PostError::NotConnected => libc::ENOTCONN,
        PostError::Broken(_) => libc::ECONNRESET,
    }
}

#[cfg(test)]
mod tests;
