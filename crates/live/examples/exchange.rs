//! One measurement over TCP on this host: a forked server on processor 0, this process on 1 or 0.
//!
//! `exchange pingpong|epoll|stream SIZE COUNT cross|same` prints one figure: microseconds one way,
//! or gigabytes a second. Run it plainly for the kernel's, and under the live library for its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, size, count, place] = &words[..] else {
        return Err("exchange pingpong|epoll|stream SIZE COUNT cross|same".into());
    };
    let (size, count): (usize, u32) = (size.parse()?, count.parse()?);
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
