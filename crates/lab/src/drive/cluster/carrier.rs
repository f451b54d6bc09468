//! The channels of a cluster under a program: messages in place of sources, on the scheduled channel, on
//! the one that carries its signalling, or on both (see [`Half`](super::Half)).

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::{CarryingChannel, Cluster};
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::trace::TraceEntry;

/// One of the channels of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The scheduled one.
    Bulk,
    /// The one that carries its signalling.
    Quick,
}

/// With all messages on the scheduled channel.
impl Carrier for Cluster {
    fn offer(&mut self, now: Time, message: Message) {
        self.offer_on(Side::Bulk, now, message);
    }

    fn next_time(&self) -> Time {
        self.next_time_on(Side::Bulk)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        self.advance_on(Side::Bulk, now, notices);
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
    /// Takes a message over on one of the channels. Slots in which nothing was under way are caught up
    /// with, since schedulers go on in them.
    pub(super) fn offer_on(&mut self, side: Side, now: Time, message: Message) {
        match now {
            Time::ZERO if !self.started => self.start(),
            Time::ZERO => {}
            _ => self.catch_up(Time(now.0 - 1)),
        }
        let Cluster { bulk, carrying, queue, .. } = self;
        match side {
            Side::Bulk => bulk.offer(now, message, &mut |time, event| queue.push(time, event)),
            Side::Quick => {
                if let Some(carrying) = carrying {
                    carrying.offer(now, message);
                }
            }
        }
        self.look_ahead();
    }

    /// When something happens next that one of the channels has to tell of, or may have.
    pub(super) fn next_time_on(&self, side: Side) -> Time {
        let quick = self.carrying.as_ref();
        let notice = match side {
            Side::Bulk => self.bulk.next_notice(),
            Side::Quick => quick.and_then(CarryingChannel::next_notice),
        };
        match notice {
            Some(notice) => notice,
            None if self.carries_messages_on(side) => self.next,
            None => Time::NEVER,
        }
    }

    /// Lets everything due by `now` happen on both channels while one has messages under way, and
    /// appends what there is to know of them.
    pub(super) fn advance_on(&mut self, side: Side, now: Time, notices: &mut Vec<Notice>) {
        if self.carries_messages_on(side) {
            self.catch_up(now);
            self.look_ahead();
        }
        match side {
            Side::Bulk => self.bulk.take_notices(notices),
            Side::Quick => {
                if let Some(carrying) = &mut self.carrying {
                    carrying.take_notices(notices);
                }
            }
        }
    }

    fn carries_messages_on(&self, side: Side) -> bool {
        match side {
            Side::Bulk => self.bulk.carries_messages(),
            Side::Quick => self.carrying.as_ref().is_some_and(CarryingChannel::carries_messages),
        }
    }

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

    /// When does something happen next on either channel?
    fn look_ahead(&mut self) {
        let own = self.queue.next_time().unwrap_or(Time::NEVER);
        let carrying = self.carrying.as_mut().map_or(Time::NEVER, CarryingChannel::next_time);
        self.next = own.min(carrying);
    }
}
