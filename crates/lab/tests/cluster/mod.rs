//! Both channels of Clint in one simulation: golden schedules, hand-worked times, laws.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod budget;
mod figures;
mod handlers;
mod hosts;
mod interfaces;
mod laws;
mod refusals;
mod shared;
mod times;

use weft_kernel::Halt;
use weft_lab::drive::trace::TraceEntry;
use weft_lab::{ChannelRun, Plan, Request, simulate};

/// The runs of the first point of a shipped name with one seed.
fn runs(name: &str, preset: Option<&str>, overrides: &[&str], seed: u64) -> Vec<ChannelRun> {
    try_runs(name, preset, overrides, seed).unwrap()
}

fn try_runs(
    name: &str,
    preset: Option<&str>,
    overrides: &[&str],
    seed: u64,
) -> Result<Vec<ChannelRun>, weft_lab::Error> {
    let mut overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    // The picoseconds here were worked out by hand with a slot of 8.983158 us; the calibrated gap
    // of the system may move without them.
    overrides.insert(0, "channel.bulk.switch.scheduled.gap=190 ns".to_owned());
    let plan = Plan::new(&Request::new(name, preset, &overrides))?;
    simulate(&plan.points[0].spec, seed, &Halt::new())
}

fn channel<'a>(runs: &'a [ChannelRun], name: &str) -> &'a ChannelRun {
    runs.iter().find(|run| run.channel == name).unwrap()
}

fn counter(run: &ChannelRun, name: &str) -> f64 {
    run.counters.iter().find(|(column, _)| *column == name).unwrap().1
}

/// Every transmission on all channels, in order of time.
fn trace(runs: &[ChannelRun]) -> Vec<&TraceEntry> {
    let mut trace: Vec<&TraceEntry> = runs.iter().flat_map(|run| &run.trace).collect();
    trace.sort_by_key(|entry| entry.time);
    trace
}
