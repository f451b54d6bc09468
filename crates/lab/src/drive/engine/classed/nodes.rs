//! The loop over the events of a large channel node by node.
//!
//! Nothing gets from one node to another before it has travelled along a cable. In windows that are shorter than the
//! shortest cable, each switch and each host therefore processes all of its events together, one node after the other.
//! In order of time, consecutive events are at nodes all over the network, whose ports and flows have left the cache
//! when they are needed again. Node by node they stay in the cache for a window. What remains are the packets, which
//! are fetched a few events ahead.

use weft_fabric::switch::shared_buffer::Header;
use weft_kernel::{Event, Halt, Stopped, prefetch};
use weft_units::{Span, Time};

use crate::drive::engine::border::delivery;
use crate::drive::engine::flows::Flows;
use crate::drive::engine::places::Places;
use crate::drive::engine::{Delivery, Engine};

/// How many events ahead of the present one memory is asked for, and for what only that memory tells.
const FAR: usize = 12;
const NEAR: usize = 6;

/// In windows with fewer events than this, if links carry half of what they can, a node mostly has one event.
const LEAST_EVENTS: u64 = 4_000;

impl Engine {
    /// Has events happen node by node, as in a large channel. Changes no result, which a test shows. For a channel that
    /// has not run. Returns whether nodes are apart.
    pub fn run_node_by_node(&mut self) -> bool {
        self.divide_into_nodes(0);
        self.parts.is_by_nodes()
    }

    /// Whether events happen node by node, which is decided when they begin.
    pub(super) fn is_by_nodes(&mut self, halt: &Halt) -> bool {
        if self.parts.has_no_order() {
            let is_large = self.is_large && halt.step_limit.is_none();
            let least = if is_large { LEAST_EVENTS } else { u64::MAX };
            self.divide_into_nodes(least);
        }
        self.parts.is_by_nodes()
    }

    /// Divides the events of a channel among its nodes if these are apart from each other, with `least` events in that
    /// time.
    fn divide_into_nodes(&mut self, least: u64) {
        match self.apart().filter(|apart| apart.0 / self.parts.spacing().0 >= least) {
            Some(apart) => {
                let nodes = self.nodes();
                self.parts.divide(nodes, apart);
            }
            None => self.parts.keep_order_of_time(),
        }
    }

    /// From an event at a node to an event that it causes at another one, at least; `None` if the order of events at
    /// different nodes matters.
    fn apart(&self) -> Option<Span> {
        let all = self.graph.switch_ports() + self.graph.ends();
        let hosts_and_switches = self.graph.hosts() + self.graph.switches();
        let is_divisible = self.classed.is_some()
            && self.supply.is_of_sources()
            && self.forward.is_none()
            && self.may_be_spread().is_ok()
            && hosts_and_switches <= u16::MAX.into();
        let cables = (0..all).filter(|port| self.graph.peer(*port).is_some());
        let apart = cables.map(|port| self.graph.propagation(port)).min()?;
        is_divisible.then_some(apart)
    }

    /// Lets what is due by `until` happen node by node, as far as windows end by then, and the rest in order of time. The
    /// run is stopped between two windows.
    pub(super) fn run_by_nodes(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        loop {
            let before = self.steps;
            if self.parts.first().open_window(until) {
                while let Some(node) = self.parts.first().open_node() {
                    self.run_node(node, watch);
                }
                self.hear_of_window(watch);
            } else if let Some(event) = self.parts.first().pop_until(until) {
                self.now = event.time;
                self.steps += 1;
                self.happen_classed(event, watch);
            } else {
                self.hear_of_window(watch);
                return None;
            }
            let stopped = halt.check_since(before, self.steps);
            if stopped.is_some() {
                self.hear_of_window(watch);
                return stopped;
            }
        }
    }

    /// The events of one node in a window.
    fn run_node(&mut self, node: u32, watch: &mut impl FnMut(Delivery)) {
        let before = self.steps;
        self.fetch_next_node();
        let last = match node < self.graph.switches() {
            true => self.run_switch(node),
            false => self.run_host(watch),
        };
        if self.steps > before {
            self.now = self.now.max(last);
        }
    }

    /// Lets the events of a switch happen. Returns when the last one did.
    fn run_switch(&mut self, switch: u32) -> Time {
        let first = self.graph.first_port(switch);
        let Places { hosts, enters, .. } = self.places;
        if let Some(own) = &self.classed {
            own.ports.prefetch_planned(first);
        }
        let mut last = Time::ZERO;
        while let Some(event) = self.parts.first().pop_open() {
            let Event { time: now, place, item } = event;
            // Nearly all are those of packets.
            if let (Some(own), Some(far)) = (&self.classed, self.parts.first().ahead(FAR)) {
                prefetch(&own.headers, far.item as usize);
            }
            last = now;
            self.steps += 1;
            let input = place.wrapping_sub(enters);
            match input < hosts {
                true => self.admit_at(now, (switch, first), input, item),
                false => self.happen_besides(now, place, item),
            }
        }
        last
    }

    /// Lets the events of a host happen. Returns when the last one did.
    fn run_host(&mut self, watch: &mut impl FnMut(Delivery)) -> Time {
        let Places { hosts, frees, .. } = self.places;
        let mut last = Time::ZERO;
        for others in 0..NEAR {
            self.fetch_flow(others);
        }
        while let Some(event) = self.parts.first().pop_open() {
            let Event { time: now, place, item } = event;
            self.fetch_packet();
            self.fetch_flow(NEAR);
            last = now;
            self.steps += 1;
            match place < frees {
                true => self.deliver_classed(now, place - hosts, item, watch),
                false => self.happen_besides(now, place, item),
            }
        }
        last
    }

    /// Fetches what the first events of the next node need, while those of this one happen.
    fn fetch_next_node(&mut self) {
        let Engine { classed: Some(own), parts, graph, places, flows, .. } = self else { return };
        let (headers, flows, places) = (&own.headers, flows.as_deref(), *places);
        let next = parts.first().foresee_node(FAR + 1, |event| {
            fetch_event(event, headers, flows, &places);
        });
        if let Some(switch) = next.filter(|node| *node < graph.switches()) {
            own.ports.prefetch_switch(graph.first_port(switch));
        }
    }

    /// Fetches what an event at the open node needs.
    #[inline(always)]
    fn fetch_packet(&mut self) {
        let Engine { classed: Some(own), parts, places, flows, .. } = self else { return };
        if let Some(event) = parts.first().ahead(FAR) {
            fetch_event(event, &own.headers, flows.as_deref(), places);
        }
    }

    /// Fetches the flow of the packet that comes to the end of its flow after so many other events at the open host.
    #[inline(always)]
    fn fetch_flow(&mut self, others: usize) {
        let Engine { classed: Some(own), parts, places, flows: Some(flows), .. } = self else {
            return;
        };
        if let Some(near) = parts.first().ahead(others)
            && near.place < places.frees
        {
            flows.prefetch_end(&own.headers[near.item as usize]);
        }
    }

    /// Counts and shows what happened since the last window, in order of time.
    fn hear_of_window(&mut self, watch: &mut impl FnMut(Delivery)) {
        let Some(window) = &mut self.parts.window else { return };
        if !window.is_empty() {
            window.sort();
            self.observations.hear(&[&**window], |arrival| watch(delivery(arrival)));
            window.clear();
        }
    }
}

/// Fetches the packet of an event, or what a host needs that is woken.
#[inline(always)]
fn fetch_event(event: Event, headers: &[Header], flows: Option<&Flows>, places: &Places) {
    let Event { place, item, .. } = event;
    // Most events are those of packets; asking for too much costs less than a branch that is guessed wrong.
    prefetch(headers, item as usize);
    let Some(flows) = flows else { return };
    if (places.hosts..places.frees).contains(&place) {
        flows.prefetch(item as usize);
    } else if (places.acts..places.generates).contains(&place) {
        flows.prefetch_wake(item);
    }
}
