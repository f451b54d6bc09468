//! What the library remembers about descriptors and connections.
//!
//! A connection's own state lies in an arena that a process shares with the children it forks, so
//! that parent and child can use one connection in turn or at the same time. Which descriptor
//! stands for which connection, which calls are inside, and what is registered in which `epoll`
//! instance belong to the process alone.

pub mod above;
pub mod attaching;
pub mod blocked;
pub mod connection;
pub mod figures;
pub mod forbidden;
pub mod guard;
pub mod holders;
pub mod idle;
pub mod local;
pub mod lost;
pub mod numbers;
pub mod own_number;
pub mod places;
pub mod queue;
pub mod taken;
pub mod word;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::descriptors;
use crate::report::stats::{self, Stats};
use crate::segment::Role;
use crate::sharing::copies;
use crate::sharing::family;
use crate::sys;
use crate::table::above::Above;
use crate::table::attaching::Attaching;
pub use crate::table::connection::{Connection, Receiving, Registration, Reported, Sending, end};
pub use crate::table::guard::{Guard, borrowed, come_in, enter, enter_placed, followed, let_pass};
use crate::table::guard::{first_word, release};
use crate::table::holders::hold_no_more;
pub use crate::table::local::Local;
use crate::table::numbers::{DESCRIPTORS, change, leaves_others, look_for_threads, word};
pub use crate::table::numbers::{
    claim, close_own, disclaim, entry, forget_listener, is_awaited_in_kernel, is_plain,
    is_single_threaded, known, set_entry,
};
pub use crate::table::places::{freed, reclaim};
pub use crate::table::word::Entry;
use crate::table::word::Word;
use libc::c_int;
use weft_protocol::break_even::BreakEven;
pub use weft_protocol::migration::{Event, Phase};

/// Connections beyond these are left to the kernel.
pub const CONNECTIONS: usize = 1 << 13;
/// In how many epoll instances (or under how many descriptors) a connection is followed.
pub const REGISTRATIONS: usize = 4;

/// The number of kinds of connections, which differ in role and server port.
const KINDS: usize = 64;

#[repr(C)]
struct Arena {
    stats: Stats,
    /// All places that a process of the family ever used lie below.
    used: AtomicU32,
    /// What was learned of the connections of each kind.
    lessons: [AtomicU32; KINDS],
    connections: [Connection; CONNECTIONS],
}

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(std::ptr::null_mut());
static LOCALS: AtomicPtr<Local> = AtomicPtr::new(std::ptr::null_mut());
/// The descriptor of the tables' file; below zero is none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The process that the table belongs to: the child of a `vfork` runs in its parent's memory, and
/// must not change the table.
static OWNER: AtomicU32 = AtomicU32::new(0);
static CERTAINTY: AtomicU32 = AtomicU32::new(certainty::NOBODY);
/// Whether nothing new is remembered.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// No place from here on was ever used.
static USED: AtomicU32 = AtomicU32::new(0);
/// No descriptor from here on was ever a connection's without a place.
static BEYOND: AtomicU32 = AtomicU32::new(0);

/// Takes this process for the one that the tables are to belong to. False if it may not know which it is.
pub fn start(above: Above) -> bool {
    if !sys::has_numbers() {
        return false;
    }
    above::set(above);
    look_for_threads();
    OWNER.store(sys::process(), Ordering::Relaxed);
    CERTAINTY.store(certainty::OWN, Ordering::Relaxed);
    true
}

/// Whether there are tables, which are created when there is first something to remember: a process
/// without connections has no descriptor of the library's. Without them every descriptor is
/// unknown.
#[inline]
pub fn has_tables() -> bool {
    !ARENA.load(Ordering::Acquire).is_null() || makes_tables()
}

#[cold]
fn makes_tables() -> bool {
    let _errno = sys::KeepErrno::new();
    // No thread forks meanwhile, and no other thread creates them.
    let Some(_attaching) = Attaching::begin() else { return false };
    if !ARENA.load(Ordering::Acquire).is_null() {
        return true;
    }
    make_tables().is_some()
}

fn make_tables() -> Option<()> {
    let locals = sys::map(None, size_of::<Local>() * CONNECTIONS)?;
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"weft-live".as_ptr(), libc::MFD_CLOEXEC) };
    let file = if file < 0 { None } else { descriptors::move_high(file).ok() };
    let length = size_of::<Arena>();
    let map = |file| sys::set_length(file, length).ok().and_then(|()| sys::map(Some(file), length));
    let Some(arena) = file.filter(|file| leaves_others(*file)).and_then(map) else {
        file.inspect(|file| sys::close(*file));
        // SAFETY: nobody else knows of them.
        unsafe { sys::unmap(locals, size_of::<Local>() * CONNECTIONS) };
        return None;
    };
    let file = file?;
    claim(file);
    family::begin(file);
    FILE.store(file, Ordering::SeqCst);
    LOCALS.store(locals.cast(), Ordering::Relaxed);
    let arena = arena.cast::<Arena>();
    // SAFETY: the arena is mapped, and never unmapped from here on; all zeroes are valid figures.
    stats::begin(unsafe { &(*arena).stats });
    ARENA.store(arena, Ordering::Release);
    Some(())
}

/// Gives up the descriptor by which `weft live status` finds the figures, if it is one that the
/// program may have; whether it was.
pub fn hide() -> bool {
    let _errno = sys::KeepErrno::new();
    let order = Ordering::SeqCst;
    let file = FILE.load(order);
    let is_programs = file >= 0 && (file as u64) < sys::descriptor_limit(None).rlim_cur;
    if !is_programs || FILE.compare_exchange(file, -1, order, order).is_err() {
        return false;
    }
    // The program may have put another descriptor there.
    let is_there = entry(file) == Entry::Own && family::is_file(file);
    if is_there {
        close_own(file);
    }
    is_there
}

/// Replaces the descriptor of the figures' file by `other`. False if it is not `number`.
pub fn move_file(number: c_int, other: c_int) -> bool {
    let order = Ordering::SeqCst;
    FILE.compare_exchange(number, other, order, order).is_ok()
}

/// Takes the tables over in the child of a fork.
pub fn start_in_child() {
    OWNER.store(sys::process(), Ordering::Relaxed);
    copies::tell();
    // A copy of the memory is nobody else's.
    if CERTAINTY.load(Ordering::Relaxed) != certainty::NOBODY {
        CERTAINTY.store(certainty::OWN, Ordering::SeqCst);
    }
    for place in used() {
        if let Some(local) = local(place) {
            local.desert();
        }
        if let Some(word) = connection(place).and_then(|it| first_word(place, it)) {
            change(word, |word| Some(word.deserted()));
        }
    }
    forget_taken();
}

/// Whether this process only copies, and has closed all descriptors that this memory knows.
static COPIES: AtomicBool = AtomicBool::new(false);

/// Whether the descriptors in this memory are this process's.
pub fn has_own_numbers() -> bool {
    is_owner() && !COPIES.load(Ordering::Relaxed)
}

/// Whether this process copies between a connection and another that a program has for it.
pub fn copies() -> bool {
    COPIES.load(Ordering::Relaxed)
}

/// Takes the tables over in a process that copies. The child of a `vfork`, which had descriptors of
/// its own, may have made it.
pub fn start_in_copy() {
    COPIES.store(true, Ordering::Relaxed);
    used().filter_map(local).for_each(Local::forget_kept);
    start_in_child();
}

/// Forgets, in the child of a fork, what other threads have made or closed between the parent's count of
/// holders and the moment at which its memory was copied.
pub fn forget_uncounted() {
    let mut any = false;
    for place in used() {
        let (Some(connection), Some(local)) = (connection(place), local(place)) else { break };
        match (local.has_descriptors(), local.counted.load(Ordering::Relaxed)) {
            (true, false) => any = true,
            (false, true) => hold_no_more(connection),
            _ => {}
        }
    }
    let is_counted = |place| local(place).is_some_and(|it| it.counted.load(Ordering::Relaxed));
    if any {
        for (fd, entry) in known() {
            if let Entry::Connection(place) = entry
                && !is_counted(place)
            {
                set_entry(fd, Entry::Unknown);
            }
        }
        used().filter(|place| !is_counted(*place)).filter_map(local).for_each(Local::forget);
    }
    leave_newcomers();
}

/// All places that were ever used.
pub fn used() -> std::ops::Range<usize> {
    0..USED.load(Ordering::Relaxed) as usize
}

/// Says that a place is used from now on.
pub fn use_place(place: usize) {
    if USED.load(Ordering::Relaxed) <= place as u32 {
        USED.fetch_max(place as u32 + 1, Ordering::Relaxed);
        if let Some(used) = used_of_family() {
            used.fetch_max(place as u32 + 1, Ordering::Relaxed);
        }
    }
}

/// All places that any process of the family ever used.
pub fn used_by_any() -> std::ops::Range<usize> {
    0..used_of_family().map_or(0, |it| it.load(Ordering::Relaxed) as usize).min(CONNECTIONS)
}

fn used_of_family() -> Option<&'static AtomicU32> {
    let arena = ARENA.load(Ordering::Acquire);
    // SAFETY: once stored, the arena is never unmapped.
    (!arena.is_null()).then(|| unsafe { &(*arena).used })
}

/// The process that the table belongs to.
pub fn owner() -> u32 {
    OWNER.load(Ordering::Relaxed)
}

/// Whether the calling process is the one whose memory this is.
#[inline]
pub fn is_owner() -> bool {
    match CERTAINTY.load(Ordering::Relaxed) {
        certainty::OWN => true,
        certainty::SHARED => sys::process() == OWNER.load(Ordering::Relaxed),
        certainty::COPIED => !copies::is_one(),
        _ => false,
    }
}

/// Says that from now on another process may run in this memory. To be called before one is made.
pub fn may_be_shared() {
    let order = Ordering::SeqCst;
    for from in [certainty::OWN, certainty::COPIED] {
        let _ = CERTAINTY.compare_exchange(from, certainty::SHARED, order, order);
    }
}

/// Says that from now on a process may run in a copy of this memory without notice to the library.
/// To be called before one is made.
pub fn may_be_copied() {
    if !copies::expect() {
        return may_be_shared();
    }
    let (own, copied, order) = (certainty::OWN, certainty::COPIED, Ordering::SeqCst);
    let _ = CERTAINTY.compare_exchange(own, copied, order, order);
}

/// Remembers no new connection from now on, so that the library makes no call for one.
pub fn remember_no_more() {
    CLOSED.store(true, Ordering::SeqCst);
}

/// Whether new connections are remembered.
#[inline]
pub fn remembers() -> bool {
    !CLOSED.load(Ordering::Relaxed)
}

/// What is known of the processes that run in this memory.
mod certainty {
    /// No tables were made.
    pub const NOBODY: u32 = 0;
    /// The owner alone, so that the kernel need not be asked at each call.
    pub const OWN: u32 = 1;
    /// Perhaps another too.
    pub const SHARED: u32 = 2;
    /// The owner, or another in a copy that it knows by one page.
    pub const COPIED: u32 = 3;
}

/// The kind of the connections that this end has with a server's port in this role.
pub fn kind(role: Role, port: u16) -> u32 {
    // Neighbouring ports are of different kinds, and so are the two ends of one.
    (u32::from(port) * 2 + role as u32) % KINDS as u32 + 1
}

/// The role of a kind.
pub fn role_of(kind: u32) -> Role {
    if (kind - 1).is_multiple_of(2) { Role::Client } else { Role::Server }
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

/// All connections of which this process holds a descriptor.
pub fn held() -> impl Iterator<Item = (usize, &'static Connection)> {
    used().filter_map(|place| {
        let holds = local(place)?.has_descriptors();
        let connection = connection(place)?;
        (holds && connection.phase() != Phase::FREE).then_some((place, connection))
    })
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

/// What was learned of the connections of a kind.
pub fn learned(kind: u32) -> BreakEven {
    BreakEven::from_word(lesson(kind).map_or(0, |lesson| lesson.load(Ordering::Relaxed)))
}

/// No descriptor from here on was ever a connection's without a place.
pub fn reached() -> usize {
    (BEYOND.load(Ordering::Relaxed) as usize).min(DESCRIPTORS)
}

/// Extends searches for connections without a place up to this descriptor.
pub fn reach(fd: c_int) {
    if BEYOND.load(Ordering::Relaxed) <= fd as u32 {
        BEYOND.fetch_max(fd as u32 + 1, Ordering::Relaxed);
    }
}

/// Remembers a new TCP socket: it becomes a connection when it is connected, or before if there is
/// more to remember of it.
pub fn note_stream(fd: c_int) {
    if let Some(word) = word(fd).filter(|_| is_owner() && remembers() && has_tables()) {
        reach(fd);
        word.store(Word::STREAM.bits(), Ordering::Release);
    }
}

/// Gives a place to a connection that has none yet, and returns it. If there is none, the
/// connection stays with the kernel.
#[cold]
#[inline(never)]
pub fn settle(fd: c_int) -> Option<usize> {
    let cell = word(fd).filter(|_| is_owner())?;
    let asked = Word::from_bits(cell.load(Ordering::Acquire));
    if let Some((kind, first)) = asked.newcomer() {
        let taken = places::take(fd, kind, first);
        let to = |word: Word| {
            let here = word.is_same(asked) && word.newcomer().is_some();
            here.then(|| taken.map_or(word.plain(), |place| word.placed(place)))
        };
        let before = change(cell, to);
        if to(before).is_some() {
            return taken;
        }
        // Another thread was faster, or has closed it.
        if let Some(place) = taken
            && let (Some(connection), Some(local)) = (connection(place), local(place))
        {
            release(place, fd, connection, local);
        }
    }
    match entry(fd) {
        Entry::Connection(place) => Some(place),
        Entry::Unplaced if taken::await_end(fd) => settle(fd),
        _ => None,
    }
}

/// All descriptors that may stand for a connection without a place.
pub fn newcomers() -> impl Iterator<Item = c_int> {
    placeless(|word| word.entry() == Entry::Unplaced && !word.is_taken())
}

fn placeless(which: impl Fn(Word) -> bool) -> impl Iterator<Item = c_int> {
    let is_one = move |fd: &c_int| {
        word(*fd).is_some_and(|word| which(Word::from_bits(word.load(Ordering::Acquire))))
    };
    (0..BEYOND.load(Ordering::Relaxed) as c_int).filter(is_one)
}

/// Leaves all connections without a place to the kernel: in the child of a `vfork`, where any
/// descriptor may be any of them.
pub fn leave_newcomers() {
    for cell in newcomers().filter_map(word) {
        change(cell, |word| word.newcomer().map(|_| word.plain()));
    }
}

/// Forgets, in the child of a fork, what other threads were taking away.
fn forget_taken() {
    for fd in placeless(Word::is_taken) {
        set_entry(fd, Entry::Unknown);
    }
}
