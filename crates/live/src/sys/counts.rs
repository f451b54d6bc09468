//! What the kernel counts on a connection.

use std::mem::size_of;

use libc::c_int;

use super::{Errno, call, unread_bytes};

/// What the kernel has counted on a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpCounts {
    /// Whether both directions are open.
    pub established: bool,
    /// How many ends of the other's sending were counted with the bytes that arrived, if that can be told.
    pub ends_arrived: Option<u64>,
    /// Whether this end has said that it sends no more.
    pub has_sent_end: bool,
    /// Bytes that the program ever put into the connection, sent or not.
    pub put_in: u64,
    /// How many of them wait until the other end has room.
    pub not_sent: u64,
    /// Bytes that ever arrived in order, read or not, and the end.
    pub arrived: u64,
    /// Segments with bytes that ever arrived.
    pub segments: u64,
    /// How many bytes a segment of the other end's has at most.
    pub longest: u64,
}

impl TcpCounts {
    /// So often, at least, the other end has sent: a segment that is not full ends what was sent by a call. One of
    /// half the length counts as full, since options take a part of some.
    pub fn sends(&self) -> u64 {
        let full = self.arrived.saturating_mul(2) / self.longest.max(1);
        self.segments.saturating_sub(full)
    }
}

/// Reads `struct tcp_info` of Linux 4.19 or later; its fields are found by offset, since the C
/// library's copy ends before them. All counts are of one moment: the kernel holds the socket.
pub fn tcp_counts(fd: c_int) -> Result<TcpCounts, Errno> {
    let mut info = [0u64; 40];
    let mut length = size_of::<[u64; 40]>() as libc::socklen_t;
    let tcp_info = libc::TCP_INFO;
    call!(
        libc::SYS_getsockopt,
        fd,
        libc::IPPROTO_TCP,
        tcp_info,
        info.as_mut_ptr(),
        &raw mut length
    )?;
    if (length as usize) < 216 {
        return Err(libc::ENOSYS);
    }
    let not_sent = info[144 / 8].to_le() & 0xffff_ffff;
    let (sent, sent_again) = (info[200 / 8], info[208 / 8]);
    let state = info[0].to_le() & 0xff;
    Ok(TcpCounts {
        established: state == 1,
        // FIN_WAIT1 and FIN_WAIT2; CLOSE_WAIT, LAST_ACK and CLOSING.
        ends_arrived: match state {
            1 | 4 | 5 => Some(0),
            8 | 9 | 11 => Some(1),
            _ => None,
        },
        // FIN_WAIT1, FIN_WAIT2, TIME_WAIT, LAST_ACK and CLOSING.
        has_sent_end: [4, 5, 6, 9, 11].contains(&state),
        put_in: sent - sent_again + not_sent,
        not_sent,
        arrived: info[128 / 8],
        segments: info[152 / 8].to_le() & 0xffff_ffff,
        longest: info[80 / 8].to_le() >> 32,
    })
}

/// How many bytes the program has ever read from a connection of which both directions are open.
pub fn bytes_read(fd: c_int) -> Result<u64, Errno> {
    bytes_read_if(fd, |counts| counts.established)
}

/// How many bytes the program has ever read from a connection, even if a direction has ended.
pub fn bytes_read_by_now(fd: c_int) -> Result<u64, Errno> {
    bytes_read_if(fd, |counts| counts.ends_arrived.is_some())
}

/// What arrived less what is unread, looked at until nothing arrived in between.
fn bytes_read_if(fd: c_int, is_told: impl Fn(&TcpCounts) -> bool) -> Result<u64, Errno> {
    for _ in 0..100 {
        let before = unread_bytes(fd)?;
        let counts = tcp_counts(fd)?;
        if !is_told(&counts) {
            return Err(libc::ENOTCONN);
        }
        if unread_bytes(fd)? == before {
            return Ok(counts.arrived - counts.ends_arrived.unwrap_or(0) - before);
        }
    }
    Err(libc::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn each_small_send_is_counted_and_a_stream_is_few() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        let sends = |near: &TcpStream| tcp_counts(near.as_raw_fd()).unwrap().sends();
        assert_eq!(sends(&near), 0);
        for sent in 1..=100 {
            far.write_all(&[7; 40]).unwrap();
            near.read_exact(&mut [0; 40]).unwrap();
            assert_eq!(sends(&near), sent);
        }
        let far = std::thread::spawn(move || far.write_all(&vec![7; 64 << 20]).map(|()| far));
        near.read_exact(&mut vec![0; 64 << 20]).unwrap();
        let seen = sends(&near);
        drop(far.join().unwrap().unwrap());
        assert!(seen < 200, "{seen} for a call");
    }

    #[test]
    fn what_was_read_is_counted_whatever_of_it_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        far.write_all(b"seven..").unwrap();
        let read = |stream: &mut TcpStream, count| stream.read_exact(&mut vec![0; count]).unwrap();
        let fd = near.as_raw_fd();
        read(&mut near, 3);
        assert_eq!((bytes_read(fd), bytes_read_by_now(fd)), (Ok(3), Ok(3)));
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!((bytes_read(fd), bytes_read_by_now(fd)), (Err(libc::ENOTCONN), Ok(3)));
        far.write_all(b"more").unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        // Both ends have ended, and the kernel tells no more.
        assert_eq!(bytes_read_by_now(fd), Err(libc::ENOTCONN));
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        far.write_all(b"seven..").unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        let fd = near.as_raw_fd();
        for already in [0, 3, 7] {
            assert_eq!(bytes_read_by_now(fd), Ok(already));
            read(&mut near, if already == 0 { 3 } else { 7 - already as usize });
        }
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert_eq!(bytes_read_by_now(fd), Ok(7));
    }
}
