//! A switch with queues at its inputs whose sets of ports have a number of words that its type says.

mod cells;
mod soon;
mod standing;

use std::collections::VecDeque;

use weft_kernel::Stream;
use weft_units::{Span, Time};

use super::coming::{Arrival, Coming};
use super::inputs::Levels;
use super::{Grant, InputQueuedParts, Outbox};
use crate::link::MOST_CHANNELS;
use crate::scheduler::{AnyScheduler, Matcher, Matching, PortSet, Requests, Scheduler};
use crate::switch::Chain;

/// The virtual channels of a cable as the bits of a number.
type Lanes = u16;

const _: () = assert!(MOST_CHANNELS <= Lanes::BITS);

/// A switch with queues at its inputs, of up to 64 `W` ports. Functions without a comment are those of
/// [`InputQueued`](super::InputQueued).
///
/// In this order in memory: what every edge reads stands together, before the tables of the scheduler, so that
/// [few lines of the cache](Self::HEAD) have all of it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct InputQueuedOf<const W: usize> {
    ports: u32,
    channels: u32,
    latency: Span,
    slot: Span,
    /// The edge at which the switch next takes part, as last announced.
    due: Time,
    /// The inputs that hold packets which can be decided on.
    busy: PortSet<W>,
    /// The inputs that a packet leaves, and the outputs that it leaves by. Where a packet is one
    /// cell, they never are at an edge.
    held: (PortSet<W>, PortSet<W>),
    /// The outputs that the far end has stopped.
    stopped: PortSet<W>,
    /// The outputs that have no credit on one of their virtual channels or more.
    without_credit: PortSet<W>,
    /// The virtual channels of which packets in an input wait for an output, by input and output, and those
    /// without credit, by output; a bit each. Not kept if there is one channel, since `wanted` and `without_credit`
    /// say the same.
    lanes: Box<[Lanes]>,
    shut_lanes: Box<[Lanes]>,
    /// By input, output and virtual channel.
    queues: Box<[Chain]>,
    /// In a switch that decides together with others, by input and output: the packet that waits there alone, if any
    /// waits; only where there are several virtual channels.
    alone: Box<[u32]>,
    /// Packets that are travelling to each input or from it to the scheduler.
    coming: Coming<W>,
    /// Packets that have chosen their output and arrive more slowly than they leave, by edge.
    late: VecDeque<Late>,
    /// Packets that have chosen each output and have not left.
    waiting: Box<[u32]>,
    /// The virtual channel by which a packet left each output last.
    turns: Box<[u8]>,
    holds: Box<[u64]>,
    spans: Box<[Span]>,
    /// The input of the packet that leaves by each output, and until when.
    leaving: Box<[(u32, Time)]>,
    levels: Levels,
    /// Which inputs have packets for which outputs, on any virtual channel.
    wanted: Requests<W>,
    matching: Matching<W>,
    scheduler: AnyScheduler<W>,
    random: Stream,
    /// The part of `wanted` that may leave, if not all of it may; empty between two edges.
    open: Requests<W>,
}

/// A switch of up to 64 ports, as one of those that decide in lockstep.
pub(crate) type CellSwitch = InputQueuedOf<1>;

/// A packet that can be decided on from `edge` on.
#[derive(Clone, Copy, Debug)]
struct Late {
    edge: Time,
    place: Grant,
}

impl<const W: usize> InputQueuedOf<W> {
    pub fn new(parts: InputQueuedParts, matcher: Matcher<W>) -> InputQueuedOf<W> {
        let InputQueuedParts { latency, slot, holds, channels, .. } = parts;
        let (ports, lots) = (holds.len(), holds.len() * usize::from(channels));
        InputQueuedOf {
            ports: ports as u32,
            channels: channels.into(),
            latency,
            slot,
            due: Time::NEVER,
            busy: PortSet::EMPTY,
            held: (PortSet::EMPTY, PortSet::EMPTY),
            stopped: PortSet::EMPTY,
            without_credit: PortSet::EMPTY,
            lanes: vec![0; if channels == 1 { 0 } else { ports * ports }].into(),
            shut_lanes: vec![0; if channels == 1 { 0 } else { ports }].into(),
            queues: vec![Chain::EMPTY; ports * lots].into(),
            alone: Box::default(),
            coming: Coming::new(ports),
            late: VecDeque::new(),
            waiting: vec![0; ports].into(),
            turns: vec![0; ports].into(),
            leaving: vec![(0, Time::ZERO); ports].into(),
            holds: holds.into(),
            spans: parts.spans.into(),
            levels: Levels::new(ports, parts.stops),
            wanted: matcher.requests,
            matching: matcher.matching,
            scheduler: matcher.scheduler,
            random: parts.random,
            open: Requests::new(ports),
        }
    }

    /// The first edge of the clock at a time or after it.
    #[inline]
    fn edge_from(&self, time: Time) -> Time {
        Time(time.0.div_ceil(self.slot.0) * self.slot.0)
    }

    /// The switch must take part at an edge. Returns whether the clock must be told.
    #[inline]
    fn attend(&mut self, edge: Time) -> Option<Time> {
        let is_sooner = edge < self.due;
        if is_sooner {
            self.due = edge;
        }
        is_sooner.then_some(edge)
    }

    #[inline(always)]
    pub fn expect(&mut self, arrival: Time, packet: u32, input: u32) -> Option<Time> {
        let ready = arrival + self.latency;
        let is_first = self.coming.push(input as usize, Arrival { ready, packet });
        if is_first { self.attend(self.edge_from(ready)) } else { None }
    }

    #[inline]
    pub fn edge(
        &mut self,
        now: Time,
        behind: &mut [u32],
        outbox: &mut Outbox,
        choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        if now != self.due {
            return;
        }
        self.due = Time::NEVER;
        if !self.held.1.is_empty() {
            self.end_transmissions(now);
        }
        if !self.late.is_empty() {
            self.admit_late(now, behind, outbox);
        }
        if self.coming.soonest() <= now {
            self.admit_all(now, behind, outbox, choose);
        }
        if self.busy.is_empty() {
            return;
        }
        let (outputs, lone) = if self.is_open() { self.choose_any() } else { self.choose_open() };
        for output in outputs {
            let input = lone.unwrap_or_else(|| self.matching.partner(output));
            self.pass(now, (input, output), behind, outbox);
        }
    }

    /// Packets that can be decided on from now on choose their outputs.
    #[inline]
    fn admit_all(
        &mut self,
        now: Time,
        behind: &mut [u32],
        outbox: &mut Outbox,
        mut choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        let mut soonest = Time::NEVER;
        for input in self.coming.inputs() {
            let mut first = self.coming.ready(input);
            while first <= now {
                let ready = first;
                let packet;
                (packet, first) = self.coming.pop(input);
                let (output, channel) = choose(packet, &self.waiting);
                self.waiting[output as usize] += 1;
                let place = Grant { packet, input: input as u16, output: output as u16, channel };
                let ready = ready + self.lag(input, output as usize);
                if ready > now {
                    self.delay(ready, place);
                } else if outbox.fetches_ahead {
                    self.prefetch_queue(&place);
                    outbox.joining.push(place);
                } else {
                    self.admit(&place, behind, outbox);
                }
            }
            soonest = soonest.min(first);
        }
        self.coming.set_soonest(soonest);
        if !outbox.joining.is_empty() {
            self.admit_joining(behind, outbox);
        }
    }

    /// Packets join the queues of the outputs that they have chosen.
    #[inline(never)]
    fn admit_joining(&mut self, behind: &mut [u32], outbox: &mut Outbox) {
        let mut joining = std::mem::take(&mut outbox.joining);
        for place in joining.drain(..) {
            self.admit(&place, behind, outbox);
        }
        outbox.joining = joining;
    }

    /// Packets that chose their outputs before join their queues.
    #[inline(never)]
    fn admit_late(&mut self, now: Time, behind: &mut [u32], outbox: &mut Outbox) {
        while let Some(late) = self.late.front().filter(|late| late.edge <= now) {
            let place = late.place;
            self.late.pop_front();
            self.admit(&place, behind, outbox);
        }
    }

    /// By how much longer a packet takes to arrive by an input than to leave by an output.
    #[inline]
    fn lag(&self, input: usize, output: usize) -> Span {
        match self.spans.is_empty() {
            true => Span::ZERO,
            false => Span(self.spans[input].0.saturating_sub(self.spans[output].0)),
        }
    }

    /// A packet can be decided on later.
    #[cold]
    fn delay(&mut self, ready: Time, place: Grant) {
        let edge = self.edge_from(ready);
        let behind = self.late.partition_point(|late| late.edge <= edge);
        self.late.insert(behind, Late { edge, place });
    }

    /// Whether every packet that waits may leave.
    #[inline]
    fn is_open(&self) -> bool {
        (self.without_credit | self.held.1 | self.stopped).is_empty()
    }

    /// Outputs whose packet has ended, and the inputs from which it came.
    #[inline]
    fn end_transmissions(&mut self, now: Time) {
        for output in self.held.1 {
            let (input, end) = self.leaving[output];
            if end <= now {
                self.held.0.remove(input as usize);
                self.held.1.remove(output);
            }
        }
    }

    /// A packet joins the queue of its output.
    #[inline(always)]
    fn admit(&mut self, place: &Grant, behind: &mut [u32], outbox: &mut Outbox) {
        let Grant { packet, input, output, channel } = *place;
        let queue = self.queue(input.into(), output.into(), channel.into());
        if self.levels.may_stop() {
            self.levels.count_in(input, outbox);
        }
        let (input, output) = (usize::from(input), usize::from(output));
        if self.channels > 1 {
            self.lanes[input * self.ports as usize + output] |= 1 << channel;
        }
        if self.queues[queue].push(packet, behind) {
            self.wanted.set(input, output);
            self.busy.insert(input);
        }
    }

    #[inline]
    fn queue(&self, input: u32, output: u32, channel: u32) -> usize {
        ((input * self.ports + output) * self.channels + channel) as usize
    }

    /// The outputs for which an input has packets that may leave.
    #[inline]
    fn row(&self, input: usize) -> PortSet<W> {
        let mut row = self.wanted.row(input) - (self.held.1 | self.stopped);
        if self.channels == 1 {
            return row - self.without_credit;
        }
        let own = input * self.ports as usize;
        for output in row & self.without_credit {
            if self.lanes[own + output] & !self.shut_lanes[output] == 0 {
                row.remove(output);
            }
        }
        row
    }

    /// The scheduler chooses among all packets that wait: the outputs by which any leaves, and the
    /// input if there is one alone; otherwise the matching says which it is.
    #[inline]
    fn choose_any(&mut self) -> (PortSet<W>, Option<usize>) {
        if !self.busy.has_several() {
            let input = self.busy.first();
            let row = self.wanted.row(input);
            if !row.has_several() && self.scheduler.schedule_lone(input, row.first()) {
                return (row, Some(input));
            }
        }
        self.scheduler.schedule(&self.wanted, &mut self.random, &mut self.matching);
        (self.matching.matched_targets(), None)
    }

    /// Like [`choose_any`](Self::choose_any), among the packets that may leave.
    fn choose_open(&mut self) -> (PortSet<W>, Option<usize>) {
        let (mut requesting, mut has_several) = (PortSet::<W>::EMPTY, false);
        for input in self.busy - self.held.0 {
            let row = self.row(input);
            if !row.is_empty() {
                self.open.set_row(input, row);
                has_several |= !requesting.is_empty() | row.has_several();
                requesting.insert(input);
            }
        }
        if requesting.is_empty() {
            return (PortSet::EMPTY, None);
        }
        let input = requesting.first();
        let row = self.open.row(input);
        let chosen = if !has_several && self.scheduler.schedule_lone(input, row.first()) {
            (row, Some(input))
        } else {
            self.scheduler.schedule(&self.open, &mut self.random, &mut self.matching);
            (self.matching.matched_targets(), None)
        };
        requesting.into_iter().for_each(|input| self.open.clear_row(input));
        chosen
    }

    /// Lets the oldest packet for an output through.
    #[inline(always)]
    fn pass(
        &mut self,
        now: Time,
        (input, output): (usize, usize),
        behind: &mut [u32],
        outbox: &mut Outbox,
    ) {
        let channel = if self.channels == 1 { 0 } else { self.turn(input, output) };
        let queue = self.queue(input as u32, output as u32, channel.into());
        let own = &mut self.queues[queue];
        let Some(packet) = own.pop(behind) else { return };
        if own.is_empty() {
            self.want_no_more(input, output, channel);
        }
        self.waiting[output] -= 1;
        let hold = self.holds[output];
        if hold > 1 {
            self.held.0.insert(input);
            self.held.1.insert(output);
            self.leaving[output] = (input as u32, now + self.slot * hold);
        }
        let (input, output) = (input as u16, output as u16);
        if self.levels.may_stop() {
            self.levels.count_out(input, outbox);
        }
        outbox.grants.push(Grant { packet, input, output, channel });
    }

    /// An input has no packet of a virtual channel for an output any more.
    #[inline]
    fn want_no_more(&mut self, input: usize, output: usize, channel: u8) {
        if self.channels > 1 {
            let lanes = &mut self.lanes[input * self.ports as usize + output];
            *lanes &= !(1 << channel);
            if *lanes != 0 {
                return;
            }
        }
        self.wanted.clear(input, output);
        if self.wanted.row(input).is_empty() {
            self.busy.remove(input);
        }
    }

    /// The next virtual channel by which a packet of an input may leave by an output after the one
    /// that was served last there.
    #[inline]
    fn turn(&mut self, input: usize, output: usize) -> u8 {
        let lanes = self.lanes[input * self.ports as usize + output] & !self.shut_lanes[output];
        debug_assert!(lanes != 0, "the scheduler chose an input without packets that may leave");
        let later = u32::from(lanes) >> (self.turns[output] + 1);
        let next = match later {
            0 => lanes.trailing_zeros() as u8,
            _ => self.turns[output] + 1 + later.trailing_zeros() as u8,
        };
        self.turns[output] = next;
        next
    }

    #[inline]
    pub fn next_edge(&mut self, now: Time) -> Option<Time> {
        let mut next = self.late.front().map_or(Time::NEVER, |late| late.edge);
        let soonest = self.coming.soonest();
        if soonest < next {
            // Most often that is the next edge, a slot from now.
            let following = now + self.slot;
            let is_next = soonest > now && soonest <= following;
            next = next.min(if is_next { following } else { self.edge_from(soonest) });
        }
        if !self.busy.is_empty() {
            let mut ready = (self.busy - self.held.0).into_iter();
            if self.is_open() || ready.any(|input| !self.row(input).is_empty()) {
                next = now + self.slot;
            } else {
                let ends = self.held.1.into_iter().map(|output| self.leaving[output].1);
                next = ends.fold(next, Time::min);
            }
        }
        self.attend(next)
    }

    pub fn lose_credit(&mut self, output: u32, channel: u8) {
        self.without_credit.insert(output as usize);
        if let Some(lanes) = self.shut_lanes.get_mut(output as usize) {
            *lanes |= 1 << channel;
        }
    }

    pub fn regain_credit(&mut self, now: Time, output: u32, channel: u8) -> Option<Time> {
        self.open(output, channel);
        self.look(now)
    }

    pub fn stop(&mut self, now: Time, output: u32, stops: bool) -> Option<Time> {
        if stops {
            self.stopped.insert(output as usize);
            return None;
        }
        self.stopped.remove(output as usize);
        self.look(now)
    }

    /// Looks at the next edge whether packets may leave now.
    fn look(&mut self, now: Time) -> Option<Time> {
        if self.busy.is_empty() {
            return None;
        }
        self.attend(self.edge_from(now))
    }
}
