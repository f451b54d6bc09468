//! Passes `epoll_ctl` calls on connections that are not accelerated to the kernel, and notes them,
//! in as few instructions as possible.
//!
//! Programs remove a connection from an instance and add it again for each message. While the
//! kernel serves the connection, the library needs to know only the last call, in case the
//! connection is accelerated later, and how many such registrations there are. So a descriptor has
//! one note, changed by the thread that has marked its word, and without a lock that covers more
//! than one descriptor. What a note does not hold, registrations in several instances at a time, is
//! kept with the connection from then on.
//!
//! Once a connection stays with the kernel for good, the word of its descriptor also names the
//! instance that is noted, and whether the descriptor is in it at the moment ([`Word::told`]).
//! While no instance of the process carries data of the library's, an `epoll_ctl` needs no more
//! than the words of the two descriptors. The instance goes on counting the descriptor while it is
//! removed: its count may be too high, never too low.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{c_int, epoll_event};

use super::instance::{Instance, instance};
use super::{CONTROL, others, registrations};
use crate::interpose::{Way, is_off, system_calls};
use crate::sys;
use crate::table::numbers::{DESCRIPTORS, change, replace, word};
use crate::table::word::Word;
use crate::table::{self, Entry, Guard, Registration};

/// The last registration of a descriptor.
struct Note {
    /// The instance's index plus one, or one of the two below.
    instance: AtomicU32,
    events: AtomicU32,
    data: AtomicU64,
}

/// It is in no instance, or in one that the library does not know.
const NOWHERE: u32 = 0;
/// Its registrations are kept with the connection.
const KEPT: u32 = u32::MAX;

/// How long to wait for a thread that is registering a descriptor in an instance, in nanoseconds.
/// It may have left the call by a jump.
const PATIENCE: u64 = 20_000_000;

static NOTES: [Note; DESCRIPTORS] = [const {
    Note { instance: AtomicU32::new(0), events: AtomicU32::new(0), data: AtomicU64::new(0) }
}; DESCRIPTORS];

fn note(fd: c_int) -> Option<&'static Note> {
    NOTES.get(fd as u32 as usize)
}

/// The way of an `epoll_ctl`: it is the kernel's alone if the connection stays with the kernel for
/// good, the word of the descriptor names the instance, and no instance contains anything of the
/// library's. In a process with one thread, the call is then made here.
#[inline(always)]
pub fn way(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> Way<c_int> {
    if system_calls::is_undisturbed() {
        if !is_noted_in_words(epoll, operation, fd, sys::replace_alone) {
            return Way::Apart;
        }
        // SAFETY: the program says that the event is valid, as the C library's function would pass it on.
        let result = unsafe { sys::enter_epoll_ctl(epoll, operation, fd, event) };
        return Way::Done(if result < 0 { system_calls::refused(result) } else { result as c_int });
    }
    // Beside other threads, or in front of another library's function.
    let is_kernels =
        || !system_calls::is_disturbed() && is_noted_in_words(epoll, operation, fd, replace);
    if is_off() || is_kernels() { Way::Next } else { Way::Apart }
}

/// Whether the words of the two descriptors hold all that must be noted of an `epoll_ctl`. The call
/// is noted as if it had succeeded: nearly all calls that fail leave the same state, and only a
/// count depends on it.
#[inline(always)]
fn is_noted_in_words(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    replace: impl Fn(&AtomicU64, u64, u64) -> Result<(), u64>,
) -> bool {
    let (Some(cell), Some(outer)) = (word(fd), word(epoll)) else { return false };
    let now = Word::from_bits(cell.load(Ordering::Relaxed));
    if !now.is_told_of_in(Word::from_bits(outer.load(Ordering::Relaxed))) {
        return false;
    }
    let next = match operation {
        libc::EPOLL_CTL_DEL => now.put_in(false),
        libc::EPOLL_CTL_ADD => now.put_in(true),
        _ => return true,
    };
    replace(cell, now.bits(), next.bits()).is_ok()
}

/// Whether an `epoll_ctl` is the kernel's alone because the connection stays with the kernel for
/// good, where [`way`] could not tell. The call is noted as [`way`] does.
#[inline(always)]
pub fn is_kernels(epoll: c_int, operation: c_int, fd: c_int) -> bool {
    table::is_plain(fd) && is_kernels_apart(epoll, operation, fd)
}

/// Whether the call is the kernel's alone, on a connection that stays with the kernel for good.
#[inline(never)]
fn is_kernels_apart(epoll: c_int, operation: c_int, fd: c_int) -> bool {
    let (Some(cell), Entry::Epoll(index)) = (word(fd), table::entry(epoll)) else { return false };
    let (Some(to), Some(note)) = (instance(index), note(fd)) else { return false };
    if is_noted_in_words(epoll, operation, fd, replace) {
        look_aside_after(to, operation);
        return true;
    }
    let now = Word::from_bits(cell.load(Ordering::Relaxed));
    let Some(held) = now.controlled().filter(|_| now.is_plain()) else { return false };
    if replace(cell, now.bits(), held.bits()).is_err() {
        return false;
    }
    let own = index as u32 + 1;
    let mut noted = note.instance.load(Ordering::Relaxed);
    if let Some((other, false)) = now.told()
        && other != index
        && noted == other as u32 + 1
    {
        // It was taken out of the one that still counts it.
        note.instance.store(NOWHERE, Ordering::Relaxed);
        if let Some(other) = instance(other) {
            count::<false>(&other.unaccelerated, -1);
        }
        noted = NOWHERE;
    }
    let is_here = noted == own || noted == NOWHERE;
    if is_here {
        change_note::<false>(to, note, [own, noted], operation);
    }
    let is_told = is_here && note.instance.load(Ordering::Relaxed) == own;
    end_mark(fd, cell, held, is_told.then_some((index, true)));
    is_here
}

/// The `epoll_ctl` of the program's, `kernel`, on a connection that is the kernel's for the next calls. `None`
/// if more is to be done.
#[inline(always)]
pub fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *const epoll_event,
    kernel: impl Fn() -> c_int,
) -> Option<c_int> {
    let marked = Marked::begin([epoll, fd], Word::controlled, replace)?;
    let result = marked.is_here().then(kernel);
    if result == Some(0) {
        marked.note::<false>(operation, event);
    }
    let after = marked.held.released().told_of(None);
    marked.end(after, replace);
    result
}

/// [`control`] for a process with one thread that may make bare system calls, while no instance
/// contains anything of the library's.
#[inline(always)]
pub fn control_alone(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Option<c_int> {
    if !system_calls::is_undisturbed() {
        return None;
    }
    let marked = Marked::begin([epoll, fd], Word::controlled_while_quiet, sys::replace_alone)?;
    let after = marked.held.released();
    if !marked.is_here() {
        marked.end(after, sys::replace_alone);
        return None;
    }
    // SAFETY: the program says that the event is valid, as the C library's function would pass it on.
    let result = unsafe { sys::enter_epoll_ctl(epoll, operation, fd, event) };
    if result == 0 {
        marked.note::<true>(operation, event);
    }
    marked.end(after, sys::replace_alone);
    Some(if result < 0 { system_calls::refused(result) } else { result as c_int })
}

/// The mark of a descriptor under which an instance is told of it.
struct Marked {
    fd: c_int,
    cell: &'static AtomicU64,
    held: Word,
    instance: &'static Instance,
    note: &'static Note,
    /// The number that stands for this instance in a note, and the one that is noted.
    own: u32,
    noted: u32,
}

impl Marked {
    /// `None` if more must be done than to register a connection in an instance, or if another
    /// thread does so.
    #[inline(always)]
    fn begin(
        [epoll, fd]: [c_int; 2],
        mark: impl Fn(Word) -> Option<Word>,
        replace: impl Fn(&AtomicU64, u64, u64) -> Result<(), u64>,
    ) -> Option<Self> {
        let (cell, outer) = (word(fd)?, word(epoll)?);
        let now = Word::from_bits(cell.load(Ordering::Relaxed));
        let held = mark(now)?;
        let index = Word::from_bits(outer.load(Ordering::Acquire)).instance()?;
        let (instance, note) = (instance(index)?, note(fd)?);
        // With one thread only a signal handler can change the word.
        replace(cell, now.bits(), held.bits()).ok()?;
        let noted = note.instance.load(Ordering::Relaxed);
        Some(Self { fd, cell, held, instance, note, own: index as u32 + 1, noted })
    }

    /// Whether the note is of this instance, or of none.
    #[inline(always)]
    const fn is_here(&self) -> bool {
        self.noted == self.own || self.noted == NOWHERE
    }

    /// Notes what the kernel has done. `ALONE` is whether it is known that there is one thread.
    #[inline(always)]
    fn note<const ALONE: bool>(&self, operation: c_int, event: *const epoll_event) {
        if operation != libc::EPOLL_CTL_DEL {
            // SAFETY: the kernel has just read it.
            let event = unsafe { event.read_unaligned() };
            self.note.events.store(event.events, Ordering::Relaxed);
            self.note.data.store(event.u64, Ordering::Relaxed);
        }
        change_note::<ALONE>(self.instance, self.note, [self.own, self.noted], operation);
    }

    /// Ends it: the word is what it is to be after it.
    #[inline(always)]
    fn end(self, after: Word, replace: impl Fn(&AtomicU64, u64, u64) -> Result<(), u64>) {
        if replace(self.cell, self.held.bits(), after.bits()).is_err() {
            release(self.fd, self.cell, self.held);
        }
    }
}

/// Notes in which instance the kernel has registered a descriptor; `own` stands for this instance
/// and `noted` for the one that was noted.
#[inline(always)]
fn change_note<const ALONE: bool>(
    instance: &Instance,
    note: &Note,
    [own, noted]: [u32; 2],
    operation: c_int,
) {
    match operation {
        libc::EPOLL_CTL_DEL if noted == NOWHERE => return others::discount(&instance.others),
        libc::EPOLL_CTL_DEL => {
            note.instance.store(NOWHERE, Ordering::Relaxed);
            return count::<ALONE>(&instance.unaccelerated, -1);
        }
        libc::EPOLL_CTL_ADD if noted == NOWHERE => {
            note.instance.store(own, Ordering::Relaxed);
            count::<ALONE>(&instance.unaccelerated, 1);
        }
        _ => {}
    }
    look_aside_after(instance, operation);
}

/// Lets the next wait ask the kernel, if what was put in or changed may have an event.
#[inline(always)]
fn look_aside_after(instance: &Instance, operation: c_int) {
    if operation != libc::EPOLL_CTL_DEL && instance.has_tagged() {
        instance.look_aside_next();
    }
}

/// Counts one more or one less. `ALONE` is whether it is known that there is one thread.
#[inline(always)]
fn count<const ALONE: bool>(count: &AtomicU32, change: i32) {
    if ALONE || table::is_single_threaded() {
        let now = count.load(Ordering::Relaxed);
        count.store(now.saturating_add_signed(change), Ordering::Relaxed);
    } else if change > 0 {
        count.fetch_add(1, Ordering::SeqCst);
    } else {
        others::discount(count);
    }
}

/// Removes the mark of a descriptor. If the connection stays with the kernel for good, the word
/// names the instance `told` from now on.
#[inline(always)]
fn end_mark(fd: c_int, cell: &AtomicU64, held: Word, told: Option<(usize, bool)>) {
    if replace(cell, held.bits(), held.released().told_of(told).bits()).is_err() {
        release(fd, cell, held);
    }
}

/// Removes the mark of a descriptor on which calls have begun or ended meanwhile, or that is
/// closed. The next call finds out again in which instance it is noted.
#[cold]
#[inline(never)]
fn release(fd: c_int, cell: &AtomicU64, held: Word) {
    let is_meant = |now: Word| now.is_same(held) && now.is_controlled();
    if !is_meant(change(cell, |now| is_meant(now).then(|| now.released().told_of(None)))) {
        // It was closed, and the thread that closed it may have found no note yet.
        forget_number(fd, false);
    }
}

/// Moves the registration in the note of a descriptor to its connection. The control lock is held.
pub fn gather(guard: &Guard, fd: c_int) {
    let (Some(cell), Some(note)) = (word(fd), note(fd)) else { return };
    if note.instance.load(Ordering::SeqCst) == KEPT {
        return;
    }
    let until = sys::now() + PATIENCE;
    let held = loop {
        let before = change(cell, |now| now.held().filter(|now| now.is_at(guard.place)));
        match before.held() {
            // The descriptor is another's by now.
            _ if !before.is_at(guard.place) => return,
            Some(held) => break held,
            None if sys::now() > until => break before,
            None => sys::yield_now(),
        }
    };
    let noted = note.instance.swap(KEPT, Ordering::SeqCst);
    let index = noted.checked_sub(1).filter(|_| noted != KEPT);
    if let (Some(index), Some((_, false))) = (index, held.told()) {
        // It was taken out.
        if let Some(instance) = instance(index as usize) {
            others::discount(&instance.unaccelerated);
        }
    } else if let Some(index) = index {
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
            None => drop(instance(index as usize).map(|it| others::discount(&it.unaccelerated))),
        }
        guard.local().watched.store(true, Ordering::Relaxed);
    }
    end_mark(fd, cell, held, None);
}

/// Remembers that a connection stays with the kernel for good, and moves its registration back to the note
/// of its descriptor: from now on calls on this descriptor bypass the library.
pub fn let_pass(guard: &Guard) {
    table::let_pass(guard);
    if note(guard.fd).is_some_and(|note| note.instance.load(Ordering::SeqCst) == KEPT)
        && let Some(_control) = CONTROL.lock()
    {
        note_again(guard);
    }
}

/// Moves a registration that was kept with a connection back to the note of its descriptor, if
/// there is no other and no instance follows it. The control lock is held, and no thread joins.
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

/// Forgets the note of a descriptor that is closed. `goes_on` says whether the kernel keeps the
/// registration, since another descriptor stands for the same file.
pub fn forget_number(fd: c_int, goes_on: bool) {
    let Some(note) = note(fd).filter(|it| it.instance.load(Ordering::Relaxed) != NOWHERE) else {
        return;
    };
    let noted = note.instance.swap(NOWHERE, Ordering::SeqCst);
    if let Some(instance) = noted.checked_sub(1).and_then(|index| instance(index as usize)) {
        count::<false>(&instance.unaccelerated, -1);
        if goes_on {
            instance.others.fetch_add(1, Ordering::SeqCst);
            others::mark_watched(fd, true);
        }
    }
}

/// Whether a descriptor is noted to be in an instance.
pub fn is_noted(fd: c_int) -> bool {
    let noted = note(fd).map_or(NOWHERE, |it| it.instance.load(Ordering::SeqCst));
    let told = word(fd).and_then(|cell| Word::from_bits(cell.load(Ordering::SeqCst)).told());
    !matches!(noted, NOWHERE | KEPT) && !matches!(told, Some((_, false)))
}

/// Forgets an instance that nobody can reach any more.
pub fn forget_instance(index: usize) {
    let (own, order) = (index as u32 + 1, Ordering::SeqCst);
    for (fd, note) in NOTES[..table::reached()].iter().enumerate() {
        if note.instance.load(order) != own {
            continue;
        }
        // Another instance may get its place.
        if let Some(cell) = word(fd as c_int) {
            let is_told = |now: Word| now.told().is_some_and(|(told, _)| told == index);
            change(cell, |now| is_told(now).then(|| now.told_of(None)));
        }
        let _ = note.instance.compare_exchange(own, NOWHERE, order, order);
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::break_even::BreakEven;

    use super::*;

    const ADD: c_int = libc::EPOLL_CTL_ADD;
    const DEL: c_int = libc::EPOLL_CTL_DEL;
    const MOD: c_int = libc::EPOLL_CTL_MOD;

    /// An instance, by its descriptor and as it is.
    fn tracked() -> (c_int, &'static Instance) {
        // SAFETY: takes no memory.
        let epoll = unsafe { libc::epoll_create1(0) };
        super::super::track(epoll);
        let Entry::Epoll(index) = table::entry(epoll) else { panic!("it is not followed") };
        (epoll, instance(index).unwrap())
    }

    fn noted(epoll: c_int, operation: c_int, fd: c_int) -> bool {
        is_noted_in_words(epoll, operation, fd, replace)
    }

    fn unaccelerated(instance: &Instance) -> u32 {
        instance.unaccelerated.load(Ordering::SeqCst)
    }

    /// Lets a descriptor, which nobody else uses, stand for a connection that is the kernel's.
    fn stands_for_plain(fd: c_int) -> &'static AtomicU64 {
        let cell = word(fd).unwrap();
        table::reach(fd);
        cell.store(Word::unplaced(1, BreakEven::from_word(0), 1).plain().bits(), Ordering::SeqCst);
        cell
    }

    fn told(cell: &AtomicU64) -> Option<(usize, bool)> {
        Word::from_bits(cell.load(Ordering::SeqCst)).told()
    }

    fn index_of(epoll: c_int) -> usize {
        let Entry::Epoll(index) = table::entry(epoll) else { panic!("it is not followed") };
        index
    }

    #[test]
    fn an_instance_that_is_told_of_a_number_is_told_no_more_by_a_count() {
        let ((epoll, here), fd) = (tracked(), 60_001);
        let cell = stands_for_plain(fd);
        assert!(!noted(epoll, ADD, fd), "it is not told of it yet");
        assert!(is_kernels(epoll, ADD, fd) && is_noted(fd) && unaccelerated(here) == 1);
        for _ in 0..3 {
            assert!(noted(epoll, MOD, fd) && is_noted(fd));
            assert!(noted(epoll, DEL, fd) && !is_noted(fd));
            assert_eq!(told(cell), Some((index_of(epoll), false)));
            assert!(noted(epoll, ADD, fd) && is_noted(fd));
            assert_eq!((told(cell), unaccelerated(here)), (Some((index_of(epoll), true)), 1));
        }
        forget_number(fd, false);
        assert_eq!(unaccelerated(here), 0, "the number is no more");
        cell.store(0, Ordering::SeqCst);
        super::super::forget(index_of(epoll), epoll);
    }

    #[test]
    fn a_number_that_was_taken_out_of_one_instance_is_the_next_ones() {
        let ((one, first), (two, second), fd) = (tracked(), tracked(), 60_002);
        let cell = stands_for_plain(fd);
        assert!(is_kernels(one, ADD, fd) && noted(one, DEL, fd));
        assert!(!noted(two, ADD, fd) && is_kernels(two, ADD, fd));
        assert_eq!((unaccelerated(first), unaccelerated(second)), (0, 1));
        assert_eq!(told(cell), Some((index_of(two), true)));
        assert!(!is_kernels(one, ADD, fd), "it is in two");
        assert_eq!((unaccelerated(first), unaccelerated(second)), (0, 1));
        // Its place may be another instance's next.
        super::super::forget(index_of(two), two);
        assert_eq!((told(cell), is_noted(fd)), (None, false));
        assert!(is_kernels(one, ADD, fd) && unaccelerated(first) == 1);
        forget_number(fd, false);
        cell.store(0, Ordering::SeqCst);
        super::super::forget(index_of(one), one);
    }

    #[test]
    fn the_next_wait_looks_aside_where_a_connection_is_accelerated_beside() {
        let ((epoll, here), fd) = (tracked(), 60_003);
        let cell = stands_for_plain(fd);
        assert!(is_kernels(epoll, ADD, fd));
        // SAFETY: nobody else uses the instance.
        let inner = || unsafe { &mut *here.inner.get() };
        inner().tagged.add();
        for (operation, looks) in [(MOD, true), (DEL, false), (ADD, true)] {
            inner().looked_aside = 7;
            assert!(matches!(way(epoll, operation, fd, std::ptr::null_mut()), Way::Apart));
            assert!(is_kernels(epoll, operation, fd));
            assert_eq!(inner().looked_aside == 0, looks, "{operation}");
        }
        inner().tagged.remove();
        forget_number(fd, false);
        cell.store(0, Ordering::SeqCst);
        super::super::forget(index_of(epoll), epoll);
    }

    #[test]
    fn two_threads_that_tell_instances_of_one_number_leave_the_counts_right() {
        let ((one, first), (two, second), fd) = (tracked(), tracked(), 60_004);
        let cell = stands_for_plain(fd);
        let tell = |seed: u32| {
            let mut now = seed;
            for _ in 0..200_000 {
                now = now.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let epoll = if now >> 30 & 1 == 0 { one } else { two };
                let operation = [ADD, DEL, MOD][(now >> 24) as usize % 3];
                let _ = is_kernels(epoll, operation, fd);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| tell(1));
            scope.spawn(|| tell(2));
        });
        let noted = note(fd).unwrap().instance.load(Ordering::SeqCst);
        let counts = (unaccelerated(first), unaccelerated(second));
        let here = |epoll| u32::from(noted == index_of(epoll) as u32 + 1);
        assert_eq!(counts, (here(one), here(two)));
        if let Some((index, _)) = told(cell) {
            assert_eq!(noted, index as u32 + 1);
        }
        forget_number(fd, false);
        assert_eq!((unaccelerated(first), unaccelerated(second)), (0, 0));
        cell.store(0, Ordering::SeqCst);
        [one, two].into_iter().for_each(|it| super::super::forget(index_of(it), it));
    }
}
