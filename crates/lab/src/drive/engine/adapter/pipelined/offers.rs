//! What hosts submit to a channel under a schedule: packets of their sources, and the responses of
//! message handlers.

use weft_fabric::workload::{Demand, Feedback};
use weft_units::Time;

use super::super::{Adapters, Engine, acts};
use super::Pipelined;
use crate::drive::interface::Letter;

impl Engine {
    /// A host submits what its source has for now.
    pub(in super::super) fn generate_at_outlet(&mut self, now: Time, host: u32) {
        while let Some(source) = self.supply.source(host)
            && source.next_time() <= now
        {
            let demand = source.take();
            self.offer_to_outlet(now, host, demand);
        }
        self.schedule_source(host);
        self.serve_outlet(now, host);
    }

    /// A host submits a packet of its source, with the content of its message, if it has any.
    fn offer_to_outlet(&mut self, now: Time, host: u32, demand: Demand) {
        let Demand { time, target } = demand;
        self.observations.generate_from(host as usize, time);
        let Adapters { pipelined: Some(own), bodies, .. } = &mut self.adapters else { return };
        let outlet = &mut own.outlets[host as usize];
        let passes = match bodies {
            None => outlet.offer(time, target as u16),
            Some(bodies) => {
                let text = bodies.next_listed(host as u16);
                outlet.offer_text(time, target as u16, text, bodies)
            }
        };
        if !passes {
            self.refuse_letter(now, host as u16);
        }
    }

    /// Lets a host and its interface do what is due, and asks its source for more.
    pub(in super::super) fn serve_outlet(&mut self, now: Time, host: u32) {
        loop {
            let Adapters { pipelined: Some(own), messages, bodies, .. } = &mut self.adapters else {
                return;
            };
            let Some(interface) = own.outlets[host as usize].interface_mut() else { break };
            let next = interface.serve(now, bodies.as_deref_mut(), |letter| {
                let Letter { from, to, sequence, .. } = letter;
                if let Some(messages) = messages {
                    // Messages number the packets of a pair modulo 2^32.
                    messages.arrive_numbered(now, from, to, sequence as u32);
                }
            });
            if let Some(next) = next {
                self.act_later(next, host, acts::INTERFACE, 0);
            }
            if !self.send_answers_of_outlet(now, host) {
                break;
            }
        }
        self.ask_source_of_outlet(now, host);
    }

    /// Submits the responses of a host's handlers. Returns whether there were any.
    fn send_answers_of_outlet(&mut self, now: Time, host: u32) -> bool {
        let Adapters { pipelined: Some(own), bodies: Some(bodies), .. } = &mut self.adapters else {
            return false;
        };
        let outlet = &mut own.outlets[host as usize];
        let Some(interface) = outlet.interface_mut() else { return false };
        let answers = interface.take_answers();
        let any = !answers.is_empty();
        let mut refused = 0;
        for (target, text) in answers {
            self.observations.generate_from(host as usize, now);
            refused += u32::from(!outlet.offer_text(now, target, text, bodies));
        }
        (0..refused).for_each(|_| self.refuse_letter(now, host as u16));
        any
    }

    /// Schedules the next packet of a greedy source for when there is space for it.
    fn ask_source_of_outlet(&mut self, now: Time, host: u32) {
        let has_space = |own: &Pipelined| own.outlets[host as usize].has_space();
        if self.adapters.hosts[host as usize].feedback == Feedback::Ready
            && self.adapters.pipelined.as_deref().is_some_and(has_space)
        {
            self.tell_ready(now, host);
        }
    }
}
