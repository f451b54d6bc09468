//! The slotted driver: a channel in which all hosts transmit in common time slots, and what happens
//! in a slot costs no event.

mod ends;
mod scheduled;

use weft_fabric::measure::{Observations, Stage};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped};
use weft_units::{Bytes, Span, Time};

use super::Channel;
use super::carrier::{Carrier, Message, Notice};
use ends::Ends;

pub use scheduled::SlottedChannel;

/// The timing of a slotted channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTiming {
    /// From one slot to the next: packet, gap and re-lock.
    pub slot: Span,
    /// How long before the transmissions of a slot its requests are sampled.
    pub lead: Span,
    /// The time of a packet on its link.
    pub packet: Span,
    /// Propagation on all cables of a path.
    pub wire: Span,
    /// From an input to an output of the switch.
    pub switch: Span,
    /// From the start of a transmission until its send buffer is free again.
    pub release: Span,
}

impl SlotTiming {
    /// From the start of a transmission to the arrival of its last byte at the target.
    pub fn transit(&self) -> Span {
        self.packet + self.wire + self.switch
    }

    /// Adds what every packet spends alike once its transmission has begun.
    fn spend_on_the_way(&self, observations: &mut Observations) {
        observations.spend_always(&[
            (Stage::Transmission, self.packet),
            (Stage::Wire, self.wire),
            (Stage::Switch, self.switch),
        ]);
    }
}

/// Where packets wait, and which of them a slot lets through.
pub trait Slots {
    /// How many hosts there are.
    fn hosts(&self) -> usize;

    /// Lets go of what earlier slots held until `now`.
    fn release(&mut self, _now: Time) {}

    /// Takes over what is due by `now`.
    fn accept(&mut self, now: Time, ends: &mut Ends);

    /// Sends what the slot lets through: transmissions begin at `start`.
    fn transmit(&mut self, start: Time, timing: &SlotTiming, ends: &mut Ends);

    /// Packets that wait.
    fn backlog(&self) -> u64;
}

/// A channel in slots.
#[derive(Debug)]
pub struct Slotted<S> {
    timing: SlotTiming,
    switch: S,
    ends: Ends,
    slots: u64,
}

impl<S: Slots> Slotted<S> {
    /// A channel at time zero; `sources` holds one element per host or none.
    fn around(
        switch: S,
        timing: SlotTiming,
        payload: Bytes,
        sources: Vec<Source>,
        observations: Observations,
    ) -> Slotted<S> {
        Slotted { timing, switch, ends: Ends::new(payload, sources, observations), slots: 0 }
    }

    /// When the requests of the next slot are sampled.
    fn sampled(&self) -> Time {
        Time(self.slots * self.timing.slot.0)
    }

    /// One slot, whose requests are sampled now.
    fn pass(&mut self, sampled: Time) {
        self.ends.arrive(sampled);
        self.switch.release(sampled);
        self.switch.accept(sampled, &mut self.ends);
        self.switch.transmit(sampled + self.timing.lead, &self.timing, &mut self.ends);
        self.slots += 1;
    }
}

impl<S: Slots> Channel for Slotted<S> {
    /// Runs every slot whose transmissions begin before `until`.
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        loop {
            let sampled = self.sampled();
            if sampled + self.timing.lead >= until {
                self.switch.accept(until, &mut self.ends);
                self.ends.arrive(until);
                return None;
            }
            if let Some(stopped) = halt.check(self.slots) {
                return Some(stopped);
            }
            self.pass(sampled);
        }
    }

    fn backlog(&self) -> u64 {
        self.switch.backlog() + self.ends.unfed()
    }

    fn in_flight(&self) -> u64 {
        self.ends.in_flight()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.ends.observations)
    }

    fn into_observations(self) -> Observations {
        let mut observations = self.ends.observations;
        self.timing.spend_on_the_way(&mut observations);
        observations
    }
}

impl<S: Slots> Carrier for Slotted<S> {
    fn offer(&mut self, now: Time, message: Message) {
        self.ends.offer(now, message, self.switch.hosts());
    }

    fn next_time(&self) -> Time {
        self.ends.next_time(self.timing.slot, self.sampled())
    }

    /// Slots in which nothing happened are caught up with, since schedulers go on in them.
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while self.ends.carries_messages() {
            let sampled = self.sampled();
            self.ends.tell(now.min(sampled));
            if sampled > now {
                return self.ends.take_notices(notices);
            }
            self.pass(sampled);
        }
    }

    fn steps(&self) -> u64 {
        self.slots
    }

    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
}
