//! Slots that one scheduler decides on.
//!
//! One slot costs one scheduling pass. A globally scheduled channel (Clint's bulk channel, Clint
//! 3.3) and a cell switch with virtual output queues are the same machine here: the first has the
//! queues in its adapters and continuous arrivals, the second has them at the inputs of the switch
//! and arrivals at slot boundaries.

use std::collections::VecDeque;

use weft_fabric::adapter::SendBuffers;
use weft_fabric::measure::{Observations, Stage};
use weft_fabric::scheduler::{AnyScheduler, Matching, Requests, Scheduler};
use weft_fabric::workload::Source;
use weft_kernel::Stream;
use weft_units::{Bytes, Time};

use super::ends::Ends;
use super::{SlotTiming, Slots, Slotted};

/// A channel in slots: sources, send buffers, a scheduler.
pub type SlottedChannel = Slotted<Scheduled>;

/// Send buffers and the scheduler that reads their requests.
#[derive(Debug)]
pub struct Scheduled {
    buffers: Vec<SendBuffers>,
    scheduler: AnyScheduler,
    random: Stream,
    requests: Requests,
    matching: Matching,
    /// Send buffers held by a transmission: when each is free, of which host, for which target.
    held: VecDeque<(Time, u16, u16)>,
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
        let scheduled = Scheduled {
            buffers,
            scheduler,
            random,
            requests: Requests::new(ports),
            matching: Matching::new(ports),
            held: VecDeque::new(),
        };
        Slotted::around(scheduled, timing, payload, sources, observations)
    }
}

impl Slots for Scheduled {
    fn hosts(&self) -> usize {
        self.buffers.len()
    }

    fn release(&mut self, sampled: Time) {
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

    fn accept(&mut self, now: Time, ends: &mut Ends) {
        let (buffers, requests) = (&mut self.buffers, &mut self.requests);
        ends.take(now, |host, demand| {
            if let Some(target) = demand.and_then(|demand| buffers[host].accept(demand)) {
                requests.set(host, target);
            }
            buffers[host].has_space()
        });
    }

    fn transmit(&mut self, start: Time, timing: &SlotTiming, ends: &mut Ends) {
        self.scheduler.schedule(&self.requests, &mut self.random, &mut self.matching);
        for (host, target) in self.matching.iter() {
            let Some((packet, more)) = self.buffers[host].take(target) else { continue };
            if !more {
                self.requests.clear(host, target);
            }
            if self.buffers[host].is_limited() {
                self.held.push_back((start + timing.release, host as u16, target as u16));
            }
            let (buffered, asked) = (packet.since.since(packet.generated), packet.since);
            ends.observations.spend(Stage::BufferWait, start, buffered);
            ends.observations.spend(Stage::SlotWait, start, start.since(asked));
            ends.send(start, (host, target), packet.generated, timing);
        }
    }

    fn backlog(&self) -> u64 {
        self.buffers.iter().map(SendBuffers::backlog).sum()
    }
}
