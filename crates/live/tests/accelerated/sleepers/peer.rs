//! The other ends of two connections, the library's and the kernel's, of this process or another.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};

use libc::{c_int, pid_t};

use crate::pair::{close, disconnect, plain_of, plain_to, poll, recv, send};

/// What is done at both other ends, with so many bytes where it is about bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Send,
    /// Receives so many bytes that are there or on their way.
    Receive,
    /// Receives so many bytes at most, if there are any.
    Take,
    ShutDownSending,
    Close,
    /// Puts another file under the number.
    Replace,
    /// Connects with nobody, which ends the connection with a reset.
    Disconnect,
}

const ACTS: [Act; 7] = [
    Act::Send,
    Act::Receive,
    Act::Take,
    Act::ShutDownSending,
    Act::Close,
    Act::Replace,
    Act::Disconnect,
];

/// How long an other end waits for bytes, in milliseconds.
const PATIENCE: c_int = 10_000;

/// Two connections' ends: the library's, and the kernel's.
pub type Ends = [c_int; 2];

pub enum Peer {
    Here(Ends),
    There { child: pid_t, orders: File, answers: File },
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

fn connected(port: u16) -> Ends {
    let accelerated = TcpStream::connect(("127.0.0.1", port)).unwrap();
    accelerated.set_nodelay(true).unwrap();
    [accelerated.into_raw_fd(), plain_to(port)]
}

impl Peer {
    /// Both connections, of which the other ends are in another process or here.
    pub fn connect(elsewhere: bool) -> (Ends, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer =
            if elsewhere { Self::there(&listener, port) } else { Self::Here(connected(port)) };
        let accelerated = listener.accept().unwrap().0;
        accelerated.set_nodelay(true).unwrap();
        ([accelerated.into_raw_fd(), plain_of(&listener)], peer)
    }

    fn there(listener: &TcpListener, port: u16) -> Self {
        let ((mut their_orders, orders), (answers, mut their_answers)) = (pipe(), pipe());
        let child = unsafe { libc::fork() };
        if child == 0 {
            let parents = [listener.as_raw_fd(), orders.as_raw_fd(), answers.as_raw_fd()];
            parents.into_iter().for_each(close);
            let (ends, mut order) = (connected(port), [0; 9]);
            while their_orders.read_exact(&mut order).is_ok() {
                let count = u64::from_ne_bytes(order[1..].try_into().unwrap());
                let which = usize::from(order[0]);
                act(ends[which & 1], ACTS[which >> 1], count as usize);
                their_answers.write_all(&[0]).unwrap();
            }
            unsafe { libc::_exit(0) };
        }
        assert!(child > 0);
        Self::There { child, orders, answers }
    }

    /// Does the same at both.
    pub fn act(&mut self, what: Act, count: usize) {
        (0..2).for_each(|which| self.act_at(which, what, count));
    }

    pub fn act_at(&mut self, which: usize, what: Act, count: usize) {
        match self {
            Self::Here(ends) if what == Act::Close => {
                close(std::mem::replace(&mut ends[which], -1))
            }
            Self::Here(ends) => act(ends[which], what, count),
            Self::There { orders, answers, .. } => {
                let number = ACTS.iter().position(|act| *act == what).unwrap();
                let mut order = [0; 9];
                order[0] = (number << 1 | which) as u8;
                order[1..].copy_from_slice(&(count as u64).to_ne_bytes());
                orders.write_all(&order).unwrap();
                answers.read_exact(&mut [0]).unwrap();
            }
        }
    }

    /// Sends a byte so many times there and back.
    pub fn warm_up(&mut self, ends: Ends, rounds: u64) {
        for _ in 0..rounds {
            self.act(Act::Send, 1);
            for fd in ends {
                assert_eq!(recv(fd, 9, 0), Ok(b"x".to_vec()));
                assert_eq!(send(fd, b"y", 0), Ok(1));
            }
            self.act(Act::Receive, 1);
        }
    }

    /// Closes what is still open.
    pub fn end(self) {
        match self {
            Self::Here(ends) => ends.into_iter().filter(|fd| *fd >= 0).for_each(close),
            Self::There { child, orders, .. } => {
                drop(orders);
                let mut status = -1;
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0, "the other process has failed");
            }
        }
    }
}

fn act(fd: c_int, what: Act, count: usize) {
    match what {
        // Whoever has shut down or reset the connection is told of that, as he may be.
        Act::Send => drop(send(fd, &vec![b'x'; count], 0)),
        Act::Receive => receive(fd, count),
        Act::Take => drop(recv(fd, count, libc::MSG_DONTWAIT)),
        Act::ShutDownSending => drop(unsafe { libc::shutdown(fd, libc::SHUT_WR) }),
        Act::Close => close(fd),
        Act::Replace => {
            let other = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
            assert_eq!(unsafe { libc::dup2(other, fd) }, fd);
            close(other);
        }
        Act::Disconnect => assert_eq!(disconnect(fd), Ok(0)),
    }
}

fn receive(fd: c_int, count: usize) {
    let mut left = count;
    while left > 0 {
        assert_ne!(poll(fd, libc::POLLIN, PATIENCE), 0, "{left} of {count} bytes did not arrive");
        let came = recv(fd, left, libc::MSG_DONTWAIT).unwrap();
        assert!(!came.is_empty(), "the end came before {left} of {count} bytes");
        left -= came.len();
    }
}
