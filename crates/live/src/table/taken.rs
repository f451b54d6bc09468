//! Numbers that a thread is taking away: already forgotten, but still open in the kernel.
//!
//! The kernel takes a descriptor away in one instant. This library forgets it first, and may then
//! wait for threads that sleep on the connection or for its last doorbells. A call that another
//! thread makes on the descriptor meanwhile would reach the bare socket, whose bytes are doorbells;
//! so it waits until the kernel has done its part. That is long before the kernel's call returns,
//! and the descriptor may be reused by then.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::sharing::lock;
use crate::sys;
use crate::table::lost::LostTo;
use crate::table::numbers::{DESCRIPTORS, change, forget_number, word};
use crate::table::reach;
use crate::table::word::Word;

/// How long a call waits at most, in nanoseconds: the thread may have been ended, or wait for this one.
const PATIENCE: u64 = 2_000_000_000;

/// The cookies of the sockets whose descriptors are being taken away. Pages that are never touched
/// take no memory.
static SOCKETS: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

/// A descriptor, if any, that the calling thread is taking away; calls by it wait until this is
/// dropped.
#[derive(Debug)]
#[must_use]
pub struct Taken(Option<(c_int, Word)>);

/// Forgets that a descriptor stands for the connection at a place. Returns how many calls on it are
/// in the kernel that the connection has not counted, and the descriptor, if other threads are to
/// wait; `None` if another thread has just taken it away too, so that it may stand for something
/// else by now.
pub fn begin(fd: c_int, place: usize, to: LostTo, others_wait: bool) -> Option<(u32, Taken)> {
    if !others_wait {
        return forget_number(fd, place, Word::UNKNOWN).map(|inside| (inside, Taken::NOTHING));
    }
    reach(fd);
    // Another thread that takes it away too has the same socket.
    SOCKETS[fd as usize].store(sys::cookie(fd).unwrap_or(0), Ordering::SeqCst);
    let taken = Word::taken(lock::thread(), to);
    Some((forget_number(fd, place, taken)?, Taken(Some((fd, taken)))))
}

impl Taken {
    pub const NOTHING: Self = Self(None);
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((fd, taken)) = self.0 {
            end(fd, taken);
        }
    }
}

/// The descriptors that the calling thread is closing by one call, from the lowest to the highest.
#[derive(Debug)]
pub struct TakenAll(Option<(c_int, c_int)>);

impl TakenAll {
    pub const NONE: Self = Self(None);

    pub fn add(&mut self, taken: Taken) {
        if let Some((fd, _)) = taken.0 {
            let (first, last) = self.0.unwrap_or((fd, fd));
            self.0 = Some((first.min(fd), last.max(fd)));
            std::mem::forget(taken);
        }
    }
}

impl Drop for TakenAll {
    fn drop(&mut self) {
        let taken = Word::taken(lock::thread(), LostTo::Nobody);
        if let Some((first, last)) = self.0 {
            (first..=last).for_each(|fd| end(fd, taken));
        }
    }
}

/// The kernel may have given the descriptor out again, for something that is known.
fn end(fd: c_int, taken: Word) {
    if let Some(word) = word(fd) {
        change(word, |word| (word == taken).then_some(Word::UNKNOWN));
    }
}

/// Whether another thread is closing a descriptor: it is none any more, and not yet another's.
pub fn is_closed(fd: c_int) -> bool {
    word(fd).is_some_and(|word| {
        let now = Word::from_bits(word.load(Ordering::Acquire));
        now.is_closed() && !is_own(now) && is_there(fd)
    })
}

/// Whether the kernel has yet to take a descriptor away.
fn is_there(fd: c_int) -> bool {
    sys::cookie(fd) == Some(SOCKETS[fd as usize].load(Ordering::SeqCst))
}

/// Whether the kernel has put a connection at a descriptor, which may be one of this library's: the
/// thread that asked for that remembers it as soon as the kernel's call returns.
fn is_connection(fd: c_int) -> bool {
    sys::socket_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

/// Whether it is the calling thread that takes the descriptor away.
fn is_own(taken: Word) -> bool {
    let all = [LostTo::Nobody, LostTo::Another, LostTo::Itself];
    all.map(|to| Word::taken(lock::thread(), to)).contains(&taken)
}

/// Waits until a descriptor is no longer being taken away. False if it was not, or if the calling
/// signal handler interrupts the thread that does so.
#[cold]
pub fn await_end(fd: c_int) -> bool {
    let Some(cell) = word(fd) else { return false };
    let now = || Word::from_bits(cell.load(Ordering::Acquire));
    let taken = now();
    if !taken.is_taken() || is_own(taken) {
        return false;
    }
    let until = sys::now() + PATIENCE;
    while now() == taken {
        let goes_on = is_there(fd) || taken.is_replaced() && is_connection(fd);
        if !goes_on || sys::now() > until {
            end(fd, taken);
            break;
        }
        sys::sleep(20_000);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::numbers::{entry, set_entry};
    use crate::table::word::Entry;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    fn take(socket: &UnixStream) -> (c_int, Taken) {
        take_for(socket, LostTo::Nobody)
    }

    fn take_for(socket: &UnixStream, to: LostTo) -> (c_int, Taken) {
        let fd = socket.as_raw_fd();
        assert!(set_entry(fd, Entry::Connection(5)));
        assert!(begin(fd, 4, to, true).is_none(), "it is another's");
        let (inside, taken) = begin(fd, 5, to, true).unwrap();
        assert_eq!((inside, entry(fd)), (0, Entry::Unplaced));
        (fd, taken)
    }

    #[test]
    fn others_wait_until_a_number_is_taken_and_who_takes_it_does_not() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let (fd, taken) = take(&socket);
        assert!(!await_end(fd) && !is_closed(fd), "it would wait for itself");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| is_closed(fd) && await_end(fd));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!other.is_finished());
            drop(taken);
            assert!(other.join().unwrap());
        });
        assert_eq!(entry(fd), Entry::Unknown);
        assert!(!await_end(fd));

        let (_, taken) = take(&socket);
        assert!(set_entry(fd, Entry::Connection(5)), "the kernel has given it out again");
        drop(taken);
        assert_eq!(entry(fd), Entry::Connection(5));
        let mut all = TakenAll::NONE;
        all.add(take(&socket).1);
        all.add(Taken::NOTHING);
        assert_eq!(entry(fd), Entry::Unplaced);
        drop(all);
        assert_eq!(entry(fd), Entry::Unknown);
    }

    #[test]
    fn nobody_waits_for_more_than_that_the_kernel_has_taken_it() {
        let [(socket, _one), (next, _two)] = [(); 2].map(|()| UnixStream::pair().unwrap());
        let (fd, taken) = take(&socket);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(is_closed(fd));
                // SAFETY: both are open, and what is there is closed with it.
                assert_eq!(unsafe { libc::dup2(next.as_raw_fd(), socket.into_raw_fd()) }, fd);
                assert!(!is_closed(fd), "it is another's");
                let begun = sys::now();
                assert!(await_end(fd));
                assert!(sys::now() - begun < PATIENCE);
                assert_eq!(entry(fd), Entry::Unknown);
            });
        });
        drop(taken);
        assert_eq!(entry(fd), Entry::Unknown);
        sys::close(fd);
    }

    #[test]
    fn who_finds_another_connection_at_a_number_waits_until_it_is_known() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let next = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (fd, taken) = take_for(&socket, LostTo::Another);
        // SAFETY: both are open, and what is there is closed with it.
        assert_eq!(unsafe { libc::dup2(next.as_raw_fd(), socket.into_raw_fd()) }, fd);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| (await_end(fd), entry(fd)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!other.is_finished());
            assert!(set_entry(fd, Entry::Connection(6)));
            drop(taken);
            assert_eq!(other.join().unwrap(), (true, Entry::Connection(6)));
        });
        assert!(set_entry(fd, Entry::Unknown));
        sys::close(fd);
    }

    #[test]
    fn nobody_waits_for_ever_for_a_thread_that_is_no_more() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let (fd, taken) = take(&socket);
        std::mem::forget(taken);
        word(fd).unwrap().store(Word::taken(1, LostTo::Another).bits(), Ordering::SeqCst);
        let begun = sys::now();
        assert!(await_end(fd));
        assert!(sys::now() - begun >= PATIENCE);
        assert_eq!(entry(fd), Entry::Unknown);
    }
}
