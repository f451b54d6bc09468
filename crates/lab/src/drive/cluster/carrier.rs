//! The scheduled channel of a cluster under a program: messages in place of sources. A channel that
//! carries its signalling has no messages of its own then.

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::Cluster;
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::trace::TraceEntry;

impl Carrier for Cluster {
    /// Slots in which nothing was under way are caught up with, since schedulers go on in them.
    fn offer(&mut self, now: Time, message: Message) {
        match now {
            Time::ZERO if !self.started => self.start(),
            Time::ZERO => {}
            _ => self.catch_up(Time(now.0 - 1)),
        }
        let Cluster { bulk, queue, .. } = self;
        bulk.offer(now, message, &mut |time, event| queue.push(time, event));
        self.look_ahead(now);
    }

    fn next_time(&self) -> Time {
        match self.bulk.next_notice() {
            Some(notice) => notice,
            None if self.bulk.carries_messages() => self.next,
            None => Time::NEVER,
        }
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        if self.bulk.carries_messages() {
            self.catch_up(now);
            self.look_ahead(now);
        }
        self.bulk.take_notices(notices);
    }

    fn steps(&self) -> u64 {
        Cluster::steps(self)
    }

    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Channel for Cluster {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        Cluster::run(self, until, halt)
    }

    fn backlog(&self) -> u64 {
        self.bulk.backlog()
    }

    fn in_flight(&self) -> u64 {
        self.bulk.in_flight()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.bulk.observations)
    }

    fn into_observations(self) -> Observations {
        self.bulk.into_observations()
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        Cluster::counters(self, until)
    }

    fn broken_order(&self) -> Option<String> {
        self.broken_schedule()
    }

    fn record_trace(&mut self) {
        Cluster::record_trace(self);
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let (mut trace, quick) = self.take_traces();
        trace.extend(quick);
        trace.sort_by_key(|entry| entry.time);
        trace
    }
}

impl Cluster {
    /// Lets everything due by `until` happen.
    fn catch_up(&mut self, until: Time) {
        if !self.started {
            self.start();
        }
        loop {
            let next = self.queue.next_time().unwrap_or(Time::NEVER);
            if self.step_signalling(next.min(until)) {
                continue;
            }
            let Some((now, event)) = self.queue.pop_until(until) else { return };
            self.steps += 1;
            self.handle(now, event);
        }
    }

    /// All that is due by `now` has happened, or is about to in this instant: when is the next?
    fn look_ahead(&mut self, now: Time) {
        let own = self.queue.next_time().unwrap_or(Time::NEVER);
        // The channel that carries the signalling is asked as of the instant before, up to which all has been
        // heard. Before the first one there is none.
        let signalling = match (&mut self.signalling, now.0.checked_sub(1)) {
            (None, _) => Time::NEVER,
            (Some(_), None) => Time(1),
            (Some(own), Some(before)) => own.next_time(Time(before)),
        };
        self.next = own.min(signalling);
    }
}
