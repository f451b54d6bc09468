//! The loop over the events, which has fetched what they need when they happen.
//!
//! With many packets in flight an event finds hardly anything of its packet and its port in the
//! cache. Which events a slot of the calendar has is known when it is opened, and nearly all of them when the
//! slot before it is, so that the memory is asked for all that they need together, and answers while
//! others happen: for packets a slot ahead, and for what their packets tell when the slot is opened.

use weft_fabric::switch::shared_buffer::Header;
use weft_kernel::{Event, Halt, Stopped, prefetch};
use weft_units::Time;

use super::Classed;
use crate::drive::engine::{Delivery, Engine};

impl Engine {
    /// Lets what is due by `until` happen where packets have sizes and classes of their own.
    pub(in crate::drive::engine) fn run_classed(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
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

    /// Fetches what the events of the open slot and of the next one need.
    pub(in crate::drive::engine) fn look_ahead(&mut self) {
        self.fetch_packets();
        self.fetch_what_packets_tell();
    }

    /// Fetches the packets and ports of the events of the slot behind the open one.
    #[inline]
    fn fetch_packets(&mut self) {
        let Engine { classed: Some(own), places, parts, graph, flows, .. } = self else {
            return;
        };
        let (places, enters) = (*places, places.enters..places.decides);
        let (ports, headers) = (&own.ports, &own.headers[..]);
        let (is_alike, flows) = (ports.are_alike(), flows.as_deref());
        parts.first().foresee(|Event { place, item, .. }| {
            let id = item as usize;
            // Most events are those of packets; asking for too much costs less than a branch that is
            // guessed wrong.
            prefetch(headers, id);
            if place < places.frees {
                flows.into_iter().for_each(|own| own.prefetch(id));
            } else if place < places.joins {
                ports.prefetch(place - places.frees);
                graph.prefetch_port(place - places.frees);
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

    /// Fetches the outputs to which the packets of the open slot go, those that leave next, and the flows that they are
    /// of.
    #[inline]
    fn fetch_what_packets_tell(&mut self) {
        let Engine { classed: Some(own), places, packets, parts, graph, flows, routes, .. } = self
        else {
            return;
        };
        let places = *places;
        let (frees, enters) = (places.frees..places.joins, places.enters..places.decides);
        let flows = flows.as_deref();
        // Where cables fail, routes change meanwhile.
        let are_known = routes.look_at_packets_alone() && own.cables.is_none();
        let Classed { ports, headers, .. } = &mut **own;
        let (ports, headers) = (&*ports, &mut headers[..]);
        for Event { place, item, .. } in parts.first().soon() {
            if enters.contains(&place) {
                let header = &mut headers[item as usize];
                if are_known && header.output == Header::NOT_CHOSEN {
                    let switch = graph.switch_of(place - places.enters);
                    let Header { hops, to, .. } = *header;
                    let number = routes.port(switch, hops, to, &mut header.route_state, |_| 0);
                    header.output = graph.first_port(switch) + number;
                    let output = header.output;
                    ports.prefetch(output);
                    graph.prefetch_port(output);
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
        }
    }
}
