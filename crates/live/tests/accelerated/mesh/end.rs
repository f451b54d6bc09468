//! One end of a connection of the mesh, and what it carries.

use std::mem::zeroed;

use libc::c_int;

use super::acts;
use super::say;
use crate::pair::{Numbers, Outcome, close, outcome, poll, recv, send};

/// So often a message goes there and back at first, after which a connection is accelerated.
const AT_LEAST: u64 = 120;
/// An end to which nothing happens for so long hangs, in milliseconds.
const PATIENCE: c_int = 15_000;

/// What a connection carries, which both ends know by its seed.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Messages by turns, of which the client sends the first, and their length.
    turns: u64,
    size: u64,
    /// What each then sends.
    streams: [u64; 2],
    /// Who closes once all is heard; with neither, both say that nothing follows.
    closes_first: u64,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut drawn = Numbers(seed);
        let turns = AT_LEAST + drawn.below(100);
        let mut stream = || [0, 50, 20_000, 300_000][drawn.below(4) as usize];
        let most = [stream(), stream()];
        let streams = most.map(|most| drawn.below(most + 1));
        Self { turns, size: 1 + drawn.below(200), streams, closes_first: drawn.below(3) }
    }

    fn by_turns(self) -> u64 {
        self.turns * self.size
    }

    fn length(self, role: u64) -> u64 {
        self.by_turns() + self.streams[role as usize]
    }
}

/// What an end sends at a place of its stream.
fn byte(seed: u64, role: u64, at: u64) -> u8 {
    let mixed = (at as u32).wrapping_mul(2_654_435_761).wrapping_add((2 * seed + role) as u32);
    (mixed >> 15 ^ mixed >> 24) as u8 ^ (at >> 16) as u8
}

/// How an end waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Poll,
    Level,
    Edges,
    Once,
}

/// One end: the client's is 0, the server's 1.
#[derive(Debug)]
pub struct End {
    pub fd: c_int,
    seed: u64,
    role: u64,
    plan: Plan,
    heard: u64,
    sent: u64,
    /// Whether it has said its own end, and heard of the other's.
    shut: bool,
    over: bool,
    /// How many acts are left, at how many bytes the next is due, and what was done.
    left: u64,
    due: u64,
    done: String,
    pub drawn: Numbers,
    engine: Engine,
    epoll: c_int,
}

/// A new connection, in whose numbers other programs that are started may have a part.
pub fn connected(port: u16) -> c_int {
    // SAFETY: the address is of this type and length.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let mut to: libc::sockaddr_in = zeroed();
        to.sin_family = libc::AF_INET as u16;
        to.sin_port = port.to_be();
        to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let length = size_of_val(&to) as libc::socklen_t;
        assert_eq!(libc::connect(fd, (&raw const to).cast(), length), 0);
        fd
    }
}

/// Goes on with an end that another program has left to this one.
pub fn goes_on(state: &str) {
    let words: Vec<u64> = state.split(' ').map(|word| word.parse().unwrap()).collect();
    let [fd, seed, role, heard, sent, left, shut, over] = words.try_into().unwrap();
    acts::close_all_but(fd as c_int);
    let mut end = End::new(fd as c_int, seed, role);
    (end.heard, end.sent, end.left, end.due) = (heard, sent, left, heard + sent);
    (end.shut, end.over) = (shut != 0, over != 0);
    end.run();
}

impl End {
    pub fn new(fd: c_int, seed: u64, role: u64) -> Self {
        let plan = Plan::of(seed);
        let mut drawn = Numbers(2 * seed + role + 77);
        let _ = drawn.below(2);
        let engines = [Engine::Poll, Engine::Level, Engine::Edges, Engine::Once];
        let engine = engines[drawn.below(4) as usize];
        // SAFETY: takes no memory.
        unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
        Self {
            left: drawn.below(4),
            due: drawn.below(plan.length(0) + plan.length(1) + 1),
            fd,
            seed,
            role,
            plan,
            heard: 0,
            sent: 0,
            shut: false,
            over: false,
            done: String::new(),
            drawn,
            engine,
            epoll: -1,
        }
    }

    /// What another program needs to go on.
    pub fn state(&self) -> String {
        let flags = [self.shut, self.over].map(u64::from);
        let words = [self.seed, self.role, self.heard, self.sent, self.left, flags[0], flags[1]];
        words.iter().fold(self.fd.to_string(), |said, word| format!("{said} {word}"))
    }

    /// Carries all there is to carry, and says what became of it, unless another process does.
    pub fn run(&mut self) {
        match self.carry() {
            Ok(false) => return,
            Ok(true) => say("ok"),
            Err(why) => say(&format!("{why}: {self:?}")),
        }
        self.stop_following();
        close(self.fd);
    }

    /// Whether this process has come to the end of it.
    fn carry(&mut self) -> Result<bool, String> {
        while !self.is_over() {
            if self.left > 0 && self.heard + self.sent >= self.due {
                self.left -= 1;
                self.due = self.heard + self.sent + self.drawn.below(60_000);
                let (name, act) = acts::ALL[self.drawn.below(acts::ALL.len() as u64) as usize];
                self.done += name;
                if act(self)? {
                    return Ok(false);
                }
            }
            let moved = self.send()? | (!self.over && self.receive()?);
            if !moved && !self.is_over() {
                self.wait()?;
            }
        }
        Ok(true)
    }

    /// Whether all is said and heard; says that nothing follows.
    fn is_over(&mut self) -> bool {
        if self.sent < self.plan.length(self.role) {
            return false;
        }
        if self.plan.closes_first == 2 && !self.shut {
            self.shut = true;
            // SAFETY: takes no memory.
            assert_eq!(unsafe { libc::shutdown(self.fd, libc::SHUT_WR) }, 0);
        }
        let all = self.heard == self.plan.length(1 - self.role);
        self.over || all && self.plan.closes_first == self.role
    }

    /// How much may be sent now: who answers has heard before.
    fn may_send(&self) -> u64 {
        let (plan, by_turns) = (self.plan, self.plan.by_turns());
        if self.sent < by_turns {
            let turn = self.heard / plan.size + u64::from(self.role == 0);
            return (turn * plan.size).min(by_turns) - self.sent;
        }
        if self.heard < by_turns { 0 } else { plan.length(self.role) - self.sent }
    }

    /// Sends some of what may be sent; whether any went.
    fn send(&mut self) -> Result<bool, String> {
        let count = self.may_send().min(1 + self.drawn.below(9000));
        let bytes: Vec<u8> =
            (0..count).map(|at| byte(self.seed, self.role, self.sent + at)).collect();
        match if count > 0 { send(self.fd, &bytes, 0) } else { Ok(0) } {
            Err(libc::EAGAIN) => Ok(false),
            Err(why) => Err(format!("sending failed by {why}")),
            Ok(sent) => {
                self.sent += sent as u64;
                Ok(sent > 0)
            }
        }
    }

    /// Receives some of what is there; whether there was any, or the end.
    fn receive(&mut self) -> Result<bool, String> {
        let (other, room) = (1 - self.role, 1 + self.drawn.below(9000) as usize);
        let some = match recv(self.fd, room, 0) {
            Err(libc::EAGAIN) => return Ok(false),
            Err(why) => return Err(format!("receiving failed by {why}")),
            Ok(some) => some,
        };
        self.over = some.is_empty();
        let missing = self.plan.length(other) - self.heard;
        if self.over && missing > 0 {
            return Err(format!("an end {missing} bytes early"));
        }
        if some.len() as u64 > missing {
            return Err("too many bytes".into());
        }
        let is_right =
            |(at, it): (usize, &u8)| *it == byte(self.seed, other, self.heard + at as u64);
        if !some.iter().enumerate().all(is_right) {
            return Err("other bytes".into());
        }
        self.heard += some.len() as u64;
        Ok(true)
    }

    /// Waits for what can be done next.
    fn wait(&mut self) -> Result<(), String> {
        let room = if self.may_send() > 0 { libc::EPOLLOUT } else { 0 };
        let (mut wanted, mut told) = (libc::EPOLLIN | room, 0);
        match self.engine {
            Engine::Poll => told = poll(self.fd, wanted as i16, PATIENCE).into(),
            Engine::Level => {}
            Engine::Edges => wanted |= libc::EPOLLOUT | libc::EPOLLET,
            Engine::Once => wanted |= libc::EPOLLONESHOT,
        }
        if self.engine != Engine::Poll {
            let is_new = self.epoll < 0;
            let how = if is_new { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD };
            let mut event = libc::epoll_event { events: wanted as u32, u64: self.seed };
            // SAFETY: there is room for one event.
            told = unsafe {
                if is_new {
                    self.epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
                }
                // What is told by edges is told without being asked for again.
                if is_new || self.engine != Engine::Edges {
                    asked(libc::epoll_ctl(self.epoll, how, self.fd, &mut event))?;
                }
                libc::epoll_wait(self.epoll, &mut event, 1, PATIENCE)
            };
        }
        if told == 0 { Err("nothing came".into()) } else { Ok(()) }
    }

    /// Closes what follows a number that is about to stand for something else.
    pub fn stop_following(&mut self) {
        if self.epoll >= 0 {
            close(std::mem::replace(&mut self.epoll, -1));
        }
    }

    /// Forgets that a parent has an instance of which all numbers are closed here.
    pub fn follow_anew(&mut self) {
        self.epoll = -1;
    }
}

fn asked(result: c_int) -> Result<(), String> {
    let outcome: Outcome<usize> = outcome(result as isize);
    outcome.map(drop).map_err(|why| format!("epoll_ctl failed by {why}"))
}
