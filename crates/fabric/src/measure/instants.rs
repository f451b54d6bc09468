//! The instants of a packet, from which its latencies follow.

use weft_units::{Bytes, Span, Time};

use super::{Budget, Latency, Observations, Passage, Stage};

/// What is known of a packet, or of a message of several cells, when its last byte is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// When it was submitted.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub started: Time,
    /// When it was delivered.
    pub delivered: Time,
    /// How many switches it passed.
    pub hops: u16,
    /// Its traffic class; 0 without classes.
    pub class: u8,
    /// Its payload.
    pub payload: Bytes,
    /// Its transmission time.
    pub transmission: Span,
    /// The propagation delay.
    pub wire: Span,
    /// The time in switches apart from waiting.
    pub switches: Span,
    /// The time in the initiator's adapter before anything could be sent.
    pub initiator: Span,
    /// The time in the target's adapter after the last byte.
    pub target: Span,
}

impl Instants {
    /// The two parts of the time from when it was submitted to its last byte at the target.
    #[inline]
    pub fn waits(&self) -> Waits {
        let transit = self.delivered.since(self.started);
        Waits {
            queueing: self.started.since(self.generated),
            transit: Span(transit.0 - self.target.0),
        }
    }
}

/// The latencies of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// From when it was submitted until it left.
    pub queueing: Span,
    /// From then to its last byte at the target.
    pub transit: Span,
}

impl Observations {
    /// Counts a delivery whose budget was recorded stage by stage: what `spend` adds takes the place of
    /// the differences between its instants.
    #[inline]
    pub fn complete_in_stages(&mut self, one: &Instants, spend: impl FnOnce(&mut Budget)) {
        self.record_latencies(one);
        if one.delivered >= self.from {
            spend(&mut self.budget);
        }
        self.count_delivery(one);
    }

    #[inline(always)]
    fn record_latencies(&mut self, one: &Instants) {
        let now = one.delivered;
        let Waits { queueing, transit } = one.waits();
        self.latency(Latency::Queueing, now, queueing);
        self.latency(Latency::Transit, now, transit);
        self.latency(Latency::OneWay, now, queueing + transit + one.target);
    }

    /// A packet of a class is [delivered](Self::complete) at `now` that was submitted and started at these instants, and
    /// is observed soon: each latency is counted in another line of the cache, of a few thousand.
    #[inline]
    pub fn prefetch_latencies(&self, class: u8, generated: Time, started: Time, now: Time) {
        let (queueing, transit) = (started.since(generated), now.since(started));
        self.latencies[Latency::Queueing as usize].prefetch(queueing);
        self.latencies[Latency::Transit as usize].prefetch(transit);
        self.latencies[Latency::OneWay as usize].prefetch(queueing + transit);
        if let Some(class) = self.classes.get(usize::from(class)) {
            class.one_way.prefetch(queueing + transit);
        }
    }

    /// Counts a delivery, of which no latency is recorded.
    #[inline(always)]
    pub fn count_delivery(&mut self, one: &Instants) {
        let now = one.delivered;
        self.count_hops(now, one.hops);
        self.deliver_from(one.from as usize, now, one.payload);
        self.pass(Passage { from: one.from, to: one.to, start: one.started, end: now });
    }

    /// Counts a delivery and records what follows from its instants.
    // Inlined, so that the instants need not be put together in memory.
    #[inline(always)]
    pub fn complete(&mut self, one: &Instants) {
        let now = one.delivered;
        self.sample(now);
        self.delivered += 1;
        self.standing.deliver(one.from as usize, now);
        if now >= self.from {
            self.measure(one);
        }
        if self.passages.is_some() || self.noted.is_some() {
            self.note(*one);
        }
    }

    /// Records what follows from the instants of a packet that is not delivered in the warm-up.
    #[inline(always)]
    fn measure(&mut self, one: &Instants) {
        let now = one.delivered;
        let Waits { queueing, transit } = one.waits();
        let one_way = queueing + transit + one.target;
        self.latencies[Latency::Queueing as usize].record(now, queueing);
        self.latencies[Latency::Transit as usize].record(now, transit);
        self.latencies[Latency::OneWay as usize].record(now, one_way);
        self.spend_all(one);
        if let Some(class) = self.classes.get_mut(usize::from(one.class)) {
            class.payload += one.payload;
            class.one_way.record(now, one.delivered.since(one.generated));
        }
        self.hops.count(one.hops);
        self.fairness.count(one.from as usize);
        self.delivered_measured += 1;
        self.payload_measured += one.payload;
    }

    /// Records a delivery itself, where that is wanted.
    #[cold]
    #[inline(never)]
    fn note(&mut self, one: Instants) {
        self.pass(Passage { from: one.from, to: one.to, start: one.started, end: one.delivered });
        if let Some(noted) = &mut self.noted {
            noted.push(one);
        }
    }

    /// Adds what a packet spent in each stage.
    #[inline]
    pub(super) fn spend_all(&mut self, one: &Instants) {
        let Waits { queueing, transit } = one.waits();
        let moving = one.transmission + one.wire + one.switches;
        for (stage, span) in
            [(Stage::InitiatorHost, one.initiator), (Stage::TargetHost, one.target)]
        {
            if span > Span::ZERO {
                self.budget.add(stage, span);
            }
        }
        self.budget.add(Stage::SlotWait, Span(queueing.0 - one.initiator.0));
        self.budget.add(Stage::Transmission, one.transmission);
        self.budget.add(Stage::Wire, one.wire);
        self.budget.add(Stage::Switch, one.switches);
        self.budget.add(Stage::SwitchWait, Span(transit.0 - moving.0));
    }

    /// Counts how many switches a packet passed that is delivered.
    #[inline]
    pub fn count_hops(&mut self, now: Time, hops: u16) {
        if now >= self.from {
            self.hops.count(hops);
        }
    }
}
