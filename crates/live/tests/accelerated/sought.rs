//! How long the other end is looked for that never comes.

use std::net::TcpListener;
use std::os::fd::IntoRawFd;
use std::thread;
use std::time::Duration;

use crate::pair::{PEER_PLAIN, Pair, joined, plain_of, preloaded, recv, send, stayed};

/// A connection whose server end is past the library.
fn half_plain() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    a.set_nodelay(true).unwrap();
    Pair { a: a.into_raw_fd(), b: plain_of(&listener) }
}

/// Lets the client ask and the server answer so many times.
fn ask(pair: Pair, times: u32) {
    for _ in 0..times {
        for (from, to) in [(pair.a, pair.b), (pair.b, pair.a)] {
            assert_eq!(send(from, b"x", 0), Ok(1));
            assert_eq!(recv(to, 1, 0), Ok(b"x".to_vec()));
        }
    }
}

#[test]
fn a_server_that_has_answered_often_without_being_there_is_looked_for_no_more() {
    let name = "sought::a_server_that_has_answered_often_without_being_there_is_looked_for_no_more";
    preloaded(name, || {
        let pair = half_plain();
        ask(pair, 1000);
        assert_eq!(stayed(PEER_PLAIN), 0, "it may yet come");
        // No more than a third of what was before goes by until it is looked for again.
        ask(pair, 400);
        assert_eq!((stayed(PEER_PLAIN), joined()), (1, 0));
        ask(pair, 100);
        assert_eq!(stayed(PEER_PLAIN), 1);
    });
}

#[test]
fn a_server_that_sends_much_at_a_time_is_looked_for_for_a_second() {
    preloaded("sought::a_server_that_sends_much_at_a_time_is_looked_for_for_a_second", || {
        let Pair { a, b } = half_plain();
        let stream = |calls: usize| {
            for _ in 0..calls / 64 {
                assert_eq!(send(b, &[7; 1 << 16], 0), Ok(1 << 16));
                for _ in 0..64 {
                    assert_eq!(recv(a, 1024, libc::MSG_WAITALL).unwrap().len(), 1024);
                }
            }
        };
        stream(3000);
        assert_eq!(stayed(PEER_PLAIN), 0, "it was in a few calls");
        thread::sleep(Duration::from_millis(1000));
        stream(3000);
        assert_eq!((stayed(PEER_PLAIN), joined()), (1, 0));
    });
}
