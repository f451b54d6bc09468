//! Telling the kernel's instances of connections that are not carried, in as few instructions as can be.
//!
//! Programs take a connection out of an instance and put it in again for each message. As long as the kernel
//! has it, nothing needs to be known of that but what the last call said, if the connection is carried later,
//! and how many such there are. So a number has one note, changed by whoever has marked its word, and without
//! a lock of more than one number. What a note does not hold, several instances at a time, is kept with the
//! connection from then on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_int, epoll_event};

use super::instance::{Instance, instance};
use super::{CONTROL, others, registrations, waiting};
use crate::sys;
use crate::table::numbers::{DESCRIPTORS, change, replace, word};
use crate::table::word::Word;
use crate::table::{self, Entry, Guard, Registration};

/// The last registration of a number.
struct Note {
    /// The instance's index plus one, or one of the two below.
    instance: AtomicU32,
    events: AtomicU32,
    data: AtomicU64,
}

/// It is in no instance, or in one of which the library knows nothing.
const NOWHERE: u32 = 0;
/// Its registrations are kept with the connection.
const KEPT: u32 = u32::MAX;

/// How long a thread is waited for that tells an instance of a number, in nanoseconds. It may have left the
/// call by a jump.
const PATIENCE: u64 = 20_000_000;

static NOTES: [Note; DESCRIPTORS] = [const {
    Note { instance: AtomicU32::new(0), events: AtomicU32::new(0), data: AtomicU64::new(0) }
}; DESCRIPTORS];

fn note(fd: c_int) -> Option<&'static Note> {
    NOTES.get(fd as u32 as usize)
}

/// Whether an `epoll_ctl` is the kernel's alone, since the connection is the kernel's for good. It is noted as
/// if it were done: it is so after nearly all calls that fail, too, and no more than a count depends on it.
#[inline(always)]
pub fn is_kernels(epoll: c_int, operation: c_int, fd: c_int) -> bool {
    if !table::is_plain(fd) {
        return false;
    }
    let Entry::Epoll(index) = table::entry(epoll) else { return false };
    let (Some(instance), Some(note)) = (instance(index), note(fd)) else { return false };
    let (own, noted) = (index as u32 + 1, note.instance.load(Ordering::Relaxed));
    let is_here = noted == own || noted == NOWHERE;
    if is_here {
        change_note(instance, note, [own, noted], operation);
    }
    is_here
}

/// The `epoll_ctl` of the program's, `kernel`, on a connection that is the kernel's for the next calls. `None`
/// if more is to be done.
#[inline]
pub fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *const epoll_event,
    kernel: impl Fn() -> c_int,
) -> Option<c_int> {
    let cell = word(fd)?;
    let now = Word::from_bits(cell.load(Ordering::Relaxed));
    let held = now.controlled()?;
    let Entry::Epoll(index) = table::entry(epoll) else { return None };
    let (instance, note, own) = (instance(index)?, note(fd)?, index as u32 + 1);
    // Nobody else changes the word while there is one thread, but for a handler.
    replace(cell, now.bits(), held.bits()).ok()?;
    let noted = note.instance.load(Ordering::Relaxed);
    let is_here = noted == own || noted == NOWHERE;
    let mut result = 0;
    if is_here {
        result = kernel();
        if result == 0 {
            if operation != libc::EPOLL_CTL_DEL {
                // SAFETY: the kernel has just read it.
                let event = unsafe { event.read_unaligned() };
                note.events.store(event.events, Ordering::Relaxed);
                note.data.store(event.u64, Ordering::Relaxed);
            }
            change_note(instance, note, [own, noted], operation);
        }
    }
    if replace(cell, held.bits(), now.bits()).is_err() {
        release(fd, cell, held);
    }
    is_here.then_some(result)
}

/// Notes in which instance the kernel has put a number, where `own` stands for this one and `noted` for what
/// was noted.
#[inline(always)]
fn change_note(instance: &Instance, note: &Note, [own, noted]: [u32; 2], operation: c_int) {
    match operation {
        libc::EPOLL_CTL_DEL if noted == NOWHERE => return others::discount(&instance.others),
        libc::EPOLL_CTL_DEL => {
            note.instance.store(NOWHERE, Ordering::Relaxed);
            return count(&instance.uncarried, -1);
        }
        libc::EPOLL_CTL_ADD if noted == NOWHERE => {
            note.instance.store(own, Ordering::Relaxed);
            count(&instance.uncarried, 1);
        }
        _ => {}
    }
    if instance.has_tagged() {
        waiting::look_aside_next(instance);
    }
}

#[inline(always)]
fn count(count: &AtomicU32, change: i32) {
    if table::is_single_threaded() {
        let now = count.load(Ordering::Relaxed);
        count.store(now.saturating_add_signed(change), Ordering::Relaxed);
    } else if change > 0 {
        count.fetch_add(1, Ordering::SeqCst);
    } else {
        others::discount(count);
    }
}

/// Ends the mark of a number by which others have come or gone meanwhile, or that is no more.
#[cold]
#[inline(never)]
fn release(fd: c_int, cell: &AtomicU64, held: Word) {
    let is_meant = |now: Word| now.is_same(held) && now.is_controlled();
    if !is_meant(change(cell, |now| is_meant(now).then(|| now.released()))) {
        // It was closed, and whoever did that may have found nothing yet.
        forget_number(fd, false);
    }
}

/// Keeps what is noted of a number with its connection. The control lock is held.
pub fn gather(guard: &Guard, fd: c_int) {
    let (Some(cell), Some(note)) = (word(fd), note(fd)) else { return };
    if note.instance.load(Ordering::SeqCst) == KEPT {
        return;
    }
    let until = sys::now() + PATIENCE;
    let held = loop {
        let before = change(cell, |now| now.held().filter(|now| now.is_at(guard.place)));
        match before.held() {
            // The number is another's by now.
            _ if !before.is_at(guard.place) => return,
            Some(held) => break held,
            None if sys::now() > until => break before,
            None => sys::yield_now(),
        }
    };
    let noted = note.instance.swap(KEPT, Ordering::SeqCst);
    if let Some(index) = noted.checked_sub(1).filter(|_| noted != KEPT) {
        let registration = Registration {
            instance: index + 1,
            fd,
            events: note.events.load(Ordering::Relaxed),
            data: note.data.load(Ordering::Relaxed),
            by_kernel: true,
            ..Registration::default()
        };
        // SAFETY: the control lock is held, which guards what is free.
        let free = registrations(guard.place).find(|it| unsafe { (**it).instance } == 0);
        match free {
            // SAFETY: it is free, so no instance looks at it.
            Some(free) => unsafe { *free = registration },
            None => drop(instance(index as usize).map(|it| others::discount(&it.uncarried))),
        }
        guard.local().watched.store(true, Ordering::Relaxed);
    }
    if replace(cell, held.bits(), held.released().bits()).is_err() {
        release(fd, cell, held);
    }
}

/// Notes what was kept with a connection, once it is the kernel's for good: from now on calls by this number
/// pass by.
pub fn let_pass(guard: &Guard) {
    if note(guard.fd).is_some_and(|note| note.instance.load(Ordering::SeqCst) == KEPT)
        && let Some(_control) = CONTROL.lock()
    {
        note_again(guard);
    }
}

/// Notes what was kept with a connection, if it is not more than a note holds. The control lock is held, and
/// nobody joins.
pub fn note_again(guard: &Guard) {
    let kept = note(guard.fd).filter(|it| it.instance.load(Ordering::SeqCst) == KEPT);
    let Some(note) = kept.filter(|_| guard.is_current()) else { return };
    let mut own = registrations(guard.place).filter(|it| {
        // SAFETY: the control lock is held.
        unsafe { (**it).instance != 0 && (**it).fd == guard.fd }
    });
    let (first, second) = (own.next(), own.next());
    // SAFETY: the control lock is held, and an instance gives back what it follows with its own.
    let is_followed = first.is_some_and(|it| unsafe { (*it).linked || (*it).parked });
    if second.is_some() || is_followed {
        return;
    }
    // SAFETY: the control lock is held, and no instance looks at what it does not follow.
    let kept = first.map(|it| unsafe { std::mem::take(&mut *it) }).unwrap_or_default();
    note.events.store(kept.events, Ordering::Relaxed);
    note.data.store(kept.data, Ordering::Relaxed);
    note.instance.store(kept.instance, Ordering::SeqCst);
}

/// Forgets what is noted of a number that is no more. `goes_on` is whether the kernel goes on with it, since
/// there is another for the same.
pub fn forget_number(fd: c_int, goes_on: bool) {
    let Some(note) = note(fd).filter(|it| it.instance.load(Ordering::Relaxed) != NOWHERE) else {
        return;
    };
    let noted = note.instance.swap(NOWHERE, Ordering::SeqCst);
    if let Some(instance) = noted.checked_sub(1).and_then(|index| instance(index as usize)) {
        count(&instance.uncarried, -1);
        if goes_on {
            instance.others.fetch_add(1, Ordering::SeqCst);
            others::mark_watched(fd, true);
        }
    }
}

/// Whether a number is noted to be in an instance.
pub fn is_noted(fd: c_int) -> bool {
    let noted = note(fd).map_or(NOWHERE, |it| it.instance.load(Ordering::SeqCst));
    !matches!(noted, NOWHERE | KEPT)
}

/// Forgets an instance that nobody can reach any more.
pub fn forget_instance(index: usize) {
    let order = Ordering::SeqCst;
    for note in &NOTES[..table::reached()] {
        let _ = note.instance.compare_exchange(index as u32 + 1, NOWHERE, order, order);
    }
}
