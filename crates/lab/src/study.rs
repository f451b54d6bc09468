//! A study: every point with every seed, on a few threads, into tables.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::campaign::Campaign;
use crate::derived::derive;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::experiment::{Regime, RunSettings};
use crate::notes::notes;
use crate::plan::Plan;
use crate::precision::LEAST_RUNS;
use crate::rows::{FailedRuns, PointRuns};
use crate::saturation::SaturationOptions;
use crate::simulate::ChannelRun;
use crate::source::Request;
use crate::table::{Column, Table};

/// How a study is carried out; none of it changes the result of a run with one seed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Runs per point, in place of the number in the file.
    pub seeds: Option<u32>,
    /// The first seed, in place of the one in the file.
    pub seed: Option<u64>,
    /// Simulated time of one run, in place of the one in the file.
    pub length: Option<String>,
    /// How many runs are made at the same time; by default as many as there are processors for their
    /// threads.
    pub workers: Option<NonZeroUsize>,
    /// Threads of one run; by default the workers that are left if there are fewer runs.
    pub threads: Option<NonZeroUsize>,
    /// Fewer runs, for a first look: at most three per point, whatever precision is asked. A band is
    /// then judged only where the interval decides it.
    pub quick: bool,
    /// The folder in which runs are kept, and looked for before they are made.
    pub store: Option<PathBuf>,
    /// Looks for the load at which each point stops settling, in place of running it at its own.
    pub saturation: Option<SaturationOptions>,
}

/// What a study returns.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The tables by name, in the order in which a reader wants them.
    pub tables: Vec<(&'static str, Table)>,
    /// Title, section, system, presets, resolved composition, hash, version, seed, published
    /// numbers, figures, whether it was stopped.
    pub meta: Value,
    /// Whether the study was stopped before its last run.
    pub stopped: bool,
    /// How many points have no result, because a run of theirs failed.
    pub failed: usize,
    /// The plan that was carried out.
    pub plan: Plan,
}

/// Runs in the first look.
const QUICK_SEEDS: u32 = 3;

impl Options {
    /// The request with the options in it, as overrides that a person could have written.
    pub fn apply(&self, request: &Request) -> Request {
        let mut request = request.clone();
        let mut set = |key: &str, value: String| request.overrides.push(format!("{key}={value}"));
        if let Some(seeds) = self.seeds {
            set("run.seeds", seeds.to_string());
        }
        if let Some(seed) = self.seed {
            set("run.seed", seed.to_string());
        }
        if let Some(length) = &self.length {
            set("run.length", length.clone());
        }
        request
    }

    /// How many runs a point begins with.
    pub fn runs(&self, run: &RunSettings) -> u32 {
        let least = if run.precision.is_some() && !self.quick { LEAST_RUNS } else { 1 };
        let most = if self.quick { QUICK_SEEDS } else { u32::MAX };
        run.seeds.get().clamp(least, most.max(least))
    }

    /// How many runs are made at the same time.
    pub fn workers(&self) -> usize {
        let all = || {
            let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            (processors / self.threads.map_or(1, NonZeroUsize::get)).max(1)
        };
        self.workers.map_or_else(all, NonZeroUsize::get)
    }

    /// How many threads each of this many runs may have.
    pub fn threads_of(&self, runs: usize) -> NonZeroUsize {
        let left = || NonZeroUsize::new(self.workers() / runs.max(1)).unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(left)
    }
}

/// Plans and runs a request. `observe` is called with (runs done, runs in all); when it returns
/// `false` the study stops, and the tables hold the points whose runs are all finished.
pub fn run(
    request: &Request,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Outcome, Error> {
    carry_out(Plan::new(&options.apply(request))?, options, observe)
}

/// Like [`run`], with each run divided among several processes. This one is rank 0, and the others
/// [follow](crate::follow): runs are made one after another.
///
/// # Errors
/// Those of [`run`].
pub fn run_on_ranks(
    exchange: &Arc<dyn Exchange>,
    request: &Request,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Outcome, Error> {
    let mut campaign = Campaign::new(request, options)?.on_ranks(exchange);
    let stopped = campaign.run(observe)?;
    campaign.outcome(stopped)
}

/// How many runs a plan begins with.
pub fn size(plan: &Plan, options: &Options) -> usize {
    plan.points.iter().map(|point| options.runs(&point.spec.run) as usize).sum()
}

/// Runs a plan; `observe` is that of [`run`].
pub fn carry_out(
    plan: Plan,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Outcome, Error> {
    let mut campaign = Campaign::of(plan, options)?;
    let stopped = campaign.run(observe)?;
    campaign.outcome(stopped)
}

/// The tables of a study as they grow, point by point.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    points: Table,
    replications: Table,
    histograms: Table,
    budget: Table,
    collisions: Table,
    trace: Table,
    streams: Table,
    links: Table,
    samples: Table,
    pauses: Table,
    flows: Table,
    handlers: Table,
    endpoints: Table,
    ranks: Table,
    waits: Table,
    intervals: Table,
    messages: Table,
    /// What was skipped in runs, a sentence each.
    left_out: Vec<String>,
    failed: usize,
}

/// Sentences about what was skipped in runs, which are shown beside the tables.
const MOST_TOLD: usize = 3;

/// Studies of more points than this have no tables `histograms` and `links` and none of ranks, which
/// would be larger than all others together.
const MOST_HISTOGRAMS: usize = 500;

impl Tables {
    /// Adds a point whose runs are all finished, so that no mean is over fewer runs than it says.
    pub fn add(&mut self, plan: &Plan, point: usize, runs: &[Arc<[ChannelRun]>]) {
        for channel in 0..runs.first().map_or(0, |run| run.len()) {
            let of_channel = PointRuns {
                point,
                at: &plan.points[point].at,
                runs: runs.iter().map(|run| &run[channel]).collect(),
                operation: plan.points[point].spec.system.operation,
            };
            of_channel.point(&mut self.points);
            of_channel.replications(&mut self.replications);
            of_channel.budget(&mut self.budget);
            of_channel.collisions(&mut self.collisions);
            of_channel.trace(&mut self.trace);
            of_channel.streams(&mut self.streams);
            of_channel.samples(&mut self.samples);
            of_channel.pauses(&mut self.pauses);
            of_channel.flows(&mut self.flows);
            if self.left_out.len() < MOST_TOLD {
                self.left_out.extend(of_channel.left_out(plan.points.len()));
            }
            of_channel.handlers(&mut self.handlers);
            of_channel.endpoints(&mut self.endpoints);
            if plan.points.len() <= MOST_HISTOGRAMS {
                let name = &of_channel.runs[0].channel;
                if let Some(settings) = plan.points[point].spec.channel.get(name) {
                    of_channel.links(settings, &mut self.links);
                }
                of_channel.histograms(&mut self.histograms);
                of_channel.ranks([
                    &mut self.ranks,
                    &mut self.waits,
                    &mut self.intervals,
                    &mut self.messages,
                ]);
            }
        }
    }

    /// Adds a point with a failed run. It has no mean, since a mean of the other runs would not be
    /// that of the point; they keep their rows.
    pub fn add_failed(
        &mut self,
        plan: &Plan,
        point: usize,
        runs: &[Arc<[ChannelRun]>],
        failed: &FailedRuns<'_>,
    ) {
        let at = &plan.points[point].at;
        let operation = plan.points[point].spec.system.operation;
        for run in runs.iter().flat_map(|run| run.iter()) {
            PointRuns { point, at, runs: vec![run], operation }
                .replications(&mut self.replications);
        }
        failed.replications(&mut self.replications);
        failed.point(runs.len(), &mut self.points);
        self.failed += 1;
    }

    /// The result of a study.
    pub fn outcome(mut self, plan: Plan, stopped: bool, options: &Options) -> Outcome {
        for table in [&mut self.points, &mut self.replications] {
            drop_empty_columns(table);
            if self.failed > 0 {
                FailedRuns::COLUMNS.iter().for_each(|name| table.move_last(name));
            }
        }
        let always = [
            ("points", self.points),
            ("replications", self.replications),
            ("derived", derived_table(&plan)),
        ];
        let where_noted = [
            ("collisions", self.collisions),
            ("budget", self.budget),
            ("histograms", self.histograms),
            ("trace", self.trace),
            ("streams", self.streams),
            ("links", self.links),
            ("samples", self.samples),
            ("pauses", self.pauses),
            ("flows", self.flows),
            ("handlers", self.handlers),
            ("endpoints", self.endpoints),
            ("ranks", self.ranks),
            ("waits", self.waits),
            ("intervals", self.intervals),
            ("messages", self.messages),
        ];
        // An empty table reads as if something had been lost.
        let noted = where_noted.into_iter().filter(|(_, table)| table.rows() > 0);
        let tables = always.into_iter().chain(noted).collect();
        let mut meta = meta(&plan, stopped, options);
        meta["failed"] = self.failed.into();
        if let Some(notes) = meta["notes"].as_array_mut() {
            notes.extend(self.left_out.into_iter().map(Value::from));
        }
        Outcome { tables, meta, stopped, failed: self.failed, plan }
    }
}

impl Outcome {
    /// A table by name; empty if there is none.
    pub fn table(&self, name: &str) -> Table {
        let found = self.tables.iter().find(|(table, _)| *table == name);
        found.map_or_else(Table::new, |(_, table)| table.clone())
    }
}

/// Counters that stayed at zero in every row say nothing about the system: drop rules and
/// collision kinds that no part of it knows.
fn drop_empty_columns(table: &mut Table) {
    table.retain(|column: &Column| {
        let optional = ["dropped_", "collisions_", "abandoned_", "waiting_for", "reason"];
        !optional.iter().any(|start| column.name.starts_with(start)) || column.data.says_something()
    });
}

/// Values that follow from the composition of the first point without a run.
pub fn derived_table(plan: &Plan) -> Table {
    let mut table = Table::new();
    let all = plan.points.first().map(|point| derive(&point.spec));
    for derived in all.into_iter().flatten() {
        table.push([
            ("quantity", derived.name.into()),
            ("value", derived.value.into()),
            ("unit", derived.unit.into()),
            ("arithmetic", derived.arithmetic.into()),
        ]);
    }
    table
}

/// What is known of a study besides its tables.
pub fn meta(plan: &Plan, stopped: bool, options: &Options) -> Value {
    let first = plan.points.first();
    let spec = first.map(|point| &point.spec);
    json!({
        "title": spec.map(title),
        "section": spec.map(|spec| &spec.experiment.section),
        "note": spec.map(|spec| &spec.experiment.note),
        "finding": spec.map(|spec| &spec.experiment.finding),
        "system": plan.system,
        "system_title": spec.map(|spec| &spec.system.title),
        "preset": plan.presets.join("+"),
        "axes": plan.axes,
        "spec_toml": plan.written.to_toml(),
        "spec_hash": plan.hash(),
        "version": env!("CARGO_PKG_VERSION"),
        "seed": spec.map(|spec| spec.run.seed),
        "seeds": spec.map(|spec| options.runs(&spec.run)),
        "length": spec.map(|spec| spec.run.length.to_string()),
        "precision": spec.and_then(|spec| spec.run.precision),
        "regime": spec.map(|spec| match spec.run.regime {
            Regime::FromEmpty => "from empty, no warm-up".to_owned(),
            Regime::Steady => "steady state, warm-up by MSER-5".to_owned(),
            Regime::Skip(span) => format!("after {span}"),
        }),
        "notes": notes(plan),
        "stopped": stopped,
        "published": spec.map(|spec| &spec.published),
        "figures": spec.map(|spec| &spec.figure),
    })
}

fn title(spec: &crate::composition::Spec) -> &str {
    let own = &spec.experiment.title;
    if own.is_empty() { &spec.system.title } else { own }
}
