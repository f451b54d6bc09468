//! From runs to rows: one per run, one per point with intervals over its runs.

mod failed;
mod flows;
mod forward;
mod handlers;
mod streams;

use weft_fabric::measure::{
    Bucket, Budget, BudgetRow, Collision, Drop, Histogram, Latency, Recorder,
};
use weft_units::{Span, Time};

use crate::simulate::ChannelRun;
use crate::statistics::{
    Estimate, Judgement, RatioTerm, Verdict, ratio, replications, start_up_bias,
};
use crate::table::{Cell, Table};

pub use failed::FailedRuns;

/// The largest bias of a start from empty queues, as a share of the half width, at which a point still
/// counts as settled. With that bias a 95 % confidence interval covers the steady mean in 83 % of
/// studies.
const TOLERATED: f64 = 0.5;

/// The runs of one channel at one point, in order of their seeds.
#[derive(Clone, Debug)]
pub struct PointRuns<'a> {
    /// The number of the point.
    pub point: usize,
    /// The value on each axis.
    pub at: &'a [(String, Cell)],
    /// The runs; at least one.
    pub runs: Vec<&'a ChannelRun>,
    /// How long a floating-point operation of a host takes, if the system says so.
    pub operation: Option<Span>,
}

pub(crate) type Row = Vec<(String, Cell)>;

/// The quantiles that are shown: name in columns, share.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];

impl PointRuns<'_> {
    /// Adds a row per run.
    pub fn replications(&self, table: &mut Table) {
        for run in &self.runs {
            let mut row = self.head(&run.channel);
            row.push(("seed".into(), run.seed.into()));
            row.extend(counts(run).into_iter().map(|(name, value)| (name, value.into())));
            row.extend(loads(run).map(|(name, value)| (name.to_owned(), value.into())));
            for latency in Latency::ALL {
                let recorder = run.observations.recorder(latency);
                if recorder.count() > 0 {
                    let mean = run.means[latency as usize].map(|estimate| estimate.mean);
                    row.push((format!("{}_mean_us", latency.name()), mean.into()));
                    quantiles(latency, recorder, &mut row);
                }
            }
            let jain = run.observations.fairness.jain();
            row.push(("jain_index".into(), jain.into()));
            if let Some(hops) = run.observations.hops.mean() {
                row.push(("hops_mean".into(), hops.into()));
            }
            row.extend(streams::columns(run).into_iter().map(|(name, own)| (name, own.into())));
            row.extend(flows::columns(run).into_iter().map(|(name, own)| (name, own.into())));
            let judgement = run.judgement;
            row.push(("verdict".into(), judgement.verdict.name().into()));
            row.push(("waiting_for".into(), waiting(run, &judgement).into()));
            row.extend(forward::sentence(run).map(|text| ("fast_forward".into(), text.into())));
            table.push(row);
        }
    }

    /// Adds one row for the point: means over its runs with the half width of their 95 %
    /// confidence interval, quantiles of all runs pooled.
    pub fn point(&self, table: &mut Table) {
        let Some(first) = self.runs.first() else { return };
        let mut row = self.head(&first.channel);
        let all: Vec<_> = self.runs.iter().map(|run| loads(run)).collect();
        for (index, (name, _)) in loads(first).into_iter().enumerate() {
            let values: Vec<f64> = all.iter().map(|loads| loads[index].1).collect();
            estimate(name, replications(&values), &mut row);
        }
        for latency in Latency::ALL {
            self.latency(latency, &mut row);
        }
        let all: Vec<_> = self.runs.iter().map(|run| counts(run)).collect();
        for (index, (name, _)) in counts(first).into_iter().enumerate() {
            let sum: f64 = all.iter().map(|counts| counts[index].1).sum();
            row.push((name, (sum / all.len() as f64).into()));
        }
        let jain: Vec<f64> =
            self.runs.iter().filter_map(|run| run.observations.fairness.jain()).collect();
        row.push(("jain_index".into(), replications(&jain).map(|jain| jain.mean).into()));
        let hops: Vec<f64> =
            self.runs.iter().filter_map(|run| run.observations.hops.mean()).collect();
        if let Some(hops) = replications(&hops) {
            row.push(("hops_mean".into(), hops.mean.into()));
        }
        let all: Vec<_> = self.runs.iter().map(|run| streams::columns(run)).collect();
        for (index, (name, _)) in streams::columns(first).into_iter().enumerate() {
            let values: Vec<f64> =
                all.iter().filter_map(|own| own.get(index)).map(|own| own.1).collect();
            estimate(&name, replications(&values), &mut row);
        }
        self.flow_columns(&mut row);
        row.push(("verdict".into(), self.verdict().name().into()));
        row.push(("replications".into(), (self.runs.len() as u64).into()));
        table.push(row);
    }

    /// Adds the distribution of each latency over all runs of the point, and of completion times of flows, in steps of
    /// at most a twentieth of an octave, so that a page can draw it.
    pub fn histograms(&self, table: &mut Table) {
        for latency in Latency::ALL {
            self.histogram(latency.name(), &self.pooled(latency), table);
        }
        self.completions(table);
    }

    fn histogram(&self, name: &str, recorder: &Recorder, table: &mut Table) {
        for Bucket { lowest, highest, count } in coarse(recorder.histogram()) {
            let mut row = self.head(&self.runs[0].channel);
            row.push(("latency".into(), name.into()));
            row.push(("lower_us".into(), Span(lowest).as_us().into()));
            row.push(("upper_us".into(), Span(highest + 1).as_us().into()));
            row.push(("count".into(), (count as f64).into()));
            table.push(row);
        }
    }

    /// Adds where the time of a packet went, stage by stage.
    pub fn budget(&self, table: &mut Table) {
        let mut budget = Budget::default();
        let mut packets = 0;
        for run in &self.runs {
            budget.merge(&run.observations.budget);
            packets += run.usual().count();
        }
        for BudgetRow { stage, mean_ps, share } in budget.rows(packets) {
            let mut row = self.head(&self.runs[0].channel);
            row.push(("stage".into(), stage.into()));
            row.push(("mean_us".into(), (mean_ps * 1e-6).into()));
            row.push(("share".into(), share.into()));
            table.push(row);
        }
    }

    /// Adds collisions per transmission by what was collided with.
    pub fn collisions(&self, table: &mut Table) {
        for kind in Collision::ALL {
            let rates: Vec<RatioTerm> = self.runs.iter().map(|run| rate(run, kind)).collect();
            if rates.iter().all(|own| own.numerator == 0.0) {
                continue;
            }
            let mut row = self.head(&self.runs[0].channel);
            row.push(("collided_with".into(), kind.name().into()));
            estimate("collisions_per_attempt", ratio(&rates), &mut row);
            table.push(row);
        }
    }

    /// Adds every recorded transmission, in order of time within a run.
    pub fn trace(&self, table: &mut Table) {
        for run in &self.runs {
            for entry in &run.trace {
                let mut row = self.head(&run.channel);
                let us = |time: Time| time.since(Time::ZERO).as_us();
                let host = |host: Option<u32>| host.map(f64::from);
                row.push(("seed".into(), run.seed.into()));
                row.push(("time_us".into(), us(entry.time).into()));
                row.push(("until_us".into(), us(entry.until).into()));
                row.push(("kind".into(), entry.kind.into()));
                row.push(("sequence".into(), entry.sequence.into()));
                row.push(("initiator".into(), host(entry.initiator).into()));
                row.push(("target".into(), host(entry.target).into()));
                row.push(("slot".into(), entry.slot.map(|slot| slot as f64).into()));
                row.push(("content".into(), entry.content.as_str().into()));
                table.push(row);
            }
        }
    }

    /// Adds what the ranks of a program did, in the order of [`RankReport::rows`].
    ///
    /// [`RankReport::rows`]: crate::program::RankReport::rows
    pub fn ranks(&self, mut tables: [&mut Table; 4]) {
        for (run, report) in self.runs.iter().filter_map(|run| Some((run, run.ranks.as_ref()?))) {
            for (table, (_, rows)) in tables.iter_mut().zip(report.rows()) {
                let mut head = self.head(&run.channel);
                head.pop();
                head.push(("seed".into(), run.seed.into()));
                for row in rows {
                    let own = row.into_iter().map(|(name, cell)| (name.to_owned(), cell));
                    table.push(head.iter().cloned().chain(own));
                }
            }
        }
    }

    /// What was skipped in the first run of this point, which is one of `points` points, if that
    /// was requested.
    pub fn left_out(&self, points: usize) -> Option<String> {
        let run = self.runs.first()?;
        let sentence = forward::sentence(run)?;
        let of_point = if points > 1 { format!(", point {}", self.point) } else { String::new() };
        Some(format!("channel {}{of_point}: {sentence}", run.channel))
    }

    /// The verdict on the point: the worst of its runs; transient, too, where starting from empty
    /// queues moves the mean by more than half of its half width.
    pub fn verdict(&self) -> Verdict {
        let verdicts = self.runs.iter().map(|run| run.judgement.verdict);
        match verdicts.max().unwrap_or(Verdict::Settled) {
            Verdict::Settled if self.shows_start_up() => Verdict::Transient,
            verdict => verdict,
        }
    }

    /// Whether the mean latency is known so precisely that it can be seen to depend on the length of
    /// the run.
    fn shows_start_up(&self) -> bool {
        let Some(first) = self.runs.first() else { return false };
        let latency = first.usual_latency();
        let Some(half_width) = self.across(latency).and_then(|across| across.half_width_95) else {
            return false;
        };
        let courses: Vec<&[f64]> = self
            .runs
            .iter()
            .map(|run| &run.course_of_latency[..])
            .filter(|course| !course.is_empty())
            .collect();
        start_up_bias(&courses).is_some_and(|bias| bias.abs() > half_width * TOLERATED)
    }

    /// The mean of a latency in microseconds: of the only run, or over several.
    fn across(&self, latency: Latency) -> Option<Estimate> {
        let means: Vec<Estimate> =
            self.runs.iter().filter_map(|run| run.means[latency as usize]).collect();
        match means[..] {
            [only] => Some(only),
            _ => replications(&means.iter().map(|one| one.mean).collect::<Vec<_>>()),
        }
    }

    pub(crate) fn head(&self, channel: &str) -> Row {
        head(self.point, self.at, channel)
    }

    fn latency(&self, latency: Latency, row: &mut Row) {
        let name = latency.name();
        let Some(across) = self.across(latency) else { return };
        // Deliveries before everything stopped say nothing about a latency.
        let is_stuck = self.verdict().is_stuck();
        let across = Some(across).filter(|_| !is_stuck);
        row.push((format!("{name}_mean_us"), across.map(|across| across.mean).into()));
        let half_width = across.and_then(|across| across.half_width_95);
        row.push((format!("{name}_half_width_us"), half_width.into()));
        let pooled = if is_stuck { Recorder::default() } else { self.pooled(latency) };
        quantiles(latency, &pooled, row);
        if let (Latency::OneWay, Some(operation)) = (latency, self.operation) {
            let ratio = across.map(|across| across.mean / operation.as_us());
            row.push(("q_ratio".into(), ratio.into()));
        }
    }

    fn pooled(&self, latency: Latency) -> Recorder {
        let mut pooled = Recorder::default();
        self.runs.iter().for_each(|run| pooled.merge(run.observations.recorder(latency)));
        pooled
    }
}

/// The columns that say where a row belongs.
fn head(point: usize, at: &[(String, Cell)], channel: &str) -> Row {
    let mut row: Row = vec![("point".into(), (point as u64).into())];
    row.extend(at.iter().cloned());
    row.push(("channel".into(), channel.into()));
    row
}

/// Rates and shares, which have an interval over runs.
fn loads(run: &ChannelRun) -> [(&'static str, f64); 4] {
    let seconds = run.measured().as_secs();
    let payload = run.observations.payload_measured.0 as f64;
    [
        ("offered_load", run.offered_load()),
        ("accepted_load", run.accepted_load()),
        ("accepted_mb_per_s", payload / seconds * 1e-6),
        ("accepted_mb_per_s_per_host", payload / seconds * 1e-6 / f64::from(run.hosts)),
    ]
}

/// Counts. Only counts that are positive on some channel become columns.
fn counts(run: &ChannelRun) -> Vec<(String, f64)> {
    let seen = &run.observations;
    let mut counts = vec![
        ("generated_packets".to_owned(), seen.generated as f64),
        ("delivered_packets".to_owned(), seen.delivered as f64),
        ("abandoned_packets".to_owned(), seen.abandoned as f64),
        ("backlog_packets".to_owned(), run.backlog as f64),
        ("in_flight_packets".to_owned(), run.in_flight as f64),
        ("attempts".to_owned(), seen.attempts as f64),
    ];
    for rule in Drop::ALL {
        counts.push((format!("dropped_{}", rule.name()), seen.dropped(rule) as f64));
    }
    for kind in Collision::ALL {
        counts.push((format!("collisions_{}", kind.name()), seen.collisions(kind) as f64));
    }
    counts.extend(forward::counts(run));
    counts.extend(run.counters.iter().map(|(name, value)| (name.clone().into_owned(), *value)));
    counts
}

/// Collisions per attempt.
fn rate(run: &ChannelRun, kind: Collision) -> RatioTerm {
    let seen = &run.observations;
    RatioTerm { numerator: seen.collisions(kind) as f64, denominator: seen.attempts as f64 }
}

fn quantiles(latency: Latency, recorder: &Recorder, row: &mut Row) {
    let name = latency.name();
    for (quantile, share) in QUANTILES {
        let value = recorder.quantile(share).map(Span::as_us);
        row.push((format!("{name}_{quantile}_us"), value.into()));
    }
    row.push((format!("{name}_max_us"), recorder.max().map(Span::as_us).into()));
}

fn estimate(name: &str, estimate: Option<Estimate>, row: &mut Row) {
    row.push((name.to_owned(), estimate.map(|estimate| estimate.mean).into()));
    let half_width = estimate.and_then(|estimate| estimate.half_width_95);
    row.push((format!("{name}_half_width"), half_width.into()));
}

/// What waits for what if a run is stuck, or which flows have no route left.
fn waiting(run: &ChannelRun, judgement: &Judgement) -> String {
    match judgement.verdict.names_who_waits() {
        true => run.waiting.join("; "),
        false => String::new(),
    }
}

/// The buckets of a histogram, neighbours joined until each spans a twentieth of its value.
fn coarse(histogram: &Histogram) -> Vec<Bucket> {
    let mut joined: Vec<Bucket> = Vec::new();
    for bucket in histogram.buckets() {
        match joined.last_mut() {
            Some(last) if bucket.highest <= last.lowest + last.lowest / 20 => {
                last.highest = bucket.highest;
                last.count += bucket.count;
            }
            _ => joined.push(bucket),
        }
    }
    joined
}
