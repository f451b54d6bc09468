//! The receiving end of a channel.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use libc::{c_void, iovec};
use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::record_ring::{Reader, Record, Writer};

use super::remote::{self, Requested};
use super::sending::{LONGEST, wake};
use super::{Broken, Envelope, HAS_DATA, HEADER, IS_TAGGED, KIND, answer, kind};
use crate::parts::{MOST, Parts, RawBytes};
use crate::rendezvous::Peer;
use crate::segment::{Segment, Side};
use crate::sys::{self, Errno};

/// A long message that is still in its sender's memory.
#[derive(Debug)]
pub struct Remote {
    /// The sender's number for it.
    number: u32,
    /// Its length in bytes.
    pub length: usize,
    /// Its buffers, as addresses of the sender.
    parts: Parts,
}

impl Remote {
    /// The sender's message with this number, in these buffers of the sender.
    pub(super) fn new(number: u32, parts: Parts) -> Self {
        Self { number, length: parts.length(), parts }
    }
}

/// Where the bytes of an arrived message are.
#[derive(Debug)]
pub enum Body {
    /// In the ring, until [`Receiving::take`].
    Here(*const u8, usize),
    /// In the sender's memory.
    There(Remote),
}

/// The next record.
#[derive(Debug)]
pub enum Arrival {
    /// A message.
    Message(Envelope, Body),
    /// The last piece of a pulled message, which is now complete.
    Complete(u32),
    /// Another piece of a pulled message.
    Piece,
    /// A request for remote memory access.
    Request(Box<Requested>),
    /// Bytes that a request of this side returns: its number, their offset, and where they are.
    Reply(u32, u64, *const u8, usize),
    /// The due time of the next record under emulation, in nanoseconds of the monotonic clock, and the bytes of the message.
    Due(u64, u64),
}

/// A short message in the ring.
#[derive(Debug)]
pub struct Short {
    /// Its metadata.
    pub envelope: Envelope,
    /// Its bytes, which stay in the ring until [`Receiving::pass`].
    pub bytes: RawBytes,
    record: Record,
}

/// What a first look at the next record finds.
#[derive(Debug)]
pub enum Look {
    /// There is no record.
    Nothing,
    /// A short message.
    Short(Short),
    /// Anything else: [`Receiving::next_arrival`] says what.
    Other,
}

/// A message that is pulled through the ring.
#[derive(Debug)]
struct Pulled {
    to: Parts,
    wanted: usize,
    got: usize,
}

/// The receiving end of a channel.
#[derive(Debug)]
pub struct Receiving {
    segment: Segment,
    /// The sender.
    pub peer: Peer,
    reader: Reader,
    answers: Writer,
    pulled: HashMap<u32, Pulled>,
    /// Whether to read the sender's memory directly; false once the kernel has refused.
    fetches: bool,
    next: Option<Record>,
}

impl Receiving {
    /// The receiving end of a segment that the sender passed.
    pub fn new(peer: Peer, segment: Segment) -> Self {
        let (reader, answers) = (segment.reader(Side::Sender), segment.writer(Side::Receiver));
        let fetches = peer.pid > 0;
        Self { segment, peer, reader, answers, pulled: HashMap::new(), fetches, next: None }
    }

    /// Pulls long messages through the ring from now on, as where the kernel forbids reading the sender's memory.
    pub const fn disable_fetch(&mut self) {
        self.fetches = false;
    }

    /// The most records that the ring holds at once.
    pub fn most_records(&self) -> u64 {
        self.segment.slots_of(Side::Sender).count()
    }

    /// The word that is zero until the next record is there.
    #[inline(always)]
    pub fn next_head(&self) -> NonNull<AtomicU64> {
        self.segment.ring(Side::Sender).next_head(&self.reader)
    }

    /// A first look at the next record, by which short messages are received in few instructions.
    #[inline(always)]
    pub fn look(&mut self) -> Look {
        let ring = self.segment.ring(Side::Sender);
        let record = match ring.next(&mut self.reader) {
            Ok(None) => return Look::Nothing,
            Ok(Some(record)) if record.what & KIND == kind::WHOLE.get() => record,
            _ => return Look::Other,
        };
        match self.contents(&record) {
            Some((words, bytes)) => {
                let envelope = envelope(record.what, words);
                Look::Short(Short { envelope, bytes, record })
            }
            None => Look::Other,
        }
    }

    /// Consumes the message that [`Receiving::look`] found last.
    #[inline(always)]
    pub fn pass(&mut self, short: &Short) {
        self.consume(&short.record);
    }

    /// The first two words of a record, and the bytes behind them; `None` if no record may be so long.
    #[inline(always)]
    fn contents(&self, record: &Record) -> Option<([u64; 2], RawBytes)> {
        let length = record.length();
        if !(HEADER..=LONGEST).contains(&length) {
            return None;
        }
        let at = self.segment.ring(Side::Sender).at(&record.place);
        let header = at.cast::<u64>();
        // The peer may still write here: read once, so that all that follows sees the same words.
        // SAFETY: the record has at least two words, and begins 8 bytes into a slot.
        let words = unsafe { [header.read_volatile(), header.add(1).read_volatile()] };
        // SAFETY: as above.
        let first = unsafe { at.add(HEADER as usize) };
        Some((words, RawBytes { first, length: (length - HEADER) as usize }))
    }

    /// The next record, without consuming it. Pieces are stored immediately; a message must be
    /// handled before [`Receiving::take`] releases its record.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    pub fn next_arrival(&mut self) -> Result<Option<Arrival>, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let Some(record) = ring.next(&mut self.reader)? else { return Ok(None) };
        let (words, bytes) = self.contents(&record).ok_or(Broken::Protocol)?;
        let ([tag, data], envelope) = (words, envelope(record.what, words));
        let RawBytes { first, length } = bytes;
        let kind = NonZeroU32::new(record.what & KIND);
        self.next = Some(record);
        match kind {
            Some(kind::WHOLE) => Ok(Some(Arrival::Message(envelope, Body::Here(first, length)))),
            Some(kind::PLACES) => {
                let remote = read_places(first, length).ok_or(Broken::Protocol)?;
                Ok(Some(Arrival::Message(envelope, Body::There(remote))))
            }
            Some(kind::PIECE) => self.put(tag, first, length).map(Some),
            Some(kind::REQUEST) => {
                let requested = remote::decode(tag as u32, envelope.data, first, length);
                Ok(Some(Arrival::Request(Box::new(requested.ok_or(Broken::Protocol)?))))
            }
            Some(kind::REPLY) => {
                let number = u32::try_from(tag).map_err(|_| Broken::Protocol)?;
                Ok(Some(Arrival::Reply(number, data, first, length)))
            }
            Some(kind::DUE) => Ok(Some(Arrival::Due(tag, data))),
            _ => Err(Broken::Protocol),
        }
    }

    /// Consumes the record that [`Receiving::next_arrival`] returned last.
    pub fn take(&mut self) {
        if let Some(record) = self.next.take() {
            self.consume(&record);
        }
    }

    #[inline(always)]
    fn consume(&mut self, record: &Record) {
        self.reader.take(record);
        if self.reader.is_release_due() {
            self.release();
        }
    }

    #[inline(never)]
    fn release(&mut self) {
        if self.segment.ring(Side::Sender).release(&mut self.reader) {
            wake(self.segment.flag(Side::Sender), &self.peer);
        }
    }

    fn put(&mut self, number: u64, bytes: *const u8, length: usize) -> Result<Arrival, Broken> {
        let number = u32::try_from(number).map_err(|_| Broken::Protocol)?;
        let pulled = self.pulled.get_mut(&number).ok_or(Broken::Protocol)?;
        if length == 0 || length > pulled.wanted - pulled.got {
            return Err(Broken::Protocol);
        }
        let to = pulled.to.after(pulled.got, length);
        // SAFETY: the bytes lie in the ring, the places were given for this message.
        unsafe { to.copy_from(bytes, length) };
        pulled.got += length;
        if pulled.got < pulled.wanted {
            return Ok(Arrival::Piece);
        }
        self.pulled.remove(&number);
        Ok(Arrival::Complete(number))
    }

    /// Copies a message into the receive buffers. Returns `None` if it is complete, or its number if it has to be
    /// pulled through the ring; [`Arrival::Complete`] then reports its end.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The buffers must be writable; of a pulled message, until it is complete.
    pub unsafe fn fetch(&mut self, remote: &Remote, to: &Parts) -> Result<Option<u32>, Broken> {
        let wanted = remote.length.min(to.length());
        // SAFETY: the caller's promise.
        if unsafe { self.copy_from_sender(remote, to)? } {
            self.answer(answer::DONE, remote.number, 0)?;
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.pull(remote, to.clone(), wanted) }
    }

    /// Copies a message from the sender's memory, if the kernel permits it; whether it did.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The buffers must be writable.
    pub unsafe fn copy_from_sender(&mut self, remote: &Remote, to: &Parts) -> Result<bool, Broken> {
        let wanted = remote.length.min(to.length());
        let mut got = 0;
        while self.fetches && got < wanted {
            let (from, to) = (remote.parts.after(got, wanted), to.after(got, wanted - got));
            // SAFETY: the caller's promise.
            match unsafe { sys::read_memory(self.peer.pid, to.as_slice(), from.as_slice()) } {
                Ok(0) | Err(libc::EFAULT) => return Err(Broken::Protocol),
                Ok(more) => got += more,
                Err(libc::ESRCH) => return Err(Broken::Closed),
                // The kernel forbids it (ptrace scope, seccomp, namespaces): pull instead.
                Err(_) => self.fetches = false,
            }
        }
        Ok(got == wanted)
    }

    /// Copies bytes into the sender's buffers, if the kernel permits it; whether it did.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The bytes must be readable.
    pub unsafe fn copy_to_sender(&mut self, from: &Parts, remote: &Remote) -> Result<bool, Broken> {
        let wanted = remote.length.min(from.length());
        let mut put = 0;
        while self.fetches && put < wanted {
            let (from, to) = (from.after(put, wanted - put), remote.parts.after(put, wanted));
            // SAFETY: the caller's promise.
            match unsafe { sys::write_memory(self.peer.pid, from.as_slice(), to.as_slice()) } {
                Ok(0) | Err(libc::EFAULT) => return Err(Broken::Protocol),
                Ok(more) => put += more,
                Err(libc::ESRCH) => return Err(Broken::Closed),
                // The kernel forbids it, as for reading.
                Err(_) => self.fetches = false,
            }
        }
        Ok(put == wanted)
    }

    /// Asks for the bytes of a message through the ring; returns its number, which [`Arrival::Complete`] reports at
    /// the end.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The buffers must be writable until then.
    pub unsafe fn pull(
        &mut self,
        remote: &Remote,
        to: Parts,
        wanted: usize,
    ) -> Result<Option<u32>, Broken> {
        let pulled = Pulled { to, wanted, got: 0 };
        if self.pulled.insert(remote.number, pulled).is_some() {
            return Err(Broken::Protocol);
        }
        self.answer(answer::PULL, remote.number, wanted as u64)?;
        Ok(Some(remote.number))
    }

    /// Tells the sender that a pulled message is complete, or what became of a request: zero, or an error number.
    ///
    /// # Errors
    ///
    /// If the peer violated the protocol.
    pub fn finish(&mut self, number: u32, error: Errno) -> Result<(), Broken> {
        self.answer(answer::DONE, number, error as u64)
    }

    /// Tells the sender that a message is not wanted.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    pub fn discard(&mut self, remote: &Remote) -> Result<(), Broken> {
        self.answer(answer::DONE, remote.number, 0)
    }

    fn answer(&mut self, what: NonZeroU32, number: u32, length: u64) -> Result<(), Broken> {
        let ring = self.segment.ring(Side::Receiver);
        let wrote = ring.write(&mut self.answers, what, HEADER, |at| {
            // SAFETY: the record has two words.
            unsafe { at.cast::<[u64; 2]>().write([u64::from(number), length]) };
        })?;
        // The sender limits its held messages so that their answers always fit.
        if !wrote {
            return Err(Broken::Protocol);
        }
        wake(self.segment.flag(Side::Sender), &self.peer);
        Ok(())
    }

    /// Asks the sender for wake-ups. The caller checks for records once more before it sleeps.
    pub fn arm(&mut self) {
        // The sender may be waiting for slots that were read but not released.
        self.release();
        self.segment.flag(Side::Receiver).arm(Sleep::InKernel);
    }

    /// Asks for no more wake-ups.
    pub fn disarm(&self) {
        self.segment.flag(Side::Receiver).disarm(Sleep::InKernel);
    }

    /// Abandons the pulled messages; returns their numbers.
    pub fn abandon(&mut self) -> impl Iterator<Item = u32> {
        std::mem::take(&mut self.pulled).into_keys()
    }
}

/// The metadata of a message in a record.
#[inline(always)]
fn envelope(what: u32, [tag, data]: [u64; 2]) -> Envelope {
    let (is_tagged, has_data) = (what & IS_TAGGED != 0, what & HAS_DATA != 0);
    Envelope { is_tagged, tag, data: has_data.then_some(data) }
}

/// Parses a rendezvous request: number and count, length, buffers.
fn read_places(bytes: *const u8, length: usize) -> Option<Remote> {
    let mut words = [0_u64; 2 + 2 * MOST];
    if length > size_of_val(&words) {
        return None;
    }
    // SAFETY: the bytes lie in the ring; they are copied once, and only the copy is validated and used.
    unsafe { std::ptr::copy_nonoverlapping(bytes, words.as_mut_ptr().cast(), length) };
    let [counts, total, places @ ..] = words;
    let (number, count) = (counts as u32, (counts >> 32) as usize);
    if count > MOST || length != 16 + 16 * count {
        return None;
    }
    let parts = parts_of(&places[..2 * count])?;
    let remote = Remote::new(number, parts);
    (remote.length as u64 == total).then_some(remote)
}

/// Buffers of the sender: an address and a length each, at most [`MOST`] of them.
pub(super) fn parts_of(words: &[u64]) -> Option<Parts> {
    let mut parts = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
    let count = words.len() / 2;
    for (part, [base, length]) in parts.iter_mut().zip(words.as_chunks().0) {
        // Never dereferenced here: it is an address of the sender, which the kernel resolves.
        part.iov_base = std::ptr::without_provenance_mut::<c_void>(usize::try_from(*base).ok()?);
        part.iov_len = usize::try_from(*length).ok()?;
    }
    Parts::new(parts.get(..count)?)
}
