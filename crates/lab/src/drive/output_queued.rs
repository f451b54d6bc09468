//! A cell switch with unlimited queues at its outputs, in slots: the bound that no other switch
//! goes below, and a law to hold the others against.

use std::collections::VecDeque;

use weft_fabric::measure::{Latency, Observations, Passage, Stage};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped};
use weft_units::{Bytes, Time};

use super::carrier::{Carrier, Message, Notice};
use super::slots::{Arrivals, InFlight, Posted};
use super::slotted::SlotTiming;

/// A channel around an output-queued cell switch. Every cell that arrives by the start of a slot
/// is in the queue of its output; each output sends the oldest cell of its queue per slot.
#[derive(Debug)]
pub struct OutputQueuedChannel {
    timing: SlotTiming,
    payload: Bytes,
    arrivals: Arrivals,
    /// Origin and generation time of the cells that wait, by output.
    queues: Vec<VecDeque<(u16, Time)>>,
    in_flight: InFlight,
    /// What is handed over as messages; absent while cells come from sources.
    posted: Option<Box<Posted>>,
    observations: Observations,
    slots: u64,
}

impl OutputQueuedChannel {
    /// A channel of `ports` hosts at time zero; `sources` holds one element per host or none.
    /// Cells are looked at when a slot begins: `lead` and `release` of `timing` are not read.
    pub fn new(
        ports: usize,
        timing: SlotTiming,
        payload: Bytes,
        sources: Vec<Source>,
        observations: Observations,
    ) -> OutputQueuedChannel {
        OutputQueuedChannel {
            timing,
            payload,
            arrivals: Arrivals::new(sources),
            queues: vec![VecDeque::new(); ports],
            in_flight: InFlight::default(),
            posted: None,
            observations,
            slots: 0,
        }
    }

    /// Runs every slot that begins before `until`; to be called once. Returns why it stopped early,
    /// if it did.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        loop {
            let start = Time(self.slots * self.timing.slot.0);
            if start >= until {
                self.accept(until);
                self.arrive(until);
                return None;
            }
            if let Some(stopped) = halt.check(self.slots) {
                return Some(stopped);
            }
            self.pass(start);
        }
    }

    /// The slot that begins now.
    fn pass(&mut self, start: Time) {
        self.arrive(start);
        self.accept(start);
        self.transmit(start);
        self.slots += 1;
    }

    /// What is observed.
    pub fn observations_mut(&mut self) -> &mut Observations {
        &mut self.observations
    }

    /// What was observed; ends the channel.
    pub fn into_observations(mut self) -> Observations {
        self.timing.spend_on_the_way(&mut self.observations);
        self.observations
    }

    /// Cells whose transmission has not begun.
    pub fn backlog(&self) -> u64 {
        let queued: u64 = self.queues.iter().map(|queue| queue.len() as u64).sum();
        queued + self.posted.as_ref().map_or(0, |posted| posted.waiting())
    }

    /// Cells on their way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.len()
    }

    /// How many slots have passed.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Cells of one slot enter in an order that rotates, so that no host is always first.
    fn accept(&mut self, start: Time) {
        let first = (self.slots % self.queues.len() as u64) as usize;
        let queues = &mut self.queues;
        self.arrivals.take(start, first, &mut self.observations, |host, demand| {
            if let Some(demand) = demand {
                queues[usize::from(demand.target)].push_back((host as u16, demand.time));
            }
            false
        });
        if let Some(posted) = &mut self.posted {
            posted.take(start, first, |host, demand| {
                queues[usize::from(demand.target)].push_back((host as u16, demand.time));
            });
        }
    }

    fn arrive(&mut self, now: Time) {
        self.in_flight.arrive(now, self.payload, &mut self.arrivals, &mut self.observations);
    }

    fn transmit(&mut self, start: Time) {
        let (transit, hosts) = (self.timing.transit(), self.queues.len());
        for (output, queue) in self.queues.iter_mut().enumerate() {
            let Some((host, generated)) = queue.pop_front() else { continue };
            let queueing = start.since(generated);
            self.observations.spend(Stage::SwitchWait, start, queueing);
            self.observations.attempt(start);
            self.observations.latency(Latency::Queueing, start, queueing);
            self.observations.latency(Latency::OneWay, start, queueing + transit);
            let (to, end) = (output as u16, start + transit);
            self.observations.pass(Passage { from: host, to, start, end });
            self.observations.occupy(output, start, self.timing.packet);
            self.observations.occupy(hosts + usize::from(host), start, self.timing.packet);
            self.in_flight.send(usize::from(host), output, end);
            if let Some(posted) = &mut self.posted {
                posted.start(usize::from(host), output, start + self.timing.packet);
            }
        }
    }
}

impl Carrier for OutputQueuedChannel {
    fn offer(&mut self, now: Time, message: Message) {
        let (hosts, payload) = (self.queues.len(), self.payload);
        let posted = self.posted.get_or_insert_with(|| Box::new(Posted::new(hosts, payload)));
        posted.post(now, message, &mut self.observations);
    }

    fn next_time(&self) -> Time {
        let start = Time(self.slots * self.timing.slot.0);
        let posted = self.posted.as_ref();
        posted.map_or(Time::NEVER, |own| own.next_time(&self.in_flight, self.timing.slot, start))
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        loop {
            let start = Time(self.slots * self.timing.slot.0);
            let Some(posted) = &mut self.posted else { return };
            let until = now.min(start);
            posted.tell(until, &mut self.in_flight, self.payload, &mut self.observations);
            if start > now {
                return posted.take_notices(notices);
            }
            self.pass(start);
        }
    }

    fn steps(&self) -> u64 {
        self.slots
    }

    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
}
