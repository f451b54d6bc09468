//! How long a flow takes that is alone: what its completion time is compared with.

use weft_fabric::switch::PortPair;
use weft_fabric::switch::shared_buffer::FarEnd;
use weft_units::{Bytes, Span, Time};

use crate::drive::engine::Engine;

impl Engine {
    /// Records how long a flow that begins would take alone on one of its routes, with packets back
    /// to back from its beginning on.
    pub(super) fn note_alone(&mut self, flow: u32) {
        let Some(flows) = &self.flows else { return };
        let (from, to) = (flows.transports.flow(flow).from, flows.transports.flow(flow).to);
        self.find_way(from, to, flow);
        let Some(flows) = &self.flows else { return };
        let packets = flows.transports.packets(flow);
        let [full, last] = [0, packets - 1].map(|number| {
            let transports = &flows.transports;
            transports.size(transports.payload(flow, number))
        });
        // Where they take all planes in turn, the last one and the one before it are the last of theirs.
        let spread = self.graph.planes() / flows.transports.planes();
        let alone = self.pass_alone(packets.div_ceil(spread), full, last);
        let alone = match (packets - 1).div_ceil(spread) {
            before if spread > 1 && before > 0 => alone.max(self.pass_alone(before, full, full)),
            _ => alone,
        };
        if let Some(flows) = &mut self.flows {
            flows.transports.note_alone(flow, alone);
        }
    }

    /// The ports by which a packet leaves its host and each switch, each with the input that it came
    /// by; a host has none.
    fn find_way(&mut self, from: u32, to: u32, flow: u32) {
        let (Some(flows), Some(own)) = (&mut self.flows, &self.classed) else { return };
        let mut route_state = flows.alone.depart_flow(from, to, flow, 0);
        let plane = flows.transports.plane(flow);
        let mut port = self.graph.host_port(plane * self.graph.hosts() + from);
        flows.path.clear();
        flows.path.push(PortPair { input: port, output: port });
        for hop in 0..=u16::MAX {
            let FarEnd { port: input, .. } = own.arrival(Time::ZERO, port, Span::ZERO);
            if input >= self.places.hosts {
                break;
            }
            let switch = self.graph.switch_of(input);
            let number = flows.alone.port(switch, hop, to, &mut route_state, |_| 0);
            port = self.graph.first_port(switch) + number;
            flows.path.push(PortPair { input, output: port });
        }
    }

    /// How long this many packets take along the route that was found, all of one size but the
    /// last.
    ///
    /// Of equal packets, the one with number k leaves the port with number i at `A_i + k M_i`, where `A_i`
    /// is when the first one does and `M_i` is the longest that a packet takes on a link up to there. The
    /// last one leaves a port when it is there and the one before it has left.
    fn pass_alone(&self, packets: u32, full: Bytes, last: Bytes) -> Span {
        let (Some(flows), Some(own)) = (&self.flows, &self.classed) else { return Span::ZERO };
        let before = u64::from(packets - 1);
        let (mut first_start, mut slowest) = (Time::ZERO, Span::ZERO);
        let (mut first_there, mut last_there) = (Time::ZERO, Time::ZERO);
        for ports in &flows.path {
            let PortPair { input, output: port } = *ports;
            let span = own.span(port, full);
            if input != port {
                first_start = first_there + own.lag(*ports, full);
                last_there += own.lag(*ports, last);
            }
            slowest = slowest.max(span);
            let mut last_start = last_there;
            if before > 0 {
                last_start = last_start.max(first_start + slowest * (before - 1) + span);
            }
            first_there = own.arrival(first_start, port, span).time;
            last_there = own.arrival(last_start, port, own.span(port, last)).time;
        }
        last_there.since(Time::ZERO)
    }
}
