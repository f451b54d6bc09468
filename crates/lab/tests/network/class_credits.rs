//! Switches with a shared buffer whose inputs give credits for the bytes of a class.

use weft_fabric::measure::Drop;

use super::shared_buffer::{column, run, star};
use super::{file, refusal};

fn refused(switch: &str, more: &str) -> String {
    let switch = format!("switch.shared_buffer = {{ latency = '90 ns', {switch} }}\n{more}");
    let text = file(4, "", "load = 0.1", "100 us");
    let hosts = if more.contains("[5]") { "hosts = 5" } else { "hosts = 4" };
    let text = text.replace("hosts = 4", hosts);
    refusal(&text.replace("switch.output_queued.latency = '90 ns'", &switch))
}

/// Throughput is credits over round trip. A packet starts with 80 ns of length; 10 ns along the cable and 300 in the
/// switch later its first byte leaves, 80 later its last, and 10 ns later its credit is back: 400 ns. So one
/// packet of credit makes a fifth of the link, and five make all of it; parts of a packet are nothing.
#[test]
fn throughput_is_credits_over_round_trip() {
    let all = "load = 1.2\npattern.shift = 1";
    for (credits, packets) in
        [(1_000, 1.0), (2_000, 2.0), (2_999, 2.0), (4_000, 4.0), (5_000, 5.0), (9_000, 5.0)]
    {
        let switch = format!("memory = '1 MB', classes.0.credits = '{credits} B'");
        let run = star(3, &switch, all, "400 us");
        let share = run.accepted_load() / (packets / 5.0);
        assert!((share - 1.0).abs() < 0.003, "{credits}: {share} of {packets} in five");
        let waits = column(&run, "class_0_paused_us") / 3.0;
        let expected = 400.0 * (1.0 - packets / 5.0);
        assert!((waits - expected).abs() < 2.0, "{credits}: {waits} for {expected}");
    }
}

/// Three hosts send to one: nothing is lost however small the buffers are, which the link of the target is kept
/// busy by.
#[test]
fn nothing_is_lost_and_the_target_gets_all_that_its_link_carries() {
    let hot = "load = 0.9\npattern.hot_spot = { target = 0, fraction = 1.0 }";
    for credits in [2_000, 6_000, 50_000] {
        let switch = format!("memory = '1 MB', classes.0.credits = '{credits} B'");
        let run = star(4, &switch, hot, "400 us");
        assert_eq!(run.observations.dropped(Drop::Overflow), 0, "{credits}");
        let carried = run.observations.delivered as f64 * 0.08 / 400.0;
        assert!(carried > 0.98, "{credits}: {carried}");
        assert_eq!(column(&run, "class_0_pauses"), 0.0, "nobody says anything: {credits}");
    }
}

/// Packets that wait for credits in one class do not delay another class.
#[test]
fn a_class_without_credit_holds_up_no_other() {
    let hot = "load = 0.9\npattern.hot_spot = { target = 0, fraction = 1.0 }\n\
               beside.probe = { class = 1, load = 0.05, pattern.shift = 1 }";
    let switch = "memory = '1 MB', classes.0.credits = '5 kB', classes.1 = { credits = '5 kB', \
                  schedule = 'strict' }";
    let run = star(4, switch, hot, "400 us");
    // 400 ns alone, and a packet of 80 ns before it at each of two ports at the most, and other probes.
    let worst = column(&run, "class_1_one_way_p99_us");
    assert!(worst < 0.8, "{worst}");
    assert!(column(&run, "class_0_one_way_p99_us") > 100.0);
}

#[test]
fn credits_in_a_cycle_are_found_before_a_run_and_during_it() {
    let ring = "fabric.torus.dimensions = [5]";
    let said = refused("memory = '1 MB', classes.0.credits = '1 kB'", ring);
    assert!(said.contains("each of which can hold up class 0"), "{said}");
    let switch = format!(
        "memory = '100 kB', classes.0.credits = '1 kB' }}\n{ring}\ndeadlock = 'allowed'\n#"
    );
    let run = star(5, &switch, "load = 1.0\npattern.shift = 2", "400 us");
    assert!(run.judgement.verdict.is_stuck(), "{:?}", run.judgement.verdict);
    let waiting = run.waiting.join("\n");
    assert!(waiting.contains("the buffers of a cycle of switches are full"), "{waiting}");
    assert!(waiting.contains("for room in the buffer of"), "{waiting}");
}

#[test]
fn credits_that_carry_nothing_or_stand_beside_pauses_are_refused() {
    let pfc = "pfc.threshold.static = { xoff = '1 kB', xon = '1 kB' }";
    let leaf = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 1 }\n\
                switches.'1.0'.output_queued.latency = '90 ns'";
    let star = "fabric = 'star'";
    for (switch, more, expected) in [
        ("memory = '1 MB', classes.0.credits = '124 B'", star, "classes.0.credits = 124 B"),
        ("memory = '1 GiB', classes.0.credits = '256 MiB'", star, "classes.0.credits = 256 MiB"),
        ("memory = '3 kB', classes.0.credits = '1 kB'", star, "shared_buffer.memory = 3 KB"),
        (
            &format!("memory = '1 MB', classes.0 = {{ credits = '1 kB', {pfc} }}"),
            star,
            "pfc or credits",
        ),
        (
            "memory = '1 MB', classes.0 = { credits = '1 kB', limit.bytes = '1 kB' }",
            star,
            "no limit beside credits",
        ),
        (
            "memory = '1 MB', classes.0.credits = '1 kB'",
            leaf,
            "shared_buffer alone where a class has credits",
        ),
    ] {
        let said = refused(switch, more);
        assert!(said.contains(expected), "{said}\nlacks: {expected}");
    }
}

/// Over leaves and spines of unlike rates, by every route, whatever was handed over arrives.
#[test]
fn credits_go_through_a_fabric_by_every_route() {
    for routes in ["per_connection = 'hashed'", "per_packet = 'random'", "per_packet = 'adaptive'"]
    {
        let text = format!(
            "[system]\ntitle = 'leaves'\nhosts = 8\n\
             [channel.c]\npacket = '1000 B'\npayload = '950 B'\n\
             link = {{ rate = '100 Gbit/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
             fabric.leaf_spine = {{ hosts_per_leaf = 4, leaves = 2, spines = 2, links = [{{}}, {{ rate = \
             '400 Gbit/s', length = '20 m' }}] }}\n\
             adapter.send_buffers = 'unlimited'\nroutes.{routes}\n\
             switch.shared_buffer = {{ latency = '300 ns', memory = '1 MB', classes.0.credits = '30 kB' }}\n\
             [workload.c]\nload = 0.6\n[run]\nlength = '200 us'\nregime = 'from_empty'\n"
        );
        let run = run(&text);
        assert_eq!(run.observations.dropped(Drop::Overflow), 0, "{routes}");
        let lost = 1.0 - run.accepted_load() / run.offered_load();
        assert!(lost < 0.03, "{routes}: {lost}");
    }
}
