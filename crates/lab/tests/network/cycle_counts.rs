//! Exact picoseconds, worked by hand. A packet takes 1 us on a link, a cable 20 ns, a switch 90 ns.

use weft_fabric::measure::{Latency, Stage};
use weft_units::Span;

use super::{file, run};

const TWO_LEAVES: &str = "fabric.fat_tree = { radix = 4, tiers = 2 }";

fn list(packets: &[(u64, u16, u16)]) -> String {
    let one = |(ns, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", packets.join(", "))
}

/// Smallest and largest one-way latency in nanoseconds, and how many packets arrived.
fn one_way(channel: &str, packets: &[(u64, u16, u16)]) -> (u64, u64, u64) {
    let run = run(&file(4, channel, &list(packets), "100 us"), 1);
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |span: Option<Span>| span.map_or(0, |span| span.0 / 1_000);
    (ns(seen.min()), ns(seen.max()), seen.count())
}

#[test]
fn two_hosts_and_one_switch() {
    // 1000 + 2 * 20 + 90.
    assert_eq!(one_way(TWO_LEAVES, &[(5_000, 0, 1)]), (1_130, 1_130, 1));
    // To oneself through the switch.
    assert_eq!(one_way(TWO_LEAVES, &[(5_000, 1, 1)]), (1_130, 1_130, 1));
}

#[test]
fn two_hosts_and_three_switches_cost_the_length_of_the_packet_once() {
    // 1000 + 4 * 20 + 3 * 90.
    let run = run(&file(4, TWO_LEAVES, &list(&[(5_000, 0, 3)]), "100 us"), 1);
    let seen = &run.observations;
    assert_eq!(seen.recorder(Latency::OneWay).max(), Some(Span(1_350_000)));
    assert_eq!(seen.recorder(Latency::Transit).max(), Some(Span(1_350_000)));
    assert_eq!(seen.recorder(Latency::Queueing).max(), Some(Span::ZERO));
    assert_eq!(seen.hops.delivered(), [0, 0, 0, 1]);
    let spent = |stage| seen.budget.sum_ps(stage);
    assert_eq!((spent(Stage::Transmission), spent(Stage::Wire)), (1_000_000, 80_000));
    assert_eq!((spent(Stage::Switch), spent(Stage::SwitchWait)), (270_000, 0));
}

#[test]
fn two_hosts_and_two_switches() {
    let table = "[channel.c.fabric.table]\n\
        switches = [{ name = 'a', ports = 3 }, { name = 'b', ports = 3 }]\n\
        cables = [{ from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'a.1' },\n\
        { from = 'host 2', to = 'b.0' }, { from = 'host 3', to = 'b.1' },\n\
        { from = 'a.2', to = 'b.2' }]";
    // 1000 + 3 * 20 + 2 * 90.
    assert_eq!(one_way(table, &[(5_000, 0, 2)]), (1_240, 1_240, 1));
    // The second of two over the one cable waits for the whole of the first.
    assert_eq!(one_way(table, &[(5_000, 0, 2), (5_300, 1, 3)]), (1_240, 1_940, 2));
    // A packet that crosses no link of another is not delayed by it.
    assert_eq!(one_way(table, &[(5_000, 0, 2), (5_300, 3, 1)]), (1_240, 1_240, 2));
    assert_eq!(one_way(table, &[(5_000, 0, 2), (5_300, 3, 0)]), (1_240, 1_240, 2));
}

#[test]
fn what_waits_in_an_output_leaves_in_the_order_in_which_it_came() {
    // Three packets for host 3 come at 5110, 5310 and 5410 ns; the output is free for them at
    // 5110, 6110 and 7110.
    let run = run(
        &file(
            4,
            "fabric.fat_tree = { radix = 8, tiers = 2 }",
            &list(&[(5_000, 0, 3), (5_200, 1, 3), (5_300, 2, 3)]),
            "100 us",
        ),
        1,
    );
    let seen = run.observations.recorder(Latency::OneWay);
    // 1130, 1930 and 2830 ns.
    assert_eq!((seen.min(), seen.max()), (Some(Span(1_130_000)), Some(Span(2_830_000))));
    assert_eq!(seen.sum_ps(), 1_130_000 + 1_930_000 + 2_830_000);
    let waited = run.observations.budget.sum_ps(Stage::SwitchWait);
    assert_eq!(waited, 800_000 + 1_700_000);
}

#[test]
fn what_waits_for_its_own_link_queues_and_is_not_in_transit() {
    let run = run(&file(4, TWO_LEAVES, &list(&[(5_000, 0, 1), (5_400, 0, 3)]), "100 us"), 1);
    let seen = &run.observations;
    assert_eq!(seen.recorder(Latency::Queueing).max(), Some(Span(600_000)));
    assert_eq!(seen.recorder(Latency::Transit).max(), Some(Span(1_350_000)));
    assert_eq!(seen.recorder(Latency::OneWay).max(), Some(Span(1_950_000)));
    assert_eq!(seen.budget.sum_ps(Stage::SlotWait), 600_000);
}

/// The run ends at 8 us: one packet has arrived at 6130 ns, one started at 7 us and is on its way,
/// and of five more from host 0 the last two have not started.
#[test]
fn what_is_under_way_at_the_end_is_counted_where_it_is() {
    let packets: Vec<(u64, u16, u16)> =
        [(5_000, 0, 1)].into_iter().chain((0..5).map(|_| (5_100, 0, 3))).collect();
    let run = run(&file(4, TWO_LEAVES, &list(&packets), "8 us"), 1);
    let seen = &run.observations;
    // They start at 5, 6, 7, 8, 9 and 10 us; the second arrives at 7350 ns.
    assert_eq!((seen.generated, seen.delivered, seen.attempts), (6, 2, 4));
    assert_eq!((run.backlog, run.in_flight), (2, 2));
}

#[test]
fn ping_pong_goes_to_and_fro() {
    let pairs = "source.ping_pong = { pairs = [{ from = 0, to = 3 }], turnaround = '650 ns' }";
    let run = run(&file(4, TWO_LEAVES, pairs, "21 us"), 1);
    // A packet every 2 us: at 0, 2, ... 20 us, the last still on its way.
    assert_eq!((run.observations.generated, run.observations.delivered), (11, 10));
    assert_eq!(run.observations.recorder(Latency::OneWay).max(), Some(Span(1_350_000)));
}

/// A greedy source fills its three buffers at once and then each that becomes free.
#[test]
fn a_greedy_source_keeps_its_link_busy() {
    let text =
        file(4, TWO_LEAVES, "source = 'greedy'\npattern.flows = [{ from = 0, to = 3 }]", "50 us");
    let text = text.replace("send_buffers = 'unlimited'", "send_buffers = 3");
    let run = run(&text, 1);
    let seen = &run.observations;
    // Starts at 0, 1, ... 50 us; arrivals at 1.35, ... 49.35 us; three wait at the end.
    assert_eq!((seen.delivered, seen.attempts, run.in_flight, run.backlog), (49, 51, 2, 3));
    assert_eq!(seen.recorder(Latency::Queueing).max(), Some(Span(3_000_000)));
}
