//! Matching: the oldest posted receive that matches takes the oldest message that has arrived.

use std::collections::VecDeque;

use crate::channel::{Envelope, Remote};
use crate::parts::{Parts, RawBytes, copy};
use crate::peers::PeerId;

/// What a receive matches.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The source; `None` for any.
    pub source: Option<PeerId>,
    /// The tag.
    pub tag: u64,
    /// The bits of the tag that are ignored.
    pub ignore: u64,
}

impl Wanted {
    #[inline(always)]
    fn takes(&self, source: PeerId, tag: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0 && self.source.is_none_or(|wanted| wanted == source)
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The program's context of the operation.
    pub context: usize,
    /// Its buffers.
    pub to: Parts,
    /// Whether the program wants a completion.
    pub is_reported: bool,
}

/// The bytes that a record of one cache line holds behind its head and header.
const FEW: usize = 40;

/// A copy of an eager message.
#[derive(Debug)]
pub enum Copied {
    /// In place: where processes wait for processors, most short messages come before their receives.
    Few(u8, [u8; FEW]),
    /// In memory of its own.
    Many(Box<[u8]>),
}

impl Copied {
    /// A copy of bytes that may change meanwhile.
    ///
    /// # Safety
    ///
    /// They must be readable.
    pub unsafe fn from(bytes: RawBytes) -> Self {
        let RawBytes { first, length } = bytes;
        if length <= FEW {
            let mut few = [0; FEW];
            // SAFETY: the caller's promise; the copy has room.
            unsafe { copy(first, few.as_mut_ptr(), length) };
            return Self::Few(length as u8, few);
        }
        let mut many = Box::<[u8]>::new_uninit_slice(length);
        // SAFETY: the caller's promise; all of the copy is written.
        Self::Many(unsafe {
            std::ptr::copy_nonoverlapping(first, many.as_mut_ptr().cast(), length);
            many.assume_init()
        })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Few(length, few) => &few[..usize::from(*length)],
            Self::Many(many) => many,
        }
    }
}

/// The bytes of an unexpected message.
#[derive(Debug)]
pub enum Stored {
    /// An eager message, copied.
    Bytes(Copied),
    /// A long message in the memory of the sender at the other end of this channel.
    Remote(u32, Remote),
}

/// A message that arrived before its receive was posted.
#[derive(Debug)]
pub struct Unexpected {
    /// Its source.
    pub source: PeerId,
    /// Its metadata.
    pub envelope: Envelope,
    /// Its bytes.
    pub stored: Stored,
}

impl Unexpected {
    /// Its length in bytes.
    pub fn length(&self) -> usize {
        match &self.stored {
            Stored::Bytes(bytes) => bytes.as_slice().len(),
            Stored::Remote(_, remote) => remote.length,
        }
    }
}

/// Posted receives and unexpected messages of one kind (tagged or untagged).
#[derive(Debug, Default)]
pub struct Queue {
    posted: VecDeque<(Wanted, Receive)>,
    unexpected: VecDeque<Unexpected>,
    /// Claimed messages, by the context under which they were claimed.
    claimed: Vec<(usize, Unexpected)>,
}

impl Queue {
    /// The oldest posted receive, if it matches a message that has just arrived: most often it does.
    #[inline(always)]
    pub fn first_for(&self, source: PeerId, tag: u64) -> Option<&Receive> {
        self.posted.front().filter(|it| it.0.takes(source, tag)).map(|(_, receive)| receive)
    }

    /// Removes the oldest posted receive.
    #[inline(always)]
    pub fn take_first(&mut self) {
        self.posted.pop_front();
    }

    /// Removes the receive that matches a message which has just arrived.
    pub fn receive_for(&mut self, source: PeerId, tag: u64) -> Option<Receive> {
        let index = self.posted.iter().position(|(wanted, _)| wanted.takes(source, tag))?;
        self.posted.remove(index).map(|(_, receive)| receive)
    }

    /// Stores an unexpected message.
    pub fn keep(&mut self, message: Unexpected) {
        self.unexpected.push_back(message);
    }

    /// Whether a message has arrived that a new receive would match.
    #[inline(always)]
    pub fn has_message_for(&self, &Wanted { source, tag, ignore }: &Wanted) -> bool {
        !self.unexpected.is_empty() && self.finds(source, tag, ignore)
    }

    /// The parts of what is wanted: a reference would keep it in memory where no message has arrived, too.
    #[inline(never)]
    fn finds(&self, source: Option<PeerId>, tag: u64, ignore: u64) -> bool {
        self.find(&Wanted { source, tag, ignore }).is_some()
    }

    fn find(&self, wanted: &Wanted) -> Option<usize> {
        let takes = |it: &Unexpected| wanted.takes(it.source, it.envelope.tag);
        self.unexpected.iter().position(takes)
    }

    /// Removes the message that a new receive matches.
    #[inline(always)]
    pub fn message_for(&mut self, wanted: &Wanted) -> Option<Unexpected> {
        if self.unexpected.is_empty() {
            return None;
        }
        self.find(wanted).and_then(|index| self.unexpected.remove(index))
    }

    /// The message that a new receive would match.
    pub fn peek(&self, wanted: &Wanted) -> Option<&Unexpected> {
        self.find(wanted).map(|index| &self.unexpected[index])
    }

    /// Reserves the message that a new receive would match under a number.
    pub fn claim(&mut self, wanted: &Wanted, number: usize) -> Option<&Unexpected> {
        let message = self.message_for(wanted)?;
        self.claimed.push((number, message));
        self.claimed.last().map(|(_, message)| message)
    }

    /// Removes the message that was claimed under this number.
    pub fn claimed(&mut self, number: usize) -> Option<Unexpected> {
        let index = self.claimed.iter().position(|(by, _)| *by == number)?;
        Some(self.claimed.swap_remove(index).1)
    }

    /// Posts a receive that matched no message.
    #[inline(always)]
    pub fn post(&mut self, wanted: Wanted, receive: Receive) {
        self.posted.push_back((wanted, receive));
    }

    /// Removes a receive by its context; `None` if it has matched already, or does not exist.
    pub fn cancel(&mut self, context: usize) -> Option<Receive> {
        let index = self.posted.iter().position(|(_, receive)| receive.context == context)?;
        self.posted.remove(index).map(|(_, receive)| receive)
    }

    /// Removes the receives that match this source only, since it is lost.
    pub fn abandon(&mut self, source: PeerId) -> Vec<Receive> {
        let is_lost = |wanted: &Wanted| wanted.source == Some(source);
        let lost = self.posted.iter().filter(|(wanted, _)| is_lost(wanted)).map(|it| it.1.clone());
        let lost = lost.collect();
        self.posted.retain(|(wanted, _)| !is_lost(wanted));
        lost
    }

    /// The sources of directed receives.
    pub fn sources(&self) -> impl Iterator<Item = PeerId> {
        self.posted.iter().filter_map(|(wanted, _)| wanted.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerId = PeerId::of_index(0);
    const B: PeerId = PeerId::of_index(1);

    fn receive(context: usize) -> Receive {
        Receive { context, to: Parts::one(std::ptr::null_mut(), 0), is_reported: true }
    }

    fn message(source: PeerId, tag: u64) -> Unexpected {
        let envelope = Envelope { is_tagged: true, tag, data: None };
        Unexpected { source, envelope, stored: Stored::Bytes(Copied::Few(0, [0; FEW])) }
    }

    #[test]
    fn a_copy_has_all_bytes_wherever_they_are() {
        let bytes: Vec<u8> = (1..=100).collect();
        for length in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            // SAFETY: there are that many.
            let copy = unsafe { Copied::from(RawBytes { first: bytes.as_ptr(), length }) };
            assert_eq!(copy.as_slice(), &bytes[..length]);
            assert_eq!(matches!(copy, Copied::Few(..)), length <= FEW);
        }
    }

    #[test]
    fn the_first_receive_that_takes_a_message_has_it() {
        let mut queue = Queue::default();
        queue.post(Wanted { source: Some(B), tag: 5, ignore: 0 }, receive(1));
        queue.post(Wanted { source: None, tag: 4, ignore: 1 }, receive(2));
        queue.post(Wanted { source: Some(A), tag: 5, ignore: 0 }, receive(3));
        let mut context = |source, tag| queue.receive_for(source, tag).map(|it| it.context);
        assert_eq!(context(A, 5), Some(2), "posted before the one that asks for it alone");
        assert_eq!(context(A, 5), Some(3));
        assert_eq!((context(A, 5), context(B, 4), context(B, 5)), (None, None, Some(1)));
    }

    #[test]
    fn the_first_message_that_a_receive_takes_is_its() {
        let mut queue = Queue::default();
        for (source, tag) in [(A, 1), (B, 2), (A, 2), (B, 2)] {
            queue.keep(message(source, tag));
        }
        let any = Wanted { source: None, tag: 2, ignore: 0 };
        let from_a = Wanted { source: Some(A), ..any };
        assert_eq!(queue.peek(&any).map(|it| it.source), Some(B));
        assert_eq!(queue.claim(&from_a, 7).map(|it| it.source), Some(A));
        assert!(queue.peek(&from_a).is_none(), "claimed by another");
        assert_eq!(queue.message_for(&any).map(|it| it.source), Some(B));
        assert_eq!(queue.claimed(7).map(|it| it.source), Some(A));
        assert!(queue.claimed(7).is_none());
    }

    #[test]
    fn only_receives_from_a_lost_source_alone_are_given_up() {
        let mut queue = Queue::default();
        for (context, source) in [Some(A), None, Some(B), Some(A)].into_iter().enumerate() {
            queue.post(Wanted { source, tag: 0, ignore: 0 }, receive(context));
        }
        let lost = queue.abandon(A).iter().map(|it| it.context).collect::<Vec<_>>();
        assert_eq!(lost, [0, 3]);
        assert_eq!(queue.sources().collect::<Vec<_>>(), [B]);
        assert!(queue.cancel(2).is_some() && queue.cancel(2).is_none());
    }
}
