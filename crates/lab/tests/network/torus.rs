//! Tori and meshes: hop counts and picoseconds worked by hand, the load that they carry, and rings
//! of buffers that wait for each other with and without virtual channels.
//!
//! A packet takes 1 us on a link, a cable 20 ns and a switch 90 ns.

use weft_fabric::measure::Latency;
use weft_lab::statistics::{Ending, Verdict, judge};
use weft_lab::{Cell, ChannelRun, Options, Request};

use super::{file, refusal, run, voq};

fn list(packets: &[(u64, u16, u16)]) -> String {
    let one = |(ns, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", packets.join(", "))
}

/// One-way latency in nanoseconds of a packet alone.
fn one_way(run: &ChannelRun) -> u64 {
    let seen = run.observations.recorder(Latency::OneWay);
    assert_eq!(seen.count(), 1);
    seen.max().map_or(0, |span| span.0 / 1_000)
}

/// Switch 6 is at 2.1 and 15 at 3.3: host 0 is one step away from host 3 where rows close, and
/// three where they do not.
#[test]
fn packets_go_the_shorter_way_round() {
    let torus = "fabric.torus.dimensions = [4, 4]";
    let mesh = "fabric.mesh.dimensions = [4, 4]";
    let cases = [
        // Switches passed, of which each costs 90 ns and 20 ns of cable besides the first cable.
        (torus, 0, 0, 1),
        (torus, 0, 3, 2),
        (torus, 0, 6, 4),
        (torus, 0, 15, 3),
        (torus, 15, 0, 3),
        (mesh, 0, 3, 4),
        (mesh, 0, 6, 4),
        (mesh, 15, 0, 7),
    ];
    for (channel, from, to, switches) in cases {
        let list = list(&[(5_000, from, to)]);
        let queues = run(&file(16, channel, &list, "100 us"), 1);
        assert_eq!(one_way(&queues), 1_020 + switches * 110, "{channel}: {from} to {to}");
        // At the first crossbar at 5000 ns, the very beginning of a slot, and a slot further each.
        let list = list.replace("5000 ns", "4890 ns");
        let channel = format!("{channel}\ndeadlock = 'allowed'");
        let slots = run(&voq(16, "buffer = 4", &channel, &list, "100 us"), 1);
        let expected = 110 + (switches - 1) * 1_000 + 1_020;
        assert_eq!(one_way(&slots), expected, "{channel}: {from} to {to}");
    }
}

/// A row of 400 switches, of which a packet passes all and more than eight bits count, by listed routes as well.
#[test]
fn a_long_row_is_passed_from_end_to_end() {
    let row = "fabric.mesh.dimensions = [400]";
    let names: Vec<String> = (0..400).map(|switch| format!("'{switch}'")).collect();
    let given = format!(
        "{row}\nroutes.per_connection.given = [{{ from = 0, to = 399, switches = [{}] }}]",
        names.join(", ")
    );
    for channel in [row, &given] {
        let run = run(&file(400, channel, &list(&[(5_000, 0, 399)]), "100 us"), 1);
        assert_eq!(one_way(&run), 1_020 + 400 * 110);
        assert_eq!(run.observations.hops.mean(), Some(400.0));
    }
}

/// Two hosts at each switch: the one that is asked for is the one that gets it.
#[test]
fn switches_have_several_hosts() {
    let ring = "fabric.torus = { dimensions = [4], hosts_per_switch = 2 }";
    let run = run(&file(8, ring, &list(&[(5_000, 0, 7)]), "100 us"), 1);
    assert_eq!(one_way(&run), 1_020 + 2 * 110);
    let run = super::run(&file(8, ring, &list(&[(5_000, 0, 1)]), "100 us"), 1);
    assert_eq!(one_way(&run), 1_020 + 110);
}

/// Under uniform traffic each dimension of k switches costs k/4 steps in the mean, which two cables
/// a switch and dimension share: with h hosts a switch they are full at a load of 8/(k h), where
/// half of all traffic crosses the bisection (Dally and Towles, Principles and Practices of
/// Interconnection Networks, 3.3.1).
#[test]
fn a_torus_carries_uniform_traffic_up_to_its_bisection() {
    let torus = "fabric.torus = { dimensions = [8, 4], hosts_per_switch = 2 }";
    let at = |load: f64, length: &str| {
        let workload = format!("load = {load}\npattern.uniform.self_included = true");
        run(&file(64, torus, &workload, length), 1)
    };
    let bound = 8.0 / (8.0 * 2.0);
    let below = at(0.95 * bound, "10 ms");
    assert!((below.accepted_load() / below.offered_load() - 1.0).abs() < 0.01);
    let hops = below.observations.hops.delivered();
    let sum: u64 = (0..).zip(hops).map(|(switches, count)| switches * count).sum();
    let mean = sum as f64 / hops.iter().sum::<u64>() as f64;
    assert!((mean - (1.0 + 2.0 + 1.0)).abs() < 0.02, "{mean} switches");
    let above = at(1.1 * bound, "10 ms");
    let judgement = judge(&above.observations.progress(above.until), Ending::default(), None);
    assert_eq!(judgement.verdict, Verdict::Saturated);
    let lost = above.offered_load() - above.accepted_load();
    assert!(lost > 0.3 * (above.offered_load() - bound), "{lost}");
}

/// Eight switches in a ring and packets that go three further: every buffer fills with packets for
/// the next one. With one virtual channel the run ends stuck and reports which buffer waits for
/// which; with two nothing stands still.
#[test]
fn a_ring_needs_two_virtual_channels() {
    let workload = "load = 0.9\npattern.shift = 3";
    let ring = "fabric.torus.dimensions = [8]";
    let one = |text: &str| {
        let run = run(text, 1);
        let verdict = judge(&run.observations.progress(run.until), Ending::default(), None).verdict;
        (verdict, run)
    };
    let two = format!("{ring}\nflow_control.virtual_channel_credits.channels = 2");
    let memory = |text: String| {
        let own = "switch.shared_memory = { latency = '90 ns', buffer = 8, queues = 'per_input' }";
        text.replace("switch.output_queued.latency = '90 ns'", own)
    };
    for is_memory in [false, true] {
        let text = |channel: &str| match is_memory {
            true => memory(file(8, channel, workload, "20 ms")),
            false => voq(8, "buffer = 8", channel, workload, "20 ms"),
        };
        let (verdict, stuck) = one(&text(&format!("{ring}\ndeadlock = 'allowed'")));
        assert_eq!(verdict, Verdict::Stuck, "{is_memory}");
        let lines = stuck.waiting.join("\n");
        if !is_memory {
            let cycle: Vec<String> = (0..=8).map(|own| format!("switch {}", own % 8)).collect();
            let start = "the buffers of a cycle of switches are full and each waits for the next: ";
            assert_eq!(stuck.waiting[0], format!("{start}{}", cycle.join(", then ")));
        }
        for switch in 0..8 {
            let line = format!(
                "wait at port 1 of switch {switch} for space in the buffer of port 2 of switch {}",
                (switch + 1) % 8
            );
            assert!(lines.contains(&line), "{line}: {lines}");
        }
        let (verdict, moving) = one(&text(&two));
        assert_ne!(verdict, Verdict::Stuck, "{:?}", moving.waiting);
        // Three cables a packet, of which the one that closes the ring carries a third at the most.
        assert!(moving.accepted_load() > 0.1, "{}", moving.accepted_load());
    }
}

/// Earlier deliveries say nothing about a latency: the point has none, the run keeps its own.
#[test]
fn a_point_that_is_stuck_has_no_latency() {
    let ring = "fabric.torus.dimensions = [8]\ndeadlock = 'allowed'";
    let text = voq(8, "buffer = 8", ring, "load = 0.9\npattern.shift = 3", "20 ms");
    let request = Request::of_text("stuck.toml", &text);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(&text);
    let (points, runs) = (outcome.table("points"), outcome.table("replications"));
    assert_eq!(points.get(0, "verdict"), Some(Cell::Text("stuck".to_owned())));
    for latency in ["queueing", "one_way", "transit"] {
        for statistic in ["mean", "half_width", "p99", "max"] {
            let column = format!("{latency}_{statistic}_us");
            assert_eq!(points.get(0, &column), Some(Cell::Number(None)), "{column}");
        }
        let own = runs.get(0, &format!("{latency}_p99_us"));
        assert!(matches!(own, Some(Cell::Number(Some(_)))), "{latency}: {own:?}");
    }
    let Some(Cell::Text(reason)) = runs.get(0, "waiting_for") else { panic!("no reason") };
    assert!(reason.starts_with("the buffers of a cycle of switches are full"), "{reason}");
    assert!(outcome.meta["notes"][0].as_str().is_some_and(|note| note.contains("`stuck`")));
}

/// In two dimensions, at a load that no torus carries, and whatever the pattern.
#[test]
fn a_torus_with_two_virtual_channels_never_stands_still() {
    for pattern in ["'uniform'", "{ shift = 5 }", "'permutation'", "'bit_complement'"] {
        let workload = format!("load = 0.95\npattern = {pattern}");
        for dimensions in ["[4, 4]", "[16]", "[2, 4, 2]"] {
            let channel = format!(
                "fabric.torus.dimensions = {dimensions}\n\
                 flow_control.virtual_channel_credits.channels = 2"
            );
            let run = run(&voq(16, "buffer = 2", &channel, &workload, "6 ms"), 1);
            let verdict =
                judge(&run.observations.progress(run.until), Ending::default(), None).verdict;
            assert_ne!(verdict, Verdict::Stuck, "{channel} {pattern}: {:?}", run.waiting);
        }
    }
}

#[test]
fn a_torus_that_cannot_be_is_refused() {
    let refused = |hosts: u32, channel: &str| refusal(&file(hosts, channel, "load = 0.1", "1 ms"));
    let cases = [
        (
            refused(4, "fabric.torus.dimensions = [4, 1]"),
            "fabric.torus.dimensions[1] = 1: a dimension has 2 switches or more, got 1",
        ),
        (
            refused(4, "fabric.mesh.dimensions = [0]"),
            "fabric.mesh.dimensions[0] = 0: a dimension has 2 switches or more, got 0",
        ),
        (refused(4, "fabric.mesh.dimensions = []"), "fabric.mesh.dimensions = []"),
        (refused(17, "fabric.torus.dimensions = [4, 4]"), "at most 16, the ports for hosts of"),
        (refused(9, "fabric.torus.dimensions = [4, 500, 500]"), "at most 32768 switches"),
        (
            refused(9, "fabric.torus = { dimensions = [4, 4], hosts_per_switch = 65536 }"),
            "at most 65536 ports of a switch, two for each dimension and one a host",
        ),
        (
            refusal(&voq(
                4,
                "buffer = 9",
                "fabric.torus.dimensions = [4]\n\
                 flow_control.virtual_channel_credits.channels = 3",
                "load = 0.1",
                "1 ms",
            )),
            "a multiple of 2 virtual channels (flow_control.virtual_channel_credits.channels), other",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}
