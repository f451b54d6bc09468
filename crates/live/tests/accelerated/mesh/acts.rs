//! What programs do with the descriptors of their connections.

use std::ffi::CString;
use std::mem::zeroed;
use std::ptr;

use libc::{c_int, pid_t};

use super::end::End;
use super::{GOES_ON, NAME, RESULTS};
use crate::pair::{close, preloading};

/// What an act says: whether another process has gone on with the end, and come to its end.
type Acted = Result<bool, String>;
type Act = fn(&mut End) -> Acted;

/// All acts. The library has most to do for some, which are there several times.
pub const ALL: [(&str, Act); 12] = [
    (" duplicate", duplicate),
    (" duplicate over", duplicate_over),
    (" option", set_option),
    (" fork beside", fork_beside),
    (" fork beside", fork_beside),
    (" start beside", start_beside),
    (" start beside", start_beside),
    (" pass on", pass_on),
    (" pass on", pass_on),
    (" leave to child", leave_to_child),
    (" leave to child", leave_to_child),
    (" leave to program", leave_to_program),
];

/// Makes a child that does something and ends.
pub fn fork(body: impl FnOnce()) -> pid_t {
    // SAFETY: a panic in the child ends it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0);
    child
}

/// Waits for a child, which nothing may kill but itself.
pub fn await_end(child: pid_t) -> Result<(), String> {
    let mut status = 0;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    let killed = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
    match (killed, libc::WEXITSTATUS(status)) {
        (Some(libc::SIGKILL), _) | (None, 0) => Ok(()),
        (signal, code) => Err(format!("a child ended by signal {signal:?} or code {code}")),
    }
}

/// Closes all numbers but one, the results' and the first three.
pub fn close_all_but(fd: c_int) {
    let (first, second) = (fd.min(RESULTS), fd.max(RESULTS));
    for (from, to) in [(3, first - 1), (first + 1, second - 1), (second + 1, c_int::MAX)] {
        if from <= to {
            // SAFETY: closes numbers that nobody here uses any more.
            unsafe { libc::close_range(from as u32, to as u32, 0) };
        }
    }
}

fn duplicate(end: &mut End) -> Acted {
    end.stop_following();
    // SAFETY: takes no memory.
    let copy = unsafe { libc::dup(end.fd) };
    close(std::mem::replace(&mut end.fd, copy));
    Ok(false)
}

fn duplicate_over(end: &mut End) -> Acted {
    // SAFETY: takes no memory.
    unsafe {
        let other = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        assert_eq!(libc::dup2(end.fd, other), other);
        close(other);
    }
    Ok(false)
}

fn set_option(end: &mut End) -> Acted {
    let one: c_int = 1;
    for name in [libc::SO_KEEPALIVE, libc::SO_PRIORITY] {
        // SAFETY: the option has this length.
        let set =
            unsafe { libc::setsockopt(end.fd, libc::SOL_SOCKET, name, (&raw const one).cast(), 4) };
        assert_eq!(set, 0);
    }
    Ok(false)
}

/// Makes a child that has the connection, and ends in one of the ways there are.
fn fork_beside(end: &mut End) -> Acted {
    let how = end.drawn.below(4);
    let child = fork(|| {
        let (name, program) = (c"true".as_ptr(), c"/bin/true".as_ptr());
        // SAFETY: ends the child, or makes it another program.
        unsafe {
            match how {
                0 => libc::exit(0),
                1 => drop(libc::raise(libc::SIGKILL)),
                2 => drop(libc::execl(program, name, ptr::null::<libc::c_char>())),
                _ => {}
            }
        }
    });
    await_end(child).map(|()| false)
}

/// Starts a program that may have the connection.
fn start_beside(end: &mut End) -> Acted {
    let closes = if end.drawn.below(2) == 0 { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: the words are C strings, and the list of them ends with a null pointer.
    unsafe {
        libc::fcntl(end.fd, libc::F_SETFD, closes);
        if end.drawn.below(2) == 0 {
            assert_eq!(libc::system(c"true".as_ptr()), 0);
            return Ok(false);
        }
        let (mut child, words) = (0, [c"true".as_ptr().cast_mut(), ptr::null_mut()]);
        let (path, none, environment) = (c"/bin/true".as_ptr(), ptr::null(), environ);
        let made =
            libc::posix_spawn(&mut child, path, none, none.cast(), words.as_ptr(), environment);
        assert_eq!(made, 0);
        await_end(child).map(|()| false)
    }
}

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Sends the number over a Unix socket, and goes on with what arrives there.
fn pass_on(end: &mut End) -> Acted {
    let mut ends = [0; 2];
    let mut byte = [b'x'];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 8];
    // SAFETY: the message's parts are variables of this function, long enough for one number.
    let other = unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()), 0);
        let mut message: libc::msghdr = zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let head = libc::CMSG_FIRSTHDR(&message);
        ((*head).cmsg_level, (*head).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*head).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(end.fd);
        assert_eq!(libc::sendmsg(ends[0], &message, 0), 1);
        message.msg_controllen = size_of_val(&control);
        assert_eq!(libc::recvmsg(ends[1], &mut message, 0), 1);
        libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message)).cast::<c_int>().read_unaligned()
    };
    end.stop_following();
    [end.fd, ends[0], ends[1]].into_iter().for_each(close);
    end.fd = other;
    Ok(false)
}

/// Lets a child go on, and waits for it.
fn leave_to_child(end: &mut End) -> Acted {
    let child = fork(|| {
        close_all_but(end.fd);
        end.follow_anew();
        end.run();
    });
    end.stop_following();
    close(end.fd);
    await_end(child).map(|()| true)
}

/// Lets another program go on, which has the library or not, and waits for it.
fn leave_to_program(end: &mut End) -> Acted {
    let preloaded = format!("LD_PRELOAD={}", preloading(None).to_string_lossy());
    let mut added = vec![format!("{GOES_ON}={}", end.state()), "WEFT_LIVE_TEST=1".into()];
    if end.drawn.below(2) == 0 {
        added.push(preloaded);
    }
    let words = |words: Vec<String>| -> Vec<CString> {
        words.into_iter().map(|word| CString::new(word).unwrap()).collect()
    };
    let itself = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    let arguments = words(
        [&itself, "--exact", NAME, "--nocapture", "--test-threads=1"].map(String::from).into(),
    );
    let environment = words(added);
    let child = fork(|| {
        let list = |words: &[CString]| -> Vec<_> {
            words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (list(&arguments), list(&environment));
        // SAFETY: both lists end with a null pointer.
        unsafe {
            for kept in [end.fd, RESULTS] {
                libc::fcntl(kept, libc::F_SETFD, 0);
            }
            libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr());
            libc::_exit(99);
        }
    });
    end.stop_following();
    close(end.fd);
    await_end(child).map(|()| true)
}
