//! The same calls by other names and on other ways: accelerated, or back to the kernel with every byte.

use std::mem::zeroed;

use libc::{c_int, c_void, iovec};

use crate::pair::{Pair, accelerated, moved_back, outcome, preloaded, recv, send};
#[cfg(target_arch = "x86_64")]
use crate::pair::{close, poll};
use crate::{epoll_control, pair};

unsafe extern "C" {
    fn __read(fd: c_int, to: *mut c_void, length: usize) -> isize;
    fn __write(fd: c_int, from: *const c_void, length: usize) -> isize;
    fn __poll(entries: *mut libc::pollfd, count: u64, timeout: c_int) -> c_int;
    fn __dup2(fd: c_int, copy: c_int) -> c_int;
    fn __close(fd: c_int) -> c_int;
}

type Send = unsafe extern "C" fn(c_int, *const c_void, usize, c_int) -> isize;

/// `__send`, which not every C library lets new programs be linked with.
fn second_send() -> Send {
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__send".as_ptr()) };
    assert!(!found.is_null(), "the C library has no __send");
    unsafe { std::mem::transmute::<*mut c_void, Send>(found) }
}

fn vector(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

#[test]
fn second_names_are_the_same_calls() {
    preloaded("names::second_names_are_the_same_calls", || {
        let Pair { a, b } = accelerated();
        let mut got = [0u8; 8];
        let mut entry = libc::pollfd { fd: 600, events: libc::POLLIN, revents: 0 };
        unsafe {
            assert_eq!(__dup2(b, 600), 600);
            assert_eq!(__write(a, b"one".as_ptr().cast(), 3), 3);
            assert_eq!(second_send()(a, b"two".as_ptr().cast(), 3, 0), 3);
            assert_eq!((__poll(&mut entry, 1, 1000), entry.revents), (1, libc::POLLIN));
            assert_eq!(__read(600, got.as_mut_ptr().cast(), 8), 6);
            assert_eq!(&got[..6], b"onetwo");
            assert_eq!((__close(600), __close(b)), (0, 0));
        }
        assert_eq!(recv(a, 1, 0), Ok(vec![]));
    });
}

/// Receives up to two messages of four bytes.
fn receive_two(fd: c_int) -> (c_int, Vec<u8>) {
    let mut got = [[0u8; 4]; 2];
    let mut parts = got.each_mut().map(|it| vector(it));
    let mut messages: [libc::mmsghdr; 2] = unsafe { zeroed() };
    for (message, part) in messages.iter_mut().zip(&mut parts) {
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
    }
    let flags = libc::MSG_WAITFORONE;
    let count =
        unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), 2, flags, std::ptr::null_mut()) };
    let whole = got.iter().zip(&messages).take(count.max(0) as usize);
    (count, whole.flat_map(|(it, message)| it[..message.msg_len as usize].to_vec()).collect())
}

#[test]
fn several_messages_are_received_at_once_wherever_they_are() {
    preloaded("names::several_messages_are_received_at_once_wherever_they_are", || {
        let Pair { a, b } = accelerated();
        assert_eq!(send(a, b"abcdef", 0), Ok(6));
        assert_eq!(receive_two(b), (2, b"abcdef".to_vec()));
        assert_eq!(crate::back::print(a, "ghi"), Ok(3));
        // The kernel has the rest, of which the library learns in this call.
        assert_eq!(receive_two(b), (1, b"ghi".to_vec()));
        assert_eq!(crate::back::print(a, "jklmn"), Ok(5));
        assert_eq!(receive_two(b), (2, b"jklmn".to_vec()));
    });
}

#[test]
fn vectors_at_the_place_of_the_stream_are_the_streams() {
    preloaded("names::vectors_at_the_place_of_the_stream_are_the_streams", || {
        let Pair { a, b } = accelerated();
        let (mut sent, mut got) = (*b"abcdef", [0u8; 9]);
        let (from, to) = (vector(&mut sent), vector(&mut got));
        unsafe {
            assert_eq!(outcome(libc::pwritev2(a, &from, 1, -1, 0)), Ok(6));
            assert_eq!(outcome(libc::preadv2(b, &to, 1, 0, 0)), Err(libc::ESPIPE));
            assert_eq!(outcome(libc::preadv2(b, &to, 1, -1, 0)), Ok(6));
        }
        assert_eq!((&got[..6], moved_back()), (&b"abcdef"[..], 0));
        // What a flag means to a stream is the kernel's to say.
        assert_eq!(send(a, b"more", 0), Ok(4));
        let result = unsafe { outcome(libc::preadv2(b, &to, 1, -1, libc::RWF_HIPRI)) };
        assert_eq!((result, &got[..4], moved_back()), (Ok(4), &b"more"[..], 1));
    });
}

#[test]
fn asynchronous_input_and_output_find_all_unread_bytes() {
    preloaded("names::asynchronous_input_and_output_find_all_unread_bytes", || {
        let Pair { a, b } = accelerated();
        assert_eq!(send(a, b"unread", 0), Ok(6));
        let mut got = [0u8; 9];
        // SAFETY: the request and the buffer outlive it.
        let run = |request: &mut libc::aiocb| unsafe {
            let list: [*const libc::aiocb; 1] = [&raw const *request];
            assert_eq!(libc::aio_suspend(list.as_ptr(), 1, std::ptr::null()), 0);
            outcome(libc::aio_return(request))
        };
        unsafe {
            let mut request: libc::aiocb = zeroed();
            (request.aio_fildes, request.aio_nbytes) = (b, 9);
            request.aio_buf = got.as_mut_ptr().cast();
            assert_eq!(libc::aio_read(&mut request), 0);
            assert_eq!(run(&mut request), Ok(6));
            request.aio_nbytes = 6;
            assert_eq!(libc::aio_write(&mut request), 0);
            assert_eq!(run(&mut request), Ok(6));
        }
        assert_eq!((&got[..6], recv(a, 9, 0)), (&b"unread"[..], Ok(b"unread".to_vec())));
    });
}

#[test]
fn requests_to_the_kernel_find_all_unread_bytes() {
    #[repr(C)]
    struct Request {
        word: u64,
        flags: u64,
        what: u16,
        order: u16,
        fd: c_int,
        buffer: u64,
        length: u64,
        rest: [u64; 3],
    }
    preloaded("names::requests_to_the_kernel_find_all_unread_bytes", || {
        let Pair { a, b } = accelerated();
        assert_eq!(send(a, b"unread", 0), Ok(6));
        let (mut got, mut context, mut done) = ([0u8; 9], 0u64, [0u64; 4]);
        let (buffer, length) = (got.as_mut_ptr() as u64, 9);
        let rest = [0; 3];
        let request = Request { word: 0, flags: 0, what: 0, order: 0, fd: b, buffer, length, rest };
        let list = [&raw const request];
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0);
            assert_eq!(libc::syscall(libc::SYS_io_submit, context, 1, list.as_ptr()), 1);
            let none: *mut c_void = std::ptr::null_mut();
            let events = done.as_mut_ptr();
            assert_eq!(libc::syscall(libc::SYS_io_getevents, context, 1, 1, events, none), 1);
        }
        assert_eq!((done[2], &got[..6]), (6, &b"unread"[..]));
    });
}

/// `ppoll` past the C function.
fn bare_poll(fd: c_int, seconds: i64) -> i64 {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: seconds, tv_nsec: 0 };
    let none: *mut c_void = std::ptr::null_mut();
    unsafe { libc::syscall(libc::SYS_ppoll, &raw mut entry, 1, &raw const time, none, 8) }
}

#[test]
fn bare_waits_see_what_has_arrived() {
    preloaded("names::bare_waits_see_what_has_arrived", || {
        let (one, two, three) = (accelerated(), accelerated(), accelerated());
        let input = libc::EPOLLIN as u32;
        unsafe {
            let epoll = libc::epoll_create1(0);
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, one.b, input), 0);
            let mut event = libc::epoll_event { events: input, u64: 9 };
            let (add, place) = (libc::EPOLL_CTL_ADD, &raw mut event);
            assert_eq!(libc::syscall(libc::SYS_epoll_ctl, epoll, add, two.b, place), 0);
            for pair in [one, two, three] {
                assert_eq!(send(pair.a, b"x", 0), Ok(1));
            }
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
            let none: *mut c_void = std::ptr::null_mut();
            let (wait, place) = (libc::SYS_epoll_pwait, events.as_mut_ptr());
            assert_eq!(libc::syscall(wait, epoll, place, 4, 1000, none, 8), 2);
            pair::close(epoll);
        }
        assert_eq!(bare_poll(three.b, 5), 1);
        for pair in [one, two, three] {
            assert_eq!(recv(pair.b, 9, 0), Ok(b"x".to_vec()));
            assert_eq!(bare_poll(pair.b, 0), 0);
        }
    });
}

/// Writes by an instruction that the program makes as it runs, where nobody can look for it.
#[cfg(target_arch = "x86_64")]
fn own_write(fd: c_int, bytes: &[u8]) {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let sharing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let written = unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, sharing, -1, 0).cast::<u8>();
        // `mov eax, 1`, `syscall`, `ret`, in parts, so that they do not stand in this program.
        // Made up as the test runs: this program's own code must not hold the instruction.
        let call = std::hint::black_box([0x0e, 4]).map(|byte: u8| byte + 1);
        for (at, byte) in [0xb8, 1, 0, 0, 0].into_iter().chain(call).enumerate() {
            page.add(at).write(byte);
        }
        page.add(7).write(0xc3);
        let call: extern "C" fn(c_int, *const u8, usize) -> isize = std::mem::transmute(page);
        let written = call(fd, bytes.as_ptr(), bytes.len());
        libc::munmap(page.cast(), 4096);
        written
    };
    assert_eq!(written, bytes.len() as isize);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_a_program_writes_past_the_library_arrives_after_what_came_before() {
    preloaded(
        "names::what_a_program_writes_past_the_library_arrives_after_what_came_before",
        || {
            let ways: [fn(c_int); 3] = [
                |_| {},
                |fd| assert_eq!(poll(fd, libc::POLLIN, 5000), libc::POLLIN),
                |fd| unsafe {
                    let epoll = libc::epoll_create1(0);
                    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
                    assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event), 0);
                    assert_eq!(libc::epoll_wait(epoll, &mut event, 1, 5000), 1);
                    close(epoll);
                },
            ];
            for (round, wait) in ways.into_iter().enumerate() {
                let Pair { a, b } = accelerated();
                send(a, b"through the ring, ", 0).unwrap();
                own_write(a, b"past it");
                assert_eq!(recv(b, 18, libc::MSG_WAITALL), Ok(b"through the ring, ".to_vec()));
                wait(b);
                assert_eq!(recv(b, 7, libc::MSG_WAITALL), Ok(b"past it".to_vec()));
                assert!(moved_back() > round as u64, "the connection went back");
                for (from, to) in [(a, b), (b, a)] {
                    send(from, b"and on", 0).unwrap();
                    assert_eq!(recv(to, 6, libc::MSG_WAITALL), Ok(b"and on".to_vec()));
                }
                close(a);
                close(b);
            }
        },
    );
}
