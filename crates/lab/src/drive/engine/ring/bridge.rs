//! Bridges: stations between a ring and the cable in its port. A bridge has the room of a switch
//! with a buffer before its cable, and gives credits for the room before its ring.

use weft_fabric::graph::{Departure, Graph, Heard, PortState};
use weft_fabric::measure::Spent;
use weft_fabric::switch::PortPair;
use weft_kernel::Event;
use weft_units::{Span, Time};

use super::super::Engine;
use super::happens;
use super::stations::{End, Flight, Rings};

impl Engine {
    /// The station by which a packet of a host leaves the ring.
    pub(super) fn choose_exit(&mut self, now: Time, station: u32, packet: u32) -> u32 {
        let Some(own) = &self.ring else { return station };
        let ring = &own.rings[own.stations[station as usize].ring as usize];
        let (graph, first) = (&self.graph, self.graph.first_port(ring.switch));
        let way = &mut self.packets.forwarding[packet as usize];
        let idle = self.routes.idle(now);
        let occupied = |port| graph.occupied(first.wrapping_add(port)).saturating_sub(idle);
        let (number, hops) = (graph.number(ring.switch), way.hops);
        way.hops += 1;
        ring.first + self.routes.port(number, hops, way.to, &mut way.route_state, occupied)
    }

    /// A bridge takes a request that leaves the ring, if it has room for it.
    pub(super) fn take_at_bridge(&mut self, now: Time, station: u32, id: u32) -> bool {
        let Some(own) = &mut self.ring else { return false };
        let at = &mut own.stations[station as usize];
        let port = at.port;
        if self.graph.is_bridge_full(now, port, at.crossing) {
            return false;
        }
        at.crossing += 1;
        own.counters.bridged += 1;
        let packet = own.flights[id as usize].packet;
        self.packets.set_output(packet, port);
        let latency = self.graph.latency(self.graph.switch_of(port));
        self.at_station(now + latency, station, happens::CROSS, packet);
        self.count_ring(id);
        true
    }

    /// A packet has come through a bridge and joins the queue before its cable, where room is kept
    /// for it.
    pub(super) fn leave_bridge(&mut self, now: Time, station: u32, packet: u32) {
        let Some(own) = &mut self.ring else { return };
        let at = &mut own.stations[station as usize];
        at.crossing -= 1;
        let port = at.port;
        if self.graph.is_gated(port) {
            return self.enter(now, port, packet);
        }
        let switch = self.graph.switch_of(port);
        self.packets.take_step(&self.graph, switch, PortPair { input: port, output: port }, packet);
        let Departure { arrival: time, place, .. } = self.graph.leave_bridge(now, port);
        self.forward(Event { time, place, item: packet });
    }

    /// The first byte of a packet is at a bridge, which stores it whole before it sends it on to
    /// `output`, a station of the ring.
    pub(in crate::drive::engine) fn come_to_bridge(
        &mut self,
        now: Time,
        PortPair { input, output }: PortPair,
        packet: u32,
    ) {
        let Some(own) = &mut self.ring else { return };
        let (Some(station), Some(exit)) = (own.at_port(input), own.at_port(output)) else { return };
        let channel = self.packets.forwarding[packet as usize].channel;
        let flight = Flight { channel, ..Flight::new(packet, station, exit) };
        let id = own.begin_flight(flight);
        let latency = self.graph.latency(self.graph.switch_of(input));
        let transmission = self.graph.span(input);
        if let Some(spent) = self.packets.stored(packet) {
            *spent = spent.and(Spent { wire: Span::ZERO, switches: latency, transmission });
        }
        self.at_station(now + transmission + latency, station, happens::REPEAT, id);
    }

    /// A request is accepted or given up: its station need not keep it, and a bridge has room for
    /// another one.
    #[inline]
    pub(super) fn end_flight(&mut self, now: Time, station: u32, id: u32) {
        let Some(own) = &mut self.ring else { return };
        let channel = own.end_flight(id);
        let at = &own.stations[station as usize];
        if at.end == End::Bridge {
            let port = at.port;
            self.say_of_bridge(now, port, channel);
        }
    }

    /// A bridge has room again, which it tells the far end of the cable in its port.
    #[inline(never)]
    fn say_of_bridge(&mut self, now: Time, port: u32, channel: u8) {
        let Heard { time, port } = self.graph.heard_from(now, port);
        self.say(time, port, channel.into());
    }
}

impl Rings {
    /// Adds to the state of a port of a ring what waits in the bridge there before the ring: the
    /// channels without room, and the ports by which its packets leave the ring.
    pub fn add_to(&self, state: &mut PortState, port: u32, graph: &Graph) {
        let Some(station) = self.at_port(port).filter(|own| self.end(*own) == End::Bridge) else {
            return;
        };
        let (channels, own) = (graph.channels(), &self.stations[station as usize]);
        let bridge = self.rings[own.ring as usize].settings.bridge;
        let room = bridge.map_or(0, |own| (own.buffer.get() / u32::from(channels)).max(1));
        let held = || self.under_way().filter(|own| own.sender == station);
        let is_full =
            |channel: &u8| held().filter(|own| own.channel == *channel).count() >= room as usize;
        state.full = (0..channels).filter(is_full).collect();
        let exits =
            held().filter(|own| own.waits()).map(|own| self.stations[own.exit as usize].port);
        state.wanted_behind = exits.collect();
        state.wanted_behind.sort_unstable();
        state.wanted_behind.dedup();
    }
}
