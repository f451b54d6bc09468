//! System calls that the standard library lacks, with errors as values.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::{c_int, c_void};

/// An error number of the kernel.
pub type Errno = c_int;

/// The number behind an error of the standard library.
pub fn number(error: &io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn last() -> Errno {
    number(&io::Error::last_os_error())
}

fn checked(result: c_int) -> Result<c_int, Errno> {
    if result < 0 { Err(last()) } else { Ok(result) }
}

fn owned(result: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: the system call has just created this descriptor, which nothing else owns.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A shared mapping of a memfd, unmapped when dropped. The file is sealed, so that no peer can truncate it while
/// another accesses it.
#[derive(Debug)]
pub struct Mapping {
    memory: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to no thread; its users access it through atomics and copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl Mapping {
    /// Creates zeroed shared memory; returns it with the descriptor to pass on.
    pub fn create(name: &std::ffi::CStr, length: usize) -> Result<(Self, OwnedFd), Errno> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let file = owned(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        let size = libc::off_t::try_from(length).map_err(|_| libc::EFBIG)?;
        // SAFETY: the descriptor is open.
        checked(unsafe { libc::ftruncate(file.as_raw_fd(), size) })?;
        // SAFETY: as above.
        checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        Ok((Self::map(&file, length)?, file))
    }

    /// Maps memory that a peer passed, if it is sealed and has `least` to `most` bytes.
    pub fn join(file: &OwnedFd, least: usize, most: usize) -> Result<Self, Errno> {
        // SAFETY: the descriptor is open.
        let seals = checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS, 0) })?;
        if seals & SEALS != SEALS {
            return Err(libc::EPERM);
        }
        // SAFETY: all zeroes is a valid `stat`, and a valid place for the result.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        checked(unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) })?;
        let length = usize::try_from(stat.st_size).map_err(|_| libc::EPROTO)?;
        if !(least..=most).contains(&length) {
            return Err(libc::EPROTO);
        }
        Self::map(file, length)
    }

    fn map(file: &OwnedFd, length: usize) -> Result<Self, Errno> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = std::ptr::null_mut();
        // SAFETY: a new mapping, wherever the kernel likes.
        let memory =
            unsafe { libc::mmap(at, length, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(last());
        }
        // SAFETY: the mapping was just made. A forked child does not use it and must not keep it alive.
        unsafe { libc::madvise(memory, length, libc::MADV_DONTFORK) };
        NonNull::new(memory.cast()).map(|memory| Self { memory, length }).ok_or(libc::ENOMEM)
    }

    /// Its address, aligned to a page.
    pub const fn memory(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// Its length in bytes.
    pub const fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length and is not used after this.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// Sends bytes and a descriptor over a Unix socket, in one message.
pub fn send_with(socket: RawFd, bytes: &[u8], file: &OwnedFd) -> Result<(), Errno> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut c_void, iov_len: bytes.len() };
    let mut control = Control::default();
    // SAFETY: all zeroes is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = Control::LENGTH as _;
    // SAFETY: the header's control buffer has room for one descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(file.as_raw_fd());
    }
    // SAFETY: the message points to what lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(libc::EMSGSIZE),
        Err(_) => Err(last()),
    }
}

/// Sends bytes over a Unix socket, in one message.
pub fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let (flags, start) = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, bytes.as_ptr().cast());
    // SAFETY: the bytes are there.
    let sent = unsafe { libc::send(socket.as_raw_fd(), start, bytes.len(), flags) };
    match usize::try_from(sent) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(libc::EMSGSIZE),
        Err(_) => Err(last()),
    }
}

/// Ends a connection for all processes that have its socket open.
pub fn shutdown(socket: &OwnedFd) {
    // SAFETY: no memory is passed.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Receives bytes and at most one descriptor; returns the number of bytes and the descriptor.
pub fn receive_with(socket: RawFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control::default();
    // SAFETY: all zeroes is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = Control::LENGTH as _;
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the message points to what lives until the call returns.
    let received = unsafe { libc::recvmsg(socket, &raw mut message, flags) };
    let received = usize::try_from(received).map_err(|_| last())?;
    let wanted = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // SAFETY: the kernel has filled the header and the control buffer, which has room for one
    // descriptor; if there is one it belongs to this process from now on.
    let file = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (!header.is_null() && ((*header).cmsg_level, (*header).cmsg_type) == wanted)
            .then(|| libc::CMSG_DATA(header).cast::<c_int>().read_unaligned())
            .map(|fd| OwnedFd::from_raw_fd(fd))
    };
    Ok((received, file))
}

/// Room for the control message of one descriptor, aligned as its header asks.
#[derive(Default)]
#[repr(C, align(8))]
struct Control([u8; Self::LENGTH]);

impl Control {
    // SAFETY: the macro's function only calculates.
    const LENGTH: usize = unsafe { libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize };
}

/// A Unix stream socket that never blocks.
pub fn unix_socket() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

/// The longest path that a Unix socket can have, in bytes.
pub const LONGEST_PATH: usize = 107;

fn unix_address(path: &Path) -> Result<(libc::sockaddr_un, libc::socklen_t), Errno> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > LONGEST_PATH {
        return Err(libc::ENAMETOOLONG);
    }
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// Binds a socket to a path and listens there.
pub fn listen(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let (address, length) = unix_address(path)?;
    let fd = socket.as_raw_fd();
    // SAFETY: the address has the length.
    checked(unsafe { libc::bind(fd, (&raw const address).cast(), length) })?;
    // SAFETY: no memory is passed.
    checked(unsafe { libc::listen(fd, 4096) }).map(drop)
}

/// Connects a socket to a path; `EAGAIN` if too many wait there already.
pub fn connect(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let (address, length) = unix_address(path)?;
    let fd = socket.as_raw_fd();
    // SAFETY: the address has the length.
    checked(unsafe { libc::connect(fd, (&raw const address).cast(), length) }).map(drop)
}

/// Accepts the next connection of a listening socket.
pub fn accept(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let null = std::ptr::null_mut();
    // SAFETY: the address is not asked for.
    owned(unsafe { libc::accept4(socket.as_raw_fd(), null, null.cast(), flags) })
}

/// The credentials of a Unix socket's peer.
pub fn peer(socket: &OwnedFd) -> Result<libc::ucred, Errno> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let place = (&raw mut peer).cast();
    // SAFETY: the place has the length.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut length) })?;
    Ok(peer)
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::geteuid() }
}

/// Wakes a process that polls the other end of a socket. A byte that is already waiting is enough, so a full
/// socket buffer is no error.
pub fn notify(socket: &OwnedFd) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the byte is there.
    unsafe { libc::send(socket.as_raw_fd(), [0_u8].as_ptr().cast(), 1, flags) };
}

/// Discards the bytes of [`notify`]; returns whether the peer has closed.
pub fn drain_notifications(socket: &OwnedFd) -> bool {
    let mut bytes = [0_u8; 64];
    loop {
        let (place, length) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the place has the length.
        let got = unsafe { libc::recv(socket.as_raw_fd(), place, length, libc::MSG_DONTWAIT) };
        match got {
            64 => {}
            1.. => return false,
            0 => return true,
            _ if last() == libc::EINTR => {}
            _ => return last() != libc::EAGAIN,
        }
    }
}

/// A descriptor that becomes readable when a process ends.
pub fn pidfd(pid: libc::pid_t) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as c_int)
}

/// Whether a descriptor has something to read.
pub fn is_readable(fd: &OwnedFd) -> bool {
    let mut asked = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one descriptor to ask for.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
}

/// Whether a process with this number exists and has not ended. One that has ended keeps its number until its parent
/// asks what became of it.
pub fn process_exists(pid: libc::pid_t) -> bool {
    // SAFETY: no signal is sent.
    let has_number = || unsafe { libc::kill(pid, 0) == 0 || last() == libc::EPERM };
    match pidfd(pid) {
        Ok(process) => !is_readable(&process),
        Err(libc::ESRCH) => false,
        // Too many descriptors are open, or a filter refuses the call.
        Err(_) => has_number(),
    }
}

/// An eventfd, which any thread may set and epoll reports.
pub fn event() -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is passed.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Sets an [`event`].
pub fn set_event(event: &OwnedFd) {
    // SAFETY: the eight bytes are there.
    unsafe { libc::write(event.as_raw_fd(), 1_u64.to_ne_bytes().as_ptr().cast(), 8) };
}

/// Clears an [`event`]; returns whether it was set.
pub fn clear_event(event: &OwnedFd) -> bool {
    let mut value = [0_u8; 8];
    // SAFETY: the place has eight bytes.
    unsafe { libc::read(event.as_raw_fd(), value.as_mut_ptr().cast(), 8) == 8 }
}

/// An epoll set.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// An empty set.
    pub fn new() -> Result<Self, Errno> {
        // SAFETY: no memory is passed.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Self)
    }

    /// Its descriptor, readable while any member is.
    pub const fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Adds a descriptor; [`Watch::wait`] returns `token` when it is readable.
    pub fn add(&self, watched: &OwnedFd, token: u64) -> Result<(), Errno> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        let (set, fd) = (self.0.as_raw_fd(), watched.as_raw_fd());
        // SAFETY: the event is there.
        checked(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Changes the token of a descriptor.
    pub fn change(&self, watched: &OwnedFd, token: u64) -> Result<(), Errno> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        let (set, fd) = (self.0.as_raw_fd(), watched.as_raw_fd());
        // SAFETY: the event is there.
        checked(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &raw mut event) }).map(drop)
    }

    /// Removes a peer. Closing is not enough where a forked child has copies of the descriptors.
    pub fn remove(&self, peer: &crate::rendezvous::Peer) {
        for fd in [Some(&peer.socket), peer.pidfd.as_ref()].into_iter().flatten() {
            let (set, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
            // SAFETY: no event is asked for.
            unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        }
    }

    /// Waits until a member is readable, at most `limit`; returns up to 32 tokens and their number.
    pub fn wait(&self, limit: Option<Duration>) -> ([u64; 32], usize) {
        let none = libc::epoll_event { events: 0, u64: 0 };
        let (mut events, mut tokens) = ([none; 32], [0; 32]);
        let limit = limit.map_or(-1, |limit| {
            c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
        });
        // SAFETY: there is room for 32 events.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 32, limit) };
        let count = usize::try_from(count).unwrap_or(0);
        for (token, event) in tokens.iter_mut().zip(&events[..count]) {
            *token = event.u64;
        }
        (tokens, count)
    }
}

/// Copies from the memory of another process; returns the number of bytes, which may be fewer than asked for.
///
/// # Safety
///
/// The buffers in `to` must be writable.
pub unsafe fn read_memory(
    pid: libc::pid_t,
    to: &[libc::iovec],
    from: &[libc::iovec],
) -> Result<usize, Errno> {
    // SAFETY: the kernel checks the other process's addresses; the caller guarantees this one's.
    let got = unsafe {
        let (there, here) = (from.len() as libc::c_ulong, to.len() as libc::c_ulong);
        libc::process_vm_readv(pid, to.as_ptr(), here, from.as_ptr(), there, 0)
    };
    usize::try_from(got).map_err(|_| last())
}

/// Copies into the memory of another process; returns the number of bytes, which may be fewer than asked for.
///
/// # Safety
///
/// The buffers in `from` must be readable.
pub unsafe fn write_memory(
    pid: libc::pid_t,
    from: &[libc::iovec],
    to: &[libc::iovec],
) -> Result<usize, Errno> {
    // SAFETY: the kernel checks the other process's addresses; the caller guarantees this one's.
    let put = unsafe {
        let (here, there) = (from.len() as libc::c_ulong, to.len() as libc::c_ulong);
        libc::process_vm_writev(pid, from.as_ptr(), here, to.as_ptr(), there, 0)
    };
    usize::try_from(put).map_err(|_| last())
}

/// Waits for an advisory lock on an open file, which ends when the file is closed.
pub fn lock(file: &std::fs::File) -> Result<(), Errno> {
    loop {
        // SAFETY: no memory is passed.
        match checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }) {
            Err(libc::EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// When a process was started, in clock ticks since boot.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The clock that all processes of the host share, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits on a futex in shared memory, at most `limit`, unless its value differs from `expected`.
pub fn sleep_on(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the word and the limit are there; it is no private word, since other processes wake it.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit);
    }
}

/// Wakes all waiters of a futex.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
