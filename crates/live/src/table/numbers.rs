//! What each descriptor stands for, in one word each, and which of its calls the kernel
//! handles alone.

use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libc::c_int;

use crate::descriptors;
use crate::sys;
use crate::table::word::{Entry, Word};

/// Descriptors from here on are left to the kernel.
pub const DESCRIPTORS: usize = 1 << 16;

static ENTRIES: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

/// Where the C library says whether the process has had one thread only; null if it does not say.
static SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());

/// Whether the process has one thread.
#[inline]
pub fn is_single_threaded() -> bool {
    let word = SINGLE_THREADED.load(Ordering::Relaxed);
    // SAFETY: the C library's variable is there for good. It changes before another thread begins.
    !word.is_null() && unsafe { (*word).load(Ordering::Relaxed) } != 0
}

/// Where the C library says that, by a byte that is not zero.
pub fn single_threaded() -> Option<*mut AtomicU8> {
    Some(SINGLE_THREADED.load(Ordering::Relaxed)).filter(|word| !word.is_null())
}

pub fn look_for_threads() {
    // SAFETY: the name is a C string.
    let word = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    SINGLE_THREADED.store(word.cast(), Ordering::Relaxed);
}

/// The word of a descriptor; `None` if it is beyond the table.
#[inline]
pub fn word(fd: c_int) -> Option<&'static AtomicU64> {
    ENTRIES.get(fd as u32 as usize)
}

/// Changes a word as long as it can be; returns what it was.
pub fn change(word: &AtomicU64, to: impl Fn(Word) -> Option<Word>) -> Word {
    let order = Ordering::SeqCst;
    let changed = word.fetch_update(order, order, |bits| to(Word::from_bits(bits)).map(Word::bits));
    Word::from_bits(changed.unwrap_or_else(|bits| bits))
}

/// Changes a word. In a process with one thread, only this thread and its signal handlers change
/// it. Returns what it was, if it was not `old`.
#[inline(always)]
pub fn replace(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    exchange(is_single_threaded(), word, old, new)
}

#[inline(always)]
fn exchange(alone: bool, word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    if alone {
        sys::replace_alone(word, old, new)
    } else {
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed).map(drop)
    }
}

/// Whether this descriptor is a connection that stays with the kernel for good.
#[inline]
pub fn is_plain(fd: c_int) -> bool {
    word(fd).is_some_and(|word| Word::from_bits(word.load(Ordering::Relaxed)).is_plain())
}

/// Whether a wait for this descriptor is the kernel's.
#[inline]
pub fn is_awaited_in_kernel(fd: c_int) -> bool {
    word(fd).is_none_or(|it| Word::from_bits(it.load(Ordering::Relaxed)).is_awaited_in_kernel())
}

/// What this descriptor is.
#[inline]
pub fn entry(fd: c_int) -> Entry {
    word(fd).map_or(Entry::Unknown, |word| Word::from_bits(word.load(Ordering::Acquire)).entry())
}

/// Whether this descriptor stands for the connection at a place.
#[inline]
pub fn is_at(fd: c_int, place: usize) -> bool {
    word(fd).is_some_and(|word| Word::from_bits(word.load(Ordering::Acquire)).is_at(place))
}

/// Remembers a descriptor. False if it is beyond the table.
pub fn set_entry(fd: c_int, entry: Entry) -> bool {
    word(fd).is_some_and(|word| {
        word.store(Word::of(entry).bits(), Ordering::Release);
        true
    })
}

/// How many descriptors are the library's own.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Marks a descriptor as the library's own: the program cannot close it by accident.
pub fn claim(fd: c_int) {
    set_entry(fd, Entry::Own);
    OWN.fetch_add(1, Ordering::Relaxed);
}

/// Leaves a descriptor of the library's own to the program.
pub fn disclaim(fd: c_int) {
    set_entry(fd, Entry::Unknown);
    OWN.fetch_sub(1, Ordering::Relaxed);
}

/// Closes a descriptor of the library's own.
pub fn close_own(fd: c_int) {
    disclaim(fd);
    sys::close(fd);
}

/// Whether a new descriptor of the library's own is about where it would be if the program had none
/// there. A program with that many descriptors may need the last ones itself.
pub fn leaves_others(own: c_int) -> bool {
    const NOT_CLAIMED: u32 = 16;
    let before = u32::try_from(own - descriptors::first_own()).unwrap_or(0);
    before <= OWN.load(Ordering::Relaxed) + NOT_CLAIMED
}

/// All descriptors that stand for something, in order.
pub fn known() -> impl Iterator<Item = (c_int, Entry)> {
    (0..DESCRIPTORS as c_int)
        .map(|fd| (fd, entry(fd)))
        .filter(|(_, entry)| !matches!(entry, Entry::Unknown))
}

/// Forgets that a descriptor was a listening socket's, or that of one not yet connected.
pub fn forget_listener(fd: c_int) {
    if let Some(word) = word(fd) {
        let now = Word::from_bits(word.load(Ordering::Relaxed));
        if now.port().is_some() || now == Word::STREAM {
            word.store(Word::UNKNOWN.bits(), Ordering::Relaxed);
        }
    }
}

/// Forgets that a descriptor stands for the connection at a place, and sets its word to `to`.
/// Returns how many calls on this descriptor are in the kernel that the connection has not counted;
/// `None` if another thread has just closed the descriptor too, so that it may stand for something
/// else by now.
pub fn forget_number(fd: c_int, place: usize, to: Word) -> Option<u32> {
    let before = change(word(fd)?, |word| word.is_at(place).then_some(to));
    before.is_at(place).then(|| before.inside())
}

/// A call in the kernel that bypasses the library. It is counted out when it ends, also if its
/// thread is cancelled.
struct Inside {
    word: &'static AtomicU64,
    entered: Word,
    /// Whether there was one thread. A handler that interrupts it makes no other: `pthread_create`
    /// is not for handlers.
    alone: bool,
}

/// Lets the kernel make a call that moves bytes, if this library need not see it: the connection
/// stays with the kernel for good, the descriptor is no connection, or it is too early to join.
/// `None` if the library must handle it. This is nearly all that a short connection costs, so it is
/// small.
#[inline(always)]
pub fn passed_by(fd: c_int, kernel: impl Fn() -> isize) -> Option<isize> {
    let Some(word) = word(fd) else { return Some(kernel()) };
    let now = Word::from_bits(word.load(Ordering::Relaxed));
    if !now.is_promising() {
        return Some(kernel());
    }
    let entered = now.come_in()?;
    let alone = is_single_threaded();
    if exchange(alone, word, now.bits(), entered.bits()).is_err() {
        return passed_by_others(word, kernel);
    }
    let _inside = Inside { word, entered, alone };
    Some(kernel())
}

/// Like [`passed_by`], while another thread enters or leaves a call on the descriptor.
#[cold]
#[inline(never)]
fn passed_by_others(word: &'static AtomicU64, kernel: impl Fn() -> isize) -> Option<isize> {
    loop {
        let now = Word::from_bits(word.load(Ordering::Relaxed));
        if !now.is_promising() {
            return Some(kernel());
        }
        let entered = now.come_in()?;
        if replace(word, now.bits(), entered.bits()).is_ok() {
            let _inside = Inside { word, entered, alone: false };
            return Some(kernel());
        }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        let out = self.entered.gone_out();
        if exchange(self.alone, self.word, self.entered.bits(), out.bits()).is_err() {
            go_out_late(self.word, self.entered);
        }
    }
}

/// Counts a call out if others have entered or left meanwhile, or the descriptor stands for
/// something else.
#[cold]
#[inline(never)]
pub fn go_out_late(word: &AtomicU64, entered: Word) {
    let mut now = Word::from_bits(word.load(Ordering::Relaxed));
    while let Some(out) = now.go_out(entered) {
        match replace(word, now.bits(), out.bits()) {
            Ok(()) => return,
            Err(bits) => now = Word::from_bits(bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_to_close_a_number_forgets_it() {
        let (fd, place) = (DESCRIPTORS as c_int - 1, 5);
        assert!(set_entry(fd, Entry::Connection(place)));
        assert_eq!(forget_number(fd, place, Word::UNKNOWN), Some(0));
        assert_eq!(forget_number(fd, place, Word::UNKNOWN), None);
        assert!(set_entry(fd, Entry::Connection(place + 1)), "it is another's by now");
        assert_eq!(forget_number(fd, place, Word::UNKNOWN), None);
        assert_eq!(entry(fd), Entry::Connection(place + 1));
        assert_eq!(forget_number(fd, place + 1, Word::UNKNOWN), Some(0));
    }
}
