//! The loop over the events, which has fetched what they need when they happen.
//!
//! With many packets under way an event finds hardly anything of its packet and its port in the cache. Which events a
//! slot of the calendar has is known when it is opened, so that the memory is asked for all that they need
//! at once, and answers while the first of them happen.

use weft_kernel::{Event, Halt, Stopped, prefetch};
use weft_units::Time;

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

    /// Fetches what the events of the open slot need.
    pub(in crate::drive::engine) fn look_ahead(&mut self) {
        let Engine { classed: Some(own), places, packets, parts, graph, flows, .. } = self else {
            return;
        };
        let events = parts.first().soon();
        let (frees, enters) = (places.frees..places.joins, places.enters..places.decides);
        let is_alike = own.ports.are_alike();
        for Event { place, item, .. } in events.clone() {
            let id = item as usize;
            if enters.contains(&place) {
                prefetch(&own.headers, id);
                prefetch(&packets.forwarding, id);
                // Elsewhere links are compared.
                if !is_alike {
                    own.ports.prefetch(place - places.enters);
                }
            } else if frees.contains(&place) {
                own.ports.prefetch(place - places.frees);
                graph.prefetch_port(place - places.frees);
            } else if place >= places.hosts && place < places.frees {
                prefetch(&own.headers, id);
                prefetch(&packets.forwarding, id);
                prefetch(&packets.packets, id);
                if let Some(flows) = flows {
                    flows.prefetch(id);
                }
            }
        }
        // By now it is known which packets leave next, and of which flows packets are.
        for Event { place, item, .. } in events {
            if frees.contains(&place) {
                let port = place - places.frees;
                if let Some(id) = own.ports.oldest(port, 0) {
                    prefetch(&own.headers, id as usize);
                    prefetch(&packets.behind, id as usize);
                } else if let Some(host) = port.checked_sub(places.hosts)
                    && let Some(flows) = flows
                {
                    flows.prefetch_next(host);
                }
            } else if place >= places.hosts
                && place < places.frees
                && let Some(flows) = flows
            {
                flows.prefetch_end(&own.headers[item as usize]);
            }
        }
    }
}
