//! Calls that pass by, in as few instructions as can be.
//!
//! The kernel's way through a connection throws much of a program's code out of the processor's nearest
//! memory, and whatever runs after it is fetched anew. So what a short connection costs is not what is
//! computed for a call, but how much code is gone through: the way past the library is one stretch of
//! some cache lines, without a call, and all else lies elsewhere. In a process with one thread that was
//! never cancelled, the C library's functions are the bare system call, which is made here instead.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

use libc::{c_int, c_long};

use crate::sys;
use crate::table::numbers::{go_out_late, single_threaded, word};
use crate::table::word::Word;

/// What is to be done with a call of the program's.
pub enum Way<T> {
    /// Nothing: it was made, with this result.
    Done(T),
    /// It is the function's behind the interposed one.
    Next,
    /// The library has to look at it.
    Apart,
}

/// A byte that is not zero as long as calls may be made here: the C library's, which says whether the process
/// has one thread. Before it is known what stands behind the interposed functions it is [`UNKNOWN`], and
/// [`ANOTHER`] if that is another library that is to see these calls too, or once a thread was cancelled.
static ALONE: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const UNKNOWN).cast_mut());
static UNKNOWN: AtomicU8 = AtomicU8::new(0);
static ANOTHER: AtomicU8 = AtomicU8::new(0);

/// The functions whose calls are made here.
const FUNCTIONS: [&CStr; 12] = [
    c"read",
    c"write",
    c"readv",
    c"writev",
    c"recv",
    c"send",
    c"recvfrom",
    c"sendto",
    c"recvmsg",
    c"sendmsg",
    c"epoll_wait",
    c"epoll_pwait",
];

/// Whether the C library's function would be the bare system call.
#[inline(always)]
fn is_bare() -> bool {
    // SAFETY: all bytes are there for good. The C library's changes before another thread begins.
    unsafe { &*ALONE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// A number as the kernel takes it, which looks at its lower half.
#[inline(always)]
pub const fn int(number: c_int) -> usize {
    number as u32 as usize
}

/// Makes the system call of an interposed function in its place, if this library need not look at it since
/// the number stands for nothing that may be carried, and the C library's function does no more.
#[inline(always)]
pub fn pass<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Way<isize> {
    let Some(word) = word(fd) else { return Way::Next };
    if Word::from_bits(word.load(Ordering::Relaxed)).is_promising() {
        return Way::Apart;
    }
    at_once(number, arguments)
}

/// The same for a connection that may be carried, of which calls pass by, as
/// [`crate::table::numbers::passed_by`] does. `None` if the library must look at it, or if the C library's
/// function does more.
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
    // SAFETY: as in `enter`.
    let result = unsafe { sys::enter(number, arguments) };
    if sys::replace_alone(word, entered.bits(), entered.gone_out().bits()).is_err() {
        return Some(come_out_late(word, entered, result));
    }
    Some(returned(result))
}

/// What a call returns after which others have come or gone, or the number stands for something else.
#[cold]
#[inline(never)]
fn come_out_late(word: &AtomicU64, entered: Word, result: c_long) -> isize {
    go_out_late(word, entered);
    returned(result)
}

/// The same for a call at which the library has to look but for a connection that is the kernel's for good.
#[inline(always)]
pub fn pass_plain<const COUNT: usize>(
    fd: c_int,
    number: c_long,
    arguments: [usize; COUNT],
) -> Way<isize> {
    let is_plain = |word: &AtomicU64| Word::from_bits(word.load(Ordering::Relaxed)).is_plain();
    if word(fd).is_some_and(is_plain) { at_once(number, arguments) } else { Way::Apart }
}

/// The same for a call that is the kernel's.
#[inline(always)]
fn at_once<const COUNT: usize>(number: c_long, arguments: [usize; COUNT]) -> Way<isize> {
    enter(number, arguments).map_or(Way::Next, |result| Way::Done(returned(result)))
}

/// Makes a call that is the kernel's, if the C library's function does no more; its result.
#[inline(always)]
pub fn enter<const COUNT: usize>(number: c_long, arguments: [usize; COUNT]) -> Option<c_long> {
    // SAFETY: the call is the one that the function makes, whose arguments the program says are valid.
    is_bare().then(|| unsafe { sys::enter(number, arguments) })
}

/// What a call returns, by its result.
#[inline(always)]
fn returned(result: c_long) -> isize {
    if result < 0 { refused(result) } else { result as isize }
}

/// What a call that failed returns. Were it known to be one number, the caller would return that itself, and
/// save registers for it.
#[cold]
#[inline(never)]
pub fn refused<T: From<i8>>(result: c_long) -> T {
    sys::set_errno(-result as sys::Errno);
    std::hint::black_box(T::from(-1))
}

/// Looks once what stands behind the interposed functions.
#[inline]
pub fn look() {
    if std::ptr::eq(ALONE.load(Ordering::Relaxed), &raw const UNKNOWN) {
        look_once();
    }
}

#[cold]
fn look_once() {
    // Of what stands in the C library nobody else has a second one by this name.
    let own = object_of(c"gnu_get_libc_version");
    let all = own.is_some() && FUNCTIONS.into_iter().all(|name| object_of(name) == own);
    let found = single_threaded().filter(|_| all).unwrap_or((&raw const ANOTHER).cast_mut());
    let (unknown, order) = ((&raw const UNKNOWN).cast_mut(), Ordering::Relaxed);
    // Whoever has cancelled a thread meanwhile has the last word.
    let _ = ALONE.compare_exchange(unknown, found, order, order);
}

/// From now on the C library's functions are asked: they are where a cancelled thread ends. Not every
/// C library takes a thread that has cancelled itself for more than one.
pub fn never_again() {
    ALONE.store((&raw const ANOTHER).cast_mut(), Ordering::SeqCst);
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
