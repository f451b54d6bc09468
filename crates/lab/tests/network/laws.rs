//! Laws that hold whatever the numbers: conservation, order, determinism, and the answers of
//! queueing theory where it has some.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use weft_fabric::fabric::{FabricSettings, Routes, RoutesSettings};
use weft_fabric::graph::{ClockedParts, SwitchParts};
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::measure::{Latency, Observations};
use weft_fabric::scheduler::SchedulerSettings;
use weft_fabric::switch::{OutputQueuedSettings, SharedMemorySettings, SharedQueues};
use weft_fabric::workload::{ChannelFacts, WorkloadSettings};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::engine::{ConnectionParts, Delivery, Engine, EngineParts};
use weft_lab::{Options, Request};
use weft_units::{Bytes, Length, Limit, PositiveCount, Rate, Span, SpanPerLength, Time};

use super::{file, run, voq};
use crate::settings;

#[derive(serde::Deserialize)]
struct Parts {
    fabric: FabricSettings,
    routes: RoutesSettings,
    workload: WorkloadSettings,
}

/// How the switches of a network queue.
#[derive(Clone, Copy, Debug)]
enum Queues {
    /// How many packets a queue holds.
    Outputs(Limit),
    /// Cells of a packet, packets of a buffer, and the flow control.
    Inputs(u64, u32, &'static str),
    /// Every other switch has queues at its inputs, the rest at outputs that hold so many packets.
    Mixed(u64, u32, &'static str, Limit),
    /// How cells wait in a shared memory, and under which flow control.
    Shared(SharedQueues, &'static str),
    /// The same for every third switch, between one with queues at its inputs and one with queues at
    /// its outputs.
    All(SharedQueues, &'static str),
}

/// Runs a network bare, and returns what it delivered and how many packets are left in it.
fn deliveries(
    text: &str,
    hosts: u32,
    (packet, queues, seed): (Span, Queues, u64),
    until: Time,
) -> (Vec<Delivery>, u64, Observations) {
    let parts: Parts = settings::read(text);
    let streams = Streams::new(seed);
    let facts =
        ChannelFacts { name: "c", hosts, packet: Bytes(125), packet_span: packet, slot_span: None };
    let wiring = parts.fabric.wiring(hosts, Rate::from_ratio(1, 1000)).expect(text);
    let routes = Routes::new(&parts.routes, &wiring, streams.stream("c.routes", 0)).expect(text);
    let observations = Observations::over(Time::ZERO, until);
    let sources = parts.workload.build(&facts, &streams).expect(text);
    let mut delivered = Vec::new();
    let mut watch = |delivery| delivered.push(delivery);
    let control = match queues {
        Queues::Inputs(cells, buffer, text) | Queues::Mixed(cells, buffer, text, _) => {
            flow(text, buffer * cells as u32)
        }
        Queues::Shared(_, text) | Queues::All(_, text) => flow(text, 64),
        Queues::Outputs(_) => flow(CREDITS, 1),
    };
    let latency = Span(90_000);
    let outputs = |buffers| SwitchParts::OutputQueued(OutputQueuedSettings { latency, buffers });
    let memory = |queues| {
        let buffer = PositiveCount::new(64).expect("cells");
        SwitchParts::SharedMemory(SharedMemorySettings {
            latency,
            queues,
            buffer,
            pool: Limit::Unlimited,
            bandwidth: None,
        })
    };
    let switches = (0..wiring.switches()).map(|switch| match queues {
        Queues::Inputs(cells, buffer, _) => {
            inputs(cells, buffer, wiring.ports_of(switch), &streams)
        }
        Queues::Mixed(cells, buffer, ..) if switch % 2 == 0 => {
            inputs(cells, buffer, wiring.ports_of(switch), &streams)
        }
        Queues::All(..) if switch % 3 == 0 => inputs(1, 200, wiring.ports_of(switch), &streams),
        Queues::All(..) if switch % 3 == 1 => outputs(Limit::Unlimited),
        Queues::Outputs(buffers) | Queues::Mixed(.., buffers) => outputs(buffers),
        Queues::Shared(queues, _) | Queues::All(queues, _) => memory(queues),
    });
    let mut engine = Engine::new(EngineParts {
        switches: switches.collect(),
        flow: control,
        wiring,
        routes,
        link: LinkSettings {
            length: Length(4_000_000),
            delay_per_metre: SpanPerLength(5_000_000),
            ..link(packet)
        },
        packet: Bytes(125),
        payload: Bytes(100),
        send_buffers: Limit::Unlimited,
        sources,
        observations,
        until,
        ring: None,
        turns: None,
        hub: None,
        connections: ConnectionParts::default(),
        classed: None,
        adapters: None,
        flows: None,
    });
    assert_eq!(engine.run_watched(until, &Halt::new(), &mut watch), None);
    assert_eq!(engine.overrun(), None, "{text}");
    let left = engine.backlog() + engine.in_flight();
    (delivered, left, engine.into_observations())
}

/// A switch with queues at its inputs, of so many packets of so many cells.
fn inputs(cells: u64, buffer: u32, ports: u32, streams: &Streams) -> SwitchParts {
    let arbiter = SchedulerSettings::Islip(Default::default()).arbiter(ports as usize);
    SwitchParts::InputQueued(Box::new(ClockedParts {
        latency: Span(90_000),
        cell: Bytes(125_u64.div_ceil(cells)),
        buffer: buffer * cells as u32,
        arbiter: arbiter.expect("ports"),
        random: streams.stream("c.scheduler", 0),
    }))
}

/// A link on which the 125 B of a packet take what the test wants, to a picosecond.
fn link(packet: Span) -> LinkSettings {
    LinkSettings {
        rate: weft_units::Rate::from_ratio(1_000, packet.0),
        length: Default::default(),
        delay_per_metre: Default::default(),
        reserved: Default::default(),
    }
}

/// A flow control over buffers of so many cells, as it stands in a file under the key `c`.
fn flow(text: &str, buffer: u32) -> FlowControl {
    let named: BTreeMap<String, _> = settings::read(text);
    FlowControl::new(&named["c"], buffer).expect("a flow control")
}

/// A stop is heard after 110 ns and the cells on their way to a switch, two of a nanosecond at the
/// least: the margin of 60 cells is for the shortest packets.
const CREDITS: &str = "c = 'credits'";
const STOP: &str = "c.stop_go = { stop = 4, go = 1 }";
const QUENCH: &str = "c.source_quench = { quench = 3, unquench = 1, indication = '25 B', \
                      link = { stop = 8, go = 4 } }";
const CHANNELS: &str = "c.virtual_channel_credits.channels = 4";

const FABRICS: &[(&str, u16)] = &[
    ("fabric.k_ary_tree = { arity = 2, levels = 4 }", 16),
    ("fabric.k_ary_tree = { arity = 3, levels = 2 }", 8),
    ("fabric.fat_tree = { radix = 4, tiers = 3 }", 16),
    ("fabric.fat_tree = { radix = 6, tiers = 2 }", 17),
    ("fabric = 'folded_tree'", 64),
    ("fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 3, spines = 2 }", 11),
    ("fabric.dragonfly.hosts_per_router = 1", 6),
    ("fabric.dragonfly = { hosts_per_router = 2, groups = 4 }", 31),
    ("fabric.hyperx = { dimensions = [3, 4], hosts_per_switch = 2, order = 'any' }", 23),
    ("fabric.hyperx = { dimensions = [2, 3, 2], parallel_cables = [2, 1, 1] }", 12),
    ("fabric.torus.dimensions = [5]", 5),
    ("fabric.torus = { dimensions = [2, 4, 3], hosts_per_switch = 2 }", 47),
    ("fabric.mesh = { dimensions = [3, 4] }", 12),
    (
        "fabric.table = { switches = [{ name = 'a', ports = 4 }, { name = 'b', ports = 4 }, \
         { name = 'c', ports = 4 }], cables = [{ from = 'host 0', to = 'a.0' }, \
         { from = 'host 1', to = 'a.1' }, { from = 'host 2', to = 'b.0' }, \
         { from = 'host 3', to = 'b.1' }, { from = 'host 4', to = 'c.0' }, \
         { from = 'host 5', to = 'c.1' }, { from = 'a.2', to = 'b.2' }, \
         { from = 'b.3', to = 'c.2' }, { from = 'c.3', to = 'a.3' }] }",
        6,
    ),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever the wiring, the size of packets, the load and the routes: nothing is lost or made
    /// up, no link carries two packets at once, none is faster than light and switches allow, and
    /// connections with one way are in order.
    #[test]
    fn packets_are_conserved_and_connections_in_order(
        place in 0_usize..FABRICS.len(),
        packet in 1_000_u64..5_000_000,
        load in 0.05_f64..1.2,
        rule in prop::sample::select(vec![
            "per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'random'",
            "per_connection = 'hashed'", "per_packet = 'valiant'", "per_packet = 'ugal'",
            "per_packet = 'ugal_global'",
        ]),
        queues in prop::sample::select(vec![
            Queues::Outputs(Limit::Unlimited), Queues::Outputs(Limit::AtMost(PositiveCount::ONE)),
            Queues::Inputs(1, 1, CREDITS), Queues::Inputs(1, 7, CREDITS),
            Queues::Inputs(5, 3, CREDITS), Queues::Inputs(1, 4, CHANNELS),
            Queues::Inputs(4, 8, CHANNELS), Queues::Inputs(1, 200, STOP),
            Queues::Inputs(3, 200, STOP), Queues::Mixed(1, 1, CREDITS, Limit::Unlimited),
            Queues::Mixed(5, 3, CREDITS, Limit::AtMost(PositiveCount::ONE)),
            Queues::Mixed(1, 200, STOP, Limit::Unlimited),
            Queues::Shared(SharedQueues::PerConnection, STOP),
            Queues::Shared(SharedQueues::PerConnection, QUENCH),
            Queues::Shared(SharedQueues::PerInput, CHANNELS),
            Queues::Shared(SharedQueues::Fifo, CREDITS),
            Queues::Shared(SharedQueues::Fifo, STOP),
            Queues::All(SharedQueues::PerConnection, CREDITS),
            Queues::All(SharedQueues::PerConnection, QUENCH),
            Queues::All(SharedQueues::PerInput, CHANNELS),
            Queues::All(SharedQueues::Fifo, STOP),
        ]),
        seed in any::<u64>(),
    ) {
        let (fabric, hosts) = FABRICS[place];
        let is_shared = matches!(
            queues,
            Queues::Shared(..) | Queues::All(..) | Queues::Inputs(_, _, STOP) | Queues::Mixed(_, _, STOP, _)
        );
        let takes_detours = rule.contains("valiant") || rule.contains("ugal");
        let has_detours =
            ["dragonfly", "hyperx", "torus", "mesh"].iter().any(|own| fabric.contains(own));
        // Only queues at the outputs of a group are known to others.
        let is_known = fabric.contains("dragonfly") && matches!(queues, Queues::Outputs(_));
        let rule = match rule {
            _ if takes_detours && !has_detours => "per_packet = 'adaptive'",
            "per_packet = 'ugal_global'" if !is_known => "per_packet = 'ugal'",
            own => own,
        };
        // Connections are set up once, and a stop must be heard within the buffers.
        let rule = if is_shared { "per_connection = 'random'" } else { rule };
        let packet = if is_shared { packet.max(20_000) } else { packet };
        let text = format!("{fabric}\nroutes.{rule}\nworkload.load = {load}");
        let until = Time(packet * 200);
        let (delivered, left, seen) = deliveries(&text, hosts.into(), (Span(packet), queues, seed), until);
        prop_assert_eq!(seen.conserve(left), Ok(()));
        prop_assert_eq!(seen.delivered, delivered.len() as u64);
        let mut targets = BTreeMap::new();
        let mut connections = BTreeMap::new();
        for one in &delivered {
            let hops = u64::from(one.hops);
            let least = packet + 20_000 * (hops + 1) + 90_000 * hops;
            prop_assert!(one.start >= one.generated && one.end.since(one.start).0 >= least);
            let last: Option<Time> = targets.insert(one.to, one.end);
            prop_assert!(last.is_none_or(|last| one.end.since(last).0 >= packet), "{one:?}");
            let before = connections.insert((one.from, one.to), one.start);
            if rule.starts_with("per_connection") {
                prop_assert!(before.is_none_or(|before| before < one.start), "{one:?}");
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_and_another_seed_another() {
    for fabric in ["k_ary_tree = { arity = 4, levels = 3 }", "fat_tree = { radix = 8, tiers = 3 }"]
    {
        for rule in ["per_packet = 'adaptive'", "per_connection = 'random'"] {
            let channel = format!("fabric.{fabric}\nroutes.{rule}");
            let one = "switches.'1.0'.output_queued.latency = '90 ns'";
            let files = [
                file(64, &channel, "load = 0.4", "300 us"),
                voq(64, "buffer = 8", &channel, "load = 0.4", "300 us"),
                voq(64, "buffer = 8", &format!("{channel}\n{one}"), "load = 0.4", "300 us"),
            ];
            for text in files {
                let sum = |seed| run(&text, seed).observations.recorder(Latency::OneWay).sum_ps();
                assert_eq!(sum(7), sum(7), "{text}");
                assert_ne!(sum(7), sum(8), "{text}");
            }
        }
    }
}

/// Every driver of a fabric, and two kinds of switch in one; two loads and two seeds each: all tables
/// are the same text however many threads there were.
#[test]
fn the_number_of_threads_changes_no_byte() {
    let workload = "load = 0.4\n[sweep]\n'workload.c.load' = [0.2, 0.5]";
    let torus = "fabric.torus.dimensions = [3, 3]\n\
                 flow_control.virtual_channel_credits.channels = 2";
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
    let shared = file(9, &torus.replace("torus", "mesh"), workload, "400 us").replace(
        "switch.output_queued.latency = '90 ns'",
        "switch.shared_memory = { latency = '90 ns', buffer = 8 }",
    );
    let spine = "switches.'1.1'.output_queued = { latency = '90 ns', buffers = 2 }";
    let stop = format!("{tree}\nflow_control.stop_go = {{ stop = 8, go = 4 }}");
    let texts = [
        file(9, tree, workload, "400 us"),
        voq(9, "buffer = 8", torus, workload, "400 us"),
        voq(9, "buffer = 32", &stop, workload, "400 us"),
        voq(9, "buffer = 32", &format!("{stop}\n{spine}"), workload, "400 us"),
        shared,
    ];
    for text in texts {
        let text = text.replace("regime = 'from_empty'", "regime = 'from_empty'\nseeds = 2");
        let tables = |workers| {
            let options = Options { workers: NonZeroUsize::new(workers), ..Options::default() };
            let request = Request::of_text("network.toml", &text);
            let outcome = weft_lab::run(&request, &options, &mut |_, _| true).expect(&text);
            format!("{:?}\n{}", outcome.tables, outcome.meta)
        };
        let alone = tables(1);
        assert!(alone.len() > 3_000, "{} bytes are not all tables", alone.len());
        assert_eq!(alone, tables(3), "{text}");
    }
}

/// One switch of a table is the switch of the star. Cells that start with the slots of the star
/// wait in neither adapter, so that every one-way latency, and with it their sum, is the same.
#[test]
fn one_switch_is_the_star() {
    let ports: Vec<String> =
        (0..8).map(|host| format!("{{ from = 'host {host}', to = 's.{host}' }}")).collect();
    let table = format!(
        "fabric.table = {{ switches = [{{ name = 's', ports = 8 }}], cables = [{}] }}",
        ports.join(", ")
    );
    // In every slot of 1 us each host may send one cell, drawn once for both.
    let mut random = Streams::new(3).stream("cells", 0);
    let mut cells = Vec::new();
    for (slot, from) in (0..400).flat_map(|slot| (0..8).map(move |from| (slot, from))) {
        if random.chance(0.7) {
            let to = random.below(8);
            cells.push(format!("{{ time = '{slot} us', from = {from}, to = {to} }}"));
        }
    }
    let list = format!("source.list = [{}]", cells.join(", "));
    let of = |channel: &str| run(&file(8, channel, &list, "1 ms"), 1);
    let (star, one) = (of(""), of(&table));
    assert_eq!((star.in_flight, one.in_flight), (0, 0));
    let sums = |run: &weft_lab::ChannelRun| {
        let seen = run.observations.recorder(Latency::OneWay);
        (seen.count(), seen.sum_ps(), seen.min())
    };
    assert_eq!(sums(&star), sums(&one));
    assert!(sums(&one).1 > u128::from(sums(&one).0) * 1_500_000, "cells wait for each other");
}

/// The adapter has Poisson arrivals and one service time: its wait is that of M/D/1, which is
/// rho / (2 (1 - rho)) services (Kleinrock, Queueing Systems I, 5.7).
#[test]
fn an_adapter_waits_like_m_d_1() {
    let text = file(64, "fabric.k_ary_tree = { arity = 8, levels = 2 }", "load = 0.5", "60 ms");
    let run = run(&text, 1);
    let queueing = run.observations.recorder(Latency::Queueing).mean_ps().expect("packets") * 1e-6;
    assert!((queueing / 0.5 - 1.0).abs() < 0.02, "{queueing} us");
}

/// The output of a switch with 31 inputs at 0.8 / 31 each is M/D/1 but for one part in 31: the
/// links before it are hardly used, so that arrivals are nearly Poisson.
#[test]
fn many_to_one_is_m_d_1() {
    let flows: Vec<String> = (1..32).map(|from| format!("{{ from = {from}, to = 0 }}")).collect();
    let workload = format!("load = {}\npattern.flows = [{}]", 0.8 / 31.0, flows.join(", "));
    let text = file(32, "fabric.k_ary_tree = { arity = 32, levels = 1 }", &workload, "400 ms");
    let run = run(&text, 1);
    let waited = run.observations.budget.sum_ps(weft_fabric::measure::Stage::SwitchWait) as f64
        / run.observations.delivered as f64
        * 1e-6;
    // rho / (2 (1 - rho)) = 2 us. With n inputs of rho / n each the wait is smaller by about 1/n,
    // since two packets of one input do not meet: 2 us * (1 - 1/31) = 1.94 us.
    assert!((waited / 1.94 - 1.0).abs() < 0.05, "{waited} us");
}

#[test]
fn a_permutation_with_a_way_for_each_is_never_delayed_and_one_way_for_all_saturates() {
    // Hosts of leaf 0 to those of leaf 1 over tops of their own, or all over the first.
    let flows = "load = 0.9\npattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 3 }]";
    let route = |from: u16, top: u16| {
        format!("{{ from = {from}, to = {}, switches = ['0.0', '1.{top}', '0.1'] }}", from + 2)
    };
    let of = |tops: [u16; 2]| {
        let channel = format!(
            "fabric.fat_tree = {{ radix = 4, tiers = 2 }}\nroutes.per_connection.given = [{}, {}]",
            route(0, tops[0]),
            route(1, tops[1]),
        );
        run(&file(4, &channel, flows, "10 ms"), 1)
    };
    let apart = of([0, 1]);
    let transit = apart.observations.recorder(Latency::Transit);
    assert_eq!((transit.min(), transit.max()), (Some(Span(1_350_000)), Some(Span(1_350_000))));
    let together = of([1, 1]);
    let carried = together.accepted_load() * 4.0;
    assert!((carried - 1.0).abs() < 0.01, "{carried} through one cable");
}
