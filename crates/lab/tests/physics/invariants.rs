//! What holds for every switch at every load.

use proptest::prelude::*;
use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::statistics::Verdict;
use weft_lab::{ChannelRun, Plan, Request, simulate};

fn one(text: &str, seed: u64) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("my.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, seed, &Halt::new()).expect(text);
    runs.into_iter().next().expect("a channel")
}

/// Every shipped kind of switch between eight hosts.
const SWITCHES: &[&str] = &[
    "switch.scheduled = { latency = '90 ns', lead = '100 ns', scheduler = 'islip' }",
    "switch.input_queued = { latency = '90 ns', scheduler = 'islip' }",
    "switch.input_queued = { latency = '90 ns', queues = 'fifo', scheduler = 'random_maximal' }",
    "switch.output_queued = { latency = '90 ns' }",
    "switch.output_queued = { latency = '90 ns' }\nfabric.k_ary_tree = { arity = 2, levels = 3 }",
    "switch.output_buffered = { latency = '90 ns', buffers = 4, writers = 'unlimited' }\n\
     control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }",
    "switch.crossbar = { latency = '90 ns', contention = 'drop' }\n\
     control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }",
    "switch.crossbar = { latency = '90 ns', contention = 'back_pressure' }",
    "switch.input_queued = { latency = '90 ns', buffer = 8, scheduler = 'islip' }\n\
     flow_control = 'credits'\nfabric.torus.dimensions = [8]\nroutes.per_connection = 'hashed'\n\
     flow_control.virtual_channel_credits.channels = 2",
    "switch.shared_memory = { latency = '90 ns', buffer = 16 }\nflow_control = 'credits'\n\
     fabric.k_ary_tree = { arity = 8, levels = 1 }\nroutes.per_connection = 'random'",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any switch, at any load from a tenth to twice what links carry: no link carries more
    /// than it can (a run that shows one is an error), no more arrives than was sent or than the
    /// links of the hosts carry, and a settled run has accepted what was offered.
    #[test]
    fn no_column_contradicts_a_link_or_the_verdict(
        switch in prop::sample::select(SWITCHES),
        load in 0.1_f64..2.0,
        seed in 0_u64..1_000,
        source in prop::sample::select(&["open_loop", "greedy"][..]),
    ) {
        let buffers = if switch.contains("output_queued") { "'unlimited'" } else { "8" };
        prop_assume!(source == "open_loop" || !switch.contains("output_queued"));
        let switch = match switch.contains("virtual_channel") {
            true => switch.replace("flow_control = 'credits'\n", ""),
            false => switch.to_owned(),
        };
        let load = if source == "open_loop" { format!("load = {load:.3}\n") } else { String::new() };
        let text = format!(
            "[system]\ntitle = 'any'\nhosts = 8\n[channel.d]\npacket = '64 B'\npayload = '48 B'\n\
             link = {{ rate = '1 Gbit/s', length = '2 m', delay_per_metre = '5 ns/m' }}\n\
             adapter.send_buffers = {buffers}\n{switch}\n\
             [workload.d]\nsource = '{source}'\n{load}[run]\nlength = '2 ms'\nregime = 'from_empty'\n"
        );
        let run = one(&text, seed);
        prop_assert!(run.accepted_load() <= 1.0 + 1e-9, "{} accepted\n{}", run.accepted_load(), text);
        let seen = &run.observations;
        prop_assert!(seen.delivered <= seen.generated);
        let most = run.until.0 / run.packet.0;
        for (host, delivered) in seen.fairness.delivered().iter().enumerate() {
            prop_assert!(*delivered <= most, "host {host}: {delivered} of {most}\n{text}");
        }
        if run.judgement.verdict == Verdict::Settled {
            let lost = run.offered_load() - run.accepted_load();
            prop_assert!(lost <= 0.03 + 0.03 * run.offered_load(), "{lost} lost\n{text}");
            prop_assert!(run.observations.recorder(Latency::OneWay).count() > 0);
        }
    }
}
