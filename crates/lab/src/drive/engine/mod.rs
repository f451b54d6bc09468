//! The engine: one channel as a graph of hosts, switches and cables, driven by events.
//!
//! Switches cut through: the first byte of a packet leaves a switch one switch latency after it
//! arrived, if the output is free. If a packet takes longer to arrive than to leave, because the
//! outgoing link is faster, it joins the queue of its output later by the difference, so that no link
//! runs dry in the middle of a packet. At a switch with queues at its outputs a packet costs one event,
//! however long it is, and one more if it joins late. Switches with queues at their inputs decide at
//! the edges of a clock, which are their events; they learn of a packet when it is sent to them. A port
//! whose cable leads to a buffer of limited size waits until there is room. If any switch has a shared
//! memory, packets belong to connections, which share the ports of their hosts ([`memory`]).
//!
//! Events of one instant are processed in the order of their places: first the ports of all switches,
//! switch by switch, then the hosts, then what they schedule for themselves. A packet whose
//! transmission ends frees its port and its place in a shared memory before another one takes a place
//! there; signals from far ends come before the edges of switches, so that an edge sees everything that
//! is known. A directed port has one sender, which starts one packet at a time, so this order is
//! complete, and it does not depend on which event was scheduled first. All randomness belongs to
//! hosts. Parts of the graph may therefore run in parallel for as long as nothing can get from one to
//! another ([`Engine::spread`]), with the same results.
//!
//! *Queueing* ends when the adapter of the initiator starts to send; waiting in switches belongs to
//! *transit*.

mod adapter;
mod beside;
mod border;
mod build;
mod carrier;
mod channel;
mod classed;
mod clocks;
mod coupled;
mod delivery;
mod division;
mod feed;
mod flows;
mod forward;
mod hub;
mod limits;
mod lockstep;
mod memory;
mod packed;
mod packets;
mod parts;
mod places;
mod planes;
mod ranks;
mod ring;
mod supply;
mod turns;
mod waiting;
mod whole;
mod wire;

use std::sync::Arc;

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::graph::{Departure, Graph, Passed, Switch};
use weft_fabric::measure::Observations;
use weft_fabric::switch::{Outbox, PortPair};
use weft_kernel::{Event, Halt, SlottedEvents, SlottedNeeds, Stopped};
use weft_units::{Bytes, Span, Time};

use super::carrier::MessageId;
use adapter::Adapters;
use beside::Beside;
use classed::Classed;
use clocks::Clocks;
use flows::Flows;
use forward::Forward;
use limits::Overrun;
use memory::Memories;
use packets::{Forwarding, Packet, Packets};
use parts::Parts;
use places::Places;
use planes::PlaneTurns;
use ranks::Ranks;
use ring::Rings;
use supply::{Handed, Supply};
use turns::Turns;

pub use adapter::{
    AdapterParts, ControlCounters, PipelineParts, ScheduleCounters, ScheduledTime, SlotParts,
};
pub use beside::Alone;
pub use build::EngineParts;
pub use classed::{CableParts, ClassedParts, PauseRow, Traffic};
pub use coupled::{Coupled, Half, OfBoth};
pub use delivery::Delivery;
pub use flows::{FlowBin, FlowParts, FlowReport, MILLIONTHS};
pub use forward::{FastForward, Horizon, Jump};
pub use hub::{Course, HubParts, Operation, Windows};
pub use memory::{ConnectionParts, NetworkReport, PortRow, SampleRow, StreamRow};
pub use ring::{RingCounters, RingParts};
pub use turns::TurnParts;

/// The item of the event at which all hosts of a slot submit packets, at the place of the first host. That of an event
/// of one host is zero.
const IN_STEP: u32 = 1;

/// For how many hosts at a time what they need to submit a packet is prefetched.
const HOSTS_AHEAD: usize = 6;

/// A channel that runs.
#[derive(Debug)]
pub struct Engine {
    graph: Graph,
    routes: Routes,
    supply: Supply,
    /// The packets that hosts submit next, if they do so at the beginnings of slots.
    submissions: SlottedEvents,
    /// Whether anybody among those who submit packets is told of deliveries.
    tells_deliveries: bool,
    packets: Packets,
    observations: Observations,
    payload: Bytes,
    places: Places,
    plane_turns: PlaneTurns,
    /// The places for [`Engine::happen`]. If packets have classes, hosts have a hub, or links
    /// have turns, all are zero, so that it leaves every event to those.
    ranges: Places,
    /// Whether what events need is prefetched.
    is_large: bool,
    clocks: Clocks,
    /// The future events, and the part of the graph of each.
    parts: Parts,
    /// When the last event happened; at the end of a run, its end.
    now: Time,
    steps: u64,
    /// When something happens next, if messages are carried.
    next: Time,
    /// Whether all messages in flight have lost their routes for good, so that future events do not
    /// concern them.
    is_cut_off: bool,
    /// The effects of an edge; empty between two events.
    outbox: Outbox,
    /// The same of an edge at which all switches decide together.
    passed: Passed,
    /// Ports in words, if packets may wait for each other.
    names: Option<Arc<Wiring>>,
    /// The first buffer that was written while it was full.
    overrun: Option<Overrun>,
    /// Switches with a shared memory, and connections.
    memories: Memories,
    /// Ports and headers where packets have sizes and classes of their own.
    classed: Option<Box<Classed>>,
    /// Flows between hosts, if there are any.
    flows: Option<Box<Flows>>,
    adapters: Adapters,
    /// The search for periods, if they may be skipped.
    forward: Option<Box<Forward>>,
    /// The parts that run in parallel, if the graph is divided so.
    beside: Option<Box<Beside>>,
    /// The part of this rank, if the graph is divided among ranks.
    ranks: Option<Box<Ranks>>,
    /// The stations of rings, if any switch is one.
    ring: Option<Box<Rings>>,
    /// The ends of cables whose two ends take turns, if there are such cables.
    turns: Option<Box<Turns>>,
    /// The hub with the windows around it, if hosts have one.
    hub: Option<Box<Windows>>,
}

impl Engine {
    /// All observations so far, without busy times of links.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.graph.hosts()
    }

    /// Makes every credit arrive as an event, including those that are counted immediately because
    /// nothing can wait for them. Does not change results, which a test checks.
    pub fn report_every_credit(&mut self) {
        self.graph.report_every_credit();
    }

    /// Makes each switch decide by itself, also where all of them could decide together. For a channel that has not run
    /// yet. Does not change results, which a test checks.
    pub fn decide_apart(&mut self) {
        self.graph.decide_apart();
    }

    /// Whether all switches decide together, which is known when the first packet has been sent.
    pub fn decides_together(&self) -> bool {
        self.graph.decides_together()
    }

    /// Makes packets store what they spend on their routes as soon as there are a few different sums of it, which
    /// otherwise are numbered. Does not change results, which a test checks.
    pub fn number_few_sums(&mut self) {
        self.packets.number_few_sums();
    }

    fn run_until(
        &mut self,
        until: Time,
        halt: &Halt,
        mut watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        let stopped = if self.ranks.is_some() {
            self.run_ranks(until, halt, &mut watch)
        } else if self.beside.is_some() {
            self.run_beside(until, halt, &mut watch)
        } else if self.adapters.is_on {
            self.run_with_adapters(until, halt)
        } else if self.classed.is_some() {
            self.run_classed(until, halt, &mut watch)
        } else if self.hub.is_some() {
            self.run_hub(until, halt, &mut watch)
        } else {
            self.run_whole(until, halt, &mut watch)
        };
        if stopped.is_none() {
            self.now = until;
        }
        stopped
    }

    /// Processes the next event if it is due by `until`, for a caller that runs the channel together
    /// with something else. Returns when it happened.
    #[inline]
    pub fn step(&mut self, until: Time) -> Option<Time> {
        if self.adapters.is_on {
            return self.step_with_adapters(until);
        }
        if self.hub.is_some() {
            return self.step_with_hub(until);
        }
        let event = self.parts.first().pop_until(until)?;
        self.now = event.time;
        self.steps += 1;
        self.happen(event, &mut |_| {});
        Some(event.time)
    }

    /// A packet leaves for a place that may be in another part.
    #[inline(never)]
    fn forward(&mut self, event: Event) {
        self.forward_inlined(event);
    }

    /// [`forward`](Self::forward) without a call, for what happens most often.
    #[inline(always)]
    fn forward_inlined(&mut self, event: Event) {
        match self.parts.is_one() {
            true => self.parts.first().push(event),
            false => self.forward_to_part(event),
        }
    }

    #[inline(never)]
    fn schedule(&mut self, time: Time, place: u32, item: u32) {
        self.parts.push(Event { time, place, item });
    }

    /// What happens most often, a packet that reaches a switch, takes no call; the rest takes one.
    #[inline(always)]
    fn happen(&mut self, event: Event, watch: &mut impl FnMut(Delivery)) {
        let Event { time: now, place, item } = event;
        let places = self.ranges;
        if place < places.hosts {
            self.reach(now, place, item);
        } else if place < places.frees {
            self.deliver(now, place - places.hosts, item, watch);
        } else if place < places.enters {
            match place < places.joins {
                true => self.free(now, place - places.frees),
                false => self.join(now, place - places.joins, item),
            }
        } else if place < places.acts {
            self.happen_at_limit(Event { time: now, place, item });
        } else if place < places.generates {
            self.act(now, place - places.acts, item, watch);
        } else if place < places.wakes {
            match item {
                IN_STEP => self.generate_in_step(now),
                _ => self.generate(now, place - places.generates),
            }
        } else if place < places.sends {
            self.try_gate(now, place - places.wakes);
        } else if place >= places.samples {
            self.happen_elsewhere(Event { time: now, place, item }, watch);
        } else if let Some(feed) = self.supply.messages() {
            feed.messages.sent(now, MessageId::of(item));
        }
    }

    /// Events that occur only if buffers have limits.
    #[inline]
    fn happen_at_limit(&mut self, Event { time: now, place, item }: Event) {
        let places = self.places;
        if place >= places.told {
            self.told(now, place - places.told, item);
        } else if place >= places.edges {
            self.tick(now, place - places.edges, item);
        } else if place >= places.signals {
            self.hear(now, place - places.signals, item);
        } else if place >= places.decides {
            self.decide(now, place - places.decides);
        } else {
            self.enter(now, place - places.enters, item);
        }
    }

    #[inline(never)]
    fn generate(&mut self, now: Time, host: u32) {
        let is_limited = self.graph.has_limits();
        let fetches_ahead = is_limited && self.outbox.fetches_ahead;
        if fetches_ahead {
            self.graph.prefetch_gate(self.graph.host_port(host));
        }
        let handed = self.supply.hand_over(now, host, self.payload);
        // Packets of messages were counted when the messages were offered.
        if handed.message == MessageId::NONE {
            self.count_handed(now, host);
        }
        if self.memories.is_on {
            return self.hand_over(now, host, &handed);
        }
        let end = self.end_for(now, host, handed.to);
        if fetches_ahead && self.graph.is_gated(self.graph.host_port(end)) {
            self.graph.prefetch_receiver(self.graph.host_port(end));
        }
        self.send_submitted::<false>(now, host, end, &handed);
    }

    /// All hosts submit a packet that do so at the beginning of this slot, in the order of their numbers.
    #[inline(never)]
    fn generate_in_step(&mut self, now: Time) {
        let hosts = self.submissions.begin(now);
        match self.parts.counts_at_once() {
            true => self.observations.generate_from_each(&hosts, now),
            false => hosts.iter().for_each(|host| self.parts.note_handed(now, *host, 1)),
        }
        // Each counts as a step, as it would with an event of its own.
        self.steps += (hosts.len() as u64).saturating_sub(1);
        let fetches_ahead = self.graph.has_limits() && self.outbox.fetches_ahead;
        for (index, some) in hosts.chunks(HOSTS_AHEAD).enumerate() {
            if self.is_large {
                let first = (index + 1) * HOSTS_AHEAD;
                let next = hosts.get(first..hosts.len().min(first + HOSTS_AHEAD));
                self.prefetch_for_hosts(next.unwrap_or_default(), fetches_ahead);
            }
            for host in some {
                let handed = self.supply.hand_over_in_step(now, *host, self.payload);
                let Some(handed) = handed else { continue };
                self.send_submitted::<true>(now, *host, *host, &handed);
            }
        }
        self.submissions.give_back(hosts);
    }

    /// Prefetches what hosts need that submit packets soon.
    #[inline]
    fn prefetch_for_hosts(&self, hosts: &[u32], has_gates: bool) {
        for host in hosts {
            self.supply.prefetch(*host);
        }
        if has_gates {
            for host in hosts {
                let port = self.graph.host_port(*host);
                self.graph.prefetch_gate(port);
                self.graph.prefetch_receiver(port);
            }
        }
    }

    /// A packet that a host has submitted leaves by one of its ends, or joins the queue there. `OPEN_LOOP` says that it
    /// comes from a source without feedback.
    #[inline(always)]
    fn send_submitted<const OPEN_LOOP: bool>(
        &mut self,
        now: Time,
        host: u32,
        end: u32,
        handed: &Handed,
    ) {
        let port = self.graph.host_port(end);
        if self.graph.has_limits() && self.graph.is_gated(port) {
            let id = self.insert(host, now, handed);
            if handed.next < Time::NEVER {
                self.submit_later(now, handed.next, host);
            }
            return match OPEN_LOOP {
                true => self.send_through_gate(now, port, id),
                false => self.queue(now, host, end, id, &Handed { next: Time::NEVER, ..*handed }),
            };
        }
        let Departure { start, arrival: time, place } = self.graph.send(now, end);
        let id = self.insert(host, start, handed);
        self.observations.attempt(start);
        // The buffer of a greedy source is free when the transmission starts.
        let is_greedy = !OPEN_LOOP && self.supply.has_another(host);
        let again = if is_greedy { start } else { handed.next };
        if again < Time::NEVER {
            self.submit_later(now, again, host);
        }
        if !OPEN_LOOP && handed.message != MessageId::NONE {
            self.begin_message(start, host, handed.message);
        }
        self.parts.push(Event { time, place, item: id });
    }

    /// A packet of a source without feedback leaves by a gated port, or joins the queue there.
    #[inline(always)]
    fn send_through_gate(&mut self, now: Time, port: u32, id: u32) {
        let channel = self.packets.forwarding[id as usize].channel;
        if let Some(departure) = self.graph.send_at_once(now, port, channel) {
            self.observations.attempt(now);
            self.travel(now, &departure, id, channel);
        } else if self.graph.enqueue(port, id, &mut self.packets.behind) {
            self.try_gate(now, port);
        }
    }

    /// A host will submit a packet at a time.
    #[inline(always)]
    fn submit_later(&mut self, now: Time, time: Time, host: u32) {
        match self.submissions.note(now, time, host) {
            SlottedNeeds::Nothing => {}
            SlottedNeeds::Slot => self.schedule(time, self.places.generates, IN_STEP),
            SlottedNeeds::Own => self.schedule(time, self.places.generates + host, 0),
        }
    }

    /// A packet is in the adapter of a host, from which it starts at `start`.
    #[inline(always)]
    fn insert(&mut self, host: u32, start: Time, handed: &Handed) -> u32 {
        let Handed { to, generated, message, .. } = *handed;
        let route_state = self.routes.depart(host, to);
        let channel = self.channel_of(host, to);
        let forwarding = Forwarding::starting(to, route_state, channel);
        let packet = Packet { generated, start, from: host, message };
        let id = self.packets.insert(forwarding, packet);
        if let Some(rings) = &mut self.ring {
            rings.begin_journey(id, start);
        }
        self.packets.take_first_step(&self.graph, self.graph.host_port(host), id);
        id
    }

    /// The virtual channel on which a packet leaves its host.
    #[inline]
    fn channel_of(&self, host: u32, to: u32) -> u8 {
        let (channels, virtual_channels) = (self.graph.channels(), self.graph.virtual_channels());
        if channels == virtual_channels {
            return 0;
        }
        Routes::class(host, to, channels / virtual_channels) * virtual_channels
    }

    /// A packet of a message starts: if it is the last one, the message will have left.
    #[inline]
    fn begin_message(&mut self, start: Time, host: u32, message: MessageId) {
        if let Some(feed) = self.supply.messages()
            && feed.messages.start(message)
        {
            let left = start + self.graph.span(self.graph.host_port(host));
            self.schedule(left, self.places.sends + host, message.number());
        }
    }

    #[inline]
    fn count_handed(&mut self, now: Time, host: u32) {
        match self.parts.counts_at_once() {
            true => self.observations.generate_from(host as usize, now),
            false => self.parts.note_handed(now, host, 1),
        }
    }

    /// Counts this many packets together.
    fn count_all_handed(&mut self, now: Time, host: u32, packets: u32) {
        match self.parts.counts_at_once() {
            true => self.observations.generate_all_from(host as usize, now, packets.into()),
            false => self.parts.note_handed(now, host, packets),
        }
    }

    /// The first byte of a packet is at a switch.
    #[inline(always)]
    fn reach(&mut self, now: Time, input: u32, id: u32) {
        let switch = self.graph.switch_of(input);
        let Switch { first, number, is_direct, latency, .. } = self.graph.switch(switch);
        let Forwarding { to, hops, route_state, .. } = &mut self.packets.forwarding[id as usize];
        let hop = *hops;
        *hops += 1;
        let port = match self.routes.port_of_packet(number, *to, route_state) {
            Some(port) => port,
            None => self.weigh(now, switch, hop, id),
        };
        let output = first + port;
        if is_direct {
            return self.pass(now + latency, output, id);
        }
        match self.graph.is_mixed() {
            true => self.cross(now, switch, PortPair { input, output }, id),
            false => self.hold(now, switch, PortPair { input, output }, id),
        }
    }

    /// A packet has chosen an output in a graph whose links or switches differ, so that it may have to join the queue
    /// there late.
    #[inline(never)]
    fn cross(&mut self, now: Time, switch: u32, ports: PortPair, id: u32) {
        let PortPair { input, output } = ports;
        let graph = &self.graph;
        let lag = match self.adapters.is_acknowledgment(id) {
            true => graph.lag_of(input, output, true),
            false => graph.lag(input, output),
        };
        if lag > Span::ZERO && !graph.is_ring(switch) {
            self.packets.set_output(id, output);
            return self.schedule(now + lag, self.places.joins + input, id);
        }
        self.enqueue(now, switch, ports, id);
    }

    /// The port by which a packet leaves a switch that `hop` others precede on its route, where that does not follow
    /// from the packet alone.
    // Apart, so that the code of other packets keeps what it needs in registers.
    #[inline(never)]
    fn weigh(&mut self, now: Time, switch: u32, hop: u16, id: u32) -> u32 {
        let (graph, idle) = (&self.graph, self.routes.idle(now));
        let Switch { first, number, is_plain, .. } = graph.switch(switch);
        let occupied = |port| {
            let port = first.wrapping_add(port);
            let until = match is_plain {
                true => graph.free(port).0,
                false => graph.occupied(port),
            };
            until.saturating_sub(idle)
        };
        let Forwarding { to, route_state, .. } = &mut self.packets.forwarding[id as usize];
        self.routes.port(number, hop, *to, route_state, occupied)
    }

    /// A packet joins late the queue of the output that it has chosen.
    #[inline(never)]
    fn join(&mut self, now: Time, input: u32, id: u32) {
        let output = self.packets.output(id);
        self.enqueue(now, self.graph.switch_of(output), PortPair { input, output }, id);
    }

    /// A packet joins the queue of the output that it has chosen, in a graph whose links or switches differ.
    #[inline]
    fn enqueue(&mut self, now: Time, switch: u32, ports: PortPair, id: u32) {
        let Switch { is_plain, latency, .. } = self.graph.switch(switch);
        if !is_plain {
            return self.hold(now, switch, ports, id);
        }
        self.packets.take_step(&self.graph, switch, ports, id);
        self.pass(now + latency, ports.output, id);
    }

    /// A packet that has come through a switch at `ready` joins the queue of an output that is never
    /// full.
    #[inline(always)]
    fn pass(&mut self, ready: Time, output: u32, id: u32) {
        let Departure { arrival: time, place, .. } = self.graph.pass(ready, output);
        self.forward_inlined(Event { time, place, item: id });
    }
}
