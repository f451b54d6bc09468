//! Switches between hosts with adapters: what they decide, and what follows from it for the hosts.

use weft_fabric::graph::Departure;
use weft_fabric::measure::{Collision, Drop};
use weft_fabric::switch::{Arrival, Effect, Loss, Met, PacketKind, PortPair};
use weft_kernel::Event;
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Span, Time};

use super::host::Flight;
use super::{Engine, acts};
use crate::drive::carrier::MessageId;

impl Engine {
    /// The first byte of a packet is at a switch without a clock, whose output it has chosen.
    pub(in crate::drive::engine) fn come(
        &mut self,
        now: Time,
        switch: u32,
        ports: PortPair,
        id: u32,
    ) {
        let PortPair { input, output } = ports;
        let Flight { from, to, kind, .. } = self.adapters.flights[id as usize];
        if kind == PacketKind::Scheduled {
            return self.pass_of_schedule(now, switch, ports, id);
        }
        let is_request = kind == PacketKind::Request;
        if is_request
            && self.packets.forwarding[id as usize].hops == 1
            && self.is_disabled(now, from, to)
        {
            return self.refuse_disabled(now, id);
        }
        if self.graph.is_deciding(switch) {
            self.reach_decider(now, switch, ports, id);
        } else if self.graph.is_gated(output) {
            self.packets.set_output(id, output);
            self.schedule(now + self.graph.latency(switch), self.places.enters + input, id);
        } else {
            let span = self.graph.span_of(output, !is_request);
            let Some(departure) = self.graph.pass_sized(now, output, span) else {
                return self.lose(now, id, Loss::Overflow);
            };
            self.spend_request(ports, id);
            self.put_on_cable(now, &departure, id);
        }
    }

    /// A packet has reached a switch that decides at the end of an instant on everything that
    /// arrived in it.
    fn reach_decider(&mut self, now: Time, switch: u32, ports: PortPair, id: u32) {
        let PortPair { input, output } = ports;
        if !self.has_room(now, id) {
            return self.lose(now, id, Loss::ToTransfer);
        }
        self.packets.set_output(id, output);
        self.spend_request(ports, id);
        let flight = &self.adapters.flights[id as usize];
        let is_short = flight.kind == PacketKind::Acknowledgment;
        // Packets that were inserted into a packet on its link pass a crossbar with it.
        let span = match self.graph.is_crossbar(switch) {
            true => flight.span,
            false => self.graph.span_of(output, is_short),
        };
        let number = (input - self.graph.first_port(switch)) as u16;
        let (alone, kind) = (!flight.in_company, flight.kind);
        let arrival = Arrival { input: number, kind, span, key: id };
        if alone {
            if let Some(Met { in_progress, own }) = self.graph.meet(now, output, arrival) {
                if let Some(other) = in_progress {
                    self.apply(now, other);
                }
                self.apply(now, own);
            }
        } else if self.graph.contend(output, arrival) {
            self.schedule(now, self.places.decides + output, 0);
        }
    }

    /// A request spends what it takes from an input of a switch to the far end of an output.
    #[inline]
    fn spend_request(&mut self, ports: PortPair, id: u32) {
        if self.packets.has_spent() && !self.adapters.is_acknowledgment(id) {
            let switch = self.graph.switch_of(ports.output);
            self.packets.take_step(&self.graph, switch, ports, id);
        }
    }

    /// Whether the link to the target accepts a packet in addition to the transfer that shares it.
    #[inline]
    fn has_room(&self, now: Time, id: u32) -> bool {
        let Flight { to, span, .. } = self.adapters.flights[id as usize];
        self.shared_links().is_none_or(|links| links.has_room(now, to, span))
    }

    /// All arrivals at an output in this picosecond are known.
    pub(in crate::drive::engine) fn decide(&mut self, now: Time, output: u32) {
        let mut effects = std::mem::take(&mut self.adapters.effects);
        if let Some(time) = self.graph.decide(now, output, &mut effects) {
            self.schedule(time, self.places.decides + output, 0);
        }
        for effect in effects.drain(..) {
            self.apply(now, effect);
        }
        self.adapters.effects = effects;
    }

    #[inline]
    fn apply(&mut self, now: Time, effect: Effect<u32>) {
        match effect {
            Effect::Forwarded { key, end } => self.forwarded(now, key, end),
            Effect::Stretched { key, by } => self.adapters.flights[key as usize].end += by,
            Effect::Blocked { key } => self.blocked(key),
            Effect::Dropped { key, loss } => self.lose(now, key, loss),
            Effect::Killed { key, loss } => {
                self.dropped(now, key, loss);
                // The event of its delivery frees it, which is scheduled already.
                self.adapters.flights[key as usize].killed = true;
            }
        }
    }

    fn forwarded(&mut self, now: Time, id: u32, end: Time) {
        let output = self.packets.output(id);
        let flight = &self.adapters.flights[id as usize];
        let Flight { from, to, kind, span, blocked, .. } = *flight;
        let is_crossbar = self.graph.is_crossbar(self.graph.switch_of(output));
        let is_short = kind == PacketKind::Acknowledgment;
        let leaves = if is_crossbar { span } else { self.graph.span_of(output, is_short) };
        let departure = self.graph.forward(end, output, leaves);
        if is_crossbar {
            self.adapters.flights[id as usize].end = departure.arrival;
        }
        if let Some(links) = self.shared_links_mut() {
            links.forward(now, to, span);
        }
        if blocked {
            self.let_go(now, from, kind, id);
        }
        self.put_on_cable(now, &departure, id);
    }

    /// A packet is on a cable to a switch that may have to be notified.
    #[inline]
    pub(super) fn put_on_cable(&mut self, now: Time, departure: &Departure, id: u32) {
        match self.graph.has_limits() {
            true => {
                let channel = self.packets.forwarding[id as usize].channel;
                self.travel(now, departure, id, channel);
            }
            false => self.go(now, departure, id),
        }
    }

    /// A packet passes that back pressure held: its link becomes free when it would have if the
    /// packet had started so late that it passed without a stop.
    fn let_go(&mut self, now: Time, from: u16, kind: PacketKind, id: u32) {
        let passed_from = now - self.adapters.propagation;
        let span = self.adapters.flights[id as usize].span;
        let state = &mut self.adapters.hosts[usize::from(from)];
        match kind {
            PacketKind::Scheduled | PacketKind::Acknowledgment => {
                state.initiator.acknowledgment_until = passed_from + span;
            }
            PacketKind::Request => {
                self.adapters.flights[id as usize].start = passed_from;
                state.initiator.request_until = passed_from + span;
                if state.leaving != MessageId::NONE {
                    let left = state.initiator.request_until.max(now);
                    self.schedule(left, self.places.sends + u32::from(from), 0);
                }
            }
        }
        self.transmit(now, from.into());
    }

    /// A packet is bound for a place where it arrives without a decision. If that is a host,
    /// nothing can happen to it any more.
    #[inline]
    pub(in crate::drive::engine) fn go(&mut self, now: Time, departure: &Departure, id: u32) {
        let Departure { arrival: time, place, .. } = *departure;
        self.parts.push(Event { time, place, item: id });
        if place >= self.places.hosts && self.adapters.knows_early {
            self.know_early(now, id);
        }
    }

    /// A packet will arrive: that is known when it has been sent.
    #[inline(never)]
    fn know_early(&mut self, now: Time, id: u32) {
        let ControlSettings::OutOfBand(control) = &self.adapters.control else { return };
        // On a long cable the packet is still on it at that time.
        let Flight { from, slot, start, span, .. } = self.adapters.flights[id as usize];
        self.know_success((start + span + control.delay).max(now), from, slot);
    }

    /// Back pressure reaches the host: its link stays occupied until the packet is forwarded.
    fn blocked(&mut self, id: u32) {
        let flight = &mut self.adapters.flights[id as usize];
        flight.blocked = true;
        let initiator = &mut self.adapters.hosts[usize::from(flight.from)].initiator;
        match flight.kind {
            PacketKind::Scheduled | PacketKind::Acknowledgment => {
                initiator.acknowledgment_until = Time::NEVER;
            }
            PacketKind::Request => initiator.request_until = Time::NEVER,
        }
    }

    /// A transmission is lost in a switch that it had not left.
    pub(in crate::drive::engine) fn lose(&mut self, now: Time, id: u32, loss: Loss) {
        self.dropped(now, id, loss);
        self.packets.remove(id);
    }

    /// A transmission is lost. The host sends the rest of it nevertheless.
    fn dropped(&mut self, now: Time, id: u32, loss: Loss) {
        let flight = self.adapters.flights[id as usize];
        let Flight { from: host, to, kind, sequence, start, span, .. } = flight;
        match kind {
            PacketKind::Scheduled => return self.note_broken(now, id),
            PacketKind::Acknowledgment => {
                let against = u64::from(loss == Loss::ToScheduled);
                self.adapters.counters.lost_acknowledgments += 1;
                self.adapters.counters.acknowledgments_against_schedule += against;
                return;
            }
            PacketKind::Request => {}
        }
        let (rule, with) = match loss {
            Loss::ToRequest => (Drop::Collision, Some(Collision::Request)),
            Loss::ToAcknowledgment => (Drop::Collision, Some(Collision::Acknowledgment)),
            Loss::ToScheduled => (Drop::Collision, Some(Collision::Control)),
            Loss::ToTransfer => (Drop::Collision, Some(Collision::Transfer)),
            Loss::Overflow => (Drop::Overflow, None),
        };
        self.observations.drop(rule, now);
        if let Some(with) = with {
            self.observations.collide(with, now);
        }
        let state = &mut self.adapters.hosts[usize::from(host)];
        if state.sending == Some(id) {
            state.sending = None;
        }
        match &self.adapters.control {
            ControlSettings::Unacknowledged => {
                self.observations.abandon_from(usize::from(host), now);
                if let Some(messages) = &mut self.adapters.messages {
                    messages.lose(now, host, to, sequence);
                }
            }
            ControlSettings::RequestAcknowledge(_) => {}
            ControlSettings::OutOfBand(control) => {
                // On a long cable the host does not learn of the drop before it happens.
                let back_off: Span = state.initiator.draw_back_off();
                let known = (start + span + control.delay).max(now) + back_off;
                let number = self.adapters.outcomes.insert((flight.slot, flight.attempt));
                self.act_later(known, host.into(), acts::FAIL, number);
            }
        }
    }

    /// A packet of a schedule passes.
    fn pass_of_schedule(&mut self, now: Time, switch: u32, ports: PortPair, id: u32) {
        let PortPair { input, output } = ports;
        self.packets.set_output(id, output);
        let input = (input - self.graph.first_port(switch)) as u16;
        let Flight { kind, span, .. } = self.adapters.flights[id as usize];
        let mut effects = std::mem::take(&mut self.adapters.effects);
        self.graph.pass_scheduled(
            now,
            output,
            Arrival { input, kind, span, key: id },
            &mut effects,
        );
        for effect in effects.drain(..) {
            self.apply(now, effect);
        }
        self.adapters.effects = effects;
    }

    /// Whether a target has disabled an initiator, according to what the target has reported to the
    /// switch, if targets do.
    #[inline]
    fn is_disabled(&self, now: Time, from: u16, to: u16) -> bool {
        match self.accepted_by(to) {
            Some(initiators) => initiators >> from & 1 == 0,
            None => {
                let disabled = &self.adapters.hosts[usize::from(from)].disabled;
                disabled.iter().any(|out| out.is_left_out(now, to))
            }
        }
    }

    /// The switch does not forward the requests of a disabled initiator (Clint 3.3).
    fn refuse_disabled(&mut self, now: Time, id: u32) {
        self.observations.drop(Drop::Disabled, now);
        let from = self.adapters.flights[id as usize].from;
        let state = &mut self.adapters.hosts[usize::from(from)];
        if state.sending == Some(id) {
            state.sending = None;
        }
        self.packets.remove(id);
    }
}
