//! Flows: completion times by hand, what becomes of packets, and the laws of congestion control.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod beside;
mod closed;
mod collectives;
mod failures;
mod infiniband;
mod laws;
mod messages;
mod parts;
mod plane_failures;
mod planes;
mod rails;
mod refusals;
mod roce;
mod times;

use proptest::prelude::*;
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

/// A channel at a rate with packets of 1000 bytes, 950 of them payload, cables of 10 ns and switches of
/// 300 ns.
struct Channel<'a> {
    hosts: u32,
    rate: &'a str,
    fabric: &'a str,
    switch: &'a str,
    transport: &'a str,
    workload: &'a str,
    run: &'a str,
}

impl Default for Channel<'_> {
    fn default() -> Self {
        Channel {
            hosts: 4,
            rate: "100 Gbit/s",
            fabric: "",
            switch: "memory = '10 MB'",
            transport: "",
            workload: "",
            run: "length = '100 us'\nregime = 'from_empty'",
        }
    }
}

impl Channel<'_> {
    fn text(&self) -> String {
        let Channel { hosts, rate, fabric, switch, transport, workload, run } = self;
        format!(
            "[system]\ntitle = 'flows'\nhosts = {hosts}\n\
             [channel.c]\npacket = '1000 B'\npayload = '950 B'\n\
             link = {{ rate = '{rate}', length = '2 m', delay_per_metre = '5 ns' }}\n{fabric}\n\
             adapter.send_buffers = 'unlimited'\n\
             switch.shared_buffer = {{ latency = '300 ns', {switch} }}\n\
             [channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'\n{transport}\n\
             [workload.c.source.flows]\n{workload}\n\
             [run]\n{run}\n"
        )
    }

    fn run_with(&self, seed: u64) -> ChannelRun {
        run(&self.text(), seed)
    }

    fn run(&self) -> ChannelRun {
        self.run_with(1)
    }

    /// Why it cannot be run.
    fn refusal(&self) -> String {
        refusal(&self.text())
    }
}

/// The channel of a file, run with a seed.
fn run(text: &str, seed: u64) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("c.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, seed, &Halt::new()).expect(text);
    runs.into_iter().next().expect("the channel")
}

/// Why a file is refused, before it is run or then.
fn refusal(text: &str) -> String {
    let plan = match Plan::new(&Request::of_text("c.toml", text)) {
        Ok(plan) => plan,
        Err(error) => return error.to_string(),
    };
    simulate(&plan.points[0].spec, 1, &Halt::new()).expect_err(text).to_string()
}

/// The counters of flows.
fn count(run: &ChannelRun, name: &str) -> f64 {
    let report = run.flows.as_ref().expect("flows");
    report.counts.iter().find(|own| own.0 == name).expect(name).1
}

/// The completion times of the only flow of each bin, with how long it takes alone.
fn completions(run: &ChannelRun) -> Vec<(Span, Span)> {
    let bins = &run.flows.as_ref().expect("flows").bins;
    let one = |own: &weft_fabric::measure::Recorder| {
        assert_eq!(own.count(), 1);
        own.max().expect("one")
    };
    bins.iter().map(|bin| (one(&bin.completion), one(&bin.alone))).collect()
}

/// Two runs show the same, and more than fifty flows come to their end, all that there are.
fn ends_the_same_with_every_flow(text: &str, seed: u64) -> Result<(), TestCaseError> {
    let [one, other] = [run(text, seed), run(text, seed)];
    prop_assert!(
        serde_json::to_string(&one).ok() == serde_json::to_string(&other).ok(),
        "{}",
        text
    );
    let flows = one.flows.as_ref().expect("flows");
    prop_assert_eq!((flows.unfinished, flows.unreachable), (0, 0), "{}", text);
    prop_assert!(flows.bins.iter().map(|bin| bin.completion.count()).sum::<u64>() > 50);
    Ok(())
}
