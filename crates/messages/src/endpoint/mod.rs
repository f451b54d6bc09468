//! An endpoint: sends messages to endpoints of other processes of this host and receives theirs, in
//! the order of each sender, matched by source and tag.
//!
//! Progress is made only inside calls: nothing here owns a thread. Results are reported through [`Events`].

mod atomic;
mod connected;
mod emulated;
mod incoming;
mod progress;
mod queue;
mod remote;
mod short;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::time::Instant;

pub use atomic::{is_offered as is_atomic_offered, size_of_datatype};
use connected::Connected;
pub use connected::MOST_DESCRIPTORS;
use emulated::Emulation;
use incoming::{Channels, Incoming};
use queue::{Queue, Stored, Unexpected};
pub use queue::{Receive, Wanted};
pub use remote::{Access, Touch};

use crate::channel::{Broken, Envelope, Held, Operation, Purpose, Range, Sending};
use crate::figures::Figures;
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::rendezvous::{self, Directory, Listener, Name};
use crate::sys::{Errno, Watch};

/// The longest eager message, in bytes: its buffers may be reused as soon as it is sent.
pub const LONGEST_INJECTED: usize = crate::channel::WHOLE;
/// The most longer messages that can be in flight to one endpoint.
pub const MOST_LONG: usize = crate::channel::MOST_HELD;

/// What has happened to a message of the program.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// It was sent: its buffers may be reused.
    Sent {
        /// The program's context of the operation.
        context: usize,
        /// Whether it is a tagged message.
        is_tagged: bool,
        /// Whether the program wants a completion.
        is_reported: bool,
    },
    /// It was received.
    Received(Received),
    /// It was not sent.
    SendFailed {
        /// The program's context of the operation.
        context: usize,
        /// Whether it is a tagged message.
        is_tagged: bool,
        /// The error.
        error: Errno,
    },
    /// No message will come, or only a part of it has arrived.
    ReceiveFailed {
        /// What is known about it.
        received: Received,
        /// The error.
        error: Errno,
    },
    /// A remote memory access of this endpoint is done.
    Accessed {
        /// The program's context of the operation.
        context: usize,
        /// What it was.
        operation: Operation,
        /// Zero, or the error.
        error: Errno,
        /// Whether the program wants a completion.
        is_reported: bool,
    },
    /// A peer has written into registered memory, with completion data for this program.
    Written {
        /// The peer.
        source: PeerId,
        /// The data.
        data: u64,
        /// The number of bytes written.
        length: usize,
    },
}

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The program's context of the receive.
    pub context: usize,
    /// The sender; `None` if no message came.
    pub source: Option<PeerId>,
    /// The metadata of the message.
    pub envelope: Envelope,
    /// The first receive buffer.
    pub base: *mut u8,
    /// The length of the message, even if it was truncated.
    pub length: usize,
    /// The number of truncated bytes.
    pub cut: usize,
    /// Whether the program wants a completion.
    pub is_reported: bool,
}

/// Receives events.
pub trait Events {
    /// Called for each event.
    fn on_event(&mut self, event: Event);

    /// Called instead for a short message that the oldest posted receive was for, which is the most frequent of them.
    #[inline(always)]
    fn on_received(&mut self, received: Received) {
        self.on_event(Event::Received(received));
    }

    /// The address of a range of registered memory, which must be readable, and writable if it is written, until
    /// the next call of the endpoint.
    ///
    /// # Errors
    ///
    /// Why a peer may not access it.
    fn resolve(&mut self, _range: &Range, _touch: Touch) -> Result<*mut u8, Errno> {
        Err(libc::EACCES)
    }
}

impl<T: FnMut(Event)> Events for T {
    fn on_event(&mut self, event: Event) {
        self(event);
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// The program's context of the operation.
    pub context: usize,
    /// Its metadata.
    pub envelope: Envelope,
    /// Its buffers.
    pub parts: Parts,
    /// Whether the program wants a completion.
    pub is_reported: bool,
    /// Whether it completes only once it is in the receiver's buffers (delivery complete).
    pub must_arrive: bool,
}

/// Whose channels an endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admits {
    /// Those of all.
    All,
    /// None yet: it has no connection. They wait.
    NoneYet,
    /// Those of the other end of its connection.
    One(PeerId),
}

/// The channel to another endpoint.
#[derive(Debug)]
enum Outgoing {
    None,
    Open(Box<Sending>),
    Lost(Broken),
}

/// What becomes of a message that is pulled through the ring.
#[derive(Debug)]
enum Pulling {
    /// It belongs to a receive.
    Receive(Received),
    /// It is written into registered memory.
    Write(remote::Write),
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    name: Name,
    directory: Directory,
    listener: Listener,
    watch: Watch,
    /// Indexed by peer.
    outgoing: Vec<Outgoing>,
    incoming: Channels,
    /// Accepted sockets whose hello has not arrived yet.
    pending: Vec<OwnedFd>,
    admits: Admits,
    tagged: Queue,
    untagged: Queue,
    /// The virtual interface of an endpoint with a connection, which takes the place of both queues.
    connected: Option<Box<Connected>>,
    pulling: HashMap<(u32, u32), Pulling>,
    /// What requests of peers return, and has not been sent yet; by peer.
    replies: BTreeMap<usize, remote::Replies>,
    /// The number of messages that wait for their receivers to fetch them.
    held: usize,
    figures: Figures,
    /// The number of the last poll, that of the poll which reads the clock next, and how many follow between two such.
    polls: u64,
    due: u64,
    calls: u64,
    /// When the kernel was last polled.
    polled: Instant,
    probed: Instant,
    fetches: bool,
    /// The interconnect that is emulated, if one is.
    emulation: Option<Box<Emulation>>,
}

/// A message that has been sent to this endpoint and not received.
#[derive(Clone, Copy, Debug)]
pub struct Unreceived {
    /// The endpoint that has sent it.
    pub source: PeerId,
    /// Its metadata.
    pub envelope: Envelope,
    /// Its length, in bytes.
    pub length: usize,
}

impl Unreceived {
    fn of(message: &Unexpected) -> Self {
        Self { source: message.source, envelope: message.envelope, length: message.length() }
    }
}

impl Endpoint {
    /// An endpoint that peers find in a directory.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new(directory: Directory) -> Result<Self, Errno> {
        let name = Name::new();
        let listener = Listener::new(&directory, name)?;
        let watch = Watch::new()?;
        watch.add(listener.socket(), progress::Token::Listener.number())?;
        let now = Instant::now();
        Ok(Self {
            name,
            directory,
            listener,
            watch,
            outgoing: Vec::new(),
            incoming: Channels::default(),
            pending: Vec::new(),
            admits: Admits::All,
            tagged: Queue::default(),
            untagged: Queue::default(),
            connected: None,
            pulling: HashMap::new(),
            replies: BTreeMap::new(),
            held: 0,
            figures: Figures::new()?,
            polls: 1,
            due: 1 + progress::MOST_CALLS,
            calls: progress::MOST_CALLS,
            polled: now,
            probed: now,
            fetches: true,
            emulation: None,
        })
    }

    /// Its name, by which peers reach it.
    pub const fn name(&self) -> Name {
        self.name
    }

    /// Readable when something has arrived while the endpoint is armed.
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Its counters.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Pulls long messages through the ring from now on, as where the kernel forbids reading another process's
    /// memory.
    pub fn disable_fetch(&mut self) {
        self.fetches = false;
        for from in self.incoming.iter_mut() {
            from.receiving.disable_fetch();
        }
    }

    #[inline(always)]
    fn queue(&mut self, is_tagged: bool) -> &mut Queue {
        if is_tagged { &mut self.tagged } else { &mut self.untagged }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room now: progress makes some. Otherwise the reason why the peer cannot be reached.
    ///
    /// # Safety
    ///
    /// The buffers must be readable; those of a message that is longer than [`LONGEST_INJECTED`] or must arrive,
    /// until its event.
    #[inline]
    pub unsafe fn send(
        &mut self,
        peers: &Peers,
        to: PeerId,
        message: &Message,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let Message { context, envelope, is_reported, .. } = *message;
        // SAFETY: the caller's promise.
        if unsafe { self.transmit(peers, to, message, &envelope, context, events)? } {
            let is_tagged = envelope.is_tagged;
            events.on_event(Event::Sent { context, is_tagged, is_reported });
        }
        Ok(())
    }

    #[inline(always)]
    fn count_sent(&self, length: usize, wakes: bool) {
        let counts = self.figures.counts();
        counts.sent.add(1);
        counts.bytes_sent.add(length as u64);
        if wakes {
            counts.wakes.add(1);
        }
    }

    /// Writes a message to its channel, with this envelope and, if it is held, under this context. Returns whether
    /// its buffers may be reused already.
    ///
    /// # Safety
    ///
    /// The requirements of [`Endpoint::send`].
    #[inline(always)]
    unsafe fn transmit(
        &mut self,
        peers: &Peers,
        to: PeerId,
        message: &Message,
        envelope: &Envelope,
        context: usize,
        events: &mut impl Events,
    ) -> Result<bool, Errno> {
        let length = message.parts.length();
        let is_short = Sending::is_short(length) && !message.must_arrive;
        if self.emulation.is_some() {
            self.announce(peers, to, length as u64, events)?;
        }
        let way = self.outgoing_channel(peers, to)?;
        let Message { ref parts, is_reported, .. } = *message;
        let sent = if is_short {
            // SAFETY: the caller's promise.
            unsafe { way.send(envelope, parts) }
        } else {
            let parts = parts.clone();
            let purpose = Purpose::Message { is_tagged: envelope.is_tagged };
            way.hold(envelope, Held { context, parts, is_reported, purpose })
        };
        if sent != Ok(true) {
            return Err(self.not_written(to, sent.err(), events));
        }
        let wakes = way.wake();
        self.count_sent(length, wakes);
        if self.emulation.is_some() {
            self.finish_announced(to, is_short);
        }
        self.held += usize::from(!is_short);
        Ok(is_short)
    }

    /// The error for a record that was not written: `EAGAIN` if the ring was full, otherwise that of the broken channel,
    /// whose peer is dropped.
    #[cold]
    fn not_written(
        &mut self,
        to: PeerId,
        broken: Option<Broken>,
        events: &mut impl Events,
    ) -> Errno {
        let Some(why) = broken else {
            self.figures.counts().full.add(1);
            return libc::EAGAIN;
        };
        self.drop_peer(to, why, events);
        why.errno()
    }

    #[inline(always)]
    fn outgoing_channel(&mut self, peers: &Peers, to: PeerId) -> Result<&mut Sending, Errno> {
        if !matches!(self.outgoing.get(to.index()), Some(Outgoing::Open(_))) {
            self.open(peers, to)?;
        }
        match &mut self.outgoing[to.index()] {
            Outgoing::Open(way) => Ok(way),
            _ => Err(libc::EHOSTUNREACH),
        }
    }

    #[cold]
    fn open(&mut self, peers: &Peers, to: PeerId) -> Result<(), Errno> {
        if self.outgoing.len() <= to.index() {
            self.outgoing.resize_with(to.index() + 1, || Outgoing::None);
        }
        if let Outgoing::Lost(why) = self.outgoing[to.index()] {
            return Err(why.errno());
        }
        let name = peers.name(to).ok_or(libc::EINVAL)?;
        let (peer, segment) = rendezvous::connect(&self.directory, self.name, name)?;
        let token = progress::Token::Outgoing(to).number();
        self.watch.add(&peer.socket, token)?;
        if let Some(pidfd) = &peer.pidfd {
            self.watch.add(pidfd, token)?;
        }
        self.outgoing[to.index()] = Outgoing::Open(Box::new(Sending::new(peer, segment)));
        self.expect_channels();
        Ok(())
    }

    /// Posts a receive. If its message has arrived already, the event happens now.
    ///
    /// # Safety
    ///
    /// The buffers must be writable until the receive's event.
    #[inline(always)]
    pub unsafe fn receive(
        &mut self,
        is_tagged: bool,
        wanted: Wanted,
        receive: Receive,
        events: &mut impl Events,
    ) {
        if let Some(message) = self.queue(is_tagged).message_for(&wanted) {
            self.deliver(message, &receive, events);
            return;
        }
        let lost = wanted.source.and_then(|source| match self.outgoing.get(source.index()) {
            Some(Outgoing::Lost(why)) => Some(why.errno()),
            _ => None,
        });
        match lost {
            Some(error) => events.on_event(failed(&receive, is_tagged, error)),
            None => self.queue(is_tagged).post(wanted, receive),
        }
    }

    /// Delivers an unexpected message to a receive.
    fn deliver(&mut self, message: Unexpected, receive: &Receive, events: &mut impl Events) {
        let received = received(receive, message.source, message.envelope, message.length());
        match message.stored {
            Stored::Bytes(bytes) => {
                // SAFETY: the caller of `receive` keeps the buffers writable.
                unsafe { receive.to.copy_from(bytes.as_slice().as_ptr(), bytes.as_slice().len()) };
                self.complete(received, events);
            }
            Stored::Remote(channel, remote) => {
                self.fetch(channel, &remote, &receive.to, received, events);
            }
        }
    }

    /// Looks for a message without receiving it.
    pub fn peek(&self, is_tagged: bool, wanted: &Wanted) -> Option<Unreceived> {
        let queue = if is_tagged { &self.tagged } else { &self.untagged };
        queue.peek(wanted).map(Unreceived::of)
    }

    /// Looks for a message, and reserves it for [`Endpoint::receive_claimed`] under this number.
    pub fn claim(&mut self, is_tagged: bool, wanted: &Wanted, number: usize) -> Option<Unreceived> {
        self.queue(is_tagged).claim(wanted, number).map(Unreceived::of)
    }

    /// Receives the message that was claimed under the receive's context; false if there is none.
    ///
    /// # Safety
    ///
    /// The requirements of [`Endpoint::receive`].
    pub unsafe fn receive_claimed(
        &mut self,
        is_tagged: bool,
        receive: &Receive,
        events: &mut impl Events,
    ) -> bool {
        let message = self.queue(is_tagged).claimed(receive.context);
        message.map(|message| self.deliver(message, receive, events)).is_some()
    }

    /// Discards the message that matches `wanted`, or the one that was claimed under `number`. Returns what was
    /// discarded.
    pub fn discard(
        &mut self,
        is_tagged: bool,
        wanted: Option<&Wanted>,
        number: usize,
        events: &mut impl Events,
    ) -> Option<Unreceived> {
        let queue = self.queue(is_tagged);
        let message = match wanted {
            Some(wanted) => queue.message_for(wanted),
            None => queue.claimed(number),
        }?;
        let said = Unreceived::of(&message);
        if let Stored::Remote(channel, remote) = message.stored
            && let Some(from) = self.incoming_channel(channel)
            && let Err(why) = from.receiving.discard(&remote)
        {
            self.drop_peer(said.source, why, events);
        }
        Some(said)
    }

    /// Cancels a receive by its context; its event reports the cancellation.
    pub fn cancel(&mut self, context: usize, events: &mut impl Events) -> bool {
        for is_tagged in [true, false] {
            if let Some(receive) = self.queue(is_tagged).cancel(context) {
                events.on_event(failed(&receive, is_tagged, libc::ECANCELED));
                return true;
            }
        }
        self.cancel_connected(context, events)
    }

    fn incoming_channel(&mut self, channel: u32) -> Option<&mut Incoming> {
        self.incoming.get(channel)
    }

    /// Reports a message that has arrived completely.
    fn complete(&mut self, received: Received, events: &mut impl Events) {
        let counts = self.figures.counts();
        counts.received.add(1);
        counts.bytes_received.add((received.length - received.cut) as u64);
        if received.cut == 0 {
            events.on_event(Event::Received(received));
        } else {
            report_cut(received, events);
        }
    }
}

/// Reports a message that was longer than its receive.
#[cold]
#[inline(never)]
fn report_cut(received: Received, events: &mut impl Events) {
    events.on_event(Event::ReceiveFailed { received, error: libc::EMSGSIZE });
}

fn received(receive: &Receive, from: PeerId, envelope: Envelope, length: usize) -> Received {
    let cut = length.saturating_sub(receive.to.length());
    let (context, is_reported, base) = (receive.context, receive.is_reported, receive.to.base());
    Received { context, source: Some(from), envelope, base, length, cut, is_reported }
}

/// The event of a receive for which no message will come.
fn failed(receive: &Receive, is_tagged: bool, error: Errno) -> Event {
    let envelope = Envelope { is_tagged, tag: 0, data: None };
    let Receive { context, ref to, is_reported } = *receive;
    let (base, length, cut) = (to.base(), 0, 0);
    let received = Received { context, source: None, envelope, base, length, cut, is_reported };
    Event::ReceiveFailed { received, error }
}
