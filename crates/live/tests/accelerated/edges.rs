//! Every short sequence of what makes edges, and of which a program hears that is told of edges.

use std::time::Duration;

use libc::c_int;

use crate::pair::{Pair, accelerated, close, joined, plain, preloaded, recv, send, used_by};
use crate::{epoll_control, epoll_events};

const KINDS: [u32; 5] = [
    (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32,
    (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
    (libc::EPOLLET | libc::EPOLLOUT) as u32,
    (libc::EPOLLIN | libc::EPOLLOUT) as u32,
    (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLIN | libc::EPOLLOUT) as u32,
];

/// How many acts a sequence has.
const LENGTH: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Act {
    SendByte,
    /// Sends until there is no room.
    Fill,
    ReceiveByte,
    /// Receives all that the other end has sent.
    ReceiveAll,
    Wait,
    Change,
    PutInAgain,
}

const ACTS: [Act; 7] = [
    Act::SendByte,
    Act::Fill,
    Act::ReceiveByte,
    Act::ReceiveAll,
    Act::Wait,
    Act::Change,
    Act::PutInAgain,
];

struct End {
    fd: c_int,
    instance: c_int,
    kind: u32,
    /// Bytes that the other end has sent and this one has not received.
    due: usize,
    /// Whether the other end has filled its way since this one last received all.
    is_filled: bool,
    /// Whether this end has received what filled the way since it was last told of events: the kernel keeps
    /// some of that at the other end until there is room, which is then one more arrival.
    has_drained: bool,
    /// Whether this end has filled its way and was not told of room since.
    awaits_room: bool,
}

impl End {
    fn new(fd: c_int, kind: u32) -> Self {
        let instance = unsafe { libc::epoll_create1(0) };
        assert_eq!(epoll_control(instance, libc::EPOLL_CTL_ADD, fd, kind), 0);
        let (is_filled, has_drained, awaits_room) = (false, false, false);
        Self { fd, instance, kind, due: 0, is_filled, has_drained, awaits_room }
    }

    fn receive_all(&mut self) {
        while self.due > 0 {
            match recv(self.fd, self.due, libc::MSG_DONTWAIT) {
                Ok(bytes) => self.due -= bytes.len(),
                // The kernel's stream is on its way.
                Err(why) => assert_eq!(why, libc::EAGAIN),
            }
        }
        self.has_drained |= std::mem::take(&mut self.is_filled);
    }
}

/// What an act at one of two ends shows. How much there is room for differs.
fn shown(ends: &mut [End; 2], which: usize, act: Act) -> String {
    let now = libc::MSG_DONTWAIT;
    let mut sent = 0;
    let has_filled = ends[1 - which].is_filled;
    let end = &mut ends[which];
    let (fd, instance, kind) = (end.fd, end.instance, end.kind);
    let shown = match act {
        Act::SendByte if has_filled => String::new(),
        Act::SendByte => {
            let did = send(fd, b"x", now);
            sent = did.unwrap_or(0);
            format!("{did:?}")
        }
        Act::Fill => {
            while let Ok(count) = send(fd, &[7; 4096], now) {
                sent += count;
            }
            end.awaits_room = true;
            ends[1 - which].is_filled = true;
            String::new()
        }
        Act::ReceiveByte => {
            let received = recv(fd, 1, now).map(|bytes| bytes.len());
            end.due -= received.unwrap_or(0);
            format!("{received:?}")
        }
        Act::ReceiveAll => {
            end.receive_all();
            String::new()
        }
        Act::Wait => {
            let events = epoll_events(instance);
            let room = events.iter().any(|(events, _)| events & libc::EPOLLOUT as u32 != 0);
            let may_differ = std::mem::take(&mut end.has_drained) && !end.awaits_room;
            end.awaits_room &= !room;
            if may_differ { String::new() } else { format!("{events:?}") }
        }
        Act::Change => format!("{}", epoll_control(instance, libc::EPOLL_CTL_MOD, fd, kind)),
        Act::PutInAgain => {
            epoll_control(instance, libc::EPOLL_CTL_DEL, fd, kind);
            format!("{}", epoll_control(instance, libc::EPOLL_CTL_ADD, fd, kind))
        }
    };
    ends[1 - which].due += sent;
    format!("{which} {act:?} {shown}")
}

/// What both ends see of a sequence, and of all that they are told after it.
fn seen(pair: Pair, kind: u32, sequence: &[(usize, Act)]) -> Vec<String> {
    let mut ends = [pair.a, pair.b].map(|fd| End::new(fd, kind));
    let after = [Act::Wait, Act::ReceiveAll, Act::Wait, Act::Wait];
    let after = after.into_iter().flat_map(|act| [(0, act), (1, act)]);
    let seen =
        sequence.iter().copied().chain(after).map(|(which, act)| shown(&mut ends, which, act));
    let seen = seen.collect();
    ends.iter().flat_map(|end| [end.fd, end.instance]).for_each(close);
    seen
}

fn compare(kind: u32, sequence: &[(usize, Act)]) -> Option<String> {
    let (ours, theirs) = (seen(accelerated(), kind, sequence), seen(plain(), kind, sequence));
    (ours != theirs).then(|| format!("{sequence:?}\n  ours   {ours:?}\n  theirs {theirs:?}"))
}

#[test]
fn every_short_sequence_brings_the_kernels_edges() {
    preloaded("edges::every_short_sequence_brings_the_kernels_edges", || {
        let steps: Vec<_> = (0..2).flat_map(|which| ACTS.map(|act| (which, act))).collect();
        let number = steps.len();
        let mut differing = Vec::new();
        for which in 0..number.pow(LENGTH) {
            let sequence: Vec<_> =
                (0..LENGTH).map(|at| steps[which / number.pow(at) % number]).collect();
            for kind in KINDS {
                differing.extend(compare(kind, &sequence));
            }
        }
        assert!(differing.is_empty(), "{}:\n{}", differing.len(), differing.join("\n"));
    });
}

/// The connection goes back to the kernel meanwhile, and the sleeper may be the one who hands it back.
#[test]
fn who_waits_for_edges_hears_of_a_shutdown_in_another_thread() {
    preloaded("edges::who_waits_for_edges_hears_of_a_shutdown_in_another_thread", || {
        let all = libc::EPOLLIN | libc::EPOLLOUT;
        for round in 0..1500 {
            let pair = accelerated();
            let instance = unsafe { libc::epoll_create1(0) };
            let kind = (libc::EPOLLET | all) as u32;
            assert_eq!(epoll_control(instance, libc::EPOLL_CTL_ADD, pair.a, kind), 0);
            assert_eq!(epoll_events(instance), [(libc::EPOLLOUT as u32, 7)]);
            let sleeps = Duration::from_micros(500);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(sleeps);
                    assert_eq!(unsafe { libc::shutdown(pair.a, libc::SHUT_RDWR) }, 0);
                });
                let mut heard = libc::epoll_event { events: 0, u64: 0 };
                let count = unsafe { libc::epoll_wait(instance, &mut heard, 1, 10_000) };
                let (events, datum) = (heard.events, heard.u64);
                assert_eq!((count, datum), (1, 7), "round {round}: {events:#x}");
                let all = (libc::EPOLLIN | libc::EPOLLHUP) as u32;
                assert_eq!(events & all, all, "round {round}: {events:#x}");
            });
            [pair.a, pair.b, instance].into_iter().for_each(close);
        }
    });
}

/// Also of one that changes nothing, and that leaves both to the kernel, since one alone had joined.
#[test]
fn every_shutdown_is_an_edge_while_the_ends_join() {
    preloaded("edges::every_shutdown_is_an_edge_while_the_ends_join", || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let edges = |(fd, how): (c_int, c_int)| {
            let instance = unsafe { libc::epoll_create1(0) };
            let kind = (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32;
            assert_eq!(epoll_control(instance, libc::EPOLL_CTL_ADD, fd, kind), 0);
            let edge = || {
                let mut heard = libc::epoll_event { events: 0, u64: 0 };
                let count = unsafe { libc::epoll_wait(instance, &mut heard, 1, 0) };
                (count == 1).then_some(heard.events)
            };
            assert!(edge().is_some());
            let seen = [(); 3].map(|()| {
                assert_eq!(unsafe { libc::shutdown(fd, how) }, 0);
                std::iter::from_fn(edge).last()
            });
            close(instance);
            seen
        };
        let mut one_had_joined = 0;
        for (how, ahead, accepted) in [libc::SHUT_RD, libc::SHUT_WR]
            .into_iter()
            .flat_map(|how| (0..8).flat_map(move |ahead| [(how, ahead, false), (how, ahead, true)]))
        {
            // One that is used for long, so that the next is joined as soon.
            let lasting = used_by(&listener, 100);
            [lasting.a, lasting.b].into_iter().for_each(close);
            let (before, ours, theirs) = (joined(), used_by(&listener, 7), plain());
            let end = |pair: Pair| if accepted { pair.b } else { pair.a };
            for _ in 0..ahead {
                assert_eq!(recv(end(ours), 1, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
            }
            one_had_joined += u32::from(joined() == before + 1);
            let [seen, wanted] = [ours, theirs].map(|pair| edges((end(pair), how)));
            assert_eq!(seen, wanted, "how {how}, ahead {ahead}, accepted {accepted}");
            [ours, theirs].into_iter().flat_map(|pair| [pair.a, pair.b]).for_each(close);
        }
        assert!(one_had_joined > 0);
    });
}
