//! What a process alone knows of a connection.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::c_int;

use crate::sharing::lock;
use crate::sys;
use crate::table::REGISTRATIONS;
use crate::table::blocked::Blocked;
use crate::table::connection::Registration;
use crate::table::lost::{Lost, LostTo};
use crate::table::numbers::{close_own, is_single_threaded};
use crate::table::own_number::OwnNumber;
use crate::table::queue::Queue;

/// The count of descriptors while the place is being released.
pub(super) const RETIRING: u32 = 1 << 31;
/// The count of descriptors once the place is free again.
pub(super) const RETIRED: u32 = 1 << 30;

/// How long to wait for a child of a `vfork`, in nanoseconds: longer than it takes to leave.
pub const VISIT: u64 = 4_000_000_000;

/// What this process alone knows about a connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Local {
    /// Descriptors of this process that stand for the connection, or a mark.
    pub(super) descriptors: AtomicU32,
    /// Threads of this process inside a call on it.
    pub(super) users: AtomicU32,
    /// The thread that keeps the others out while it replaces the connection by another one of the
    /// kernel; zero is none.
    pub(super) shut_by: AtomicU32,
    /// Children of a `vfork` inside, which have this memory and descriptors of their own.
    pub(super) visitors: AtomicU32,
    /// Threads that make it leave.
    pub handovers: Queue,
    /// For threads under whose calls their descriptor was closed.
    pub kept: OwnNumber,
    /// The events on which this end and the other wait for many connections.
    pub own_event: OwnNumber,
    pub peer_event: OwnNumber,
    /// The descriptor that was last taken away.
    pub(super) lost: Lost,
    /// The threads that it was taken from, if they sleep.
    pub blocked: Blocked,
    /// Whether the last to leave is to tell the other end how this one closes.
    pub closing: AtomicBool,
    /// Whether the last fork counted the child among the holders.
    pub counted: AtomicBool,
    /// Whether the kernel was told to reset the connection at the end of the process, which is near.
    pub resets: AtomicBool,
    /// Whether this process has taken itself out of the holders.
    pub let_go: AtomicBool,
    /// Whether an epoll instance has ever followed the connection: then the registrations have been
    /// written, which a short connection never looks at.
    pub watched: AtomicBool,
    pub registrations: UnsafeCell<[Registration; REGISTRATIONS]>,
}

impl Local {
    /// Counts a call in. With one thread the count needs no locked instruction: a signal handler's
    /// own calls come and go within.
    #[inline]
    pub(super) fn come_in(&self) {
        if is_single_threaded() {
            self.users.store(self.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.users.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The beginning of a connection's life.
    pub fn begin(&self) {
        self.let_go.store(false, Ordering::Relaxed);
        self.resets.store(false, Ordering::Relaxed);
        self.counted.store(false, Ordering::Relaxed);
        self.lost.begin();
        self.descriptors.store(1, Ordering::Relaxed);
        if self.watched.load(Ordering::Relaxed) {
            self.watched.store(false, Ordering::Relaxed);
            // SAFETY: the place was free, so no epoll instance follows it.
            unsafe { *self.registrations.get() = [Registration::default(); REGISTRATIONS] };
        }
    }

    /// Whether this process has a descriptor of the connection.
    pub fn has_descriptors(&self) -> bool {
        (1..RETIRED).contains(&self.descriptors.load(Ordering::SeqCst))
    }

    /// Whether this process has more than one descriptor of the connection.
    pub fn has_several_descriptors(&self) -> bool {
        (2..RETIRED).contains(&self.descriptors.load(Ordering::SeqCst))
    }

    /// Counts one descriptor more.
    pub fn gains_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one descriptor less; whether it was the last.
    pub fn loses_descriptor(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// Whether a thread of this process is inside, or releases the place.
    pub fn is_used(&self) -> bool {
        let is_retiring = self.descriptors.load(Ordering::Relaxed) == RETIRING;
        is_retiring || self.users.load(Ordering::Relaxed) != 0
    }

    /// In the child of a fork, where all other threads are gone.
    pub fn desert(&self) {
        self.users.store(0, Ordering::Relaxed);
        self.shut_by.store(0, Ordering::Relaxed);
        self.visitors.store(0, Ordering::Relaxed);
        self.let_go.store(false, Ordering::Relaxed);
        self.resets.store(false, Ordering::Relaxed);
        self.handovers.desert();
        self.blocked.clear();
        self.closing.store(false, Ordering::Relaxed);
        let order = Ordering::Relaxed;
        let _ = self.descriptors.compare_exchange(RETIRING, RETIRED, order, order);
        self.close_kept();
    }

    /// In the child of a fork, which was not counted among the holders: what this stands for is the
    /// parent's.
    pub fn forget(&self) {
        if self.has_descriptors() {
            self.descriptors.store(RETIRED, Ordering::Relaxed);
        }
    }

    /// For a process that has a copy of this memory, but other descriptors: those kept here stand
    /// for something else there.
    pub fn forget_kept(&self) {
        let _ = self.kept.take();
    }

    pub(super) fn close_kept(&self) {
        if let Some(kept) = self.kept.take() {
            close_own(kept);
        }
    }

    /// Waits until no child of a `vfork` is inside, once the last descriptor is gone: the last call
    /// to leave releases the descriptors, which such a child does not have. Not for long, since the
    /// child may have been killed.
    pub fn await_visitors(&self) {
        let until = sys::now() + VISIT;
        while self.is_visited() && sys::now() < until {
            sys::sleep(20_000);
        }
    }

    /// Whether a child of a `vfork` is inside.
    pub fn is_visited(&self) -> bool {
        self.visitors.load(Ordering::SeqCst) > 0
    }

    /// To be called when a descriptor is forgotten, before the kernel closes it or gives it to
    /// something else.
    pub fn loses_number(&self, fd: c_int, to: LostTo) {
        self.lost.set(fd, to);
    }

    /// Whether a descriptor was last lost at a time or after it.
    pub fn lost_since(&self, time: u64) -> bool {
        self.lost.is_since(time)
    }

    /// Whether another thread keeps this one out.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        let by = self.shut_by.load(Ordering::SeqCst);
        by != 0 && by != lock::thread()
    }

    #[cold]
    pub(super) fn wait_until_open(&self) {
        // The other thread may be one to which this one does not yield the processor.
        while self.is_shut() {
            sys::sleep(20_000);
        }
    }

    /// Counts a call out; returns how many there were.
    #[inline]
    pub(super) fn go_out(&self) -> u32 {
        if is_single_threaded() {
            let users = self.users.load(Ordering::Relaxed);
            self.users.store(users.wrapping_sub(1), Ordering::Relaxed);
            users
        } else {
            self.users.fetch_sub(1, Ordering::SeqCst)
        }
    }
}
