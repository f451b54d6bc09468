//! The sockets at which a process waits for the clients of its connections, one for each connection.
//!
//! They are the first that is given up when the program needs their descriptors.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::joining::attach;
use crate::joining::meeting::{self, Place, Refusal};
use crate::report::stats::Reason;
use crate::sys::{self, Errno};
use crate::table::attaching::Attaching;
use crate::table::{self, Connection, Event, Phase};

/// How many there are.
static SOCKETS: AtomicU32 = AtomicU32::new(0);

/// Makes room for one more socket, and says whether there is any. Where the program may need every
/// descriptor, there are at most `most` at a time: connections that wait for a client close theirs
/// and wait later, and those that would make an offer make it later.
pub fn makes_room(most: impl Fn() -> u32) -> bool {
    let there_are = || SOCKETS.load(Ordering::Relaxed);
    // The kernel is asked for the limit only where it may count.
    if there_are() > 0 && there_are() >= most() {
        withdraw_all(withdraw);
        return there_are() < most();
    }
    true
}

/// Waits for the client of a connection.
pub fn wait(connection: &Connection, place: &Place) -> Result<(), Errno> {
    let socket = place.listen()?;
    table::claim(socket);
    SOCKETS.fetch_add(1, Ordering::Relaxed);
    connection.meeting.store(socket as u32, Ordering::Relaxed);
    Ok(())
}

/// Keeps the socket by which a client has handed its segment over, until the client is answered.
pub fn keep(connection: &Connection, caller: c_int) {
    table::claim(caller);
    SOCKETS.fetch_add(1, Ordering::Relaxed);
    connection.meeting.store(caller as u32, Ordering::Relaxed);
}

/// Why the server has not taken what was handed over, if it has closed the socket that was kept.
pub fn refusal(connection: &Connection) -> Option<Refusal> {
    let kept = connection.meeting.load(Ordering::Relaxed);
    if kept == u32::MAX { None } else { meeting::refusal(kept as c_int) }
}

/// Replaces the descriptor of a connection's rendezvous socket by `other`. False if it is not
/// `number`.
pub fn moves(connection: &Connection, number: c_int, other: c_int) -> bool {
    let order = Ordering::SeqCst;
    connection.meeting.compare_exchange(number as u32, other as u32, order, order).is_ok()
}

/// Removes all traces of the rendezvous socket, which goes with the process.
pub fn clear(connection: &Connection) {
    let meeting = connection.meeting.load(Ordering::Relaxed);
    if meeting != u32::MAX && connection.phase() == Phase::LISTENING {
        meeting::clear(meeting as c_int);
    }
}

/// Closes the rendezvous socket, if there is one.
pub fn leave(connection: &Connection) {
    if connection.meeting.load(Ordering::Relaxed) == u32::MAX {
        return;
    }
    let meeting = connection.meeting.swap(u32::MAX, Ordering::Relaxed);
    if meeting != u32::MAX {
        close(meeting as c_int);
    }
}

fn close(meeting: c_int) {
    meeting::clear(meeting);
    table::close_own(meeting);
    SOCKETS.fetch_sub(1, Ordering::Relaxed);
}

/// Makes one of the program's calls that need a new descriptor, once more if the last were taken by
/// rendezvous sockets, or by the figures, which then nobody can read any more.
pub fn with_room(make: impl Fn() -> c_int) -> c_int {
    let made = make();
    let none_left = made < 0 && sys::errno() == libc::EMFILE && table::is_owner();
    let withdraws = |it: &Connection| withdraw(it) || take_offer_back(it);
    let are_there = || SOCKETS.load(Ordering::Relaxed) > 0;
    let one_is_free = || are_there() && withdraw_all(withdraws) || table::hide();
    if none_left && one_is_free() { make() } else { made }
}

/// Leaves the meeting places of those connections that `withdraws` leaves; whether that has made
/// any descriptor free.
fn withdraw_all(withdraws: impl Fn(&Connection) -> bool) -> bool {
    let _errno = sys::KeepErrno::new();
    // Without the right, this thread has it already.
    let _attaching = Attaching::begin();
    table::held().filter(|(_, connection)| withdraws(connection)).count() > 0
}

/// Leaves a connection to the kernel whose server has not answered: without the socket it would not hear if the
/// server has left.
fn take_offer_back(connection: &Connection) -> bool {
    let has_offered = connection.phase() == Phase::OFFERED
        && connection.meeting.load(Ordering::SeqCst) != u32::MAX;
    if has_offered {
        attach::give_up_held(connection, Reason::Limit);
    }
    has_offered
}

/// Stops waiting for a client, if none has come yet, until the next attempt to join.
fn withdraw(connection: &Connection) -> bool {
    let order = Ordering::SeqCst;
    let meeting = connection.meeting.load(order);
    if connection.phase() != Phase::LISTENING || meeting == u32::MAX {
        return false;
    }
    // A client that has come is joined by the next call on the connection. One that comes at this
    // very moment waits without result, which costs only speed.
    if meeting::is_sought(meeting as c_int) {
        return false;
    }
    // Another thread may be closing the connection.
    let mine = connection.meeting.compare_exchange(meeting, u32::MAX, order, order).is_ok();
    if mine {
        connection.on(Event::Left);
        close(meeting as c_int);
    }
    mine
}
