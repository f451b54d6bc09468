//! The state of a domain, under one lock: endpoints, completion queues, counters, address vectors.

mod quiet;
mod short;
mod waitable;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::abi::{
    FI_ADDR_NOTAVAIL, FI_ATOMIC, FI_ETRUNC, FI_MSG, FI_READ, FI_RECV, FI_REMOTE_CQ_DATA,
    FI_REMOTE_WRITE, FI_RMA, FI_SEND, FI_TAGGED, FI_WRITE, fi_cq_tagged_entry,
};
use super::mr::Regions;
use super::record::Record;
use crate::channel::{Envelope, Operation, Range};
use crate::endpoint::{Endpoint, Event, Events, Received, Touch};
use crate::peers::{PeerId, Peers};
use crate::sys::Errno;
use quiet::Quiet;
pub use short::{Posted, Short};
pub use waitable::{Waitable, Waiter};

/// What the objects of a domain share.
#[derive(Debug)]
pub struct Shared {
    state: UnsafeCell<State>,
    lock: Option<Mutex<()>>,
}

// SAFETY: one thread at a time accesses the state, see `Shared::lock`. Its pointers are those of programs, which
// keep them valid for all threads.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Exclusive access to the state.
pub struct Locked<'a> {
    state: &'a mut State,
    _lock: Option<MutexGuard<'a, ()>>,
}

impl std::ops::Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state
    }
}

impl Shared {
    /// The state of a new domain.
    ///
    /// # Safety
    ///
    /// If `is_serial`, the program must serialise all access to the domain (`FI_THREAD_DOMAIN`).
    pub unsafe fn new(is_serial: bool) -> Self {
        Self { state: UnsafeCell::default(), lock: (!is_serial).then(Mutex::default) }
    }

    /// Exclusive access to the state. No function of this module locks it twice.
    #[inline(always)]
    pub fn lock(&self) -> Locked<'_> {
        // A panic aborts at the C boundary, so a poisoned state is never seen.
        let lock = self.lock.as_ref();
        let _lock = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: this thread holds the lock, or the program has promised to serialise access.
        Locked { state: unsafe { &mut *self.state.get() }, _lock }
    }

    /// The state where no lock is needed to access it.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the program serialises access, as for `Shared::lock`")]
    pub fn serial(&self) -> Option<&mut State> {
        // SAFETY: the program has promised to serialise access. No caller holds the state meanwhile.
        self.lock.is_none().then(|| unsafe { &mut *self.state.get() })
    }
}

/// Objects by number. Numbers are not reused.
#[derive(Debug)]
pub struct Table<T>(Vec<Option<T>>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// Adds an object; its number.
    pub fn add(&mut self, object: T) -> usize {
        self.0.push(Some(object));
        self.0.len() - 1
    }

    /// The object of a number.
    #[inline(always)]
    pub fn get(&mut self, number: usize) -> Result<&mut T, Errno> {
        self.0.get_mut(number).and_then(Option::as_mut).ok_or(libc::EINVAL)
    }

    /// Removes an object.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        self.0.get_mut(number).and_then(Option::take)
    }

    /// All objects.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// All slots, for loops on the fast path.
    #[inline(always)]
    pub fn slots(&mut self) -> &mut [Option<T>] {
        &mut self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Where the completions of one direction of an endpoint go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding {
    /// The completion queue.
    pub queue: Option<usize>,
    /// Whether only operations with `FI_COMPLETION` are reported.
    pub is_selective: bool,
    /// The counter that counts them.
    pub counter: Option<usize>,
    /// The default flags of operations.
    pub flags: u64,
}

/// Where all completions of an endpoint go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bindings {
    /// For what it sends.
    pub sends: Binding,
    /// For what it receives.
    pub receives: Binding,
    /// The counters of its reads and of its writes of remote memory.
    pub reads: Option<usize>,
    /// See `reads`.
    pub writes: Option<usize>,
}

/// An endpoint of a domain. Events go where its bindings say while it is at work, hence the two parts.
#[derive(Debug)]
pub struct Entry {
    /// The endpoint and what it is bound to.
    pub bound: Bound,
    /// Where its completions go.
    pub bindings: Bindings,
}

/// An endpoint and what it is bound to.
#[derive(Debug)]
pub struct Bound {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its address vector.
    pub vector: Option<usize>,
    /// Whether it is one end of a connection, rather than connectionless.
    pub is_connected_type: bool,
    /// The other end of its connection.
    pub peer: Option<PeerId>,
    /// Whether receives may name a source (`FI_DIRECTED_RECV`).
    pub is_directed: bool,
    /// Whether `fi_enable` was called.
    pub is_enabled: bool,
    /// Whether its peers were asked for wake-ups.
    pub is_armed: bool,
}

impl Bound {
    /// The peer of an address; of an endpoint with connections, its other end, whatever the address.
    #[inline(always)]
    pub fn destination(&self, vector: Option<&Vector>, address: u64) -> Result<PeerId, Errno> {
        if self.is_connected_type {
            return self.peer.ok_or(libc::ENOTCONN);
        }
        vector.ok_or(libc::EINVAL)?.peer(address)
    }
}

/// Addresses that programs use for endpoints.
#[derive(Debug, Default)]
pub struct Vector {
    /// By address.
    pub peers: Vec<Option<PeerId>>,
    /// The lowest address of each peer.
    addresses: Vec<u64>,
}

impl Vector {
    /// Gives a peer an address.
    pub fn insert(&mut self, peer: PeerId) -> u64 {
        let address = self.peers.len() as u64;
        self.peers.push(Some(peer));
        if self.addresses.len() <= peer.index() {
            self.addresses.resize(peer.index() + 1, FI_ADDR_NOTAVAIL);
        }
        let lowest = &mut self.addresses[peer.index()];
        *lowest = (*lowest).min(address);
        address
    }

    /// Removes an address; returns whether it existed.
    pub fn remove(&mut self, address: u64) -> bool {
        let index = usize::try_from(address).unwrap_or(usize::MAX);
        let Some(peer) = self.peers.get_mut(index).and_then(Option::take) else { return false };
        let left = self.peers.iter().position(|it| *it == Some(peer));
        self.addresses[peer.index()] = left.map_or(FI_ADDR_NOTAVAIL, |index| index as u64);
        true
    }

    /// The peer of an address.
    #[inline(always)]
    pub fn peer(&self, address: u64) -> Result<PeerId, Errno> {
        let index = usize::try_from(address).unwrap_or(usize::MAX);
        self.peers.get(index).copied().flatten().ok_or(libc::EINVAL)
    }

    #[inline(always)]
    fn address(&self, peer: PeerId) -> u64 {
        self.addresses.get(peer.index()).copied().unwrap_or(FI_ADDR_NOTAVAIL)
    }
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub context: usize,
    pub flags: u64,
    pub length: usize,
    pub buffer: usize,
    pub data: u64,
    pub tag: u64,
    pub source: u64,
    /// What went wrong, and how many bytes were cut off.
    pub error: Option<(Errno, usize)>,
}

impl Completion {
    /// In the longest format; the shorter formats are prefixes of it.
    pub fn entry(&self) -> fi_cq_tagged_entry {
        fi_cq_tagged_entry {
            op_context: std::ptr::with_exposed_provenance_mut(self.context),
            flags: self.flags,
            len: self.length,
            buf: std::ptr::with_exposed_provenance_mut(self.buffer),
            data: self.data,
            tag: self.tag,
        }
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct Queue {
    /// Unread completions.
    pub entries: VecDeque<Completion>,
    /// Its wait object.
    pub waiter: Waiter,
    /// Where its next poll has to look, if its last one found nothing.
    quiet: Quiet,
}

impl Queue {
    /// An empty queue.
    pub fn new(waiter: Waiter) -> Self {
        Self { entries: VecDeque::new(), waiter, quiet: Quiet::default() }
    }
}

/// A counter.
#[derive(Debug)]
pub struct Counter {
    pub value: u64,
    pub errors: u64,
    pub waiter: Waiter,
}

/// The parts of a domain.
#[derive(Debug, Default)]
pub struct State {
    pub peers: Peers,
    endpoints: Table<Entry>,
    /// How often something was done with endpoints that may move what a poll has to look at.
    changes: u64,
    pub queues: Table<Queue>,
    pub counters: Table<Counter>,
    pub vectors: Table<Vector>,
    pub regions: Regions,
    /// The record of the program's calls, if one is made.
    pub record: Option<Box<Record>>,
}

/// Where an operation is reported.
#[derive(Clone, Copy)]
struct Reported {
    /// The completion queue.
    queue: Option<usize>,
    counter: Option<usize>,
}

impl Reported {
    #[inline(always)]
    const fn of(binding: &Binding) -> Self {
        Self { queue: binding.queue, counter: binding.counter }
    }
}

/// Turns the events of an endpoint into completions and counts.
pub struct Reporter<'a> {
    queues: &'a mut Table<Queue>,
    counters: &'a mut Table<Counter>,
    regions: &'a Regions,
    vector: Option<&'a Vector>,
    /// `None` while an operation must not be recorded.
    pub record: Option<&'a mut Record>,
    /// Where completions go.
    pub bindings: &'a Bindings,
}

impl Reporter<'_> {
    #[inline(always)]
    fn tell(&mut self, to: Reported, completion: Completion, is_reported: bool) {
        if let Some(entries) = self.count(to, completion.error.is_some(), is_reported) {
            entries.push_back(completion);
        }
    }

    /// Counts an operation; where its completion belongs, if it is reported.
    #[inline(always)]
    fn count(
        &mut self,
        Reported { queue, counter }: Reported,
        is_error: bool,
        is_reported: bool,
    ) -> Option<&mut VecDeque<Completion>> {
        if let Some(counter) = counter
            && let Ok(counter) = self.counters.get(counter)
        {
            let which = if is_error { &mut counter.errors } else { &mut counter.value };
            *which = which.wrapping_add(1);
        }
        let queue = queue.filter(|_| is_reported || is_error)?;
        self.queues.get(queue).ok().map(|it| &mut it.entries)
    }

    #[inline(always)]
    fn received(&self, received: &Received, error: Option<Errno>) -> Completion {
        let Received { envelope, cut, length, .. } = *received;
        let Envelope { data, tag, .. } = envelope;
        let flags = if data.is_some() { FI_REMOTE_CQ_DATA } else { 0 };
        let known = |vector: &Vector| received.source.map(|source| vector.address(source));
        let error = error.map(|error| match error {
            libc::EMSGSIZE => (FI_ETRUNC, cut),
            other => (other, 0),
        });
        Completion {
            context: received.context,
            flags: FI_RECV | kind(envelope.is_tagged) | flags,
            length: length - cut,
            buffer: received.base.expose_provenance(),
            data: data.unwrap_or(0),
            tag,
            source: self.vector.and_then(known).unwrap_or(FI_ADDR_NOTAVAIL),
            error,
        }
    }
}

const fn kind(is_tagged: bool) -> u64 {
    if is_tagged { FI_TAGGED } else { FI_MSG }
}

fn sent(context: usize, is_tagged: bool, error: Option<(Errno, usize)>) -> Completion {
    let flags = FI_SEND | kind(is_tagged);
    let (length, buffer, data, tag, source) = (0, 0, 0, 0, FI_ADDR_NOTAVAIL);
    Completion { context, flags, length, buffer, data, tag, source, error }
}

/// The completion of a remote memory access.
fn accessed(context: usize, operation: Operation, error: Errno) -> Completion {
    let direction = if operation.returns_bytes() { FI_READ } else { FI_WRITE };
    let kind = if matches!(operation, Operation::Atomic(_)) { FI_ATOMIC } else { FI_RMA };
    let error = (error != 0).then_some((error, 0));
    let (length, buffer, data, tag, source) = (0, 0, 0, 0, FI_ADDR_NOTAVAIL);
    Completion { context, flags: direction | kind, length, buffer, data, tag, source, error }
}

impl Events for Reporter<'_> {
    fn resolve(&mut self, range: &Range, touch: Touch) -> Result<*mut u8, Errno> {
        self.regions.resolve(range, touch)
    }

    #[inline(always)]
    fn on_received(&mut self, received: Received) {
        if self.record.is_some() {
            self.on_event(Event::Received(received));
            return;
        }
        let completion = self.received(&received, None);
        let to = Reported::of(&self.bindings.receives);
        self.tell(to, completion, received.is_reported);
    }

    #[inline(never)]
    fn on_event(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.on_event(&event);
        }
        let Bindings { sends, receives, reads, writes } = self.bindings;
        let [sending, receiving] = [sends, receives].map(Reported::of);
        match event {
            Event::Sent { context, is_tagged, is_reported } => {
                self.tell(sending, sent(context, is_tagged, None), is_reported);
            }
            Event::Received(received) => {
                let completion = self.received(&received, None);
                self.tell(receiving, completion, received.is_reported);
            }
            Event::SendFailed { context, is_tagged, error } => {
                self.tell(sending, sent(context, is_tagged, Some((error, 0))), true);
            }
            Event::ReceiveFailed { received, error } => {
                let completion = self.received(&received, Some(error));
                self.tell(receiving, completion, true);
            }
            Event::Accessed { context, operation, error, is_reported } => {
                let counter = if operation.returns_bytes() { *reads } else { *writes };
                let to = Reported { queue: sends.queue, counter };
                self.tell(to, accessed(context, operation, error), is_reported);
            }
            Event::Written { source, data, length } => {
                let known = self.vector.map(|vector| vector.address(source));
                let completion = Completion {
                    context: 0,
                    flags: FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                    length,
                    buffer: 0,
                    data,
                    tag: 0,
                    source: known.unwrap_or(FI_ADDR_NOTAVAIL),
                    error: None,
                };
                self.tell(Reported { queue: receives.queue, counter: None }, completion, true);
            }
        }
    }
}

/// What a call on an endpoint works with.
pub struct Working<'a> {
    /// The endpoint.
    pub bound: &'a mut Bound,
    /// All peers of the process.
    pub peers: &'a mut Peers,
    /// Its address vector, if it has one.
    pub vector: Option<&'a Vector>,
    /// The reporter of its events.
    pub reporter: Reporter<'a>,
}

impl State {
    /// The endpoints of the domain.
    pub fn endpoints(&mut self) -> &mut Table<Entry> {
        self.changes += 1;
        &mut self.endpoints
    }

    /// An endpoint with all that a call on it works with.
    #[inline(always)]
    pub fn working(&mut self, endpoint: usize) -> Result<Working<'_>, Errno> {
        self.changes += 1;
        let Entry { bound, bindings } = self.endpoints.get(endpoint)?;
        let vector = match bound.vector {
            Some(number) => Some(&*self.vectors.get(number)?),
            None => None,
        };
        let record = self.record.as_deref_mut();
        let (queues, counters, regions) = (&mut self.queues, &mut self.counters, &self.regions);
        let reporter = Reporter { queues, counters, regions, vector, record, bindings };
        Ok(Working { bound, peers: &mut self.peers, vector, reporter })
    }

    /// A call begins: time until [`State::leave`] is not computing.
    #[inline(always)]
    pub fn enter(&mut self) {
        if let Some(record) = &mut self.record {
            record.enter();
        }
    }

    /// The call ends.
    #[inline(always)]
    pub fn leave(&mut self) {
        if let Some(record) = &mut self.record {
            record.leave();
        }
    }

    /// Makes progress on the endpoints bound to an object; returns whether anything arrived.
    #[inline(always)]
    pub fn progress(&mut self, of: Waitable) -> bool {
        // Most polls find nothing, so check cheaply first.
        !self.is_idle(of) && self.work(of)
    }

    /// Whether nothing has arrived at the endpoints bound to an object, and their kernel polls are not due: a cheap
    /// check.
    #[inline(always)]
    fn is_idle(&mut self, of: Waitable) -> bool {
        for entry in self.endpoints.slots() {
            let Some(Entry { bound, bindings }) = entry else { continue };
            if of.concerns(bindings) && (bound.is_armed || !bound.endpoint.is_idle()) {
                return false;
            }
        }
        true
    }

    #[inline(never)]
    fn work(&mut self, of: Waitable) -> bool {
        self.each(of, |bound, peers, reporter| {
            // The thread was asleep: the wake-up is still to be read from the socket.
            let looked = std::mem::take(&mut bound.is_armed) && {
                bound.endpoint.disarm();
                bound.endpoint.poll_kernel(peers, reporter)
            };
            bound.endpoint.progress(peers, reporter) || looked
        })
    }

    /// Asks the peers of an object's endpoints for wake-ups; false if something arrived meanwhile, so that the caller
    /// must not sleep.
    pub fn arm_for_sleep(&mut self, of: Waitable) -> bool {
        let awake = self.each(of, |bound, peers, reporter| {
            bound.endpoint.arm();
            bound.is_armed = true;
            bound.endpoint.progress(peers, reporter)
                || bound.endpoint.has_room_again(reporter)
                || bound.endpoint.holds_back()
        });
        !awake
    }

    /// Adds one to a counter of all endpoints bound to an object.
    pub fn count(
        &mut self,
        of: Waitable,
        which: fn(&crate::figures::Counts) -> &crate::figures::Count,
    ) {
        for it in self.endpoints.iter_mut().filter(|it| of.concerns(&it.bindings)) {
            which(it.bound.endpoint.figures().counts()).add(1);
        }
    }

    #[inline(always)]
    fn each(
        &mut self,
        of: Waitable,
        mut work: impl FnMut(&mut Bound, &mut Peers, &mut Reporter<'_>) -> bool,
    ) -> bool {
        self.changes += 1;
        let mut any = false;
        for entry in self.endpoints.slots() {
            let Some(Entry { bound, bindings }) = entry else { continue };
            if !bound.is_enabled || !of.concerns(bindings) {
                continue;
            }
            let vector =
                bound.vector.and_then(|number| self.vectors.get(number).ok().map(|it| &*it));
            let record = self.record.as_deref_mut();
            let (queues, counters, regions) = (&mut self.queues, &mut self.counters, &self.regions);
            let mut reporter = Reporter { queues, counters, regions, vector, record, bindings };
            any |= work(bound, &mut self.peers, &mut reporter);
        }
        any
    }

    /// Whether an endpoint is bound to an object.
    pub fn is_used(&mut self, of: Waitable) -> bool {
        self.endpoints.iter_mut().any(|it| of.concerns(&it.bindings))
    }
}
