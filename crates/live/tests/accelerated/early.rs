//! Sockets of which there is something to remember before they are connected.

use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;

use libc::{c_int, epoll_event};

use crate::pair::{Numbers, Pair, close, joined, moved_back, outcome, poll, preloaded, recv, send};
use crate::watched::instance;
use crate::{epoll_control, epoll_events};

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// A socket that the library sees made, or one that it does not.
fn socket(seen: bool) -> c_int {
    let (domain, kind) = (libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK);
    let fd = match seen {
        true => unsafe { libc::socket(domain, kind, 0) },
        false => unsafe { libc::syscall(libc::SYS_socket, domain, kind, 0) as c_int },
    };
    assert!(fd >= 0);
    fd
}

/// Begins to connect a socket, by the same way as it was made. Whether that goes on.
fn begin(fd: c_int, port: u16, seen: bool) -> bool {
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    let (place, length) = ((&raw const address).cast(), size_of_val(&address));
    let begun = match seen {
        true => unsafe { libc::connect(fd, place, length as libc::socklen_t) },
        false => unsafe { libc::syscall(libc::SYS_connect, fd, place, length) as c_int },
    };
    outcome(begun as isize).map_or_else(|why| why == libc::EINPROGRESS, |_| true)
}

fn error(fd: c_int) -> c_int {
    let (mut found, mut length) = (-1, 4);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_ERROR);
    unsafe { libc::getsockopt(fd, level, name, (&raw mut found).cast(), &raw mut length) };
    found
}

/// A connection whose client end was put into an instance before it was connected. The first events
/// are those of connecting, and end when they have been taken.
fn watched(kind: u32, seen: bool) -> (Pair, c_int) {
    watched_by(&std::net::TcpListener::bind("127.0.0.1:0").unwrap(), kind, seen)
}

fn watched_by(listener: &std::net::TcpListener, kind: u32, seen: bool) -> (Pair, c_int) {
    let (a, epoll) = (socket(seen), instance());
    assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, a, kind), 0);
    // An option that brings back what is connected does not concern what is not yet.
    let (level, name, none) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 0 as c_int);
    assert_eq!(unsafe { libc::setsockopt(a, level, name, (&raw const none).cast(), 4) }, 0);
    assert!(begin(a, listener.local_addr().unwrap().port(), seen));
    let b = match seen {
        true => listener.accept().unwrap().0.into_raw_fd(),
        false => unsafe {
            let none: *mut libc::c_void = std::ptr::null_mut();
            libc::syscall(libc::SYS_accept4, listener.as_raw_fd(), none, none, 0) as c_int
        },
    };
    assert_eq!(poll(a, libc::POLLOUT, 5000), libc::POLLOUT);
    assert_eq!(error(a), 0);
    for fd in [a, b] {
        let (level, name, one) = (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1 as c_int);
        assert_eq!(unsafe { libc::setsockopt(fd, level, name, (&raw const one).cast(), 4) }, 0);
    }
    (Pair { a, b }, epoll)
}

/// Sends a byte there and back so many times.
fn use_it(pair: Pair, rounds: u8) {
    for round in 0..rounds {
        for (from, to) in [(pair.a, pair.b), (pair.b, pair.a)] {
            assert_eq!(send(from, &[round], 0), Ok(1));
            assert_eq!(poll(to, libc::POLLIN, 5000), libc::POLLIN);
            assert_eq!(recv(to, 1, 0), Ok(vec![round]));
        }
    }
}

#[test]
fn a_socket_that_was_watched_before_it_was_connected_is_accelerated() {
    preloaded("early::a_socket_that_was_watched_before_it_was_connected_is_accelerated", || {
        for kind in [IN, IN | OUT, IN | EDGE, IN | OUT | EDGE] {
            let before = joined();
            let (pair, epoll) = watched(kind, true);
            for round in 0..100u8 {
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                let other = thread::spawn(move || send(pair.b, &[round], 0));
                loop {
                    let mut event = epoll_event { events: 0, u64: 0 };
                    let count = unsafe { libc::epoll_wait(epoll, &mut event, 1, 5000) };
                    assert_eq!((count, event.u64), (1, 7), "round {round} of {kind:x}");
                    if event.events & IN != 0 {
                        break;
                    }
                }
                assert_eq!(recv(pair.a, 1, 0), Ok(vec![round]));
                other.join().unwrap().unwrap();
            }
            assert_eq!(joined(), before + 2, "both ends have joined");
            [pair.a, pair.b, epoll].into_iter().for_each(close);
        }
        assert_eq!(moved_back(), 0, "they stay accelerated");
    });
}

#[test]
fn an_early_registration_reports_what_the_kernel_reports() {
    preloaded("early::an_early_registration_reports_what_the_kernel_reports", || {
        let hangup = libc::EPOLLRDHUP as u32;
        let kinds =
            [IN, IN | EDGE, IN | ONCE, IN | OUT | EDGE, IN | hangup | EDGE, IN | OUT | ONCE];
        for seed in 0..42 {
            let (mut numbers, before) = (Numbers(2000 + seed), joined());
            let kind = kinds[seed as usize % kinds.len()];
            let both = [watched(kind, true), watched(kind, false)];
            let waits = numbers.below(2) == 0;
            let taken =
                |epoll| while kind & (EDGE | ONCE) != 0 && !epoll_events(epoll).is_empty() {};
            for (pair, epoll) in both {
                // What fires once may have fired, or not.
                if waits {
                    taken(epoll);
                }
                use_it(pair, 60);
                if kind & EDGE != 0 {
                    taken(epoll);
                }
            }
            assert_eq!(joined(), before + 2, "both ends of one have joined");
            let mut history = Vec::new();
            for _ in 0..100 {
                let (what, size) = (numbers.below(8), 1 + numbers.below(90) as usize);
                history.push((what, size));
                let seen = both.map(|(pair, epoll)| match what {
                    0 => format!("{:?}", send(pair.b, &[1; 90][..size], 0)),
                    1 => format!("{:?}", recv(pair.a, size, libc::MSG_DONTWAIT)),
                    2..5 => {
                        let how = [libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL, libc::EPOLL_CTL_ADD];
                        let result = epoll_control(epoll, how[what as usize - 2], pair.a, kind);
                        format!("{:?}", outcome(result as isize))
                    }
                    _ => format!("{:?}", epoll_events(epoll)),
                });
                assert_eq!(seen[0], seen[1], "seed {seed}, kind {kind:x}: {history:?}");
            }
            for (pair, epoll) in both {
                [pair.a, pair.b, epoll].into_iter().for_each(close);
            }
        }
        assert_eq!(moved_back(), 0, "they stay accelerated");
    });
}

#[test]
fn connecting_has_the_kernels_events() {
    preloaded("early::connecting_has_the_kernels_events", || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, closed) = [&listener, &gone].map(|it| it.local_addr().unwrap().port()).into();
        drop(gone);
        for kind in [OUT, IN | OUT | EDGE, OUT | ONCE, IN] {
            let seen = [true, false].map(|seen| {
                let (fd, epoll, mut said) = (socket(seen), instance(), Vec::new());
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, kind), 0);
                // One that was refused says so once more when it is to connect again.
                for port in [closed, port, port] {
                    said.push(format!("{:x?}", epoll_events(epoll)));
                    said.push(format!("{}", begin(fd, port, seen)));
                    assert_ne!(poll(fd, libc::POLLOUT, 5000), 0);
                    said.push(format!("{:x?}", epoll_events(epoll)));
                    said.push(format!("{}", error(fd)));
                    epoll_control(epoll, libc::EPOLL_CTL_MOD, fd, kind);
                    said.push(format!("{:x?}", epoll_events(epoll)));
                }
                let other = listener.accept().unwrap().0.into_raw_fd();
                [fd, epoll, other].into_iter().for_each(close);
                said
            });
            assert_eq!(seen[0], seen[1], "kind {kind:x}");
        }
    });
}

/// A registration that fires once and has fired stays silent, whoever looks after it by then.
#[test]
fn what_has_fired_once_before_joining_does_not_fire_again() {
    preloaded("early::what_has_fired_once_before_joining_does_not_fire_again", || {
        for early in [true, false] {
            let before = joined();
            let (pair, epoll) = watched(IN | ONCE, true);
            let fd = if early { pair.a } else { pair.b };
            if !early {
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, IN | ONCE), 0);
            }
            let other = if early { pair.b } else { pair.a };
            send(other, b"!", 0).unwrap();
            assert_eq!(poll(fd, libc::POLLIN, 5000), libc::POLLIN);
            assert_eq!(epoll_events(epoll), [(IN, 7)]);
            assert_eq!(recv(fd, 1, 0), Ok(b"!".to_vec()));
            use_it(pair, 60);
            assert_eq!(joined(), before + 2);
            send(other, b"?", 0).unwrap();
            assert_eq!(epoll_events(epoll), [], "early: {early}");
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_MOD, fd, IN | ONCE), 0);
            assert_eq!(epoll_events(epoll), [(IN, 7)]);
            [pair.a, pair.b, epoll].into_iter().for_each(close);
        }
    });
}

#[test]
fn a_socket_that_had_two_numbers_before_it_was_connected_is_one_connection() {
    preloaded(
        "early::a_socket_that_had_two_numbers_before_it_was_connected_is_one_connection",
        || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let a = socket(true);
            let copy = unsafe { libc::dup(a) };
            assert!(begin(a, listener.local_addr().unwrap().port(), true));
            let b = listener.accept().unwrap().0.into_raw_fd();
            let before = joined();
            for round in 0..200u8 {
                send(a, &[round], 0).unwrap();
                assert_eq!(recv(b, 1, 0), Ok(vec![round]));
                send(b, &[round], 0).unwrap();
                let (ask, take) = if round % 2 == 0 { (copy, a) } else { (a, copy) };
                assert_eq!(poll(ask, libc::POLLIN, 5000), libc::POLLIN, "round {round}");
                assert_eq!(recv(take, 1, 0), Ok(vec![round]));
            }
            assert_eq!(joined(), before + 2, "both ends have joined");
            [a, copy, b].into_iter().for_each(close);
        },
    );
}

/// A socket may be connected anew, with another: what it was put into reports for that.
#[test]
fn a_socket_that_is_connected_anew_is_watched_on() {
    preloaded("early::a_socket_that_is_connected_anew_is_watched_on", || {
        for (rounds, kind) in [(0, IN), (3, IN), (60, IN), (60, IN | EDGE), (60, IN | ONCE)] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let seen = [true, false].map(|seen| {
                let (pair, epoll) = watched(kind, seen);
                use_it(pair, rounds);
                epoll_events(epoll);
                // So that others are not asked about in each wait.
                (0..200).for_each(|_| drop(epoll_events(epoll)));
                let mut nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
                nowhere.sa_family = libc::AF_UNSPEC as u16;
                let place = &raw const nowhere;
                assert_eq!(unsafe { libc::connect(pair.a, place, 16) }, 0);
                close(pair.b);
                assert!(begin(pair.a, listener.local_addr().unwrap().port(), true));
                let pair = Pair { a: pair.a, b: listener.accept().unwrap().0.into_raw_fd() };
                let mut said = Vec::new();
                for round in 0..100u8 {
                    assert_eq!(poll(pair.a, libc::POLLOUT, 5000), libc::POLLOUT);
                    epoll_events(epoll);
                    if kind & ONCE != 0 {
                        epoll_control(epoll, libc::EPOLL_CTL_MOD, pair.a, kind);
                    }
                    assert_eq!(send(pair.b, &[round], 0), Ok(1));
                    let mut event = epoll_event { events: 0, u64: 0 };
                    let count = unsafe { libc::epoll_wait(epoll, &mut event, 1, 2000) };
                    said.push((count, event.events, event.u64));
                    if count != 1 {
                        break;
                    }
                    assert_eq!(recv(pair.a, 1, 0), Ok(vec![round]));
                    assert_eq!(send(pair.a, &[round], 0), Ok(1));
                    assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                }
                [pair.a, pair.b, epoll].into_iter().for_each(close);
                said
            });
            assert_eq!(seen[0], seen[1], "{rounds} rounds of {kind:x}");
        }
    });
}

#[test]
fn a_socket_that_is_connected_anew_keeps_its_options() {
    preloaded("early::a_socket_that_is_connected_anew_keeps_its_options", || {
        let before = joined();
        let seen = [true, false].map(|seen| {
            let (pair, _) = watched(IN, seen);
            use_it(pair, 60);
            let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
            let (mut linger, mut length) = ([1, 3], size_of::<[c_int; 2]>() as libc::socklen_t);
            let place: *mut libc::c_void = linger.as_mut_ptr().cast();
            let mut nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
            nowhere.sa_family = libc::AF_UNSPEC as u16;
            unsafe {
                assert_eq!(libc::setsockopt(pair.a, level, name, place, length), 0);
                assert_eq!(libc::connect(pair.a, &raw const nowhere, 16), 0);
                assert_eq!(libc::getsockopt(pair.a, level, name, place, &mut length), 0);
            }
            linger
        });
        assert_eq!(joined(), before + 2, "both ends of one had joined");
        assert_eq!(seen, [[1, 3]; 2]);
    });
}

/// What was learned of the connections with one server says nothing of those with another.
#[test]
fn an_early_socket_is_of_its_servers_kind() {
    preloaded("early::an_early_socket_is_of_its_servers_kind", || {
        let listeners: Vec<_> =
            (0..8).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |it: &std::net::TcpListener| it.local_addr().unwrap().port();
        let one = &listeners[0];
        let other = listeners.iter().find(|it| (port(it) ^ port(one)) % 32 != 0).unwrap();
        let rounds = |listener| {
            let (before, (pair, epoll)) = (joined(), watched_by(listener, IN, true));
            let rounds = (0..100).take_while(|_| joined() < before + 2).map(|_| use_it(pair, 1));
            let rounds = rounds.count();
            [pair.a, pair.b, epoll].into_iter().for_each(close);
            rounds
        };
        // One that is closed as soon as it is accelerated was not worth it.
        let first = rounds(one);
        assert!(rounds(one) > first);
        assert_eq!(rounds(other), first);
    });
}
