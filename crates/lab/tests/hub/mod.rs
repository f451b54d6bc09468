//! Mapped windows around a hub: hand-worked times, laws, published numbers, refusals.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

mod cluster;
mod hosts;
mod laws;
mod operations;
mod pages;
mod programs;
mod refusals;
mod services;
mod times;

use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};

/// The run of the first point of a shipped name, or the reason for which there is none.
fn try_run(name: &str, preset: &str, overrides: &[&str]) -> Result<ChannelRun, weft_lab::Error> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let plan = Plan::new(&Request::new(name, Some(preset), &overrides))?;
    let mut runs = simulate(&plan.points[0].spec, 1, &Halt::new())?;
    Ok(runs.remove(0))
}

fn run(name: &str, preset: &str, overrides: &[&str]) -> ChannelRun {
    try_run(name, preset, overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn megabytes_per_second(run: &ChannelRun) -> f64 {
    run.observations.payload_measured.0 as f64 / run.measured().as_secs() * 1e-6
}
