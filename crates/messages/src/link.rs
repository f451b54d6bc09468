//! A connection between two processes: a segment with a ring each way, by which whole records go. Virtual
//! interfaces and active messages stand on it.
//!
//! One side waits at a door, a socket with a name in the meeting directory; the other knocks with a segment and
//! says what it wants.

use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::record_ring::{Reader, Writer};

use crate::meeting::{Directory, Peer};
use crate::segment::{Segment, Side};
use crate::sys::{self, Errno};

/// The most bytes of a record.
pub const LONGEST: usize = 16 * 1024 + 128;
/// The bytes of what a process says when it knocks.
pub const HELLO: usize = 64;
const MAGIC: [u8; 8] = *b"weftlink";

/// Where others knock.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    path: PathBuf,
    /// Those who have come and said nothing yet.
    strangers: Vec<OwnedFd>,
}

impl Door {
    /// Opens a door under a name.
    ///
    /// # Errors
    /// What the kernel says; `EADDRINUSE` if a process that lives has such a door.
    pub fn open(directory: &Directory, name: &str) -> Result<Door, Errno> {
        let path = path(directory, name)?;
        let socket = sys::unix_socket()?;
        let mut bound = sys::listen(&socket, &path);
        if bound == Err(libc::EADDRINUSE) {
            let other = sys::unix_socket()?;
            if sys::connect(&other, &path) == Err(libc::ECONNREFUSED) {
                // Whoever had it was killed.
                let _ = std::fs::remove_file(&path);
                bound = sys::listen(&socket, &path);
            }
        }
        bound?;
        Ok(Door { socket, path, strangers: Vec::new() })
    }

    /// To be watched: readable when somebody knocks.
    pub const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next who has knocked, with what was said. Who says nothing that is understood is sent away.
    pub fn answer(&mut self) -> Option<(Link, [u8; HELLO])> {
        while let Ok(come) = sys::accept(&self.socket) {
            self.strangers.push(come);
        }
        let mut index = 0;
        while index < self.strangers.len() {
            let mut bytes = [0; MAGIC.len() + HELLO];
            let said = sys::receive_with(self.strangers[index].as_raw_fd(), &mut bytes);
            if matches!(said, Err(libc::EAGAIN | libc::EINTR)) {
                index += 1;
                continue;
            }
            let socket = self.strangers.swap_remove(index);
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

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn path(directory: &Directory, name: &str) -> Result<PathBuf, Errno> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    if name.is_empty() || name.len() > 24 || !name.chars().all(is_plain) {
        return Err(libc::EINVAL);
    }
    Ok(directory.path().join(format!("door.{name}")))
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

    /// Knocks at a door.
    ///
    /// # Errors
    /// `ECONNREFUSED` if there is none; what the kernel says.
    pub fn knock(directory: &Directory, name: &str, hello: &[u8; HELLO]) -> Result<Link, Errno> {
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

    /// Readable when the other side rings, or has gone; and when its process has ended.
    pub fn watched(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.peer.socket).chain(&self.peer.life)
    }

    /// Writes a record of a head and a body, if there is room.
    ///
    /// # Errors
    /// `EMSGSIZE` if it is too long, `EPROTO` if the other side has broken the ring.
    ///
    /// # Safety
    /// The body is readable for its length.
    pub unsafe fn write(
        &mut self,
        what: NonZeroU32,
        head: &[u8],
        (body, length): (*const u8, usize),
    ) -> Result<bool, Errno> {
        let all = head.len().checked_add(length).filter(|all| *all <= LONGEST);
        let all = all.ok_or(libc::EMSGSIZE)?;
        let ring = self.segment.ring(self.side);
        // SAFETY: the ring has room for the record; the body is the caller's word.
        let written = ring.write(&mut self.writer, what, all as u64, |to| unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
            std::ptr::copy_nonoverlapping(body, to.add(head.len()), length);
        });
        written.map_err(|_| libc::EPROTO)
    }

    /// Takes the next record: what it is, and its bytes, which the other side may still change.
    ///
    /// # Errors
    /// `EPROTO` if the other side has broken the ring.
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

    /// Whether there is a record to take.
    pub fn has_next(&self) -> bool {
        self.segment.ring(other(self.side)).has_next(&self.reader)
    }

    fn release(&mut self) {
        if self.segment.ring(other(self.side)).release(&mut self.reader) {
            self.wake();
        }
    }

    /// To be called after records were written: wakes the other side if it sleeps.
    pub fn wake(&self) {
        if self.segment.flag(other(self.side)).stimulate().includes(Sleep::InKernel) {
            sys::ring(&self.peer.socket);
        }
    }

    /// Says that this side sleeps from now on, unless it sees a record after this.
    pub fn arm(&mut self) {
        self.release();
        self.segment.flag(self.side).arm(Sleep::InKernel);
    }

    /// Says that it is awake.
    pub fn disarm(&self) {
        self.segment.flag(self.side).disarm(Sleep::InKernel);
    }

    /// Whether the other side has closed or ended; asks the kernel. What it had sent may still be there.
    pub fn is_gone(&self) -> bool {
        sys::is_closed_after_rings(&self.peer.socket)
            || self.peer.life.as_ref().is_some_and(sys::is_readable)
    }

    /// Writes over the memory of the link, as a hostile process may: for tests of who has to bear it.
    pub fn scribble(&self, word: impl FnMut() -> u64) {
        self.segment.scribble(word);
    }
}

const fn other(side: Side) -> Side {
    match side {
        Side::Sender => Side::Receiver,
        Side::Receiver => Side::Sender,
    }
}
