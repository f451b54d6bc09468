//! Waiting for the other end.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::{Begun, Refusal};
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};

use crate::migration::answering;
use crate::migration::direction;
use crate::peer::death;
use crate::report::stats::{self, Reason};
use crate::segment::{Segment, closed};
use crate::signals::asleep::{Asleep, How};
use crate::signals::cancel;
use crate::signals::ending::{EndedBy, is_interrupting};
use crate::spin::{SpinPolicy, Where};
use crate::sys::{self, Errno};
use crate::table::figures;
use crate::table::idle;
use crate::table::{Connection, Guard, end};
use crate::waiting::call::{Call, lost_since};

/// How long a blocking call sleeps on the flag's word before it sleeps in the kernel, where the
/// other end's death is seen immediately, in nanoseconds. So a death is seen this much later at
/// most.
const ON_WORD: u64 = 20_000_000;
/// How long a sender sleeps on the word at most, which checks itself whether the other end is dead,
/// in nanoseconds.
const LONGEST_ON_WORD: u64 = 10 * ON_WORD;

/// How long a receiver sleeps while the bytes in the ring are refused, in nanoseconds.
const REFUSED: u64 = 1_000_000;

/// How long a sender sleeps that waits for an end which is about to end, in nanoseconds.
const ENDS_SOON: u64 = 1_000_000;

/// How long a full ring is left unread before its connection goes back to the kernel, in
/// nanoseconds.
pub const STALLED: u64 = 100_000_000;

/// Where the other end last ran, and notes where this one does.
pub fn place_of_peer(connection: &Connection, segment: &Segment) -> Where {
    let here = sys::processor();
    let (me, peer) = (connection.role(), connection.role().peer());
    let mine = &segment.side(me).processor;
    if mine.load(Ordering::Relaxed) != here {
        mine.store(here, Ordering::Relaxed);
    }
    match segment.side(peer).processor.load(Ordering::Relaxed) {
        0 => Where::Unknown,
        there if there == here => Where::Here,
        _ => Where::Elsewhere,
    }
}

/// Polls `each` connections as a policy says.
pub fn poll(policy: &mut SpinPolicy, place: Where, each: u32, came: impl FnMut() -> bool) -> bool {
    let turns = Cell::new(0);
    let give_up = || {
        turns.set(turns.get() + 1);
        sys::yield_now();
    };
    let usage = || {
        turns.set(turns.get() + 1);
        sys::thread_usage()
    };
    let came = match place {
        Where::Elsewhere => policy.poll(each, came, give_up, usage, sys::now),
        Where::Here => policy.take_turns(came, give_up, sys::now),
        Where::Unknown => false,
    };
    if turns.get() > 0 {
        stats::count(|stats| &stats.turns, turns.get());
    }
    came
}

/// Whether there is something to receive, or something to say about it.
fn may_receive(connection: &Connection, segment: &Segment) -> bool {
    let peer = connection.role().peer();
    let way = segment.way(peer);
    way.pointers.filling() != 0
        || way.pointers.is_sealed()
        || way.detour.is_finished()
        || segment.side(peer).closed.load(Ordering::Acquire) != closed::OPEN
        || connection.end.load(Ordering::Acquire) != end::NONE
        || connection.read_shut.load(Ordering::Acquire)
}

/// Whether a quarter of the ring is free, or nothing will ever be again.
pub fn may_send(connection: &Connection, segment: &Segment) -> bool {
    let capacity = segment.capacity().bytes();
    let pointers = &segment.way(connection.role()).pointers;
    let peer = segment.side(connection.role().peer());
    pointers.filling() <= capacity / 4 * 3
        || pointers.is_sealed()
        || connection.write_shut.load(Ordering::Acquire)
        || peer.closed.load(Ordering::Acquire) != closed::OPEN
        || connection.end.load(Ordering::Acquire) != end::NONE
}

/// Migrates back to the kernel if the full ring of a sender has not been read for long: both ends may
/// read nothing before they have written everything, for which the kernel's buffers, of megabytes, have
/// room. True if it migrated.
pub fn go_back_if_stalled(guard: &Guard, segment: &Segment) -> bool {
    let connection = guard.connection;
    let (read, now) = (segment.way(connection.role()).pointers.read(), sys::now());
    if connection.stalled_at.load(Ordering::Relaxed) != read {
        connection.stalled_since.store(now, Ordering::Relaxed);
        connection.stalled_at.store(read, Ordering::Relaxed);
        return false;
    }
    let since = connection.stalled_since.load(Ordering::Relaxed);
    let stalled = now.saturating_sub(since) >= STALLED;
    if stalled {
        direction::turn_back(guard, segment, Reason::Full);
    }
    stalled
}

/// Polls as the connection's policy says.
fn polled(connection: &Connection, segment: &Segment, came: impl FnMut() -> bool) -> bool {
    // SAFETY: a policy is plain numbers; two threads that wait on one connection at once may spoil
    // each other's lesson and nothing else.
    let policy = unsafe { &mut *connection.spin.get() };
    poll(policy, place_of_peer(connection, segment), 1, came)
}

/// Waits until there is something to receive. `announced` is whether the sender was known to have
/// switched when nothing was found.
pub fn readable(
    guard: &Guard,
    segment: &Segment,
    announced: bool,
    call: &mut Call,
) -> Result<(), Errno> {
    let connection = guard.connection;
    if connection.is_disconnected() {
        return Err(libc::EPIPE);
    }
    let way = segment.way(connection.role().peer());
    let switched = connection.switched_in.load(Ordering::Acquire);
    if switched && way.pointers.sealed_at() == Some(way.pointers.read()) {
        return returning(guard, segment, call);
    }
    if way.detour.refusal() == Refusal::Unheard {
        return while_refused(guard, call);
    }
    let came = || may_receive(connection, segment);
    let came_with_bytes = || {
        let came = came();
        if came {
            // Prefetches the bytes while this thread returns to where they are read.
            segment.expect_emptying(connection.role().peer());
        }
        came
    };
    if switched && polled(connection, segment, came_with_bytes) {
        return Ok(());
    }
    call.blocks(guard);
    if switched && let Some(result) = readable_by_word(guard, segment, call) {
        return result;
    }
    readable_by_kernel(guard, segment, [switched, announced], call)
}

/// Sleeps on the word of the flag for a moment. `None` if the sleep is to go on in the kernel.
fn readable_by_word(
    guard: &Guard,
    segment: &Segment,
    call: &mut Call,
) -> Option<Result<(), Errno>> {
    let connection = guard.connection;
    figures::say(connection);
    let in_kernel = connection.times_out.load(Ordering::Relaxed)
        || peer_ends_soon(connection, segment)
        || call.is_without_number(guard);
    if in_kernel {
        return None;
    }
    stats::count(|stats| &stats.sleeps, 1);
    let (ended_by, awake_since) = (EndedBy::of(call.in_part), call.slept_until);
    let came = || {
        let lost = lost_since(guard, awake_since).is_some();
        lost || may_receive(connection, segment) || peer_ends_soon(connection, segment)
    };
    let flag = &segment.way(connection.role().peer()).arrived;
    match sleep_on_word(flag, ON_WORD, ended_by, &mut call.slept_until, came) {
        Err(libc::ETIMEDOUT) => {
            idle::give_back(connection, segment);
            None
        }
        // The thread that took the number away waits until this call sleeps in the kernel.
        Ok(()) if call.is_without_number(guard) => None,
        other => Some(other),
    }
}

/// Sleeps in the kernel, which reports doorbells and an end of stream.
fn readable_by_kernel(
    guard: &Guard,
    segment: &Segment,
    [switched, announced]: [bool; 2],
    call: &mut Call,
) -> Result<(), Errno> {
    let connection = guard.connection;
    let way = segment.way(connection.role().peer());
    let came = || may_receive(connection, segment);
    let asleep = Sleeper::begin(guard);
    way.arrived.arm(Sleep::InKernel);
    let changed = match switched {
        true => came(),
        false => {
            connection.read_shut.load(Ordering::SeqCst)
                || !announced && way.detour.begun() != Begun::NotYet
        }
    };
    if changed || call.number_lost_to(guard).is_some() {
        return Ok(());
    }
    stats::count(|stats| &stats.sleeps, 1);
    let (was_lost, is_kernels) = (guard.number_lost_to().is_some(), sleeps_by_number(guard, call));
    let looked = call.sleeps_for_long(guard, |call| wait_for_byte(guard, call));
    let has_gone_on = match looked {
        // Handlers end the sleep of a call without a number, whatever they ask for.
        Err(libc::EINTR) => {
            was_lost && !call.in_part && call.until == Some(u64::MAX) && !is_interrupting()
        }
        Err(libc::EAGAIN) => false,
        _ => is_kernels && guard.number_lost_to().is_some() && is_of_another(guard, came),
    };
    if has_gone_on {
        call.begins_again();
        return Ok(());
    }
    drop(asleep);
    match looked {
        Err(why @ (libc::EINTR | libc::EAGAIN)) => return Err(why),
        // Once the other end has switched, a reset may come of a doorbell that lay unread.
        Err(why) if !switched && !matches!(way.detour.begun(), Begun::After(_)) => return Err(why),
        // Once the detours have ended, the kernel's stream says by itself how it ends.
        Ok(0) | Err(_) if switched => drop(death::is_gone_since_switched(guard, segment)),
        _ => {}
    }
    Ok(())
}

/// Whether a sleep that the kernel has ended, in whose course the number was taken away, was ended by what
/// the kernel has found at the number since: it looks again after a signal whose handler lets calls go on.
#[cold]
fn is_of_another(guard: &Guard, came: impl Fn() -> bool) -> bool {
    !came() && sys::poll_now(guard.socket(), libc::POLLIN | libc::POLLRDHUP) == 0
}

/// Whether the call sleeps next in the kernel's own blocking receive, by its number. If that number
/// was taken away, the receive would read from another file.
fn sleeps_by_number(guard: &Guard, call: &Call) -> bool {
    !call.in_part && call.until.is_none() && guard.number_lost_to().is_none()
}

/// Waits a little while the bytes in the ring are refused: they come through the kernel's stream,
/// unless the refusal is taken back.
#[cold]
fn while_refused(guard: &Guard, call: &mut Call) -> Result<(), Errno> {
    call.no_longer_blocks();
    let fd = call.number(guard);
    let limit = call.limit(fd);
    let polled = cancel::poll_until(fd, libc::POLLIN, limit.min(sys::now() + REFUSED));
    call.slept_until = sys::now();
    match polled {
        Err(libc::EINTR) if !call.in_part && limit == u64::MAX && !is_interrupting() => Ok(()),
        Err(why) => Err(why),
        Ok(0) if sys::now() >= limit => Err(libc::EAGAIN),
        Ok(_) => Ok(()),
    }
}

/// Waits for the kernel's stream to bring the last doorbells, or what follows them.
fn returning(guard: &Guard, segment: &Segment, call: &mut Call) -> Result<(), Errno> {
    let detour = &segment.way(guard.connection.role().peer()).detour;
    if detour.is_ringing() {
        // The other end is between ringing and counting: a matter of nanoseconds if it runs.
        sys::sleep(20_000);
        return Ok(());
    }
    match call.sleeps_for_long(guard, |call| wait_for_byte(guard, call)) {
        Err(why @ (libc::EINTR | libc::EAGAIN)) => Err(why),
        _ => Ok(()),
    }
}

/// Waits until the kernel's stream has a byte, but no longer than a receive may wait at all. The first
/// wait of a call is the kernel's own blocking receive, which looks and takes nothing: it ends with a
/// doorbell or with the other end's death, and knows timeouts and which signals let a call go on.
fn wait_for_byte(guard: &Guard, call: &mut Call) -> Result<usize, Errno> {
    if sleeps_by_number(guard, call) {
        let fd = guard.socket();
        if guard.connection.times_out.load(Ordering::Relaxed) {
            call.limit(fd);
        }
        match cancel::wait_for_byte(fd) {
            // `O_NONBLOCK` was set since: a call that already waits goes on, as in the kernel.
            Err(libc::EAGAIN) => {}
            looked => return looked,
        }
    }
    let fd = call.number(guard);
    cancel::wait_for_byte_until(fd, call.limit(fd))
}

/// Waits a little for more bytes, which no flag announces, each time longer. False if a signal or
/// the call's timeout has ended that.
pub fn for_more(guard: &Guard, pause: &mut u64, call: &mut Call) -> bool {
    call.no_longer_blocks();
    let until = call.limit(guard.socket());
    *pause = (2 * *pause).clamp(20_000, 5_000_000);
    let time = libc::timespec { tv_sec: 0, tv_nsec: *pause as libc::c_long };
    let goes_on = sys::now() < until && cancel::ppoll(&mut [], &time, std::ptr::null()).is_ok();
    call.slept_until = sys::now();
    goes_on
}

/// Waits until the kernel's stream has more for a receive that has a part. False if a signal or the
/// time of the call has ended that.
pub fn for_rest(guard: &Guard, call: &mut Call) -> bool {
    let fd = call.number(guard);
    let until = call.limit(fd);
    let polled = call.sleeps_for_long(guard, |_| cancel::poll_until(fd, libc::POLLIN, until));
    polled.is_ok_and(|events| events != 0)
}

/// Waits until the kernel's stream has room for the rest of a send that has sent a part. False if a
/// signal, the timeout, or an error that the next call must report has ended that, or if there is
/// no room and the call does not block.
pub fn for_room(guard: &Guard, until: u64, call: Option<&mut Call>) -> bool {
    let poll = |fd| cancel::poll_until(fd, libc::POLLOUT, until);
    let polled = match call {
        Some(call) => {
            let fd = call.number(guard);
            call.sleeps_for_long(guard, |_| poll(fd))
        }
        None => poll(guard.socket()),
    };
    let failed = libc::POLLERR | libc::POLLHUP;
    polled.is_ok_and(|events| events != 0 && events & failed == 0)
}

/// When the time of a send that has waited so long is over.
pub fn until_sent(fd: c_int, waited: u64) -> u64 {
    let limit = sys::timeout_option(fd, libc::SO_SNDTIMEO);
    limit.map_or(u64::MAX, |limit| sys::now().saturating_add(limit).saturating_sub(waited))
}

/// Waits until there is room to send.
pub fn writable(guard: &Guard, segment: &Segment, call: &mut Call) -> Result<(), Errno> {
    let begin = sys::now();
    let result = writable_since(guard, segment, begin.saturating_sub(call.waited), call);
    if let Some(blocking) = &call.blocking {
        blocking.is_short();
    }
    call.waited += sys::now() - begin;
    result
}

fn writable_since(
    guard: &Guard,
    segment: &Segment,
    begin: u64,
    call: &mut Call,
) -> Result<(), Errno> {
    let connection = guard.connection;
    let came = || may_send(connection, segment);
    if polled(connection, segment, came) {
        return Ok(());
    }
    let limit = sys::timeout_option(guard.socket(), libc::SO_SNDTIMEO);
    let flag = &segment.way(connection.role()).freed;
    call.blocks(guard);
    let mut span = ON_WORD;
    loop {
        let gone_by = sys::now() - begin;
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(gone_by));
        if left == 0 {
            return Err(libc::EAGAIN);
        }
        if go_back_if_stalled(guard, segment) || call.number_lost_to(guard).is_some() {
            return Ok(());
        }
        stats::count(|stats| &stats.sleeps, 1);
        cancel::look();
        if call.is_without_number(guard) {
            // The thread that took it away waits until this call sleeps: so this sleeps for as long
            // as it can.
            span = LONGEST_ON_WORD;
            call.blocks(guard).lasts();
        }
        let ends = call.in_part || limit.is_some();
        let is_lost = call.is_without_number(guard);
        let ended_by = EndedBy::of(ends || is_lost);
        let awake_since = call.slept_until;
        let came = || lost_since(guard, awake_since).is_some() || came();
        let span_now = if peer_ends_soon(connection, segment) { ENDS_SOON } else { span };
        match sleep_on_word(flag, span_now.min(left), ended_by, &mut call.slept_until, came) {
            Ok(()) if call.is_without_number(guard) && !came() => false,
            Err(libc::ETIMEDOUT) => death::is_gone(guard),
            Err(libc::EINTR) if is_lost && !ends && !is_interrupting() => {
                call.begins_again();
                return Ok(());
            }
            other => return other,
        };
        span = (span * 2).min(LONGEST_ON_WORD);
    }
}

/// Whether the other end's last process is about to end.
fn peer_ends_soon(connection: &Connection, segment: &Segment) -> bool {
    segment.side(connection.role().peer()).ends_soon.load(Ordering::SeqCst)
}

/// Sleeps on the word of a flag until it is stimulated or the span is over, and notes until when it has slept.
fn sleep_on_word(
    flag: &InterruptFlag,
    span: u64,
    ended_by: EndedBy,
    slept_until: &mut u64,
    came: impl Fn() -> bool,
) -> Result<(), Errno> {
    let value = flag.arm(Sleep::OnWord);
    if came() {
        return Ok(());
    }
    let word = flag.word().as_ptr();
    let due = sys::now() + span;
    let _asleep = Asleep::begin(How::Short);
    let how = match ended_by {
        EndedBy::Any => sys::futex_wait(word, value, span),
        EndedBy::Interrupting => match sys::futex_wait_or_go_on(word, value, span) {
            Err(why) if sys::is_refusal(why) => match sys::futex_wait(word, value, span) {
                Err(libc::EINTR) if !is_interrupting() => Ok(()),
                how => how,
            },
            how => how,
        },
    };
    match how {
        // The word has changed before.
        Err(libc::EAGAIN) => {}
        Err(libc::ETIMEDOUT) => *slept_until = due,
        _ => *slept_until = sys::now(),
    }
    match how {
        Err(why @ (libc::EINTR | libc::ETIMEDOUT)) => Err(why),
        _ => Ok(()),
    }
}

/// A thread that is about to sleep in the kernel, on one connection, until dropped.
struct Sleeper<'a>(&'a Guard);

impl<'a> Sleeper<'a> {
    fn begin(guard: &'a Guard) -> Self {
        answering::fall_asleep(guard);
        Self(guard)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        answering::wake_up(self.0, true);
    }
}
