//! Two channels that act together under a program: messages in place of sources, on the one under the
//! schedule, on the one that carries its signalling, or on both (see [`Half`](super::Half)).

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::{Coupled, OfBoth};
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::engine::Engine;
use crate::drive::trace::TraceEntry;

/// One of the two channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The one under the schedule.
    Bulk,
    /// The one that carries its signalling.
    Quick,
}

/// With all messages on the channel under the schedule.
impl Carrier for Coupled {
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
        Coupled::steps(self)
    }

    fn waiting(&self) -> Vec<String> {
        self.bulk.waiting()
    }
}

impl Channel for Coupled {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        Coupled::run(self, until, halt)
    }

    fn backlog(&self) -> u64 {
        self.bulk.backlog()
    }

    fn in_flight(&self) -> u64 {
        self.bulk.in_flight()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        self.bulk.observations_mut()
    }

    fn into_observations(self) -> Observations {
        self.bulk.into_observations()
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        self.columns(until)
    }

    fn broken_order(&self) -> Option<String> {
        self.broken_schedule()
    }

    fn record_trace(&mut self) {
        self.record_traces();
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let OfBoth { bulk: mut trace, quick } = self.take_traces();
        trace.extend(quick);
        trace.sort_by_key(|entry| entry.time);
        trace
    }
}

impl Coupled {
    pub(super) fn side(&self, side: Side) -> &Engine {
        match side {
            Side::Bulk => &self.bulk,
            Side::Quick => &self.quick,
        }
    }

    pub(super) fn side_mut(&mut self, side: Side) -> &mut Engine {
        match side {
            Side::Bulk => &mut self.bulk,
            Side::Quick => &mut self.quick,
        }
    }

    /// Accepts a message on one of the channels. Catches up with slots in which nothing was in flight,
    /// since schedulers advance in them.
    pub(super) fn offer_on(&mut self, side: Side, now: Time, message: Message) {
        if now > Time::ZERO {
            while self.step(Time(now.0 - 1)) {}
        }
        self.side_mut(side).offer_to_adapter(now, message);
        self.look_ahead();
    }

    /// When something happens next of which either channel may have a notice.
    pub(super) fn next_time_on(&self, side: Side) -> Time {
        let own = self.side(side);
        match own.next_notice_of_adapters() {
            Some(notice) => notice,
            None if own.adapters_carry_messages() => self.next,
            None => Time::NEVER,
        }
    }

    /// Processes everything due by `now` on both channels while either has messages in flight, and
    /// appends its notices.
    pub(super) fn advance_on(&mut self, side: Side, now: Time, notices: &mut Vec<Notice>) {
        if self.side(side).adapters_carry_messages() {
            while self.step(now) {}
            self.look_ahead();
        }
        self.side_mut(side).take_notices_of_adapters(notices);
    }

    /// When does something happen next on either channel?
    fn look_ahead(&mut self) {
        self.due = self.bulk.next_with_adapters();
        self.next = self.due.min(self.quick.next_with_adapters());
    }
}
