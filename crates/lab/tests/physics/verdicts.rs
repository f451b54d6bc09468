//! No verdict contradicts the counts of the same run.

use std::path::Path;

use weft_kernel::Halt;
use weft_lab::statistics::Verdict;
use weft_lab::{Options, Plan, Request, run, simulate};

use crate::physics::{word, written};

/// A ring of four switches under credits that deadlocks, and a pair of hosts beside it that does not.
const RING_AND_PAIR: &str = "
[system]
title = 'a ring and a pair beside it'
hosts = 10
[channel.data]
packet = '64 B'
payload = '48 B'
link = { rate = '1 Gbit/s', length = '2 m', delay_per_metre = '5 ns/m' }
adapter.send_buffers = 'unlimited'
flow_control = 'credits'
deadlock = 'allowed'
routes.per_connection = 'hashed'
switch.input_queued = { latency = '100 ns', buffer = 2, cell = '64 B', scheduler.wavefront = {} }
[channel.data.fabric.table]
switches = [
  { name = 'north', ports = 6 }, { name = 'east', ports = 4 }, { name = 'south', ports = 4 },
  { name = 'west', ports = 4 },
]
cables = [
  { from = 'host 0', to = 'north.0' }, { from = 'host 1', to = 'north.1' },
  { from = 'host 8', to = 'north.4' }, { from = 'host 9', to = 'north.5' },
  { from = 'host 2', to = 'east.0' }, { from = 'host 3', to = 'east.1' },
  { from = 'host 4', to = 'south.0' }, { from = 'host 5', to = 'south.1' },
  { from = 'host 6', to = 'west.0' }, { from = 'host 7', to = 'west.1' },
  { from = 'north.3', to = 'east.2' }, { from = 'east.3', to = 'south.2' },
  { from = 'south.3', to = 'west.2' }, { from = 'west.3', to = 'north.2' },
]
[workload.data]
load = 0.4
[run]
length = '2 ms'
seeds = 3
";

#[test]
fn a_part_that_stands_still_is_not_hidden_by_what_moves() {
    let flow = |from: u16, to: u16| format!("{{ from = {from}, to = {to} }}");
    let among = |hosts: u16| (0..hosts).flat_map(move |from| (0..hosts).map(move |to| (from, to)));
    let mut flows: Vec<String> =
        among(8).filter(|(from, to)| from != to).map(|(from, to)| flow(from, to)).collect();
    flows.push(flow(8, 9));
    let text = format!("{RING_AND_PAIR}[workload.data.pattern]\nflows = [{}]\n", flows.join(", "));
    let all = written(&text);
    assert_eq!(word(&all, "verdict"), "partly stuck");
    assert_eq!(all.table("points").number(0, "queueing_mean_us"), None);
    let waiting = all.table("replications").get(0, "waiting_for").expect("a sentence").to_string();
    assert!(waiting.starts_with("no packet of hosts 0, 1, 2, 3, 4, 5, 6, 7 arrived"), "{waiting}");
    assert!(waiting.contains("a cycle of switches"), "{waiting}");
    // Unless that is said to be meant, the file is refused with the cycle of the ring.
    let refused = text.replace("deadlock = 'allowed'\n", "");
    let refused = Plan::new(&Request::of_text("ring.toml", &refused)).expect_err("a cycle");
    for switch in ["north", "east", "south", "west"] {
        assert!(refused.to_string().contains(&format!("of switch {switch}")), "{refused}");
    }
    // Without the ring's traffic the pair alone is as it should be.
    let pair = format!("{RING_AND_PAIR}[workload.data.pattern]\nflows = [{}]\n", flow(8, 9));
    assert_eq!(word(&written(&pair), "verdict"), "settled");
}

#[test]
fn a_run_of_a_nanosecond_is_too_short_to_judge() {
    for base in ["clint", "clan", "maestro", "memory-channel-2", "scilan"] {
        let text = format!("base = '{base}'\n[run]\nlength = '1 ns'\n");
        let plan = Plan::new(&Request::of_text("short.toml", &text)).expect(&text);
        for run in simulate(&plan.points[0].spec, 1, &Halt::new()).expect(&text) {
            let nothing = run.observations.generated == 0;
            let expected = if nothing { Verdict::Settled } else { Verdict::TooShort };
            assert_eq!(run.judgement.verdict, expected, "{base}, {}", run.channel);
        }
    }
}

/// iSLIP with one iteration at load 0.9 starts from empty queues and fills them for a while. Twelve
/// runs show that in their mean, whether they have just been made or were stored.
#[test]
fn a_start_from_empty_is_not_settled_where_the_interval_shows_it() {
    let text = "[system]\ntitle = 'iSLIP 1'\nhosts = 16\n[channel.cells]\npacket = '64 B'\n\
                payload = '64 B'\nlink.rate = '8 Gbit/s'\nadapter.send_buffers = 'unlimited'\n\
                switch.input_queued.scheduler.islip.iterations = 1\n\
                [workload.cells]\nload = 0.9\narrivals = 'bernoulli'\n\
                pattern = { uniform = { self_included = true } }\n\
                [run]\nlength = '8 ms'\nregime = 'from_empty'\nseeds = 12\n";
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join("physics/start");
    let _ = std::fs::remove_dir_all(&store);
    let options = Options { store: Some(store), ..Options::default() };
    for _ in 0..2 {
        let outcome = run(&Request::of_text("my.toml", text), &options, &mut |_, _| true);
        assert_eq!(word(&outcome.expect(text), "verdict"), "transient");
    }
    let steady = text.replace("'from_empty'", "'steady'");
    assert_eq!(word(&written(&steady), "verdict"), "settled");
}
