//! Waiting for a completion queue or a counter: first by polling, then asleep.

use std::time::{Duration, Instant};

use super::state::{Shared, State, Waitable};

/// How long a wait polls before it sleeps: about the cost of a wake-up.
const SPIN: Duration = Duration::from_micros(20);
/// The longest sleep, after which peers that never connected are probed.
const NAP: Duration = Duration::from_millis(100);

/// Makes progress until `ready` returns a value, at most for `limit`; sleeps in between.
pub fn wait<T>(
    shared: &Shared,
    of: Waitable,
    limit: Option<Duration>,
    mut ready: impl FnMut(&mut State) -> Option<T>,
) -> Option<T> {
    let begin = Instant::now();
    loop {
        let spent = begin.elapsed();
        let mut state = shared.lock();
        state.progress(of);
        if let Some(found) = ready(&mut state) {
            return Some(found);
        }
        if limit.is_some_and(|limit| spent >= limit) {
            return None;
        }
        if spent < SPIN {
            drop(state);
            std::hint::spin_loop();
            continue;
        }
        if !state.arm_for_sleep(of) {
            continue;
        }
        if let Some(found) = ready(&mut state) {
            return Some(found);
        }
        state.count(of, |counts| &counts.sleeps);
        let waiter = match of {
            Waitable::Queue(number) => state.queues.get(number).map(|it| it.waiter.watch.clone()),
            Waitable::Counter(number) => {
                state.counters.get(number).map(|it| it.waiter.watch.clone())
            }
        };
        drop(state);
        let left = limit.map_or(NAP, |limit| NAP.min(limit.saturating_sub(spent)));
        let Ok(watch) = waiter else { return None };
        watch.wait(Some(left));
    }
}

/// A timeout as the headers define it: milliseconds, or none if negative.
pub fn limit(milliseconds: libc::c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}
