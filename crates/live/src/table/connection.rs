//! A connection's own state, and the registrations that a process has of it in epoll instances.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use weft_protocol::byte_ring::{Capacity, Reader, Writer};
use weft_protocol::detour::{Receiver, Sender};
use weft_protocol::lending::{Answerer, Lending};
use weft_protocol::migration::{Action, Agreement, Event, Migration, Phase};
use weft_protocol::wakers::Wakers;

use crate::report::stats::Unsaid;
use crate::segment::{Role, Segment};
use crate::sharing::lock::{self, Held, Lock};
use crate::spin::SpinPolicy;
use crate::table::holders::Sharers;
use crate::table::is_single_threaded;

/// What became of the other end.
pub mod end {
    pub const NONE: u32 = 0;
    /// The kernel says that it has closed or died.
    pub const GONE: u32 = 1;
    /// The shared words are broken: the connection is of no more use.
    pub const BROKEN: u32 = 2;
    /// This end has disconnected its socket, under calls that are inside: it may be connected anew by now,
    /// and is not to be asked.
    pub const DISCONNECTED: u32 = 3;
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiving {
    pub reader: Reader,
    pub receiver: Receiver,
    /// Bytes released since the writer was last offered a wake-up.
    pub released: u64,
    pub unsaid: Unsaid,
}

/// The sending half.
#[derive(Debug)]
pub struct Sending {
    pub writer: Writer,
    pub sender: Sender,
    /// Messages handed over of which that was noted.
    pub posted: u32,
    pub unsaid: Unsaid,
}

/// A connection's own state, shared with forked children only. The fields that a connection needs
/// before it joins come first and fit one cache line; the rest is touched from the first attempt to
/// join on.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Connection {
    /// How far it has come from the kernel to shared memory, and back.
    pub migration: Migration,
    /// Processes of the family that hold a descriptor.
    pub holders: AtomicU32,
    pub role: AtomicU32,
    /// The number under which it was made.
    pub first_fd: AtomicI32,
    /// Which kind of connection it is, plus one.
    pub kind: AtomicU32,
    /// Calls that have moved bytes, including those that will bypass the library before the next
    /// attempt.
    pub operations: AtomicU32,
    pub next_attempt: AtomicU32,
    /// The rendezvous socket while listening, or at which a segment was offered.
    pub meeting: AtomicU32,
    /// The number by which the kernel knows the socket; zero until somebody asked.
    pub cookie: AtomicU64,
    /// When the other end was first looked for, in nanoseconds; zero before.
    pub sought: AtomicU64,
    pub(crate) segment: AtomicPtr<u8>,
    pub nonblocking: AtomicBool,
    /// Whether it has lasted long enough for its kind, so that the other end was looked for.
    pub sought_after: AtomicBool,
    /// Whether a server has turned somebody away at its meeting place.
    pub had_stranger: AtomicBool,
    /// Whether all that follows is as a connection finds it that has not yet had a segment.
    fresh: AtomicBool,
    /// The process that holds it alone, if it is known: with one holder no other does. Zero is unknown.
    pub keeper: AtomicU32,
    capacity: AtomicU64,
    /// The processes that share it, as far as they are known.
    pub sharers: Sharers,
    receive_lock: Lock,
    receiving: UnsafeCell<Receiving>,
    send_lock: Lock,
    sending: UnsafeCell<Sending>,
    pub spin: UnsafeCell<SpinPolicy>,
    /// Whether its end was counted when its last process was about to end.
    pub counted_out: AtomicBool,
    /// Bytes ever taken out of the kernel's stream, doorbells included. Changed with the receiving
    /// half held before the ring and after it, with the draining lock held meanwhile.
    pub taken: AtomicU64,
    /// Calls of this end that may owe the other end a wake-up.
    pub wakers: Wakers,
    /// Held while a doorbell is rung.
    pub ringing: Lock,
    /// Whether a signal handler wanted to ring while its thread was ringing.
    pub ring_again: AtomicBool,
    /// Guards the count of sleepers against the draining of doorbells.
    pub draining: Lock,
    pub sleepers: AtomicU32,
    /// How many bytes this end had sent when its ring's pages were last given back, and when that was last looked
    /// at.
    pub given_back: AtomicU64,
    pub swept: AtomicU64,
    /// Doorbells that an epoll instance has answered and left in the kernel's stream.
    pub doorbells: AtomicU32,
    /// Whether a receive may time out, in which case only the kernel waits for it.
    pub times_out: AtomicBool,
    /// Whether each received message is to say how many bytes are left unread.
    pub says_unread: AtomicBool,
    /// What the program has set `TCP_NODELAY` and `TCP_CORK` to.
    pub undelayed: AtomicBool,
    pub corked: AtomicBool,
    pub end: AtomicU32,
    /// Whether a reset was reported to the program: whichever call comes first reports it, once.
    pub reset_said: AtomicBool,
    /// Whether the kernel has reported a reset that only a doorbell caused.
    pub reset_by_doorbell: AtomicBool,
    /// Whether the kernel reports a death as a reset that the program sees as an end of stream: its
    /// next send then appears to succeed, as it would after an end.
    pub may_send_once: AtomicBool,
    /// The error of a death that the next call reports, once; 0 if there is none.
    pub owed: AtomicI32,
    /// Whether each direction uses the ring now: what the halves say, readable without them.
    pub switched_in: AtomicBool,
    pub switched_out: AtomicBool,
    /// Whether each direction is back in the kernel for good.
    pub returned_in: AtomicBool,
    pub returned_out: AtomicBool,
    /// Whether the migration back was counted, so that each is counted once.
    pub turned: AtomicBool,
    /// Processes that copy for one of those that share it, and take back what is not read; see
    /// [`crate::handover::loan`].
    pub lending: Lending,
    /// Whether a call has wanted to read what was refused.
    pub wants_refused: AtomicBool,
    pub read_shut: AtomicBool,
    /// Whether the kernel's receiving direction was shut down too, so that the kernel reports an
    /// end of stream.
    pub deaf: AtomicBool,
    pub write_shut: AtomicBool,
    /// Counts the sends that found the ring full: each makes room an event again.
    pub filled: AtomicU32,
    /// Counts what happens at this end that is an edge to its own instances: calls by which it was shut
    /// down, and refusals taken back, after which there is something to read again.
    pub changes: AtomicU32,
    /// How much of a full ring was read when it was last found full, and since when it is no more,
    /// in nanoseconds.
    pub stalled_at: AtomicU64,
    pub stalled_since: AtomicU64,
    /// When activity of the other end was last checked, in nanoseconds, and what had been seen by
    /// then.
    pub listened: AtomicU64,
    pub heard: AtomicU64,
}

/// What a call touches that is not yet accelerated.
const _: () = assert!(std::mem::offset_of!(Connection, capacity) <= 64);

/// A half of a connection, held for one operation.
pub struct Half<'a, T> {
    state: &'a mut T,
    held: Held<'a>,
}

impl<T> Half<'_, T> {
    /// Whether another operation waits for it.
    pub fn is_wanted(&self) -> bool {
        self.held.is_wanted()
    }
}

impl<T> std::ops::Deref for Half<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.state
    }
}

impl<T> std::ops::DerefMut for Half<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.state
    }
}

impl Connection {
    pub fn role(&self) -> Role {
        if self.role.load(Ordering::Relaxed) == Role::Client as u32 {
            Role::Client
        } else {
            Role::Server
        }
    }

    #[inline(always)]
    pub fn phase(&self) -> Phase {
        self.migration.phase()
    }

    /// Tells this end's machine of an event; what it is to do.
    pub fn on(&self, event: Event) -> Action {
        let segment = self.segment();
        let agreement: Option<&Agreement> = segment.as_ref().map(|it| &it.words().agreement);
        self.migration.on(self.role(), agreement, event)
    }

    /// The connection is the kernel's again, or over. Whether it was accelerated until now.
    pub fn returns(&self) -> bool {
        self.on(Event::Returned) == Action::Leave
    }

    /// Takes the lock of a half. Only a process with one thread that shares the connection with no
    /// other process is alone with it.
    #[inline(always)]
    fn hold<'a>(&self, lock: &'a Lock) -> Option<Held<'a>> {
        if is_single_threaded() && self.holders.load(Ordering::Relaxed) == 1 {
            lock.lock_alone()
        } else {
            lock.lock()
        }
    }

    /// Whether a receive that finds nothing is at the end of stream, since this end has shut down
    /// its receiving direction. Bytes that come after that are still received, so a relay
    /// process goes on, and the program's end of the copied connection is shut down.
    #[inline]
    pub fn reads_no_more(&self) -> bool {
        self.read_shut.load(Ordering::Acquire) && !super::copies()
    }

    /// Whether this end has disconnected its socket under calls that are inside.
    #[inline]
    pub fn is_disconnected(&self) -> bool {
        self.end.load(Ordering::Acquire) == end::DISCONNECTED
    }

    /// Whether the kernel reports all there is to report of a connection: it does not repeat an
    /// error that it has reported to the library.
    pub fn is_told_by_kernel(&self) -> bool {
        self.is_back() && !self.owes_error()
    }

    /// Whether both directions are the kernel's again.
    #[inline]
    pub fn is_back(&self) -> bool {
        self.returned_in.load(Ordering::Acquire) && self.returned_out.load(Ordering::Acquire)
    }

    /// Whether the next call must report an error that the kernel no longer reports.
    pub fn owes_error(&self) -> bool {
        self.owed.load(Ordering::Acquire) != 0 && !self.is_disconnected()
    }

    /// The receiving half; `None` in a signal handler that interrupted its holder.
    #[inline]
    pub fn receiving(&self) -> Option<Half<'_, Receiving>> {
        let held = self.hold(&self.receive_lock)?;
        // SAFETY: the lock is held, and only this function and `prepare` reach the cell.
        Some(Half { state: unsafe { &mut *self.receiving.get() }, held })
    }

    /// The receiving half, unless a relay process has it, for a caller that reads no bytes. That
    /// process itself determines where the next byte comes from; and before it lets others read, it
    /// takes back what the program has not read, which would be missing for a moment.
    pub fn receiving_unless_lent(&self) -> Option<Half<'_, Receiving>> {
        let Some(held) = self.receive_lock.try_lock() else {
            let copies = || self.lending.answerer(lock::lives) == Answerer::Lives;
            return if self.lending.is_lent() && copies() { None } else { self.receiving() };
        };
        // SAFETY: as above.
        Some(Half { state: unsafe { &mut *self.receiving.get() }, held })
    }

    /// The sending half; `None` in a signal handler that interrupted its holder.
    #[inline]
    pub fn sending(&self) -> Option<Half<'_, Sending>> {
        let held = self.hold(&self.send_lock)?;
        // SAFETY: as above.
        Some(Half { state: unsafe { &mut *self.sending.get() }, held })
    }

    /// The sending half, if nobody has it.
    pub fn try_sending(&self) -> Option<Half<'_, Sending>> {
        let held = self.send_lock.try_lock()?;
        // SAFETY: as above.
        Some(Half { state: unsafe { &mut *self.sending.get() }, held })
    }

    /// Whether another thread sleeps in the kernel that the doorbells there have yet to wake. A
    /// thread that goes to sleep after this has checked the ring first.
    pub fn is_slept_on(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody has the receiving half.
    pub fn is_read(&self) -> bool {
        self.receive_lock.is_held()
    }

    /// Whether a process was killed that may have taken bytes out of the kernel's stream and has not counted
    /// them.
    #[inline]
    pub fn is_orphaned(&self) -> bool {
        self.receive_lock.is_orphaned() || self.draining.is_orphaned()
    }

    /// Takes over how many bytes were taken in all, counted anew by one that may change that.
    pub fn adopt(&self, taken: u64) {
        self.taken.store(taken, Ordering::Release);
        self.receive_lock.adopt();
        self.draining.adopt();
    }

    /// The segment, if there is one.
    pub fn segment(&self) -> Option<Segment> {
        let memory = self.segment.load(Ordering::Acquire);
        if memory.is_null() {
            return None;
        }
        let capacity = Capacity::new(self.capacity.load(Ordering::Relaxed)).ok()?;
        // SAFETY: both were stored together by `attach`, and the mapping outlives the users that
        // `Guard` counts.
        Some(unsafe { Segment::from_parts(memory, capacity) })
    }

    /// Gives the connection its segment, and the halves their beginning. Called by the one process that
    /// holds the connection, before the phase is joined.
    pub(super) fn attach(&self, segment: Segment) {
        self.fresh.store(false, Ordering::Relaxed);
        // SAFETY: no operation looks at the halves before the phase is joined.
        unsafe {
            *self.receiving.get() = Receiving {
                reader: Reader::new(segment.capacity()),
                receiver: Receiver::default(),
                released: 0,
                unsaid: Unsaid::default(),
            };
            *self.sending.get() = Sending {
                writer: Writer::new(segment.capacity()),
                sender: Sender::default(),
                posted: 0,
                unsaid: Unsaid::default(),
            };
        }
        self.capacity.store(segment.capacity().bytes(), Ordering::Relaxed);
        self.stalled_at.store(u64::MAX, Ordering::Relaxed);
        self.segment.store(segment.address(), Ordering::Release);
    }

    /// Begins a new life at a place that was free, of a kind whose other end is worth looking for at
    /// the operation `first_attempt`.
    pub fn begin(&self, role: Role, kind: u32, first_attempt: u32) {
        self.role.store(role as u32, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Relaxed);
        self.operations.store(first_attempt - 1, Ordering::Relaxed);
        self.next_attempt.store(first_attempt, Ordering::Relaxed);
        self.meeting.store(u32::MAX, Ordering::Relaxed);
        self.cookie.store(0, Ordering::Relaxed);
        self.sought.store(0, Ordering::Relaxed);
        self.sought_after.store(false, Ordering::Relaxed);
        self.had_stranger.store(false, Ordering::Relaxed);
        self.segment.store(std::ptr::null_mut(), Ordering::Relaxed);
        if !self.fresh.load(Ordering::Relaxed) {
            self.freshen();
        }
        // Others learn of the place by the descriptor's word, which is stored after this.
        self.migration.begin();
    }

    /// Forgets what a life with a segment has left.
    #[cold]
    fn freshen(&self) {
        for word in [&self.sleepers, &self.end, &self.doorbells, &self.filled, &self.changes] {
            word.store(0, Ordering::Relaxed);
        }
        self.wakers.reset();
        self.lending.reset();
        self.sharers.reset();
        for flag in [
            &self.switched_in,
            &self.switched_out,
            &self.returned_in,
            &self.returned_out,
            &self.turned,
            &self.reset_said,
            &self.reset_by_doorbell,
            &self.may_send_once,
            &self.ring_again,
            &self.wants_refused,
            &self.read_shut,
            &self.deaf,
            &self.write_shut,
            &self.counted_out,
        ] {
            flag.store(false, Ordering::Relaxed);
        }
        self.taken.store(0, Ordering::Relaxed);
        self.owed.store(0, Ordering::Relaxed);
        self.given_back.store(0, Ordering::Relaxed);
        self.swept.store(0, Ordering::Relaxed);
        self.listened.store(0, Ordering::Relaxed);
        self.heard.store(0, Ordering::Relaxed);
        for lock in [&self.receive_lock, &self.send_lock, &self.ringing, &self.draining] {
            lock.reset();
        }
        // SAFETY: the place was free, so nobody else uses it.
        unsafe { *self.spin.get() = SpinPolicy::new() };
        self.fresh.store(true, Ordering::Relaxed);
    }
}

/// One registration of a connection in an epoll instance. Guarded by the instance's lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// The instance's index plus one; zero is free.
    pub instance: u32,
    pub fd: c_int,
    pub events: u32,
    pub data: u64,
    /// The state at the last report, for edges.
    pub reported: Reported,
    /// The state that outer instances were last shown, against which the next edge for them is
    /// determined.
    pub shown: Reported,
    /// Whether the program has added or changed it since, and it had no event to report before.
    pub anew: bool,
    /// Whether its flags have been armed since, so that a wake-up announces what comes.
    pub listens: bool,
    /// A one-shot registration that has fired.
    pub disabled: bool,
    /// Whether its instance waits for the connection's event.
    pub by_event: bool,
    /// Whether the instance scans it.
    pub linked: bool,
    /// Whether it is among the descriptors that the kernel alone reports to its instance.
    pub by_kernel: bool,
    /// Whether the program has removed it without notice to the kernel's instance: a program that
    /// removes and adds a connection for each message enters the kernel for neither.
    pub parked: bool,
    /// Whether its instance examines it only when the kernel reports it.
    pub cold: bool,
    /// Whether the kernel's instance was told to report room too.
    pub asks_room: bool,
}

/// The state that an edge is an edge against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// False if nothing was reported yet: then whatever is there is an edge.
    pub valid: bool,
    pub written: u64,
    pub filled: u32,
    pub changes: u32,
    pub mask: u32,
}
