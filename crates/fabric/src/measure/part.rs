//! Observations of parts of a network that run on several threads.
//!
//! Whatever does not depend on the order of deliveries is a sum of integers: each part has its own, and they
//! are added at the end. What does depend on it (the time series of latencies, stalled hosts, and
//! the counters at the steps of a run) is recorded by one observer, to which the parts report what happened,
//! window by window. So the result is the same to the last byte, however a network is divided.

use std::ops::Deref;

use weft_units::{Span, Time};

use super::instants::Waits;
use super::{Drop, Instants, Latency, Observations, Passage};

/// A delivery, as far as its order among others matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it was delivered.
    pub time: Time,
    /// The target.
    pub to: u32,
    /// The initiator.
    pub from: u32,
    /// From when it was submitted until it left.
    pub queueing: Span,
    /// From then to its last byte at the target.
    pub transit: Span,
    /// How many switches it passed.
    pub hops: u16,
    /// Its traffic class.
    pub class: u8,
}

/// Packets were submitted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Submission {
    /// When.
    pub time: Time,
    /// The host that submitted them.
    pub host: u32,
    /// How many.
    pub packets: u32,
}

/// A packet was dropped for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// When.
    pub time: Time,
    /// Its initiator.
    pub host: u32,
    /// The rule that dropped it.
    pub why: Drop,
}

/// The events of one part in a window, each kind in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Packets that were submitted.
    pub handed: Vec<Submission>,
    /// Packets that were dropped for good.
    pub dropped: Vec<Loss>,
    /// Delivered packets; in one instant, by target.
    pub arrived: Vec<Arrival>,
}

/// How many packets were submitted.
fn packets(handed: &[Submission]) -> u64 {
    handed.iter().map(|one| u64::from(one.packets)).sum()
}

impl Told {
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.handed.is_empty() && self.dropped.is_empty() && self.arrived.is_empty()
    }

    /// Puts what happened in the order of time; deliveries of one instant in that of their targets.
    pub fn sort(&mut self) {
        self.handed.sort_unstable();
        self.dropped.sort_unstable();
        self.arrived.sort_unstable_by_key(|one| (one.time, one.to));
    }

    /// Forgets what happened, and keeps the memory for it.
    pub fn clear(&mut self) {
        self.handed.clear();
        self.dropped.clear();
        self.arrived.clear();
    }

    fn latest(&self) -> Option<Time> {
        let handed = self.handed.last().map(|one| one.time);
        let dropped = self.dropped.last().map(|one| one.time);
        handed.max(dropped).max(self.arrived.last().map(|one| one.time))
    }

    /// How many packets were submitted, delivered and dropped before an instant.
    fn before(&self, instant: Time) -> [u64; 3] {
        [
            packets(&self.handed[..self.handed.partition_point(|one| one.time < instant)]),
            self.arrived.partition_point(|one| one.time < instant) as u64,
            self.dropped.partition_point(|one| one.time < instant) as u64,
        ]
    }
}

impl Observations {
    /// Nothing observed yet, for a part: what it adds up is [taken](Self::take_part) at the end.
    #[must_use]
    pub fn of_part(&self) -> Observations {
        let mut fresh = Observations::starting(self.from).of_classes(self.classes.len());
        fresh.passages = self.passages.as_ref().map(|_| Vec::new());
        fresh
    }

    /// [`complete`](Self::complete) in a part. Returns what must be reported to the observer.
    #[inline]
    pub fn complete_in_part(&mut self, one: &Instants) -> Arrival {
        let (now, Waits { queueing, transit }) = (one.delivered, one.waits());
        if now >= self.from {
            let one_way = queueing + transit + one.target;
            self.latencies[Latency::Queueing as usize].spread(queueing);
            self.latencies[Latency::Transit as usize].spread(transit);
            self.latencies[Latency::OneWay as usize].spread(one_way);
            self.spend_all(one);
            self.hops.count(one.hops);
            self.delivered_measured += 1;
            self.payload_measured += one.payload;
            if let Some(class) = self.classes.get_mut(usize::from(one.class)) {
                class.payload += one.payload;
                class.one_way.spread(one_way);
            }
        }
        self.pass(Passage { from: one.from, to: one.to, start: one.started, end: now });
        let Instants { to, from, hops, class, .. } = *one;
        Arrival { time: now, to, from, queueing, transit, hops, class }
    }

    /// Hears what happened in all parts within a window: nothing in it is later than what later windows have.
    /// `each` is shown every delivery in the order of time.
    pub fn hear(&mut self, told: &[impl Deref<Target = Told>], mut each: impl FnMut(&Arrival)) {
        self.note_progress(told);
        match told.iter().all(|one| one.dropped.is_empty()) {
            true => self.hear_who_stands(told),
            false => self.hear_who_stands_in_order(told),
        }
        for one in told {
            self.generated += packets(&one.handed);
            self.delivered += one.arrived.len() as u64;
            self.abandoned += one.dropped.len() as u64;
            one.dropped.iter().for_each(|loss| self.drop(loss.why, loss.time));
            let measured = one.arrived.partition_point(|arrival| arrival.time < self.from);
            for arrival in &one.arrived[measured..] {
                self.fairness.count(arrival.from as usize);
            }
        }
        in_order(told, |arrival| {
            let Arrival { time, queueing, transit, .. } = *arrival;
            if time >= self.from {
                self.latencies[Latency::Queueing as usize].count_in_order(time, queueing);
                self.latencies[Latency::Transit as usize].count_in_order(time, transit);
                self.latencies[Latency::OneWay as usize].count_in_order(time, queueing + transit);
                if let Some(class) = self.classes.get_mut(usize::from(arrival.class)) {
                    class.one_way.count_in_order(time, queueing + transit);
                }
            }
            each(arrival);
        });
    }

    /// Takes over what a part added up, and leaves nothing of it there.
    pub fn take_part(&mut self, part: &mut Observations) {
        let fresh = part.of_part();
        let mut part = std::mem::replace(part, fresh);
        for (own, more) in self.latencies.iter_mut().zip(&mut part.latencies) {
            own.take_spread(more);
        }
        for (own, more) in self.classes.iter_mut().zip(&mut part.classes) {
            own.payload += more.payload;
            own.one_way.take_spread(&mut more.one_way);
        }
        self.budget.merge(&part.budget);
        self.hops.merge(&part.hops);
        self.attempts += part.attempts;
        for (own, more) in self.drops.iter_mut().zip(part.drops) {
            *own += more;
        }
        self.delivered_measured += part.delivered_measured;
        self.payload_measured += part.payload_measured;
        if let (Some(passages), Some(more)) = (&mut self.passages, part.passages) {
            passages.extend(more);
        }
    }

    /// Notes the counters at the steps that are due within a window.
    fn note_progress(&mut self, told: &[impl Deref<Target = Told>]) {
        let Some(latest) = told.iter().filter_map(|one| one.latest()).max() else { return };
        while self.next_sample() <= latest {
            let due = self.next_sample();
            let mut counters = self.counters(due);
            for [handed, arrived, dropped] in told.iter().map(|one| one.before(due)) {
                counters.generated += handed;
                counters.delivered += arrived;
                counters.abandoned += dropped;
            }
            self.sampler.take(counters);
        }
    }

    fn hear_who_stands(&mut self, told: &[impl Deref<Target = Told>]) {
        for arrival in told.iter().flat_map(|one| &one.arrived) {
            self.standing.deliver_first(arrival.from as usize, arrival.time);
        }
        for one in told.iter().flat_map(|one| &one.handed) {
            self.standing.hand_over_last(one.host as usize, one.packets, one.time);
        }
    }

    /// Where packets are dropped, the number of a packet does not say when it was in flight, so everything
    /// is taken in order: at one instant drops before deliveries, and these before submissions.
    fn hear_who_stands_in_order(&mut self, told: &[impl Deref<Target = Told>]) {
        let mut all = Vec::new();
        for one in told {
            all.extend(one.dropped.iter().map(|loss| (loss.time, 0, loss.host, 1)));
            all.extend(one.arrived.iter().map(|arrival| (arrival.time, 1, arrival.from, 1)));
            all.extend(one.handed.iter().map(|own| (own.time, 2, own.host, own.packets)));
        }
        all.sort_unstable();
        for (time, what, host, packets) in all {
            match what {
                0 => self.standing.give_up(host as usize),
                1 => self.standing.deliver(host as usize, time),
                _ => self.standing.hand_over_all(host as usize, packets.into(), time),
            }
        }
    }
}

/// Visits the deliveries of all parts by time; in one instant, by target.
fn in_order(told: &[impl Deref<Target = Told>], mut each: impl FnMut(&Arrival)) {
    if let [one] = told {
        return one.arrived.iter().for_each(each);
    }
    let key = |arrival: Option<&Arrival>| {
        arrival.map_or(u128::MAX, |one| u128::from(one.time.0) << 32 | u128::from(one.to))
    };
    let mut next: Vec<_> = told.iter().map(|one| one.arrived.iter()).collect();
    let mut keys: Vec<u128> = next.iter().map(|own| key(own.as_slice().first())).collect();
    loop {
        // There are few parts, so visiting each costs less than keeping them sorted.
        let least = keys.iter().zip(&mut next).zip(0..).min_by_key(|((key, _), _)| **key);
        let Some(((_, own), part)) = least else { return };
        let Some(arrival) = own.next() else { return };
        each(arrival);
        let after = key(own.as_slice().first());
        keys[part] = after;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_units::Bytes;

    use super::*;

    /// A packet: when it is submitted, what it waits and what it takes, its ends, whether it is dropped, and the
    /// part that sees its end.
    type Packet = (u64, u64, u64, (u32, u32), bool, usize);

    fn packets() -> impl Strategy<Value = Vec<Packet>> {
        let packet =
            (0_u64..900, 0_u64..40, 1_u64..200, (0_u32..6, 0_u32..6), any::<bool>(), 0_usize..3);
        prop::collection::vec(packet, 1..150)
    }

    fn instants((handed, wait, takes, (from, to), ..): Packet) -> Instants {
        Instants {
            from,
            to,
            generated: Time(handed),
            started: Time(handed + wait),
            delivered: Time(handed + wait + takes),
            hops: (takes % 5) as u16,
            class: (takes % 3) as u8,
            payload: Bytes(takes),
            transmission: Span(takes / 2),
            wire: Span(takes / 4),
            switches: Span(0),
            initiator: Span::ZERO,
            target: Span::ZERO,
        }
    }

    proptest! {
        #[test]
        fn parts_that_are_put_together_are_the_whole(
            packets in packets(),
            drops in any::<bool>(),
            width in 1_u64..400,
        ) {
            let start = || {
                let mut seen = Observations::over(Time(100), Time(1_000)).of_hosts(5).of_classes(2);
                seen.note_passages();
                seen
            };
            let is_dropped = |packet: &Packet| drops && packet.4;
            // By time; drops before deliveries before submissions; deliveries by target.
            let mut events: Vec<(Time, u32, u32, Packet)> = Vec::new();
            let mut taken = std::collections::BTreeSet::new();
            for packet in packets {
                let one = instants(packet);
                // One packet leaves a host, and one arrives there, at an instant.
                let ends = [(0, one.started, one.from), (1, one.delivered, one.to)];
                if ends.iter().any(|end| taken.contains(end)) {
                    continue;
                }
                taken.extend(ends);
                events.push((one.generated, 2, one.from, packet));
                let end = if is_dropped(&packet) { 0 } else { 1 };
                events.push((one.delivered, end, one.to, packet));
            }
            events.sort_unstable();

            let (mut whole, mut heard) = (start(), start());
            let mut parts: Vec<Observations> = (0..3).map(|_| heard.of_part()).collect();
            let mut told: Vec<Box<Told>> = (0..3).map(|_| Box::default()).collect();
            let (mut order, mut usual) = (Vec::new(), Vec::new());
            let mut end = Time(width);
            for (time, what, _, packet) in events {
                let one = instants(packet);
                while time >= end {
                    heard.hear(&told, |arrival| order.push((arrival.time, arrival.to)));
                    told.iter_mut().for_each(|one| one.clear());
                    end = Time(end.0 + width);
                }
                match what {
                    0 => {
                        whole.drop(Drop::Overflow, time);
                        whole.abandon_from(one.from as usize, time);
                        told[packet.5].dropped.push(Loss { time, host: one.from, why: Drop::Overflow });
                    }
                    1 => {
                        whole.complete(&one);
                        usual.push((time, one.to));
                        let arrival = parts[packet.5].complete_in_part(&one);
                        told[packet.5].arrived.push(arrival);
                    }
                    _ => {
                        whole.generate_from(one.from as usize, time);
                        whole.attempt(one.started);
                        parts[packet.5].attempt(one.started);
                        // A host is in one part.
                        told[one.from as usize % 3].handed.push(Submission { time, host: one.from, packets: 1 });
                    }
                }
            }
            heard.hear(&told, |arrival| order.push((arrival.time, arrival.to)));
            parts.iter_mut().for_each(|part| heard.take_part(part));
            prop_assert_eq!(order, usual);
            prop_assert_eq!(whole.take_passages(), heard.take_passages());
            prop_assert_eq!(format!("{whole:?}"), format!("{heard:?}"));
        }
    }
}
