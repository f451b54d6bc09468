//! Measured against published and derived figures of Clint: what an overloaded channel accepts,
//! and how often packets collide when there is room. Short runs with one seed; the bands leave
//! room for their noise.

use weft_fabric::adapter::Insertion;
use weft_fabric::measure::{Collision, Latency, Observations};
use weft_fabric::switch::{AcknowledgmentRule, Contention};
use weft_fabric::workload::{
    ArrivalsSettings, BurstLength, BurstSettings, BurstTargets, ChannelFacts, WorkloadSettings,
};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_protocol::retransmit::{ControlSettings, KnownAfter};
use weft_units::{Bytes, Fraction, Limit, Load, PositiveCount, Span, Time};

use crate::adapters::cycle_counts::clint_link;
use crate::adapters::parts::{self, Star, Switch};

const HOSTS: u16 = 16;

fn bulk(switch: Switch, control: ControlSettings) -> Star {
    Star {
        name: "bulk".into(),
        ports: HOSTS,
        packet: Bytes(2086),
        payload: Bytes(2048),
        link: clint_link(2_000_000_000),
        switch,
        adapter: parts::adapter(16, Insertion::Wait),
        control,
    }
}

/// The quick channel with 4.9 % of its bandwidth taken by configurations, grants and bulk
/// acknowledgments, and a timer of so many byte times.
fn quick(rule: AcknowledgmentRule, insertion: Insertion, timeout: u64) -> Star {
    let mut link = clint_link(528_000_000);
    link.reserved = Fraction::new(0.049).expect("a fraction");
    let byte = link.span(Bytes(1));
    Star {
        name: "quick".into(),
        ports: HOSTS,
        packet: Bytes(36),
        payload: Bytes(32),
        link,
        switch: parts::crossbar(Span(90_000), Contention::Drop, rule),
        adapter: parts::adapter(4, insertion),
        control: parts::request_acknowledge(byte * timeout, 4, 4, byte * 2),
    }
}

/// Traffic at an offered load, with memoryless arrivals of single packets unless said otherwise.
fn traffic(load: f64) -> WorkloadSettings {
    let load = Some(Load::new(load).expect("a load"));
    WorkloadSettings { load, ..WorkloadSettings::default() }
}

/// Bursts of one to five packets, handed over at once for one target (Clint 4.1).
fn bursts() -> Option<BurstSettings> {
    let count = |count| PositiveCount::new(count).expect("positive");
    let length = BurstLength::Uniform(count(1), count(5));
    Some(BurstSettings { length, targets: BurstTargets::Same, spacing: Span::ZERO })
}

/// The second half of `packets` packet times.
fn observe(parts: Star, traffic: &WorkloadSettings, packets: u64) -> (Observations, f64) {
    let streams = Streams::new(1);
    let span = parts.packet_span();
    let facts = ChannelFacts {
        name: &parts.name,
        hosts: HOSTS.into(),
        packet: parts.packet,
        packet_span: span,
        slot_span: None,
    };
    let sources = traffic.build(&facts, &streams).expect("a legal workload");
    let (from, until) = (Time((span * packets).0 / 2), Time((span * packets).0));
    let mut channel = parts.channel(sources, &streams, Observations::starting(from));
    assert_eq!(channel.run(until, &Halt::new()), None);
    let observations = channel.observations().clone();
    let accepted =
        observations.delivered_measured as f64 / (f64::from(HOSTS) * packets as f64 / 2.);
    (observations, accepted)
}

fn assert_accepts(parts: Star, low: f64, high: f64) {
    let (_, accepted) = observe(parts, &traffic(1.0), 2_000);
    assert!((low..high).contains(&accepted), "accepted {accepted}, not {low} to {high}");
}

fn after_transmission(delay: Span) -> ControlSettings {
    parts::out_of_band(KnownAfter::Transmission, delay, Limit::Unlimited)
}

fn b1() -> Star {
    let switch = parts::crossbar(Span(1_500), Contention::Drop, AcknowledgmentRule::Collide);
    bulk(switch, after_transmission(Span(480_000)))
}

fn b2() -> Star {
    let contention = Contention::BackPressure;
    let switch = parts::crossbar(Span(1_500), contention, AcknowledgmentRule::Collide);
    bulk(switch, ControlSettings::Unacknowledged)
}

fn b3(writers: Limit) -> Star {
    bulk(parts::output_buffered(Span(1_500), 16, writers), after_transmission(Span::ZERO))
}

#[test]
fn b1_saturates_at_half() {
    assert_accepts(b1(), 0.465, 0.495);
}

/// The limit of first-in-first-out input queues at 16 ports is 0.60.
#[test]
fn b2_saturates_at_the_limit_of_input_queues() {
    assert_accepts(b2(), 0.59, 0.615);
}

/// Literally, B3 is hardly limited by contention at all, against the claim of Clint 4.2; it is if
/// few packets can be written at once, or if one packet is outstanding until the target has it.
#[test]
fn b3_saturates_only_if_it_is_restricted() {
    assert_accepts(b3(Limit::Unlimited), 0.88, 0.93);
    assert_accepts(b3(parts::limit(3)), 0.87, 0.92);
    assert_accepts(b3(parts::limit(2)), 0.79, 0.83);
    assert_accepts(b3(parts::limit(1)), 0.47, 0.53);
    let control = parts::out_of_band(KnownAfter::Delivery, Span(51_500), parts::limit(1));
    let switch = parts::output_buffered(Span(1_500), 16, Limit::Unlimited);
    assert_accepts(bulk(switch, control), 0.58, 0.61);
}

fn q1() -> Star {
    quick(AcknowledgmentRule::Collide, Insertion::Wait, 100)
}

fn q2() -> Star {
    quick(AcknowledgmentRule::Interleave, Insertion::Interleave, 68)
}

/// Clint 4.2: "link saturation is observed around 35% link capacity".
#[test]
fn q1_saturates_at_a_third() {
    assert_accepts(q1(), 0.33, 0.36);
}

#[test]
fn q2_saturates_later_for_its_insertions() {
    assert_accepts(q2(), 0.425, 0.45);
}

/// Clint 4.2, Table 2, in microseconds; the single cells are as narrow as the printed ratios make
/// them. Uniform intervals, as the paper says.
#[test]
fn q2_waits_as_in_table_2() {
    let cells = [
        (0.1, None, 0.1435, 0.25),
        (0.3, None, 0.955, 0.25),
        (0.1, bursts(), 1.08, 0.10),
        (0.3, bursts(), 2.80, 0.10),
    ];
    for (load, burst, published, band) in cells {
        let arrivals = Some(ArrivalsSettings::Uniform { low: 0.0, high: 2.0 });
        let traffic = WorkloadSettings { burst, arrivals, ..traffic(load) };
        let (seen, _) = observe(q2(), &traffic, 12_000);
        let measured = seen.recorder(Latency::Queueing).mean_ps().expect("packets") * 1e-6;
        let error = measured / published - 1.0;
        assert!(error.abs() < band, "load {load}: {measured} us, published {published} us");
    }
}

/// A burst holds the head of its queue longer, and helps who has won once to win again.
#[test]
fn bursts_lower_back_pressure_and_raise_drop() {
    let bursty = WorkloadSettings { burst: bursts(), ..traffic(1.0) };
    let (_, b1) = observe(b1(), &bursty, 4_000);
    let (_, b2) = observe(b2(), &bursty, 4_000);
    let (_, b3) = observe(b3(Limit::Unlimited), &bursty, 4_000);
    assert!((0.53..0.57).contains(&b1), "B1 accepted {b1}");
    assert!((0.53..0.56).contains(&b2), "B2 accepted {b2}");
    assert!((0.76..0.81).contains(&b3), "B3 accepted {b3}");
}

/// Clint 4.2, Figure 10: at low load as many collisions with requests as with acknowledgments, at
/// high load more with requests.
#[test]
fn q1_collides_with_requests_as_with_acknowledgments() {
    let rates = |load, packets| {
        let (seen, _) = observe(q1(), &traffic(load), packets);
        let rate = |kind| seen.collisions(kind) as f64 / seen.attempts as f64;
        (rate(Collision::Request), rate(Collision::Acknowledgment))
    };
    let (requests, acknowledgments) = rates(0.05, 40_000);
    assert!((0.040..0.056).contains(&requests), "{requests}");
    assert!((0.039..0.053).contains(&acknowledgments), "{acknowledgments}");
    let (requests, acknowledgments) = rates(1.0, 4_000);
    let ratio = requests / acknowledgments;
    assert!((2.1..2.5).contains(&ratio), "{requests} against {acknowledgments}");
}

/// With little load a packet waits for its own kind only: half a packet time for every packet in
/// service at its host (M/D/1), and more where it can lose.
#[test]
fn architectures_rank_as_in_figure_8_at_low_load() {
    let queueing = |parts| {
        let (seen, _) = observe(parts, &traffic(0.1), 8_000);
        seen.recorder(Latency::Queueing).mean_ps().expect("packets") * 1e-6
    };
    let (b1, b2, b3) = (queueing(b1()), queueing(b2()), queueing(b3(Limit::Unlimited)));
    let own_kind = 0.1 / (2.0 * 0.9) * 8.344;
    assert!((b3 - own_kind).abs() < 0.05, "B3 {b3} us, an M/D/1 queue {own_kind} us");
    assert!(b3 < b2 && b2 < b1 && b1 < 1.7, "B1 {b1} us, B2 {b2} us, B3 {b3} us");
}
