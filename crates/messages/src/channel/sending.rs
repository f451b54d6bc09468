//! The sending end of a channel.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_protocol::record_ring::{HEAD, Reader, SLOT, Writer};

use super::remote::{self, Operation, Request};
use super::{Broken, Envelope, HAS_DATA, HEADER, IS_TAGGED, KIND, answer, kind};
use crate::parts::{MOST, Parts, RawBytes, copy};
use crate::rendezvous::Peer;
use crate::segment::{ANSWERS, Segment, Side};
use crate::sys::{self, Errno};

/// The longest eager message, in bytes: beyond it one copy by the kernel costs less than two through the ring.
pub const WHOLE: usize = 8192;
/// The longest piece of a pulled message.
const PIECE: usize = 16384;
/// The most held messages: each may have two responses, and all responses must fit.
pub const MOST_HELD: usize = (ANSWERS / SLOT / 2 - 2) as usize;
/// The longest valid record.
pub const LONGEST: u64 = HEADER + PIECE as u64;

/// What a held message or request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A message.
    Message {
        /// Whether it is a tagged message.
        is_tagged: bool,
    },
    /// A request for remote memory access.
    Request(Operation),
}

impl Purpose {
    /// Whether the peer may ask for its bytes.
    const fn may_be_pulled(self) -> bool {
        matches!(self, Self::Message { .. } | Self::Request(Operation::Write))
    }
}

/// A long message, which stays in its buffers until the receiver has fetched it, or a request.
#[derive(Debug)]
pub struct Held {
    /// The program's context of the operation.
    pub context: usize,
    /// Its bytes.
    pub parts: Parts,
    /// Whether the program wants a completion.
    pub is_reported: bool,
    /// What it is.
    pub purpose: Purpose,
}

impl Held {
    /// Whether it is a message.
    pub const fn is_message(&self) -> bool {
        matches!(self.purpose, Purpose::Message { .. })
    }
}

/// The highest error number that a receiver may respond with.
const HIGHEST_ERROR: u64 = 4095;

#[derive(Debug)]
struct Holding {
    held: Held,
    /// How many bytes the receiver pulls, and how many of them were sent; of a request, how many were returned.
    asked: Option<usize>,
    sent: usize,
}

/// The sending end of a channel.
#[derive(Debug)]
pub struct Sending {
    segment: Segment,
    /// The receiver.
    pub peer: Peer,
    writer: Writer,
    answers: Reader,
    /// Messages not yet fetched, indexed by their number in the protocol.
    held: Vec<Option<Holding>>,
    count: usize,
    /// Numbers of the messages that are pulled through the ring, in order.
    pulled: VecDeque<u32>,
    /// Whether a message found the ring full since the last check for room.
    was_full: bool,
}

/// Wakes a side that sleeps; returns whether it did.
#[inline(always)]
pub(super) fn wake(flag: &InterruptFlag, peer: &Peer) -> bool {
    flag.is_armed_after_change() && wake_sleeper(flag, peer)
}

#[cold]
fn wake_sleeper(flag: &InterruptFlag, peer: &Peer) -> bool {
    let is_asleep = flag.take().includes(Sleep::InKernel);
    if is_asleep {
        sys::notify(&peer.socket);
    }
    is_asleep
}

/// Writes the two header words of a record; returns the address behind them.
#[inline(always)]
fn put_header(at: *mut u8, words: [u64; 2]) -> *mut u8 {
    // SAFETY: a record of these kinds has room for two words; records begin 8 bytes into a slot.
    unsafe {
        at.cast::<[u64; 2]>().write(words);
        at.add(HEADER as usize)
    }
}

#[inline(always)]
fn what(kind: NonZeroU32, envelope: &Envelope) -> NonZeroU32 {
    let tagged = if envelope.is_tagged { IS_TAGGED } else { 0 };
    let data = if envelope.data.is_some() { HAS_DATA } else { 0 };
    kind | (tagged | data)
}

impl Sending {
    /// The sending end of a new segment.
    pub fn new(peer: Peer, segment: Segment) -> Self {
        let (writer, answers) = (segment.writer(Side::Sender), segment.reader(Side::Receiver));
        let (held, pulled) = (Vec::new(), VecDeque::new());
        Self { segment, peer, writer, answers, held, count: 0, pulled, was_full: false }
    }

    /// Whether a message of this length is sent eagerly.
    pub const fn is_short(length: usize) -> bool {
        length <= WHOLE
    }

    /// Sends a short message; false if the ring is full. The buffers may be reused immediately.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The buffers must be readable.
    #[inline(always)]
    pub unsafe fn send(&mut self, envelope: &Envelope, parts: &Parts) -> Result<bool, Broken> {
        let length = parts.length();
        debug_assert!(Self::is_short(length));
        let ring = self.segment.ring(Side::Sender);
        let what = what(kind::WHOLE, envelope);
        let words = [envelope.tag, envelope.data.unwrap_or(0)];
        let sent = ring.write(&mut self.writer, what, HEADER + length as u64, |at| {
            // SAFETY: the record has room for header and bytes; the caller guarantees the buffers.
            unsafe { parts.copy_to(put_header(at, words)) };
        })?;
        self.was_full |= !sent;
        Ok(sent)
    }

    /// Sends a short message in one buffer; false if it was not sent, and [`Sending::send`] says why. The buffer may
    /// be reused immediately.
    ///
    /// # Safety
    ///
    /// The bytes must be readable, and no more than are sent eagerly: see [`Sending::is_short`].
    #[inline(always)]
    pub unsafe fn send_one(&mut self, envelope: &Envelope, bytes: RawBytes) -> bool {
        debug_assert!(Self::is_short(bytes.length));
        let ring = self.segment.ring(Side::Sender);
        let what = what(kind::WHOLE, envelope);
        let words = [envelope.tag, envelope.data.unwrap_or(0)];
        let sent = ring.write(&mut self.writer, what, HEADER + bytes.length as u64, |at| {
            // SAFETY: the record has room for header and bytes, as the caller guarantees that these are short.
            unsafe { copy(bytes.first, put_header(at, words), bytes.length) };
        });
        sent == Ok(true)
    }

    /// Whether a message can be written now; `is_held` if it stays in its buffers, see [`Sending::hold`].
    ///
    /// # Errors
    ///
    /// If the peer violated the protocol.
    pub fn has_room_for(&mut self, length: usize, is_held: bool) -> Result<bool, Broken> {
        let bytes = if is_held { 16 + 16 * MOST } else { length };
        let ring = self.segment.ring(Side::Sender);
        let has_room = !(is_held && self.count == MOST_HELD)
            && self.writer.reserve(&ring, ring.read(), HEADER + bytes as u64)?.is_some();
        self.was_full |= !has_room;
        Ok(has_room)
    }

    /// Announces a long message, whose buffers must stay valid until it is fetched; false if there is no room.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    pub fn hold(&mut self, envelope: &Envelope, held: Held) -> Result<bool, Broken> {
        if self.count == MOST_HELD {
            self.was_full = true;
            return Ok(false);
        }
        let number = self.free_number();
        let count = held.parts.count() as u64;
        let length = HEADER + 16 + 16 * count;
        let words = [envelope.tag, envelope.data.unwrap_or(0)];
        let ring = self.segment.ring(Side::Sender);
        let what = what(kind::PLACES, envelope);
        let sent = ring.write(&mut self.writer, what, length, |at| {
            let counts = number as u64 | count << 32;
            let mut at = put_header(put_header(at, words), [counts, held.parts.length() as u64]);
            for place in held.parts.places() {
                at = put_header(at, [place.iov_base.addr() as u64, place.iov_len as u64]);
            }
        })?;
        self.was_full |= !sent;
        if sent {
            self.keep(number, held);
        }
        Ok(sent)
    }

    fn free_number(&self) -> usize {
        self.held.iter().position(Option::is_none).unwrap_or(self.held.len())
    }

    fn keep(&mut self, number: usize, held: Held) {
        if number == self.held.len() {
            self.held.push(None);
        }
        self.held[number] = Some(Holding { held, asked: None, sent: 0 });
        self.count += 1;
    }

    /// Sends a request for remote memory access with the bytes in `payload`, or with the addresses of the held
    /// buffers if there are none; false if there is no room.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    ///
    /// # Safety
    ///
    /// The payload must be readable; the held buffers as the operation needs them, until it is done.
    pub unsafe fn request(
        &mut self,
        request: &Request,
        payload: Option<&Parts>,
        held: Held,
    ) -> Result<bool, Broken> {
        if self.count == MOST_HELD {
            self.was_full = true;
            return Ok(false);
        }
        let number = self.free_number();
        let places: Vec<_> = held.parts.places().copied().collect();
        let words = remote::encode(request, if payload.is_some() { &[] } else { &places });
        let length = size_of_val(words.as_slice()) + payload.map_or(0, Parts::length);
        let data = if request.data.is_some() { HAS_DATA } else { 0 };
        let header = [number as u64, request.data.unwrap_or(0)];
        let ring = self.segment.ring(Side::Sender);
        let (what, length) = (kind::REQUEST | data, HEADER + length as u64);
        let sent = ring.write(&mut self.writer, what, length, |at| {
            let at = put_header(at, header);
            let words = words.as_slice();
            // SAFETY: the record has room for header, words and payload; the caller guarantees the payload.
            unsafe {
                std::ptr::copy_nonoverlapping(words.as_ptr().cast(), at, size_of_val(words));
                if let Some(payload) = payload {
                    payload.copy_to(at.add(size_of_val(words)));
                }
            }
        })?;
        self.was_full |= !sent;
        if sent {
            self.keep(number, held);
        }
        Ok(sent)
    }

    /// Writes the due time of the next record and the bytes of its message, for emulation; false if the ring is full.
    ///
    /// # Errors
    ///
    /// If the peer violated the protocol.
    pub fn announce(&mut self, due_ns: u64, bytes: u64) -> Result<bool, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let sent = ring.write(&mut self.writer, kind::DUE, HEADER, |at| {
            put_header(at, [due_ns, bytes]);
        })?;
        self.was_full |= !sent;
        Ok(sent)
    }

    /// Returns bytes that the receiver has requested; how many, zero if there is no room.
    ///
    /// # Errors
    ///
    /// If the peer violated the protocol.
    ///
    /// # Safety
    ///
    /// The buffers must be readable.
    pub unsafe fn reply(
        &mut self,
        number: u32,
        skip: usize,
        from: &Parts,
    ) -> Result<usize, Broken> {
        let piece = from.after(skip, PIECE);
        let length = piece.length();
        let ring = self.segment.ring(Side::Sender);
        let header = [u64::from(number), skip as u64];
        let sent = ring.write(&mut self.writer, kind::REPLY, HEADER + length as u64, |at| {
            // SAFETY: the record has room; the caller guarantees the buffers.
            unsafe { piece.copy_to(put_header(at, header)) };
        })?;
        self.was_full |= !sent;
        Ok(if sent { length } else { 0 })
    }

    /// Takes bytes that the peer returns for a request; the request if it is complete.
    ///
    /// # Errors
    ///
    /// If the peer violated the protocol.
    ///
    /// # Safety
    ///
    /// The bytes must be readable.
    pub unsafe fn replied(
        &mut self,
        number: u32,
        offset: u64,
        bytes: RawBytes,
    ) -> Result<Option<Held>, Broken> {
        let place = self.held.get_mut(number as usize).ok_or(Broken::Protocol)?;
        let holding = place.as_mut().ok_or(Broken::Protocol)?;
        let Purpose::Request(operation) = holding.held.purpose else {
            return Err(Broken::Protocol);
        };
        let RawBytes { first, length } = bytes;
        let left = holding.held.parts.length() - holding.sent;
        if !operation.returns_bytes() || offset != holding.sent as u64 || length > left {
            return Err(Broken::Protocol);
        }
        // SAFETY: the program keeps the buffers of a request writable until it is done.
        unsafe { holding.held.parts.after(holding.sent, length).copy_from(first, length) };
        holding.sent += length;
        if length < left {
            return if length == 0 { Err(Broken::Protocol) } else { Ok(None) };
        }
        self.count -= 1;
        Ok(place.take().map(|it| it.held))
    }

    /// Wakes the receiver if it sleeps; returns whether it did.
    #[inline(always)]
    pub fn wake(&self) -> bool {
        wake(self.segment.flag(Side::Receiver), &self.peer)
    }

    /// Whether messages are held, so that responses are expected.
    #[inline(always)]
    pub const fn has_held(&self) -> bool {
        self.count > 0
    }

    /// Whether a response is waiting, or pieces are still to be sent; a cheap check.
    #[inline(always)]
    pub fn has_answers(&self) -> bool {
        !self.pulled.is_empty() || self.segment.ring(Side::Receiver).has_next(&self.answers)
    }

    /// The word that is zero until the next response is there; `None` while pieces are still to be
    /// sent.
    pub fn next_answer(&self) -> Option<NonNull<AtomicU64>> {
        let ring = self.segment.ring(Side::Receiver);
        self.pulled.is_empty().then(|| ring.next_head(&self.answers))
    }

    /// Handles the receiver's responses and sends the pieces that it pulls. Calls `done` for each
    /// message or request that is done, with zero or an error number; returns whether there was
    /// anything to do.
    ///
    /// # Errors
    ///
    /// If the peer closed, or violated the protocol.
    pub fn progress(&mut self, mut done: impl FnMut(Held, Errno)) -> Result<bool, Broken> {
        let mut has_heard = false;
        let ring = self.segment.ring(Side::Receiver);
        while let Some(record) = ring.next(&mut self.answers)? {
            has_heard = true;
            if record.place.len() != HEADER as usize {
                return Err(Broken::Protocol);
            }
            let words = ring.at(&record.place).cast::<u64>();
            // The peer may still write here: read once, so that all that follows sees the same words.
            // SAFETY: the record has two words, and begins 8 bytes into a slot.
            let [number, length] = unsafe { [words.read_volatile(), words.add(1).read_volatile()] };
            self.answers.take(&record);
            let index = usize::try_from(number).map_err(|_| Broken::Protocol)?;
            let holding = self.held.get_mut(index).and_then(Option::as_mut);
            let holding = holding.ok_or(Broken::Protocol)?;
            match NonZeroU32::new(record.what & KIND) {
                Some(answer::DONE)
                    if holding.asked.is_none_or(|asked| asked == holding.sent)
                        && length <= HIGHEST_ERROR =>
                {
                    self.count -= 1;
                    if let Some(holding) = self.held[index].take() {
                        done(holding.held, length as Errno);
                    }
                }
                Some(answer::PULL)
                    if holding.asked.is_none() && holding.held.purpose.may_be_pulled() =>
                {
                    let length = usize::try_from(length).map_err(|_| Broken::Protocol)?;
                    if length > holding.held.parts.length() {
                        return Err(Broken::Protocol);
                    }
                    holding.asked = Some(length);
                    self.pulled.push_back(number as u32);
                }
                _ => return Err(Broken::Protocol),
            }
        }
        if has_heard {
            ring.release(&mut self.answers);
        }
        let has_sent = !self.pulled.is_empty() && self.send_pieces()?;
        Ok(has_heard || has_sent)
    }

    /// Sends pieces of pulled messages, as many as the ring has room for.
    fn send_pieces(&mut self) -> Result<bool, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let mut has_sent = false;
        while let Some(number) = self.pulled.front().copied() {
            let Some(holding) = self.held.get_mut(number as usize).and_then(Option::as_mut) else {
                return Err(Broken::Protocol);
            };
            let left = holding.asked.unwrap_or(0).saturating_sub(holding.sent);
            if left == 0 {
                self.pulled.pop_front();
                continue;
            }
            let piece = holding.held.parts.after(holding.sent, PIECE.min(left));
            let length = piece.length();
            let wrote =
                ring.write(&mut self.writer, kind::PIECE, HEADER + length as u64, |at| {
                    // SAFETY: the record has room; the program keeps a held message readable.
                    unsafe { piece.copy_to(put_header(at, [u64::from(number), 0])) };
                })?;
            if !wrote {
                break;
            }
            holding.sent += length;
            has_sent = true;
        }
        if has_sent {
            self.wake();
        }
        Ok(has_sent)
    }

    /// Asks the receiver for wake-ups. The caller checks for responses once more before it sleeps.
    pub fn arm(&self) {
        self.segment.flag(Side::Sender).arm(Sleep::InKernel);
    }

    /// Asks for no more wake-ups.
    pub fn disarm(&self) {
        self.segment.flag(Side::Sender).disarm(Sleep::InKernel);
    }

    /// Whether a message found the ring full, and there may be room now.
    pub fn has_room_again(&mut self) -> Result<bool, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let length = LONGEST + HEAD;
        let again = self.was_full
            && self.count < MOST_HELD
            && self.writer.reserve(&ring, ring.read(), length)?.is_some();
        self.was_full &= !again;
        Ok(again)
    }

    /// Abandons all messages that were not fetched.
    pub fn abandon(&mut self) -> impl Iterator<Item = Held> {
        self.count = 0;
        self.pulled.clear();
        std::mem::take(&mut self.held).into_iter().flatten().map(|it| it.held)
    }
}
