//! A bufferless crossbar: first come, first considered (Clint 3.4, 4.2).
//!
//! Per output the switch knows until when a request and until when an acknowledgment occupies it.
//! Intervals are half open: a packet whose first byte arrives as the last byte of another one
//! leaves finds the output free.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{Span, Time};

use super::{Arrival, Effect, Loss, PacketKind, Simultaneous};

/// Settings of a crossbar without packet buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossbarSettings {
    /// From a byte at an input to the same byte at an output.
    pub latency: Span,
    /// What happens to a packet whose output is occupied.
    pub contention: Contention,
    /// What happens when an acknowledgment meets a request at the same output.
    #[serde(default)]
    pub acknowledgments: AcknowledgmentRule,
    /// Which of several simultaneous arrivals goes first.
    #[serde(default)]
    pub simultaneous: Simultaneous,
}

/// What happens to a packet whose output is occupied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    /// It is dropped (Clint's B1, Q1, Q2).
    Drop,
    /// It is held on its link until the output is free, in order of arrival (Clint's B2). The link
    /// is elastic: its bytes stop and resume without loss of time.
    BackPressure,
}

/// What happens when an acknowledgment meets a request at the same output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgmentRule {
    /// They collide. Under `drop` the acknowledgment wins, even over a request in progress, whose
    /// rest is dropped (Clint's Q1); under `back_pressure` it waits ahead of requests.
    #[default]
    Collide,
    /// Its bytes are inserted into the request, which ends that much later; a request that arrives
    /// during an acknowledgment follows it (Clint's Q2). A gap that an adapter left in a request is
    /// not closed again.
    Interleave,
}

/// A crossbar with the state of its outputs. `K` names packets.
#[derive(Debug)]
pub struct Crossbar<K> {
    settings: CrossbarSettings,
    outputs: Vec<Output<K>>,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Output<K> {
    /// The arrivals of this picosecond.
    arrivals: Vec<Arrival<K>>,
    /// Packets held back, in the order in which they go: acknowledgments first.
    blocked: VecDeque<Arrival<K>>,
    /// The last forwarded request: its input, until when it arrives there, and until when it
    /// occupies the output.
    request: Option<K>,
    request_input: u16,
    request_in_until: Time,
    request_until: Time,
    /// The last acknowledgment that was forwarded.
    acknowledgment: Option<K>,
    acknowledgment_until: Time,
    /// Until when a packet that keeps to a schedule occupies the output.
    scheduled_until: Time,
    favoured: u16,
    /// The time of the decision already asked for on behalf of `blocked`.
    review: Time,
}

/// What becomes of a packet that meets an output alone, and of the packet that is passing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met<K> {
    /// What happens to the packet in progress, if anything does.
    pub in_progress: Option<Effect<K>>,
    /// What happens to the packet that comes.
    pub own: Effect<K>,
}

/// A packet that back pressure holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked<P, K> {
    /// The output for which it waits.
    pub output: P,
    /// The packet.
    pub packet: K,
    /// The input of the request that the output forwarded last, if it has forwarded any.
    pub holder: Option<P>,
}

impl<K: Copy + PartialEq> Crossbar<K> {
    /// A crossbar with every output free. `random` is drawn from only by `simultaneous = random`.
    pub fn new(settings: CrossbarSettings, ports: u16, random: Stream) -> Crossbar<K> {
        let output = Output {
            arrivals: Vec::new(),
            blocked: VecDeque::new(),
            request: None,
            request_input: 0,
            request_in_until: Time::ZERO,
            request_until: Time::ZERO,
            acknowledgment: None,
            acknowledgment_until: Time::ZERO,
            scheduled_until: Time::ZERO,
            favoured: 0,
            review: Time::ZERO,
        };
        Crossbar { settings, outputs: vec![output; usize::from(ports)], random }
    }

    /// A packet reaches an input on its way to `output`. Returns whether the caller must have
    /// [`Crossbar::decide`] called once all arrivals of this picosecond are known.
    #[inline]
    pub fn arrive(&mut self, output: u16, arrival: Arrival<K>) -> bool {
        let arrivals = &mut self.outputs[usize::from(output)].arrivals;
        arrivals.push(arrival);
        arrivals.len() == 1
    }

    /// Decides on all packets that wait for a decision at `output`, and says by appending to
    /// `effects` what becomes of them. Returns when to decide again although nothing arrives.
    pub fn decide(&mut self, now: Time, output: u16, effects: &mut Vec<Effect<K>>) -> Option<Time> {
        let ports = self.outputs.len() as u16;
        let settings = &self.settings;
        let state = &mut self.outputs[usize::from(output)];
        let mut arrivals = std::mem::take(&mut state.arrivals);
        let rule = settings.simultaneous;
        rule.arrange(&mut arrivals, &mut state.favoured, ports, &mut self.random);
        match settings.contention {
            Contention::Drop => {
                for arrival in arrivals.drain(..) {
                    let met = state.contend(now, settings, arrival);
                    effects.extend(met.in_progress);
                    effects.push(met.own);
                }
            }
            Contention::BackPressure => {
                state.queue(now, settings, &arrivals, effects);
                arrivals.clear();
            }
        }
        state.arrivals = arrivals;
        state.next_review(now, settings)
    }

    /// Decides at once on a packet that reaches its output alone, under [`Contention::Drop`]: what
    /// that does to the request in progress, and to the packet.
    #[inline]
    pub fn meet(&mut self, now: Time, output: u16, arrival: Arrival<K>) -> Met<K> {
        let state = &mut self.outputs[usize::from(output)];
        debug_assert!(self.settings.contention == Contention::Drop && state.arrivals.is_empty());
        state.contend(now, &self.settings, arrival)
    }

    /// Decides at once on a packet that keeps to a schedule, under [`Contention::Drop`]: it goes
    /// before whatever occupies the output or arrives in the same picosecond. It ends an
    /// acknowledgment, and does to a request what an acknowledgment would. Only another packet of
    /// the schedule could stop it, which the schedule rules out.
    pub fn pass(
        &mut self,
        now: Time,
        output: u16,
        arrival: Arrival<K>,
        effects: &mut Vec<Effect<K>>,
    ) {
        let state = &mut self.outputs[usize::from(output)];
        debug_assert!(self.settings.contention == Contention::Drop);
        state.pass(now, &self.settings, arrival, effects);
    }

    /// The adapter inserts other bytes into a request: it ends later by `by` wherever it is.
    pub fn stretch(&mut self, output: u16, key: K, by: Span) {
        let state = &mut self.outputs[usize::from(output)];
        if state.request == Some(key) {
            state.request_until += by;
            state.request_in_until += by;
        }
        let arrived = state.arrivals.iter_mut().chain(&mut state.blocked);
        for arrival in arrived.filter(|arrival| arrival.key == key) {
            arrival.span += by;
        }
    }

    /// The packets that back pressure holds, by output.
    pub fn blocked(&self) -> impl Iterator<Item = Blocked<u16, K>> + '_ {
        (0..=u16::MAX).zip(&self.outputs).flat_map(|(output, state)| {
            let holder = state.request.map(|_| state.request_input);
            state.blocked.iter().map(move |packet| Blocked { output, packet: packet.key, holder })
        })
    }
}

impl<K: Copy + PartialEq> Output<K> {
    /// One arrival under `drop`: its effect on the request in progress, and on itself.
    #[inline]
    fn contend(&mut self, now: Time, settings: &CrossbarSettings, arrival: Arrival<K>) -> Met<K> {
        let collides = settings.acknowledgments == AcknowledgmentRule::Collide;
        let acknowledging = self.acknowledgment_until > now;
        let scheduled = self.scheduled_until > now;
        let loss = match arrival.kind {
            PacketKind::Scheduled => None,
            PacketKind::Acknowledgment if scheduled => Some(Loss::ToScheduled),
            PacketKind::Acknowledgment if acknowledging => Some(Loss::ToAcknowledgment),
            PacketKind::Acknowledgment => None,
            PacketKind::Request if self.request_until > now => Some(Loss::ToRequest),
            PacketKind::Request if scheduled && collides => Some(Loss::ToScheduled),
            PacketKind::Request if acknowledging && collides => Some(Loss::ToAcknowledgment),
            PacketKind::Request => None,
        };
        if let Some(loss) = loss {
            let own = Effect::Dropped { key: arrival.key, loss };
            return Met { in_progress: None, own };
        }
        let kills = arrival.kind == PacketKind::Acknowledgment
            && collides
            && self.meets_request(now, &arrival);
        if kills {
            self.request_until = now;
            let loss = Loss::ToAcknowledgment;
            let killed = self.request.map(|key| Effect::Killed { key, loss });
            return Met { in_progress: killed, ..self.forward(now, settings, arrival) };
        }
        self.forward(now, settings, arrival)
    }

    /// One packet of a schedule: up to two effects on others, and its own outcome.
    fn pass(
        &mut self,
        now: Time,
        settings: &CrossbarSettings,
        arrival: Arrival<K>,
        effects: &mut Vec<Effect<K>>,
    ) {
        let loss = Loss::ToScheduled;
        let Arrival { key, span, .. } = arrival;
        if self.scheduled_until > now {
            effects.push(Effect::Dropped { key, loss });
            return;
        }
        if self.acknowledgment_until > now {
            self.acknowledgment_until = now;
            effects.extend(self.acknowledgment.map(|key| Effect::Killed { key, loss }));
        }
        if self.meets_request(now, &arrival) {
            match settings.acknowledgments {
                AcknowledgmentRule::Collide => {
                    self.request_until = now;
                    effects.extend(self.request.map(|key| Effect::Killed { key, loss }));
                }
                AcknowledgmentRule::Interleave => {
                    self.request_until += span;
                    effects.extend(self.request.map(|key| Effect::Stretched { key, by: span }));
                }
            }
        }
        self.scheduled_until = now + span;
        effects.push(Effect::Forwarded { key, end: now + span + settings.latency });
    }

    /// Lets a packet pass that nothing forbids: what that does to the request in progress, and to
    /// the packet.
    #[inline]
    fn forward(&mut self, now: Time, settings: &CrossbarSettings, arrival: Arrival<K>) -> Met<K> {
        let Arrival { key, span, .. } = arrival;
        let mut stretched = None;
        let end = match arrival.kind {
            PacketKind::Scheduled | PacketKind::Acknowledgment => {
                if self.meets_request(now, &arrival) {
                    self.request_until += span;
                    stretched = self.request.map(|key| Effect::Stretched { key, by: span });
                }
                self.acknowledgment = Some(key);
                self.acknowledgment_until = now + span;
                self.acknowledgment_until
            }
            PacketKind::Request => {
                let inserted = self.acknowledgment_until.max(self.scheduled_until);
                self.request_until = now + inserted.since(now) + span;
                self.request = Some(key);
                self.request_input = arrival.input;
                self.request_in_until = now + span;
                self.request_until
            }
        };
        let own = Effect::Forwarded { key, end: end + settings.latency };
        Met { in_progress: stretched, own }
    }

    /// Whether an acknowledgment and the request in progress want the output at the same time. Not
    /// if the adapter has inserted the one into the other already.
    fn meets_request(&self, now: Time, acknowledgment: &Arrival<K>) -> bool {
        let inserted = self.request_input == acknowledgment.input && self.request_in_until > now;
        self.request_until > now && !inserted
    }

    /// Arrivals under `back_pressure`: they join those that wait, and the first ones go if they
    /// can.
    fn queue(
        &mut self,
        now: Time,
        settings: &CrossbarSettings,
        arrivals: &[Arrival<K>],
        effects: &mut Vec<Effect<K>>,
    ) {
        let waiting = |kind| move |packet: &Arrival<K>| packet.kind <= kind;
        for arrival in arrivals {
            let place = self.blocked.partition_point(waiting(arrival.kind));
            self.blocked.insert(place, *arrival);
        }
        while let Some(first) = self.blocked.front() {
            if self.free_at(settings, first.kind) > now {
                break;
            }
            let Some(first) = self.blocked.pop_front() else { break };
            let met = self.forward(now, settings, first);
            effects.extend(met.in_progress);
            effects.push(met.own);
        }
        let held = |arrival: &&Arrival<K>| self.blocked.iter().any(|b| b.key == arrival.key);
        effects.extend(arrivals.iter().filter(held).map(|a| Effect::Blocked { key: a.key }));
    }

    /// When the output can take a packet of this kind without dropping anything.
    fn free_at(&self, settings: &CrossbarSettings, kind: PacketKind) -> Time {
        match (settings.acknowledgments, kind) {
            (AcknowledgmentRule::Collide, _) => self.request_until.max(self.acknowledgment_until),
            (AcknowledgmentRule::Interleave, PacketKind::Request) => self.request_until,
            (AcknowledgmentRule::Interleave, _) => self.acknowledgment_until,
        }
    }

    /// When the first packet held back can go, unless a decision at that time is already scheduled.
    fn next_review(&mut self, now: Time, settings: &CrossbarSettings) -> Option<Time> {
        let at = self.free_at(settings, self.blocked.front()?.kind);
        let asked = self.review > now && self.review <= at;
        (!asked).then(|| {
            self.review = at;
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    const REQUEST: Span = Span(36);
    const ACKNOWLEDGMENT: Span = Span(4);

    fn crossbar(contention: Contention, acknowledgments: AcknowledgmentRule) -> Crossbar<char> {
        let simultaneous = Simultaneous::RoundRobin;
        let settings =
            CrossbarSettings { latency: Span(6), contention, acknowledgments, simultaneous };
        Crossbar::new(settings, 4, Streams::new(1).stream("switch", 0))
    }

    /// Lets packets reach output 0 at one time: upper case is an acknowledgment, the input is the
    /// place in the alphabet.
    fn arrive(switch: &mut Crossbar<char>, now: u64, packets: &str) -> String {
        for key in packets.chars() {
            let input = (key.to_ascii_lowercase() as u8 - b'a').into();
            let (kind, span) = if key.is_ascii_uppercase() {
                (PacketKind::Acknowledgment, ACKNOWLEDGMENT)
            } else {
                (PacketKind::Request, REQUEST)
            };
            switch.arrive(0, Arrival { input, kind, span, key });
        }
        let mut effects = Vec::new();
        let again = switch.decide(Time(now), 0, &mut effects);
        let mut text: Vec<String> = effects.iter().map(describe).collect();
        text.extend(again.map(|time| format!("again {}", time.0)));
        text.join(", ")
    }

    fn describe(effect: &Effect<char>) -> String {
        match effect {
            Effect::Forwarded { key, end } => format!("{key} until {}", end.0),
            Effect::Dropped { key, loss } => format!("{key} dropped {loss:?}"),
            Effect::Killed { key, loss } => format!("{key} killed {loss:?}"),
            Effect::Stretched { key, by } => format!("{key} stretched by {}", by.0),
            Effect::Blocked { key } => format!("{key} blocked"),
        }
    }

    #[test]
    fn the_first_request_wins_and_simultaneous_ones_take_turns() {
        let mut switch = crossbar(Contention::Drop, AcknowledgmentRule::Collide);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(arrive(&mut switch, 135, "b"), "b dropped ToRequest");
        assert_eq!(arrive(&mut switch, 136, "cb"), "b until 178, c dropped ToRequest");
        assert_eq!(
            arrive(&mut switch, 172, "bac"),
            "c until 214, a dropped ToRequest, \
            b dropped ToRequest"
        );
    }

    #[test]
    fn acknowledgments_collide_in_q1() {
        let mut switch = crossbar(Contention::Drop, AcknowledgmentRule::Collide);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(arrive(&mut switch, 110, "B"), "a killed ToAcknowledgment, B until 120");
        assert_eq!(arrive(&mut switch, 112, "c"), "c dropped ToAcknowledgment");
        assert_eq!(arrive(&mut switch, 113, "D"), "D dropped ToAcknowledgment");
        assert_eq!(arrive(&mut switch, 114, "c"), "c until 156");
        assert_eq!(
            arrive(&mut switch, 200, "aBcD"),
            "B until 210, D dropped ToAcknowledgment, \
            a dropped ToAcknowledgment, c dropped ToAcknowledgment"
        );
    }

    #[test]
    fn acknowledgments_interleave_in_q2() {
        let mut switch = crossbar(Contention::Drop, AcknowledgmentRule::Interleave);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(arrive(&mut switch, 110, "B"), "a stretched by 4, B until 120");
        assert_eq!(arrive(&mut switch, 112, "C"), "C dropped ToAcknowledgment");
        assert_eq!(arrive(&mut switch, 139, "c"), "c dropped ToRequest", "a goes on until 140");
        assert_eq!(arrive(&mut switch, 140, "B"), "B until 150");
        assert_eq!(arrive(&mut switch, 141, "c"), "c until 186", "3 of B, then 36, then 6");
        switch.stretch(0, 'c', Span(4));
        assert_eq!(arrive(&mut switch, 183, "a"), "a dropped ToRequest", "stretched upstream");
        assert_eq!(arrive(&mut switch, 184, "a"), "a until 226");
        switch.stretch(0, 'a', Span(4));
        assert_eq!(arrive(&mut switch, 190, "A"), "A until 200", "within a, where there is room");
        assert_eq!(arrive(&mut switch, 223, "b"), "b dropped ToRequest");
        assert_eq!(arrive(&mut switch, 224, "b"), "b until 266");
    }

    /// Lets a packet of the schedule, as long as an acknowledgment, reach output 0 from input 3.
    fn pass(switch: &mut Crossbar<char>, now: u64, key: char) -> String {
        let (kind, span) = (PacketKind::Scheduled, ACKNOWLEDGMENT);
        let mut effects = Vec::new();
        switch.pass(Time(now), 0, Arrival { input: 3, kind, span, key }, &mut effects);
        effects.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    /// Clint 3.3: "gives the acknowledgment packets back and qack as well as the scheduling packets
    /// cfg and gnt priority over qreq by dropping qreq in the case of collisions".
    #[test]
    fn what_is_scheduled_passes_whatever_is_there() {
        let mut switch = crossbar(Contention::Drop, AcknowledgmentRule::Collide);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(pass(&mut switch, 110, 's'), "a killed ToScheduled, s until 120");
        let lost = "C dropped ToScheduled, b dropped ToScheduled";
        assert_eq!(arrive(&mut switch, 112, "bC"), lost);
        assert_eq!(pass(&mut switch, 113, 't'), "t dropped ToScheduled", "a broken schedule");
        assert_eq!(arrive(&mut switch, 114, "B"), "B until 124");
        assert_eq!(pass(&mut switch, 116, 's'), "B killed ToScheduled, s until 126");
    }

    #[test]
    fn what_is_scheduled_is_interleaved_with_requests() {
        let mut switch = crossbar(Contention::Drop, AcknowledgmentRule::Interleave);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(pass(&mut switch, 110, 's'), "a stretched by 4, s until 120");
        assert_eq!(arrive(&mut switch, 116, "B"), "a stretched by 4, B until 126");
        let both = "B killed ToScheduled, a stretched by 4, s until 127";
        assert_eq!(pass(&mut switch, 117, 's'), both);
        assert_eq!(pass(&mut switch, 200, 's'), "s until 210");
        assert_eq!(arrive(&mut switch, 201, "c"), "c until 246", "3 of s, then 36, then 6");
    }

    #[test]
    fn back_pressure_serves_in_order_of_arrival() {
        let mut switch = crossbar(Contention::BackPressure, AcknowledgmentRule::Collide);
        assert_eq!(arrive(&mut switch, 100, "a"), "a until 142");
        assert_eq!(arrive(&mut switch, 110, "c"), "c blocked, again 136");
        assert_eq!(arrive(&mut switch, 112, "b"), "b blocked");
        assert_eq!(arrive(&mut switch, 113, "D"), "D blocked");
        assert_eq!(arrive(&mut switch, 136, ""), "D until 146, again 140");
        assert_eq!(arrive(&mut switch, 140, ""), "c until 182, again 176");
        assert_eq!(arrive(&mut switch, 176, "d"), "b until 218, d blocked, again 212");
    }
}
