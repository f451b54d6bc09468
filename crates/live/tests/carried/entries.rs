//! What a carried connection costs beside its messages: kernel entries while they flow, and
//! processor time while they do not.

use std::time::{Duration, Instant};

use libc::c_int;

use crate::pair::{Pair, carried, entries_counted, poll, preloaded, recv, send};
use crate::{epoll_control, epoll_events};

const MESSAGES: u32 = 20_000;

/// How often a process enters the kernel between the two stops of `body`, which gets a connection:
/// as its tracer sees it, which must be what the library has counted, but for the stops themselves.
/// And how long it took, under a tracer and beside whatever else runs.
fn entries(body: impl Fn(Pair, &dyn Fn())) -> (u32, Duration) {
    let null: *mut libc::c_void = std::ptr::null_mut();
    // SAFETY: the child uses what it makes itself, and ends without its parent's farewells.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, null, null);
            body(carried(), &|| assert_eq!(libc::raise(libc::SIGSTOP), 0));
            libc::_exit(0);
        }
        let stopped = || {
            let mut status: c_int = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFSTOPPED(status), "the child ended with {status}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(stopped(), libc::SIGSTOP);
        let before = entries_counted();
        let (begun, mut stops) = (Instant::now(), 0);
        loop {
            assert_eq!(libc::ptrace(libc::PTRACE_SYSCALL, child, null, null), 0);
            match stopped() {
                libc::SIGTRAP => stops += 1,
                signal => break assert_eq!(signal, libc::SIGSTOP),
            }
        }
        let span = begun.elapsed();
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        // A call stops as it begins and as it ends.
        let seen = stops / 2;
        let counted = (entries_counted() - before) as u32;
        assert!((counted..counted + 10).contains(&seen), "{seen} entries, {counted} counted");
        (seen, span)
    }
}

#[test]
fn messages_do_not_enter_the_kernel() {
    preloaded("entries::messages_do_not_enter_the_kernel", || {
        let (count, span) = entries(|pair, stop| {
            stop();
            for round in 0..MESSAGES {
                assert_eq!(send(pair.a, &round.to_le_bytes(), 0), Ok(4));
                assert_eq!(recv(pair.b, 4, 0).unwrap(), round.to_le_bytes());
            }
            stop();
        });
        // Every 4 ms either end asks the kernel whether the other lives.
        let by_time = 2 * (span.as_millis() / 4) as u32;
        assert!(count < 20 + 2 * by_time, "{count} entries for {MESSAGES} messages in {span:?}");
    });
}

#[test]
fn messages_in_an_instance_enter_the_kernel_by_time_only() {
    preloaded("entries::messages_in_an_instance_enter_the_kernel_by_time_only", || {
        let (count, span) = entries(|pair, stop| {
            // SAFETY: takes no memory.
            let epoll = unsafe { libc::epoll_create1(0) };
            let wanted = libc::EPOLLIN as u32;
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, wanted), 0);
            stop();
            for round in 0..MESSAGES {
                assert_eq!(send(pair.a, &round.to_le_bytes(), 0), Ok(4));
                assert_eq!(epoll_events(epoll), [(wanted, 7)]);
                assert_eq!(recv(pair.b, 4, 0).unwrap(), round.to_le_bytes());
            }
            stop();
        });
        // Every 50 us the kernel is asked about other descriptors.
        let by_time = (span.as_micros() / 50) as u32;
        assert!(
            count < 50 + by_time * 9 / 8,
            "{count} entries for {MESSAGES} messages in {span:?}"
        );
    });
}

/// The processor time that this process has used.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn who_waits_on_idle_connections_burns_no_processor() {
    preloaded("entries::who_waits_on_idle_connections_burns_no_processor", || {
        let (blocked, polled) = (carried(), carried());
        let many: Vec<_> = (0..40).map(|_| carried()).collect();
        // SAFETY: takes no memory.
        let epoll = unsafe { libc::epoll_create1(0) };
        for pair in &many {
            let wanted = libc::EPOLLIN as u32;
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, wanted), 0);
        }
        let waiting = [
            std::thread::spawn(move || assert_eq!(recv(blocked.b, 1, 0).unwrap(), b"x")),
            std::thread::spawn(move || assert_eq!(poll(polled.b, libc::POLLIN, -1), libc::POLLIN)),
            std::thread::spawn(move || {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: there is room for one event.
                assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) }, 1);
            }),
        ];
        std::thread::sleep(Duration::from_millis(200));
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        let burnt = used() - before;
        assert!(burnt < Duration::from_millis(20), "{burnt:?} of a second");
        for near in [blocked.a, polled.a, many[39].a] {
            assert_eq!(send(near, b"x", 0), Ok(1));
        }
        for thread in waiting {
            thread.join().unwrap();
        }
    });
}
