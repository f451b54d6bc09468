//! A study: every point with every seed, on a few threads, into tables.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_kernel::{Halt, Stopped};

use crate::derived::derive;
use crate::error::Error;
use crate::experiment::Regime;
use crate::parallel;
use crate::plan::Plan;
use crate::rows::PointRuns;
use crate::simulate::{ChannelRun, simulate};
use crate::source::Request;
use crate::table::{Column, Table};

/// How a study is carried out; none of it changes what a run with one seed shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Runs per point, in place of the number in the file.
    pub seeds: Option<u32>,
    /// The first seed, in place of the one in the file.
    pub seed: Option<u64>,
    /// Simulated time of one run, in place of the one in the file.
    pub length: Option<String>,
    /// Threads; as many as there are processors if absent.
    pub workers: Option<NonZeroUsize>,
    /// Fewer runs, for a first look: at most three per point.
    pub quick: bool,
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

    fn workers(&self) -> usize {
        let all = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.workers.unwrap_or_else(all).get()
    }
}

/// Plans and runs a request. `observe` is called with (runs done, runs in all); when it returns
/// `false` the study stops, and the tables hold the points of which every run was finished.
pub fn run(
    request: &Request,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Outcome, Error> {
    carry_out(Plan::new(&options.apply(request))?, options, observe)
}

/// The runs of a plan: a point and a seed each.
pub fn tasks(plan: &Plan, options: &Options) -> Vec<(usize, u64)> {
    (0..plan.points.len())
        .flat_map(|point| seeds(plan, point, options).map(move |seed| (point, seed)))
        .collect()
}

/// Runs a plan; `observe` is that of [`run`].
pub fn carry_out(
    plan: Plan,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Outcome, Error> {
    if let Some(point) = plan.points.first()
        && plan.points.iter().all(|point| point.spec.workload.is_empty())
    {
        let channels = point.spec.channel.keys().cloned().collect();
        return Err(Error::NoWorkload { channels });
    }
    let tasks = tasks(&plan, options);
    let halt = Halt::new();
    let failure = Mutex::new(None);
    let results = parallel::map(
        tasks.len(),
        options.workers(),
        &halt,
        |index| {
            let (point, seed) = tasks[index];
            let runs = simulate(&plan.points[point].spec, seed, &halt);
            runs.map_err(|error| {
                halt.ask();
                lock(&failure).get_or_insert(error);
            })
        },
        |done| observe(done, tasks.len()),
    );
    if let Some(error) = failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(error);
    }
    let mut runs: Vec<Vec<Vec<ChannelRun>>> = vec![Vec::new(); plan.points.len()];
    let mut stopped = false;
    for ((point, _), result) in tasks.into_iter().zip(results) {
        match result {
            Some(Ok(run)) if !was_asked_to_stop(&run) => runs[point].push(run),
            _ => stopped = true,
        }
    }
    Ok(Outcome::new(plan, &runs, stopped, options))
}

/// A run that was cut short by a request from outside is not a result; one that reached its own
/// step limit is.
fn was_asked_to_stop(runs: &[ChannelRun]) -> bool {
    runs.iter().any(|run| run.stopped == Some(Stopped::Asked))
}

fn seeds(plan: &Plan, point: usize, options: &Options) -> impl Iterator<Item = u64> + use<> {
    let run = &plan.points[point].spec.run;
    let most = if options.quick { QUICK_SEEDS } else { u32::MAX };
    let first = run.seed;
    (0..run.seeds.get().min(most)).map(move |index| first.wrapping_add(u64::from(index)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Outcome {
    fn new(plan: Plan, runs: &[Vec<Vec<ChannelRun>>], stopped: bool, options: &Options) -> Outcome {
        let [mut points, mut replications, mut histograms, mut budget, mut collisions, mut trace] =
            [(); 6].map(|()| Table::new());
        let [mut streams, mut links, mut samples] = [(); 3].map(|()| Table::new());
        for (index, (point, runs)) in plan.points.iter().zip(runs).enumerate() {
            // A point counts when all its runs are there, so that a stopped study holds no mean
            // over fewer runs than it says.
            if runs.len() < seeds(&plan, index, options).count() {
                continue;
            }
            for channel in 0..runs.first().map_or(0, Vec::len) {
                let of_channel = PointRuns {
                    point: index,
                    at: &point.at,
                    regime: point.spec.run.regime,
                    runs: runs.iter().map(|run| &run[channel]).collect(),
                };
                of_channel.point(&mut points);
                of_channel.replications(&mut replications);
                of_channel.histograms(&mut histograms);
                of_channel.budget(&mut budget);
                of_channel.collisions(&mut collisions);
                of_channel.trace(&mut trace);
                of_channel.streams(&mut streams);
                of_channel.links(&mut links);
                of_channel.samples(&mut samples);
            }
        }
        drop_empty_columns(&mut points);
        drop_empty_columns(&mut replications);
        let derived = derived_table(&plan);
        let meta = meta(&plan, stopped, options);
        let tables = vec![
            ("points", points),
            ("replications", replications),
            ("derived", derived),
            ("collisions", collisions),
            ("budget", budget),
            ("histograms", histograms),
            ("trace", trace),
            ("streams", streams),
            ("links", links),
            ("samples", samples),
        ];
        Outcome { tables, meta, stopped, plan }
    }

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
        let optional = ["dropped_", "collisions_", "abandoned_", "waiting_for"];
        !optional.iter().any(|start| column.name.starts_with(start)) || column.data.says_something()
    });
}

/// What follows from the composition of the first point without a run.
fn derived_table(plan: &Plan) -> Table {
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

fn meta(plan: &Plan, stopped: bool, options: &Options) -> Value {
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
        "seeds": first.map(|_| seeds(plan, 0, options).count()),
        "regime": spec.map(|spec| match spec.run.regime {
            Regime::FromEmpty => "from empty, no warm-up".to_owned(),
            Regime::Steady => "steady state, warm-up by MSER-5".to_owned(),
            Regime::Skip(span) => format!("after {span}"),
        }),
        "stopped": stopped,
        "published": spec.map(|spec| &spec.published),
        "figures": spec.map(|spec| &spec.figure),
    })
}

fn title(spec: &crate::composition::Spec) -> &str {
    let own = &spec.experiment.title;
    if own.is_empty() { &spec.system.title } else { own }
}
