//! The side that receives.

use std::collections::HashMap;
use std::num::NonZeroU32;

use libc::{c_void, iovec};
use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::record_ring::{Reader, Record, Writer};

use super::sending::{LONGEST, wake};
use super::{Broken, Envelope, HAS_DATA, HEADER, IS_TAGGED, KIND, answer, kind};
use crate::meeting::Peer;
use crate::parts::{MOST, Parts};
use crate::segment::{Segment, Side};
use crate::sys;

/// A message that is still with its sender.
#[derive(Debug)]
pub struct Remote {
    /// By which the sender knows it.
    number: u32,
    /// How many bytes it has.
    pub length: usize,
    /// Where they are, in the sender's memory.
    parts: Parts,
}

/// Where the bytes of a message are that has arrived.
#[derive(Debug)]
pub enum Body {
    /// In the ring, until [`Receiving::take`].
    Here(*const u8, usize),
    /// With the sender.
    There(Remote),
}

/// What the next record is.
#[derive(Debug)]
pub enum Arrival {
    /// A message.
    Message(Envelope, Body),
    /// A piece of a message that was asked for, which has thereby arrived as a whole.
    Complete(u32),
    /// Any other piece.
    Piece,
}

/// A message that comes in pieces.
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
    /// Who sends.
    pub peer: Peer,
    reader: Reader,
    answers: Writer,
    pulled: HashMap<u32, Pulled>,
    /// Whether the kernel lets this process read the sender's memory, as far as is known.
    fetches: bool,
    next: Option<Record>,
}

impl Receiving {
    /// The receiving end of a segment that was handed over.
    pub fn new(peer: Peer, segment: Segment) -> Self {
        let (reader, answers) = (segment.reader(Side::Sender), segment.writer(Side::Receiver));
        let fetches = peer.pid > 0;
        Self { segment, peer, reader, answers, pulled: HashMap::new(), fetches, next: None }
    }

    /// Fetches nothing from the sender's memory from now on, as if the kernel forbade it.
    pub const fn fetch_nothing(&mut self) {
        self.fetches = false;
    }

    /// Whether anything has arrived, by a glance.
    #[inline(always)]
    pub fn has_next(&self) -> bool {
        self.segment.ring(Side::Sender).has_next(&self.reader)
    }

    /// What has arrived next. A piece of a message is put where it belongs; a message must be dealt
    /// with before [`Receiving::take`] goes on.
    ///
    /// # Errors
    ///
    /// If the sender is of no more use.
    #[inline(always)]
    pub fn next_arrival(&mut self) -> Result<Option<Arrival>, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let Some(record) = ring.next(&mut self.reader)? else { return Ok(None) };
        let length = record.place.len() as u64;
        if !(HEADER..=LONGEST).contains(&length) {
            return Err(Broken::Nonsense);
        }
        let at = ring.at(&record.place);
        // SAFETY: the record has at least two words, and begins 8 bytes into a slot.
        let [tag, data] = unsafe { at.cast::<[u64; 2]>().read() };
        // SAFETY: as above.
        let bytes = unsafe { at.add(HEADER as usize) };
        let length = (length - HEADER) as usize;
        let (is_tagged, data_bit) = (record.what & IS_TAGGED != 0, record.what & HAS_DATA != 0);
        let envelope = Envelope { is_tagged, tag, data: data_bit.then_some(data) };
        let kind = NonZeroU32::new(record.what & KIND);
        self.next = Some(record);
        match kind {
            Some(kind::WHOLE) => Ok(Some(Arrival::Message(envelope, Body::Here(bytes, length)))),
            Some(kind::PLACES) => {
                let remote = read_places(bytes, length).ok_or(Broken::Nonsense)?;
                Ok(Some(Arrival::Message(envelope, Body::There(remote))))
            }
            Some(kind::PIECE) => self.put(tag, bytes, length).map(Some),
            _ => Err(Broken::Nonsense),
        }
    }

    /// Goes on behind what [`Receiving::next_arrival`] said last.
    #[inline(always)]
    pub fn take(&mut self) {
        if let Some(record) = self.next.take() {
            self.reader.take(&record);
            if self.reader.is_release_due() {
                self.release();
            }
        }
    }

    fn release(&mut self) {
        if self.segment.ring(Side::Sender).release(&mut self.reader) {
            wake(self.segment.flag(Side::Sender), &self.peer);
        }
    }

    fn put(&mut self, number: u64, bytes: *const u8, length: usize) -> Result<Arrival, Broken> {
        let number = u32::try_from(number).map_err(|_| Broken::Nonsense)?;
        let pulled = self.pulled.get_mut(&number).ok_or(Broken::Nonsense)?;
        if length == 0 || length > pulled.wanted - pulled.got {
            return Err(Broken::Nonsense);
        }
        let to = pulled.to.after(pulled.got, length);
        // SAFETY: the bytes lie in the ring, the places were given for this message.
        unsafe { to.copy_from(bytes, length) };
        pulled.got += length;
        if pulled.got < pulled.wanted {
            return Ok(Arrival::Piece);
        }
        self.pulled.remove(&number);
        self.answer(answer::DONE, number, 0)?;
        Ok(Arrival::Complete(number))
    }

    /// Fetches a message to where it belongs. Returns its number if it comes in pieces, whose
    /// last will complete it; `None` if it is there.
    ///
    /// # Errors
    ///
    /// If the sender is of no more use.
    ///
    /// # Safety
    ///
    /// The places must be writable; if the message comes in pieces, until it is complete.
    pub unsafe fn fetch(&mut self, remote: &Remote, to: &Parts) -> Result<Option<u32>, Broken> {
        let wanted = remote.length.min(to.length());
        let mut got = 0;
        while self.fetches && got < wanted {
            let (from, to) = (remote.parts.after(got, wanted), to.after(got, wanted - got));
            // SAFETY: the caller's word.
            match unsafe { sys::read_memory(self.peer.pid, to.as_slice(), from.as_slice()) } {
                Ok(0) | Err(libc::EFAULT) => return Err(Broken::Nonsense),
                Ok(more) => got += more,
                Err(libc::ESRCH) => return Err(Broken::Gone),
                // Forbidden here, whatever the reason.
                Err(_) => self.fetches = false,
            }
        }
        if got == wanted {
            self.answer(answer::DONE, remote.number, 0)?;
            return Ok(None);
        }
        let pulled = Pulled { to: to.clone(), wanted, got: 0 };
        if self.pulled.insert(remote.number, pulled).is_some() {
            return Err(Broken::Nonsense);
        }
        self.answer(answer::PULL, remote.number, wanted as u64)?;
        Ok(Some(remote.number))
    }

    /// Answers that a message is not wanted.
    ///
    /// # Errors
    ///
    /// If the sender is of no more use.
    pub fn discard(&mut self, remote: &Remote) -> Result<(), Broken> {
        self.answer(answer::DONE, remote.number, 0)
    }

    fn answer(&mut self, what: NonZeroU32, number: u32, length: u64) -> Result<(), Broken> {
        let ring = self.segment.ring(Side::Receiver);
        let wrote = ring.write(&mut self.answers, what, HEADER, |at| {
            // SAFETY: the record has two words.
            unsafe { at.cast::<[u64; 2]>().write([u64::from(number), length]) };
        })?;
        // A correct sender has no more messages held than there is room for answers.
        if !wrote {
            return Err(Broken::Nonsense);
        }
        wake(self.segment.flag(Side::Sender), &self.peer);
        Ok(())
    }

    /// Says that this side sleeps from now on, unless a look after this finds something.
    pub fn arm(&mut self) {
        // The sender may wait for what was read and not yet given back.
        self.release();
        self.segment.flag(Side::Receiver).arm(Sleep::InKernel);
    }

    /// Says that it is awake.
    pub fn disarm(&self) {
        self.segment.flag(Side::Receiver).disarm(Sleep::InKernel);
    }

    /// Gives up the messages that come in pieces; their numbers.
    pub fn give_up(&mut self) -> impl Iterator<Item = u32> {
        std::mem::take(&mut self.pulled).into_keys()
    }
}

/// Reads where a message is: number and count, length, places.
fn read_places(bytes: *const u8, length: usize) -> Option<Remote> {
    let mut words = [0_u64; 2 + 2 * MOST];
    if length > size_of_val(&words) {
        return None;
    }
    // SAFETY: the bytes lie in the ring; they are copied once, and only the copy is believed.
    unsafe { std::ptr::copy_nonoverlapping(bytes, words.as_mut_ptr().cast(), length) };
    let [counts, total, places @ ..] = words;
    let (number, count) = (counts as u32, (counts >> 32) as usize);
    if count > MOST || length != 16 + 16 * count {
        return None;
    }
    let mut parts = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST];
    for (part, [base, length]) in parts.iter_mut().zip(places.as_chunks().0) {
        // Never used as a pointer here: the kernel looks it up in the sender's memory.
        part.iov_base = std::ptr::without_provenance_mut::<c_void>(usize::try_from(*base).ok()?);
        part.iov_len = usize::try_from(*length).ok()?;
    }
    let parts = Parts::new(&parts[..count])?;
    let length = parts.length();
    (length as u64 == total).then_some(Remote { number, length, parts })
}
