//! Edges at which all switches of the graph [decide together](Graph::edge_of_all).

use weft_fabric::fabric::{Routes, SwitchPort};
use weft_fabric::graph::{Graph, Passing};
use weft_fabric::switch::PortPair;
use weft_units::Time;

use super::Engine;
use super::limits::{Lanes, channel_behind};
use super::packets::Packets;

/// The packets of a channel with their routes.
struct Travellers<'a> {
    packets: &'a mut Packets,
    routes: &'a Routes,
    lanes: Lanes,
}

impl Passing for Travellers<'_> {
    #[inline(always)]
    fn choose(&mut self, switch: u32, packet: u32, waiting: &[u32]) -> (u32, u8) {
        let forwarding = &mut self.packets.forwarding[packet as usize];
        let occupied = |port: u32| u64::from(waiting[port as usize]);
        let route = &mut forwarding.route_state;
        let port = self.routes.port(switch, forwarding.hops, forwarding.to, route, occupied);
        forwarding.hops += 1;
        (port, channel_behind(self.routes, self.lanes, SwitchPort { switch, port }, forwarding))
    }

    #[inline(always)]
    fn leave(
        &mut self,
        graph: &Graph,
        (switch, ports, step): (u32, PortPair, usize),
        packet: u32,
        channel: u8,
    ) -> u8 {
        if graph.is_mixed() {
            self.packets.take_step_of_kind(graph, step, (switch, ports), packet);
        }
        if graph.channels() == 1 {
            return 0;
        }
        std::mem::replace(&mut self.packets.forwarding[packet as usize].channel, channel)
    }

    #[inline(always)]
    fn behind(&mut self) -> &mut [u32] {
        &mut self.packets.behind
    }

    #[inline(always)]
    fn prefetch(&self, packet: u32) {
        self.packets.prefetch(packet);
    }
}

impl Engine {
    /// An edge of the clock that all switches share.
    #[inline(never)]
    pub(super) fn tick_together(&mut self, now: Time, place: u32) {
        self.clocks.begin(now, place);
        let (packets, routes) = (&mut self.packets, &self.routes);
        let mut travellers = Travellers { packets, routes, lanes: Lanes::of(&self.graph) };
        let many = self.clocks.many();
        self.outbox.fetches_ahead =
            self.graph.edge_of_all(now, many, &mut travellers, &mut self.passed);
        let mut passed = std::mem::take(&mut self.passed);
        for (packet, departure) in passed.departures.drain(..) {
            self.travel_unexpected(now, &departure, packet);
        }
        for (heard, channel) in passed.credits.drain(..) {
            self.say(heard.time, heard.port, channel.into());
        }
        for edge in passed.edges.drain(..) {
            self.attend(now, place, edge);
        }
        self.passed = passed;
    }
}
