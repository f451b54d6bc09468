//! The loop over the events, which has fetched what they need when they happen.
//!
//! With many packets in flight an event finds hardly anything of its packet and its port in the
//! cache. Nearly all events of a slot of the calendar are known when the second slot before it is opened, so that the
//! memory is asked for all that they need together, and answers while others happen: for packets two slots ahead, and
//! for the ports and flows that these name one slot ahead.

use weft_fabric::fabric::Routes;
use weft_fabric::graph::Graph;
use weft_fabric::switch::shared_buffer::{Header, Ports};
use weft_kernel::{Event, Halt, Stopped, prefetch};
use weft_units::Time;

use super::Classed;
use crate::drive::engine::{Delivery, Engine};

/// How many packets must have been in flight at once for memory to be asked for ahead: fewer are in the cache.
const MANY: usize = 128;

impl Engine {
    /// Lets what is due by `until` happen where packets have sizes and classes of their own.
    pub(in crate::drive::engine) fn run_classed(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        if self.is_by_nodes(halt) {
            return self.run_by_nodes(until, halt, watch);
        }
        loop {
            if self.parts.first().open(until) {
                self.look_ahead();
            }
            let event = self.parts.first().pop_until(until)?;
            self.now = event.time;
            self.steps += 1;
            self.happen_classed(event, watch);
            let stopped = halt.check(self.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
    }

    /// Fetches what the events of the next two slots need, unless so few packets have ever been in flight
    /// that it is in the cache. Outputs are then chosen when packets arrive.
    pub(in crate::drive::engine) fn look_ahead(&mut self) {
        let are_few = self.classed.as_ref().is_none_or(|own| own.headers.len() < MANY);
        if are_few && !self.is_large {
            return;
        }
        self.fetch_packets();
        self.fetch_what_packets_tell();
    }

    /// Fetches the packets and ports of the events of the second slot behind the open one.
    #[inline]
    fn fetch_packets(&mut self) {
        let Engine { classed: Some(own), places, parts, flows, .. } = self else {
            return;
        };
        let (places, enters) = (*places, places.enters..places.decides);
        let (ports, headers) = (&own.ports, &own.headers[..]);
        let (is_alike, flows) = (ports.are_alike(), flows.as_deref());
        parts.first().foresee_behind(|Event { place, item, .. }| {
            let id = item as usize;
            // Most events are those of packets; asking for too much costs less than a branch that is
            // guessed wrong.
            prefetch(headers, id);
            if place < places.frees {
                // A packet comes to the end of its flow, which may answer.
                flows.into_iter().for_each(|own| own.prefetch(id));
                // The place of a host has the number of its port.
                ports.prefetch(place);
            } else if place < places.joins {
                ports.prefetch(place - places.frees);
            } else if place < places.acts {
                // Links are compared.
                if !is_alike && enters.contains(&place) {
                    ports.prefetch(place - places.enters);
                }
            } else if place < places.generates {
                flows.into_iter().for_each(|own| own.prefetch_wake(item));
            }
        });
    }

    /// Fetches the outputs to which the packets of the next slot go, and the flows that packets are of or that leave
    /// next.
    #[inline]
    fn fetch_what_packets_tell(&mut self) {
        let Engine { classed: Some(own), places, packets, parts, graph, flows, routes, .. } = self
        else {
            return;
        };
        let places = *places;
        let (frees, enters) = (places.frees..places.joins, places.enters..places.decides);
        let flows = flows.as_deref();
        let are_known = own.knows_outputs(routes);
        let Classed { ports, headers, .. } = &mut **own;
        let (ports, headers) = (&*ports, &mut headers[..]);
        parts.first().foresee(|Event { place, item, .. }| {
            if enters.contains(&place) {
                if are_known {
                    let port = place - places.enters;
                    choose_output(&mut headers[item as usize], port, ports, graph, routes);
                }
            } else if frees.contains(&place) {
                let port = place - places.frees;
                let mut is_any = false;
                for class in 0..ports.classes() {
                    if let Some(id) = ports.oldest(port, class) {
                        prefetch(headers, id as usize);
                        prefetch(&packets.behind, id as usize);
                        is_any = true;
                    }
                }
                if !is_any
                    && let Some(host) = port.checked_sub(places.hosts)
                    && let Some(flows) = flows
                {
                    flows.prefetch_next(host);
                }
            } else if place >= places.hosts
                && place < places.frees
                && let Some(flows) = flows
            {
                flows.prefetch_end(&headers[item as usize]);
            }
        });
    }
}

impl Classed {
    /// Whether packets may choose their outputs ahead: not where queues are weighed, nor where cables fail, so that
    /// routes change meanwhile.
    fn knows_outputs(&self, routes: &Routes) -> bool {
        routes.look_at_packets_alone() && self.cables.is_none()
    }
}

/// A packet chooses the output by which it will leave the switch to which it comes by a port, unless it has, and the
/// output is fetched.
#[inline(always)]
fn choose_output(header: &mut Header, input: u32, ports: &Ports, graph: &Graph, routes: &Routes) {
    if header.output != Header::NOT_CHOSEN {
        return;
    }
    let switch = graph.switch_of(input);
    let Header { hops, to, .. } = *header;
    let number = routes.port(switch, hops, to, &mut header.route_state, |_| 0);
    header.output = graph.first_port(switch) + number;
    ports.prefetch(header.output);
}
