//! Events of limited buffers: edges of switches with a clock, and ports that wait for their far
//! ends.

use weft_fabric::fabric::{Routes, SwitchPort};
use weft_fabric::graph::{Departure, Graph, Heard, Passage, Wakes};
use weft_fabric::switch::{Grant, PortPair};
use weft_kernel::Event;
use weft_units::Time;

use super::clocks::Needs;
use super::packets::{Forwarding, Packet};
use super::{Engine, Handed};
use crate::drive::carrier::MessageId;

/// Signals from the far end of a cable: lower numbers are virtual channels with another credit. Of
/// two signals at one instant a stop comes first, since its cause came first.
pub(super) const STOP: u32 = 256;
pub(super) const GO: u32 = 257;

/// What takes part at an edge: all switches that share the clock, or one switch alone.
const ALL: u32 = 0;
const ALONE: u32 = 1;

impl Engine {
    /// A packet joins a queue of an output that may be full or have to wait, or is dropped.
    #[inline(never)]
    pub(super) fn hold(&mut self, now: Time, switch: u32, ports: PortPair, id: u32) {
        let PortPair { input, output } = ports;
        if self.adapters.is_on {
            self.come(now, switch, ports, id);
        } else if self.ring.is_some() && self.graph.is_ring(switch) {
            self.come_to_bridge(now, ports, id);
        } else if self.graph.is_memory(switch) {
            self.schedule(now + self.graph.latency(switch), self.places.enters + input, id);
        } else if self.graph.is_gated(output) {
            self.packets.set_output(id, output);
            self.schedule(now + self.graph.latency(switch), self.places.enters + input, id);
        } else if let Some(departure) = self.graph.pass_limited(now, switch, output) {
            self.packets.take_step(&self.graph, switch, ports, id);
            let Departure { arrival: time, place, .. } = departure;
            self.forward(Event { time, place, item: id });
        } else {
            self.drop(now, id);
        }
    }

    /// A packet joins the queue of a gated output, or is dropped.
    #[inline(never)]
    pub(super) fn enter(&mut self, now: Time, input: u32, id: u32) {
        if self.graph.is_of_memory(input) {
            return self.store(now, id);
        }
        let output = self.packets.output(id);
        if self.graph.is_gate_full(now, output) {
            return self.drop(now, id);
        }
        let switch = self.graph.switch_of(output);
        let behind = SwitchPort {
            switch: self.graph.number(switch),
            port: output - self.graph.first_port(switch),
        };
        let forwarding = &mut self.packets.forwarding[id as usize];
        let lanes = Lanes::of(&self.graph);
        forwarding.channel = channel_behind(&self.routes, lanes, behind, forwarding);
        self.packets.take_step(&self.graph, switch, PortPair { input, output }, id);
        if self.graph.enqueue(output, id, &mut self.packets.behind) {
            self.try_gate(now, output);
        }
    }

    /// A host submits a packet that may have to wait for the switch.
    pub(super) fn queue(&mut self, now: Time, host: u32, end: u32, id: u32, handed: &Handed) {
        if handed.next < Time::NEVER {
            self.schedule(handed.next, self.places.generates + host, 0);
        }
        let port = self.graph.host_port(end);
        if !self.adapters.is_on {
            let channel = self.packets.forwarding[id as usize].channel;
            if let Some(departure) = self.graph.send_at_once(now, port, channel) {
                self.count_start(now, host, handed.message);
                return self.travel(now, &departure, id, channel);
            }
        }
        if self.graph.enqueue(port, id, &mut self.packets.behind) {
            self.try_gate(now, port);
        }
    }

    /// Lets packets of a gated port leave as far as they may.
    #[inline(never)]
    pub(super) fn try_gate(&mut self, now: Time, port: u32) {
        if self.adapters.is_on && port >= self.graph.switch_ports() {
            return self.look_at_link(now, port - self.graph.switch_ports());
        }
        let forwarding = &self.packets.forwarding;
        let channel_of = |id: u32| forwarding[id as usize].channel;
        match self.graph.try_gate(now, port, &self.packets.behind, channel_of) {
            Passage::Leaves(id, departure) => {
                if port >= self.graph.switch_ports() {
                    self.start(now, id);
                }
                let channel = self.packets.forwarding[id as usize].channel;
                self.travel(now, &departure, id, channel);
                // The next one waits for this one, or for something else.
                if self.graph.has_waiting(port) {
                    self.try_gate(now, port);
                }
            }
            Passage::Later(time) => self.schedule(time, self.places.wakes + port, 0),
            Passage::Waits => {}
        }
    }

    /// A packet that waited for the switch leaves its host.
    fn start(&mut self, now: Time, id: u32) {
        let packet = &mut self.packets.packets[id as usize];
        packet.start = now;
        let Packet { message, from: host, .. } = *packet;
        self.count_start(now, host, message);
    }

    /// A packet of a message, or of none, starts at its host.
    #[inline]
    fn count_start(&mut self, now: Time, host: u32, message: MessageId) {
        self.observations.attempt(now);
        if message != MessageId::NONE {
            self.begin_message(now, host, message);
        }
        // The buffer of a greedy source is free when the transmission starts.
        if self.supply.has_another(host) {
            self.schedule(now, self.places.generates + host, 0);
        }
    }

    /// A packet is on a virtual channel of a cable.
    #[inline(always)]
    pub(super) fn travel(&mut self, now: Time, departure: &Departure, id: u32, channel: u8) {
        match self.graph.expect((departure.arrival, departure.place), id, channel) {
            Some(Wakes::Switch(switch, edge)) => self.wake(now, switch, edge),
            Some(_) => {}
            None => self.travel_unexpected(now, departure, id),
        }
    }

    /// A packet is on a cable at whose far end nobody has to expect it.
    #[inline(never)]
    pub(super) fn travel_unexpected(&mut self, now: Time, departure: &Departure, id: u32) {
        match self.adapters.is_on {
            true => self.go(now, departure, id),
            false => self.arrive_at(departure, id),
        }
    }

    /// A switch must take part at an edge because of a packet or a signal that is sent to it. Where
    /// packets come often it would have taken part anyway.
    #[inline(never)]
    pub(super) fn wake(&mut self, now: Time, switch: u32, edge: Time) {
        self.attend(now, switch, edge);
    }

    /// A switch must take part at an edge.
    #[inline(always)]
    pub(super) fn attend(&mut self, now: Time, switch: u32, edge: Time) {
        match self.clocks.attend(now, switch, edge) {
            Needs::Nothing => {}
            Needs::Clock(place) => self.schedule(edge, self.places.edges + place, ALL),
            Needs::Own => self.schedule(edge, self.places.edges + switch, ALONE),
        }
    }

    /// An edge of a clock. Its switches do not affect each other before the next edge, so their
    /// order does not matter.
    #[inline(never)]
    pub(super) fn tick(&mut self, now: Time, place: u32, item: u32) {
        if self.graph.decides_together() {
            return self.tick_together(now, place);
        }
        if item == ALONE {
            return self.edge(now, place);
        }
        let count = self.clocks.begin(now, place);
        self.outbox.fetches_ahead = self.clocks.are_many();
        for index in 0..count {
            if self.outbox.fetches_ahead {
                self.prepare_edges(now, index);
            }
            if let Some(switch) = self.clocks.attending(index) {
                self.edge(now, switch);
            }
        }
    }

    /// Prepares the edges of the switches that take part behind one.
    #[inline]
    fn prepare_edges(&self, now: Time, index: usize) {
        for ahead in 1..=4 {
            if let Some(switch) = self.clocks.attending(index + ahead) {
                self.graph.prepare_edge(now, switch, ahead, |id| self.packets.prefetch(id));
            }
        }
    }

    /// An edge at which a switch takes part.
    fn edge(&mut self, now: Time, switch: u32) {
        let (forwarding, routes) = (&mut self.packets.forwarding, &self.routes);
        let lanes = Lanes::of(&self.graph);
        let known = self.graph.number(switch);
        let choose = |id: u32, waiting: &[u32]| {
            let forwarding = &mut forwarding[id as usize];
            let occupied = |port: u32| u64::from(waiting[port as usize]);
            let output = routes.port(
                known,
                forwarding.hops,
                forwarding.to,
                &mut forwarding.route_state,
                occupied,
            );
            forwarding.hops += 1;
            let behind = SwitchPort { switch: known, port: output };
            (output, channel_behind(routes, lanes, behind, forwarding))
        };
        self.graph.edge(now, switch, (&mut self.packets.behind, &mut self.outbox), choose);
        if !self.outbox.signals.is_empty() {
            self.signal(now, switch);
        }
        if let Some(input) = self.outbox.overrun.take() {
            let port = self.graph.first_port(switch) + u32::from(input);
            self.note_overrun(now, port, self.graph.space(port));
        }
        if self.outbox.fetches_ahead {
            self.graph.prepare_leave(switch, &self.outbox.grants);
        }
        for granted in 0..self.outbox.grants.len() {
            let grant = self.outbox.grants[granted];
            self.leave(now, switch, &grant);
        }
        self.outbox.grants.clear();
        if let Some(edge) = self.graph.next_edge(now, switch) {
            self.attend(now, switch, edge);
        }
    }

    /// Inputs of a switch stop their cables, or let them go on.
    fn signal(&mut self, now: Time, switch: u32) {
        let mut signals = std::mem::take(&mut self.outbox.signals);
        for (input, stops) in signals.drain(..) {
            let Heard { time, port } = self.graph.heard(now, switch, input);
            let said = if stops { STOP } else { GO };
            self.say(time, port, said);
        }
        self.outbox.signals = signals;
    }

    /// A packet leaves a switch with a clock.
    #[inline]
    fn leave(&mut self, now: Time, switch: u32, grant: &Grant) {
        let forwarding = &mut self.packets.forwarding[grant.packet as usize];
        let came_by = std::mem::replace(&mut forwarding.channel, grant.channel);
        let Some(left) = self.graph.leave(now, switch, grant, came_by) else { return };
        if let Some(Heard { time, port }) = left.credit {
            self.say(time, port, came_by.into());
        }
        if self.graph.is_mixed() {
            let first = self.graph.first_port(switch);
            let ports = PortPair {
                input: first + u32::from(grant.input),
                output: first + u32::from(grant.output),
            };
            self.packets.take_step(&self.graph, switch, ports, grant.packet);
        }
        self.travel(now, &left.departure, grant.packet, grant.channel);
    }

    /// A port will receive a signal from the far end of its cable, which may be in another part.
    #[inline]
    pub(super) fn say(&mut self, time: Time, port: u32, item: u32) {
        self.forward(Event { time, place: self.places.signals + port, item });
    }

    /// A port receives a signal from the far end of its cable.
    #[inline(never)]
    pub(super) fn hear(&mut self, now: Time, port: u32, said: u32) {
        let is_stop = said == STOP && now >= self.observations.from;
        self.memories.count_stop(is_stop);
        let wakes = match said {
            STOP | GO => self.graph.stop(now, port, said == STOP),
            channel => self.graph.credit(now, port, channel as u8),
        };
        match wakes {
            Wakes::Nobody => {}
            Wakes::Gate if self.is_served(port) => self.serve(now, port),
            Wakes::Gate => self.try_gate(now, port),
            Wakes::Switch(switch, edge) => self.wake(now, switch, edge),
        }
    }

    #[cold]
    pub(super) fn note_overrun(&mut self, now: Time, port: u32, space: u32) {
        if self.overrun.as_ref().is_some_and(|own| own.is_before(now, port)) {
            return;
        }
        let said = self.names.as_deref().map(|wiring| {
            let name = match port < wiring.ports() {
                true => wiring.port_name(port),
                false => wiring.end_name(port - wiring.ports()),
            };
            format!(
                "at {} a cell came to {name}, whose buffer of {space} cells was full; a lossless channel \
                 needs a larger buffer, or has to stop earlier",
                now.since(Time::ZERO),
            )
        });
        let said = said.unwrap_or_default();
        self.overrun = Some(Overrun { time: now, place: port, space, said });
    }
}

/// A buffer that was written while it was full.
#[derive(Clone, Debug)]
pub(super) struct Overrun {
    pub time: Time,
    /// The port at which it waits, or the switch that holds it.
    pub place: u32,
    /// How many cells it holds.
    pub space: u32,
    /// The text of the report; empty in the part of a rank, which knows no names: rank 0 writes it.
    pub said: String,
}

impl Overrun {
    /// Whether it should be reported rather than another one: the first one, and of several at one
    /// instant the one with the lowest place, so that the report does not depend on how the graph is
    /// divided.
    pub fn is_before(&self, time: Time, place: u32) -> bool {
        (self.time, self.place) <= (time, place)
    }
}

/// How the virtual channels of a cable are used.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    /// Those that a packet uses on its route.
    of_route: u8,
    /// Whether there are more, so that each connection has some of its own.
    has_classes: bool,
}

impl Lanes {
    #[inline]
    pub fn of(graph: &Graph) -> Lanes {
        let of_route = graph.virtual_channels();
        Lanes { of_route, has_classes: graph.channels() > of_route }
    }

    /// The first one of those that a packet uses which has arrived by one of them.
    #[inline]
    fn first(self, came_by: u8) -> u8 {
        if self.has_classes { came_by - came_by % self.of_route } else { 0 }
    }
}

/// The virtual channel by which a packet leaves a port of a switch.
#[inline]
pub(super) fn channel_behind(
    routes: &Routes,
    lanes: Lanes,
    output: SwitchPort,
    forwarding: &Forwarding,
) -> u8 {
    match lanes.of_route {
        1 => forwarding.channel,
        _ => {
            lanes.first(forwarding.channel)
                + routes.virtual_channel(output, forwarding.to, forwarding.route_state)
        }
    }
}
