//! Adapters of hosts: send buffers, retransmission by acknowledgments and timers, receive buffers,
//! interfaces to programs, and errors. Requests and acknowledgments are packets of the graph like
//! any other, and wait in its queues.
//!
//! Latencies: a packet's *first attempt* starts when its first byte is sent for the first time; the
//! attempt that *succeeds* is the one whose bytes arrive, and if back pressure holds a packet on its
//! link, its start is taken as late as it could have been without a stop.
//!
//! Everything that happens in one picosecond counts as simultaneous: an output that chooses among
//! arrivals decides when it knows all of them in its picosecond, and a host starts a request when it
//! knows everything that arrived, expired or was submitted in the same picosecond.

mod carrier;
mod host;
mod interface;
mod parts;
mod pipelined;
mod receive;
mod report;
mod scheduled;
mod slots;
mod slotted;
mod switch;
mod transmit;

use weft_fabric::adapter::Insertion;
use weft_fabric::fabric::RouteState;
use weft_fabric::graph::Graph;
use weft_fabric::switch::{Effect, PacketKind};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Event, Halt, Stopped};
use weft_protocol::retransmit::{Attempt, ControlSettings, KnownAfter, Slot};
use weft_units::{Bytes, Span, Time};

use super::Engine;
use super::packets::Forwarding;
use crate::drive::carrier::Messages;
use crate::drive::interface::Bodies;
use crate::drive::trace::TraceEntry;
use host::{Flight, Host};
use interface::QuickInterface;
use pipelined::Pipelined;
use scheduled::Scheduled;
use slots::Slots;

pub use parts::AdapterParts;
pub use pipelined::{PipelineParts, ScheduleCounters};
pub use scheduled::ScheduledTime;
pub use slots::SlotParts;

/// Counts for which the general observations of a channel have no column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Acknowledgments that arrived for a packet acknowledged before; ignored.
    pub late_acknowledgments: u64,
    /// Acknowledgments dropped in a switch: because they met another one, or found a queue full.
    pub lost_acknowledgments: u64,
    /// Requests that arrived although an earlier transmission of the same packet had.
    pub duplicates: u64,
    /// Acknowledgments that arrived damaged; ignored.
    pub damaged_acknowledgments: u64,
    /// Acknowledgments that met a packet of a schedule in the switch and were dropped.
    pub acknowledgments_against_schedule: u64,
}

/// The events that a host schedules for itself, in the upper bits of an event; the lower bits are
/// the number of what it concerns.
mod acts {
    /// A success becomes known without an acknowledgment packet.
    pub const COMPLETE: u32 = 0;
    /// The acknowledgment stage of a transfer is over, if there are transfers.
    pub const CONCLUDE: u32 = COMPLETE;
    /// A timer runs out, or a loss becomes known.
    pub const FAIL: u32 = 1;
    /// Something is due at the interface of the host.
    pub const INTERFACE: u32 = 2;
    /// The acknowledgment of a request is ready to be sent.
    pub const ACKNOWLEDGE: u32 = 3;
    /// The bits of the number.
    pub const DIGITS: u32 = 29;
}

/// The adapters of all hosts, and the packets between them.
#[derive(Debug)]
pub(super) struct Adapters {
    /// Whether hosts have any. If not, they send submitted packets as soon as the link is free.
    pub is_on: bool,
    control: ControlSettings,
    insertion: Insertion,
    hosts: Vec<Host>,
    /// By packet number.
    flights: Vec<Flight>,
    outcomes: Outcomes,
    counters: ControlCounters,
    /// Reused to avoid allocation.
    effects: Vec<Effect<u32>>,
    /// The last departure to each host: when, and of which packet.
    departures: Vec<Option<(Time, u32)>>,
    /// Every decision waits for the end of its picosecond, unless departures determine arrivals:
    /// all hosts are at the same distance from one switch, and nothing holds packets back.
    decides_together: bool,
    /// Whether there is one switch, so that packets have no choice of route.
    has_one_way: bool,
    /// The delay of the cables, if there is one switch.
    propagation: Span,
    /// A success is known when the packet has been sent.
    knows_early: bool,
    /// The packets that keep to the schedule of another channel.
    scheduled: Scheduled,
    /// The slots in which hosts send, if they do.
    slots: Option<Box<Slots>>,
    /// The schedule under which hosts send, if it itself tells them what became of their packets.
    pipelined: Option<Box<Pipelined>>,
    /// Whether transmissions are recorded, in a star, and the records.
    trace: Option<Vec<TraceEntry>>,
    /// Submitted messages; absent while packets come from sources.
    messages: Option<Box<Messages>>,
    /// The contents of messages; absent if they have none.
    bodies: Option<Box<Bodies>>,
    packet: Bytes,
    /// Hosts at which a request may start when all events of an instant have been processed, and
    /// that instant.
    settling: Vec<u32>,
    settles_at: Time,
}

/// The outcomes of transmissions that become known by themselves, by number: numbers that are free
/// are used again.
#[derive(Debug, Default)]
struct Outcomes {
    known: Vec<(Slot, Attempt)>,
    free: Vec<u32>,
}

impl Outcomes {
    fn insert(&mut self, outcome: (Slot, Attempt)) -> u32 {
        let Some(number) = self.free.pop() else {
            self.known.push(outcome);
            return (self.known.len() - 1) as u32;
        };
        self.known[number as usize] = outcome;
        number
    }

    fn take(&mut self, number: u32) -> (Slot, Attempt) {
        self.free.push(number);
        self.known[number as usize]
    }
}

impl Adapters {
    /// The adapters in front of a graph, with these sources; nothing without parts.
    pub fn new(parts: Option<AdapterParts>, graph: &Graph, sources: &[Source]) -> Adapters {
        let Some(mut parts) = parts else { return Adapters::none() };
        let hosts = graph.hosts() as usize;
        let build = |host: usize| parts.host(host, hosts, sources.get(host));
        let all = (0..hosts).map(build).collect();
        let pipeline = parts.pipeline.take();
        let pipelined = pipeline.map(|own| Box::new(Pipelined::new(own, &parts, hosts)));
        let is_even = graph.switches() == 1 && !graph.is_mixed();
        let propagation = graph.propagation(graph.host_port(0));
        Adapters {
            is_on: true,
            hosts: all,
            pipelined,
            departures: vec![None; if is_even { hosts } else { 0 }],
            decides_together: !is_even || propagation == Span::ZERO || graph.has_back_pressure(),
            has_one_way: graph.switches() == 1,
            propagation,
            knows_early: matches!(&parts.control, ControlSettings::OutOfBand(own)
                if own.known_after == KnownAfter::Transmission),
            scheduled: Scheduled::new(&parts, hosts),
            insertion: parts.settings.acknowledgments,
            slots: parts.slots.map(|own| Box::new(Slots::new(own, parts.settings, hosts))),
            control: parts.control,
            bodies: parts.bodies,
            packet: parts.packet,
            ..Adapters::none()
        }
    }

    /// No adapters.
    pub fn none() -> Adapters {
        Adapters {
            is_on: false,
            control: ControlSettings::Unacknowledged,
            insertion: Insertion::Wait,
            hosts: Vec::new(),
            flights: Vec::new(),
            outcomes: Outcomes::default(),
            counters: ControlCounters::default(),
            effects: Vec::new(),
            departures: Vec::new(),
            decides_together: true,
            has_one_way: false,
            propagation: Span::ZERO,
            knows_early: false,
            scheduled: Scheduled::default(),
            slots: None,
            pipelined: None,
            trace: None,
            messages: None,
            bodies: None,
            packet: Bytes(0),
            settling: Vec::new(),
            settles_at: Time::ZERO,
        }
    }

    /// Whether hosts send in common slots.
    pub fn sends_in_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Whether a packet is an acknowledgment.
    #[inline]
    pub fn is_acknowledgment(&self, id: u32) -> bool {
        self.is_on && self.flights[id as usize].kind == PacketKind::Acknowledgment
    }
}

impl Engine {
    /// Further counts.
    pub fn control_counters(&self) -> ControlCounters {
        self.adapters.counters
    }

    /// The first packets of the sources of hosts with adapters.
    pub(super) fn begin_adapters(&mut self) {
        if self.is_in_pipeline() {
            return self.begin_pipeline();
        }
        for host in 0..self.adapters.hosts.len() as u32 {
            self.schedule_source(host);
            self.ask_source(Time::ZERO, host);
        }
    }

    /// Lets the next event happen if that is due by `until`, or the hosts settle at which nothing else
    /// happens in an instant. Returns when it was.
    #[inline(always)]
    pub(super) fn step_with_adapters(&mut self, until: Time) -> Option<Time> {
        if !self.adapters.settling.is_empty() && self.adapters.settles_at <= until {
            self.now = self.adapters.settles_at;
            let Some(event) = self.parts.first().pop_until(self.now) else {
                self.settle_all();
                return Some(self.now);
            };
            self.steps += 1;
            self.happen_with_adapters(event);
            return Some(self.now);
        }
        let event = self.parts.first().pop_until(until)?;
        self.now = event.time;
        self.steps += 1;
        self.happen_with_adapters(event);
        Some(event.time)
    }

    pub(super) fn run_with_adapters(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        if self.needs_no_events() {
            return self.run_in_slots(until, halt);
        }
        while self.step_with_adapters(until).is_some() {
            let stopped = halt.check(self.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
        None
    }

    /// When something happens next, if hosts have adapters or a hub.
    pub(in crate::drive) fn next_with_adapters(&mut self) -> Time {
        if let Some(hub) = &self.hub {
            return hub.next_time();
        }
        let next = self.parts.first().earliest().unwrap_or(Time::NEVER);
        if self.adapters.settling.is_empty() { next } else { next.min(self.adapters.settles_at) }
    }

    /// All events of this instant have been processed.
    fn settle_all(&mut self) {
        // Mostly there is one.
        if let [host] = self.adapters.settling[..] {
            self.adapters.settling.clear();
            self.steps += 1;
            return self.settle(self.now, host);
        }
        let mut hosts = std::mem::take(&mut self.adapters.settling);
        hosts.sort_unstable();
        for host in hosts.drain(..) {
            self.steps += 1;
            self.settle(self.now, host);
        }
        // Its event is kept, unless another request has been allowed to start meanwhile.
        if self.adapters.settling.is_empty() {
            self.adapters.settling = hosts;
        }
    }

    /// Dispatches the events of a channel whose hosts have adapters, the most frequent first.
    #[inline(always)]
    fn happen_with_adapters(&mut self, event: Event) {
        let Event { time: now, place, item } = event;
        let places = self.places;
        if place < places.hosts {
            self.reach(now, place, item);
        } else if place < places.frees {
            self.take_in(now, place - places.hosts, item);
        } else if place >= places.sends {
            self.leave_or_pass_slot(now, place, item);
        } else if place >= places.wakes {
            self.try_gate(now, place - places.wakes);
        } else if place >= places.generates {
            self.generate_at_adapter(now, place - places.generates);
        } else if place >= places.acts {
            self.act_of_adapter(now, place - places.acts, item);
        } else if place >= places.enters {
            self.happen_at_limit(event);
        } else {
            self.join(now, place - places.joins, item);
        }
    }

    /// A message has left its host, or something happens in a slot: both are too seldom to be inlined.
    #[inline(never)]
    fn leave_or_pass_slot(&mut self, now: Time, place: u32, item: u32) {
        let host = place - self.places.sends;
        match (place < self.places.samples, self.is_in_pipeline()) {
            (true, false) => self.leave_host(now, host),
            (false, false) => self.happen_in_slot(now, item),
            (true, true) => self.leave_in_slot(now, host),
            (false, true) => self.happen_in_cycle(now, item),
        }
    }

    /// Processes an event that a host scheduled for itself.
    fn act_of_adapter(&mut self, now: Time, host: u32, item: u32) {
        let (act, number) = (item >> acts::DIGITS, item & ((1 << acts::DIGITS) - 1));
        if self.is_in_pipeline() {
            return match act {
                acts::CONCLUDE => self.conclude_transfer(now, host, number),
                acts::ACKNOWLEDGE => self.answer_transfer(number),
                _ => self.serve_outlet(now, host),
            };
        }
        match act {
            acts::COMPLETE => self.complete_buffer(now, host, number),
            acts::FAIL => {
                let (slot, attempt) = self.adapters.outcomes.take(number);
                if self.adapters.hosts[host as usize].initiator.window.fail(slot, attempt) {
                    self.transmit(now, host);
                }
            }
            acts::INTERFACE => {
                self.serve_interface(now, host);
                self.transmit(now, host);
            }
            _ => self.acknowledge(now, number),
        }
    }

    #[inline]
    fn act_later(&mut self, time: Time, host: u32, act: u32, number: u32) {
        self.schedule(time, self.places.acts + host, act << acts::DIGITS | number);
    }

    /// Submits a packet that no source generates, to a host with an adapter.
    pub fn offer_packet(&mut self, now: Time, host: u16, target: u16) {
        if self.take_over(now, host, target) {
            self.serve_interface(now, host.into());
        }
        self.transmit(now, host.into());
    }

    pub(super) fn generate_at_adapter(&mut self, now: Time, host: u32) {
        if self.is_in_pipeline() {
            return self.generate_at_outlet(now, host);
        }
        let Some(source) = self.supply.source(host) else { return };
        let target = source.take().target;
        self.schedule_source(host);
        self.offer_packet(now, host as u16, target as u16);
    }

    fn schedule_source(&mut self, host: u32) {
        let next = self.supply.source(host).map_or(Time::NEVER, |source| source.next_time());
        if next < Time::NEVER {
            self.schedule(next, self.places.generates + host, 0);
        }
    }

    /// A source that submits whatever the adapter can take is asked for a packet if the adapter has
    /// room.
    #[inline]
    fn ask_source(&mut self, now: Time, host: u32) {
        let state = &self.adapters.hosts[host as usize];
        if state.feedback == Feedback::Ready && state.initiator.has_space() {
            self.tell_ready(now, host);
        }
    }

    #[inline(never)]
    fn tell_ready(&mut self, now: Time, host: u32) {
        self.tell_source(host, |source| source.ready(now));
    }

    /// Gives a source feedback that may make it submit a packet.
    fn tell_source(&mut self, host: u32, tell: impl FnOnce(&mut Source)) {
        let Some(source) = self.supply.source(host) else { return };
        let before = source.next_time();
        tell(source);
        if source.next_time() != before {
            self.schedule_source(host);
        }
    }

    /// A success is known without a packet: the send buffer is free.
    fn complete_buffer(&mut self, now: Time, host: u32, number: u32) {
        let (slot, _) = self.adapters.outcomes.take(number);
        let initiator = &mut self.adapters.hosts[host as usize].initiator;
        let held = initiator.window.release(slot);
        initiator.queue.left_buffer(held.target);
        self.transmit(now, host);
    }

    /// The route of a packet from one host to another.
    #[inline]
    fn forwarding(&mut self, from: u16, to: u16) -> Forwarding {
        let channel = self.channel_of_pair(from, to);
        let route_state = match self.adapters.has_one_way {
            true => RouteState::DIRECT,
            false => self.routes.depart(from, to),
        };
        Forwarding::starting(to.into(), route_state, channel)
    }

    /// A transmission is in flight from now on, or waits for its link.
    #[inline]
    fn insert_flight(&mut self, flight: Flight) -> u32 {
        // A packet that ends in the switch takes no route through it.
        let to = if flight.to == scheduled::SWITCH { flight.from } else { flight.to };
        let forwarding = self.forwarding(flight.from, to);
        let id = self.packets.insert_forwarding(forwarding);
        match self.adapters.flights.get_mut(id as usize) {
            Some(place) => *place = flight,
            None => self.adapters.flights.push(flight),
        }
        id
    }
}
