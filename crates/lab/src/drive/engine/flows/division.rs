//! Flows of a channel whose parts run side by side.

use std::ops::Range;

use weft_fabric::adapter::{HeldPackets, Transports};

use super::Flows;
use crate::drive::engine::{Alone, Engine};

impl Flows {
    /// Why they may not be divided, if so.
    pub fn are_whole(&self) -> Option<Alone> {
        let kept = self.transports.keeps_queue_pairs().then_some(Alone::Kept);
        kept.or_else(|| self.transports.has_loops().then_some(Alone::Closed))
    }

    /// Those of the part with these hosts, from its first one to its last, before any begins.
    pub fn of_part(&self, hosts: Range<u32>) -> Flows {
        Flows {
            transports: self.transports.of_part(),
            segments: Vec::new(),
            groups: Vec::new(),
            classes: self.classes,
            messages: Vec::new(),
            class: self.class,
            bits: self.bits,
            alone: self.alone.of_hosts(hosts),
            path: Vec::new(),
        }
    }
}

impl Engine {
    /// Takes over what the parts know of flows.
    pub(in crate::drive::engine) fn gather_flows(&mut self) {
        let Some(mut own) = self.flows.take() else { return };
        let parts = self.beside.iter().flat_map(|beside| beside.parts());
        let flows = parts.filter_map(|part| part.flows.as_ref().map(|own| &own.transports));
        own.transports.gather(flows, |host| self.flows_at(host));
        self.flows = Some(own);
    }

    /// The packets of flows that have begun and have not arrived.
    pub(in crate::drive::engine) fn held_of_flows(&self) -> Option<HeldPackets> {
        let own = &self.flows.as_ref()?.transports;
        Some(own.held_by(|host| self.flows_at(host).unwrap_or(own)))
    }

    /// The flows of the part with a host.
    fn flows_at(&self, host: u32) -> Option<&Transports> {
        let part = self.at_port(self.graph.host_port(host));
        part.flows.as_ref().map(|own| &own.transports)
    }
}
