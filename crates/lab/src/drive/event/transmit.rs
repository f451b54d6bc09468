//! The sending side of a host.

use weft_fabric::measure::Latency;
use weft_fabric::switch::PacketKind;
use weft_kernel::Id;
use weft_protocol::retransmit::{ControlSettings, Slot};
use weft_units::Time;

use super::host::{Flight, Start};
use super::{Event, EventChannel, Happening};

impl EventChannel {
    /// Lets the acknowledgments of a host start that can, and sees to it that requests do.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        loop {
            let state = &mut self.hosts[usize::from(host)];
            state.feed();
            match state.next_start(self.insertion) {
                None => return,
                Some((at, _)) if at > now => {
                    if state.arm(at) {
                        schedule(at, Event(Happening::Transmit(host)));
                    }
                    return;
                }
                Some((_, Start::Acknowledgment)) => self.start_acknowledgment(now, host, schedule),
                Some((_, Start::Request(_))) => {
                    if !state.settling {
                        state.settling = true;
                        schedule(now, Event(Happening::Settle(host)));
                    }
                    return;
                }
            }
        }
    }

    /// Starts the request whose turn it is, if the link is still free for one.
    pub(super) fn start_requests(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        match self.hosts[usize::from(host)].next_start(self.insertion) {
            Some((at, Start::Request(slot))) if at <= now => {
                self.start_request(now, host, slot, schedule);
            }
            _ => {}
        }
        self.transmit(now, host, schedule);
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
        let state = &mut self.hosts[usize::from(host)];
        let started = state.window.start(slot);
        let generated = started.packet;
        self.observations.attempt(now);
        if started.first {
            self.observations.latency(Latency::FirstAttempt, now, now.since(generated));
        }
        let id = self.flights.insert(Flight {
            from: host,
            to: started.target,
            kind: PacketKind::Request,
            killed: false,
            blocked: false,
            slot,
            sequence: started.sequence,
            attempt: started.attempt,
            generated,
            start: now,
            span: self.packet_span,
            end: Time::NEVER,
        });
        state.request_until = now + self.packet_span;
        state.sending = Some(id);
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
        schedule(now + self.propagation, Event(Happening::Reach(id)));
    }

    fn start_acknowledgment(
        &mut self,
        now: Time,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let state = &mut self.hosts[usize::from(host)];
        let Some(id) = state.acknowledgments.pop_front() else { return };
        let span = self.acknowledgment_span;
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
        schedule(now + self.propagation, Event(Happening::Reach(id)));
    }
}
