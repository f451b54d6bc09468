//! What the switch decides, and what follows from it for the hosts.

use weft_fabric::measure::{Collision, Drop};
use weft_fabric::switch::{Arrival, Crossbar, Effect, Loss, OutputBuffered, PacketKind};
use weft_kernel::{Id, Stream};
use weft_protocol::retransmit::{ControlSettings, KnownAfter};
use weft_units::{Span, Time};

use super::host::Flight;
use super::parts::EventSwitch;
use super::{Event, EventChannel, Happening};
use crate::drive::carrier::MessageId;

/// The switch of a channel.
#[derive(Debug)]
pub(super) enum Switch {
    Crossbar(Crossbar<Id<Flight>>),
    OutputBuffered(OutputBuffered<Id<Flight>>),
}

impl Switch {
    pub fn new(settings: &EventSwitch, ports: u16, random: Stream) -> Switch {
        match settings.clone() {
            EventSwitch::Crossbar(settings) => {
                Switch::Crossbar(Crossbar::new(settings, ports, random))
            }
            EventSwitch::OutputBuffered(settings) => {
                Switch::OutputBuffered(OutputBuffered::new(settings, ports, random))
            }
        }
    }

    pub fn stretch(&mut self, output: u16, key: Id<Flight>, by: Span) {
        if let Switch::Crossbar(crossbar) = self {
            crossbar.stretch(output, key, by);
        }
    }
}

impl EventChannel {
    /// The first byte of a packet is at the switch.
    pub(super) fn reach(
        &mut self,
        now: Time,
        id: Id<Flight>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let flight = &self.flights[id];
        if flight.kind == PacketKind::Scheduled {
            return self.pass(now, id, schedule);
        }
        if flight.kind == PacketKind::Request
            && self.hosts[usize::from(flight.from)].disabled_from <= now
        {
            return self.refuse_disabled(now, id);
        }
        if !self.has_room(now, id) {
            let dropped = Effect::Dropped { key: id, loss: Loss::ToTransfer };
            return self.apply(now, dropped, schedule);
        }
        let flight = &self.flights[id];
        let (output, alone) = (flight.to, !flight.in_company);
        let arrival = Arrival { input: flight.from, kind: flight.kind, span: flight.span, key: id };
        if alone {
            let (other, own) = match &mut self.switch {
                Switch::Crossbar(switch) => switch.meet(now, output, arrival),
                Switch::OutputBuffered(switch) => (None, switch.meet(now, output, arrival)),
            };
            if let Some(other) = other {
                self.apply(now, other, schedule);
            }
            self.apply(now, own, schedule);
            return;
        }
        let first = match &mut self.switch {
            Switch::Crossbar(switch) => switch.arrive(output, arrival),
            Switch::OutputBuffered(switch) => switch.arrive(output, arrival),
        };
        if first {
            // Equal times leave in the order of scheduling: after every arrival of this time.
            schedule(now, Event(Happening::Decide(output)));
        }
    }

    /// Whether the link to the target takes a packet besides the transfer that shares it.
    #[inline]
    fn has_room(&self, now: Time, id: Id<Flight>) -> bool {
        let Flight { to, span, .. } = self.flights[id];
        self.shared_links().is_none_or(|links| links.has_room(now, to, span))
    }

    /// All arrivals of this picosecond at an output are known.
    pub(super) fn decide(
        &mut self,
        now: Time,
        output: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        let again = match &mut self.switch {
            Switch::Crossbar(switch) => switch.decide(now, output, &mut effects),
            Switch::OutputBuffered(switch) => {
                switch.decide(now, output, &mut effects);
                None
            }
        };
        if let Some(time) = again {
            schedule(time, Event(Happening::Decide(output)));
        }
        for effect in effects.drain(..) {
            self.apply(now, effect, schedule);
        }
        self.effects = effects;
    }

    #[inline]
    fn apply(
        &mut self,
        now: Time,
        effect: Effect<Id<Flight>>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        match effect {
            Effect::Forwarded { key, end } => self.forwarded(now, key, end, schedule),
            Effect::Stretched { key, by } => self.flights[key].end += by,
            Effect::Blocked { key } => self.blocked(key),
            Effect::Dropped { key, loss } => {
                self.dropped(now, key, loss, schedule);
                self.flights.remove(key);
            }
            Effect::Killed { key, loss } => {
                self.dropped(now, key, loss, schedule);
                // It is freed by the event of its delivery, which is scheduled already.
                self.flights[key].killed = true;
            }
        }
    }

    fn forwarded(
        &mut self,
        now: Time,
        id: Id<Flight>,
        end: Time,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let flight = &mut self.flights[id];
        flight.end = end + self.propagation;
        schedule(flight.end, Event(Happening::Deliver(id)));
        let Flight { from, to, kind, span, slot, blocked, .. } = *flight;
        // A packet that waited in the switch is on the cable of its output behind those before it.
        self.observations.occupy(to.into(), Time(end.0.saturating_sub(span.0)), span);
        if let Some(links) = self.shared_links_mut() {
            links.forward(now, to, span);
        }
        if blocked {
            let passed_from = now - self.propagation;
            let state = &mut self.hosts[usize::from(from)];
            match kind {
                PacketKind::Scheduled | PacketKind::Acknowledgment => {
                    state.acknowledgment_until = passed_from + span;
                }
                PacketKind::Request => {
                    self.flights[id].start = passed_from;
                    state.request_until = passed_from + span;
                    if state.leaving != MessageId::NONE {
                        schedule(state.request_until.max(now), Event(Happening::Sent(from)));
                    }
                }
            }
            self.transmit(now, from, schedule);
        }
        if let ControlSettings::OutOfBand(control) = &self.parts.control
            && control.known_after == KnownAfter::Transmission
        {
            // On a cable longer than the delay the packet is still on its way at that time.
            let known = (self.flights[id].start + span + control.delay).max(now);
            schedule(known, Event(Happening::Complete { host: from, slot }));
        }
    }

    /// Back pressure reaches the host: its link stays occupied until the packet is forwarded.
    fn blocked(&mut self, id: Id<Flight>) {
        let flight = &mut self.flights[id];
        flight.blocked = true;
        let state = &mut self.hosts[usize::from(flight.from)];
        match flight.kind {
            PacketKind::Scheduled | PacketKind::Acknowledgment => {
                state.acknowledgment_until = Time::NEVER;
            }
            PacketKind::Request => state.request_until = Time::NEVER,
        }
    }

    /// A transmission is lost. The host goes on sending it to its end all the same.
    fn dropped(
        &mut self,
        now: Time,
        id: Id<Flight>,
        loss: Loss,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Flight { from: host, kind, slot, attempt, start, span, .. } = self.flights[id];
        match kind {
            PacketKind::Scheduled => return self.note_broken(now, id),
            PacketKind::Acknowledgment => {
                self.counters.lost_acknowledgments += 1;
                let against = u64::from(loss == Loss::ToScheduled);
                self.counters.acknowledgments_against_schedule += against;
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
        let state = &mut self.hosts[usize::from(host)];
        if state.sending == Some(id) {
            state.sending = None;
        }
        match &self.parts.control {
            ControlSettings::Unacknowledged => {
                self.observations.abandon(now);
                let Flight { to, sequence, .. } = self.flights[id];
                if let Some(messages) = &mut self.messages {
                    messages.lose(now, host, to, sequence);
                }
            }
            ControlSettings::RequestAcknowledge(_) => {}
            ControlSettings::OutOfBand(control) => {
                // On a long cable the host hears of the drop no earlier than it happens.
                let known = (start + span + control.delay).max(now) + state.draw_back_off();
                schedule(known, Event(Happening::Fail { host, slot, attempt }));
            }
        }
    }

    /// A packet of a schedule passes.
    fn pass(&mut self, now: Time, id: Id<Flight>, schedule: &mut impl FnMut(Time, Event)) {
        let Flight { from: input, to: output, kind, span, .. } = self.flights[id];
        // Without a crossbar that drops, no packet of a schedule is ever sent.
        let Switch::Crossbar(switch) = &mut self.switch else { return };
        let mut effects = std::mem::take(&mut self.effects);
        switch.pass(now, output, Arrival { input, kind, span, key: id }, &mut effects);
        for effect in effects.drain(..) {
            self.apply(now, effect, schedule);
        }
        self.effects = effects;
    }

    /// The switch does not forward the requests of a disabled initiator (Clint 3.3).
    fn refuse_disabled(&mut self, now: Time, id: Id<Flight>) {
        self.observations.drop(Drop::Disabled, now);
        let state = &mut self.hosts[usize::from(self.flights[id].from)];
        if state.sending == Some(id) {
            state.sending = None;
        }
        self.flights.remove(id);
    }
}
