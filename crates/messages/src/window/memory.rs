//! The shared memory of a window: control words, the log of writes, and a copy of the window's bytes for each node.
//!
//! All members may write anywhere in it. Control words are accessed as atomics and validated, and bytes are only
//! copied.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_protocol::window::{MAX_PAYLOAD, Node};
use weft_protocol::write_log::{Log, OFF_LINE, Places, State, Ticket, Work};

use crate::sys::{self, Errno, Mapping};

/// The most members of a window at a time.
pub const NODES: usize = Node::MOST as usize;
/// The locks of a window.
pub const LOCKS: usize = 16;
/// The most bytes of a window.
pub const MOST_BYTES: u64 = 256 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"weftwind");
const VERSION: u64 = 1;
const PAGE: usize = 4096;
const PLACES: usize = 1024;
const LOG: Log = Log::new(PLACES as u64, NODES);

/// The registration of a member number; all zero if it is free.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Member {
    /// Distinguishes it from earlier members with this number; zero if the number is free.
    pub incarnation: AtomicU64,
    /// Its process.
    pub pid: AtomicU32,
    /// [`TAKES`] and [`WRITES`].
    pub access: AtomicU32,
    /// When its process was started, in clock ticks since boot.
    pub began: AtomicU64,
}

/// Whether a member has mapped the window incoming.
pub const TAKES: u32 = 1;
/// Whether a member has mapped the window outgoing.
pub const WRITES: u32 = 2;

/// The state of moving writes into a node's copy.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Adapter {
    position: AtomicU64,
    worker: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
struct Words {
    magic: AtomicU64,
    version: AtomicU64,
    bytes: AtomicU64,
    incarnations: AtomicU64,
    /// The nodes that receive writes, as a set.
    on_line: AtomicU64,
    members: [Member; NODES],
    tail: Adapter,
    adapters: [Adapter; NODES],
    flags: [InterruptFlag; NODES],
    /// By target and sender: one more than the last conditional write that was not taken.
    refused: [[AtomicU64; NODES]; NODES],
}

/// A slot of the log.
#[derive(Debug)]
#[repr(C, align(64))]
struct Place {
    state: AtomicU64,
    targets: AtomicU64,
    offset: AtomicU64,
    /// The length, and [`CONDITIONAL`].
    length: AtomicU64,
    /// The error count that a conditional write expects.
    errors: AtomicU64,
    payload: [AtomicU64; MAX_PAYLOAD as usize / 8],
}

const CONDITIONAL: u64 = 1 << 32;

/// A write of at most [`MAX_PAYLOAD`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The targets, as a set.
    pub targets: u64,
    /// The offset in each copy.
    pub offset: u64,
    /// The payload.
    pub bytes: &'a [u8],
    /// If set, the write is applied only if the target's error count has this value.
    pub errors: Option<u64>,
}

/// A mapped window.
#[derive(Debug)]
pub struct Shared {
    mapping: Mapping,
    bytes: u64,
}

const fn round(bytes: usize, to: usize) -> usize {
    bytes.div_ceil(to) * to
}

const LOG_AT: usize = round(size_of::<Words>(), PAGE);
/// Where the copies begin.
pub const COPIES_AT: usize = round(LOG_AT + PLACES * size_of::<Place>(), PAGE);
/// Behind a window's bytes, in each copy: the locks' words and the barrier's.
const CONTROL: usize = (LOCKS + 1) * NODES * size_of::<u32>();

const fn stride(bytes: u64) -> usize {
    round(round(bytes as usize, 64) + CONTROL, PAGE)
}

impl Shared {
    /// Creates the memory of a new window; also returns its descriptor.
    pub fn create(bytes: u64) -> Result<(Self, OwnedFd), Errno> {
        let length = COPIES_AT + NODES * stride(bytes);
        let (mapping, file) = Mapping::create(c"weft-window", length)?;
        let shared = Self { mapping, bytes };
        LOG.open(&shared);
        let words = shared.words();
        words.bytes.store(bytes, Ordering::Relaxed);
        words.version.store(VERSION, Ordering::Relaxed);
        words.magic.store(MAGIC, Ordering::Release);
        Ok((shared, file))
    }

    /// Maps and validates a window that another process created.
    pub fn join(file: &OwnedFd) -> Result<Self, Errno> {
        let most = COPIES_AT + NODES * stride(MOST_BYTES);
        let mapping = Mapping::join(file, COPIES_AT + NODES * stride(1), most)?;
        let mut shared = Self { mapping, bytes: 0 };
        let words = shared.words();
        let understood = words.magic.load(Ordering::Acquire) == MAGIC
            && words.version.load(Ordering::Relaxed) == VERSION;
        let bytes = words.bytes.load(Ordering::Relaxed);
        let fits = (1..=MOST_BYTES).contains(&bytes)
            && shared.mapping.length() == COPIES_AT + NODES * stride(bytes);
        if !understood || !fits {
            return Err(libc::EPROTO);
        }
        shared.bytes = bytes;
        Ok(shared)
    }

    fn words(&self) -> &Words {
        // SAFETY: the mapping begins with these words, is aligned to a page, and holds only atomics there.
        unsafe { &*self.mapping.memory().cast::<Words>() }
    }

    fn record(&self, ticket: Ticket) -> &Place {
        // SAFETY: the index is below `PLACES`, and the log holds only atomics.
        unsafe { &*self.mapping.memory().add(LOG_AT).cast::<Place>().add(LOG.index(ticket)) }
    }

    /// The window's bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the copy of a node begins.
    pub fn copy(&self, node: Node) -> *mut u8 {
        let at = COPIES_AT + usize::from(node.0) % NODES * stride(self.bytes);
        // SAFETY: the copies lie inside the mapping.
        unsafe { self.mapping.memory().add(at) }
    }

    /// The offset of a node's word of a lock; of the barrier if `lock` is [`LOCKS`] or more.
    pub const fn word_of(&self, lock: usize, node: Node) -> u64 {
        let lock = if lock < LOCKS { lock } else { LOCKS };
        let index = lock * NODES + node.0 as usize;
        (round(self.bytes as usize, 64) + index * size_of::<u32>()) as u64
    }

    /// A word in the copy of a node.
    pub fn word(&self, copy: Node, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.load(copy, offset, &mut bytes);
        u32::from_ne_bytes(bytes)
    }

    /// The registration of a member.
    pub fn member(&self, node: Node) -> &Member {
        &self.words().members[usize::from(node.0) % NODES]
    }

    /// A new incarnation number.
    pub fn next_incarnation(&self) -> u64 {
        self.words().incarnations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of damaged and missing packets at a node.
    pub fn errors(&self, node: Node) -> u64 {
        self.words().adapters[usize::from(node.0) % NODES].errors.load(Ordering::Acquire)
    }

    /// The flag with which a node asks for wake-ups.
    pub fn flag(&self, node: Node) -> &InterruptFlag {
        &self.words().flags[usize::from(node.0) % NODES]
    }

    /// Whether the target refused this conditional write of the sender.
    pub fn was_refused(&self, target: Node, sender: Node, ticket: Ticket) -> bool {
        let word = &self.words().refused[usize::from(target.0)][usize::from(sender.0)];
        word.load(Ordering::Acquire) == ticket + 1
    }

    /// The log.
    pub const fn log(&self) -> Log {
        LOG
    }

    /// The log position up to which a node's copy is current.
    pub fn position_of(&self, node: Node) -> Ticket {
        self.position(node.0.into()).load(Ordering::Acquire)
    }

    /// Whether a node receives writes.
    pub fn is_on_line(&self, node: Node) -> bool {
        self.position_of(node) != OFF_LINE
    }

    /// The nodes that receive writes, as a set.
    pub fn on_line(&self) -> u64 {
        self.words().on_line.load(Ordering::Acquire) & (u64::MAX >> (64 - NODES))
    }

    /// Fills a claimed slot.
    pub fn fill(&self, ticket: Ticket, write: &Write<'_>) {
        let place = self.record(ticket);
        let conditional = write.errors.map_or(0, |_| CONDITIONAL);
        place.targets.store(write.targets, Ordering::Relaxed);
        place.offset.store(write.offset, Ordering::Relaxed);
        place.length.store(write.bytes.len() as u64 | conditional, Ordering::Relaxed);
        place.errors.store(write.errors.unwrap_or(0), Ordering::Relaxed);
        let (words, rest) = write.bytes.as_chunks::<8>();
        for (to, from) in place.payload.iter().zip(words) {
            to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        if let Some(to) = place.payload.get(words.len()).filter(|_| !rest.is_empty()) {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Applies one slot of the log to the copy of a node.
    fn take(&self, node: Node, ticket: Ticket, state: State) {
        let words = self.words();
        let errors = &words.adapters[usize::from(node.0)].errors;
        let State::Published(sender) = state else {
            errors.fetch_add(1, Ordering::AcqRel);
            return;
        };
        let place = self.record(ticket);
        if place.targets.load(Ordering::Relaxed) & node.bit() == 0 {
            return;
        }
        let (offset, length) =
            (place.offset.load(Ordering::Relaxed), place.length.load(Ordering::Relaxed));
        let (is_conditional, length) = (length & CONDITIONAL != 0, length & !CONDITIONAL);
        let room = (stride(self.bytes) as u64).checked_sub(length);
        if length > MAX_PAYLOAD || room.is_none_or(|last| offset > last) {
            errors.fetch_add(1, Ordering::AcqRel);
            return;
        }
        if is_conditional && place.errors.load(Ordering::Relaxed) != errors.load(Ordering::Relaxed)
        {
            let word = &words.refused[usize::from(node.0)][usize::from(sender) % NODES];
            word.store(ticket + 1, Ordering::Release);
            return;
        }
        let (whole, rest) = (length as usize / 8, length as usize % 8);
        if offset.is_multiple_of(8) {
            let to = self.copy(node).wrapping_add(offset as usize).cast::<AtomicU64>();
            for (index, from) in place.payload[..whole].iter().enumerate() {
                // SAFETY: the bytes lie inside the copy, and the place is aligned.
                unsafe { &*to.add(index) }.store(from.load(Ordering::Relaxed), Ordering::Release);
            }
            if rest > 0 {
                let last = place.payload[whole].load(Ordering::Relaxed).to_ne_bytes();
                self.store(node, offset + 8 * whole as u64, &last[..rest]);
            }
            return;
        }
        let mut bytes = [0; MAX_PAYLOAD as usize];
        for (to, from) in bytes.chunks_mut(8).zip(&place.payload[..length.div_ceil(8) as usize]) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
        }
        self.store(node, offset, &bytes[..length as usize]);
    }

    /// Applies the log to the copy of a node, and wakes the node if it sleeps.
    pub fn push(&self, node: Node, who: Node) -> Work {
        let before = self.position_of(node);
        let take = |ticket, state| self.take(node, ticket, state);
        let work = LOG.work(self, node.0.into(), who.0, take);
        if self.position_of(node) != before {
            self.wake(node);
        }
        work
    }

    /// Continues the work on a node's copy that a dead member had begun.
    pub fn take_over(&self, node: Node, dead: Node, who: Node) {
        let index = usize::from(node.0);
        if LOG.enter(self, index, Log::mark(dead.0), who.0).is_ok() {
            LOG.catch_up(self, index, |ticket, state| self.take(node, ticket, state));
            LOG.leave(self, index);
            self.push(node, who);
            self.wake(node);
        }
    }

    /// Wakes a node that sleeps.
    pub fn wake(&self, node: Node) {
        let flag = self.flag(node);
        if flag.stimulate().includes(Sleep::OnWord) {
            sys::wake(flag.word());
        }
    }

    /// Runs `then` while nobody applies writes to the copy of a node; `None` if another member is doing so.
    pub fn exclusively<T>(
        &self,
        node: Node,
        who: Node,
        then: impl FnOnce(&Self) -> T,
    ) -> Option<T> {
        let index = usize::from(node.0);
        LOG.enter(self, index, 0, who.0).ok()?;
        LOG.catch_up(self, index, |ticket, state| self.take(node, ticket, state));
        let result = then(self);
        LOG.leave(self, index);
        self.push(node, who);
        Some(result)
    }

    /// Brings a node on line with the bytes and the log position of another; false if it has to be tried again. To be
    /// called exclusively on the other's copy.
    pub fn join_at(&self, node: Node, other: Node) -> bool {
        let length = stride(self.bytes);
        // SAFETY: both copies lie inside the mapping and do not overlap; nobody writes either.
        unsafe { std::ptr::copy_nonoverlapping(self.copy(other), self.copy(node), length) };
        let at = self.position_of(other);
        self.position(node.0.into()).store(at, Ordering::Release);
        // Later claims see the new position; a writer that has read the positions before may still claim a slot, but
        // none that would overtake it.
        let tail = Places::tail(self).fetch_add(0, Ordering::AcqRel);
        if tail - at.min(tail) < PLACES as u64 / 2 {
            self.words().on_line.fetch_or(node.bit(), Ordering::AcqRel);
            return true;
        }
        self.leave_line(node);
        false
    }

    /// Brings the first node on line, with zeroed bytes.
    pub fn join_first(&self, node: Node) {
        let tail = Places::tail(self).load(Ordering::Acquire);
        self.position(node.0.into()).store(tail, Ordering::Release);
        self.words().on_line.fetch_or(node.bit(), Ordering::AcqRel);
    }

    /// Takes a node off line. To be called exclusively on its copy.
    pub fn leave_line(&self, node: Node) {
        self.words().on_line.fetch_and(!node.bit(), Ordering::AcqRel);
        self.position(node.0.into()).store(OFF_LINE, Ordering::Release);
    }

    /// Voids the slots that a dead member had claimed.
    pub fn abandon(&self, dead: Node) -> u64 {
        let come =
            (0..NODES as u8).map(|node| self.position_of(Node(node))).min().unwrap_or(OFF_LINE);
        let first = come.min(Places::tail(self).load(Ordering::Acquire));
        LOG.give_up(self, first, dead.0)
    }

    /// Stores bytes into the copy of a node, in order, each aligned word atomically.
    fn store(&self, node: Node, offset: u64, mut bytes: &[u8]) {
        let mut to = self.copy(node).wrapping_add(offset as usize);
        while !bytes.is_empty() {
            let size = piece(to as usize, bytes.len());
            let (now, rest) = bytes.split_at(size);
            // SAFETY: the caller has checked that the bytes lie inside the copy; the address is aligned.
            unsafe {
                match *now {
                    [a, b, c, d, e, f, g, h] => {
                        let word = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                        (*to.cast::<AtomicU64>()).store(word, Ordering::Release);
                    }
                    [a, b, c, d] => {
                        let word = u32::from_ne_bytes([a, b, c, d]);
                        (*to.cast::<AtomicU32>()).store(word, Ordering::Release);
                    }
                    _ => (*to.cast::<AtomicU8>()).store(now[0], Ordering::Release),
                }
            }
            to = to.wrapping_add(size);
            bytes = rest;
        }
    }

    /// Loads bytes from the copy of a node, in order, each aligned word atomically. They must lie inside it.
    pub fn load(&self, node: Node, offset: u64, mut bytes: &mut [u8]) {
        let mut from = self.copy(node).wrapping_add(offset as usize);
        while !bytes.is_empty() {
            let size = piece(from as usize, bytes.len());
            let (now, rest) = bytes.split_at_mut(size);
            // SAFETY: as in `store`.
            unsafe {
                match size {
                    8 => {
                        let word = (*from.cast::<AtomicU64>()).load(Ordering::Acquire);
                        now.copy_from_slice(&word.to_ne_bytes());
                    }
                    4 => {
                        let word = (*from.cast::<AtomicU32>()).load(Ordering::Acquire);
                        now.copy_from_slice(&word.to_ne_bytes());
                    }
                    _ => now[0] = (*from.cast::<AtomicU8>()).load(Ordering::Acquire),
                }
            }
            from = from.wrapping_add(size);
            bytes = rest;
        }
    }
}

/// The size of the largest aligned word at an address.
const fn piece(address: usize, left: usize) -> usize {
    if address.is_multiple_of(8) && left >= 8 {
        8
    } else if address.is_multiple_of(4) && left >= 4 {
        4
    } else {
        1
    }
}

impl Places for Shared {
    fn tail(&self) -> &AtomicU64 {
        &self.words().tail.position
    }

    fn place(&self, index: usize) -> &AtomicU64 {
        &self.record(index as Ticket).state
    }

    fn position(&self, node: usize) -> &AtomicU64 {
        &self.words().adapters[node % NODES].position
    }

    fn worker(&self, node: usize) -> &AtomicU64 {
        &self.words().adapters[node % NODES].worker
    }
}
