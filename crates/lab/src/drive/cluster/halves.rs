//! The two channels of a cluster as two carriers, for a program that sends over both: they stay one
//! simulation, so that messages of the one meet the signalling of the other.

use std::cell::RefCell;
use std::rc::Rc;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::Cluster;
use super::carrier::Side;
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::trace::TraceEntry;

/// One of the two channels of a cluster.
///
/// Whoever drives both lets neither be later than the other: each instant at which either has
/// something to tell of comes to both before a later one does. What was observed is handed out once
/// for each of them and counters stay, so that either may end first.
#[derive(Debug)]
pub struct Half {
    cluster: Rc<RefCell<Cluster>>,
    side: Side,
}

impl Half {
    /// The scheduled channel of a cluster, and the one that carries its signalling; only the former
    /// if that is ideal.
    pub fn both(cluster: Cluster) -> (Half, Option<Half>) {
        let is_carried = cluster.carrying.is_some();
        let cluster = Rc::new(RefCell::new(cluster));
        let quick = is_carried.then(|| Half { cluster: Rc::clone(&cluster), side: Side::Quick });
        (Half { cluster, side: Side::Bulk }, quick)
    }
}

impl Carrier for Half {
    fn offer(&mut self, now: Time, message: Message) {
        self.cluster.borrow_mut().offer_on(self.side, now, message);
    }

    fn next_time(&self) -> Time {
        self.cluster.borrow().next_time_on(self.side)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        self.cluster.borrow_mut().advance_on(self.side, now, notices);
    }

    fn steps(&self) -> u64 {
        let cluster = self.cluster.borrow();
        match self.side {
            Side::Bulk => cluster.steps,
            Side::Quick => cluster.quick().map_or(0, |quick| quick.steps()),
        }
    }

    fn waiting(&self) -> Vec<String> {
        let cluster = self.cluster.borrow();
        match self.side {
            Side::Bulk => Vec::new(),
            Side::Quick => cluster.quick().map_or(Vec::new(), |quick| quick.waiting()),
        }
    }
}

impl Channel for Half {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.cluster.borrow_mut().run(until, halt)
    }

    fn backlog(&self) -> u64 {
        let cluster = self.cluster.borrow();
        match self.side {
            Side::Bulk => cluster.bulk.backlog(),
            Side::Quick => cluster.quick().map_or(0, |quick| quick.backlog()),
        }
    }

    fn in_flight(&self) -> u64 {
        let cluster = self.cluster.borrow();
        match self.side {
            Side::Bulk => cluster.bulk.in_flight(),
            Side::Quick => cluster.quick().map_or(0, |quick| quick.in_flight()),
        }
    }

    /// None, since it would be of the cluster that both share.
    fn observations_mut(&mut self) -> Option<&mut Observations> {
        None
    }

    fn into_observations(self) -> Observations {
        let mut cluster = self.cluster.borrow_mut();
        let Cluster { bulk, carrying, .. } = &mut *cluster;
        match (self.side, carrying) {
            (Side::Bulk, _) => std::mem::take(&mut bulk.observations),
            (Side::Quick, Some(own)) => own.channel_mut().take_observations(),
            (Side::Quick, None) => Observations::default(),
        }
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let cluster = self.cluster.borrow();
        match self.side {
            Side::Bulk => cluster.counters(until),
            Side::Quick => cluster.quick().map_or(Vec::new(), |quick| quick.counters(until)),
        }
    }

    fn broken_order(&self) -> Option<String> {
        self.cluster.borrow().broken_schedule()
    }

    fn record_trace(&mut self) {
        let mut cluster = self.cluster.borrow_mut();
        let Cluster { bulk, carrying, .. } = &mut *cluster;
        match (self.side, carrying) {
            (Side::Bulk, _) => bulk.record_trace(),
            (Side::Quick, Some(own)) => own.record_trace(),
            (Side::Quick, None) => {}
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let mut cluster = self.cluster.borrow_mut();
        let Cluster { bulk, carrying, .. } = &mut *cluster;
        match (self.side, carrying) {
            (Side::Bulk, _) => bulk.take_trace(),
            (Side::Quick, Some(own)) => own.take_trace(),
            (Side::Quick, None) => Vec::new(),
        }
    }
}
