//! Numbers that the C library's streams have, which read, write and close them past the library.

use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;

use libc::c_int;

use crate::pair::{Pair, accelerated, close, joined, preloaded, recv, send, use_by_turns};

type Reopen = unsafe extern "C" fn(
    *const libc::c_char,
    *const libc::c_char,
    *mut libc::FILE,
) -> *mut libc::FILE;

unsafe extern "C" {
    fn freopen64(
        path: *const libc::c_char,
        mode: *const libc::c_char,
        stream: *mut libc::FILE,
    ) -> *mut libc::FILE;
    static stdin: *mut libc::FILE;
}

/// A stream of a file at whose number an accelerated connection is put; the other end.
fn stream_of_a_connection() -> (*mut libc::FILE, c_int) {
    let Pair { a, b } = accelerated();
    // SAFETY: both are C strings, and the number is open.
    unsafe {
        let stream = libc::fopen(c"/dev/null".as_ptr(), c"r+".as_ptr());
        assert!(!stream.is_null());
        assert_eq!(libc::dup2(a, libc::fileno(stream)), libc::fileno(stream));
        close(a);
        (stream, b)
    }
}

#[test]
fn a_stream_that_is_opened_anew_leaves_its_connection() {
    let ways: [Reopen; 2] = [libc::freopen, freopen64];
    preloaded("streams::a_stream_that_is_opened_anew_leaves_its_connection", || {
        for reopen in ways {
            let (stream, other) = stream_of_a_connection();
            // SAFETY: the stream is open.
            let (number, stream) = unsafe {
                let number = libc::fileno(stream);
                assert_eq!(send(number, b"x", 0), Ok(1));
                (number, reopen(c"/dev/zero".as_ptr(), c"r".as_ptr(), stream))
            };
            assert!(!stream.is_null());
            assert_eq!(recv(other, 9, 0), Ok(b"x".to_vec()));
            assert_eq!(recv(other, 9, 0), Ok(vec![]), "it has ended");
            let mut byte = [1u8];
            // SAFETY: the place has room for a byte, and the stream is closed once.
            unsafe {
                assert_eq!(libc::read(number, byte.as_mut_ptr().cast(), 1), 1);
                assert_eq!(libc::fclose(stream), 0);
            }
            assert_eq!(byte, [0]);
            // One that cannot be opened is closed.
            let (stream, other) = stream_of_a_connection();
            // SAFETY: as above.
            assert!(unsafe { reopen(c"/nowhere".as_ptr(), c"r".as_ptr(), stream) }.is_null());
            assert_eq!(recv(other, 9, 0), Ok(vec![]));
        }
    });
}

/// What is sent to the number of the standard input is read there by the C library.
#[test]
fn a_connection_that_gets_the_number_of_a_standard_stream_is_the_kernels() {
    let name = "streams::a_connection_that_gets_the_number_of_a_standard_stream_is_the_kernels";
    preloaded(name, || {
        // SAFETY: the stream is the C library's own, which takes its buffer from it here.
        unsafe { assert_eq!(libc::setvbuf(stdin, std::ptr::null_mut(), libc::_IONBF, 0), 0) };
        // SAFETY: as above.
        let read = || unsafe { libc::fgetc(stdin) };
        // SAFETY: take no memory.
        let copies: [fn(c_int) -> c_int; 2] =
            [|fd| unsafe { libc::dup(fd) }, |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD, 0) }];
        for copy in copies {
            let Pair { a, b } = accelerated();
            close(0);
            assert_eq!(copy(a), 0);
            assert_eq!(send(b, b"x", 0), Ok(1));
            assert_eq!(read(), c_int::from(b'x'));
            [a, b].into_iter().for_each(close);
        }
        // One that is made there.
        close(0);
        let before = joined();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(listener.as_raw_fd(), 0);
        let address = listener.local_addr().unwrap();
        let kept = listener.try_clone().unwrap();
        drop(listener);
        let near = std::net::TcpStream::connect(address).unwrap();
        let pair = Pair { a: near.into_raw_fd(), b: kept.accept().unwrap().0.into_raw_fd() };
        assert_eq!(pair.a, 0);
        use_by_turns(pair, 200);
        assert_eq!(joined(), before);
        assert_eq!(send(pair.b, b"y", 0), Ok(1));
        assert_eq!(read(), c_int::from(b'y'));
        [pair.a, pair.b].into_iter().for_each(close);
        // What has nothing to do with a connection may be there.
        let (one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(one.as_raw_fd(), 0);
        other.write_all(b"z").unwrap();
        assert_eq!(read(), c_int::from(b'z'));
    });
}
