//! Copies in both directions between a connection and the one that replaces it in a program; this
//! process has the far end of the latter.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::migration::asking;
use crate::migration::direction;
use crate::peer::death;
use crate::stream::{self, Rest};
use crate::sys::{self, Errno};
use crate::table::{Guard, Phase};

/// How often a quiet connection is looked at, in nanoseconds.
const LOOK_EVERY: u64 = 50_000_000;
/// How many bytes a program may write that are discarded, while it does not read, before it gets an
/// error.
const MUCH: usize = 1 << 20;

/// One direction of the copying: what was received and is not yet sent.
struct Way<'a> {
    from: c_int,
    to: c_int,
    memory: &'a mut [u8],
    held: std::ops::Range<usize>,
    open: bool,
    /// Whether the connection was reset, which the sender of the other direction has been told.
    ends_in_reset: bool,
}

impl<'a> Way<'a> {
    fn new(from: c_int, to: c_int, memory: &'a mut [u8]) -> Self {
        Self { from, to, memory, held: 0..0, open: true, ends_in_reset: false }
    }

    /// Whether it waits for something to take.
    fn is_taking(&self) -> bool {
        self.open && self.held.is_empty()
    }

    /// What it waits for at a descriptor.
    fn events(&self, fd: c_int) -> i16 {
        let taking = self.from == fd && self.is_taking();
        let sending = self.to == fd && !self.held.is_empty();
        (i16::from(taking) * libc::POLLIN) | (i16::from(sending) * libc::POLLOUT)
    }

    /// Whether it still sends to a descriptor whose other direction has ended.
    fn only_sends_to(&self, fd: c_int, other: &Way<'_>) -> bool {
        self.open && self.to == fd && !other.open
    }

    /// Receives what there is. False if the connection was reset. `is_end` says whether an error is
    /// only an end of stream.
    fn take(&mut self, is_end: impl FnOnce() -> bool) -> bool {
        let (place, room) = (self.memory.as_mut_ptr(), self.memory.len());
        self.note(match sys::recv(self.from, place, room, libc::MSG_DONTWAIT) {
            Ok(0) => Rest::End,
            Ok(count) => Rest::Bytes(count),
            Err(libc::EAGAIN | libc::EINTR) => Rest::Later,
            Err(_) if is_end() => Rest::End,
            Err(_) => Rest::Reset,
        })
    }

    /// Takes what the program has written. If the program closed its end with data unread, that is
    /// a reset, although its end of stream arrived first.
    fn take_back(&mut self) -> bool {
        let is_reset = || sys::poll_now(self.from, 0) & libc::POLLERR != 0;
        if is_reset() && sys::unread_bytes(self.from) == Ok(0) {
            return self.note(Rest::Reset);
        }
        self.take(|| false)
    }

    fn note(&mut self, taken: Rest) -> bool {
        match taken {
            Rest::Bytes(count) => self.held = 0..count,
            Rest::End if !self.ends_in_reset => {
                sys::shutdown(self.to, libc::SHUT_WR);
                self.open = false;
            }
            Rest::End | Rest::Reset => return false,
            Rest::Later | Rest::Kernel => {}
        }
        true
    }

    /// Sends as much as there is room for. If the receiver no longer reads, this direction is over,
    /// and the error is returned; data in the other direction is still delivered.
    fn send(&mut self) -> Option<Errno> {
        let bytes = &self.memory[self.held.clone()];
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        match sys::send(self.to, bytes.as_ptr(), bytes.len(), flags) {
            Ok(count) => self.held.start += count,
            Err(libc::EAGAIN | libc::EINTR) => {}
            Err(why) => {
                (self.held, self.open) = (0..0, false);
                return Some(why);
            }
        }
        None
    }
}

/// How the copying ends.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    /// Both directions have ended, or waiting is no longer possible.
    Ended,
    /// The other end has reset the connection, or refuses what the program writes.
    ResetByPeer,
    /// The program has.
    ResetByProgram,
}

struct Copying<'a> {
    guard: &'a Guard,
    far: c_int,
    /// To the program, and back.
    to: Way<'a>,
    back: Way<'a>,
    /// Whether each direction still uses the ring, at least in part.
    in_ring: bool,
    out_ring: bool,
    /// Whether the other end has gone, so that nothing more can come from it.
    has_gone: bool,
    /// How many bytes the program has written after the other end had refused them, if it had.
    refused: Option<usize>,
}

/// Copies until both ways have ended, what is left in the ring first. Neither waits for the other: a program
/// may write all before it reads any.
pub fn copy(guard: &Guard, far: c_int, memory: &mut [u8]) {
    let (one, other) = memory.split_at_mut(memory.len() / 2);
    let mut copying = Copying {
        guard,
        far,
        to: Way::new(guard.fd, far, one),
        back: Way::new(far, guard.fd, other),
        in_ring: true,
        out_ring: true,
        has_gone: false,
        refused: None,
    };
    let over = loop {
        if let Some(over) = copying.pass().or_else(|| copying.wait()) {
            break over;
        }
    };
    match over {
        Over::Ended => {}
        Over::ResetByPeer => copying.reset_program(),
        Over::ResetByProgram => sys::reset(guard.fd),
    }
}

impl Copying<'_> {
    /// Takes and sends what can be without waiting.
    fn pass(&mut self) -> Option<Over> {
        if !self.take() {
            return Some(Over::ResetByPeer);
        }
        self.out_ring = self.out_ring && !is_sent_by_kernel(self.guard);
        if !self.to.held.is_empty() && self.to.send().is_some() {
            let has_written = !self.back.held.is_empty() || sys::unread_bytes(self.far) != Ok(0);
            if !self.back.open || !has_written {
                return Some(Over::ResetByProgram);
            }
            self.back.ends_in_reset = true;
        }
        if !self.out_ring && self.back.is_taking() && !self.back.take_back() {
            return Some(Over::ResetByProgram);
        }
        if !self.out_ring
            && !self.back.held.is_empty()
            && let Some(why) = self.back.send()
        {
            if !self.to.open {
                return Some(Over::ResetByPeer);
            }
            self.refused = Some(0);
            let is_told = why != libc::ECONNRESET && !self.guard.connection.owes_error();
            self.to.ends_in_reset = !is_told && !death::is_reset_by_doorbell(self.guard);
        }
        if !self.throws_away() {
            return Some(Over::ResetByPeer);
        }
        (!self.to.open && !self.back.open).then_some(Over::Ended)
    }

    /// Takes what there is for the program. False if the connection was reset.
    fn take(&mut self) -> bool {
        if self.in_ring && self.to.is_taking() {
            let rest = stream::rest(self.guard, self.to.memory);
            self.in_ring = !matches!(rest, Rest::Kernel);
            if !self.to.note(rest) {
                return false;
            }
        }
        let guard = self.guard;
        self.in_ring || !self.to.is_taking() || self.to.take(|| death::is_reset_by_doorbell(guard))
    }

    /// Discards what the program goes on writing after the other end has refused it, so that the
    /// program can still read what is left. False if that has become much: the program only writes,
    /// and must get an error.
    fn throws_away(&mut self) -> bool {
        let Some(bytes) = &mut self.refused else { return true };
        *bytes += sys::throw_away(self.far, self.back.memory);
        *bytes < MUCH
    }

    /// Waits until there is something to take or to send, or one of the two has gone.
    fn wait(&mut self) -> Option<Over> {
        let (to, back) = (&self.to, &self.back);
        let ends = [self.guard.fd, self.far];
        let mut entries = ends.map(|fd| {
            let events = to.events(fd)
                | if self.out_ring { 0 } else { back.events(fd) }
                | if fd == self.far { self.refusing() } else { 0 };
            // An end that has sent everything may still reset the connection.
            let may_reset =
                to.only_sends_to(fd, back) || back.only_sends_to(fd, to) && !self.has_gone;
            let is_looked_at = events != 0 || may_reset;
            libc::pollfd { fd: if is_looked_at { fd } else { -1 }, events, revents: 0 }
        });
        let pause = (self.out_ring || self.in_ring && to.is_taking()).then_some(LOOK_EVERY);
        if !sys::poll_all(&mut entries, pause) {
            return Some(Over::Ended);
        }
        let ended = libc::POLLERR | libc::POLLHUP;
        for entry in entries.iter().filter(|it| it.events == 0 && it.revents & ended != 0) {
            // Without an error both directions have ended, the sending one before the descriptor left.
            // The kernel may have told the library of a reset, of which the program has yet to hear.
            let is_reset = entry.revents & libc::POLLERR != 0 || self.guard.connection.owes_error();
            if entry.fd != self.guard.fd {
                return Some(Over::ResetByProgram);
            }
            self.has_gone = !is_reset || death::is_reset_by_doorbell(self.guard);
            if !self.has_gone {
                return Some(Over::ResetByPeer);
            }
        }
        None
    }

    /// The event to wait for in order to discard data: a program that has ended its sending writes
    /// no more.
    fn refusing(&self) -> i16 {
        let writes = || sys::poll_now(self.far, libc::POLLRDHUP) & libc::POLLRDHUP == 0;
        if self.refused.is_some() && writes() { libc::POLLIN } else { 0 }
    }

    /// Resets the program's connection once everything is sent there, since a reset discards what
    /// is not.
    fn reset_program(&mut self) {
        let far = self.far;
        self.refused.get_or_insert(0);
        let is_there = || sys::poll_now(far, 0) & (libc::POLLERR | libc::POLLHUP) == 0;
        let is_sent = || sys::tcp_counts(far).map_or(true, |counts| counts.not_sent == 0);
        let mut pause = asking::SOON;
        while !is_sent() && is_there() && self.throws_away() {
            sys::sleep(pause);
            pause = (2 * pause).min(LOOK_EVERY);
        }
        sys::reset(self.far);
    }
}

/// Whether the sending direction is the kernel's again.
fn is_sent_by_kernel(guard: &Guard) -> bool {
    let joined = guard.connection.phase() == Phase::JOINED;
    let segment = guard.connection.segment().filter(|_| joined);
    segment.is_none_or(|segment| {
        direction::settle(guard, &segment);
        guard.connection.returned_out.load(Ordering::Acquire)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors;
    use crate::sample::Sample;
    use crate::table;

    /// More than a connection takes at first that is not read.
    const LONG: usize = 400 * PIECE.len();
    const PIECE: [u8; 1000] = [7; 1000];

    /// A connection that is the kernel's, and one that stands for it: the program's end and the far one.
    fn ends() -> (Sample, c_int, c_int) {
        let sample = Sample::new();
        assert!(sample.enter().0.connection.returns());
        let [near, far] = descriptors::connection_pair(sample.fd).unwrap();
        (sample, near, far)
    }

    fn copy_from(sample: &Sample, far: c_int) {
        copy(&table::enter(sample.fd).unwrap(), far, &mut [0; 1 << 16]);
    }

    /// Reads until the end, and says how much there was and what ended it.
    fn read_all(fd: c_int) -> (usize, Result<usize, Errno>) {
        let (mut all, mut room) = (0, [0; 4096]);
        loop {
            match sys::recv(fd, room.as_mut_ptr(), room.len(), 0) {
                Ok(count @ 1..) => all += count,
                ended => return (all, ended),
            }
        }
    }

    /// Lets the other end send this much and reset the connection, by which none of it is lost.
    fn leave_unread(sample: &Sample) {
        sys::widen_receive_buffer(sample.fd, 4 * LONG as u64);
        for _ in 0..LONG / PIECE.len() {
            assert_eq!(sys::send(sample.other, PIECE.as_ptr(), PIECE.len(), 0), Ok(PIECE.len()));
        }
        while sys::unread_bytes(sample.fd) != Ok(LONG as u64) {
            sys::sleep(asking::SOON);
        }
        sys::reset(sample.other);
    }

    #[test]
    fn what_was_sent_before_a_reset_is_there_to_be_read_whatever_is_written_meanwhile() {
        for written in [0, 1] {
            let (sample, near, far) = ends();
            leave_unread(&sample);
            sys::write(near, &PIECE[..written]);
            let heard = std::thread::scope(|scope| {
                scope.spawn(|| copy_from(&sample, far));
                read_all(near)
            });
            assert_eq!(heard, (LONG, Err(libc::ECONNRESET)), "{written} written");
        }
    }

    #[test]
    fn a_program_that_only_writes_hears_that_it_is_refused() {
        let (sample, near, far) = ends();
        leave_unread(&sample);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let write = || match sys::send(near, PIECE.as_ptr(), PIECE.len(), flags) {
            Err(libc::EAGAIN) => {
                sys::sleep(asking::SOON);
                None
            }
            sent => sent.err(),
        };
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| copy_from(&sample, far));
            let refused = (0..100 * MUCH / PIECE.len()).find_map(|_| write());
            sys::close(near);
            refused
        });
        assert_eq!(refused, Some(libc::ECONNRESET));
    }

    #[test]
    fn what_a_program_has_written_before_it_resets_is_there_to_be_read() {
        let (sample, near, far) = ends();
        sys::write(near, b"written");
        sys::write(sample.other, b"unread");
        sys::reset(near);
        copy_from(&sample, far);
        assert_eq!(read_all(sample.other), (7, Err(libc::ECONNRESET)));
    }
}
