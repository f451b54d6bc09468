//! Two ends that write all they have before they read: the kernel holds megabytes meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use libc::c_int;

use crate::pair::{Pair, accelerated, moved_back, poll, preloaded, recv, send};
use crate::{epoll_control, pair};

/// More than two rings hold, less than the kernel does.
const ALL: usize = 1 << 20;

fn bytes(which: u8) -> Vec<u8> {
    (0..ALL).map(|at| (at % 251) as u8 ^ which).collect()
}

/// How an end that does not block waits for room.
type Waiting = fn(c_int);

fn nonblocking(fd: c_int) {
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
}

/// Writes all before it reads all, and compares.
fn write_then_read(fd: c_int, own: u8, waits: Option<Waiting>) {
    let text = bytes(own);
    let mut sent = 0;
    if waits.is_some() {
        nonblocking(fd);
    }
    while sent < ALL {
        match (send(fd, &text[sent..], 0), waits) {
            (Ok(count), _) => sent += count,
            (Err(libc::EAGAIN), Some(waits)) => waits(fd),
            (failed, _) => assert_eq!(failed, Ok(ALL), "after {sent}"),
        }
    }
    let mut got = Vec::new();
    while got.len() < ALL {
        match recv(fd, ALL - got.len(), 0) {
            Ok(more) if !more.is_empty() => got.extend(more),
            Err(libc::EAGAIN) => drop(poll(fd, libc::POLLIN, 1000)),
            ended => assert_eq!(ended, Ok(bytes(1 - own)), "after {}", got.len()),
        }
    }
    assert!(got == bytes(1 - own));
}

fn by_poll(fd: c_int) {
    assert_eq!(poll(fd, libc::POLLOUT, -1), libc::POLLOUT);
}

fn by_sleeping(_fd: c_int) {
    std::thread::sleep(Duration::from_millis(1));
}

fn by_epoll(fd: c_int, edge: u32) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    unsafe {
        let epoll = libc::epoll_create1(0);
        let wanted = libc::EPOLLOUT as u32 | edge;
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, wanted), 0);
        // The first edge is the registration itself.
        if edge != 0 && libc::epoll_wait(epoll, &mut event, 1, 0) == 1 {
            pair::close(epoll);
            return;
        }
        assert_eq!(libc::epoll_wait(epoll, &mut event, 1, -1), 1);
        pair::close(epoll);
    }
}

fn both_write_first(waits: Option<Waiting>) {
    let Pair { a, b } = accelerated();
    let other = std::thread::spawn(move || write_then_read(b, 1, waits));
    write_then_read(a, 0, waits);
    other.join().unwrap();
    assert_eq!(moved_back(), 2, "both ends are the kernel's");
}

#[test]
fn both_ends_write_first_and_block() {
    preloaded("full::both_ends_write_first_and_block", || both_write_first(None));
}

#[test]
fn both_ends_write_first_and_poll() {
    preloaded("full::both_ends_write_first_and_poll", || both_write_first(Some(by_poll)));
}

#[test]
fn both_ends_write_first_and_watch() {
    preloaded("full::both_ends_write_first_and_watch", || {
        both_write_first(Some(|fd| by_epoll(fd, 0)));
    });
}

#[test]
fn both_ends_write_first_and_watch_for_edges() {
    preloaded("full::both_ends_write_first_and_watch_for_edges", || {
        both_write_first(Some(|fd| by_epoll(fd, libc::EPOLLET as u32)));
    });
}

#[test]
fn both_ends_write_first_and_try_again_by_time() {
    preloaded("full::both_ends_write_first_and_try_again_by_time", || {
        both_write_first(Some(by_sleeping));
    });
}

#[test]
fn a_reader_that_reads_now_and_then_keeps_its_connection_accelerated() {
    preloaded("full::a_reader_that_reads_now_and_then_keeps_its_connection_accelerated", || {
        let pair = accelerated();
        let (mut from, mut to) =
            unsafe { (TcpStream::from_raw_fd(pair.a), TcpStream::from_raw_fd(pair.b)) };
        let writer = std::thread::spawn(move || from.write_all(&bytes(0)));
        let mut got = vec![0; ALL];
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for part in got.chunks_mut(ALL / 16) {
            std::thread::sleep(Duration::from_millis(20));
            to.read_exact(part).unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        writer.join().unwrap().unwrap();
        assert!(got == bytes(0));
        // Where others took the processor, it may have been away for long.
        assert!(moved_back() == 0 || longest > Duration::from_millis(90), "after {longest:?}");
    });
}

/// A connection whose one end looks into the segment and the other not yet: what it sends goes by
/// the kernel, whose buffers are full.
fn half_joined_and_full(before_full: impl Fn(c_int)) -> (Pair, usize) {
    let pair = pair::used(0);
    let before = pair::joined();
    let (mut here, mut there) = (pair.b, pair.a);
    loop {
        std::mem::swap(&mut here, &mut there);
        assert_eq!(send(here, b"x", 0), Ok(1));
        if pair::joined() > before {
            assert_eq!(here, pair.b, "the server looks into the segment first");
            break;
        }
        assert_eq!(recv(there, 1, 0), Ok(b"x".to_vec()));
        if pair::joined() > before {
            assert_eq!(there, pair.b, "the server looks into the segment first");
            break;
        }
    }
    assert_eq!(pair::joined(), before + 1);
    nonblocking(pair.b);
    before_full(pair.b);
    let mut sent = 0;
    while let Ok(count) = send(pair.b, &[3; 100_000], 0) {
        sent += count;
    }
    (pair, sent)
}

/// A thread sleeps in an instance while there is room; another fills the connection, and the other end reads.
#[test]
fn a_sleeper_is_told_of_room_in_what_another_thread_has_filled() {
    preloaded("full::a_sleeper_is_told_of_room_in_what_another_thread_has_filled", || {
        let pair = accelerated();
        nonblocking(pair.a);
        // SAFETY: takes no memory.
        let epoll = unsafe { libc::epoll_create1(0) };
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, events), 0);
        let told = move || {
            let (mut event, begun) = (libc::epoll_event { events: 0, u64: 0 }, Instant::now());
            // SAFETY: there is room for one event.
            let count = unsafe { libc::epoll_wait(epoll, &mut event, 1, 10_000) };
            // A wait whose time is over looks once more.
            (count, event.events, begun.elapsed() < Duration::from_secs(10))
        };
        let room = (1, libc::EPOLLOUT as u32, true);
        assert_eq!(told(), room, "the first edge");
        for round in 0..3 {
            let sleeper = std::thread::spawn(told);
            std::thread::sleep(Duration::from_millis(20));
            let mut sent = 0;
            while let Ok(count) = send(pair.a, &[3; 100_000], 0) {
                sent += count;
            }
            let reader = drain_later(pair.b, sent);
            assert_eq!(sleeper.join().unwrap(), room, "round {round}");
            reader.join().unwrap();
        }
    });
}

/// Reads so many bytes after a while, in a thread of its own.
fn drain_later(fd: c_int, mut left: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        while left > 0 {
            left -= recv(fd, left.min(1 << 20), 0).unwrap().len();
        }
    })
}

#[test]
fn room_in_the_kernel_is_an_event_while_a_connection_joins() {
    preloaded("full::room_in_the_kernel_is_an_event_while_a_connection_joins", || {
        for edge in [0, libc::EPOLLET as u32] {
            let epoll = unsafe { libc::epoll_create1(0) };
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            let out = libc::EPOLLOUT as u32;
            let (pair, sent) = half_joined_and_full(|fd| {
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, out | edge), 0);
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 1000) }, 1);
            });
            assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 0) }, 0);
            let drain = drain_later(pair.a, sent);
            assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 20_000) }, 1);
            drain.join().unwrap();
            pair::close(epoll);
        }
        let (pair, sent) = half_joined_and_full(|_| {});
        assert_eq!(poll(pair.b, libc::POLLOUT, 0), 0);
        let drain = drain_later(pair.a, sent);
        assert_eq!(poll(pair.b, libc::POLLOUT, 20_000), libc::POLLOUT);
        drain.join().unwrap();
    });
}

/// A blocking send of an end whose other end has not joined yet ends as the kernel's does.
#[test]
fn a_send_while_a_connection_joins_can_be_interrupted_and_times_out() {
    preloaded("full::a_send_while_a_connection_joins_can_be_interrupted_and_times_out", || {
        extern "C" fn nothing(_: c_int) {}
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        let blocking = |fd| assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, 0) }, 0);
        let (pair, _) = half_joined_and_full(|_| {});
        blocking(pair.b);
        let (tell, told) = std::sync::mpsc::channel();
        let sender = unsafe { libc::pthread_self() };
        let other = std::thread::spawn(move || {
            // One that comes before the send sleeps interrupts nothing.
            while told.recv_timeout(Duration::from_millis(50)).is_err() {
                unsafe { libc::pthread_kill(sender, libc::SIGUSR1) };
            }
        });
        // The kernel may yet have found room for some.
        let refused = || (0..100).find_map(|_| send(pair.b, &[3; 100_000], 0).err());
        assert_eq!(refused(), Some(libc::EINTR));
        tell.send(()).unwrap();
        other.join().unwrap();
        let time = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
        let (level, name) = (libc::SOL_SOCKET, libc::SO_SNDTIMEO);
        let (place, length) = ((&raw const time).cast(), size_of_val(&time));
        let length = length as libc::socklen_t;
        assert_eq!(unsafe { libc::setsockopt(pair.b, level, name, place, length) }, 0);
        assert_eq!(refused(), Some(libc::EAGAIN));
    });
}

/// A message of many parts, in the middle of which the connection goes back.
#[test]
fn both_ends_write_first_and_in_parts() {
    preloaded("full::both_ends_write_first_and_in_parts", || {
        let Pair { a, b } = accelerated();
        let write = |fd, which| {
            let text = bytes(which);
            let parts: Vec<_> = text
                .chunks(ALL / 16)
                .map(|it| libc::iovec {
                    iov_base: it.as_ptr().cast_mut().cast(),
                    iov_len: it.len(),
                })
                .collect();
            let sent = unsafe { libc::writev(fd, parts.as_ptr(), parts.len() as c_int) };
            assert_eq!(sent, ALL as isize);
            assert!(recv(fd, ALL, libc::MSG_WAITALL) == Ok(bytes(1 - which)));
        };
        let other = std::thread::spawn(move || write(b, 1));
        write(a, 0);
        other.join().unwrap();
        assert_eq!(moved_back(), 2, "both ends are the kernel's");
    });
}

/// A blocking send ends when its reader goes in its middle.
#[test]
fn a_send_ends_with_its_reader() {
    preloaded("full::a_send_ends_with_its_reader", || {
        for read in [0, 1000] {
            let Pair { a, b } = accelerated();
            let reader = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                assert_eq!(recv(b, read, 0).unwrap().len(), read);
                pair::close(b);
            });
            let sent = send(a, &bytes(0), 0);
            assert!(sent.is_err() || sent < Ok(ALL), "{sent:?}");
            reader.join().unwrap();
            assert!((0..2).any(|_| send(a, b"x", 0).is_err()), "nobody reads");
            pair::close(a);
        }
    });
}
