//! How the two ends of a connection find each other and hand the segment over.
//!
//! The server binds an abstract Unix socket whose name both ends derive from the connection's two
//! addresses; the client connects to it and passes the segment's file. Abstract names belong to a
//! network namespace, as the addresses do, and vanish with the socket. Each end asks the kernel for
//! the user of the other, and proceeds only with its own user or with a member of the group that it
//! trusts ([`config::trusted_group`]): a process that squats on the name of somebody else's
//! connection gets nothing. The segment has no name, so only the two ends have it.
//!
//! The ends of a connection between two different addresses are on different hosts or in different
//! network namespaces. In the latter case they meet at a file of the directory
//! `WEFT_LIVE_DIRECTORY`, if both are given the same. Nothing in the kernel distinguishes two
//! connections with the same addresses and ports in different namespaces, so sharing a directory
//! asserts that addresses are unique in it.

use std::mem::size_of;

use libc::c_int;

use crate::config;
use crate::descriptors;
use crate::joining::opened::{is_opening, let_all_call};
use crate::segment::{Role, VERSION};
use crate::sys::{self, Endpoint, Errno, Which, endpoint};

/// The name of the place where the two ends of a connection meet.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

/// What an IPv4 address begins with in that form.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Whether both addresses are of this host: the same one, or both loopback.
fn same_host(one: &Endpoint, other: &Endpoint) -> bool {
    let loopback = |end: &Endpoint| end[10..13] == [0xff, 0xff, 127];
    one[..16] == other[..16] || (loopback(one) && loopback(other))
}

impl Place {
    /// The place of this connection; `None` if its ends are of different hosts.
    pub fn of(fd: c_int, role: Role) -> Option<Self> {
        let (own, peer) = (endpoint(fd, Which::Own)?, endpoint(fd, Which::Peer)?);
        let (client, server) = match role {
            Role::Client => (own, peer),
            Role::Server => (peer, own),
        };
        let version = [b'0' + VERSION as u8];
        if same_host(&own, &peer) {
            let name = [b"\0weft-live/", &version[..], &client, &server];
            return Self::named(name.into_iter().flatten().copied());
        }
        Self::in_directory(config::directory()?, version[0], &client, &server)
    }

    /// The place where the process that copies for a loan of this connection gives the copied one to
    /// more of those that share it. `cookie` is the kernel's number of the connection.
    pub fn of_loan(cookie: u64) -> Option<Self> {
        let name = b"\0weft-live-loan/".iter().copied();
        Self::named(name.chain([b'0' + VERSION as u8]).chain(cookie.to_ne_bytes()))
    }

    /// The place of a connection between network namespaces: a file that is named by the version,
    /// the two addresses and the two ports.
    fn in_directory(
        directory: &[u8],
        version: u8,
        client: &Endpoint,
        server: &Endpoint,
    ) -> Option<Self> {
        let start = b"/weft-live-".iter().copied().chain([version, b'-']);
        let short = [client, server].iter().all(|end| end[..12] == MAPPED);
        let ends = [client, server].map(|end| if short { &end[12..] } else { &end[..] });
        let name = ends.into_iter().flat_map(|end| end.chunks_exact(3)).flat_map(letters);
        Self::named(directory.iter().copied().chain(start).chain(name).chain([0]))
    }

    /// A place of this name; `None` if it is too long.
    fn named(name: impl Iterator<Item = u8>) -> Option<Self> {
        // SAFETY: all zeroes is a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let mut length = 0;
        for from in name {
            *address.sun_path.get_mut(length)? = from as libc::c_char;
            length += 1;
        }
        let length = (size_of::<libc::sa_family_t>() + length) as libc::socklen_t;
        Some(Self { address, length })
    }

    fn raw(&self) -> *const libc::sockaddr {
        (&raw const self.address).cast()
    }

    /// Waits at the place, without blocking.
    pub fn listen(&self) -> Result<c_int, Errno> {
        let fd = socket()?;
        // SAFETY: the address has this length.
        let bound = unsafe { sys::bare!(libc::SYS_bind, fd, self.raw(), self.length) } == 0;
        if bound {
            let listens = self.open(fd);
            if let Err(why) = listens {
                // Whatever else is at the file's place is not this library's to remove.
                if why != libc::EADDRINUSE {
                    clear(fd);
                }
                sys::close(fd);
            }
            return listens.map(|()| fd);
        }
        let why = sys::errno();
        sys::close(fd);
        // A process that was killed leaves its file behind, where nobody answers.
        if why == libc::EADDRINUSE && self.is_file() && self.connect() == Err(libc::ECONNREFUSED) {
            remove(&self.address);
            return if self.connect() == Err(libc::ENOENT) { self.listen() } else { Err(why) };
        }
        Err(why)
    }

    /// Lets others call at the place by the socket that is bound to it.
    fn open(&self, fd: c_int) -> Result<(), Errno> {
        if self.is_file() {
            let opened = let_all_call(self.address.sun_path.as_ptr());
            // Without that it is the same user that may call.
            if config::trusted_group().is_some() {
                opened?;
            }
        }
        // SAFETY: takes no memory.
        let listens = unsafe { sys::bare!(libc::SYS_listen, fd, 1) } == 0;
        if listens { Ok(()) } else { Err(sys::errno()) }
    }

    fn is_file(&self) -> bool {
        self.address.sun_path[0] != 0
    }

    /// Goes to the place.
    pub fn call(&self) -> Result<c_int, Errno> {
        self.connect().map_err(|why| {
            // The process that has created the file is about to let others connect, and to answer.
            let opens = why == libc::EACCES && self.is_file();
            let is_early = opens && is_opening(self.address.sun_path.as_ptr());
            if is_early { libc::ECONNREFUSED } else { why }
        })
    }

    /// Connects to the place, and returns the kernel's error. Usually nobody listens there, so the
    /// socket gets its final number only after it has connected.
    fn connect(&self) -> Result<c_int, Errno> {
        let fd = low_socket()?;
        // SAFETY: the address has this length.
        if unsafe { sys::bare!(libc::SYS_connect, fd, self.raw(), self.length) } == 0 {
            return descriptors::move_high(fd);
        }
        let why = sys::errno();
        sys::close(fd);
        Err(why)
    }
}

/// Four letters of a file's name for three bytes.
fn letters(bytes: &[u8]) -> [u8; 4] {
    const LETTERS: [u8; 64] = *b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_+";
    let whole = bytes.iter().fold(0, |whole, byte| whole << 8 | usize::from(*byte));
    [18, 12, 6, 0].map(|shift| LETTERS[whole >> shift & 63])
}

/// Removes the file of a place.
fn remove(address: &libc::sockaddr_un) {
    // SAFETY: the path of a file's place ends with a zero.
    unsafe { libc::unlink(address.sun_path.as_ptr()) };
}

/// Takes the file away at which a listener waits, if it waits at one.
pub fn clear(listener: c_int) {
    // The file may be gone.
    let _errno = sys::KeepErrno::new();
    // SAFETY: all zeroes is a valid address, and a valid place for the result.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t - 1;
    let place = &raw mut address;
    // SAFETY: the place has this length, and a byte more, which stays zero.
    let asked = unsafe { sys::bare!(libc::SYS_getsockname, listener, place, &raw mut length) };
    if asked == 0 && address.sun_path[0] != 0 {
        remove(&address);
    }
}

fn socket() -> Result<c_int, Errno> {
    low_socket().and_then(descriptors::move_high)
}

/// A socket by the number that the program would get next.
fn low_socket() -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no memory.
    let fd = unsafe { sys::bare!(libc::SYS_socket, libc::AF_UNIX, kind, 0) } as c_int;
    if fd < 0 { Err(sys::errno()) } else { Ok(fd) }
}

/// Takes the next caller, if there is one.
pub fn take_caller(listener: c_int) -> Result<c_int, Errno> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let none: *mut libc::c_void = std::ptr::null_mut();
    // SAFETY: no address is asked for.
    let fd = unsafe { sys::bare!(libc::SYS_accept4, listener, none, none, flags) } as c_int;
    if fd < 0 { Err(sys::errno()) } else { descriptors::move_high(fd) }
}

/// Whether a caller waits to be taken.
pub fn is_sought(listener: c_int) -> bool {
    sys::poll_now(listener, libc::POLLIN) & libc::POLLIN != 0
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Credentials {
    process: i32,
    user: u32,
    group: u32,
}

impl Credentials {
    fn is_same_user(&self) -> bool {
        // SAFETY: takes nothing and cannot fail.
        self.user == unsafe { libc::geteuid() }
    }
}

/// Whether the other end of a Unix connection belongs to the same user. Its process has no number
/// here if it is in another process namespace.
pub fn is_same_user(fd: c_int) -> bool {
    credentials(fd).is_some_and(|peer| peer.is_same_user())
}

/// Whether memory may be shared with the other end of a Unix connection: it is the same user's, or
/// a member of the group that this user trusts. The other end checks this one in the same way.
pub fn is_trusted(fd: c_int) -> bool {
    is_same_user(fd) || config::trusted_group().is_some_and(|group| is_in_group(fd, group))
}

/// Whether the other end's process was in a group when it connected or listened. A process that is
/// in more groups than fit here counts as in none.
fn is_in_group(fd: c_int, group: u32) -> bool {
    const SO_PEERGROUPS: c_int = 59;
    if credentials(fd).is_some_and(|peer| peer.group == group) {
        return true;
    }
    let mut groups = [0u32; 256];
    let mut length = size_of_val(&groups) as libc::socklen_t;
    let (place, size) = (groups.as_mut_ptr(), &raw mut length);
    let option = (libc::SOL_SOCKET, SO_PEERGROUPS);
    // SAFETY: the place has this length.
    let asked =
        unsafe { sys::bare!(libc::SYS_getsockopt, fd, option.0, option.1, place, size) } == 0;
    asked && groups.iter().take(length as usize / size_of::<u32>()).any(|it| *it == group)
}

fn credentials(fd: c_int) -> Option<Credentials> {
    sys::socket_option(fd, libc::SOL_SOCKET, libc::SO_PEERCRED).ok()
}

/// The process at the other end of a Unix connection, if it is the same user's and has a number here.
pub fn process_of_same_user(fd: c_int) -> Option<u32> {
    let process = credentials(fd).filter(Credentials::is_same_user)?.process;
    u32::try_from(process).ok().filter(|process| *process != 0)
}

/// Why what was handed over is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server does not share memory with this user.
    OtherUser,
    /// It no longer waits for a client, or cannot use what it has received.
    Withdrawn,
}

/// The byte by which an end reports, without handing anything over, that it shares nothing with the
/// other's user, or that it cannot use what it has received.
const OTHER_USER: u8 = VERSION as u8;
const UNUSABLE: u8 = u8::MAX;

/// Tells the other end that nothing is shared with its user.
pub fn refuse(fd: c_int) {
    say(fd, OTHER_USER);
}

/// Tells the client that its segment was received and cannot be used. Until both ends have the
/// segment, the socket is the only means to tell it.
pub fn decline(fd: c_int) {
    say(fd, UNUSABLE);
}

fn say(fd: c_int, byte: u8) {
    let none: *const libc::c_void = std::ptr::null();
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: a byte is sent, to who is connected.
    unsafe { sys::bare!(libc::SYS_sendto, fd, &raw const byte, 1, flags, none, 0) };
}

/// Why the server has closed the socket without using what was handed over. `None` as long as it
/// may yet use it.
pub fn refusal(caller: c_int) -> Option<Refusal> {
    let found = sys::poll_now(caller, libc::POLLIN) & (libc::POLLIN | libc::POLLERR);
    if found == 0 {
        return None;
    }
    match said(caller) {
        Ok(Some(OTHER_USER)) => Some(Refusal::OtherUser),
        // An error means that the server has closed the socket without receiving what was handed
        // over. The kernel sets the error after the end of stream, so it may appear between the
        // check and the receive, which clears it.
        Ok(Some(_)) | Err(_) => Some(Refusal::Withdrawn),
        // It has received what was handed over before it closed.
        Ok(None) => (found & libc::POLLERR != 0).then_some(Refusal::Withdrawn),
    }
}

/// Whether the server, which has closed the socket, has said that it shares nothing with this user.
pub fn is_refused(caller: c_int) -> bool {
    said(caller) == Ok(Some(OTHER_USER))
}

/// The byte that the other end has sent before it closed the socket, or none yet; otherwise the
/// socket's error, which the kernel reports once.
fn said(caller: c_int) -> Result<Option<u8>, Errno> {
    let mut byte = 0u8;
    let none: *mut libc::c_void = std::ptr::null_mut();
    let mut error = None;
    // An error, if there is one, comes before the byte that was sent.
    for _ in 0..2 {
        let (place, flags) = (&raw mut byte, libc::MSG_DONTWAIT);
        match sys::call!(libc::SYS_recvfrom, caller, place, 1, flags, none, none) {
            Ok(1) => return Ok(Some(byte)),
            Ok(_) | Err(libc::EAGAIN) => {}
            Err(why) => error = Some(why),
        }
    }
    error.map_or(Ok(None), Err)
}

/// The length of a control message's header, and of one with this many files, at most four.
const HEADER: usize = 16;
const fn whole(files: usize) -> usize {
    HEADER + files * size_of::<c_int>()
}

/// Room for the files in a control message.
#[repr(C, align(8))]
struct Control([u8; 32]);

fn message(vector: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all zeroes is a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    message
}

/// Hands files over.
pub fn hand_over<const FILES: usize>(fd: c_int, files: [c_int; FILES]) -> Result<(), Errno> {
    let mut byte = VERSION as u8;
    let mut vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    control.0[..8].copy_from_slice(&whole(FILES).to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (to, file) in control.0[HEADER..].chunks_exact_mut(4).zip(files) {
        to.copy_from_slice(&file.to_ne_bytes());
    }
    let mut message = message(&mut vector, &mut control);
    message.msg_controllen = whole(FILES).next_multiple_of(8);
    // SAFETY: everything that the message points to lives until the call returns.
    let sent = unsafe { sys::bare!(libc::SYS_sendmsg, fd, &raw const message, libc::MSG_NOSIGNAL) };
    if sent == 1 { Ok(()) } else { Err(sys::errno()) }
}

/// Receives the files that were handed over: `EMFILE` without numbers for them, `EACCES` if the other end shares
/// nothing with this user, `EPIPE` if it has closed, `EPROTO` if it is something else.
pub fn take_over<const FILES: usize>(fd: c_int) -> Result<[c_int; FILES], Errno> {
    let mut byte = 0u8;
    let mut vector = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    let mut message = message(&mut vector, &mut control);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: everything that the message points to lives until the call returns.
    let received = unsafe { sys::bare!(libc::SYS_recvmsg, fd, &raw mut message, flags) };
    if received <= 0 {
        return Err(if received == 0 { libc::EPIPE } else { sys::errno() });
    }
    let length = message.msg_controllen;
    let word = |at: usize| {
        let bytes = &control.0[at..at + 4];
        c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let passed = length >= HEADER && word(12) == libc::SCM_RIGHTS;
    let count = if passed { (word(0) as usize).saturating_sub(HEADER) / 4 } else { 0 };
    if received == 1 && byte == VERSION as u8 && count == FILES {
        return Ok(std::array::from_fn(|at| word(whole(at))));
    }
    for at in 0..count.min(4) {
        sys::close(word(whole(at)));
    }
    // The kernel leaves out descriptors for which there is no number.
    let is_cut_off = message.msg_flags & libc::MSG_CTRUNC != 0;
    Err(match (is_cut_off, count, byte == VERSION as u8) {
        (true, ..) => libc::EMFILE,
        (false, 0, true) => libc::EACCES,
        _ => libc::EPROTO,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::as_another_user;
    use std::fs::Permissions;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    fn pair(listen: &str, connect: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(listen).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect((connect, port)).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn name(place: &Place) -> Vec<libc::c_char> {
        let bytes = place.length as usize - size_of::<libc::sa_family_t>();
        place.address.sun_path[..bytes].to_vec()
    }

    #[test]
    fn both_ends_derive_one_place_also_across_address_families() {
        for (listen, connect) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("127.0.0.2:0", "127.0.0.2")]
        {
            let (client, server) = pair(listen, connect);
            let here = Place::of(client.as_raw_fd(), Role::Client).unwrap();
            let there = Place::of(server.as_raw_fd(), Role::Server).unwrap();
            assert_eq!(name(&there), name(&here));
        }
    }

    #[test]
    fn a_place_in_a_directory_is_a_file_that_goes_with_its_listener() {
        let directory = std::env::temp_dir().join(format!("weft-live-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.to_str().unwrap().as_bytes();
        let ends = [[1; 18], [2; 18]];
        let place = Place::in_directory(path, b'1', &ends[0], &ends[1]).unwrap();
        assert_eq!(place.call(), Err(libc::ENOENT));
        let listener = place.listen().unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        sys::close(listener);
        assert_eq!(place.call(), Err(libc::ECONNREFUSED), "as after a kill");
        let listener = place.listen().expect("what was left behind is in nobody's way");
        let caller = place.call().unwrap();
        assert!(is_same_user(caller));
        sys::close(caller);
        clear(listener);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        sys::set_errno(0);
        clear(listener);
        assert_eq!(sys::errno(), 0, "there is no file any more");
        sys::close(listener);
        std::fs::remove_dir(&directory).unwrap();
        let long = vec![b'x'; 90];
        assert!(Place::in_directory(&long, b'1', &ends[0], &ends[1]).is_none());
    }

    /// A socket's file of another user's, to which others may not yet call, is no dead process's.
    #[test]
    fn a_place_that_another_user_is_opening_is_left_to_it() {
        let path = std::env::temp_dir().join(format!("weft-live-opening-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let ends = [[1; 18], [2; 18]];
        let name = path.to_str().unwrap().as_bytes();
        let place = Place::in_directory(name, b'1', &ends[0], &ends[1]).unwrap();
        let fd = socket().unwrap();
        // SAFETY: the address has this length.
        assert_eq!(0, unsafe { sys::bare!(libc::SYS_bind, fd, place.raw(), place.length) });
        let file = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
        let opens = |mode| {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            as_another_user(|| [place.connect(), place.call(), place.listen()])
        };
        if let Some(early) = opens(0o600) {
            assert_eq!(early, [libc::EACCES, libc::ECONNREFUSED, libc::EADDRINUSE].map(Err));
            assert!(file.exists(), "it is not taken for what a dead process has left");
            std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            let shut_out = opens(0o666).unwrap();
            assert_eq!(shut_out, [libc::EACCES; 3].map(Err), "the directory is another's");
        }
        sys::close(fd);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn who_shares_nothing_says_so_and_is_told_from_who_has_gone() {
        let (client, server) = pair("127.0.0.1:0", "127.0.0.1");
        let [here, there] = [
            Place::of(client.as_raw_fd(), Role::Client),
            Place::of(server.as_raw_fd(), Role::Server),
        ]
        .map(Option::unwrap);
        let listener = there.listen().unwrap();
        let meet = || {
            let caller = here.call().unwrap();
            (caller, take_caller(listener).unwrap())
        };
        let (caller, taken) = meet();
        refuse(caller);
        assert_eq!(take_over::<1>(taken), Err(libc::EACCES));
        sys::close(caller);
        assert_eq!(take_over::<1>(taken), Err(libc::EPIPE));
        sys::close(taken);
        let (caller, taken) = meet();
        hand_over(caller, [0]).unwrap();
        assert_eq!(refusal(caller), None);
        refuse(taken);
        sys::close(taken);
        assert_eq!(refusal(caller), Some(Refusal::OtherUser));
        sys::close(caller);
        let (caller, taken) = meet();
        hand_over(caller, [0]).unwrap();
        take_over::<1>(taken).map(|[file]| sys::close(file)).unwrap();
        sys::close(taken);
        assert_eq!(refusal(caller), None, "it was taken");
        sys::close(caller);
        let (caller, taken) = meet();
        hand_over(caller, [0]).unwrap();
        assert_eq!(take_over::<2>(taken), Err(libc::EPROTO));
        decline(taken);
        sys::close(taken);
        assert_eq!(refusal(caller), Some(Refusal::Withdrawn), "it was taken and cannot be used");
        sys::close(caller);
        let (caller, taken) = meet();
        decline(taken);
        sys::close(taken);
        assert_eq!(hand_over(caller, [0]), Err(libc::EPIPE));
        assert!(!is_refused(caller), "it did not wait for so long");
        sys::close(caller);
        let (caller, taken) = meet();
        refuse(taken);
        sys::close(taken);
        assert_eq!(hand_over(caller, [0]), Err(libc::EPIPE), "the server was faster");
        assert!(is_refused(caller));
        sys::close(caller);
        let (caller, taken) = meet();
        sys::close(taken);
        assert_eq!(hand_over(caller, [0]), Err(libc::EPIPE));
        assert!(!is_refused(caller), "it only went away");
        sys::close(caller);
        let caller = here.call().unwrap();
        hand_over(caller, [0]).unwrap();
        sys::close(listener);
        assert_eq!(refusal(caller), Some(Refusal::Withdrawn));
        sys::close(caller);
    }

    #[test]
    fn a_file_arrives_at_the_place() {
        let (client, server) = pair("127.0.0.1:0", "127.0.0.1");
        let place = Place::of(client.as_raw_fd(), Role::Client).unwrap();
        assert_eq!(place.call(), Err(libc::ECONNREFUSED));
        let listener = Place::of(server.as_raw_fd(), Role::Server).unwrap().listen().unwrap();
        assert_eq!(take_caller(listener), Err(libc::EAGAIN));
        let caller = place.call().unwrap();
        assert!(is_same_user(caller));
        hand_over(caller, [server.as_raw_fd(), 0, 1]).unwrap();
        let taken = take_caller(listener).unwrap();
        assert!(is_same_user(taken));
        let [file, first, second] = take_over(taken).unwrap();
        let arrived = Place::of(file, Role::Server).unwrap();
        assert_eq!(name(&arrived), name(&place), "the very socket arrived");
        for fd in [listener, caller, taken, file, first, second] {
            sys::close(fd);
        }
    }
}
