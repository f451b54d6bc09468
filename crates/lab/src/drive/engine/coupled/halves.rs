//! Two channels that act together as two carriers, for a program that sends over both: they stay one
//! simulation, so that messages of the one meet the signalling of the other.

use std::cell::RefCell;
use std::rc::Rc;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::Coupled;
use super::carrier::Side;
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::trace::TraceEntry;

/// One of two channels that act together.
///
/// The caller lets neither be later than the other: both reach each instant at which either has a
/// notice before either reaches a later one. Observations are handed out once for each of them and
/// counters stay, so that either may end first.
#[derive(Debug)]
pub struct Half {
    coupled: Rc<RefCell<Coupled>>,
    side: Side,
}

impl Half {
    /// The channel under the schedule, and the one that carries its signalling.
    pub fn both(coupled: Coupled) -> [Half; 2] {
        let coupled = Rc::new(RefCell::new(coupled));
        [Side::Bulk, Side::Quick].map(|side| Half { coupled: Rc::clone(&coupled), side })
    }
}

impl Carrier for Half {
    fn offer(&mut self, now: Time, message: Message) {
        self.coupled.borrow_mut().offer_on(self.side, now, message);
    }

    fn next_time(&self) -> Time {
        self.coupled.borrow().next_time_on(self.side)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        self.coupled.borrow_mut().advance_on(self.side, now, notices);
    }

    fn steps(&self) -> u64 {
        self.coupled.borrow().side(self.side).steps()
    }

    fn waiting(&self) -> Vec<String> {
        self.coupled.borrow().side(self.side).waiting()
    }
}

impl Channel for Half {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.coupled.borrow_mut().run(until, halt)
    }

    fn backlog(&self) -> u64 {
        self.coupled.borrow().side(self.side).backlog()
    }

    fn in_flight(&self) -> u64 {
        self.coupled.borrow().side(self.side).in_flight()
    }

    /// None, since the two channels share the steps.
    fn observations_mut(&mut self) -> Option<&mut Observations> {
        None
    }

    fn into_observations(self) -> Observations {
        self.coupled.borrow_mut().side_mut(self.side).take_observations()
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let coupled = self.coupled.borrow();
        match self.side {
            Side::Bulk => coupled.columns(until),
            Side::Quick => coupled.side(Side::Quick).counters(until),
        }
    }

    fn broken_order(&self) -> Option<String> {
        self.coupled.borrow().broken_schedule()
    }

    fn record_trace(&mut self) {
        let mut coupled = self.coupled.borrow_mut();
        match self.side {
            Side::Bulk => coupled.side_mut(Side::Bulk).record_trace(),
            Side::Quick => coupled.record_quick_trace(),
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let mut coupled = self.coupled.borrow_mut();
        match self.side {
            Side::Bulk => coupled.side_mut(Side::Bulk).take_trace(),
            Side::Quick => coupled.take_quick_trace(),
        }
    }
}
