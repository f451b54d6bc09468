//! Closing, forking and dying while a connection leaves, and what gets its number next.

use std::net::{TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::at_once::{become_nothing, let_stay_open, spin_for};
use crate::back::{Wait, pass, pattern, wait_for_input};
use crate::pair::{
    Numbers, accelerated, close, joined, moved_back, poll, preloaded, recv, send, used_by,
};

fn undelayed(stream: TcpStream) -> c_int {
    stream.set_nodelay(true).unwrap();
    stream.into_raw_fd()
}

/// Sends back what comes, on one connection after the other.
fn echo(listener: &TcpListener, connections: u32) {
    for _ in 0..connections {
        let fd = undelayed(listener.accept().unwrap().0);
        let_stay_open(fd);
        loop {
            let bytes = recv(fd, 99, 0).unwrap();
            if bytes.is_empty() {
                break;
            }
            assert_eq!(send(fd, &bytes, 0), Ok(bytes.len()));
        }
        close(fd);
    }
}

/// A connection's end leaves for 0.3 s, since the other does nothing.
#[test]
fn a_number_that_is_closed_while_it_leaves_may_be_given_to_another() {
    preloaded("leaving::a_number_that_is_closed_while_it_leaves_may_be_given_to_another", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = used_by(&listener, 100);
        assert_eq!(joined(), 2);
        let_stay_open(pair.b);
        assert_eq!(send(pair.a, b"unread", 0), Ok(6));
        let leaving = std::thread::spawn(become_nothing);
        std::thread::sleep(Duration::from_millis(100));
        close(pair.b);
        let next = used_by(&listener, 1);
        assert!(next.a == pair.b && !leaving.is_finished());
        leaving.join().unwrap();
        for byte in 0..200 {
            assert_eq!(send(next.b, &[byte], 0), Ok(1));
            std::thread::sleep(Duration::from_micros(100));
            assert_eq!(recv(next.a, 9, libc::MSG_DONTWAIT), Ok(vec![byte]));
        }
        assert_eq!(recv(pair.a, 9, 0), Err(libc::ECONNRESET), "it was closed with bytes unread");
    });
}

/// Says that a program that is yet to be run is to have a descriptor, which leaves for that.
fn promise(fd: c_int) {
    // SAFETY: all zeroes are overwritten by the first call, and the last frees what it has made.
    unsafe {
        let mut actions: libc::posix_spawn_file_actions_t = std::mem::zeroed();
        assert_eq!(libc::posix_spawn_file_actions_init(&mut actions), 0);
        libc::posix_spawn_file_actions_adddup2(&mut actions, fd, 600);
        assert_eq!(libc::posix_spawn_file_actions_destroy(&mut actions), 0);
    }
}

/// After 0.3 s without an answer a copied connection is put in the place of one that leaves.
#[test]
fn a_number_that_is_closed_while_it_is_replaced_may_be_given_to_another() {
    let name = "a_number_that_is_closed_while_it_is_replaced_may_be_given_to_another";
    preloaded(&format!("leaving::{name}"), || {
        std::thread::scope(|scope| {
            for seed in 0..8 {
                scope.spawn(move || {
                    let mut numbers = Numbers(seed);
                    for round in 0..6 {
                        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                        let pair = used_by(&listener, 100);
                        assert_eq!(send(pair.a, &pattern(0, 3000), 0), Ok(3000));
                        let copy = unsafe { libc::dup(pair.b) };
                        let leaving = std::thread::spawn(move || promise(pair.b));
                        let moment = 300_000 + numbers.below(4_000);
                        std::thread::sleep(Duration::from_micros(moment));
                        close(pair.b);
                        let next = used_by(&listener, 60);
                        leaving.join().unwrap();
                        for (from, to) in [(next.a, next.b), (next.b, next.a)] {
                            assert_eq!(send(from, b"its own", 0), Ok(7));
                            let ready = poll(to, libc::POLLIN, 20_000);
                            assert_eq!(ready, libc::POLLIN, "seed {seed}, round {round}");
                            assert_eq!(recv(to, 99, 0), Ok(b"its own".to_vec()));
                        }
                        let all = recv(copy, 3000, libc::MSG_WAITALL);
                        assert_eq!(all, Ok(pattern(0, 3000)), "seed {seed}, round {round}");
                        for fd in [pair.a, copy, next.a, next.b] {
                            close(fd);
                        }
                    }
                });
            }
        });
    });
}

/// How many sockets this process has.
fn sockets() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = all.filter_map(|it| std::fs::read_link(it.path()).ok());
    links.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn who_is_forked_while_a_connection_leaves_has_nothing_of_that() {
    preloaded("leaving::who_is_forked_while_a_connection_leaves_has_nothing_of_that", || {
        let before = sockets();
        let pair = accelerated();
        let_stay_open(pair.b);
        assert_eq!(send(pair.a, b"unread", 0), Ok(6));
        let leaving = std::thread::spawn(become_nothing);
        // While the other end is waited for, and when a copy is put in its place.
        for _ in 0..40 {
            // SAFETY: the child looks at its own descriptors and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                close(pair.a);
                close(pair.b);
                // SAFETY: ends the child without the test's own end.
                unsafe { libc::_exit((sockets() - before) as c_int) };
            }
            let mut status = -1;
            // SAFETY: waits for the child.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "so many sockets are left, times 256");
            std::thread::sleep(Duration::from_millis(10));
        }
        leaving.join().unwrap();
        assert_eq!(recv(pair.b, 9, 0), Ok(b"unread".to_vec()));
    });
}

#[test]
fn what_leaves_takes_nothing_from_what_gets_its_number_next() {
    preloaded("leaving::what_leaves_takes_nothing_from_what_gets_its_number_next", || {
        const CONNECTIONS: u32 = 500;
        let (ending, awake) = (AtomicU32::new(0), AtomicU32::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&listener, 2 * CONNECTIONS));
            let leaving = scope.spawn(|| {
                let mut numbers = Numbers(1);
                for round in 1..=CONNECTIONS {
                    while ending.load(Ordering::Acquire) < round {
                        std::thread::park();
                    }
                    awake.store(round, Ordering::Release);
                    spin_for(Duration::from_nanos(numbers.below(30_000)));
                    become_nothing();
                }
            });
            let mut numbers = Numbers(2);
            for round in 1..=CONNECTIONS {
                let fd = undelayed(TcpStream::connect(address).unwrap());
                let_stay_open(fd);
                let last = 150 + numbers.below(50) as u8;
                for byte in 0..200 {
                    if byte == last {
                        ending.store(round, Ordering::Release);
                        leaving.thread().unpark();
                        while awake.load(Ordering::Acquire) < round {
                            std::hint::spin_loop();
                        }
                    }
                    let bytes = [byte, round as u8];
                    assert_eq!(send(fd, &bytes, 0), Ok(2));
                    assert_eq!(recv(fd, 99, 0).as_deref(), Ok(&bytes[..]), "round {round}");
                }
                close(fd);
                // One that lasts, so that the next is worth a join.
                let lasting = undelayed(TcpStream::connect(address).unwrap());
                for _ in 0..200 {
                    assert_eq!(send(lasting, &[1], 0), Ok(1));
                    assert_eq!(recv(lasting, 9, 0), Ok(vec![1]));
                }
                close(lasting);
            }
        });
        assert_eq!(open(), before);
        let (joined, back) = (joined(), moved_back());
        assert!(joined > 300 && back > 30, "{joined} of 2000 ends joined, and {back} went back");
    });
}

/// How many processes have a name, which those that they forked have too.
fn named(name: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|it| {
        let said = std::fs::read_to_string(it.path().join("comm"));
        said.is_ok_and(|said| said.trim_end() == name)
    })
    .count()
}

/// A process that leaves with bytes unread waits 0.3 s for the other end, then has a process made that
/// copies. Whenever it is killed, what it has sent arrives, and nobody is left.
#[test]
fn what_was_sent_arrives_whenever_the_process_is_killed_that_leaves() {
    preloaded("leaving::what_was_sent_arrives_whenever_the_process_is_killed_that_leaves", || {
        let mut numbers = Numbers(1);
        for round in 0..10u64 {
            let pair = accelerated();
            let name = format!("leaving-{round}");
            // SAFETY: the child leaves, and waits for its end.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let name = std::ffi::CString::new(name.clone()).unwrap();
                // SAFETY: the name is a C string.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                close(pair.a);
                assert_eq!(send(pair.b, &pattern(0, 5000), 0), Ok(5000));
                let_stay_open(pair.b);
                become_nothing();
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
            close(pair.b);
            assert_eq!(send(pair.a, b"nobody reads this", 0), Ok(17));
            // Most are killed about when the copying begins.
            let most = if round % 4 == 0 { 290_000 } else { 8_000 };
            let moment = 303_000 - most / 2 + numbers.below(most);
            std::thread::sleep(Duration::from_micros(moment));
            // SAFETY: ends the child, and waits for it.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
            }
            assert_eq!(recv(pair.a, 5000, libc::MSG_WAITALL), Ok(pattern(0, 5000)), "{round}");
            let end = recv(pair.a, 9, 0);
            assert!(matches!(end.as_deref(), Ok([]) | Err(&libc::ECONNRESET)), "{round}: {end:?}");
            close(pair.a);
            let until = Instant::now() + Duration::from_secs(20);
            while named(&name) > 0 {
                assert!(Instant::now() < until, "round {round}: somebody copies for nobody");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// A connection leaves for 0.3 s, since its other end does nothing. Who is told of bytes meanwhile may find none,
/// and reads them in the end; of an end he need not wait for the other end's word to the kernel.
#[test]
fn who_waits_for_events_while_a_connection_leaves_gets_what_was_there() {
    let name = "leaving::who_waits_for_events_while_a_connection_leaves_gets_what_was_there";
    preloaded(name, || {
        let waits = [Wait::Poll, Wait::Select, Wait::Epoll, Wait::End];
        let cases = waits.into_iter().flat_map(|wait| (1..4).map(move |what| (wait, what)));
        for (wait, what) in cases {
            if wait == Wait::End && what & 2 == 0 {
                continue;
            }
            let pair = accelerated();
            let bytes: &[u8] = if what & 1 != 0 { b"unread" } else { b"" };
            assert_eq!(send(pair.a, bytes, 0), Ok(bytes.len()));
            if what & 2 != 0 {
                assert_eq!(unsafe { libc::shutdown(pair.a, libc::SHUT_WR) }, 0);
            }
            let leaving = std::thread::spawn(move || close(pass(pair.b)));
            std::thread::sleep(Duration::from_millis(20));
            let until = Instant::now() + Duration::from_secs(10);
            let came = loop {
                wait_for_input(pair.b, wait);
                match recv(pair.b, 9, libc::MSG_DONTWAIT) {
                    Err(libc::EAGAIN) if Instant::now() < until => {}
                    came => break came,
                }
            };
            assert_eq!(came, Ok(bytes.to_vec()), "case {what}");
            leaving.join().unwrap();
            close(pair.a);
            close(pair.b);
        }
    });
}
