//! A switch that decides in lockstep with others, each of whose packets is one cell: the graph says which packets
//! come, and takes them when they leave.

use weft_kernel::{prefetch, prefetch_first};
use weft_units::{Span, Time};

use super::{CellSwitch, Chain, Coming, InputQueuedOf};
use crate::scheduler::PortSet;

/// In place of a packet that is alone between an input and an output: packets there are in their queues.
pub(super) const SEVERAL: u32 = u32::MAX;

impl CellSwitch {
    /// Whether no packet keeps its output for longer than a slot, or is ready for it later than another one, and no
    /// far end stops an output; and nothing has happened yet.
    pub fn works_in_cells(&self) -> bool {
        let is_short = self.holds.iter().all(|slots| *slots == 1) && self.spans.is_empty();
        is_short && !self.levels.may_stop() && self.due == Time::NEVER
    }

    /// The same without the packets on its cables, of which there are none.
    pub fn without_cables(self) -> CellSwitch {
        let alone = vec![SEVERAL; self.lanes.len()].into();
        InputQueuedOf { coming: Coming::new(0), alone, ..self }
    }

    /// Prefetches what every edge reads.
    #[inline]
    pub fn prefetch_head(&self) {
        prefetch_first(self, CellSwitch::HEAD);
    }

    /// Packets that have chosen each output and have not left.
    #[inline]
    pub fn waiting_by_output(&self) -> &[u32] {
        &self.waiting
    }

    /// The inputs that hold packets.
    #[inline]
    pub fn busy(&self) -> PortSet<1> {
        self.busy
    }

    /// A packet that can be decided on from now on joins the queue of an output on a virtual channel.
    #[inline(always)]
    pub fn join(
        &mut self,
        packet: u32,
        input: usize,
        (output, channel): (u32, u8),
        behind: &mut [u32],
    ) {
        let queue = self.queue(input as u32, output, channel.into());
        let output = output as usize;
        self.waiting[output] += 1;
        // Bits tell whether others wait, so that nothing depends on what is read of the queue, which may be far away in
        // memory.
        if self.channels > 1 {
            return self.join_lane(packet, (input, output, channel), queue, behind);
        }
        if self.wanted.contains(input, output) {
            self.queues[queue].push(packet, behind);
            return;
        }
        self.queues[queue] = Chain::of_one(packet);
        self.wanted.set(input, output);
        self.busy.insert(input);
    }

    /// The same where there are several virtual channels. Of packets that are alone between an input and an output,
    /// whichever their virtual channel, there is a smaller table, since most are and queues are many.
    #[inline(always)]
    fn join_lane(
        &mut self,
        packet: u32,
        (input, output, channel): (usize, usize, u8),
        queue: usize,
        behind: &mut [u32],
    ) {
        let pair = input * self.ports as usize + output;
        let lanes = self.lanes[pair];
        self.lanes[pair] = lanes | 1 << channel;
        if lanes == 0 {
            self.alone[pair] = packet;
            self.wanted.set(input, output);
            self.busy.insert(input);
            return;
        }
        let first = std::mem::replace(&mut self.alone[pair], SEVERAL);
        if first != SEVERAL {
            let lane = lanes.trailing_zeros() as usize;
            self.queues[pair * self.channels as usize + lane] = Chain::of_one(first);
        }
        match lanes >> channel & 1 == 0 {
            true => self.queues[queue] = Chain::of_one(packet),
            false => _ = self.queues[queue].push(packet, behind),
        }
    }

    /// Prefetches what tells whether packets of an input wait.
    #[inline]
    pub fn prefetch_lanes(&self, input: usize) {
        prefetch(&self.lanes, input * self.ports as usize);
    }

    /// The scheduler chooses among the packets that may leave: the outputs by which any does, and the input if there
    /// is one alone; otherwise [`partner`](Self::partner) tells it.
    #[inline(always)]
    pub fn choose(&mut self) -> (PortSet<1>, Option<usize>) {
        if self.without_credit.is_empty() { self.choose_any() } else { self.choose_open() }
    }

    /// The input that the scheduler has chosen for an output.
    #[inline(always)]
    pub fn partner(&self, output: usize) -> usize {
        self.matching.partner(output)
    }

    /// The oldest packet of an input for an output leaves, by the virtual channel whose turn it is.
    #[inline(always)]
    pub fn take(&mut self, input: usize, output: usize, behind: &[u32]) -> Option<(u32, u8)> {
        let mut channel = 0;
        if self.channels > 1 {
            channel = self.turn(input, output);
            let first = self.alone[input * self.ports as usize + output];
            if first != SEVERAL {
                self.want_no_more(input, output, channel);
                self.waiting[output] -= 1;
                return Some((first, channel));
            }
        }
        let queue = self.queue(input as u32, output as u32, channel.into());
        let own = &mut self.queues[queue];
        let packet = own.pop(behind)?;
        if own.is_empty() {
            self.want_no_more(input, output, channel);
        }
        self.waiting[output] -= 1;
        Some((packet, channel))
    }

    /// Whether a packet may leave at the next edge of those that wait now.
    #[inline(always)]
    pub fn may_go_on(&self) -> bool {
        !self.busy.is_empty() && (self.without_credit.is_empty() || self.has_open())
    }

    #[inline(never)]
    fn has_open(&self) -> bool {
        self.busy.into_iter().any(|input| !self.row(input).is_empty())
    }
}

impl<const W: usize> InputQueuedOf<W> {
    /// From the first byte at an input until a packet can be decided on.
    pub fn latency(&self) -> Span {
        self.latency
    }

    /// The first credit of an output has returned; nothing is announced.
    pub fn open(&mut self, output: u32, channel: u8) {
        let mut is_shut = false;
        if let Some(lanes) = self.shut_lanes.get_mut(output as usize) {
            *lanes &= !(1 << channel);
            is_shut = *lanes != 0;
        }
        if !is_shut {
            self.without_credit.remove(output as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use weft_kernel::Streams;

    use super::*;
    use crate::scheduler::SchedulerSettings;
    use crate::switch::{InputQueued, InputQueuedParts};

    /// Two ports, and virtual channels with room for many packets.
    fn switch(channels: u8) -> CellSwitch {
        let parts = InputQueuedParts {
            latency: Span(5),
            slot: Span(10),
            first: 0,
            holds: vec![1; 2],
            spans: Vec::new(),
            room: 99,
            spare: vec![99; 2],
            channels,
            stops: None,
            random: Streams::new(1).stream("switch", 0),
        };
        let (_, scheduler) = SchedulerSettings::all_defaults().remove(0);
        let own = InputQueued::new(parts, scheduler.arbiter(2).expect("a scheduler for two ports"));
        own.into_cells().expect("a switch whose packets are cells")
    }

    proptest! {
        /// Packets come on each step, or none does, and those that are chosen leave; against a queue for each input,
        /// output and virtual channel.
        #[test]
        fn packets_leave_in_the_order_in_which_they_joined(
            channels in 1_u8..4,
            steps in prop::collection::vec(prop::collection::vec((0_usize..2, 0_u32..2, 0_u8..3), 0..4), 1..40),
        ) {
            let (mut own, mut behind) = (switch(channels), [0; 200]);
            let mut plain = vec![VecDeque::new(); 12];
            let queue = |input: usize, output: usize, channel: u8| (input * 2 + output) * 3 + usize::from(channel);
            let mut packet = 0;
            let idle = vec![Vec::new(); 160];
            for joining in steps.into_iter().chain(idle) {
                for (input, output, channel) in joining {
                    let channel = channel % channels;
                    own.join(packet, input, (output, channel), &mut behind);
                    plain[queue(input, output as usize, channel)].push_back(packet);
                    packet += 1;
                }
                for (output, channel) in [(0, 0), (1, 0), (0, 1), (1, 2)].into_iter().filter(|one| one.1 < channels) {
                    let waits = |input| !plain[queue(input, output as usize, channel)].is_empty();
                    prop_assert_eq!(own.is_wanted(output, channel), waits(0) || waits(1));
                }
                prop_assert_eq!(own.may_go_on(), plain.iter().any(|queue| !queue.is_empty()));
                if !own.may_go_on() {
                    continue;
                }
                let (outputs, lone) = own.choose();
                for output in outputs {
                    let input = lone.unwrap_or_else(|| own.partner(output));
                    let left = own.take(input, output, &behind);
                    let (packet, channel) = left.expect("a packet of those that were chosen");
                    prop_assert_eq!(plain[queue(input, output, channel)].pop_front(), Some(packet));
                }
            }
            prop_assert!(!own.may_go_on(), "packets are left");
        }
    }
}
