//! The packets of a channel that have been submitted and not delivered.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::Graph;
use weft_fabric::measure::{Spent, SpentTable};
use weft_fabric::switch::PortPair;
use weft_kernel::{append, prefetch, prefetch_whole};
use weft_units::{Span, Time};

use super::border::Crossing;
use crate::drive::carrier::MessageId;

/// The fields of a packet that a switch reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarding {
    pub to: u32,
    pub route_state: RouteState,
    /// How many switches have forwarded it.
    pub hops: u16,
    /// The virtual channel on which it arrived, or on which it will leave its host.
    pub channel: u8,
    /// The number of what it has spent, if that is in a [table](Times::Numbered).
    pub spent: u8,
}

// A packet is in one line of the cache.
const _: () = assert!(size_of::<Forwarding>() == 16);

impl Forwarding {
    const NOTHING: Forwarding = Forwarding::starting(0, RouteState::DIRECT, 0);

    /// A packet that has not left its host, by the virtual channel on which it will.
    #[inline]
    pub const fn starting(to: u32, route_state: RouteState, channel: u8) -> Forwarding {
        Forwarding { to, route_state, hops: 0, channel, spent: SpentTable::NOTHING }
    }
}

/// How the times that packets spend apart from waiting are known.
// A separate tag, which is read several times for each packet.
#[derive(Debug)]
#[repr(u8)]
pub(super) enum Times {
    /// From how many switches they passed, since all links and switches are alike.
    Alike,
    /// By number. Packets spend nothing but what the steps of the graph take.
    Numbered(SpentTable),
    /// Each packet stores its own.
    Stored(Vec<Spent>),
}

impl Times {
    /// Those of packets that spend nothing but what the steps of a graph take.
    pub fn in_steps(graph: &Graph) -> Times {
        match graph.steps() {
            _ if !graph.is_mixed() => Times::Alike,
            steps if steps <= SpentTable::MOST_STEPS => Times::Numbered(SpentTable::new(steps)),
            _ => Times::Stored(Vec::new()),
        }
    }

    /// The same before there is any packet.
    fn emptied(&self) -> Times {
        match self {
            Times::Alike => Times::Alike,
            Times::Numbered(table) => Times::Numbered(table.emptied()),
            Times::Stored(_) => Times::Stored(Vec::new()),
        }
    }
}

/// The fields of a packet that its delivery reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub generated: Time,
    pub start: Time,
    pub from: u32,
    /// The message that it belongs to.
    pub message: MessageId,
}

impl Packet {
    const NOTHING: Packet =
        Packet { generated: Time::NEVER, start: Time::NEVER, from: 0, message: MessageId::NONE };
}

/// Packets by number. Freed numbers are reused, so that memory follows the largest number of
/// packets at the same time. Fields that every switch reads are stored apart from those read at the
/// end.
#[derive(Debug)]
pub(super) struct Packets {
    pub forwarding: Vec<Forwarding>,
    pub packets: Vec<Packet>,
    /// By packet: the output that it has chosen, if it joins the queue there by a later event. The list ends with the
    /// last packet that did so.
    outputs: Vec<u32>,
    times: Times,
    /// The next packet in each packet's queue, if packets may wait for room.
    pub behind: Vec<u32>,
    has_queues: bool,
    /// How many numbers there are.
    count: u32,
    free: Vec<u32>,
}

impl Packets {
    /// No packets yet. `has_queues` says whether packets may wait for room.
    pub fn new(times: Times, has_queues: bool) -> Packets {
        let (forwarding, packets, behind, free) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let outputs = Vec::new();
        Packets { forwarding, packets, outputs, times, behind, has_queues, count: 0, free }
    }

    /// No packets yet, of a part of the same graph.
    pub fn of_part(&self, has_queues: bool) -> Packets {
        Packets::new(self.times.emptied(), has_queues)
    }

    #[inline]
    pub fn insert(&mut self, forwarding: Forwarding, packet: Packet) -> u32 {
        let id = self.number();
        self.forwarding[id as usize] = forwarding;
        self.packets[id as usize] = packet;
        self.forget_output(id);
        id
    }

    /// A packet of which everything but its route is stored elsewhere.
    #[inline]
    pub fn insert_forwarding(&mut self, forwarding: Forwarding) -> u32 {
        let id = self.number();
        self.forwarding[id as usize] = forwarding;
        self.forget_output(id);
        id
    }

    /// A number for a packet.
    #[inline]
    fn number(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow())
    }

    // Takes no packet, so that those for which there is room need not be put together in memory.
    #[cold]
    fn grow(&mut self) -> u32 {
        append(&mut self.forwarding, Forwarding::NOTHING);
        append(&mut self.packets, Packet::NOTHING);
        self.grow_beside()
    }

    /// A packet that has a header elsewhere, with all but its queue and its accumulated times.
    #[inline]
    pub fn insert_header(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.grow_beside())
    }

    #[cold]
    fn grow_beside(&mut self) -> u32 {
        if let Times::Stored(spent) = &mut self.times {
            append(spent, Spent::default());
        }
        if self.has_queues {
            append(&mut self.behind, 0);
        }
        self.count += 1;
        self.count - 1
    }

    #[inline]
    pub fn remove(&mut self, id: u32) {
        debug_assert!(!self.free.contains(&id), "packet {id} is gone already");
        self.free.push(id);
    }

    /// Stores the output that a packet has chosen, for the event at which it joins the queue there.
    #[inline]
    pub fn set_output(&mut self, id: u32, output: u32) {
        match self.outputs.get_mut(id as usize) {
            Some(own) => *own = output,
            None => self.grow_outputs(id, output),
        }
    }

    #[cold]
    fn grow_outputs(&mut self, id: u32, output: u32) {
        while self.outputs.len() <= id as usize {
            append(&mut self.outputs, 0);
        }
        self.outputs[id as usize] = output;
    }

    /// The output that a packet has chosen last, if it was stored.
    #[inline]
    pub fn output(&self, id: u32) -> u32 {
        self.outputs.get(id as usize).copied().unwrap_or_default()
    }

    /// A packet is a new one, or returns as its own acknowledgment.
    #[inline]
    pub fn forget_output(&mut self, id: u32) {
        if let Some(own) = self.outputs.get_mut(id as usize) {
            *own = 0;
        }
    }

    /// Prefetches what a switch reads and writes of a packet.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        prefetch(&self.forwarding, id as usize);
        if let Times::Stored(spent) = &self.times
            && let Some(spent) = spent.get(id as usize)
        {
            prefetch_whole(spent);
        }
    }

    /// The accumulated times of a packet, where each packet stores its own.
    #[inline]
    pub fn stored(&mut self, id: u32) -> Option<&mut Spent> {
        match &mut self.times {
            Times::Stored(spent) => Some(&mut spent[id as usize]),
            Times::Alike | Times::Numbered(_) => None,
        }
    }

    /// The accumulated times of a packet, if they depend on its route.
    #[inline]
    pub fn spent(&self, id: u32) -> Option<Spent> {
        match &self.times {
            Times::Alike => None,
            Times::Numbered(table) => Some(table.sum(self.forwarding[id as usize].spent)),
            Times::Stored(spent) => Some(spent[id as usize]),
        }
    }

    /// Sets the accumulated times of a packet that comes from another part.
    pub fn set_spent(&mut self, id: u32, spent: Spent) {
        if let Times::Numbered(table) = &mut self.times {
            match table.number(spent) {
                Some(number) => self.forwarding[id as usize].spent = number,
                None => self.store_times(),
            }
        }
        if let Some(own) = self.stored(id) {
            *own = spent;
        }
    }

    /// Whether the times of packets depend on their routes.
    #[inline]
    pub fn has_spent(&self) -> bool {
        !matches!(self.times, Times::Alike)
    }

    /// A packet takes the step from its host, which has spent nothing before, to the far end of the cable in a
    /// port of the host.
    #[inline(always)]
    pub fn take_first_step(&mut self, graph: &Graph, port: u32, id: u32) {
        match &self.times {
            Times::Alike => {}
            Times::Numbered(_) => self.take_kind(graph, graph.first_step(port), id),
            Times::Stored(_) => self.store_first_step(graph.spent(port, Span::ZERO), id),
        }
    }

    /// A packet takes the step from an input of a switch to the far end of the cable in an output.
    #[inline(always)]
    pub fn take_step(&mut self, graph: &Graph, switch: u32, ports: PortPair, id: u32) {
        match &self.times {
            Times::Alike => {}
            Times::Numbered(_) => self.take_kind(graph, graph.step_across(switch, ports), id),
            Times::Stored(_) => self.store_step(graph, switch, ports, id),
        }
    }

    /// The same for one who knows the kind of the step.
    #[inline(always)]
    pub fn take_step_of_kind(
        &mut self,
        graph: &Graph,
        step: usize,
        (switch, ports): (u32, PortPair),
        id: u32,
    ) {
        match &self.times {
            Times::Alike => {}
            Times::Numbered(_) => self.take_kind(graph, step, id),
            Times::Stored(_) => self.store_step(graph, switch, ports, id),
        }
    }

    /// A packet takes a step of a kind.
    #[inline(always)]
    fn take_kind(&mut self, graph: &Graph, step: usize, id: u32) {
        let Times::Numbered(table) = &self.times else { return };
        let spent = &mut self.forwarding[id as usize].spent;
        match table.after(*spent, step) {
            Some(both) => *spent = both,
            None => self.take_unknown(graph, step, id),
        }
    }

    // The others are not inlined, so that the code above stays short where it is.

    #[inline(never)]
    fn store_first_step(&mut self, spent: Spent, id: u32) {
        if let Some(own) = self.stored(id) {
            *own = spent;
        }
    }

    #[inline(never)]
    fn store_step(&mut self, graph: &Graph, switch: u32, ports: PortPair, id: u32) {
        if let Some(own) = self.stored(id) {
            *own = own.and(graph.spent_across(switch, ports));
        }
    }

    /// A packet takes a step of a kind that none has taken before which had spent the same.
    #[cold]
    #[inline(never)]
    fn take_unknown(&mut self, graph: &Graph, step: usize, id: u32) {
        let more = graph.spent_in(step);
        let Times::Numbered(table) = &mut self.times else { return };
        let spent = &mut self.forwarding[id as usize].spent;
        match table.note(*spent, step, more) {
            Some(both) => *spent = both,
            None => {
                self.store_times();
                if let Some(spent) = self.stored(id) {
                    *spent = spent.and(more);
                }
            }
        }
    }

    /// Numbers four sums at most, after which each packet stores its own. For a channel that has not run yet.
    pub fn number_few_sums(&mut self) {
        if let Times::Numbered(table) = &mut self.times {
            *table = SpentTable::of_few(table.steps(), 4);
        }
    }

    /// There are too many sums to number them: each packet stores its own from now on.
    #[cold]
    fn store_times(&mut self) {
        if let Times::Numbered(table) = &self.times {
            let sums = self.forwarding.iter().map(|own| table.sum(own.spent)).collect();
            self.times = Times::Stored(sums);
        }
    }

    /// A packet that leaves for a place in another part at a time; nothing of one that has a
    /// [header](Self::insert_header).
    pub fn crossing(&self, time: Time, place: u32, id: u32) -> Crossing {
        let nothing = (Forwarding::NOTHING, Packet::NOTHING);
        let own = self.forwarding.get(id as usize).zip(self.packets.get(id as usize));
        let (mut forwarding, packet) = own.map_or(nothing, |own| (*own.0, *own.1));
        // Each part numbers its sums by itself.
        forwarding.spent = SpentTable::NOTHING;
        Crossing { time, place, forwarding, packet }
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.count as usize - self.free.len()
    }
}
