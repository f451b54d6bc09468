//! The hosts around a fabric: what they hand over, and what is observed where they receive it.

use weft_fabric::fabric::{Heading, Routes, Wiring};
use weft_fabric::measure::{Latency, Observations, Stage};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Arena, Id};
use weft_units::{Bytes, Limit, Span, Time};

/// What a channel of a fabric is made of besides its switches.
#[derive(Debug)]
pub struct NetworkParts {
    /// Which switches and cables there are.
    pub wiring: Wiring,
    /// Which ways packets take.
    pub routes: Routes,
    /// The time that a packet occupies a link.
    pub packet: Span,
    /// What of a packet a program handed over.
    pub payload: Bytes,
    /// The time that a signal travels on a cable.
    pub propagation: Span,
    /// From a byte at an input of a switch to the same byte at a free output.
    pub latency: Span,
    /// How many packets each adapter holds.
    pub send_buffers: Limit,
    /// The source of each host, or none.
    pub sources: Vec<Source>,
    /// Where the observations go.
    pub observations: Observations,
}

/// A packet that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The initiator.
    pub from: u16,
    /// The target.
    pub to: u16,
    /// When it was handed over.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub start: Time,
    /// When its last byte reached the target.
    pub end: Time,
    /// How many switches it passed.
    pub hops: u8,
}

/// A packet that has been handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub generated: Time,
    pub start: Time,
    pub from: u16,
    pub to: u16,
}

/// A packet whose transmission is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub id: Id<Packet>,
    pub to: u16,
    pub heading: Heading,
    /// When it starts.
    pub start: Time,
    /// When its source is to be looked at again.
    pub again: Time,
}

/// Sources, packets and observations: what any kind of switch needs around it.
#[derive(Debug)]
pub(super) struct Ends {
    pub packets: Arena<Packet>,
    pub observations: Observations,
    sources: Vec<Source>,
    send_buffers: Limit,
    /// When the link of each host is free.
    free: Vec<Time>,
    /// The ways of a packet that is handed over.
    pub routes: Routes,
    /// What every packet spends on the whole: on its link, and for each switch and cable.
    packet: Span,
    propagation: Span,
    latency: Span,
    payload: Bytes,
}

impl Ends {
    /// When each source hands over its first packets: host and time, several of a greedy one.
    pub fn begin(&self) -> Vec<(u16, Time)> {
        let first = |(host, source): (u16, &Source)| {
            // A greedy source fills all buffers at once.
            let packets = match (source.feedback(), self.send_buffers.count()) {
                (Feedback::Ready, Some(buffers)) => buffers.as_usize(),
                _ => usize::from(source.next_time() < Time::NEVER),
            };
            std::iter::repeat_n((host, source.next_time()), packets)
        };
        (0..).zip(&self.sources).flat_map(first).collect()
    }

    /// The source of `host` hands over a packet.
    #[inline]
    pub fn generate(&mut self, now: Time, host: u16) -> Departure {
        let place = usize::from(host);
        let source = &mut self.sources[place];
        source.ready(now);
        let demand = source.take();
        self.observations.generate(now);
        let start = now.max(self.free[place]);
        self.observations.attempt(start);
        self.free[place] = start + self.packet;
        // The buffer of a greedy source is free when the transmission starts.
        let again = match source.feedback() {
            Feedback::Ready => start,
            Feedback::None | Feedback::Delivered => source.next_time(),
        };
        let to = demand.target;
        let id = self.packets.insert(Packet { generated: now, start, from: host, to });
        Departure { id, to, heading: self.routes.depart(host, to), start, again }
    }

    /// The last byte of a packet that passed `hops` switches is at its target. Returns it, and when
    /// the source of the target is to be looked at because of that.
    #[inline]
    pub fn deliver(&mut self, now: Time, id: Id<Packet>, hops: u8) -> (Delivery, Option<Time>) {
        let Packet { generated, start, from, to } = self.packets[id];
        self.packets.remove(id);
        let seen = &mut self.observations;
        let (queueing, transit) = (start.since(generated), now.since(start));
        seen.latency(Latency::Queueing, now, queueing);
        seen.latency(Latency::Transit, now, transit);
        seen.latency(Latency::OneWay, now, queueing + transit);
        if now >= seen.from {
            let wire = Span(self.propagation.0 * (u64::from(hops) + 1));
            let switches = Span(self.latency.0 * u64::from(hops));
            let moving = self.packet + wire + switches;
            seen.budget.add(Stage::SlotWait, queueing);
            seen.budget.add(Stage::Transmission, self.packet);
            seen.budget.add(Stage::Wire, wire);
            seen.budget.add(Stage::Switch, switches);
            seen.budget.add(Stage::SwitchWait, Span(transit.0 - moving.0));
            seen.hops.count(hops);
        }
        seen.deliver_from(usize::from(from), now, self.payload);
        let delivery = Delivery { from, to, generated, start, end: now, hops };
        (delivery, self.answer(now, from, to))
    }

    /// Packets whose transmission starts after `now`. Each link sends one after another, so that
    /// they follow from when it will be free.
    pub fn waiting(&self, now: Time) -> u64 {
        let whole = |free: &Time| (free.since(now).0).saturating_sub(1) / self.packet.0;
        self.free.iter().map(whole).sum()
    }

    /// What was observed until `now`. Transmissions are counted when their start is known, which
    /// may lie beyond.
    pub fn into_observations(mut self, now: Time) -> Observations {
        let attempts = self.observations.attempts.saturating_sub(self.waiting(now));
        self.observations.attempts = attempts;
        self.observations
    }

    #[inline]
    fn answer(&mut self, now: Time, from: u16, to: u16) -> Option<Time> {
        let source = &mut self.sources[usize::from(to)];
        if source.feedback() != Feedback::Delivered {
            return None;
        }
        let before = source.next_time();
        source.delivered(now, from);
        Some(source.next_time()).filter(|next| *next != before)
    }
}

impl NetworkParts {
    pub(super) fn into_ends(self) -> Ends {
        Ends {
            packets: Arena::new(),
            observations: self.observations,
            free: vec![Time::ZERO; self.sources.len()],
            sources: self.sources,
            send_buffers: self.send_buffers,
            routes: self.routes,
            packet: self.packet,
            propagation: self.propagation,
            latency: self.latency,
            payload: self.payload,
        }
    }
}
