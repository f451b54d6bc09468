//! The hosts around a fabric: what they hand over, and what is observed where they receive it.

use weft_fabric::fabric::{Routes, Wiring};
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

/// A packet that has been handed over; `X` is what the switches note on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<X> {
    pub generated: Time,
    pub start: Time,
    pub from: u16,
    pub to: u16,
    pub note: X,
}

/// Sources, packets and observations: what any kind of switch needs around it.
#[derive(Debug)]
pub(super) struct Ends<X> {
    pub packets: Arena<Packet<X>>,
    pub observations: Observations,
    sources: Vec<Source>,
    send_buffers: Limit,
    /// What every packet spends on the whole: on its link, and for each switch and cable.
    packet: Span,
    propagation: Span,
    latency: Span,
    payload: Bytes,
}

impl<X: Copy> Ends<X> {
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

    /// The source of `host` hands over a packet. Returns its target, and when the next one comes if
    /// it comes by itself.
    #[inline]
    pub fn hand_over(&mut self, now: Time, host: u16) -> (u16, Time) {
        let source = &mut self.sources[usize::from(host)];
        source.ready(now);
        let demand = source.take();
        self.observations.generate(now);
        (demand.target, source.next_time())
    }

    /// Whether the source of `host` hands over a packet whenever a buffer is free.
    #[inline]
    pub fn is_greedy(&self, host: u16) -> bool {
        self.sources[usize::from(host)].feedback() == Feedback::Ready
    }

    /// The last byte of a packet that passed `hops` switches is at its target. Returns it, and when
    /// the source of the target is to be looked at because of that.
    #[inline]
    pub fn deliver(&mut self, now: Time, id: Id<Packet<X>>, hops: u8) -> (Delivery, Option<Time>) {
        let Packet { generated, start, from, to, .. } = self.packets[id];
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

impl<X> Ends<X> {
    /// The hosts of a channel at time zero.
    pub fn new(parts: NetworkParts) -> (Ends<X>, Wiring, Routes) {
        let ends = Ends {
            packets: Arena::new(),
            observations: parts.observations,
            sources: parts.sources,
            send_buffers: parts.send_buffers,
            packet: parts.packet,
            propagation: parts.propagation,
            latency: parts.latency,
            payload: parts.payload,
        };
        (ends, parts.wiring, parts.routes)
    }
}
