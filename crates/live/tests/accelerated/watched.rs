//! Registrations in `epoll` instances that come and go.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use libc::c_int;

use crate::back::{joined_behind, send_early};
use crate::options::{held_back, set};
use crate::pair::{
    EPOLL, Numbers, Pair, WITHDRAWN, accelerated, close, stayed, use_by_turns, used,
};
use crate::pair::{joined, moved_back, outcome, plain, poll, preloaded, recv, send, used_by};
use crate::{epoll_control, epoll_events};

const IN: u32 = libc::EPOLLIN as u32;

pub fn instance() -> c_int {
    let epoll = unsafe { libc::epoll_create1(0) };
    assert!(epoll >= 0);
    epoll
}

#[test]
fn a_connection_goes_in_and_out_of_more_instances_than_it_has_places() {
    preloaded("watched::a_connection_goes_in_and_out_of_more_instances_than_it_has_places", || {
        let pair = accelerated();
        let instances: Vec<_> = (0..10).map(|_| instance()).collect();
        for round in 0..3u8 {
            for epoll in &instances {
                assert_eq!(epoll_control(*epoll, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(epoll_events(*epoll), [(IN, 7)]);
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                assert_eq!(epoll_events(*epoll), []);
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(epoll_control(*epoll, libc::EPOLL_CTL_DEL, pair.b, 0), 0);
                assert_eq!(epoll_events(*epoll), []);
                let again = epoll_control(*epoll, libc::EPOLL_CTL_DEL, pair.b, 0);
                assert_eq!(outcome(again as isize), Err(libc::ENOENT));
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
            }
        }
        assert_eq!(moved_back(), 0, "it stays accelerated");
    });
}

#[test]
fn a_number_that_was_taken_out_is_closed_and_the_connection_stays_accelerated() {
    preloaded(
        "watched::a_number_that_was_taken_out_is_closed_and_the_connection_stays_accelerated",
        || {
            let (pair, epoll) = (accelerated(), instance());
            for round in 0..5u8 {
                let copy = unsafe { libc::dup(pair.b) };
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, copy, IN), 0);
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(epoll_events(epoll), [(IN, 7)]);
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_DEL, copy, 0), 0);
                close(copy);
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(epoll_events(epoll), []);
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
            }
            assert_eq!(moved_back(), 0, "it stays accelerated");
            close(epoll);
        },
    );
}

#[test]
fn what_was_taken_out_can_be_put_in_again_after_the_connection_went_back() {
    preloaded(
        "watched::what_was_taken_out_can_be_put_in_again_after_the_connection_went_back",
        || {
            let (pair, epoll) = (accelerated(), instance());
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_DEL, pair.b, 0), 0);
            let one = 1 as c_int;
            // An option that only the kernel honours brings the connection back.
            let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMP);
            let result =
                unsafe { libc::setsockopt(pair.b, level, name, (&raw const one).cast(), 4) };
            assert_eq!(result, 0);
            for round in 0..10u8 {
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                send(pair.b, &[round], 0).unwrap();
                assert_eq!(recv(pair.a, 1, 0), Ok(vec![round]));
            }
            assert_eq!(moved_back(), 2, "both ends are back");
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
            send(pair.a, b"news", 0).unwrap();
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 5000) }, 1);
            assert_eq!(epoll_events(epoll), [(IN, 7)]);
            close(epoll);
        },
    );
}

#[test]
fn what_became_ready_between_two_waits_is_reported_by_one() {
    preloaded("watched::what_became_ready_between_two_waits_is_reported_by_one", || {
        let edge = libc::EPOLLET as u32;
        for kind in [IN, IN | edge] {
            let (pair, epoll, mut pipe) = (accelerated(), instance(), [0; 2]);
            assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
            for fd in [pair.b, pipe[0]] {
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, fd, kind), 0);
            }
            for round in 0..20u8 {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 5) }, 0);
                send(pair.a, &[round], 0).unwrap();
                assert_eq!(unsafe { libc::write(pipe[1], (&raw const round).cast(), 1) }, 1);
                assert_eq!(epoll_events(epoll), [(IN, 7), (IN, 7)], "round {round}");
                let mut byte = 0u8;
                assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
                assert_eq!(unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) }, 1);
            }
            for fd in [pair.a, pair.b, pipe[0], pipe[1], epoll] {
                close(fd);
            }
        }
    });
}

/// A look that has something else to report (there is room) must not take an answer for reported
/// that comes in its middle. The pauses are as long as an answer takes, so that some do.
#[test]
fn an_answer_in_the_middle_of_a_look_is_an_edge() {
    preloaded("watched::an_answer_in_the_middle_of_a_look_is_an_edge", || {
        const ROUNDS: u32 = 60_000;
        let pair = accelerated();
        let (epoll, edges) = (instance(), (libc::EPOLLOUT | libc::EPOLLET) as u32);
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, IN | edges), 0);
        let answering = std::thread::spawn(move || {
            let mut answered = 0;
            while answered < ROUNDS {
                match recv(pair.b, 1, libc::MSG_DONTWAIT) {
                    Ok(byte) if byte.is_empty() => return,
                    Ok(byte) => {
                        answered += 1;
                        assert_eq!(send(pair.b, &byte, 0), Ok(1));
                    }
                    Err(_) => std::hint::spin_loop(),
                }
            }
        });
        let mut numbers = Numbers(9);
        for round in 0..ROUNDS {
            assert_eq!(send(pair.a, &[round as u8], 0), Ok(1));
            for _ in 0..numbers.below(60) {
                std::hint::spin_loop();
            }
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            while event.events & IN == 0 {
                let count = unsafe { libc::epoll_wait(epoll, &mut event, 1, 2000) };
                assert_eq!(count, 1, "the answer of round {round} was not reported");
            }
            assert_eq!(recv(pair.a, 2, libc::MSG_DONTWAIT), Ok(vec![round as u8]));
        }
        answering.join().unwrap();
    });
}

/// What waits for an instance must see all that the instance would report.
#[test]
fn an_instance_that_is_polled_reports_by_the_kernel() {
    preloaded("watched::an_instance_that_is_polled_reports_by_the_kernel", || {
        let pair = accelerated();
        let epoll = unsafe { libc::epoll_create1(0) };
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, libc::EPOLLIN as u32), 0);
        assert_eq!(poll(epoll, libc::POLLIN, 0), 0);
        for round in 0..20u8 {
            send(pair.a, &[round], 0).unwrap();
            assert_eq!(poll(epoll, libc::POLLIN, 5000), libc::POLLIN);
            assert_eq!(epoll_events(epoll), [(libc::EPOLLIN as u32, 7)]);
            assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
            assert_eq!(poll(epoll, libc::POLLIN, 0), 0);
        }
    });
}

/// Polls for what can be received on all of these until any has something.
fn poll_all(fds: &[c_int]) -> Vec<i16> {
    let asked = libc::POLLIN | libc::POLLRDHUP;
    let mut entries: Vec<_> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: asked, revents: 0 }).collect();
    let found = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, -1) };
    let seen: Vec<_> = entries.iter().map(|entry| entry.revents).collect();
    assert_eq!(seen.iter().filter(|events| **events != 0).count(), found as usize);
    seen
}

#[test]
fn whoever_polls_many_connections_sees_what_each_has() {
    preloaded("watched::whoever_polls_many_connections_sees_what_each_has", || {
        let pairs = [(); 5].map(|()| accelerated());
        let ours = pairs.map(|pair| pair.b);
        let (order, acts) = std::sync::mpsc::channel::<(usize, bool)>();
        let other = thread::spawn(move || {
            for (number, (which, ends)) in acts.into_iter().enumerate() {
                // While the other polls, or sleeps, or before it has begun.
                for _ in 0..number % 200 * 1000 {
                    std::hint::spin_loop();
                }
                if ends {
                    // SAFETY: takes no memory.
                    assert_eq!(unsafe { libc::shutdown(pairs[which].a, libc::SHUT_WR) }, 0);
                } else {
                    send(pairs[which].a, b"x", 0).unwrap();
                }
            }
        });
        for round in 0..1000 {
            let which = round % ours.len();
            order.send((which, false)).unwrap();
            let mut expected = [0; 5];
            expected[which] = libc::POLLIN;
            assert_eq!(poll_all(&ours), expected);
            assert_eq!(recv(ours[which], 9, 0), Ok(b"x".to_vec()));
        }
        for which in 0..ours.len() {
            order.send((which, true)).unwrap();
            let seen = poll_all(&ours[which..]);
            assert_eq!(seen[0], libc::POLLIN | libc::POLLRDHUP);
            assert!(seen[1..].iter().all(|events| *events == 0));
        }
        drop(order);
        other.join().unwrap();
        assert_eq!(moved_back(), 0);
    });
}

/// A connection that has joined behind the word `early `, and behind `late `, which the kernel of its
/// sender holds back. `None` if the kernel did not do so for long enough for `meanwhile`.
fn joined_behind_late<T>(meanwhile: impl Fn(Pair) -> T) -> Option<(Pair, T)> {
    let pair = joined_behind(|fd| {
        send_early(fd);
        set(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        assert_eq!(send(fd, b"late ", 0), Ok(5));
    });
    let seen = meanwhile(pair);
    if held_back(pair.a) == 5 {
        return Some((pair, seen));
    }
    close(pair.a);
    close(pair.b);
    None
}

/// An instance that waits for edges hears of all that the kernel's stream brings, also of what comes
/// once the sender writes to the ring.
#[test]
fn bytes_of_the_kernels_stream_that_arrive_late_are_an_edge() {
    preloaded("watched::bytes_of_the_kernels_stream_that_arrive_late_are_an_edge", || {
        let early = |pair: Pair| {
            let (epoll, kind) = (instance(), IN | libc::EPOLLET as u32);
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, kind), 0);
            let first = epoll_events(epoll);
            assert_eq!(recv(pair.b, 6, 0), Ok(b"early ".to_vec()));
            (epoll, first, epoll_events(epoll))
        };
        for round in 0..10 {
            // The kernel holds bytes back for 200 ms, which a busy machine may take for itself.
            let made = (0..1000).find_map(|_| joined_behind_late(early));
            let (pair, (epoll, first, then)) = made.unwrap();
            assert_eq!((first, then), (vec![(IN, 7)], vec![]));
            let release = move || {
                if round % 2 == 1 {
                    thread::sleep(Duration::from_millis(5));
                }
                set(pair.a, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
            };
            // Before the instance is waited in, and while it is.
            let other = (round % 2 == 1).then(|| thread::spawn(release));
            if other.is_none() {
                release();
            }
            for (text, more) in [(&b"late "[..], &b"then"[..]), (b"then", b"")] {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, 5000) }, 1);
                assert_eq!((event.events, event.u64), (IN, 7));
                assert_eq!(recv(pair.b, text.len(), 0), Ok(text.to_vec()));
                send(pair.a, more, 0).unwrap();
            }
            other.into_iter().for_each(|other| other.join().unwrap());
            [pair.a, pair.b, epoll].into_iter().for_each(close);
        }
        assert_eq!(moved_back(), 0, "they stay accelerated");
    });
}

/// The events that an instance has within so many milliseconds.
pub fn wait_for_one(epoll: c_int, milliseconds: c_int) -> Option<u32> {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let count = unsafe { libc::epoll_wait(epoll, &mut event, 1, milliseconds) };
    (count == 1).then_some(event.events)
}

/// A thread that sleeps in an instance until it is woken: at the end of its time it would look by
/// itself.
pub struct Waiting(Receiver<Option<u32>>);

impl Waiting {
    pub fn begin(epoll: c_int) -> Self {
        let (said, heard) = channel();
        thread::spawn(move || said.send(wait_for_one(epoll, -1)));
        thread::sleep(Duration::from_millis(20));
        Self(heard)
    }

    pub fn end(self) -> Option<u32> {
        self.0.recv_timeout(Duration::from_secs(20)).expect("it is woken")
    }
}

/// Who ends a wait in one instance leaves those alone who wait in another for the same connection.
#[test]
fn an_instance_wakes_who_waits_in_it_whoever_else_has_waited() {
    preloaded("watched::an_instance_wakes_who_waits_in_it_whoever_else_has_waited", || {
        for _ in 0..10 {
            let (pair, one, other) = (accelerated(), instance(), instance());
            for epoll in [one, other] {
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
            }
            let waiting = Waiting::begin(one);
            assert_eq!(wait_for_one(other, 10), None);
            send(pair.a, b"x", 0).unwrap();
            assert_eq!(waiting.end(), Some(IN));
            [pair.a, pair.b, one, other].into_iter().for_each(close);
        }
    });
}

#[test]
fn what_has_fired_once_stays_silent_on_the_way_back() {
    preloaded("watched::what_has_fired_once_stays_silent_on_the_way_back", || {
        for how in [IN, IN | libc::EPOLLET as u32] {
            let kind = how | libc::EPOLLONESHOT as u32;
            let seen = [[accelerated(), accelerated()], [plain(), plain()]].map(|[pair, other]| {
                let epoll = instance();
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, kind), 0);
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, other.b, IN), 0);
                send(pair.a, b"x", 0).unwrap();
                let mut seen = vec![wait_for_one(epoll, 1000)];
                set(pair.a, libc::IPPROTO_IP, libc::IP_RECVTTL, 1);
                for _ in 0..3 {
                    send(pair.a, b"x", 0).unwrap();
                    seen.push(wait_for_one(epoll, 5));
                    assert_eq!(recv(pair.b, 1, 0), Ok(b"x".to_vec()));
                }
                // Another that goes back takes no more than itself along.
                set(other.a, libc::IPPROTO_IP, libc::IP_RECVTTL, 1);
                assert_eq!(poll(other.b, libc::POLLIN, 0), 0);
                send(pair.a, b"x", 0).unwrap();
                seen.extend([wait_for_one(epoll, 5), wait_for_one(epoll, 5)]);
                assert_eq!(recv(pair.b, 1, 0), Ok(b"x".to_vec()));
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_MOD, pair.b, kind), 0);
                seen.extend([wait_for_one(epoll, 1000), wait_for_one(epoll, 5)]);
                seen
            });
            assert_eq!(seen[0], seen[1]);
        }
    });
}

#[test]
fn room_is_an_edge_whatever_was_reported_while_there_was_none() {
    preloaded("watched::room_is_an_edge_whatever_was_reported_while_there_was_none", || {
        let out = libc::EPOLLOUT as u32;
        let kind = IN | out | libc::EPOLLET as u32;
        // A ring that is full to the last byte, and one that was sent more than it has room for.
        for more in [0, 1000] {
            let (pair, epoll) = (accelerated(), instance());
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, kind), 0);
            assert_eq!(wait_for_one(epoll, 1000), Some(out));
            let ring = vec![1; (1 << 18) + more];
            assert_eq!(send(pair.a, &ring, libc::MSG_DONTWAIT), Ok(1 << 18));
            assert_eq!(send(pair.a, b"x", libc::MSG_DONTWAIT), Err(libc::EAGAIN));
            send(pair.b, b"x", 0).unwrap();
            assert_eq!(wait_for_one(epoll, 1000), Some(IN));
            assert_eq!(recv(pair.a, 1, 0), Ok(b"x".to_vec()));
            assert_eq!(recv(pair.b, 1 << 18, libc::MSG_WAITALL), Ok(vec![1; 1 << 18]));
            assert_eq!(wait_for_one(epoll, 5000), Some(out));
            [pair.a, pair.b, epoll].into_iter().for_each(close);
        }
    });
}

#[test]
fn an_end_that_stops_reading_wakes_who_waits_in_an_instance() {
    preloaded("watched::an_end_that_stops_reading_wakes_who_waits_in_an_instance", || {
        let seen = [accelerated(), plain()].map(|pair| {
            let epoll = instance();
            let kind = IN | libc::EPOLLRDHUP as u32;
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, kind), 0);
            let waiting = Waiting::begin(epoll);
            assert_eq!(unsafe { libc::shutdown(pair.a, libc::SHUT_RD) }, 0);
            waiting.end()
        });
        assert_eq!(seen[0], seen[1]);
    });
}

/// As in the kernel, a registration lives as long as any number of its connection does.
#[test]
fn a_registration_whose_number_was_closed_and_given_anew_disturbs_nobody() {
    preloaded(
        "watched::a_registration_whose_number_was_closed_and_given_anew_disturbs_nobody",
        || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let (pair, epoll) = (used_by(&listener, 100), instance());
            assert_eq!(joined(), 2);
            let add = |fd: c_int, data: u64| {
                let mut event = libc::epoll_event { events: IN, u64: data };
                // SAFETY: the event is valid.
                assert_eq!(
                    unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) },
                    0
                );
            };
            add(pair.b, 7);
            // SAFETY: takes no memory.
            let copy = unsafe { libc::dup(pair.b) };
            close(pair.b);
            let next = used_by(&listener, 1);
            assert_eq!(next.a, pair.b);
            add(next.a, 9);
            // Such a receive sleeps in the kernel at once, and takes the doorbells that wake it.
            let limit = libc::timeval { tv_sec: 5, tv_usec: 0 };
            set(copy, libc::SOL_SOCKET, libc::SO_RCVTIMEO, limit);
            thread::scope(|scope| {
                let reader = scope.spawn(|| recv(copy, 9, 0));
                let waiter = scope.spawn(|| {
                    let until = std::time::Instant::now() + Duration::from_secs(5);
                    let mut said = Vec::new();
                    while !said.contains(&9) && std::time::Instant::now() < until {
                        let mut event = libc::epoll_event { events: 0, u64: 0 };
                        // SAFETY: there is room for one event.
                        if unsafe { libc::epoll_wait(epoll, &mut event, 1, 1000) } == 1 {
                            said.push(event.u64);
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    said
                });
                thread::sleep(Duration::from_millis(50));
                send(pair.a, b"old", 0).unwrap();
                assert_eq!(reader.join().unwrap(), Ok(b"old".to_vec()));
                thread::sleep(Duration::from_millis(50));
                send(next.b, b"new", 0).unwrap();
                let said = waiter.join().unwrap();
                assert!(
                    said.iter().all(|data| [7, 9].contains(data)) && said.contains(&9),
                    "{said:?}"
                );
            });
            assert_eq!(recv(next.a, 9, 0), Ok(b"new".to_vec()));
            send(pair.a, b"more", 0).unwrap();
            assert_eq!(epoll_events(epoll), [(IN, 7)]);
            close(copy);
            assert_eq!(epoll_events(epoll), []);
        },
    );
}

/// The kernel goes on with it, which must then see all that comes.
#[test]
fn a_registration_whose_number_was_closed_before_the_connection_joined_keeps_it_in_the_kernel() {
    let name = "a_registration_whose_number_was_closed_before_the_connection_joined_keeps_it_in_the_kernel";
    preloaded(&format!("watched::{name}"), || {
        let (pair, epoll) = (used(1), instance());
        // SAFETY: takes no memory.
        let copy = unsafe { libc::dup(pair.b) };
        let kind = IN | libc::EPOLLET as u32;
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, copy, kind), 0);
        close(copy);
        use_by_turns(pair, 100);
        assert_eq!((joined(), stayed(EPOLL)), (0, 1));
        send(pair.a, b"x", 0).unwrap();
        assert_eq!(epoll_events(epoll), [(IN, 7)]);
        for fd in [epoll, pair.a, pair.b] {
            close(fd);
        }
    });
}

#[test]
fn an_offer_that_cannot_be_taken_leaves_both_ends_to_the_kernel() {
    let name = "watched::an_offer_that_cannot_be_taken_leaves_both_ends_to_the_kernel";
    preloaded(name, || {
        let pair = used(1);
        // The outer instance follows through sixteen at most.
        let outer = instance();
        let all: Vec<_> = (0..17).map(|_| instance()).collect();
        let last = all[16];
        assert_eq!(epoll_control(last, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
        for inner in &all {
            assert_eq!(epoll_control(outer, libc::EPOLL_CTL_ADD, *inner, IN), 0);
        }
        use_by_turns(pair, 100);
        assert_eq!((joined(), stayed(EPOLL), stayed(WITHDRAWN)), (0, 1, 1));
        send(pair.a, b"x", 0).unwrap();
        assert_eq!(epoll_events(outer), [(IN, 7)]);
        for fd in [outer, pair.a, pair.b].iter().chain(&all) {
            close(*fd);
        }
    });
}

/// Closes a number past the library, as another thread that closes it too may.
fn close_past_the_library(fd: c_int) {
    // SAFETY: the C library has such a function.
    unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW);
        let found = libc::dlsym(library, c"close".as_ptr());
        let close: extern "C" fn(c_int) -> c_int = std::mem::transmute(found);
        assert_eq!(close(fd), 0);
    }
}

#[test]
fn what_was_closed_past_the_library_is_in_no_instance_once_its_number_is_taken_again() {
    let name = "watched::what_was_closed_past_the_library_is_in_no_instance_once_its_number_is_taken_again";
    preloaded(name, || {
        let (pair, epoll) = (accelerated(), instance());
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, IN), 0);
        assert_eq!(epoll_events(epoll), [], "it is looked at from now on");
        close_past_the_library(pair.b);
        // Its listening socket gets the number, and one of these the place.
        let others = accelerated();
        for end in [others.a, others.b] {
            assert_eq!(send(end, b"x", 0), Ok(1));
            assert_eq!(epoll_events(epoll), [], "these were not put in");
        }
        for fd in [others.a, others.b, pair.a] {
            close(fd);
        }
        assert_eq!(epoll_events(epoll), [], "their memory is gone");
        close(epoll);
    });
}
