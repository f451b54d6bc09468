//! Calls on connections that are not accelerated yet, which pass the library by: they are counted all
//! the same, so that nobody goes over to the ring while one of them is in the kernel.

use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use libc::c_int;

use crate::pair::{
    Pair, accelerated, close, has_figures, joined, preloaded, preloaded_without_a_socket,
    preloading, recv, send, used,
};

/// A connection on which nothing was sent yet.
fn young() -> Pair {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    a.set_nodelay(true).unwrap();
    let b = listener.accept().unwrap().0;
    Pair { a: a.into_raw_fd(), b: b.into_raw_fd() }
}

/// One message each way, so often, past a reader that waits at the second end.
fn talk(pair: Pair, rounds: u8, both_ways: bool) {
    for round in 0..rounds {
        assert_eq!(send(pair.b, &[round], 0), Ok(1));
        assert_eq!(recv(pair.a, 1, 0), Ok(vec![round]));
        if both_ways {
            assert_eq!(send(pair.a, &[round], 0), Ok(1));
            assert_eq!(recv(pair.b, 1, 0), Ok(vec![round]));
        }
    }
}

/// A thread that receives at the second end, and is in the kernel once this returns.
fn reader(pair: Pair) -> std::thread::JoinHandle<Vec<u8>> {
    let (said, heard) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: takes nothing.
        said.send(unsafe { libc::gettid() }).unwrap();
        recv(pair.b, 100, 0).unwrap()
    });
    let status = format!("/proc/self/task/{}/stat", heard.recv().unwrap());
    while !std::fs::read_to_string(&status).unwrap().contains(") S ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    thread
}

#[test]
fn nobody_joins_past_a_reader_that_passed_by() {
    preloaded("passing::nobody_joins_past_a_reader_that_passed_by", || {
        let pair = young();
        let waiting = reader(pair);
        talk(pair, 200, false);
        assert_eq!(joined(), 0);
        assert_eq!(send(pair.a, b"to the reader", 0), Ok(13));
        assert_eq!(waiting.join().unwrap(), b"to the reader");
        talk(pair, 100, true);
        assert_eq!(joined(), 2, "afterwards both ends join");
    });
}

#[test]
fn nobody_joins_once_the_number_of_a_reader_is_closed() {
    preloaded("passing::nobody_joins_once_the_number_of_a_reader_is_closed", || {
        let pair = young();
        let waiting = reader(pair);
        // SAFETY: takes no memory.
        let copy = unsafe { libc::dup(pair.b) };
        close(pair.b);
        talk(Pair { b: copy, ..pair }, 200, false);
        assert_eq!(send(pair.a, b"to the reader", 0), Ok(13));
        assert_eq!(waiting.join().unwrap(), b"to the reader");
        talk(Pair { b: copy, ..pair }, 100, true);
        assert_eq!(joined(), 0);
    });
}

#[test]
fn a_number_that_had_another_connection_begins_anew() {
    preloaded("passing::a_number_that_had_another_connection_begins_anew", || {
        let first = young();
        talk(first, 3, true);
        close(first.a);
        close(first.b);
        let second = young();
        talk(second, 2, true);
        assert_eq!(joined(), 0, "four calls of each end are too few");
        talk(second, 100, true);
        assert_eq!(joined(), 2);
    });
}

#[test]
fn nobody_joins_what_was_forked_when_it_was_young() {
    preloaded("passing::nobody_joins_what_was_forked_when_it_was_young", || {
        let pair = young();
        // SAFETY: the child uses the connection, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            talk(pair, 100, true);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(joined() != 0)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the parent holds it too");
        talk(pair, 100, true);
        assert_eq!(joined(), 2, "afterwards both ends join");
    });
}

#[test]
fn nobody_joins_what_another_program_inherits() {
    preloaded("passing::nobody_joins_what_another_program_inherits", || {
        let pair = young();
        let program = [c"/bin/true".as_ptr(), std::ptr::null()];
        // SAFETY: the child does nothing but become another program, and its words are C strings.
        #[allow(deprecated, reason = "what is tested is a child in its parent's memory")]
        unsafe {
            assert_eq!(libc::fcntl(pair.b, libc::F_SETFD, 0), 0);
            if libc::vfork() == 0 {
                libc::execv(program[0], program.as_ptr());
                libc::_exit(1);
            }
        }
        talk(pair, 100, true);
        assert_eq!(joined(), 0);
    });
}

static OUTER: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];

/// Talks on the connection on which the interrupted call waits, and then ends its wait.
extern "C" fn talk_in_a_handler(_signal: libc::c_int) {
    let [a, b] = [&OUTER[0], &OUTER[1]].map(|fd| fd.load(Ordering::Relaxed));
    talk(Pair { a, b }, 200, false);
    assert_eq!(joined(), 0);
    assert_eq!(send(a, b"to who waits", 0), Ok(12));
}

/// Waits in the kernel and is interrupted there by a handler that uses the same connection.
fn be_interrupted() {
    let pair = young();
    OUTER[0].store(pair.a, Ordering::Relaxed);
    OUTER[1].store(pair.b, Ordering::Relaxed);
    // SAFETY: all zeroes is a valid action, whose function is then set; the span is valid.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = talk_in_a_handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let mut span: libc::itimerval = std::mem::zeroed();
        span.it_value.tv_usec = 100_000;
        libc::setitimer(libc::ITIMER_REAL, &raw const span, std::ptr::null_mut());
    }
    assert_eq!(recv(pair.b, 100, 0).unwrap(), b"to who waits");
    talk(pair, 100, true);
    assert_eq!(joined(), 2, "afterwards both ends join");
}

#[test]
fn nobody_joins_in_a_handler_past_the_call_that_it_interrupts() {
    preloaded("passing::nobody_joins_in_a_handler_past_the_call_that_it_interrupts", || {
        // SAFETY: the child has one thread, and ends; the C library's variable is there for good.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let word = libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr());
                let mark = word.cast::<u8>();
                if !mark.is_null() {
                    *mark = 1;
                }
                be_interrupted();
                libc::_exit(0);
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
    });
}

/// Compiles a program or a library in C.
fn compiled(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (text, made) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&text, source).unwrap();
    let shared = if name.ends_with(".so") { ["-shared", "-fPIC"] } else { ["-O1", "-pthread"] };
    let ran = Command::new("cc").args(shared).arg("-o").args([&made, &text]).status().unwrap();
    assert!(ran.success());
    made
}

/// Runs the body with a folder that is then gone.
fn in_folder(name: &str, body: impl Fn(&Path)) {
    let folder = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    body(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Counts the calls that come to it before they go to the C library.
const BEHIND: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
long counted;
ssize_t send(int fd, const void *from, size_t length, int flags) {
    ssize_t (*next)(int, const void *, size_t, int) = dlsym(RTLD_NEXT, "send");
    counted++;
    return next(fd, from, length, flags);
}
"#;

/// Sends a byte and, if it has an argument, cancels itself before the next. Ends with the number of bytes
/// that were counted.
const ALONE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
/* A program that looks at this has a copy, which goes on saying so when the only thread cancels itself. */
char __libc_single_threaded = 1;
int main(int count, char **arguments) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    char byte = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&to, length) || listen(listener, 1)
        || getsockname(listener, (void *)&to, &length) || connect(fd, (void *)&to, length)
        || send(fd, &byte, 1, 0) != 1)
        return 100;
    if (count > 1) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
        pthread_cancel(pthread_self());
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
        send(fd, &byte, 1, 0);
        return 102;
    }
    if (send(fd, &byte, 1, 0) != 1 || send(-1, &byte, 1, 0) != -1)
        return 101;
    long *counted = dlsym(RTLD_DEFAULT, "counted");
    return counted ? *counted : 50;
}
"#;

/// What a program with one thread ends with, with these libraries and arguments.
fn alone(folder: &Path, behind: Option<&Path>, arguments: &[&str]) -> Option<i32> {
    let program = compiled(folder, "alone", ALONE);
    let preload = preloading(behind);
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload).status().unwrap().code()
}

#[test]
fn a_library_that_stands_behind_sees_the_calls_that_pass_by() {
    in_folder("behind", |folder| {
        let behind = compiled(folder, "behind.so", BEHIND);
        assert_eq!(alone(folder, Some(&behind), &[]), Some(3));
        assert_eq!(alone(folder, None, &[]), Some(50));
    });
}

#[test]
fn the_only_thread_ends_where_it_is_cancelled() {
    // A process ends well when its last thread was cancelled.
    in_folder("alone", |folder| assert_eq!(alone(folder, None, &["cancelled"]), Some(0)));
}

/// Second numbers of the standard input, as many as there can be.
fn copies() -> Vec<c_int> {
    // SAFETY: takes no memory.
    std::iter::from_fn(|| Some(unsafe { libc::dup(0) })).take_while(|fd| *fd >= 0).collect()
}

#[test]
fn a_program_that_has_many_descriptors_is_left_the_last() {
    preloaded("passing::a_program_that_has_many_descriptors_is_left_the_last", || {
        let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
        // SAFETY: the limit is a valid place.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        let mut all = copies();
        for fd in all.split_off(all.len() - 30) {
            close(fd);
        }
        let _pair = used(100);
        assert_eq!(joined(), 0);
        let rest = copies();
        assert_eq!(rest.len(), 28);
        for fd in rest.into_iter().chain(all) {
            close(fd);
        }
        accelerated();
    });
}

#[test]
fn a_program_without_sockets_has_no_descriptor_of_the_library() {
    let name = "passing::a_program_without_sockets_has_no_descriptor_of_the_library";
    preloaded_without_a_socket(name, || {
        let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
        // SAFETY: the limit is a valid place.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        assert!(!has_figures());
        let mut all = copies();
        for fd in all.split_off(all.len() - 10) {
            close(fd);
        }
        let _pair = used(100);
        assert_eq!(joined(), 0, "the last numbers are the program's");
        let rest = copies();
        assert_eq!(rest.len(), 8);
        for fd in rest.into_iter().chain(all) {
            close(fd);
        }
        accelerated();
        assert!(has_figures());
        copies().into_iter().for_each(close);
        assert!(!has_figures(), "the program needed their number");
    });
}

/// By the process's own limit, as far as that may be raised.
#[test]
fn accelerated_connections_take_no_number_that_a_program_may_have() {
    preloaded("passing::accelerated_connections_take_no_number_that_a_program_may_have", || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let number = libc::RLIMIT_NOFILE;
        // SAFETY: the limit is a valid place.
        assert_eq!(unsafe { libc::getrlimit(number, &mut limit) }, 0);
        assert!(limit.rlim_max > 256, "this test needs a higher limit");
        limit.rlim_cur = 256;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(number, &limit) }, 0);
        let before = copies();
        before.iter().for_each(|fd| close(*fd));
        let pairs: Vec<_> = (0..50).map(|_| accelerated()).collect();
        let after = copies();
        assert_eq!(before.len() - after.len(), 2 * pairs.len());
        // SAFETY: as above.
        assert_eq!(unsafe { libc::getrlimit(number, &mut limit) }, 0);
        assert_eq!(limit.rlim_cur, 256);
    });
}
