//! A collective of bulk transfers, with and without fast-forward.

use serde_json::{Value, json};
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Error, Plan, Request, simulate};

use crate::process;

/// An all-reduce of 1 GB by a ring of 64 ranks at 400 Gbit/s, with packets of 4160 B that carry 4096 B: 126 rounds
/// of 3815 packets a host.
const ALL_REDUCE: &str = "
[system]
title = 'Hosts at 400 Gbit/s'
hosts = 64

[channel.net]
packet = '4160 B'
payload = '4096 B'
link = { rate = '400 Gbit/s', length = '20 m', delay_per_metre = '5 ns' }
fabric = 'star'
routes.per_connection = 'hashed'
adapter.send_buffers = 'unlimited'
switch.output_queued.latency = '300 ns'

[program]
trace.collective = { operation = 'allreduce_ring', size = '1 GB' }
";

/// One switch, where all ranks are in step, and 32 hosts at each of two leaves below 16 spines, where they are not.
const FABRICS: [(&str, &str); 2] = [
    ("star", "'star'"),
    ("leaf_spine", "{ leaf_spine = { hosts_per_leaf = 32, leaves = 2, spines = 16 } }"),
];

/// Runs it both ways in this process, on each fabric.
pub fn compare() -> Result<Value, Error> {
    let lines = FABRICS.map(|(name, fabric)| compare_on(name, fabric));
    Ok(Value::Array(lines.into_iter().collect::<Result<_, _>>()?))
}

fn compare_on(name: &str, fabric: &str) -> Result<Value, Error> {
    let (plain, plain_s) = run(fabric, false)?;
    let (fast, fast_s) = run(fabric, true)?;
    let forwarded = fast.forwarded.clone().unwrap_or_default();
    let stored = |run: ChannelRun| {
        serde_json::to_string(&ChannelRun { forwarded: None, ..run })
            .map_err(|error| Error::Job { problem: error.to_string() })
    };
    let delivered = plain.observations.delivered;
    if stored(plain)? != stored(fast)? {
        let problem = "a run with fast-forward differs from one without".to_owned();
        return Err(Error::Job { problem });
    }
    Ok(json!({
        "name": "all-reduce-fast-forward",
        "fabric": name,
        "packets": delivered,
        "skipped_packets": forwarded.packets,
        "jumps": forwarded.jumps,
        "without_cpu_s": plain_s,
        "with_cpu_s": fast_s,
        "times": plain_s / fast_s,
    }))
}

fn run(fabric: &str, is_fast: bool) -> Result<(ChannelRun, f64), Error> {
    let text = format!("{ALL_REDUCE}[run]\nfast_forward = {is_fast}\n");
    let text = text.replace("fabric = 'star'", &format!("fabric = {fabric}"));
    let plan = Plan::new(&Request::of_text("all-reduce.toml", &text))?;
    let before = process::cpu_seconds();
    let mut runs = simulate(&plan.points[0].spec, 1, &Halt::new())?;
    Ok((runs.remove(0), process::cpu_seconds() - before))
}
