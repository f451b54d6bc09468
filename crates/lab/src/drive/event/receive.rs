//! The receiving side of a host.

use weft_fabric::measure::{Drop, Latency, Stage};
use weft_fabric::switch::PacketKind;
use weft_fabric::workload::Feedback;
use weft_kernel::Id;
use weft_protocol::resequence::Received;
use weft_protocol::retransmit::{ControlSettings, KnownAfter, Order};
use weft_units::{Span, Time};

use super::host::{Early, Flight, Past};
use super::{Event, EventChannel, Happening};
use crate::drive::interface::Letter;

impl EventChannel {
    /// The last byte of a packet is at its destination, unless bytes were inserted before it.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        id: Id<Flight>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let flight = self.flights[id];
        if flight.killed {
            self.flights.remove(id);
        } else if flight.end > now {
            schedule(flight.end, Event(Happening::Deliver(id)));
        } else {
            match flight.kind {
                PacketKind::Scheduled => self.receive_scheduled(id),
                PacketKind::Request | PacketKind::Acknowledgment if flight.damaged => {
                    self.receive_damaged(now, id);
                }
                PacketKind::Request => self.receive_request(now, id, schedule),
                PacketKind::Acknowledgment => {
                    self.flights.remove(id);
                    self.receive_acknowledgment(now, flight, schedule);
                }
            }
        }
    }

    fn receive_request(
        &mut self,
        now: Time,
        id: Id<Flight>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let flight = self.flights[id];
        let Flight { from, to, sequence, .. } = flight;
        let refused = !self.take_receive_buffer(now, &flight);
        self.serve(now, to, schedule);
        if self.parts.control == ControlSettings::Unacknowledged {
            self.record_success(now, &flight);
            self.hand_over(now, from, to, flight.past.generated, schedule);
            self.arrive_in_order(now, from, to, 1);
        } else if refused {
            self.observations.drop(Drop::NoReceiveBuffer, now);
        } else {
            let initiator = &mut self.hosts[usize::from(to)].received[usize::from(from)];
            match initiator.receive(sequence) {
                Received::InOrder { also } => {
                    self.record_success(now, &flight);
                    self.hand_over(now, from, to, flight.past.generated, schedule);
                    self.hand_over_early(now, &flight, also, schedule);
                    self.arrive_in_order(now, from, to, 1 + also);
                }
                Received::Early => {
                    self.record_success(now, &flight);
                    self.hold_early(now, &flight, schedule);
                }
                Received::Duplicate => self.counters.duplicates += 1,
                Received::OutOfReach => {
                    debug_assert!(false, "the window never sends beyond the target's memory");
                }
            }
        }
        self.answer(now, id, refused, schedule);
    }

    /// The initiator is to learn what became of a request that has arrived.
    fn answer(
        &mut self,
        now: Time,
        id: Id<Flight>,
        refused: bool,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let flight = self.flights[id];
        match &self.parts.control {
            ControlSettings::RequestAcknowledge(control) => {
                let acknowledgment = Flight {
                    from: flight.to,
                    to: flight.from,
                    kind: PacketKind::Acknowledgment,
                    blocked: false,
                    refused,
                    in_company: self.decides_together,
                    span: self.acknowledgment_span,
                    end: Time::NEVER,
                    ..flight
                };
                self.flights[id] = acknowledgment;
                let ready = now + control.turn_around;
                if ready == now {
                    self.acknowledge(now, id, schedule);
                } else {
                    schedule(ready, Event(Happening::Acknowledge(id)));
                }
            }
            ControlSettings::OutOfBand(control) => {
                self.flights.remove(id);
                if control.known_after == KnownAfter::Delivery {
                    let known = now + control.delay;
                    let Flight { from: host, slot, .. } = flight;
                    schedule(known, Event(Happening::Complete { host, slot }));
                }
            }
            ControlSettings::Unacknowledged => self.flights.remove(id),
        }
    }

    fn receive_acknowledgment(
        &mut self,
        now: Time,
        flight: Flight,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Flight { from: target, to: host, slot, sequence, start, .. } = flight;
        let state = &mut self.hosts[usize::from(host)];
        if flight.refused {
            if state.window.fail(slot, flight.attempt) {
                self.transmit(now, host, schedule);
            }
            return;
        }
        match state.window.acknowledge(slot, target, sequence) {
            Some(_) => {
                if let Some(quick) = &mut state.interface {
                    quick.acknowledged(now, target, sequence);
                    self.serve(now, host, schedule);
                } else {
                    state.queue.left_buffer(target);
                }
                self.observations.latency(Latency::RoundTrip, now, now.since(start));
                self.transmit(now, host, schedule);
            }
            None => self.counters.late_acknowledgments += 1,
        }
    }

    /// Whether a receive buffer takes a request. A repetition needs none: the target has it.
    fn take_receive_buffer(&mut self, now: Time, flight: &Flight) -> bool {
        let state = &mut self.hosts[usize::from(flight.to)];
        if state.receiver.is_unlimited() && state.interface.is_none() {
            return true;
        }
        let known = &state.received[usize::from(flight.from)];
        let repeated = known.clone().receive(flight.sequence) == Received::Duplicate;
        if repeated {
            return true;
        }
        let Some(quick) = &mut state.interface else { return state.receiver.take(now) };
        let Flight { from, to, past: Past { generated, .. }, .. } = *flight;
        quick.interface.arrive(now, Letter { from, to, generated, sequence: 0 })
    }

    /// A wrong check code: the target stays silent, since what it reads may not be what was sent
    /// (Clint 3.3). The timer of the initiator does the rest.
    fn receive_damaged(&mut self, now: Time, id: Id<Flight>) {
        match self.flights[id].kind {
            PacketKind::Request => self.observations.drop(Drop::Corrupted, now),
            PacketKind::Acknowledgment | PacketKind::Scheduled => {
                self.counters.damaged_acknowledgments += 1;
            }
        }
        self.flights.remove(id);
    }

    fn record_success(&mut self, now: Time, flight: &Flight) {
        let Flight { past: Past { generated, buffered, first }, start, .. } = *flight;
        let (queueing, transit) = (start.since(generated), now.since(start));
        self.observations.latency(Latency::Queueing, now, queueing);
        self.observations.latency(Latency::Transit, now, transit);
        // What is never sent twice and starts later than at first was held on its link.
        let unacknowledged = self.parts.control == ControlSettings::Unacknowledged;
        let delayed = if unacknowledged { Stage::SwitchWait } else { Stage::Retry };
        let interface = self.parts.interface.as_ref();
        let host = interface.map_or(Stage::BufferWait, |_| Stage::InitiatorHost);
        let (wire, switch) = (self.propagation * 2, self.parts.latency());
        let undisturbed = self.packet_span + wire + switch;
        for (stage, span) in [
            (host, buffered.since(generated)),
            (Stage::SlotWait, first.since(buffered)),
            (delayed, start.since(first)),
            (Stage::Transmission, self.packet_span),
            (Stage::Wire, wire),
            (Stage::Switch, switch),
            (Stage::SwitchWait, Span(transit.0.saturating_sub(undisturbed.0))),
        ] {
            self.observations.spend(stage, now, span);
        }
    }

    fn hand_over(
        &mut self,
        now: Time,
        from: u16,
        to: u16,
        generated: Time,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        self.observations.latency(Latency::OneWay, now, now.since(generated));
        self.observations.deliver_from(usize::from(from), now, self.parts.payload);
        if self.hosts[usize::from(to)].feedback == Feedback::Delivered {
            self.tell_source(to, schedule, |source| source.delivered(now, from.into()));
        }
    }

    /// A packet came before an older one of its pair: it is kept if order is to be restored.
    fn hold_early(&mut self, now: Time, flight: &Flight, schedule: &mut impl FnMut(Time, Event)) {
        let Flight { from: initiator, to, sequence, past: Past { generated, .. }, .. } = *flight;
        if self.restores_order() {
            let state = &mut self.hosts[usize::from(to)];
            state.early.push(Early { initiator, sequence, generated, arrived: now });
        } else {
            self.hand_over(now, initiator, to, generated, schedule);
        }
    }

    /// Hands over the `also` packets that came before `flight` although they are younger.
    fn hand_over_early(
        &mut self,
        now: Time,
        flight: &Flight,
        also: u32,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        if also == 0 || !self.restores_order() {
            return;
        }
        for ahead in 1..=also {
            let sequence = flight.sequence.wrapping_add(ahead);
            let early = &mut self.hosts[usize::from(flight.to)].early;
            let place = early
                .iter()
                .position(|early| early.initiator == flight.from && early.sequence == sequence);
            if let Some(place) = place {
                let Early { generated, arrived, .. } = early.swap_remove(place);
                self.observations.spend(Stage::OrderWait, now, now.since(arrived));
                self.hand_over(now, flight.from, flight.to, generated, schedule);
            }
        }
    }

    fn restores_order(&self) -> bool {
        let (_, order, _) = self.parts.control.window();
        order == Order::Resequenced
    }
}
