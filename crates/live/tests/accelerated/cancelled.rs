//! Threads that are cancelled while they sleep in a call on a connection.

use std::mem::zeroed;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, epoll_event, fd_set, pollfd, pthread_t, timeval};

use crate::epoll_control;
use crate::pair::{Pair, accelerated, close, joined, moved_back, preloaded, recv, send, used};

type Body = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

// Nobody is unwound from these.
unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const c_void,
        body: Body,
        word: *mut c_void,
    ) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
}

/// A function of the C library, from which a cancelled thread is unwound. One that is declared would be the
/// `libc` crate's of the same name, which says that nobody ever is.
macro_rules! unwound {
    ($name:literal, fn($($argument:ty),*) -> $result:ty) => {
        std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($argument),*) -> $result>(
            libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr()),
        )
    };
}

const CANCELED: *mut c_void = -1isize as *mut c_void;

/// Runs `body` on a descriptor in a thread of its own, cancels it after some milliseconds, and says
/// whether it ended so. The test is over if it does not end at all.
fn is_cancelled(fd: c_int, body: Body, milliseconds: u32) -> bool {
    let mut result = std::ptr::null_mut();
    // SAFETY: the thread gets a number in the place of a pointer, and is joined.
    unsafe {
        let mut thread: pthread_t = zeroed();
        let word = fd as usize as *mut c_void;
        assert_eq!(pthread_create(&mut thread, std::ptr::null(), body, word), 0);
        libc::usleep(milliseconds * 1000);
        assert_eq!(pthread_cancel(thread), 0);
        assert_eq!(libc::pthread_join(thread, &mut result), 0);
    }
    result == CANCELED
}

extern "C-unwind" fn receiving(fd: *mut c_void) -> *mut c_void {
    let mut byte = 0u8;
    // SAFETY: the function is of this type, and the byte is a valid place.
    unsafe {
        let receive = unwound!(c"recv", fn(c_int, *mut u8, usize, c_int) -> isize);
        receive(fd as c_int, &raw mut byte, 1, 0) as *mut c_void
    }
}

extern "C-unwind" fn reading(fd: *mut c_void) -> *mut c_void {
    let mut byte = 0u8;
    // SAFETY: as above.
    unsafe {
        let read = unwound!(c"read", fn(c_int, *mut u8, usize) -> isize);
        read(fd as c_int, &raw mut byte, 1) as *mut c_void
    }
}

extern "C-unwind" fn sending(fd: *mut c_void) -> *mut c_void {
    static BYTES: [u8; 1 << 20] = [7; 1 << 20];
    // SAFETY: the function is of this type, and the bytes are there for good.
    unsafe {
        let send = unwound!(c"send", fn(c_int, *const u8, usize, c_int) -> isize);
        while send(fd as c_int, BYTES.as_ptr(), BYTES.len(), 0) > 0 {}
    }
    std::ptr::null_mut()
}

extern "C-unwind" fn polling(fd: *mut c_void) -> *mut c_void {
    let mut entry = pollfd { fd: fd as c_int, events: libc::POLLIN, revents: 0 };
    // SAFETY: the function is of this type, and there is one entry.
    unsafe {
        let poll = unwound!(c"poll", fn(*mut pollfd, libc::nfds_t, c_int) -> c_int);
        poll(&mut entry, 1, -1) as usize as *mut c_void
    }
}

extern "C-unwind" fn selecting(fd: *mut c_void) -> *mut c_void {
    let none = std::ptr::null_mut();
    // SAFETY: all zeroes is an empty set, and the descriptor fits it.
    unsafe {
        let mut set: fd_set = zeroed();
        libc::FD_SET(fd as c_int, &mut set);
        let count = fd as c_int + 1;
        type Set = *mut fd_set;
        let select = unwound!(c"select", fn(c_int, Set, Set, Set, *mut timeval) -> c_int);
        select(count, &mut set, none, none, std::ptr::null_mut()) as usize as *mut c_void
    }
}

extern "C-unwind" fn watching(epoll: *mut c_void) -> *mut c_void {
    let mut event = epoll_event { events: 0, u64: 0 };
    // SAFETY: the function is of this type, and there is room for one event.
    unsafe {
        let wait = unwound!(c"epoll_wait", fn(c_int, *mut epoll_event, c_int, c_int) -> c_int);
        wait(epoll as c_int, &mut event, 1, -1) as usize as *mut c_void
    }
}

extern "C-unwind" fn never_sleeping(fd: *mut c_void) -> *mut c_void {
    let (mut byte, begun) = (0u8, Instant::now());
    // SAFETY: the function is of this type.
    let receive = unsafe { unwound!(c"recv", fn(c_int, *mut u8, usize, c_int) -> isize) };
    while begun.elapsed() < Duration::from_secs(20) {
        // SAFETY: the byte is a valid place.
        unsafe { receive(fd as c_int, &raw mut byte, 1, libc::MSG_DONTWAIT) };
    }
    std::ptr::null_mut()
}

/// Is cancelled before it closes.
extern "C-unwind" fn closing(fd: *mut c_void) -> *mut c_void {
    // SAFETY: it is this thread.
    unsafe {
        assert_eq!(pthread_cancel(libc::pthread_self()), 0);
        let close = unwound!(c"close", fn(c_int) -> c_int);
        close(fd as c_int) as usize as *mut c_void
    }
}

/// Both ends go on as if nobody had been there, for longer than it ever takes to join.
fn goes_on(pair: Pair) {
    for round in 0..500u32 {
        for (from, to) in [(pair.a, pair.b), (pair.b, pair.a)] {
            assert_eq!(send(from, &[round as u8], 0), Ok(1));
            assert_eq!(recv(to, 1, 0), Ok(vec![round as u8]));
        }
    }
    close(pair.b);
    assert_eq!(recv(pair.a, 1, 0), Ok(vec![]), "nobody is thought to be inside");
    close(pair.a);
}

#[test]
fn a_thread_that_sleeps_on_a_accelerated_connection_ends_where_it_is_cancelled() {
    preloaded(
        "cancelled::a_thread_that_sleeps_on_a_accelerated_connection_ends_where_it_is_cancelled",
        || {
            for milliseconds in [1, 60] {
                for body in [receiving, reading, polling, selecting] {
                    let pair = accelerated();
                    assert!(is_cancelled(pair.b, body, milliseconds));
                    assert!(is_cancelled(pair.b, body, milliseconds), "a second time");
                    goes_on(pair);
                }
                let pair = accelerated();
                // SAFETY: takes no memory.
                let epoll = unsafe { libc::epoll_create1(0) };
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, 1), 0);
                assert!(is_cancelled(epoll, watching, milliseconds));
                goes_on(pair);
                close(epoll);
            }
        },
    );
}

#[test]
fn a_thread_that_cannot_send_or_does_not_sleep_ends_too() {
    preloaded("cancelled::a_thread_that_cannot_send_or_does_not_sleep_ends_too", || {
        // Where others take the processor for long, the full ring is the kernel's before.
        let stayed = (0..20).any(|_| {
            let (pair, before) = (accelerated(), moved_back());
            assert!(is_cancelled(pair.a, sending, 30));
            let stayed = moved_back() == before;
            let mut left = 0;
            while let Ok(some) = recv(pair.b, 1 << 20, libc::MSG_DONTWAIT) {
                left += some.len();
            }
            assert!(left > 0);
            goes_on(pair);
            stayed
        });
        assert!(stayed, "it ends while its connection is accelerated");
        let (pair, before) = (accelerated(), moved_back());
        assert!(is_cancelled(pair.b, never_sleeping, 20));
        assert_eq!(moved_back(), before, "nor did the kernel end it");
        goes_on(pair);
    });
}

#[test]
fn a_thread_that_sleeps_on_a_connection_of_the_kernel_is_forgotten_by_the_library() {
    preloaded(
        "cancelled::a_thread_that_sleeps_on_a_connection_of_the_kernel_is_forgotten_by_the_library",
        || {
            // At every stage before a connection is accelerated, whether the call passes by or not.
            for rounds in 0..12 {
                let before = joined();
                let pair = used(rounds);
                assert!(is_cancelled(pair.b, receiving, 1));
                goes_on(pair);
                assert_eq!(joined(), before + 2, "both ends join after {rounds} rounds");
            }
        },
    );
}

#[test]
fn who_is_cancelled_before_it_closes_has_closed_nothing() {
    preloaded("cancelled::who_is_cancelled_before_it_closes_has_closed_nothing", || {
        let pair = accelerated();
        let mut result = std::ptr::null_mut();
        // SAFETY: the thread gets a number in the place of a pointer, and is joined.
        unsafe {
            let mut thread: pthread_t = zeroed();
            let word = pair.a as usize as *mut c_void;
            assert_eq!(pthread_create(&mut thread, std::ptr::null(), closing, word), 0);
            assert_eq!(libc::pthread_join(thread, &mut result), 0);
        }
        assert_eq!(result, CANCELED);
        goes_on(pair);
    });
}
