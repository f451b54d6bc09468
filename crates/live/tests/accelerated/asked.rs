//! `poll`, `select` and odd receives, where an accelerated connection is not all that is asked about.

use std::thread;
use std::time::Duration;

use libc::{c_int, pollfd};

use crate::pair::{Pair, accelerated, outcome, plain, poll, preloaded, recv, send};

fn pipe() -> Pair {
    let mut ends = [0; 2];
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    Pair { b: ends[0], a: ends[1] }
}

#[test]
fn who_sleeps_on_a_connection_and_a_pipe_is_woken_by_either() {
    preloaded("asked::who_sleeps_on_a_connection_and_a_pipe_is_woken_by_either", || {
        let ways = [accelerated(), pipe()];
        for round in 0..10u8 {
            let which = usize::from(round % 2);
            let writer = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                unsafe { libc::write(ways[which].a, (&raw const round).cast(), 1) };
            });
            let mut entries = ways.map(|it| pollfd { fd: it.b, events: libc::POLLIN, revents: 0 });
            assert_eq!(unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) }, 1);
            let seen = entries.map(|it| it.revents);
            assert_eq!((seen[which], seen[1 - which]), (libc::POLLIN, 0));
            let mut byte = 0u8;
            unsafe { libc::read(ways[which].b, (&raw mut byte).cast(), 1) };
            assert_eq!(byte, round);
            writer.join().unwrap();
        }
    });
}

#[test]
fn a_number_that_stands_for_nothing_is_refused_beside_a_connection() {
    preloaded("asked::a_number_that_stands_for_nothing_is_refused_beside_a_connection", || {
        let seen = [accelerated(), plain()].map(|pair| unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            let nothing: c_int = 700;
            libc::FD_SET(pair.b, &mut set);
            libc::FD_SET(nothing, &mut set);
            let (none, no_time) = (std::ptr::null_mut(), std::ptr::null_mut());
            outcome(libc::select(nothing + 1, &mut set, none, none, no_time) as isize)
        });
        assert_eq!(seen, [Err(libc::EBADF); 2]);
    });
}

#[test]
fn urgent_data_is_an_event_before_what_was_sent_before_is_read() {
    preloaded("asked::urgent_data_is_an_event_before_what_was_sent_before_is_read", || {
        let seen = [accelerated(), plain()].map(|pair| {
            send(pair.a, b"before", 0).unwrap();
            assert_eq!(send(pair.a, b"!", libc::MSG_OOB), Ok(1));
            let events = poll(pair.b, libc::POLLPRI, 1000);
            (events, recv(pair.b, 6, 0), recv(pair.b, 1, libc::MSG_OOB))
        });
        assert_eq!(seen[0], seen[1]);
    });
}

#[test]
fn what_is_thrown_away_is_not_copied() {
    preloaded("asked::what_is_thrown_away_is_not_copied", || {
        for pair in [accelerated(), plain()] {
            send(pair.a, b"away then", 0).unwrap();
            let mut bytes = *b"-----";
            let count =
                unsafe { libc::recv(pair.b, bytes.as_mut_ptr().cast(), 5, libc::MSG_TRUNC) };
            assert_eq!((count, &bytes), (5, b"-----"));
            assert_eq!(recv(pair.b, 9, 0), Ok(b"then".to_vec()));
        }
    });
}

extern "C" fn nothing(_: c_int) {}

/// Has `SIGALRM` come so often, in microseconds; zero ends that.
fn alarm_every(microseconds: i64) {
    let span = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let often = libc::itimerval { it_interval: span, it_value: span };
    // SAFETY: the handler does nothing, all zeroes are a valid action, and the time is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &often, std::ptr::null_mut()), 0);
    }
}

#[test]
fn no_signal_comes_before_an_event_beside_a_pipe() {
    preloaded("asked::no_signal_comes_before_an_event_beside_a_pipe", || {
        let ways = [accelerated(), pipe()];
        assert_eq!(send(ways[0].a, b"there", 0), Ok(5));
        alarm_every(50);
        for _ in 0..200_000 {
            let mut entries = ways.map(|it| pollfd { fd: it.b, events: libc::POLLIN, revents: 0 });
            // SAFETY: there are two entries.
            let found = outcome(unsafe { libc::poll(entries.as_mut_ptr(), 2, -1) } as isize);
            assert_eq!((found, entries[0].revents), (Ok(1), libc::POLLIN));
        }
        alarm_every(0);
    });
}
