//! All ranks want a lock that has no server.

use weft_units::{Bytes, Span};

use super::{Finish, Notes, OrderedLockSettings};
use crate::drive::carrier::Carrier;
use crate::program::node::Crew;
use crate::program::ordered_lock::OrderedLock;

pub(super) fn run<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    OrderedLockSettings { rounds, hold, back_off }: OrderedLockSettings,
    notes: Notes,
) -> Finish {
    crew.keep_ordered_lock();
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            let mut lock = match OrderedLock::new(me.clone(), back_off) {
                Ok(lock) => lock,
                Err(error) => return me.fail(error),
            };
            for _ in 0..rounds.get() {
                let begun = me.now();
                lock.acquire().await;
                own.note(begun, me.now(), Bytes(0));
                if hold > Span::ZERO {
                    me.compute(hold).await;
                }
                lock.release().await;
            }
        });
    }
    Box::new(move || {
        let mut metrics =
            notes.spans(["program_lock_mean_us", "program_lock_min_us", "program_lock_max_us"]);
        metrics.push(("program_locks_per_s", notes.per_s()));
        metrics
    })
}
