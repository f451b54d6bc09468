//! A switch with queues at its inputs and a scheduler, which works in slots.
//!
//! An input holds packets of each virtual channel up to a limit, in one queue for each output, so
//! that no packet waits behind one for another output (Tamir and Frazier, "High-performance
//! multi-queue buffers for VLSI communication switches", ISCA 1988). At the edges of a clock, a cell
//! apart, the scheduler chooses which inputs send to which outputs. A packet of several cells keeps
//! its input and output until its end, so that it costs one decision however long it is.

mod inputs;
mod standing;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{Bytes, PositiveCount, Span, Time};

use super::Chain;
use crate::scheduler::bits::{Members, only};
use crate::scheduler::{AnyScheduler, Matching, Requests, Scheduler, SchedulerSettings};
use inputs::Inputs;
pub use inputs::StopSettings;

/// A cell switch with queues at its inputs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputQueuedSettings {
    /// From an input to an output of the switch.
    #[serde(default)]
    pub latency: Span,
    /// How the cells of one input wait.
    #[serde(default)]
    pub queues: InputQueues,
    /// The scheduler.
    pub scheduler: SchedulerSettings,
    /// How many cells the queues of one input hold together. Required for fabrics other than
    /// `star`; in a star, queues are unlimited without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<PositiveCount>,
    /// Size of a cell on the wire. A packet takes whole cells; by default a cell is a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Bytes>,
}

/// How the cells of one input wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputQueues {
    /// One queue per output, so that no cell waits behind one for another output.
    #[default]
    Voq,
    /// One queue; only its head is requested from the scheduler.
    Fifo,
}

/// What a switch is built from.
#[derive(Debug)]
pub struct InputQueuedParts {
    /// From a byte at an input to the same byte at a free output.
    pub latency: Span,
    /// From one edge of the clock to the next.
    pub slot: Span,
    /// The number of its first port.
    pub first: u32,
    /// How many slots a packet takes at each port.
    pub holds: Vec<u64>,
    /// How long a packet takes on the link of each port; empty if all are the same.
    pub spans: Vec<Span>,
    /// How many packets of each virtual channel an input holds, if it gives credits.
    pub room: u32,
    /// The largest number of these that an input may hold while its sender certainly has a credit
    /// left.
    pub spare: Vec<u32>,
    /// Virtual channels of each cable.
    pub channels: u8,
    /// When inputs stop their cables, if they do that instead.
    pub stops: Option<StopSettings>,
    /// The scheduler, for as many ports as there are in `holds`.
    pub scheduler: AnyScheduler,
    /// Its random stream.
    pub random: Stream,
}

/// A switch with queues at its inputs.
#[derive(Debug)]
pub struct InputQueued {
    ports: u32,
    channels: u32,
    first: u32,
    latency: Span,
    slot: Span,
    /// The edge at which the switch next takes part, as last announced.
    due: Time,
    /// The inputs that hold packets which can be decided on.
    busy: u64,
    /// The inputs that a packet leaves, and the outputs that it leaves by. Where a packet is one
    /// cell, they never are at an edge.
    held: (u64, u64),
    /// The outputs that the far end has stopped.
    stopped: u64,
    /// Packets that can be decided on.
    queued: u32,
    /// How many bits of `without_credit` are set.
    credits_missing: u32,
    /// Which inputs have packets for which outputs, on any virtual channel.
    wanted: Requests,
    matching: Matching,
    /// The outputs for which packets of each virtual channel in each input wait. Not kept if there
    /// is one channel, since `wanted` says the same.
    wanted_by: Box<[u64]>,
    /// The outputs without credit, by virtual channel.
    without_credit: Box<[u64]>,
    /// By input, output and virtual channel.
    queues: Box<[Chain]>,
    /// Packets that are travelling to each input or from it to the scheduler, and when each can be
    /// decided on. An input has one cable, so that they arrive in the order in which they were
    /// sent.
    coming: Box<[VecDeque<(Time, u32)>]>,
    /// The inputs that have any, and when the first of all can be decided on.
    expecting: u64,
    soonest: Time,
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
    inputs: Inputs,
    scheduler: AnyScheduler,
    random: Stream,
    /// The part of `wanted` that may leave, if not all of it may; empty between two edges.
    open: Box<Requests>,
}

/// A packet that can be decided on from `edge` on.
#[derive(Clone, Copy, Debug)]
struct Late {
    edge: Time,
    place: Grant,
}

/// A packet that leaves by an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which.
    pub packet: u32,
    /// The input that it leaves.
    pub input: u8,
    /// The output that it leaves by.
    pub output: u8,
    /// The virtual channel that it leaves by.
    pub channel: u8,
}

/// The effects of an edge.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Packets that leave.
    pub grants: Vec<Grant>,
    /// Inputs that signal their cables to stop, or to go on.
    pub signals: Vec<(u8, bool)>,
    /// An input that was written while it was full.
    pub overrun: Option<u8>,
}

impl InputQueued {
    /// A switch without packets.
    pub fn new(parts: InputQueuedParts) -> InputQueued {
        let InputQueuedParts { first, latency, slot, holds, room, spare, channels, .. } = parts;
        let (ports, lots) = (holds.len(), holds.len() * usize::from(channels));
        InputQueued {
            ports: ports as u32,
            channels: channels.into(),
            first,
            latency,
            slot,
            due: Time::NEVER,
            busy: 0,
            held: (0, 0),
            stopped: 0,
            queued: 0,
            credits_missing: 0,
            wanted: Requests::new(ports),
            matching: Matching::new(ports),
            wanted_by: vec![0; if channels == 1 { 0 } else { lots }].into(),
            without_credit: vec![0; channels.into()].into(),
            queues: vec![Chain::EMPTY; ports * lots].into(),
            coming: vec![VecDeque::new(); ports].into(),
            expecting: 0,
            soonest: Time::NEVER,
            late: VecDeque::new(),
            waiting: vec![0; ports].into(),
            turns: vec![0; ports].into(),
            leaving: vec![(0, Time::ZERO); ports].into(),
            holds: holds.into(),
            spans: parts.spans.into(),
            inputs: Inputs::new((ports, lots), room, spare, parts.stops),
            scheduler: parts.scheduler,
            random: parts.random,
            open: Box::new(Requests::new(ports)),
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

    /// From one edge of its clock to the next.
    pub fn slot(&self) -> Span {
        self.slot
    }

    /// The number of its first port.
    #[inline]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Its ports have other numbers from now on, the first of them this one.
    pub fn move_to(&mut self, first: u32) {
        self.first = first;
    }

    /// A packet is sent to an input, by the virtual channel `came_by`; its first byte will be there
    /// at `arrival`. Returns at which edge the switch takes part, if that is sooner than was known.
    #[inline]
    pub fn expect(
        &mut self,
        arrival: Time,
        packet: u32,
        (input, came_by): (u32, u8),
    ) -> Option<Time> {
        let ready = arrival + self.latency;
        self.inputs.expect((input * self.channels) as usize + usize::from(came_by));
        self.coming[input as usize].push_back((ready, packet));
        self.expecting |= only(input as usize);
        if ready >= self.soonest {
            return None;
        }
        self.soonest = ready;
        self.attend(self.edge_from(ready))
    }

    /// An edge of the clock, unless it was another one that was announced last: what leaves goes into
    /// the outbox, which must be empty. `choose` tells the output of a packet that can be decided on
    /// from now on and the virtual channel there, given how many packets wait for each output.
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
        if self.held.1 != 0 {
            self.end_transmissions(now);
        }
        while let Some(late) = self.late.front().filter(|late| late.edge <= now) {
            let place = late.place;
            self.late.pop_front();
            self.admit(&place, behind, outbox);
        }
        if self.soonest <= now {
            self.admit_all(now, behind, outbox, choose);
        }
        if self.queued == 0 {
            return;
        }
        if self.is_open() {
            self.choose_any(now, behind, outbox);
        } else {
            self.choose_open(now, behind, outbox);
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
        for input in Members(self.expecting) {
            loop {
                let own = &mut self.coming[input];
                let Some(&(ready, packet)) = own.front() else {
                    self.expecting &= !only(input);
                    break;
                };
                if ready > now {
                    soonest = soonest.min(ready);
                    break;
                }
                own.pop_front();
                let (output, channel) = choose(packet, &self.waiting);
                self.waiting[output as usize] += 1;
                let place = Grant { packet, input: input as u8, output: output as u8, channel };
                let ready = ready + self.lag(input, output as usize);
                if ready > now {
                    self.delay(ready, place);
                } else {
                    self.admit(&place, behind, outbox);
                }
            }
        }
        self.soonest = soonest;
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
        self.held.1 | self.stopped | u64::from(self.credits_missing) == 0
    }

    /// Outputs whose packet has ended, and the inputs from which it came.
    fn end_transmissions(&mut self, now: Time) {
        for output in Members(self.held.1) {
            let (input, end) = self.leaving[output];
            if end <= now {
                self.held.0 &= !only(input as usize);
                self.held.1 &= !only(output);
            }
        }
    }

    /// A packet joins the queue of its output.
    #[inline]
    fn admit(&mut self, place: &Grant, behind: &mut [u32], outbox: &mut Outbox) {
        let Grant { packet, input, output, channel } = *place;
        let queue = self.queue(input.into(), output.into(), channel.into());
        if self.queues[queue].push(packet, behind) {
            let (input, output) = (usize::from(input), usize::from(output));
            self.wanted.set(input, output);
            self.busy |= only(input);
            if self.channels > 1 {
                let lot = input * self.channels as usize + usize::from(channel);
                self.wanted_by[lot] |= only(output);
            }
        }
        self.queued += 1;
        if self.inputs.may_stop() {
            self.inputs.count_in(input, outbox);
        }
    }

    #[inline]
    fn queue(&self, input: u32, output: u32, channel: u32) -> usize {
        ((input * self.ports + output) * self.channels + channel) as usize
    }

    /// The outputs for which an input has packets that may leave.
    #[inline]
    fn row(&self, input: usize) -> u64 {
        let shut = self.held.1 | self.stopped;
        if self.channels == 1 {
            return self.wanted.row(input) & !(shut | self.without_credit[0]);
        }
        let own = input * self.channels as usize;
        let lots = self.wanted_by[own..].iter().zip(&self.without_credit);
        lots.fold(0, |row, (wanted, without_credit)| row | wanted & !without_credit) & !shut
    }

    /// The scheduler chooses among all packets that wait.
    #[inline]
    fn choose_any(&mut self, now: Time, behind: &mut [u32], outbox: &mut Outbox) {
        if self.busy & (self.busy - 1) == 0 {
            let input = self.busy.trailing_zeros() as usize;
            let row = self.wanted.row(input);
            let output = row.trailing_zeros() as usize;
            if row & (row - 1) == 0 && self.scheduler.schedule_lone(input, output) {
                return self.pass(now, (input, output), behind, outbox);
            }
        }
        self.scheduler.schedule(&self.wanted, &mut self.random, &mut self.matching);
        self.pass_matching(now, behind, outbox);
    }

    /// The scheduler chooses among the packets that may leave.
    fn choose_open(&mut self, now: Time, behind: &mut [u32], outbox: &mut Outbox) {
        let (mut requesting, mut several) = (0_u64, 0_u64);
        for input in Members(self.busy & !self.held.0) {
            let row = self.row(input);
            if row != 0 {
                self.open.set_row(input, row);
                several |= requesting | (row & (row - 1));
                requesting |= only(input);
            }
        }
        if requesting == 0 {
            return;
        }
        let input = requesting.trailing_zeros() as usize;
        let output = self.open.row(input).trailing_zeros() as usize;
        if several == 0 && self.scheduler.schedule_lone(input, output) {
            self.pass(now, (input, output), behind, outbox);
        } else {
            self.scheduler.schedule(&self.open, &mut self.random, &mut self.matching);
            self.pass_matching(now, behind, outbox);
        }
        Members(requesting).for_each(|input| self.open.clear_row(input));
    }

    /// Lets through what the scheduler has chosen.
    #[inline]
    fn pass_matching(&mut self, now: Time, behind: &mut [u32], outbox: &mut Outbox) {
        for output in Members(!self.matching.unmatched_targets() & only_below(self.ports)) {
            if let Some(input) = self.matching.initiator_of(output) {
                self.pass(now, (input, output), behind, outbox);
            }
        }
    }

    /// Lets the oldest packet for an output through.
    #[inline]
    fn pass(
        &mut self,
        now: Time,
        (input, output): (usize, usize),
        behind: &mut [u32],
        outbox: &mut Outbox,
    ) {
        let channel = if self.channels == 1 { 0 } else { self.turn(input, output) };
        let queue = self.queue(input as u32, output as u32, channel.into());
        let Some(packet) = self.queues[queue].pop(behind) else { return };
        if self.queues[queue].is_empty() {
            self.want_no_more(input, output, channel);
        }
        self.queued -= 1;
        self.waiting[output] -= 1;
        let hold = self.holds[output];
        if hold > 1 {
            self.held.0 |= only(input);
            self.held.1 |= only(output);
            self.leaving[output] = (input as u32, now + self.slot * hold);
        }
        let (input, output) = (input as u8, output as u8);
        if self.inputs.may_stop() {
            self.inputs.count_out(input, outbox);
        }
        outbox.grants.push(Grant { packet, input, output, channel });
    }

    /// An input has no packet of a virtual channel for an output any more.
    #[inline]
    fn want_no_more(&mut self, input: usize, output: usize, channel: u8) {
        if self.channels > 1 {
            let own = input * self.channels as usize;
            self.wanted_by[own + usize::from(channel)] &= !only(output);
            let mut lots = self.wanted_by[own..own + self.channels as usize].iter();
            if lots.any(|wanted| wanted & only(output) != 0) {
                return;
            }
        }
        self.wanted.clear(input, output);
        if self.wanted.row(input) == 0 {
            self.busy &= !only(input);
        }
    }

    /// The next virtual channel by which a packet of an input may leave by an output after the one
    /// that was served last there.
    fn turn(&mut self, input: usize, output: usize) -> u8 {
        let (last, channels) = (u32::from(self.turns[output]), self.channels);
        let may_leave = |channel: &u32| {
            let wanted = self.wanted_by[input * channels as usize + *channel as usize];
            wanted & !self.without_credit[*channel as usize] & only(output) != 0
        };
        let mut after = (1..=channels).map(|step| (last + step) % channels);
        let next = after.find(may_leave).unwrap_or_default();
        self.turns[output] = next as u8;
        next as u8
    }

    /// The next edge at which the switch takes part, if it must be announced: when a packet can be
    /// decided on, may leave, or another one has left.
    #[inline]
    pub fn next_edge(&mut self, now: Time) -> Option<Time> {
        let mut next = self.late.front().map_or(Time::NEVER, |late| late.edge);
        if self.soonest < next {
            next = next.min(self.edge_from(self.soonest));
        }
        if self.queued > 0 {
            let ready = self.busy & !self.held.0;
            if self.is_open() || Members(ready).any(|input| self.row(input) != 0) {
                next = now + self.slot;
            } else {
                let ends = Members(self.held.1).map(|output| self.leaving[output].1);
                next = ends.fold(next, Time::min);
            }
        }
        self.attend(next)
    }

    /// A packet that arrived on a virtual channel leaves an input. Returns whether the sender
    /// certainly has another credit until the one for this packet has returned.
    #[inline]
    pub fn release(&mut self, input: u8, came_by: u8) -> bool {
        let lot = usize::from(input) * self.channels as usize + usize::from(came_by);
        self.inputs.release(input, lot)
    }

    /// From now on no credit counts before it is back: [`release`](Self::release) returns false.
    pub fn report_every_credit(&mut self) {
        self.inputs.report_every_credit();
    }

    /// Like the above for one input.
    pub fn report_credits_of(&mut self, input: u32) {
        self.inputs.report_credits_of(input);
    }

    /// From the beginning of a packet at an output to the end of its last slot.
    #[inline]
    pub fn occupation(&self, output: u8) -> Span {
        self.slot * self.holds[usize::from(output)]
    }

    /// The last credit of an output was spent.
    pub fn lose_credit(&mut self, output: u32, channel: u8) {
        self.without_credit[usize::from(channel)] |= only(output as usize);
        self.credits_missing += 1;
    }

    /// The first credit of an output has returned. Returns an edge as [`expect`](Self::expect)
    /// does.
    pub fn regain_credit(&mut self, now: Time, output: u32, channel: u8) -> Option<Time> {
        self.without_credit[usize::from(channel)] &= !only(output as usize);
        self.credits_missing -= 1;
        self.look(now)
    }

    /// The far end of an output stops it, or lets it continue. Returns an edge as
    /// [`expect`](Self::expect) does.
    pub fn stop(&mut self, now: Time, output: u32, stops: bool) -> Option<Time> {
        if stops {
            self.stopped |= only(output as usize);
            return None;
        }
        self.stopped &= !only(output as usize);
        self.look(now)
    }

    /// Looks at the next edge whether packets may leave now.
    fn look(&mut self, now: Time) -> Option<Time> {
        if self.queued == 0 {
            return None;
        }
        self.attend(self.edge_from(now))
    }
}

/// The ports below a number of 1 to 64.
#[inline]
fn only_below(ports: u32) -> u64 {
    !0 >> (64 - ports)
}
