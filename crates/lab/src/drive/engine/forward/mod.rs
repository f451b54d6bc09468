//! Exact fast-forward: whole periods in which a channel repeats itself are skipped.
//!
//! What happens next follows from the state of the channel alone, as long as nothing is submitted
//! to it. So if the whole state, relative to the present, is what it was a period ago, the same
//! will happen again and again, each time a period later. The one thing that differs about a long
//! message is how many of its packets are left; but a channel only tests whether that number is
//! zero. So periods may be skipped until the last packet of a message would start or arrive. What
//! they would have added to counters, histograms and series is added in one step, from what the
//! simulated period added.
//!
//! States are compared in full, with one that was kept, and only at instants at which one long
//! message, the anchor, has advanced. A later state replaces the kept one when that has not come
//! back for twice as long as the previous one was kept (Brent, "An improved Monte Carlo
//! factorization algorithm", BIT 1980), so that a period is found whatever precedes the first. If
//! no state comes back, states are compared less and less often.

mod state;

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::Engine;
use crate::drive::carrier::MessageId;
use state::State;

/// What was skipped in a run, and why not more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastForward {
    /// The number of jumps.
    pub jumps: u64,
    /// The number of periods skipped.
    pub periods: u64,
    /// The simulated time skipped.
    pub time: Span,
    /// The number of packets delivered in it.
    pub packets: u64,
    /// The number of events in it.
    pub events: u64,
    /// How many parts of a state were found equal to those of a period before, the largest number at
    /// a jump: future events with their packets, ports, and messages that wait at hosts.
    pub compared: u64,
    /// Why no period could be skipped, if something prevents it.
    pub forbidden: Option<String>,
}

impl FastForward {
    /// Nothing was skipped, for this reason.
    pub fn forbidden(why: &str) -> FastForward {
        FastForward { forbidden: Some(why.to_owned()), ..FastForward::default() }
    }
}

/// What the caller must know of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// How many instants with events were skipped.
    pub steps: u64,
    /// The present after the jump.
    pub until: Time,
}

/// What limits a jump.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    /// When something happens elsewhere.
    pub limit: Time,
    /// How many instants may be skipped.
    pub steps: u64,
}

/// Searches for periods, and skips them.
#[derive(Debug)]
pub(super) struct Forward {
    report: FastForward,
    /// How many instants with events there were.
    steps: u64,
    /// Whether it may be worthwhile to look for a period, and after how many steps of the anchor.
    is_open: bool,
    stride: u32,
    search: Option<Search>,
}

/// The search for a period among messages that do not change.
#[derive(Debug)]
struct Search {
    /// The anchor, and how many of its packets have not started.
    anchor: MessageId,
    left: u32,
    /// Steps of the anchor from one state to the next, and those left.
    stride: u32,
    wait: u32,
    /// States taken until it becomes larger.
    taken: u32,
    /// The reference state, for how many more states it is kept, and of how many.
    kept: Option<Box<State>>,
    patience: u32,
    looks: u32,
    /// The largest number of packets in flight at any state.
    most: usize,
}

/// Packets that a message must have left to be an anchor.
const LEAST: u32 = 64;

/// How many states are taken before the steps of the anchor between two of them are doubled.
const AT_FIRST: u32 = 16;

/// The longest period that is searched for, in deliveries.
const MOST_DELIVERIES: usize = 1 << 17;

/// The most steps of the anchor between two states.
const MOST_STRIDE: u32 = 1 << 16;

/// A jump over fewer periods costs about what it saves.
const FEW: u64 = 8;

impl Forward {
    fn new() -> Forward {
        let report = FastForward::default();
        Forward { report, steps: 0, is_open: true, stride: 1, search: None }
    }

    /// Something was submitted, or a message has left or arrived.
    pub fn change(&mut self) {
        self.is_open = true;
        self.stride = 1;
        self.search = None;
    }

    /// Something happened at an instant, and there may be notices.
    pub fn has_advanced(&mut self, has_news: bool) {
        self.steps += 1;
        if has_news {
            self.change();
        }
    }
}

impl Search {
    fn new(anchor: MessageId, left: u32, stride: u32) -> Search {
        let (taken, patience) = (0, 1);
        let (wait, kept, looks, most) = (stride, None, 0, 0);
        Search { anchor, left, stride, wait, taken, kept, patience, looks, most }
    }

    /// Whether to compare a state now that this many packets of the anchor are left.
    fn is_due(&mut self, left: u32) -> bool {
        if left == self.left {
            return false;
        }
        self.left = left;
        self.wait -= 1;
        if self.wait > 0 {
            return false;
        }
        self.wait = self.stride;
        true
    }

    /// A state was taken: the next ones are, in the long run, taken more seldom.
    fn has_taken(&mut self) {
        self.taken += 1;
        if self.taken == AT_FIRST {
            self.taken = 0;
            self.stride = (self.stride * 2).min(MOST_STRIDE);
        }
    }
}

impl Engine {
    /// Skips whole periods from now on. Returns why not, if the channel cannot tell that all of it
    /// repeats.
    pub(in crate::drive) fn begin_fast_forward(&mut self) -> Result<(), String> {
        match self.forbids_fast_forward() {
            Some(why) => Err(why.to_owned()),
            None => {
                self.forward = Some(Box::new(Forward::new()));
                Ok(())
            }
        }
    }

    /// What was skipped, if that was requested.
    pub(in crate::drive) fn fast_forwarded(&self) -> Option<FastForward> {
        self.forward.as_ref().map(|own| own.report.clone())
    }

    /// The part whose state is not compared, if there is one.
    fn forbids_fast_forward(&self) -> Option<&'static str> {
        let switches = self.graph.switches();
        let (is_fed, draws) = match &self.supply {
            super::Supply::Sources(_) | super::Supply::Part(_) => (false, false),
            super::Supply::Messages(_) => {
                (true, self.routes.draws_ways(switches, self.graph.hosts()))
            }
        };
        if !is_fed {
            Some("traffic of sources")
        } else if self.ring.is_some() {
            Some("a ring")
        } else if self.turns.is_some() {
            Some("links with turns")
        } else if self.hub.is_some() {
            Some("mapped windows around a hub")
        } else if self.flows.is_some() {
            Some("a transport: rates, windows and sequence numbers of flows")
        } else if self.classed.is_some() {
            Some("a buffer that classes share")
        } else if self.is_in_pipeline() {
            Some("a switch with a schedule")
        } else if self.adapters.is_on {
            Some("adapters with acknowledgments, timers or buffers of their own")
        } else if self.memories.is_on || !self.graph.is_without_limits() {
            Some("switches with schedulers or with buffers of limited size")
        } else if draws {
            Some("routes that choose at random for each packet")
        } else if !self.parts.is_one() {
            Some("a graph that is divided")
        } else if self.observations.notes_passages() {
            Some("a trace of every transmission")
        } else {
            None
        }
    }

    /// Skips as many periods as fit before the horizon, if the channel is now in the state of a period
    /// ago.
    pub(super) fn look_for_period(&mut self, horizon: Horizon) -> Option<Jump> {
        let mut own = self.forward.take()?;
        let jump = if own.is_open { self.search(&mut own, horizon) } else { None };
        self.forward = Some(own);
        jump
    }

    fn search(&mut self, own: &mut Forward, horizon: Horizon) -> Option<Jump> {
        let Some(search) = &mut own.search else {
            self.observations.forget_deliveries();
            let longest = self.supply.messages().and_then(|feed| feed.longest());
            let longest = longest.filter(|(_, left)| *left >= LEAST);
            own.search = longest.map(|(anchor, left)| Search::new(anchor, left, own.stride));
            own.is_open = own.search.is_some();
            return None;
        };
        let left = self.supply.messages().map_or(0, |feed| feed.messages.unsent(search.anchor));
        if !search.is_due(left) {
            return None;
        }
        if left < LEAST / 2 || self.observations.deliveries_noted() > MOST_DELIVERIES {
            own.is_open = left < LEAST / 2;
            own.search = None;
            self.observations.forget_deliveries();
            return None;
        }
        let packets = self.packets.len();
        if packets > search.most {
            // The network is still filling: an earlier state will not recur.
            (search.most, search.kept) = (packets, None);
            return None;
        }
        search.looks += 1;
        let (is_over, kept) = (search.looks >= search.patience, search.kept.take());
        if !is_over && kept.as_ref().is_some_and(|kept| kept.packets.len() != packets) {
            search.kept = kept;
            return None;
        }
        let state = Box::new(State::of(self, own.steps));
        search.has_taken();
        match kept {
            Some(kept) if state.is_again(&kept) => return self.jump(own, &kept, &state, horizon),
            Some(kept) if !is_over => search.kept = Some(kept),
            // There was no reference, or it has not recurred: the next one is kept for twice as long.
            before => {
                search.patience = search.patience.saturating_mul(1 + u32::from(before.is_some()));
                (search.kept, search.looks) = (Some(state), 0);
                self.observations.note_deliveries();
            }
        }
        None
    }

    /// Skips periods like the one between two states.
    fn jump(
        &mut self,
        own: &mut Forward,
        before: &State,
        state: &State,
        horizon: Horizon,
    ) -> Option<Jump> {
        let period = state.period(before);
        let steps = (state.steps - before.steps).max(1);
        let by_messages = state.repeats(before);
        let times = by_messages
            .min(horizon.limit.since(self.now).0.saturating_sub(1) / period.0)
            .min(horizon.steps / steps)
            .min(self.observations.repeats_before_sample(self.now, period))
            .min(self.graph.repeats_in_window(before.at, period));
        // Deliveries that are not counted yet must not be counted twice.
        let times = if before.at < self.observations.from { 0 } else { times };
        // While messages end soon, nothing can be skipped until one has.
        own.is_open = times < by_messages || by_messages == 0;
        own.search = None;
        if times < FEW {
            // The obstacle may occur again and again.
            own.stride = (own.stride * 2).min(MOST_STRIDE);
            self.observations.forget_deliveries();
            return None;
        }
        let packets = self.observations.deliveries_noted() as u64;
        let events = self.leave_out(before, state, times);
        own.steps += steps * times;
        own.report.jumps += 1;
        own.report.periods += times;
        own.report.time += period * times;
        own.report.packets += packets * times;
        own.report.events += events;
        own.report.compared = own.report.compared.max(state.parts());
        Some(Jump { steps: steps * times, until: self.now })
    }

    /// Repeats what happened between two states this many times. Returns the number of events.
    fn leave_out(&mut self, before: &State, state: &State, times: u64) -> u64 {
        let period = state.period(before);
        let later = period * times;
        self.parts.first().delay(later);
        for id in &state.packets {
            self.packets.packets[*id as usize].start += later;
        }
        self.graph.repeat(&before.ports, period, times);
        if let Some(feed) = self.supply.messages() {
            feed.go_on(&before.unfed, times as u32);
            feed.messages.go_on(&before.left, times as u32);
        }
        let attempts = self.observations.attempts - before.attempts;
        self.observations.repeat(period, attempts, times);
        self.observations.forget_deliveries();
        let events = (self.steps - before.events_before) * times;
        self.steps += events;
        self.now += later;
        self.next = self.next_with_adapters();
        events
    }
}
