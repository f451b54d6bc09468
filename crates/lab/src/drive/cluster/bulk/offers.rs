//! What hosts hand over to a bulk channel: packets of their sources, and what the handlers of messages
//! answer.

use weft_fabric::measure::Drop;
use weft_fabric::workload::Demand;
use weft_units::Time;

use super::BulkChannel;
use crate::drive::cluster::Event;
use crate::drive::interface::HandlerReport;

impl BulkChannel {
    /// A host hands over what it has for now.
    pub(in crate::drive::cluster) fn generate(
        &mut self,
        now: Time,
        index: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        while let Some(source) = &mut self.hosts[usize::from(index)].source
            && source.next_time() <= now
        {
            let demand = source.take();
            self.offer_packet(now, index, demand);
        }
        Self::schedule_source(index, &self.hosts[usize::from(index)], schedule);
        self.serve(now, index, schedule);
    }

    /// A host hands over a packet of its source, with what its message says, if it says anything.
    fn offer_packet(&mut self, now: Time, index: u16, demand: Demand) {
        let Demand { time, target } = demand;
        self.observations.generate_from(index.into(), time);
        let sender = &mut self.hosts[usize::from(index)].sender;
        let passes = match &mut self.parts.bodies {
            None => sender.offer(time, target as u16),
            Some(bodies) => {
                let text = bodies.next_listed(index);
                sender.offer_text(time, target as u16, text, bodies)
            }
        };
        if !passes {
            self.refuse(now);
        }
    }

    /// Hands over what the handlers of a host have answered. Returns whether that was anything.
    pub(super) fn send_answers(&mut self, now: Time, index: u16) -> bool {
        let Some(bodies) = &mut self.parts.bodies else { return false };
        let sender = &mut self.hosts[usize::from(index)].sender;
        let Some(interface) = sender.interface_mut() else { return false };
        let answers = interface.take_answers();
        let any = !answers.is_empty();
        let mut refused = 0;
        for (target, text) in answers {
            self.observations.generate_from(index.into(), now);
            refused += u32::from(!sender.offer_text(now, target, text, bodies));
        }
        (0..refused).for_each(|_| self.refuse(now));
        any
    }

    /// What may not pass is dropped.
    fn refuse(&mut self, now: Time) {
        self.observations.drop(Drop::Protected, now);
        self.observations.abandon(now);
    }

    /// What the handlers did that messages call, if any do.
    pub fn handlers(&self) -> Option<HandlerReport> {
        let bodies = self.parts.bodies.as_ref()?;
        let hosts = (0..).zip(&self.hosts);
        let endpoints = hosts.filter_map(|(host, own)| Some((host, own.sender.interface()?)));
        let endpoints = endpoints.flat_map(|(host, own)| own.report_endpoints(host));
        Some(bodies.report(endpoints.collect()))
    }
}
