//! What the next edge of a switch reads, asked for before it: a large fabric does not fit into the cache, and its
//! switches take part at an edge one after another.

use std::mem::offset_of;

use weft_kernel::{prefetch, prefetch_all};
use weft_units::Time;

use super::InputQueuedOf;
use super::cells::SEVERAL;
use crate::scheduler::Scheduler;
use crate::switch::Grant;

impl<const W: usize> InputQueuedOf<W> {
    /// How many bytes of a switch every edge reads: those before the tables of its scheduler.
    pub const HEAD: usize = offset_of!(Self, wanted);

    pub fn prefetch_tables(&self) {
        self.coming.prefetch();
        prefetch_all(&self.waiting);
        prefetch_all(&self.shut_lanes);
        prefetch(&self.turns, 0);
        prefetch(&self.holds, 0);
        self.wanted.prefetch();
        self.matching.prefetch();
        self.scheduler.prefetch(&self.random);
    }

    pub fn prefetch_input(&self, input: u32) {
        self.coming.prefetch_input(input as usize);
    }

    pub fn prefetch_queues(&self) {
        for input in self.busy {
            for output in self.wanted.row(input) {
                let pair = input * self.ports as usize + output;
                prefetch(&self.lanes, pair);
                match self.alone.is_empty() {
                    true => prefetch(&self.queues, pair * self.channels as usize),
                    false => prefetch(&self.alone, pair),
                }
            }
        }
    }

    #[inline]
    pub fn each_packet(&self, now: Time, mut show: impl FnMut(u32)) {
        self.coming.each_due(now, &mut show);
        for input in self.busy {
            for output in self.wanted.row(input) {
                let pair = input * self.ports as usize + output;
                if let Some(first) = self.alone.get(pair) {
                    match *first {
                        SEVERAL => prefetch(&self.queues, pair * self.channels as usize),
                        packet => show(packet),
                    }
                    continue;
                }
                let channel = self.lanes.get(pair).map_or(0, |lanes| lanes.trailing_zeros());
                let queue = self.queues.get(pair * self.channels as usize + channel as usize);
                if let Some(packet) = queue.and_then(|queue| queue.oldest()) {
                    show(packet);
                }
            }
        }
    }

    /// Prefetches the queue that a packet is going to join.
    #[inline]
    pub(super) fn prefetch_queue(&self, place: &Grant) {
        let Grant { input, output, channel, .. } = *place;
        let queue = self.queue(input.into(), output.into(), channel.into());
        prefetch(&self.queues, queue);
        prefetch(&self.lanes, usize::from(input) * self.ports as usize + usize::from(output));
    }
}
