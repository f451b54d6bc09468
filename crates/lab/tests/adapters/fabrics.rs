//! Hosts with adapters around several switches: times worked by hand, and laws that hold in any
//! fabric.

use std::collections::HashMap;

use proptest::prelude::*;
use weft_fabric::adapter::Insertion;
use weft_fabric::fabric::{FabricSettings, RoutesSettings};
use weft_fabric::measure::{Drop, Latency, Observations};
use weft_fabric::switch::{OutputBufferedSettings, OutputQueuedSettings, Overflow};
use weft_kernel::Streams;
use weft_lab::ChannelRun;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::Engine;
use weft_protocol::retransmit::{ControlSettings, Order};
use weft_units::{Bytes, Limit, Span, Time};

use super::laws::{any_adapter, any_control, any_limit, any_simultaneous, balanced};
use super::parts::{self, Star, Switch};
use crate::network::{file, run, voq};
use crate::settings;

/// Two switches with two hosts each, and a cable between them, which is `cable` besides.
fn pair(cable: &str) -> String {
    format!(
        "fabric.table = {{ switches = [{{ name = 'a', ports = 3 }}, {{ name = 'b', ports = 3 }}], \
         cables = [{{ from = 'host 0', to = 'a.0' }}, {{ from = 'host 1', to = 'a.1' }}, \
         {{ from = 'host 2', to = 'b.0' }}, {{ from = 'host 3', to = 'b.1' }}, \
         {{ from = 'a.2', to = 'b.2'{cable} }}] }}"
    )
}

/// A packet takes 1000 ns and its acknowledgment 200. From switch to switch both have three cables
/// of 20 ns and two switches of 90 ns to pass: 240 ns. So an undisturbed packet is there after
/// 1240 ns, and acknowledged after 1240 + 200 + 240 = 1680 ns.
const ACKNOWLEDGED: &str = "control.request_acknowledge = { timeout = '5 us', outstanding = 4, \
                            acknowledgment = '25 B' }";

fn list(packets: &[(u64, u16, u16)]) -> String {
    let one = |(time, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{time} ns', from = {from}, to = {to} }}")
    };
    let all: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", all.join(", "))
}

/// Runs packets, each handed over at a time in nanoseconds, until nothing is left of them.
fn times(channel: &str, packets: &[(u64, u16, u16)]) -> ChannelRun {
    let run = run(&file(4, channel, &list(packets), "100 us"), 1);
    assert_eq!((run.backlog, run.in_flight), (0, 0), "{channel}");
    assert_eq!(run.observations.delivered, packets.len() as u64, "{channel}");
    run
}

/// The least, the greatest and the sum of a latency, in nanoseconds.
fn of(run: &ChannelRun, kind: Latency) -> (u64, u64, u64) {
    let recorder = run.observations.recorder(kind);
    let ns = |span: Option<Span>| span.expect("a packet").0 / 1000;
    (ns(recorder.min()), ns(recorder.max()), (recorder.sum_ps() / 1000) as u64)
}

#[test]
fn an_acknowledgment_goes_back_through_both_switches() {
    let run = times(&format!("{}\n{ACKNOWLEDGED}", pair("")), &[(0, 0, 2)]);
    assert_eq!(of(&run, Latency::OneWay), (1240, 1240, 1240));
    assert_eq!(of(&run, Latency::RoundTrip), (1680, 1680, 1680));
    assert_eq!(run.observations.hops.mean(), Some(2.0));
}

/// Over a cable between the switches on which a packet takes 4000 ns and an acknowledgment 800, the
/// packet is there after 240 + 4000: its last part leaves switch b as it comes, for which its first
/// byte waits 3000 ns there. The acknowledgment takes 240 + 800.
#[test]
fn both_take_what_the_slowest_cable_asks_of_their_length() {
    let slow = pair(", link.rate = '250 Mbit/s'");
    let run = times(&format!("{slow}\n{}", ACKNOWLEDGED.replace("5 us", "9 us")), &[(0, 0, 2)]);
    assert_eq!(of(&run, Latency::OneWay), (4240, 4240, 4240));
    assert_eq!(of(&run, Latency::RoundTrip), (4240 + 1040, 4240 + 1040, 4240 + 1040));
}

/// Host 3 sends from 1000 ns on, so that its packet is on the cable from b to a from 1110 to 2110 ns.
/// There the acknowledgment of host 2 comes at 1240 + 20 + 90 = 1350 ns and waits until 2110: it is at
/// host 0 at 2110 + 200 + 130 = 2440 ns.
#[test]
fn an_acknowledgment_waits_in_the_queues_of_switches() {
    let run = times(&format!("{}\n{ACKNOWLEDGED}", pair("")), &[(0, 0, 2), (1000, 3, 1)]);
    assert_eq!(of(&run, Latency::RoundTrip), (1680, 2440, 1680 + 2440));
    assert_eq!(of(&run, Latency::OneWay), (1240, 1240, 2 * 1240));
}

/// Both packets reach the output from a to b at 20 ns, which holds one: that of host 1 is dropped and
/// sent again when its timer runs out, at 5000 ns. It counts as delayed before its transmission.
#[test]
fn what_a_full_queue_drops_is_sent_again() {
    let channel = format!("{}\nswitch.output_queued.buffers = 1\n{ACKNOWLEDGED}", pair(""));
    let run = times(&channel, &[(0, 0, 2), (0, 1, 3)]);
    assert_eq!(of(&run, Latency::OneWay), (1240, 5000 + 1240, 5000 + 2 * 1240));
    assert_eq!(of(&run, Latency::Transit), (1240, 1240, 2 * 1240));
    assert_eq!(of(&run, Latency::Queueing), (0, 5000, 5000));
    let seen = &run.observations;
    assert_eq!((seen.attempts, seen.dropped(Drop::Overflow), seen.abandoned), (3, 1, 0));
}

/// Without a packet on the channel a loss is known 300 ns after the transmission, which ends at
/// 1000 ns.
#[test]
fn a_loss_is_known_without_a_packet() {
    let control = "control.out_of_band = { delay = '300 ns', outstanding = 2 }";
    let channel = format!("{}\nswitch.output_queued.buffers = 1\n{control}", pair(""));
    let run = times(&channel, &[(0, 0, 2), (0, 1, 3)]);
    assert_eq!(of(&run, Latency::OneWay), (1240, 1300 + 1240, 1300 + 2 * 1240));
}

/// One receive buffer, which the host empties in 3000 ns: the packet of host 1, which is whole at host 2
/// at 2240 ns, is refused, and sent again when its initiator hears of that, at 2240 + 440 ns. It is
/// there at 2680 + 1240 = 3920 ns, again too early by 320 ns, and the third time at 5600 ns.
#[test]
fn a_target_without_a_buffer_refuses_and_is_asked_again() {
    let receiver = "receiver = { buffers = 1, service = '3 us' }";
    let channel = format!("{}\n{receiver}\n{ACKNOWLEDGED}", pair(""));
    let run = times(&channel, &[(0, 0, 2), (0, 1, 2)]);
    assert_eq!(of(&run, Latency::OneWay), (1240, 5600, 1240 + 5600));
    assert_eq!(run.observations.dropped(Drop::NoReceiveBuffer), 2);
}

/// At most two requests in 5 us.
#[test]
fn a_throttle_spaces_requests_in_a_fabric() {
    let throttle = "adapter.throttle = { requests = 2, per = '5 us' }";
    let run = times(&format!("{}\n{throttle}", pair("")), &[(0, 0, 2), (0, 0, 3), (0, 0, 2)]);
    assert_eq!(of(&run, Latency::OneWay), (1240, 6240, 1240 + 2240 + 6240));
}

/// An adapter whose rules never bind changes nothing, packet by packet, whatever the switches and the
/// routes: what it would have to keep apart waits in the same order.
#[test]
fn an_adapter_that_asks_for_nothing_changes_nothing() {
    let ways = [
        ("fabric.k_ary_tree = { arity = 2, levels = 3 }\nroutes.per_packet = 'random'", 8),
        ("fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'adaptive'", 9),
        ("fabric.fat_tree = { radix = 4, tiers = 2, links = [{}, { rate = '3 Gbit/s' }] }", 8),
        (&format!("{}\nswitches.a.output_queued.buffers = 2", pair("")), 4),
    ];
    let never = "adapter.throttle = { requests = 1, per = '1 ps' }";
    let traced = |text: String, seed| run(&text.replace("[run]", "[run]\ntrace = true"), seed);
    for (way, hosts) in ways {
        for seed in 1..4 {
            let both = ["", never].map(|own| format!("{way}\n{own}"));
            let queued = |text: &String| file(hosts, text, "load = 0.7", "300 us");
            let slotted = |text: &String| voq(hosts, "buffer = 4", text, "load = 0.7", "300 us");
            let bus = "switch.hub = { ports = 8, latency = '90 ns', transfer.bus.buffer = 4 }";
            let by_hubs =
                |text: &String| queued(text).replace("switch.output_queued.latency = '90 ns'", bus);
            for kind in [&queued as &dyn Fn(&String) -> String, &slotted, &by_hubs] {
                let [without, with] = [&both[0], &both[1]].map(|text| traced(kind(text), seed));
                assert!(without.trace.len() > 100);
                assert_eq!(with.trace, without.trace, "{way}");
                let seen = |run: &ChannelRun| {
                    let sums = Latency::ALL.map(|kind| match kind {
                        // Only who may send again tells of a first attempt.
                        Latency::FirstAttempt => 0,
                        kind => run.observations.recorder(kind).sum_ps(),
                    });
                    (sums, run.observations.busy().to_vec(), run.observations.attempts)
                };
                assert_eq!(seen(&with), seen(&without), "{way}");
            }
        }
    }
}

#[derive(serde::Deserialize)]
struct Ways {
    fabric: FabricSettings,
    routes: RoutesSettings,
}

/// Fabrics with eight hosts.
const FABRICS: [&str; 4] = [
    "fabric.k_ary_tree = { arity = 2, levels = 3 }\nroutes.per_packet = 'random'",
    "fabric.fat_tree = { radix = 4, tiers = 2 }\nroutes.per_packet = 'adaptive'",
    "fabric.dragonfly = { hosts_per_router = 1, routers_per_group = 4, groups = 2 }\nroutes.per_packet = 'random'",
    "fabric.torus.dimensions = [2, 4]\nroutes.per_connection = 'hashed'",
];

fn ways(text: &str) -> (FabricSettings, RoutesSettings) {
    let Ways { fabric, routes } = settings::read(text);
    (fabric, routes)
}

fn any_switch() -> impl Strategy<Value = Switch> {
    let unlimited = (0_u64..9_000).prop_map(|latency| {
        let (latency, buffers) = (Span(latency), Limit::Unlimited);
        Switch::OutputQueued(OutputQueuedSettings { latency, buffers })
    });
    let limits = (any_limit(4), any_limit(3), any_simultaneous());
    let buffered = (0_u64..9_000, limits).prop_map(|(latency, limits)| {
        let (buffers, writers, simultaneous) = limits;
        let (latency, overflow) = (Span(latency), Overflow::Drop);
        Switch::OutputBuffered(OutputBufferedSettings {
            latency,
            buffers,
            writers,
            overflow,
            simultaneous,
        })
    });
    prop_oneof![unlimited, buffered]
}

prop_compose! {
    fn any_star()(
        packet in 6_u64..20,
        propagation in 0_u64..2_900,
        switch in any_switch(),
        adapter in any_adapter(),
        control in any_control(),
    ) -> Star {
        let mut adapter = adapter;
        adapter.acknowledgments = Insertion::Wait;
        let link = parts::link(Span(propagation));
        let (packet, payload) = (Bytes(packet), Bytes(1));
        Star { name: "any".into(), ports: 8, packet, payload, link, switch, adapter, control }
    }
}

/// Hands packets over in a fabric, and returns what came of it, and what Little's law is about: the
/// number of packets in the channel, summed over time.
fn run_in_fabric(star: Star, fabric: &str, offers: &[(Time, u16, u16)]) -> (Engine, u128) {
    let seen = Observations::starting(Time::ZERO);
    let channel = star.in_fabric(ways(fabric), Vec::new(), &Streams::new(1), seen);
    let (mut held, mut before, mut sum) = (0, Time::ZERO, 0);
    let channel = parts::run_channel(channel, offers, Time(1_000_000_000_000), |now, channel| {
        assert!(balanced(channel), "at {now:?}: {:#?}", channel.waiting());
        sum += u128::from(held) * u128::from(now.since(before).0);
        (held, before) = (channel.backlog() + channel.in_flight(), now);
    });
    (channel, sum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// At every event, packets in = delivered + abandoned + in the channel; in the end nothing is left
    /// in it, and nothing is given up that is acknowledged. A packet that is in the channel for so long
    /// counts for so long (Little), and the same packets bring about the same.
    #[test]
    fn every_packet_is_accounted_for_in_any_fabric(
        star in any_star(),
        fabric in prop::sample::select(&FABRICS[..]),
        offers in prop::collection::vec((0_u64..400_000, 0_u16..8, 0_u16..7), 1..60),
    ) {
        let far = |(time, from, ahead): (u64, u16, u16)| (Time(time), from, (from + 1 + ahead) % 8);
        let mut offers: Vec<_> = offers.into_iter().map(far).collect();
        offers.sort();
        let loses_nothing = star.control != ControlSettings::Unacknowledged;
        let (channel, held) = run_in_fabric(star.clone(), fabric, &offers);
        let seen = channel.observations();
        prop_assert_eq!(seen.generated, offers.len() as u64);
        prop_assert_eq!(seen.outstanding(), 0, "{:#?}", channel.waiting());
        prop_assert_eq!(channel.waiting(), Vec::<String>::new());
        if loses_nothing {
            prop_assert_eq!(seen.abandoned, 0);
        }
        if seen.abandoned == 0 {
            prop_assert_eq!(held, seen.recorder(Latency::OneWay).sum_ps());
        }
        let (again, _) = run_in_fabric(star, fabric, &offers);
        let sums = |channel: &Engine| {
            Latency::ALL.map(|kind| channel.observations().recorder(kind).sum_ps())
        };
        prop_assert_eq!(
            (channel.steps(), sums(&channel), channel.control_counters()),
            (again.steps(), sums(&again), again.control_counters())
        );
    }
}

/// Packets are spread over all ways up a tree whose switches drop, so that those of a pair overtake
/// each other, unless it is promised that they do not.
#[test]
fn pairs_keep_their_order_in_a_fabric_where_it_is_promised() {
    for (order, kept) in [
        (Order::Unordered, false),
        (Order::Resequenced, true),
        (Order::PerPair, true),
        (Order::HeadOfLine, true),
    ] {
        let mut control = parts::request_acknowledge(Span(90_000), 8, 2, Span(1_000));
        if let ControlSettings::RequestAcknowledge(settings) = &mut control {
            settings.order = order;
            settings.back_off = Span(50_000);
        }
        let star = Star {
            name: "order".into(),
            ports: 8,
            packet: Bytes(9),
            payload: Bytes(1),
            link: parts::link(Span(2_000)),
            switch: parts::output_buffered(Span(3_000), 2, Limit::Unlimited),
            adapter: parts::adapter(8, Insertion::Wait),
            control,
        };
        // Times that differ in the last digits tell from the one-way latency which packet it was.
        let offers: Vec<_> =
            (0..90_u64).map(|n| (Time(n * 13 + 1), (n % 3) as u16 + 1, 7_u16)).collect();
        let seen = Observations::starting(Time::ZERO);
        let channel = star.in_fabric(ways(FABRICS[0]), Vec::new(), &Streams::new(1), seen);
        let mut pairs: HashMap<u16, Vec<Time>> = HashMap::new();
        let (mut before, mut delivered) = (Span::ZERO, 0);
        parts::run_channel(channel, &offers, Time(1_000_000_000), |now, channel| {
            let seen = channel.observations();
            let sum = parts::sum(seen, Latency::OneWay);
            if seen.delivered == delivered + 1 {
                let generated = now - (sum - before);
                let offer = offers.iter().find(|(time, ..)| *time == generated);
                pairs.entry(offer.expect("one of them").1).or_default().push(generated);
            }
            (before, delivered) = (sum, seen.delivered);
        });
        assert_eq!(delivered, 90, "{order:?}");
        assert_eq!(pairs.values().all(|times| times.is_sorted()), kept, "{order:?}");
    }
}

/// Features that once needed a single switch, in a fat tree and in a dragonfly: everything arrives,
/// over switches that drop as over switches that hold packets back.
#[test]
fn adapters_go_with_every_switch_in_every_fabric() {
    let whole = ACKNOWLEDGED.replace("25 B", "125 B").replace("5 us", "60 us");
    let adapters = [
        "receiver = { buffers = 2, service = '900 ns' }",
        "adapter.throttle = { requests = 3, per = '9 us' }",
        "adapter.feed.per_target.limit = 2",
        "errors.packet_error_rate = 0.01",
        "interface = { host_send_buffers = 40, host_receive_buffers = 40, receive_buffers = 4, \
         message = '100 B' }",
    ];
    for fabric in &FABRICS[1..3] {
        for own in adapters {
            let settings = format!("{fabric}\n{own}\n{whole}");
            let settings = settings.replace("receive_buffers = 4,", "receive_buffers = 40,");
            let few = "adapter.send_buffers = 'unlimited'";
            let at_most = |text: String| text.replace(few, "adapter.send_buffers = 8");
            let load = "load = 0.3\npattern = 'uniform'";
            let limited = format!("switch.output_queued.buffers = 2\n{settings}");
            let texts = [
                file(8, &limited, load, "2 ms"),
                voq(
                    8,
                    "buffer = 8",
                    &format!("{settings}\nflow_control.virtual_channel_credits.channels = 2"),
                    load,
                    "2 ms",
                ),
                file(8, &settings, load, "2 ms").replace(
                    "switch.output_queued.latency = '90 ns'",
                    "switch.output_buffered = { latency = '90 ns', buffers = 3, writers = 2 }",
                ),
            ];
            for text in texts {
                let run = run(&at_most(text), 5);
                let seen = &run.observations;
                assert!(seen.delivered > 2_000, "{fabric} {own}: {}", seen.delivered);
                assert_eq!(seen.abandoned, 0, "{fabric} {own}");
                assert_eq!(seen.generated, seen.delivered + run.backlog + run.in_flight);
                assert!(run.waiting.len() < 200, "{:#?}", run.waiting);
            }
        }
    }
}
