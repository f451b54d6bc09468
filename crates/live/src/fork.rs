//! What a fork needs before and after: the child holds every connection too, and none of the locks.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::descriptors;
use crate::handover::departure;
use crate::interpose::system_calls;
use crate::joining::attach;
use crate::joining::bare_calls;
use crate::joining::rendezvous;
use crate::registry;
use crate::report::stats::Reason;
use crate::sharing::lock;
use crate::sharing::process_lock::{self, ProcessLock};
use crate::signals::inside::CalledBack;
use crate::signals::jump;
use crate::sys;
use crate::table::attaching::{self, Attaching};
use crate::table::guard::close_numbers_apart;
use crate::table::holders;
use crate::table::{self, Connection, Local, Phase};
use crate::tracking;

/// Counts this process's forks, for each of which connections are marked as counted.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What a fork holds from before until after, in the order in which they are taken.
static LOCKS: [&ProcessLock; 2] = [&attaching::ATTACHING, &descriptors::RAISING];

thread_local! {
    /// The last fork of this thread.
    static FORK: Cell<u32> = const { Cell::new(0) };
    /// Whether it began when nothing was held any more.
    static IS_DONE: Cell<bool> = const { Cell::new(false) };
    /// Which of [`LOCKS`] the fork took. A lock that the thread held already, when a signal handler that forks
    /// interrupted it, is not among them.
    static TAKEN: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
}

/// Whether a filter of system calls, which may forbid those of a fork's handlers, was set, and nothing is
/// held any more that needs them.
fn is_done() -> bool {
    let holds = |place| table::local(place).is_some_and(Local::has_descriptors);
    !table::remembers() && !table::used().any(holds)
}

/// A handler that interrupts a fork may fork, too.
fn take_locks() {
    let [before, held] = [TAKEN.get(), LOCKS.map(ProcessLock::hold)];
    TAKEN.set([before[0] || held[0], before[1] || held[1]]);
}

fn give_locks_back() {
    for (lock, _) in LOCKS.iter().zip(TAKEN.take()).filter(|(_, taken)| *taken).rev() {
        lock.give_back();
    }
}

/// Before a fork: the child will hold every connection too.
pub extern "C" fn before_fork() {
    let _called_back = CalledBack::begin();
    let is_done = is_done();
    IS_DONE.set(is_done);
    if is_done {
        return;
    }
    bare_calls::look_before_fork();
    take_locks();
    FORK.set(FORKS.fetch_add(1, Ordering::SeqCst) + 1);
    registry::may_be_shared();
    tracking::settle_all();
    for local in table::used().filter_map(table::local) {
        local.counted.store(false, Ordering::SeqCst);
    }
    for_each_held(|connection, local| {
        if connection.phase().may_join() {
            // An offer is one process's.
            if connection.phase() == Phase::CANDIDATE {
                rendezvous::leave(connection);
            } else {
                attach::give_up_held(connection, Reason::Call);
            }
        }
        connection.holders.fetch_add(1, Ordering::SeqCst);
        local.counted.store(true, Ordering::SeqCst);
        holders::share(connection, local);
    });
}

pub extern "C" fn after_fork_in_parent() {
    let _called_back = CalledBack::begin();
    if IS_DONE.get() {
        return;
    }
    if !table::is_single_threaded() {
        // The child may also have connections that came meanwhile, without being counted.
        table::leave_newcomers();
        for_each_held(|connection, local| {
            if !local.counted.load(Ordering::SeqCst) {
                attach::give_up_held(connection, Reason::Call);
            }
        });
    }
    give_locks_back();
}

/// After a fork that failed, for which the C library has nevertheless run the parent's handlers:
/// takes back the holder that was counted for the child. If another thread has forked since, the
/// count belongs to its child.
#[cold]
pub fn take_back_fork() {
    if IS_DONE.get() {
        return;
    }
    let _errno = sys::KeepErrno::new();
    let _attaching = Attaching::begin();
    if table::is_owner() && FORKS.load(Ordering::SeqCst) == FORK.get() {
        for_each_held(|connection, local| {
            if local.counted.swap(false, Ordering::SeqCst) {
                holders::one_less(connection);
            }
        });
    }
}

pub extern "C" fn after_fork_in_child() {
    let _called_back = CalledBack::begin();
    if IS_DONE.get() {
        return;
    }
    lock::forget_thread();
    process_lock::forget_all();
    jump::start_in_child();
    close_numbers_apart();
    table::start_in_child();
    if !table::is_single_threaded() {
        table::forget_uncounted();
    }
    system_calls::start_in_child();
    registry::start_in_child();
    departure::start_in_child();
    for_each_held(holders::share);
    for lock in LOCKS.iter().rev() {
        lock.reset();
    }
    TAKEN.set([false; 2]);
}

fn for_each_held(act: impl Fn(&'static Connection, &Local)) {
    for place in table::used() {
        let Some(local) = table::local(place).filter(|it| it.has_descriptors()) else { continue };
        if let Some(connection) = table::connection(place) {
            act(connection, local);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn a_fork_in_a_handler_that_interrupts_a_fork_leaves_no_lock_held() {
        for forks in [1, 2] {
            (0..forks).for_each(|_| take_locks());
            assert!(LOCKS.iter().all(|lock| lock.try_lock().is_none()));
            (0..forks).for_each(|_| give_locks_back());
            std::thread::scope(|scope| {
                let others = scope.spawn(|| LOCKS.iter().all(|lock| lock.lock().is_some()));
                assert!(others.join().unwrap());
            });
        }
    }

    #[test]
    fn a_fork_that_has_made_no_child_is_taken_back_unless_another_came_after() {
        let sample = Sample::new();
        let (guard, _) = sample.enter();
        let (connection, order) = (guard.connection, Ordering::SeqCst);
        let take_back = |forks, fork| {
            connection.holders.store(2, order);
            guard.local().counted.store(true, order);
            FORKS.store(forks, order);
            FORK.set(fork);
            take_back_fork();
            connection.holders.load(order)
        };
        assert_eq!((take_back(8, 7), take_back(8, 8)), (2, 1));
        take_back_fork();
        assert_eq!(connection.holders.load(order), 1, "twice");
    }
}
