//! System calls in the place of the C library's functions, where these do no more.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use libc::{c_int, c_long, c_void};

use crate::sys;

/// Points to a byte that is not zero as long as bare system calls may be made: the C library's own
/// flag for a process with one thread. It is [`UNKNOWN`] until the functions behind the interposed
/// ones are known, and [`ANOTHER`] if these belong to another library that must see the calls, or
/// once a thread was cancelled.
static ALONE: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const UNKNOWN).cast_mut());
static UNKNOWN: AtomicU8 = AtomicU8::new(0);
static ANOTHER: AtomicU8 = AtomicU8::new(0);

/// Points to the same byte as [`ALONE`] as long as no `epoll` instance contains anything of the
/// library's: one load then tells whether a call on an instance may be a bare system call.
static UNDISTURBED: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const UNKNOWN).cast_mut());
/// How many registrations in `epoll` instances carry data of the library's.
static DISTURBERS: AtomicU32 = AtomicU32::new(0);

/// A function that only the C library has by this name, and those whose calls are made here.
const FUNCTIONS: [&CStr; 14] = [
    c"gnu_get_libc_version",
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
    c"epoll_ctl",
];

/// Whether the C library's function would be the bare system call.
#[inline(always)]
pub fn is_bare() -> bool {
    // SAFETY: all bytes are there for good. The C library's changes before another thread begins.
    unsafe { &*ALONE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// Whether the C library's function on an `epoll` instance would be the bare system call, and no
/// instance contains anything of the library's.
#[inline(always)]
pub fn is_undisturbed() -> bool {
    // SAFETY: as in `is_bare`.
    unsafe { &*UNDISTURBED.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// Whether any `epoll` instance may contain something of the library's.
#[inline(always)]
pub fn is_disturbed() -> bool {
    DISTURBERS.load(Ordering::SeqCst) != 0
}

/// Counts one more registration that is about to carry data of the library's.
pub fn disturb() {
    DISTURBERS.fetch_add(1, Ordering::SeqCst);
    say_whether_disturbed();
}

/// Counts this many fewer, once they no longer do.
pub fn disturb_less(count: u32) {
    DISTURBERS.fetch_sub(count, Ordering::SeqCst);
    say_whether_disturbed();
}

/// Updates [`UNDISTURBED`].
fn say_whether_disturbed() {
    let holds = || {
        if is_disturbed() { (&raw const ANOTHER).cast_mut() } else { ALONE.load(Ordering::SeqCst) }
    };
    say(&UNDISTURBED, holds);
}

/// Stores in a word what `holds` returns. A handler or another thread may change that between the
/// check and the store; the last one that stores it finds it unchanged.
fn say(word: &AtomicPtr<AtomicU8>, holds: impl Fn() -> *mut AtomicU8) {
    loop {
        let found = holds();
        word.store(found, Ordering::SeqCst);
        if std::ptr::eq(holds(), found) {
            return;
        }
    }
}

/// In the child of a fork, where all other threads are gone, one of which may have been about to say it.
pub fn start_in_child() {
    say_whether_disturbed();
}

/// A number as the kernel takes it, which looks at its lower half.
#[inline(always)]
pub const fn int(number: c_int) -> usize {
    number as u32 as usize
}

/// What a call returns, by its result.
#[inline(always)]
pub fn returned(result: c_long) -> isize {
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

/// Finds out once which functions stand behind the interposed ones. The byte is the C library's,
/// which is not zero while the process has one thread.
#[inline]
pub fn look(single_threaded: impl Fn() -> Option<*mut AtomicU8>) {
    if std::ptr::eq(ALONE.load(Ordering::Relaxed), &raw const UNKNOWN) {
        look_once(single_threaded());
    }
}

#[cold]
fn look_once(single_threaded: Option<*mut AtomicU8>) {
    let found = single_threaded.filter(|_| are_in_one_object(&FUNCTIONS.map(next)));
    let found = found.unwrap_or((&raw const ANOTHER).cast_mut());
    let (unknown, order) = ((&raw const UNKNOWN).cast_mut(), Ordering::Relaxed);
    // A thread that has cancelled another meanwhile takes precedence.
    let _ = ALONE.compare_exchange(unknown, found, order, order);
    say_whether_disturbed();
}

/// From now on the C library's functions are asked: they are where a cancelled thread ends. Not every
/// C library takes a thread that has cancelled itself for more than one.
pub fn never_again() {
    ALONE.store((&raw const ANOTHER).cast_mut(), Ordering::SeqCst);
    say_whether_disturbed();
}

/// The address of the next definition of a name after this library, or zero.
fn next(name: &CStr) -> usize {
    // SAFETY: the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.addr()
}

/// Whether one of the objects that are loaded has all these addresses. The loader's own function for that,
/// `dladdr`, looks through all names of an object for each address.
fn are_in_one_object(addresses: &[usize; FUNCTIONS.len()]) -> bool {
    let mut sought = Sought { addresses, are_in_one: false };
    // SAFETY: the function takes what it is declared to take, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(has_all), (&raw mut sought).cast()) };
    sought.are_in_one
}

/// What the loader's objects are asked for.
struct Sought<'a> {
    addresses: &'a [usize; FUNCTIONS.len()],
    are_in_one: bool,
}

/// Whether an object has the first address; if so, whether it has all.
unsafe extern "C" fn has_all(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    sought: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description, and the caller what it seeks.
    let (object, sought) = unsafe { (&*object, &mut *sought.cast::<Sought>()) };
    // SAFETY: the loader says that there are that many headers.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let has = |address: &usize| {
        headers.iter().any(|part| {
            let begin = (object.dlpi_addr + part.p_vaddr) as usize;
            let part_has = begin..begin + part.p_memsz as usize;
            part.p_type == libc::PT_LOAD && part_has.contains(address)
        })
    };
    if !has(&sought.addresses[0]) {
        return 0;
    }
    sought.are_in_one = sought.addresses.iter().all(has);
    1
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_functions_of_one_library_are_told_from_those_of_several() {
        let all = FUNCTIONS.map(next);
        assert!(all.iter().all(|it| *it != 0) && are_in_one_object(&all));
        for (nth, other) in
            [(0, 0), (5, 0), (13, next as *const () as usize), (1, all.as_ptr().addr())]
        {
            let mut changed = all;
            changed[nth] = other;
            assert!(!are_in_one_object(&changed), "{nth}");
        }
    }

    /// A handler interrupts who is about to say what it has found, changes that, and says it itself.
    #[test]
    fn whoever_comes_last_says_whether_calls_may_be_made_here() {
        let pointers = [&raw const UNKNOWN, &raw const ANOTHER].map(<*const AtomicU8>::cast_mut);
        for [before, after] in [pointers, [pointers[1], pointers[0]]] {
            let word = AtomicPtr::new(std::ptr::null_mut());
            let (held, looks) = (Cell::new(before), Cell::new(0));
            say(&word, || {
                let found = held.get();
                if looks.replace(looks.get() + 1) == 0 {
                    held.set(after);
                    say(&word, || held.get());
                }
                found
            });
            assert!(
                std::ptr::eq(word.load(Ordering::SeqCst), after),
                "the interrupted one was last"
            );
            assert!(looks.get() > 2, "it has not looked again");
        }
    }

    /// The words of this process, which other tests change, too: one of them may be just about to say it anew.
    #[test]
    fn no_call_on_an_instance_is_made_here_while_one_holds_anything_of_the_library() {
        for _ in 0..100 {
            disturb();
            let begun = Instant::now();
            while !std::ptr::eq(UNDISTURBED.load(Ordering::SeqCst), &raw const ANOTHER) {
                assert!(begun.elapsed() < Duration::from_secs(10), "nobody says it");
                std::thread::yield_now();
            }
            disturb_less(1);
        }
    }
}
