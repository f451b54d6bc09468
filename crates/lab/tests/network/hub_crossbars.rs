//! Hubs with a crossbar among switches: in exact picoseconds worked by hand, by laws, and against the
//! same hub among mapped windows.
//!
//! A packet takes 1 us on a link and a cable 20 ns, and in a hub it may leave 90 ns after its first byte
//! came.

use proptest::prelude::*;
use weft_fabric::measure::Latency;
use weft_lab::drive::trace::TraceEntry;

use super::hubs::{
    any_packets, arrivals, behind_a_hub, listed, one_way, stands_still, star, traced, two_hubs,
};
use super::{file, run, table};

const SAMPLING: &str = "'request_sampling'";

/// A hub with a crossbar whose inputs hold so many packets each.
fn hub(buffer: u32, arbiter: &str) -> String {
    format!(
        "hub = {{ ports = 8, latency = '90 ns', \
         transfer.crossbar = {{ buffer = {buffer}, arbiter = {arbiter} }} }}"
    )
}

/// Both are at the hub at 20 and leave it at 110 ns.
#[test]
fn packets_for_different_ports_pass_together() {
    let over = |packets: &[(u64, u32, u32)]| {
        one_way(&run(&star(4, &hub(8, SAMPLING), "", &listed(packets), "100 us"), 1))
    };
    assert_eq!(over(&[(0, 0, 1)]), (1_130, 1_130, 1));
    assert_eq!(over(&[(0, 0, 1), (0, 2, 3)]), (2 * 1_130, 1_130, 2));
    // For the same port the second leaves at 1110.
    assert_eq!(over(&[(0, 0, 1), (0, 2, 1)]), (1_130 + 2_130, 2_130, 2));
}

/// While port 3 sends from 110 on, hosts 1 and 2 ask for it, and host 0 at 1310, when the one of host
/// 1 is on it: they leave at 1110, 2110 and 3110 ns. A bus would take them in the order in which they
/// came, 2 before 1.
#[test]
fn what_was_sampled_together_goes_by_its_input_before_what_is_newer() {
    let packets = listed(&[(0, 4, 3), (50, 2, 3), (100, 1, 3), (1_200, 0, 3)]);
    let seen = traced(&star(5, &hub(8, SAMPLING), "", &packets, "100 us"), 1);
    let end = |entry: &TraceEntry| (entry.until.0 / 1_000, entry.initiator.expect("a host"));
    let mut ends: Vec<(u64, u32)> = seen.trace.iter().map(end).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(1_130, 4), (2_130, 1), (3_130, 2), (4_130, 0)]);
}

/// The first packet is at g at 130, leaves it at 220 and has left at 1220 ns, so that h has its credit
/// at 1240. With one place the second passes h then, and the third, for the free port of host 0, when
/// the second has been read: the first packet of an input holds up those behind it.
#[test]
fn what_waits_for_room_behind_a_hub_holds_up_its_input() {
    let over = |buffer, packets: &[(u64, u32, u32)]| {
        one_way(&run(
            &file(
                4,
                &two_hubs(&hub(8, SAMPLING), &hub(buffer, SAMPLING)),
                &listed(packets),
                "100 us",
            ),
            1,
        ))
    };
    let both = [(0, 0, 2), (0, 1, 3)];
    assert_eq!(over(1, &both), (1_240 + 2_370, 2_370, 2));
    assert_eq!(over(2, &both), (1_240 + 2_240, 2_240, 2));
    let three = [(0, 0, 2), (0, 1, 3), (0, 1, 0)];
    assert_eq!(over(1, &three), (1_240 + 2_370 + 3_260, 3_260, 3));
    assert_eq!(over(2, &three), (1_240 + 2_240 + 3_130, 3_130, 3));
}

/// On the cable between h and s a packet takes 2 us, and holds its input of h for as long: the next one
/// of that host passes at 2110 ns.
#[test]
fn a_slow_cable_holds_an_input() {
    let slow = behind_a_hub(", link.rate = '500 Mbit/s'");
    let slow = slow.split("\nswitches.h.").next().expect("a fabric");
    let slow = format!("{slow}\nswitches.h.{}", hub(8, SAMPLING));
    let over =
        |packets: &[(u64, u32, u32)]| one_way(&run(&file(5, &slow, &listed(packets), "100 us"), 1));
    // At s at 130; on to host 3 when its last byte comes in time, at 1220.
    assert_eq!(over(&[(0, 0, 3)]), (2_240, 2_240, 1));
    assert_eq!(over(&[(0, 0, 3), (0, 0, 1)]), (2_240 + 3_130, 3_130, 2));
    assert_eq!(over(&[(0, 0, 3), (0, 1, 2)]), (2_240 + 1_130, 2_240, 2));
}

/// Greedy hosts with uniform targets, of which the first packet of each holds up the others: about
/// 0.618 of 8 links (Karol, Hluchyj and Morgan, "Input versus output queueing on a space-division
/// packet switch", IEEE Trans. Commun. 35, 1987, table I), whatever chooses among those for one port.
#[test]
fn full_inputs_hold_each_other_up_as_karol_says() {
    let greedy = "source = 'greedy'\npattern.uniform.self_included = true";
    for arbiter in [SAMPLING, "{ scheduler = 'pim' }"] {
        let text = star(8, &hub(4, arbiter), "adapter.send_buffers = 4", greedy, "20 ms");
        let text = text.replace("adapter.send_buffers = 'unlimited'\n", "");
        let used = run(&text, 1).observations.delivered as f64 / (8.0 * 20_000.0);
        assert!((used / 0.618 - 1.0).abs() < 0.02, "{arbiter}: {used}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Around the same hub of mapped windows, whose hosts cost no time and have room for all, each
    /// packet takes as long.
    #[test]
    fn a_crossbar_takes_as_long_as_that_of_windows(
        packets in any_packets(),
        arbiter in prop::sample::select(vec![
            SAMPLING,
            "{ scheduler = 'islip' }",
            "{ scheduler = 'least_choice_first' }",
            "{ scheduler = 'wavefront' }",
        ]),
    ) {
        let of = |channel: &str| {
            one_way(&run(&star(5, &hub(64, arbiter), channel, &listed(&packets), "1 ms"), 1))
        };
        let window = "window = { mappings = 'all', page = '8 KiB', size = '1 MiB', \
                      write = '100 B', receive_buffers = 64, control = '0 B' }";
        prop_assert_eq!(of(""), of(window));
    }

    /// Where all packets are for one host, a crossbar is no better than a bus.
    #[test]
    fn for_one_port_a_crossbar_is_a_bus(
        packets in prop::collection::vec((0_u64..40_000, 0_u32..4), 1..60),
    ) {
        let packets: Vec<_> = packets.into_iter().map(|(ns, from)| (ns, from, 4)).collect();
        let of = |hub: &str| arrivals(&traced(&star(5, hub, "", &listed(&packets), "1 ms"), 1));
        let bus = of("hub = { ports = 8, latency = '90 ns', transfer.bus.buffer = 64 }");
        prop_assert_eq!(bus.len(), packets.len());
        prop_assert_eq!(bus, of(&hub(64, SAMPLING)));
    }

    /// Nothing is lost or doubled between hubs and a switch with small buffers, whatever decides.
    #[test]
    fn crossbars_lose_nothing(
        packets in any_packets(),
        buffers in [2_u32..5, 2..5, 2..5],
        arbiter in prop::sample::select(vec![
            SAMPLING,
            "{ scheduler = 'islip' }",
            "{ scheduler = 'least_choice_first' }",
            "{ scheduler = 'pim' }",
        ]),
        flow in prop::sample::select(vec![
            "flow_control = 'credits'",
            "flow_control.stop_go = { stop = 1, go = 0 }",
        ]),
    ) {
        let hosts =
            [("host 0", "a.0"), ("host 1", "a.1"), ("host 2", "b.0"), ("host 3", "c.0"), ("host 4", "s.0")];
        let cables = [("a.2", "b.1"), ("b.2", "s.1"), ("s.2", "c.1")];
        let fabric =
            table(&[("a", 3), ("b", 3), ("c", 2), ("s", 3)], &[&hosts[..], &cables].concat(), "");
        let [a, b, c] = buffers.map(|buffer| hub(buffer, arbiter));
        let channel = format!("{fabric}\nswitches.a.{a}\nswitches.b.{b}\nswitches.c.{c}\n{flow}");
        let seen = traced(&file(5, &channel, &listed(&packets), "1 ms"), 1);
        prop_assert_eq!((seen.backlog, seen.in_flight), (0, 0));
        prop_assert_eq!(seen.observations.delivered as usize, packets.len());
        let budget = seen.observations.budget.total_ps();
        prop_assert_eq!(seen.observations.recorder(Latency::OneWay).sum_ps(), budget);
        let plain = run(&file(5, &channel, &listed(&packets), "1 ms"), 1);
        prop_assert_eq!(one_way(&plain), one_way(&seen));
    }
}

#[test]
fn a_cycle_of_crossbars_is_found() {
    stands_still(&hub(1, SAMPLING));
}
