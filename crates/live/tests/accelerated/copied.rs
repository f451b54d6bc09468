//! Descriptors that leave while the other end has gone, or does not look: another process copies.

use std::time::{Duration, Instant};

use libc::c_int;

use crate::back::{bare_read, bare_read_all, bare_write, pass, pattern};
use crate::pair::{Pair, accelerated, close, preloaded, recv, send};

/// A descriptor with so many unread bytes, whose other end has closed.
fn deserted(size: usize) -> (c_int, Vec<u8>) {
    let Pair { a, b } = accelerated();
    let sent = pattern(0, size);
    send(a, &sent, 0).unwrap();
    close(a);
    (b, sent)
}

#[test]
fn the_end_leaves_with_the_descriptor() {
    preloaded("copied::the_end_leaves_with_the_descriptor", || {
        let Pair { a, b } = accelerated();
        assert_eq!(unsafe { libc::shutdown(a, libc::SHUT_WR) }, 0);
        let other = std::thread::spawn(move || recv(a, 9, 0));
        let passed = pass(b);
        assert_eq!(bare_read(passed, 1), Ok(vec![]), "it has ended");
        bare_write(passed, b"answer");
        assert_eq!(other.join().unwrap(), Ok(b"answer".to_vec()));
        let Pair { a, b } = accelerated();
        send(b, b"never read", 0).unwrap();
        close(a);
        assert_eq!(bare_read(pass(b), 1), Err(libc::ECONNRESET), "it was reset");
        let Pair { a, b } = accelerated();
        send(b, b"never read", 0).unwrap();
        send(a, b"before", 0).unwrap();
        close(a);
        let passed = pass(b);
        assert_eq!(bare_read_all(passed, 6), b"before");
        assert_eq!(bare_read(passed, 1), Err(libc::ECONNRESET), "it was reset after");
    });
}

/// As in the kernel, where what comes after that is received all the same.
#[test]
fn what_comes_after_the_receiving_was_shut_down_follows_the_descriptor() {
    let name = "what_comes_after_the_receiving_was_shut_down_follows_the_descriptor";
    preloaded(&format!("copied::{name}"), || {
        for round in 0..20 {
            let Pair { a, b } = accelerated();
            assert_eq!(unsafe { libc::shutdown(b, libc::SHUT_RD) }, 0);
            send(a, b"before", 0).unwrap();
            let passed = pass(b);
            send(a, b"after", 0).unwrap();
            let mut received = Vec::new();
            let until = Instant::now() + Duration::from_secs(10);
            while received.len() < 11 && Instant::now() < until {
                received.extend(bare_read(passed, 99).unwrap());
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(received, b"beforeafter", "round {round}");
            [a, b, passed].into_iter().for_each(close);
        }
    });
}

#[test]
fn a_descriptor_in_whose_place_another_is_put_is_as_it_was() {
    preloaded("copied::a_descriptor_in_whose_place_another_is_put_is_as_it_was", || {
        for round in 0..20 {
            let set = round % 4 != 0;
            let status = if set { libc::O_NONBLOCK } else { 0 };
            let flags = if set { libc::FD_CLOEXEC } else { 0 };
            let (fd, sent) = deserted(20_000);
            unsafe {
                assert_eq!(libc::fcntl(fd, libc::F_SETFL, status), 0);
                assert_eq!(libc::fcntl(fd, libc::F_SETFD, flags), 0);
            }
            let passed = pass(fd);
            unsafe {
                assert_eq!(libc::fcntl(passed, libc::F_GETFL) & libc::O_NONBLOCK, status);
                assert_eq!(libc::fcntl(fd, libc::F_GETFD), flags);
                assert_eq!(libc::fcntl(passed, libc::F_SETFL, 0), 0);
            }
            // By the old number, which the library knows, as by the new one.
            assert_eq!(recv(fd, 10_000, libc::MSG_WAITALL), Ok(sent[..10_000].to_vec()));
            assert_eq!(bare_read_all(passed, 10_000), sent[10_000..]);
            assert_eq!(recv(fd, 1, 0), Ok(vec![]));
            close(passed);
            close(fd);
        }
    });
}
