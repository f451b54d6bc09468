//! What an accelerated connection costs beside its messages: kernel entries while they flow, and
//! processor time while they do not.

use std::time::{Duration, Instant};

use libc::c_int;

use crate::back::Wait;
use crate::pair::{
    Entries, Pair, accelerated, close, poll, preloaded, preloaded_undisturbed, recv, send, skipped,
};
use crate::{epoll_control, epoll_events};

const MESSAGES: u32 = 20_000;

/// The numbers of so many messages at least, for longer than an end is left unasked whether it lives.
fn rounds() -> impl Iterator<Item = u32> {
    let begun = Instant::now();
    let goes_on = move |round| round < MESSAGES || begun.elapsed() < Duration::from_millis(50);
    (0..).take_while(move |round| goes_on(*round))
}

/// How often a process enters the kernel between the two stops of `body`, which gets a connection,
/// as the library counts it and its tracer confirms, but for the stops themselves. And how long it
/// took, under a tracer and beside whatever else runs.
fn entries(body: impl Fn(Pair, &dyn Fn())) -> (Entries, Duration) {
    let null: *mut libc::c_void = std::ptr::null_mut();
    // SAFETY: the child uses what it makes itself, and ends without its parent's farewells.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, null, null);
            body(accelerated(), &|| assert_eq!(libc::raise(libc::SIGSTOP), 0));
            libc::_exit(0);
        }
        let stopped = || {
            let mut status: c_int = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFSTOPPED(status), "the child ended with {status}");
            libc::WSTOPSIG(status)
        };
        assert_eq!(stopped(), libc::SIGSTOP);
        let before = Entries::now();
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
        let (seen, counted) = (stops / 2, Entries::now().since(before));
        assert!((counted.all()..counted.all() + 10).contains(&seen), "{seen} for {counted:?}");
        (counted, span)
    }
}

/// No message enters the kernel. Who was kept from running for long may ask whether the other end lives,
/// once in 4 ms at most.
fn assert_by_silence_only(count: Entries, span: Duration) {
    assert_eq!(count.all(), count.questions, "{count:?}");
    assert!(u128::from(count.questions) <= span.as_millis() / 4, "{count:?} in {span:?}");
}

#[test]
fn messages_do_not_enter_the_kernel() {
    preloaded("entries::messages_do_not_enter_the_kernel", || {
        let (count, span) = entries(|pair, stop| {
            stop();
            for round in rounds() {
                assert_eq!(send(pair.a, &round.to_le_bytes(), 0), Ok(4));
                assert_eq!(recv(pair.b, 4, 0).unwrap(), round.to_le_bytes());
            }
            stop();
        });
        assert_by_silence_only(count, span);
    });
}

/// An instance that has one end of the connection.
fn instance(pair: Pair) -> c_int {
    // SAFETY: takes no memory.
    let epoll = unsafe { libc::epoll_create1(0) };
    assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.b, libc::EPOLLIN as u32), 0);
    epoll
}

/// Messages that an instance reports.
fn send_by(epoll: c_int, pair: Pair) {
    for round in rounds() {
        assert_eq!(send(pair.a, &round.to_le_bytes(), 0), Ok(4));
        assert_eq!(epoll_events(epoll), [(libc::EPOLLIN as u32, 7)]);
        assert_eq!(recv(pair.b, 4, 0).unwrap(), round.to_le_bytes());
    }
}

#[test]
fn messages_in_an_instance_do_not_enter_the_kernel() {
    preloaded("entries::messages_in_an_instance_do_not_enter_the_kernel", || {
        let (count, span) = entries(|pair, stop| {
            let epoll = instance(pair);
            stop();
            send_by(epoll, pair);
            stop();
        });
        assert_by_silence_only(count, span);
    });
}

/// A pipe that nobody writes to.
fn pipe() -> c_int {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends[0]
}

#[test]
fn messages_beside_what_the_kernel_reports_enter_it_by_time_only() {
    preloaded("entries::messages_beside_what_the_kernel_reports_enter_it_by_time_only", || {
        let (count, span) = entries(|pair, stop| {
            let epoll = instance(pair);
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pipe(), libc::EPOLLIN as u32), 0);
            stop();
            send_by(epoll, pair);
            stop();
        });
        // Every 50 us the kernel is asked about the pipe, which says nothing.
        let by_time = (span.as_micros() / 50) as u64;
        assert!(count.asides > 0 && count.asides < 50 + by_time * 9 / 8, "{count:?} in {span:?}");
        // The first look finds the doorbells of before.
        assert!(count.all() < count.asides + 10, "{count:?}");
    });
}

#[test]
fn what_the_kernel_alone_reports_is_looked_at_while_messages_flow() {
    preloaded("entries::what_the_kernel_alone_reports_is_looked_at_while_messages_flow", || {
        // One that the library does not know, and one that it has not accelerated.
        for other in [crate::pair::plain(), crate::pair::used(0)] {
            is_looked_at(other);
        }
    });
}

/// Messages flow by an instance until it reports what the kernel has brought on the other
/// connection.
fn is_looked_at(other: Pair) {
    let pair = accelerated();
    let epoll = instance(pair);
    let (add, delete) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_DEL);
    let wanted = libc::EPOLLIN as u32;
    assert_eq!(epoll_control(epoll, add, other.b, wanted), 0);
    // Whatever else is put in and taken out, one is left that has something to say.
    for fd in [pipe(), pipe()] {
        assert_eq!(epoll_control(epoll, add, fd, wanted), 0);
        assert_eq!(epoll_control(epoll, delete, fd, wanted), 0);
        assert_eq!(epoll_control(epoll, delete, fd, wanted), -1);
    }
    assert_eq!(send(other.a, b"x", 0), Ok(1));
    flow_until_more_is_reported(epoll, pair);
}

/// Computes, for longer than an instance is without a look at what the kernel alone reports.
fn compute() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(100) {}
}

#[test]
fn who_works_for_each_message_is_told_of_others_in_the_next_wait() {
    preloaded("entries::who_works_for_each_message_is_told_of_others_in_the_next_wait", || {
        let (pair, other) = (accelerated(), crate::pair::plain());
        let epoll = instance(pair);
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, other.b, libc::EPOLLIN as u32), 0);
        let told = || {
            assert_eq!(send(pair.a, b"y", 0), Ok(1));
            compute();
            let count = epoll_events(epoll).len();
            assert_eq!(recv(pair.b, 1, 0).unwrap(), b"y");
            count
        };
        // It takes some turns to learn that they take long.
        for _ in 0..20 {
            assert_eq!(told(), 1);
        }
        for _ in 0..50 {
            assert_eq!(send(other.a, b"x", 0), Ok(1));
            assert_eq!(told(), 2);
            assert_eq!(recv(other.b, 1, 0).unwrap(), b"x");
            assert_eq!(told(), 1);
        }
    });
}

/// Messages flow by an instance until it reports something beside them.
fn flow_until_more_is_reported(epoll: c_int, pair: Pair) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut reported = 0;
    while reported < 2 {
        assert!(Instant::now() < until, "only the messages are reported");
        assert_eq!(send(pair.a, b"y", 0), Ok(1));
        reported = epoll_events(epoll).len();
        assert_eq!(recv(pair.b, 1, 0).unwrap(), b"y");
    }
}

#[test]
fn what_went_back_is_looked_at_while_messages_flow() {
    preloaded("entries::what_went_back_is_looked_at_while_messages_flow", || {
        let (pair, other) = (accelerated(), accelerated());
        let epoll = instance(pair);
        let wanted = libc::EPOLLIN as u32;
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, other.b, wanted), 0);
        crate::options::set(other.b, libc::IPPROTO_IP, libc::IP_RECVTTL, 1);
        // Both ends notice, and the instance.
        for fd in [other.a, other.b] {
            assert_eq!(poll(fd, libc::POLLIN, 0), 0);
        }
        (0..100).for_each(|_| assert_eq!(epoll_events(epoll), []));
        assert_eq!(send(other.a, b"x", 0), Ok(1));
        flow_until_more_is_reported(epoll, pair);
    });
}

/// A connection whose other end is a process that was killed.
fn bereft() -> c_int {
    let pair = accelerated();
    // SAFETY: the child does nothing and is waited for.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            close(pair.b);
            loop {
                libc::pause();
            }
        }
        close(pair.a);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    pair.b
}

#[test]
fn a_death_is_heard_of_while_others_have_messages() {
    preloaded("entries::a_death_is_heard_of_while_others_have_messages", || {
        let (pair, dead) = (accelerated(), bereft());
        let epoll = instance(pair);
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, dead, libc::EPOLLRDHUP as u32), 0);
        flow_until_more_is_reported(epoll, pair);
    });
}

#[test]
fn a_death_is_heard_of_by_who_only_sends() {
    preloaded("entries::a_death_is_heard_of_by_who_only_sends", || {
        let dead = bereft();
        let until = Instant::now() + Duration::from_secs(60);
        // Not so many that the ring is full.
        let sent = (0..100_000).take_while(|_| {
            std::thread::sleep(Duration::from_millis(1));
            Instant::now() < until && send(dead, b"x", 0) == Ok(1)
        });
        let sent = sent.count();
        assert!(Instant::now() < until, "{sent} bytes went to nobody");
    });
}

#[test]
fn a_death_is_heard_of_by_who_never_waits() {
    preloaded("entries::a_death_is_heard_of_by_who_never_waits", || {
        let dead = bereft();
        let until = Instant::now() + Duration::from_secs(60);
        while recv(dead, 1, libc::MSG_DONTWAIT) == Err(libc::EAGAIN) {
            assert!(Instant::now() < until, "nothing is heard of it");
        }
        assert_eq!(recv(dead, 1, libc::MSG_DONTWAIT), Ok(vec![]));
    });
}

/// Keeps the calling thread on one of the processors that the process may use; false if there is no
/// such.
fn pin(which: usize) -> bool {
    // SAFETY: the sets are plain bits and valid places for the results.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&all), &mut all), 0);
        let mut usable = (0..8 * size_of_val(&all)).filter(|it| libc::CPU_ISSET(*it, &all));
        let Some(processor) = usable.nth(which) else { return false };
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &raw const one) == 0
    }
}

/// Two processes, each on a processor of its own, send a message to and fro, for which they wait in
/// one way; how often they have entered the kernel. `None` where there is one processor only.
fn to_and_fro(rounds: u32, how: Wait) -> Option<Entries> {
    let end = |fd: c_int, first: bool| {
        let epoll = (how == Wait::Epoll).then(|| instance(Pair { a: fd, b: fd }));
        for round in 0..rounds {
            if first {
                assert_eq!(send(fd, &round.to_le_bytes(), 0), Ok(4));
            }
            if let Some(epoll) = epoll {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: there is room for one event.
                assert_eq!(unsafe { libc::epoll_wait(epoll, &mut event, 1, -1) }, 1);
            } else if how == Wait::Poll {
                assert_eq!(poll(fd, libc::POLLIN, -1), libc::POLLIN);
            }
            assert_eq!(recv(fd, 4, 0).unwrap(), round.to_le_bytes());
            if !first {
                assert_eq!(send(fd, &round.to_le_bytes(), 0), Ok(4));
            }
        }
    };
    let (pair, before) = (accelerated(), Entries::now());
    // SAFETY: the child uses its end of the connection, and ends without its parent's farewells.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    let (mine, other) = if child == 0 { (pair.b, pair.a) } else { (pair.a, pair.b) };
    close(other);
    if !pin(usize::from(child == 0)) {
        // SAFETY: ends the child, if it is here.
        return if child == 0 { unsafe { libc::_exit(0) } } else { None };
    }
    end(mine, child != 0);
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let count = Entries::now().since(before);
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Some(count)
}

/// An end whose other end was kept from its processor for long asks whether it lives, after it has
/// slept. Nothing else enters the kernel but what a sleep brings with it, however long it all takes.
fn only_sleeps_enter(how: Wait) {
    const ROUNDS: u32 = 200_000;
    let Some(count) = to_and_fro(ROUNDS, how) else { return skipped("there is one processor") };
    let few = u64::from(ROUNDS / 5000);
    let polling = count.asides + count.questions.saturating_sub(count.sleeps);
    assert!(polling < few, "{count:?} for {ROUNDS} messages to and fro");
    // A wake-up, and a few looks.
    assert!(count.about_sleeps < 4 * count.sleeps + few, "{count:?}");
    // The processor is given up twelve times before a sleep, or fewer times if the other end, which
    // was kept from its own, comes back meanwhile.
    assert!(count.turns < 12 * count.sleeps + 4 * few, "{count:?}");
}

#[test]
fn ends_that_poll_do_not_enter_the_kernel() {
    preloaded_undisturbed("entries::ends_that_poll_do_not_enter_the_kernel", || {
        only_sleeps_enter(Wait::Receive);
    });
}

#[test]
fn ends_that_poll_by_poll_do_not_enter_the_kernel() {
    preloaded_undisturbed("entries::ends_that_poll_by_poll_do_not_enter_the_kernel", || {
        only_sleeps_enter(Wait::Poll);
    });
}

#[test]
fn ends_that_poll_by_instances_do_not_enter_the_kernel() {
    preloaded_undisturbed("entries::ends_that_poll_by_instances_do_not_enter_the_kernel", || {
        only_sleeps_enter(Wait::Epoll);
    });
}

#[test]
fn a_wake_up_by_one_of_many_asks_for_that_one_only() {
    preloaded("entries::a_wake_up_by_one_of_many_asks_for_that_one_only", || {
        let many: Vec<_> = (0..40).map(|_| accelerated()).collect();
        let far: Vec<_> = many.iter().map(|pair| pair.b).collect();
        let (said, heard) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: takes nothing.
            said.send(unsafe { libc::gettid() }).unwrap();
            let entry = |fd: &c_int| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
            let mut entries: Vec<_> = far.iter().map(entry).collect();
            // SAFETY: there are so many entries.
            assert_eq!(unsafe { libc::poll(entries.as_mut_ptr(), 40, -1) }, 1);
            entries.iter().position(|entry| entry.revents == libc::POLLIN)
        });
        let status = format!("/proc/self/task/{}/stat", heard.recv().unwrap());
        while !std::fs::read_to_string(&status).unwrap().contains(") S ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = Entries::now();
        assert_eq!(send(many[7].a, b"x", 0), Ok(1));
        assert_eq!(thread.join().unwrap(), Some(7));
        let count = Entries::now().since(before);
        assert!(count.all() < 10, "{count:?}");
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
        let (blocked, polled) = (accelerated(), accelerated());
        let many: Vec<_> = (0..40).map(|_| accelerated()).collect();
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
