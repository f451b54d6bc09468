//! The ring alone, with times worked out by hand.

use proptest::prelude::*;
use weft_fabric::fabric::{FabricSettings, Routes, RoutesSettings};
use weft_fabric::graph::SwitchParts;
use weft_fabric::link::{
    DamagedPacket, ErrorSettings, Errors, FlowControl, LinkErrorSettings, LinkSettings,
};
use weft_fabric::measure::{Latency, Observations, Stage};
use weft_fabric::switch::{RingLinkSettings, RingSettings};
use weft_kernel::Streams;
use weft_lab::drive::Channel;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::engine::{ConnectionParts, Engine, EngineParts, RingParts};
use weft_lab::drive::receiver::{Receiver, ReceiverSettings};
use weft_protocol::flow::FlowControlSettings;
use weft_units::{Bytes, Fraction, Length, Limit, PositiveCount, Rate, Span, SpanPerLength, Time};

const END: Time = Time(10_000_000);

/// What a ring is made of.
struct Parts {
    settings: RingSettings,
    receivers: Vec<Receiver>,
    errors: Vec<Errors>,
    link_errors: Vec<Option<Errors>>,
}

/// 80 B at 200 MB/s take 400 ns, an acknowledgment of 8 B takes 40, a cable 10, a bypass 100.
fn ring(hosts: u16, change: impl FnOnce(&mut Parts)) -> Engine {
    let mut parts = Parts {
        settings: RingSettings {
            bypass: Span::from_ns(100),
            acknowledgment: Bytes(8),
            outstanding: Limit::Unlimited,
            retry_after: Span::ZERO,
            retries: Limit::Unlimited,
            links: Vec::new(),
            bridge: None,
        },
        receivers: vec![Receiver::new(None); usize::from(hosts)],
        errors: Vec::new(),
        link_errors: Vec::new(),
    };
    change(&mut parts);
    let Parts { settings, receivers, errors, link_errors } = parts;
    let link = LinkSettings {
        rate: Rate::from_bits_per_second(1_600_000_000),
        length: Length(2_000_000),
        delay_per_metre: SpanPerLength(5_000_000),
        reserved: Fraction::default(),
    };
    let wiring = FabricSettings::Star.wiring(hosts, link.rate).unwrap();
    let random = Streams::new(1).stream("sci.routes", 0);
    Engine::new(EngineParts {
        routes: Routes::new(&RoutesSettings::default(), &wiring, random).unwrap(),
        wiring,
        link,
        packet: Bytes(80),
        payload: Bytes(64),
        switches: vec![SwitchParts::Ring(Box::new(settings))],
        flow: FlowControl::new(&FlowControlSettings::default(), 1).unwrap(),
        send_buffers: Limit::Unlimited,
        sources: Vec::new(),
        observations: Observations::over(Time::ZERO, END).of_hosts(hosts.into()),
        until: END,
        connections: ConnectionParts::default(),
        classed: None,
        flows: None,
        adapters: None,
        ring: Some(RingParts { receivers, errors, link_errors }),
        turns: None,
        hub: None,
    })
}

fn offer(ring: &mut Engine, now: Time, (from, to): (u16, u16), size: u64, ticket: u64) {
    let (to, size, ticket) = (Destination::Host(to), Bytes(size), Ticket(ticket));
    ring.offer(now, Message { from, to, size, ticket });
}

fn run(ring: &mut Engine) -> Vec<Notice> {
    let mut notices = Vec::new();
    while ring.next_time() != Time::NEVER {
        ring.advance(ring.next_time(), &mut notices);
    }
    notices
}

fn deliveries(notices: &[Notice]) -> Vec<(u64, u64)> {
    let delivered = |notice: &&Notice| matches!(notice, Notice::Delivered { .. });
    let all = notices.iter().filter(delivered);
    all.map(|notice| (notice.ticket().0, notice.time().0 / 1_000)).collect()
}

/// From 0 over 1 to 2 of four: two cables, one bypass, 400 ns.
#[test]
fn one_request_by_hand() {
    let mut ring = ring(4, |_| {});
    offer(&mut ring, Time::ZERO, (0, 2), 64, 7);
    let notices = run(&mut ring);
    assert_eq!(notices[0], Notice::Sent { time: Time(400_000), ticket: Ticket(7) });
    assert_eq!(deliveries(&notices), [(7, 400 + 10 + 100 + 10)]);
    // The request is on the links from 0 and from 1, the acknowledgment on those from 2 and from 3.
    let observations = ring.into_observations();
    assert_eq!(observations.busy(), [400, 400, 40, 40].map(Span::from_ns));
}

/// Host 1 wants to send while a packet of host 0 passes: what passes goes first. The packet comes
/// at 10 and through the bypass at 110; by then host 1 sends its own, begun at 20, until 420.
#[test]
fn what_passes_waits_for_what_was_begun_and_no_longer() {
    let mut ring = ring(4, |_| {});
    offer(&mut ring, Time::ZERO, (0, 2), 64, 0);
    ring.advance(Time(20_000), &mut Vec::new());
    offer(&mut ring, Time(20_000), (1, 2), 64, 1);
    offer(&mut ring, Time(20_000), (1, 2), 64, 2);
    let notices = run(&mut ring);
    // 1: 20 + 400 + 10. 0: from 420. 2: from 820.
    assert_eq!(deliveries(&notices), [(1, 430), (0, 830), (2, 1230)]);
}

/// The same over a second link that is slower by half and a third that is longer: the request leaves 1
/// as soon as its first bytes are there, and takes 800 ns to come to 2; its acknowledgment passes
/// 3 over 20 ns of cable. Back from 2 over 3, 0 and 1 a request to 1 comes over fast links alone.
#[test]
fn each_link_may_be_another() {
    let other = |rate: Option<u64>, length: Option<u64>| RingLinkSettings {
        rate: rate.map(Rate::from_bits_per_second),
        length: length.map(Length),
        ..RingLinkSettings::default()
    };
    let links = || {
        let (slow, long) = (other(Some(800_000_000), None), other(None, Some(4_000_000)));
        vec![RingLinkSettings::default(), slow, long, RingLinkSettings::default()]
    };
    let mut ring = ring(4, |parts| parts.settings.links = links());
    offer(&mut ring, Time::ZERO, (0, 2), 64, 7);
    assert_eq!(deliveries(&run(&mut ring)), [(7, 10 + 100 + 10 + 800)]);
    // From 1 over the slow link; 2 may send on by the fast link only what has come: 400 ns later.
    offer(&mut ring, Time(2_000_000), (1, 3), 64, 8);
    assert_eq!(deliveries(&run(&mut ring)), [(8, 2_000 + 10 + 100 + 400 + 20 + 400)]);
    let held = (ring.backlog(), ring.in_flight());
    let seen = ring.into_observations();
    assert_eq!((seen.conserve(held.0 + held.1), held), (Ok(()), (0, 0)));
    // Two requests, and four acknowledgments of 40 ns, of 80 on the slow link.
    let busy = [400 + 40, 800 + 800, 40 + 400, 40 + 40];
    assert_eq!(seen.busy(), busy.map(Span::from_ns));
    let spent = |stage| u64::try_from(seen.budget.sum_ps(stage)).unwrap() / 1_000;
    let stages = [Stage::Wire, Stage::Switch, Stage::Transmission, Stage::SwitchWait];
    assert_eq!(stages.map(spent), [20 + 30, 200, 800 + 800, 0]);
}

/// The second of two requests is damaged; its negative acknowledgment is back when it has gone
/// round, and it is sent again.
#[test]
fn a_damaged_request_is_sent_again() {
    let mut ring = ring(2, |parts| {
        let packets = vec![DamagedPacket { host: 0, packet: 1 }];
        let errors = ErrorSettings { packets, ..ErrorSettings::default() };
        parts.errors = (0..2).map(|host| errors.build(&Streams::new(1), "sci", host)).collect();
    });
    offer(&mut ring, Time::ZERO, (0, 1), 128, 0);
    let notices = run(&mut ring);
    // It arrives at 810, its acknowledgment takes 40 + 10, the repetition 400 + 10.
    assert_eq!(deliveries(&notices), [(0, 810 + 50 + 410)]);
    assert_eq!((ring.ring_counters().requests, ring.ring_counters().damaged), (3, 1));
}

/// The second of two requests is damaged whenever it is sent. Its acknowledgment is back at 860, those
/// of two repetitions at 1320 and 1780: then its initiator knows that the message is lost.
#[test]
fn a_request_that_is_repeated_in_vain_is_given_up() {
    let mut ring = ring(2, |parts| {
        let packets = (1..9).map(|packet| DamagedPacket { host: 0, packet }).collect();
        let errors = ErrorSettings { packets, ..ErrorSettings::default() };
        parts.errors = (0..2).map(|host| errors.build(&Streams::new(1), "sci", host)).collect();
        parts.settings.retries = Limit::at_most(2).unwrap();
    });
    offer(&mut ring, Time::ZERO, (0, 1), 128, 5);
    let notices = run(&mut ring);
    let lost = Notice::Lost { time: Time(1_780_000), ticket: Ticket(5), to: 1 };
    assert_eq!(notices.last(), Some(&lost));
    let counters = ring.ring_counters();
    assert_eq!((counters.requests, counters.damaged, counters.given_up), (4, 3, 1));
}

/// The errors of links that damage so many of the packets on them.
fn errors_of_links(rates: &[f64]) -> Vec<Option<Errors>> {
    let build = |(host, rate): (u16, &f64)| {
        let packet_error_rate = Fraction::new(*rate).unwrap();
        let errors = LinkErrorSettings { packet_error_rate, ..LinkErrorSettings::default() };
        (*rate > 0.0).then(|| errors.build(&Streams::new(3), "sci", host))
    };
    (0..).zip(rates).map(build).collect()
}

/// The link from 1 to 2 damages all requests on it, whoever sent them; what goes round by others comes whole.
#[test]
fn a_link_damages_what_passes_it() {
    let mut ring = ring(4, |parts| {
        parts.link_errors = errors_of_links(&[0.0, 1.0, 0.0, 0.0]);
        parts.settings.retries = Limit::at_most(1).unwrap();
    });
    for (ticket, ends) in (0..).zip([(0, 2), (0, 1), (1, 2), (2, 1)]) {
        offer(&mut ring, Time::ZERO, ends, 64, ticket);
    }
    let notices = run(&mut ring);
    let mut delivered: Vec<u64> = deliveries(&notices).iter().map(|own| own.0).collect();
    delivered.sort_unstable();
    assert_eq!(delivered, [1, 3]);
    let counters = ring.ring_counters();
    assert_eq!((counters.requests, counters.damaged, counters.given_up), (6, 4, 2));
}

/// Over two links that damage a fifth each 0.64 of all requests come whole, over one 0.8. Of some 4000 requests four
/// standard deviations are 0.031.
#[test]
fn errors_of_links_add_up_on_the_way() {
    for (to, whole) in [(1, 0.8), (2, 0.64), (3, 0.64)] {
        let mut ring = ring(4, |parts| parts.link_errors = errors_of_links(&[0.2, 0.2, 0.0, 0.0]));
        offer(&mut ring, Time::ZERO, (0, to), 64 * 3_000, 0);
        assert_eq!(deliveries(&run(&mut ring)).len(), 1);
        let counters = ring.ring_counters();
        let share = 1.0 - counters.damaged as f64 / counters.requests as f64;
        assert!((share - whole).abs() < 0.031, "to {to}: {share}");
    }
}

/// Round a ring of 600 hosts a packet passes more than 255 of them, which are counted all.
#[test]
fn a_long_way_round_is_counted() {
    let mut ring = ring(600, |_| {});
    offer(&mut ring, Time::ZERO, (0, 599), 64, 0);
    offer(&mut ring, Time::ZERO, (100, 400), 64, 1);
    let notices = run(&mut ring);
    let reaches = |passed: u64| 400 + 10 + passed * (100 + 10);
    assert_eq!(deliveries(&notices), [(1, reaches(299)), (0, reaches(598))]);
    assert_eq!(ring.into_observations().hops.mean(), Some(f64::from(299 + 598) / 2.0));
}

/// One receive buffer that takes 1 us: the second request is refused until it is free.
#[test]
fn a_refused_request_is_sent_again() {
    let mut ring = ring(2, |parts| {
        let settings =
            ReceiverSettings { buffers: PositiveCount::ONE, service: Span::from_ns(1_000) };
        parts.receivers = vec![Receiver::new(Some(&settings)); 2];
    });
    offer(&mut ring, Time::ZERO, (0, 1), 128, 0);
    let notices = run(&mut ring);
    // Taken at 410, refused at 810 and, 460 later, at 1270; the buffer is free at 1410.
    assert_eq!(deliveries(&notices), [(0, 810 + 2 * 460)]);
    assert_eq!(ring.ring_counters().refused, 2);
}

/// With one outstanding request an adapter sends one in the time of request and acknowledgment.
#[test]
fn outstanding_requests_are_bounded() {
    let mut ring = ring(2, |parts| parts.settings.outstanding = Limit::AtMost(PositiveCount::ONE));
    offer(&mut ring, Time::ZERO, (0, 1), 192, 0);
    assert_eq!(deliveries(&run(&mut ring)), [(0, 410 + 2 * 460)]);
}

proptest! {
    /// Whatever is offered to a ring with errors and small buffers comes through, once, and in the
    /// order of each pair; where repetitions are limited, it does or is told lost.
    #[test]
    fn a_ring_loses_nothing(
        offers in prop::collection::vec((0u16..5, 1u16..5, 0u64..400, 0u64..2_000_000), 1..60),
        error_rate in 0.0f64..0.3,
        retries in 0u32..4,
        link_rates in prop::collection::vec(0.0f64..0.1, 0..5),
    ) {
        let mut ring = ring(5, |parts| {
            let packet_error_rate = Fraction::new(error_rate).unwrap();
            let errors = ErrorSettings { packet_error_rate, ..ErrorSettings::default() };
            let streams = Streams::new(3);
            parts.errors = (0..5).map(|host| errors.build(&streams, "sci", host)).collect();
            parts.link_errors = errors_of_links(&link_rates);
            let settings = ReceiverSettings {
                buffers: PositiveCount::ONE,
                service: Span::from_ns(300),
            };
            parts.receivers = vec![Receiver::new(Some(&settings)); 5];
            parts.settings.retries = Limit::at_most(retries).unwrap_or(Limit::Unlimited);
        });
        let mut notices = Vec::new();
        let mut now = Time::ZERO;
        for (number, (from, step, size, gap)) in offers.iter().enumerate() {
            now += Span(*gap);
            ring.advance(now, &mut notices);
            offer(&mut ring, now, (*from, (from + step) % 5), *size, number as u64);
        }
        notices.extend(run(&mut ring));
        prop_assert!(notices.is_sorted_by_key(|notice| notice.time()));
        let delivered = deliveries(&notices);
        let lost = notices.iter().filter(|own| matches!(own, Notice::Lost { .. })).count();
        prop_assert_eq!(delivered.len() + lost, offers.len());
        prop_assert!(retries > 0 || lost == 0);
        let mut youngest = [[None; 5]; 5];
        for (number, _) in delivered {
            let (from, step, ..) = offers[number as usize];
            let last = &mut youngest[usize::from(from)][usize::from((from + step) % 5)];
            prop_assert!(last.replace(number) < Some(number));
        }
        let counters = ring.ring_counters();
        let packets: u64 = offers.iter().map(|offer| offer.2.div_ceil(64).max(1)).sum();
        let repeated = counters.damaged + counters.refused - counters.given_up;
        prop_assert_eq!(counters.requests, packets + repeated);
        prop_assert_eq!(counters.given_up == 0, lost == 0);
        // Each packet has arrived or was given up, and what was observed of those that arrived adds up.
        let held = ring.backlog() + ring.in_flight();
        let seen = ring.into_observations();
        prop_assert_eq!((seen.conserve(held), held), (Ok(()), 0));
        prop_assert_eq!((seen.generated, seen.abandoned), (packets, counters.given_up));
        let one_way = seen.recorder(Latency::OneWay);
        prop_assert_eq!(one_way.count(), packets - counters.given_up);
        prop_assert_eq!(one_way.sum_ps(), seen.budget.total_ps());
    }
}
