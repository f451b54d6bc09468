//! Counts deliveries that repeat in periods, without simulating these.
//!
//! All records are whole numbers or, for the series, sums at a count of records. The result of `times`
//! repetitions therefore follows from one of them, and is the same to the last digit.

use weft_units::{Span, Time};

use super::recorder::Later;
use super::{Instants, Latency, Observations, Stage};

/// The time of a packet in a stage, in picoseconds.
type StageTime<'a> = &'a dyn Fn(&Instants) -> u64;

impl Observations {
    /// Records deliveries from now on, so that they can be [repeated](Self::repeat).
    pub fn note_deliveries(&mut self) {
        self.noted.get_or_insert_default().clear();
    }

    /// Notes no deliveries any more.
    pub fn forget_deliveries(&mut self) {
        self.noted = None;
    }

    /// How many deliveries have been recorded for repetition.
    pub fn deliveries_noted(&self) -> usize {
        self.noted.as_ref().map_or(0, Vec::len)
    }

    /// Whether passages are recorded one by one, so that none can be skipped.
    pub fn notes_passages(&self) -> bool {
        self.passages.is_some()
    }

    /// How often a period that ends at `now` may be repeated before the counters are recorded next.
    pub fn repeats_before_sample(&self, now: Time, period: Span) -> u64 {
        self.next_sample().since(now).0.saturating_sub(1) / period.0
    }

    /// Counts and records the deliveries recorded for repetition again, `times` times, each time a
    /// `period` later: packets that were submitted at the same time as those, but left their hosts
    /// that much later. Also counts `attempts` transmissions in each period. The caller ensures
    /// that no passages are recorded, that no counter is due to be recorded within that time, and
    /// that all of it is measured.
    pub fn repeat(&mut self, period: Span, attempts: u64, times: u64) {
        let seen = self.noted.take().unwrap_or_default();
        let queueing = |one: &Instants| one.started.since(one.generated);
        let transit = |one: &Instants| Span(one.delivered.since(one.started).0 - one.target.0);
        let one_way = |one: &Instants| queueing(one) + transit(one) + one.target;
        let at = |span: &dyn Fn(&Instants) -> Span, seen: &[Instants]| -> Vec<(Time, Span)> {
            seen.iter().map(|one| (one.delivered, span(one))).collect()
        };
        let still = Later { period, growth: Span::ZERO };
        let grows = Later { period, growth: period };
        self.latencies[Latency::Queueing as usize].repeat(&at(&queueing, &seen), grows, times);
        self.latencies[Latency::Transit as usize].repeat(&at(&transit, &seen), still, times);
        self.latencies[Latency::OneWay as usize].repeat(&at(&one_way, &seen), grows, times);
        for (class, own) in self.classes.iter_mut().enumerate() {
            let seen = seen.iter().filter(|one| usize::from(one.class) == class);
            let spans: Vec<_> = seen.clone().map(|one| (one.delivered, one_way(one))).collect();
            own.one_way.repeat(&spans, grows, times);
            own.payload.0 += seen.map(|one| one.payload.0).sum::<u64>() * times;
        }
        self.spend_again(&seen, period, times);
        for one in &seen {
            self.hops.count_more(one.hops, times);
            self.fairness.count_more(one.from as usize, times);
            self.standing.deliver_more(one.from as usize, times, one.delivered + period * times);
        }
        let all = seen.len() as u64 * times;
        self.delivered += all;
        self.delivered_measured += all;
        self.payload_measured.0 += seen.iter().map(|one| one.payload.0).sum::<u64>() * times;
        self.attempts += attempts * times;
        self.noted = Some(seen);
    }

    /// The latency budget of packets that are repeated.
    fn spend_again(&mut self, seen: &[Instants], period: Span, times: u64) {
        let all = u128::from(times) * seen.len() as u128;
        let grown = all * (u128::from(times) + 1) / 2 * u128::from(period.0);
        let stages: [(Stage, StageTime<'_>); 7] = [
            (Stage::InitiatorHost, &|one| one.initiator.0),
            (Stage::TargetHost, &|one| one.target.0),
            (Stage::SlotWait, &|one| one.started.since(one.generated).0 - one.initiator.0),
            (Stage::Transmission, &|one| one.transmission.0),
            (Stage::Wire, &|one| one.wire.0),
            (Stage::Switch, &|one| one.switches.0),
            (Stage::SwitchWait, &|one| {
                let transit = one.delivered.since(one.started).0 - one.target.0;
                transit - (one.transmission + one.wire + one.switches).0
            }),
        ];
        for (stage, spent) in stages {
            let is_of_host = matches!(stage, Stage::InitiatorHost | Stage::TargetHost);
            let counted = seen.iter().map(spent).filter(|span| *span > 0 || !is_of_host);
            let (count, sum) =
                counted.fold((0, 0), |(count, sum), span| (count + 1, sum + u128::from(span)));
            let grown = if stage == Stage::SlotWait { grown } else { 0 };
            self.budget.add_sum(stage, count * times, sum * u128::from(times) + grown);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_units::Bytes;

    use super::*;

    fn one((from, class): (u32, u8), (left, took): (u64, u64), delivered: u64) -> Instants {
        let started = delivered - took;
        Instants {
            from,
            to: 0,
            generated: Time(started - left.min(started)),
            started: Time(started),
            delivered: Time(delivered),
            hops: class.into(),
            class,
            payload: Bytes(7),
            transmission: Span(took / 2),
            wire: Span(took / 8),
            switches: Span(took / 16),
            initiator: Span::ZERO,
            target: Span::ZERO,
        }
    }

    fn later(one: &Instants, span: Span) -> Instants {
        Instants { started: one.started + span, delivered: one.delivered + span, ..*one }
    }

    fn text(seen: &Observations) -> String {
        let series = Latency::ALL.map(|kind| format!("{:?}", seen.recorder(kind).series()));
        format!("{seen:?} {series:?}")
    }

    proptest! {
        /// Against the same deliveries one by one, for any period and spans, with batches of the series
        /// that end anywhere.
        #[test]
        fn what_is_repeated_is_what_comes_again(
            period in 1_u64..1 << 24,
            times in 0_u64..400,
            before in 0_u64..60,
            packets in prop::collection::vec(
                ((0_u32..3, 0_u8..3), (0_u64..1 << 30, 0_u64..1 << 20), 0_u64..1 << 24), 1..12),
        ) {
            let mut plain = Observations::starting(Time::ZERO).of_hosts(3).of_classes(2);
            for host in [0, 1, 2] {
                (0..100_000).for_each(|_| plain.generate_from(host, Time::ZERO));
            }
            let start = 1 << 33;
            (0..before).for_each(|k| plain.complete(&one((1, 1), (5, 9), start - before + k)));
            let mut packets = packets;
            packets.sort_by_key(|own| own.2 % period);
            let seen: Vec<Instants> = packets
                .iter()
                .map(|(ends, spans, at)| one(*ends, *spans, start + at % period))
                .collect();
            plain.note_deliveries();
            seen.iter().for_each(|own| plain.complete(own));
            let mut jumped = plain.clone();
            jumped.repeat(Span(period), 5, times);
            plain.forget_deliveries();
            jumped.forget_deliveries();
            for k in 1..=times {
                seen.iter().for_each(|own| plain.complete(&later(own, Span(period * k))));
                (0..5).for_each(|_| plain.attempt(Time(start)));
            }
            prop_assert_eq!(text(&jumped), text(&plain));
        }
    }

    #[test]
    fn a_series_that_is_halved_in_between_is_the_same() {
        let mut plain = Observations::default();
        let seen: Vec<Instants> =
            (0..3).map(|k| one((0, 0), (1_000 * k, 40), 1_000_000 + k)).collect();
        plain.note_deliveries();
        seen.iter().for_each(|own| plain.complete(own));
        let mut jumped = plain.clone();
        jumped.repeat(Span(17), 0, 30_000);
        plain.forget_deliveries();
        jumped.forget_deliveries();
        for k in 1..=30_000 {
            seen.iter().for_each(|own| plain.complete(&later(own, Span(17 * k))));
        }
        assert_eq!(text(&jumped), text(&plain));
        assert!(plain.recorder(Latency::OneWay).series().batch_size() > 5);
    }
}
