//! One conformance suite for every kind of switch. A kind that is in the schema and not in the table
//! below fails the first test, so a new one joins by existing.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, schema, simulate};
use weft_units::Span;

/// Every kind of switch in the forms that differ in mechanism, with the control that it needs.
const SWITCHES: &[(&str, &str)] = &[
    ("scheduled", "switch.scheduled = { latency = '90 ns', lead = '100 ns', scheduler = 'islip' }"),
    ("input_queued", "switch.input_queued = { latency = '90 ns', scheduler = 'islip' }"),
    (
        "input_queued",
        "switch.input_queued = { latency = '90 ns', queues = 'fifo', scheduler = 'random_maximal' }",
    ),
    ("output_queued", "switch.output_queued = { latency = '90 ns' }"),
    (
        "output_buffered",
        "switch.output_buffered = { latency = '90 ns', buffers = 4, writers = 'unlimited' }\n\
         control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }",
    ),
    (
        "output_buffered",
        "switch.output_buffered = { latency = '90 ns', buffers = 'unlimited', writers = 2 }\n\
         control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }",
    ),
    (
        "crossbar",
        "switch.crossbar = { latency = '90 ns', contention = 'drop' }\n\
         control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }",
    ),
    ("crossbar", "switch.crossbar = { latency = '90 ns', contention = 'back_pressure' }"),
    (
        "hub",
        "window = { mappings = 'all', page = '8 KiB', size = '1 MiB', write = '100 B', receive_buffers = 16 }\n\
         switch.hub = { ports = 16, latency = '90 ns', \
         transfer.crossbar = { buffer = 16, arbiter = 'request_sampling' } }",
    ),
    (
        "hub",
        "window = { mappings = 'all', page = '4 KiB', size = '1 MiB', write = '100 B', receive_buffers = 16 }\n\
         switch.hub = { ports = 8, latency = '90 ns', \
         transfer.crossbar = { buffer = 16, arbiter.scheduler.islip = {} } }",
    ),
    (
        "shared_memory",
        "switch.shared_memory = { latency = '90 ns', buffer = 16 }\n\
         fabric.k_ary_tree = { arity = 8, levels = 1 }\nroutes.per_connection = 'random'",
    ),
    (
        "shared_memory",
        "switch.shared_memory = { latency = '90 ns', queues = 'per_input', buffer = 16 }\n\
         flow_control = 'credits'\n\
         fabric.k_ary_tree = { arity = 8, levels = 1 }\nroutes.per_connection = 'random'",
    ),
    ("shared_buffer", "switch.shared_buffer = { latency = '90 ns', memory = '1 GB' }"),
    (
        "shared_buffer",
        "switch.shared_buffer = { latency = '90 ns', memory = '100 kB', \
         classes.0.pfc = { threshold.static = { xoff = '1 kB', xon = '500 B' } } }",
    ),
    (
        "crossbar",
        "switch.crossbar = { latency = '90 ns', contention = 'drop' }\n\
         control.request_acknowledge = \
         { timeout = '2 us', outstanding = 4, acknowledgment = '8 B' }",
    ),
    (
        "crossbar",
        "switch.crossbar = \
         { latency = '90 ns', contention = 'drop', acknowledgments = 'interleave' }\n\
         adapter.acknowledgments = 'interleave'\n\
         control.request_acknowledge = \
         { timeout = '2 us', outstanding = 4, acknowledgment = '8 B' }",
    ),
];

/// Kinds with laws of their own: a ring is no switch (`scilan/ring.rs`), a FIFO bus stands between
/// links with turns (`turns`).
const ELSEWHERE: [&str; 2] = ["ring", "fifo_bus"];

/// Several switches of one kind or two, and packets that are put in order again at their target.
const FURTHER: &[&str] = &[
    "switch.output_queued = { latency = '90 ns' }\nfabric.k_ary_tree = { arity = 2, levels = 3 }",
    "switch.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }",
    "switch.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }\n\
     fabric.k_ary_tree = { arity = 2, levels = 3 }",
    "switch.input_queued = \
     { latency = '90 ns', scheduler = 'islip', buffer = 20, cell = '25 B' }\n\
     fabric.fat_tree = { radix = 4, tiers = 2 }",
    "switch.output_queued = { latency = '90 ns' }\nflow_control = 'credits'\n\
     fabric.fat_tree = { radix = 4, tiers = 2 }\n\
     switches.'1.0'.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }",
    "switch.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }\n\
     fabric.k_ary_tree = { arity = 2, levels = 3 }\n\
     switches.'0.1'.output_queued = { latency = '90 ns' }\n\
     switches.'2.0'.output_queued = { latency = '90 ns' }",
    "switch.shared_buffer = { latency = '90 ns', memory = '100 kB', \
     classes.0.pfc = { threshold.dynamic = { alpha = 0.5, below = '250 B' } } }\n\
     fabric.k_ary_tree = { arity = 2, levels = 3 }\n\
     switches.'1.0'.output_queued = { latency = '90 ns' }",
    "switch.crossbar = { latency = '90 ns', contention = 'drop' }\n\
     control.request_acknowledge = { timeout = '2 us', outstanding = 4, \
     acknowledgment = '8 B', order = 'resequenced' }",
    "switch.hub = { ports = 8, latency = '90 ns', \
     transfer.bus = { arbitration = '60 ns', buffer = 4 } }",
    "switch.output_queued = { latency = '90 ns' }\n\
     fabric.k_ary_tree = { arity = 2, levels = 3 }\n\
     switches.'0.1'.hub = { ports = 4, latency = '80 ns', \
     transfer.bus = { arbitration = '60 ns', buffer = 4 } }",
];

fn run(switch: &str, workload: &str, length: &str, seed: u64) -> ChannelRun {
    // Nothing but its link holds the packets of a host back, so that nothing would read a number.
    let is_unlimited = switch.contains("output_queued") || switch.contains("shared_buffer");
    let buffers = if is_unlimited { "'unlimited'" } else { "8" };
    let text = format!(
        "[system]\ntitle = 'star'\nhosts = 8\n\
         [channel.c]\npacket = '125 B'\npayload = '100 B'\n\
         link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
         adapter.send_buffers = {buffers}\n{switch}\n\
         [workload.c]\n{workload}\n\
         [run]\nlength = '{length}'\nregime = 'from_empty'\n"
    );
    let plan = Plan::new(&Request::of_text("star.toml", &text)).expect(&text);
    let runs = simulate(&plan.points[0].spec, seed, &Halt::new()).expect(switch);
    runs.into_iter().next().expect("the channel")
}

#[test]
fn every_kind_of_switch_is_in_the_table() {
    let schema = schema();
    let kinds = schema.pointer("/$defs/SwitchSettings/oneOf").expect("the choice of a switch");
    let kinds = kinds.as_array().expect("a list of variants");
    let mut named = 0;
    for kind in kinds {
        let Some(properties) = kind.get("properties").and_then(|keys| keys.as_object()) else {
            continue;
        };
        for name in properties.keys().filter(|name| !is_origin(name)) {
            named += 1;
            let known = SWITCHES.iter().any(|(known, _)| known == name);
            assert!(known || ELSEWHERE.contains(&name.as_str()), "{name} is not tested here");
        }
    }
    assert!(named >= 5, "only {named} kinds were found in the schema");
}

/// Every table of a file may say where it comes from.
fn is_origin(key: &str) -> bool {
    ["stated", "derived", "calibrated", "predicts"].contains(&key)
}

#[test]
fn a_lone_packet_takes_its_length_the_cables_and_the_switch() {
    let lone = "source.list = [{ time = '1 us', from = 2, to = 5 }]";
    for (_, switch) in SWITCHES {
        let run = run(switch, lone, "20 us", 1);
        assert_eq!((run.observations.generated, run.observations.delivered), (1, 1), "{switch}");
        let queueing = run.observations.recorder(Latency::Queueing).max().expect(switch);
        let one_way = run.observations.recorder(Latency::OneWay).max().expect(switch);
        // 1 us at 1 Gbit/s, two cables of 20 ns, 90 ns through the switch.
        assert_eq!(one_way - queueing, Span(1_000_000 + 2 * 20_000 + 90_000), "{switch}");
        assert!(queueing <= Span(1_100_000), "{switch}: {queueing}");
    }
}

/// The stages follow each other without a gap, so they add up to the latency from end to end.
#[test]
fn the_budget_adds_up_to_the_latency() {
    for switch in SWITCHES.iter().map(|(_, switch)| switch).chain(FURTHER) {
        let run = run(switch, "load = 0.3\nburst.length.uniform = [1, 5]", "4 ms", 1);
        let one_way = run.observations.recorder(Latency::OneWay);
        assert!(one_way.count() > 500, "{switch}");
        assert_eq!(run.observations.budget.total_ps(), one_way.sum_ps(), "{switch}");
    }
}

#[test]
fn a_light_load_is_carried_whole_and_settles() {
    for (_, switch) in SWITCHES {
        let run = run(switch, "load = 0.2", "20 ms", 1);
        let (offered, accepted) = (run.offered_load(), run.accepted_load());
        assert!((offered / 0.2 - 1.0).abs() < 0.02, "{switch}: offered {offered}");
        assert!((accepted / offered - 1.0).abs() < 0.01, "{switch}: accepted {accepted}");
    }
}

#[test]
fn overload_is_accounted_for_and_shared() {
    // Seven hosts offer 0.3 each to host 0, which takes 1. Conservation is checked in every run.
    let flows: Vec<String> = (1..8).map(|from| format!("{{ from = {from}, to = 0 }}")).collect();
    let hot = format!("load = 0.3\npattern.flows = [{}]", flows.join(", "));
    for (_, switch) in SWITCHES {
        let run = run(switch, &hot, "20 ms", 1);
        let carried = run.accepted_load() * 8.0;
        assert!(carried <= 1.001, "{switch}: {carried} through one output");
        assert!(carried > 0.4, "{switch}: {carried} through one output");
        let delivered = &run.observations.fairness.delivered()[1..];
        let (least, most) = (delivered.iter().min(), delivered.iter().max());
        let (least, most) = (least.expect("hosts"), most.expect("hosts"));
        // Retransmissions after a fixed time keep their phase: a host that found its output free
        // once finds it free again. Only waiting in turn is fair.
        let drops = switch.contains("control");
        let fair = if drops { *least > 0 } else { *least * 10 > *most * 9 };
        assert!(fair, "{switch}: {delivered:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_and_another_seed_another() {
    for (_, switch) in SWITCHES {
        let mean = |seed| {
            let run = run(switch, "load = 0.4", "2 ms", seed);
            run.observations.recorder(Latency::OneWay).sum_ps()
        };
        assert_eq!(mean(7), mean(7), "{switch}");
        assert_ne!(mean(7), mean(8), "{switch}");
    }
}

#[test]
fn a_switch_leaves_the_traffic_as_it_was() {
    let generated: Vec<u64> = SWITCHES
        .iter()
        .filter(|(kind, _)| ["crossbar", "output_buffered"].contains(kind))
        .map(|(_, switch)| run(switch, "load = 0.3", "2 ms", 3).observations.generated)
        .collect();
    assert!(generated.windows(2).all(|pair| pair[0] == pair[1]), "{generated:?}");
}
