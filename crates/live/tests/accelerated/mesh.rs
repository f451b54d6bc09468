//! Processes and threads whose connections change hands at random: each carries bytes both ways, by
//! turns and then as two streams, while its ends do what programs do with descriptors. Every byte is
//! checked, and that each end is told of the other's end as one.

mod acts;
mod end;

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use libc::c_int;

use crate::pair::{Numbers, joined, poll, preloaded};
use end::End;

const NAME: &str = "mesh::connections_that_change_hands_at_random_lose_nothing";
/// Processes of clients, as many of servers, and the threads of each.
const PROCESSES: u64 = 2;
const THREADS: u64 = 3;
/// How long new connections are made, unless `WEFT_MESH_SECONDS` says it.
const SPAN: Duration = Duration::from_secs(6);
/// The number under which all have the file in which each end says what became of it.
const RESULTS: c_int = 700;
/// What says to a program where it is to go on.
const GOES_ON: &str = "WEFT_MESH_GOES_ON";

#[test]
fn connections_that_change_hands_at_random_lose_nothing() {
    preloaded(NAME, || match std::env::var(GOES_ON) {
        Ok(state) => {
            end::goes_on(&state);
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        Err(_) => judge(),
    });
}

/// Runs the mesh, and looks at what its ends have said.
fn judge() {
    let seed = u64::from(std::process::id());
    // SAFETY: the name is a C string, and the number is nobody's yet.
    let mut results = unsafe {
        let file = libc::memfd_create(c"results".as_ptr(), 0);
        assert_eq!(libc::dup3(file, RESULTS, libc::O_CLOEXEC), RESULTS);
        libc::fcntl(file, libc::F_SETFL, libc::O_APPEND);
        File::from_raw_fd(file)
    };
    let (ports, places) = std::io::pipe().unwrap();
    // SAFETY: takes no memory.
    unsafe { libc::fcntl(ports.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let asked = std::env::var("WEFT_MESH_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let until = Instant::now() + asked.map_or(SPAN, Duration::from_secs);
    let workers: Vec<_> = (0..2 * PROCESSES)
        .map(|which| {
            acts::fork(|| {
                std::thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let drawn = Numbers((seed * 100 + which) * 100 + thread);
                        let (ports, places) = (&ports, &places);
                        scope.spawn(move || match which % 2 {
                            0 => call(ports, until, drawn),
                            _ => serve(places, until),
                        });
                    }
                });
            })
        })
        .collect();
    for worker in workers {
        acts::await_end(worker).unwrap();
    }
    let mut said = String::new();
    // SAFETY: the number is this process's, and the file is not used otherwise any more.
    unsafe { libc::lseek(results.as_raw_fd(), 0, libc::SEEK_SET) };
    results.read_to_string(&mut said).unwrap();
    let bad: Vec<_> = said.lines().filter(|line| *line != "ok").collect();
    let (ends, accelerated) = (said.lines().count(), joined());
    println!("mesh of seed {seed}: {ends} ends, {accelerated} accelerated, {} bad", bad.len());
    assert!(bad.is_empty(), "seed {seed}: {bad:#?}");
    assert!(
        ends > 20 && accelerated as usize > ends / 2,
        "{accelerated} of {ends} were accelerated"
    );
}

/// Says in the results what became of an end.
fn say(line: &str) {
    // SAFETY: the number stays open, and nothing closes the file.
    let mut results = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(RESULTS) });
    results.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Makes connections until a time, each to a port that somebody waits at.
fn call(mut ports: &PipeReader, until: Instant, mut drawn: Numbers) {
    while Instant::now() < until {
        let mut port = [0; 2];
        poll(ports.as_raw_fd(), libc::POLLIN, 100);
        // Another may have taken the one that was there.
        if ports.read(&mut port).is_err() {
            continue;
        }
        let seed = drawn.below(1 << 30);
        let fd = end::connected(u16::from_ne_bytes(port));
        // SAFETY: so many bytes are there.
        let sent = unsafe { libc::send(fd, (&raw const seed).cast(), 8, 0) };
        assert_eq!(sent, 8);
        End::new(fd, seed, 0).run();
    }
}

/// Answers connections until a time, and those that were made by then. Each comes to a port of its own:
/// of one port, the library learns whether connections there last, and those whose ends soon do what
/// keeps them with the kernel would be taken for short.
fn serve(mut places: &PipeWriter, until: Instant) {
    let until = until + Duration::from_secs(1);
    while Instant::now() < until {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        places.write_all(&listener.local_addr().unwrap().port().to_ne_bytes()).unwrap();
        while poll(listener.as_raw_fd(), libc::POLLIN, 100) == 0 {
            if Instant::now() >= until {
                return;
            }
        }
        let none = std::ptr::null_mut();
        // SAFETY: whoever connects need not be named.
        let fd = unsafe { libc::accept(listener.as_raw_fd(), none, none.cast()) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        drop(listener);
        let mut seed = 0u64;
        // SAFETY: there is so much room.
        let came = unsafe { libc::recv(fd, (&raw mut seed).cast(), 8, libc::MSG_WAITALL) };
        assert_eq!(came, 8);
        End::new(fd, seed, 1).run();
    }
}
