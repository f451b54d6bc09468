//! What the library remembers about descriptors and connections.
//!
//! A connection's own state lies in an arena that a process shares with the children it forks, so
//! that parent and child can use one connection in turn or at once. Which descriptor stands for
//! which connection, who is inside a call, and what is registered in which epoll instance belong to
//! the process alone.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

pub use crate::connection::{Connection, Receiving, Registration, Reported, Sending, end, phase};
use crate::meeting;
use crate::segment::Role;
use crate::stats::Stats;
use crate::sys;
pub use crate::word::Entry;
use crate::word::Word;
use libc::c_int;
use weft_protocol::break_even::BreakEven;

/// Descriptors from here on are left to the kernel.
const DESCRIPTORS: usize = 1 << 16;
/// Connections beyond these are left to the kernel.
pub const CONNECTIONS: usize = 1 << 13;
/// In how many epoll instances (or under how many numbers) a connection is followed.
pub const REGISTRATIONS: usize = 4;

/// Connections are told apart by so many kinds, by their role and the server's port.
const KINDS: usize = 64;

/// What this process alone knows about a connection.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Local {
    /// Descriptors of this process that stand for the connection.
    pub descriptors: AtomicU32,
    /// Threads of this process inside a call on it.
    users: AtomicU32,
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
    fn come_in(&self) {
        if is_single_threaded() {
            self.users.store(self.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.users.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Counts a call out; returns how many there were.
    #[inline]
    fn go_out(&self) -> u32 {
        if is_single_threaded() {
            let users = self.users.load(Ordering::Relaxed);
            self.users.store(users.wrapping_sub(1), Ordering::Relaxed);
            users
        } else {
            self.users.fetch_sub(1, Ordering::SeqCst)
        }
    }
}

/// Where the C library says whether the process has had one thread only; null if it does not say.
static SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

/// Whether the process has one thread.
#[inline]
pub fn is_single_threaded() -> bool {
    let word = SINGLE_THREADED.load(Ordering::Relaxed);
    // SAFETY: the C library's variable is there for good. It changes before another thread begins.
    !word.is_null() && unsafe { (*word).load(Ordering::Relaxed) } != 0
}

fn look_for_threads() {
    // SAFETY: the name is a C string.
    let word = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE_THREADED.store(word.cast(), Ordering::Relaxed);
}

#[repr(C)]
struct Arena {
    stats: Stats,
    /// What was learned of the connections of each kind.
    lessons: [AtomicU32; KINDS],
    connections: [Connection; CONNECTIONS],
}

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(std::ptr::null_mut());
static LOCALS: AtomicPtr<Local> = AtomicPtr::new(std::ptr::null_mut());
static ENTRIES: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];
/// How many connections were ever remembered.
static LIVES: AtomicU32 = AtomicU32::new(0);
/// The process that the table belongs to: the child of a `vfork` sees its parent's memory, and must
/// not change it.
static OWNER: AtomicU32 = AtomicU32::new(0);
static CERTAINTY: AtomicU32 = AtomicU32::new(certainty::NOBODY);

/// Where the search for a free place begins.
static LOWEST_FREE: AtomicU32 = AtomicU32::new(0);
/// No place from here on was ever used.
static USED: AtomicU32 = AtomicU32::new(0);

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
    look_for_threads();
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
        if let Some(word) = connection(place).and_then(|it| first_word(place, it)) {
            change(word, |word| Some(word.deserted()));
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

/// The kind of the connections that this end has with a server's port in this role.
pub fn kind(role: Role, port: u16) -> u32 {
    // Neighbouring ports are of different kinds, and so are the two ends of one.
    (u32::from(port) * 2 + role as u32) % KINDS as u32 + 1
}

/// The word for what was learned of the connections of a kind.
pub fn lesson(kind: u32) -> Option<&'static AtomicU32> {
    let arena = ARENA.load(Ordering::Acquire);
    if arena.is_null() || kind == 0 {
        return None;
    }
    // SAFETY: once stored, the arena is never unmapped.
    unsafe { (*arena).lessons.get(kind as usize - 1) }
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

/// The word of a descriptor; `None` if its number is beyond the table.
#[inline]
fn word(fd: c_int) -> Option<&'static AtomicU64> {
    ENTRIES.get(fd as u32 as usize)
}

/// Changes a word as long as it can be; returns what it was.
fn change(word: &AtomicU64, to: impl Fn(Word) -> Option<Word>) -> Word {
    let order = Ordering::SeqCst;
    let changed = word.fetch_update(order, order, |bits| to(Word::from_bits(bits)).map(Word::bits));
    Word::from_bits(changed.unwrap_or_else(|bits| bits))
}

/// What this descriptor is.
#[inline]
pub fn entry(fd: c_int) -> Entry {
    word(fd).map_or(Entry::Unknown, |word| Word::from_bits(word.load(Ordering::Acquire)).entry())
}

/// Remembers a descriptor. False if its number is beyond the table.
pub fn set_entry(fd: c_int, entry: Entry) -> bool {
    word(fd).is_some_and(|word| {
        word.store(Word::of(entry).bits(), Ordering::Release);
        true
    })
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

/// Remembers a new connection of a server's port. Without a place for it the kernel keeps it.
pub fn track(fd: c_int, role: Role, port: u16) {
    if fd as usize >= DESCRIPTORS || !is_owner() {
        return;
    }
    drop_stale(fd);
    for place in LOWEST_FREE.load(Ordering::Relaxed) as usize..CONNECTIONS {
        let (Some(connection), Some(local)) = (connection(place), local(place)) else { return };
        let free = connection.phase.load(Ordering::Relaxed) == phase::FREE
            && local.users.load(Ordering::Relaxed) == 0;
        let mine = || {
            let order = Ordering::Acquire;
            connection.holders.compare_exchange(0, 1, order, Ordering::Relaxed).is_ok()
        };
        if free && mine() {
            let kind = kind(role, port);
            let learned = lesson(kind).map_or(0, |lesson| lesson.load(Ordering::Relaxed));
            let after = BreakEven::from_word(learned).after();
            connection.begin(role, kind, after);
            connection.first_fd.store(fd, Ordering::Relaxed);
            local.let_go.store(false, Ordering::Relaxed);
            local.descriptors.store(1, Ordering::Relaxed);
            if local.watched.load(Ordering::Relaxed) {
                local.watched.store(false, Ordering::Relaxed);
                // SAFETY: the place was free, so no epoll instance follows it.
                unsafe { *local.registrations.get() = [Registration::default(); REGISTRATIONS] };
            }
            let life = LIVES.load(Ordering::Relaxed).wrapping_add(1);
            // Two threads at once may give one life twice, to two numbers.
            LIVES.store(life, Ordering::Relaxed);
            if let Some(word) = word(fd) {
                let new = Word::connection(place, life, after - 1);
                word.store(new.bits(), Ordering::Release);
            }
            LOWEST_FREE.store(place as u32 + 1, Ordering::Relaxed);
            if USED.load(Ordering::Relaxed) <= place as u32 {
                USED.fetch_max(place as u32 + 1, Ordering::Relaxed);
            }
            return;
        }
    }
}

/// Remembers a connection that a listening socket gave, whose port is asked from the kernel once.
pub fn track_accepted(fd: c_int, listener: c_int) {
    let Some(word) = word(listener).filter(|_| is_owner()) else { return };
    let known = Word::from_bits(word.load(Ordering::Relaxed)).port();
    let port = known.or_else(|| meeting::server_port(fd, Role::Server));
    let Some(port) = port else { return drop_stale(fd) };
    if known.is_none() {
        // An outdated port costs no more than that a connection learns from others' lives.
        let (none, listening) = (Word::UNKNOWN.bits(), Word::listener(port).bits());
        let _ = word.compare_exchange(none, listening, Ordering::Relaxed, Ordering::Relaxed);
    }
    track(fd, Role::Server, port);
}

/// Forgets what a number stood for that the kernel has given out anew: it was closed past the
/// library.
pub fn drop_stale(fd: c_int) {
    if let Some(guard) = enter(fd) {
        set_entry(fd, Entry::Unknown);
        guard.local.descriptors.fetch_sub(1, Ordering::SeqCst);
    } else {
        forget_listener(fd);
    }
}

/// Forgets that a number was a listening socket's.
pub fn forget_listener(fd: c_int) {
    if let Some(word) = word(fd) {
        let now = Word::from_bits(word.load(Ordering::Relaxed));
        if now.port().is_some() {
            word.store(Word::UNKNOWN.bits(), Ordering::Relaxed);
        }
    }
}

/// Forgets that a number stands for a connection. How many calls by this number are in the kernel
/// that were not counted at the connection.
pub fn forget_number(fd: c_int) -> u32 {
    word(fd).map_or(0, |word| change(word, |_| Some(Word::UNKNOWN)).inside())
}

/// The word of the number by which the connection was made, if it still stands for it. By no other
/// number do calls pass by.
fn first_word(place: usize, connection: &Connection) -> Option<&'static AtomicU64> {
    let word = word(connection.first_fd.load(Ordering::Relaxed))?;
    let now = Word::from_bits(word.load(Ordering::Relaxed)).entry();
    (now == Entry::Connection(place)).then_some(word)
}

/// Who makes a call that moves bytes.
pub enum Passage {
    /// The kernel: the connection is its for good, or the descriptor is no connection.
    Kernel,
    /// The kernel, and then [`went_by`] is to be called with this word.
    Quiet(Word),
    /// This library looks at the connection.
    Seen,
}

/// Says who makes a call that moves bytes.
#[inline(always)]
pub fn passage(fd: c_int) -> Passage {
    let Some(cell) = word(fd) else { return Passage::Kernel };
    let mut now = Word::from_bits(cell.load(Ordering::Relaxed));
    loop {
        if !now.is_promising() {
            return Passage::Kernel;
        }
        let Some(entered) = now.come_in() else { return Passage::Seen };
        let (old, new) = (now.bits(), entered.bits());
        match cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return Passage::Quiet(entered),
            Err(bits) => now = Word::from_bits(bits),
        }
    }
}

/// Counts a call out that passed by.
#[inline(always)]
pub fn went_by(fd: c_int, entered: Word) {
    let Some(cell) = word(fd) else { return };
    let mut now = Word::from_bits(cell.load(Ordering::Relaxed));
    while let Some(out) = now.go_out(entered) {
        let (old, new) = (now.bits(), out.bits());
        match cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return,
            Err(bits) => now = Word::from_bits(bits),
        }
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
    local.come_in();
    // Made anew for either end: one that is moved is stored and loaded, which costs 4 ns a call.
    if entry(fd) == Entry::Connection(place) {
        return Some(Guard { place, fd, connection, local });
    }
    drop(Guard { place, fd, connection, local });
    None
}

/// Remembers that a connection is the kernel's for good.
pub fn let_pass(guard: &Guard) {
    if let Some(word) = word(guard.fd) {
        change(word, |word| (word.entry() == Entry::Connection(guard.place)).then(|| word.plain()));
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
    local.come_in();
    Some(Guard { place, fd, connection, local })
}

impl Guard {
    pub fn local(&self) -> &'static Local {
        self.local
    }

    /// Whether no other call of this process is inside the connection. From now on none passes by
    /// until [`Guard::hush`].
    pub fn is_alone(&self) -> bool {
        let mut inside = 0;
        if let Some(word) = first_word(self.place, self.connection) {
            let before = change(word, |word| (word.quiet() > 0).then(|| word.hushed(0)));
            inside = before.inside();
            let operations = &self.connection.operations;
            let counted = operations.load(Ordering::Relaxed);
            operations.store(counted.saturating_sub(before.quiet()), Ordering::Relaxed);
        }
        inside == 0 && self.local.users.load(Ordering::SeqCst) == 1
    }

    /// Lets the next calls pass by, all of which count as made. Called with the right to join, so
    /// that nobody joins meanwhile.
    pub fn hush(&self, calls: u32) {
        let Some(word) = first_word(self.place, self.connection) else { return };
        let quiet = |word: Word| {
            let here = word.entry() == Entry::Connection(self.place) && word.quiet() == 0;
            here.then(|| word.hushed(calls))
        };
        let before = change(word, quiet);
        if let Some(after) = quiet(before) {
            let operations = &self.connection.operations;
            let counted = operations.load(Ordering::Relaxed);
            operations.store(counted.saturating_add(after.quiet()), Ordering::Relaxed);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.local.go_out() == 1 && self.local.descriptors.load(Ordering::SeqCst) == 0 {
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
        for event in [&connection.own_event, &connection.peer_event] {
            let event = event.load(order);
            if event >= 0 {
                close_own(event);
            }
        }
    }
    // Whoever takes the place next does so by the holders.
    let order = Ordering::Release;
    local.descriptors.store(0, order);
    if connection.holders.load(Ordering::Acquire) == 1 {
        connection.segment.store(std::ptr::null_mut(), order);
        connection.phase.store(phase::FREE, order);
    }
    connection.holders.fetch_sub(1, Ordering::AcqRel);
    if LOWEST_FREE.load(Ordering::Relaxed) > place as u32 {
        LOWEST_FREE.fetch_min(place as u32, Ordering::Relaxed);
    }
}
