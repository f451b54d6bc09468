//! Links with turns, through the same door as every other channel.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod hosts;
mod laws;
mod memory;
mod operations;
mod random;
mod refusals;
mod times;
mod unlike;

use weft_fabric::measure::Latency;
use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::composition::Spec;
use weft_lab::drive::engine::Engine;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Time;

/// Maestro with all links in step, with `more` keys.
fn file(more: &str) -> String {
    format!(
        "base = 'maestro'\n[channel.network]\nturns.phase = 'aligned'\n\
         [run]\nlength = '1 ms'\nregime = 'from_empty'\n{more}"
    )
}

/// Messages of `payload` bytes: time in nanoseconds, initiator, target.
fn list(payload: u64, messages: &[(u64, u16, u16)]) -> String {
    let one = |(time, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{time} ns', from = {from}, to = {to} }}")
    };
    let all: Vec<String> = messages.iter().map(one).collect();
    format!(
        "[channel.network]\npayload = '{payload} B'\nturns.phase = 'aligned'\n\
         [workload.network]\nsource.list = [{}]\n",
        all.join(", ")
    )
}

fn listed(payload: u64, messages: &[(u64, u16, u16)], more: &str) -> String {
    format!(
        "base = 'maestro'\n[run]\nlength = '1 ms'\nregime = 'from_empty'\n{}{more}",
        list(payload, messages)
    )
}

fn spec(text: &str) -> Spec {
    let plan = Plan::new(&Request::of_text("turns.toml", text)).expect(text);
    plan.points[0].spec.clone()
}

fn run(text: &str, seed: u64) -> ChannelRun {
    let runs = simulate(&spec(text), seed, &Halt::new()).expect(text);
    runs.into_iter().next().expect("the channel")
}

fn refusal(text: &str) -> String {
    Plan::new(&Request::of_text("turns.toml", text)).expect_err(text).to_string()
}

/// The channel of a file without traffic of its own.
fn channel(text: &str) -> Engine {
    let spec = spec(text);
    let streams = Streams::new(1);
    let site = Site {
        name: "network",
        hosts: spec.system.hosts,
        streams: &streams,
        from: Time::ZERO,
        until: Time(1_000_000_000_000),
        sample: None,
    };
    match Driver::new(&spec.channel["network"], None, site).expect(text) {
        Driver::Engine(channel) => *channel,
        other => panic!("a channel with turns, not {other:?}"),
    }
}

/// The longest time from handing over to delivery, in nanoseconds.
fn one_way_ns(run: &ChannelRun) -> u64 {
    let longest = run.observations.recorder(Latency::OneWay).max();
    longest.expect("a message was delivered").0 / 1_000
}

fn column(run: &ChannelRun, name: &str) -> f64 {
    let found = run.counters.iter().find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("no column {name}")).1
}
