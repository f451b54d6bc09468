//! An endpoint: sends messages to endpoints of other processes of this host and receives theirs, in
//! the order of each sender, matched by source and tag.
//!
//! It works only while it is called: nothing here owns a thread. What has happened is told to an
//! [`Events`].

mod progress;
mod queue;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use queue::{Queue, Stored, Unexpected};
pub use queue::{Receive, Wanted};

use crate::channel::{Broken, Envelope, Held, Receiving, Sending};
use crate::figures::Figures;
use crate::meeting::{self, Directory, Listener, Name};
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::sys::{Errno, Watch};

/// The longest message that is sent whole, in bytes: it may be overwritten once it is sent.
pub const LONGEST_INJECTED: usize = crate::channel::WHOLE;
/// So many longer messages can be on their way to one endpoint.
pub const MOST_LONG: usize = crate::channel::MOST_HELD;

/// What has happened to a message that the program has given a number.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// It was sent: its memory may be used again.
    Sent {
        /// The program's number.
        context: usize,
        /// Whether it is a tagged message.
        is_tagged: bool,
        /// Whether the program wants to be told.
        is_reported: bool,
    },
    /// It was received.
    Received(Received),
    /// It was not sent.
    SendFailed {
        /// The program's number.
        context: usize,
        /// Whether it is a tagged message.
        is_tagged: bool,
        /// Why.
        error: Errno,
    },
    /// No message will come, or not the whole message has come.
    ReceiveFailed {
        /// What is known of it.
        received: Received,
        /// Why.
        error: Errno,
    },
}

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The program's number of the receive.
    pub context: usize,
    /// From whom; `None` if no message came.
    pub source: Option<PeerId>,
    /// What the message says of itself.
    pub envelope: Envelope,
    /// Where it was put.
    pub base: *mut u8,
    /// How many bytes it has, also if there was no place for all.
    pub length: usize,
    /// How many bytes there was no place for.
    pub cut: usize,
    /// Whether the program wants to be told.
    pub is_reported: bool,
}

/// Who is told what has happened.
pub trait Events {
    /// Is told.
    fn happened(&mut self, event: Event);
}

impl<T: FnMut(Event)> Events for T {
    fn happened(&mut self, event: Event) {
        self(event);
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Message {
    /// The program's number for it.
    pub context: usize,
    /// What it says of itself.
    pub envelope: Envelope,
    /// Its bytes.
    pub parts: Parts,
    /// Whether the program wants to be told that it was sent.
    pub is_reported: bool,
    /// Whether it counts as sent only once it is in the receiver's own memory.
    pub must_arrive: bool,
}

/// The way to another endpoint.
#[derive(Debug)]
enum Way {
    None,
    Open(Box<Sending>),
    Lost(Broken),
}

/// The way from another endpoint.
#[derive(Debug)]
struct From {
    peer: PeerId,
    receiving: Receiving,
    /// Whether a record was there at the last look.
    is_busy: bool,
}

/// A receive whose message comes in pieces.
#[derive(Clone, Copy, Debug)]
struct Coming {
    received: Received,
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    name: Name,
    directory: Directory,
    listener: Listener,
    watch: Watch,
    /// By peer.
    ways: Vec<Way>,
    /// In the order in which they came. A place is used once.
    from: Vec<Option<From>>,
    /// Who has come and said nothing yet.
    strangers: Vec<OwnedFd>,
    tagged: Queue,
    untagged: Queue,
    coming: HashMap<(u32, u32), Coming>,
    /// So many messages wait for their receivers to fetch them.
    held: usize,
    figures: Figures,
    /// Calls since the kernel was last asked for news, and when that was.
    calls: u32,
    looked: Instant,
    searched: Instant,
    fetches: bool,
}

impl Endpoint {
    /// An endpoint that others find in a directory.
    ///
    /// # Errors
    ///
    /// What the kernel says.
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
            ways: Vec::new(),
            from: Vec::new(),
            strangers: Vec::new(),
            tagged: Queue::default(),
            untagged: Queue::default(),
            coming: HashMap::new(),
            held: 0,
            figures: Figures::new()?,
            calls: 0,
            looked: now,
            searched: now,
            fetches: true,
        })
    }

    /// By which others find it.
    pub const fn name(&self) -> Name {
        self.name
    }

    /// Readable when something has come while the endpoint is armed.
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// What it has carried.
    pub const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Takes long messages through the ring from now on, as if the kernel let nobody read the memory
    /// of another process.
    pub fn fetch_nothing(&mut self) {
        self.fetches = false;
        for from in self.from.iter_mut().flatten() {
            from.receiving.fetch_nothing();
        }
    }

    fn queue(&mut self, is_tagged: bool) -> &mut Queue {
        if is_tagged { &mut self.tagged } else { &mut self.untagged }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no room for it now: progress makes some. Otherwise why it cannot be sent.
    ///
    /// # Safety
    ///
    /// The message's places must be readable; those of one that is longer than [`LONGEST_INJECTED`],
    /// or must arrive, until an event says that it was sent, or not.
    #[inline]
    pub unsafe fn send(
        &mut self,
        peers: &Peers,
        to: PeerId,
        message: &Message,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let length = message.parts.length();
        let is_short = Sending::is_short(length) && !message.must_arrive;
        let way = self.way(peers, to)?;
        let Message { context, envelope, ref parts, is_reported, .. } = *message;
        let is_tagged = envelope.is_tagged;
        let sent = if is_short {
            // SAFETY: the caller's word.
            unsafe { way.send(&envelope, parts) }
        } else {
            let parts = parts.clone();
            way.hold(&envelope, Held { context, parts, is_reported, is_tagged })
        };
        match sent {
            Ok(true) => {
                let wakes = way.wake();
                let counts = self.figures.counts();
                counts.sent.add(1);
                counts.bytes_sent.add(length as u64);
                counts.wakes.add(u64::from(wakes));
                if is_short {
                    events.happened(Event::Sent { context, is_tagged, is_reported });
                } else {
                    self.held += 1;
                }
                Ok(())
            }
            Ok(false) => {
                self.figures.counts().full.add(1);
                Err(libc::EAGAIN)
            }
            Err(why) => {
                self.lose(to, why, events);
                Err(why.errno())
            }
        }
    }

    #[inline(always)]
    fn way(&mut self, peers: &Peers, to: PeerId) -> Result<&mut Sending, Errno> {
        if !matches!(self.ways.get(to.index()), Some(Way::Open(_))) {
            self.open(peers, to)?;
        }
        match &mut self.ways[to.index()] {
            Way::Open(way) => Ok(way),
            _ => Err(libc::EHOSTUNREACH),
        }
    }

    #[cold]
    fn open(&mut self, peers: &Peers, to: PeerId) -> Result<(), Errno> {
        if self.ways.len() <= to.index() {
            self.ways.resize_with(to.index() + 1, || Way::None);
        }
        if let Way::Lost(why) = self.ways[to.index()] {
            return Err(why.errno());
        }
        let name = peers.name(to).ok_or(libc::EINVAL)?;
        let (peer, segment) = meeting::call(&self.directory, self.name, name)?;
        let token = progress::Token::Way(to).number();
        self.watch.add(&peer.socket, token)?;
        if let Some(life) = &peer.life {
            self.watch.add(life, token)?;
        }
        self.ways[to.index()] = Way::Open(Box::new(Sending::new(peer, segment)));
        Ok(())
    }

    /// Posts a receive. If its message has come already, the event happens now.
    ///
    /// # Safety
    ///
    /// The receive's places must be writable until an event says what has become of it.
    #[inline]
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
        let lost = wanted.source.and_then(|source| match self.ways.get(source.index()) {
            Some(Way::Lost(why)) => Some(why.errno()),
            _ => None,
        });
        match lost {
            Some(error) => events.happened(failed(&receive, is_tagged, error)),
            None => self.queue(is_tagged).post(wanted, receive),
        }
    }

    /// Gives a message that has waited to a receive.
    fn deliver(&mut self, message: Unexpected, receive: &Receive, events: &mut impl Events) {
        let received = received(receive, message.source, message.envelope, message.length());
        match message.stored {
            Stored::Bytes(bytes) => {
                // SAFETY: whoever posted the receive keeps its places writable.
                unsafe { receive.to.copy_from(bytes.as_ptr(), bytes.len()) };
                self.complete(received, events);
            }
            Stored::Remote(channel, remote) => {
                self.fetch(channel, &remote, &receive.to, received, events);
            }
        }
    }

    /// Looks for a message without receiving it: whose it is, what it says of itself, its length.
    pub fn peek(&self, is_tagged: bool, wanted: &Wanted) -> Option<(PeerId, Envelope, usize)> {
        let queue = if is_tagged { &self.tagged } else { &self.untagged };
        queue.peek(wanted).map(|it| (it.source, it.envelope, it.length()))
    }

    /// The same, and keeps the message for [`Endpoint::receive_claimed`] by this number.
    pub fn claim(
        &mut self,
        is_tagged: bool,
        wanted: &Wanted,
        number: usize,
    ) -> Option<(PeerId, Envelope, usize)> {
        let message = self.queue(is_tagged).claim(wanted, number);
        message.map(|it| (it.source, it.envelope, it.length()))
    }

    /// Receives a message that was claimed by the receive's number; whether there is one.
    ///
    /// # Safety
    ///
    /// As [`Endpoint::receive`].
    pub unsafe fn receive_claimed(
        &mut self,
        is_tagged: bool,
        receive: &Receive,
        events: &mut impl Events,
    ) -> bool {
        let message = self.queue(is_tagged).claimed(receive.context);
        message.map(|message| self.deliver(message, receive, events)).is_some()
    }

    /// Discards a message: the one that was claimed by this number, or else the one wanted. Says
    /// what was discarded.
    pub fn discard(
        &mut self,
        is_tagged: bool,
        wanted: Option<&Wanted>,
        number: usize,
        events: &mut impl Events,
    ) -> Option<(PeerId, Envelope, usize)> {
        let queue = self.queue(is_tagged);
        let message = match wanted {
            Some(wanted) => queue.message_for(wanted),
            None => queue.claimed(number),
        }?;
        let said = (message.source, message.envelope, message.length());
        if let Stored::Remote(channel, remote) = message.stored
            && let Some(from) = self.incoming(channel)
            && let Err(why) = from.receiving.discard(&remote)
        {
            self.lose(said.0, why, events);
        }
        Some(said)
    }

    /// Takes a receive back, by the program's number. Its event says that it was cancelled.
    pub fn cancel(&mut self, context: usize, events: &mut impl Events) -> bool {
        for is_tagged in [true, false] {
            if let Some(receive) = self.queue(is_tagged).cancel(context) {
                events.happened(failed(&receive, is_tagged, libc::ECANCELED));
                return true;
            }
        }
        false
    }

    fn incoming(&mut self, channel: u32) -> Option<&mut From> {
        self.from.get_mut(channel as usize).and_then(Option::as_mut)
    }

    /// Tells of a message that has arrived as a whole.
    #[inline(always)]
    fn complete(&mut self, received: Received, events: &mut impl Events) {
        let counts = self.figures.counts();
        counts.received.add(1);
        counts.bytes_received.add((received.length - received.cut) as u64);
        events.happened(match received.cut {
            0 => Event::Received(received),
            _ => Event::ReceiveFailed { received, error: libc::EMSGSIZE },
        });
    }
}

fn received(receive: &Receive, from: PeerId, envelope: Envelope, length: usize) -> Received {
    let cut = length.saturating_sub(receive.to.length());
    let (context, is_reported, base) = (receive.context, receive.is_reported, receive.to.base());
    Received { context, source: Some(from), envelope, base, length, cut, is_reported }
}

/// What happens to a receive for which no message will come.
fn failed(receive: &Receive, is_tagged: bool, error: Errno) -> Event {
    let envelope = Envelope { is_tagged, tag: 0, data: None };
    let Receive { context, ref to, is_reported } = *receive;
    let (base, length, cut) = (to.base(), 0, 0);
    let received = Received { context, source: None, envelope, base, length, cut, is_reported };
    Event::ReceiveFailed { received, error }
}
