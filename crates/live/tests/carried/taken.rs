//! Numbers that another thread takes away under a call, which it then ends by one signal, as the JDK
//! closes sockets that its threads wait for: what is put at the number comes first, then the signal, so a
//! call either sees the one or is ended by the other.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::at_once::spin_for;
use crate::pair::{Pair, carried, close, outcome, preloaded, recv, send};

extern "C" fn handle(_: c_int) {}

/// A call, and what it is called.
type Call = (&'static str, fn(c_int) -> isize);

const RECEIVING: Call = ("recv", receiving);
const POLLING: Call = ("poll", polling);
const SENDING: Call = ("send", sending);

/// Lets `SIGUSR1` end blocking calls.
fn let_signals_end_calls() {
    // SAFETY: all zeroes is a valid action, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Whether a call on a descriptor ends soon whose number is taken away some time after it has begun, with
/// one signal to follow; and what it returned.
fn ends_of(fd: c_int, (name, call): Call, after: Duration, take: impl Fn(c_int)) -> isize {
    let (thread, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || {
            // SAFETY: asks for the calling thread.
            thread.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
            let result = call(fd);
            over.store(true, Ordering::SeqCst);
            result
        });
        while thread.load(Ordering::SeqCst) == 0 {
            std::hint::spin_loop();
        }
        spin_for(after);
        take(fd);
        // SAFETY: the thread is joined below.
        let sent = unsafe { libc::pthread_kill(thread.load(Ordering::SeqCst), libc::SIGUSR1) };
        assert_eq!(sent, 0);
        let until = Instant::now() + Duration::from_secs(5);
        while !over.load(Ordering::SeqCst) {
            assert!(
                Instant::now() < until,
                "{name}: {after:?} after its beginning, a signal was lost"
            );
            std::thread::sleep(Duration::from_micros(50));
        }
        blocked.join().unwrap()
    })
}

fn receiving(fd: c_int) -> isize {
    recv(fd, 8, 0).map_or(-1, |bytes| bytes.len() as isize)
}

fn polling(fd: c_int) -> isize {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one entry.
    unsafe { libc::poll(&mut entry, 1, -1) as isize }
}

fn sending(fd: c_int) -> isize {
    send(fd, &[1; 4096], libc::MSG_NOSIGNAL).map_or(-1, |count| count as isize)
}

/// Fills the way of one end, so that it can send no more.
fn fill(fd: c_int) {
    while send(fd, &[0; 4096], libc::MSG_DONTWAIT).is_ok() {}
}

/// When a number is taken away after a call has begun: while it polls and begins to sleep, and when it has
/// slept for a while and goes on to sleep until something comes (20 ms), in nanoseconds.
fn moments() -> impl Iterator<Item = u64> {
    let early = (0..300).map(|round| round * 7919 % 100_000);
    early.chain((0..100).map(|round| 19_000_000 + round * 39_119 % 4_000_000))
}

/// Takes the number of a blocked call away, at many moments, by `take`. Others want the processors, so that
/// the call may be late.
fn taken_by(call: Call, take: impl Fn(c_int) + Copy) {
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    spin_for(Duration::from_micros(300));
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
        for moment in moments() {
            let pair = carried();
            if call.0 == SENDING.0 {
                fill(pair.a);
            }
            ends_of(pair.a, call, Duration::from_nanos(moment), take);
            // SAFETY: nobody uses the number any more, if it is open.
            unsafe { libc::close(pair.a) };
            close(pair.b);
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_call_ends_by_one_signal_after_something_else_was_put_at_its_number() {
    let name = "taken::a_call_ends_by_one_signal_after_something_else_was_put_at_its_number";
    preloaded(name, || {
        let_signals_end_calls();
        let (marker, other) = UnixStream::pair().unwrap();
        drop(other);
        let put = |fd| {
            // SAFETY: takes no memory.
            assert_eq!(unsafe { libc::dup2(marker.as_raw_fd(), fd) }, fd);
        };
        for call in [RECEIVING, POLLING, SENDING] {
            taken_by(call, put);
        }
    });
}

#[test]
fn a_call_ends_by_one_signal_after_its_number_was_closed() {
    preloaded("taken::a_call_ends_by_one_signal_after_its_number_was_closed", || {
        let_signals_end_calls();
        taken_by(RECEIVING, close);
        taken_by(SENDING, close);
    });
}

#[test]
fn a_call_that_sleeps_goes_on_with_the_connection_whose_number_is_taken() {
    preloaded(
        "taken::a_call_that_sleeps_goes_on_with_the_connection_whose_number_is_taken",
        || {
            let (marker, other) = UnixStream::pair().unwrap();
            drop(other);
            let Pair { a, b } = carried();
            std::thread::scope(|scope| {
                let blocked = scope.spawn(move || recv(a, 8, 0));
                std::thread::sleep(Duration::from_millis(60));
                // SAFETY: takes no memory.
                assert_eq!(unsafe { libc::dup2(marker.as_raw_fd(), a) }, a);
                assert_eq!(send(b, b"late", 0), Ok(4));
                assert_eq!(blocked.join().unwrap(), Ok(b"late".to_vec()));
            });
            assert_eq!(outcome(receiving(a)), Ok(0), "the marker's end");
        },
    );
}
