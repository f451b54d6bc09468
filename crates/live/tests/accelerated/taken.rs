//! Numbers that another thread takes away under a call, which it then ends by one signal, as the JDK
//! closes sockets that its threads wait for: what is put at the number comes first, then the signal, so a
//! call either sees the one or is ended by the other.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::at_once::spin_for;
use crate::pair::{
    Pair, accelerated, close, outcome, preloaded, preloaded_undisturbed, recv, send,
};

extern "C" fn handle(_: c_int) {}

/// A call that does not end by itself.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    /// What comes before it.
    prepare: fn(Pair),
    make: fn(c_int) -> isize,
    /// When its number is taken away, in nanoseconds after its beginning.
    moments: fn() -> Vec<u64>,
}

const RECEIVING: Call = Call { name: "recv", prepare: |_| {}, make: receiving, moments };
const POLLING: Call = Call { name: "poll", make: polling, ..RECEIVING };
const SENDING: Call = Call { name: "send", prepare: |pair| fill(pair.a), make: sending, moments };
/// One whose time is limited.
const LIMITED: Call = Call { name: "recv until", prepare: limit, ..RECEIVING };
/// One that has a part of what it wants.
const IN_PART: Call =
    Call { name: "recv of all", prepare: send_a_part, make: receiving_all, ..RECEIVING };
/// One that fills the ring, and the kernel's buffers after it has gone back.
const GONE_BACK: Call = Call {
    name: "send of much",
    prepare: |_| {},
    make: sending_much,
    moments: || (0..8).map(|round| 150_000_000 + round * 12_345_678).collect(),
};

/// Lets `SIGUSR1` end blocking calls.
fn let_signals_end_calls() {
    handle_signals(0);
}

/// Handles `SIGUSR1` in a way.
fn handle_signals(how: c_int) {
    // SAFETY: all zeroes is a valid action, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as libc::sighandler_t;
        action.sa_flags = how;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// Whether a call on a descriptor ends soon whose number is taken away some time after it has begun, with
/// one signal to follow; and what it returned.
fn ends_of(fd: c_int, call: Call, after: Duration, take: impl Fn(c_int)) -> isize {
    let (thread, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || {
            // SAFETY: asks for the calling thread.
            thread.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
            let result = (call.make)(fd);
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
                "{}: {after:?} after its beginning, a signal was lost",
                call.name
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

fn receiving_all(fd: c_int) -> isize {
    recv(fd, 8, libc::MSG_WAITALL).map_or(-1, |bytes| bytes.len() as isize)
}

fn sending_much(fd: c_int) -> isize {
    send(fd, &vec![1; 64 << 20], libc::MSG_NOSIGNAL).map_or(-1, |count| count as isize)
}

fn send_a_part(pair: Pair) {
    assert_eq!(send(pair.b, b"abc", 0), Ok(3));
}

/// Limits the time of receives, to more than any of these tests takes.
fn limit(pair: Pair) {
    let (time, length) = (libc::timeval { tv_sec: 60, tv_usec: 0 }, size_of::<libc::timeval>());
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
    // SAFETY: the option has this type.
    let set = unsafe {
        libc::setsockopt(pair.a, level, name, (&raw const time).cast(), length as libc::socklen_t)
    };
    assert_eq!(set, 0);
}

/// Fills the way of one end, so that it can send no more.
fn fill(fd: c_int) {
    while send(fd, &[0; 4096], libc::MSG_DONTWAIT).is_ok() {}
}

/// When a number is taken away after a call has begun: while it polls and begins to sleep, and when it has
/// slept for a while and goes on to sleep until something comes (20 ms), and when it has, in nanoseconds.
fn moments() -> Vec<u64> {
    let early = (0..300).map(|round| round * 7919 % 100_000);
    let later = (0..100).map(|round| 19_000_000 + round * 39_119 % 4_000_000);
    early.chain(later).chain((0..20).map(|round| 30_000_000 + round * 500_000)).collect()
}

fn fewer() -> Vec<u64> {
    moments().into_iter().step_by(5).collect()
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
        for moment in (call.moments)() {
            let pair = accelerated();
            (call.prepare)(pair);
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
        for call in [RECEIVING, POLLING, SENDING, LIMITED, IN_PART, GONE_BACK] {
            taken_by(call, put);
        }
    });
}

#[test]
fn a_call_ends_by_one_signal_after_its_number_was_closed() {
    preloaded("taken::a_call_ends_by_one_signal_after_its_number_was_closed", || {
        let_signals_end_calls();
        for call in [RECEIVING, SENDING, LIMITED, IN_PART, GONE_BACK] {
            taken_by(call, close);
        }
    });
}

/// The kernel looks the number up again.
#[test]
fn a_call_that_goes_on_after_a_signal_hears_that_its_number_was_closed() {
    preloaded("taken::a_call_that_goes_on_after_a_signal_hears_that_its_number_was_closed", || {
        handle_signals(libc::SA_RESTART);
        for call in [RECEIVING, SENDING] {
            taken_by(Call { moments: fewer, ..call }, close);
        }
    });
}

#[test]
fn a_call_that_goes_on_after_a_signal_is_made_of_what_has_its_number() {
    preloaded("taken::a_call_that_goes_on_after_a_signal_is_made_of_what_has_its_number", || {
        handle_signals(libc::SA_RESTART);
        let (marker, other) = UnixStream::pair().unwrap();
        drop(other);
        let put = |fd| {
            // SAFETY: takes no memory.
            assert_eq!(unsafe { libc::dup2(marker.as_raw_fd(), fd) }, fd);
        };
        for call in [RECEIVING, SENDING, GONE_BACK] {
            taken_by(Call { moments: fewer, ..call }, put);
        }
    });
}

#[test]
fn a_call_that_sleeps_goes_on_with_the_connection_whose_number_is_taken() {
    preloaded(
        "taken::a_call_that_sleeps_goes_on_with_the_connection_whose_number_is_taken",
        || {
            let (marker, other) = UnixStream::pair().unwrap();
            drop(other);
            let Pair { a, b } = accelerated();
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

/// Takes a number away, in whose connection one thread sleeps, while another sends by it without waiting
/// until it is no more, or another's. What the kernel says was sent arrives, and nothing else.
fn sends_while_taken(take: impl Fn(c_int), send: impl Fn(c_int, u8) -> bool + Send) {
    let Pair { a, b } = accelerated();
    let (begun, blocked) = (&AtomicBool::new(false), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            // SAFETY: asks for the calling thread.
            blocked.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
            receiving(a)
        });
        let sender = scope.spawn(move || {
            let mut sent = Vec::new();
            for byte in (0..=u8::MAX).cycle() {
                if !send(a, byte) {
                    break;
                }
                sent.push(byte);
                begun.store(sent.len() > 20, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(20));
            }
            sent
        });
        while !begun.load(Ordering::SeqCst) || blocked.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_micros(20));
        }
        std::thread::sleep(Duration::from_millis(2));
        take(a);
        let sent = sender.join().unwrap();
        // SAFETY: the thread is joined below.
        assert_eq!(unsafe { libc::pthread_kill(blocked.load(Ordering::SeqCst), libc::SIGUSR1) }, 0);
        assert_eq!(sleeper.join().unwrap(), -1);
        let mut arrived = Vec::new();
        loop {
            match recv(b, 256, 0).unwrap() {
                bytes if bytes.is_empty() => break,
                bytes => arrived.extend(bytes),
            }
        }
        assert_eq!(arrived, sent);
    });
    close(b);
}

/// Sends a byte by `sendmmsg`; whether it was sent.
fn send_by_a_message(fd: c_int, byte: u8) -> bool {
    let mut part = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    // SAFETY: all zeroes is a message of nothing, and what it points to outlives the call.
    unsafe {
        let mut message: libc::mmsghdr = std::mem::zeroed();
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut part, 1);
        libc::sendmmsg(fd, &mut message, 1, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) == 1
    }
}

#[test]
fn what_is_sent_while_a_number_is_taken_away_arrives() {
    preloaded("taken::what_is_sent_while_a_number_is_taken_away_arrives", || {
        let_signals_end_calls();
        let (marker, other) = UnixStream::pair().unwrap();
        drop(other);
        let one = |fd, byte: u8| send(fd, &[byte], libc::MSG_DONTWAIT) == Ok(1);
        for _ in 0..20 {
            sends_while_taken(close, one);
            sends_while_taken(close, send_by_a_message);
            let put = |fd| {
                // SAFETY: takes no memory.
                assert_eq!(unsafe { libc::dup2(marker.as_raw_fd(), fd) }, fd);
                close(fd);
            };
            sends_while_taken(put, one);
            sends_while_taken(put, send_by_a_message);
        }
    });
}

fn open_something() -> c_int {
    // SAFETY: the name is a C string.
    unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) }
}

/// Lets no number below this one be free.
fn use_all_below(fd: c_int) -> Vec<c_int> {
    std::iter::repeat_with(open_something).take_while(|it| *it < fd).collect()
}

/// Of two threads that close a number at once one hears that it is none, however long the other takes, and
/// whatever has got the number meanwhile stays open. A first thread that loses its processor just before its
/// call closes that, as with the kernel, so a few rounds may show it, and on a busy machine more: then the trial
/// is repeated. Of a library that lets both close, 13 rounds of 20 and more show it in every trial.
#[test]
fn a_number_that_is_being_closed_is_not_closed_twice() {
    preloaded_undisturbed("taken::a_number_that_is_being_closed_is_not_closed_twice", || {
        let twice = (0..20).filter(|_| is_closed_twice()).count();
        assert!(twice < 3, "both closed it in {twice} rounds");
    });
}

/// Whether both of two threads close a number that the other is closing.
fn is_closed_twice() -> bool {
    let pair = accelerated();
    let below = use_all_below(pair.a);
    let sleepers = Sleepers::in_receives_of(&[pair]);
    let first = &AtomicBool::new(false);
    // SAFETY: takes no memory.
    let close_it = move || outcome(unsafe { libc::close(pair.a) } as isize);
    let (results, next) = std::thread::scope(|scope| {
        let closer = scope.spawn(move || {
            first.store(true, Ordering::SeqCst);
            close_it()
        });
        while !first.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        spin_for(Duration::from_micros(30));
        let second = close_it();
        let next = open_something();
        ([closer.join().unwrap(), second], next)
    });
    let twice = results == [Ok(0), Ok(0)];
    if !twice {
        assert!(results.contains(&Ok(0)) && results.contains(&Err(libc::EBADF)), "{results:?}");
        // SAFETY: takes no memory.
        assert_ne!(unsafe { libc::fcntl(next, libc::F_GETFD) }, -1, "it was closed as well");
        close(next);
    }
    sleepers.end();
    below.into_iter().chain([pair.b]).for_each(close);
    twice
}

/// The C library closes a stream's number by itself.
#[test]
fn a_call_that_sleeps_goes_on_with_the_connection_whose_stream_is_closed() {
    preloaded(
        "taken::a_call_that_sleeps_goes_on_with_the_connection_whose_stream_is_closed",
        || {
            for _ in 0..5 {
                let (marker, mut other) = UnixStream::pair().unwrap();
                other.write_all(b"wrong").unwrap();
                let Pair { a, b } = accelerated();
                std::thread::scope(|scope| {
                    let blocked = scope.spawn(move || recv(a, 8, 0));
                    std::thread::sleep(Duration::from_millis(60));
                    // SAFETY: the stream is used here alone, and the mode is a C string.
                    unsafe { assert_eq!(libc::fclose(libc::fdopen(a, c"r+".as_ptr())), 0) };
                    // SAFETY: takes no memory.
                    assert_eq!(unsafe { libc::dup2(marker.as_raw_fd(), a) }, a);
                    assert_eq!(send(b, b"right", 0), Ok(5));
                    assert_eq!(blocked.join().unwrap(), Ok(b"right".to_vec()));
                });
                close(a);
                close(b);
            }
        },
    );
}

/// The kernel gives a number out again long before `close` returns.
#[test]
fn whatever_has_got_the_number_of_a_closed_connection_is_closed_as_well() {
    let name = "taken::whatever_has_got_the_number_of_a_closed_connection_is_closed_as_well";
    preloaded(name, || {
        for _ in 0..100 {
            let Pair { a, b } = accelerated();
            let below = use_all_below(a);
            let ready = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    ready.store(true, Ordering::SeqCst);
                    let until = Instant::now() + Duration::from_secs(5);
                    loop {
                        let fd = open_something();
                        close(fd);
                        if fd == a {
                            break;
                        }
                        assert!(Instant::now() < until, "the number was never given out");
                    }
                });
                while !ready.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                close(a);
            });
            below.into_iter().for_each(close);
            close(b);
        }
    });
}

/// Some calls by which threads of their own sleep in connections, until dropped.
struct Sleepers(Vec<std::thread::JoinHandle<()>>, Vec<c_int>);

impl Sleepers {
    fn in_receives_of(pairs: &[Pair]) -> Self {
        let far = pairs.iter().map(|pair| pair.b).collect();
        let threads = pairs.iter().map(|pair| pair.a);
        let all = threads.map(|fd| std::thread::spawn(move || drop(recv(fd, 1, 0)))).collect();
        std::thread::sleep(Duration::from_millis(3));
        Self(all, far)
    }

    /// Ends them by bytes that they receive. Who did not sleep yet may have begun anew with another
    /// connection, beside the one that slept there.
    fn end(self) {
        while !self.0.iter().all(std::thread::JoinHandle::is_finished) {
            for fd in &self.1 {
                // It may be over once the only one has received.
                let _ = send(*fd, b"!", 0);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// What is put at a number was found before anybody waited for those that sleep in calls by it.
#[test]
fn two_numbers_are_put_over_each_other_without_waiting() {
    preloaded("taken::two_numbers_are_put_over_each_other_without_waiting", || {
        for _ in 0..10 {
            let pairs = [accelerated(), accelerated()];
            let sleepers = Sleepers::in_receives_of(&pairs);
            let [one, other] = pairs.map(|pair| pair.a);
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for (from, to) in [(one, other), (other, one)] {
                    // SAFETY: takes no memory.
                    scope.spawn(move || assert_eq!(unsafe { libc::dup2(from, to) }, to));
                }
            });
            assert!(begun.elapsed() < Duration::from_secs(1), "they wait for each other");
            sleepers.end();
            // Each stands for the one or the other, and both may for one.
            for fd in [one, other] {
                assert_eq!(send(fd, b"x", libc::MSG_NOSIGNAL), Ok(1));
            }
            // On a busy machine the kernel delivers later what goes by its way.
            let (mut arrived, since) = (0, Instant::now());
            while arrived < 2 && since.elapsed() < Duration::from_secs(20) {
                let some = |it: &Pair| recv(it.b, 8, libc::MSG_DONTWAIT).map_or(0, |it| it.len());
                arrived += pairs.iter().map(some).sum::<usize>();
            }
            assert_eq!(arrived, 2);
            [one, other, pairs[0].b, pairs[1].b].into_iter().for_each(close);
        }
    });
}

#[test]
fn what_is_put_at_a_number_is_found_before_another_thread_closes_it() {
    let name = "taken::what_is_put_at_a_number_is_found_before_another_thread_closes_it";
    preloaded(name, || {
        for after in (0..20).map(|round| round * 10) {
            let pair = accelerated();
            let sleepers = Sleepers::in_receives_of(&[pair]);
            let (near, mut far) = UnixStream::pair().unwrap();
            let (source, begun) = (near.into_raw_fd(), &AtomicBool::new(false));
            let put = std::thread::scope(|scope| {
                let putting = scope.spawn(|| {
                    begun.store(true, Ordering::SeqCst);
                    // SAFETY: takes no memory.
                    outcome(unsafe { libc::dup2(source, pair.a) } as isize)
                });
                while !begun.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                spin_for(Duration::from_micros(after));
                close(source);
                putting.join().unwrap()
            });
            // Who did not sleep yet receives from what was put there.
            let _ = far.write(b"!");
            sleepers.end();
            assert_eq!(send(pair.a, b"x", libc::MSG_NOSIGNAL), Ok(1), "{after} us: {put:?}");
            if put.is_ok() {
                let mut byte = [0];
                far.read_exact(&mut byte).unwrap();
                assert_eq!(&byte, b"x");
            } else {
                assert_eq!(recv(pair.b, 8, 0), Ok(b"x".to_vec()), "{after} us: it is as it was");
            }
            [pair.a, pair.b].into_iter().for_each(close);
        }
    });
}

/// A socket that is only disconnected keeps its number.
#[test]
fn a_number_whose_socket_is_being_disconnected_is_closed() {
    preloaded("taken::a_number_whose_socket_is_being_disconnected_is_closed", || {
        for after in (0..20).map(|round| round * 10) {
            let Pair { a, b } = accelerated();
            let sleeper = std::thread::spawn(move || drop(recv(a, 1, 0)));
            std::thread::sleep(Duration::from_millis(3));
            let begun = &AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    begun.store(true, Ordering::SeqCst);
                    // SAFETY: all zeroes is an address of no family.
                    unsafe {
                        let nowhere: libc::sockaddr = std::mem::zeroed();
                        libc::connect(a, &nowhere, size_of_val(&nowhere) as libc::socklen_t);
                    }
                });
                while !begun.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                spin_for(Duration::from_micros(after));
                close(a);
            });
            // Unless the close was faster.
            let _ = send(b, b"!", 0);
            sleeper.join().unwrap();
            close(b);
        }
    });
}
