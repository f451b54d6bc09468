//! The receiving side of a host.

use weft_fabric::adapter::Past;
use weft_fabric::measure::{Drop, Latency, Passage, Stage};
use weft_fabric::switch::PacketKind;
use weft_fabric::workload::Feedback;
use weft_protocol::resequence::Received;
use weft_protocol::retransmit::{Attempt, ControlSettings, KnownAfter, Order, Slot};
use weft_units::{Span, Time};

use super::host::{Early, Flight};
use super::{Engine, acts};
use crate::drive::interface::Letter;

impl Engine {
    /// The last byte of a packet is at its destination, unless bytes were inserted before it.
    pub(in crate::drive::engine) fn take_in(&mut self, now: Time, host: u32, id: u32) {
        let flight = &self.adapters.flights[id as usize];
        if flight.killed {
            self.packets.remove(id);
        } else if flight.end > now && flight.end < Time::NEVER {
            self.schedule(flight.end, self.places.hosts + host, id);
        } else {
            match flight.kind {
                PacketKind::Scheduled => self.receive_scheduled(id),
                PacketKind::Request | PacketKind::Acknowledgment if flight.damaged => {
                    self.receive_damaged(now, id);
                }
                PacketKind::Request => self.receive_request(now, id),
                PacketKind::Acknowledgment => {
                    self.packets.remove(id);
                    self.receive_acknowledgment(now, id);
                }
            }
        }
    }

    fn receive_request(&mut self, now: Time, id: u32) {
        if self.is_in_pipeline() {
            return self.take_transfer_in(now, id);
        }
        let flight = self.adapters.flights[id as usize];
        let Flight { from, to, sequence, .. } = flight;
        let refused = !self.take_receive_buffer(now, &flight);
        self.serve_interface(now, to.into());
        if self.adapters.control == ControlSettings::Unacknowledged {
            self.record_success(now, id);
            self.hand_up(now, from, to, flight.past.generated);
            self.arrive_in_order(now, from, to, 1);
        } else if refused {
            self.observations.drop(Drop::NoReceiveBuffer, now);
        } else {
            let state = &mut self.adapters.hosts[usize::from(to)];
            match state.received[usize::from(from)].receive(sequence) {
                Received::InOrder { also } => {
                    self.record_success(now, id);
                    self.hand_up(now, from, to, flight.past.generated);
                    self.hand_over_early(now, &flight, also);
                    self.arrive_in_order(now, from, to, 1 + also);
                }
                Received::Early => {
                    self.record_success(now, id);
                    self.hold_early(now, &flight);
                }
                Received::Duplicate => self.adapters.counters.duplicates += 1,
                Received::OutOfReach => {
                    debug_assert!(false, "the window never sends beyond the target's memory");
                }
            }
        }
        self.answer(now, id, refused);
    }

    /// The initiator must learn what became of a request that has arrived.
    fn answer(&mut self, now: Time, id: u32, refused: bool) {
        let Flight { from, to, slot, .. } = self.adapters.flights[id as usize];
        match &self.adapters.control {
            ControlSettings::RequestAcknowledge(control) => {
                let ready = now + control.turn_around;
                let flight = &mut self.adapters.flights[id as usize];
                (flight.from, flight.to) = (to, from);
                flight.kind = PacketKind::Acknowledgment;
                flight.blocked = false;
                flight.refused = refused;
                flight.in_company = self.adapters.decides_together;
                flight.span = self.graph.span_of(self.graph.host_port(to.into()), true);
                flight.end = Time::NEVER;
                self.packets.forwarding[id as usize] = self.forwarding(to, from);
                self.packets.forget_output(id);
                if ready == now {
                    self.acknowledge(now, id);
                } else {
                    self.act_later(ready, to.into(), acts::ACKNOWLEDGE, id);
                }
            }
            ControlSettings::OutOfBand(control) => {
                let known = now + control.delay;
                let is_now_certain = control.known_after == KnownAfter::Delivery;
                self.packets.remove(id);
                if is_now_certain {
                    self.know_success(known, from, slot);
                }
            }
            ControlSettings::Unacknowledged => self.packets.remove(id),
        }
    }

    /// A success becomes known at `time`, without a packet.
    pub(super) fn know_success(&mut self, time: Time, from: u16, slot: Slot) {
        let number = self.adapters.outcomes.insert((slot, Attempt::default()));
        self.act_later(time, from.into(), acts::COMPLETE, number);
    }

    fn receive_acknowledgment(&mut self, now: Time, id: u32) {
        let flight = &self.adapters.flights[id as usize];
        let Flight { from: target, to: host, slot, sequence, start, attempt, .. } = *flight;
        let state = &mut self.adapters.hosts[usize::from(host)];
        if flight.refused {
            if state.initiator.window.fail(slot, attempt) {
                self.transmit(now, host.into());
            }
            return;
        }
        match state.initiator.window.acknowledge(slot, target, sequence) {
            Some(_) => {
                if let Some(quick) = &mut state.interface {
                    quick.acknowledged(now, target, sequence);
                    self.serve_interface(now, host.into());
                } else {
                    state.initiator.queue.left_buffer(target);
                }
                self.observations.latency(Latency::RoundTrip, now, now.since(start));
                self.transmit(now, host.into());
            }
            None => self.adapters.counters.late_acknowledgments += 1,
        }
    }

    /// Whether a receive buffer takes a request. A repetition needs none: the target has it.
    fn take_receive_buffer(&mut self, now: Time, flight: &Flight) -> bool {
        let state = &mut self.adapters.hosts[usize::from(flight.to)];
        if state.receiver.is_unlimited() && state.interface.is_none() {
            return true;
        }
        let known = &state.received[usize::from(flight.from)];
        let repeated = known.clone().receive(flight.sequence) == Received::Duplicate;
        if repeated {
            return true;
        }
        let Some(quick) = &mut state.interface else { return state.receiver.take(now) };
        let Flight { from, to, sequence, past: Past { generated, .. }, .. } = *flight;
        quick.interface.arrive(now, Letter { from, to, generated, sequence: sequence.into() })
    }

    /// A wrong check code: the target stays silent, since its content may be wrong (Clint 3.3). The
    /// timer of the initiator does the rest.
    fn receive_damaged(&mut self, now: Time, id: u32) {
        match self.adapters.flights[id as usize].kind {
            PacketKind::Request => self.observations.drop(Drop::Corrupted, now),
            PacketKind::Acknowledgment | PacketKind::Scheduled => {
                self.adapters.counters.damaged_acknowledgments += 1;
            }
        }
        self.packets.remove(id);
    }

    fn record_success(&mut self, now: Time, id: u32) {
        let flight = self.adapters.flights[id as usize];
        let hops = self.packets.forwarding[id as usize].hops;
        let spent = match self.packets.spent(id) {
            Some(spent) => spent,
            None => self.graph.spent_alike(hops),
        };
        let Flight { from, to, past: Past { generated, buffered, first }, start, .. } = flight;
        let (queueing, transit) = (start.since(generated), now.since(start));
        self.observations.latency(Latency::Queueing, now, queueing);
        // In slots all packets have the same transit time, unless cables differ.
        let in_slots = self.sends_once_in_slots();
        if !in_slots || self.graph.is_mixed() {
            self.observations.latency(Latency::Transit, now, transit);
            self.observations.count_hops(now, hops);
        }
        // If a packet is never retransmitted and starts later than its first start, its link held
        // it.
        let unacknowledged = self.adapters.control == ControlSettings::Unacknowledged;
        let delayed = if unacknowledged { Stage::SwitchWait } else { Stage::Retry };
        let interface = self.adapters.hosts[usize::from(from)].interface.as_ref();
        let host = interface.map_or(Stage::BufferWait, |_| Stage::InitiatorHost);
        let undisturbed = spent.transmission + spent.wire + spent.switches;
        for (stage, span) in [
            (host, buffered.since(generated)),
            (Stage::SlotWait, first.since(buffered)),
            (Stage::Transmission, spent.transmission),
            (Stage::Wire, spent.wire),
            (Stage::Switch, spent.switches),
        ] {
            self.observations.spend(stage, now, span);
        }
        let in_switch = Span(transit.0.saturating_sub(undisturbed.0));
        for (stage, span) in [(delayed, start.since(first)), (Stage::SwitchWait, in_switch)] {
            if span > Span::ZERO || !in_slots || stage != Stage::SwitchWait {
                self.observations.spend(stage, now, span);
            }
        }
        self.observations.pass(Passage { from: from.into(), to: to.into(), start, end: now });
    }

    fn hand_up(&mut self, now: Time, from: u16, to: u16, generated: Time) {
        self.observations.latency(Latency::OneWay, now, now.since(generated));
        self.observations.deliver_from(usize::from(from), now, self.payload);
        if self.adapters.hosts[usize::from(to)].feedback == Feedback::Delivered {
            self.tell_source(to.into(), |source| source.delivered(now, from.into()));
        }
    }

    /// A packet arrived before an older one of its pair: it is kept if order is to be restored.
    fn hold_early(&mut self, now: Time, flight: &Flight) {
        let Flight { from: initiator, to, sequence, past: Past { generated, .. }, .. } = *flight;
        if self.restores_order() {
            let state = &mut self.adapters.hosts[usize::from(to)];
            state.early.push(Early { initiator, sequence, generated, arrived: now });
        } else {
            self.hand_up(now, initiator, to, generated);
        }
    }

    /// Delivers the `also` packets that arrived before `flight` although they are younger.
    fn hand_over_early(&mut self, now: Time, flight: &Flight, also: u32) {
        if also == 0 || !self.restores_order() {
            return;
        }
        for ahead in 1..=also {
            let sequence = flight.sequence.wrapping_add(ahead);
            let early = &mut self.adapters.hosts[usize::from(flight.to)].early;
            let place = early
                .iter()
                .position(|early| early.initiator == flight.from && early.sequence == sequence);
            if let Some(place) = place {
                let Early { generated, arrived, .. } = early.swap_remove(place);
                self.observations.spend(Stage::OrderWait, now, now.since(arrived));
                self.hand_up(now, flight.from, flight.to, generated);
            }
        }
    }

    fn restores_order(&self) -> bool {
        let order = self.adapters.control.window().order;
        order == Order::Resequenced
    }
}
