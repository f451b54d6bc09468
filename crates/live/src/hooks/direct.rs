//! Calls that bypass the library, in as few instructions as possible.
//!
//! The kernel's path through a connection evicts much of a program's code from the processor's
//! nearest caches, and whatever runs next is fetched again. So a short connection pays less for
//! what a call computes than for how much code it runs through: the path past the library is one
//! stretch of a few cache lines, without a call, and everything else lies elsewhere. In a process
//! with one thread that was never cancelled, the C library's functions are bare system calls, which
//! are made here instead.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_long};

use crate::interpose::system_calls::{is_bare, returned};
use crate::interpose::{Way, is_off};
use crate::sys;
use crate::table::numbers::{go_out_late, word};
use crate::table::word::Word;

/// Makes the system call directly in place of the interposed function, if the descriptor is nothing
/// that may be accelerated, so that this library need not see the call, and if the C library's
/// function does no more than the system call.
#[inline(always)]
pub fn pass<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Way<isize> {
    let is_promising =
        |word: &AtomicU64| Word::from_bits(word.load(Ordering::Relaxed)).is_promising();
    // First what is so for most calls. Where calls may be made here the library is not off.
    if is_bare() {
        if word(fd).is_some_and(is_promising) {
            return Way::Apart;
        }
        // SAFETY: the call is the one that the function makes, whose arguments the program says are valid.
        return Way::Done(returned(unsafe { sys::enter(number, arguments) }));
    }
    if is_off() || !word(fd).is_some_and(is_promising) { Way::Next } else { Way::Apart }
}

/// Makes the system call directly in place of the interposed function, on a connection that may
/// still be accelerated but is not looked at for its next calls. Counts the call in and out, as
/// [`crate::table::numbers::passed_by`] does. `None` if the library must handle the call, or if the
/// C library's function does more than the system call.
#[inline(always)]
pub fn pass_counted<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Option<isize> {
    if !is_bare() {
        return None;
    }
    let word = word(fd)?;
    let now = Word::from_bits(word.load(Ordering::Relaxed));
    let entered = now.come_in()?;
    sys::replace_alone(word, now.bits(), entered.bits()).ok()?;
    // SAFETY: the call is the one that the function makes, whose arguments the program says are valid.
    let result = unsafe { sys::enter(number, arguments) };
    if sys::replace_alone(word, entered.bits(), entered.gone_out().bits()).is_err() {
        return Some(come_out_late(word, entered, result));
    }
    Some(returned(result))
}

/// The result of a call during which others have entered or left, or the descriptor has come to
/// stand for something else.
#[cold]
#[inline(never)]
fn come_out_late(word: &AtomicU64, entered: Word, result: c_long) -> isize {
    go_out_late(word, entered);
    returned(result)
}

/// Makes the system call directly in place of the interposed function if the connection stays with
/// the kernel for good; otherwise the library has to handle the call.
#[inline(always)]
pub fn pass_plain<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Way<isize> {
    let is_plain = |word: &AtomicU64| Word::from_bits(word.load(Ordering::Relaxed)).is_plain();
    if is_bare() {
        if !word(fd).is_some_and(is_plain) {
            return Way::Apart;
        }
        // SAFETY: the call is the one that the function makes, whose arguments the program says are valid.
        return Way::Done(returned(unsafe { sys::enter(number, arguments) }));
    }
    if is_off() || word(fd).is_some_and(is_plain) { Way::Next } else { Way::Apart }
}
