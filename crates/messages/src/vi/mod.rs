//! Virtual interfaces between processes (the VI Architecture, 1.0; cLAN C): connected pairs of work queues that
//! move bytes between registered memory of two programs, by the machine of [`weft_protocol::vi`].
//!
//! An [`Adapter`] is one process's interface. It registers memory under protection tags, connects endpoints
//! through doors of the meeting directory, takes descriptors, and hands each back once through one completion
//! queue. It owns no thread: [`Adapter::progress`] is the adapter's work, which a program calls, or
//! [`Adapter::wait`] for it.

mod connection;

use std::time::{Duration, Instant};

use connection::{Connection, Hello};
pub use connection::{LONGEST_TRANSFER, Place};
use weft_protocol::vi::{
    Completion, CompletionQueue, Fault, MemoryHandle, Operation, PostError, ProtectionTag, Region,
    Registry, Reliability, RemoteAddress,
};

use crate::link::{Door, Link};
use crate::meeting::Directory;
use crate::sys::{Errno, Watch};

/// A virtual interface of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViId(u32);

/// A completion, with the interface that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which interface.
    pub vi: ViId,
    /// Of which descriptor, and how it ended.
    pub completion: Completion<u64>,
    /// How many bytes came, of a receive.
    pub length: u64,
}

/// What both ends of a connection agree on, and what this one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What the connection promises.
    pub reliability: Reliability,
    /// Whose memory its descriptors may name.
    pub tag: ProtectionTag,
    /// Descriptors of the send queue and of the receive queue.
    pub depths: (u16, u16),
}

/// Why something cannot be done with a virtual interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViError {
    /// There is no such interface.
    #[error("there is no virtual interface {0} at this adapter")]
    NoVi(u32),
    /// The descriptor is not taken.
    #[error(transparent)]
    Post(#[from] PostError),
    /// It names memory that it may not.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// More than one transfer carries.
    #[error("a descriptor of {0} bytes: a transfer has at most {LONGEST_TRANSFER}")]
    TooLong(u64),
    /// The other end wants another reliability.
    #[error("the other end does not connect with {0:?}: both ends must say the same")]
    Reliability(Reliability),
    /// Nobody has such a door.
    #[error(
        "nobody listens at {0:?}: a process of this user must listen there; a name has 1 to 24 \
         letters, digits, - and _"
    )]
    NoDoor(String),
    /// The other end said nothing.
    #[error("the other end did not accept within {0:?}")]
    NoAnswer(Duration),
    /// What the kernel says.
    #[error("the kernel says: {}", std::io::Error::from_raw_os_error(*.0))]
    Kernel(Errno),
}

/// One process's interface.
#[derive(Debug)]
pub struct Adapter {
    directory: Directory,
    memory: Registry,
    vis: Vec<Option<Connection>>,
    queue: CompletionQueue<Done>,
    /// Completions for which the queue had no entry.
    lost: u64,
    watch: Watch,
}

impl Adapter {
    /// An adapter whose completion queue has so many entries.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// Registers memory of this process under a tag; `is_writable` opens it to RDMA writes.
    ///
    /// # Safety
    /// The bytes must stay readable and writable until they are deregistered, and are changed by others when
    /// they are open or posted for a receive.
    pub unsafe fn register(
        &mut self,
        tag: ProtectionTag,
        memory: *mut [u8],
        is_writable: bool,
    ) -> MemoryHandle {
        let address = memory.cast::<u8>() as u64;
        self.memory.register(Region { tag, address, length: memory.len() as u64, is_writable })
    }

    /// Ends a registration. What was posted with it and comes later breaks its connection.
    pub fn deregister(&mut self, handle: MemoryHandle) {
        self.memory.deregister(handle);
    }

    /// Opens a door at which others connect.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&self, name: &str) -> Result<Door, ViError> {
        let door = Door::open(&self.directory, name).map_err(ViError::Kernel)?;
        self.watch.add(door.socket(), 0).map_err(ViError::Kernel)?;
        Ok(door)
    }

    /// Connects to a door, and waits until the other end accepts.
    ///
    /// # Errors
    /// [`ViError::NoDoor`], [`ViError::Reliability`], [`ViError::NoAnswer`].
    pub fn connect(
        &mut self,
        name: &str,
        attributes: Attributes,
        limit: Duration,
    ) -> Result<ViId, ViError> {
        let hello = Hello { reliability: attributes.reliability };
        let link = Link::knock(&self.directory, name, &hello.to_bytes());
        let link = link.map_err(|error| match error {
            libc::ECONNREFUSED | libc::EINVAL => ViError::NoDoor(name.to_owned()),
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

    /// Accepts the next who has come to a door, if there is one with the same reliability.
    ///
    /// # Errors
    /// [`ViError::Reliability`] if it wanted another, which it is told.
    pub fn accept(
        &mut self,
        door: &mut Door,
        attributes: Attributes,
    ) -> Result<Option<ViId>, ViError> {
        let Some((link, hello)) = door.answer() else { return Ok(None) };
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
    /// [`ViError`]: not taken then.
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

    /// Posts room for a message.
    ///
    /// # Errors
    /// [`ViError`]: not taken then.
    pub fn post_receive(&mut self, vi: ViId, cookie: u64, place: Place) -> Result<(), ViError> {
        self.check(vi, place)?;
        Ok(self.vi(vi)?.post_receive(cookie, place)?)
    }

    /// Does the adapter's work: sends what was posted, receives what has come. Whether there was any.
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

    /// The oldest completion that the program has not taken.
    pub fn poll(&mut self) -> Option<Done> {
        if self.queue.is_empty() {
            self.progress();
        }
        self.queue.poll()
    }

    /// The oldest completion; sleeps until there is one, at most so long.
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
            self.look();
        }
    }

    /// Asks the kernel whether other ends have gone.
    pub fn look(&mut self) {
        for index in 0..self.vis.len() {
            self.work(index);
            let Self { vis, queue, lost, .. } = self;
            let Some(connection) = vis[index].as_mut() else { continue };
            let vi = ViId(index as u32);
            connection.look(&mut |completion, length| {
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

    /// Completions for which the queue had no entry: their connections are broken.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends a connection: all its descriptors come back, and the other end is told.
    ///
    /// # Errors
    /// [`ViError::NoVi`].
    pub fn disconnect(&mut self, vi: ViId) -> Result<Vec<Completion<u64>>, ViError> {
        let place = self.vis.get_mut(vi.0 as usize).ok_or(ViError::NoVi(vi.0))?;
        Ok(place.take().ok_or(ViError::NoVi(vi.0))?.end())
    }
}

/// Where an RDMA write goes, as the program there has said.
pub const fn remote(handle: MemoryHandle, address: u64) -> RemoteAddress {
    RemoteAddress { handle, address }
}

#[cfg(test)]
mod tests;
