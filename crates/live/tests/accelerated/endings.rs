//! Every short sequence of what ends a connection, and what both ends see of it.

use std::mem::{size_of, zeroed};
use std::net::TcpListener;
use std::time::Duration;

use libc::c_int;

use crate::pair::{
    Outcome, Pair, accelerated, close, disconnect, joined, outcome, plain, poll, preloaded, recv,
    send, unread, used_by,
};

const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
const ROUNDS: u8 = 100;
const TRIALS: usize = 3;

/// What one end does; the names are for the message of a failure.
#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    SendNothing,
    Receive,
    Peek,
    Unread,
    Error,
    Events,
    Edges,
    Peer,
    ShutReading,
    ShutWriting,
    ShutBoth,
    Close,
    Reset,
    Disconnect,
}

const ACTS: [Act; 15] = [
    Act::Send,
    Act::SendNothing,
    Act::Receive,
    Act::Peek,
    Act::Unread,
    Act::Error,
    Act::Events,
    Act::Edges,
    Act::Peer,
    Act::ShutReading,
    Act::ShutWriting,
    Act::ShutBoth,
    Act::Close,
    Act::Reset,
    Act::Disconnect,
];

fn error(fd: c_int) -> c_int {
    let (mut why, mut length): (c_int, _) = (-1, size_of::<c_int>() as u32);
    let place = (&raw mut why).cast();
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, place, &raw mut length) };
    why
}

fn shut(fd: c_int, how: c_int) -> String {
    format!("{:?}", outcome(unsafe { libc::shutdown(fd, how) } as isize))
}

fn peer(fd: c_int) -> Outcome<usize> {
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in>() as u32;
    let place = (&raw mut address).cast();
    outcome(unsafe { libc::getpeername(fd, place, &raw mut length) } as isize)
}

/// An instance that is told of each edge of an end.
fn following(fd: c_int) -> c_int {
    let events = (libc::EPOLLET | libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32;
    let mut event = libc::epoll_event { events, u64: 7 };
    let instance = unsafe { libc::epoll_create1(0) };
    assert_eq!(unsafe { libc::epoll_ctl(instance, libc::EPOLL_CTL_ADD, fd, &raw mut event) }, 0);
    edges(instance);
    instance
}

fn edges(instance: c_int) -> String {
    let mut event: libc::epoll_event = unsafe { zeroed() };
    let count = unsafe { libc::epoll_wait(instance, &raw mut event, 1, 0) };
    format!("{count} {:x}", if count > 0 { event.events } else { 0 })
}

/// An end, -1 once it is closed, and the instance that follows it.
struct End {
    fd: c_int,
    instance: c_int,
}

/// What an act shows.
fn shown(end: &mut End, act: Act) -> String {
    let End { fd, instance } = end;
    let now = libc::MSG_DONTWAIT;
    match act {
        Act::Send => format!("{:?}", send(*fd, b"abc", now)),
        Act::SendNothing => format!("{:?}", send(*fd, b"", now)),
        Act::Receive => format!("{:?}", recv(*fd, 9, now)),
        Act::Peek => format!("{:?}", recv(*fd, 9, now | libc::MSG_PEEK)),
        Act::Unread => format!("{}", unread(*fd)),
        Act::Edges => edges(*instance),
        Act::Peer => format!("{:?}", peer(*fd)),
        Act::Error => format!("{}", error(*fd)),
        Act::Events => format!("{:x}", poll(*fd, ALL, 0)),
        Act::ShutReading => shut(*fd, libc::SHUT_RD),
        Act::ShutWriting => shut(*fd, libc::SHUT_WR),
        Act::ShutBoth => shut(*fd, libc::SHUT_RDWR),
        Act::Close | Act::Reset => {
            if let Act::Reset = act {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                let (name, length) = (libc::SO_LINGER, size_of::<libc::linger>() as u32);
                let place = (&raw const linger).cast();
                unsafe { libc::setsockopt(*fd, libc::SOL_SOCKET, name, place, length) };
            }
            close(*fd);
            *fd = -1;
            String::new()
        }
        Act::Disconnect => format!("{:?}", disconnect(*fd)),
    }
}

/// What is tried after each sequence.
const AFTERWARDS: [Act; 12] = [
    Act::Edges,
    Act::Events,
    Act::Peer,
    Act::Receive,
    Act::Send,
    Act::Edges,
    Act::Events,
    Act::Receive,
    Act::Error,
    Act::Receive,
    Act::ShutWriting,
    Act::Events,
];

/// What both ends see of a sequence, and of all that they try after it.
fn seen(pair: Pair, sequence: &[(usize, Act)]) -> Vec<String> {
    let mut ends = [pair.a, pair.b].map(|fd| End { fd, instance: following(fd) });
    let mut seen = Vec::new();
    for (end, act) in sequence {
        seen.push(format!("{act:?} {}", shown(&mut ends[*end], *act)));
    }
    for act in AFTERWARDS {
        for end in ends.iter_mut().filter(|end| end.fd != -1) {
            seen.push(format!("{act:?} {}", shown(end, act)));
        }
    }
    for end in ends {
        close(end.instance);
        if end.fd != -1 {
            close(end.fd);
        }
    }
    seen
}

/// All sequences of so many acts that can be: none goes on at an end that is closed. Left out is what is
/// told in `docs/live/differences.md`: to disconnect an end of a connection of which both directions have
/// ended.
fn sequences(length: u32) -> impl Iterator<Item = Vec<(usize, Act)>> {
    let steps: Vec<_> = (0..2).flat_map(|end| ACTS.map(|act| (end, act))).collect();
    let number = steps.len();
    let made = move |which: usize| -> Vec<_> {
        (0..length).map(|at| steps[which / number.pow(at) % number]).collect()
    };
    (0..number.pow(length)).map(made).filter(|sequence| can_be(sequence))
}

fn can_be(sequence: &[(usize, Act)]) -> bool {
    let mut shut = [false; 2];
    let mut closed = [false; 2];
    sequence.iter().all(|(end, act)| {
        let is_told = matches!(act, Act::Disconnect) && shut == [true; 2];
        let may = !(closed[*end] || is_told);
        shut[*end] |= matches!(act, Act::ShutWriting | Act::ShutBoth);
        closed[*end] |= matches!(act, Act::Close | Act::Reset);
        may
    })
}

/// Whether an accelerated connection has shown what the kernel's has. A registration by edges may be told once
/// more of what there is when its connection goes back to the kernel.
fn same(ours: &[String], theirs: &[String]) -> bool {
    let again = |ours: &str, theirs: &str| ours.starts_with("Edges 1") && theirs == "Edges 0 0";
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| ours == theirs || again(ours, theirs))
}

/// Holds all sequences of so many acts against the kernel, on connections that `make` makes.
fn compare(length: u32, mut make: impl FnMut() -> Pair) {
    let mut count = 0;
    let differing: Vec<_> = sequences(length)
        .filter_map(|sequence| {
            count += 1;
            let mut trial = || {
                let (ours, theirs) = (seen(make(), &sequence), seen(plain(), &sequence));
                let differ = !same(&ours, &theirs);
                differ.then(|| format!("{sequence:?}\n  ours   {ours:?}\n  theirs {theirs:?}"))
            };
            // The kernel's own edges come later where a packet waits for its processor.
            (0..TRIALS).map_while(|_| trial()).nth(TRIALS - 1)
        })
        .collect();
    assert!(differing.is_empty(), "{} of {count}:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn every_short_ending_shows_what_the_kernel_shows() {
    preloaded("endings::every_short_ending_shows_what_the_kernel_shows", || {
        compare(3, accelerated);
    });
}

/// With so many messages there and back each end is about to look for the other, and joins by the acts, in
/// steps that come sooner or later at the one and at the other.
#[test]
fn every_ending_shows_what_the_kernel_shows_while_the_ends_join() {
    const ALMOST: u8 = 7;
    const AHEAD: usize = 6;
    preloaded("endings::every_ending_shows_what_the_kernel_shows_while_the_ends_join", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut made, mut joining) = (0, 0);
        for ahead in 0..AHEAD * AHEAD {
            let mut before = joined();
            compare(2, || {
                joining += joined() - before;
                made += 1;
                // One that is used for long, so that the next is joined as soon.
                let Pair { a, b } = used_by(&listener, ROUNDS);
                close(a);
                close(b);
                before = joined();
                let pair = used_by(&listener, ALMOST);
                for (end, times) in [(pair.a, ahead % AHEAD), (pair.b, ahead / AHEAD)] {
                    for _ in 0..times {
                        assert_eq!(recv(end, 1, libc::MSG_DONTWAIT), Err(libc::EAGAIN));
                    }
                }
                pair
            });
        }
        assert!(joining > made / 2, "{joining} ends of {made} connections");
    });
}

/// A call in which another thread sleeps that cannot go on.
type Sleep = fn(c_int) -> String;

/// Whether a thread of this process sleeps.
pub fn is_asleep(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// What a sleeping call, later calls at its end and the other end hear of a socket that is disconnected when
/// it has slept for a while.
fn disconnected_under(pair: Pair, sleep: Sleep, after: Duration) -> Vec<String> {
    let Pair { a, b } = pair;
    let (say, said) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        // SAFETY: takes nothing and cannot fail.
        say.send(unsafe { libc::gettid() }).unwrap();
        sleep(a)
    });
    let thread = said.recv().unwrap();
    while !is_asleep(thread) {
        std::thread::yield_now();
    }
    std::thread::sleep(after);
    let (mut end, mut other) = (End { fd: a, instance: -1 }, End { fd: b, instance: -1 });
    let mut all = vec![shown(&mut end, Act::Disconnect), sleeper.join().unwrap()];
    for act in [Act::Receive, Act::Send, Act::Receive, Act::Error] {
        all.extend([shown(&mut end, act), shown(&mut other, act)]);
    }
    [a, b].into_iter().for_each(close);
    all
}

/// A sleep on the word of a flag lasts 20 ms at first, and longer ones follow.
#[test]
fn who_sleeps_where_a_socket_is_disconnected_hears_what_the_kernel_says() {
    let name = "endings::who_sleeps_where_a_socket_is_disconnected_hears_what_the_kernel_says";
    let sleeps: [(&str, Sleep); 4] = [
        ("recv", |fd| format!("{:?}", recv(fd, 1, 0))),
        ("recv of a part", |fd| format!("{:?}", recv(fd, 9, libc::MSG_WAITALL))),
        ("poll", |fd| format!("{:x}", poll(fd, libc::POLLIN, 10_000))),
        // It has filled fewer buffers than the kernel's when it ends.
        ("send", |fd| {
            let sent = send(fd, &vec![0; 16 << 20], libc::MSG_NOSIGNAL);
            sent.is_ok_and(|sent| sent > 0).to_string()
        }),
    ];
    preloaded(name, || {
        for after in [0, 30, 60].map(Duration::from_millis) {
            for (name, sleep) in sleeps {
                let [ours, theirs] = [accelerated(), plain()].map(|pair| {
                    if name.ends_with("part") {
                        assert_eq!(send(pair.b, b"x", 0), Ok(1));
                    }
                    disconnected_under(pair, sleep, after)
                });
                assert_eq!(ours, theirs, "{name}");
            }
        }
    });
}

/// What both ends see of one that is disconnected while another process has both, too.
fn disconnected_beside_a_child(pair: Pair, by_child: bool, before: &[Act]) -> Vec<String> {
    let Pair { a, b } = pair;
    let (mut end, mut other) = (End { fd: a, instance: -1 }, End { fd: b, instance: following(b) });
    let mut all: Vec<_> = before.iter().map(|act| shown(&mut other, *act)).collect();
    let mut word = [0; 2];
    assert_eq!(unsafe { libc::pipe(word.as_mut_ptr()) }, 0);
    let child = unsafe { libc::fork() };
    if child == 0 {
        if by_child {
            shown(&mut end, Act::Disconnect);
        }
        unsafe { libc::write(word[1], c"x".as_ptr().cast(), 1) };
        unsafe { libc::pause() };
    }
    assert_eq!(unsafe { libc::read(word[0], [0u8].as_mut_ptr().cast(), 1) }, 1);
    if !by_child {
        all.push(shown(&mut end, Act::Disconnect));
    }
    for act in [Act::Events, Act::Edges, Act::Receive, Act::Receive, Act::Send, Act::Receive] {
        all.push(format!("other {}", shown(&mut other, act)));
    }
    for act in [Act::Events, Act::Receive, Act::Send, Act::Receive] {
        all.push(format!("end {}", shown(&mut end, act)));
    }
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    [a, b, other.instance, word[0], word[1]].into_iter().for_each(close);
    all
}

#[test]
fn an_end_that_another_process_has_too_is_disconnected_as_the_kernels_is() {
    let name = "endings::an_end_that_another_process_has_too_is_disconnected_as_the_kernels_is";
    preloaded(name, || {
        let before: [&[Act]; 3] = [&[], &[Act::Send], &[Act::ShutWriting]];
        let cases = [false, true].into_iter().flat_map(|by| before.map(|acts| (by, acts)));
        for (by_child, acts) in cases {
            let seen = |pair| disconnected_beside_a_child(pair, by_child, acts);
            let [ours, theirs] = [accelerated(), plain()].map(seen);
            assert_eq!(ours, theirs, "by the child {by_child} after {acts:?}");
        }
    });
}
