//! Threads that sleep in instances hear of an accelerated connection all that they hear of the kernel's when the
//! same is done at both: what is drawn at random is the registrations, under several numbers in one
//! instance or two, how many sleep and how much they take at once, what happens at either end, and what
//! another thread does meanwhile.

mod beside;
mod calls;
mod peer;

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, epoll_event};

use crate::pair::{Numbers, close, disconnect, joined, poll, preloaded, recv, send};
use crate::watched::instance;
use beside::Beside;
use peer::{Act, Peer};

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ENDS: u32 = libc::EPOLLRDHUP as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// How many connections, and the first of the seeds from which they are drawn, unless
/// `WEFT_SLEEPERS_ROUNDS` and `WEFT_SLEEPERS_SEED` say it.
const ROUNDS: u64 = 200;
const SEED: u64 = 301;
/// How long a sleeper may take to hear of something.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing more may come before what was heard is all.
const QUIET: Duration = Duration::from_millis(2);
/// What tells the sleepers to end, and what marks all others' data.
const STOP: u64 = 1;
const MARK: u64 = 0x5eed << 48;

#[derive(Clone, Copy, Debug)]
struct Registration {
    instance: usize,
    number: usize,
    events: u32,
}

/// One of the two connections, and who sleeps for it.
struct Side {
    /// The first, and copies of it; -1 if closed.
    numbers: Vec<AtomicI32>,
    instances: Vec<c_int>,
    stop: c_int,
    /// What was heard of each registration in this step.
    heard: Vec<AtomicU32>,
    /// How often those that fire once were armed, which their data say.
    armed: AtomicU64,
}

impl Side {
    fn new(fd: c_int, copies: usize, instances: usize, registrations: &[Registration]) -> Self {
        let copies = (0..copies).map(|_| unsafe { libc::dup(fd) });
        let side = Self {
            numbers: std::iter::once(fd).chain(copies).map(AtomicI32::new).collect(),
            instances: (0..instances).map(|_| instance()).collect(),
            stop: unsafe { libc::eventfd(0, 0) },
            heard: registrations.iter().map(|_| AtomicU32::new(0)).collect(),
            armed: AtomicU64::new(1),
        };
        (0..registrations.len())
            .for_each(|at| side.control(libc::EPOLL_CTL_ADD, registrations, at));
        for epoll in &side.instances {
            let mut event = epoll_event { events: IN, u64: STOP };
            let add = libc::EPOLL_CTL_ADD;
            assert_eq!(unsafe { libc::epoll_ctl(*epoll, add, side.stop, &mut event) }, 0);
        }
        side
    }

    fn number(&self, which: usize) -> Option<c_int> {
        let number = self.numbers[which].load(Ordering::SeqCst);
        (number >= 0).then_some(number)
    }

    fn fd(&self) -> c_int {
        self.number(0).unwrap()
    }

    /// The last copy that is open, if there is one.
    fn copy(&self) -> Option<&AtomicI32> {
        let open = |which: &usize| self.number(*which).is_some();
        (1..self.numbers.len()).rev().find(open).map(|which| &self.numbers[which])
    }

    fn control(&self, operation: c_int, registrations: &[Registration], at: usize) {
        let Registration { instance, number, events } = registrations[at];
        if let Some(fd) = self.number(number) {
            let armed = if events & ONCE == 0 { 0 } else { self.armed.load(Ordering::SeqCst) };
            let mut event = epoll_event { events, u64: MARK | armed << 4 | at as u64 };
            let epoll = self.instances[instance];
            assert_eq!(unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) }, 0);
        }
    }

    /// Lets those that have fired once fire again, and forgets what they told.
    fn arm(&self, registrations: &[Registration]) {
        self.armed.fetch_add(1, Ordering::SeqCst);
        for at in (0..registrations.len()).filter(|at| registrations[*at].events & ONCE != 0) {
            self.heard[at].store(0, Ordering::SeqCst);
            self.control(libc::EPOLL_CTL_MOD, registrations, at);
        }
    }

    /// What was heard up to now, which is forgotten.
    fn take(&self) -> Vec<u32> {
        self.heard.iter().map(|heard| heard.swap(0, Ordering::SeqCst)).collect()
    }

    fn heard(&self) -> Vec<u32> {
        self.heard.iter().map(|heard| heard.load(Ordering::SeqCst)).collect()
    }

    fn receive_all(&self) {
        while recv(self.fd(), 65_536, libc::MSG_DONTWAIT).is_ok_and(|bytes| !bytes.is_empty()) {}
    }

    /// Sends until there is no room, and says how much that was.
    fn fill(&self, piece: usize) -> usize {
        let (bytes, mut sent) = (vec![b'y'; piece], 0);
        while let Ok(count) = send(self.fd(), &bytes, libc::MSG_DONTWAIT) {
            sent += count;
        }
        sent
    }

    fn sleep(&self, instance: usize, at_once: c_int, limit: c_int) {
        let mut events = [epoll_event { events: 0, u64: 0 }; 16];
        loop {
            let epoll = self.instances[instance];
            let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), at_once, limit) };
            assert!(count >= 0, "{}", std::io::Error::last_os_error());
            for event in &events[..count as usize] {
                let (datum, events) = (event.u64, event.events);
                if datum == STOP {
                    return;
                }
                assert_eq!(datum >> 48, MARK >> 48, "nobody's datum");
                let armed = datum << 16 >> 20;
                // Who was told before it was armed anew may say so only now.
                if armed == 0 || armed == self.armed.load(Ordering::SeqCst) {
                    self.heard[(datum & 0xf) as usize].fetch_or(events, Ordering::SeqCst);
                }
            }
            if count > 0 {
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn end(&self) {
        let numbers = (0..self.numbers.len()).filter_map(|which| self.number(which));
        numbers.chain(self.instances.iter().copied()).chain([self.stop]).for_each(close);
    }
}

fn draw_registrations(numbers: &mut Numbers, instances: usize, copies: usize) -> Vec<Registration> {
    let mut drawn = Vec::new();
    for (instance, number) in (0..instances).flat_map(|at| (0..=copies).map(move |of| (at, of))) {
        if number > 0 && numbers.below(3) == 0 {
            continue;
        }
        let mut events = [IN, IN, IN, 0][numbers.below(4) as usize] | ENDS;
        events |= [0, EDGE, EDGE | ONCE, ONCE][numbers.below(4) as usize];
        if numbers.below(3) == 0 {
            events |= OUT | [0, EDGE][numbers.below(2) as usize];
        }
        drawn.push(Registration { instance, number, events });
    }
    drawn
}

/// What happens in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Comes,
    /// Bytes come one by one and are taken, and then some come that stay.
    Passes,
    /// The other end receives all, of which this one has sent as much as there is room for.
    Drains,
    ShutDown(c_int),
    CloseCopy,
    Disconnect,
    Peer(Act),
}

impl What {
    fn draw(numbers: &mut Numbers) -> Self {
        match numbers.below(16) {
            0..=3 => Self::Comes,
            4 => Self::Passes,
            5..=6 => Self::Drains,
            7 => Self::ShutDown(libc::SHUT_RD),
            8 => Self::ShutDown(libc::SHUT_WR),
            9 => Self::ShutDown(libc::SHUT_RDWR),
            10 => Self::CloseCopy,
            11 => Self::Disconnect,
            12 => Self::Peer(Act::Close),
            13 => Self::Peer(Act::Replace),
            14 => Self::Peer(Act::Disconnect),
            _ => Self::Peer(Act::ShutDownSending),
        }
    }

    /// Whether nothing can follow.
    fn is_last(self) -> bool {
        use Act::{Close, Disconnect, Replace};
        matches!(
            self,
            Self::Disconnect
                | Self::ShutDown(libc::SHUT_RDWR)
                | Self::Peer(Close | Replace | Disconnect)
        )
    }
}

/// One connection of each kind, with what was done so far.
struct Round<'a> {
    seed: u64,
    numbers: Numbers,
    sides: &'a [Side; 2],
    registrations: &'a [Registration],
    peer: Peer,
    /// Whether either end has shut down something, or the other end its sending.
    shut: bool,
    peer_shut: bool,
    sends_no_more: bool,
    done: Vec<(What, Beside)>,
}

fn microseconds(numbers: &mut Numbers, bound: u64) -> Duration {
    Duration::from_micros(numbers.below(bound))
}

impl Round<'_> {
    /// What can be done next.
    fn draw(&mut self) -> (What, Beside) {
        let (mut what, mut beside) =
            (What::draw(&mut self.numbers), Beside::draw(&mut self.numbers));
        if what == What::Drains && (self.sends_no_more || self.peer_shut) {
            what = What::Comes;
        }
        if what == What::CloseCopy && self.sides[0].copy().is_none() {
            what = What::Comes;
        }
        if matches!(what, What::Comes | What::Passes) && self.peer_shut {
            what = What::ShutDown(libc::SHUT_RD);
        }
        // What is over is not the same in every order of two such calls.
        if self.shut && matches!(what, What::Disconnect | What::Peer(Act::Disconnect)) {
            what = What::ShutDown(libc::SHUT_RDWR);
        }
        // It arms what has fired once: in which order would be a matter of time.
        let once = self.registrations.iter().any(|registration| registration.events & ONCE != 0);
        if beside == Beside::Change && once {
            beside = Beside::Nothing;
        }
        (what, beside)
    }

    /// Does a step, and waits until all that the kernel has told was told of ours.
    fn step(&mut self) -> bool {
        let (what, beside) = self.draw();
        let pauses = [2000, 300, 300].map(|bound| microseconds(&mut self.numbers, bound));
        let size = [100, 60_000][usize::from(self.numbers.below(3) == 0)];
        let size = 1 + self.numbers.below(size) as usize;
        self.sides.iter().for_each(Side::receive_all);
        thread::sleep(Duration::from_micros(200));
        self.sides.iter().for_each(|side| side.arm(self.registrations));
        thread::sleep(Duration::from_micros(300) + pauses[0]);
        let mut filled = [0; 2];
        if what == What::Drains {
            self.sides.iter().for_each(|side| drop(side.take()));
            filled = [0, 1].map(|which| self.sides[which].fill(size.max(4096)));
            thread::sleep(Duration::from_micros(500));
            self.sides.iter().for_each(|side| side.arm(self.registrations));
            thread::sleep(Duration::from_micros(500));
        }
        let before = self.sides.each_ref().map(Side::take);
        self.done.push((what, beside));
        let (sides, registrations) = (self.sides, self.registrations);
        thread::scope(|scope| {
            if beside != Beside::Nothing {
                scope.spawn(move || {
                    thread::sleep(pauses[1]);
                    let change = |side: &Side| {
                        let all = 0..registrations.len();
                        all.for_each(|at| side.control(libc::EPOLL_CTL_MOD, registrations, at));
                    };
                    beside.act(sides.each_ref().map(Side::fd), || sides.iter().for_each(change));
                });
            }
            thread::sleep(pauses[2]);
            let peer = &mut self.peer;
            match what {
                What::Comes => peer.act(Act::Send, size),
                What::Passes => {
                    for _ in 0..10 {
                        peer.act(Act::Send, 1);
                        sides.iter().for_each(|it| drop(recv(it.fd(), 9, libc::MSG_DONTWAIT)));
                    }
                    peer.act(Act::Send, size);
                }
                What::Drains => (0..2).for_each(|at| peer.act_at(at, Act::Receive, filled[at])),
                What::ShutDown(how) => sides.iter().for_each(|side| {
                    unsafe { libc::shutdown(side.fd(), how) };
                }),
                What::Disconnect => {
                    sides.iter().for_each(|side| assert_eq!(disconnect(side.fd()), Ok(0)))
                }
                What::Peer(act) => peer.act(act, 0),
                What::CloseCopy => {
                    let copies = sides.iter().filter_map(Side::copy);
                    copies.for_each(|copy| close(copy.swap(-1, Ordering::SeqCst)));
                    if !self.peer_shut {
                        peer.act(Act::Send, size);
                    }
                }
            }
        });
        self.peer_shut |= what == What::Peer(Act::ShutDownSending);
        self.sends_no_more |= what == What::ShutDown(libc::SHUT_WR);
        self.shut |= self.peer_shut || matches!(what, What::ShutDown(_));
        self.judge(before);
        !what.is_last()
    }

    fn judge(&self, before: [Vec<u32>; 2]) {
        let (begin, mut quiet_since) = (Instant::now(), Instant::now());
        loop {
            let [theirs, ours] = [1, 0].map(|which| self.sides[which].heard());
            let missing = (0..ours.len()).any(|at| {
                // What was heard of ours a moment earlier may have been heard of theirs only now.
                let early = before[0][at] & !before[1][at];
                let wanted = theirs[at] & !early & !self.need_not_be_heard();
                match self.registrations[at].events & ONCE {
                    // Which of what comes together an only event tells is a matter of time.
                    0 => ours[at] & wanted != wanted,
                    _ => wanted != 0 && early == 0 && ours[at] == 0,
                }
            });
            if missing {
                let late = begin.elapsed() > PATIENCE;
                assert!(!late, "missing: ours {ours:x?}, theirs {theirs:x?}\n{}", self.said());
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() > QUIET {
                return;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// What the kernel's sleepers may hear and ours need not: by edges without any news the other end's word
    /// that it has received this one's end, which comes with its next bytes; and an error that this end's own
    /// receives take away, if they do not before.
    fn need_not_be_heard(&self) -> u32 {
        let what = self.done.last().map(|(what, _)| *what);
        let passes = matches!(what, Some(What::Comes | What::Passes | What::CloseCopy));
        let takes = what == Some(What::Passes);
        [(self.sends_no_more && passes, OUT), (takes, libc::EPOLLERR as u32)]
            .into_iter()
            .fold(0, |all, (may, event)| all | if may { event } else { 0 })
    }

    fn said(&self) -> String {
        let elsewhere = matches!(self.peer, Peer::There { .. });
        let polled = self.sides.each_ref().map(|side| poll(side.fd(), crate::ALL, 0));
        let registrations = self.registrations;
        format!(
            "seed {}, polled {polled:x?}, peer elsewhere {elsewhere}\n{registrations:x?}\n{:?}",
            self.seed, self.done
        )
    }
}

/// Draws and runs a round. Says what was done.
fn run(seed: u64) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (ends, mut peer) = Peer::connect(numbers.below(2) == 0);
    let rounds = if numbers.below(4) == 0 { numbers.below(8) } else { 100 };
    peer.warm_up(ends, rounds);
    let (instances, copies) = (1 + numbers.below(2) as usize, numbers.below(3) as usize);
    let registrations = draw_registrations(&mut numbers, instances, copies);
    let sides = ends.map(|fd| Side::new(fd, copies, instances, &registrations));
    let mut sleepers = Vec::new();
    for instance in 0..instances {
        for _ in 0..=numbers.below(4) {
            let (at_once, limit) = (numbers.below(2) as usize, numbers.below(4) as usize);
            sleepers.push((instance, [1, 16][at_once], [-1, -1, -1, 50][limit]));
        }
    }
    thread::scope(|scope| {
        for (side, (instance, at_once, limit)) in
            sides.iter().flat_map(|side| sleepers.iter().map(move |sleeper| (side, *sleeper)))
        {
            scope.spawn(move || side.sleep(instance, at_once, limit));
        }
        let (steps, (sides, registrations)) = (1 + numbers.below(6), (&sides, &*registrations));
        let (shut, peer_shut, sends_no_more, done) = (false, false, false, Vec::new());
        let mut round = Round {
            seed,
            numbers,
            sides,
            registrations,
            peer,
            shut,
            peer_shut,
            sends_no_more,
            done,
        };
        let _all = (0..steps).all(|_| round.step());
        for side in sides {
            assert_eq!(unsafe { libc::eventfd_write(side.stop, 1) }, 0);
        }
        round.peer.end();
    });
    sides.iter().for_each(Side::end);
}

/// The first seed and the number of rounds.
fn given(first: u64, rounds: u64) -> (u64, u64) {
    let given = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    (given("WEFT_SLEEPERS_SEED").unwrap_or(first), given("WEFT_SLEEPERS_ROUNDS").unwrap_or(rounds))
}

#[test]
fn who_sleeps_hears_of_all_that_the_kernel_tells() {
    preloaded("sleepers::who_sleeps_hears_of_all_that_the_kernel_tells", || {
        let (first, rounds) = given(SEED, ROUNDS);
        (first..first + rounds).for_each(run);
        assert!(joined() > rounds, "{} ends of {rounds} connections were accelerated", joined());
    });
}
