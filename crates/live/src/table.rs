//! What the library remembers about descriptors and connections.
//!
//! A connection's own state lies in an arena that a process shares with the children it forks, so
//! that parent and child can use one connection in turn or at once. Which descriptor stands for
//! which connection, who is inside a call, and what is registered in which epoll instance belong to
//! the process alone.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::c_int;
use weft_protocol::byte_ring::{Capacity, Reader, Writer};
use weft_protocol::detour::{Receiver, Sender};

use crate::lock::{Held, Lock};
use crate::segment::{Role, Segment};
use crate::spin::SpinPolicy;
use crate::stats::{Stats, Unsaid};
use crate::sys;

/// Descriptors from here on are left to the kernel.
const DESCRIPTORS: usize = 1 << 16;
/// Connections beyond these are left to the kernel.
pub const CONNECTIONS: usize = 1 << 13;
/// In how many epoll instances (or under how many numbers) a connection is followed.
pub const REGISTRATIONS: usize = 4;

/// How far a connection has come.
pub mod phase {
    /// The place is free.
    pub const FREE: u32 = 0;
    /// A connection that may be carried; nobody has asked yet.
    pub const CANDIDATE: u32 = 1;
    /// The server waits for the client's offer.
    pub const LISTENING: u32 = 2;
    /// The client has offered a segment.
    pub const OFFERED: u32 = 3;
    /// On the way from one of these to joined.
    pub const JOINING: u32 = 4;
    /// This end looks for what the other announces in the segment.
    pub const JOINED: u32 = 5;
    /// Left to the kernel for good.
    pub const PLAIN: u32 = 6;
}

/// What became of the other end.
pub mod end {
    pub const NONE: u32 = 0;
    /// The kernel says that it has closed or died.
    pub const GONE: u32 = 1;
    /// The shared words are broken: the connection is of no more use.
    pub const BROKEN: u32 = 2;
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiving {
    pub reader: Reader,
    pub receiver: Receiver,
    /// Bytes released since the writer was last offered a wake-up.
    pub released: u64,
    /// Whether a reset was reported: it is reported once.
    pub reset_reported: bool,
    pub unsaid: Unsaid,
}

/// The sending half.
#[derive(Debug)]
pub struct Sending {
    pub writer: Writer,
    pub sender: Sender,
    pub unsaid: Unsaid,
}

/// A connection's own state, shared with forked children only.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Connection {
    pub phase: AtomicU32,
    /// Processes of the family that hold a descriptor.
    pub holders: AtomicU32,
    pub role: AtomicU32,
    /// The number under which it was made, for the log.
    pub first_fd: AtomicI32,
    /// The number by which the kernel knows the socket; zero until somebody asked.
    pub cookie: AtomicU64,
    pub nonblocking: AtomicBool,
    pub operations: AtomicU32,
    pub next_attempt: AtomicU32,
    /// The rendezvous socket while listening.
    pub meeting: AtomicU32,
    /// Threads inside a receiving or sending call of the kernel that began before joining.
    pub kernel_readers: AtomicU32,
    pub kernel_writers: AtomicU32,
    segment: AtomicPtr<u8>,
    capacity: AtomicU64,
    receive_lock: Lock,
    receiving: UnsafeCell<Receiving>,
    send_lock: Lock,
    sending: UnsafeCell<Sending>,
    pub spin: UnsafeCell<SpinPolicy>,
    /// The events on which this end and the other wait for many connections; none is -1.
    pub own_event: AtomicI32,
    pub peer_event: AtomicI32,
    /// Bytes ever taken out of the kernel's stream, doorbells included. Changed with the receiving
    /// half held before the ring and after it, with the bell lock held meanwhile.
    pub taken: AtomicU64,
    /// Held while a doorbell is rung.
    pub chime: Lock,
    /// Whether a signal handler wanted to ring while its thread was ringing.
    pub chime_again: AtomicBool,
    /// Guards the count of sleepers against the draining of doorbells.
    pub bell: Lock,
    pub sleepers: AtomicU32,
    /// Doorbells that an epoll instance has answered and left in the kernel's stream.
    pub doorbells: AtomicU32,
    /// Whether a receive may time out, in which case only the kernel waits for it.
    pub times_out: AtomicBool,
    pub end: AtomicU32,
    /// Whether each direction is in the ring now: what the halves say, readable without them.
    pub switched_in: AtomicBool,
    pub switched_out: AtomicBool,
    /// Whether each direction is back in the kernel for good.
    pub returned_in: AtomicBool,
    pub returned_out: AtomicBool,
    /// Whether the way back was counted, so that each is counted once.
    pub turned: AtomicBool,
    pub read_shut: AtomicBool,
    pub write_shut: AtomicBool,
    /// Counts the sends that found the ring full: each makes room an event again.
    pub filled: AtomicU32,
    /// When the kernel was last asked whether the other end lives, in nanoseconds.
    pub asked: AtomicU64,
    /// When the other end was first looked for, in nanoseconds; zero before.
    pub sought: AtomicU64,
}

/// A half of a connection, held for one operation.
pub struct Half<'a, T> {
    state: &'a mut T,
    _held: Held<'a>,
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

    pub fn phase(&self) -> u32 {
        self.phase.load(Ordering::SeqCst)
    }

    /// The receiving half; `None` in a signal handler that interrupted its holder.
    pub fn receiving(&self) -> Option<Half<'_, Receiving>> {
        let held = self.receive_lock.lock()?;
        // SAFETY: the lock is held, and only this function and `prepare` reach the cell.
        Some(Half { state: unsafe { &mut *self.receiving.get() }, _held: held })
    }

    /// The sending half; `None` in a signal handler that interrupted its holder.
    pub fn sending(&self) -> Option<Half<'_, Sending>> {
        let held = self.send_lock.lock()?;
        // SAFETY: as above.
        Some(Half { state: unsafe { &mut *self.sending.get() }, _held: held })
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

    /// Gives the connection its segment and events, and the halves their beginning. Called by the
    /// one process that holds the connection, before the phase is joined.
    pub fn attach(&self, segment: Segment, own_event: c_int, peer_event: c_int) {
        for (place, event) in [(&self.own_event, own_event), (&self.peer_event, peer_event)] {
            claim(event);
            place.store(event, Ordering::Relaxed);
        }
        // SAFETY: no operation looks at the halves before the phase is joined.
        unsafe {
            *self.receiving.get() = Receiving {
                reader: Reader::new(segment.capacity()),
                receiver: Receiver::default(),
                released: 0,
                reset_reported: false,
                unsaid: Unsaid::default(),
            };
            *self.sending.get() = Sending {
                writer: Writer::new(segment.capacity()),
                sender: Sender::default(),
                unsaid: Unsaid::default(),
            };
        }
        self.capacity.store(segment.capacity().bytes(), Ordering::Relaxed);
        self.segment.store(segment.address(), Ordering::Release);
    }

    fn begin(&self, role: Role) {
        self.role.store(role as u32, Ordering::Relaxed);
        for word in [
            &self.operations,
            &self.kernel_readers,
            &self.kernel_writers,
            &self.sleepers,
            &self.end,
            &self.doorbells,
            &self.filled,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.next_attempt.store(crate::attach::FIRST_ATTEMPT, Ordering::Relaxed);
        self.meeting.store(u32::MAX, Ordering::Relaxed);
        for flag in [
            &self.switched_in,
            &self.switched_out,
            &self.returned_in,
            &self.returned_out,
            &self.turned,
            &self.chime_again,
            &self.read_shut,
            &self.write_shut,
        ] {
            flag.store(false, Ordering::Relaxed);
        }
        self.taken.store(0, Ordering::Relaxed);
        self.own_event.store(-1, Ordering::Relaxed);
        self.peer_event.store(-1, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.sought.store(0, Ordering::Relaxed);
        self.segment.store(std::ptr::null_mut(), Ordering::Relaxed);
        for lock in [&self.receive_lock, &self.send_lock, &self.chime, &self.bell] {
            lock.reset();
        }
        // SAFETY: the place was free, so nobody else uses it.
        unsafe { *self.spin.get() = SpinPolicy::new() };
        self.phase.store(phase::CANDIDATE, Ordering::SeqCst);
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
    /// What was there at the last report, for edges.
    pub reported: Reported,
    /// A one-shot registration that has fired.
    pub disabled: bool,
    /// Whether its instance waits for the connection's event.
    pub by_event: bool,
    /// Whether the instance scans it.
    pub linked: bool,
    /// Whether the program has taken it out and the kernel's instance has not been told: a program
    /// that takes out and puts in again for each message enters the kernel for neither.
    pub parked: bool,
    /// Whether its instance looks at it only when the kernel reports it.
    pub cold: bool,
}

/// The state that an edge is an edge against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// False if nothing was reported yet: then whatever is there is an edge.
    pub valid: bool,
    pub written: u64,
    pub filled: u32,
    pub mask: u32,
}

/// What this process alone knows about a connection.
#[derive(Debug)]
#[repr(C)]
pub struct Local {
    /// Descriptors of this process that stand for the connection.
    pub descriptors: AtomicU32,
    /// Threads of this process inside a call on it.
    users: AtomicU32,
    /// Whether this process has taken itself out of the holders.
    pub let_go: AtomicBool,
    pub registrations: UnsafeCell<[Registration; REGISTRATIONS]>,
}

#[repr(C)]
struct Arena {
    stats: Stats,
    connections: [Connection; CONNECTIONS],
}

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(std::ptr::null_mut());
static LOCALS: AtomicPtr<Local> = AtomicPtr::new(std::ptr::null_mut());
static ENTRIES: [AtomicU32; DESCRIPTORS] = [const { AtomicU32::new(0) }; DESCRIPTORS];
/// The process that the table belongs to: the child of a `vfork` sees its parent's memory, and must
/// not change it.
static OWNER: AtomicU32 = AtomicU32::new(0);
static CERTAINTY: AtomicU32 = AtomicU32::new(certainty::NOBODY);

/// Where the search for a free place begins.
static LOWEST_FREE: AtomicU32 = AtomicU32::new(0);
/// No place from here on was ever used.
static USED: AtomicU32 = AtomicU32::new(0);

const CONNECTION: u32 = 1 << 30;
const EPOLL: u32 = 2 << 30;
const OWN: u32 = 3 << 30;
/// Set in a connection's word once it is known to be the kernel's for good: calls that move bytes
/// then pass the library by.
const PLAIN: u32 = 1 << 29;
const INDEX: u32 = PLAIN - 1;

/// What a descriptor is to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: the kernel's alone.
    Unknown,
    /// A connection's place.
    Connection(usize),
    /// An epoll instance's place.
    Epoll(usize),
    /// One of the library's own, which the program does not know of.
    Own,
}

/// Makes the tables. Without them every descriptor is unknown.
pub fn start() -> bool {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"weft-live".as_ptr(), libc::MFD_CLOEXEC) };
    let Ok(file) = (if file < 0 { Err(sys::errno()) } else { sys::move_high(file) }) else {
        return false;
    };
    let length = size_of::<Arena>();
    // SAFETY: only changes the size of a file of our own.
    let sized = unsafe { libc::ftruncate(file, length as libc::off_t) } == 0;
    let arena = if sized { sys::map(Some(file), length) } else { None };
    let locals = sys::map(None, size_of::<Local>() * CONNECTIONS);
    let (Some(arena), Some(locals)) = (arena, locals) else {
        sys::close(file);
        return false;
    };
    claim(file);
    OWNER.store(sys::process(), Ordering::Relaxed);
    LOCALS.store(locals.cast(), Ordering::Relaxed);
    ARENA.store(arena.cast(), Ordering::Release);
    CERTAINTY.store(certainty::OWN, Ordering::Relaxed);
    true
}

/// Takes the tables over in the child of a fork.
pub fn start_in_child() {
    OWNER.store(sys::process(), Ordering::Relaxed);
    for place in used() {
        if let Some(local) = local(place) {
            local.users.store(0, Ordering::Relaxed);
        }
    }
}

/// All places that were ever used.
pub fn used() -> std::ops::Range<usize> {
    0..USED.load(Ordering::Relaxed) as usize
}

/// Whether the calling process is the one whose memory this is.
#[inline]
pub fn is_owner() -> bool {
    match CERTAINTY.load(Ordering::Relaxed) {
        certainty::OWN => true,
        certainty::SHARED => sys::process() == OWNER.load(Ordering::Relaxed),
        _ => false,
    }
}

/// Says that from now on another process may run in this memory, or in a copy of it that the
/// library was not told of. To be called before such a process is made.
pub fn may_be_shared() {
    let (own, shared, order) = (certainty::OWN, certainty::SHARED, Ordering::SeqCst);
    let _ = CERTAINTY.compare_exchange(own, shared, order, order);
}

/// What is known of who runs in this memory.
mod certainty {
    /// No tables were made.
    pub const NOBODY: u32 = 0;
    /// The owner alone, so that the kernel need not be asked at each call.
    pub const OWN: u32 = 1;
    /// Perhaps another too.
    pub const SHARED: u32 = 2;
}

/// The figures that `weft live status` reads through `/proc`.
pub fn stats() -> Option<&'static Stats> {
    let arena = ARENA.load(Ordering::Acquire);
    // SAFETY: once stored, the arena is never unmapped.
    (!arena.is_null()).then(|| unsafe { &(*arena).stats })
}

/// The connection at a place.
pub fn connection(place: usize) -> Option<&'static Connection> {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() {
        return None;
    }
    // SAFETY: as above; all zeroes, the arena's beginning, are a valid free connection, whose
    // halves are not looked at before `attach` has written them.
    unsafe { (&raw const (*arena).connections[place]).as_ref() }
}

pub fn local(place: usize) -> Option<&'static Local> {
    let locals = LOCALS.load(Ordering::Acquire);
    if locals.is_null() || place >= CONNECTIONS {
        return None;
    }
    // SAFETY: once stored, the locals are never unmapped; all zeroes are valid.
    unsafe { locals.add(place).as_ref() }
}

/// What this descriptor is.
#[inline]
pub fn entry(fd: c_int) -> Entry {
    let Some(word) = ENTRIES.get(fd as u32 as usize) else { return Entry::Unknown };
    let word = word.load(Ordering::Acquire);
    let place = (word & INDEX) as usize;
    match word & !INDEX & !PLAIN {
        CONNECTION => Entry::Connection(place),
        EPOLL => Entry::Epoll(place),
        OWN => Entry::Own,
        _ => Entry::Unknown,
    }
}

/// Remembers a descriptor. False if its number is beyond the table.
pub fn set_entry(fd: c_int, entry: Entry) -> bool {
    let Some(word) = ENTRIES.get(fd as u32 as usize) else { return false };
    let value = match entry {
        Entry::Unknown => 0,
        Entry::Connection(place) => CONNECTION | place as u32,
        Entry::Epoll(place) => EPOLL | place as u32,
        Entry::Own => OWN,
    };
    word.store(value, Ordering::Release);
    true
}

/// Marks a descriptor as the library's own: the program cannot close it by accident.
pub fn claim(fd: c_int) {
    set_entry(fd, Entry::Own);
}

/// Closes a descriptor of the library's own.
pub fn close_own(fd: c_int) {
    set_entry(fd, Entry::Unknown);
    sys::close(fd);
}

/// All descriptors that stand for something, in order.
pub fn known() -> impl Iterator<Item = (c_int, Entry)> {
    (0..DESCRIPTORS as c_int)
        .map(|fd| (fd, entry(fd)))
        .filter(|(_, entry)| !matches!(entry, Entry::Unknown))
}

/// Remembers a new connection. False if the table is full: the kernel keeps it.
pub fn track(fd: c_int, role: Role) -> bool {
    if fd as usize >= DESCRIPTORS || !is_owner() {
        return false;
    }
    drop_stale(fd);
    for place in LOWEST_FREE.load(Ordering::Relaxed) as usize..CONNECTIONS {
        let (Some(connection), Some(local)) = (connection(place), local(place)) else {
            return false;
        };
        let free = connection.phase.load(Ordering::Relaxed) == phase::FREE
            && local.users.load(Ordering::Relaxed) == 0;
        let mine = || {
            let order = Ordering::Acquire;
            connection.holders.compare_exchange(0, 1, order, Ordering::Relaxed).is_ok()
        };
        if free && mine() {
            connection.begin(role);
            connection.first_fd.store(fd, Ordering::Relaxed);
            connection.cookie.store(0, Ordering::Relaxed);
            local.let_go.store(false, Ordering::Relaxed);
            local.descriptors.store(1, Ordering::Relaxed);
            // SAFETY: the place was free, so no epoll instance follows it.
            unsafe { *local.registrations.get() = [Registration::default(); REGISTRATIONS] };
            set_entry(fd, Entry::Connection(place));
            LOWEST_FREE.store(place as u32 + 1, Ordering::Relaxed);
            USED.fetch_max(place as u32 + 1, Ordering::Relaxed);
            return true;
        }
    }
    false
}

/// Forgets what a number stood for that the kernel has given out anew: it was closed past the
/// library.
pub fn drop_stale(fd: c_int) {
    if let Some(guard) = enter(fd) {
        set_entry(fd, Entry::Unknown);
        guard.local.descriptors.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread's stay in a call on a connection: its memory stays until the stay ends.
pub struct Guard {
    pub place: usize,
    pub fd: c_int,
    pub connection: &'static Connection,
    local: &'static Local,
}

/// Enters a call on a descriptor; `None` if it stands for no connection.
#[inline]
pub fn enter(fd: c_int) -> Option<Guard> {
    let Entry::Connection(place) = entry(fd) else { return None };
    let (connection, local) = (connection(place)?, local(place)?);
    local.users.fetch_add(1, Ordering::SeqCst);
    let guard = Guard { place, fd, connection, local };
    (entry(fd) == Entry::Connection(place)).then_some(guard)
}

/// The same for a call that moves bytes: `None` also for a connection that is the kernel's for good.
#[inline]
pub fn enter_carried(fd: c_int) -> Option<Guard> {
    let word = ENTRIES.get(fd as u32 as usize)?.load(Ordering::Relaxed);
    if word & PLAIN == 0 { enter(fd) } else { None }
}

/// Remembers that a connection is the kernel's for good.
pub fn let_pass(guard: &Guard) {
    if let Some(word) = ENTRIES.get(guard.fd as u32 as usize) {
        let (now, order) = (CONNECTION | guard.place as u32, Ordering::SeqCst);
        let _ = word.compare_exchange(now, now | PLAIN, order, order);
    }
}

/// Looks at a place that an epoll instance follows, with the instance's lock held: it is
/// unfollowed, which needs the lock, before it is retired, so nobody need be counted.
pub fn followed(place: usize, fd: c_int) -> Option<ManuallyDrop<Guard>> {
    let (connection, local) = (connection(place)?, local(place)?);
    Some(ManuallyDrop::new(Guard { place, fd, connection, local }))
}

/// Enters a call on a connection by its place, under a number that the table does not know: in the
/// child of a vfork, whose parent waits.
pub fn borrowed(place: usize, fd: c_int) -> Option<Guard> {
    let (connection, local) = (connection(place)?, local(place)?);
    local.users.fetch_add(1, Ordering::SeqCst);
    Some(Guard { place, fd, connection, local })
}

impl Guard {
    pub fn local(&self) -> &'static Local {
        self.local
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.local.users.fetch_sub(1, Ordering::SeqCst) == 1
            && self.local.descriptors.load(Ordering::SeqCst) == 0
        {
            retire(self.place, self.connection, self.local);
        }
    }
}

/// Ends a connection that has neither descriptor nor user in this process.
fn retire(place: usize, connection: &Connection, local: &Local) {
    // Whoever moves the count from none to the mark is the one that retires.
    const RETIRING: u32 = 1 << 31;
    let order = Ordering::SeqCst;
    if local.descriptors.compare_exchange(0, RETIRING, order, order).is_err() {
        return;
    }
    if let Some(segment) = connection.segment() {
        // SAFETY: no descriptor leads here any more and no thread is inside.
        unsafe { segment.unmap() };
    }
    for event in [&connection.own_event, &connection.peer_event] {
        let event = event.load(order);
        if event >= 0 {
            close_own(event);
        }
    }
    local.descriptors.store(0, order);
    if connection.holders.load(order) == 1 {
        connection.segment.store(std::ptr::null_mut(), order);
        connection.phase.store(phase::FREE, order);
    }
    connection.holders.fetch_sub(1, order);
    LOWEST_FREE.fetch_min(place as u32, Ordering::Relaxed);
}
