//! Intervals and verdicts against the queue whose answers are known: M/M/1, from empty.
//!
//! The mean wait is rho / (1 - rho) service times (Kleinrock, Queueing Systems I, 3.2).

#![allow(clippy::unwrap_used, reason = "a run without an estimate must fail the test")]

use std::collections::VecDeque;

use weft_fabric::measure::{Latency, Observations};
use weft_kernel::Streams;
use weft_lab::statistics::{Ending, Verdict, judge, replications, steady_state};
use weft_units::{Bytes, Span, Time};

const SERVICE_PS: f64 = 1e6;
const CUSTOMERS: u64 = 60_000;
const SEEDS: u64 = 200;

/// Waits of one queue by Lindley's recursion, with departures in their place in time.
fn queue(rho: f64, seed: u64, customers: u64) -> (Observations, Time) {
    let streams = Streams::new(seed);
    let mut arrivals = streams.stream("arrival", 0);
    let mut services = streams.stream("service", 0);
    let end = Time((customers as f64 * SERVICE_PS / rho) as u64);
    let mut seen = Observations::over(Time::ZERO, end);
    let (mut now, mut free, mut inside) = (Time::ZERO, Time::ZERO, VecDeque::new());
    loop {
        now += Span((arrivals.exponential() * SERVICE_PS / rho) as u64);
        while inside.front().is_some_and(|&departure| departure <= now.min(end)) {
            let departure = inside.pop_front().unwrap_or(end);
            seen.deliver(departure, Bytes(1));
        }
        if now > end {
            return (seen, end);
        }
        seen.generate(now);
        let start = now.max(free);
        seen.latency(Latency::Queueing, now, start.since(now));
        free = start + Span((services.exponential() * SERVICE_PS) as u64);
        inside.push_back(free);
    }
}

fn verdict(rho: f64, seed: u64, customers: u64) -> Verdict {
    let (seen, end) = queue(rho, seed, customers);
    let warm_up = steady_state(&seen.recorder(Latency::Queueing).series().means_ps());
    judge(&seen.progress(end), Ending::default(), warm_up.map(|(_, warm_up)| warm_up)).verdict
}

/// How many of the runs have intervals that cover the true mean: by batch means after the
/// warm-up, and as if every wait were independent of the one before.
fn covered(rho: f64) -> (usize, usize) {
    let truth = rho / (1.0 - rho) * SERVICE_PS;
    let covers = |mean: f64, half_width: f64| usize::from((mean - truth).abs() <= half_width);
    let (mut batches, mut naive) = (0, 0);
    for seed in 1..=SEEDS {
        let (seen, _) = queue(rho, seed, CUSTOMERS);
        let waits = seen.recorder(Latency::Queueing);
        let (estimate, _) = steady_state(&waits.series().means_ps()).unwrap();
        batches += covers(estimate.mean, estimate.half_width_95.unwrap());

        let (count, mean) = (waits.count() as f64, waits.mean_ps().unwrap());
        let buckets = waits.histogram().buckets();
        let squares: f64 = buckets
            .map(|own| (own.lowest.midpoint(own.highest) as f64 - mean).powi(2) * own.count as f64)
            .sum();
        naive += covers(mean, 1.96 * (squares / (count * count)).sqrt());
    }
    (batches, naive)
}

#[test]
fn intervals_cover_the_true_mean_and_naive_ones_do_not() {
    for rho in [0.5, 0.8, 0.9] {
        let (batches, naive) = covered(rho);
        println!("load {rho}: of {SEEDS} runs batch means cover in {batches}, naive in {naive}");
        assert!(batches >= 176, "load {rho}: covered in {batches} of {SEEDS}, less than 88 %");
        assert!(naive < 120, "load {rho}: naive intervals cover in {naive} of {SEEDS}");
    }
}

#[test]
fn replications_cover_the_true_mean() {
    // 40 experiments of ten seeds each: the interval over means of single runs.
    let truth = 0.5 / 0.5 * SERVICE_PS;
    let mean = |seed| queue(0.5, seed, 5_000).0.recorder(Latency::Queueing).mean_ps();
    let covered = (0..40).filter(|experiment| {
        let means: Vec<f64> =
            (1..=10).filter_map(|seed| mean(1000 + experiment * 10 + seed)).collect();
        let estimate = replications(&means).unwrap();
        (estimate.mean - truth).abs() <= estimate.half_width_95.unwrap()
    });
    let covered = covered.count();
    assert!((35..=40).contains(&covered), "covered in {covered} of 40");
}

#[test]
fn verdicts_follow_the_load() {
    let share = |rho: f64, customers: u64, wanted: Verdict| {
        let found = (1..=40).filter(|&seed| verdict(rho, seed, customers) == wanted).count();
        println!("load {rho}, {customers} customers: {wanted} in {found} of 40 runs");
        found
    };
    assert!(share(0.5, CUSTOMERS, Verdict::Settled) >= 38);
    assert!(share(0.9, CUSTOMERS, Verdict::Settled) >= 36);
    // At 0.98 the relaxation time is a sixth of the run: some runs say that they are too short,
    // but hardly one that the load is beyond the limit.
    assert!(share(0.98, CUSTOMERS, Verdict::Settled) >= 20);
    assert!(share(0.98, CUSTOMERS, Verdict::Saturated) <= 3);
    assert!(share(1.05, CUSTOMERS, Verdict::Saturated) >= 36);
    assert!(share(1.05, CUSTOMERS, Verdict::Settled) == 0);
    assert!(share(1.5, CUSTOMERS, Verdict::Saturated) == 40);
    assert!(share(1.5, 2_000, Verdict::Saturated) >= 38);
}

#[test]
fn a_run_stopped_early_says_so() {
    let (seen, end) = queue(0.9, 1, 1_000);
    assert_eq!(
        judge(&seen.progress(end), Ending { stopped: true, ..Ending::default() }, None).verdict,
        Verdict::Stopped
    );
}
