//! Connections of which one direction has ended, held against the kernel's.

use std::cell::Cell;
use std::mem::{size_of, zeroed};
use std::time::Duration;

use libc::c_int;

use crate::back::{joined_behind, send_early};
use crate::epoll_control;
use crate::pair::{
    Outcome, Pair, accelerated, close, joined, moved_back, outcome, plain, poll, preloaded, recv,
    send, use_by_turns, used,
};

const ENDED: i16 = libc::POLLERR | libc::POLLHUP;

fn shutdown(fd: c_int, how: c_int) {
    assert_eq!(unsafe { libc::shutdown(fd, how) }, 0);
}

fn peer(fd: c_int) -> Outcome<usize> {
    unsafe {
        let mut address: libc::sockaddr_in = zeroed();
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        outcome(libc::getpeername(fd, (&raw mut address).cast(), &mut length) as isize)
    }
}

/// Sends until there is no room; how much that was.
fn fill(fd: c_int) -> usize {
    let mut sent = 0;
    while let Ok(count) = send(fd, &[5; 10_000], libc::MSG_DONTWAIT) {
        sent += count;
    }
    sent
}

/// Reads so many bytes.
fn drain(fd: c_int, mut left: usize) {
    while left > 0 {
        left -= recv(fd, left.min(100_000), 0).unwrap().len();
    }
}

/// What is sent from `a` arrives, however often the ring was full, and nobody thinks it is over.
fn goes_on_sending(pair: Pair, is_kernels: bool) {
    // Where others took the processor for long, a full ring may have gone back to the kernel, whose
    // buffers may yet find room.
    let may_have_room = || is_kernels || moved_back() > 0;
    let mut unread = fill(pair.a);
    // Longer than the kernel is left unasked about the other end.
    std::thread::sleep(Duration::from_millis(10));
    match send(pair.a, b"x", libc::MSG_DONTWAIT) {
        Ok(count) => {
            assert!(may_have_room());
            unread += count + fill(pair.a);
        }
        Err(why) => assert_eq!(why, libc::EAGAIN),
    }
    for _ in 0..3 {
        let events = poll(pair.a, libc::POLLOUT, 10);
        assert!(events == 0 || events == libc::POLLOUT && may_have_room(), "{events:x}");
        drain(pair.b, unread);
        assert_eq!(poll(pair.a, libc::POLLOUT, 5000), libc::POLLOUT);
        unread = fill(pair.a);
    }
    drain(pair.b, unread);
    assert_eq!(send(pair.a, b"last", 0), Ok(4));
    assert_eq!(recv(pair.b, 9, 0), Ok(b"last".to_vec()));
}

#[test]
fn an_end_that_stopped_reading_goes_on_sending() {
    preloaded("halves::an_end_that_stopped_reading_goes_on_sending", || {
        for half_closed in [true, false] {
            for (pair, is_kernels) in [(accelerated(), false), (plain(), true)] {
                if half_closed {
                    shutdown(pair.b, libc::SHUT_WR);
                    assert_eq!(recv(pair.a, 1, 0), Ok(vec![]));
                }
                shutdown(pair.a, libc::SHUT_RD);
                assert_eq!(poll(pair.a, libc::POLLIN | ENDED, 0), libc::POLLIN);
                assert_eq!(recv(pair.a, 1, 0), Ok(vec![]));
                goes_on_sending(pair, is_kernels);
                close(pair.a);
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![]));
                close(pair.b);
            }
        }
    });
}

#[test]
fn an_end_whose_sleeping_reader_was_sent_away_goes_on_sending() {
    preloaded("halves::an_end_whose_sleeping_reader_was_sent_away_goes_on_sending", || {
        for asleep_for in [1, 60] {
            for (pair, is_kernels) in [(accelerated(), false), (plain(), true)] {
                let readers = [
                    std::thread::spawn(move || assert_eq!(recv(pair.a, 1, 0), Ok(vec![]))),
                    std::thread::spawn(move || {
                        assert_eq!(poll(pair.a, libc::POLLIN, -1), libc::POLLIN);
                    }),
                ];
                std::thread::sleep(Duration::from_millis(asleep_for));
                shutdown(pair.a, libc::SHUT_RD);
                for reader in readers {
                    reader.join().unwrap();
                }
                goes_on_sending(pair, is_kernels);
                assert_eq!(send(pair.b, b"late", 0), Ok(4));
                assert_eq!(poll(pair.a, libc::POLLIN, 1000), libc::POLLIN);
                assert_eq!(recv(pair.a, 9, 0), Ok(b"late".to_vec()), "what comes is still read");
                close(pair.b);
                assert_eq!(recv(pair.a, 9, 0), Ok(vec![]));
                std::thread::sleep(Duration::from_millis(10));
                assert_eq!(send(pair.a, b"x", 0), Ok(1), "who has closed resets who writes");
                std::thread::sleep(Duration::from_millis(10));
                assert_eq!(send(pair.a, b"x", 0), Err(libc::EPIPE));
                close(pair.a);
            }
        }
    });
}

#[test]
fn a_connection_whose_both_ends_have_ended_has_no_peer() {
    preloaded("halves::a_connection_whose_both_ends_have_ended_has_no_peer", || {
        for pair in [accelerated(), plain()] {
            assert_eq!((peer(pair.a), peer(pair.b)), (Ok(0), Ok(0)));
            shutdown(pair.a, libc::SHUT_WR);
            assert_eq!((peer(pair.a), peer(pair.b)), (Ok(0), Ok(0)));
            shutdown(pair.b, libc::SHUT_WR);
            let none = Err(libc::ENOTCONN);
            assert_eq!((peer(pair.a), peer(pair.b)), (none, none));
            close(pair.a);
            close(pair.b);
        }
        for pair in [accelerated(), plain()] {
            send(pair.a, b"never read", 0).unwrap();
            close(pair.b);
            assert_eq!(peer(pair.a), Err(libc::ENOTCONN), "it was reset");
            close(pair.a);
        }
        for pair in [accelerated(), plain()] {
            close(pair.b);
            assert_eq!(peer(pair.a), Ok(0), "this end may still write");
            shutdown(pair.a, libc::SHUT_WR);
            assert_eq!(peer(pair.a), Err(libc::ENOTCONN));
            close(pair.a);
        }
    });
}

/// Sends twice, with time for a reset to arrive in between.
fn send_twice(fd: c_int) -> [Outcome<usize>; 2] {
    [(); 2].map(|()| {
        std::thread::sleep(Duration::from_millis(10));
        send(fd, b"x", 0)
    })
}

#[test]
fn an_end_that_stopped_sending_sends_no_more_whatever_becomes_of_the_other() {
    preloaded(
        "halves::an_end_that_stopped_sending_sends_no_more_whatever_becomes_of_the_other",
        || {
            for unread in [false, true] {
                let seen = [accelerated(), plain()].map(|pair| {
                    if unread {
                        send(pair.a, b"never read", 0).unwrap();
                    }
                    shutdown(pair.a, libc::SHUT_WR);
                    let before = send(pair.a, b"x", 0);
                    close(pair.b);
                    let after = send_twice(pair.a);
                    let read = recv(pair.a, 9, 0);
                    let events = poll(pair.a, !0, 0);
                    close(pair.a);
                    (before, after, read, events)
                });
                assert_eq!(seen[0], seen[1], "unread {unread}");
            }
        },
    );
}

/// The error that waits on a connection, which is taken by asking.
fn pending(fd: c_int) -> c_int {
    let mut error: c_int = -1;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    let place = (&raw mut error).cast();
    assert_eq!(unsafe { libc::getsockopt(fd, level, name, place, &mut length) }, 0);
    error
}

#[test]
fn a_reset_is_said_once_by_whichever_call_comes_first() {
    preloaded("halves::a_reset_is_said_once_by_whichever_call_comes_first", || {
        let calls: [fn(c_int) -> String; 4] = [
            |fd| format!("{:?}", send(fd, b"x", 0)),
            |fd| format!("{:?}", recv(fd, 9, libc::MSG_DONTWAIT)),
            |fd| format!("{}", pending(fd)),
            |fd| format!("{:x}", poll(fd, libc::POLLIN | libc::POLLOUT, 0)),
        ];
        for first in 0..calls.len() {
            for second in 0..calls.len() {
                let seen = [accelerated(), plain()].map(|pair| {
                    send(pair.a, b"never read", 0).unwrap();
                    close(pair.b);
                    std::thread::sleep(Duration::from_millis(10));
                    let order = [first, second, 3, 1, 2, 0];
                    let seen = order.map(|which| calls[which](pair.a));
                    close(pair.a);
                    seen
                });
                assert_eq!(seen[0], seen[1], "first {first}, then {second}");
            }
        }
    });
}

/// What a program prints goes by the C library's streams, for which a connection goes back.
fn print(fd: c_int, text: &std::ffi::CStr) {
    unsafe extern "C" {
        fn dprintf(fd: c_int, format: *const libc::c_char, ...) -> c_int;
    }
    assert!(unsafe { dprintf(fd, text.as_ptr()) } > 0);
}

/// Reads until the end, for which it does not wait long.
fn read_out(fd: c_int) -> Vec<Outcome<Vec<u8>>> {
    let mut seen = Vec::new();
    for _ in 0..4 {
        poll(fd, libc::POLLIN, 100);
        seen.push(recv(fd, 9, libc::MSG_DONTWAIT));
    }
    seen
}

#[test]
fn a_half_that_has_ended_stays_so_on_the_way_back() {
    preloaded("halves::a_half_that_has_ended_stays_so_on_the_way_back", || {
        for how in [libc::SHUT_RD, libc::SHUT_WR] {
            let seen = [accelerated(), plain()].map(|pair| {
                send(pair.a, b"before", 0).unwrap();
                assert_eq!(recv(pair.b, 6, 0), Ok(b"before".to_vec()));
                shutdown(pair.a, how);
                print(pair.b, c"last");
                // Each end notices that the other went back.
                for fd in [pair.a, pair.b, pair.a, pair.b] {
                    poll(fd, libc::POLLOUT, 0);
                }
                let seen = (read_out(pair.a), read_out(pair.b));
                close(pair.a);
                close(pair.b);
                seen
            });
            assert_eq!(seen[0], seen[1], "{how}");
        }
    });
}

/// How an instance reports it, by edges or not.
fn reported(fd: c_int, more: u32) -> Vec<u32> {
    let epoll = unsafe { libc::epoll_create1(0) };
    let events = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 | more;
    assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, events), 0);
    let mut found = libc::epoll_event { events: 0, u64: 0 };
    let seen = (0..3).map(|_| {
        let count = unsafe { libc::epoll_wait(epoll, &mut found, 1, 50) };
        if count == 1 { found.events } else { 0 }
    });
    let seen = seen.collect();
    close(epoll);
    seen
}

/// The end of a stream was said in the ring, and whoever said it does nothing more for a while.
#[test]
fn an_end_that_nobody_tells_the_kernel_is_an_end_on_the_way_back() {
    preloaded("halves::an_end_that_nobody_tells_the_kernel_is_an_end_on_the_way_back", || {
        for unread in [&b""[..], b"unread"] {
            let seen = [accelerated(), plain()].map(|Pair { a, b }| {
                assert_eq!(send(a, unread, 0), Ok(unread.len()));
                shutdown(a, libc::SHUT_WR);
                print(b, c"back");
                let both = libc::POLLIN | libc::POLLRDHUP;
                let edge = libc::EPOLLET as u32;
                let before = (poll(b, both, 1000), reported(b, 0), reported(b, edge));
                let read = unread.is_empty() || recv(b, 9, 0) == Ok(unread.to_vec());
                let after = (poll(b, both, 1000), reported(b, 0), reported(b, edge));
                // Only then can this be asked, which waits for nothing if there is an end.
                let ended = after.0 & libc::POLLIN != 0 && recv(b, 9, 0) == Ok(vec![]);
                let sent = send(b, b"still", 0);
                let got = recv(a, 9, libc::MSG_WAITALL);
                let seen = (before, read, after, ended, sent, got, recv(b, 9, libc::MSG_DONTWAIT));
                close(b);
                let end = recv(a, 9, 0);
                close(a);
                (seen, end)
            });
            assert_eq!(seen[0], seen[1]);
        }
    });
}

#[test]
fn an_end_that_closes_with_something_unread_or_in_a_hurry_resets_the_other() {
    preloaded(
        "halves::an_end_that_closes_with_something_unread_or_in_a_hurry_resets_the_other",
        || {
            let unread = joined_behind(send_early);
            close(unread.b);
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(read_out(unread.a)[0], Err(libc::ECONNRESET));
            let seen = [accelerated(), plain()].map(|pair| {
                let hurry = libc::linger { l_onoff: 1, l_linger: 0 };
                let (place, size) = ((&raw const hurry).cast(), size_of_val(&hurry));
                let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
                let set = unsafe {
                    libc::setsockopt(pair.b, level, name, place, size as libc::socklen_t)
                };
                assert_eq!(set, 0);
                close(pair.b);
                std::thread::sleep(Duration::from_millis(10));
                read_out(pair.a)
            });
            assert_eq!(seen[0], seen[1]);
            assert_eq!(seen[0][0], Err(libc::ECONNRESET));
        },
    );
}

/// After how many messages each way the ends join, and switch to the ring, falls within these.
const BEGINNING: u8 = 40;

#[test]
fn an_end_that_reads_no_more_has_its_end_while_the_ends_join() {
    preloaded("halves::an_end_that_reads_no_more_has_its_end_while_the_ends_join", || {
        let both = libc::POLLIN | libc::POLLRDHUP;
        for rounds in 0..BEGINNING {
            for last in [0, 1] {
                let Pair { a, b } = used(rounds);
                assert_eq!(send(a, &[1][..last], 0), Ok(last));
                shutdown(a, libc::SHUT_RD);
                assert_eq!(poll(a, both, 0), both, "after {rounds} rounds");
                assert_eq!(recv(a, 1, libc::MSG_DONTWAIT), Ok(vec![]), "after {rounds} rounds");
                shutdown(a, libc::SHUT_WR);
                let all = both | libc::POLLHUP;
                assert_eq!(poll(a, both, 0), all, "after {rounds} rounds");
                close(a);
                close(b);
            }
        }
    });
}

#[test]
fn an_end_is_seen_behind_unread_bytes_while_the_ends_join() {
    preloaded("halves::an_end_is_seen_behind_unread_bytes_while_the_ends_join", || {
        let mut ended_in_ring = 0;
        for (rounds, sends) in (0..BEGINNING).flat_map(|it| [(it, false), (it, true)]) {
            let (before, Pair { a, b }) = (joined(), used(rounds));
            assert_eq!(recv(b, 5, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
            assert_eq!(send(b, &[2; 5000], 0), Ok(5000));
            if sends {
                assert_eq!(send(a, &[1; 5000], 0), Ok(5000));
            }
            shutdown(a, libc::SHUT_WR);
            shutdown(b, libc::SHUT_WR);
            assert_eq!(poll(a, libc::POLLRDHUP, 1000) & libc::POLLRDHUP, libc::POLLRDHUP);
            assert_eq!(poll(a, 0, 1000), libc::POLLHUP, "after {rounds} rounds");
            assert_eq!(send(b, b"", 0), Err(libc::EPIPE), "after {rounds} rounds");
            ended_in_ring += joined() - before;
            close(a);
            close(b);
        }
        assert!(ended_in_ring > 0);
    });
}

#[test]
fn an_end_behind_unread_bytes_wakes_who_waits_for_it_alone_while_the_ends_join() {
    let name =
        "halves::an_end_behind_unread_bytes_wakes_who_waits_for_it_alone_while_the_ends_join";
    preloaded(name, || {
        for (rounds, accepted) in (0..BEGINNING).flat_map(|it| [(it, false), (it, true)]) {
            let pair = used(rounds);
            let (a, b) = if accepted { (pair.b, pair.a) } else { (pair.a, pair.b) };
            assert_eq!(send(b, &[2; 5000], 0), Ok(5000));
            assert_eq!(recv(a, 1, libc::MSG_PEEK), Ok(vec![2]));
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(5));
                    assert_eq!(send(b, b"last", 0), Ok(4));
                    shutdown(b, libc::SHUT_WR);
                });
                let woken = poll(a, libc::POLLRDHUP, 5000);
                assert_eq!(woken, libc::POLLRDHUP, "after {rounds} rounds");
            });
            close(a);
            close(b);
        }
    });
}

/// Who waits for it alone sleeps in the kernel, where no doorbell wakes.
#[test]
fn an_end_wakes_who_has_waited_for_it_alone_since_before_the_ends_could_join() {
    let name = "halves::an_end_wakes_who_has_waited_for_it_alone_since_before_the_ends_could_join";
    preloaded(name, || {
        let pair = used(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| poll(pair.a, libc::POLLRDHUP, 10_000));
            std::thread::sleep(Duration::from_millis(20));
            use_by_turns(pair, 200);
            shutdown(pair.b, libc::SHUT_WR);
            assert_eq!(waiter.join().unwrap(), libc::POLLRDHUP);
        });
        // Who only looks keeps nothing from joining.
        let next = used(0);
        assert_eq!(poll(next.a, libc::POLLRDHUP, 0), 0);
        use_by_turns(next, 200);
        assert_eq!(joined(), 2);
        [pair.a, pair.b, next.a, next.b].into_iter().for_each(close);
    });
}

/// Some of what comes before it may still be in the other end's kernel, and who was told of the end takes a
/// short receive for the last.
#[test]
fn an_end_is_told_once_all_before_it_is_there() {
    preloaded("halves::an_end_is_told_once_all_before_it_is_there", || {
        for piece in [1000, 15_360, 100_000] {
            let (early, mut got) = (Cell::new(0), 0);
            let pair = joined_behind(|fd| early.set(fill(fd)));
            let sent = early.get() + send(pair.a, b"in the ring", 0).unwrap();
            shutdown(pair.a, libc::SHUT_WR);
            let (asked, mut looks) = (libc::POLLIN | libc::POLLRDHUP, 0);
            while poll(pair.b, asked, 10_000) & libc::POLLRDHUP == 0 {
                got += recv(pair.b, piece, 0).unwrap().len();
                looks += 1;
            }
            assert!(looks > 0, "the kernel has room for all");
            let rest = recv(pair.b, sent, 0).unwrap().len();
            assert_eq!(got + rest, sent, "in pieces of {piece}");
            assert_eq!(recv(pair.b, 1, 0), Ok(vec![]));
            close(pair.a);
            close(pair.b);
        }
    });
}

/// A receive of several messages, of which none needs to be there.
fn receive_several(fd: c_int) -> Outcome<usize> {
    // SAFETY: all zeroes are messages without a place, which take nothing.
    unsafe {
        let mut messages: [libc::mmsghdr; 2] = zeroed();
        let none = std::ptr::null_mut();
        outcome(libc::recvmmsg(fd, messages.as_mut_ptr(), 2, libc::MSG_DONTWAIT, none) as isize)
    }
}

#[test]
fn a_receive_of_several_hears_first_of_what_became_of_a_send() {
    preloaded("halves::a_receive_of_several_hears_first_of_what_became_of_a_send", || {
        for Pair { a, b } in [plain(), accelerated()] {
            close(b);
            assert_eq!(send(a, b"late", 0), Ok(4));
            assert_eq!(receive_several(a), Err(libc::EPIPE));
            assert_eq!(receive_several(a), Ok(2));
            close(a);
        }
    });
}
