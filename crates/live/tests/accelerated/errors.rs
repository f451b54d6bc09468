//! What calls leave in `errno`: those that succeed nothing, as the kernel's.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;
use std::time::Duration;

use libc::{c_char, c_int, c_uint, c_void, epoll_event, iovec, msghdr, nfds_t, pollfd, size_t};
use libc::{ssize_t, timespec};

use crate::epoll_control;
use crate::pair::{Pair, accelerated, joined, moved_back, plain, preloaded, used};

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
    fn __read_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t) -> ssize_t;
    fn __recv_chk(fd: c_int, to: *mut c_void, size: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn __recvfrom_chk(
        fd: c_int,
        to: *mut c_void,
        length: size_t,
        room: size_t,
        flags: c_int,
        address: *mut libc::sockaddr,
        address_length: *mut c_uint,
    ) -> ssize_t;
    fn __poll_chk(first: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    fn __ppoll_chk(
        first: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const libc::sigset_t,
        room: size_t,
    ) -> c_int;
}

/// No error has this number.
const MARK: c_int = 4242;

/// Makes a call and says what it left in `errno`, if it succeeded.
pub fn said(name: &str, call: impl FnOnce() -> isize) -> String {
    unsafe { *libc::__errno_location() = MARK };
    let result = call();
    let left = unsafe { *libc::__errno_location() };
    assert!(result >= 0, "{name} failed with {left}");
    format!("{name} leaves {left}")
}

/// Calls on a connection, and what each said.
struct Walk {
    pair: Pair,
    said: Vec<String>,
}

impl Walk {
    fn call<T: Into<isize>>(&mut self, name: &str, call: impl FnOnce(Pair) -> T) {
        let pair = self.pair;
        self.said.push(said(name, || call(pair).into()));
    }

    /// One call that moves a whole short message, after one that fetches it or before one that
    /// brings it.
    fn message(&mut self, name: &str, call: impl FnOnce(Pair, *mut u8, usize) -> isize) {
        let mut bytes = [7u8; 8];
        self.call(name, |pair| call(pair, bytes.as_mut_ptr(), bytes.len()));
    }

    fn sent(&mut self) {
        self.message("send", |pair, at, size| unsafe { libc::send(pair.a, at.cast(), size, 0) });
    }

    fn received(&mut self) {
        let all = libc::MSG_WAITALL;
        self.message("recv", |pair, at, size| unsafe { libc::recv(pair.b, at.cast(), size, all) });
    }
}

/// A call that moves so many bytes.
type Moves = fn(c_int, *mut u8, usize) -> isize;

fn part(at: *mut u8, size: usize) -> iovec {
    iovec { iov_base: at.cast(), iov_len: size }
}

fn header(part: &mut iovec) -> msghdr {
    let mut message: msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    message
}

fn sends(walk: &mut Walk) {
    let none = std::ptr::null_mut::<c_void>();
    let calls: [(&str, Moves); 7] = [
        ("write", |fd, at, size| unsafe { libc::write(fd, at.cast(), size) }),
        ("writev", |fd, at, size| unsafe { libc::writev(fd, &part(at, size), 1) }),
        ("send", |fd, at, size| unsafe { libc::send(fd, at.cast(), size, 0) }),
        ("sendto", |fd, at, size| unsafe {
            libc::sendto(fd, at.cast(), size, 0, std::ptr::null(), 0)
        }),
        ("sendmsg", |fd, at, size| unsafe { libc::sendmsg(fd, &header(&mut part(at, size)), 0) }),
        ("sendmmsg", |fd, at, size| unsafe {
            let mut part = part(at, size);
            let mut message = libc::mmsghdr { msg_hdr: header(&mut part), msg_len: 0 };
            libc::sendmmsg(fd, &mut message, 1, 0) as isize
        }),
        ("pwritev2", |fd, at, size| unsafe { libc::pwritev2(fd, &part(at, size), 1, -1, 0) }),
    ];
    for (name, call) in calls {
        walk.message(name, |pair, at, size| call(pair.a, at, size));
        walk.received();
    }
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    walk.call("sendfile", |pair| unsafe {
        libc::sendfile(pair.a, file.as_raw_fd(), none.cast(), 8)
    });
    walk.received();
}

fn receives(walk: &mut Walk) {
    let calls: [(&str, Moves); 11] = [
        ("read", |fd, at, size| unsafe { libc::read(fd, at.cast(), size) }),
        ("readv", |fd, at, size| unsafe { libc::readv(fd, &part(at, size), 1) }),
        ("recv", |fd, at, size| unsafe { libc::recv(fd, at.cast(), size, 0) }),
        ("recvfrom", |fd, at, size| unsafe {
            libc::recvfrom(fd, at.cast(), size, 0, std::ptr::null_mut(), std::ptr::null_mut())
        }),
        ("recvmsg", |fd, at, size| unsafe {
            libc::recvmsg(fd, &mut header(&mut part(at, size)), 0)
        }),
        ("recvmmsg", |fd, at, size| unsafe {
            let mut part = part(at, size);
            let mut message = libc::mmsghdr { msg_hdr: header(&mut part), msg_len: 0 };
            libc::recvmmsg(fd, &mut message, 1, 0, std::ptr::null_mut()) as isize
        }),
        ("preadv2", |fd, at, size| unsafe { libc::preadv2(fd, &part(at, size), 1, -1, 0) }),
        ("__read_chk", |fd, at, size| unsafe { __read_chk(fd, at.cast(), size, size) }),
        ("__recv_chk", |fd, at, size| unsafe { __recv_chk(fd, at.cast(), size, size, 0) }),
        ("__recvfrom_chk", |fd, at, size| unsafe {
            let none = std::ptr::null_mut();
            __recvfrom_chk(fd, at.cast(), size, size, 0, none, std::ptr::null_mut())
        }),
        ("recv of all", |fd, at, size| unsafe {
            libc::recv(fd, at.cast(), size, libc::MSG_PEEK);
            libc::recv(fd, at.cast(), size, libc::MSG_WAITALL)
        }),
    ];
    for (name, call) in calls {
        // There before the call, while it polls, and while it sleeps in either way.
        for late in [0, 1, 8, 40] {
            let pair = walk.pair;
            let send = move || {
                thread::sleep(Duration::from_millis(late));
                unsafe { libc::send(pair.a, [1u8; 8].as_ptr().cast(), 8, 0) };
            };
            if late == 0 {
                send();
                walk.message(name, |pair, at, size| call(pair.b, at, size));
            } else {
                let other = thread::spawn(send);
                walk.message(name, |pair, at, size| call(pair.b, at, size));
                other.join().unwrap();
            }
        }
    }
}

/// How one waits for input, for so many milliseconds or for ever.
type Wait = fn(c_int, c_int) -> c_int;

fn entry(fd: c_int) -> pollfd {
    pollfd { fd, events: libc::POLLIN, revents: 0 }
}

fn time(milliseconds: c_int) -> timespec {
    timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds) * 1_000_000 }
}

fn set(fd: c_int) -> libc::fd_set {
    unsafe {
        let mut set = zeroed();
        libc::FD_SET(fd, &mut set);
        set
    }
}

/// Waits in vain, and for what comes late.
fn waits(walk: &mut Walk) {
    let calls: [(&str, Wait); 6] = [
        ("poll", |fd, span| unsafe { libc::poll(&mut entry(fd), 1, span) }),
        ("__poll_chk", |fd, span| unsafe {
            __poll_chk(&mut entry(fd), 1, span, size_of::<pollfd>())
        }),
        ("ppoll", |fd, span| unsafe {
            libc::ppoll(&mut entry(fd), 1, &time(span), std::ptr::null())
        }),
        ("__ppoll_chk", |fd, span| unsafe {
            let room = size_of::<pollfd>();
            __ppoll_chk(&mut entry(fd), 1, &time(span), std::ptr::null(), room)
        }),
        ("select", |fd, span| unsafe {
            let none = std::ptr::null_mut();
            let mut time =
                libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(span) * 1000 };
            libc::select(fd + 1, &mut set(fd), none, none, &mut time)
        }),
        ("pselect", |fd, span| unsafe {
            let none = std::ptr::null_mut();
            libc::pselect(fd + 1, &mut set(fd), none, none, &time(span), std::ptr::null())
        }),
    ];
    for (name, call) in calls {
        waited(walk, name, move |pair, span| call(pair.b, span));
    }
}

fn waited(walk: &mut Walk, name: &str, call: impl Fn(Pair, c_int) -> c_int) {
    walk.call(name, |pair| call(pair, 0) as isize);
    walk.call(name, |pair| call(pair, 2) as isize);
    for late in [0, 5] {
        let pair = walk.pair;
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(late));
            unsafe { libc::send(pair.a, [1u8; 8].as_ptr().cast(), 8, 0) };
        });
        walk.call(name, |pair| call(pair, 900) as isize);
        walk.received();
        other.join().unwrap();
    }
}

fn instances(walk: &mut Walk) {
    let mut epoll = -1;
    walk.call("epoll_create", |_| unsafe { libc::epoll_create(1) as isize });
    walk.call("epoll_create1", |_| {
        epoll = unsafe { libc::epoll_create1(0) };
        epoll as isize
    });
    let (read, edge) = (libc::EPOLLIN as u32, libc::EPOLLET as u32);
    let operations = [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL];
    for (kind, beside) in [(read, false), (read | edge, false), (read | edge, true)] {
        for operation in [operations[0], operations[2], operations[0], operations[1]] {
            walk.call("epoll_ctl", |pair| epoll_control(epoll, operation, pair.b, kind) as isize);
        }
        if beside {
            let pipe = pipe();
            walk.call("epoll_ctl", |_| epoll_control(epoll, operations[0], pipe, read) as isize);
        }
        let room = || epoll_event { events: 0, u64: 0 };
        waited(walk, "epoll_wait", |_, span| unsafe {
            libc::epoll_wait(epoll, &mut room(), 1, span)
        });
        waited(walk, "epoll_pwait", |_, span| unsafe {
            libc::epoll_pwait(epoll, &mut room(), 1, span, std::ptr::null())
        });
        waited(walk, "epoll_pwait2", |_, span| unsafe {
            libc::epoll_pwait2(epoll, &mut room(), 1, &time(span), std::ptr::null())
        });
        walk.call("epoll_ctl", |pair| epoll_control(epoll, operations[2], pair.b, 0) as isize);
    }
    walk.call("close", |_| unsafe { libc::close(epoll) as isize });
}

fn pipe() -> c_int {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends[0]
}

/// What a program asks and sets, and copies of its descriptors.
fn settings(walk: &mut Walk) {
    let mut number: c_int = 0;
    for (name, request) in
        [("FIONREAD", libc::FIONREAD), ("SIOCOUTQ", libc::TIOCOUTQ), ("FIONBIO", libc::FIONBIO)]
    {
        walk.call(name, |pair| unsafe { libc::ioctl(pair.b, request, &raw mut number) as isize });
        number = 0;
    }
    for (name, command) in [
        ("F_GETFL", libc::F_GETFL),
        ("F_SETFL", libc::F_SETFL),
        ("F_GETFD", libc::F_GETFD),
        ("F_SETFD", libc::F_SETFD),
    ] {
        walk.call(name, |pair| unsafe { libc::fcntl(pair.b, command, 0) as isize });
    }
    let (socket, tcp) = (libc::SOL_SOCKET, libc::IPPROTO_TCP);
    let mut value = [0u64; 2];
    for (level, name, length) in [
        (socket, libc::SO_ERROR, 4),
        (socket, libc::SO_RCVTIMEO, 16),
        (socket, libc::SO_LINGER, 8),
        (tcp, libc::TCP_NODELAY, 4),
        (tcp, libc::TCP_CORK, 4),
    ] {
        let mut room = length;
        let place: *mut c_void = value.as_mut_ptr().cast();
        walk.call("getsockopt", |pair| unsafe {
            libc::getsockopt(pair.a, level, name, place, &mut room) as isize
        });
        if name != libc::SO_ERROR {
            walk.call("setsockopt", |pair| unsafe {
                libc::setsockopt(pair.a, level, name, place, length) as isize
            });
        }
    }
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in>() as c_uint;
    let place: *mut libc::sockaddr = (&raw mut address).cast();
    walk.call("getpeername", |pair| unsafe {
        libc::getpeername(pair.a, place, &mut length) as isize
    });
    for (name, copy) in [
        ("dup", (|fd| unsafe { libc::dup(fd) }) as fn(c_int) -> c_int),
        ("dup2", |fd| unsafe { libc::dup2(fd, 300) }),
        ("dup3", |fd| unsafe { libc::dup3(fd, 301, libc::O_CLOEXEC) }),
        ("F_DUPFD", |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD, 302) }),
    ] {
        let mut made = -1;
        walk.call(name, |pair| {
            made = copy(pair.a);
            made as isize
        });
        let made = made as c_uint;
        walk.call("close_range", |_| unsafe { libc::close_range(made, made, 0) as isize });
    }
    walk.call("fork", |_| unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0) as isize
    });
}

/// A stream that is now and then longer than there is room for.
fn full(walk: &mut Walk) {
    let pair = walk.pair;
    let bytes = vec![3u8; 1 << 21];
    let reader = thread::spawn(move || {
        let mut left = 1 << 21;
        let mut room = vec![0u8; 1 << 16];
        while left > 0 {
            if left % 7 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            left -= unsafe { libc::recv(pair.b, room.as_mut_ptr().cast(), room.len(), 0) } as usize;
        }
    });
    walk.call("send", |pair| unsafe { libc::send(pair.a, bytes.as_ptr().cast(), bytes.len(), 0) });
    reader.join().unwrap();
}

/// Everything that a connection may be used for until it ends.
fn life(pair: Pair) -> Vec<String> {
    let mut walk = Walk { pair, said: Vec::new() };
    sends(&mut walk);
    receives(&mut walk);
    waits(&mut walk);
    instances(&mut walk);
    settings(&mut walk);
    full(&mut walk);
    walk.said
}

/// Its end, with something unread or not.
fn death(pair: Pair, unread: bool) -> Vec<String> {
    let mut walk = Walk { pair, said: Vec::new() };
    if unread {
        walk.sent();
    }
    walk.call("shutdown", |pair| unsafe { libc::shutdown(pair.a, libc::SHUT_WR) as isize });
    waits_for_end(&mut walk);
    if unread {
        walk.received();
    }
    walk.message("recv", |pair, at, size| unsafe { libc::recv(pair.b, at.cast(), size, 0) });
    walk.call("close", |pair| unsafe { libc::close(pair.a) as isize });
    waits_for_end(&mut walk);
    walk.call("close", |pair| unsafe { libc::close(pair.b) as isize });
    walk.said
}

fn waits_for_end(walk: &mut Walk) {
    walk.call("poll", |pair| unsafe { libc::poll(&mut entry(pair.b), 1, 1000) as isize });
}

#[test]
fn calls_that_succeed_leave_the_error_number_of_those_before() {
    preloaded("errors::calls_that_succeed_leave_the_error_number_of_those_before", || {
        let theirs = life(plain());
        let odd: Vec<_> = theirs.iter().filter(|it| !it.ends_with("leaves 4242")).collect();
        assert!(odd.is_empty(), "the kernel's: {odd:?}");
        let ours = accelerated();
        assert_eq!(life(ours), theirs);
        for unread in [false, true] {
            assert_eq!(death(accelerated(), unread), death(plain(), unread));
        }
        assert_eq!(moved_back(), 0, "all this was accelerated");
        // What is made on the way to an accelerated connection, and beside it.
        let before = joined();
        let young = used(0);
        let mut walk = Walk { pair: young, said: Vec::new() };
        for _ in 0..100 {
            walk.sent();
            walk.received();
            std::mem::swap(&mut walk.pair.a, &mut walk.pair.b);
        }
        assert_eq!(joined(), before + 2);
        assert!(walk.said.iter().all(|it| it.ends_with("leaves 4242")), "{:?}", walk.said);
    });
}

#[test]
fn calls_that_make_connections_leave_the_error_number_too() {
    preloaded("errors::calls_that_make_connections_leave_the_error_number_too", || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = match listener.local_addr().unwrap() {
            std::net::SocketAddr::V4(it) => libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: it.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(it.ip().octets()) },
                sin_zero: [0; 8],
            },
            other => panic!("{other}"),
        };
        let none = std::ptr::null_mut();
        for flags in [None, Some(libc::SOCK_CLOEXEC)] {
            let (mut a, mut b) = (-1, -1);
            let mut walk = Walk { pair: Pair { a, b }, said: Vec::new() };
            walk.call("socket", |_| {
                a = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
                a as isize
            });
            walk.call("connect", |_| unsafe {
                libc::connect(a, (&raw const address).cast(), size_of_val(&address) as c_uint)
                    as isize
            });
            walk.call("accept", |_| unsafe {
                b = match flags {
                    None => libc::accept(listener.as_raw_fd(), none, std::ptr::null_mut()),
                    Some(it) => libc::accept4(listener.as_raw_fd(), none, std::ptr::null_mut(), it),
                };
                b as isize
            });
            walk.pair = Pair { a, b };
            for _ in 0..100 {
                walk.sent();
                walk.received();
                std::mem::swap(&mut walk.pair.a, &mut walk.pair.b);
            }
            walk.call("close", |pair| unsafe { libc::close(pair.a) as isize });
            walk.call("close", |pair| unsafe { libc::close(pair.b) as isize });
            assert!(walk.said.iter().all(|it| it.ends_with("leaves 4242")), "{:?}", walk.said);
        }
    });
}

/// A call that brings a connection back.
type Way = fn(Pair) -> isize;

/// A call that brings a connection back succeeds as the kernel's, and so does what comes after.
#[test]
fn calls_on_the_way_back_leave_the_error_number_too() {
    preloaded("errors::calls_on_the_way_back_leave_the_error_number_too", || {
        let ways: [(&str, Way); 5] = [
            ("setsockopt", |pair| unsafe {
                let one: c_int = 1;
                let (level, name) = (libc::IPPROTO_IP, libc::IP_RECVTTL);
                libc::setsockopt(pair.b, level, name, (&raw const one).cast(), 4) as isize
            }),
            ("dprintf", |pair| unsafe { dprintf(pair.a, c"12345678".as_ptr()) as isize }),
            ("dup2", |pair| unsafe { libc::dup2(pair.a, 0) as isize }),
            ("splice", |pair| unsafe {
                let mut ends = [0; 2];
                libc::pipe(ends.as_mut_ptr());
                libc::write(ends[1], c"12345678".as_ptr().cast(), 8);
                let none = std::ptr::null_mut();
                libc::splice(ends[0], none, pair.a, none, 8, 0)
            }),
            ("F_SETFL", |pair| unsafe {
                libc::fcntl(pair.b, libc::F_SETFL, libc::O_ASYNC) as isize
            }),
        ];
        for (name, way) in ways {
            let [ours, theirs] = [accelerated(), plain()].map(|pair| {
                let mut walk = Walk { pair, said: Vec::new() };
                walk.sent();
                walk.call(name, way);
                walk.received();
                if matches!(name, "dprintf" | "splice") {
                    walk.received();
                }
                for _ in 0..5 {
                    walk.sent();
                    waits_for_end(&mut walk);
                    walk.received();
                    std::mem::swap(&mut walk.pair.a, &mut walk.pair.b);
                }
                walk.call("close", |pair| unsafe { libc::close(pair.b) as isize });
                walk.call("close", |pair| unsafe { libc::close(pair.a) as isize });
                walk.said
            });
            assert_eq!(ours, theirs);
        }
        assert_eq!(moved_back(), 10, "both ends of each");
    });
}

/// Calls on what is no connection.
#[test]
fn calls_on_other_descriptors_leave_the_error_number() {
    preloaded("errors::calls_on_other_descriptors_leave_the_error_number", || {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let pair = Pair { a: near.into_raw_fd(), b: far.into_raw_fd() };
        let _beside = accelerated();
        let mut walk = Walk { pair, said: Vec::new() };
        sends(&mut walk);
        receives(&mut walk);
        waits(&mut walk);
        instances(&mut walk);
        full(&mut walk);
        let odd: Vec<_> = walk.said.iter().filter(|it| !it.ends_with("leaves 4242")).collect();
        assert!(odd.is_empty(), "{odd:?}");
    });
}

extern "C" fn nothing(_: c_int) {}

/// A call that goes on after a handler has run succeeds as if there had been none.
#[test]
fn calls_that_go_on_after_a_handler_leave_the_error_number() {
    preloaded("errors::calls_that_go_on_after_a_handler_leave_the_error_number", || {
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
        for after in [3, 30] {
            let seen = [accelerated(), plain()].map(|pair| {
                let waiting = unsafe { libc::pthread_self() };
                let other = thread::spawn(move || unsafe {
                    thread::sleep(Duration::from_millis(after));
                    libc::pthread_kill(waiting, libc::SIGUSR1);
                    thread::sleep(Duration::from_millis(after));
                    libc::send(pair.a, [1u8; 8].as_ptr().cast(), 8, 0);
                });
                let mut walk = Walk { pair, said: Vec::new() };
                walk.received();
                other.join().unwrap();
                walk.said
            });
            assert_eq!(seen[0], seen[1], "after {after} ms");
        }
    });
}

/// A call that moves less than it was asked to says how much, and not why.
#[test]
fn calls_that_move_a_part_leave_the_error_number() {
    preloaded("errors::calls_that_move_a_part_leave_the_error_number", || {
        let ways: [fn(c_int) -> isize; 3] = [
            |fd| unsafe { libc::send(fd, vec![1u8; 1 << 24].as_ptr().cast(), 1 << 24, 0) },
            |fd| {
                let file = std::fs::File::open("/dev/zero").unwrap();
                let mut at = 0;
                unsafe { libc::sendfile(fd, file.as_raw_fd(), &mut at, 1 << 24) }
            },
            |fd| unsafe {
                let bytes = vec![1u8; 1 << 18];
                let mut parts = [part(bytes.as_ptr().cast_mut(), bytes.len()); 64];
                let mut messages = parts
                    .each_mut()
                    .map(|part| libc::mmsghdr { msg_hdr: header(part), msg_len: 0 });
                libc::sendmmsg(fd, messages.as_mut_ptr(), 64, libc::MSG_DONTWAIT) as isize
            },
        ];
        for way in ways {
            let seen = [accelerated(), plain()].map(|pair| {
                let mut walk = Walk { pair, said: Vec::new() };
                unsafe { libc::fcntl(pair.a, libc::F_SETFL, libc::O_NONBLOCK) };
                walk.call("a part", |pair| way(pair.a));
                let span = libc::timeval { tv_sec: 0, tv_usec: 10_000 };
                let (place, size) = ((&raw const span).cast(), size_of_val(&span) as c_uint);
                let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
                unsafe { libc::setsockopt(pair.a, level, name, place, size) };
                unsafe { libc::fcntl(pair.a, libc::F_SETFL, 0) };
                unsafe { libc::send(pair.b, b"half".as_ptr().cast(), 4, 0) };
                walk.message("a part", |pair, at, size| unsafe {
                    libc::recv(pair.a, at.cast(), size, libc::MSG_WAITALL)
                });
                walk.said
            });
            assert_eq!(seen[0], seen[1]);
        }
    });
}
