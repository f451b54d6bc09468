//! Every driver records when each packet is in flight, so that every system has a space-time
//! picture.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use weft_lab::{Halt, Plan, Request, simulate};

/// The trace of 40 us of a file, each entry with its kind, its ends and how long it took.
fn passages(base: &str, more: &str) -> Vec<(&'static str, Option<u32>, Option<u32>, u64)> {
    let text = format!(
        "base = '{base}'\n[run]\nlength = '400 us'\nregime = 'from_empty'\ntrace = true\n{more}"
    );
    let plan = Plan::new(&Request::of_text("trace.toml", &text)).expect(&text);
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(&text);
    let run = runs.into_iter().next().expect("a channel");
    assert!(run.trace.is_sorted_by_key(|entry| entry.time), "{base}");
    let delivered = run.observations.delivered as usize;
    let arrived = run.trace.iter().filter(|entry| entry.until <= run.until).count();
    if run.trace.iter().any(|entry| ["packet", "message"].contains(&entry.kind)) {
        // Arrivals within the last slot are not counted any more.
        assert!(
            arrived.abs_diff(delivered) <= 16,
            "{base}: {arrived} arrived, {delivered} counted"
        );
    }
    let one = |entry: &weft_lab::drive::trace::TraceEntry| {
        (entry.kind, entry.initiator, entry.target, entry.until.since(entry.time).0)
    };
    run.trace.iter().map(one).collect()
}

#[test]
fn every_system_tells_what_is_on_its_way_when() {
    let cases = [
        ("clint", "[workload.bulk]\nload = 0.2\n", "breq"),
        ("clint", "[workload.quick]\nload = 0.2\n", "qreq"),
        ("maestro", "[workload.network]\nload = 0.2\n", "frame"),
        ("clan", "[workload.fabric]\nload = 0.1\n", "packet"),
        ("memory-channel-2", "[workload.memory]\nload = 0.1\n", "packet"),
        ("scilan", "[workload.sci]\nload = 0.05\n", "message"),
        ("maestro", "[channel.network.host]\n[workload.network]\nload = 0.4\n", "message"),
    ];
    for (base, more, kind) in cases {
        let found = passages(base, more);
        assert!(found.iter().filter(|own| own.0 == kind).count() > 3, "{base}: {found:?}");
        let ends = found.iter().filter(|own| own.0 == kind);
        assert!(ends.clone().all(|own| own.1 != own.2), "{base}: from a host to itself");
    }
}

/// A bulk packet of Clint takes its slot pipeline's constant time: the packet, the switch and two
/// cables of 5 m: 8344 + 1.5 + 50 ns.
#[test]
fn a_packet_of_a_slotted_channel_takes_packet_switch_and_wires() {
    let found = passages("clint", "[workload.bulk]\nload = 0.2\n");
    assert!(found.iter().all(|own| own.3 == found[0].3), "{found:?}");
    assert_eq!(found[0].3, 8_344_000 + 1_500 + 50_000);
}

/// What a run shows besides its trace. Its steps are in no table: a scheduled switch is driven by
/// slots, and by events where it is traced.
fn shown(base: &str, more: &str, run: &str) -> String {
    let text = format!("base = '{base}'\n{more}[run]\nlength = '400 us'\n{run}");
    let plan = Plan::new(&Request::of_text("looking.toml", &text)).expect(&text);
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(&text);
    let delivered: u64 = runs.iter().map(|run| run.observations.delivered).sum();
    assert!(delivered > 5, "{text}");
    let shown = runs.iter().map(|run| {
        assert_eq!(run.stopped, None, "{text}");
        let seen = format!("{:?}", run.observations).replace("Some([])", "None");
        format!("{} {} {seen}\n", run.backlog, run.in_flight)
    });
    shown.collect()
}

/// A trace that is noted and a limit that is not reached leave every byte as it is.
#[test]
fn looking_at_a_system_changes_nothing() {
    let quick = "[workload.quick]\nload = 0.2\n";
    let both = format!("[workload.bulk]\nload = 0.2\n{quick}");
    let cases = [
        // The events by which the bulk channel is traced spend the budget on what has arrived, slots on
        // what was sent.
        ("clint", both.as_str(), false),
        ("clint", quick, true),
        ("maestro", "[workload.network]\nload = 0.2\n", true),
        ("maestro", "[channel.network.host]\n[workload.network]\nload = 0.4\n", true),
        ("clan", "[workload.fabric]\nload = 0.1\n", true),
        ("memory-channel-1", "[workload.memory]\nload = 0.1\n", true),
        ("memory-channel-2", "[workload.memory]\nload = 0.1\n", true),
        ("scilan", "[workload.sci]\nload = 0.05\n", true),
    ];
    for (base, more, is_traced) in cases {
        let plain = shown(base, more, "");
        // Not `assert_eq`, which would print both runs in full.
        assert!(shown(base, more, "step_limit = 100000000\n") == plain, "{base} with a limit");
        assert!(!is_traced || shown(base, more, "trace = true\n") == plain, "{base} traced");
    }
}
