//! System calls that the library makes for itself. They go past every interposed function, its own
//! included, and say what went wrong by value instead of through `errno`.

use std::mem::size_of;
use std::sync::atomic::AtomicU64;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::Ordering;

use libc::{c_int, c_long, c_uint, c_void};

mod clock;
mod counts;
mod endpoints;
mod entering;
mod events;
mod own;
mod polling;
mod process;
mod processor;

pub use clock::{coarse_now, find_clock, now, timespec};
pub use counts::{TcpCounts, bytes_read, bytes_read_by_now, tcp_counts};
pub use endpoints::{Endpoint, Which, addresses, endpoint, port_of};
pub use entering::{enter, enter_epoll_ctl};
pub use events::{empty_event, signal_event};
pub use own::own;
pub use polling::{epoll_ctl, epoll_now, is_refusal, poll, poll_all, poll_now, poll_or_fail};
pub use process::{
    Forked, can_fork_away, exit, fork_away, has_numbers, is_there, process, start_session,
};
pub use processor::{Usage, processor, thread_usage, ticks};

/// An error number of the kernel.
pub type Errno = c_int;

/// Makes a system call and splits its result.
///
/// # Safety
///
/// The requirements of the system call.
#[inline(always)]
pub unsafe fn split<const COUNT: usize>(
    number: c_long,
    arguments: [usize; COUNT],
) -> Result<c_long, Errno> {
    // SAFETY: by the contract of this function.
    let result = unsafe { enter(number, arguments) };
    if (-4095..0).contains(&result) { Err(-result as Errno) } else { Ok(result) }
}

/// Makes a system call with the result of the C library's `syscall`, `errno` included.
///
/// # Safety
///
/// The requirements of the system call.
#[inline(always)]
pub unsafe fn answer<const COUNT: usize>(number: c_long, arguments: [usize; COUNT]) -> c_long {
    // SAFETY: by the contract of this function.
    unsafe { split(number, arguments) }.unwrap_or_else(|why| {
        set_errno(why);
        -1
    })
}

/// The C library's `syscall`, past whatever stands in front of it.
macro_rules! bare {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::sys::answer($number, [$($argument as usize),*])
    };
}
pub(crate) use bare;

/// Makes a system call and splits its result.
macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {{
        // SAFETY: the arguments are those of the call; whatever memory they point to is owned by
        // the caller of this wrapper for as long as the call lasts.
        unsafe { $crate::sys::split($number, [$($argument as usize),*]) }
    }};
}
pub(crate) use call;

/// The calling thread's `errno`.
pub fn errno() -> Errno {
    // SAFETY: glibc returns the address of a word of the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: Errno) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// Keeps `errno` as the program left it over what the library does on the side.
pub struct KeepErrno(Errno);

impl KeepErrno {
    pub fn new() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

pub fn close(fd: c_int) {
    let _ = call!(libc::SYS_close, fd);
}

pub fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Result<(), Errno> {
    call!(libc::SYS_close_range, first, last, flags).map(|_| ())
}

/// Duplicates a descriptor to one that is not below `first` and is closed by `exec`.
pub fn duplicate_from(fd: c_int, first: c_int) -> Result<c_int, Errno> {
    call!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, first).map(|fd| fd as c_int)
}

/// What a handler is told of a signal that a process has sent: the beginning of `siginfo_t`.
#[repr(C)]
struct Sent {
    signal: c_int,
    error: c_int,
    code: c_int,
    _none: c_int,
    process: u32,
    user: u32,
    _rest: [u64; 13],
}

/// Sends the calling thread the signal that the kernel sends for a broken pipe, which says that the
/// process has sent it to itself.
pub fn signal_broken_pipe() {
    let (signal, process) = (libc::SIGPIPE, process());
    // SAFETY: takes nothing and cannot fail.
    let (thread, user) = unsafe { (bare!(libc::SYS_gettid), libc::getuid()) };
    let sent = Sent { signal, error: 0, code: 0, _none: 0, process, user, _rest: [0; 13] };
    let way = libc::SYS_rt_tgsigqueueinfo;
    if call!(way, process, thread, signal, &raw const sent).is_err() {
        // SAFETY: sends the calling thread the same, with another code.
        unsafe { libc::raise(signal) };
    }
}

/// Gives a file of the library's own its length, unless the process may make none so long.
pub fn set_length(file: c_int, length: usize) -> Result<(), Errno> {
    if !may_be_so_long(length as u64) {
        return Err(libc::EFBIG);
    }
    call!(libc::SYS_ftruncate, file, length).map(|_| ())
}

/// Writes text to the end of a file, or to a stream, unless that makes the file longer than it may be.
pub fn append(file: c_int, text: &[u8]) {
    // SAFETY: all zeroes is a valid `stat`.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: it is a valid place for the result.
    let known = unsafe { libc::fstat(file, &mut about) } == 0;
    let is_file = known && about.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !is_file || may_be_so_long(about.st_size as u64 + text.len() as u64) {
        write(file, text);
    }
}

/// Whether the process may make a file so long: the kernel would not only refuse it, but send a signal
/// that ends the program.
fn may_be_so_long(length: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let none: *const libc::rlimit = std::ptr::null();
    // Where a filter refuses the question there is usually no such limit.
    let asked = call!(libc::SYS_prlimit64, 0, libc::RLIMIT_FSIZE, none, &raw mut limit);
    asked.is_err() || limit.rlim_cur >= length
}

/// How many descriptors this process may have; sets it after that.
pub fn descriptor_limit(new: Option<libc::rlimit>) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let none: *const libc::rlimit = std::ptr::null();
    let to = new.as_ref().map_or(none, std::ptr::from_ref);
    let _ = call!(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, to, &raw mut limit);
    limit
}

/// A limit of the process, if the kernel tells it.
pub fn resource_limit(kind: libc::__rlimit_resource_t) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let none: *const libc::rlimit = std::ptr::null();
    call!(libc::SYS_prlimit64, 0, kind, none, &raw mut limit).is_ok().then_some(limit)
}

pub fn fcntl(fd: c_int, command: c_int, argument: c_int) -> Result<c_int, Errno> {
    call!(libc::SYS_fcntl, fd, command, argument).map(|value| value as c_int)
}

/// Reads a socket option of a fixed size.
pub fn socket_option<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Result<T, Errno> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    call!(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut length)?;
    Ok(value)
}

/// Sets a socket option that is a number.
pub fn set_socket_option(fd: c_int, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    let length = size_of::<c_int>();
    call!(libc::SYS_setsockopt, fd, level, name, &raw const value, length).map(|_| ())
}

/// How long `SO_RCVTIMEO` or `SO_SNDTIMEO` lets a call wait, in nanoseconds; `None` is forever.
pub fn timeout_option(fd: c_int, name: c_int) -> Option<u64> {
    let pair: [i64; 2] = socket_option(fd, libc::SOL_SOCKET, name).unwrap_or_default();
    let nanoseconds = pair[0] as u64 * 1_000_000_000 + pair[1] as u64 * 1000;
    (nanoseconds > 0).then_some(nanoseconds)
}

/// Whether the next byte stands behind an urgent mark.
pub const SIOCATMARK: libc::c_ulong = 0x8905;

pub fn unread_bytes(fd: c_int) -> Result<u64, Errno> {
    let mut count: c_int = 0;
    call!(libc::SYS_ioctl, fd, libc::FIONREAD, &raw mut count)?;
    Ok(count as u64)
}

/// Whether the next byte of the kernel's stream stands behind an urgent mark.
pub fn is_at_mark(fd: c_int) -> bool {
    let mut mark: c_int = 0;
    call!(libc::SYS_ioctl, fd, SIOCATMARK, &raw mut mark).is_ok() && mark != 0
}

pub fn recv(fd: c_int, to: *mut u8, length: usize, flags: c_int) -> Result<usize, Errno> {
    let none: *mut c_void = std::ptr::null_mut();
    call!(libc::SYS_recvfrom, fd, to, length, flags, none, none).map(|count| count as usize)
}

/// Receives into several places.
pub fn receive(fd: c_int, places: &[libc::iovec], flags: c_int) -> Result<usize, Errno> {
    let mut message = message_of(places);
    call!(libc::SYS_recvmsg, fd, &raw mut message, flags).map(|count| count as usize)
}

/// A message of these parts, which the kernel leaves as they are.
pub fn message_of(parts: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all zeroes is a valid message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_ptr().cast_mut(), parts.len());
    message
}

/// Reads from a place in a file, into memory that need not hold anything yet.
pub fn read_at(fd: c_int, to: *mut u8, length: usize, place: i64) -> Result<usize, Errno> {
    call!(libc::SYS_pread64, fd, to, length, place).map(|count| count as usize)
}

/// Sends no bytes of a file from a position on: the kernel still checks whether such a call is
/// allowed.
pub fn send_nothing_of(file: c_int, to: c_int, mut place: i64) -> Result<(), Errno> {
    call!(libc::SYS_sendfile, to, file, &raw mut place, 0).map(|_| ())
}

pub fn send(fd: c_int, from: *const u8, length: usize, flags: c_int) -> Result<usize, Errno> {
    let none: *mut c_void = std::ptr::null_mut();
    call!(libc::SYS_sendto, fd, from, length, flags, none, 0).map(|count| count as usize)
}

/// Sends bytes from several buffers.
pub fn send_parts(fd: c_int, parts: &[libc::iovec], flags: c_int) -> Result<usize, Errno> {
    let message = message_of(parts);
    call!(libc::SYS_sendmsg, fd, &raw const message, flags).map(|count| count as usize)
}

/// What kind of file a descriptor stands for, as `st_mode` says; `None` if the descriptor is
/// closed.
pub fn kind_of(fd: c_int) -> Option<libc::mode_t> {
    // SAFETY: all zeroes is a valid description.
    let mut described: libc::stat = unsafe { std::mem::zeroed() };
    let asked = call!(libc::SYS_fstat, fd, &raw mut described);
    asked.is_ok().then_some(described.st_mode & libc::S_IFMT)
}

/// Whether a descriptor may be an event's: it is neither a file's nor a socket's.
pub fn may_be_event(fd: c_int) -> bool {
    kind_of(fd) == Some(0)
}

/// Sleeps while the word has this value, for at most `nanoseconds`.
pub fn futex_wait(word: *const u32, value: u32, nanoseconds: u64) -> Result<(), Errno> {
    let span = timespec(nanoseconds);
    call!(libc::SYS_futex, word, libc::FUTEX_WAIT, value, &raw const span).map(|_| ())
}

/// One word of several to wait for.
#[repr(C)]
struct Waiter {
    value: u64,
    word: u64,
    flags: u32,
    reserved: u32,
}

/// Waits while a word has a value, at most for a time; a signal handler with `SA_RESTART` does not
/// end the wait. Needs Linux 5.16.
pub fn futex_wait_or_go_on(word: *const u32, value: u32, nanoseconds: u64) -> Result<(), Errno> {
    /// The number of the system call is the same on all processors; the flag says that the word has
    /// 32 bits.
    const FUTEX_WAITV: c_long = 449;
    const BITS_32: u32 = 2;
    let until = timespec(now().saturating_add(nanoseconds));
    let waiter = Waiter { value: value.into(), word: word as u64, flags: BITS_32, reserved: 0 };
    let clock = libc::CLOCK_MONOTONIC;
    call!(FUTEX_WAITV, &raw const waiter, 1, 0, &raw const until, clock).map(|_| ())
}

pub fn futex_wake(word: *const u32) {
    let _ = call!(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX);
}

pub fn shutdown(fd: c_int, how: c_int) {
    let _ = try_shutdown(fd, how);
}

pub fn try_shutdown(fd: c_int, how: c_int) -> Result<(), Errno> {
    call!(libc::SYS_shutdown, fd, how).map(drop)
}

pub fn write(fd: c_int, bytes: &[u8]) {
    let _ = call!(libc::SYS_write, fd, bytes.as_ptr(), bytes.len());
}

/// Opens a file for appending, and makes it if it is not there. `path` is a C string.
pub fn open_for_appending(path: *const u8) -> Result<c_int, Errno> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    call!(libc::SYS_openat, libc::AT_FDCWD, path, flags, 0o600).map(|fd| fd as c_int)
}

/// Opens a file for reading. `path` is a C string.
pub fn open_for_reading(path: *const u8) -> Result<c_int, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    call!(libc::SYS_openat, libc::AT_FDCWD, path, flags).map(|fd| fd as c_int)
}

/// Enlarges the kernel's send buffer of a connection to this many bytes, as far as the kernel
/// allows.
pub fn widen_send_buffer(fd: c_int, bytes: u64) {
    widen(fd, bytes, libc::SO_SNDBUF);
}

/// Enlarges the kernel's receive buffer of a connection to this many bytes, as far as the kernel
/// allows.
pub fn widen_receive_buffer(fd: c_int, bytes: u64) {
    widen(fd, bytes, libc::SO_RCVBUF);
}

fn widen(fd: c_int, bytes: u64, name: c_int) {
    let (size, level) = (bytes.min(1 << 30) as c_int, libc::SOL_SOCKET);
    if socket_option::<c_int>(fd, level, name).unwrap_or(size) / 2 < size {
        let _ = call!(libc::SYS_setsockopt, fd, level, name, &raw const size, size_of::<c_int>());
    }
}

/// Sleeps for less than a second.
pub fn sleep(nanoseconds: u64) {
    let span = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds.min(999_999_999) as c_long };
    let none: *mut c_void = std::ptr::null_mut();
    let _ = call!(libc::SYS_nanosleep, &raw const span, none);
}

/// Lets another thread have the processor.
pub fn yield_now() {
    let _ = call!(libc::SYS_sched_yield);
}

/// The number by which the kernel knows a socket.
pub fn cookie(fd: c_int) -> Option<u64> {
    socket_option(fd, libc::SOL_SOCKET, libc::SO_COOKIE).ok()
}

/// All signals but those that say what the thread itself has done wrong.
#[cfg(target_arch = "x86_64")]
pub const ALL_SIGNALS: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGTRAP));

#[cfg(target_arch = "x86_64")]
const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Sets which signals are held back from the calling thread; returns which were.
pub fn set_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let (from, to) = (&raw const mask, &raw mut before);
    let _ = call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, from, to, size_of::<u64>());
    before
}

/// Whether the page of an address can be read: the kernel reads there before it finds that nothing
/// was asked for. If it refuses to say, the page counts as readable. No other address of the page
/// is read, since a memory checker may know that nothing lies there.
pub fn is_readable(place: usize) -> bool {
    let (no_way, nothing) = (c_int::MAX, std::ptr::null_mut::<u64>());
    let word = place & !(size_of::<u64>() - 1);
    let found = call!(libc::SYS_rt_sigprocmask, no_way, word, nothing, size_of::<u64>());
    found != Err(libc::EFAULT)
}

/// All signals are held back from the calling thread, until dropped.
pub struct NoSignals(u64);

impl NoSignals {
    pub fn begin() -> Self {
        Self(set_signal_mask(u64::MAX))
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        set_signal_mask(self.0);
    }
}

/// Closes all descriptors in a range, both ends included.
pub fn close_numbers(first: u32, last: u32) {
    if call!(libc::SYS_close_range, first, last, 0).is_err() {
        for fd in first..=last.min(1 << 16) {
            close(fd as c_int);
        }
    }
}

/// Duplicates a descriptor onto `copy`, in place of what that stood for.
pub fn duplicate_to(fd: c_int, copy: c_int, flags: c_int) {
    if call!(libc::SYS_dup3, fd, copy, flags).is_ok() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if call!(libc::SYS_dup2, fd, copy).is_ok() && flags & libc::O_CLOEXEC != 0 {
        let _ = fcntl(copy, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}

/// Changes a word that has this value, and that no other thread changes: one instruction, so that no
/// signal handler of this thread comes between. Returns what the word was, if it was not `old`.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub fn replace_alone(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    let was: u64;
    // SAFETY: the word is valid, and may be changed through a shared reference.
    unsafe {
        std::arch::asm!(
            "cmpxchg [{word}], {new}",
            word = in(reg) word.as_ptr(),
            new = in(reg) new,
            inlateout("rax") old => was,
            options(nostack),
        );
    }
    if was == old { Ok(()) } else { Err(was) }
}

/// Changes a word that has this value, and that no other thread changes. Returns what the word was,
/// if it was not `old`.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub fn replace_alone(word: &AtomicU64, old: u64, new: u64) -> Result<(), u64> {
    word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).map(drop)
}

/// Closes a connection so that its other end sees a reset.
pub fn reset(fd: c_int) {
    let now: [c_int; 2] = [1, 0];
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    let _ = call!(libc::SYS_setsockopt, fd, level, name, &raw const now, 8);
    close(fd);
}

/// Reads and discards what there is, through a buffer. Returns how many bytes there were.
pub fn throw_away(fd: c_int, room: &mut [u8]) -> usize {
    let mut all = 0;
    while let Ok(count @ 1..) = recv(fd, room.as_mut_ptr(), room.len(), libc::MSG_DONTWAIT) {
        all += count;
    }
    all
}

/// Maps memory. A null `at` lets the kernel choose.
pub fn map(fd: Option<c_int>, length: usize) -> Option<*mut u8> {
    let sharing = match fd {
        Some(_) => libc::MAP_SHARED,
        None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice disturbs none that there is.
    let memory =
        unsafe { libc::mmap(std::ptr::null_mut(), length, access, sharing, fd.unwrap_or(-1), 0) };
    (memory != libc::MAP_FAILED).then_some(memory.cast())
}

/// Maps memory that the child of a fork finds full of zeros.
pub fn map_emptied_in_copies(length: usize) -> Option<*mut u8> {
    let memory = map(None, length)?;
    if call!(libc::SYS_madvise, memory, length, libc::MADV_WIPEONFORK).is_ok() {
        return Some(memory);
    }
    // SAFETY: nobody has seen it.
    unsafe { unmap(memory, length) };
    None
}

/// Releases the pages of a file that are mapped there, for all processes that have mapped it.
pub fn give_back(memory: *mut u8, length: usize) {
    let _ = call!(libc::SYS_madvise, memory, length, libc::MADV_REMOVE);
}

/// Unmaps what [`map`] mapped.
///
/// # Safety
///
/// Nothing may use the memory any more.
pub unsafe fn unmap(memory: *mut u8, length: usize) {
    // SAFETY: by the contract of this function.
    unsafe { libc::munmap(memory.cast(), length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_be_an_events_only_if_it_is_neither_a_files_nor_a_sockets() {
        use std::os::fd::AsRawFd;
        let event = crate::descriptors::event().unwrap();
        assert!(may_be_event(event));
        close(event);
        assert!(!may_be_event(-1));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!may_be_event(file.as_raw_fd()));
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!may_be_event(socket.as_raw_fd()));
    }
}
