//! Limited queues of output-queued switches, which drop packets that find them full.

use weft_fabric::measure::{Drop, Latency};
use weft_lab::ChannelRun;
use weft_units::Span;

use super::{file, refusal, run};

fn full(hosts: u32, buffers: u32, channel: &str, workload: &str, length: &str) -> ChannelRun {
    let channel = format!("{channel}\nswitch.output_queued.buffers = {buffers}");
    run(&file(hosts, &channel, workload, length), 1)
}

/// The share of the packets that were dropped.
fn loss(run: &ChannelRun) -> f64 {
    let seen = &run.observations;
    assert_eq!(seen.conserve(run.backlog + run.in_flight), Ok(()));
    assert_eq!(seen.dropped(Drop::Overflow), seen.abandoned);
    seen.abandoned as f64 / (seen.abandoned + seen.delivered) as f64
}

/// Packets join the queue of host 3 at 5110, 5310, 5410 and 6110 ns. It holds two, so that the
/// third is dropped; at 6110 ns the first has left. They start at 5110, 6110 and 7110 ns.
#[test]
fn what_finds_a_full_queue_is_dropped() {
    let packets = "source.list = [{ time = '5000 ns', from = 0, to = 3 }, \
                   { time = '5200 ns', from = 1, to = 3 }, { time = '5300 ns', from = 2, to = 3 }, \
                   { time = '6000 ns', from = 0, to = 3 }]";
    let run = full(4, 2, "", packets, "100 us");
    let seen = &run.observations;
    assert_eq!((seen.delivered, seen.abandoned, seen.dropped(Drop::Overflow)), (3, 1, 1));
    assert_eq!(seen.recorder(Latency::OneWay).max(), Some(Span(7_110_000 + 1_020_000 - 6_000_000)));
    assert_eq!(seen.recorder(Latency::OneWay).sum_ps(), 1_130_000 + 1_930_000 + 2_130_000);
    assert_eq!((run.backlog, run.in_flight), (0, 0));
    let run = full(4, 3, "", packets, "100 us");
    assert_eq!((run.observations.delivered, run.observations.abandoned), (4, 0));
}

/// An output that holds the packet which leaves and no other loses what Erlang's formula says for
/// one line: rho / (1 + rho), whatever a packet takes (Kleinrock, Queueing Systems I, 3.5). Each of
/// 63 links brings nothing while its own packet leaves: rho is smaller by 1/63 then.
#[test]
fn a_queue_without_room_loses_what_erlang_says() {
    let flows: Vec<String> = (1..64).map(|from| format!("{{ from = {from}, to = 0 }}")).collect();
    for load in [0.3, 0.8] {
        let workload = format!("load = {}\npattern.flows = [{}]", load / 63.0, flows.join(", "));
        let run = full(64, 1, "", &workload, "100 ms");
        let rho = load * 62.0 / 63.0;
        let (found, expected) = (loss(&run), rho / (1.0 + rho));
        assert!((found / expected - 1.0).abs() < 0.02, "{found}, not {expected}, at {load}");
    }
}

/// A packet that takes the port up which is free first finds room where a random one is full.
#[test]
fn adaptive_routes_avoid_full_queues() {
    let tree = "fabric.k_ary_tree = { arity = 4, levels = 2 }";
    // Every host sends to the same place in the next subtree: only ports up are contended for.
    let workload = "load = 0.8\npattern.shift = 4";
    let of = |rule: &str| {
        let channel = format!("{tree}\nroutes.per_packet = '{rule}'");
        loss(&full(16, 3, &channel, workload, "10 ms"))
    };
    let (random, adaptive) = (of("random"), of("adaptive"));
    assert!(adaptive < random / 3.0, "{adaptive} adaptive, {random} random");
    assert!(random > 0.01, "{random} random");
}

#[test]
fn a_queue_that_is_never_full_is_one_without_a_limit() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'adaptive'";
    let shown = |channel: &str| {
        let run = run(&file(9, &format!("{tree}\n{channel}"), "load = 0.7", "2 ms"), 1);
        (format!("{:?}", run.observations), run.steps)
    };
    assert_eq!(shown("switch.output_queued.buffers = 100000"), shown(""));
}

#[test]
fn what_needs_every_packet_is_refused_with_the_reason() {
    let limited = "switch.output_queued.buffers = 4";
    let sized = "load = 0.1\nmessage = '1 kB'";
    let text = refusal(&file(4, limited, sized, "1 ms"));
    assert!(text.contains("channel.c.switch.output_queued.buffers = 4"), "{text}");
    assert!(text.contains("unlimited where packets are those of messages"), "{text}");
}
