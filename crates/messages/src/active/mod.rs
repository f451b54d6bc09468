//! Active messages between processes (Clint 3.1): endpoints with names and handlers, virtual networks that protect
//! them, and Clint's rings and buffer pools, whose machines are [`weft_protocol::adapter`]'s.
//!
//! A [`Node`] is one process, a port of Clint's switch. It sends packets as the paper lays them out, over a
//! [`Link`] to each node that it talks to. A node sends no more than the target has buffers for: credits come back
//! with acknowledgments. Messages to one node are handled in order and exactly once; one to a node that has ended
//! is told as an error. Nothing here owns a thread: handlers are called by [`Node::progress`].

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

use crate::link::{Door, HELLO, Link};
use crate::meeting::Directory;
use crate::sys::{Errno, Watch};

/// The nodes that there may be.
pub const NODES: u16 = Port::COUNT as u16;
/// Receive buffers for each node, and so its credits.
pub const BUFFERS: u16 = 16;
/// Send buffers of a node.
pub const SEND_BUFFERS: u16 = 64;

/// What a handler may answer: a message to the initiator's endpoint.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The handler there.
    pub handler: HandlerIndex,
    /// Its arguments.
    pub arguments: [u32; Message::ARGUMENTS],
    /// Its payload, if it is a bulk message.
    pub payload: Option<Payload>,
}

/// What is called with a message.
pub type Handler = Box<dyn FnMut(Delivery<'_>) -> Option<Answer> + Send>;

/// Why something cannot be done with active messages.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    /// There are no more nodes.
    #[error("node {0}: accepted are 0 to {last}", last = NODES - 1)]
    Number(u16),
    /// Another process is this node.
    #[error("node {0} is another process already")]
    Taken(u16),
    /// Protection, or no such endpoint or handler.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// All send buffers are in use: progress frees some.
    #[error("all {SEND_BUFFERS} send buffers are in use: call progress")]
    Busy,
    /// The target's process is not there, or has ended.
    #[error("node {0} is not there: a process of this user must be that node and live")]
    Gone(u16),
    /// What the kernel says.
    #[error("the kernel says: {}", std::io::Error::from_raw_os_error(*.0))]
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

/// The way to another node, which this one has opened.
#[derive(Debug)]
struct Out {
    link: Link,
    credits: Credits,
    /// Buffers that were sent and are not acknowledged, in order.
    sent: VecDeque<BufferId>,
    /// Packets so far.
    count: u64,
}

/// The way from another node, which that one has opened.
#[derive(Debug)]
struct In {
    link: Link,
    receiving: ReceiveSide<Held>,
    /// Packets so far.
    count: u64,
    /// Acknowledgments for which the ring had no room.
    owed: u16,
}

/// What has become of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that a handler of their targets was given, or that were refused there.
    pub delivered: u64,
    /// Messages that were not: their target has ended.
    pub failed: u64,
    /// Messages for which a handler was called here.
    pub handled: u64,
    /// Messages that came and were refused here: protection, or no such endpoint or handler.
    pub refused: u64,
    /// Packets that were damaged, whose links were closed.
    pub damaged: u64,
}

/// One process.
pub struct Node {
    number: u16,
    directory: Directory,
    door: Door,
    watch: Watch,
    networks: VirtualNetworks,
    endpoints: Endpoints<Handler>,
    outs: BTreeMap<u16, Out>,
    ins: BTreeMap<u16, In>,
    sending: SendSide<Held>,
    /// What handlers answered and no buffer was free for.
    answers: VecDeque<Held>,
    counts: Counts,
    looked: Instant,
}

/// So often the kernel is asked whether others have ended.
const LOOK: Duration = Duration::from_millis(10);

impl Node {
    /// Becomes a node.
    ///
    /// # Errors
    /// [`ActiveError::Number`], [`ActiveError::Taken`], or what the kernel says.
    pub fn new(directory: Directory, number: u16) -> Result<Node, ActiveError> {
        if number >= NODES {
            return Err(ActiveError::Number(number));
        }
        let door = Door::open(&directory, &door_of(number)).map_err(|error| match error {
            libc::EADDRINUSE => ActiveError::Taken(number),
            error => ActiveError::Kernel(error),
        })?;
        let watch = Watch::new().map_err(ActiveError::Kernel)?;
        watch.add(door.socket(), 0).map_err(ActiveError::Kernel)?;
        let sending = SendSide::new(SendSettings {
            buffers: SEND_BUFFERS,
            adapter_buffers: SEND_BUFFERS,
            targets: NODES,
            prefetch: Prefetch::default(),
            release: Release::Acknowledgment,
        });
        Ok(Node {
            number,
            door,
            watch,
            networks: VirtualNetworks::new(),
            endpoints: Endpoints::new(number),
            outs: BTreeMap::new(),
            ins: BTreeMap::new(),
            sending,
            answers: VecDeque::new(),
            counts: Counts::default(),
            directory,
            looked: Instant::now(),
        })
    }

    /// Opens an endpoint.
    pub fn open(&mut self, endpoint: u16) -> EndpointName {
        self.endpoints.open(endpoint)
    }

    /// Makes an endpoint, of this node or another, a member of a virtual network, as this node sees it. Both nodes
    /// check: each must have been told of both members.
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

    /// What has become of messages so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Messages on their way.
    pub fn outstanding(&self) -> usize {
        self.outs.values().map(|out| out.sent.len()).sum()
    }

    /// Sends a message; with a payload it is a bulk message.
    ///
    /// # Errors
    /// [`ActiveError`]: not sent then.
    pub fn send(&mut self, message: Message, payload: Option<Payload>) -> Result<(), ActiveError> {
        let message = self.endpoints.compose(&self.networks, message)?;
        self.reach(message.target.node)?;
        if !self.post(Held { message, payload }) {
            self.progress();
            return Err(ActiveError::Busy);
        }
        self.pump();
        Ok(())
    }

    /// Has a link to a node.
    fn reach(&mut self, target: u16) -> Result<(), ActiveError> {
        if target >= NODES {
            return Err(ActiveError::Number(target));
        }
        if self.outs.contains_key(&target) {
            return Ok(());
        }
        let mut hello = [0; HELLO];
        hello[..2].copy_from_slice(b"am");
        hello[2..4].copy_from_slice(&self.number.to_ne_bytes());
        let link = Link::knock(&self.directory, &door_of(target), &hello);
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

    /// Puts a message into a buffer and rings the doorbell; false if none is free.
    fn post(&mut self, held: Held) -> bool {
        let target = held.message.target.node;
        let Some(buffer) = self.sending.take_buffer() else { return false };
        // The buffer was just taken, so that each step is allowed.
        let written = self.sending.write(buffer, held);
        written.and_then(|()| self.sending.post(SendRequest { buffer, target })).is_ok()
    }

    /// The adapter's work on what is to be sent.
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
                self.fail(target);
                return;
            };
            if !out.credits.spend() {
                return;
            }
            let Some((buffer, held)) = self.sending.send(target) else { return };
            let Some(bytes) = encode(held, out.count) else { return };
            // SAFETY: the bytes are there. So many packets as there are credits always find room.
            let written = unsafe { out.link.write(PACKET, &[], (bytes.as_ptr(), bytes.len())) };
            out.sent.push_back(buffer);
            out.count += 1;
            out.link.wake();
            if written != Ok(true) {
                self.lose(target);
                return;
            }
        }
    }

    /// Does all there is to do: takes in who has come, receives, calls handlers, sends. Whether anything was.
    pub fn progress(&mut self) -> bool {
        let mut any = false;
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.welcome();
            self.look();
        }
        while let Some(answer) = self.answers.pop_front() {
            if self.reach(answer.message.target.node).is_err() {
                self.counts.failed += 1;
            } else if !self.post(answer.clone()) {
                self.answers.push_front(answer);
                break;
            }
            any = true;
        }
        for node in 0..NODES {
            any |= self.hear(node) | self.receive(node);
        }
        self.pump();
        any
    }

    /// Makes progress until there is nothing to do for so long, or `until` holds; whether it holds. Sleeps while
    /// nothing comes.
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

    /// Takes in who has come. Who comes again is another process, or has given its first way up.
    fn welcome(&mut self) {
        while let Some((link, hello)) = self.door.answer() {
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

    /// Asks the kernel whether others have ended.
    fn look(&mut self) {
        for node in 0..NODES {
            if self.outs.get(&node).is_some_and(|out| out.link.is_gone()) {
                self.hear(node);
                self.lose(node);
            }
            if self.ins.get(&node).is_some_and(|it| it.link.is_gone()) {
                self.receive(node);
                self.ins.remove(&node);
            }
        }
    }

    /// A node has ended, or broken its link: what is on the way to it fails.
    fn lose(&mut self, node: u16) {
        let Some(out) = self.outs.remove(&node) else { return };
        for buffer in out.sent {
            let failed = Err(TransmissionError::NoAcknowledgment);
            if self.sending.complete(buffer, failed).is_ok() {
                self.counts.failed += 1;
            }
        }
        self.free();
        self.fail(node);
    }

    /// What is ready for a node that is not there fails.
    fn fail(&mut self, node: u16) {
        while let Some((buffer, _)) = self.sending.send(node) {
            let failed = Err(TransmissionError::NoAcknowledgment);
            if self.sending.complete(buffer, failed).is_ok() {
                self.counts.failed += 1;
            }
        }
        self.free();
    }

    /// The host reads completions, which frees their buffers.
    fn free(&mut self) {
        while self.sending.poll().is_some() {}
    }

    /// Takes the acknowledgments of a node; whether there were any.
    fn hear(&mut self, node: u16) -> bool {
        let mut any = false;
        while let Some(out) = self.outs.get_mut(&node) {
            match out.link.read(|what, _, _| what) {
                Ok(None) => return any,
                Ok(Some(what)) if what == ACKNOWLEDGMENT.get() && self.acknowledged(node) => {}
                Ok(Some(_)) | Err(_) => {
                    self.counts.damaged += 1;
                    self.lose(node);
                }
            }
            any = true;
        }
        any
    }

    /// Takes what a node has sent; whether anything.
    fn receive(&mut self, node: u16) -> bool {
        let mut any = false;
        while let Some(way) = self.ins.get_mut(&node) {
            let mut bytes = Vec::new();
            let read = way.link.read(|what, from, length| {
                bytes.resize(length.min(BulkRequest::SIZE), 0);
                // SAFETY: the record has so many bytes.
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

    /// A packet is here; false if it is damaged, or one that no buffer was there for.
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
            // The copy was just begun.
            let _ = way.receiving.end_store(placement.buffer);
        }
        self.deliver(node);
        true
    }

    /// Calls the handlers of what is in the receive queue, and gives the buffers back.
    fn deliver(&mut self, node: u16) {
        let Self { ins, endpoints, networks, answers, counts, .. } = self;
        let Some(way) = ins.get_mut(&node) else { return };
        let mut done = 0;
        while let Some((buffer, held)) = way.receiving.poll() {
            let Held { message, payload } = held;
            match endpoints.handler(networks, message) {
                Ok(handler) => {
                    counts.handled += 1;
                    let answer = handler(Delivery { message, payload: payload.as_ref() });
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
            // It was just polled.
            let _ = way.receiving.give_back(buffer);
            way.receiving.reclaim();
            done += 1;
        }
        self.acknowledge(node, done);
    }

    /// Acknowledges so many messages more, as far as there is room.
    fn acknowledge(&mut self, node: u16, more: u16) {
        let Some(way) = self.ins.get_mut(&node) else { return };
        way.owed += more;
        let before = way.owed;
        while way.owed > 0 {
            let nothing: (*const u8, usize) = ([].as_ptr(), 0);
            // SAFETY: the body is empty.
            let written = unsafe { way.link.write(ACKNOWLEDGMENT, &[], nothing) };
            if written != Ok(true) {
                break;
            }
            way.owed -= 1;
        }
        if way.owed < before {
            way.link.wake();
        }
    }

    /// The oldest message to a node is acknowledged; false if none was sent.
    fn acknowledged(&mut self, node: u16) -> bool {
        let Some(out) = self.outs.get_mut(&node) else { return false };
        let Some(buffer) = out.sent.pop_front() else { return false };
        let taken = out.credits.restore() && self.sending.complete(buffer, Ok(())).is_ok();
        self.counts.delivered += u64::from(taken);
        self.free();
        taken
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("number", &self.number).field("counts", &self.counts).finish()
    }
}

fn door_of(node: u16) -> String {
    format!("node-{node}")
}

/// A message as it goes out; `None` for a target that no port has.
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
