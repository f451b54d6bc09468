//! A connection that processes of one family share, and that one of them has handed over: its
//! program, which knows of no ring, has a copied connection instead.
//!
//! In the kernel all of them would use one stream, in which each byte is read once and keeps its
//! position. So the process that copies makes the two connections behave as one:
//!
//! * What the program has not read is not lost to the others. What it is given stays where it is,
//!   in the ring or in the kernel's stream, until the program has read it. If another process wants
//!   to read, what lies unread in the copied connection is taken back first.
//! * What the program has written precedes what others send later, and the end of the direction:
//!   they *ask* first, and the process that copies *answers* once it has sent everything that was
//!   written by then.
//! * If more processes of the family hand the connection over, their programs get the same copied
//!   connection: the kernel keeps the order among its users.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::Outlet;

use crate::descriptors::Process;
use crate::handover::owners;
use crate::joining::meeting::{self, Place};
use crate::migration::asking::{LATE, SOON};
use crate::migration::direction;
use crate::peer::death;
use crate::sharing::lock;
use crate::stream::{self, Rest};
use crate::sys::{self, Errno};
use crate::table::connection::Half;
use crate::table::holders::{self, Looked};
use crate::table::{Connection, Guard, Phase, Receiving};

/// Bytes copied per step: a new connection of the kernel accepts that many in one call.
const PIECE: usize = 1 << 15;
/// How long to wait until a process that wants to read has begun, and how long the kernel may take
/// to deliver what was sent, in nanoseconds.
const PATIENCE: u64 = 1_000_000;
const DELIVERY: u64 = 1_000_000_000;
/// Interval of the checks whether the living users still have the copied connection, in
/// nanoseconds, or [`SELDOM`] times as long as the last check took, if that is longer.
const LOOK_EVERY: u64 = 500_000_000;
const SELDOM: u64 = 20;
/// The most users of a copied connection that are watched.
const USERS: usize = 16;

/// The descriptors of a process that copies what is on loan.
#[derive(Clone, Copy, Debug)]
pub struct Loan {
    /// The programs' end of the copied connection, and this process's.
    pub near: c_int,
    pub far: c_int,
    /// The process to whom it is lent.
    pub user: Process,
    /// The socket at which further processes of the family get the copied connection, if there is
    /// one.
    pub door: Option<c_int>,
}

/// How a loan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// No other process shares the connection any more, or others have the users' descriptors: from
    /// now on all data that arrives belongs to the copied connection.
    Given,
    /// The users and their descriptors are gone: the connection is as if it had not been lent.
    Over,
}

/// Why reading is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Wanted,
    Alone,
    Gone,
}

/// Counts a loan that is about to begin. False if there is nothing to lend: the connection is
/// wholly the kernel's, which has reported all of its errors, and no process has a copied one for
/// it.
pub fn begin(connection: &Connection) -> bool {
    let Some(_receiving) = connection.receiving() else { return false };
    let is_plain = connection.phase() != Phase::JOINED
        || connection.is_back() && !connection.lending.is_lent() && !connection.owes_error();
    if !is_plain {
        connection.lending.begin();
    }
    !is_plain
}

/// The copied connection that others have got on loan already, if there is one.
pub fn join(guard: &Guard) -> Option<c_int> {
    if !guard.connection.lending.is_lent() {
        return None;
    }
    let caller = Place::of_loan(sys::cookie(guard.fd)?)?.call().ok()?;
    let near = meeting::process_of_same_user(caller).and_then(|_| {
        sys::poll(caller, libc::POLLIN, DELIVERY);
        meeting::take_over::<1>(caller).ok()
    });
    sys::close(caller);
    near.map(|[near]| near)
}

struct Lender<'a> {
    guard: &'a Guard,
    loan: Loan,
    /// The number by which the kernel lists the programs' end.
    socket: u64,
    users: [Option<Process>; USERS],
    /// Not the heap's: another thread may have held its lock when this process was made.
    buffer: &'a mut [u8],
    /// Bytes ever given, and ever taken from the users.
    given: u64,
    taken: u64,
    /// How many of those given may yet be unread. They stand first in the connection's stream.
    unread: usize,
    /// Whether the sending direction is the kernel's again, as far as this process knows.
    is_back: bool,
    /// Whether the users know that no more will come.
    over: bool,
    /// Whether they know, besides, that the other end is gone.
    gone: bool,
    /// Whether the users send no more.
    silent: bool,
    /// When it is to look whether the users have the copied connection still, in nanoseconds.
    look: u64,
}

/// Lends a connection until nobody else shares it or its users are gone.
pub fn lend(guard: &Guard, loan: Loan, memory: &mut [u8]) -> Ended {
    let piece = PIECE.min(memory.len());
    let mut users = [None; USERS];
    users[0] = Some(loan.user);
    let mut lender = Lender {
        guard,
        loan,
        socket: owners::number_of(loan.near),
        users,
        buffer: &mut memory[..piece],
        given: 0,
        taken: 0,
        unread: 0,
        is_back: false,
        over: false,
        gone: false,
        silent: false,
        look: sys::now() + LOOK_EVERY,
    };
    let (lending, own) = (&guard.connection.lending, lock::thread());
    lending.serve(own, lock::lives);
    let ended = lender.run();
    if let Some(door) = loan.door {
        sys::close(door);
    }
    if lending.end(own) {
        lender.end_direction();
    }
    let order = Ordering::Acquire;
    let is_shut =
        guard.connection.returned_in.load(order) && guard.connection.read_shut.load(order);
    if ended == Ended::Over && is_shut {
        // Those that have it go on with the kernel, which was not told as long as this process copied.
        sys::shutdown(guard.socket(), libc::SHUT_RD);
    }
    ended
}

impl Lender<'_> {
    fn run(&mut self) -> Ended {
        let connection = self.guard.connection;
        loop {
            let Some(mut receiving) = connection.receiving() else { continue };
            let why = self.serve(&mut receiving);
            if why == Why::Alone {
                if death::is_over(self.guard) {
                    // The users of the copy are to hear of the end as well, and this is the last chance.
                    sys::shutdown(self.loan.near, libc::SHUT_WR);
                }
                // What they have not read they will.
                let unread = self.unread;
                self.take(&mut receiving, unread);
                sys::close(self.loan.near);
                return Ended::Given;
            }
            self.note_shut();
            self.take_back(&mut receiving);
            drop(receiving);
            if why == Why::Wanted {
                self.let_others_read();
                continue;
            }
            if self.is_over() {
                return Ended::Over;
            }
            if let Some(ended) = self.await_taker() {
                return ended;
            }
        }
    }

    /// Waits until somebody has begun to read, or does not.
    fn let_others_read(&mut self) {
        let until = sys::now() + PATIENCE;
        while !self.guard.connection.is_read() && sys::now() < until {
            sys::sleep(SOON / 2);
        }
        self.answer();
    }

    /// Copies both ways until reading must be let go.
    fn serve(&mut self, receiving: &mut Half<'_, Receiving>) -> Why {
        let connection = self.guard.connection;
        let mut pause = SOON;
        loop {
            if receiving.is_wanted() {
                return Why::Wanted;
            }
            let alone = connection.holders.load(Ordering::SeqCst) == 1;
            if alone && !connection.lending.is_end_due() {
                return Why::Alone;
            }
            let moved = self.answer() | self.note_read(receiving) | self.give(receiving);
            self.note_shut();
            self.note_gone();
            pause = if moved { SOON } else { (2 * pause).min(LATE) };
            if !moved {
                // What the kernel reports may not be for now.
                sys::sleep(SOON);
            }
            if self.wait(pause) {
                return Why::Gone;
            }
        }
    }

    /// Waits until something may have happened. Whether the users are gone, and all is sent that they
    /// have written.
    fn wait(&mut self, pause: u64) -> bool {
        let entry =
            |fd: Option<c_int>, events| libc::pollfd { fd: fd.unwrap_or(-1), events, revents: 0 };
        let sending = self.is_sending();
        let arrivals = if self.unread == 0 && !self.over { libc::POLLIN } else { 0 };
        let events = arrivals | if sending { libc::POLLOUT } else { 0 };
        let far = (!self.silent && !sending).then_some(self.loan.far);
        let socket = (events != 0 || self.over && !self.gone).then(|| self.guard.socket());
        let mut entries = [entry(None, libc::POLLIN); USERS + 3];
        for (place, user) in entries.iter_mut().zip(self.users) {
            place.fd = user.map_or(-1, |user| user.end());
        }
        entries[USERS] = entry(far, libc::POLLIN);
        entries[USERS + 1] = entry(socket, events);
        entries[USERS + 2] = entry(self.loan.door, libc::POLLIN);
        sys::poll_all(&mut entries, Some(pause));
        if entries[USERS + 2].revents != 0 {
            self.welcome();
            return false;
        }
        let begun = sys::now();
        let looks = begun >= self.look;
        for user in &mut self.users {
            let gone = |user: &mut Process| {
                user.has_ended() || looks && owners::lacks(user.number(), self.socket)
            };
            user.take_if(gone).into_iter().for_each(Process::close);
        }
        if looks {
            holders::bury(self.guard.connection, &mut Looked::default());
            let now = sys::now();
            self.look = now + LOOK_EVERY.max(SELDOM * (now - begun));
        }
        if !self.has_no_user() {
            return false;
        }
        // The last of them may have ended its direction since.
        self.answer();
        !self.is_sending() && !self.has_passed_on()
    }

    /// Whether another process is seen to have the copied connection, which is a user from now on.
    fn has_passed_on(&mut self) -> bool {
        let twice = || owners::of(self.socket).or_else(|| owners::of(self.socket));
        self.users[0] = twice().map(Process::open);
        self.users[0].is_some()
    }

    fn has_no_user(&self) -> bool {
        self.users.iter().all(Option::is_none)
    }

    /// Gives the copied connection to one more user.
    fn welcome(&mut self) {
        let Some(Ok(caller)) = self.loan.door.map(meeting::take_caller) else { return };
        let free = self.users.iter_mut().find(|user| user.is_none());
        let process = meeting::process_of_same_user(caller);
        if let (Some(free), Some(process)) = (free, process)
            && meeting::hand_over(caller, [self.loan.near]).is_ok()
        {
            *free = Some(Process::open(process));
            // It has yet to receive the descriptor that is in transit.
            self.look = sys::now() + LOOK_EVERY;
        }
        sys::close(caller);
    }

    /// Sends what the users have written, and answers earlier questions. Returns whether there was
    /// anything to send.
    fn answer(&mut self) -> bool {
        let lending = &self.guard.connection.lending;
        let asked = lending.asked();
        let moved = self.forward();
        if !self.is_sending() {
            lending.answer(asked);
            if lending.takes_end() {
                self.end_direction();
            }
            if !self.silent && self.guard.connection.write_shut.load(Ordering::Acquire) {
                // Others have ended the direction, which refuses the users too.
                sys::shutdown(self.loan.near, libc::SHUT_WR);
                self.silent = true;
            }
        }
        moved
    }

    fn end_direction(&self) {
        // A connection that is over has no direction to end.
        let _ = direction::shut_down(self.guard, libc::SHUT_WR);
    }

    /// Sends what the users have written, once what the other end has refused is sent. Whether there
    /// was any.
    fn forward(&mut self) -> bool {
        let (far, socket, mut any) = (self.loan.far, self.guard.socket(), false);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        while !self.silent && self.comes_back() {
            // It is read only once there is room for it.
            let (place, room) = (self.buffer.as_mut_ptr(), self.buffer.len());
            let sent = match sys::recv(far, place, room, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
                Ok(0) => {
                    self.end_direction();
                    self.silent = true;
                    break;
                }
                Ok(count) => sys::send(socket, self.buffer.as_ptr(), count, flags),
                Err(why) => Err(why),
            };
            match sent {
                Ok(count) => {
                    let place = self.buffer.as_mut_ptr();
                    self.taken += count as u64;
                    any |= sys::recv(far, place, count, libc::MSG_DONTWAIT).is_ok();
                }
                Err(libc::EAGAIN) => break,
                Err(libc::EINTR) => {}
                Err(why) => {
                    self.passes_on(why);
                    // What the other end had sent before it closed can still be read.
                    sys::shutdown(self.loan.near, libc::SHUT_WR);
                    self.silent = true;
                    // If copying went on after the end of the loan, this would be sent and refused
                    // again.
                    sys::throw_away(far, self.buffer);
                }
            }
        }
        any
    }

    /// Leaves an error that the kernel has reported to this process, and does not repeat, to the
    /// next caller.
    fn passes_on(&self, why: Errno) {
        let was_said = || self.guard.connection.reset_said.load(Ordering::Acquire);
        if why == libc::ECONNRESET && !was_said() && !death::is_reset_by_doorbell(self.guard) {
            death::owes_reset(self.guard);
        }
    }

    /// Brings the sending direction back to the kernel, which it then is for good. Whether it is there.
    fn comes_back(&mut self) -> bool {
        let connection = self.guard.connection;
        if !self.is_back
            && let Some(segment) = connection.segment()
            && let Some(mut sending) = connection.try_sending()
        {
            let _ = direction::come_back(self.guard, &segment, &mut sending);
            self.is_back = sending.sender.outlet() == Outlet::After;
        }
        self.is_back
    }

    /// Tells the users that the connection is over.
    fn reset(&mut self) {
        sys::reset(self.loan.far);
        (self.over, self.gone, self.silent) = (true, true, true);
    }

    /// Tells the users that have heard the end that the connection is over, too.
    fn note_gone(&mut self) {
        let said = if self.over && !self.gone { sys::poll_now(self.guard.socket(), 0) } else { 0 };
        if said == 0 {
            return;
        }
        self.gone = true;
        let is_reset = said & libc::POLLERR != 0;
        if is_reset && death::is_reset_by_doorbell(self.guard) {
            return;
        }
        if is_reset || self.guard.connection.owes_error() {
            self.reset();
        } else {
            sys::shutdown(self.loan.near, libc::SHUT_WR);
            self.silent = true;
        }
    }

    /// Whether the users have written what is not yet sent, wherever that is.
    fn is_sending(&self) -> bool {
        !self.silent && sys::tcp_counts(self.loan.near).is_ok_and(|it| it.put_in > self.taken)
    }

    /// Sends the users what comes next, as much as they may leave unread. Returns whether there was
    /// any.
    fn give(&mut self, receiving: &mut Receiving) -> bool {
        if self.unread >= self.buffer.len() || self.over || self.has_no_user() {
            return false;
        }
        match self.look(receiving) {
            // The users have that already.
            Rest::Bytes(count) if count <= self.unread => {}
            Rest::Bytes(count) => {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                let more = &self.buffer[self.unread..count];
                match sys::send(self.loan.far, more.as_ptr(), more.len(), flags) {
                    Ok(given) => {
                        self.given += given as u64;
                        self.unread += given;
                        return true;
                    }
                    Err(libc::EAGAIN | libc::EINTR) => {}
                    Err(_) => self.over = true,
                }
            }
            Rest::End => {
                sys::shutdown(self.loan.far, libc::SHUT_WR);
                self.over = true;
            }
            Rest::Reset => {
                // First, since the kernel has told it now, and those who poll do not wait for this process.
                death::owes_reset(self.guard);
                self.reset();
            }
            Rest::Later | Rest::Kernel => {}
        }
        false
    }

    /// Peeks at what comes next, and copies it into the buffer.
    fn look(&mut self, receiving: &mut Receiving) -> Rest {
        let buffer = &mut self.buffer[..];
        match stream::rest_held(self.guard, receiving, buffer, libc::MSG_PEEK) {
            Rest::Bytes(count) if count < buffer.len() => {
                Rest::Bytes(count + stream::look_behind(self.guard, receiving, buffer, count))
            }
            other => other,
        }
    }

    /// Takes what the users have read out of the connection's stream. Whether there was any.
    fn note_read(&mut self, receiving: &mut Receiving) -> bool {
        if self.unread == 0 || !self.has_arrived() {
            return false;
        }
        let read = self.read_but(sys::unread_bytes(self.loan.near).unwrap_or(0) as usize);
        self.take(receiving, read);
        read > 0
    }

    /// How many bytes the users have read since that was last noted, if `left` bytes of what has
    /// reached them are still unread.
    fn read_but(&self, left: usize) -> usize {
        let arrived = sys::tcp_counts(self.loan.near).map_or(self.given, |counts| counts.arrived);
        let noted = self.given - self.unread as u64;
        // Bytes given to a user that had shut both directions down are dropped by the kernel: they do not count
        // as read.
        arrived.min(self.given).saturating_sub(noted + left as u64) as usize
    }

    /// Shuts down the connection's receiving direction, for all that share it, if a user has shut
    /// down its own.
    fn note_shut(&self) {
        let connection = self.guard.connection;
        let is_shut = || sys::poll_now(self.loan.near, libc::POLLRDHUP) & libc::POLLRDHUP != 0;
        if self.over || connection.read_shut.load(Ordering::Acquire) || !is_shut() {
            return;
        }
        connection.read_shut.store(true, Ordering::SeqCst);
        sys::shutdown(self.guard.socket(), libc::SHUT_RD);
        direction::let_look_again(self.guard);
    }

    /// Takes back what the users have not read.
    fn take_back(&mut self, receiving: &mut Receiving) {
        let until = sys::now() + DELIVERY;
        while self.unread > 0 && !self.has_arrived() && sys::now() < until {
            sys::sleep(SOON);
        }
        let (mut left, room) = (0, self.buffer.len());
        let near = self.loan.near;
        // One more call would consume an error that the users have yet to see.
        while sys::unread_bytes(near).is_ok_and(|count| count > 0)
            && let Ok(count @ 1..) =
                sys::recv(near, self.buffer.as_mut_ptr(), room, libc::MSG_DONTWAIT)
        {
            left += count;
        }
        self.take(receiving, self.read_but(left));
        self.unread = 0;
    }

    /// Whether all that was given can be read, or nothing more of it will.
    fn has_arrived(&self) -> bool {
        sys::tcp_counts(self.loan.near).map_or(true, |counts| counts.arrived >= self.given)
            || sys::poll_now(self.loan.near, 0) & libc::POLLHUP != 0
    }

    /// Takes bytes that the users have read out of the connection's stream.
    fn take(&mut self, receiving: &mut Receiving, mut count: usize) {
        self.unread -= count;
        while count > 0 {
            let room = &mut self.buffer[..count];
            match stream::rest_held(self.guard, receiving, room, 0) {
                Rest::Bytes(taken) => count -= taken,
                _ => return,
            }
        }
    }

    /// Whether nobody has the copied connection any more, now that its users are gone.
    fn is_over(&self) -> bool {
        sys::close(self.loan.near);
        self.silent || self.is_left(PATIENCE)
    }

    /// Whether the copied connection has no other end any more, or had none for so long.
    fn is_left(&self, span: u64) -> bool {
        let gone = libc::POLLRDHUP | libc::POLLHUP;
        sys::poll(self.loan.far, gone, span) & gone != 0
    }

    /// Waits, while the copied connection is in transit between processes, for the one that
    /// receives it: until then the others have the connection for themselves. Returns how the loan
    /// ends, unless it goes on.
    fn await_taker(&mut self) -> Option<Ended> {
        let mut span = LATE;
        loop {
            if self.guard.connection.holders.load(Ordering::SeqCst) == 1 {
                return Some(Ended::Given);
            }
            if self.has_passed_on() {
                if self.regains() {
                    return None;
                }
                let user = self.users[0].take();
                let has_it =
                    user.is_some_and(|it| owners::has(it.number(), self.socket) == Some(true));
                user.into_iter().for_each(Process::close);
                if has_it {
                    return Some(Ended::Given);
                }
            }
            let begun = sys::now();
            while sys::now() < begun + span {
                self.answer();
                if self.is_left(LATE) {
                    return Some(Ended::Over);
                }
            }
            span = (2 * span).min(LOOK_EVERY);
        }
    }

    /// Gets the programs' end of the copied connection back from the process that has received it,
    /// to lend it again. Not every kernel allows that.
    fn regains(&mut self) -> bool {
        let copy = self.users[0].and_then(|user| {
            let fd = owners::descriptor_of(user.number(), self.socket)?;
            user.copy_of(fd).ok()
        });
        let is_it = copy.is_some_and(|copy| owners::number_of(copy) == self.socket);
        match copy {
            Some(copy) if is_it => self.loan.near = copy,
            Some(other) => sys::close(other),
            None => {}
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn what_is_on_loan_is_not_left_to_the_kernel_and_what_is_left_is_not_lent() {
        let sample = Sample::new();
        let (guard, segment) = sample.enter();
        let connection = guard.connection;
        assert!(begin(connection), "the ring may have something left");
        for way in [&connection.returned_in, &connection.returned_out] {
            way.store(true, Ordering::SeqCst);
        }
        assert!(direction::settle(&guard, &segment) && connection.phase() == Phase::JOINED);
        assert!(!connection.lending.is_lent_again());
        assert!(begin(connection), "somebody has it on loan already");
        assert!(connection.lending.is_lent_again());
        connection.lending.withdraw();
        connection.lending.withdraw();
        assert!(!begin(connection) && !connection.lending.is_lent());
        assert!(direction::settle(&guard, &segment) && connection.phase() == Phase::PLAIN);
        assert!(!begin(connection));
    }
}
