//! One virtual interface: its state machine, its link, and the buffers of its descriptors.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use weft_protocol::vi::{
    Arrival, Completion, Descriptor, Endpoint, EndpointState, Fault, MemoryHandle, Operation,
    Outcome, PostError, ProtectionTag, Registry, Reliability, RemoteAddress, Reply, Transfer,
};

use super::Attributes;
use crate::link::{HELLO, Link};
use crate::parts::RawBytes;

/// The most bytes of a transfer.
pub const LONGEST_TRANSFER: u64 = 16 * 1024;

/// A buffer in registered memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its handle and first byte.
    pub at: RemoteAddress,
    /// Its length in bytes.
    pub length: u64,
}

/// Receives completions with the number of bytes received; returns false if the completion queue is full.
pub type Tell<'a> = &'a mut dyn FnMut(Completion<u64>, u64) -> bool;

const DATA: NonZeroU32 = NonZeroU32::MIN;
const ACCEPTED: NonZeroU32 = DATA.saturating_add(1);
const BREAK: NonZeroU32 = DATA.saturating_add(2);
const WELCOME: NonZeroU32 = DATA.saturating_add(3);
const REFUSED: NonZeroU32 = DATA.saturating_add(4);

/// The hello of a connection request.
pub struct Hello {
    pub reliability: Reliability,
}

const LEVELS: [Reliability; 3] = [
    Reliability::UnreliableDelivery,
    Reliability::ReliableDelivery,
    Reliability::ReliableReception,
];

impl Hello {
    pub fn to_bytes(&self) -> [u8; HELLO] {
        let level = LEVELS.iter().position(|it| *it == self.reliability).unwrap_or(0);
        let mut bytes = [0; HELLO];
        bytes[..2].copy_from_slice(b"vi");
        bytes[2] = level as u8;
        bytes
    }

    pub fn from_bytes(bytes: &[u8; HELLO]) -> Option<Self> {
        let level = LEVELS.get(usize::from(bytes[2]));
        level.filter(|_| bytes[..2] == *b"vi").map(|it| Self { reliability: *it })
    }
}

/// The header of a transfer.
const HEAD: usize = 32;

fn head(transfer: &Transfer) -> [u8; HEAD] {
    let (kind, to) = match transfer.operation {
        Operation::Send => (0, None),
        Operation::RdmaWrite { to, immediate: false } => (1, Some(to)),
        Operation::RdmaWrite { to, immediate: true } => (2, Some(to)),
    };
    let mut bytes = [0; HEAD];
    bytes[..8].copy_from_slice(&transfer.sequence.to_ne_bytes());
    bytes[8..12].copy_from_slice(&u32::to_ne_bytes(kind));
    if let Some(to) = to {
        bytes[12..16].copy_from_slice(&to.handle.0.to_ne_bytes());
        bytes[16..24].copy_from_slice(&to.address.to_ne_bytes());
    }
    bytes[24..].copy_from_slice(&transfer.length.to_ne_bytes());
    bytes
}

/// Parses a header; `None` if it is invalid or names another length.
fn transfer(bytes: &[u8; HEAD], length: u64) -> Option<Transfer> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    let (kind, handle) = (word(8) as u32, (word(8) >> 32) as u32);
    let to = RemoteAddress { handle: MemoryHandle(handle), address: word(16) };
    let operation = match kind {
        0 => Operation::Send,
        1 | 2 => Operation::RdmaWrite { to, immediate: kind == 2 },
        _ => return None,
    };
    (word(24) == length).then_some(Transfer { sequence: word(0), operation, length })
}

/// A virtual interface with its connection.
#[derive(Debug)]
pub struct Connection {
    endpoint: Endpoint<u64>,
    tag: ProtectionTag,
    link: Link,
    /// The buffers of the posted descriptors, in the order of each queue.
    sends: VecDeque<Place>,
    receives: VecDeque<Place>,
    /// A transfer for which the ring had no room.
    held: Option<(Transfer, Place)>,
    /// Replies that are still to be sent.
    owed: VecDeque<Reply>,
}

impl Connection {
    /// An interface on a link.
    pub fn new(link: Link, attributes: Attributes) -> Self {
        let Attributes { reliability, tag, depths } = attributes;
        Self {
            endpoint: Endpoint::new(reliability, tag, depths),
            tag,
            link,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            held: None,
            owed: VecDeque::new(),
        }
    }

    /// The protection tag of the memory that its descriptors may name.
    pub const fn tag(&self) -> ProtectionTag {
        self.tag
    }

    /// Enters the connected state.
    pub fn connected(&mut self, peer: u32) {
        // It is new, so that it has no connection.
        let _ = self.endpoint.connect(peer);
    }

    fn say(&mut self, what: NonZeroU32) {
        // SAFETY: the body is empty. A new ring has room.
        let _ = unsafe { self.link.write(what, &[], RawBytes::NONE) };
        self.link.wake();
    }

    /// Accepts the connection request.
    pub fn accept(&mut self) {
        self.say(WELCOME);
    }

    /// Rejects the connection request.
    pub fn refuse(&mut self) {
        self.say(REFUSED);
    }

    /// Whether the peer accepted the connection request; `None` if it has not answered yet.
    pub fn answer(&mut self) -> Option<bool> {
        match self.link.read(|what, _, _| what) {
            Ok(None) if self.link.is_gone() && !self.link.has_next() => Some(false),
            Ok(None) => None,
            Ok(Some(what)) => Some(what == WELCOME.get()),
            Err(_) => Some(false),
        }
    }

    /// Descriptors to poll.
    pub fn watched(&self) -> impl Iterator<Item = &OwnedFd> {
        self.link.watched()
    }

    /// Posts a send; its memory was checked.
    pub fn post_send(
        &mut self,
        cookie: u64,
        place: Place,
        operation: Operation,
    ) -> Result<(), PostError> {
        self.endpoint.post_send(Descriptor { cookie, operation, length: place.length })?;
        self.sends.push_back(place);
        Ok(())
    }

    /// Posts a receive; its memory was checked.
    pub fn post_receive(&mut self, cookie: u64, place: Place) -> Result<(), PostError> {
        self.endpoint.post_receive(cookie, place.length)?;
        self.receives.push_back(place);
        Ok(())
    }

    /// Why the connection is broken, if it is.
    pub fn fault(&self) -> Option<Fault> {
        match self.endpoint.state() {
            EndpointState::Broken(fault) => Some(fault),
            _ => None,
        }
    }

    /// Sends and receives; returns whether anything was done.
    pub fn work(&mut self, memory: &Registry, tell: Tell<'_>) -> bool {
        let received = self.receive_all(memory, tell);
        let answered = self.answer_all(tell);
        let sent = self.send_all(memory, tell);
        if sent || answered {
            self.link.wake();
        }
        received || sent || answered
    }

    fn tell_all(&mut self, completions: Vec<Completion<u64>>, tell: Tell<'_>) {
        // All descriptors have completed.
        self.sends.clear();
        self.receives.clear();
        self.held = None;
        for completion in completions {
            tell(completion, 0);
        }
    }

    fn break_off(&mut self, fault: Fault, tell: Tell<'_>) {
        if matches!(self.endpoint.state(), EndpointState::Connected(_)) {
            let completions = self.endpoint.break_off(fault);
            self.tell_all(completions, tell);
        }
    }

    /// Reports a completion. If the completion queue is full, the connection breaks.
    fn tell(&mut self, completion: Completion<u64>, length: u64, tell: Tell<'_>) {
        if !tell(completion, length) {
            self.owed.push_back(Reply::Break(Fault::CompletionQueueFull));
            self.break_off(Fault::CompletionQueueFull, tell);
        }
    }

    fn send_all(&mut self, memory: &Registry, tell: Tell<'_>) -> bool {
        let mut any = false;
        loop {
            if self.held.is_none() {
                let Some(transfer) = self.endpoint.fetch() else { return any };
                let Some(place) = self.sends.pop_front() else { return any };
                self.held = Some((transfer, place));
            }
            let Some((transfer, place)) = self.held else { return any };
            if let Err(fault) = memory.check_local(self.tag, place.at, place.length) {
                self.owed.push_back(Reply::Break(fault));
                self.break_off(fault, tell);
                return true;
            }
            let length = transfer.length as usize;
            let body = RawBytes { first: place.at.address as *const u8, length };
            // SAFETY: the memory is registered, and was so when it was posted.
            match unsafe { self.link.write(DATA, &head(&transfer), body) } {
                Ok(true) => {}
                Ok(false) => return any,
                Err(_) => {
                    self.break_off(Fault::Damaged, tell);
                    return true;
                }
            }
            self.held = None;
            any = true;
            if let Some(completion) = self.endpoint.transmitted() {
                self.tell(completion, transfer.length, tell);
            }
        }
    }

    fn answer_all(&mut self, tell: Tell<'_>) -> bool {
        let mut any = false;
        while let Some(reply) = self.owed.front() {
            let what = match reply {
                Reply::None => {
                    self.owed.pop_front();
                    continue;
                }
                Reply::Accept => ACCEPTED,
                Reply::Break(_) => BREAK,
            };
            let fault = if let Reply::Break(fault) = reply { to_words(*fault) } else { [0; 3] };
            let bytes = fault.map(u64::to_ne_bytes).concat();
            // SAFETY: the body is empty.
            let written = unsafe { self.link.write(what, &bytes, RawBytes::NONE) };
            match written {
                Ok(true) => drop(self.owed.pop_front()),
                Ok(false) => return any,
                Err(_) => {
                    self.owed.clear();
                    self.break_off(Fault::Damaged, tell);
                    return true;
                }
            }
            any = true;
        }
        any
    }

    fn receive_all(&mut self, memory: &Registry, tell: Tell<'_>) -> bool {
        let mut any = false;
        // Each record is copied out of shared memory before it is validated.
        let mut bytes = Vec::new();
        loop {
            let read = self.link.read(|what, from, length| {
                bytes.resize(length.min(HEAD + LONGEST_TRANSFER as usize), 0);
                // SAFETY: the record has that many bytes.
                unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
                what
            });
            let what = match read {
                Ok(None) => return any,
                Ok(Some(what)) => NonZeroU32::new(what),
                Err(_) => {
                    self.break_off(Fault::Damaged, tell);
                    return true;
                }
            };
            any = true;
            match what {
                Some(DATA) => self.arrive(&bytes, memory, tell),
                Some(ACCEPTED) => {
                    if let Some(completion) = self.endpoint.accepted() {
                        self.tell(completion, 0, tell);
                    }
                }
                Some(BREAK) => {
                    let words = [0, 8, 16].map(|at| {
                        let word = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
                        word.map_or(0, u64::from_ne_bytes)
                    });
                    self.break_off(from_words(words), tell);
                }
                _ => {}
            }
        }
    }

    /// Handles an arrived transfer.
    fn arrive(&mut self, bytes: &[u8], memory: &Registry, tell: Tell<'_>) {
        let damaged = Transfer { sequence: 0, operation: Operation::Send, length: 0 };
        let read = bytes.split_first_chunk::<HEAD>();
        let read = read.and_then(|(head, body)| Some((transfer(head, body.len() as u64)?, body)));
        let (transfer, body) = read.unwrap_or((damaged, &[]));
        // The buffer was registered when it was posted, and may have been deregistered since.
        let place = self.receives.front().copied();
        let takes = transfer.operation.takes_descriptor();
        if let Some(place) = place.filter(|_| takes)
            && let Err(fault) = memory.check_local(self.tag, place.at, place.length)
        {
            self.owed.push_back(Reply::Break(fault));
            self.break_off(fault, tell);
            return;
        }
        let arrival = Arrival { transfer, is_intact: read.is_some() };
        let reception = self.endpoint.arrive(arrival, memory);
        self.owed.push_back(reception.reply);
        let to = match transfer.operation {
            Operation::Send => place.map(|place| place.at.address),
            Operation::RdmaWrite { to, .. } => Some(to.address),
        };
        // SAFETY: the state machine has checked that the bytes fit a registered region that is writable or posted.
        let copy = |to: Option<u64>| unsafe {
            if let Some(to) = to {
                std::ptr::copy_nonoverlapping(body.as_ptr(), to as *mut u8, body.len());
            }
        };
        match reception.outcome {
            Outcome::Received(completion) => {
                copy(to);
                self.receives.pop_front();
                self.tell(completion, transfer.length, tell);
            }
            Outcome::Written => copy(to),
            Outcome::Broken(_, completions) => self.tell_all(completions, tell),
            Outcome::Dropped(_) | Outcome::Ignored => {}
        }
    }

    /// Breaks the connection if the peer has closed or ended and everything that it sent was received.
    pub fn check_peers(&mut self, tell: Tell<'_>) {
        let is_connected = matches!(self.endpoint.state(), EndpointState::Connected(_));
        if is_connected && self.link.is_gone() && !self.link.has_next() {
            self.break_off(Fault::Disconnected, tell);
        }
    }

    /// Whether a record is waiting.
    pub fn has_news(&self) -> bool {
        self.link.has_next()
    }

    /// Asks the peer for wake-ups. The caller checks for records once more before it sleeps.
    pub fn arm(&mut self) {
        self.link.arm();
    }

    /// Asks for no more wake-ups.
    pub fn disarm(&self) {
        self.link.disarm();
    }

    /// Ends the connection; all descriptors complete.
    pub fn end(mut self) -> Vec<Completion<u64>> {
        self.endpoint.disconnect()
    }

    /// Overwrites the shared memory, as a hostile peer may.
    #[cfg(test)]
    pub fn corrupt(&self, word: impl FnMut() -> u64) {
        self.link.corrupt(word);
    }
}

fn to_words(fault: Fault) -> [u64; 3] {
    match fault {
        Fault::NoDescriptor => [1, 0, 0],
        Fault::TooLong { length, room } => [2, length, room],
        Fault::WrongTag { memory, endpoint } => [3, memory.0.into(), endpoint.0.into()],
        Fault::NotRegistered(handle) => [4, handle.0.into(), 0],
        Fault::OutOfRegion { handle, address, length } => {
            [5 | u64::from(handle.0) << 32, address, length]
        }
        Fault::NotWritable(handle) => [6, handle.0.into(), 0],
        Fault::Damaged => [7, 0, 0],
        Fault::Lost { expected, found } => [8, expected, found],
        Fault::CompletionQueueFull => [9, 0, 0],
        Fault::Disconnected => [10, 0, 0],
    }
}

fn from_words([kind, a, b]: [u64; 3]) -> Fault {
    let handle = MemoryHandle(a as u32);
    match kind as u32 {
        1 => Fault::NoDescriptor,
        2 => Fault::TooLong { length: a, room: b },
        3 => Fault::WrongTag { memory: ProtectionTag(a as u32), endpoint: ProtectionTag(b as u32) },
        4 => Fault::NotRegistered(handle),
        5 => {
            let handle = MemoryHandle((kind >> 32) as u32);
            Fault::OutOfRegion { handle, address: a, length: b }
        }
        6 => Fault::NotWritable(handle),
        7 => Fault::Damaged,
        8 => Fault::Lost { expected: a, found: b },
        9 => Fault::CompletionQueueFull,
        _ => Fault::Disconnected,
    }
}
