//! The channels from other endpoints, and a cheap look at all of them.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::channel::Receiving;
use crate::peers::PeerId;

/// The channel from another endpoint.
#[derive(Debug)]
pub(super) struct Incoming {
    pub peer: PeerId,
    pub receiving: Receiving,
    /// The last poll that found a record here, by its number.
    pub found_at: u64,
    /// When the receiving adapter is done with the next record, if that is known; only under emulation.
    pub arrives_ns: Option<u64>,
    /// Whether the next record is held back until it is due.
    pub is_held_back: bool,
}

impl Incoming {
    pub const fn new(peer: PeerId, receiving: Receiving) -> Self {
        Self { peer, receiving, found_at: 0, arrives_ns: None, is_held_back: false }
    }

    /// Whether the poll of this number, or the one before it, has found a record.
    #[inline(always)]
    pub const fn is_busy(&self, poll: u64) -> bool {
        self.found_at + 1 >= poll
    }
}

/// What a channel that has ended brings.
static NOTHING: AtomicU64 = AtomicU64::new(0);

/// The word that is zero until the next record of a channel is there.
#[derive(Clone, Copy, Debug)]
struct Head(NonNull<AtomicU64>);

// SAFETY: it is only read, as an atomic; its channel moves to another thread with it.
unsafe impl Send for Head {}
// SAFETY: as above.
unsafe impl Sync for Head {}

impl Head {
    fn of(incoming: Option<&Incoming>) -> Self {
        Self(incoming.map_or(NonNull::from(&NOTHING), |from| from.receiving.next_head()))
    }

    #[inline(always)]
    fn has_news(self) -> bool {
        // SAFETY: it lies in the segment of its channel, which `Channels` gives up only together with it.
        unsafe { self.0.as_ref() }.load(Ordering::Relaxed) != 0
    }
}

/// The channels from other endpoints, in the order of connection; numbers are not reused.
#[derive(Debug, Default)]
pub(super) struct Channels {
    all: Vec<Option<Incoming>>,
    /// Of each channel, side by side: a poll reads these, and of the channels only those that bring something.
    heads: Vec<Head>,
}

impl Channels {
    pub fn add(&mut self, incoming: Incoming) {
        self.heads.push(Head::of(Some(&incoming)));
        self.all.push(Some(incoming));
    }

    /// Gives a channel up, if it comes from this peer.
    pub fn take_from(&mut self, peer: PeerId, channel: u32) -> Option<Incoming> {
        let place = self.all.get_mut(channel as usize)?;
        let taken = place.take_if(|from| from.peer == peer)?;
        self.heads[channel as usize] = Head::of(None);
        Some(taken)
    }

    #[inline(always)]
    pub fn get(&mut self, channel: u32) -> Option<&mut Incoming> {
        self.all.get_mut(channel as usize).and_then(Option::as_mut)
    }

    /// How many there have been.
    #[inline(always)]
    pub const fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Those that have not ended.
    pub fn iter(&self) -> impl Iterator<Item = &Incoming> {
        self.all.iter().flatten()
    }

    /// Those that have not ended.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Incoming> {
        self.all.iter_mut().flatten()
    }

    /// The channel of a peer.
    pub fn of_peer(&self, peer: PeerId) -> Option<u32> {
        let is_its = |it: &Option<Incoming>| it.as_ref().is_some_and(|from| from.peer == peer);
        self.all.iter().position(is_its).map(|channel| channel as u32)
    }

    /// Whether a record is waiting in a channel; nothing is validated.
    #[inline(always)]
    pub fn has_news(&self, channel: u32) -> bool {
        self.heads.get(channel as usize).is_some_and(|head| head.has_news())
    }

    /// Whether a record is waiting in any channel; nothing is validated.
    #[inline(always)]
    pub fn have_news(&self) -> bool {
        self.heads.iter().any(|head| head.has_news())
    }

    /// The reader of a channel may have moved: its next record is looked for elsewhere from now on.
    #[inline(always)]
    pub fn has_moved(&mut self, channel: u32) {
        if let Some(head) = self.heads.get_mut(channel as usize) {
            *head = Head::of(self.all.get(channel as usize).and_then(Option::as_ref));
        }
    }
}
