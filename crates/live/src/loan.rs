//! A connection that processes of one family share, and that one of them has left: its program, which
//! knows of no ring, has a copied connection instead.
//!
//! To the kernel all of them would read one stream, each byte once, and whoever comes next goes on
//! where the last has stopped. So what the program has not read must not be lost to the others. What
//! it is given stays where it is, in the ring or in the kernel's stream, until it has read it; the
//! process that copies holds both halves of the connection meanwhile. If another process of the
//! family wants one, what lies unread in the copied connection is taken back first, and what the
//! program has written goes before.

use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::detour::Outlet;

use crate::connection::Half;
use crate::lock;
use crate::stream::{self, Rest};
use crate::sys;
use crate::table::{Connection, Guard, Receiving, Sending};
use crate::turn;

/// So much is given at a time: a new connection of the kernel takes it at once.
const PIECE: usize = 1 << 15;
/// How often it is looked whether somebody wants the connection, in nanoseconds: at first, and once
/// nothing has happened for long.
const SOON: u64 = 50_000;
const LATE: u64 = 20_000_000;
/// How long whoever wants the connection is waited for, and how long the kernel may take to bring
/// what was given, in nanoseconds.
const PATIENCE: u64 = 1_000_000;
const DELIVERY: u64 = 1_000_000_000;
/// How long the end of a direction waits for what comes before it, in nanoseconds.
const LINGER: u64 = 2_000_000_000;

/// The three descriptors of a process that copies what is on loan.
#[derive(Clone, Copy, Debug)]
pub struct Loan {
    /// The program's end of the copied connection, and this process's.
    pub near: c_int,
    pub far: c_int,
    /// The process to whom it is lent.
    pub user: c_int,
}

/// How a loan ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nobody else shares the connection any more, or others have what the user had: all that comes
    /// is the copied connection's.
    Given,
    /// The user and its descriptors are gone: the connection is as if it had not been lent.
    Over,
}

/// Why the halves are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Wanted,
    Alone,
    Gone,
}

struct Lender<'a> {
    guard: &'a Guard,
    loan: Loan,
    /// Not the heap's: another thread may have held its lock when this process was made.
    buffer: [u8; PIECE],
    /// Bytes ever given, and ever taken from the user.
    given: u64,
    taken: u64,
    /// How many of them may yet be unread. They stand first in the connection's stream.
    unread: usize,
    /// Whether the user knows that no more will come.
    over: bool,
    /// Whether the user sends no more.
    silent: bool,
}

/// Lends a connection until nobody else shares it or the user is gone.
pub fn lend(guard: &Guard, loan: Loan) -> Ended {
    let buffer = [0; PIECE];
    let mut lender =
        Lender { guard, loan, buffer, given: 0, taken: 0, unread: 0, over: false, silent: false };
    let connection = guard.connection;
    loop {
        let Some(mut receiving) = connection.receiving() else { continue };
        let Some(mut sending) = connection.try_sending() else {
            // Who has it may want the other.
            drop(receiving);
            sys::sleep(SOON);
            continue;
        };
        let why = lender.serve(&mut receiving, &mut sending);
        if why == Why::Alone {
            // What it has not read it will.
            let unread = lender.unread;
            lender.take(&mut receiving, unread);
        } else {
            lender.take_back(&mut receiving);
        }
        drop(receiving);
        lender.forward(&mut sending);
        while why == Why::Gone && lender.is_sending() && !lender.comes_after_others() {
            // Nobody sends before that is sent.
            sys::poll(guard.socket(), libc::POLLOUT, LATE);
            lender.forward(&mut sending);
        }
        lender.say_who_is_ahead();
        drop(sending);
        match why {
            Why::Wanted => let_others_take(connection),
            Why::Alone => {
                sys::close(loan.near);
                break;
            }
            Why::Gone if lender.comes_after_others() => sys::sleep(SOON),
            Why::Gone if lender.is_over() => {
                connection.lent.fetch_sub(1, Ordering::SeqCst);
                return Ended::Over;
            }
            Why::Gone => break,
        }
    }
    connection.lent.fetch_sub(1, Ordering::SeqCst);
    Ended::Given
}

/// Whether somebody to whom the connection is lent has written what is not yet sent. Asked with the
/// sending half held.
pub fn is_behind(connection: &Connection) -> bool {
    let ahead = connection.ahead.load(Ordering::SeqCst);
    ahead != 0 && lock::lives(ahead)
}

/// Waits until all is sent that somebody to whom the connection is lent has written, or for so long.
pub fn send_what_is_ahead(connection: &Connection) {
    let until = sys::now() + LINGER;
    while connection.lent.load(Ordering::SeqCst) > 0 && sys::now() < until {
        let sending = connection.sending();
        if sending.is_none() || !is_behind(connection) {
            return;
        }
        drop(sending);
        sys::sleep(SOON);
    }
}

/// Waits until somebody has taken a half, or does not.
fn let_others_take(connection: &Connection) {
    let until = sys::now() + PATIENCE;
    while !connection.is_held() && sys::now() < until {
        sys::sleep(SOON / 2);
    }
}

impl Lender<'_> {
    /// Copies both ways until the halves must be let go.
    fn serve(
        &mut self,
        receiving: &mut Half<'_, Receiving>,
        sending: &mut Half<'_, Sending>,
    ) -> Why {
        let mut pause = SOON;
        loop {
            if receiving.is_wanted() || sending.is_wanted() {
                return Why::Wanted;
            }
            if self.guard.connection.holders.load(Ordering::SeqCst) == 1 {
                return Why::Alone;
            }
            let moved = self.forward(sending) | self.note_read(receiving) | self.give(receiving);
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

    /// Waits until something may have happened. Whether the user is gone.
    fn wait(&self, pause: u64) -> bool {
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let sending = self.is_sending();
        let arrivals = if self.unread == 0 && !self.over { libc::POLLIN } else { 0 };
        let events = arrivals | if sending { libc::POLLOUT } else { 0 };
        let mut entries = [
            entry(self.loan.user, libc::POLLIN),
            entry(if self.silent || sending { -1 } else { self.loan.far }, libc::POLLIN),
            entry(if events != 0 { self.guard.socket() } else { -1 }, events),
        ];
        sys::poll_all(&mut entries, Some(pause));
        entries[0].revents != 0
    }

    /// Sends what the user has written, once what the other end has refused is sent. Whether there
    /// was any.
    fn forward(&mut self, sending: &mut Sending) -> bool {
        let segment = self.guard.connection.segment();
        if sending.sender.outlet() != Outlet::After
            && let Some(segment) = segment
        {
            let _ = turn::come_back(self.guard, &segment, sending);
        }
        let (far, socket, mut any) = (self.loan.far, self.guard.socket(), false);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let may = sending.sender.outlet() == Outlet::After && !self.comes_after_others();
        while may && !self.silent {
            // It is taken only once there is room for it.
            let (place, room) = (self.buffer.as_mut_ptr(), self.buffer.len());
            let sent = match sys::recv(far, place, room, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
                Ok(0) => {
                    sys::shutdown(socket, libc::SHUT_WR);
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
                Err(_) => self.reset(),
            }
        }
        any
    }

    /// Tells the user that the connection is over.
    fn reset(&mut self) {
        sys::reset(self.loan.far);
        (self.over, self.silent) = (true, true);
    }

    /// Whether the user has written what is not yet sent, wherever that is.
    fn is_sending(&self) -> bool {
        !self.silent && sys::tcp_counts(self.loan.near).is_ok_and(|it| it.put_in > self.taken)
    }

    /// Whether the user of another loan has written before.
    fn comes_after_others(&self) -> bool {
        let connection = self.guard.connection;
        connection.ahead.load(Ordering::SeqCst) != lock::thread() && is_behind(connection)
    }

    /// Says whether others must wait, before they can send.
    fn say_who_is_ahead(&self) {
        let (own, order) = (lock::thread(), Ordering::SeqCst);
        let ahead = &self.guard.connection.ahead;
        if !self.is_sending() {
            let _ = ahead.compare_exchange(own, 0, order, order);
        } else if !self.comes_after_others() {
            ahead.store(own, order);
        }
    }

    /// Gives the user what comes next, if it has read all before. Whether there was any.
    fn give(&mut self, receiving: &mut Receiving) -> bool {
        if self.unread > 0 || self.over {
            return false;
        }
        match stream::rest_held(self.guard, receiving, &mut self.buffer[..], libc::MSG_PEEK) {
            Rest::Bytes(count) => {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                match sys::send(self.loan.far, self.buffer.as_ptr(), count, flags) {
                    Ok(given) => {
                        self.given += given as u64;
                        self.unread = given;
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
            Rest::Reset => self.reset(),
            Rest::Later | Rest::Kernel => {}
        }
        false
    }

    /// Takes what the user has read out of the connection's stream. Whether there was any.
    fn note_read(&mut self, receiving: &mut Receiving) -> bool {
        if self.unread == 0 || !self.has_arrived() {
            return false;
        }
        let left = sys::unread_bytes(self.loan.near).unwrap_or(0) as usize;
        let read = self.unread.saturating_sub(left);
        self.take(receiving, read);
        read > 0
    }

    /// Takes back what the user has not read.
    fn take_back(&mut self, receiving: &mut Receiving) {
        let until = sys::now() + DELIVERY;
        while self.unread > 0 && !self.has_arrived() && sys::now() < until {
            sys::sleep(SOON);
        }
        let (mut left, room) = (0, self.buffer.len());
        let near = self.loan.near;
        while let Ok(count @ 1..) =
            sys::recv(near, self.buffer.as_mut_ptr(), room, libc::MSG_DONTWAIT)
        {
            left += count;
        }
        self.take(receiving, self.unread.saturating_sub(left));
        self.unread = 0;
    }

    /// Whether all that was given can be read.
    fn has_arrived(&self) -> bool {
        sys::tcp_counts(self.loan.near).map_or(true, |counts| counts.arrived >= self.given)
    }

    /// Takes bytes that the user has read out of the connection's stream.
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

    /// Whether nobody has the copied connection any more, now that its user is gone.
    fn is_over(&self) -> bool {
        sys::close(self.loan.near);
        let gone = libc::POLLRDHUP | libc::POLLHUP;
        self.silent || sys::poll(self.loan.far, gone, PATIENCE) & gone != 0
    }
}
