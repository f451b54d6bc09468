//! Descriptors of the library's own that the program takes away: it closes every descriptor that it
//! finds in `/proc/self/fd` and does not know, or puts another descriptor there. The kernel does
//! what it is asked, and the library goes on with another descriptor for the same file.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::descriptors;
use crate::handover::departure::depart;
use crate::joining::attach;
use crate::joining::rendezvous;
use crate::registry;
use crate::report::stats::Reason;
use crate::sys::{self, Errno};
use crate::table::attaching::Attaching;
use crate::table::forbidden;
use crate::table::own_number::{OwnNumber, let_another_number_be_seen};
use crate::table::{self, Entry};

/// To be called before the kernel takes a descriptor away that may be the library's own.
pub fn yield_number(number: c_int) {
    if table::entry(number) != Entry::Own || !table::is_owner() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    // After a filter no call may be made but the program's, and all that needs a descriptor has
    // left.
    let is_filtered = forbidden::reason() == Some(Reason::Filter);
    if is_filtered || !moves(number) {
        does_without(number, is_filtered);
    }
    table::disclaim(number);
}

/// To be called before the kernel takes away a range of descriptors, some of which may be the
/// library's own.
pub fn yield_between(first: u32, last: u32) {
    let is_meant = |(fd, entry): &(c_int, Entry)| {
        *entry == Entry::Own && (first..=last).contains(&(*fd as u32))
    };
    let Some((highest, _)) = table::known().filter(is_meant).last() else { return };
    // The new descriptors may be in the range, too.
    let all = table::known().filter(is_meant).take_while(|(fd, _)| *fd <= highest);
    all.for_each(|(number, _)| yield_number(number));
}

/// Moves a file of the library to a new descriptor. A program that closes all
/// descriptors that it finds, twice, must find nothing there the second time, so the new descriptor
/// is above all others of the library's. A program that closes descriptors as long as it finds any
/// must come to an end, so it is not far above.
fn another(number: c_int) -> Result<c_int, Errno> {
    let all = table::known().filter(|(_, entry)| *entry == Entry::Own);
    let (count, highest) = all.fold((0, 0), |(count, _), (fd, _)| (count + 1, fd));
    if highest >= descriptors::first_own() + 4 * count {
        return descriptors::duplicate(number);
    }
    descriptors::duplicate_from(number, highest + 1).or_else(|_| descriptors::duplicate(number))
}

/// Moves what the library has at a descriptor to another one. False if there is none.
fn moves(number: c_int) -> bool {
    // No thread joins or forks meanwhile.
    let _attaching = Attaching::begin();
    let Ok(moved) = another(number) else { return false };
    table::claim(moved);
    let is_kept = |own: &OwnNumber| own.replace(number, moved);
    let mut is_known = table::move_file(number, moved) || registry::move_instance(number, moved);
    for (place, connection) in table::held() {
        let Some(local) = table::local(place) else { continue };
        is_known |= rendezvous::moves(connection, number, moved)
            || is_kept(&local.peer_event)
            || registry::move_event(place, number, moved);
        if is_kept(&local.kept) {
            is_known = true;
            // Those inside may have asked for the descriptor and not yet made their calls.
            let_another_number_be_seen(|| local.is_used());
        }
    }
    if !is_known {
        // Whose it was has just given it back.
        table::close_own(moved);
    }
    true
}

/// Leaves to the kernel what needs a descriptor for which there is no other.
fn does_without(number: c_int, is_filtered: bool) {
    table::move_file(number, -1);
    for (place, connection) in table::held() {
        let Some(local) = table::local(place) else { continue };
        if connection.meeting.load(Ordering::SeqCst) == number as u32 {
            attach::give_up(connection, Reason::Limit);
        }
        let events = [&local.own_event, &local.peer_event];
        if events.iter().all(|event| event.number() != Some(number)) {
            continue;
        }
        if !is_filtered {
            let all = table::known().filter(|(_, it)| *it == Entry::Connection(place));
            all.for_each(|(fd, _)| depart(fd, Reason::Limit));
        }
        for event in events {
            event.replace(number, -1);
        }
    }
}
