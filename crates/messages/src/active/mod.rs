//! Active messages between processes (Clint 3.1): endpoints with names and handlers, virtual networks that protect
//! them, and Clint's rings and buffer pools, whose state machines are those of [`weft_protocol::adapter`].
//!
//! A [`Node`] is one process, a port of Clint's switch. It sends packets as the paper lays them out, over a
//! [`Link`] to each target. A node sends no more than the target has buffers for: acknowledgments return credits.
//! Messages to one node are handled in order and exactly once; messages to a node that has ended fail. Nothing here
//! owns a thread: [`Node::progress`] calls the handlers.

mod c;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use weft_protocol::adapter::{
    Prefetch, ReceiveSettings, ReceiveSide, Release, SendSettings, SendSide, TransmissionError,
};
use weft_protocol::endpoint::{Delivery, Endpoints, NetworkNumber, Refusal, VirtualNetworks};
use weft_protocol::flow::Credits;
use weft_protocol::packet::{
    BulkRequest, EndpointName, HandlerIndex, Message, Packet, Payload, Port, QuickRequest, Sequence,
};
use weft_protocol::ring::{BufferId, SendRequest};

use crate::link::{Acceptor, HELLO, Link};
use crate::parts::RawBytes;
use crate::rendezvous::Directory;
use crate::sys::{Errno, Watch};

/// The most nodes.
pub const NODES: u16 = Port::COUNT as u16;
/// Receive buffers per sending node, which are its credits.
pub const BUFFERS: u16 = 16;
/// Send buffers of a node.
pub const SEND_BUFFERS: u16 = 64;

/// A handler's reply, which is sent to the initiator's endpoint.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The handler there.
    pub handler: HandlerIndex,
    /// Its arguments.
    pub arguments: [u32; Message::ARGUMENTS],
    /// Its payload, if it is a bulk message.
    pub payload: Option<Payload>,
}

/// A message handler.
pub type Handler = Box<dyn FnMut(Delivery<'_>) -> Option<Answer> + Send>;

/// Why something cannot be done with active messages.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    /// The node number is out of range.
    #[error("node {0}: accepted are 0 to {last}", last = NODES - 1)]
    Number(u16),
    /// Another process uses this node number.
    #[error("node {0} is in use by another process")]
    Taken(u16),
    /// Protection denies it, or the endpoint or handler does not exist.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// All send buffers are in use; progress frees some.
    #[error("all {SEND_BUFFERS} send buffers are in use: call progress")]
    Busy,
    /// The target's process has not started, or has ended.
    #[error("node {0} does not exist: a running process of this user must have opened it")]
    Gone(u16),
    /// A system call failed.
    #[error("system error: {}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(Errno),
}

const PACKET: NonZeroU32 = NonZeroU32::MIN;
const ACKNOWLEDGMENT: NonZeroU32 = PACKET.saturating_add(1);

/// A message in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    message: Message,
    payload: Option<Payload>,
}

/// A link to another node, which this node opened.
#[derive(Debug)]
struct Out {
    link: Link,
    credits: Credits,
    /// Unacknowledged buffers, in the order of sending.
    sent: VecDeque<BufferId>,
    /// Packets sent or received so far.
    count: u64,
}

/// A link from another node, which that node opened.
#[derive(Debug)]
struct In {
    link: Link,
    receiving: ReceiveSide<Held>,
    /// Packets sent or received so far.
    count: u64,
    /// Acknowledgments that are still to be sent.
    owed: u16,
}

/// Message counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that the target acknowledged.
    pub delivered: u64,
    /// Messages that failed, since their target has ended.
    pub failed: u64,
    /// Messages for which a handler was called here.
    pub handled: u64,
    /// Received messages that were refused: protection, or no such endpoint or handler.
    pub refused: u64,
    /// Malformed packets; their links were closed.
    pub damaged: u64,
}

/// A node.
pub struct Node {
    number: u16,
    directory: Directory,
    acceptor: Acceptor,
    watch: Watch,
    networks: VirtualNetworks,
    endpoints: Endpoints<Handler>,
    outs: BTreeMap<u16, Out>,
    ins: BTreeMap<u16, In>,
    sending: SendSide<Held>,
    /// Replies of handlers that wait for a free send buffer.
    answers: VecDeque<Held>,
    counts: Counts,
    /// Messages that this node has begun to send, responses among them.
    begun: u64,
    looked: Instant,
}

/// The interval between checks for peers that have ended.
const LOOK: Duration = Duration::from_millis(10);

impl Node {
    /// Opens a node.
    ///
    /// # Errors
    /// [`ActiveError::Number`], [`ActiveError::Taken`], or the kernel's error.
    pub fn new(directory: Directory, number: u16) -> Result<Node, ActiveError> {
        if number >= NODES {
            return Err(ActiveError::Number(number));
        }
        let acceptor =
            Acceptor::bind(&directory, &address_of(number)).map_err(|error| match error {
                libc::EADDRINUSE => ActiveError::Taken(number),
                error => ActiveError::Kernel(error),
            })?;
        let watch = Watch::new().map_err(ActiveError::Kernel)?;
        watch.add(acceptor.socket(), 0).map_err(ActiveError::Kernel)?;
        let sending = SendSide::new(SendSettings {
            buffers: SEND_BUFFERS,
            adapter_buffers: SEND_BUFFERS,
            targets: NODES,
            prefetch: Prefetch::default(),
            release: Release::Acknowledgment,
        });
        Ok(Node {
            number,
            acceptor,
            watch,
            networks: VirtualNetworks::new(),
            endpoints: Endpoints::new(number),
            outs: BTreeMap::new(),
            ins: BTreeMap::new(),
            sending,
            answers: VecDeque::new(),
            counts: Counts::default(),
            begun: 0,
            directory,
            looked: Instant::now(),
        })
    }

    /// Opens an endpoint.
    pub fn open(&mut self, endpoint: u16) -> EndpointName {
        self.endpoints.open(endpoint)
    }

    /// Makes an endpoint, of this node or another, a member of a virtual network. Both nodes check membership, so each
    /// must have joined both endpoints.
    pub fn join(&mut self, name: EndpointName, network: NetworkNumber) {
        self.networks.join(name, network);
    }

    /// Puts a handler into the table of an endpoint of this node.
    ///
    /// # Errors
    /// [`ActiveError::Refused`] if it is not open.
    pub fn set_handler(
        &mut self,
        name: EndpointName,
        index: HandlerIndex,
        handler: Handler,
    ) -> Result<(), ActiveError> {
        self.endpoints.set_handler(name, index, handler)?;
        Ok(())
    }

    /// The message counters.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The number of unacknowledged messages.
    pub fn outstanding(&self) -> usize {
        self.outs.values().map(|out| out.sent.len()).sum()
    }

    /// The number of messages of this node that are neither delivered nor failed: those that wait for a buffer or for
    /// a credit, too.
    pub const fn unfinished(&self) -> u64 {
        self.begun - self.counts.delivered - self.counts.failed
    }

    /// Sends a message; with a payload it is a bulk message.
    ///
    /// # Errors
    /// [`ActiveError`]: the message was not sent.
    pub fn send(&mut self, message: Message, payload: Option<Payload>) -> Result<(), ActiveError> {
        let message = self.endpoints.compose(&self.networks, message)?;
        self.connect_to(message.target.node)?;
        if !self.post(Held { message, payload }) {
            self.progress();
            return Err(ActiveError::Busy);
        }
        self.begun += 1;
        self.pump();
        Ok(())
    }

    /// Opens a link to a node, if there is none.
    fn connect_to(&mut self, target: u16) -> Result<(), ActiveError> {
        if target >= NODES {
            return Err(ActiveError::Number(target));
        }
        if self.outs.contains_key(&target) {
            return Ok(());
        }
        let mut hello = [0; HELLO];
        hello[..2].copy_from_slice(b"am");
        hello[2..4].copy_from_slice(&self.number.to_ne_bytes());
        let link = Link::connect(&self.directory, &address_of(target), &hello);
        let link = link.map_err(|error| match error {
            libc::ECONNREFUSED => ActiveError::Gone(target),
            error => ActiveError::Kernel(error),
        })?;
        self.watch(&link)?;
        let credits = Credits::new(BUFFERS.into());
        self.outs.insert(target, Out { link, credits, sent: VecDeque::new(), count: 0 });
        Ok(())
    }

    fn watch(&self, link: &Link) -> Result<(), ActiveError> {
        link.watched().try_for_each(|it| self.watch.add(it, 1)).map_err(ActiveError::Kernel)
    }

    /// Writes a message into a send buffer and rings the doorbell; false if no buffer is free.
    fn post(&mut self, held: Held) -> bool {
        let target = held.message.target.node;
        let Some(buffer) = self.sending.take_buffer() else { return false };
        // The buffer was just taken, so that each step is allowed.
        let written = self.sending.write(buffer, held);
        written.and_then(|()| self.sending.post(SendRequest { buffer, target })).is_ok()
    }

    /// The adapter's send side: fetches posted buffers and transmits them.
    fn pump(&mut self) {
        while let Some(request) = self.sending.begin_fetch() {
            if self.sending.end_fetch(request.buffer).is_err() {
                return;
            }
        }
        let targets: Vec<u16> = self.sending.requests().collect();
        for target in targets {
            self.pump_to(target);
        }
    }

    fn pump_to(&mut self, target: u16) {
        while self.sending.ready_for(target) > 0 {
            let Some(out) = self.outs.get_mut(&target) else {
                self.fail_ready(target);
                return;
            };
            if !out.credits.spend() {
                return;
            }
            let Some((buffer, held)) = self.sending.send(target) else { return };
            let Some(bytes) = encode(held, out.count) else { return };
            // SAFETY: the slice is readable. The ring has room for as many packets as there are credits.
            let written = unsafe { out.link.write(PACKET, &[], RawBytes::of(&bytes)) };
            out.sent.push_back(buffer);
            out.count += 1;
            out.link.wake();
            if written != Ok(true) {
                self.drop_link(target);
                return;
            }
        }
    }

    /// Makes progress: accepts links, receives, calls handlers, sends. Returns whether anything was done.
    pub fn progress(&mut self) -> bool {
        let mut any = false;
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.accept_all();
            self.check_links();
        }
        while let Some(answer) = self.answers.pop_front() {
            if self.connect_to(answer.message.target.node).is_err() {
                self.counts.failed += 1;
            } else if !self.post(answer.clone()) {
                self.answers.push_front(answer);
                break;
            }
            any = true;
        }
        for node in 0..NODES {
            any |= self.handle_acknowledgments(node) | self.receive(node);
        }
        self.pump();
        any
    }

    /// Makes progress until `until` holds, at most for `limit`; returns whether it holds. Sleeps while idle.
    pub fn wait(&mut self, limit: Duration, mut until: impl FnMut(&Node) -> bool) -> bool {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let any = self.progress();
            if until(self) {
                return true;
            }
            let left = deadline.map_or(LOOK, |it| it.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            if any {
                continue;
            }
            self.links().for_each(Link::arm);
            if !self.links().any(|link| link.has_next()) {
                self.watch.wait(Some(left.min(LOOK)));
            }
            self.links().for_each(|link| link.disarm());
        }
    }

    fn links(&mut self) -> impl Iterator<Item = &mut Link> {
        let ins = self.ins.values_mut().map(|it| &mut it.link);
        self.outs.values_mut().map(|out| &mut out.link).chain(ins)
    }

    /// Accepts new links. A second link from a node replaces the first.
    fn accept_all(&mut self) {
        while let Some((link, hello)) = self.acceptor.accept() {
            let node = u16::from_ne_bytes([hello[2], hello[3]]);
            if hello[..2] != *b"am" || node >= NODES || self.watch(&link).is_err() {
                continue;
            }
            self.receive(node);
            let settings = ReceiveSettings { buffers: BUFFERS, adapter_buffers: BUFFERS };
            let receiving = ReceiveSide::new(settings);
            self.ins.insert(node, In { link, receiving, count: 0, owed: 0 });
        }
    }

    /// Drops the links of peers that have ended.
    fn check_links(&mut self) {
        for node in 0..NODES {
            if self.outs.get(&node).is_some_and(|out| out.link.is_gone()) {
                self.handle_acknowledgments(node);
                self.drop_link(node);
            }
            if self.ins.get(&node).is_some_and(|it| it.link.is_gone()) {
                self.receive(node);
                self.ins.remove(&node);
            }
        }
    }

    /// Drops the link to a node: its unacknowledged messages fail.
    fn drop_link(&mut self, node: u16) {
        let Some(out) = self.outs.remove(&node) else { return };
        for buffer in out.sent {
            let failed = Err(TransmissionError::NoAcknowledgment);
            if self.sending.complete(buffer, failed).is_ok() {
                self.counts.failed += 1;
            }
        }
        self.reclaim_buffers();
        self.fail_ready(node);
    }

    /// Fails the messages that are ready for a node without a link.
    fn fail_ready(&mut self, node: u16) {
        while let Some((buffer, _)) = self.sending.send(node) {
            let failed = Err(TransmissionError::NoAcknowledgment);
            if self.sending.complete(buffer, failed).is_ok() {
                self.counts.failed += 1;
            }
        }
        self.reclaim_buffers();
    }

    /// Reads completions, which frees their buffers.
    fn reclaim_buffers(&mut self) {
        while self.sending.poll().is_some() {}
    }

    /// Handles the acknowledgments of a node; returns whether there were any.
    fn handle_acknowledgments(&mut self, node: u16) -> bool {
        let mut any = false;
        while let Some(out) = self.outs.get_mut(&node) {
            match out.link.read(|what, _, _| what) {
                Ok(None) => return any,
                Ok(Some(what)) if what == ACKNOWLEDGMENT.get() && self.acknowledged(node) => {}
                Ok(Some(_)) | Err(_) => {
                    self.counts.damaged += 1;
                    self.drop_link(node);
                }
            }
            any = true;
        }
        any
    }

    /// Receives the packets of a node; returns whether there were any.
    fn receive(&mut self, node: u16) -> bool {
        let mut any = false;
        while let Some(way) = self.ins.get_mut(&node) {
            let mut bytes = Vec::new();
            let read = way.link.read(|what, from, length| {
                bytes.resize(length.min(BulkRequest::SIZE), 0);
                // SAFETY: the record has that many bytes.
                unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
                what
            });
            match read {
                Ok(None) => break,
                Ok(Some(what)) if what == PACKET.get() && self.arrive(node, &bytes) => {}
                Ok(Some(_)) | Err(_) => {
                    self.counts.damaged += 1;
                    self.ins.remove(&node);
                }
            }
            any = true;
        }
        self.acknowledge(node, 0);
        any
    }

    /// Handles a packet; false if it is malformed or exceeds the credits.
    fn arrive(&mut self, node: u16, bytes: &[u8]) -> bool {
        let own = self.number;
        let Some(way) = self.ins.get_mut(&node) else { return false };
        let (target, sequence, held) = match Packet::decode(bytes) {
            Ok(Packet::QuickRequest(it)) => {
                (it.target, it.sequence, Held { message: it.message, payload: None })
            }
            Ok(Packet::BulkRequest(it)) => {
                let held = Held { message: it.message, payload: Some(it.payload) };
                (it.target, it.sequence, held)
            }
            _ => return false,
        };
        let expected = Sequence::of(way.count);
        let fits = target.index() == usize::from(own) && sequence == expected;
        if !fits || held.message.initiator.node != node || way.receiving.arrive(held).is_err() {
            return false;
        }
        way.count += 1;
        if let Some(placement) = way.receiving.begin_store() {
            // `begin_store` has just returned this buffer.
            let _ = way.receiving.end_store(placement.buffer);
        }
        self.deliver(node);
        true
    }

    /// Calls the handlers of the messages in the receive queue, and returns the buffers.
    fn deliver(&mut self, node: u16) {
        let Self { ins, endpoints, networks, answers, counts, begun, .. } = self;
        let Some(way) = ins.get_mut(&node) else { return };
        let mut done = 0;
        while let Some((buffer, held)) = way.receiving.poll() {
            let Held { message, payload } = held;
            match endpoints.handler(networks, message) {
                Ok(handler) => {
                    counts.handled += 1;
                    let answer = handler(Delivery { message, payload: payload.as_ref() });
                    *begun += u64::from(answer.is_some());
                    answers.extend(answer.map(|answer| Held {
                        message: Message {
                            initiator: message.target,
                            target: message.initiator,
                            handler: answer.handler,
                            arguments: answer.arguments,
                        },
                        payload: answer.payload,
                    }));
                }
                Err(_) => counts.refused += 1,
            }
            // `poll` has just returned this buffer.
            let _ = way.receiving.give_back(buffer);
            way.receiving.reclaim();
            done += 1;
        }
        self.acknowledge(node, done);
    }

    /// Sends the owed acknowledgments and `more`, as far as the ring has room.
    fn acknowledge(&mut self, node: u16, more: u16) {
        let Some(way) = self.ins.get_mut(&node) else { return };
        way.owed += more;
        let before = way.owed;
        while way.owed > 0 {
            // SAFETY: the body is empty.
            let written = unsafe { way.link.write(ACKNOWLEDGMENT, &[], RawBytes::NONE) };
            if written != Ok(true) {
                break;
            }
            way.owed -= 1;
        }
        if way.owed < before {
            way.link.wake();
        }
    }

    /// Completes the oldest unacknowledged message to a node; false if there is none.
    fn acknowledged(&mut self, node: u16) -> bool {
        let Some(out) = self.outs.get_mut(&node) else { return false };
        let Some(buffer) = out.sent.pop_front() else { return false };
        let taken = out.credits.restore() && self.sending.complete(buffer, Ok(())).is_ok();
        self.counts.delivered += u64::from(taken);
        self.reclaim_buffers();
        taken
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("number", &self.number).field("counts", &self.counts).finish()
    }
}

fn address_of(node: u16) -> String {
    format!("node-{node}")
}

/// Encodes a message as a packet; `None` if the target is not a valid port.
fn encode(held: &Held, count: u64) -> Option<Vec<u8>> {
    let target = Port::new(held.message.target.node.into()).ok()?;
    let (sequence, message) = (Sequence::of(count), held.message);
    Some(match held.payload.clone() {
        None => QuickRequest { target, sequence, message }.encode().to_vec(),
        Some(payload) => BulkRequest { target, sequence, message, payload }.encode(),
    })
}

#[cfg(test)]
mod tests;
