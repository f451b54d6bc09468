//! Slots: exact picoseconds by hand, closed forms, and the laws of queueing through the whole stack,
//! from a text to a column.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use weft_fabric::measure::{Latency, Stage};
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

/// A packet of 1 us, a cable of 5 ns to the switch and from it, a switch of 10 ns, requests sampled
/// 300 ns before a transmission.
const SMALL: &str = r#"
system = { title = "small", hosts = 3 }
[channel.c]
packet = "1000 B"
payload = "900 B"
link = { rate = "8 Gbit/s", length = "1 m", delay_per_metre = "5 ns" }
adapter.send_buffers = "unlimited"
switch.scheduled = { latency = "10 ns", lead = "300 ns", scheduler = "least_choice_first" }
[run]
length = "20 us"
regime = "from_empty"
"#;

fn run(text: &str) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("test.toml", text)).expect("a legal text");
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect("a run");
    runs.into_iter().next().expect("a channel with a workload")
}

fn with(text: &str) -> ChannelRun {
    run(&format!("{SMALL}\n{text}"))
}

fn list(packets: &[(&str, u16, u16)]) -> String {
    let packets: Vec<String> = packets
        .iter()
        .map(|(time, from, to)| format!("{{ time = {time:?}, from = {from}, to = {to} }}"))
        .collect();
    format!("[workload.c]\nsource.list = [{}]\n", packets.join(", "))
}

/// Mean queueing latency in picoseconds.
fn queueing(run: &ChannelRun) -> f64 {
    run.observations.recorder(Latency::Queueing).mean_ps().expect("packets")
}

#[test]
fn one_packet_in_exact_picoseconds() {
    // Generated at 0.5 us, sampled at 1 us, sent from 1.3 us on, arrived 1 us + 10 ns + 10 ns later.
    let run = with(&list(&[("500 ns", 0, 1)]));
    assert_eq!(queueing(&run), 800_000.0);
    let one_way = run.observations.recorder(Latency::OneWay);
    assert_eq!(one_way.max(), Some(Span(800_000 + 1_000_000 + 20_000)));
    let budget = &run.observations.budget;
    let spent = [
        (Stage::BufferWait, 0),
        (Stage::SlotWait, 800_000),
        (Stage::Transmission, 1_000_000),
        (Stage::Wire, 10_000),
        (Stage::Switch, 10_000),
    ];
    for (stage, span) in spent {
        assert_eq!(budget.sum_ps(stage), span, "{}", stage.name());
    }
}

#[test]
fn no_request_is_seen_before_its_sampling_instant() {
    let seen = with(&list(&[("2 us", 0, 1)]));
    assert_eq!(queueing(&seen), 300_000.0, "at the instant itself it is seen");
    let late = with(&list(&[("2000.001 ns", 0, 1)]));
    assert_eq!(queueing(&late), 1_299_999.0, "a picosecond later it waits for the next");
}

#[test]
fn of_two_packets_for_one_target_one_waits_a_slot() {
    let run = with(&list(&[("500 ns", 0, 2), ("500 ns", 1, 2)]));
    assert_eq!(queueing(&run), (800_000.0 + 1_800_000.0) / 2.0);
}

#[test]
fn a_single_send_buffer_blocks_the_head_of_line() {
    // Host 0 has a packet for 2, which host 1 also wants, and behind it one for 1.
    let packets = list(&[("500 ns", 1, 2), ("500 ns", 0, 2), ("600 ns", 0, 1)]);
    let free = with(&packets);
    let text = SMALL.replace("\"unlimited\"", "1");
    let blocked = run(&format!("{text}\n{packets}"));
    assert!(queueing(&blocked) > queueing(&free));
    assert!(blocked.observations.budget.sum_ps(Stage::BufferWait) > 0);
    assert_eq!(free.observations.budget.sum_ps(Stage::BufferWait), 0);
}

#[test]
fn a_buffer_held_until_it_is_acknowledged_is_free_two_slots_later() {
    let packets = list(&[("500 ns", 0, 1), ("500 ns", 0, 2)]);
    let text = SMALL.replace("send_buffers = \"unlimited\"", "send_buffers = 1");
    let released = run(&format!("{text}\n{packets}"));
    // Sent from 1.3 us; the second is buffered then, sampled at 2 us, sent from 2.3 us.
    assert_eq!(queueing(&released), (800_000.0 + 1_800_000.0) / 2.0);
    let text = text.replace("adapter.send", "adapter.release = \"acknowledgment\"\nadapter.send");
    let held = run(&format!("{text}\n{packets}"));
    // Free two slots after 1.3 us, sampled at 4 us, sent from 4.3 us.
    assert_eq!(queueing(&held), (800_000.0 + 3_800_000.0) / 2.0);
}

#[test]
fn ping_pong_goes_to_and_fro_in_exact_picoseconds() {
    let run = with("[workload.c]\nsource.ping_pong = { pairs = [{ from = 0, to = 1 }] }\n");
    // 0 at time 0: sampled at 0, sent at 0.3, arrives at 1.32; answer sampled at 2, sent at 2.3.
    // So one packet every 2 us, the first waiting 300 ns and every other 980 ns, of which that of
    // 19.32 us is left.
    assert_eq!((run.observations.generated, run.backlog), (11, 1));
    let recorder = run.observations.recorder(Latency::Queueing);
    assert_eq!((recorder.min(), recorder.max()), (Some(Span(300_000)), Some(Span(980_000))));
}

#[test]
fn greedy_sources_fill_every_slot() {
    let text = SMALL.replace("\"unlimited\"", "16").replace("\"20 us\"", "\"2 ms\"");
    let run = run(&format!("{text}\n[workload.c]\nsource = \"greedy\"\npattern.shift = 1\n"));
    assert!(run.accepted_load() > 0.995, "{}", run.accepted_load());
}

#[test]
fn an_unloaded_channel_waits_half_a_slot_and_the_lead() {
    // 8.941053 us / 2 + 1.88 us, from systems/clint.toml.
    let text = "base = \"clint\"\npreset = \"fitted\"\n[workload.bulk]\nload = 0.005\n\
                [run]\nlength = \"4 s\"\nregime = \"from_empty\"\n";
    let mean = queueing(&run(text)) * 1e-6;
    assert!((mean / 6.350526 - 1.0).abs() < 0.02, "{mean}");
}

/// A cell switch of `ports` ports at a load, cells of 1 us, arrivals in slots.
fn cells(ports: usize, load: f64, switch: &str) -> ChannelRun {
    run(&format!(
        r#"
        system = {{ title = "cells", hosts = {ports} }}
        [channel.c]
        packet = "1000 B"
        payload = "1000 B"
        link.rate = "8 Gbit/s"
        adapter.send_buffers = "unlimited"
        {switch}
        [workload.c]
        load = {load}
        arrivals = "bernoulli"
        pattern = {{ uniform = {{ self_included = true }} }}
        [run]
        length = "200 ms"
        regime = {{ skip = "20 ms" }}
        "#
    ))
}

/// Karol, Hluchyj and Morgan: 2 - sqrt 2 for many ports, 0.75 for two; 0.6016 for sixteen is the
/// solution of the head-of-line Markov chain.
#[test]
fn fifo_queues_saturate_where_the_law_says() {
    let fifo = "switch.input_queued = { queues = \"fifo\", scheduler = \"random_maximal\" }";
    for (ports, limit) in [(2, 0.75), (4, 0.65524), (16, 0.60162)] {
        let accepted = cells(ports, 1.0, fifo).accepted_load();
        assert!((accepted / limit - 1.0).abs() < 0.01, "{ports} ports: {accepted}");
    }
}

/// What a cell waits, before the switch and in it, in microseconds: all but its own length.
fn waiting(run: &ChannelRun) -> f64 {
    run.observations.recorder(Latency::OneWay).mean_ps().expect("packets") * 1e-6 - 1.0
}

#[test]
fn output_queues_wait_as_the_formula_says() {
    for load in [0.5, 0.8, 0.9] {
        let waits = waiting(&cells(16, load, "switch = \"output_queued\""));
        let formula = 15.0 / 16.0 * load / (2.0 * (1.0 - load));
        let allowed = if load > 0.85 { 0.03 } else { 0.015 };
        assert!((waits / formula - 1.0).abs() < allowed, "{load}: {waits} against {formula}");
    }
}

#[test]
fn no_scheduler_beats_output_queues() {
    let bound = waiting(&cells(16, 0.8, "switch = \"output_queued\""));
    for scheduler in ["least_choice_first", "islip", "maximum_matching"] {
        let switch = format!("switch.input_queued.scheduler = \"{scheduler}\"");
        let waits = waiting(&cells(16, 0.8, &switch));
        assert!(waits > bound, "{scheduler}: {waits} against {bound}");
    }
}
