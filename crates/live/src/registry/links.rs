//! The connections that an instance follows, those first that each wait looks at.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FOLLOWED;
use super::nests::{NESTS, Nest};
use crate::interpose::system_calls;
use crate::spin::SpinPolicy;
use crate::sys;
use crate::table::{CONNECTIONS, REGISTRATIONS, Registration, Reported};

/// What a connection has to tell.
#[derive(Clone, Copy)]
pub struct News {
    pub events: u32,
    /// How many bytes had arrived before those that are news.
    pub from: u64,
    /// The state now, against which the next edge is determined.
    pub now: Reported,
}

/// An event that a pass has found and that is to be reported.
#[derive(Clone, Copy)]
pub struct Found {
    pub link: u32,
    /// Events of the same time are reported in the order in which they were found.
    pub nth: u32,
    pub key: u64,
    /// Valid as long as the instance's lock is held.
    pub registration: *mut Registration,
    pub news: News,
}

/// How many registrations an instance has under a datum of the library's. All zeroes are none.
pub struct Tags(AtomicU32);

impl Tags {
    /// One more, which is known of the process before it is of the instance.
    pub fn add(&self) {
        system_calls::disturb();
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// One less, which is known of the instance before it is of the process.
    pub fn remove(&self) {
        let order = Ordering::SeqCst;
        if self.0.fetch_update(order, order, |count| count.checked_sub(1)).is_ok() {
            system_calls::disturb_less(1);
        }
    }

    /// Forgets them all, of an instance that is no more.
    pub fn clear(&self) {
        system_calls::disturb_less(self.0.swap(0, Ordering::SeqCst));
    }

    #[inline]
    pub fn are_any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// What an instance's lock guards.
pub struct Inner {
    pub count: usize,
    /// How many registrations the kernel's instance has under a datum of the library's, those included that
    /// the program has taken out, and the instances in it. Known also to who does not have the lock.
    pub tagged: Tags,
    /// How many of the links, from the first on, are warm: each wait looks at these. The flags of
    /// the others stay armed, so that whoever stimulates one makes the kernel report it, and it is
    /// warm again. So a wait costs by the busy connections, not by all.
    pub warm: usize,
    /// Place and registration of each followed connection.
    pub links: [u32; FOLLOWED],
    /// What to look at first, for each link.
    pub watches: [Watch; FOLLOWED],
    /// What a pass finds, before it is reported.
    pub found: [Found; FOLLOWED],
    /// The part of `found` for which the caller had no room.
    pub left: Range<usize>,
    /// The position of the link of each registration, if it is here.
    pub positions: [u32; CONNECTIONS * REGISTRATIONS],
    /// The instances that are in this one.
    pub nests: [Nest; NESTS],
    /// Whether the only place of the last wait was the kernel's.
    pub had_place: bool,
    /// Looks so far.
    pub turn: u32,
    /// When the kernel was last asked about other descriptors, in nanoseconds; zero if the program has
    /// put one in since.
    pub looked_aside: u64,
    /// The coarse clock when it was last looked at, in nanoseconds.
    pub ticked: u64,
    /// The fine clock when it was last read, in nanoseconds, and whether so much time had passed by
    /// then that every pass reads it.
    pub clocked: u64,
    pub is_slow: bool,
    /// When activity of the other ends was last checked, in nanoseconds.
    pub listened: u64,
    /// When its connections were last searched for idle ones, by the coarse clock in nanoseconds,
    /// and whether any may have pages to release.
    pub swept: u64,
    pub has_pages: bool,
    pub spin: SpinPolicy,
}

/// The word of a followed connection that changes with whatever arrives, and its value when a look
/// at the whole connection last found nothing. While they agree, one load is the whole look.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub word: *const AtomicU64,
    /// [`Watch::ANEW`] if the last look found something, or something else than bytes is waited for.
    pub calm: u64,
    /// Looks in a row that found nothing.
    pub quiet: u32,
    /// The word when it was last looked whether the other end lives.
    pub heard: u64,
    /// How many bytes had arrived when it was put in or asked for what it was not before, and by the
    /// processor's clock when that was.
    pub before: u64,
    pub since: u64,
    /// When it last went to the end of the queue without any bytes, by the processor's clock.
    pub queued: u64,
}

impl Watch {
    /// No word has this value: it would be a sealed ring of more bytes than can ever be.
    pub const ANEW: u64 = u64::MAX;

    #[inline]
    pub fn value(&self) -> u64 {
        // SAFETY: a link's connection keeps its memory until it is unlinked, which needs the
        // instance's lock, and so does looking.
        unsafe { &*self.word }.load(Ordering::Acquire)
    }

    /// Says that what had arrived before counts from now on.
    pub fn begin(&mut self, before: u64) {
        (self.before, self.since) = (before, sys::ticks());
    }

    /// Whether nothing has arrived since a look found nothing.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.calm != Self::ANEW && self.value() == self.calm
    }
}

impl Inner {
    /// Whether any of the warm connections has brought nothing since this was last asked.
    pub fn is_any_silent(&mut self) -> bool {
        let mut any = false;
        for watch in &mut self.watches[..self.warm] {
            let word = watch.value();
            any |= word == watch.heard;
            watch.heard = word;
        }
        any
    }

    /// Where a registration's link stands.
    pub fn position(&self, link: u32) -> Option<usize> {
        let at = *self.positions.get(link as usize)? as usize;
        (at < self.count && self.links[at] == link).then_some(at)
    }

    /// Adds a link, with the word to watch; `before` bytes had arrived before.
    pub fn push(&mut self, link: u32, word: *const AtomicU64, before: u64) {
        let mut watch =
            Watch { word, calm: Watch::ANEW, quiet: 0, heard: 0, before, since: 0, queued: 0 };
        watch.begin(before);
        self.put(self.count, link, watch);
        self.count += 1;
        self.make_warm(self.count - 1);
    }

    fn put(&mut self, at: usize, link: u32, watch: Watch) {
        (self.links[at], self.watches[at]) = (link, watch);
        self.positions[link as usize] = at as u32;
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (link, watch) = (self.links[one], self.watches[one]);
        self.put(one, self.links[other], self.watches[other]);
        self.put(other, link, watch);
    }

    /// Looks at a link as a whole in the next look.
    fn look_anew(&mut self, at: usize) {
        (self.watches[at].calm, self.watches[at].quiet) = (Watch::ANEW, 0);
    }

    /// Lets each wait look at a link.
    pub fn make_warm(&mut self, at: usize) {
        self.look_anew(at);
        if at >= self.warm {
            self.swap(at, self.warm);
            self.warm += 1;
        }
    }

    /// Lets waits look at a link only once its flag was stimulated.
    pub fn make_cold(&mut self, at: usize) {
        if at < self.warm {
            self.warm -= 1;
            self.swap(at, self.warm);
        }
    }

    /// Takes a link out.
    pub fn remove(&mut self, at: usize) {
        let at = if at < self.warm {
            self.make_cold(at);
            self.warm
        } else {
            at
        };
        self.count -= 1;
        if at != self.count {
            self.put(at, self.links[self.count], self.watches[self.count]);
        }
    }
}
