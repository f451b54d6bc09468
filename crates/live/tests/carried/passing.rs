//! Calls on connections that are not carried yet, which pass the library by: they are counted all
//! the same, so that nobody goes over to the ring while one of them is in the kernel.

use std::os::fd::IntoRawFd;
use std::time::Duration;

use crate::pair::{Pair, close, joined, preloaded, recv, send};

/// A connection on which nothing was sent yet.
fn young() -> Pair {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    a.set_nodelay(true).unwrap();
    let b = listener.accept().unwrap().0;
    Pair { a: a.into_raw_fd(), b: b.into_raw_fd() }
}

/// One message each way, so often, past a reader that waits at the second end.
fn talk(pair: Pair, rounds: u8, both_ways: bool) {
    for round in 0..rounds {
        assert_eq!(send(pair.b, &[round], 0), Ok(1));
        assert_eq!(recv(pair.a, 1, 0), Ok(vec![round]));
        if both_ways {
            assert_eq!(send(pair.a, &[round], 0), Ok(1));
            assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
        }
    }
}

/// A thread that receives at the second end, and is in the kernel once this returns.
fn reader(pair: Pair) -> std::thread::JoinHandle<Vec<u8>> {
    let (said, heard) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: takes nothing.
        said.send(unsafe { libc::gettid() }).unwrap();
        recv(pair.b, 100, 0).unwrap()
    });
    let status = format!("/proc/self/task/{}/stat", heard.recv().unwrap());
    while !std::fs::read_to_string(&status).unwrap().contains(") S ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    thread
}

#[test]
fn nobody_joins_past_a_reader_that_passed_by() {
    preloaded("passing::nobody_joins_past_a_reader_that_passed_by", || {
        let pair = young();
        let waiting = reader(pair);
        talk(pair, 200, false);
        assert_eq!(joined(), 0);
        assert_eq!(send(pair.a, b"to the reader", 0), Ok(13));
        assert_eq!(waiting.join().unwrap(), b"to the reader");
        talk(pair, 100, true);
        assert_eq!(joined(), 2, "afterwards both ends join");
    });
}

#[test]
fn nobody_joins_once_the_number_of_a_reader_is_closed() {
    preloaded("passing::nobody_joins_once_the_number_of_a_reader_is_closed", || {
        let pair = young();
        let waiting = reader(pair);
        // SAFETY: takes no memory.
        let copy = unsafe { libc::dup(pair.b) };
        close(pair.b);
        talk(Pair { b: copy, ..pair }, 200, false);
        assert_eq!(send(pair.a, b"to the reader", 0), Ok(13));
        assert_eq!(waiting.join().unwrap(), b"to the reader");
        talk(Pair { b: copy, ..pair }, 100, true);
        assert_eq!(joined(), 0);
    });
}

#[test]
fn a_number_that_had_another_connection_begins_anew() {
    preloaded("passing::a_number_that_had_another_connection_begins_anew", || {
        let first = young();
        talk(first, 3, true);
        close(first.a);
        close(first.b);
        let second = young();
        talk(second, 2, true);
        assert_eq!(joined(), 0, "four calls of each end are too few");
        talk(second, 100, true);
        assert_eq!(joined(), 2);
    });
}
