//! Switches that take part at the edges of a clock: those with queues at their inputs, before a
//! crossbar or a bus.

use weft_kernel::{Stream, prefetch, prefetch_all};
use weft_units::{Bytes, Span, Time};

use super::{Departure, Graph, Kind, Pace};
use crate::fabric::{Peer, Wiring};
use crate::link::{FlowControl, LinkSettings};
use crate::scheduler::Arbiter;
use crate::switch::{
    BusParts, FifoCrossbarParts, Grant, HubScheduler, InputQueued, InputQueuedParts, Outbox,
    StopSettings,
};

/// What a switch with queues at its inputs is built from.
#[derive(Debug)]
pub struct ClockedParts {
    /// From an input to an output.
    pub latency: Span,
    /// The size of a cell on the wire. It takes a picosecond or more on every link.
    pub cell: Bytes,
    /// How many cells an input holds; at least a packet for each virtual channel.
    pub buffer: u32,
    /// The scheduler, for as many ports as the switch has.
    pub arbiter: Arbiter,
    /// Its random stream.
    pub random: Stream,
}

/// What a switch is built from that has queues at its inputs and one bus.
#[derive(Clone, Copy, Debug)]
pub struct ClockedBusParts {
    /// From an input to the bus.
    pub latency: Span,
    /// From the decision for a packet to its first byte on the bus.
    pub arbitration: Span,
    /// How many packets an input holds; at least one for each virtual channel.
    pub buffer: u32,
}

/// What a switch is built from that has the crossbar of a hub.
#[derive(Debug)]
pub struct ClockedHubParts {
    /// From an input to the crossbar.
    pub latency: Span,
    /// How many packets an input holds; at least one.
    pub buffer: u32,
    /// What decides in place of request sampling.
    pub scheduler: Option<Box<HubScheduler>>,
}

/// A signal from the far end of the cable of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When.
    pub time: Time,
    /// The port.
    pub port: u32,
}

/// The effects of a packet that leaves a switch with queues at its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The output by which it leaves.
    pub departure: Departure,
    /// The port that gets a credit back, if an event is needed.
    pub credit: Option<Heard>,
}

/// The links and packets around a switch.
pub(super) struct Surroundings<'a> {
    pub wiring: &'a Wiring,
    /// By kind, as the wiring numbers them.
    pub links: &'a [LinkSettings],
    pub packet: Bytes,
    pub flow: &'a FlowControl,
}

impl Surroundings<'_> {
    /// A switch of the graph. Its clock has the cells of its fastest cable.
    pub fn switch(&self, number: u32, parts: ClockedParts) -> InputQueued {
        let ClockedParts { latency, cell, buffer, arbiter, random } = parts;
        let ports = || (0..self.wiring.ports_of(number)).map(|own| self.wiring.port(number, own));
        let link = |port| &self.links[self.wiring.link_of(port)];
        let used = ports().filter(|port| self.wiring.peer(*port) != Peer::Unused);
        let cells = self.packet.0.div_ceil(cell.0);
        let whole = |port| link(port).span(cell * cells);
        let wholes: Vec<Span> = used.map(whole).collect();
        let slot = slot(&wholes, cells);
        let hold = |port| whole(port).0.div_ceil(slot.0).max(cells);
        let holds: Vec<u64> = ports().map(hold).collect();
        let longest = slot * holds.iter().copied().max().unwrap_or(1);
        let room = (u64::from(buffer / u32::from(self.flow.channels)) / cells) as u32;
        let spare = |port| {
            let (span, delay) = (link(port).span(self.packet), link(port).propagation());
            room.saturating_sub(underway(span, slot, delay, longest))
        };
        let stops =
            self.flow.stop_go.map(|own| StopSettings { marks: own.marks, cells, space: buffer });
        let latency = self.latency(number, latency);
        let mut spans: Vec<Span> = ports().map(|port| link(port).span(self.packet)).collect();
        if spans.iter().all(|span| *span == spans[0]) {
            spans.clear();
        }
        let parts = InputQueuedParts {
            first: self.wiring.port(number, 0),
            spans,
            latency,
            slot,
            spare: ports().map(spare).collect(),
            holds,
            room,
            channels: self.flow.channels,
            stops,
            random,
        };
        InputQueued::new(parts, arbiter)
    }

    /// A switch of the graph that is a bus.
    pub fn bus(&self, number: u32, parts: ClockedBusParts) -> InputQueued {
        let ClockedBusParts { latency, arbitration, buffer } = parts;
        let room = buffer / u32::from(self.flow.channels);
        InputQueued::with_bus(BusParts {
            first: self.wiring.port(number, 0),
            latency: self.latency(number, latency),
            arbitration,
            room,
            spare: self.spare(number, room, arbitration),
            spans: self.spans(number),
            channels: self.flow.channels,
            stops: self.stops_of_packets(buffer),
        })
    }

    /// A switch of the graph that is the crossbar of a hub.
    pub fn fifo_crossbar(&self, number: u32, parts: ClockedHubParts) -> InputQueued {
        let ClockedHubParts { latency, buffer, scheduler } = parts;
        InputQueued::with_fifo_crossbar(FifoCrossbarParts {
            first: self.wiring.port(number, 0),
            latency: self.latency(number, latency),
            room: buffer,
            spare: self.spare(number, buffer, Span::ZERO),
            spans: self.spans(number),
            stops: self.stops_of_packets(buffer),
            scheduler,
        })
    }

    /// How long a packet takes on the link of each port of a switch.
    fn spans(&self, number: u32) -> Vec<Span> {
        self.cables(number).map(|own| own.span(self.packet)).collect()
    }

    /// How many packets each input of a hub may hold while its sender certainly has a credit left. From
    /// a decision to the first byte of a packet passes `lead`.
    fn spare(&self, number: u32, room: u32, lead: Span) -> Vec<u32> {
        let spans = self.spans(number);
        let (shortest, longest) = (spans.iter().min(), spans.iter().max());
        let occupied = |span: Option<&Span>| lead + span.copied().unwrap_or_default();
        let (shortest, longest) = (occupied(shortest), occupied(longest));
        let delays = self.cables(number).map(LinkSettings::propagation);
        let spare = |(span, delay): (&Span, Span)| {
            room.saturating_sub(underway(*span, shortest, delay, longest))
        };
        spans.iter().zip(delays).map(spare).collect()
    }

    /// When the inputs of a hub stop their cables, counted in packets.
    fn stops_of_packets(&self, buffer: u32) -> Option<StopSettings> {
        self.flow.stop_go.map(|own| StopSettings { marks: own.marks, cells: 1, space: buffer })
    }

    /// The link of the cable in each port of a switch.
    fn cables(&self, number: u32) -> impl Iterator<Item = &LinkSettings> {
        let ports = (0..self.wiring.ports_of(number)).map(move |own| self.wiring.port(number, own));
        ports.map(|port| &self.links[self.wiring.link_of(port)])
    }

    /// From an input until a packet can be decided on: one that arrives at the instant at which it was
    /// sent is considered at a later edge.
    fn latency(&self, number: u32, latency: Span) -> Span {
        let is_instant = self.cables(number).any(|own| own.propagation() == Span::ZERO);
        latency.max(Span(u64::from(is_instant)))
    }
}

/// The slot of a switch: the time of a cell on its fastest cable. A packet is `cells` cells and takes
/// `wholes` on the cables. The slot is rounded up by as much as makes a packet a whole number of slots on
/// every cable.
fn slot(wholes: &[Span], cells: u64) -> Span {
    let shortest = wholes.iter().min().copied().unwrap_or_default();
    let slot = shortest.0.div_ceil(cells).max(1);
    let longer = wholes.iter().map(|whole| {
        let slots = (whole.0 + slot * cells / 2) / (slot * cells) * cells;
        let needed = whole.0.div_ceil(slots.max(1));
        if needed <= slot + 1 { needed } else { slot }
    });
    Span(longer.max().unwrap_or(slot).max(slot))
}

/// The most packets and credits that can be in flight on a cable, besides those that the input holds or
/// expects, from the moment at which a credit is given until it is back at the sender. It includes one
/// more delay of the cable, since parts of a graph may run that far apart. Credits for one input are given
/// at least `apart` one after another.
///
/// If the input holds and expects fewer packets than its room minus this number, the sender has a
/// credit at every instant until then, with or without this one. So it may count at once.
fn underway(span: Span, apart: Span, delay: Span, hold: Span) -> u32 {
    let back = hold + delay * 2;
    let sent = back.0.div_ceil(span.0.max(1)) + 1;
    let credits = back.0.div_ceil(apart.0.max(1)) + 1;
    u32::try_from(sent + credits).unwrap_or(u32::MAX)
}

impl Graph {
    /// Whether a port is that of a switch which takes part at the edges of a clock.
    #[inline]
    pub(super) fn is_clocked(&self, port: u32) -> bool {
        let owner = self.owners.get(port as usize);
        owner.is_some_and(|owner| matches!(self.kinds[*owner as usize], Kind::Clocked(_)))
    }

    /// From one edge of the clock of a switch to the next, if it has one.
    pub fn slot(&self, switch: u32) -> Option<Span> {
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return None };
        self.clocked.get(index as usize).map(InputQueued::slot)
    }

    #[inline]
    pub(super) fn clocked(&mut self, switch: u32) -> Option<&mut InputQueued> {
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return None };
        self.clocked.get_mut(index as usize)
    }

    /// A packet has been sent on a virtual channel and will arrive at a place. If that is a port of a clocked
    /// switch in this part of the graph, the switch expects it from now on, and the result says what to do.
    /// Otherwise the arrival is an event.
    #[inline(always)]
    pub fn expect(
        &mut self,
        (arrival, place): (Time, u32),
        packet: u32,
        channel: u8,
    ) -> Option<Wakes> {
        let switch = *self.owners.get(place as usize)?;
        match &mut self.pace {
            Pace::Apart => {}
            Pace::Together(own) => {
                let input = place - self.switches[switch as usize].first;
                let edge = own.expect(arrival, packet, (switch, input));
                return Some(edge.map_or(Wakes::Nobody, |edge| Wakes::Switch(switch, edge)));
            }
            Pace::Open => return self.expect_first((arrival, place), packet, channel),
        }
        let own = self.clocked(switch)?;
        let edge = own.expect(arrival, packet, (place - own.first(), channel));
        Some(edge.map_or(Wakes::Nobody, |edge| Wakes::Switch(switch, edge)))
    }

    /// Like [`expect`](Self::expect), before it is known whether switches decide together.
    #[cold]
    #[inline(never)]
    fn expect_first(&mut self, at: (Time, u32), packet: u32, channel: u8) -> Option<Wakes> {
        self.set_pace();
        self.expect(at, packet, channel)
    }

    /// An edge of a clocked switch; `choose` is that of [`InputQueued::edge`].
    #[inline]
    pub fn edge(
        &mut self,
        now: Time,
        switch: u32,
        (behind, outbox): (&mut [u32], &mut Outbox),
        choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        if let Some(own) = self.clocked(switch) {
            own.edge(now, behind, outbox, choose);
        }
    }

    /// Prepares an edge of a clocked switch whose turn comes when `ahead` other switches have had theirs: each step asks
    /// the processor for what the next one reads, and the last one shows packets that the edge is going to read.
    #[inline]
    pub fn prepare_edge(&self, now: Time, switch: u32, ahead: usize, show: impl FnMut(u32)) {
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return };
        let Some(own) = self.clocked.get(index as usize) else { return };
        match ahead {
            1 => own.each_packet(now, show),
            2 => own.prefetch_queues(),
            3 => {
                own.prefetch_tables();
                let first = own.first() as usize;
                let ports = first..first + own.ports();
                prefetch_all(self.ports.get(ports.clone()).unwrap_or_default());
                self.flow.prefetch_all(ports);
            }
            _ => own.prefetch_head(),
        }
    }

    /// Prefetches what [`leave`](Self::leave) and [`expect`](Self::expect) read at the far ends of the
    /// cables by which packets came and by which they leave.
    #[inline]
    pub fn prepare_leave(&self, switch: u32, grants: &[Grant]) {
        let first = self.first_port(switch);
        for grant in grants {
            if let Some(input) = self.ports.get((first + u32::from(grant.input)) as usize) {
                self.flow.prefetch(input.peer());
            }
            self.prefetch_receiver(first + u32::from(grant.output));
        }
    }

    /// Prefetches what a gated port reads when a packet joins it.
    #[inline]
    pub fn prefetch_gate(&self, port: u32) {
        prefetch(&self.gates, port as usize);
        prefetch(&self.ports, port as usize);
        self.flow.prefetch(port);
    }

    /// Prefetches what [`expect`](Self::expect) reads where the cable in a port ends.
    #[inline]
    pub fn prefetch_receiver(&self, port: u32) {
        if let Some((own, input)) = self.receiver(port) {
            own.prefetch_input(input);
        }
    }

    /// The clocked switch at which the cable in a port ends, and the input there.
    #[inline]
    fn receiver(&self, port: u32) -> Option<(&InputQueued, u32)> {
        let place = self.ports.get(port as usize)?.peer();
        let switch = *self.owners.get(place as usize)?;
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return None };
        let own = self.clocked.get(index as usize)?;
        Some((own, place - own.first()))
    }

    /// The next edge at which a clocked switch takes part, if an event is needed for it.
    #[inline]
    pub fn next_edge(&mut self, now: Time, switch: u32) -> Option<Time> {
        self.clocked(switch)?.next_edge(now)
    }

    /// A packet that arrived on a virtual channel leaves a clocked switch.
    #[inline(always)]
    pub fn leave(&mut self, now: Time, switch: u32, grant: &Grant, came_by: u8) -> Option<Leave> {
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return None };
        let own = self.clocked.get_mut(index as usize)?;
        let (input, output) = (own.first() + u32::from(grant.input), u32::from(grant.output));
        let output = own.first() + output;
        let port = &self.ports[output as usize];
        let link = &self.links[port.link() as usize];
        let start = now + own.lead();
        port.start(start, link.span, self.window);
        let departure = Departure { start, arrival: start + link.arrival, place: port.peer() };
        let is_certain = own.release(grant.input, came_by);
        let mut credit = None;
        if self.flow.has_credits() {
            if self.flow.spend(output, grant.channel) {
                own.lose_credit(grant.output.into(), grant.channel);
            }
            let port = &self.ports[input as usize];
            if is_certain {
                self.flow.restore(port.peer(), came_by);
            } else {
                let propagation = self.links[port.link() as usize].propagation;
                let time = now + own.occupation(grant.output) + propagation;
                credit = Some(Heard { time, port: port.peer() });
            }
        }
        Some(Leave { departure, credit })
    }

    /// From now on every credit travels as an event, even if counting it early would change nothing, so that
    /// a test can compare the results.
    pub fn report_every_credit(&mut self) {
        self.clocked.iter_mut().for_each(InputQueued::report_every_credit);
        if let Pace::Together(own) = &mut self.pace {
            own.report_every_credit();
        }
    }

    /// A credit has returned to a port. Returns what must be looked at.
    pub fn credit(&mut self, now: Time, port: u32, channel: u8) -> Wakes {
        if let Pace::Together(own) = &mut self.pace {
            own.end_return(port, channel);
        }
        if !self.flow.restore(port, channel) {
            return Wakes::Nobody;
        }
        if self.is_clocked(port) && self.decides_together() {
            return self.look_together(now, port, channel);
        }
        self.with_clocked(port, |own, output| own.regain_credit(now, output, channel))
    }

    /// The first credit has returned to an output of a switch that decides together with others.
    fn look_together(&mut self, now: Time, port: u32, channel: u8) -> Wakes {
        let switch = self.switch_of(port);
        let output = port - self.first_port(switch);
        let Pace::Together(own) = &mut self.pace else { return Wakes::Nobody };
        let edge = own.regain_credit(now, (switch, output), channel);
        edge.map_or(Wakes::Nobody, |edge| Wakes::Switch(switch, edge))
    }

    /// The far end stops a port, or lets it continue. Returns what must be looked at.
    pub fn stop(&mut self, now: Time, port: u32, stops: bool) -> Wakes {
        if !self.is_clocked(port) {
            self.stop_gate(port, stops);
        }
        self.with_clocked(port, |own, output| own.stop(now, output, stops))
    }

    fn with_clocked(
        &mut self,
        port: u32,
        say: impl FnOnce(&mut InputQueued, u32) -> Option<Time>,
    ) -> Wakes {
        if !self.is_clocked(port) {
            return Wakes::Gate;
        }
        let switch = self.switch_of(port);
        let output = port - self.first_port(switch);
        let edge = self.clocked(switch).and_then(|own| say(own, output));
        edge.map_or(Wakes::Nobody, |edge| Wakes::Switch(switch, edge))
    }

    /// Which port receives a signal that an input sends over its cable now, and when.
    pub fn heard(&self, now: Time, switch: u32, input: u16) -> Heard {
        self.heard_from(now, self.first_port(switch) + u32::from(input))
    }

    /// What the sender before a port hears of it: a port among those of all switches.
    pub fn heard_from(&self, now: Time, input: u32) -> Heard {
        let delay = self.link(input).propagation + self.flow.reaction();
        Heard { time: now + delay.max(Span(1)), port: self.ports[input as usize].peer() }
    }

    /// How occupied an output of a switch without a clock is: when it will be free of everything
    /// that has arrived so far.
    pub fn occupied(&self, port: u32) -> u64 {
        let waiting = self.gates.get(port as usize).map_or(0, |gate| gate.waiting());
        self.free(port).0 + self.span(port).0 * u64::from(waiting)
    }
}

/// What must be looked at because of a signal from the far end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// Nothing.
    Nobody,
    /// The gate of the port.
    Gate,
    /// A clocked switch, at an edge.
    Switch(u32, Time),
}
