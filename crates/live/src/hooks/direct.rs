//! Calls that pass by, in as few instructions as can be.
//!
//! The kernel's way through a connection throws much of a program's code out of the processor's nearest
//! memory, and whatever runs after it is fetched anew. So what a short connection costs is not what is
//! computed for a call, but how much code is gone through: the way past the library is one stretch of
//! some cache lines, without a call, and all else lies elsewhere. In a process with one thread that was
//! never cancelled, the C library's functions are the bare system call, which is made here instead.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

use libc::{c_int, c_long};

use crate::sys;
use crate::table::numbers::{go_out_late, is_single_threaded, word};
use crate::table::word::Word;

/// Whether the functions behind the interposed ones are the C library's.
static FOLLOWS: AtomicU8 = AtomicU8::new(follows::UNKNOWN);

mod follows {
    pub const UNKNOWN: u8 = 0;
    pub const THE_C_LIBRARY: u8 = 1;
    /// Another library that is to see these calls too, or a thread was cancelled.
    pub const ANOTHER: u8 = 2;
}

/// The functions whose calls are made here.
const FUNCTIONS: [&CStr; 4] = [c"read", c"write", c"recv", c"send"];

/// Makes the system call of an interposed function in its place, if this library need not look at
/// it, as [`crate::table::numbers::passed_by`] does. `None` if it must, or if the C library's function does
/// more.
#[inline(always)]
pub fn pass<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Option<isize> {
    if FOLLOWS.load(Ordering::Relaxed) != follows::THE_C_LIBRARY || !is_single_threaded() {
        return None;
    }
    let word = word(fd)?;
    let now = Word::from_bits(word.load(Ordering::Relaxed));
    let counted = now.is_promising();
    let entered = if counted { now.come_in()? } else { now };
    if counted {
        sys::replace_alone(word, now.bits(), entered.bits()).ok()?;
    }
    // SAFETY: the call is the one that the function makes, whose arguments the program says are
    // valid.
    let result = unsafe { sys::enter(number, arguments) };
    if counted && sys::replace_alone(word, entered.bits(), entered.gone_out().bits()).is_err() {
        go_out_late(word, entered);
    }
    Some(if result < 0 { refused(result) } else { result as isize })
}

/// What a call that failed returns.
#[cold]
#[inline(never)]
fn refused(result: c_long) -> isize {
    sys::set_errno(-result as sys::Errno);
    -1
}

/// Looks once what stands behind the interposed functions.
#[inline]
pub fn look() {
    if FOLLOWS.load(Ordering::Relaxed) == follows::UNKNOWN {
        look_once();
    }
}

#[cold]
fn look_once() {
    // Of what stands in the C library nobody else has a second one by this name.
    let own = object_of(c"gnu_get_libc_version");
    let all = own.is_some() && FUNCTIONS.into_iter().all(|name| object_of(name) == own);
    let found = if all { follows::THE_C_LIBRARY } else { follows::ANOTHER };
    let order = Ordering::Relaxed;
    // Whoever has cancelled a thread meanwhile has the last word.
    let _ = FOLLOWS.compare_exchange(follows::UNKNOWN, found, order, order);
}

/// From now on the C library's functions are asked: they are where a cancelled thread ends. Not every
/// C library takes a thread that has cancelled itself for more than one.
pub fn never_again() {
    FOLLOWS.store(follows::ANOTHER, Ordering::SeqCst);
}

/// The address of the object that has the next definition of a name after this library.
fn object_of(name: &CStr) -> Option<usize> {
    // SAFETY: all zeroes is a valid description.
    let mut place: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, and the description a valid place for one.
    let found = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        !next.is_null() && libc::dladdr(next, &raw mut place) != 0
    };
    found.then(|| place.dli_fbase.addr())
}
