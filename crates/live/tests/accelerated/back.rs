//! The way back to the kernel: whatever makes a connection leave shared memory, every byte arrives
//! once and in order.

use std::ffi::CString;
use std::mem::zeroed;
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::Duration;

use libc::{c_int, c_void};

use crate::pair::{
    Numbers, Outcome, Pair, accelerated, close, joined, moved_back, outcome, plain, poll,
    preloaded, recv, send, unread, used,
};

unsafe extern "C" {
    fn dprintf(fd: c_int, format: *const libc::c_char, ...) -> c_int;
}

pub fn print(fd: c_int, text: &str) -> Outcome<usize> {
    let text = CString::new(text).unwrap();
    outcome(unsafe { dprintf(fd, c"%s".as_ptr(), text.as_ptr()) } as isize)
}

/// Passes a descriptor through a Unix socket of this process; what comes out the library has never
/// seen.
pub fn pass(fd: c_int) -> c_int {
    let mut ends = [0; 2];
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()), 0);
        let mut byte = 0u8;
        let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut control = [0u64; 4];
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        *libc::CMSG_DATA(header).cast::<c_int>() = fd;
        assert_eq!(libc::sendmsg(ends[0], &message, 0), 1);
        assert_eq!(libc::recvmsg(ends[1], &mut message, 0), 1);
        let passed = *libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message)).cast::<c_int>();
        close(ends[0]);
        close(ends[1]);
        passed
    }
}

/// Reads past the library.
pub fn bare_read(fd: c_int, room: usize) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0u8; room];
    let none: *mut c_void = std::ptr::null_mut();
    let count =
        unsafe { libc::syscall(libc::SYS_recvfrom, fd, bytes.as_mut_ptr(), room, 0, none, none) };
    bytes.truncate(outcome(count as isize)?);
    Ok(bytes)
}

pub fn bare_read_all(fd: c_int, wanted: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < wanted {
        let more = bare_read(fd, wanted - bytes.len()).unwrap();
        assert!(!more.is_empty(), "the end after {} of {wanted} bytes", bytes.len());
        bytes.extend(more);
    }
    bytes
}

pub fn bare_write(fd: c_int, bytes: &[u8]) {
    let count = unsafe { libc::syscall(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) };
    assert_eq!(count as usize, bytes.len());
}

pub fn pattern(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8).collect()
}

#[test]
fn what_was_in_the_rings_is_read_before_what_the_kernel_carries() {
    preloaded("back::what_was_in_the_rings_is_read_before_what_the_kernel_carries", || {
        let pair = accelerated();
        send(pair.a, b"one ", 0).unwrap();
        send(pair.b, b"eins ", 0).unwrap();
        print(pair.a, "two ").unwrap();
        send(pair.a, b"three", 0).unwrap();
        send(pair.b, b"zwei ", 0).unwrap();
        print(pair.b, "drei").unwrap();
        assert_eq!(recv(pair.b, 4, 0), Ok(b"one ".to_vec()));
        assert_eq!(recv(pair.b, 9, libc::MSG_WAITALL), Ok(b"two three".to_vec()));
        assert_eq!(recv(pair.a, 14, libc::MSG_WAITALL), Ok(b"eins zwei drei".to_vec()));
        assert_eq!(unread(pair.a) + unread(pair.b), 0);
        assert_eq!(moved_back(), 2, "both ends went back");
        close(pair.a);
        assert_eq!(recv(pair.b, 1, 0), Ok(vec![]));
    });
}

/// A connection whose ends have joined by what goes one way, while what was sent before lies in the
/// kernel the other way.
pub fn joined_behind(what: impl Fn(c_int)) -> Pair {
    let before = joined();
    let pair = used(0);
    what(pair.a);
    // The more was sent in vain, the later an end looks for the other again.
    let mut exchanges = 0;
    while joined() != before + 2 {
        assert!(exchanges < 10_000, "the ends do not join");
        for _ in 0..100 {
            send(pair.b, b"x", 0).unwrap();
            assert_eq!(recv(pair.a, 1, 0), Ok(b"x".to_vec()));
        }
        exchanges += 100;
    }
    pair
}

pub fn send_early(fd: c_int) {
    assert_eq!(send(fd, b"early ", 0), Ok(6));
}

#[test]
fn what_is_unread_is_counted_wherever_it_lies() {
    preloaded("back::what_is_unread_is_counted_wherever_it_lies", || {
        let pair = joined_behind(send_early);
        assert_eq!(unread(pair.b), 6);
        send(pair.a, b"then ", 0).unwrap();
        assert_eq!(unread(pair.b), 11, "in the kernel and in the ring");
        assert_eq!(recv(pair.b, 2, 0), Ok(b"ea".to_vec()));
        assert_eq!(unread(pair.b), 9);
        // The next goes by the kernel again.
        print(pair.a, "late").unwrap();
        assert_eq!(unread(pair.b), 13, "before the ring, in it, and after it");
        for (text, left) in [(b"rly ".as_slice(), 9), (b"the", 6), (b"n ", 4), (b"lat", 1)] {
            assert_eq!(recv(pair.b, text.len(), 0), Ok(text.to_vec()));
            assert_eq!(unread(pair.b), left);
        }
        assert_eq!(recv(pair.b, 9, 0), Ok(b"e".to_vec()));
        assert_eq!(unread(pair.b), 0);
    });
}

/// Whoever is given less than there was room for takes it that there is no more, and waits for the
/// next edge.
#[test]
fn a_receive_goes_on_from_the_kernel_into_the_ring() {
    preloaded("back::a_receive_goes_on_from_the_kernel_into_the_ring", || {
        let pair = joined_behind(send_early);
        send(pair.a, b"then", 0).unwrap();
        assert_eq!(recv(pair.b, 100, libc::MSG_DONTWAIT), Ok(b"early then".to_vec()));
        assert_eq!(recv(pair.b, 100, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
    });
}

/// The same for one that looks and takes nothing, and into a vector of several parts.
#[test]
fn a_look_goes_on_from_the_kernel_into_the_ring() {
    preloaded("back::a_look_goes_on_from_the_kernel_into_the_ring", || {
        let pair = joined_behind(send_early);
        let (peek, without) = (libc::MSG_PEEK, libc::MSG_DONTWAIT);
        assert_eq!(recv(pair.b, 100, peek), Ok(b"early ".to_vec()), "nothing follows yet");
        send(pair.a, b"then", 0).unwrap();
        for room in 1..12 {
            let seen = b"early then"[..room.min(10)].to_vec();
            assert_eq!(recv(pair.b, room, peek | without), Ok(seen.clone()));
            assert_eq!(crate::recvmsg(pair.b, room, peek), Ok(seen));
        }
        assert_eq!(recv(pair.b, 2, 0), Ok(b"ea".to_vec()));
        assert_eq!(recv(pair.b, 100, peek), Ok(b"rly then".to_vec()));
        // What the kernel carries after the ring is not there yet to one who looks.
        print(pair.a, " late").unwrap();
        assert!(recv(pair.b, 100, peek).unwrap().starts_with(b"rly then"));
        assert_eq!(crate::recvmsg(pair.b, 8, 0), Ok(b"rly then".to_vec()));
        assert_eq!(recv(pair.b, 5, libc::MSG_WAITALL), Ok(b" late".to_vec()));
    });
}

/// What each end of a pair has received so far.
type Got = [Vec<u8>; 2];

/// One call, and what it shows. How much a receive takes is not compared: where the ring ends, a
/// receive may.
fn step(pair: Pair, got: &mut Got, what: u64, near: usize, text: &[u8]) -> String {
    let (from, to) = if near == 0 { (pair.a, pair.b) } else { (pair.b, pair.a) };
    let size = text.len();
    match what {
        0..=2 => format!("{:?}", send(from, text, 0)),
        3 => format!("{:?}", print(from, "back")),
        4 | 5 => {
            let bytes = recv(to, size, libc::MSG_DONTWAIT).unwrap_or_default();
            got[1 - near].extend(bytes);
            String::new()
        }
        6 => {
            let seen = recv(to, size, libc::MSG_DONTWAIT | libc::MSG_PEEK).unwrap_or_default();
            let taken = recv(to, seen.len(), libc::MSG_DONTWAIT).unwrap_or_default();
            assert_eq!(taken, seen, "what was looked at is taken");
            got[1 - near].extend(taken);
            String::new()
        }
        _ => format!("{:x}", poll(to, libc::POLLIN | libc::POLLOUT, 0) & libc::POLLOUT),
    }
}

/// The same calls on an accelerated connection, which goes back in their middle, and on a plain one.
#[test]
fn a_connection_that_goes_back_at_any_moment_carries_what_the_kernel_carries() {
    preloaded(
        "back::a_connection_that_goes_back_at_any_moment_carries_what_the_kernel_carries",
        || {
            for seed in 0..300 {
                let mut numbers = Numbers(seed);
                let pairs = [accelerated(), plain()];
                let mut got = [Got::default(), Got::default()];
                for at in 0..40 {
                    let what = if at < 10 { 4 * numbers.below(2) } else { numbers.below(8) };
                    let (near, size) = (numbers.below(2) as usize, 1 + numbers.below(90) as usize);
                    let text = pattern(at * 7, size);
                    let [ours, theirs] =
                        [0, 1].map(|it| step(pairs[it], &mut got[it], what, near, &text));
                    assert_eq!(ours, theirs, "seed {seed}, step {at}, call {what}");
                }
                for (pair, got) in pairs.into_iter().zip(&mut got) {
                    for (from, to, end) in [(pair.a, pair.b, 1), (pair.b, pair.a, 0)] {
                        unsafe { libc::shutdown(from, libc::SHUT_WR) };
                        got[end].extend(all(to));
                    }
                    close(pair.a);
                    close(pair.b);
                }
                assert!(got[0] == got[1], "seed {seed}");
            }
        },
    );
}

fn all(fd: c_int) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = recv(fd, 1000, 0).unwrap();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend(more);
    }
}

/// How an end waits for what it is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    Receive,
    Poll,
    Select,
    Epoll,
    /// For the end alone.
    End,
    Nowhere,
}

pub fn wait_for_input(fd: c_int, how: Wait) {
    match how {
        Wait::Receive | Wait::Nowhere => {}
        Wait::Poll => assert_eq!(poll(fd, libc::POLLIN, 20_000), libc::POLLIN),
        Wait::End => assert_eq!(poll(fd, libc::POLLRDHUP, 20_000), libc::POLLRDHUP),
        Wait::Select => unsafe {
            let mut set: libc::fd_set = zeroed();
            libc::FD_SET(fd, &mut set);
            let (none, mut time) = (null_mut(), libc::timeval { tv_sec: 20, tv_usec: 0 });
            assert_eq!(libc::select(fd + 1, &mut set, none, none, &mut time), 1);
            assert!(libc::FD_ISSET(fd, &set));
        },
        Wait::Epoll => unsafe {
            let epoll = libc::epoll_create1(0);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
            assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event), 0);
            assert_eq!(libc::epoll_wait(epoll, &mut event, 1, 20_000), 1);
            close(epoll);
        },
    }
}

/// The port of this end.
fn port(fd: c_int) -> u16 {
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    let place = (&raw mut address).cast();
    assert_eq!(unsafe { libc::getsockname(fd, place, &mut length) }, 0);
    address.sin_port
}

/// The other end waits for an answer; meanwhile the descriptor leaves with everything unread. Whether
/// it stays the same connection.
fn leaves_whole(how: Wait, size: usize) -> bool {
    let pair = accelerated();
    let sent = pattern(0, size);
    send(pair.a, &sent, 0).unwrap();
    assert_eq!(recv(pair.b, 5, libc::MSG_WAITALL), Ok(sent[..5].to_vec()));
    let peer = std::thread::spawn(move || {
        if how == Wait::Nowhere {
            std::thread::sleep(Duration::from_millis(800));
        }
        wait_for_input(pair.a, how);
        assert_eq!(recv(pair.a, 6, libc::MSG_WAITALL), Ok(b"answer".to_vec()));
        send(pair.a, b"after", 0).unwrap();
    });
    std::thread::sleep(Duration::from_millis(50));
    let before = port(pair.b);
    let passed = pass(pair.b);
    let stays = port(passed) == before;
    assert_eq!(bare_read_all(passed, size - 5), sent[5..], "{how:?}");
    bare_write(passed, b"answer");
    assert_eq!(bare_read_all(passed, 5), b"after", "{how:?}");
    peer.join().unwrap();
    close(pair.a);
    close(pair.b);
    assert_eq!(bare_read(passed, 1), Ok(vec![]));
    close(passed);
    stays
}

#[test]
fn a_descriptor_that_is_passed_on_takes_all_unread_bytes_with_it() {
    preloaded("back::a_descriptor_that_is_passed_on_takes_all_unread_bytes_with_it", || {
        for how in [Wait::Receive, Wait::Poll, Wait::Select, Wait::Epoll, Wait::Nowhere] {
            let stayed = [11, 3000, 200_000].map(|size| leaves_whole(how, size));
            // Who waits hears of it, unless others take its processor for 0.3 s.
            assert!(how == Wait::Nowhere || stayed.contains(&true), "{how:?}: nobody heard of it");
        }
    });
}

#[test]
fn a_descriptor_whose_peer_has_closed_takes_all_unread_bytes_with_it() {
    preloaded("back::a_descriptor_whose_peer_has_closed_takes_all_unread_bytes_with_it", || {
        let pair = accelerated();
        let sent = pattern(0, 100_000);
        send(pair.a, &sent, 0).unwrap();
        close(pair.a);
        let passed = pass(pair.b);
        assert_eq!(bare_read_all(passed, sent.len()), sent);
        assert_eq!(bare_read(passed, 1), Ok(vec![]));
        close(passed);
        close(pair.b);
    });
}

/// Lets a descriptor stay open over `exec`, and runs a program with it as its input and output.
fn run_with(fd: c_int, program: &[&str]) -> std::process::Child {
    let copy = || unsafe { Stdio::from_raw_fd(libc::dup(fd)) };
    Command::new(program[0]).args(&program[1..]).stdin(copy()).stdout(copy()).spawn().unwrap()
}

#[test]
fn a_program_that_inherits_a_connection_finds_all_unread_bytes() {
    preloaded("back::a_program_that_inherits_a_connection_finds_all_unread_bytes", || {
        for preload in [true, false] {
            let pair = accelerated();
            let sent = pattern(0, 150_000);
            send(pair.a, &sent, 0).unwrap();
            let peer = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                while bytes.len() < 150_000 {
                    bytes.extend(recv(pair.a, 4096, 0).unwrap());
                }
                unsafe { libc::shutdown(pair.a, libc::SHUT_WR) };
                assert_eq!(recv(pair.a, 1, 0), Ok(vec![]));
                bytes
            });
            let program = if preload { &["cat"][..] } else { &["env", "-u", "LD_PRELOAD", "cat"] };
            let mut child = run_with(pair.b, program);
            close(pair.b);
            assert_eq!(peer.join().unwrap(), sent);
            assert!(child.wait().unwrap().success());
            close(pair.a);
        }
    });
}

/// A process that fails to become another program holds its connections on.
#[test]
fn a_program_that_cannot_be_run_changes_nothing() {
    preloaded("back::a_program_that_cannot_be_run_changes_nothing", || {
        let pair = accelerated();
        for fd in [pair.a, pair.b] {
            assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
        }
        let mut told = [0; 2];
        assert_eq!(unsafe { libc::pipe(told.as_mut_ptr()) }, 0);
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut byte = 0u8;
            unsafe { libc::read(told[0], (&raw mut byte).cast(), 1) };
            close(pair.a);
            close(pair.b);
            unsafe { libc::_exit(0) };
        }
        let none = [std::ptr::null()];
        let run = unsafe { libc::execve(c"/nowhere".as_ptr(), none.as_ptr(), none.as_ptr()) };
        assert_eq!(outcome(run as isize), Err(libc::ENOENT));
        send(pair.a, b"to whoever reads", 0).unwrap();
        unsafe {
            libc::write(told[1], c"!".as_ptr().cast(), 1);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(recv(pair.b, 16, 0), Ok(b"to whoever reads".to_vec()));
        send(pair.b, b"answer", 0).unwrap();
        assert_eq!(recv(pair.a, 6, 0), Ok(b"answer".to_vec()));
        assert_eq!(moved_back(), 0);
    });
}

#[test]
fn urgent_data_and_unaccelerated_options_bring_the_connection_back() {
    preloaded("back::urgent_data_and_unaccelerated_options_bring_the_connection_back", || {
        let pair = accelerated();
        send(pair.a, b"before", 0).unwrap();
        assert_eq!(send(pair.a, b"!", libc::MSG_OOB), Ok(1));
        assert_eq!(recv(pair.b, 10, 0), Ok(b"before".to_vec()));
        assert_eq!(poll(pair.b, libc::POLLPRI, 1000), libc::POLLPRI);
        assert_eq!(recv(pair.b, 1, libc::MSG_OOB), Ok(b"!".to_vec()));

        let pair = accelerated();
        send(pair.a, b"abc", 0).unwrap();
        let two: c_int = 2;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
        let set =
            unsafe { libc::setsockopt(pair.b, level, name, (&raw const two).cast::<c_void>(), 4) };
        assert_eq!(set, 0);
        assert_eq!(recv(pair.b, 10, 0), Ok(b"abc".to_vec()));
        send(pair.a, b"d", 0).unwrap();
        assert_eq!(poll(pair.b, libc::POLLIN, 20), 0, "one byte is below the mark");
    });
}

#[test]
fn bare_calls_through_the_c_library_find_all_unread_bytes() {
    preloaded("back::bare_calls_through_the_c_library_find_all_unread_bytes", || {
        let pair = accelerated();
        let sent = pattern(0, 30_000);
        send(pair.a, &sent, 0).unwrap();
        let peer = std::thread::spawn(move || recv(pair.a, 6, libc::MSG_WAITALL));
        assert_eq!(bare_read_all(pair.b, sent.len()), sent);
        bare_write(pair.b, b"answer");
        assert_eq!(peer.join().unwrap(), Ok(b"answer".to_vec()));
        assert_eq!(moved_back(), 2);
    });
}

#[test]
fn a_process_that_sets_io_uring_up_carries_nothing() {
    preloaded("back::a_process_that_sets_io_uring_up_carries_nothing", || {
        let pair = accelerated();
        let mut parameters = [0u8; 256];
        // Where the kernel forbids it the program has asked nevertheless.
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) };
        assert_eq!(moved_back(), 2);
        send(pair.a, b"on", 0).unwrap();
        assert_eq!(recv(pair.b, 2, 0), Ok(b"on".to_vec()));
    });
}

/// Streams in both directions while either end goes back.
#[test]
fn long_streams_arrive_whole_while_they_go_back() {
    preloaded("back::long_streams_arrive_whole_while_they_go_back", || {
        for seed in 0..30 {
            const BYTES: usize = 1 << 20;
            let pair = accelerated();
            let ways: Vec<_> = [(pair.a, pair.b), (pair.b, pair.a)]
                .into_iter()
                .flat_map(|(from, to)| {
                    let writer = std::thread::spawn(move || {
                        let mut numbers = Numbers(seed * 2 + from as u64);
                        let (mut at, when) = (0, numbers.below(BYTES as u64) as usize);
                        let mut turned = from == pair.a;
                        while at < BYTES {
                            if at > when && !turned {
                                turned = true;
                                let text = String::from_utf8(vec![b'x'; 9]).unwrap();
                                assert_eq!(print(from, &text), Ok(9));
                            }
                            let size = (1 << numbers.below(17)).min(BYTES - at);
                            assert_eq!(send(from, &pattern(at, size), 0), Ok(size));
                            at += size;
                        }
                        unsafe { libc::shutdown(from, libc::SHUT_WR) };
                    });
                    let reader = std::thread::spawn(move || {
                        let mut numbers = Numbers(seed * 2 + to as u64);
                        let mut bytes = Vec::new();
                        loop {
                            let more = recv(to, 1 << numbers.below(17), 0).unwrap();
                            if more.is_empty() {
                                break;
                            }
                            bytes.extend(more);
                        }
                        let strays = bytes.len() - BYTES;
                        assert!(strays == 0 || strays == 9, "{strays}");
                        let Some(at) = (strays > 0)
                            .then(|| bytes.windows(9).position(|it| it == b"xxxxxxxxx"))
                            .flatten()
                        else {
                            assert!(bytes == pattern(0, BYTES));
                            return;
                        };
                        bytes.drain(at..at + 9);
                        assert!(bytes == pattern(0, BYTES));
                    });
                    [writer, reader]
                })
                .collect();
            for thread in ways {
                thread.join().unwrap();
            }
            close(pair.a);
            close(pair.b);
        }
    });
}

/// Both ends go back in the middle of an exchange that each waits for in another way.
#[test]
fn no_wake_up_is_lost_on_the_way_back() {
    preloaded("back::no_wake_up_is_lost_on_the_way_back", || {
        let kinds = [Wait::Receive, Wait::Poll, Wait::Select, Wait::Epoll];
        for seed in 0..60u64 {
            let how = [kinds[seed as usize % 3], kinds[seed as usize / 3 % 3]];
            let pair = accelerated();
            let other = std::thread::spawn(move || echo(pair.b, how[1], seed + 7));
            exchange(pair, how[0], seed);
            other.join().unwrap();
            close(pair.a);
            close(pair.b);
        }
    });
}

const ROUNDS: u64 = 60;

fn exchange(pair: Pair, how: Wait, seed: u64) {
    for round in 0..ROUNDS {
        if round == seed * 11 % ROUNDS {
            assert_eq!(print(pair.a, "z"), Ok(1));
        } else {
            send(pair.a, b"z", 0).unwrap();
        }
        wait_for_input(pair.a, how);
        assert_eq!(recv(pair.a, 1, 0), Ok(b"z".to_vec()));
    }
}

fn echo(fd: c_int, how: Wait, seed: u64) {
    for round in 0..ROUNDS {
        wait_for_input(fd, how);
        assert_eq!(recv(fd, 1, 0), Ok(b"z".to_vec()));
        if round == seed * 13 % ROUNDS {
            assert_eq!(print(fd, "z"), Ok(1));
        } else {
            send(fd, b"z", 0).unwrap();
        }
    }
}

#[test]
fn a_thread_in_a_call_keeps_the_connection_that_it_has_called_on() {
    preloaded("back::a_thread_in_a_call_keeps_the_connection_that_it_has_called_on", || {
        const BYTES: usize = 32 << 20;
        let (pair, bytes) = (accelerated(), pattern(0, BYTES));
        assert_eq!(send(pair.a, b"unread", 0), Ok(6));
        let before = port(pair.b);
        let writer = std::thread::spawn(move || {
            let mut done = 0;
            while done < BYTES {
                done += send(pair.b, &bytes[done..], 0).unwrap();
            }
        });
        // From its first byte on the writer stays in a call, which nobody reads to its end.
        while unread(pair.a) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Nobody at the other end hears of it, so the rest cannot be sent anew.
        assert_eq!(unsafe { libc::fcntl(pair.b, libc::F_SETFD, 0) }, 0);
        assert_eq!(unsafe { libc::system(c"true".as_ptr()) }, 0);
        assert_eq!(port(pair.b), before, "nothing was put in the place of the connection");
        let mut got = Vec::new();
        while got.len() < BYTES {
            got.extend(recv(pair.a, 1 << 16, 0).unwrap());
        }
        assert!(got == pattern(0, BYTES));
        writer.join().unwrap();
        assert_eq!(recv(pair.b, 10, 0), Ok(b"unread".to_vec()));
        assert_eq!(send(pair.a, b"after", 0), Ok(5));
        assert_eq!(recv(pair.b, 10, 0), Ok(b"after".to_vec()));
    });
}
