//! A connection between two processes: a shared segment with a ring in each direction that carries whole records.
//! Virtual interfaces and active messages are built on it.
//!
//! One side listens on an [`Acceptor`], a Unix socket in the rendezvous directory; the other connects, passes the
//! segment's descriptor and a fixed-size hello.

use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::record_ring::{Reader, Writer};

use crate::parts::RawBytes;
use crate::rendezvous::{Directory, Peer};
use crate::segment::{Segment, Side};
use crate::sys::{self, Errno};

/// The most bytes of a record.
pub const LONGEST: usize = 16 * 1024 + 128;
/// The bytes of the hello that a connecting process sends.
pub const HELLO: usize = 64;
const MAGIC: [u8; 8] = *b"weftlink";

/// A listening socket with a name in the rendezvous directory.
#[derive(Debug)]
pub struct Acceptor {
    socket: OwnedFd,
    path: PathBuf,
    /// Accepted sockets whose hello has not arrived yet.
    pending: Vec<OwnedFd>,
}

impl Acceptor {
    /// Listens under a name.
    ///
    /// # Errors
    /// The kernel's error; `EADDRINUSE` if a live process listens under this name.
    pub fn bind(directory: &Directory, name: &str) -> Result<Acceptor, Errno> {
        let path = path(directory, name)?;
        let socket = sys::unix_socket()?;
        let mut bound = sys::listen(&socket, &path);
        if bound == Err(libc::EADDRINUSE) {
            let other = sys::unix_socket()?;
            if sys::connect(&other, &path) == Err(libc::ECONNREFUSED) {
                // The process that listened here was killed and left its socket.
                let _ = std::fs::remove_file(&path);
                bound = sys::listen(&socket, &path);
            }
        }
        bound?;
        Ok(Acceptor { socket, path, pending: Vec::new() })
    }

    /// For polling: readable when a connection request is waiting.
    pub const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next connection request with its hello. A request that cannot be parsed is closed.
    pub fn accept(&mut self) -> Option<(Link, [u8; HELLO])> {
        while let Ok(come) = sys::accept(&self.socket) {
            self.pending.push(come);
        }
        let mut index = 0;
        while index < self.pending.len() {
            let mut bytes = [0; MAGIC.len() + HELLO];
            let said = sys::receive_with(self.pending[index].as_raw_fd(), &mut bytes);
            if matches!(said, Err(libc::EAGAIN | libc::EINTR)) {
                index += 1;
                continue;
            }
            let socket = self.pending.swap_remove(index);
            let Ok((length, Some(file))) = said else { continue };
            let understood = length == bytes.len() && bytes[..MAGIC.len()] == MAGIC;
            let hello = bytes[MAGIC.len()..].try_into();
            if let (true, Ok(hello), Ok(segment), Ok(peer)) =
                (understood, hello, Segment::join(&file), Peer::of(socket))
            {
                return Some((Link::new(peer, segment, Side::Receiver), hello));
            }
        }
        None
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn path(directory: &Directory, name: &str) -> Result<PathBuf, Errno> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if name.is_empty() || name.len() > 24 || !name.chars().all(is_plain) {
        return Err(libc::EINVAL);
    }
    Ok(directory.path().join(format!("acceptor.{name}")))
}

/// One side of a connection.
#[derive(Debug)]
pub struct Link {
    peer: Peer,
    segment: Segment,
    side: Side,
    writer: Writer,
    reader: Reader,
}

impl Link {
    fn new(peer: Peer, segment: Segment, side: Side) -> Link {
        let (writer, reader) = (segment.writer(side), segment.reader(other(side)));
        Link { peer, segment, side, writer, reader }
    }

    /// Connects to an acceptor.
    ///
    /// # Errors
    /// `ECONNREFUSED` if nobody listens under this name; otherwise the kernel's error.
    pub fn connect(directory: &Directory, name: &str, hello: &[u8; HELLO]) -> Result<Link, Errno> {
        let socket = sys::unix_socket()?;
        let connected = sys::connect(&socket, &path(directory, name)?);
        connected
            .map_err(|error| if error == libc::ENOENT { libc::ECONNREFUSED } else { error })?;
        let peer = Peer::of(socket)?;
        let (segment, file) = Segment::create()?;
        let bytes = [&MAGIC[..], hello].concat();
        sys::send_with(peer.socket.as_raw_fd(), &bytes, &file)?;
        Ok(Link::new(peer, segment, Side::Sender))
    }

    /// For polling: readable when the peer sends a wake-up or closes, and when its process ends.
    pub fn watched(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.peer.socket).chain(&self.peer.pidfd)
    }

    /// Writes a record of a head and a body, if there is room.
    ///
    /// # Errors
    /// `EMSGSIZE` if it is too long, `EPROTO` if the peer has corrupted the ring.
    ///
    /// # Safety
    /// The body is readable for its length.
    pub unsafe fn write(
        &mut self,
        what: NonZeroU32,
        head: &[u8],
        body: RawBytes,
    ) -> Result<bool, Errno> {
        let all = head.len().checked_add(body.length).filter(|all| *all <= LONGEST);
        let all = all.ok_or(libc::EMSGSIZE)?;
        let ring = self.segment.ring(self.side);
        // SAFETY: the ring has reserved room for the record; the caller guarantees the body.
        let written = ring.write(&mut self.writer, what, all as u64, |to| unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
            std::ptr::copy_nonoverlapping(body.first, to.add(head.len()), body.length);
        });
        written.map_err(|_| libc::EPROTO)
    }

    /// Consumes the next record: its kind and its bytes, which the peer may still change while `take` reads them.
    ///
    /// # Errors
    /// `EPROTO` if the peer has corrupted the ring.
    pub fn read<T>(
        &mut self,
        take: impl FnOnce(u32, *const u8, usize) -> T,
    ) -> Result<Option<T>, Errno> {
        let ring = self.segment.ring(other(self.side));
        let Some(record) = ring.next(&mut self.reader).map_err(|_| libc::EPROTO)? else {
            return Ok(None);
        };
        let taken = take(record.what, ring.at(&record.place), record.place.len());
        self.reader.take(&record);
        if self.reader.is_release_due() {
            self.release();
        }
        Ok(Some(taken))
    }

    /// Whether a record is waiting.
    pub fn has_next(&self) -> bool {
        self.segment.ring(other(self.side)).has_next(&self.reader)
    }

    fn release(&mut self) {
        if self.segment.ring(other(self.side)).release(&mut self.reader) {
            self.wake();
        }
    }

    /// Wakes the peer if it sleeps; to be called after writing records.
    pub fn wake(&self) {
        if self.segment.flag(other(self.side)).stimulate().includes(Sleep::InKernel) {
            sys::notify(&self.peer.socket);
        }
    }

    /// Asks the peer for wake-ups. The caller checks for records once more before it sleeps.
    pub fn arm(&mut self) {
        self.release();
        self.segment.flag(self.side).arm(Sleep::InKernel);
    }

    /// Asks for no more wake-ups.
    pub fn disarm(&self) {
        self.segment.flag(self.side).disarm(Sleep::InKernel);
    }

    /// Whether the peer has closed or ended, as the kernel knows. Records that it sent before may still be unread.
    pub fn is_gone(&self) -> bool {
        sys::drain_notifications(&self.peer.socket)
            || self.peer.pidfd.as_ref().is_some_and(sys::is_readable)
    }

    /// Overwrites the shared memory, as a hostile process may. For tests.
    pub fn corrupt(&self, word: impl FnMut() -> u64) {
        self.segment.corrupt(word);
    }
}

const fn other(side: Side) -> Side {
    match side {
        Side::Sender => Side::Receiver,
        Side::Receiver => Side::Sender,
    }
}
