//! Parts of a channel with traffic classes that run side by side.

use weft_fabric::switch::shared_buffer::Header;
use weft_fabric::workload::Source;
use weft_units::Span;

use super::{Classed, Traffic};
use crate::drive::engine::Engine;

impl Classed {
    /// Divides this among `count` parts, by the part of each switch and of each host, before
    /// anything has happened: for a channel without samples and without cables that fail.
    pub fn divide(&mut self, part: &[u32], of_hosts: &[u32], count: u32) -> Vec<Classed> {
        let ports = self.ports.divide(part, count);
        let parts = (0..).zip(ports).map(|(number, ports)| {
            let traffic = self.traffic.iter_mut().map(|own| own.of_part(of_hosts, number));
            Classed {
                ports,
                headers: Vec::new(),
                telemetry: self.telemetry.as_ref().map(|_| Vec::new()),
                class: self.class,
                overhead: self.overhead,
                traffic: traffic.collect(),
                apart: 0,
                sample: None,
                samples: Vec::new(),
                offered: Span::ZERO,
                carried: Span::ZERO,
                busy_before: Vec::new(),
                hosts: self.hosts,
                ends: self.ends,
                switch_ports: self.switch_ports,
                cables: None,
                passes: self.passes,
            }
        });
        parts.collect()
    }

    /// Has the end of every transmission be an event.
    pub fn tell_all(&mut self) {
        self.ports.tell_all();
    }

    /// The header of a packet.
    pub fn header(&self, id: u32) -> Header {
        self.headers[id as usize]
    }

    /// What a part counted of the packets of its hosts is counted here from now on.
    pub fn take_part(&mut self, part: &mut Classed) {
        self.offered += std::mem::take(&mut part.offered);
        self.carried += std::mem::take(&mut part.carried);
        self.apart += std::mem::take(&mut part.apart);
    }
}

impl Engine {
    /// Whether queues are noted at intervals, or cables fail, which is done for the whole, or a packet is
    /// marked that may be in another part by then, or routes weigh queues that may be in one, or hosts are a ring or
    /// have a hub or links have turns, which have no parts.
    pub(in crate::drive::engine) fn happens_to_the_whole(&self) -> bool {
        self.ring.is_some()
            || self.turns.is_some()
            || self.hub.is_some()
            || self.is_sampled()
            || self.marks_departures()
            || self.routes.weigh_other_switches()
            || self.classed.as_ref().is_some_and(|own| own.cables.is_some())
    }
}

impl Traffic {
    /// The sources of the hosts of one part move there; those of others are silent.
    fn of_part(&mut self, of_hosts: &[u32], number: u32) -> Traffic {
        let take = |(own, part): (&mut Source, &u32)| match *part == number {
            true => std::mem::replace(own, Source::silent()),
            false => Source::silent(),
        };
        Traffic { sources: self.sources.iter_mut().zip(of_hosts).map(take).collect(), ..*self }
    }
}
