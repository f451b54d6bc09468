//! The sending side of a host.

use weft_fabric::link::Errors;
use weft_fabric::measure::Latency;
use weft_kernel::Id;
use weft_protocol::retransmit::{ControlSettings, Slot};
use weft_units::{Span, Time};

use super::host::{Departure, Flight};
use super::{Event, EventChannel, Happening};

impl EventChannel {
    /// Lets the acknowledgments of a host start that can, and sees to it that requests do.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        self.hosts[usize::from(host)].feed(now);
        self.ask_source(now, host, schedule);
        while !self.hosts[usize::from(host)].scheduled.is_empty() {
            let at = self.scheduled_at(now, host);
            if at > now {
                return self.look_again(at, host, schedule);
            }
            self.start_scheduled(now, host, schedule);
        }
        while let Some(at) = self.hosts[usize::from(host)].acknowledgment_at(self.insertion) {
            let at = self.clear_for_acknowledgment(at.max(now), host);
            if at > now {
                return self.look_again(at, host, schedule);
            }
            self.start_acknowledgment(now, host, schedule);
        }
        let at = self.hosts[usize::from(host)].request_at();
        let at = at.map(|at| self.clear_for_request(at.max(now), host));
        let state = &mut self.hosts[usize::from(host)];
        match at {
            None => {}
            Some(at) if at > now => self.look_again(at, host, schedule),
            Some(_) if state.settling => {}
            Some(_) => {
                state.settling = true;
                schedule(now, Event(Happening::Settle(host)));
            }
        }
    }

    /// Sees to it that a host's link is looked at when it is free.
    #[inline]
    fn look_again(&mut self, at: Time, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        if self.hosts[usize::from(host)].arm(at) {
            schedule(at, Event(Happening::Transmit(host)));
        }
    }

    /// Starts the request whose turn it is, if the link is still free for one.
    pub(super) fn start_requests(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let state = &self.hosts[usize::from(host)];
        if state.request_at().is_some_and(|at| self.clear_for_request(at.max(now), host) <= now)
            && let Some(slot) = state.window.next()
        {
            self.start_request(now, host, slot, schedule);
            self.transmit(now, host, schedule);
        }
    }

    /// An acknowledgment is ready to be sent.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        id: Id<Flight>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let from = self.flights[id].from;
        self.hosts[usize::from(from)].acknowledgments.push_back(id);
        self.transmit(now, from, schedule);
    }

    fn start_request(
        &mut self,
        now: Time,
        host: u16,
        slot: Slot,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        self.leave(now, host, schedule);
        let state = &mut self.hosts[usize::from(host)];
        let started = state.window.start(slot);
        let mut past = started.packet;
        self.observations.attempt(now);
        if started.first {
            past.first = now;
            state.window.packet_mut(slot).first = now;
            self.observations.latency(Latency::FirstAttempt, now, now.since(past.generated));
        }
        let damages = |errors: &mut Errors| errors.damages_next(None, self.parts.packet);
        let id = self.flights.insert(Flight {
            damaged: state.errors.as_mut().is_some_and(damages),
            in_company: self.decides_together,
            slot,
            sequence: started.sequence,
            attempt: started.attempt,
            past,
            span: self.packet_span,
            ..Flight::new(host, started.target, now)
        });
        state.request_until = now + self.packet_span;
        state.sending = Some(id);
        let messages = self.messages.as_mut().filter(|_| started.first);
        if let Some(message) = messages.and_then(|own| own.start_next(host, started.target)) {
            state.leaving = message;
            schedule(state.request_until, Event(Happening::Sent(host)));
        }
        if let Some(throttle) = &mut state.throttle {
            throttle.start(now);
        }
        match &self.parts.control {
            ControlSettings::Unacknowledged => {
                state.window.release(slot);
                state.queue.left_buffer(started.target);
            }
            ControlSettings::RequestAcknowledge(control) => {
                let deadline = control.deadline(now, state.draw_back_off());
                let attempt = started.attempt;
                schedule(deadline, Event(Happening::Fail { host, slot, attempt }));
            }
            ControlSettings::OutOfBand(_) => {}
        }
        let span = self.packet_span;
        if let Some(links) = self.shared_links_mut() {
            links.send(now, host, span);
        }
        self.trace_flight(now, id, "qreq");
        self.depart(now, id, schedule);
    }

    fn start_acknowledgment(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let state = &mut self.hosts[usize::from(host)];
        let Some(id) = state.acknowledgments.pop_front() else { return };
        if let (Some(errors), ControlSettings::RequestAcknowledge(control)) =
            (&mut state.errors, &self.parts.control)
        {
            self.flights[id].damaged = errors.damages_next(None, control.acknowledgment);
        }
        self.occupy_before_request(now, host, self.acknowledgment_span);
        self.trace_flight(now, id, "qack");
        self.depart(now, id, schedule);
    }

    /// Something with priority occupies the link of a host for `span`, inserted into the request
    /// that is on it if there is one.
    pub(super) fn occupy_before_request(&mut self, now: Time, host: u16, span: Span) {
        if let Some(links) = self.shared_links_mut() {
            links.send(now, host, span);
        }
        let state = &mut self.hosts[usize::from(host)];
        state.acknowledgment_until = now + span;
        // Only an inserted acknowledgment starts before the end of the request.
        if state.request_until > now {
            state.request_until += span;
            if let Some(request) = state.sending {
                let flight = &mut self.flights[request];
                flight.span += span;
                if flight.end < Time::NEVER {
                    flight.end += span;
                }
                self.switch.stretch(flight.to, request, span);
            }
        }
    }

    /// The first byte of a packet is sent. All links are of one length, so packets reach an output
    /// together if and only if they departed together.
    pub(super) fn depart(
        &mut self,
        now: Time,
        id: Id<Flight>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Flight { from, span, .. } = self.flights[id];
        self.observations.occupy(self.hosts.len() + usize::from(from), now, span);
        if !self.decides_together {
            let output = usize::from(self.flights[id].to);
            let last = self.departures[output].replace(Departure { time: now, id });
            if let Some(last) = last.filter(|last| last.time == now) {
                self.flights[last.id].in_company = true;
                self.flights[id].in_company = true;
            }
        }
        schedule(now + self.propagation, Event(Happening::Reach(id)));
    }
}
