//! Which message goes to which receive: the first that was posted takes the first that has come.

use std::collections::VecDeque;

use crate::channel::{Envelope, Remote};
use crate::parts::Parts;
use crate::peers::PeerId;

/// What a receive takes.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// From whom; `None` from anybody.
    pub source: Option<PeerId>,
    /// Which tag.
    pub tag: u64,
    /// Which bits of the tag do not matter.
    pub ignore: u64,
}

impl Wanted {
    fn takes(&self, source: PeerId, tag: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0 && self.source.is_none_or(|wanted| wanted == source)
    }
}

/// A receive that was posted.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The program's own number for it.
    pub context: usize,
    /// Where the message goes.
    pub to: Parts,
    /// Whether the program wants to be told.
    pub is_reported: bool,
}

/// The bytes of a message for which no receive was posted when it came.
#[derive(Debug)]
pub enum Stored {
    /// A short one, copied.
    Bytes(Box<[u8]>),
    /// Still with the sender, at the other end of this channel.
    Remote(u32, Remote),
}

/// A message for which no receive was posted when it came.
#[derive(Debug)]
pub struct Unexpected {
    /// Whose.
    pub source: PeerId,
    /// What it says of itself.
    pub envelope: Envelope,
    /// Its bytes.
    pub stored: Stored,
}

impl Unexpected {
    /// How many bytes it has.
    pub fn length(&self) -> usize {
        match &self.stored {
            Stored::Bytes(bytes) => bytes.len(),
            Stored::Remote(_, remote) => remote.length,
        }
    }
}

/// Receives without messages and messages without receives, of one kind of message.
#[derive(Debug, Default)]
pub struct Queue {
    posted: VecDeque<(Wanted, Receive)>,
    unexpected: VecDeque<Unexpected>,
    /// Messages that are kept for who has claimed them, by his number.
    claimed: Vec<(usize, Unexpected)>,
}

impl Queue {
    /// The receive that takes a message which has just come.
    #[inline(always)]
    pub fn receive_for(&mut self, source: PeerId, tag: u64) -> Option<Receive> {
        let first = self.posted.front()?;
        // Most often it is the one that was posted first, which is simple to remove.
        if first.0.takes(source, tag) {
            return self.posted.pop_front().map(|(_, receive)| receive);
        }
        let index = self.posted.iter().position(|(wanted, _)| wanted.takes(source, tag))?;
        self.posted.remove(index).map(|(_, receive)| receive)
    }

    /// Keeps a message for which there was no receive.
    pub fn keep(&mut self, message: Unexpected) {
        self.unexpected.push_back(message);
    }

    fn find(&self, wanted: &Wanted) -> Option<usize> {
        let takes = |it: &Unexpected| wanted.takes(it.source, it.envelope.tag);
        self.unexpected.iter().position(takes)
    }

    /// The message that a new receive takes.
    #[inline(always)]
    pub fn message_for(&mut self, wanted: &Wanted) -> Option<Unexpected> {
        if self.unexpected.is_empty() {
            return None;
        }
        self.find(wanted).and_then(|index| self.unexpected.remove(index))
    }

    /// The message that a new receive would take.
    pub fn peek(&self, wanted: &Wanted) -> Option<&Unexpected> {
        self.find(wanted).map(|index| &self.unexpected[index])
    }

    /// Keeps the message that a new receive would take for whoever claims it by this number.
    pub fn claim(&mut self, wanted: &Wanted, number: usize) -> Option<&Unexpected> {
        let message = self.message_for(wanted)?;
        self.claimed.push((number, message));
        self.claimed.last().map(|(_, message)| message)
    }

    /// The message that was claimed by this number.
    pub fn claimed(&mut self, number: usize) -> Option<Unexpected> {
        let index = self.claimed.iter().position(|(by, _)| *by == number)?;
        Some(self.claimed.swap_remove(index).1)
    }

    /// Posts a receive for which there was no message.
    pub fn post(&mut self, wanted: Wanted, receive: Receive) {
        self.posted.push_back((wanted, receive));
    }

    /// Takes a receive back, by the program's number; `None` if it has its message, or never was.
    pub fn cancel(&mut self, context: usize) -> Option<Receive> {
        let index = self.posted.iter().position(|(_, receive)| receive.context == context)?;
        self.posted.remove(index).map(|(_, receive)| receive)
    }

    /// Takes the receives back that can have no message, since they are for this source alone.
    pub fn give_up(&mut self, source: PeerId) -> Vec<Receive> {
        let is_lost = |wanted: &Wanted| wanted.source == Some(source);
        let lost = self.posted.iter().filter(|(wanted, _)| is_lost(wanted)).map(|it| it.1.clone());
        let lost = lost.collect();
        self.posted.retain(|(wanted, _)| !is_lost(wanted));
        lost
    }

    /// Those from whom alone a message is waited for.
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
        Unexpected { source, envelope, stored: Stored::Bytes(Box::default()) }
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
        let lost = queue.give_up(A).iter().map(|it| it.context).collect::<Vec<_>>();
        assert_eq!(lost, [0, 3]);
        assert_eq!(queue.sources().collect::<Vec<_>>(), [B]);
        assert!(queue.cancel(2).is_some() && queue.cancel(2).is_none());
    }
}
