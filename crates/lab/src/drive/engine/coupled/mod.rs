//! Two channels that act together in one simulation: one whose hosts send under a global schedule, and one
//! that carries its configurations, grants and acknowledgments as packets (Clint 3.3, Figure 5).
//!
//! Each is a channel of the engine. At one instant, events of the carrying channel come first: what arrives
//! then is there before the schedule acts. If both send over the same links, the carrying channel owns them
//! and lends them to the other channel during its step.

mod carrier;
mod halves;

use weft_fabric::control::{ScheduledArrival, ScheduledPacket};
use weft_fabric::link::SharedLinks;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::adapter::ScheduledTime;
use super::{Engine, ScheduleCounters};
use crate::drive::Channel as _;
use crate::drive::carrier::Carrier as _;
use crate::drive::trace::TraceEntry;

pub use halves::Half;

/// What each of two channels has.
#[derive(Debug)]
pub struct OfBoth<T> {
    /// That of the one under the schedule.
    pub bulk: T,
    /// That of the one that carries its signalling.
    pub quick: T,
}

/// A channel under a schedule, and the one that carries its signalling.
#[derive(Debug)]
pub struct Coupled {
    bulk: Engine,
    quick: Engine,
    /// When something happens next under the schedule.
    due: Time,
    /// Both channels send over the same links.
    shares_links: bool,
    /// Kept to be used again: the signalling that leaves in an instant.
    signals: Vec<ScheduledPacket>,
    /// The signalling packets that have arrived, if they are recorded.
    trace: Option<Vec<TraceEntry>>,
    /// When something happens next on either channel, while a program sends messages.
    next: Time,
}

impl Coupled {
    /// Both channels at time zero. `quick` keeps its links clear for the signalling of `bulk`, and shares
    /// them with it if the timing of its schedule says so; `None` if no packets carry the signalling.
    pub fn new(mut bulk: Engine, mut quick: Engine) -> Coupled {
        let mut shares_links = false;
        if let Some((slot, timing)) = bulk.carried_timing() {
            if let Some(shared) = timing.shared {
                quick.share_links(SharedLinks::new(shared, quick.hosts() as usize));
                shares_links = true;
            }
            quick.let_targets_disable();
            quick.keep_clear(timing.calendar(slot));
        }
        let due = bulk.next_with_adapters();
        let (signals, next) = (Vec::new(), Time::NEVER);
        Coupled { bulk, quick, due, shares_links, signals, trace: None, next }
    }

    /// Runs up to and including `until`, or until `halt` stops it. A later call goes on from there.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        loop {
            let stopped = halt.check(self.steps());
            if stopped.is_some() || !self.step(until) {
                return stopped;
            }
        }
    }

    /// Lets the next event of either channel happen if that is due by `until`. Returns whether it was.
    fn step(&mut self, until: Time) -> bool {
        if let Some(now) = self.quick.step(self.due.min(until)) {
            if self.quick.has_scheduled_arrivals() {
                for arrival in self.quick.scheduled_arrivals() {
                    self.hear(now, arrival);
                }
                self.due = self.bulk.next_with_adapters();
            }
            return true;
        }
        self.lend_links();
        let stepped = self.bulk.step(until);
        self.lend_links();
        let Some(now) = stepped else { return false };
        self.bulk.take_signals(&mut self.signals);
        for packet in self.signals.drain(..) {
            self.quick.send_scheduled(now, packet);
        }
        self.due = self.bulk.next_with_adapters();
        true
    }

    /// Passes the shared links to the channel that does not have them.
    #[inline]
    fn lend_links(&mut self) {
        if self.shares_links {
            self.quick.exchange_links(&mut self.bulk);
        }
    }

    /// A packet of the signalling has arrived.
    fn hear(&mut self, now: Time, arrival: ScheduledArrival) {
        if let Some(trace) = &mut self.trace {
            trace.extend(self.bulk.signal_in_trace(now, arrival));
        }
        if let Some((target, initiators)) = self.bulk.hear_signalling(now, arrival) {
            self.quick.accept_requests(target, initiators);
        }
    }

    /// Notes every transmission on both channels from now on.
    pub fn record_traces(&mut self) {
        self.bulk.record_trace();
        self.record_quick_trace();
    }

    fn record_quick_trace(&mut self) {
        self.quick.record_trace();
        self.trace = Some(Vec::new());
    }

    /// The transmissions recorded so far on the channel under the schedule, and on the one that carries
    /// its signalling.
    pub fn take_traces(&mut self) -> OfBoth<Vec<TraceEntry>> {
        let quick = self.take_quick_trace();
        OfBoth { bulk: self.bulk.take_trace(), quick }
    }

    fn take_quick_trace(&mut self) -> Vec<TraceEntry> {
        let mut trace = self.quick.take_trace();
        trace.extend(self.trace.as_mut().map(std::mem::take).unwrap_or_default());
        trace.sort_by_key(|entry| entry.time);
        trace
    }

    /// The first packets that met although the schedule keeps them apart, or the first transfer
    /// that missed its slot, if any did.
    pub fn broken_schedule(&self) -> Option<String> {
        let overrun = self.quick.shared_links().and_then(SharedLinks::overrun);
        let met = self.quick.broken_schedule().map(str::to_owned);
        met.or_else(|| overrun.map(|to| format!("a transfer to host {to} ran out of its slot")))
    }

    /// Further counts and measurements, with the names of their columns; shares are those of the
    /// links between zero and `until`.
    pub fn columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        let mut columns = self.bulk.adapter_columns(until);
        let ScheduleCounters { lost_configurations, lost_grants, lost_acknowledgments, .. } =
            self.bulk.schedule_counters();
        let ScheduledTime { upward, downward } = self.quick.scheduled_time();
        let links = until.0 as f64 * f64::from(self.quick.hosts());
        let against = self.quick.control_counters().acknowledgments_against_schedule;
        columns.extend([
            ("lost_configurations", lost_configurations as f64),
            ("lost_grants", lost_grants as f64),
            ("lost_acknowledgments", lost_acknowledgments as f64),
            ("signalling_share", (upward + downward).0 as f64 / links),
            ("signalling_share_to_switch", upward.0 as f64 / links),
            ("quick_acknowledgments_killed", against as f64),
        ]);
        columns
    }

    /// How many events have happened on both.
    pub fn steps(&self) -> u64 {
        self.bulk.steps() + self.quick.steps()
    }

    /// The channel under the schedule, and the one that carries its signalling; ends both.
    pub fn into_channels(self) -> OfBoth<Engine> {
        OfBoth { bulk: self.bulk, quick: self.quick }
    }
}
