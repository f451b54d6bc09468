//! The slotted driver: a channel in which all hosts transmit in common time slots.
//!
//! One slot costs one scheduling pass and no event. A globally scheduled channel (Clint's bulk
//! channel, Clint 3.3) and a cell switch with virtual output queues are the same machine here: the
//! first has the queues in its adapters and continuous arrivals, the second has them at the inputs
//! of the switch and arrivals at slot boundaries.

use std::collections::VecDeque;

use weft_fabric::adapter::SendBuffers;
use weft_fabric::measure::{Latency, Observations, Passage, Stage};
use weft_fabric::scheduler::{AnyScheduler, Matching, Requests, Scheduler};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped, Stream};
use weft_units::{Bytes, Span, Time};

use super::carrier::{Carrier, Message, Notice};
use super::slots::{Arrivals, InFlight, Posted};

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
    pub(super) fn spend_on_the_way(&self, observations: &mut Observations) {
        observations.spend_always(&[
            (Stage::Transmission, self.packet),
            (Stage::Wire, self.wire),
            (Stage::Switch, self.switch),
        ]);
    }
}

/// A channel in slots: sources, send buffers, a scheduler.
#[derive(Debug)]
pub struct SlottedChannel {
    timing: SlotTiming,
    payload: Bytes,
    arrivals: Arrivals,
    buffers: Vec<SendBuffers>,
    scheduler: AnyScheduler,
    random: Stream,
    requests: Requests,
    matching: Matching,
    /// Send buffers held by a transmission: when each is free, of which host, for which target.
    held: VecDeque<(Time, u16, u16)>,
    in_flight: InFlight,
    /// What is handed over as messages; absent while packets come from sources.
    posted: Option<Box<Posted>>,
    observations: Observations,
    slots: u64,
}

impl SlottedChannel {
    /// A channel at time zero. `sources` holds one element per host or none, `buffers` one per
    /// host; the scheduler comes with the stream that it may draw from.
    pub fn new(
        timing: SlotTiming,
        payload: Bytes,
        sources: Vec<Source>,
        buffers: Vec<SendBuffers>,
        (scheduler, random): (AnyScheduler, Stream),
        observations: Observations,
    ) -> SlottedChannel {
        let ports = buffers.len();
        SlottedChannel {
            timing,
            payload,
            arrivals: Arrivals::new(sources),
            buffers,
            scheduler,
            random,
            requests: Requests::new(ports),
            matching: Matching::new(ports),
            held: VecDeque::new(),
            in_flight: InFlight::default(),
            posted: None,
            observations,
            slots: 0,
        }
    }

    /// Runs every slot whose transmissions begin before `until`; to be called once. Returns why it
    /// stopped early, if it did.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        loop {
            let sampled = Time(self.slots * self.timing.slot.0);
            let start = sampled + self.timing.lead;
            if start >= until {
                self.accept(until);
                self.arrive(until);
                return None;
            }
            if let Some(stopped) = halt.check(self.slots) {
                return Some(stopped);
            }
            self.pass(sampled);
        }
    }

    /// One slot, whose requests are sampled now.
    fn pass(&mut self, sampled: Time) {
        self.slots += 1;
        self.arrive(sampled);
        self.free_buffers(sampled);
        self.accept(sampled);
        self.scheduler.schedule(&self.requests, &mut self.random, &mut self.matching);
        self.transmit(sampled + self.timing.lead);
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

    /// Packets that were handed over and whose transmission has not begun.
    pub fn backlog(&self) -> u64 {
        let buffered: u64 = self.buffers.iter().map(SendBuffers::backlog).sum();
        buffered + self.posted.as_ref().map_or(0, |posted| posted.waiting())
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.len()
    }

    /// How many slots have been scheduled.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    fn free_buffers(&mut self, sampled: Time) {
        while let Some(&(free_at, host, target)) = self.held.front() {
            if free_at > sampled {
                break;
            }
            self.held.pop_front();
            if let Some(target) =
                self.buffers[usize::from(host)].release(free_at, usize::from(target))
            {
                self.requests.set(usize::from(host), target);
            }
        }
    }

    fn accept(&mut self, sampled: Time) {
        let (buffers, requests) = (&mut self.buffers, &mut self.requests);
        self.arrivals.take(sampled, 0, &mut self.observations, |host, demand| {
            if let Some(target) = demand.and_then(|demand| buffers[host].accept(demand)) {
                requests.set(host, target);
            }
            buffers[host].has_space()
        });
        if let Some(posted) = &mut self.posted {
            posted.take(sampled, 0, |host, demand| {
                if let Some(target) = buffers[host].accept(demand) {
                    requests.set(host, target);
                }
            });
        }
    }

    fn arrive(&mut self, now: Time) {
        self.in_flight.arrive(now, self.payload, &mut self.arrivals, &mut self.observations);
    }

    fn transmit(&mut self, start: Time) {
        let (transit, release) = (self.timing.transit(), self.timing.release);
        for (host, target) in self.matching.iter() {
            let Some((packet, more)) = self.buffers[host].take(target) else { continue };
            if !more {
                self.requests.clear(host, target);
            }
            if self.buffers[host].is_limited() {
                self.held.push_back((start + release, host as u16, target as u16));
            }
            let queueing = start.since(packet.generated);
            self.observations.spend(Stage::BufferWait, start, packet.since.since(packet.generated));
            self.observations.spend(Stage::SlotWait, start, start.since(packet.since));
            self.observations.attempt(start);
            self.observations.latency(Latency::Queueing, start, queueing);
            self.observations.latency(Latency::OneWay, start, queueing + transit);
            let (from, to, end) = (host as u16, target as u16, start + transit);
            self.observations.pass(Passage { from, to, start, end });
            self.observations.occupy(target, start, self.timing.packet);
            self.observations.occupy(self.buffers.len() + host, start, self.timing.packet);
            self.in_flight.send(host, target, end);
            if let Some(posted) = &mut self.posted {
                posted.start(host, target, start + self.timing.packet);
            }
        }
    }
}

impl Carrier for SlottedChannel {
    fn offer(&mut self, now: Time, message: Message) {
        let (hosts, payload) = (self.buffers.len(), self.payload);
        let posted = self.posted.get_or_insert_with(|| Box::new(Posted::new(hosts, payload)));
        posted.post(now, message, &mut self.observations);
    }

    fn next_time(&self) -> Time {
        let sampled = Time(self.slots * self.timing.slot.0);
        let posted = self.posted.as_ref();
        posted.map_or(Time::NEVER, |own| own.next_time(&self.in_flight, self.timing.slot, sampled))
    }

    /// Slots in which nothing happened are caught up with, since schedulers go on in them.
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        loop {
            let sampled = Time(self.slots * self.timing.slot.0);
            let Some(posted) = &mut self.posted else { return };
            let until = now.min(sampled);
            posted.tell(until, &mut self.in_flight, self.payload, &mut self.observations);
            if sampled > now {
                return posted.take_notices(notices);
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
