//! A switch with queues at its inputs and a scheduler, which works in slots.
//!
//! An input holds packets of each virtual channel up to a limit, in one queue for each output, so
//! that no packet waits behind one for another output (Tamir and Frazier, "High-performance
//! multi-queue buffers for VLSI communication switches", ISCA 1988). At the edges of a clock, a cell
//! apart, the scheduler chooses which inputs send to which outputs. A packet of several cells keeps
//! its input and output until its end, so that it costs one decision however long it is. The parts of a
//! hub may stand in the place of all this, a [bus] or a [crossbar](fifo_crossbar), which need no slots.

mod bus;
mod coming;
mod fifo_crossbar;
mod hubs;
mod inputs;
mod sized;

use std::mem::offset_of;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Stream, prefetch_first};
use weft_units::{Bytes, PositiveCount, Span, Time};

use crate::scheduler::{Arbiter, SchedulerSettings};
use bus::Bus;
pub use bus::BusParts;
use fifo_crossbar::FifoCrossbar;
pub use fifo_crossbar::FifoCrossbarParts;
use inputs::Inputs;
pub use inputs::StopSettings;
pub(crate) use sized::CellSwitch;
use sized::InputQueuedOf;

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
    /// The random stream of the scheduler.
    pub random: Stream,
}

/// A switch with queues at its inputs. In this order in memory, from the beginning of a line of the cache on: what
/// every edge reads comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct InputQueued {
    first: u32,
    slot: Span,
    /// From a decision to the first byte at the output.
    lead: Span,
    /// From a decision for each output to the end of the last slot of the packet.
    occupations: Box<[Span]>,
    inputs: Inputs,
    size: Size,
}

/// What depends on sets of ports, with as many as the switch needs.
#[allow(clippy::large_enum_variant, reason = "nearly all are narrow, and none moves while it runs")]
#[derive(Debug)]
#[repr(C)]
enum Size {
    Narrow(InputQueuedOf<1>),
    Wide(Box<InputQueuedOf<4>>),
    Widest(Box<InputQueuedOf<16>>),
    /// Any number, on a bus.
    Bus(Box<Bus>),
    /// Those of a hub with a crossbar.
    Hub(Box<FifoCrossbar>),
}

/// The same for each size.
macro_rules! of_any_size {
    ($switch:expr, $own:ident => $result:expr) => {
        match $switch {
            Size::Narrow($own) => $result,
            Size::Wide($own) => $result,
            Size::Widest($own) => $result,
            Size::Bus($own) => $result,
            Size::Hub($own) => $result,
        }
    };
}

/// The same for each size of a switch with a scheduler; nothing for the others.
macro_rules! of_any_queues {
    ($switch:expr, $own:ident => $result:expr) => {
        match $switch {
            Size::Narrow($own) => $result,
            Size::Wide($own) => $result,
            Size::Widest($own) => $result,
            Size::Bus(_) | Size::Hub(_) => {}
        }
    };
}

// What most switches are is inlined where it is used; the others cost a call there.
impl Size {
    #[inline(never)]
    fn expect(&mut self, arrival: Time, packet: u32, input: u32) -> Option<Time> {
        of_any_size!(self, own => own.expect(arrival, packet, input))
    }

    #[inline(never)]
    fn edge(
        &mut self,
        now: Time,
        behind: &mut [u32],
        outbox: &mut Outbox,
        choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        of_any_size!(self, own => own.edge(now, behind, outbox, choose));
    }
}

/// How many bytes a switch has before the tables of its scheduler; the tag of its size, and what aligns that, take
/// less than 64 of them.
const HEAD: usize = offset_of!(InputQueued, size) + InputQueuedOf::<1>::HEAD + 64;

impl InputQueued {
    /// A switch without packets. The arbiter is for as many ports as there are in `holds`.
    pub fn new(mut parts: InputQueuedParts, arbiter: Arbiter) -> InputQueued {
        let InputQueuedParts { first, slot, room, channels, .. } = parts;
        let spare = std::mem::take(&mut parts.spare);
        InputQueued {
            first,
            slot,
            lead: Span::ZERO,
            occupations: parts.holds.iter().map(|hold| slot * *hold).collect(),
            inputs: Inputs::new(channels, room, spare),
            size: match arbiter {
                Arbiter::Narrow(own) => Size::Narrow(InputQueuedOf::new(parts, *own)),
                Arbiter::Wide(own) => Size::Wide(Box::new(InputQueuedOf::new(parts, *own))),
                Arbiter::Widest(own) => Size::Widest(Box::new(InputQueuedOf::new(parts, *own))),
            },
        }
    }

    /// A switch without packets, between whose ports a bus carries one packet at a time. Its clock
    /// has an edge at every instant.
    pub fn with_bus(mut parts: BusParts) -> InputQueued {
        let spare = std::mem::take(&mut parts.spare);
        InputQueued {
            first: parts.first,
            slot: Span(1),
            lead: parts.arbitration,
            occupations: parts.occupations(),
            inputs: Inputs::new(parts.channels, parts.room, spare),
            size: Size::Bus(Box::new(Bus::new(parts))),
        }
    }

    /// A switch without packets, with the crossbar of a hub. Its clock has an edge at every instant.
    pub fn with_fifo_crossbar(mut parts: FifoCrossbarParts) -> InputQueued {
        let spare = std::mem::take(&mut parts.spare);
        InputQueued {
            first: parts.first,
            slot: Span(1),
            lead: Span::ZERO,
            occupations: parts.spans.clone().into(),
            inputs: Inputs::new(1, parts.room, spare),
            size: Size::Hub(Box::new(FifoCrossbar::new(parts))),
        }
    }

    /// How many ports it has.
    #[inline]
    pub fn ports(&self) -> usize {
        self.occupations.len()
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
    #[inline(always)]
    pub fn expect(
        &mut self,
        arrival: Time,
        packet: u32,
        (input, came_by): (u32, u8),
    ) -> Option<Time> {
        self.inputs.expect(input, came_by);
        match &mut self.size {
            Size::Narrow(own) => own.expect(arrival, packet, input),
            other => other.expect(arrival, packet, input),
        }
    }

    /// An edge of the clock, unless it was another one that was announced last: what leaves goes into
    /// the outbox, which must be empty. `choose` tells the output of a packet that can be decided on
    /// from now on and the virtual channel there, given how many packets wait for each output.
    #[inline(always)]
    pub fn edge(
        &mut self,
        now: Time,
        behind: &mut [u32],
        outbox: &mut Outbox,
        choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        match &mut self.size {
            Size::Narrow(own) => own.edge(now, behind, outbox, choose),
            other => other.edge(now, behind, outbox, choose),
        }
    }

    // An edge of a switch may be prepared in four steps. Each asks the processor for what the next one reads, so
    // that something else should happen in between.

    /// Prefetches what all other steps read; of a switch of more than 64 ports, only the pointer to that.
    #[inline]
    pub fn prefetch_head(&self) {
        prefetch_first(self, HEAD);
    }

    /// Prefetches what there is for each port.
    #[inline]
    pub fn prefetch_tables(&self) {
        self.inputs.prefetch();
        of_any_queues!(&self.size, own => own.prefetch_tables());
    }

    /// Prefetches what [`expect`](Self::expect) reads of an input.
    #[inline]
    pub fn prefetch_input(&self, input: u32) {
        self.inputs.prefetch_input(input);
        of_any_queues!(&self.size, own => own.prefetch_input(input));
    }

    /// Prefetches the queues in which packets wait.
    #[inline]
    pub fn prefetch_queues(&self) {
        of_any_queues!(&self.size, own => own.prefetch_queues());
    }

    /// Shows packets that an edge reads: the first one that comes to each input, and of those that wait in an input
    /// for an output, one.
    #[inline]
    pub fn each_packet(&self, now: Time, show: impl FnMut(u32)) {
        of_any_queues!(&self.size, own => own.each_packet(now, show));
    }

    /// The next edge at which the switch takes part, if it must be announced: when a packet can be
    /// decided on, may leave, or another one has left.
    #[inline]
    pub fn next_edge(&mut self, now: Time) -> Option<Time> {
        of_any_size!(&mut self.size, own => own.next_edge(now))
    }

    /// A packet that arrived on a virtual channel leaves an input. Returns whether the sender
    /// certainly has another credit until the one for this packet has returned.
    #[inline]
    pub fn release(&mut self, input: u16, came_by: u8) -> bool {
        self.inputs.release(input.into(), came_by)
    }

    /// From now on no credit counts before it is back: [`release`](Self::release) returns false.
    pub fn report_every_credit(&mut self) {
        self.inputs.report_every_credit();
    }

    /// From now on no credit of this input counts before it is back.
    pub fn report_credits_of(&mut self, input: u32) {
        self.inputs.report_credits_of(input);
    }

    /// From a decision to the first byte at the output.
    #[inline]
    pub fn lead(&self) -> Span {
        self.lead
    }

    /// From a decision for an output to the end of the last slot of the packet.
    #[inline]
    pub fn occupation(&self, output: u16) -> Span {
        self.occupations[usize::from(output)]
    }

    /// The last credit of an output was spent.
    pub fn lose_credit(&mut self, output: u32, channel: u8) {
        of_any_size!(&mut self.size, own => own.lose_credit(output, channel));
    }

    /// The first credit of an output has returned. Returns an edge as [`expect`](Self::expect)
    /// does.
    pub fn regain_credit(&mut self, now: Time, output: u32, channel: u8) -> Option<Time> {
        of_any_size!(&mut self.size, own => own.regain_credit(now, output, channel))
    }

    /// The far end of an output stops it, or lets it continue. Returns an edge as
    /// [`expect`](Self::expect) does.
    pub fn stop(&mut self, now: Time, output: u32, stops: bool) -> Option<Time> {
        of_any_size!(&mut self.size, own => own.stop(now, output, stops))
    }

    /// Whether it can [decide in lockstep](Self::into_cells) with others.
    pub(crate) fn works_in_cells(&self) -> bool {
        matches!(&self.size, Size::Narrow(own) if own.works_in_cells())
    }

    /// The switch as one that is told which packets come; nothing unless it [works in cells](Self::works_in_cells).
    pub(crate) fn into_cells(self) -> Option<CellSwitch> {
        if let Size::Narrow(own) = self.size { Some(own.without_cables()) } else { None }
    }

    /// The largest number of packets of a virtual channel that an input may hold while its sender certainly has a
    /// credit left.
    pub(crate) fn spare(&self, input: u32) -> u32 {
        self.inputs.spare(input)
    }

    /// From the first byte at an input until a packet can be decided on.
    pub(crate) fn latency(&self) -> Span {
        match &self.size {
            Size::Narrow(own) => own.latency(),
            _ => Span::ZERO,
        }
    }

    // What waits for what.

    /// Packets that wait for an output.
    pub fn waiting(&self, output: u32) -> u32 {
        of_any_size!(&self.size, own => own.waiting(output))
    }

    /// Whether the far end has stopped an output.
    pub fn is_stopped(&self, output: u32) -> bool {
        of_any_size!(&self.size, own => own.is_stopped(output))
    }

    /// Whether packets of a virtual channel wait for an output.
    pub fn is_wanted(&self, output: u32, channel: u8) -> bool {
        of_any_size!(&self.size, own => own.is_wanted(output, channel))
    }

    /// The outputs that packets in an input wait for.
    pub fn wanted_of(&self, input: u32) -> Vec<u32> {
        of_any_size!(&self.size, own => own.wanted_of(input))
    }

    /// How many packets of each virtual channel an input holds, if it gives credits.
    pub fn room(&self) -> u32 {
        self.inputs.room()
    }

    /// How many cells an input has space for, if it stops its cable.
    pub fn space(&self) -> u32 {
        of_any_size!(&self.size, own => own.space())
    }

    /// Whether an input has no room for another packet of a virtual channel.
    pub fn is_full(&self, input: u32, channel: u8) -> bool {
        self.inputs.is_full(input, channel)
    }
}

/// A packet that leaves by an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which.
    pub packet: u32,
    /// The input that it leaves.
    pub input: u16,
    /// The output that it leaves by.
    pub output: u16,
    /// The virtual channel that it leaves by.
    pub channel: u8,
}

/// The effects of an edge.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Packets that leave.
    pub grants: Vec<Grant>,
    /// Inputs that signal their cables to stop, or to go on.
    pub signals: Vec<(u16, bool)>,
    /// An input that was written while it was full.
    pub overrun: Option<u16>,
    /// Whether the state of switches does not stay in the cache from one edge to the next, so that it is worth the
    /// instructions to ask for it before it is read.
    pub fetches_ahead: bool,
    /// Packets that have chosen their outputs and not joined their queues yet: none after the edge.
    joining: Vec<Grant>,
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    /// Three ports, a slot of 10 ps, virtual channels with room for 4 packets.
    fn switch(channels: u8) -> InputQueued {
        let parts = InputQueuedParts {
            latency: Span(5),
            slot: Span(10),
            first: 0,
            holds: vec![1; 3],
            spans: Vec::new(),
            room: 4,
            spare: vec![4; 3],
            channels,
            stops: None,
            random: Streams::new(1).stream("switch", 0),
        };
        let (_, scheduler) = SchedulerSettings::all_defaults().remove(0);
        InputQueued::new(parts, scheduler.arbiter(3).expect("a scheduler for three ports"))
    }

    /// Packets go by the output that is their number modulo 10, and the virtual channel before that.
    fn leave_at(switch: &mut InputQueued, now: u64, fetches_ahead: bool) -> Vec<u32> {
        let mut outbox = Outbox { fetches_ahead, ..Outbox::default() };
        let choose = |packet: u32, _: &[u32]| (packet % 10, (packet / 10 % 10) as u8);
        switch.edge(Time(now), &mut [0; 200], &mut outbox, choose);
        assert!(outbox.joining.is_empty());
        outbox.grants.iter().map(|grant| grant.packet).collect()
    }

    #[test]
    fn a_packet_passes_those_of_virtual_channels_without_credit() {
        for (fetches_ahead, lost) in [(false, [0, 1]), (true, [1, 0])] {
            let mut switch = switch(2);
            for packet in [102, 112] {
                switch.expect(Time(0), packet, (1, 0));
            }
            switch.lose_credit(2, lost[0]);
            let [open, shut] = if lost[0] == 0 { [112, 102] } else { [102, 112] };
            assert_eq!(leave_at(&mut switch, 10, fetches_ahead), [open]);
            switch.lose_credit(2, lost[1]);
            assert_eq!(switch.next_edge(Time(10)), None, "no virtual channel has a credit");
            assert_eq!(switch.regain_credit(Time(20), 2, lost[1]), Some(Time(20)));
            assert_eq!(leave_at(&mut switch, 20, fetches_ahead), [0; 0]);
            assert_eq!(switch.regain_credit(Time(30), 2, lost[0]), Some(Time(30)));
            assert_eq!(leave_at(&mut switch, 30, fetches_ahead), [shut]);
        }
    }

    #[test]
    fn one_virtual_channel_needs_a_credit() {
        let mut switch = switch(1);
        switch.expect(Time(0), 101, (0, 0));
        switch.lose_credit(1, 0);
        assert_eq!(leave_at(&mut switch, 10, true), [0; 0]);
        assert_eq!(switch.regain_credit(Time(15), 1, 0), Some(Time(20)));
        assert_eq!(leave_at(&mut switch, 20, true), [101]);
    }

    #[test]
    fn packets_that_an_edge_reads_are_known_before_it() {
        let mut switch = switch(2);
        for (packet, input, arrival) in [(101, 0, 2), (111, 0, 3), (100, 2, 4), (102, 1, 7)] {
            switch.expect(Time(arrival), packet, (input, 0));
        }
        let known = |switch: &InputQueued, now: u64| {
            let mut all: Vec<u32> = Vec::new();
            switch.each_packet(Time(now), |packet| all.push(packet));
            all
        };
        assert_eq!(known(&switch, 6), [0; 0]);
        assert_eq!(known(&switch, 10), [101, 100]);
        // Of the two for output 1 the second virtual channel has its turn.
        assert_eq!(leave_at(&mut switch, 10, true), [100, 111]);
        assert_eq!(known(&switch, 20), [102, 101]);
    }
}
