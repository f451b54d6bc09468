//! Whoever waits, sleeps: in every state of a connection in which there is nothing for him.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use libc::c_int;

use crate::epoll_control;
use crate::pair::{Entries, Pair, accelerated, close, moved_back, outcome, preloaded, recv, send};

/// What has come before a wait at the second end.
#[derive(Clone, Copy, Debug)]
enum State {
    Nothing,
    /// Bytes that it does not read.
    Unread,
    /// As many as the first end can send.
    UnreadFull,
    /// It can send no more.
    Full,
    BothFull,
    /// The first end has gone back, and nothing comes behind what is in its ring.
    GoneBack,
    GoneBackFull,
    /// Something does.
    Behind,
    BehindFull,
    /// All is read of one that has gone back.
    Emptied,
    EmptiedFull,
    /// The first end sends no more.
    Ended,
    EndedUnread,
    EndedFull,
    /// The second end sends no more, or reads no more.
    HalfShut,
    Deaf,
    DeafFull,
    Urgent,
    UrgentFull,
}

const STATES: [State; 19] = [
    State::Nothing,
    State::Unread,
    State::UnreadFull,
    State::Full,
    State::BothFull,
    State::GoneBack,
    State::GoneBackFull,
    State::Behind,
    State::BehindFull,
    State::Emptied,
    State::EmptiedFull,
    State::Ended,
    State::EndedUnread,
    State::EndedFull,
    State::HalfShut,
    State::Deaf,
    State::DeafFull,
    State::Urgent,
    State::UrgentFull,
];

fn fill(fd: c_int) {
    while send(fd, &[1; 10_000], libc::MSG_DONTWAIT).is_ok() {}
}

fn shut(fd: c_int, how: c_int) {
    // SAFETY: takes no memory.
    assert_eq!(outcome(unsafe { libc::shutdown(fd, how) } as isize), Ok(0));
}

/// Lets an end go back to the kernel, of whose full ring nobody reads.
fn go_back(fd: c_int) {
    let before = moved_back();
    fill(fd);
    // SAFETY: takes no memory.
    let room = unsafe { libc::epoll_create1(0) };
    assert_eq!(epoll_control(room, libc::EPOLL_CTL_ADD, fd, libc::EPOLLOUT as u32), 0);
    while moved_back() == before {
        events_of(room, 20);
    }
    close(room);
}

/// Brings a connection into a state.
fn made(state: State) -> Pair {
    let pair = accelerated();
    let Pair { a, b } = pair;
    match state {
        State::Nothing | State::Full => {}
        State::Unread | State::EndedUnread => assert_eq!(send(a, b"unread", 0), Ok(6)),
        State::UnreadFull | State::BothFull => fill(a),
        State::Ended | State::EndedFull => shut(a, libc::SHUT_WR),
        State::HalfShut => shut(b, libc::SHUT_WR),
        State::Deaf | State::DeafFull => shut(b, libc::SHUT_RD),
        State::Urgent | State::UrgentFull => assert_eq!(send(a, b"!", libc::MSG_OOB), Ok(1)),
        State::GoneBack | State::GoneBackFull => go_back(a),
        State::Behind | State::BehindFull | State::Emptied | State::EmptiedFull => {
            go_back(a);
            assert_eq!(send(a, b"behind", libc::MSG_DONTWAIT), Ok(6));
        }
    }
    match state {
        State::EndedUnread => shut(a, libc::SHUT_WR),
        State::Emptied | State::EmptiedFull => {
            std::thread::sleep(Duration::from_millis(2));
            while recv(b, 1 << 20, libc::MSG_DONTWAIT).is_ok() {}
        }
        _ => {}
    }
    let full = [
        State::Full,
        State::BothFull,
        State::GoneBackFull,
        State::BehindFull,
        State::EmptiedFull,
        State::EndedFull,
        State::DeafFull,
        State::UrgentFull,
    ];
    if full.iter().any(|it| *it as u8 == state as u8) {
        fill(b);
    }
    pair
}

/// How long each wait lasts, in milliseconds.
const LONG: c_int = 60;

fn events_of(epoll: c_int, milliseconds: c_int) -> u32 {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for one.
    unsafe { libc::epoll_wait(epoll, &mut event, 1, milliseconds) };
    event.events
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waits, which finds nothing, and holds against the time that it took how often it has entered the kernel
/// and for how long it has had a processor. True if there was something instead.
fn finds(wait: impl Fn() -> bool, what: &dyn Debug) -> bool {
    let (entries, busy, begun) = (Entries::now(), processor_time(), Instant::now());
    if wait() {
        return true;
    }
    let (busy, entries) = (processor_time() - busy, Entries::now().since(entries).all());
    let long = Duration::from_millis(LONG as u64);
    assert!(begun.elapsed() >= long - Duration::from_millis(2), "{what:?} ended early");
    // Some look every millisecond.
    assert!(entries < 200 && busy < long / 3, "{what:?}: {entries} entries, {busy:?} of {long:?}");
    false
}

#[test]
fn who_waits_with_poll_sleeps() {
    preloaded("idle::who_waits_with_poll_sleeps", || {
        let asked = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI, libc::POLLRDHUP];
        for state in STATES {
            let Pair { a, b } = made(state);
            for which in 0..1 << asked.len() {
                let of = |at: usize| if which >> at & 1 == 1 { asked[at] } else { 0 };
                let events = (0..asked.len()).map(of).fold(0, |all, one| all | one);
                let poll = || {
                    let mut entry = libc::pollfd { fd: b, events, revents: 0 };
                    // SAFETY: there is one entry.
                    unsafe { libc::poll(&mut entry, 1, LONG) > 0 }
                };
                finds(poll, &(state, "poll", events));
            }
            close(a);
            close(b);
        }
    });
}

#[test]
fn who_waits_in_an_instance_sleeps() {
    preloaded("idle::who_waits_in_an_instance_sleeps", || {
        let asked = [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLRDHUP, libc::EPOLLET];
        for state in STATES {
            let Pair { a, b } = made(state);
            for which in 0..1 << asked.len() {
                let of = |at: usize| if which >> at & 1 == 1 { asked[at] as u32 } else { 0 };
                let kind = (0..asked.len()).map(of).fold(0, |all, one| all | one);
                // SAFETY: takes no memory.
                let epoll = unsafe { libc::epoll_create1(0) };
                assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, b, kind), 0);
                let wait = || events_of(epoll, LONG) != 0;
                let edges = kind & libc::EPOLLET as u32 != 0;
                // Edges are told, and then no more.
                let told = (0..10).take_while(|_| finds(wait, &(state, "epoll", kind))).count();
                assert!(!edges || told < 4, "{state:?}, {kind:x}: {told} edges");
                close(epoll);
            }
            close(a);
            close(b);
        }
    });
}
