//! When packets and pause frames have left their ports, and packets of which that is planned.

use weft_fabric::switch::shared_buffer::{FarEnd, Freed, InputCredit, credit_item, credit_of};
use weft_kernel::Event;
use weft_units::{Span, Time};

use crate::drive::engine::Engine;

impl Engine {
    /// Has the end of every transmission be an event where packets have classes of their own, also of those after
    /// which nothing waits, and plans none ahead. Changes no result, which a test shows. For a channel that
    /// has not run.
    pub fn tell_every_departure(&mut self) {
        if let Some(own) = &mut self.classed {
            own.tell_all();
        }
    }

    /// Settles a port: what it has sent by now has left. The port of a host is settled after all
    /// arrivals of the same instant, as if the end of its transmission were an event.
    #[inline]
    pub(in crate::drive::engine) fn settle_port(&mut self, now: Time, port: u32) {
        if let Some(own) = &mut self.classed {
            own.ports.settle(now, port);
        }
    }

    /// Whether a port of a host has nothing to send now: it is busy and has an event for the end of that, or it is the
    /// only one, nothing waits at it, and no flow waits for it. Most packets that a host receives find it so.
    #[inline]
    pub(super) fn has_nothing_to_send(&self, port: u32) -> bool {
        let Some(own) = &self.classed else { return true };
        let is_alone = self.graph.planes() == 1;
        own.ports.is_noted(port) || is_alone && own.ports.is_empty(port) && !self.is_awaited(port)
    }

    /// A packet comes to a port that sends another one. Returns whether it is planned when it leaves.
    #[inline]
    pub(super) fn plan(&mut self, now: Time, port: u32, id: u32) -> bool {
        let Some(own) = &mut self.classed else { return false };
        let header = &mut own.headers[id as usize];
        match own.ports.plan(now, port, id, header) {
            Some((start, span)) => {
                self.set_out(start, port, id, span);
                true
            }
            // It may go before what is planned, or have some of that marked.
            None if own.ports.has_planned(port) => {
                self.recall(port);
                false
            }
            None => false,
        }
    }

    /// Nothing is planned at a port any more that is to send a pause first, or is paused itself.
    #[inline]
    pub(super) fn recall_if_held(&mut self, port: u32) {
        if self.classed.as_ref().is_some_and(|own| own.ports.is_to_recall(port)) {
            self.recall(port);
        }
    }

    #[cold]
    fn recall(&mut self, port: u32) {
        let Some(own) = &mut self.classed else { return };
        let (ports, headers, packets) = (&mut own.ports, &mut own.headers, &mut self.packets);
        let note = |id: u32| headers[id as usize].is_early = true;
        ports.recall(port, &mut packets.behind, note);
        if !packets.has_spent() {
            return;
        }
        // What they were to spend at this port they will spend when they leave. All are in one queue.
        let cable = self.graph.propagation(port);
        let mut next = (0..ports.classes()).find_map(|queue| ports.oldest(port, queue));
        let waiting: u32 = (0..ports.classes()).map(|queue| ports.waiting(port, queue)).sum();
        for _ in 0..waiting {
            let Some(id) = next else { return };
            let span = ports.span(port, headers[id as usize].size);
            let at_port = ports.spent(port, cable, span);
            if let Some(spent) = packets.stored(id) {
                *spent = spent.without(at_port);
            }
            next = packets.behind.get(id as usize).copied();
        }
    }

    /// An input has begun to pause its cable, so that it matters when packets have left its switch.
    #[cold]
    pub(super) fn note_departures(&mut self, now: Time, input: u32) {
        let Some(own) = &mut self.classed else { return };
        let (parts, frees) = (&mut self.parts, self.places.frees);
        own.ports.note_all(now, input, |port, time| {
            parts.push(Event { time, place: frees + port, item: 0 });
        });
    }

    /// A port sends a pause frame.
    pub(super) fn pause(&mut self, now: Time, port: u32, paused: u8, span: Span) {
        let Some(own) = &mut self.classed else { return };
        let cable = self.graph.propagation(port);
        let FarEnd { time, port: peer } = own.ports.heeded(now, port, cable, span);
        let cables = own.cables.as_ref();
        let is_lost = cables.is_some_and(|own| own.fate(now, port, true, span, cable).is_some());
        let is_noted = own.ports.note_end(now, port, span, false);
        if is_noted {
            self.schedule(now + span, self.places.frees + port, 0);
        }
        if !is_lost {
            self.say(time, peer, paused.into());
        }
    }

    /// What a port sent has left: a packet that may be marked then, by its number and one, or anything else.
    pub(super) fn has_sent(&mut self, now: Time, port: u32, packet: u32) {
        let Some(own) = &mut self.classed else { return };
        // A host marks nothing, has no memory that gets free, and plans nothing.
        if port >= self.places.hosts {
            own.ports.sent(now, port);
            return self.send_next(now, port);
        }
        if let Some(id) = packet.checked_sub(1) {
            own.ports.mark_departure(now, port, &mut own.headers[id as usize]);
        }
        let freed = own.ports.sent(now, port);
        if let Freed::GoesOn(input) = freed
            && input != port
        {
            self.send_on(now, input);
        }
        self.recall_if_held(port);
        let Some(own) = &mut self.classed else { return };
        if let Some(until) = own.ports.go_on(port) {
            return self.schedule(until, self.places.frees + port, 0);
        }
        // Mostly nothing waits.
        if !own.ports.is_empty(port) {
            self.send_on(now, port);
        }
    }

    /// An input will have room again, of which it tells the far end of its cable.
    #[inline]
    pub(super) fn give_credit(&mut self, then: Time, InputCredit { input, credit }: InputCredit) {
        let Some(own) = &self.classed else { return };
        let FarEnd { time, port: peer } =
            own.ports.credited(then, input, self.graph.propagation(input));
        self.say(time, peer, credit_item(credit));
    }

    /// The far end of a cable pauses classes, or lets them go on, or gives credit.
    pub(super) fn heed(&mut self, now: Time, port: u32, item: u32) {
        let Some(own) = &mut self.classed else { return };
        // It came in time, and its cable has failed before it is heeded.
        if own.cables.as_ref().is_some_and(|own| own.is_out(now, port)) {
            return;
        }
        match credit_of(item) {
            Some(credit) => own.ports.give_credit(port, credit),
            None => own.ports.hear(now, port, item as u8),
        }
        self.send_on(now, port);
    }
}
