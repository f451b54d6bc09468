//! Remote memory access of an endpoint: as the initiator, and as the target, which carries requests out while it
//! makes progress.
//!
//! The target resolves keys and ranges by its own registrations, each time it is about to touch the memory, so that a
//! peer reaches nothing that is not registered, and nothing that no longer is.

use std::collections::VecDeque;

use super::progress::ended;
use super::{Endpoint, Event, Events, Outgoing, Pulling, atomic};
use crate::channel::{
    Body, Broken, Held, LONGEST_OPERANDS, MOST_HELD, MOST_RANGES, Operation, Purpose, Ranges,
    Remote, Request, Requested, Returns, Sending,
};
use crate::parts::{Parts, RawBytes};
use crate::peers::{PeerId, Peers};
use crate::sys::Errno;

/// A remote memory access to be made.
#[derive(Clone, Debug)]
pub struct Access {
    /// The program's context of the operation.
    pub context: usize,
    /// What, and where at the peer.
    pub request: Request,
    /// The bytes to be written, or the operands of an atomic operation, the second behind the first.
    pub source: Parts,
    /// Where the bytes go that come back.
    pub result: Parts,
    /// Whether the program wants a completion.
    pub is_reported: bool,
    /// Whether the source may be reused as soon as the call returns.
    pub is_injected: bool,
}

/// How a request touches registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Its bytes go to the peer.
    pub reads: bool,
    /// They are changed.
    pub writes: bool,
}

impl Touch {
    const fn of(operation: Operation) -> Self {
        Self { reads: operation.returns_bytes(), writes: !matches!(operation, Operation::Read) }
    }
}

/// A write into registered memory whose bytes are pulled through the ring.
#[derive(Debug)]
pub(super) struct Write {
    request: Request,
    bytes: Box<[u8]>,
}

/// What the requests of one peer return, in order.
#[derive(Debug, Default)]
pub(super) struct Replies(VecDeque<Reply>);

#[derive(Debug)]
struct Reply {
    number: u32,
    source: Source,
    sent: usize,
}

#[derive(Debug)]
enum Source {
    Memory(Ranges),
    Values(Box<[u8]>),
}

/// The registered memory of a request, or why the peer may not access it.
fn resolve(ranges: &Ranges, touch: Touch, events: &mut impl Events) -> Result<Parts, Errno> {
    let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut places = [none; MOST_RANGES];
    let ranges = ranges.as_slice();
    for (place, range) in places.iter_mut().zip(ranges) {
        place.iov_base = events.resolve(range, touch)?.cast();
        place.iov_len = usize::try_from(range.length).map_err(|_| libc::EFAULT)?;
    }
    Parts::new(&places[..ranges.len()]).ok_or(libc::EFAULT)
}

/// A write whose bytes are still in the initiator's memory.
struct LongWrite<'a> {
    /// The request's number.
    number: u32,
    request: Request,
    /// Where the bytes are.
    remote: &'a Remote,
    /// Where they go.
    memory: &'a Parts,
}

impl Endpoint {
    /// Accesses registered memory of a peer. An event reports its end.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room now: progress makes some. `EINVAL` if the lengths differ, `EMSGSIZE` if operands
    /// or an injected write are too long. Otherwise the reason why the peer cannot be reached.
    ///
    /// # Safety
    ///
    /// The source must be readable and the result writable until the event; an injected source only for this call.
    pub unsafe fn access(
        &mut self,
        peers: &Peers,
        to: PeerId,
        access: Access,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let Access { context, request, source, result, is_reported, is_injected } = access;
        let length = request.ranges.length();
        let wanted = match request.operation {
            Operation::Write => source.length(),
            Operation::Read => result.length(),
            Operation::Atomic(code) if code.returns == Returns::Nothing => source.length(),
            Operation::Atomic(_) => result.length(),
        };
        if wanted as u64 != length {
            return Err(libc::EINVAL);
        }
        let is_atomic = matches!(request.operation, Operation::Atomic(_));
        if is_atomic && wanted > LONGEST_OPERANDS {
            return Err(libc::EMSGSIZE);
        }
        let payload = match request.operation {
            Operation::Read => None,
            Operation::Write => Some(&source).filter(|_| Sending::is_short(wanted)),
            Operation::Atomic(_) => Some(&source),
        };
        if is_injected && payload.is_none() {
            return Err(libc::EMSGSIZE);
        }
        let parts = match request.operation {
            Operation::Write if payload.is_none() => source.clone(),
            Operation::Write => Parts::one(std::ptr::null_mut(), 0),
            Operation::Read | Operation::Atomic(_) => result,
        };
        if self.emulation.is_some() {
            self.announce(peers, to, source.length() as u64, events)?;
        }
        let purpose = Purpose::Request(request.operation);
        let held = Held { context, parts, is_reported, purpose };
        let way = self.outgoing_channel(peers, to)?;
        // SAFETY: the caller's promise.
        let sent = unsafe { way.request(&request, payload, held) };
        if sent != Ok(true) {
            return Err(self.not_written(to, sent.err(), events));
        }
        let wakes = way.wake();
        self.held += 1;
        if self.emulation.is_some() {
            self.finish_announced(to, false);
        }
        let counts = self.figures.counts();
        counts.sent.add(1);
        counts.bytes_sent.add(length);
        counts.wakes.add(u64::from(wakes));
        Ok(())
    }

    /// Carries a peer's request out.
    pub(super) fn serve(
        &mut self,
        channel: u32,
        peer: PeerId,
        requested: Requested,
        events: &mut impl Events,
    ) {
        let served = match self.carry_out(channel, peer, requested, events) {
            // Nothing to be answered yet.
            Ok(None) => Ok(()),
            Ok(Some((number, error))) => self.answer_request(channel, number, error),
            Err(why) => Err(why),
        };
        if let Err(why) = served {
            self.drop_peer(peer, why, events);
        }
    }

    fn answer_request(&mut self, channel: u32, number: u32, error: Errno) -> Result<(), Broken> {
        self.incoming_channel(channel).map_or(Ok(()), |from| from.receiving.finish(number, error))
    }

    /// The number and the outcome of a request, if it is done.
    fn carry_out(
        &mut self,
        channel: u32,
        peer: PeerId,
        requested: Requested,
        events: &mut impl Events,
    ) -> Result<Option<(u32, Errno)>, Broken> {
        let Requested { number, request, body } = requested;
        let touch = Touch::of(request.operation);
        let memory = match resolve(&request.ranges, touch, events) {
            Ok(memory) => memory,
            Err(error) => return Ok(Some((number, error))),
        };
        match (request.operation, body) {
            (Operation::Write, Body::Here(bytes, length)) if length == memory.length() => {
                // SAFETY: the record stays in the ring until it is consumed; the memory was just resolved.
                unsafe { memory.copy_from(bytes, length) };
                self.report_written(peer, &request, events);
                Ok(Some((number, 0)))
            }
            (Operation::Write, Body::There(remote)) if remote.length == memory.length() => {
                let write = LongWrite { number, request, remote: &remote, memory: &memory };
                self.take_long_write(channel, peer, write, events)
            }
            (Operation::Read, Body::There(remote)) if remote.length == memory.length() => {
                // Under emulation the bytes go through the ring, which holds them back until they are due.
                let is_long = !Sending::is_short(remote.length) && self.emulation.is_none();
                if let Some(from) = self.incoming_channel(channel).filter(|_| is_long)
                    // SAFETY: the memory was just resolved.
                    && unsafe { from.receiving.copy_to_sender(&memory, &remote)? }
                {
                    return Ok(Some((number, 0)));
                }
                self.queue_reply(peer, number, Source::Memory(request.ranges)).map(|()| None)
            }
            (Operation::Atomic(code), Body::Here(bytes, length)) => {
                let mut operands = vec![0; length];
                // SAFETY: the record has that many bytes; they are copied before they are used.
                unsafe { std::ptr::copy_nonoverlapping(bytes, operands.as_mut_ptr(), length) };
                // SAFETY: the memory was just resolved.
                match unsafe { atomic::apply(code, &memory, &operands) } {
                    Err(error) => Ok(Some((number, error))),
                    Ok(_) if code.returns == Returns::Nothing => Ok(Some((number, 0))),
                    Ok(values) => {
                        let values = Source::Values(values.into());
                        self.queue_reply(peer, number, values).map(|()| None)
                    }
                }
            }
            _ => Err(Broken::Protocol),
        }
    }

    /// Copies a long write from the initiator's memory, or begins to pull it.
    fn take_long_write(
        &mut self,
        channel: u32,
        peer: PeerId,
        write: LongWrite<'_>,
        events: &mut impl Events,
    ) -> Result<Option<(u32, Errno)>, Broken> {
        let LongWrite { number, request, remote, memory } = write;
        let Some(from) = self.incoming_channel(channel) else { return Ok(None) };
        // SAFETY: the memory was just resolved.
        if unsafe { from.receiving.copy_from_sender(remote, memory)? } {
            self.report_written(peer, &request, events);
            return Ok(Some((number, 0)));
        }
        // The registration may end before the bytes are here.
        let mut bytes = vec![0; remote.length].into_boxed_slice();
        let to = Parts::one(bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the buffer is kept until the message is complete or the channel is dropped.
        unsafe { from.receiving.pull(remote, to, remote.length)? };
        self.pulling.insert((channel, number), Pulling::Write(Write { request, bytes }));
        Ok(None)
    }

    /// A message that was pulled through the ring is complete.
    pub(super) fn finish_pulled(
        &mut self,
        channel: u32,
        number: u32,
        peer: PeerId,
        events: &mut impl Events,
    ) {
        let pulled = self.pulling.remove(&(channel, number));
        let is_message = matches!(pulled, Some(Pulling::Receive(_)));
        let error = match pulled {
            None => return,
            Some(Pulling::Receive(received)) => {
                self.complete(received, events);
                0
            }
            Some(Pulling::Write(Write { request, bytes })) => {
                match resolve(&request.ranges, Touch::of(request.operation), events) {
                    Err(error) => error,
                    Ok(memory) => {
                        // SAFETY: the memory was just resolved.
                        unsafe { memory.copy_from(bytes.as_ptr(), bytes.len()) };
                        self.report_written(peer, &request, events);
                        0
                    }
                }
            }
        };
        if let Err(why) = self.answer_request(channel, number, error) {
            self.drop_peer(peer, why, events);
        }
        if is_message {
            self.end_pull(events);
        }
    }

    fn report_written(&mut self, source: PeerId, request: &Request, events: &mut impl Events) {
        let length = request.ranges.length() as usize;
        let counts = self.figures.counts();
        counts.received.add(1);
        counts.bytes_received.add(length as u64);
        if let Some(data) = request.data {
            events.on_event(Event::Written { source, data, length });
        }
    }

    fn queue_reply(&mut self, peer: PeerId, number: u32, source: Source) -> Result<(), Broken> {
        let Replies(queue) = self.replies.entry(peer.index()).or_default();
        // A correct initiator has no more requests in flight.
        if queue.len() == MOST_HELD {
            return Err(Broken::Protocol);
        }
        queue.push_back(Reply { number, source, sent: 0 });
        Ok(())
    }

    /// Sends what requests of peers return, as far as there is room; whether there was anything to send.
    pub(super) fn send_replies(&mut self, peers: &Peers, events: &mut impl Events) -> bool {
        let mut any = false;
        let waiting: Vec<usize> = self.replies.keys().copied().collect();
        for index in waiting {
            let peer = PeerId::of_index(index as u32);
            let Some(mut replies) = self.replies.remove(&index) else { continue };
            match self.send_replies_to(peers, peer, &mut replies, events) {
                Ok(sent) => any |= sent,
                Err(why) => {
                    self.drop_peer(peer, why, events);
                    continue;
                }
            }
            if !replies.0.is_empty() {
                self.replies.insert(index, replies);
            }
        }
        any
    }

    fn send_replies_to(
        &mut self,
        peers: &Peers,
        peer: PeerId,
        Replies(queue): &mut Replies,
        events: &mut impl Events,
    ) -> Result<bool, Broken> {
        let mut any = false;
        while let Some(reply) = queue.front_mut() {
            let from = match &mut reply.source {
                Source::Memory(ranges) => resolve(ranges, Touch::of(Operation::Read), events),
                Source::Values(values) => Ok(Parts::one(values.as_mut_ptr(), values.len())),
            };
            let Ok(from) = from else {
                // The registration has ended since; whoever ends it cannot expect the read to succeed.
                let error = libc::EACCES;
                let channel = self.incoming.of_peer(peer);
                let number = reply.number;
                queue.pop_front();
                if let Some(channel) = channel {
                    self.answer_request(channel, number, error)?;
                }
                continue;
            };
            if self.emulation.is_some() && reply.sent == 0 {
                match self.announce(peers, peer, from.length() as u64, events) {
                    Ok(()) => {}
                    Err(libc::EAGAIN) => return Ok(any),
                    Err(_) => return Err(Broken::Closed),
                }
            }
            let way = match self.outgoing_channel(peers, peer) {
                Ok(way) => way,
                Err(libc::EAGAIN) => return Ok(any),
                Err(_) => return Err(Broken::Closed),
            };
            // SAFETY: the memory was just resolved, and values belong to the reply.
            let sent = unsafe { way.reply(reply.number, reply.sent, &from)? };
            if sent == 0 && from.length() > 0 {
                return Ok(any);
            }
            way.wake();
            if self.emulation.is_some() {
                self.finish_announced(peer, false);
            }
            any = true;
            reply.sent += sent;
            if reply.sent == from.length() {
                queue.pop_front();
            }
        }
        Ok(any)
    }

    /// Takes bytes that a peer returns for a request of this endpoint.
    ///
    /// # Safety
    ///
    /// The bytes must be readable.
    pub(super) unsafe fn take_reply(
        &mut self,
        peer: PeerId,
        number: u32,
        offset: u64,
        bytes: RawBytes,
        events: &mut impl Events,
    ) {
        let replied = match self.outgoing.get_mut(peer.index()) {
            // SAFETY: the caller's promise.
            Some(Outgoing::Open(way)) => unsafe { way.replied(number, offset, bytes) },
            _ => Err(Broken::Protocol),
        };
        match replied {
            Ok(None) => {}
            Ok(Some(held)) => {
                self.held -= 1;
                let counts = self.figures.counts();
                counts.received.add(1);
                counts.bytes_received.add(held.parts.length() as u64);
                events.on_event(ended(&held, 0));
            }
            Err(why) => self.drop_peer(peer, why, events),
        }
    }
}
