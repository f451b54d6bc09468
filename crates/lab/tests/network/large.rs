//! More hosts than sixteen bits count.

use weft_fabric::measure::Latency;
use weft_units::Span;

use super::{file, refusal, run, voq};

/// From the last host to one whose number has more than sixteen bits, over five switches: a packet
/// of 1 us, six cables of 20 ns and five switches of 90 ns.
#[test]
fn hosts_beyond_sixteen_bits_reach_each_other() {
    let tree = "fabric.fat_tree = { radix = 84, tiers = 3 }";
    let list = "source.list = [{ time = '1 us', from = 131071, to = 65537 }]";
    let run = run(&file(131_072, tree, list, "10 us"), 1);
    let seen = run.observations.recorder(Latency::OneWay);
    let expected = 1_000_000 + 6 * 20_000 + 5 * 90_000;
    assert_eq!((run.observations.delivered, seen.max()), (1, Some(Span(expected))));
    let busy = run.observations.busy().iter().filter(|busy| **busy > Span::ZERO);
    assert_eq!(busy.count(), 6);
}

/// From the last host of a torus to one at the switch beside it, through queues at the inputs: the
/// packet is at the first switch when a slot begins, and at the second one in time for the next.
#[test]
fn hosts_beyond_sixteen_bits_wait_for_slots() {
    let torus = "fabric.torus = { dimensions = [128, 128], hosts_per_switch = 5 }\n\
                 deadlock = 'allowed'";
    let list = "source.list = [{ time = '1.89 us', from = 81919, to = 81910 }]";
    let run = run(&voq(81_920, "buffer = 8", torus, list, "10 us"), 1);
    let seen = run.observations.recorder(Latency::OneWay);
    let expected = 110_000 + 1_000_000 + 1_020_000;
    assert_eq!((run.observations.delivered, seen.max()), (1, Some(Span(expected))));
}

#[test]
fn one_switch_has_at_most_65_536_ports() {
    let found = refusal(&file(65_537, "", "load = 0.1", "1 us"));
    assert!(found.contains("at most 65536, the ports for hosts of one switch"), "{found}");
}

/// Every host of a whole fat tree of 64-port switches sends in slots, and what none of them counts
/// is on its way.
#[test]
fn a_whole_fat_tree_of_65_536_hosts_runs_in_slots() {
    let tree = "fabric.fat_tree = { radix = 64, tiers = 3 }";
    let traffic = "load = 0.5\narrivals = 'bernoulli'\npattern.shift = 65535";
    let run = run(&file(65_536, tree, traffic, "15.5 us"), 1);
    let seen = &run.observations;
    assert_eq!(seen.conserve(run.backlog + run.in_flight), Ok(()));
    let offered = seen.generated as f64 / (65_536.0 * 16.0);
    assert!((offered - 0.5).abs() < 0.01, "{offered}");
    assert!(seen.delivered as f64 > 0.8 * seen.generated as f64, "{}", seen.delivered);
}

#[test]
fn what_counts_hosts_with_sixteen_bits_is_refused() {
    let tree = "fabric.fat_tree = { radix = 64, tiers = 3 }";
    let accepted =
        "at most 65535, or on channels with output_queued, input_queued or shared_memory";
    let program =
        file(65_536, tree, "", "1 us").replace("[workload.c]", "[program]\nrun.barrier.rounds = 2");
    let found = refusal(&file(65_536, tree, "load = 0.1\nmessage = '1 kB'", "1 us"));
    assert!(found.contains("system.hosts = 65536 does not fit"), "{found}");
    assert!(found.contains(accepted), "{found}");
    let found = refusal(&program);
    assert!(found.contains("system.hosts = 65536 does not fit"), "{found}");
    assert!(found.contains("at most 65535"), "{found}");
    let more = refusal(&file(1_048_577, tree, "load = 0.1", "1 us"));
    assert!(more.contains("a whole number in 2..=1048576"), "{more}");
}
