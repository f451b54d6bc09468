//! Queues at the inputs, slots and credits, in exact picoseconds worked by hand, and what limited
//! buffers do to those who do not fill them.
//!
//! A packet takes 1 us on a link and a cable 20 ns. Its first byte is at a crossbar 20 + 90 ns after
//! it was sent, and waits there for the beginning of a slot.

use weft_fabric::measure::Latency;
use weft_lab::ChannelRun;
use weft_lab::statistics::{Ending, Verdict, judge};
use weft_units::Span;

use super::{RING, file, run, voq};

const TWO: &str = "fabric.table = { switches = [{ name = 'a', ports = 3 }, \
    { name = 'b', ports = 3 }], cables = [{ from = 'host 0', to = 'a.0' }, \
    { from = 'host 1', to = 'a.1' }, { from = 'host 2', to = 'b.0' }, \
    { from = 'host 3', to = 'b.1' }, { from = 'a.2', to = 'b.2' }] }";

/// Runs a list of packets, each a time in nanoseconds, an initiator and a target.
fn listed(switch: &str, packets: &[(u64, u16, u16)]) -> ChannelRun {
    let one = |(ns, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    let list = format!("source.list = [{}]", packets.join(", "));
    run(&voq(4, switch, TWO, &list, "100 us"), 1)
}

/// Smallest and largest one-way latency in nanoseconds, and how many packets arrived.
fn one_way(switch: &str, packets: &[(u64, u16, u16)]) -> (u64, u64, u64) {
    let run = listed(switch, packets);
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |span: Option<Span>| span.map_or(0, |span| span.0 / 1_000);
    (ns(seen.min()), ns(seen.max()), seen.count())
}

#[test]
fn two_hosts_and_one_switch() {
    // At the crossbar at 5000 ns, the very beginning of a slot: 110 + 1000 + 20.
    assert_eq!(one_way("buffer = 8", &[(4_890, 0, 1)]), (1_130, 1_130, 1));
    // A nanosecond later it waits for the slot at 6000 ns.
    assert_eq!(one_way("buffer = 8", &[(4_891, 0, 1)]), (2_129, 2_129, 1));
    // Two for one host: one leaves a slot later.
    assert_eq!(one_way("buffer = 8", &[(4_890, 0, 1), (4_890, 1, 1)]), (1_130, 2_130, 2));
    // Two for two hosts do not meet.
    assert_eq!(one_way("buffer = 8", &[(4_890, 0, 1), (4_890, 1, 0)]), (1_130, 1_130, 2));
}

/// A star whose queues have a limit is one switch of a table.
#[test]
fn a_star_may_have_buffers() {
    let table = "fabric.table = { switches = [{ name = 's', ports = 3 }], cables = [\
                 { from = 'host 0', to = 's.0' }, { from = 'host 1', to = 's.1' }, \
                 { from = 'host 2', to = 's.2' }] }";
    for (switch, flow) in [
        ("buffer = 1", "flow_control = 'credits'"),
        ("buffer = 20, cell = '25 B'", "flow_control.virtual_channel_credits.channels = 2"),
        ("buffer = 8", "flow_control.stop_go = { stop = 2, go = 1 }"),
    ] {
        let of = |fabric: &str| {
            let channel = format!("{fabric}\n{flow}");
            let run = run(&voq(3, switch, &channel, "load = 0.7", "1 ms"), 1);
            assert!(run.observations.delivered > 500, "{switch}");
            format!("{:?}", run.observations)
        };
        assert_eq!(of(""), of(table), "{switch}");
    }
}

#[test]
fn two_hosts_and_two_switches() {
    // Slots at 5000 and 6000 ns.
    assert_eq!(one_way("buffer = 8", &[(4_890, 0, 2)]), (2_130, 2_130, 1));
    // Five cells a packet: slots at 5000 and 5200 ns, where the packet cuts through.
    let cells = "cell = '25 B', buffer = 40";
    assert_eq!(one_way(cells, &[(4_890, 0, 2)]), (1_330, 1_330, 1));
    // A second one holds its place until the first has passed whole: slots at 6000 and 6200 ns.
    assert_eq!(one_way(cells, &[(4_890, 0, 2), (4_890, 1, 3)]), (1_330, 2_330, 2));
}

/// A buffer of one packet is free when the packet has left it, at 6000 ns, and the host knows at
/// 6020: the second packet starts then and leaves the switch at 7000 ns.
#[test]
fn a_credit_comes_back_over_the_cable() {
    let run = listed("buffer = 1", &[(4_890, 0, 1), (4_890, 0, 1)]);
    let seen = &run.observations;
    assert_eq!(seen.recorder(Latency::Queueing).max(), Some(Span(1_130_000)));
    assert_eq!(seen.recorder(Latency::OneWay).max(), Some(Span(3_130_000)));
    // With a buffer of two it starts when the link is free, at 5890, in time for the slot at 6000.
    let run = listed("buffer = 2", &[(4_890, 0, 1), (4_890, 0, 1)]);
    assert_eq!(run.observations.recorder(Latency::Queueing).max(), Some(Span(1_000_000)));
    assert_eq!(run.observations.recorder(Latency::OneWay).max(), Some(Span(2_130_000)));
}

/// Between switches: b holds one packet until 7000 ns, a knows at 7020 and sends at 8000 ns.
#[test]
fn a_full_buffer_holds_the_switch_before_it() {
    let packets = [(4_890, 0, 2), (4_890, 1, 3)];
    // Slots 5000 and 6000; 6000 and 7000 where there is space for both.
    assert_eq!(one_way("buffer = 2", &packets), (2_130, 3_130, 2));
    // 8000 and 9000 where there is not: 9000 + 1020 - 4890.
    assert_eq!(one_way("buffer = 1", &packets), (2_130, 5_130, 2));
}

#[test]
fn buffers_that_cover_the_round_trip_carry_a_full_load() {
    let flow = "source = 'greedy'\npattern.flows = [{ from = 0, to = 2 }]";
    let carried = |switch: &str| {
        let text = voq(4, switch, TWO, flow, "4 ms")
            .replace("send_buffers = 'unlimited'", "send_buffers = 4");
        run(&text, 1).accepted_load() * 4.0
    };
    assert!((carried("buffer = 3") - 1.0).abs() < 0.002, "{}", carried("buffer = 3"));
    // One packet every three slots: sent, held, credited.
    assert!((carried("buffer = 1") - 1.0 / 3.0).abs() < 0.002, "{}", carried("buffer = 1"));
}

#[test]
fn a_light_load_passes_a_tree_whole() {
    let tree = "fabric.k_ary_tree = { arity = 4, levels = 3 }";
    let workload = "load = 0.5\npattern.uniform.self_included = true";
    let queued = run(&voq(64, "buffer = 64", tree, workload, "4 ms"), 1);
    assert!((queued.accepted_load() / queued.offered_load() - 1.0).abs() < 0.01);
    let free = run(&file(64, tree, workload, "4 ms"), 1);
    let mean = |run: &ChannelRun| run.observations.recorder(Latency::OneWay).mean_ps();
    assert!(mean(&queued) > mean(&free), "output queues are the bound");
}

/// Three hosts send 0.45 each to host 2, which takes 1; host 1 sends 0.45 to host 3 over the cable
/// that one of them uses, and 0.9 is room enough there. Unlimited queues let it pass. In a limited
/// buffer the hot spot takes all space, and what becomes free alternates between the two (tree
/// saturation; Pfister and Norton, IEEE Trans. Comput. 34(10) 1985): it gets 1/3.
#[test]
fn a_hot_spot_holds_a_flow_that_goes_elsewhere() {
    let workload = "load = 0.45\npattern.flows = [{ from = 0, to = 2 }, { from = 2, to = 2 }, \
                    { from = 3, to = 2 }, { from = 1, to = 3 }]";
    let carried = |text: String| run(&text, 1).observations.fairness.delivered()[1] as f64 / 20e3;
    let unlimited = carried(file(4, TWO, workload, "20 ms"));
    assert!((unlimited - 0.45).abs() < 0.015, "{unlimited}");
    let limited = carried(voq(4, "buffer = 4", TWO, workload, "20 ms"));
    assert!((limited - 1.0 / 3.0).abs() < 0.015, "{limited}");
}

/// Three switches in a ring, each host sends two switches further: packets in the buffers wait for
/// each other in a cycle. The run says who for whom.
#[test]
fn a_ring_that_is_stuck_tells_who_waits_for_whom() {
    let flows = "load = 0.9\npattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 0 }, \
                 { from = 2, to = 1 }]";
    let run = run(&voq(3, "buffer = 1", RING, flows, "20 ms"), 1);
    let judgement = judge(&run.observations.progress(run.until), Ending::default(), None);
    assert_eq!(judgement.verdict, Verdict::Stuck);
    assert_eq!(run.in_flight, 6, "{:?}", run.waiting);
    for place in ["port 1 of switch a", "port 1 of switch b", "port 1 of switch c"] {
        let line = run.waiting.iter().find(|line| line.contains(place)).expect(place);
        assert!(line.contains("for space in the buffer of port 2 of switch"), "{line}");
    }
    let host = run.waiting.iter().find(|line| line.contains("wait at host 0")).expect("host 0");
    assert!(host.contains("for space in the buffer of port 0 of switch a"), "{host}");
}
