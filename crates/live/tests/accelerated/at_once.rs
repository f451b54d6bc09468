//! What one thread does to a connection while another joins it, sleeps on it or sends: it sets a filter
//! of system calls, or makes the connection leave.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::{c_int, c_ulong, c_void, epoll_event};

use crate::back::{Wait, pass, pattern, print, wait_for_input};
use crate::epoll_control;
use crate::options::set;
use crate::pair::{
    Numbers, accelerated, close, joined, moved_back, poll, preloaded, recv, send, used, used_by,
};
use crate::watched::instance;

#[test]
fn a_question_about_filters_of_calls_moves_nothing_back() {
    preloaded("at_once::a_question_about_filters_of_calls_moves_nothing_back", || {
        let pair = accelerated();
        let nothing = std::ptr::null::<c_void>();
        // SAFETY: a null program is an error to the kernel, and sets none.
        unsafe {
            let (mode, operation) = (libc::SECCOMP_MODE_FILTER, libc::SECCOMP_SET_MODE_FILTER);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, c_ulong::from(mode), nothing), -1);
            assert_eq!(libc::syscall(libc::SYS_seccomp, c_ulong::from(operation), 0, nothing), -1);
            assert!(libc::prctl(libc::PR_GET_SECCOMP) >= 0);
        }
        assert_eq!(moved_back(), 0);
        assert_eq!(send(pair.a, b"still", 0), Ok(5));
        assert_eq!(recv(pair.b, 8, 0), Ok(b"still".to_vec()));
    });
}

/// Sets a filter that lets every call pass.
fn filter() {
    // BPF_RET | BPF_K.
    let mut rule = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
    let program = libc::sock_fprog { len: 1, filter: &raw mut rule };
    let mode = c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the program is of one rule, which outlives the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
    }
}

#[test]
fn nothing_is_accelerated_after_a_filter_whoever_is_joining_then() {
    preloaded("at_once::nothing_is_accelerated_after_a_filter_whoever_is_joining_then", || {
        let mut busy = 0;
        for seed in 0..100 {
            let before = joined();
            // SAFETY: the child goes on alone, as the only thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let accelerated = set_a_filter_beside_a_thread_that_joins(seed);
                // SAFETY: ends the child without the test's own end.
                unsafe { libc::_exit(c_int::from(accelerated)) };
            }
            let mut status = -1;
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "seed {seed}: something joined after the filter");
            busy += u32::from(joined() > before);
        }
        assert!(busy > 50, "in {busy} of 100 something joined before the filter");
    });
}

/// Whether anything was joined after the filter.
fn set_a_filter_beside_a_thread_that_joins(seed: u64) -> bool {
    let (over, pairs) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let pair = used(100);
                close(pair.a);
                close(pair.b);
                pairs.fetch_add(1, Ordering::Relaxed);
            }
        });
        let wait = |count| {
            while pairs.load(Ordering::Relaxed) < count {
                assert!(!joining.is_finished(), "the other thread has failed");
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        wait(1);
        std::thread::sleep(Duration::from_nanos(Numbers(seed).below(1_000_000)));
        filter();
        let then = joined();
        wait(pairs.load(Ordering::Relaxed) + 3);
        over.store(true, Ordering::Relaxed);
        joined() != then
    })
}

/// Makes a connection leave by one of the calls that do; nothing else comes of them.
fn make_leave(fd: c_int, which: usize) {
    match which % 5 {
        // The C library's streams are to use it.
        0 => assert_eq!(print(fd, ""), Ok(0)),
        // Another process may have it.
        1 => close(pass(fd)),
        2 => {
            let_stay_open(fd);
            become_nothing();
        }
        // An option that this library does not know.
        3 => set(fd, libc::IPPROTO_IP, libc::IP_TOS, 0x10 as c_int),
        // A bare call.
        _ => {
            let mut count: c_int = 0;
            let request = libc::TIOCOUTQ;
            // SAFETY: there is room for the number.
            assert_eq!(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, &raw mut count) }, 0);
        }
    }
}

pub fn spin_for(span: Duration) {
    let then = Instant::now();
    while then.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// Sends bytes and has each back, or sends back what comes.
fn go_round(fd: c_int, speaks: bool) {
    for byte in 0..60u8 {
        if speaks {
            assert_eq!(send(fd, &[byte], 0), Ok(1));
        }
        assert_eq!(recv(fd, 9, 0), Ok(vec![byte]));
        if !speaks {
            assert_eq!(send(fd, &[byte], 0), Ok(1));
        }
    }
}

#[test]
fn a_connection_leaves_while_it_joins_and_every_byte_arrives_once() {
    preloaded("at_once::a_connection_leaves_while_it_joins_and_every_byte_arrives_once", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut numbers, mut met) = (Numbers(1), 0);
        for round in 0..500 {
            let pair = used_by(&listener, 4);
            let moment = Duration::from_nanos(numbers.below(400_000));
            let before = joined();
            std::thread::scope(|scope| {
                scope.spawn(|| go_round(pair.b, false));
                scope.spawn(|| {
                    spin_for(moment);
                    make_leave(if round % 2 == 0 { pair.a } else { pair.b }, round / 2);
                });
                go_round(pair.a, true);
            });
            met += joined() - before;
            // One that lasts, so that the next is worth a join.
            let lasting = used_by(&listener, 200);
            for fd in [pair.a, pair.b, lasting.a, lasting.b] {
                close(fd);
            }
        }
        assert!((20..980).contains(&met), "{met} of 1000 ends joined before they left");
    });
}

/// One thread writes to an end that sleeps in the kernel, and another makes one of the two leave.
#[test]
fn a_sleeper_is_woken_by_a_writer_in_the_middle_of_whose_call_the_connection_leaves() {
    let name = "a_sleeper_is_woken_by_a_writer_in_the_middle_of_whose_call_the_connection_leaves";
    preloaded(&format!("at_once::{name}"), || {
        let mut numbers = Numbers(1);
        let kinds = [Wait::Receive, Wait::Poll, Wait::Select, Wait::Epoll];
        for round in 0..1000usize {
            let pair = accelerated();
            // Such a receive sleeps in the kernel at once.
            let limit = libc::timeval { tv_sec: 5, tv_usec: 0 };
            set(pair.b, libc::SOL_SOCKET, libc::SO_RCVTIMEO, limit);
            let begin = AtomicBool::new(false);
            let moments = [(); 2].map(|()| Duration::from_nanos(numbers.below(6_000)));
            let wait = |moment| {
                while !begin.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                spin_for(moment);
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    wait_for_input(pair.b, kinds[round / 2 % 4]);
                    assert_eq!(recv(pair.b, 9, 0), Ok(vec![7]), "round {round}");
                });
                scope.spawn(|| {
                    wait(moments[0]);
                    // Where what is unread cannot be sent again it takes 0.3 s: less often.
                    let seldom = round / 8 % 20 == 0;
                    let which = if seldom { [1, 2, 4][round / 160 % 3] } else { round / 8 % 2 * 3 };
                    make_leave(if round % 2 == 0 { pair.a } else { pair.b }, which);
                });
                std::thread::sleep(Duration::from_micros(300));
                begin.store(true, Ordering::Release);
                wait(moments[1]);
                assert_eq!(send(pair.a, &[7], 0), Ok(1));
            });
            close(pair.a);
            close(pair.b);
        }
    });
}

#[test]
fn streams_arrive_whole_whichever_end_leaves_in_their_middle() {
    preloaded("at_once::streams_arrive_whole_whichever_end_leaves_in_their_middle", || {
        const BYTES: usize = 1 << 20;
        let mut numbers = Numbers(1);
        for round in 0..200 {
            let pair = accelerated();
            let moment = Duration::from_nanos(numbers.below(400_000));
            let stream = |from: c_int, to: c_int, piece: usize| {
                let reader = move || {
                    let mut got = Vec::new();
                    while got.len() < BYTES {
                        got.extend(recv(to, piece + 7, 0).unwrap());
                    }
                    assert!(got == pattern(0, BYTES), "round {round}");
                };
                let writer = move || {
                    let (bytes, mut done) = (pattern(0, BYTES), 0);
                    while done < BYTES {
                        let end = BYTES.min(done + piece);
                        done += send(from, &bytes[done..end], 0).unwrap();
                    }
                };
                (reader, writer)
            };
            std::thread::scope(|scope| {
                for (from, to) in [(pair.a, pair.b), (pair.b, pair.a)] {
                    let (reader, writer) = stream(from, to, 500 + round * 37);
                    scope.spawn(reader);
                    scope.spawn(writer);
                }
                std::thread::sleep(moment);
                make_leave(if round % 2 == 0 { pair.a } else { pair.b }, round / 2);
            });
            close(pair.a);
            close(pair.b);
        }
    });
}

/// A program that is not there: all that stays open over it has left by then.
pub fn become_nothing() {
    let program = [c"/nowhere".as_ptr(), std::ptr::null()];
    // SAFETY: the words are C strings; it fails.
    assert_eq!(unsafe { libc::execv(program[0], program.as_ptr()) }, -1);
}

/// Lets a descriptor stay open over `exec`.
pub fn let_stay_open(fd: c_int) {
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
}

/// What handlers of the timer send on, and how many bytes they have sent.
static TIMED: AtomicI32 = AtomicI32::new(-1);
static SENT: AtomicU32 = AtomicU32::new(0);
/// How many bytes handlers have received, and their sum.
static TAKEN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// How many handlers are at it.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The byte that they send, which is no other.
static MARK: u8 = 250;

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(u32::from(*byte)))
}

extern "C" fn send_mark(_signal: c_int) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `send` may be called in handlers.
    handle(|fd| unsafe {
        if libc::send(fd, (&raw const MARK).cast(), 1, flags) == 1 {
            SENT.fetch_add(1, Ordering::SeqCst);
        }
    });
}

extern "C" fn take_some(_signal: c_int) {
    // SAFETY: `recv` may be called in handlers.
    handle(|fd| unsafe {
        let mut bytes = [0u8; 100];
        let count = libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT);
        if count > 0 {
            TAKEN[0].fetch_add(count as u32, Ordering::SeqCst);
            TAKEN[1].fetch_add(sum(&bytes[..count as usize]), Ordering::SeqCst);
        } else if count == 0 || *libc::__errno_location() != libc::EAGAIN {
            libc::_exit(102);
        }
    });
}

/// What handlers do with their descriptor, if there is one.
fn handle(act: impl Fn(c_int)) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let fd = TIMED.load(Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: what it leaves in `errno` is put back.
        unsafe {
            let errno = *libc::__errno_location();
            act(fd);
            *libc::__errno_location() = errno;
        }
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

/// Lets handlers do nothing from now on, on whichever thread.
fn end_handlers(handler: extern "C" fn(c_int)) {
    interrupt_every(0, handler);
    TIMED.store(-1, Ordering::SeqCst);
    while INSIDE.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
}

/// Lets a timer interrupt some thread every so many microseconds; zero ends it.
fn interrupt_every(microseconds: i64, handler: extern "C" fn(c_int)) {
    let span = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: span, it_value: span };
    let (which, none) = (libc::ITIMER_REAL, std::ptr::null_mut());
    // SAFETY: all zeroes is a valid action; the handler is a C function.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::setitimer(which, &timer, none), 0);
    }
}

#[test]
fn handlers_that_send_interrupt_whoever_sends_or_leaves_and_nothing_is_lost() {
    let name = "handlers_that_send_interrupt_whoever_sends_or_leaves_and_nothing_is_lost";
    preloaded(&format!("at_once::{name}"), || {
        const BYTES: usize = 1 << 19;
        let mut numbers = Numbers(1);
        let content: Vec<u8> = (0..BYTES).map(|at| (at % 199) as u8).collect();
        let mut all = 0;
        for round in 0..60 {
            let pair = accelerated();
            SENT.store(0, Ordering::SeqCst);
            TIMED.store(pair.a, Ordering::SeqCst);
            interrupt_every(60, send_mark);
            let over = AtomicBool::new(false);
            let split = |bytes: &[u8], content: &mut Vec<u8>| {
                let before = content.len();
                content.extend(bytes.iter().filter(|byte| **byte != MARK));
                (bytes.len() - (content.len() - before)) as u32
            };
            let mut marks = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let (mut got, mut marks) = (Vec::new(), 0);
                    while got.len() < BYTES || !over.load(Ordering::SeqCst) {
                        marks += split(&recv(pair.b, 3000, 0).unwrap(), &mut got);
                    }
                    assert!(got == content, "round {round}");
                    marks
                });
                scope.spawn(|| {
                    let mut done = 0;
                    while done < BYTES {
                        let end = BYTES.min(done + 100 + round * 50);
                        done += send(pair.a, &content[done..end], 0).unwrap();
                    }
                    end_handlers(send_mark);
                    over.store(true, Ordering::SeqCst);
                    // The reader may be waiting.
                    SENT.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(send(pair.a, &[MARK], 0), Ok(1));
                });
                std::thread::sleep(Duration::from_nanos(numbers.below(300_000)));
                make_leave(if round % 2 == 0 { pair.a } else { pair.b }, round / 2);
                reader.join().unwrap()
            });
            while let Ok(rest) = recv(pair.b, 3000, libc::MSG_DONTWAIT) {
                marks += split(&rest, &mut Vec::new());
            }
            assert_eq!(marks, SENT.load(Ordering::SeqCst), "round {round}");
            all += SENT.load(Ordering::SeqCst);
            close(pair.a);
            close(pair.b);
        }
        assert!(all > 200, "handlers have sent {all} bytes");
    });
}

#[test]
fn handlers_that_receive_interrupt_whoever_receives_or_leaves_and_nothing_is_lost() {
    let name = "handlers_that_receive_interrupt_whoever_receives_or_leaves_and_nothing_is_lost";
    preloaded(&format!("at_once::{name}"), || {
        const BYTES: usize = 1 << 19;
        let (mut numbers, content) = (Numbers(1), pattern(0, BYTES));
        let mut all = 0;
        for round in 0..60 {
            let pair = accelerated();
            TAKEN.iter().for_each(|it| it.store(0, Ordering::SeqCst));
            TIMED.store(pair.b, Ordering::SeqCst);
            interrupt_every(60, take_some);
            let taken = || TAKEN[0].load(Ordering::SeqCst) as usize;
            let read = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let (mut count, mut read) = (0, 0u32);
                    while count + taken() < BYTES {
                        // A handler may take the last.
                        if poll(pair.b, libc::POLLIN, 1) != 0
                            && let Ok(bytes) = recv(pair.b, 3000, libc::MSG_DONTWAIT)
                        {
                            (count, read) = (count + bytes.len(), read.wrapping_add(sum(&bytes)));
                        }
                    }
                    assert_eq!(count + taken(), BYTES, "round {round}");
                    read
                });
                scope.spawn(|| {
                    let mut done = 0;
                    while done < BYTES {
                        let end = BYTES.min(done + 100 + round * 50);
                        done += send(pair.a, &content[done..end], 0).unwrap();
                    }
                });
                std::thread::sleep(Duration::from_nanos(numbers.below(300_000)));
                make_leave(if round % 2 == 0 { pair.a } else { pair.b }, round / 2);
                reader.join().unwrap()
            });
            end_handlers(take_some);
            let by_handlers = TAKEN[1].load(Ordering::SeqCst);
            assert_eq!(read.wrapping_add(by_handlers), sum(&content), "round {round}");
            all += taken();
            close(pair.a);
            close(pair.b);
        }
        assert!(all > 2000, "handlers have received {all} bytes");
    });
}

/// Sleeps in an instance until datum 1 is told, and notes what else is.
fn sleep_in(instance: c_int, told: &AtomicBool) {
    loop {
        let mut event = epoll_event { events: 0, u64: 0 };
        let count = unsafe { libc::epoll_wait(instance, &mut event, 1, -1) };
        assert_eq!(count, 1);
        if event.u64 == 1 {
            return;
        }
        told.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// One of the two may answer the doorbell that is rung for both, and the other has armed nothing.
#[test]
fn who_sleeps_in_two_instances_while_a_connection_joins_is_told_in_both() {
    let name = "who_sleeps_in_two_instances_while_a_connection_joins_is_told_in_both";
    preloaded(&format!("at_once::{name}"), || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // On a machine that has nothing else to do they wake at the same time.
            let busy = || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            (0..2).for_each(|_| drop(scope.spawn(busy)));
            (0..100).for_each(tell_two_sleepers);
            over.store(true, Ordering::Relaxed);
        });
    });
}

fn tell_two_sleepers(round: usize) {
    let (before, pair) = (joined(), used(0));
    let stop = unsafe { libc::eventfd(0, 0) };
    let instances = [instance(), instance()];
    for epoll in instances {
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, libc::EPOLLIN as u32), 0);
        let mut last = epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
        assert_eq!(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stop, &mut last) }, 0);
    }
    let told = [const { AtomicBool::new(false) }; 2];
    std::thread::scope(|scope| {
        for (epoll, told) in instances.into_iter().zip(&told) {
            scope.spawn(move || sleep_in(epoll, told));
        }
        std::thread::sleep(Duration::from_micros(500));
        for _ in 0..200 {
            send(pair.b, b"x", 0).unwrap();
            let _ = recv(pair.a, 9, libc::MSG_DONTWAIT);
            if joined() == before + 2 {
                break;
            }
        }
        told.iter().for_each(|told| told.store(false, Ordering::SeqCst));
        send(pair.b, b"stays unread", 0).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while told.iter().any(|told| !told.load(Ordering::SeqCst)) && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(told.iter().all(|told| told.load(Ordering::SeqCst)), "round {round}: {told:?}");
        assert_eq!(unsafe { libc::eventfd_write(stop, 1) }, 0);
    });
    [pair.a, pair.b, stop].into_iter().chain(instances).for_each(close);
}
