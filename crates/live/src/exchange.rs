//! Measurements between this process and one that it forks: `weft live measure` and
//! `make bench-live` call them in a process with the library preloaded, or with it merely opened,
//! where the very same calls are the kernel's.

use std::io::{Error, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_uint};

type Result<T> = std::result::Result<T, Error>;

/// What is between the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Tcp,
    Unix,
    /// Nothing but memory that both see: the bytes are copied into a ring and a count is stored,
    /// which the other end spins on.
    Bare,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A message to and fro, in blocking calls: microseconds one way.
    PingPong,
    /// A ping-pong with each end waiting in `epoll`.
    Epoll,
    /// Messages one way: gigabytes a second.
    Stream,
    /// A connection for this many messages and their responses: microseconds a connection.
    Connect(c_uint),
}

impl Kind {
    /// How the other end is told, for those that go by one connection.
    const fn order(self) -> u64 {
        match self {
            Self::PingPong => 0,
            Self::Epoll => 1,
            Self::Stream => 2,
            Self::Connect(_) => 3,
        }
    }
}

/// Exchanges before the clock starts, in which a connection is joined.
const WARM_UP: u32 = 200;

/// Measures for a while and returns the figure of the kind; below zero if that cannot be. `medium`
/// and `kind` are the indices of the variants, the kinds from 3 on being connections of 1, 2, 3 and
/// more messages; `size` is in bytes, `span` in nanoseconds, `here` and `there` are the processors of
/// this process and the other.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C-unwind" fn weft_live_exchange(
    medium: c_uint,
    kind: c_uint,
    size: usize,
    span: u64,
    here: c_uint,
    there: c_uint,
) -> f64 {
    let medium = match medium {
        0 => Medium::Tcp,
        1 => Medium::Unix,
        _ => Medium::Bare,
    };
    let kind = match kind {
        0 => Kind::PingPong,
        1 => Kind::Epoll,
        2 => Kind::Stream,
        more => Kind::Connect(more - 2),
    };
    let span = Duration::from_nanos(span);
    let size = size.clamp(1, 1 << 26);
    let measured = match (medium, kind) {
        (Medium::Bare, Kind::PingPong) => bare(size, span, [here, there]),
        (Medium::Tcp, Kind::Connect(messages)) => connections(messages, size, span, [here, there]),
        (Medium::Bare, _) | (Medium::Unix, Kind::Connect(_)) => Ok(-1.0),
        (Medium::Tcp, _) => tcp_pair([here, there])
            .and_then(|(stream, child)| measure(stream, child, kind, size, span)),
        (Medium::Unix, _) => unix_pair([here, there])
            .and_then(|(stream, child)| measure(stream, child, kind, size, span)),
    };
    measured.unwrap_or(-1.0)
}

/// Keeps the process on one processor.
fn pin(processor: c_uint) {
    // SAFETY: the set is plain bits, and the number is checked to be one of them.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if (processor as usize) < 8 * size_of::<libc::cpu_set_t>() {
            libc::CPU_SET(processor as usize, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }
}

/// The process that was forked; waited for when dropped.
struct Child(c_int);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: waits for the child that was forked below.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

/// Forks; the child runs `serve` on its processor and ends.
fn fork(processors: [c_uint; 2], serve: impl FnOnce() -> Result<()>) -> Result<Child> {
    // SAFETY: the process that calls the library's measurements has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: only asks for a signal when the parent dies.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        pin(processors[1]);
        let status = c_int::from(serve().is_err());
        // SAFETY: ends the process without the parent's own farewells.
        unsafe { libc::_exit(status) };
    }
    if child < 0 {
        return Err(Error::last_os_error());
    }
    pin(processors[0]);
    Ok(Child(child))
}

/// A stream of either kind.
trait Stream: Read + Write + AsRawFd {
    fn end_sending(&self) -> Result<()>;
}

impl Stream for TcpStream {
    fn end_sending(&self) -> Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

impl Stream for UnixStream {
    fn end_sending(&self) -> Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

fn tcp_pair(processors: [c_uint; 2]) -> Result<(TcpStream, Child)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let child = fork(processors, || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        serve(stream)
    })?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok((stream, child))
}

fn unix_pair(processors: [c_uint; 2]) -> Result<(UnixStream, Child)> {
    let (mine, theirs) = UnixStream::pair()?;
    let kept = mine.as_raw_fd();
    let child = fork(processors, || {
        // SAFETY: the child's copy of the parent's end, which it never uses.
        unsafe { libc::close(kept) };
        serve(theirs)
    })?;
    Ok((mine, child))
}

/// The other end: the first message says what to do.
fn serve(mut stream: impl Stream) -> Result<()> {
    let mut order = [0u8; 16];
    stream.read_exact(&mut order)?;
    let [kind, size] = [0, 8].map(|at| {
        let mut word = [0u8; 8];
        word.copy_from_slice(&order[at..at + 8]);
        u64::from_le_bytes(word)
    });
    let mut buffer = vec![0u8; (size as usize).max(1 << 17)];
    stream.write_all(&[1])?;
    if kind == Kind::Stream.order() {
        while stream.read(&mut buffer)? > 0 {}
        return stream.write_all(&[1]);
    }
    for _ in 0..WARM_UP {
        stream.read_exact(&mut buffer[..size as usize])?;
        stream.write_all(&buffer[..size as usize])?;
    }
    let waiter = if kind == Kind::Epoll.order() { Some(Waiter::new(&stream)?) } else { None };
    loop {
        if let Some(waiter) = &waiter {
            waiter.wait();
        }
        match stream.read(&mut buffer[..size as usize])? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Waits with `epoll` until a stream can be read.
struct Waiter(c_int);

impl Waiter {
    fn new(stream: &impl AsRawFd) -> Result<Self> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is valid.
        let (epoll, added) = unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            (epoll, libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &mut event))
        };
        if added == 0 { Ok(Self(epoll)) } else { Err(Error::last_os_error()) }
    }

    fn wait(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        unsafe { libc::epoll_wait(self.0, &mut event, 1, -1) };
    }
}

fn measure(
    mut stream: impl Stream,
    child: Child,
    kind: Kind,
    size: usize,
    span: Duration,
) -> Result<f64> {
    let mut order = [0u8; 16];
    order[..8].copy_from_slice(&kind.order().to_le_bytes());
    order[8..].copy_from_slice(&(size as u64).to_le_bytes());
    stream.write_all(&order)?;
    stream.read_exact(&mut [0])?;
    let figure = match kind {
        Kind::Stream => send_all(&mut stream, size, span),
        _ => exchange(&mut stream, kind == Kind::Epoll, size, span),
    };
    drop(stream);
    drop(child);
    figure
}

/// How often the clock is looked at: rarely enough not to be measured itself.
const ROUNDS: u32 = 16;

fn exchange(stream: &mut impl Stream, epoll: bool, size: usize, span: Duration) -> Result<f64> {
    let mut buffer = vec![7u8; size];
    for _ in 0..WARM_UP {
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
    }
    let waiter = if epoll { Some(Waiter::new(stream)?) } else { None };
    let begin = Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < span {
        for _ in 0..ROUNDS {
            stream.write_all(&buffer)?;
            if let Some(waiter) = &waiter {
                waiter.wait();
            }
            stream.read_exact(&mut buffer)?;
        }
        rounds += ROUNDS;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds) / 2.0)
}

fn send_all(stream: &mut impl Stream, size: usize, span: Duration) -> Result<f64> {
    let buffer = vec![7u8; size];
    // As long again before the clock starts: the rarer the other end reads, the later it joins.
    let begin = Instant::now();
    while begin.elapsed() < span / 2 {
        for _ in 0..ROUNDS {
            stream.write_all(&buffer)?;
        }
    }
    let begin = Instant::now();
    let mut bytes = 0;
    while begin.elapsed() < span {
        for _ in 0..ROUNDS {
            stream.write_all(&buffer)?;
        }
        bytes += u64::from(ROUNDS) * size as u64;
    }
    // The last byte has arrived when the other end has said so.
    stream.end_sending()?;
    stream.read_exact(&mut [0])?;
    Ok(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9)
}

/// Connects, sends and receives so often, and closes.
fn connections(
    messages: c_uint,
    size: usize,
    span: Duration,
    processors: [c_uint; 2],
) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let child = fork(processors, || {
        let mut buffer = vec![0u8; size];
        loop {
            let (mut stream, _) = listener.accept()?;
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    count => stream.write_all(&buffer[..count])?,
                }
            }
            // The last byte says whether it was the last connection.
            if buffer[0] != 7 {
                return Ok(());
            }
        }
    })?;
    let one = |content: u8| -> Result<()> {
        let mut buffer = vec![content; size];
        let mut stream = TcpStream::connect(address)?;
        for _ in 0..messages {
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
        }
        Ok(())
    };
    let begin = Instant::now();
    let mut rounds = 0;
    let mut failed = Ok(());
    while begin.elapsed() < span && failed.is_ok() {
        failed = one(7);
        rounds += 1;
    }
    let elapsed = begin.elapsed();
    one(0)?;
    drop(child);
    failed.map(|()| elapsed.as_secs_f64() * 1e6 / f64::from(rounds))
}

const RING: usize = 1 << 18;

/// One direction of the bare exchange: a count on a cache line of its own, and a ring.
#[repr(C, align(128))]
struct BareWay {
    count: AtomicU64,
    ring: [u8; RING],
}

/// Tells the other end of the bare exchange that it is over.
const OVER: u64 = u64::MAX;

/// Copies between a buffer and the ring of one direction.
struct BareEnd {
    ways: *mut BareWay,
    mine: usize,
    size: usize,
}

impl BareEnd {
    fn way(&self, mine: bool) -> *mut BareWay {
        // SAFETY: both ways are mapped.
        unsafe { self.ways.add(if mine { self.mine } else { 1 - self.mine }) }
    }

    fn slot(&self, mine: bool, round: u64) -> *mut u8 {
        let place = (round as usize * self.size) % (RING - self.size + 1);
        // SAFETY: the slot lies inside the ring.
        unsafe { (&raw mut (*self.way(mine)).ring).cast::<u8>().add(place) }
    }

    fn say(&self, count: u64) {
        // SAFETY: the way is mapped, and its count is an atomic.
        unsafe { (*self.way(true)).count.store(count, Ordering::Release) };
    }

    fn send(&self, round: u64, from: &[u8]) {
        // SAFETY: the slot has room for the buffer, and the count orders the copies.
        unsafe { self.slot(true, round).copy_from_nonoverlapping(from.as_ptr(), self.size) };
        self.say(round + 1);
    }

    /// False once the exchange is over.
    fn receive(&self, round: u64, to: &mut [u8]) -> bool {
        loop {
            // SAFETY: as for `say`.
            match unsafe { (*self.way(false)).count.load(Ordering::Acquire) } {
                OVER => return false,
                count if count > round => break,
                _ => std::hint::spin_loop(),
            }
        }
        // SAFETY: as for `send`.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(self.slot(false, round), self.size) };
        true
    }
}

fn bare(size: usize, span: Duration, processors: [c_uint; 2]) -> Result<f64> {
    let length = 2 * size_of::<BareWay>();
    if size > RING || processors[0] == processors[1] {
        return Ok(-1.0);
    }
    let (access, none) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
    let sharing = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping disturbs none; all zeroes are two valid ways.
    let ways = unsafe { libc::mmap(none, length, access, sharing, -1, 0) };
    if ways == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    let end = |mine| BareEnd { ways: ways.cast(), mine, size };
    let child = fork(processors, || {
        let (end, mut buffer) = (end(1), vec![7u8; size]);
        for round in 0.. {
            if !end.receive(round, &mut buffer) {
                break;
            }
            end.send(round, &buffer);
        }
        Ok(())
    })?;
    let (end, mut buffer) = (end(0), vec![7u8; size]);
    let (begin, mut round) = (Instant::now(), 0);
    while begin.elapsed() < span {
        for _ in 0..ROUNDS {
            end.send(round, &buffer);
            end.receive(round, &mut buffer);
            round += 1;
        }
    }
    let figure = begin.elapsed().as_secs_f64() * 1e6 / round as f64 / 2.0;
    end.say(OVER);
    drop(child);
    // SAFETY: nobody uses the mapping any more.
    unsafe { libc::munmap(ways, length) };
    Ok(figure)
}
