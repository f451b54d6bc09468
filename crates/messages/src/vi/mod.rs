//! Virtual interfaces between processes (the VI Architecture, 1.0; cLAN C): connected pairs of work queues that
//! move bytes between registered memory of two programs, by the state machine of [`weft_protocol::vi`].
//!
//! An [`Adapter`] is one process's interface. It registers memory under protection tags, connects endpoints
//! through acceptors in the rendezvous directory, takes descriptors, and completes each exactly once through one
//! completion queue. It owns no thread: work is done inside [`Adapter::progress`] and [`Adapter::wait`].

mod c;
mod connection;

use std::time::{Duration, Instant};

use connection::{Connection, Hello};
pub use connection::{LONGEST_TRANSFER, Place};
use weft_protocol::vi::{
    Completion, CompletionQueue, Fault, MemoryHandle, Operation, PostError, ProtectionTag,
    QueueDepths, Region, Registry, Reliability, RemoteAddress,
};

use crate::link::{Acceptor, Link};
use crate::rendezvous::Directory;
use crate::sys::{Errno, Watch};

/// A virtual interface of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViId(u32);

/// A completion and its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which interface.
    pub vi: ViId,
    /// The descriptor's completion.
    pub completion: Completion<u64>,
    /// The number of bytes received.
    pub length: u64,
}

/// The attributes of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The reliability level, which both ends must share.
    pub reliability: Reliability,
    /// The protection tag of the memory that its descriptors may name.
    pub tag: ProtectionTag,
    /// How many descriptors its queues hold.
    pub depths: QueueDepths,
}

/// Why something cannot be done with a virtual interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViError {
    /// There is no such interface.
    #[error("there is no virtual interface {0} at this adapter")]
    NoVi(u32),
    /// The descriptor was not accepted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The descriptor names memory that it may not use.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The descriptor is longer than a transfer.
    #[error("a descriptor of {0} bytes: a transfer has at most {LONGEST_TRANSFER}")]
    TooLong(u64),
    /// The two ends ask for different reliability levels.
    #[error("the peer does not connect with {0:?}: both ends must use the same reliability level")]
    Reliability(Reliability),
    /// No process listens under this name.
    #[error(
        "nobody listens at {0:?}: a process of this user must listen there; a name has 1 to 24 \
         letters, digits, - and _"
    )]
    NoListener(String),
    /// The peer did not answer the connection request.
    #[error("the peer did not accept within {0:?}")]
    NoAnswer(Duration),
    /// A system call failed.
    #[error("system error: {}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(Errno),
}

/// One process's interface.
#[derive(Debug)]
pub struct Adapter {
    directory: Directory,
    memory: Registry,
    vis: Vec<Option<Connection>>,
    queue: CompletionQueue<Done>,
    /// Completions that found the queue full.
    lost: u64,
    watch: Watch,
}

impl Adapter {
    /// An adapter whose completion queue has `completions` entries.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(directory: Directory, completions: usize) -> Result<Adapter, ViError> {
        Ok(Adapter {
            directory,
            memory: Registry::new(),
            vis: Vec::new(),
            queue: CompletionQueue::new(completions),
            lost: 0,
            watch: Watch::new().map_err(ViError::Kernel)?,
        })
    }

    /// Registers memory of this process under a tag; `is_writable` allows RDMA writes to it.
    ///
    /// # Safety
    /// The bytes must stay readable and writable until they are deregistered. They change while they are writable or
    /// posted for a receive.
    pub unsafe fn register(
        &mut self,
        tag: ProtectionTag,
        memory: *mut [u8],
        is_writable: bool,
    ) -> MemoryHandle {
        let address = memory.cast::<u8>() as u64;
        self.memory.register(Region { tag, address, length: memory.len() as u64, is_writable })
    }

    /// Ends a registration. A descriptor that still uses it breaks its connection.
    pub fn deregister(&mut self, handle: MemoryHandle) {
        self.memory.deregister(handle);
    }

    /// Listens for connection requests under a name.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn listen(&self, name: &str) -> Result<Acceptor, ViError> {
        let acceptor = Acceptor::bind(&self.directory, name).map_err(ViError::Kernel)?;
        self.watch.add(acceptor.socket(), 0).map_err(ViError::Kernel)?;
        Ok(acceptor)
    }

    /// Sends a connection request and waits until the peer accepts it.
    ///
    /// # Errors
    /// [`ViError::NoListener`], [`ViError::Reliability`], [`ViError::NoAnswer`].
    pub fn connect(
        &mut self,
        name: &str,
        attributes: Attributes,
        limit: Duration,
    ) -> Result<ViId, ViError> {
        let hello = Hello { reliability: attributes.reliability };
        let link = Link::connect(&self.directory, name, &hello.to_bytes());
        let link = link.map_err(|error| match error {
            libc::ECONNREFUSED | libc::EINVAL => ViError::NoListener(name.to_owned()),
            error => ViError::Kernel(error),
        })?;
        let mut connection = Connection::new(link, attributes);
        let began = Instant::now();
        loop {
            match connection.answer() {
                Some(true) => return self.add(connection),
                Some(false) => return Err(ViError::Reliability(attributes.reliability)),
                None if began.elapsed() > limit => return Err(ViError::NoAnswer(limit)),
                None => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }

    /// Accepts the next connection request, if one with the same reliability level is waiting.
    ///
    /// # Errors
    /// [`ViError::Reliability`] if it asked for another level; the request is rejected.
    pub fn accept(
        &mut self,
        acceptor: &mut Acceptor,
        attributes: Attributes,
    ) -> Result<Option<ViId>, ViError> {
        let Some((link, hello)) = acceptor.accept() else { return Ok(None) };
        let mut connection = Connection::new(link, attributes);
        let wanted = Hello::from_bytes(&hello).map(|it| it.reliability);
        if wanted != Some(attributes.reliability) {
            connection.refuse();
            return Err(ViError::Reliability(wanted.unwrap_or(attributes.reliability)));
        }
        connection.accept();
        self.add(connection).map(Some)
    }

    fn add(&mut self, mut connection: Connection) -> Result<ViId, ViError> {
        let number = self.vis.len() as u32;
        connection.connected(number);
        for watched in connection.watched() {
            self.watch.add(watched, 1).map_err(ViError::Kernel)?;
        }
        self.vis.push(Some(connection));
        Ok(ViId(number))
    }

    fn vi(&mut self, vi: ViId) -> Result<&mut Connection, ViError> {
        self.vis.get_mut(vi.0 as usize).and_then(Option::as_mut).ok_or(ViError::NoVi(vi.0))
    }

    fn check(&self, vi: ViId, place: Place) -> Result<(), ViError> {
        let connection = self.vis.get(vi.0 as usize).and_then(Option::as_ref);
        let tag = connection.ok_or(ViError::NoVi(vi.0))?.tag();
        if place.length > LONGEST_TRANSFER {
            return Err(ViError::TooLong(place.length));
        }
        Ok(self.memory.check_local(tag, place.at, place.length)?)
    }

    /// Posts a descriptor to the send queue and rings its doorbell.
    ///
    /// # Errors
    /// [`ViError`]: the descriptor was not accepted.
    pub fn post_send(
        &mut self,
        vi: ViId,
        cookie: u64,
        place: Place,
        operation: Operation,
    ) -> Result<(), ViError> {
        self.check(vi, place)?;
        self.vi(vi)?.post_send(cookie, place, operation)?;
        self.work(vi.0 as usize);
        Ok(())
    }

    /// Posts a receive descriptor.
    ///
    /// # Errors
    /// [`ViError`]: the descriptor was not accepted.
    pub fn post_receive(&mut self, vi: ViId, cookie: u64, place: Place) -> Result<(), ViError> {
        self.check(vi, place)?;
        Ok(self.vi(vi)?.post_receive(cookie, place)?)
    }

    /// Sends what was posted and receives what has arrived; returns whether there was anything.
    pub fn progress(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.vis.len() {
            any |= self.work(index);
        }
        any
    }

    fn work(&mut self, index: usize) -> bool {
        let Self { vis, queue, lost, memory, .. } = self;
        let Some(connection) = vis[index].as_mut() else { return false };
        let vi = ViId(index as u32);
        let before = (queue.len(), *lost);
        let mut tell = |completion, length| {
            let told = queue.push(Done { vi, completion, length });
            *lost += u64::from(told.is_err());
            told.is_ok()
        };
        let any = connection.work(memory, &mut tell);
        any || (queue.len(), *lost) != before
    }

    /// The oldest unread completion.
    pub fn poll(&mut self) -> Option<Done> {
        if self.queue.is_empty() {
            self.progress();
        }
        self.queue.poll()
    }

    /// The oldest unread completion; waits for one, at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<Done> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(done) = self.poll() {
                return Some(done);
            }
            let most = Duration::from_millis(100);
            let left = deadline.map_or(most, |it| it.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            self.vis.iter_mut().flatten().for_each(Connection::arm);
            if !self.vis.iter().flatten().any(Connection::has_news) {
                self.watch.wait(Some(left.min(most)));
            }
            self.vis.iter().flatten().for_each(Connection::disarm);
            self.check_peers();
        }
    }

    /// Breaks the connections of peers that have closed or ended.
    pub fn check_peers(&mut self) {
        for index in 0..self.vis.len() {
            self.work(index);
            let Self { vis, queue, lost, .. } = self;
            let Some(connection) = vis[index].as_mut() else { continue };
            let vi = ViId(index as u32);
            connection.check_peers(&mut |completion, length| {
                let told = queue.push(Done { vi, completion, length });
                *lost += u64::from(told.is_err());
                told.is_ok()
            });
        }
    }

    /// Why an interface's connection is broken, if it is.
    ///
    /// # Errors
    /// [`ViError::NoVi`].
    pub fn fault(&mut self, vi: ViId) -> Result<Option<Fault>, ViError> {
        self.vi(vi).map(|it| it.fault())
    }

    /// Completions that found the queue full: their connections are broken.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends a connection: all its descriptors complete, and the peer is disconnected.
    ///
    /// # Errors
    /// [`ViError::NoVi`].
    pub fn disconnect(&mut self, vi: ViId) -> Result<Vec<Completion<u64>>, ViError> {
        let place = self.vis.get_mut(vi.0 as usize).ok_or(ViError::NoVi(vi.0))?;
        Ok(place.take().ok_or(ViError::NoVi(vi.0))?.end())
    }
}

/// The target of an RDMA write, as the peer program published it.
pub const fn remote(handle: MemoryHandle, address: u64) -> RemoteAddress {
    RemoteAddress { handle, address }
}

#[cfg(test)]
mod tests;
