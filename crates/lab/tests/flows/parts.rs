//! A channel with flows that is divided shows the same bytes.

use std::num::NonZeroUsize;

use weft_fabric::adapter::{TransportParts, TransportSettings};
use weft_fabric::fabric::{FabricSettings, FailureSettings, LiveNextHops, Routes, RoutesSettings};
use weft_fabric::graph::SwitchParts;
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::measure::{Drop, Observations};
use weft_fabric::switch::shared_buffer::{Memory, MemoryParts, SwitchRule};
use weft_fabric::switch::{OutputQueuedSettings, SharedBufferSettings};
use weft_fabric::workload::{ChannelFacts, FlowList, WorkloadSettings};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::{
    Alone, CableParts, ClassedParts, ConnectionParts, Engine, EngineParts, FlowParts, Traffic,
};
use weft_units::{Bytes, Limit, Span, Time};

use crate::settings;

#[derive(serde::Deserialize)]
struct Parts {
    fabric: FabricSettings,
    routes: RoutesSettings,
    link: LinkSettings,
    switch: SharedBufferSettings,
    transport: TransportSettings,
    workload: WorkloadSettings,
    /// Packets of half the size, in class 1.
    beside: Option<WorkloadSettings>,
    failures: Option<FailureSettings>,
}

const HOSTS: u32 = 12;
const UNTIL: Time = Time(500_000_000);
const PACKET: Bytes = Bytes(1000);
const SMALL: Bytes = Bytes(500);

fn channel(text: &str, seed: u64) -> Engine {
    let parts: Parts = settings::read(text);
    let streams = Streams::new(seed);
    let wiring = parts.fabric.wiring(HOSTS, parts.link.rate).expect(text);
    let routes = Routes::new(&parts.routes, &wiring, streams.stream("c.routes", 0)).expect(text);
    let (packet_span, from) = (parts.link.span(PACKET), Time(UNTIL.0 / 10));
    let facts =
        ChannelFacts { name: "c", hosts: HOSTS, packet: PACKET, packet_span, slot_span: None };
    let classes = parts.switch.by_class().expect(text);
    let switch = |number: u32| SwitchRule {
        latency: parts.switch.latency,
        forwarding: parts.switch.forwarding,
        most: u32::MAX,
        classes: classes.clone(),
        memory: Some(Memory::new(MemoryParts {
            memory: parts.switch.memory,
            ports: wiring.ports_of(number) as usize,
            classes: &classes,
            headroom: vec![
                classes.iter().map(|own| match &own.pfc {
                    Some(_) => Bytes(8_000),
                    None => own.credits.unwrap_or(Bytes(0)),
                });
                wiring.ports_of(number) as usize
            ]
            .into_iter()
            .flatten()
            .collect(),
        })),
        random: streams.stream("c.marks", number as usize),
    };
    let of_graph = |_| {
        let (latency, buffers) = (parts.switch.latency, Limit::Unlimited);
        SwitchParts::OutputQueued(OutputQueuedSettings { latency, buffers })
    };
    let beside = |own: &WorkloadSettings| {
        let facts = ChannelFacts { name: "c.beside", packet: SMALL, ..facts };
        Traffic {
            sources: own.build(&facts, &streams).expect(text),
            class: 1,
            packet: SMALL,
            payload: Bytes(SMALL.0 - 50),
            start: Span::ZERO,
            end: UNTIL,
        }
    };
    let cables = |own: &FailureSettings| {
        let failures = own.build(&wiring).expect(text)?;
        let live = |(time, failed): (Time, Vec<u32>)| (time, LiveNextHops::new(&wiring, &failed));
        let next_hops = failures.known().into_iter().map(live).collect();
        Some(CableParts { failures, next_hops, has_pauses: text.contains("pfc") })
    };
    let classed = ClassedParts {
        switches: (0..wiring.switches()).map(switch).collect(),
        classes: classes.len(),
        hosts: classes.iter().map(|own| own.schedule).collect(),
        class: 0,
        overhead: Bytes(50),
        traffic: parts.beside.iter().map(beside).collect(),
        has_telemetry: text.contains("hpcc"),
        sample: None,
        cables: parts.failures.as_ref().and_then(cables),
    };
    let FlowList { groups, flows, loops } =
        parts.workload.flows(&facts, &streams, UNTIL).expect(text);
    let transports = TransportParts {
        settings: parts.transport,
        payload: Bytes(950),
        overhead: Bytes(50),
        rates: vec![parts.link.rate; HOSTS as usize],
        planes: 1,
        classes: classes.len(),
        flows,
        loops,
        from,
        key: seed,
    };
    let flows = FlowParts { transports, groups, class: 0 };
    Engine::new(EngineParts {
        switches: (0..wiring.switches()).map(of_graph).collect(),
        routes,
        flow: FlowControl { channels: 1, has_credits: false, stop_go: None, quench: None },
        packet: PACKET,
        payload: Bytes(950),
        send_buffers: Limit::Unlimited,
        sources: parts.workload.build(&facts, &streams).expect(text),
        observations: Observations::over(from, UNTIL).of_hosts(HOSTS as usize),
        until: UNTIL,
        ring: None,
        turns: None,
        hub: None,
        connections: ConnectionParts::default(),
        adapters: None,
        classed: Some(classed),
        flows: Some(flows),
        wiring,
        link: parts.link,
    })
}

/// Everything that a run shows, and how many packets were delivered.
fn shown(engine: Engine) -> (String, usize) {
    let (text, delivered, _) = shown_with_steps(engine);
    (text, delivered)
}

/// The same, and how many events that took.
fn shown_with_steps(mut engine: Engine) -> (String, usize, u64) {
    let mut delivered = Vec::new();
    assert_eq!(engine.run_watched(UNTIL, &Halt::new(), |one| delivered.push(one)), None);
    let held = (engine.backlog(), engine.in_flight());
    let steps = engine.steps();
    let flows = serde_json::to_string(&engine.flows()).expect("written");
    let seen = engine.into_observations();
    assert_eq!(seen.conserve(held.0 + held.1), Ok(()));
    (format!("{delivered:?}\n{held:?}\n{flows}\n{seen:?}"), delivered.len(), steps)
}

/// What a channel has seen at its end.
fn channel_seen(text: &str, seed: u64) -> Observations {
    let mut engine = channel(text, seed);
    assert_eq!(engine.run_watched(UNTIL, &Halt::new(), |_| {}), None);
    engine.into_observations()
}

/// Shows a channel as it runs, node by node, and with an event for every departure, which are more.
fn compare_with_all_told(text: &str, seed: u64) {
    let (own, delivered, steps) = shown_with_steps(channel(text, seed));
    assert!(delivered > 1_000, "{delivered} packets: {text}");
    let mut by_nodes = channel(text, seed);
    // Cables fail at an instant of the whole network.
    assert_eq!(by_nodes.run_node_by_node(), !text.contains("failures"), "{text}");
    assert!(shown(by_nodes).0 == own, "{text}");
    let mut told = channel(text, seed);
    told.tell_every_departure();
    let (told, _, more) = shown_with_steps(told);
    assert!(own == told, "{text}");
    assert!(steps < more, "{steps} events of {more}: {text}");
}

/// The part of each of three leaves and two spines.
const DIVISIONS: [[u32; 5]; 3] = [[0, 1, 2, 0, 1], [0, 0, 1, 1, 0], [4, 3, 2, 1, 0]];

/// Parts run on as many threads as there are, at most three.
fn spread(mut engine: Engine, part: &[u32]) -> Engine {
    let threads = part.iter().max().map_or(1, |last| last + 1).min(3) as usize;
    let threads = NonZeroUsize::new(threads).expect("at least one");
    assert_eq!(engine.spread_over(part, threads), Ok(()));
    engine
}

#[test]
fn any_division_shows_the_same_flows() {
    let controls = [
        "dcqcn = {}",
        "dctcp = {}",
        "infiniband = {}",
        "swift = {}",
        "hpcc.base_round_trip = '4 us'",
        "nscc.base_round_trip = '4 us'",
        "rccc.base_round_trip = '4 us'",
    ];
    let routes = ["per_connection = 'hashed'", "per_packet = 'random'"];
    for (number, control) in (0_u64..).zip(controls) {
        let cut = "reliability = 'selective_repeat', acknowledged_after = '4 kB', \
                   spraying = { values = 16, by = 'mixed' }";
        let ways = [
            ("reliability = 'go_back_n'", routes[0]),
            ("reliability = 'selective_repeat'", routes[1]),
            (cut, routes[0]),
        ];
        for (way, (reliability, routes)) in (0..).zip(ways) {
            let trim = match reliability == cut {
                true => "limit.bytes = '6 kB', trim = { header = '64 B', class = 1 }, ",
                false => "",
            };
            // A memory so small that some packets are lost.
            let text = format!(
                "fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, spines = 2 }}\n\
                 routes.{routes}\n\
                 link = {{ rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }}\n\
                 switch = {{ latency = '300 ns', memory = '60 kB', classes.0 = {{ {trim}ecn = {{ at = \
                 'enqueue', law.red = {{ kmin = '5 kB', kmax = '20 kB', pmax = 0.5 }} }} }} }}\n\
                 transport = {{ acknowledgment = '64 B', timeout = '50 us', {reliability}, congestion_control.{control} }}\n\
                 workload.source.flows = {{ a = {{ load = 0.3, sizes = 'ali_storage_2019' }}, b = {{ \
                 load = 0.1, sizes.constant = '20 kB', incast.senders = 6 }} }}\n"
            );
            let (whole, delivered) = shown(channel(&text, number));
            assert!(delivered > 1_000, "{delivered} packets: {text}");
            assert_eq!(whole.contains("\"cut_packets\",0.0"), trim.is_empty(), "{text}");
            // Each division meets each congestion control and each way.
            let part = DIVISIONS[(number as usize + way) % DIVISIONS.len()];
            let divided = spread(channel(&text, number), &part);
            assert!(shown(divided).0 == whole, "{part:?}: {text}");
            compare_with_all_told(&text, number);
        }
    }
}

/// Hosts send on when their ports are free, whether they are told of that or something waits: under pauses, which hold
/// ports back, and beside a class of acknowledgments that goes first.
#[test]
fn departures_that_no_host_is_told_of_change_no_flow() {
    let classes = [
        ("pfc.threshold.static = { xoff = '3 kB', xon = '1 kB' }", "", ""),
        ("pfc.threshold.dynamic = { alpha = 0.125, below = '2 kB' }", "", ""),
        (
            "pfc.threshold.static = { xoff = '3 kB', xon = '1 kB' }",
            ", classes.1.schedule = 'strict'",
            "acknowledgment_class = 1, ",
        ),
    ];
    for (seed, (class, more, acknowledgment)) in (1_u64..).zip(classes) {
        for control in ["", ", congestion_control.dcqcn = {}", ", window = '8 kB'"] {
            let text = format!(
                "fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, spines = 2 }}\n\
                 routes.per_connection = 'hashed'\n\
                 link = {{ rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }}\n\
                 switch = {{ latency = '300 ns', memory = '200 kB', classes.0 = {{ {class}, ecn = {{ at = \
                 'enqueue', law.step.threshold = '9 kB' }} }}{more} }}\n\
                 transport = {{ acknowledgment = '64 B', {acknowledgment}timeout = '50 us'{control} }}\n\
                 workload.source.flows = {{ a = {{ load = 0.3, sizes = 'ali_storage_2019' }}, b = {{ \
                 load = 0.1, sizes.constant = '20 kB', incast.senders = 6 }} }}\n"
            );
            compare_with_all_told(&text, seed);
            let divided = spread(channel(&text, seed), &DIVISIONS[0]);
            assert!(shown(divided).0 == shown(channel(&text, seed)).0, "{text}");
        }
    }
}

/// Packets of one class are planned while nothing of the other one waits there, and while so little waits behind each
/// that none is marked when it leaves: beyond that, and before acknowledgments and trimmed packets, they are not.
#[test]
fn departures_that_are_planned_among_classes_change_no_flow() {
    let schedules = ["schedule = 'strict'", "schedule.weight = 3"];
    // Of a class that is always marked nothing is planned.
    let laws = [
        "red = { kmin = '5 kB', kmax = '20 kB', pmax = 0.5 }",
        "step.threshold = '3 kB'",
        "step.threshold = '0 B'",
    ];
    let routes = ["per_connection = 'hashed'", "per_packet = 'adaptive'"];
    for (seed, (schedule, law)) in (1_u64..).zip(schedules.into_iter().cycle().zip(laws)) {
        for (routes, limit) in routes.into_iter().zip(["30 kB", "8 kB"]) {
            let text = format!(
                "fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, spines = 2 }}\n\
                 routes.{routes}\n\
                 link = {{ rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }}\n\
                 switch = {{ latency = '300 ns', memory = '200 kB', classes.0 = {{ limit.bytes = '{limit}', \
                 trim = {{ header = '64 B', class = 1 }}, ecn = {{ at = 'dequeue', law.{law} }} }}, \
                 classes.1 = {{ {schedule} }} }}\n\
                 transport = {{ acknowledgment = '64 B', acknowledgment_class = 1, timeout = '50 us', \
                 reliability = 'selective_repeat', acknowledged_after = '4 kB', \
                 congestion_control.nscc.base_round_trip = '4 us' }}\n\
                 workload.source.flows = {{ a = {{ load = 0.3, sizes = 'ali_storage_2019' }}, b = {{ \
                 load = 0.1, sizes.constant = '20 kB', incast.senders = 6 }} }}\n"
            );
            let (whole, _) = shown(channel(&text, seed));
            let is_any = |name: &str| !whole.contains(&format!("\"{name}\",0.0"));
            assert!(is_any("marked_packets") && is_any("cut_packets"), "{text}");
            compare_with_all_told(&text, seed);
        }
    }
}

/// Ports hold packets, lose them and take pauses back while cables fail and come back.
#[test]
fn departures_that_nobody_is_told_of_change_nothing_while_cables_fail() {
    for ports in ["send", "hold"] {
        let text = format!(
            "fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, spines = 2 }}\n\
             routes.per_connection = 'hashed'\n\
             link = {{ rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }}\n\
             switch = {{ latency = '300 ns', memory = '200 kB', classes.0.pfc.threshold.static = \
             {{ xoff = '3 kB', xon = '1 kB' }} }}\n\
             transport = {{ acknowledgment = '64 B', timeout = '50 us', reliability = 'selective_repeat' }}\n\
             workload.source.flows = {{ a = {{ load = 0.3, sizes = 'ali_storage_2019' }}, b = {{ \
             load = 0.1, sizes.constant = '20 kB', incast.senders = 6 }} }}\n\
             failures = {{ detection = '20 us', ports = '{ports}', cables = [\
             {{ from = '0.0', to = '1.1', at = '200 us', until = '400 us' }}, \
             {{ from = 'host 5', at = '300 us', until = '350 us' }}, \
             {{ from = '0.2', to = '1.0', at = '100 us', until = '450 us', rate = 0.25 }}] }}\n"
        );
        compare_with_all_told(&text, 1);
        let seen = channel_seen(&text, 1);
        assert!(seen.dropped(Drop::FailedCable) > 0, "{ports}");
        let at_its_rate = text.replace("rate = 0.25", "rate = 0.99");
        assert_ne!(shown(channel(&text, 1)).0, shown(channel(&at_its_rate, 1)).0, "{ports}");
    }
}

/// What comes alone beside flows crosses from part to part with a class and a size of its own.
#[test]
fn any_division_shows_the_same_packets_beside_flows() {
    for class in ["limit.bytes = '4 kB'", "pfc.threshold.static = { xoff = '3 kB', xon = '1 kB' }"]
    {
        let text = format!(
            "fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, spines = 2 }}\n\
             routes.per_packet = 'random'\n\
             link = {{ rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }}\n\
             switch = {{ latency = '300 ns', memory = '200 kB', classes.1 = {{ schedule = {{ weight = 1 }}, \
             {class} }} }}\n\
             transport = {{ acknowledgment = '64 B', timeout = '50 us', reliability = 'selective_repeat', \
             congestion_control.dcqcn = {{}} }}\n\
             workload.source.flows = {{ a = {{ load = 0.3, sizes = 'ali_storage_2019' }} }}\n\
             beside.load = 0.3\n"
        );
        let (whole, delivered) = shown(channel(&text, 1));
        let alone = text.replace("beside.load = 0.3", "");
        assert!(delivered > shown(channel(&alone, 1)).1 + 1_000, "{delivered} packets");
        for part in DIVISIONS {
            assert!(shown(spread(channel(&text, 1), &part)).0 == whole, "{part:?}: {text}");
        }
    }
}

/// What a target knows passes from one flow to the next when that begins, at the other end; flows of closed loops
/// have their numbers in the order in which they begin.
#[test]
fn queue_pairs_that_are_kept_and_closed_loops_are_not_divided() {
    let kept = "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 3, spines = 2 }\n\
                routes.per_connection = 'hashed'\n\
                link = { rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }\n\
                switch = { latency = '300 ns', memory = '200 kB' }\n\
                transport = { acknowledgment = '64 B', timeout = '50 us', reliability = 'go_back_n', \
                queue_pairs = 'kept', congestion_control.dcqcn = {} }\n\
                workload.source.flows = { a = { load = 0.3, sizes = 'ali_storage_2019' } }\n";
    let closed =
        kept.replace("load = 0.3", "closed.outstanding = 2").replace("queue_pairs = 'kept', ", "");
    let threads = NonZeroUsize::new(2).expect("two");
    for (text, why) in [(kept, Alone::Kept), (&closed, Alone::Closed)] {
        assert_eq!(channel(text, 1).spread_over(&DIVISIONS[0], threads), Err(why));
    }
}

/// What is unsent and in flight is counted from initiators in one part and targets in another.
#[test]
fn a_run_that_is_ended_early_holds_the_same() {
    let text = "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 3, spines = 2 }\n\
                routes.per_packet = 'random'\n\
                link = { rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }\n\
                switch = { latency = '300 ns', memory = '60 kB' }\n\
                transport = { acknowledgment = '64 B', timeout = '50 us', reliability = 'selective_repeat', \
                congestion_control.dctcp = {} }\n\
                workload.source.flows = { a = { load = 0.9, sizes = 'ali_storage_2019' } }\n";
    for until in [Time(30_000_000), Time(300_000_001)] {
        let held = |mut engine: Engine| {
            assert_eq!(engine.run_watched(until, &Halt::new(), |_| {}), None);
            let held = (engine.backlog(), engine.in_flight());
            assert!(held.0 > 0 && held.1 > 0, "{held:?}");
            (held, serde_json::to_string(&engine.flows()).expect("written"))
        };
        let whole = held(channel(text, 1));
        assert_eq!(held(spread(channel(text, 1), &DIVISIONS[2])), whole);
    }
}

/// Credits come back a cable later, from one part to another.
#[test]
fn any_division_shows_the_same_credits() {
    let text = "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 3, spines = 2 }\n\
                routes.per_packet = 'adaptive'\n\
                link = { rate = '100 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }\n\
                switch = { latency = '300 ns', memory = '200 kB', classes.0 = { credits = '10 kB', ecn = { at = \
                'enqueue', law.step.threshold = '5 kB' } } }\n\
                transport = { acknowledgment = '64 B', timeout = '50 us', reliability = 'selective_repeat', \
                reordering = 1000, congestion_control.infiniband = {} }\n\
                workload.source.flows = { a = { load = 0.3, sizes = 'ali_storage_2019' }, b = { \
                load = 0.1, sizes.constant = '20 kB', incast.senders = 6 } }\n";
    let (whole, delivered) = shown(channel(text, 1));
    assert!(delivered > 1_000, "{delivered} packets");
    for part in DIVISIONS {
        assert!(shown(spread(channel(text, 1), &part)).0 == whole, "{part:?}");
    }
}
