//! Connection management: requests, responses and ends of connections between endpoints of
//! processes.
//!
//! A passive endpoint listens on a Unix socket in the rendezvous directory. A connecting endpoint sends its name and
//! the program's data; the response is the name of the accepting endpoint, or a rejection. From
//! then on each endpoint admits channels of the other alone, and the socket stays open: its end is
//! the end of the connection.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::abi::{FI_CONNECTED, FI_CONNREQ, FI_SHUTDOWN};
use super::state::{Entry, Shared};
use crate::rendezvous::{self, Directory, Listener, Name, Peer};
use crate::sys::{self, Errno, Watch};

/// The most bytes that programs pass along with a request or a response.
pub const MOST_DATA: usize = 256;
const MAGIC: [u8; 8] = *b"weft-cm1";
const LENGTH: usize = 8 + 8 + Name::LENGTH + MOST_DATA;

/// What one end tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request = 1,
    Accept = 2,
    Reject = 3,
}

/// A message of the connection management.
struct Said {
    kind: Kind,
    name: Name,
    data: Vec<u8>,
}

impl Said {
    fn send(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.kind as u32).to_ne_bytes());
        bytes[12..16].copy_from_slice(&(self.data.len() as u32).to_ne_bytes());
        bytes[16..16 + Name::LENGTH].copy_from_slice(&self.name.to_bytes());
        bytes[16 + Name::LENGTH..][..self.data.len()].copy_from_slice(&self.data);
        sys::send(socket, &bytes)
    }

    /// The next message; `EAGAIN` if there is none yet.
    fn receive(socket: &OwnedFd) -> Result<Said, Errno> {
        let mut bytes = [0; LENGTH];
        let (length, _) = sys::receive_with(socket.as_raw_fd(), &mut bytes)?;
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let kind = [Kind::Request, Kind::Accept, Kind::Reject];
        let kind = kind.into_iter().find(|kind| *kind as u32 == word(8));
        let data = bytes[16 + Name::LENGTH..].get(..word(12) as usize);
        let name = bytes[16..16 + Name::LENGTH].try_into().ok().and_then(Name::from_bytes);
        match (kind, name, data) {
            (Some(kind), Some(name), Some(data)) if length == LENGTH && bytes[..8] == MAGIC => {
                Ok(Said { kind, name, data: data.to_vec() })
            }
            // An end that says nothing has closed.
            _ if length == 0 => Err(libc::ECONNRESET),
            _ => Err(libc::EPROTO),
        }
    }
}

/// An endpoint of a program: its identifier, and where its state is.
#[derive(Clone, Debug)]
pub struct Active {
    /// The address of the program's `fid`.
    pub fid: usize,
    /// Its domain.
    pub shared: Arc<Shared>,
    /// Its number there.
    pub number: usize,
    /// Its name.
    pub name: Name,
}

impl Active {
    /// Admits the channels of the peer, and sends to it from now on.
    fn connect(&self, peer: Name) {
        let mut state = self.shared.lock();
        let number = state.peers.number(peer);
        if let Ok(Entry { bound, .. }) = state.endpoints().get(self.number) {
            // An endpoint that had a connection gets no other, and is as one that has lost its peer.
            bound.peer = bound.endpoint.admit(number).ok().map(|()| number);
        }
    }
}

/// What an event queue watches.
#[derive(Debug)]
enum Source {
    /// A passive endpoint, with those that have connected and requested nothing yet.
    Listening { listener: Listener, fid: usize, waiting: Vec<Peer> },
    /// A request that the program has been told of.
    Requested { peer: Peer, name: Name },
    /// An active endpoint that has requested a connection.
    Connecting { peer: Peer, active: Active },
    /// An active endpoint with a connection.
    Connected { peer: Peer, fid: usize },
}

/// An event that the program has not read.
#[derive(Clone, Debug)]
pub enum Event {
    /// One of the connection management.
    Connection {
        /// Which of the headers.
        event: u32,
        /// The object that it is of.
        fid: usize,
        /// The source of a request, by which it is accepted or rejected.
        request: Option<usize>,
        /// The program's data of the other end.
        data: Vec<u8>,
    },
    /// A connection was not made.
    Failed {
        /// The active endpoint.
        fid: usize,
        /// Why.
        error: Errno,
        /// The program's data of a rejection.
        data: Vec<u8>,
    },
    /// One that the program has written itself.
    Written {
        /// Which of the headers.
        event: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

/// The state of an event queue.
#[derive(Debug)]
pub struct Queue {
    pub events: VecDeque<Event>,
    sources: Vec<Option<Source>>,
    pub watch: Arc<Watch>,
    /// The data of the error that was read last, which the program may still look at.
    pub error_data: Vec<u8>,
}

/// An event queue, as those share it that are bound to it.
#[derive(Debug)]
pub struct Events(Mutex<Queue>);

impl Events {
    /// An empty queue.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self(Mutex::new(Queue {
            events: VecDeque::new(),
            sources: Vec::new(),
            watch: Arc::new(Watch::new()?),
            error_data: Vec::new(),
        }))))
    }

    /// Exclusive access.
    pub fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn add(&mut self, source: Source) -> usize {
        self.sources.push(Some(source));
        self.sources.len() - 1
    }

    /// Listens for requests under a name.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn listen(
        &mut self,
        directory: &Directory,
        name: Name,
        fid: usize,
    ) -> Result<usize, Errno> {
        let listener = Listener::new(directory, name)?;
        self.watch.add(listener.socket(), self.sources.len() as u64)?;
        Ok(self.add(Source::Listening { listener, fid, waiting: Vec::new() }))
    }

    /// Requests a connection to the passive endpoint of a name. An event tells of the response.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` if nobody listens there; the kernel's error.
    pub fn connect(
        &mut self,
        directory: &Directory,
        to: Name,
        active: Active,
        data: &[u8],
    ) -> Result<usize, Errno> {
        let peer = rendezvous::dial(directory, to)?;
        let said = Said { kind: Kind::Request, name: active.name, data: data.to_vec() };
        said.send(&peer.socket)?;
        self.watch.add(&peer.socket, self.sources.len() as u64)?;
        Ok(self.add(Source::Connecting { peer, active }))
    }

    /// Accepts a request.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such request, `ECONNRESET` if the other end has given it up.
    pub fn accept(&mut self, request: usize, active: &Active, data: &[u8]) -> Result<(), Errno> {
        let (peer, name) = self.take_request(request)?;
        active.connect(name);
        let said = Said { kind: Kind::Accept, name: active.name, data: data.to_vec() };
        said.send(&peer.socket).map_err(|_| libc::ECONNRESET)?;
        // It may have been watched as a request.
        let token = request as u64;
        match self.watch.add(&peer.socket, token) {
            Err(libc::EEXIST) => self.watch.change(&peer.socket, token)?,
            added => added?,
        }
        let fid = active.fid;
        self.sources[request] = Some(Source::Connected { peer, fid });
        let (event, data) = (FI_CONNECTED, Vec::new());
        self.events.push_back(Event::Connection { event, fid, request: None, data });
        Ok(())
    }

    /// Rejects a request.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such request.
    pub fn reject(&mut self, request: usize, own: Name, data: &[u8]) -> Result<(), Errno> {
        let (peer, _) = self.take_request(request)?;
        let said = Said { kind: Kind::Reject, name: own, data: data.to_vec() };
        // If the other end has gone, nobody waits for the response.
        let _ = said.send(&peer.socket);
        Ok(())
    }

    /// Takes a request over from the event queue of its passive endpoint.
    pub fn add_request(&mut self, peer: Peer, name: Name) -> usize {
        self.add(Source::Requested { peer, name })
    }

    /// Takes a request out.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such request.
    pub fn take_request(&mut self, request: usize) -> Result<(Peer, Name), Errno> {
        let place = self.sources.get_mut(request).ok_or(libc::EINVAL)?;
        match place.take() {
            Some(Source::Requested { peer, name }) => Ok((peer, name)),
            other => {
                *place = other;
                Err(libc::EINVAL)
            }
        }
    }

    /// Ends whatever an object has here: its listening, its request or its connection. The other end is told.
    pub fn end(&mut self, fid: usize) {
        for place in &mut self.sources {
            let ended = place.take_if(|source| match source {
                Source::Listening { fid: of, .. } | Source::Connected { fid: of, .. } => *of == fid,
                Source::Connecting { active, .. } => active.fid == fid,
                Source::Requested { .. } => false,
            });
            // A forked child may have the socket open, too.
            if let Some(Source::Connected { peer, .. } | Source::Connecting { peer, .. }) = ended {
                self.watch.remove(&peer);
                sys::shutdown(&peer.socket);
            }
        }
    }

    /// Looks for requests, responses and ends of connections.
    pub fn progress(&mut self) {
        loop {
            let (tokens, count) = self.watch.wait(Some(std::time::Duration::ZERO));
            for token in &tokens[..count] {
                self.look(*token as usize);
            }
            if count < tokens.len() {
                return;
            }
        }
    }

    fn look(&mut self, index: usize) {
        let Some(source) = self.sources.get_mut(index).and_then(Option::take) else { return };
        self.sources[index] = match source {
            Source::Listening { listener, fid, waiting } => {
                Some(self.hear(index, listener, fid, waiting))
            }
            Source::Connecting { peer, active } => self.answered(peer, active),
            Source::Connected { peer, fid } => {
                let is_over = !matches!(Said::receive(&peer.socket), Err(libc::EAGAIN));
                if is_over {
                    let (event, data) = (FI_SHUTDOWN, Vec::new());
                    self.events.push_back(Event::Connection { event, fid, request: None, data });
                }
                (!is_over).then_some(Source::Connected { peer, fid })
            }
            // The end of a request is noticed when it is answered.
            Source::Requested { peer, name } => {
                self.watch.remove(&peer);
                Some(Source::Requested { peer, name })
            }
        };
    }

    /// New requests at a passive endpoint.
    fn hear(
        &mut self,
        own: usize,
        listener: Listener,
        fid: usize,
        mut waiting: Vec<Peer>,
    ) -> Source {
        while let Some(socket) = listener.accept() {
            if let Ok(peer) = Peer::of(socket) {
                waiting.push(peer);
            }
        }
        for peer in std::mem::take(&mut waiting) {
            match Said::receive(&peer.socket) {
                Err(libc::EAGAIN | libc::EINTR) => {
                    // A socket that cannot be watched is read with the next request.
                    let _ = self.watch.add(&peer.socket, own as u64);
                    waiting.push(peer);
                }
                Ok(Said { kind: Kind::Request, name, data }) => {
                    let request = self.sources.len();
                    let added = self.watch.add(&peer.socket, request as u64);
                    if added == Err(libc::EEXIST) {
                        let _ = self.watch.change(&peer.socket, request as u64);
                    }
                    self.sources.push(Some(Source::Requested { peer, name }));
                    let (event, request) = (FI_CONNREQ, Some(request));
                    self.events.push_back(Event::Connection { event, fid, request, data });
                }
                // What is no request is closed.
                Ok(_) | Err(_) => {}
            }
        }
        Source::Listening { listener, fid, waiting }
    }

    /// The response to a request of this end.
    fn answered(&mut self, peer: Peer, active: Active) -> Option<Source> {
        let fid = active.fid;
        let (error, data) = match Said::receive(&peer.socket) {
            Err(libc::EAGAIN | libc::EINTR) => return Some(Source::Connecting { peer, active }),
            Ok(Said { kind: Kind::Accept, name, data }) => {
                active.connect(name);
                let event = FI_CONNECTED;
                self.events.push_back(Event::Connection { event, fid, request: None, data });
                return Some(Source::Connected { peer, fid });
            }
            Ok(Said { kind: Kind::Reject, data, .. }) => (libc::ECONNREFUSED, data),
            Ok(_) => (libc::EPROTO, Vec::new()),
            Err(error) => (error, Vec::new()),
        };
        self.events.push_back(Event::Failed { fid, error, data });
        None
    }
}
