//! Socket options of accelerated connections, and of those that one keeps with the kernel.

use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};

use libc::c_int;

use crate::errors;
use crate::pair::{
    Outcome, Pair, accelerated, close, joined, moved_back, outcome, plain, poll, preloaded, recv,
    send,
};

pub fn set<T>(fd: c_int, level: c_int, name: c_int, value: T) {
    let length = size_of::<T>() as libc::socklen_t;
    let place = (&raw const value).cast();
    assert_eq!(unsafe { libc::setsockopt(fd, level, name, place, length) }, 0);
}

fn ask_for_unread(fd: c_int) {
    set(fd, libc::IPPROTO_TCP, libc::TCP_INQ, 1);
}

/// What a message brings: the bytes, its flags, and what is said of those left unread.
type Message = (Vec<u8>, c_int, Option<c_int>);

/// Receives a message with so much room for what is said beside.
fn receive(fd: c_int, room: usize, beside: usize) -> Outcome<Message> {
    let mut bytes = vec![0u8; room];
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: room };
    unsafe {
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), beside);
        let count = outcome(libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT))?;
        bytes.truncate(count);
        let header = libc::CMSG_FIRSTHDR(&message);
        let left = (!header.is_null()).then(|| {
            assert_eq!((*header).cmsg_level, libc::IPPROTO_TCP);
            assert_eq!((*header).cmsg_type, libc::TCP_CM_INQ);
            assert_eq!(message.msg_controllen, libc::CMSG_SPACE(4) as usize);
            *libc::CMSG_DATA(header).cast::<c_int>()
        });
        Ok((bytes, message.msg_flags, left))
    }
}

#[test]
fn a_message_says_how_much_is_left_where_that_is_asked_for() {
    preloaded("options::a_message_says_how_much_is_left_where_that_is_asked_for", || {
        let seen = [accelerated(), plain()].map(|pair| {
            send(pair.a, b"without", 0).unwrap();
            let mut seen = vec![receive(pair.b, 9, 64)];
            ask_for_unread(pair.b);
            send(pair.a, &[7; 100], 0).unwrap();
            for room in [30, 0, 70, 1] {
                seen.push(receive(pair.b, room, 64));
            }
            send(pair.a, b"last", 0).unwrap();
            seen.push(receive(pair.b, 2, 0));
            close(pair.a);
            seen.extend([receive(pair.b, 2, 64), receive(pair.b, 2, 64)]);
            close(pair.b);
            seen
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0][1], Ok((vec![7; 30], 0, Some(70))));
        assert_eq!(moved_back(), 0);
    });
}

#[test]
fn who_wants_urgent_bytes_in_line_is_accelerated_until_there_are_any() {
    preloaded("options::who_wants_urgent_bytes_in_line_is_accelerated_until_there_are_any", || {
        let seen = [accelerated(), plain()].map(|pair| {
            let before = moved_back();
            set(pair.b, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1);
            send(pair.a, b"carried", 0).unwrap();
            let mut seen = vec![recv(pair.b, 9, 0)];
            assert_eq!(moved_back(), before);
            send(pair.a, b"before", 0).unwrap();
            send(pair.a, b"!", libc::MSG_OOB).unwrap();
            send(pair.a, b"after", 0).unwrap();
            seen.extend((0..2).map(|_| recv(pair.b, 20, 0)));
            close(pair.a);
            close(pair.b);
            seen
        });
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0][1..], [Ok(b"before".to_vec()), Ok(b"!after".to_vec())]);
        assert_eq!(moved_back(), 2);
    });
}

/// A connection whose listening socket and whose client were prepared before it was made.
fn prepared(prepare: impl Fn(c_int)) -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    prepare(listener.as_raw_fd());
    let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap().into_raw_fd();
    let b = listener.accept().unwrap().0.into_raw_fd();
    for round in 0..100 {
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(send(from, &[round], 0), Ok(1));
            assert_eq!(recv(to, 1, 0), Ok(vec![round]));
        }
    }
    Pair { a, b }
}

#[test]
fn an_option_of_the_listening_socket_holds_for_what_it_accepts() {
    preloaded("options::an_option_of_the_listening_socket_holds_for_what_it_accepts", || {
        let before = joined();
        let pair = prepared(ask_for_unread);
        assert_eq!(joined(), before + 2, "this one is accelerated");
        send(pair.a, b"abc", 0).unwrap();
        assert_eq!(receive(pair.b, 2, 64), Ok((b"ab".to_vec(), 0, Some(1))));
        let only_the_kernels = [
            (libc::SO_PEEK_OFF, 0),
            (libc::SO_RCVLOWAT, 2),
            (libc::SO_TIMESTAMP, 1),
            (libc::SO_TIMESTAMPNS, 1),
        ];
        for (name, value) in only_the_kernels {
            let pair = prepared(|fd| set(fd, libc::SOL_SOCKET, name, value));
            assert_eq!(joined(), before + 2, "one with {name} is not");
            send(pair.a, b"abc", 0).unwrap();
            assert_eq!(recv(pair.b, 9, 0), Ok(b"abc".to_vec()));
        }
    });
}

#[test]
fn an_option_that_is_set_to_what_it_is_changes_nothing() {
    preloaded("options::an_option_that_is_set_to_what_it_is_changes_nothing", || {
        let pair = accelerated();
        for value in [0, 0, 1] {
            assert_eq!(moved_back(), 0);
            set(pair.a, libc::IPPROTO_IP, libc::IP_RECVTTL, value);
        }
        assert_eq!(moved_back(), 1, "this one the kernel is to honour");
    });
}

/// Whether the kernel has something to say of messages that it sends without a copy.
fn has_answer(fd: c_int) -> bool {
    let answered = poll(fd, 0, 1000) & libc::POLLERR != 0;
    assert_eq!(recv(fd, 1, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT).is_ok(), answered);
    answered
}

#[test]
fn what_is_sent_without_a_copy_the_kernel_sends_and_answers() {
    preloaded("options::what_is_sent_without_a_copy_the_kernel_sends_and_answers", || {
        let pair = accelerated();
        send(pair.b, b"x", libc::MSG_ZEROCOPY).unwrap();
        assert_eq!(recv(pair.a, 9, 0), Ok(b"x".to_vec()));
        set(pair.a, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1);
        assert_eq!(moved_back(), 0, "nothing was asked of the kernel yet");
        send(pair.a, b"one ", 0).unwrap();
        send(pair.a, b"two", libc::MSG_ZEROCOPY).unwrap();
        assert_eq!(recv(pair.b, 7, libc::MSG_WAITALL), Ok(b"one two".to_vec()));
        assert!(has_answer(pair.a) && moved_back() > 0);
    });
}

/// To TCP what has arrived at the other host is acknowledged, whether or not anybody has read it.
#[test]
fn what_stands_in_the_ring_waits_for_no_acknowledgment() {
    preloaded("options::what_stands_in_the_ring_waits_for_no_acknowledgment", || {
        let unacknowledged = |fd| {
            let mut count: c_int = -1;
            assert_eq!(unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut count) }, 0);
            count
        };
        for pair in [accelerated(), plain()] {
            for size in [1, 5000] {
                send(pair.a, &vec![1; size], 0).unwrap();
                // The kernel's acknowledgment may be some milliseconds late.
                let late = (0..10_000).take_while(|_| unacknowledged(pair.a) > 0);
                late.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
                assert_eq!(unacknowledged(pair.a), 0);
            }
        }
    });
}

/// How many bytes of a connection the kernel has not yet sent.
pub fn held_back(fd: c_int) -> c_int {
    const SIOCOUTQNSD: libc::c_ulong = 0x894b;
    let mut count: c_int = -1;
    assert_eq!(unsafe { libc::ioctl(fd, SIOCOUTQNSD, &raw mut count) }, 0);
    count
}

fn is_set(fd: c_int, name: c_int) -> bool {
    let (mut value, mut length): (c_int, _) = (-1, size_of::<c_int>() as libc::socklen_t);
    let place = (&raw mut value).cast();
    let asked = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, name, place, &raw mut length) };
    assert_eq!(asked, 0);
    value != 0
}

#[test]
fn a_doorbell_is_never_held_back() {
    preloaded("options::a_doorbell_is_never_held_back", || {
        for (undelayed, corked) in [(true, true), (false, true), (false, false), (true, false)] {
            // Set after joining, and before.
            let pairs = [
                accelerated(),
                prepared(|fd| set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)),
                prepared(|_| ()),
            ];
            for Pair { a: receives, b: sends } in pairs {
                set(sends, libc::IPPROTO_TCP, libc::TCP_NODELAY, c_int::from(undelayed));
                set(sends, libc::IPPROTO_TCP, libc::TCP_CORK, c_int::from(corked));
                for round in 0..20 {
                    // Whoever has waited in the kernel is woken there.
                    assert_eq!(poll(receives, libc::POLLIN, 1), 0);
                    send(sends, &[round], 0).unwrap();
                    assert_eq!(held_back(sends), 0, "{undelayed}, {corked}, {round}");
                    assert_eq!(recv(receives, 9, 0), Ok(vec![round]));
                }
                assert_eq!(is_set(sends, libc::TCP_NODELAY), undelayed);
                assert_eq!(is_set(sends, libc::TCP_CORK), corked);
            }
        }
        assert_eq!(moved_back(), 0);
    });
}

/// Options that can be set and not asked for.
#[test]
fn options_that_cannot_be_asked_for_are_set_as_the_kernels() {
    preloaded("options::options_that_cannot_be_asked_for_are_set_as_the_kernels", || {
        let joins = |fd| {
            let here = libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) };
            let group = libc::in_addr { s_addr: u32::from_ne_bytes([239, 1, 1, 1]) };
            let asked = libc::ip_mreq { imr_multiaddr: group, imr_interface: here };
            let (level, name) = (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP);
            let (place, size) = ((&raw const asked).cast(), size_of_val(&asked) as libc::socklen_t);
            errors::said("setsockopt", || unsafe {
                libc::setsockopt(fd, level, name, place, size) as isize
            })
        };
        let other = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
        assert_eq!(joins(other), "setsockopt leaves 4242");
    });
}
