//! The figures that `weft live status` shows.
//!
//! They are at the beginning of the file `weft-live` that every process with the library keeps
//! open, so that any process that may read its `/proc/PID/fd` can read them, and nothing is left
//! behind when it ends. `python/weft/live_figures.py` knows this layout.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Which layout this is.
const LAYOUT: u64 = 8;

/// Why a connection, or what of it, stays with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The two addresses are of different hosts or network namespaces.
    Elsewhere,
    /// Nobody answered at the meeting place: the other end runs without the library.
    PeerPlain,
    /// The other end belongs to another user, and the two have not agreed to share memory.
    OtherUser,
    /// The segment could not be made: memory, descriptors, seals.
    NoSegment,
    /// More connections than the limit.
    Limit,
    /// A call that is not accelerated came first.
    Call,
    /// The kernel's counters are missing or do not agree.
    Counters,
    /// It is in an epoll instance that is not followed, or in too many.
    Epoll,
    /// A descriptor is kept open over `exec`.
    Exec,
    /// A descriptor is passed over a Unix socket.
    Passed,
    /// The C library's streams read and write past this one.
    Stdio,
    /// The process has set `io_uring` up.
    IoUring,
    /// The kernel is to move bytes between descriptors without copying them to the program.
    Splice,
    /// Urgent data.
    Urgent,
    /// A socket option that only the kernel can honour.
    Option,
    /// The other end wanted back.
    Peer,
    /// The program makes system calls by instructions of its own.
    BareCalls,
    /// The other end did not read for long, and the kernel holds more than a ring.
    Full,
    /// The process filters its system calls.
    Filter,
    /// The other end gave up before both had joined.
    Withdrawn,
    /// Somebody else is at the place where the two ends would meet, or a rule forbids it.
    NoPlace,
    /// The other end handed over what cannot be used.
    Unusable,
}

impl Reason {
    /// What a person reads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Elsewhere => "the other end is on another host, or the two addresses differ",
            Self::PeerPlain => "the other end does not run under weft live",
            Self::OtherUser => {
                "the other end is another user's, without a WEFT_LIVE_DIRECTORY of both"
            }
            Self::NoSegment => "no shared memory could be had",
            Self::Limit => "more connections than WEFT_LIVE_LIMIT, or few descriptors left",
            Self::Call => "a call that cannot be accelerated came before",
            Self::Counters => "the kernel lacks the counters, or they did not agree",
            Self::Epoll => "in an epoll instance that cannot be followed",
            Self::Exec => "a descriptor is kept open over exec",
            Self::Passed => "a descriptor is passed to another process",
            Self::Stdio => "the C library's streams use the descriptor",
            Self::IoUring => "the process uses io_uring",
            Self::Splice => "splice",
            Self::Urgent => "urgent data",
            Self::Option => "a socket option that only the kernel honours",
            Self::Peer => "the other end went back to the kernel",
            Self::BareCalls => "the process makes system calls past the C library",
            Self::Full => "the other end does not read, and the kernel holds more than a ring",
            Self::Filter => "the process filters its system calls",
            Self::Withdrawn => "the other end gave up before both had joined",
            Self::NoPlace => "the place where the two ends would meet is taken or forbidden",
            Self::Unusable => "the other end handed over what is no segment of this version",
        }
    }
}

const REASONS: usize = Reason::Unusable as usize + 1;

/// All counts are since the process began, children that it forked included.
#[derive(Debug)]
#[repr(C)]
pub struct Stats {
    layout: AtomicU64,
    pub candidates: AtomicU64,
    pub joined: AtomicU64,
    pub closed: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
    pub messages_sent: AtomicU64,
    /// Wake-ups through the flag's word.
    pub word_wakes: AtomicU64,
    /// Wake-ups by a byte on the kernel's connection.
    pub doorbells: AtomicU64,
    /// Times that a receiver went to sleep.
    pub sleeps: AtomicU64,
    pub broken: AtomicU64,
    /// Looks into the kernel that a sleep brings with it: for doorbells, for what the kernel has to
    /// report beside the accelerated connections, and whether the other end lives.
    pub looks: AtomicU64,
    /// Questions whether the other end lives, since nothing was heard of it for long.
    pub questions: AtomicU64,
    /// Looks aside, at descriptors that only the kernel can report, while accelerated ones have events.
    pub asides: AtomicU64,
    /// Times that the processor was given up while waiting for an other end, and questions whether anybody
    /// wants it.
    pub turns: AtomicU64,
    /// Connections that were never accelerated.
    pub fallen_through: [AtomicU64; REASONS],
    /// Connections that were accelerated and went back to the kernel.
    pub moved_back: [AtomicU64; REASONS],
}

/// What one half of a connection has moved and not yet counted: all processes of a family write the
/// figures, so that counting each message there would cost more than sending it through the ring.
#[derive(Debug, Default)]
pub struct Unsaid {
    bytes: u64,
    messages: u64,
    /// Calls ever noted, counted or not.
    pub calls: u64,
}

impl Unsaid {
    /// Calls until they are counted.
    const MOST: u64 = 64;

    /// Notes a call; true if it is time to count.
    #[inline]
    pub fn note(&mut self, bytes: u64, messages: u64) -> bool {
        self.bytes += bytes;
        self.messages += messages;
        self.calls += 1;
        self.messages >= Self::MOST
    }

    /// Counts what was sent.
    pub fn say_sent(&mut self) {
        let [bytes, messages] = [&mut self.bytes, &mut self.messages].map(std::mem::take);
        if bytes > 0 {
            count(|stats| &stats.bytes_sent, bytes);
            count(|stats| &stats.messages_sent, messages);
        }
    }

    /// Counts what was received.
    pub fn say_received(&mut self) {
        let [bytes, _] = [&mut self.bytes, &mut self.messages].map(std::mem::take);
        if bytes > 0 {
            count(|stats| &stats.bytes_received, bytes);
        }
    }
}

/// The figures of this process, once there are any.
static STATS: AtomicPtr<Stats> = AtomicPtr::new(std::ptr::null_mut());

/// Counts there from now on, and says which layout the figures have: they are worth reading.
pub fn begin(stats: &'static Stats) {
    stats.layout.store(LAYOUT, Ordering::Release);
    STATS.store(std::ptr::from_ref(stats).cast_mut(), Ordering::Release);
}

/// The figures that `weft live status` reads through `/proc`.
pub fn get() -> Option<&'static Stats> {
    let stats = STATS.load(Ordering::Acquire);
    // SAFETY: what is stored is never unmapped.
    unsafe { stats.as_ref() }
}

/// Counts on a statistic, if there are any.
pub fn count(which: impl Fn(&Stats) -> &AtomicU64, by: u64) {
    if let Some(stats) = get() {
        which(stats).fetch_add(by, Ordering::Relaxed);
    }
}
