//! Calls after which a descriptor is used where the library does not see it: by another program, by
//! the kernel alone, or by the C library's own streams. The connection moves back before.

use libc::{c_char, c_int, c_long, c_uint, c_void, cmsghdr, msghdr, off_t, pid_t, size_t, ssize_t};

use crate::close;
use crate::fork;
use crate::handover::departure::{self, depart, depart_all};
use crate::hooks::vector::is_sendable;
use crate::interpose::{Next, interpose, trampoline};
use crate::migration::direction;
use crate::report::stats::Reason;
use crate::sharing::copies;
use crate::sys;
use crate::table;
use crate::table::forbidden;

/// The headers of a message's control data, in order; `None` in place of an incomplete one, for
/// which the kernel refuses the message.
///
/// # Safety
///
/// The message is valid as the program passed it, for as long as this is used.
unsafe fn headers(message: *const msghdr) -> impl Iterator<Item = Option<*mut cmsghdr>> {
    // SAFETY: by the contract of this function.
    let (mut next, end) = unsafe {
        let control = (*message).msg_control.addr();
        (libc::CMSG_FIRSTHDR(message), control.wrapping_add((*message).msg_controllen))
    };
    std::iter::from_fn(move || {
        let header = std::mem::replace(&mut next, std::ptr::null_mut());
        if header.is_null() {
            return None;
        }
        // SAFETY: a header is within the control data, and so is what follows one that is whole.
        unsafe {
            let room = end.wrapping_sub(header.addr());
            let is_whole = (libc::CMSG_LEN(0) as usize..=room).contains(&(*header).cmsg_len);
            if is_whole {
                next = libc::CMSG_NXTHDR(message, header);
            }
            Some(is_whole.then_some(header))
        }
    })
}

/// To be called before a message is sent: the descriptors that it passes leave.
///
/// # Safety
///
/// The message is null or valid as the program passed it.
pub unsafe fn depart_passed(message: *const msghdr) {
    // SAFETY: by the contract of this function.
    if !unsafe { is_sendable(message) } {
        return;
    }
    // SAFETY: by the contract of this function; the data are those of a whole header.
    unsafe {
        for header in headers(message).flatten() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let first = libc::CMSG_DATA(header).cast::<c_int>();
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / size_of::<c_int>() {
                    depart(first.add(index).read_unaligned(), Reason::Passed);
                }
            }
        }
    }
}

/// Whether the kernel might refuse a message on a TCP connection for its control data, or do more with
/// it than nothing.
///
/// # Safety
///
/// The message is valid as the program passed it.
pub unsafe fn says_something(message: *const msghdr) -> bool {
    let idle = [libc::SCM_RIGHTS, libc::SCM_CREDENTIALS];
    // SAFETY: by the contract of this function.
    unsafe {
        (*message).msg_controllen != 0
            && headers(message).any(|header| {
                header.is_none_or(|header| {
                    (*header).cmsg_level == libc::SOL_SOCKET && !idle.contains(&(*header).cmsg_type)
                })
            })
    }
}

type Strings = *const *const c_char;

interpose! {
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int = |next| {
        departure::over_exec(|| next(path, arguments, environment))
    }
}

interpose! {
    fn execv(path: *const c_char, arguments: Strings) -> c_int = |next| {
        departure::over_exec(|| next(path, arguments))
    }
}

interpose! {
    fn execvp(path: *const c_char, arguments: Strings) -> c_int = |next| {
        departure::over_exec(|| next(path, arguments))
    }
}

interpose! {
    fn execvpe(path: *const c_char, arguments: Strings, environment: Strings) -> c_int = |next| {
        departure::over_exec(|| next(path, arguments, environment))
    }
}

interpose! {
    fn fexecve(program: c_int, arguments: Strings, environment: Strings) -> c_int = |next| {
        departure::over_exec(|| next(program, arguments, environment))
    }
}

interpose! {
    fn execveat(
        folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int,
    ) -> c_int = |next| {
        departure::over_exec(|| next(folder, path, arguments, environment, flags))
    }
}

/// Hands over what a program that is about to be started may inherit.
fn depart_for_spawn() {
    depart_all(Reason::Exec);
    departure::depart_duplicated();
}

interpose! {
    fn posix_spawn(
        process: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, arguments: Strings, environment: Strings,
    ) -> c_int = |next| {
        depart_for_spawn();
        next(process, path, actions, attributes, arguments, environment)
    }
}

interpose! {
    fn posix_spawnp(
        process: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, arguments: Strings, environment: Strings,
    ) -> c_int = |next| {
        depart_for_spawn();
        next(process, path, actions, attributes, arguments, environment)
    }
}

interpose! {
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, copy: c_int) -> c_int
    = |next| {
        if !departure::note_duplicated(fd) {
            depart(fd, Reason::Exec);
        }
        next(actions, fd, copy)
    }
}

interpose! {
    fn system(command: *const c_char) -> c_int = |next| {
        if !command.is_null() {
            depart_all(Reason::Exec);
        }
        next(command)
    }
}

interpose! {
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE = |next| {
        depart_all(Reason::Exec);
        next(command, mode)
    }
}

interpose! {
    fn _exit(status: c_int) -> () = |next| {
        departure::let_go(true);
        next(status);
    }
}

interpose! {
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Exit(status: c_int) -> () = |next| {
        departure::let_go(true);
        next(status);
    }
}

interpose! {
    /// The C library's streams read and write past every interposed function.
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE = |next| {
        depart(fd, Reason::Stdio);
        next(fd, mode)
    }
}

interpose! {
    /// The C library closes the stream's number past every interposed function.
    fn fclose(stream: *mut libc::FILE) -> c_int = |next| {
        // SAFETY: the program says that it is an open stream.
        let _taken = close::forget(unsafe { number_of(stream) });
        next(stream)
    }
}

interpose! {
    /// The C library puts another file at the stream's number, or closes it, past every interposed function.
    fn freopen(
        path: *const c_char, mode: *const c_char, stream: *mut libc::FILE,
    ) -> *mut libc::FILE = |next| {
        // SAFETY: as for `fclose`.
        unsafe { open_anew(stream, || next(path, mode, stream)) }
    }
}

interpose! {
    fn freopen64(
        path: *const c_char, mode: *const c_char, stream: *mut libc::FILE,
    ) -> *mut libc::FILE = |next| {
        // SAFETY: as for `fclose`.
        unsafe { open_anew(stream, || next(path, mode, stream)) }
    }
}

/// Opens something else under the number of a stream, as `open` says.
///
/// # Safety
///
/// The stream is open.
unsafe fn open_anew<T>(stream: *mut libc::FILE, open: impl FnOnce() -> T) -> T {
    // SAFETY: by the contract of this function.
    let _taken = close::forget_for_another(unsafe { number_of(stream) });
    open()
}

/// The number of a stream; some have none.
///
/// # Safety
///
/// The stream is open.
unsafe fn number_of(stream: *mut libc::FILE) -> c_int {
    let _errno = sys::KeepErrno::new();
    // SAFETY: by the contract of this function.
    unsafe { libc::fileno(stream) }
}

interpose! {
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int = |next| {
        back(fd, Reason::Stdio);
        next(fd, format, arguments)
    }
}

interpose! {
    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void,
    ) -> c_int = |next| {
        back(fd, Reason::Stdio);
        next(fd, flag, format, arguments)
    }
}

interpose! {
    fn splice(
        from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t,
        flags: c_uint,
    ) -> ssize_t = |next| {
        depart(from, Reason::Splice);
        back(to, Reason::Splice);
        next(from, from_offset, to, to_offset, length, flags)
    }
}

/// Moves a connection back whose bytes the library still receives.
fn back(fd: c_int, reason: Reason) {
    if let Some(guard) = table::enter(fd) {
        direction::back(&guard, reason);
    }
}

/// Runs before a variadic call; returns the address at which the call continues.
extern "C-unwind" fn before_dprintf(fd: c_int) -> *mut c_void {
    static NEXT: Next = Next::new(c"dprintf");
    back(fd, Reason::Stdio);
    NEXT.address()
}

extern "C-unwind" fn before_dprintf_chk(fd: c_int) -> *mut c_void {
    static NEXT: Next = Next::new(c"__dprintf_chk");
    back(fd, Reason::Stdio);
    NEXT.address()
}

pub const FILTER_BY_SECCOMP: usize = libc::SECCOMP_SET_MODE_FILTER as usize;
pub const FILTER_BY_PRCTL: usize = libc::SECCOMP_MODE_FILTER as usize;

/// Before a filter of system calls is set, which has a program; a null one asks whether it could be.
/// The strict mode, which is no filter, leaves little but `read` and `write`.
pub fn filter(by_program: bool, program: usize) {
    if !by_program || program != 0 {
        if copies::is_one() {
            // What it shares was counted when it was made.
            fork::after_fork_in_child();
        }
        departure::forbid_filtered();
    }
}

extern "C-unwind" fn before_prctl(
    option: c_int,
    second: usize,
    third: usize,
    _fourth: usize,
) -> *mut c_void {
    static NEXT: Next = Next::new(c"prctl");
    if option == libc::PR_SET_SECCOMP {
        filter(second == FILTER_BY_PRCTL, third);
    }
    NEXT.address()
}

/// To be called before the next children get process numbers in a new namespace. All processes of
/// that namespace end with its first one, so that no relay process could be created, and process
/// numbers no longer say which process holds a lock.
pub fn leave_namespace(flags: c_int) {
    if flags & libc::CLONE_NEWPID != 0 {
        forbidden::begin(Reason::Call);
    }
}

interpose! {
    fn unshare(flags: c_int) -> c_int = |next| {
        leave_namespace(flags);
        next(flags)
    }
}

interpose! {
    fn setns(namespace: c_int, kind: c_int) -> c_int = |next| {
        // Zero is any kind.
        leave_namespace(if kind == 0 { libc::CLONE_NEWPID } else { kind });
        next(namespace, kind)
    }
}

/// The child of a vfork runs in this memory; that of a `clone` may.
extern "C-unwind" fn before_vfork() -> *mut c_void {
    static NEXT: Next = Next::new(c"vfork");
    table::may_be_shared();
    NEXT.address()
}

/// A second C library in a namespace of its own makes calls that are not interposed.
extern "C-unwind" fn before_dlmopen(namespace: c_long) -> *mut c_void {
    static NEXT: Next = Next::new(c"dlmopen");
    if namespace != libc::LM_ID_BASE {
        forbidden::begin(Reason::BareCalls);
    }
    NEXT.address()
}

extern "C-unwind" fn before_clone(_begin: usize, _stack: usize, flags: usize) -> *mut c_void {
    static NEXT: Next = Next::new(c"clone");
    share_with_child(flags as u64);
    NEXT.address()
}

/// Before a process is made past the C library's `fork`. What it holds it holds until it ends.
pub fn share_with_child(flags: u64) {
    leave_namespace(flags as c_int);
    if flags & libc::CLONE_VM as u64 != 0 {
        return table::may_be_shared();
    }
    if table::is_owner() {
        fork::before_fork();
        fork::after_fork_in_parent();
    }
    table::may_be_copied();
}

interpose! {
    /// A fork that runs no handlers, but the library's.
    #[allow(non_snake_case, reason = "the C library's name")]
    fn _Fork() -> pid_t = |next| {
        if !table::is_owner() {
            return next();
        }
        fork::before_fork();
        let child = next();
        if child == 0 {
            fork::after_fork_in_child();
        } else {
            fork::after_fork_in_parent();
        }
        if child < 0 {
            fork::take_back_fork();
        }
        child
    }
}

interpose! {
    /// Its handlers are not told whether there is a child.
    fn fork() -> pid_t = |next| {
        let child = next();
        if child < 0 {
            fork::take_back_fork();
        }
        child
    }
}

trampoline!(dlmopen, before_dlmopen);
trampoline!(vfork, before_vfork);
trampoline!(__vfork, before_vfork);
trampoline!(clone, before_clone);
trampoline!(__clone, before_clone);
trampoline!(prctl, before_prctl);
trampoline!(dprintf, before_dprintf);
trampoline!(__dprintf_chk, before_dprintf_chk);
