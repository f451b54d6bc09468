//! Laws that hold for any settings: nothing is lost, everything arrives, pairs keep their order.

use std::collections::HashMap;

use proptest::prelude::*;
use weft_fabric::adapter::{AdapterSettings, Feed, Insertion, PerTargetSettings, ThrottleSettings};
use weft_fabric::measure::Observations;
use weft_fabric::switch::{
    AcknowledgmentRule, Contention, CrossbarSettings, OutputBufferedSettings, Overflow,
    Simultaneous,
};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::Engine;
use weft_protocol::retransmit::{
    ControlSettings, KnownAfter, Order, OutOfBandSettings, RequestAcknowledgeSettings, Retries,
};
use weft_units::{Bytes, Limit, PositiveCount, Span, Time};

use crate::adapters::parts::{self, Star, Switch};

pub fn any_limit(largest: u32) -> impl Strategy<Value = Limit> + Clone {
    prop_oneof![(1..=largest).prop_map(parts::limit), Just(Limit::Unlimited)]
}

pub fn any_simultaneous() -> impl Strategy<Value = Simultaneous> {
    prop::sample::select(vec![Simultaneous::RoundRobin, Simultaneous::Random, Simultaneous::Lowest])
}

fn any_switch() -> impl Strategy<Value = Switch> {
    let contention = prop::sample::select(vec![Contention::Drop, Contention::BackPressure]);
    let acknowledgments =
        prop::sample::select(vec![AcknowledgmentRule::Collide, AcknowledgmentRule::Interleave]);
    let crossbar = (0_u64..9_000, contention, acknowledgments, any_simultaneous()).prop_map(
        |(latency, contention, acknowledgments, simultaneous)| {
            let latency = Span(latency);
            Switch::Crossbar(CrossbarSettings {
                latency,
                contention,
                acknowledgments,
                simultaneous,
            })
        },
    );
    let buffered = (0_u64..9_000, any_limit(4), any_limit(3), any_simultaneous()).prop_map(
        |(latency, buffers, writers, simultaneous)| {
            Switch::OutputBuffered(OutputBufferedSettings {
                latency: Span(latency),
                buffers,
                writers,
                overflow: Overflow::Drop,
                simultaneous,
            })
        },
    );
    prop_oneof![crossbar, buffered]
}

/// Any control; the range of the back-off keeps two colliding hosts from meeting for ever.
pub fn any_control() -> impl Strategy<Value = ControlSettings> {
    let order = prop::sample::select(vec![
        Order::Unordered,
        Order::Resequenced,
        Order::PerPair,
        Order::HeadOfLine,
    ]);
    let retries = prop::sample::select(vec![Retries::First, Retries::Last]);
    let window = (any_limit(5), order, retries, 20_000_u64..60_000);
    let acknowledged = (30_000_u64..90_000, 3_u64..5, 0_u64..4_000, window.clone()).prop_map(
        |(timeout, bytes, turn_around, (outstanding, order, retries, back_off))| {
            ControlSettings::RequestAcknowledge(RequestAcknowledgeSettings {
                timeout: Span(timeout),
                outstanding,
                acknowledgment: Bytes(bytes),
                turn_around: Span(turn_around),
                order,
                retries,
                back_off: Span(back_off),
            })
        },
    );
    let known_after = prop::sample::select(vec![KnownAfter::Transmission, KnownAfter::Delivery]);
    let out_of_band = (known_after, 0_u64..20_000, window).prop_map(
        |(known_after, delay, (outstanding, order, retries, back_off))| {
            ControlSettings::OutOfBand(OutOfBandSettings {
                known_after,
                delay: Span(delay),
                outstanding,
                order,
                retries,
                back_off: Span(back_off),
            })
        },
    );
    prop_oneof![Just(ControlSettings::Unacknowledged), acknowledged, out_of_band]
}

pub fn any_adapter() -> impl Strategy<Value = AdapterSettings> {
    let limit = (1_u32..4).prop_map(|limit| PositiveCount::new(limit).expect("positive"));
    let feed = prop_oneof![
        Just(Feed::Fifo),
        limit.prop_map(|limit| Feed::PerTarget(PerTargetSettings { limit }))
    ];
    let throttle = prop::option::of((1_u32..4, 10_000_u64..50_000).prop_map(|(requests, per)| {
        let requests = PositiveCount::new(requests).expect("positive");
        ThrottleSettings { requests, per: Span(per) }
    }));
    let insertion = prop::sample::select(vec![Insertion::Wait, Insertion::Interleave]);
    (any_limit(6), feed, insertion, throttle).prop_map(
        |(send_buffers, feed, acknowledgments, throttle)| AdapterSettings {
            send_buffers,
            feed,
            release: None,
            acknowledgments,
            throttle,
            transport: None,
        },
    )
}

prop_compose! {
    fn any_parts()(
        ports in 2_u16..6,
        packet in 6_u64..20,
        propagation in 1_u64..2_900,
        switch in any_switch(),
        adapter in any_adapter(),
        control in any_control(),
    ) -> Star {
        let link = parts::link(Span(propagation));
        let (packet, payload) = (Bytes(packet), Bytes(1));
        Star { name: "any".into(), ports, packet, payload, link, switch, adapter, control, }
    }
}

/// Settings that do not go together are changed to ones that do.
fn reconciled(mut parts: Star) -> Star {
    let is_acknowledged = matches!(parts.control, ControlSettings::RequestAcknowledge(_));
    let mut follows = false;
    if let Switch::Crossbar(switch) = &mut parts.switch {
        follows = switch.contention == Contention::Drop;
        if !is_acknowledged {
            switch.acknowledgments = AcknowledgmentRule::Collide;
        }
    }
    if !is_acknowledged || !follows {
        parts.adapter.acknowledgments = Insertion::Wait;
    }
    parts
}

pub fn balanced(channel: &Engine) -> bool {
    channel.observations().outstanding() == channel.backlog() + channel.in_flight()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// At every event, packets in = delivered + abandoned + in the channel; in the end nothing is
    /// left in it.
    #[test]
    fn every_packet_is_accounted_for(
        parts in any_parts(),
        offers in prop::collection::vec((0_u64..400_000, 0_u16..6, 1_u16..6), 1..40),
    ) {
        let parts = reconciled(parts);
        let mut offers: Vec<_> = offers
            .into_iter()
            .map(|(time, from, ahead)| {
                let from = from % parts.ports;
                let to = (from + 1 + ahead % (parts.ports - 1)) % parts.ports;
                (Time(time), from, to)
            })
            .collect();
        offers.sort();
        let lossless = parts.control != ControlSettings::Unacknowledged;
        let channel = parts::run(parts, &offers, Time(1_000_000_000_000), |now, channel| {
            assert!(balanced(channel), "at {now:?}: {:#?}", channel.waiting());
        });
        let observations = channel.observations();
        prop_assert_eq!(observations.generated, offers.len() as u64);
        prop_assert_eq!(observations.outstanding(), 0, "{:#?}", channel.waiting());
        prop_assert_eq!(channel.waiting(), Vec::<String>::new());
        if lossless {
            prop_assert_eq!(observations.abandoned, 0);
        }
    }

    /// The same settings and seed give the same run, in one go or in pieces.
    #[test]
    fn a_run_can_be_cut(parts in any_parts(), cut in 1_u64..3_000_000) {
        let parts = reconciled(parts);
        let channel = || {
            let streams = Streams::new(7);
            let ports = u32::from(parts.ports);
            let source = |host: u32| {
                let times = streams.stream("times", host as usize);
                let targets = streams.stream("targets", host as usize);
                Source::poisson(parts.packet_span() * 4, host, ports, times, targets)
            };
            let sources = (0..ports).map(source).collect();
            parts.clone().channel(sources, &streams, Observations::starting(Time::ZERO))
        };
        let end = Time(3_000_000);
        let (mut whole, mut pieces) = (channel(), channel());
        prop_assert_eq!(whole.run(end, &Halt::new()), None);
        prop_assert_eq!(pieces.run(Time(cut), &Halt::new()), None);
        let mut halt = Halt::new();
        halt.step_limit = Some(pieces.steps() + 10);
        let stopped = pieces.run(end, &halt);
        prop_assert!(stopped.is_none() || stopped == Some(Stopped::StepLimit));
        prop_assert!(balanced(&pieces));
        prop_assert_eq!(pieces.run(end, &Halt::new()), None);
        let seen = |channel: &Engine| {
            let means = weft_fabric::measure::Latency::ALL
                .map(|kind| channel.observations().recorder(kind).sum_ps());
            (channel.steps(), channel.observations().delivered, channel.control_counters(), means)
        };
        prop_assert_eq!(seen(&whole), seen(&pieces));
    }
}

/// Everybody sends to host 0 in a burst; with order kept, deliveries of each pair follow the order
/// of generation. Seen through the one-way latency: the oldest undelivered packet of the pair is
/// the one that arrives.
#[test]
fn pairs_keep_their_order_where_it_is_promised() {
    for (order, kept) in [
        (Order::Unordered, false),
        (Order::Resequenced, true),
        (Order::PerPair, true),
        (Order::HeadOfLine, true),
    ] {
        assert_eq!(in_order(order), kept, "{order:?}");
    }
}

fn in_order(order: Order) -> bool {
    let mut control = parts::request_acknowledge(Span(40_000), 4, 2, Span(1_000));
    if let ControlSettings::RequestAcknowledge(settings) = &mut control {
        settings.order = order;
        settings.back_off = Span(30_000);
    }
    let parts = Star {
        name: "order".into(),
        ports: 4,
        packet: Bytes(9),
        payload: Bytes(1),
        link: parts::link(Span(2_000)),
        switch: parts::crossbar(Span(3_000), Contention::Drop, AcknowledgmentRule::Collide),
        adapter: parts::adapter(4, Insertion::Wait),
        control,
    };
    // Times that differ in the last digits tell from the one-way latency which packet it was.
    let offers: Vec<_> =
        (0..60_u64).map(|n| (Time(n * 13 + 1), (n % 3) as u16 + 1, 0_u16)).collect();
    let mut pairs: HashMap<u16, Vec<Time>> = HashMap::new();
    let mut before = Span::ZERO;
    let mut deliveries = 0;
    parts::run(parts, &offers, Time(1_000_000_000), |now, channel| {
        let observations = channel.observations();
        let sum = parts::sum(observations, weft_fabric::measure::Latency::OneWay);
        if observations.delivered == deliveries + 1 {
            let generated = now - (sum - before);
            let (_, host, _) =
                offers.iter().find(|(time, _, _)| *time == generated).expect("one of them");
            pairs.entry(*host).or_default().push(generated);
        }
        (before, deliveries) = (sum, observations.delivered);
    });
    assert_eq!(deliveries, 60);
    pairs.values().all(|times| times.is_sorted())
}
