//! The side that sends.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_protocol::record_ring::{HEAD, Reader, SLOT, Writer};

use super::{Broken, Envelope, HAS_DATA, HEADER, IS_TAGGED, KIND, answer, kind};
use crate::meeting::Peer;
use crate::parts::Parts;
use crate::segment::{ANSWERS, Segment, Side};
use crate::sys;

/// The longest message that is sent whole, in bytes: beyond it one copy by the kernel costs less than
/// two through the ring.
pub const WHOLE: usize = 8192;
/// The longest piece of a longer one.
const PIECE: usize = 16384;
/// The most messages that a receiver has yet to fetch: each may be answered twice.
pub const MOST_HELD: usize = (ANSWERS / SLOT / 2 - 2) as usize;
/// The longest record, by which a receiver knows nonsense.
pub const LONGEST: u64 = HEADER + PIECE as u64;

/// A message that stays where it is until the receiver has fetched it.
#[derive(Debug)]
pub struct Held {
    /// The program's own number for it.
    pub context: usize,
    /// Its bytes.
    pub parts: Parts,
    /// Whether the program wants to be told that it was sent.
    pub is_reported: bool,
    /// Whether it is a tagged message.
    pub is_tagged: bool,
}

#[derive(Debug)]
struct Holding {
    held: Held,
    /// How many bytes were asked for and how many sent.
    asked: Option<usize>,
    sent: usize,
}

/// The sending end of a channel.
#[derive(Debug)]
pub struct Sending {
    segment: Segment,
    /// Who receives.
    pub peer: Peer,
    writer: Writer,
    answers: Reader,
    /// Messages not yet fetched, by the number that the receiver knows them by.
    held: Vec<Option<Holding>>,
    count: usize,
    /// Those whose bytes go through the ring, in the order in which they were asked for.
    pulled: VecDeque<u32>,
    /// Whether a message found no room since the receiver was last heard of.
    was_full: bool,
}

/// Wakes a side that sleeps; whether it did.
pub(super) fn wake(flag: &InterruptFlag, peer: &Peer) -> bool {
    let asleep = flag.stimulate().includes(Sleep::InKernel);
    if asleep {
        sys::ring(&peer.socket);
    }
    asleep
}

/// Writes the two words before a record's other bytes, and says where those begin.
#[inline(always)]
fn put_header(at: *mut u8, words: [u64; 2]) -> *mut u8 {
    // SAFETY: a record of these kinds has room for two words; records begin 8 bytes into a slot.
    unsafe {
        at.cast::<[u64; 2]>().write(words);
        at.add(HEADER as usize)
    }
}

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

    /// Whether so long a message is sent whole.
    pub const fn is_short(length: usize) -> bool {
        length <= WHOLE
    }

    /// Sends a short message, which is the receiver's from then on; whether there was room.
    ///
    /// # Errors
    ///
    /// If the receiver is of no more use.
    ///
    /// # Safety
    ///
    /// The places must be readable.
    #[inline(always)]
    pub unsafe fn send(&mut self, envelope: &Envelope, parts: &Parts) -> Result<bool, Broken> {
        let length = parts.length();
        debug_assert!(Self::is_short(length));
        let ring = self.segment.ring(Side::Sender);
        let what = what(kind::WHOLE, envelope);
        let words = [envelope.tag, envelope.data.unwrap_or(0)];
        let sent = ring.write(&mut self.writer, what, HEADER + length as u64, |at| {
            // SAFETY: the record has room for header and bytes; the rest is the caller's word.
            unsafe { parts.copy_to(put_header(at, words)) };
        })?;
        self.was_full |= !sent;
        Ok(sent)
    }

    /// Tells the receiver of a message, which must stay where it is until it is fetched; whether
    /// there was room.
    ///
    /// # Errors
    ///
    /// If the receiver is of no more use.
    pub fn hold(&mut self, envelope: &Envelope, held: Held) -> Result<bool, Broken> {
        if self.count == MOST_HELD {
            self.was_full = true;
            return Ok(false);
        }
        let free = self.held.iter().position(Option::is_none);
        let number = free.unwrap_or(self.held.len());
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
            let holding = Holding { held, asked: None, sent: 0 };
            match free {
                Some(free) => self.held[free] = Some(holding),
                None => self.held.push(Some(holding)),
            }
            self.count += 1;
        }
        Ok(sent)
    }

    /// Wakes the receiver, if it sleeps; whether it did.
    #[inline(always)]
    pub fn wake(&self) -> bool {
        wake(self.segment.flag(Side::Receiver), &self.peer)
    }

    /// Whether there is anything to be heard from the receiver.
    #[inline(always)]
    pub const fn is_waiting(&self) -> bool {
        self.count > 0
    }

    /// Whether the receiver has answered, by a glance, or has pieces of a message to come.
    #[inline(always)]
    pub fn is_heard_from(&self) -> bool {
        !self.pulled.is_empty() || self.segment.ring(Side::Receiver).has_next(&self.answers)
    }

    /// Takes the receiver's answers, and sends what it has asked for. Says what has been fetched.
    /// Returns whether anything was done.
    ///
    /// # Errors
    ///
    /// If the receiver is of no more use.
    pub fn progress(&mut self, mut fetched: impl FnMut(Held)) -> Result<bool, Broken> {
        let mut has_heard = false;
        let ring = self.segment.ring(Side::Receiver);
        while let Some(record) = ring.next(&mut self.answers)? {
            has_heard = true;
            if record.place.len() != HEADER as usize {
                return Err(Broken::Nonsense);
            }
            // SAFETY: the record has two words.
            let [number, length] = unsafe { ring.at(&record.place).cast::<[u64; 2]>().read() };
            self.answers.take(&record);
            let index = usize::try_from(number).map_err(|_| Broken::Nonsense)?;
            let holding = self.held.get_mut(index).and_then(Option::as_mut);
            let holding = holding.ok_or(Broken::Nonsense)?;
            match NonZeroU32::new(record.what & KIND) {
                Some(answer::DONE) if holding.asked.is_none_or(|asked| asked == holding.sent) => {
                    self.count -= 1;
                    if let Some(holding) = self.held[index].take() {
                        fetched(holding.held);
                    }
                }
                Some(answer::PULL) if holding.asked.is_none() => {
                    let length = usize::try_from(length).map_err(|_| Broken::Nonsense)?;
                    if length > holding.held.parts.length() {
                        return Err(Broken::Nonsense);
                    }
                    holding.asked = Some(length);
                    self.pulled.push_back(number as u32);
                }
                _ => return Err(Broken::Nonsense),
            }
        }
        if has_heard {
            ring.release(&mut self.answers);
        }
        let has_sent = !self.pulled.is_empty() && self.send_pieces()?;
        Ok(has_heard || has_sent)
    }

    /// Sends pieces of what was asked for, as many as there is room for.
    fn send_pieces(&mut self) -> Result<bool, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let mut has_sent = false;
        while let Some(number) = self.pulled.front().copied() {
            let Some(holding) = self.held.get_mut(number as usize).and_then(Option::as_mut) else {
                return Err(Broken::Nonsense);
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
                    // SAFETY: the record has room; whoever holds the message keeps it readable.
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

    /// Says that this side sleeps from now on, unless a look after this finds something.
    pub fn arm(&self) {
        self.segment.flag(Side::Sender).arm(Sleep::InKernel);
    }

    /// Says that it is awake.
    pub fn disarm(&self) {
        self.segment.flag(Side::Sender).disarm(Sleep::InKernel);
    }

    /// Whether a message found no room, and there may be some now.
    pub fn has_room_again(&mut self) -> Result<bool, Broken> {
        let ring = self.segment.ring(Side::Sender);
        let length = LONGEST + HEAD;
        let again = self.was_full
            && self.count < MOST_HELD
            && self.writer.reserve(&ring, ring.read(), length)?.is_some();
        self.was_full &= !again;
        Ok(again)
    }

    /// Gives up all messages that were not fetched.
    pub fn give_up(&mut self) -> impl Iterator<Item = Held> {
        self.count = 0;
        self.pulled.clear();
        std::mem::take(&mut self.held).into_iter().flatten().map(|it| it.held)
    }
}
