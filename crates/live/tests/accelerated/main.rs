//! What a program sees on an accelerated connection, held against what it sees on the kernel's.
//!
//! Each test runs its body in a process of its own with the library preloaded. There both ends of a
//! accelerated connection are in the one process, so that the order of all calls is known; the
//! connection to compare with is made past the library, by bare system calls.
//!
//! All unsafe blocks but the last are C calls whose pointers are of local variables that outlive
//! them; the last writes into a mapping of this process.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test helper that cannot go on fails its test"
)]

mod asked;
mod at_once;
mod back;
mod cancelled;
mod copied;
mod early;
mod edges;
mod endings;
mod entries;
mod errors;
mod full;
mod halves;
mod idle;
mod kernels;
mod leaving;
mod mesh;
mod names;
mod options;
mod pair;
mod passing;
mod room;
mod sleepers;
mod sought;
mod streams;
mod taken;
mod unknown;
mod watched;

use std::mem::zeroed;
use std::os::fd::IntoRawFd;
use std::sync::mpsc::RecvTimeoutError;

use libc::c_int;

use pair::{
    Numbers, Outcome, Pair, accelerated, close, joined, outcome, plain, poll, preloaded, recv,
    send, unread,
};

const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;

fn writev(fd: c_int, bytes: &[u8]) -> Outcome<usize> {
    let half = bytes.len() / 2;
    let parts = [&bytes[..half], &bytes[half..]]
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    outcome(unsafe { libc::writev(fd, parts.as_ptr(), 2) })
}

fn recvmsg(fd: c_int, room: usize, flags: c_int) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0u8; room];
    let (head, tail) = bytes.split_at_mut(room / 3);
    let mut parts = [head, tail]
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), 2);
    let count = outcome(unsafe { libc::recvmsg(fd, &mut message, flags) })?;
    bytes.truncate(count);
    Ok(bytes)
}

/// One step of an arbitrary sequence, and all that it shows.
fn step(pair: Pair, what: u64, size: usize, content: &[u8]) -> String {
    let (near, far) = if what & 1 == 0 { (pair.a, pair.b) } else { (pair.b, pair.a) };
    let without = libc::MSG_DONTWAIT;
    match what >> 1 {
        0 | 1 => format!("{:?}", send(near, &content[..size], 0)),
        2 => format!("{:?}", writev(near, &content[..size])),
        3 | 4 => format!("{:?}", recv(far, size, without)),
        5 => format!("{:?}", recv(far, size, without | libc::MSG_PEEK)),
        6 => format!("{:?}", recvmsg(far, size, without)),
        7 => format!("{:?}", recvmsg(far, size, without | libc::MSG_PEEK)),
        8 => format!("{:?}", recv(far, size, without | libc::MSG_WAITALL)),
        9 => format!("{:x}", poll(far, ALL, 0)),
        10 => format!("{}", unread(far)),
        _ => format!("{:?}", recv(far, size, without | libc::MSG_OOB)),
    }
}

#[test]
fn arbitrary_sequences_show_what_the_kernel_shows() {
    preloaded("arbitrary_sequences_show_what_the_kernel_shows", || {
        let content: Vec<u8> = (0..2000u32).map(|byte| (byte * 7 % 251) as u8).collect();
        for seed in 0..60 {
            let mut numbers = Numbers(seed);
            let (ours, theirs) = (accelerated(), plain());
            for at in 0..300 {
                let (what, size) = (numbers.below(24), numbers.below(1000) as usize);
                let start = numbers.below(1000) as usize;
                let bytes = &content[start..];
                let (ours, theirs) =
                    (step(ours, what, size, bytes), step(theirs, what, size, bytes));
                let note = format!("seed {seed}, step {at}, call {what} of {size} bytes");
                assert_eq!((ours.len(), &ours), (theirs.len(), &theirs), "{note}");
            }
            ending(&mut numbers, ours, theirs);
        }
    });
}

/// The outcome of a receive in few words.
fn short(received: Outcome<Vec<u8>>) -> String {
    let sum =
        |bytes: &Vec<u8>| bytes.iter().fold(0u32, |sum, byte| sum * 31 % 65_521 + *byte as u32);
    format!("{:?}", received.map(|bytes| (bytes.len(), sum(&bytes))))
}

/// Shuts down, closes and goes on using the other end, in some order.
fn ending(numbers: &mut Numbers, ours: Pair, theirs: Pair) {
    let order: Vec<u64> = (0..8).map(|_| numbers.below(6)).collect();
    let both = [ours, theirs].map(|pair| {
        let mut seen = Vec::new();
        for what in &order {
            let shown = match what {
                0 => format!("{}", unsafe { libc::shutdown(pair.a, libc::SHUT_WR) }),
                1 => format!("{:?}", send(pair.b, b"after", 0)),
                2 => short(recv(pair.a, 4000, libc::MSG_DONTWAIT)),
                3 => short(recv(pair.b, 4000, libc::MSG_DONTWAIT)),
                4 => format!("{:?}", send(pair.a, b"after", 0)),
                _ => format!("{:x} {:x}", poll(pair.a, ALL, 0), poll(pair.b, ALL, 0)),
            };
            seen.push(shown);
        }
        let unread = unread(pair.a);
        close(pair.a);
        seen.push(format!("{unread} unread"));
        for _ in 0..40 {
            match recv(pair.b, 1000, libc::MSG_DONTWAIT) {
                Ok(bytes) if !bytes.is_empty() => seen.push(format!("{} read", bytes.len())),
                end => {
                    seen.push(format!("{end:?}"));
                    break;
                }
            }
        }
        seen.push(format!("{:?}", recv(pair.b, 1, libc::MSG_DONTWAIT)));
        close(pair.b);
        seen
    });
    assert_eq!(both[0], both[1], "calls {order:?}");
}

fn epoll_events(epoll: c_int) -> Vec<(u32, u64)> {
    let mut events: [libc::epoll_event; 8] = unsafe { zeroed() };
    let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 8, 0) };
    let mut seen: Vec<_> =
        events[..count as usize].iter().map(|event| (event.events, event.u64)).collect();
    seen.sort_unstable();
    seen
}

fn epoll_control(epoll: c_int, operation: c_int, fd: c_int, events: u32) -> c_int {
    let mut event = libc::epoll_event { events, u64: 7 };
    unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) }
}

#[test]
fn epoll_reports_what_the_kernel_reports() {
    preloaded("epoll_reports_what_the_kernel_reports", || {
        let edge = libc::EPOLLET as u32;
        let (read, write) = (libc::EPOLLIN as u32, libc::EPOLLOUT as u32);
        let once = libc::EPOLLONESHOT as u32;
        let hangup = libc::EPOLLRDHUP as u32;
        for seed in 0..40 {
            let mut numbers = Numbers(1000 + seed);
            let (ours, theirs) = (accelerated(), plain());
            let kinds = [read, read | edge, read | once, read | write | edge, read | hangup | edge];
            let kind = kinds[seed as usize % kinds.len()];
            let make = || unsafe { libc::epoll_create1(0) };
            let (our_epoll, their_epoll) = (make(), make());
            assert_eq!(epoll_control(our_epoll, libc::EPOLL_CTL_ADD, ours.b, kind), 0);
            assert_eq!(epoll_control(their_epoll, libc::EPOLL_CTL_ADD, theirs.b, kind), 0);
            let mut history = Vec::new();
            for _ in 0..100 {
                let (what, size) = (numbers.below(8), 1 + numbers.below(90) as usize);
                history.push((what, size));
                let seen =
                    [(ours, our_epoll), (theirs, their_epoll)].map(|(pair, epoll)| match what {
                        0 => format!("{:?}", send(pair.a, &[1; 90][..size], 0)),
                        1 => format!("{:?}", recv(pair.b, size, libc::MSG_DONTWAIT)),
                        2..5 => {
                            let how =
                                [libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL, libc::EPOLL_CTL_ADD];
                            let how = how[what as usize - 2];
                            let result = epoll_control(epoll, how, pair.b, kind);
                            format!("{:?}", outcome(result as isize))
                        }
                        _ => format!("{:?}", epoll_events(epoll)),
                    });
                assert_eq!(seen[0], seen[1], "kind {kind:x}: {history:?}");
            }
            for pair in [ours, theirs] {
                unsafe { libc::shutdown(pair.a, libc::SHUT_WR) };
            }
            assert_eq!(epoll_events(our_epoll), epoll_events(their_epoll), "kind {kind:x}");
            for fd in [ours.a, ours.b, theirs.a, theirs.b, our_epoll, their_epoll] {
                close(fd);
            }
        }
    });
}

/// More connections than an instance looks at in each wait: those that are quiet grow cold, and each
/// is reported when it is not.
#[test]
fn an_instance_reports_each_of_many_connections() {
    preloaded("an_instance_reports_each_of_many_connections", || {
        const MANY: usize = 150;
        let kinds = [libc::EPOLLIN as u32, (libc::EPOLLIN | libc::EPOLLET) as u32];
        let epoll = unsafe { libc::epoll_create1(0) };
        let pairs: Vec<_> = (0..MANY).map(|_| accelerated()).collect();
        for (at, pair) in pairs.iter().enumerate() {
            let mut event = libc::epoll_event { events: kinds[at % 2], u64: at as u64 };
            let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, pair.b, &mut event) };
            assert_eq!(added, 0);
        }
        let one = |timeout: c_int| -> Vec<u64> {
            let mut events: [libc::epoll_event; 4] = unsafe { zeroed() };
            let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 4, timeout) };
            events[..count as usize].iter().map(|event| event.u64).collect()
        };
        // Two are busy for long, the others quiet.
        for round in 0..200u8 {
            for busy in [3, 90] {
                send(pairs[busy].a, &[round], 0).unwrap();
                assert_eq!(one(5000), [busy as u64]);
                assert_eq!(recv(pairs[busy].b, 1, 0), Ok(vec![round]));
            }
            assert_eq!(one(0), []);
        }
        let mut numbers = Numbers(5);
        for _ in 0..500 {
            let who = numbers.below(MANY as u64) as usize;
            let pair = pairs[who];
            let other = std::thread::spawn(move || send(pair.a, b"news", 0));
            assert_eq!(one(5000), [who as u64]);
            assert_eq!(recv(pairs[who].b, 4, libc::MSG_WAITALL), Ok(b"news".to_vec()));
            other.join().unwrap().unwrap();
        }
        // A full ring that gets room again is an event of a quiet connection too.
        for (at, pair) in pairs.iter().enumerate() {
            let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
            let mut event = libc::epoll_event { events, u64: at as u64 };
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, pair.b, &mut event) };
        }
        while !one(0).is_empty() {}
        for _ in 0..100 {
            assert_eq!(one(0), []);
        }
        while send(pairs[77].b, &[1; 10_000], libc::MSG_DONTWAIT).is_ok() {}
        assert_eq!(one(0), []);
        while unread(pairs[77].a) > 0 {
            recv(pairs[77].a, 10_000, 0).unwrap();
        }
        assert_eq!(one(5000), [77]);
        // The end of a quiet connection.
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 120 };
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, pairs[120].b, &mut event) };
        for _ in 0..100 {
            assert_eq!(one(0), []);
        }
        close(pairs[120].a);
        assert_eq!(one(5000), [120]);
    });
}

#[test]
fn an_instance_that_knew_the_connection_before_it_joined_follows_it() {
    preloaded("an_instance_that_knew_the_connection_before_it_joined_follows_it", || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap().into_raw_fd();
        let b = listener.accept().unwrap().0.into_raw_fd();
        let epoll = unsafe { libc::epoll_create1(0) };
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, b, libc::EPOLLIN as u32), 0);
        for round in 0..100u8 {
            assert_eq!(send(a, &[round], 0), Ok(1));
            assert_eq!(epoll_events(epoll), [(libc::EPOLLIN as u32, 7)]);
            assert_eq!(recv(b, 1, 0), Ok(vec![round]));
            assert_eq!(epoll_events(epoll), []);
            assert_eq!(send(b, &[round], 0), Ok(1));
            assert_eq!(recv(a, 1, 0), Ok(vec![round]));
        }
        assert_eq!(joined(), 2);
    });
}

#[test]
fn a_full_ring_pushes_back_and_room_is_an_event() {
    preloaded("a_full_ring_pushes_back_and_room_is_an_event", || {
        let pair = accelerated();
        let mut sent = 0;
        let end = loop {
            match send(pair.a, &[9; 10_000], libc::MSG_DONTWAIT) {
                Ok(count) => sent += count,
                Err(why) => break why,
            }
        };
        assert_eq!(end, libc::EAGAIN);
        assert_eq!(poll(pair.a, libc::POLLOUT, 0), 0);
        assert_eq!(unread(pair.b) as usize, sent);
        let reader = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            let mut read = 0;
            while read < sent {
                read += recv(pair.b, 10_000, 0).unwrap().len();
            }
        });
        assert_eq!(poll(pair.a, libc::POLLOUT, 10_000), libc::POLLOUT);
        reader.join().unwrap();
    });
}

/// Streams in both directions at once, in messages of all sizes, sleeping on both sides.
#[test]
fn long_streams_arrive_whole_in_both_directions() {
    preloaded("long_streams_arrive_whole_in_both_directions", || {
        const BYTES: usize = 24 << 20;
        let pair = accelerated();
        let pattern = |at: usize| (at % 65_521 % 251) as u8;
        let threads: Vec<_> = [(pair.a, pair.b), (pair.b, pair.a)]
            .into_iter()
            .flat_map(|(from, to)| {
                let writer = std::thread::spawn(move || {
                    let mut numbers = Numbers(from as u64);
                    let mut at = 0;
                    while at < BYTES {
                        let size = (1 << numbers.below(20)).min(BYTES - at);
                        let bytes: Vec<u8> = (at..at + size).map(pattern).collect();
                        assert_eq!(send(from, &bytes, 0), Ok(size), "a blocking send is whole");
                        at += size;
                    }
                    assert_eq!(unsafe { libc::shutdown(from, libc::SHUT_WR) }, 0);
                });
                let reader = std::thread::spawn(move || {
                    let mut numbers = Numbers(to as u64 + 100);
                    let mut at = 0;
                    loop {
                        let bytes = recv(to, 1 << numbers.below(20), 0).unwrap();
                        if bytes.is_empty() {
                            break;
                        }
                        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(at + i)));
                        at += bytes.len();
                    }
                    assert_eq!(at, BYTES);
                });
                [writer, reader]
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The server only reads and the client, which does not block, waits for room: the server's
/// doorbells must not end up among its bytes.
#[test]
fn an_end_that_never_sent_can_still_wake_the_other() {
    preloaded("an_end_that_never_sent_can_still_wake_the_other", || {
        const BYTES: usize = 8 << 20;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap().into_raw_fd();
        let b = listener.accept().unwrap().0.into_raw_fd();
        let reader = std::thread::spawn(move || {
            let mut read = 0;
            while read < BYTES {
                let bytes = recv(b, 50_000, 0).unwrap();
                assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (read + at) as u8));
                read += bytes.len();
                if read % 7 == 0 {
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
            }
            assert_eq!(send(b, b"all", 0), Ok(3));
        });
        let pattern: Vec<u8> = (0..1 << 16).map(|byte: u32| byte as u8).collect();
        let mut sent = 0;
        while sent < BYTES {
            let rest = (BYTES - sent).min(40_000);
            let start = sent % 256;
            match send(a, &pattern[start..start + rest], libc::MSG_DONTWAIT) {
                Ok(count) => sent += count,
                Err(why) => {
                    assert_eq!(why, libc::EAGAIN);
                    assert_eq!(poll(a, libc::POLLOUT, 10_000), libc::POLLOUT);
                }
            }
        }
        assert_eq!(recv(a, 10, 0), Ok(b"all".to_vec()));
        reader.join().unwrap();
        // Where the two threads ran in turn, one end may not have met the other before.
        for round in 0..200u8 {
            assert_eq!(send(a, &[round], 0), Ok(1));
            assert_eq!(recv(b, 1, 0), Ok(vec![round]));
        }
        assert_eq!(joined(), 2);
    });
}

#[test]
fn a_receive_that_times_out_says_so() {
    preloaded("a_receive_that_times_out_says_so", || {
        for pair in [accelerated(), plain()] {
            let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
            options::set(pair.b, libc::SOL_SOCKET, libc::SO_RCVTIMEO, time);
            assert_eq!(recv(pair.b, 1, 0), Err(libc::EAGAIN));
            assert_eq!(poll(pair.b, libc::POLLIN, 10), 0);
        }
    });
}

#[test]
fn a_duplicate_is_the_same_stream() {
    preloaded("a_duplicate_is_the_same_stream", || {
        let pair = accelerated();
        let copy = unsafe { libc::dup(pair.b) };
        send(pair.a, b"onetwo", 0).unwrap();
        assert_eq!(recv(pair.b, 3, 0), Ok(b"one".to_vec()));
        close(pair.b);
        assert_eq!(recv(copy, 3, 0), Ok(b"two".to_vec()));
        assert_eq!(unsafe { libc::dup2(copy, 500) }, 500);
        close(copy);
        send(500, b"back", 0).unwrap();
        assert_eq!(recv(pair.a, 4, 0), Ok(b"back".to_vec()));
        close(500);
        assert_eq!(recv(pair.a, 1, 0), Ok(vec![]), "the last number closes the connection");
    });
}

#[test]
fn a_forked_child_goes_on_where_the_parent_was() {
    preloaded("a_forked_child_goes_on_where_the_parent_was", || {
        let pair = accelerated();
        send(pair.a, b"parentchild", 0).unwrap();
        assert_eq!(recv(pair.b, 6, 0), Ok(b"parent".to_vec()));
        let child = unsafe { libc::fork() };
        if child == 0 {
            let told =
                recv(pair.b, 5, 0) == Ok(b"child".to_vec()) && send(pair.b, b"done", 0).is_ok();
            unsafe { libc::_exit(if told { 0 } else { 1 }) };
        }
        assert_eq!(recv(pair.a, 4, 0), Ok(b"done".to_vec()));
        let mut status = 0;
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        send(pair.a, b"again", 0).unwrap();
        assert_eq!(recv(pair.b, 5, 0), Ok(b"again".to_vec()));
    });
}

/// A child echoes until it is killed; what it had sent is read, then the end.
#[test]
fn a_killed_peer_is_read_out_and_then_over() {
    preloaded("a_killed_peer_is_read_out_and_then_over", || {
        for unread in [false, true] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let child = unsafe { libc::fork() };
            if child == 0 {
                let fd = std::net::TcpStream::connect(address).unwrap().into_raw_fd();
                for _ in 0..100 {
                    let bytes = recv(fd, 1, 0).unwrap();
                    send(fd, &bytes, 0).unwrap();
                }
                send(fd, &[5; 100_000], 0).unwrap();
                unsafe { libc::pause() };
            }
            let fd = listener.accept().unwrap().0.into_raw_fd();
            for round in 0..100u8 {
                send(fd, &[round], 0).unwrap();
                assert_eq!(recv(fd, 1, 0), Ok(vec![round]));
            }
            assert_eq!(joined() % 2, 0, "both ends have joined");
            let mut read = recv(fd, 100, 0).unwrap().len();
            while (self::unread(fd) as usize) < 100_000 - read {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            if unread {
                send(fd, b"never read", 0).unwrap();
            }
            unsafe { libc::kill(child, libc::SIGKILL) };
            let end = loop {
                match recv(fd, 10_000, 0) {
                    Ok(bytes) if !bytes.is_empty() => read += bytes.len(),
                    end => break end,
                }
            };
            assert_eq!(read, 100_000);
            assert_eq!(end, if unread { Err(libc::ECONNRESET) } else { Ok(vec![]) });
            assert_eq!(recv(fd, 1, 0), Ok(vec![]));
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            close(fd);
        }
        assert_eq!(segments(), [0; 0], "no mapping is left");
    });
}

extern "C" fn nothing(_: c_int) {}

#[test]
fn a_signal_interrupts_as_its_handler_says() {
    preloaded("a_signal_interrupts_as_its_handler_says", || {
        for after in [5_000, 60_000] {
            let pair = accelerated();
            let mut action: libc::sigaction = unsafe { zeroed() };
            action.sa_sigaction = nothing as *const () as usize;
            unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
            let reader = unsafe { libc::pthread_self() };
            let (over, ends) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || {
                // The first may come before the reader waits.
                let pause = std::time::Duration::from_micros(after);
                while ends.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    unsafe { libc::pthread_kill(reader, libc::SIGUSR1) };
                }
            });
            assert_eq!(recv(pair.b, 1, 0), Err(libc::EINTR));
            drop(over);
            other.join().unwrap();
            action.sa_flags = libc::SA_RESTART;
            unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
            let other = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_micros(after));
                unsafe { libc::pthread_kill(reader, libc::SIGUSR1) };
                std::thread::sleep(std::time::Duration::from_millis(5));
                send(pair.a, b"x", 0).unwrap();
            });
            assert_eq!(recv(pair.b, 1, 0), Ok(b"x".to_vec()));
            other.join().unwrap();
        }
    });
}

/// Writes garbage over the shared words of a connection while both ends use it: calls may fail or
/// say nonsense, and nothing else happens.
#[test]
fn garbage_in_the_shared_words_breaks_its_own_connection_only() {
    preloaded("garbage_in_the_shared_words_breaks_its_own_connection_only", || {
        let healthy = accelerated();
        let spared = segments();
        for seed in 0..40 {
            let pair = accelerated();
            let newest: Vec<_> = segments().into_iter().filter(|it| !spared.contains(it)).collect();
            assert_eq!(newest.len(), 2, "one mapping for each end");
            let mut numbers = Numbers(seed);
            for _ in 0..500 {
                scribble(&mut numbers, newest[0]);
                for fd in [pair.a, pair.b] {
                    let size = numbers.below(100_000) as usize;
                    let _ = send(fd, &vec![1; size], libc::MSG_DONTWAIT);
                    let _ = recv(fd, size, libc::MSG_DONTWAIT);
                    poll(fd, ALL, 0);
                    unread(fd);
                }
            }
            close(pair.a);
            close(pair.b);
        }
        send(healthy.a, b"well", 0).unwrap();
        assert_eq!(recv(healthy.b, 4, 0), Ok(b"well".to_vec()));
    });
}

/// Where the segments of this process are mapped.
fn segments() -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("weft-live-segment"))
        .map(|line| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap())
        .collect()
}

/// Writes one word of a segment.
fn scribble(numbers: &mut Numbers, segment: usize) {
    let word = (segment + numbers.below(400) as usize * 8) as *mut u64;
    let value = match numbers.below(3) {
        0 => numbers.below(u64::MAX),
        1 => numbers.below(1 << 20),
        _ => u64::MAX,
    };
    unsafe { word.write_volatile(value) };
}
