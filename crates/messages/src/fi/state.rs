//! What a domain consists of, under one lock: endpoints, completion queues, counters, address vectors.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::abi::{
    FI_ADDR_NOTAVAIL, FI_ETRUNC, FI_MSG, FI_RECV, FI_REMOTE_CQ_DATA, FI_SEND, FI_TAGGED,
    fi_cq_tagged_entry,
};
use super::record::Record;
use crate::channel::Envelope;
use crate::endpoint::{Endpoint, Event, Events, Received};
use crate::peers::{PeerId, Peers};
use crate::sys::{self, Errno, Watch};

/// Whatever the objects of a domain share.
#[derive(Debug)]
pub struct Shared {
    state: UnsafeCell<State>,
    lock: Option<Mutex<()>>,
}

// SAFETY: the state is used by one thread at a time, see `Shared::lock`. The places in it are those of programs,
// which answer for them in all threads.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The state, for this thread alone.
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
    /// What a new domain's objects share.
    ///
    /// # Safety
    ///
    /// Of a domain that `is_serial`, the program uses one object at a time: what libfabric calls
    /// `FI_THREAD_DOMAIN`.
    pub unsafe fn new(is_serial: bool) -> Self {
        Self { state: UnsafeCell::default(), lock: (!is_serial).then(Mutex::default) }
    }

    /// The state, for this thread alone. No function of this module locks it while it is locked.
    #[inline(always)]
    pub fn lock(&self) -> Locked<'_> {
        // A panic ends the process at the border to the program, so nobody sees what it left.
        let lock = self.lock.as_ref();
        let _lock = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: this thread has the lock, or the program has promised that no other is here.
        Locked { state: unsafe { &mut *self.state.get() }, _lock }
    }
}

/// Objects by number. Numbers are not used again.
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

    /// The places of all objects, for loops that run for every message.
    #[inline(always)]
    pub fn slots(&mut self) -> &mut [Option<T>] {
        &mut self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// What becomes of the messages of one direction of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding {
    /// The completion queue that is told.
    pub queue: Option<usize>,
    /// Whether it is told only of what asks for it.
    pub is_selective: bool,
    /// The counter that counts them.
    pub counter: Option<usize>,
    /// The flags of operations that name none.
    pub flags: u64,
}

/// An endpoint and what it is bound to.
#[derive(Debug)]
pub struct Bound {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Of what it sends.
    pub sends: Binding,
    /// Of what it receives.
    pub receives: Binding,
    /// Its address vector.
    pub vector: Option<usize>,
    /// Whether a receive may name whose message it takes.
    pub is_directed: bool,
    /// Whether messages may be sent and received.
    pub is_enabled: bool,
    /// Whether somebody sleeps on it.
    pub is_armed: bool,
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

    /// Takes an address back; whether there was one.
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
    /// As a queue of the longest format has it; shorter formats are its beginning.
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
    /// What has happened and was not read.
    pub entries: VecDeque<Completion>,
    /// How it waits.
    pub waiter: Waiter,
}

/// A counter.
#[derive(Debug)]
pub struct Counter {
    pub value: u64,
    pub errors: u64,
    pub waiter: Waiter,
}

/// What wakes those who wait for a queue or a counter.
#[derive(Debug)]
pub struct Waiter {
    /// All endpoints that are bound to it, and the event.
    pub watch: Arc<Watch>,
    /// Raised by who wants to wake.
    pub event: Arc<OwnedFd>,
    /// The kind of object that the program has chosen to wait with.
    pub object: u32,
}

impl Waiter {
    /// Nothing to be woken by yet but its own event.
    pub fn new(object: u32) -> Result<Self, Errno> {
        let (watch, event) = (Watch::new()?, sys::event()?);
        watch.add(&event, 0)?;
        Ok(Self { watch: Arc::new(watch), event: Arc::new(event), object })
    }
}

/// The parts of a domain.
#[derive(Debug, Default)]
pub struct State {
    pub peers: Peers,
    pub endpoints: Table<Bound>,
    pub queues: Table<Queue>,
    pub counters: Table<Counter>,
    pub vectors: Table<Vector>,
    /// What the program does, if it is to be written down.
    pub record: Option<Box<Record>>,
}

/// Puts what happens to the messages of an endpoint where its program looks for it.
pub struct Told<'a> {
    queues: &'a mut Table<Queue>,
    counters: &'a mut Table<Counter>,
    vector: Option<&'a Vector>,
    /// Of who only looks for a message, none.
    pub record: Option<&'a mut Record>,
    sends: Binding,
    receives: Binding,
}

impl Told<'_> {
    #[inline(always)]
    fn tell(&mut self, binding: Binding, completion: Completion, is_reported: bool) {
        let is_error = completion.error.is_some();
        if let Some(counter) = binding.counter
            && let Ok(counter) = self.counters.get(counter)
        {
            let which = if is_error { &mut counter.errors } else { &mut counter.value };
            *which = which.wrapping_add(1);
        }
        if let Some(queue) = binding.queue.filter(|_| is_reported || is_error)
            && let Ok(queue) = self.queues.get(queue)
        {
            queue.entries.push_back(completion);
        }
    }

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

impl Events for Told<'_> {
    #[inline(always)]
    fn happened(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.happened(&event);
        }
        match event {
            Event::Sent { context, is_tagged, is_reported } => {
                self.tell(self.sends, sent(context, is_tagged, None), is_reported);
            }
            Event::Received(received) => {
                let completion = self.received(&received, None);
                self.tell(self.receives, completion, received.is_reported);
            }
            Event::SendFailed { context, is_tagged, error } => {
                self.tell(self.sends, sent(context, is_tagged, Some((error, 0))), true);
            }
            Event::ReceiveFailed { received, error } => {
                let completion = self.received(&received, Some(error));
                self.tell(self.receives, completion, true);
            }
        }
    }
}

/// Which object waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A completion queue.
    Queue(usize),
    /// A counter.
    Counter(usize),
}

impl Of {
    #[inline(always)]
    fn concerns(self, bound: &Bound) -> bool {
        let [sends, receives] = [&bound.sends, &bound.receives];
        match self {
            Self::Queue(number) => sends.queue == Some(number) || receives.queue == Some(number),
            Self::Counter(number) => {
                sends.counter == Some(number) || receives.counter == Some(number)
            }
        }
    }
}

impl State {
    /// An endpoint with the numbers of peers, its vector and where its events go.
    #[inline(always)]
    pub fn parts(
        &mut self,
        endpoint: usize,
    ) -> Result<(&mut Bound, &mut Peers, Option<&Vector>, Told<'_>), Errno> {
        let bound = self.endpoints.get(endpoint)?;
        let vector = match bound.vector {
            Some(number) => Some(&*self.vectors.get(number)?),
            None => None,
        };
        let (sends, receives) = (bound.sends, bound.receives);
        let (queues, counters) = (&mut self.queues, &mut self.counters);
        let record = self.record.as_deref_mut();
        let told = Told { queues, counters, vector, record, sends, receives };
        Ok((bound, &mut self.peers, vector, told))
    }

    /// The program calls: what follows until [`State::leave`] is no computing.
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

    /// Lets the endpoints work that an object waits for; whether anything has come.
    #[inline(always)]
    pub fn progress(&mut self, of: Of) -> bool {
        // Programs ask far more often than anything comes.
        for bound in self.endpoints.slots() {
            let Some(bound) = bound else { continue };
            if of.concerns(bound) && (bound.is_armed || !bound.endpoint.rests()) {
                return self.work(of);
            }
        }
        false
    }

    #[inline(never)]
    fn work(&mut self, of: Of) -> bool {
        self.each(of, |bound, peers, told| {
            // Whoever slept is here again; what woke him is still to be read.
            let looked = std::mem::take(&mut bound.is_armed) && {
                bound.endpoint.disarm();
                bound.endpoint.look(peers, told)
            };
            bound.endpoint.progress(peers, told) || looked
        })
    }

    /// Says that an object's endpoints sleep from now on, unless something has come meanwhile: then
    /// they do not, and it returns false.
    pub fn falls_asleep(&mut self, of: Of) -> bool {
        let awake = self.each(of, |bound, peers, told| {
            bound.endpoint.arm();
            bound.is_armed = true;
            bound.endpoint.progress(peers, told) || bound.endpoint.has_room_again(told)
        });
        !awake
    }

    /// Counts an attempt to read that found nothing, or a sleep.
    pub fn count(&mut self, of: Of, which: fn(&crate::figures::Counts) -> &crate::figures::Count) {
        for bound in self.endpoints.iter_mut().filter(|bound| of.concerns(bound)) {
            which(bound.endpoint.figures().counts()).add(1);
        }
    }

    #[inline(always)]
    fn each(
        &mut self,
        of: Of,
        mut work: impl FnMut(&mut Bound, &mut Peers, &mut Told<'_>) -> bool,
    ) -> bool {
        let mut any = false;
        for bound in self.endpoints.slots() {
            let Some(bound) = bound else { continue };
            if !bound.is_enabled || !of.concerns(bound) {
                continue;
            }
            let vector =
                bound.vector.and_then(|number| self.vectors.get(number).ok().map(|it| &*it));
            let (sends, receives) = (bound.sends, bound.receives);
            let (queues, counters) = (&mut self.queues, &mut self.counters);
            let record = self.record.as_deref_mut();
            let mut told = Told { queues, counters, vector, record, sends, receives };
            any |= work(bound, &mut self.peers, &mut told);
        }
        any
    }

    /// Whether an endpoint is bound to an object.
    pub fn is_used(&mut self, of: Of) -> bool {
        self.endpoints.iter_mut().any(|bound| of.concerns(bound))
    }
}

/// So long a wait polls before it sleeps: what a wake-up across processors costs.
const SPIN: Duration = Duration::from_micros(20);
/// So long a sleep lasts at most, so that those are looked for from whom something is waited for and who
/// never came.
const NAP: Duration = Duration::from_millis(100);

/// Works until `ready` has something to say, at most so long, or for ever; sleeps in between.
pub fn wait<T>(
    shared: &Shared,
    of: Of,
    limit: Option<Duration>,
    mut ready: impl FnMut(&mut State) -> Option<T>,
) -> Option<T> {
    let begin = Instant::now();
    loop {
        let spent = begin.elapsed();
        let mut state = shared.lock();
        state.progress(of);
        if let Some(found) = ready(&mut state) {
            return Some(found);
        }
        if limit.is_some_and(|limit| spent >= limit) {
            return None;
        }
        if spent < SPIN {
            drop(state);
            std::hint::spin_loop();
            continue;
        }
        if !state.falls_asleep(of) {
            continue;
        }
        if let Some(found) = ready(&mut state) {
            return Some(found);
        }
        state.count(of, |counts| &counts.sleeps);
        let waiter = match of {
            Of::Queue(number) => state.queues.get(number).map(|it| it.waiter.watch.clone()),
            Of::Counter(number) => state.counters.get(number).map(|it| it.waiter.watch.clone()),
        };
        drop(state);
        let left = limit.map_or(NAP, |limit| NAP.min(limit.saturating_sub(spent)));
        let Ok(watch) = waiter else { return None };
        watch.wait(Some(left));
    }
}

/// A wait's limit as the headers write it: milliseconds, or for ever if negative.
pub fn limit(milliseconds: libc::c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}
