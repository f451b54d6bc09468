//! A cell switch with unlimited queues at its outputs, in slots: the bound that no other switch
//! goes below, and a law to hold the others against.

use std::collections::VecDeque;

use weft_fabric::measure::{Observations, Stage};
use weft_fabric::workload::Source;
use weft_units::{Bytes, Time};

use super::ends::Ends;
use super::{SlotTiming, Slots, Slotted};

/// A channel around an output-queued cell switch.
pub type OutputQueuedChannel = Slotted<OutputQueues>;

/// Every cell that arrives by the start of a slot is in the queue of its output; each output sends
/// the oldest cell of its queue per slot.
#[derive(Debug)]
pub struct OutputQueues {
    /// Origin and generation time of the cells that wait, by output.
    queues: Vec<VecDeque<(u16, Time)>>,
}

impl OutputQueuedChannel {
    /// A channel of `ports` hosts at time zero; `sources` holds one element per host or none.
    /// Cells are looked at when a slot begins: `lead` of `timing` is zero, `release` is not read.
    pub fn new(
        ports: usize,
        timing: SlotTiming,
        payload: Bytes,
        sources: Vec<Source>,
        observations: Observations,
    ) -> OutputQueuedChannel {
        let queues = OutputQueues { queues: vec![VecDeque::new(); ports] };
        Slotted::around(queues, timing, payload, sources, observations)
    }
}

impl Slots for OutputQueues {
    fn hosts(&self) -> usize {
        self.queues.len()
    }

    /// Cells of one slot enter in an order that rotates, so that no host is always first.
    fn accept(&mut self, now: Time, slot: u64, ends: &mut Ends) {
        let first = (slot % self.queues.len() as u64) as usize;
        ends.take(now, first, |host, demand| {
            if let Some(demand) = demand {
                self.queues[usize::from(demand.target)].push_back((host as u16, demand.time));
            }
            false
        });
    }

    fn transmit(&mut self, start: Time, timing: &SlotTiming, ends: &mut Ends) {
        for (output, queue) in self.queues.iter_mut().enumerate() {
            let Some((host, generated)) = queue.pop_front() else { continue };
            ends.observations.spend(Stage::SwitchWait, start, start.since(generated));
            ends.send(start, (usize::from(host), output), generated, timing);
        }
    }

    fn backlog(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }
}
