//! One measurement over TCP on this host: a forked server on processor 0, this process on 1 or 0.
//!
//! `exchange pingpong|epoll|stream|bare SIZE COUNT cross|same` prints one figure: microseconds one
//! way, or gigabytes a second. Run it plainly for the kernel's, and under the live library for its
//! own. `bare` is the ping-pong with nothing between the two but shared memory: the bytes are copied
//! into a ring and a count is stored, which the other end spins on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, size, count, place] = &words[..] else {
        return Err("exchange pingpong|epoll|stream|bare SIZE COUNT cross|same".into());
    };
    let (size, count): (usize, u32) = (size.parse()?, count.parse()?);
    if kind == "bare" {
        println!("{:.4}", bare(size, u64::from(count))?);
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    // SAFETY: the process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        pin(0);
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        return serve(stream, kind, size);
    }
    pin(if place == "same" { 0 } else { 1 });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let figure = match kind.as_str() {
        "stream" => send_all(&mut stream, size, count)?,
        _ => exchange(&mut stream, kind == "epoll", size, count)?,
    };
    drop(stream);
    // SAFETY: waits for the child that was forked above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    println!("{figure:.4}");
    Ok(())
}

/// Keeps the process on one processor.
fn pin(processor: usize) {
    // SAFETY: the set is plain bits.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Waits with `epoll` until the stream can be read.
struct Waiter(i32);

impl Waiter {
    fn new(stream: i32) -> Self {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is valid.
        unsafe {
            let epoll = libc::epoll_create1(0);
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream, &mut event);
            Self(epoll)
        }
    }

    fn wait(&self) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        unsafe { libc::epoll_wait(self.0, &mut event, 1, -1) };
    }
}

fn serve(mut stream: TcpStream, kind: &str, size: usize) -> Result<(), Failure> {
    let mut buffer = vec![0; size.max(1 << 17)];
    if kind == "stream" {
        while stream.read(&mut buffer)? > 0 {}
        return Ok(());
    }
    // The first exchanges are blocking ones, until both ends have joined.
    for _ in 0..200 {
        stream.read_exact(&mut buffer[..size])?;
        stream.write_all(&buffer[..size])?;
    }
    let waiter = (kind == "epoll").then(|| Waiter::new(stream.as_raw_fd()));
    loop {
        if let Some(waiter) = &waiter {
            waiter.wait();
        }
        match stream.read(&mut buffer[..size])? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn exchange(stream: &mut TcpStream, epoll: bool, size: usize, count: u32) -> Result<f64, Failure> {
    let fd = stream.as_raw_fd();
    let mut buffer = vec![7; size];
    let mut once = |waiter: Option<&Waiter>| -> Result<(), Failure> {
        stream.write_all(&buffer)?;
        if let Some(waiter) = waiter {
            waiter.wait();
        }
        Ok(stream.read_exact(&mut buffer)?)
    };
    for _ in 0..200 {
        once(None)?;
    }
    let waiter = epoll.then(|| Waiter::new(fd));
    let begin = Instant::now();
    for _ in 0..count {
        once(waiter.as_ref())?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(count) / 2.0)
}

/// One way of the bare exchange: a count on a line of its own, and a ring.
#[repr(C, align(128))]
struct BareWay {
    count: AtomicU64,
    ring: [u8; RING],
}

const RING: usize = 1 << 18;

/// The ping-pong over bare shared memory; its processors are 0 and 1.
fn bare(size: usize, rounds: u64) -> Result<f64, Failure> {
    if size > RING {
        return Err("the bare ring holds 262144 B".into());
    }
    // SAFETY: a new mapping; all zeroes are two valid ways.
    let ways = unsafe {
        let length = 2 * size_of::<BareWay>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let sharing = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), length, access, sharing, -1, 0).cast::<BareWay>()
    };
    // SAFETY: the process has one thread.
    let child = unsafe { libc::fork() };
    let (mine, theirs) = if child == 0 { (1, 0) } else { (0, 1) };
    pin(mine);
    let mut buffer = vec![7u8; size];
    let slot = |round: u64| (round as usize * size) % (RING - size + 1);
    // SAFETY: both ways are mapped, slots lie in their rings, and the count orders the copies.
    let (send, receive) = unsafe {
        (
            |round: u64, from: &[u8]| {
                let way = ways.add(mine);
                let to = (&raw mut (*way).ring).cast::<u8>().add(slot(round));
                to.copy_from_nonoverlapping(from.as_ptr(), size);
                (*way).count.store(round + 1, Ordering::Release);
            },
            |round: u64, to: &mut [u8]| {
                let way = ways.add(theirs);
                while (*way).count.load(Ordering::Acquire) <= round {
                    std::hint::spin_loop();
                }
                let from = (&raw const (*way).ring).cast::<u8>().add(slot(round));
                to.as_mut_ptr().copy_from_nonoverlapping(from, size);
            },
        )
    };
    let begin = Instant::now();
    for round in 0..rounds {
        if child == 0 {
            receive(round, &mut buffer);
            send(round, &buffer);
        } else {
            send(round, &buffer);
            receive(round, &mut buffer);
        }
    }
    if child == 0 {
        std::process::exit(0);
    }
    let figure = begin.elapsed().as_secs_f64() * 1e6 / rounds as f64 / 2.0;
    // SAFETY: waits for the child that was forked above.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(figure)
}

fn send_all(stream: &mut TcpStream, size: usize, count: u32) -> Result<f64, Failure> {
    let buffer = vec![7; size];
    for _ in 0..200.min(count) {
        stream.write_all(&buffer)?;
    }
    let begin = Instant::now();
    for _ in 0..count {
        stream.write_all(&buffer)?;
    }
    // The last byte has arrived when the server has closed.
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_exact(&mut [0]).err();
    Ok(size as f64 * f64::from(count) / begin.elapsed().as_secs_f64() / 1e9)
}
