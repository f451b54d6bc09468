//! One direction of a byte stream that leaves the underlying stream for a ring in shared memory,
//! and comes back (SCILAN 3.4 has only the former; here a connection must be able to return at any
//! moment).
//!
//! The underlying stream is reliable, such as the kernel's connection. The writer *begins* the
//! detour by noting how many bytes it ever wrote to the underlying stream; what follows goes
//! through the ring, and the underlying stream carries only doorbells, bytes without meaning that
//! wake the other side. Either side *ends* the detour by sealing the ring; from then on the writer
//! writes to the underlying stream again. So each direction reads, in this order: the underlying
//! stream up to where the detour began, the ring up to its seal, and the underlying stream after
//! the last doorbell. Neither side waits for the other to agree, so that a detour can end while the
//! other side does something else.
//!
//! Four words hold the state that both sides share:
//!
//! * *begun*: how many bytes of the underlying stream precede the ring; once ended, a detour never
//!   begins.
//! * *doorbells*: how many doorbells were rung. A doorbell is announced and counted before it is
//!   rung, and the announcement ends afterwards: the sleeper that it wakes may take it immediately,
//!   even while the ringer, which has lost its processor to that sleeper, is still in the call. A
//!   side that departs *silences* the other, so that no doorbell follows the last one counted.
//! * *rest*: a reader that departs for good *refuses* what is left in the ring, since the next
//!   reader knows nothing of a ring; the writer then sends that rest through the underlying stream
//!   before all else. Once the writer has gone on without a refusal, the reader must read the ring
//!   itself.
//! * *over*: the writer has announced that nothing follows the bytes in the ring. It must not end
//!   the underlying stream yet, which still carries doorbells; it does so once it has returned
//!   there.

use crate::byte_ring::{BrokenRing, Reader, RingPointers, Writer};
use crate::sync::{AtomicU64, Ordering, full_fence, observe, publish};

const TOP: u64 = 1 << 63;
const RINGING: u64 = 1 << 62;
const COUNT: u64 = RINGING - 1;

/// States of the rest, below the count that belongs to a refusal.
mod rest {
    pub const OPEN: u64 = 0;
    /// The writer has gone on: the reader takes what is in the ring.
    pub const CLOSED: u64 = 1;
    pub const REFUSED: u64 = 2;
    pub const TAKEN: u64 = 3;
    pub const SENT: u64 = 7;
    pub const BITS: u32 = 3;
}

/// The shared words of one direction beside its ring. All bits zero is a detour not yet begun.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Detour {
    begun: AtomicU64,
    doorbells: AtomicU64,
    rest: AtomicU64,
    over: AtomicU64,
}

/// Whether a writer that wants to ring may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ringing {
    /// Not any more.
    Silenced,
    /// Ring, then call [`Detour::rung`].
    Ring,
    /// An earlier ringer ended before its announcement did: count anew, by
    /// [`Detour::count_doorbells`], then try again.
    Doubtful,
}

/// How far the detour has come, as its reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It may begin at any moment.
    NotYet,
    /// It ended before it began: the underlying stream is the only one.
    Never,
    /// After this many bytes of the underlying stream.
    After(u64),
}

/// What became of a refused rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is none.
    None,
    /// The writer has not yet noticed.
    Unheard,
    /// The writer sends the rest, or has sent it.
    Heard,
}

impl Detour {
    /// Begins the detour after `put_in` bytes of the underlying stream. False if it was ended
    /// before, or had begun.
    pub fn begin(&self, put_in: u64) -> bool {
        let order = Ordering::AcqRel;
        self.begun.compare_exchange(0, put_in + 1, order, Ordering::Acquire).is_ok()
    }

    /// Where the detour began.
    pub fn begun(&self) -> Begun {
        match self.begun.load(Ordering::Acquire) {
            0 => Begun::NotYet,
            TOP => Begun::Never,
            word => Begun::After((word & !TOP) - 1),
        }
    }

    /// Ends the detour, from either side, also twice. Afterwards both sides' sleepers must be woken,
    /// then this side's doorbells silenced. A writer that has finished and did not see this is seen
    /// to have finished.
    pub fn end(&self, ring: &RingPointers) {
        if self.forbid() {
            ring.seal();
        }
        full_fence();
    }

    /// The first step of ending: it can no longer begin. True if it had.
    fn forbid(&self) -> bool {
        self.begun.fetch_or(TOP, Ordering::AcqRel) & !TOP != 0
    }

    /// Whether it was ended.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.begun.load(Ordering::Acquire) & TOP != 0
    }

    /// Announces a doorbell, which counts from now on. All ringers of a side exclude each other.
    pub fn ring(&self) -> Ringing {
        let mut now = self.doorbells.load(Ordering::Relaxed);
        loop {
            if now & TOP != 0 {
                return Ringing::Silenced;
            }
            if now & RINGING != 0 {
                return Ringing::Doubtful;
            }
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            let after = now & COUNT | RINGING;
            match self.doorbells.compare_exchange(now, after + 1, order, failed) {
                Ok(_) => return Ringing::Ring,
                Err(other) => now = other,
            }
        }
    }

    /// Ends the announcement; a doorbell that was not rung does not count.
    pub fn rung(&self, did: bool) {
        let counted = self.doorbells.load(Ordering::Relaxed) & COUNT;
        self.count_doorbells(counted.saturating_sub(u64::from(!did)));
    }

    /// Sets the count right: nobody rings at this moment.
    pub fn count_doorbells(&self, total: u64) {
        let mut now = self.doorbells.load(Ordering::Relaxed);
        loop {
            let after = now & TOP | total & COUNT;
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.doorbells.compare_exchange(now, after, order, failed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Whether a doorbell was announced that may yet be rung.
    pub fn is_ringing(&self) -> bool {
        self.doorbells.load(Ordering::Acquire) & RINGING != 0
    }

    /// Lets no doorbell begin any more, from either side, also twice.
    pub fn silence(&self) {
        self.doorbells.fetch_or(TOP, Ordering::AcqRel);
    }

    /// How many doorbells there are in the underlying stream so far, or will be: this many may be
    /// discarded.
    pub fn doorbells(&self) -> u64 {
        self.doorbells.load(Ordering::Acquire) & COUNT
    }

    /// How many bytes of the underlying stream come before those that follow the ring. `None` while
    /// that is open: a doorbell is being rung, or more may be.
    pub fn resumes_after(&self) -> Option<u64> {
        let Begun::After(begun) = self.begun() else { return None };
        let doorbells = self.doorbells.load(Ordering::Acquire);
        (doorbells & (TOP | RINGING) == TOP).then(|| begun.saturating_add(doorbells & COUNT))
    }

    /// Refuses what is in the ring from this count on, and whatever will be until it is sealed.
    /// False if the writer has gone on already.
    pub fn refuse(&self, from: u64) -> bool {
        self.change_rest(rest::OPEN, from << rest::BITS | rest::REFUSED)
    }

    /// Takes a refusal back. False if the writer has heard it.
    pub fn withdraw(&self) -> bool {
        let now = self.rest.load(Ordering::Acquire);
        now & 7 == rest::REFUSED && self.change_rest(now, rest::CLOSED)
    }

    /// What became of the refusal.
    pub fn refusal(&self) -> Refusal {
        match self.rest.load(Ordering::Acquire) & 7 {
            rest::REFUSED => Refusal::Unheard,
            rest::TAKEN | rest::SENT => Refusal::Heard,
            _ => Refusal::None,
        }
    }

    /// Marks what was published as the last of the stream. Once its outlet is [`Outlet::After`],
    /// the writer must also end the underlying stream. Returns true if the detour had ended before
    /// this call: the writer must then return to the underlying stream immediately, because the
    /// reader may already have checked for this mark and missed it.
    #[must_use = "a reader that has gone back learns of the end by the underlying stream only"]
    pub fn finish(&self) -> bool {
        self.over.store(1, publish());
        full_fence();
        self.has_ended()
    }

    /// Whether nothing follows what is in the ring.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.over.load(observe()) != 0
    }

    /// Whether a reader that has read the ring up to its seal need not wait for the end of the
    /// underlying stream, which may not come until the writer's next call.
    pub fn has_said_all(&self) -> bool {
        self.is_finished() && self.refusal() == Refusal::None
    }

    fn change_rest(&self, from: u64, to: u64) -> bool {
        self.rest.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The writer's last check for a refusal: after it there is none, or the writer has taken it.
    fn hear(&self) -> Option<u64> {
        loop {
            let now = self.rest.load(Ordering::Acquire);
            match now & 7 {
                rest::OPEN if self.change_rest(now, rest::CLOSED) => return None,
                rest::REFUSED if self.change_rest(now, now & !7 | rest::TAKEN) => {
                    return Some(now >> rest::BITS);
                }
                rest::OPEN | rest::REFUSED => {}
                // Written over by the other side, or a writer that ended in between: begin again.
                rest::TAKEN => return Some(now >> rest::BITS),
                _ => return None,
            }
        }
    }
}

/// Where a writer's next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outlet {
    /// In the underlying stream: the detour has not begun.
    #[default]
    Before,
    /// In the ring.
    Ring,
    /// In the underlying stream, after the rest of the ring from this count on.
    Rest(u64),
    /// In the underlying stream, for good.
    After,
}

/// The writing side of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sender {
    outlet: Outlet,
}

impl Sender {
    /// Where the next byte belongs.
    pub const fn outlet(&self) -> Outlet {
        self.outlet
    }

    /// Begins the detour after `put_in` bytes of the underlying stream, unless it was ended.
    pub fn begin(&mut self, words: &Detour, put_in: u64) {
        if self.outlet == Outlet::Before {
            self.outlet = if words.begin(put_in) { Outlet::Ring } else { Outlet::After };
        }
    }

    /// Returns to the underlying stream, once the ring is sealed. No thread of this side may be
    /// ringing; this side's doorbells are silenced.
    ///
    /// # Errors
    ///
    /// If the reader refused what it cannot refuse.
    pub fn come_back(&mut self, words: &Detour, writer: &Writer) -> Result<(), BrokenRing> {
        if self.outlet != Outlet::Ring {
            return Ok(());
        }
        words.silence();
        let written = writer.written();
        self.outlet = match words.hear() {
            None => Outlet::After,
            Some(from) if written.wrapping_sub(from) <= writer.capacity().bytes() => {
                Outlet::Rest(from)
            }
            Some(now) => return Err(BrokenRing { before: written, now, limit: written }),
        };
        self.sent_rest(words, writer, 0);
        Ok(())
    }

    /// This many bytes of the rest were written to the underlying stream.
    pub fn sent_rest(&mut self, words: &Detour, writer: &Writer, count: u64) {
        let Outlet::Rest(from) = self.outlet else { return };
        self.outlet = Outlet::Rest(from + count);
        if from + count >= writer.written() {
            self.outlet = Outlet::After;
            words.rest.fetch_or(rest::SENT, Ordering::AcqRel);
        }
    }
}

/// Where a reader's next byte comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inlet {
    /// The underlying stream, while the detour may begin at any time: the reader may peek at bytes,
    /// but may consume only as many as `left` allows when it checks again.
    Before {
        /// How many bytes of the underlying stream are known to come before the ring.
        left: u64,
    },
    /// The ring.
    Ring,
    /// The underlying stream, after this many doorbells, which are to be discarded.
    Doorbells(u64),
    /// The underlying stream, as soon as the writer has finished ringing.
    Settling,
    /// The underlying stream, for good.
    After,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    Before,
    Ring,
    Doorbells,
    After,
}

/// The reading side of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Receiver {
    stage: Stage,
}

impl Receiver {
    /// Where the next byte comes from. `taken` is how many bytes this side ever took out of the
    /// underlying stream, doorbells included.
    pub fn inlet(
        &mut self,
        words: &Detour,
        ring: &RingPointers,
        reader: &Reader,
        taken: u64,
    ) -> Inlet {
        if self.stage == Stage::Before {
            match words.begun() {
                Begun::NotYet => return Inlet::Before { left: u64::MAX },
                Begun::Never => self.stage = Stage::After,
                Begun::After(begun) if begun > taken => {
                    return Inlet::Before { left: begun - taken };
                }
                Begun::After(_) => self.stage = Stage::Ring,
            }
        }
        if self.stage == Stage::Ring {
            if ring.sealed_at() != Some(reader.read()) {
                return Inlet::Ring;
            }
            self.stage = Stage::Doorbells;
        }
        if self.stage == Stage::Doorbells {
            words.silence();
            match words.resumes_after() {
                None => return Inlet::Settling,
                Some(start) if start > taken => return Inlet::Doorbells(start - taken),
                Some(_) => self.stage = Stage::After,
            }
        }
        Inlet::After
    }

    /// Whether the next byte comes from the ring, unless that is sealed.
    #[inline]
    pub fn is_in_ring(&self) -> bool {
        self.stage == Stage::Ring
    }

    /// Leaves the ring for good. Then the detour must be ended, by either side. As soon as
    /// [`Receiver::inlet`] returns [`Inlet::After`], the next reader of the underlying stream need
    /// know nothing of a ring: what was left comes next, once the writer has learned of the
    /// refusal. False if that is impossible, and this side must read the ring itself.
    pub fn leave(&mut self, words: &Detour, reader: &Reader, taken: u64) -> bool {
        match self.stage {
            Stage::Doorbells | Stage::After => true,
            Stage::Ring => {
                let refused = words.refuse(reader.read());
                if refused {
                    self.stage = Stage::Doorbells;
                }
                refused
            }
            Stage::Before => match words.begun() {
                Begun::NotYet => false,
                Begun::Never => true,
                // Doorbells may lie behind unread bytes.
                Begun::After(begun) => {
                    words.silence();
                    let bare = words.resumes_after() == Some(begun);
                    let left = (bare || begun <= taken) && words.refuse(reader.read());
                    if left {
                        self.stage = if bare { Stage::After } else { Stage::Doorbells };
                    }
                    left
                }
            },
        }
    }

    /// Takes the refusal back, to read the ring after all. False if the writer has heard it.
    pub fn withdraw(&mut self, words: &Detour) -> bool {
        let withdrawn = words.withdraw();
        if withdrawn {
            self.stage = Stage::Before;
        }
        withdrawn
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a model that cannot go on fails its test")]
mod model;
