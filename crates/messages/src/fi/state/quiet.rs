//! Polls that find nothing: they check one word for each place where something could arrive.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Queue, State, Waitable};

/// After this many full polls in a row that find nothing, an endpoint is asked for its words: a
/// response that comes within half a microsecond is not delayed by that.
const PATIENCE: u32 = 16;

/// The words that tell a poll whether anything has arrived, as long as its endpoints are left alone.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// The heads of the next records and responses of all endpoints of a queue: zero until these
    /// are there.
    heads: Vec<NonNull<AtomicU64>>,
    /// The number of [`State::changes`] when the endpoints named these words.
    changes: u64,
    /// How many polls may look at them alone, and how many of these are left.
    granted: u32,
    left: u32,
    /// How many polls in a row have looked at everything and found nothing.
    empty: u32,
}

impl State {
    /// Whether a poll of a queue would find nothing, by one check of each word at which something
    /// would arrive. False if more has to be done to know it: see [`State::poll`].
    #[inline(always)]
    pub fn is_quiet(&mut self, queue: usize) -> bool {
        let changes = self.changes;
        let Ok(Queue { quiet, .. }) = self.queues.get(queue) else { return false };
        if quiet.left == 0 || quiet.changes != changes {
            return false;
        }
        for head in &quiet.heads {
            // SAFETY: it lies in a segment of an endpoint. Endpoints unmap segments only in calls that count as a
            // change, see `State::endpoints`, and there was none.
            if unsafe { head.as_ref() }.load(Ordering::Relaxed) != 0 {
                return false;
            }
        }
        quiet.left -= 1;
        true
    }

    /// Whether a poll of a queue finds nothing, by a cheap look at its endpoints. False if more has to be done to know
    /// it: see [`State::poll`].
    #[inline(always)]
    pub fn finds_nothing(&mut self, queue: usize) -> bool {
        let Ok(Queue { entries, quiet, .. }) = self.queues.get(queue) else { return false };
        // A record of the program's calls has to know of every poll.
        let is_nothing = entries.is_empty()
            && quiet.granted == 0
            && self.record.is_none()
            && self.is_idle(Waitable::Queue(queue));
        if is_nothing {
            self.note_empty(queue, self.changes);
        }
        is_nothing
    }

    /// Makes progress on the endpoints bound to a queue; if nothing arrives, the next polls may be short
    /// ([`State::is_quiet`]).
    #[inline(always)]
    pub fn poll(&mut self, queue: usize) {
        let before = self.changes;
        let Ok(Queue { entries, quiet, .. }) = self.queues.get(queue) else { return };
        // Then `finds_nothing` has not looked. Work at endpoints that are idle would end the grants of other queues.
        let has_to_look = !entries.is_empty() || quiet.granted > 0 || self.record.is_some();
        if quiet.granted > 0 {
            self.settle(queue);
        }
        let of = Waitable::Queue(queue);
        let found = if has_to_look { self.progress(of) } else { self.work(of) };
        if !found {
            self.note_empty(queue, before);
        }
    }

    /// A poll of a queue, which began after that many changes, has looked at everything and found nothing.
    #[inline(always)]
    fn note_empty(&mut self, queue: usize, before: u64) {
        let Ok(Queue { quiet, .. }) = self.queues.get(queue) else { return };
        quiet.left = 0;
        quiet.empty = if quiet.changes == before { quiet.empty + 1 } else { 1 };
        quiet.changes = self.changes;
        if quiet.empty >= PATIENCE && self.record.is_none() {
            self.grant(queue);
        }
    }

    /// Counts the polls that were granted and made.
    #[inline(never)]
    fn settle(&mut self, queue: usize) {
        let Self { endpoints, queues, .. } = self;
        let Ok(Queue { quiet, .. }) = queues.get(queue) else { return };
        let passed = std::mem::take(&mut quiet.granted) - std::mem::take(&mut quiet.left);
        if passed > 0 {
            let its = endpoints.iter_mut();
            for it in its.filter(|it| Waitable::Queue(queue).concerns(&it.bindings)) {
                it.bound.endpoint.pass(passed);
            }
        }
    }

    /// Lets the next polls of a queue look at the words of its endpoints alone.
    #[inline(never)]
    fn grant(&mut self, queue: usize) {
        let Self { endpoints, queues, .. } = self;
        let Ok(Queue { entries, quiet, .. }) = queues.get(queue) else { return };
        quiet.empty = PATIENCE;
        quiet.heads.clear();
        let its = endpoints.iter_mut();
        let its = its.filter(|it| Waitable::Queue(queue).concerns(&it.bindings));
        let grants = its.map(|it| match it.bound.is_armed {
            true => 0,
            false => it.bound.endpoint.watch_for_news(&mut quiet.heads),
        });
        let granted = grants.min().unwrap_or(0);
        quiet.granted = if entries.is_empty() { granted } else { 0 };
        quiet.left = quiet.granted;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use super::super::{Binding, Bindings, Bound, Entry, Waiter};
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::fi::abi::FI_WAIT_NONE;
    use crate::fi::record::Record;
    use crate::rendezvous::Directory;

    /// Lets something be done with a domain of one endpoint, which reports to the first of two queues, and with the
    /// number of the endpoint.
    fn with_domain(name: &str, act: impl FnOnce(&mut State, usize)) {
        let path = std::env::temp_dir().join(format!("weft-quiet-{}-{name}", std::process::id()));
        let endpoint = Endpoint::new(Directory::at(path.clone()).unwrap()).unwrap();
        let mut state = State::default();
        for queue in 0..2 {
            assert_eq!(state.queues.add(Queue::new(Waiter::new(FI_WAIT_NONE).unwrap())), queue);
        }
        let to = Binding { queue: Some(0), ..Binding::default() };
        let bindings = Bindings { sends: to, receives: to, ..Bindings::default() };
        let bound = Bound {
            endpoint,
            vector: None,
            is_connected_type: false,
            peer: None,
            is_directed: false,
            is_enabled: true,
            is_armed: false,
        };
        let number = state.endpoints().add(Entry { bound, bindings });
        act(&mut state, number);
        drop(state);
        std::fs::remove_dir(path).unwrap();
    }

    /// Makes as many polls that find nothing as the next ones need to be short: by turns full ones, and those that look
    /// first, as a read of the queue does.
    fn poll_in_vain(state: &mut State) {
        for number in 0..PATIENCE {
            if number % 2 == 0 || !state.finds_nothing(0) {
                state.poll(0);
            }
        }
    }

    fn empty_polls(state: &mut State, endpoint: usize) -> String {
        let bound = &state.endpoints.get(endpoint).unwrap().bound;
        format!("{:?}", bound.endpoint.figures().counts().empty_polls)
    }

    /// What may be done with endpoints between two polls.
    type Step = fn(&mut State, usize);

    #[test]
    fn polls_are_short_until_anything_is_done_with_endpoints() {
        let steps: [(&str, bool, Step); 5] = [
            ("nothing", true, |_, _| {}),
            ("progress without work", true, |state, _| {
                assert!(!state.progress(Waitable::Queue(0)));
            }),
            ("a call on an endpoint", false, |state, endpoint| {
                state.working(endpoint).unwrap();
            }),
            ("endpoints", false, |state, _| {
                state.endpoints();
            }),
            ("progress with work", false, |state, endpoint| {
                // As if a thread had slept: the wake-up is to be read.
                state.endpoints.get(endpoint).unwrap().bound.is_armed = true;
                state.progress(Waitable::Queue(0));
            }),
        ];
        for (name, is_kept, step) in steps {
            with_domain(&name.replace(' ', "-"), |state, endpoint| {
                assert!(!state.is_quiet(0), "no poll has looked at everything");
                poll_in_vain(state);
                assert!(state.is_quiet(0), "{name}");
                step(state, endpoint);
                assert_eq!(state.is_quiet(0), is_kept, "{name}");
                assert_eq!(state.is_quiet(0), is_kept, "{name}");
                poll_in_vain(state);
                assert!(state.is_quiet(0), "{name}: the next polls grant anew");
            });
        }
    }

    #[test]
    fn short_polls_are_counted_and_end() {
        with_domain("end", |state, endpoint| {
            poll_in_vain(state);
            let granted = state.queues.get(0).unwrap().quiet.granted;
            assert!(granted > 0 && (0..granted).all(|_| state.is_quiet(0)));
            assert!(!state.is_quiet(0), "the kernel is due");
            state.poll(0);
            let all = PATIENCE + granted + 1;
            let counted = empty_polls(state, endpoint);
            assert_eq!(counted, format!("Count({all})"), "with the first ones and the last");
            state.poll(1);
            assert!(!state.is_quiet(1), "no endpoint reports to this one");
        });
    }

    #[test]
    fn cheap_looks_lead_to_short_polls_which_are_counted_once() {
        with_domain("cheap", |state, endpoint| {
            for _ in 0..PATIENCE {
                assert!(!state.is_quiet(0));
                assert!(state.finds_nothing(0));
            }
            assert!((0..3).all(|_| state.is_quiet(0)));
            assert!(!state.finds_nothing(0), "the short ones are not counted yet");
            let changes = state.changes;
            for all in [PATIENCE + 3 + 1, PATIENCE + 3 + 2] {
                state.poll(0);
                assert_eq!(empty_polls(state, endpoint), format!("Count({all})"));
            }
            assert_eq!(state.changes, changes, "the grants of other queues stay");
            assert!(state.is_quiet(0));
        });
    }

    #[test]
    fn a_cheap_look_is_not_enough_where_more_is_to_be_done() {
        let steps: [(&str, Step); 4] = [
            ("an entry", |state, _| {
                let entry = super::super::sent(0, false, None);
                state.queues.get(0).unwrap().entries.push_back(entry);
            }),
            ("an armed endpoint", |state, endpoint| {
                state.endpoints.get(endpoint).unwrap().bound.is_armed = true;
            }),
            ("open grants", |state, _| poll_in_vain(state)),
            ("a record", |state, endpoint| {
                let name = state.endpoints.get(endpoint).unwrap().bound.endpoint.name();
                let path = std::env::temp_dir().join(format!("weft-record-{}", std::process::id()));
                std::fs::create_dir(&path).unwrap();
                state.record = Some(Box::new(Record::new(&path, name).unwrap()));
                std::fs::remove_dir_all(&path).unwrap();
            }),
        ];
        for (name, step) in steps {
            with_domain(&name.replace(' ', "-"), |state, endpoint| {
                assert!(state.finds_nothing(0), "{name}");
                step(state, endpoint);
                assert!(!state.finds_nothing(0), "{name}");
            });
        }
    }
}
