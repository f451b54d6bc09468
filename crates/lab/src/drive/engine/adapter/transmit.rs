//! The sending side of a host.

use weft_fabric::fabric::Routes;
use weft_fabric::measure::Latency;
use weft_fabric::measure::Spent;
use weft_fabric::switch::PacketKind;
use weft_protocol::retransmit::{ControlSettings, Slot};
use weft_units::{Bytes, Span, Time};

use super::host::Flight;
use super::{Engine, acts};

impl Engine {
    /// Starts the acknowledgments of a host that can start, and schedules its requests.
    pub(in crate::drive::engine) fn transmit(&mut self, now: Time, host: u32) {
        self.adapters.hosts[host as usize].initiator.feed(now);
        self.ask_source(now, host);
        if self.adapters.slots.is_some() {
            return self.ask_for_slot(now, host);
        }
        if self.adapters.hosts[host as usize].initiator.has_priority()
            && !self.transmit_first(now, host)
        {
            return;
        }
        let at = self.adapters.hosts[host as usize].initiator.request_at();
        let at = at.map(|at| self.clear_for_request(at.max(now), host));
        let state = &mut self.adapters.hosts[host as usize];
        match at {
            None => {}
            Some(at) if at > now => self.look_again(at, host),
            Some(_) if state.settling => {}
            Some(_) => {
                state.settling = true;
                self.adapters.settles_at = now;
                self.adapters.settling.push(host);
            }
        }
    }

    /// Starts what goes before requests, as much as can. Returns whether that was all.
    #[inline(never)]
    fn transmit_first(&mut self, now: Time, host: u32) -> bool {
        while !self.adapters.hosts[host as usize].initiator.scheduled.is_empty() {
            let at = self.scheduled_at(now, host);
            if at > now {
                self.look_again(at, host);
                return false;
            }
            self.start_scheduled(now, host);
        }
        let insertion = self.adapters.insertion;
        while let Some(at) =
            self.adapters.hosts[host as usize].initiator.acknowledgment_at(insertion)
        {
            let at = self.clear_for_acknowledgment(at.max(now), host);
            if at > now {
                self.look_again(at, host);
                return false;
            }
            if !self.start_acknowledgment(now, host) {
                return false;
            }
        }
        true
    }

    /// The link of a host may be free, or what it leads to have room.
    #[inline]
    pub(in crate::drive::engine) fn look_at_link(&mut self, now: Time, host: u32) {
        self.adapters.hosts[host as usize].initiator.look(now);
        self.transmit(now, host);
    }

    /// Schedules an event for when a host's link becomes free.
    #[inline]
    fn look_again(&mut self, at: Time, host: u32) {
        if self.adapters.hosts[host as usize].initiator.arm(at) {
            self.schedule(at, self.places.wakes + self.graph.host_port(host), 0);
        }
    }

    /// All events of a host in this picosecond have been processed: the next request starts, if the
    /// link is still free.
    #[inline(never)]
    pub(super) fn settle(&mut self, now: Time, host: u32) {
        let state = &mut self.adapters.hosts[host as usize];
        state.settling = false;
        let initiator = &state.initiator;
        if initiator.request_at().is_some_and(|at| self.clear_for_request(at.max(now), host) <= now)
            && let Some(slot) = self.adapters.hosts[host as usize].initiator.window.next()
            && self.is_open(host, self.adapters.hosts[host as usize].initiator.window.target(slot))
        {
            self.start_request(now, host, slot);
            self.transmit(now, host);
        }
    }

    /// Whether the switch in front of a host accepts a packet for a target. If not, the host learns
    /// when it will.
    #[inline]
    fn is_open(&self, host: u32, target: u16) -> bool {
        !self.graph.has_limits() || {
            let channel = self.channel_of_pair(host as u16, target);
            self.graph.is_open(self.graph.host_port(host), channel)
        }
    }

    /// The virtual channel by which packets from one host to another leave it.
    #[inline]
    pub(super) fn channel_of_pair(&self, from: u16, to: u16) -> u8 {
        let (channels, virtual_channels) = (self.graph.channels(), self.graph.virtual_channels());
        Routes::class(from, to, channels / virtual_channels) * virtual_channels
    }

    /// An acknowledgment is ready to be sent.
    pub(super) fn acknowledge(&mut self, now: Time, id: u32) {
        let from = self.adapters.flights[id as usize].from;
        self.adapters.hosts[usize::from(from)].initiator.acknowledgments.push_back(id);
        self.transmit(now, from.into());
    }

    pub(super) fn start_request(&mut self, now: Time, host: u32, slot: Slot) {
        self.leave_host(now, host);
        let (packet, span) = (self.adapters.packet, self.graph.span(self.graph.host_port(host)));
        let state = &mut self.adapters.hosts[host as usize];
        let has_errors = state.errors.is_some();
        let started = state.initiator.window.start(slot);
        let mut past = started.packet;
        self.observations.attempt(now);
        if started.first {
            past.first = now;
            state.initiator.window.packet_mut(slot).first = now;
            if !self.sends_once_in_slots() {
                self.observations.latency(Latency::FirstAttempt, now, now.since(past.generated));
            }
        }
        let flight = Flight {
            damaged: has_errors && self.damages_next(now, host, packet),
            in_company: self.adapters.decides_together,
            slot,
            sequence: started.sequence,
            attempt: started.attempt,
            past,
            span,
            ..Flight::new(host as u16, started.target, now)
        };
        let id = self.insert_flight(flight);
        let state = &mut self.adapters.hosts[host as usize];
        state.initiator.request_until = now + span;
        state.sending = Some(id);
        if let Some(throttle) = &mut state.initiator.throttle {
            throttle.start(now);
        }
        let messages = self.adapters.messages.as_mut().filter(|_| started.first);
        if let Some(message) = messages.and_then(|own| own.start_next(host as u16, started.target))
        {
            self.adapters.hosts[host as usize].leaving = message;
            self.schedule(now + span, self.places.sends + host, 0);
        }
        self.expect_outcome(now, host, id, slot);
        if let Some(links) = self.shared_links_mut() {
            links.send(now, host as u16, span);
        }
        self.trace_flight(now, id, self.request_in_trace());
        self.depart(now, id);
    }

    /// Whether the cable of a host damages the packet that it starts.
    #[inline(never)]
    fn damages_next(&mut self, now: Time, host: u32, packet: Bytes) -> bool {
        let number = self.slot_of(now);
        let errors = &mut self.adapters.hosts[host as usize].errors;
        errors.as_mut().is_some_and(|errors| errors.damages_next(number, packet))
    }

    /// How the adapter learns what became of a request that starts.
    fn expect_outcome(&mut self, now: Time, host: u32, id: u32, slot: Slot) {
        let Flight { to, attempt, .. } = self.adapters.flights[id as usize];
        match &self.adapters.control {
            ControlSettings::Unacknowledged => {
                let held = self.held_after_start();
                if held > Span::ZERO {
                    return self.know_success(now + held, host as u16, slot);
                }
                let initiator = &mut self.adapters.hosts[host as usize].initiator;
                initiator.window.release(slot);
                initiator.queue.left_buffer(to);
            }
            ControlSettings::RequestAcknowledge(control) => {
                let initiator = &mut self.adapters.hosts[host as usize].initiator;
                let deadline = control.deadline(now, initiator.draw_back_off());
                let number = self.adapters.outcomes.insert((slot, attempt));
                self.act_later(deadline, host, acts::FAIL, number);
            }
            ControlSettings::OutOfBand(_) => {}
        }
    }

    /// Starts the acknowledgment that has waited longest. Returns whether it could.
    pub(super) fn start_acknowledgment(&mut self, now: Time, host: u32) -> bool {
        let Some(id) = self.adapters.hosts[host as usize].initiator.acknowledgments.front() else {
            return false;
        };
        let (id, place) = (*id, *id as usize);
        let Flight { to, span, .. } = self.adapters.flights[place];
        if !self.is_open(host, to) {
            return false;
        }
        let state = &mut self.adapters.hosts[host as usize];
        state.initiator.acknowledgments.pop_front();
        if let (Some(errors), ControlSettings::RequestAcknowledge(control)) =
            (&mut state.errors, &self.adapters.control)
        {
            self.adapters.flights[place].damaged =
                errors.damages_next(None, control.acknowledgment);
        }
        self.occupy_before_request(now, host, span);
        self.trace_flight(now, id, "qack");
        self.depart(now, id);
        true
    }

    /// A packet with priority occupies the link of a host for `span`; it is inserted into the
    /// request on the link if there is one.
    pub(super) fn occupy_before_request(&mut self, now: Time, host: u32, span: Span) {
        if let Some(links) = self.shared_links_mut() {
            links.send(now, host as u16, span);
        }
        let state = &mut self.adapters.hosts[host as usize];
        state.initiator.acknowledgment_until = now + span;
        // Only an inserted acknowledgment starts before the end of the request.
        if state.initiator.request_until > now {
            state.initiator.request_until += span;
            if let Some(request) = state.sending {
                let flight = &mut self.adapters.flights[request as usize];
                flight.span += span;
                if flight.end < Time::NEVER {
                    flight.end += span;
                }
                let output = self.graph.first_port(0) + u32::from(flight.to);
                self.graph.stretch(output, request, span);
            }
        }
    }

    /// The first byte of a packet is sent. In a star all links are of one length, so that packets
    /// reach an output together if and only if they departed together.
    pub(super) fn depart(&mut self, now: Time, id: u32) {
        let Flight { from, to, span, kind, .. } = self.adapters.flights[id as usize];
        if !self.adapters.decides_together {
            let last = self.adapters.departures[usize::from(to)].replace((now, id));
            if let Some((_, other)) = last.filter(|(time, _)| *time == now) {
                self.adapters.flights[other as usize].in_company = true;
                self.adapters.flights[id as usize].in_company = true;
            }
        }
        let port = self.graph.host_port(from.into());
        if let Some(spent) = self.packets.stored(id) {
            let is_request = kind == PacketKind::Request;
            *spent = if is_request { self.graph.spent(port, Span::ZERO) } else { Spent::default() };
        }
        let channel = self.packets.forwarding[id as usize].channel;
        let departure = self.graph.send_sized(now, port, span, channel);
        self.put_on_cable(now, &departure, id);
    }
}
