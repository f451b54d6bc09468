//! Hand-worked times, to the picosecond, of every architecture of Clint 4.2.
//!
//! A bulk packet takes 2086 x 4 ns = 8 344 000 ps, and its bytes are at the target
//! 25 000 + 1 500 + 25 000 = 51 500 ps after they left (5 m of cable, the switch, 5 m of cable).
//! A quick request takes 545 455 ps, an acknowledgment 60 606 ps; a pass takes
//! 25 000 + 90 000 + 25 000 = 140 000 ps, so that an undisturbed request is acknowledged after
//! 545 455 + 140 000 + 60 606 + 140 000 = 886 061 ps.

use weft_fabric::adapter::{Insertion, ThrottleSettings};
use weft_fabric::link::LinkSettings;
use weft_fabric::measure::{Collision, Latency, Observations};
use weft_fabric::switch::{AcknowledgmentRule, Contention};
use weft_fabric::workload::{ChannelFacts, Pair, Source, SourceSettings, WorkloadSettings};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::Engine;
use weft_protocol::retransmit::{ControlSettings, KnownAfter};
use weft_units::{Bytes, Fraction, Limit, PositiveCount, Rate, Span, Time};

use crate::adapters::parts::{self, Star, Switch};

pub fn clint_link(bits_per_second: u64) -> LinkSettings {
    LinkSettings {
        rate: Rate::from_bits_per_second(bits_per_second),
        length: "5 m".parse().expect("a length"),
        delay_per_metre: "5 ns/m".parse().expect("a delay"),
        reserved: Fraction::default(),
    }
}

fn bulk(switch: Switch, control: ControlSettings) -> Star {
    Star {
        name: "bulk".into(),
        ports: 3,
        packet: Bytes(2086),
        payload: Bytes(2048),
        link: clint_link(2_000_000_000),
        switch,
        adapter: parts::adapter(16, Insertion::Wait),
        control,
    }
}

fn bulk_crossbar(contention: Contention) -> Switch {
    parts::crossbar(Span(1_500), contention, AcknowledgmentRule::Collide)
}

pub fn quick(acknowledgments: AcknowledgmentRule, insertion: Insertion, timeout: Span) -> Star {
    Star {
        name: "quick".into(),
        ports: 3,
        packet: Bytes(36),
        payload: Bytes(32),
        link: clint_link(528_000_000),
        switch: parts::crossbar(Span(90_000), Contention::Drop, acknowledgments),
        adapter: parts::adapter(4, insertion),
        control: parts::request_acknowledge(timeout, 4, 4, Span::ZERO),
    }
}

/// Runs a list of packets (time, from, to) and returns the times of delivery, in order.
fn deliveries(parts: Star, offers: &[(u64, u16, u16)]) -> (Vec<u64>, Engine) {
    let offers: Vec<_> = offers.iter().map(|(time, from, to)| (Time(*time), *from, *to)).collect();
    let mut times = Vec::new();
    let channel = parts::run(parts, &offers, Time(1_000_000_000), |now, channel| {
        if channel.observations().delivered > times.len() as u64 {
            times.push(now.0);
        }
    });
    assert_eq!(channel.observations().outstanding(), 0);
    (times, channel)
}

fn queueing(channel: &Engine) -> Span {
    parts::sum(channel.observations(), Latency::Queueing)
}

#[test]
fn b1_two_hosts() {
    let control = parts::out_of_band(KnownAfter::Transmission, Span(480_000), Limit::Unlimited);
    let parts = bulk(bulk_crossbar(Contention::Drop), control);
    let (times, channel) = deliveries(parts, &[(0, 0, 1), (1_000, 0, 1), (2_000, 1, 0)]);
    // The second packet starts with the end of the first, before its outcome is known.
    assert_eq!(times, [8_395_500, 8_397_500, 16_739_500]);
    assert_eq!(queueing(&channel), Span(8_343_000));
    assert_eq!(parts::sum(channel.observations(), Latency::Transit), Span(3 * 8_395_500));
}

#[test]
fn b1_the_loser_sends_all_of_its_packet_again() {
    let control = parts::out_of_band(KnownAfter::Transmission, Span(480_000), Limit::Unlimited);
    let parts = bulk(bulk_crossbar(Contention::Drop), control);
    let (times, channel) = deliveries(parts, &[(0, 0, 2), (4_000_000, 1, 2)]);
    // It knows at 4 000 000 + 8 344 000 + 480 000 = 12 824 000.
    assert_eq!(times, [8_395_500, 21_219_500]);
    assert_eq!(queueing(&channel), Span(8_824_000));
    assert_eq!(parts::sum(channel.observations(), Latency::FirstAttempt), Span::ZERO);
    assert_eq!(channel.observations().collisions(Collision::Request), 1);
}

#[test]
fn b2_the_later_one_waits_on_its_link() {
    let parts = bulk(bulk_crossbar(Contention::BackPressure), ControlSettings::Unacknowledged);
    let offers = [(0, 0, 2), (4_000_000, 1, 2), (4_000_000, 1, 0)];
    let (times, channel) = deliveries(parts, &offers);
    // At the switch the second packet goes at 25 000 + 8 344 000, as if sent at 8 344 000; behind
    // it the third, for another output, starts at 16 688 000.
    assert_eq!(times, [8_395_500, 16_739_500, 25_083_500]);
    assert_eq!(queueing(&channel), Span(4_344_000 + 12_688_000));
    assert_eq!(parts::sum(channel.observations(), Latency::FirstAttempt), Span(12_688_000));
}

#[test]
fn b3_the_later_one_waits_in_the_switch() {
    let control = parts::out_of_band(KnownAfter::Transmission, Span::ZERO, Limit::Unlimited);
    let switch = parts::output_buffered(Span(1_500), 16, Limit::Unlimited);
    let offers = [(0, 0, 2), (4_000_000, 1, 2), (4_000_000, 1, 0)];
    let (times, channel) = deliveries(bulk(switch, control), &offers);
    // The third packet starts at 12 344 000 and finds its output idle.
    assert_eq!(times, [8_395_500, 16_739_500, 20_739_500]);
    assert_eq!(queueing(&channel), Span(8_344_000));
}

#[test]
fn b3_one_writer_makes_the_later_one_lose() {
    let control = parts::out_of_band(KnownAfter::Transmission, Span::ZERO, Limit::Unlimited);
    let switch = parts::output_buffered(Span(1_500), 16, parts::limit(1));
    let (times, channel) = deliveries(bulk(switch, control), &[(0, 0, 2), (4_000_000, 1, 2)]);
    assert_eq!(times, [8_395_500, 20_739_500]);
    assert_eq!(queueing(&channel), Span(8_344_000));
}

#[test]
fn b3_one_outstanding_waits_for_the_target() {
    let control = parts::out_of_band(KnownAfter::Delivery, Span(51_500), parts::limit(1));
    let switch = parts::output_buffered(Span(1_500), 16, Limit::Unlimited);
    let (times, _) = deliveries(bulk(switch, control), &[(0, 0, 1), (0, 0, 1)]);
    // Known at 8 395 500 + 51 500 = 8 447 000.
    assert_eq!(times, [8_395_500, 16_842_500]);
}

/// Host 1 sends from 300 000 to 845 455; the acknowledgment of host 0's request is ready at
/// 685 455 and waits for the end of that.
#[test]
fn q1_two_hosts() {
    let parts = quick(AcknowledgmentRule::Collide, Insertion::Wait, Span(1_200_000));
    assert_eq!(parts.round_trip(), Some(Span(886_061)));
    let (times, channel) = deliveries(parts, &[(0, 0, 1), (300_000, 1, 0)]);
    assert_eq!(times, [685_455, 985_455]);
    let round_trips = (845_455 + 60_606 + 140_000) + 886_061;
    assert_eq!(parts::sum(channel.observations(), Latency::RoundTrip), Span(round_trips));
    assert_eq!(channel.observations().attempts, 2);
}

/// As above, but the acknowledgment goes at once and host 1's request ends at 906 061.
#[test]
fn q2_two_hosts() {
    let (rule, insertion) = (AcknowledgmentRule::Interleave, Insertion::Interleave);
    let (times, channel) =
        deliveries(quick(rule, insertion, Span(1_200_000)), &[(0, 0, 1), (300_000, 1, 0)]);
    assert_eq!(times, [685_455, 985_455 + 60_606]);
    let round_trips = 886_061 + (886_061 + 60_606);
    assert_eq!(parts::sum(channel.observations(), Latency::RoundTrip), Span(round_trips));
}

/// Host 2 sends to host 0 from 600 000, at the switch from 625 000 to 1 170 455; there host 1's
/// acknowledgment for host 0 arrives at 685 455 + 25 000 = 710 455.
const CROSSING: [(u64, u16, u16); 2] = [(0, 0, 1), (600_000, 2, 0)];

#[test]
fn q1_an_acknowledgment_kills_a_request() {
    let parts = quick(AcknowledgmentRule::Collide, Insertion::Wait, Span(1_200_000));
    let (times, channel) = deliveries(parts, &CROSSING);
    // Sent again at 600 000 + 1 200 000.
    assert_eq!(times, [685_455, 2_485_455]);
    assert_eq!(queueing(&channel), Span(1_200_000));
    assert_eq!(channel.observations().collisions(Collision::Acknowledgment), 1);
}

#[test]
fn q2_an_acknowledgment_passes_through_a_request() {
    let (rule, insertion) = (AcknowledgmentRule::Interleave, Insertion::Interleave);
    let (times, channel) = deliveries(quick(rule, insertion, Span(1_200_000)), &CROSSING);
    assert_eq!(times, [685_455, 600_000 + 685_455 + 60_606]);
    assert_eq!(queueing(&channel), Span::ZERO);
}

/// The timer runs out after 800 000 ps, before the acknowledgment that comes after 886 061: the
/// request is on its way a second time by then, and the second acknowledgment comes late.
#[test]
fn a_timer_below_the_round_trip_sends_twice() {
    let parts = quick(AcknowledgmentRule::Collide, Insertion::Wait, Span(800_000));
    let (times, channel) = deliveries(parts, &[(0, 0, 1)]);
    assert_eq!(times, [685_455]);
    let control = channel.control_counters();
    assert_eq!((channel.observations().attempts, control.duplicates), (2, 1));
    assert_eq!(control.late_acknowledgments, 1);
}

#[test]
fn a_throttle_spaces_requests() {
    let mut parts = quick(AcknowledgmentRule::Interleave, Insertion::Interleave, Span(1_200_000));
    let requests = PositiveCount::new(2).expect("positive");
    parts.adapter.throttle = Some(ThrottleSettings { requests, per: Span(5_000_000) });
    let (times, _) = deliveries(parts, &[(0, 0, 1), (0, 0, 2), (0, 0, 1)]);
    assert_eq!(times, [685_455, 1_230_910, 5_685_455]);
}

#[test]
fn a_stuck_run_names_who_waits_for_whom() {
    let parts = bulk(bulk_crossbar(Contention::BackPressure), ControlSettings::Unacknowledged);
    let offers = [(0, 0, 2), (4_000_000, 1, 2), (4_000_000, 1, 0)];
    let offers = offers.map(|(time, from, to)| (Time(time), from, to));
    let channel = parts::run(parts, &offers, Time(5_000_000), |_, _| {});
    assert_eq!(
        channel.waiting(),
        [
            "host 1 is held by back pressure of output 2, which a packet of host 0 occupies",
            "packet 0 of host 1 to host 0 waits for its turn to be sent",
        ]
    );
    assert_eq!((channel.backlog(), channel.in_flight()), (1, 2));
}

/// The answer and the acknowledgment are ready at the same picosecond: the acknowledgment goes
/// first, so that from the second packet on a pass takes 60 606 ps longer.
#[test]
fn ping_pong_answers_behind_the_acknowledgment() {
    let parts = quick(AcknowledgmentRule::Interleave, Insertion::Interleave, Span(1_200_000));
    let source =
        SourceSettings::PingPong { pairs: vec![Pair { from: 0, to: 1 }], turnaround: Span::ZERO };
    let sources = sources(&parts, source);
    let mut channel = parts.channel(sources, &Streams::new(1), Observations::starting(Time::ZERO));
    let nth = |n: u64| 685_455 + n * 746_061;
    for n in 0..5 {
        assert_eq!(channel.run(Time(nth(n) - 1), &Halt::new()), None);
        assert_eq!(channel.observations().delivered, n);
    }
}

/// Two hosts that always have a packet for each other keep both links full.
#[test]
fn greedy_sources_fill_their_links() {
    let mut parts = bulk(bulk_crossbar(Contention::BackPressure), ControlSettings::Unacknowledged);
    parts.ports = 2;
    let sources = sources(&parts, SourceSettings::Greedy);
    let mut channel = parts.channel(sources, &Streams::new(1), Observations::starting(Time::ZERO));
    assert_eq!(channel.run(Time(8_344_000 * 100 + 51_500), &Halt::new()), None);
    let observations = channel.observations();
    assert_eq!(observations.delivered, 200);
    assert_eq!(observations.generated - observations.delivered, 2 * (16 + 1));
}

fn sources(parts: &Star, source: SourceSettings) -> Vec<Source> {
    let facts = ChannelFacts {
        name: &parts.name,
        hosts: parts.ports.into(),
        packet: parts.packet,
        packet_span: parts.packet_span(),
        slot_span: None,
    };
    let workload = WorkloadSettings { source, ..WorkloadSettings::default() };
    workload.build(&facts, &Streams::new(1)).expect("a legal workload")
}
