//! How often an end looks for the other, and until when.

use std::sync::atomic::Ordering;

use weft_protocol::break_even::BreakEven;

use crate::sys;
use crate::table::Connection;

/// After this many operations the other end will no longer come, unless the operations took no
/// time: the other end of a stream may read rarely, and much at a time.
pub(super) const LAST_ATTEMPT: u32 = 4096;
/// How long a client looks for its server at least, in nanoseconds. It need not wait for the
/// server, which binds its place before its client comes.
const PATIENCE: u64 = 1_000_000_000;
/// But no longer than until the server has sent this many times: it would have looked at its
/// [`BreakEven::LATEST`] operation, and a few more times if others were in a call then.
pub(super) const SENDS: u64 = BreakEven::LATEST as u64 * 4 / 3;
/// A client looks for the last time this many sends of its server later than that: the kernel has
/// not counted those that are still under way.
const ON_THEIR_WAY: u64 = 2;

/// The operation before which an end that looks now, after `operations`, does not look again: a
/// third later.
pub(super) const fn a_third_later(operations: u32) -> u32 {
    operations.saturating_add(if operations < 3 { 1 } else { operations / 3 })
}

/// The operation before which a client does not look again that has found nobody, and not for the
/// first time, after its server has sent `sends` times. A server waits from its twelfth operation
/// on, or from one that is twice, four times, ... as late ([`BreakEven::doubled`]), so a client
/// looks a third after each of these, if both make as many operations. If not, it looks about twice
/// as late at most. It looks once more when the server will have sent so often that it will no
/// longer come.
pub(super) fn after_nobody(operations: u32, sends: u64) -> u32 {
    if operations > LAST_ATTEMPT {
        return a_third_later(operations);
    }
    let left = (SENDS + ON_THEIR_WAY).saturating_sub(sends);
    let until_late = (left * u64::from(operations)).checked_div(sends).unwrap_or(u64::MAX);
    // Neither much sooner, whatever the server does, nor a little before.
    let an_eighth = operations / 8;
    let pause = match u32::try_from(until_late) {
        Ok(until_late) if until_late <= operations + an_eighth => until_late.max(an_eighth),
        _ => operations,
    };
    operations.saturating_add(pause.max(1)).min(LAST_ATTEMPT + 1)
}

/// Whether the other end was first looked for long ago.
pub(super) fn has_long_sought(connection: &Connection) -> bool {
    sys::now().saturating_sub(connection.sought.load(Ordering::Relaxed)) >= PATIENCE
}

/// Notes that this end looks for its peer. Returns whether it does so for the first time.
pub(super) fn seeks_first(connection: &Connection) -> bool {
    let order = Ordering::Relaxed;
    connection.sought.load(order) == 0
        && connection.sought.compare_exchange(0, sys::now(), order, order).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_looks_soon_after_each_operation_at_which_its_server_may_begin_to_wait() {
        // The server answers each of the client's messages, which is two operations at both ends.
        let looks = |first: u32| {
            let mut all = vec![first, a_third_later(first)];
            while u64::from(all[all.len() - 1]) / 2 < SENDS {
                let last = all[all.len() - 1];
                all.push(after_nobody(last, u64::from(last) / 2));
            }
            all
        };
        assert_eq!(looks(12), [12, 16, 32, 64, 128, 256, 512, 1024, 2052]);
        for doublings in 0..=BreakEven::DOUBLINGS {
            let begins = BreakEven::doubled(doublings).after();
            for all in (0..=doublings).map(|own| looks(BreakEven::doubled(own).after())) {
                let later = |look: &&u32| (begins..=a_third_later(begins)).contains(*look);
                assert!(all.iter().any(|look| later(&look)), "{begins}: {all:?}");
            }
            let last = looks(begins).pop();
            assert_eq!(last, Some(2 * (SENDS + ON_THEIR_WAY) as u32), "{begins}");
        }
    }

    #[test]
    fn a_client_looks_by_twice_the_operation_at_which_a_slower_or_faster_server_begins_to_wait() {
        // `servers` operations of the server for `own` ones of the client; every other one is a
        // send.
        for (servers, own) in [(1, 3), (1, 2), (2, 3), (3, 2), (2, 1), (3, 1)] {
            let sends = |operations: u32| u64::from(operations * servers / own) / 2;
            let (mut looks, mut last) = (vec![12], 16);
            while sends(last) < SENDS && last <= LAST_ATTEMPT {
                looks.push(last);
                last = after_nobody(last, sends(last));
            }
            looks.push(last);
            for doublings in 0..=BreakEven::DOUBLINGS {
                let begins = (BreakEven::doubled(doublings).after() * own).div_ceil(servers);
                // It looks first at its twelfth operation, and the last look may wait an eighth longer.
                let soon = begins..=(2 * begins + begins / 8).max(12);
                assert!(looks.iter().any(|look| soon.contains(look)), "{soon:?}: {looks:?}");
            }
        }
    }

    #[test]
    fn a_client_that_has_found_nobody_looks_a_bounded_number_of_times() {
        // Whatever the server has sent by each look: never so often that it is late.
        for ratio in [0, 1, 2, 3, 7, 100, 1000, 100_000] {
            for most in [1, SENDS / 2, SENDS - 1] {
                let (mut operations, mut looks) = (16, 0);
                while operations <= LAST_ATTEMPT {
                    let sends = (u64::from(operations) * ratio / 100).min(most);
                    let next = after_nobody(operations, sends);
                    assert!(next > operations && next <= LAST_ATTEMPT + 1);
                    (operations, looks) = (next, looks + 1);
                }
                // An eighth 47 times comes to 256 times as many; the first few are rounded down.
                assert!(looks <= 50, "{ratio} of 100, {most}: {looks}");
                assert_eq!(operations, LAST_ATTEMPT + 1, "nobody comes any more");
            }
        }
        assert_eq!(after_nobody(LAST_ATTEMPT + 1, 0), a_third_later(LAST_ATTEMPT + 1));
    }
}
