//! A study in progress: which runs it needs next, which exist, and their results.
//!
//! A campaign is asked for the runs that it needs next until there are none. They follow from the
//! plan and from existing runs, read in a fixed order, not from who makes them or when: threads of
//! this process ([`Campaign::run`]), or other processes that receive [`Job`]s. A campaign that was
//! killed and restarted therefore ends with the same result.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use weft_kernel::{Halt, Stopped};
use weft_units::Load;

use crate::assemble::refuse_in_workload;
use crate::composition::Spec;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::failure::{Failure, attempt};
use crate::job::{Job, Key, identity};
use crate::parallel;
use crate::plan::Plan;
use crate::precision;
use crate::rows::{FailedRuns, PointRuns};
use crate::saturation::{Grid, Limits, Search, over_seeds};
use crate::simulate::{ChannelRun, simulate};
use crate::source::Request;
use crate::statistics::{Estimate, Verdict};
use crate::store::Store;
use crate::study::{Options, Outcome, Tables, derived_table, meta};
use crate::table::{Cell, Table};
use crate::task::{Progress, Task};
use crate::threads::Threads;

/// A study that is being carried out.
#[derive(Debug)]
pub struct Campaign {
    plan: Plan,
    options: Options,
    store: Store,
    /// The runs that failed. They are not stored: begun again, a study tries them again.
    failures: Mutex<BTreeMap<Key, Failure>>,
    /// The identity of each point at its own load.
    identities: Vec<String>,
    goal: Goal,
    progress: Progress,
    /// What was simulated on one thread or rank although more were requested, and why.
    alone: BTreeSet<String>,
    /// The processes among which each run is divided.
    ranks: Option<Arc<dyn Exchange>>,
}

/// The runs of a point: how many exist, and how many may follow.
struct Pending {
    made: usize,
    left: usize,
}

/// The load of a run, as bits so that it can be compared, and its seed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Loaded {
    load: u64,
    seed: u64,
}

#[derive(Debug)]
enum Goal {
    /// Every point and the number of runs that it is known to need.
    Study(Vec<Wanted>),
    /// The limit of every point: the channel whose load is varied, and the loads.
    Limits(String, Grid),
}

/// A run and the load that it was made at.
type AtLoad = (f64, Arc<[ChannelRun]>);

/// The state of the search of one seed.
enum Searched {
    /// The runs at these loads are evaluated next, and this many may follow.
    Open(Vec<f64>, usize),
    /// Nothing is left to do.
    Found(Limits),
    /// A run of it failed.
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    runs: u32,
    enough: bool,
}

impl Campaign {
    /// Plans a request.
    ///
    /// # Errors
    /// What is wrong with the request or its files; [`Error::Store`] if the store cannot be opened.
    pub fn new(request: &Request, options: &Options) -> Result<Campaign, Error> {
        Campaign::of(Plan::new(&options.apply(request))?, options)
    }

    /// Carries out a plan.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of(plan: Plan, options: &Options) -> Result<Campaign, Error> {
        let first = plan.points.first().map(|point| &point.spec);
        if let Some(first) = first
            && plan.points.iter().all(|point| point.spec.is_silent())
        {
            let channels = first.channel.keys().cloned().collect();
            return Err(Error::NoWorkload { channels });
        }
        let goal = match (&options.saturation, first) {
            (Some(asked), Some(first)) => {
                let (channel, grid) = asked.resolve(first)?;
                Goal::Limits(channel, grid)
            }
            _ => {
                Goal::Study(plan.points.iter().map(|point| wanted(&point.spec, options)).collect())
            }
        };
        let store = options.store.as_deref().map_or_else(|| Ok(Store::in_memory()), Store::open)?;
        let identities = plan.points.iter().map(|point| identity(&point.spec));
        let identities = identities.collect::<Result<_, _>>()?;
        let options = options.clone();
        let failures = Mutex::default();
        let (progress, alone) = (Progress::default(), BTreeSet::new());
        let ranks = None;
        Ok(Campaign { plan, options, store, failures, identities, goal, progress, alone, ranks })
    }

    /// Makes runs one after another, each divided among several processes; this one is rank 0.
    #[must_use]
    pub fn on_ranks(self, exchange: &Arc<dyn Exchange>) -> Campaign {
        Campaign { ranks: Some(Arc::clone(exchange)), ..self }
    }

    /// The runs that are needed next and not there, each once. None are left when the study is
    /// complete.
    ///
    /// # Errors
    /// [`Error::Job`] if a point has no canonical form.
    pub fn pending(&mut self) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::new();
        let (mut made, mut left) = (0, 0);
        for point in 0..self.plan.points.len() {
            match &self.goal {
                Goal::Study(_) => {
                    let before = tasks.len();
                    let wanted = self.pending_runs(point, &mut tasks);
                    left += tasks.len() - before;
                    made += wanted - (tasks.len() - before);
                }
                Goal::Limits(channel, grid) => {
                    let of_point = self.pending_loads(point, channel, *grid, &mut tasks)?;
                    (made, left) = (made + of_point.made, left + of_point.left);
                }
            }
        }
        let mut seen = BTreeSet::new();
        tasks.retain(|task| seen.insert(task.key));
        self.progress = Progress { done: made, total: made + left };
        Ok(tasks)
    }

    /// The progress as of the last call of [`pending`](Self::pending). Results may call for more runs,
    /// or for fewer.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// A run in the form in which it is sent to another process.
    ///
    /// # Errors
    /// [`Error::Assembly`] if the task has no load.
    pub fn job(&self, task: &Task) -> Result<Job, Error> {
        Ok(Job::new(self.spec(task)?.as_ref(), task.seed))
    }

    /// Where the runs are stored.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Records that a run failed, so that it is not pending any more.
    pub fn fail(&self, key: Key, failure: Failure) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).insert(key, failure);
    }

    /// Carries out everything that is pending on threads of this process. `observe` is called with
    /// (runs done, runs in all) and ends the study by returning `false`. Returns whether it did.
    ///
    /// # Errors
    /// The first error of the store. A run that fails is noted, and the others are made.
    pub fn run(&mut self, observe: &mut dyn FnMut(usize, usize) -> bool) -> Result<bool, Error> {
        loop {
            let tasks = self.pending()?;
            if tasks.is_empty() {
                let Progress { done, total } = self.progress;
                return Ok(!observe(done, total));
            }
            if !self.carry_out(&tasks, observe)? {
                return Ok(true);
            }
        }
    }

    /// One round; returns whether all of it was done.
    fn carry_out(
        &mut self,
        tasks: &[Task],
        observe: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<bool, Error> {
        let halt = Halt::new();
        let failure = Mutex::new(None);
        let (workers, threads) = match &self.ranks {
            Some(exchange) => (1, Threads::on_ranks(Arc::clone(exchange))),
            None => {
                let threads = self.options.threads_of(tasks.len());
                (self.options.workers(), Threads::at_most(threads))
            }
        };
        let Progress { done: before, total } = self.progress;
        let campaign = &*self;
        let results = parallel::map(
            tasks.len(),
            workers,
            &halt,
            |index| {
                campaign.carry_out_one(&tasks[index], &halt, &threads).unwrap_or_else(|error| {
                    halt.ask();
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    false
                })
            },
            |done| observe(before + done, total),
        );
        self.alone.extend(threads.alone());
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(results.into_iter().all(|done| done == Some(true))),
        }
    }

    /// Makes a run and keeps it; returns whether it ended without being stopped. A run that was cut
    /// short by a request from outside is not a result; one that reached its own step limit is.
    fn carry_out_one(&self, task: &Task, halt: &Halt, threads: &Threads) -> Result<bool, Error> {
        match attempt(self.spec(task)?.as_ref(), task.seed, halt, threads) {
            // A program that was interrupted reports that by an error.
            Err(_) if halt.is_asked() => return Ok(false),
            Err(failure) => self.fail(task.key, failure),
            Ok(runs) if runs.iter().any(|run| run.stopped == Some(Stopped::Asked)) => {
                return Ok(false);
            }
            Ok(runs) => self.store.put(task.key, runs)?,
        }
        Ok(true)
    }

    /// Why the run under a key failed, if it did.
    fn failure(&self, key: Key) -> Option<Failure> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// The tables of what exists so far: points or limits for which all runs exist.
    ///
    /// # Errors
    /// What is wrong with the composition, if no run of it could be made; [`Error::Store`] if a
    /// stored run was damaged meanwhile and the run made in its place cannot be stored.
    pub fn outcome(mut self, stopped: bool) -> Result<Outcome, Error> {
        // Without a request for threads or ranks, nothing is reported about them.
        let asked = self.options.threads.is_some() || self.ranks.is_some();
        let alone = if asked { std::mem::take(&mut self.alone) } else { BTreeSet::new() };
        let mut outcome = self.tables(stopped)?;
        if let Some(notes) = outcome.meta["notes"].as_array_mut() {
            notes.extend(alone.into_iter().map(Value::from));
        }
        Ok(outcome)
    }

    fn tables(mut self, stopped: bool) -> Result<Outcome, Error> {
        let unfinished: BTreeSet<usize> =
            self.pending()?.into_iter().map(|task| task.point).collect();
        let stopped = stopped || !unfinished.is_empty();
        match &self.goal {
            Goal::Study(wanted) => {
                if let Some(error) = self.refusal(wanted) {
                    return Err(error);
                }
                let mut tables = Tables::default();
                for (point, wanted) in wanted.iter().enumerate() {
                    if !unfinished.contains(&point) {
                        self.add(point, wanted.runs, &mut tables)?;
                    }
                }
                Ok(tables.outcome(self.plan, stopped, &self.options))
            }
            Goal::Limits(channel, grid) => self.limits(channel, *grid, &unfinished, stopped),
        }
    }

    /// Why no run of the study could be made, if that is so.
    fn refusal(&self, wanted: &[Wanted]) -> Option<Error> {
        let mut all = wanted.iter().enumerate();
        let is_refused = |key| self.failure(key).is_some_and(|failure| failure.refused);
        if !all.all(|(point, wanted)| (0..wanted.runs).all(|i| is_refused(self.key(point, i)))) {
            return None;
        }
        // A failure is reported as a sentence; the error knows its key and its place in the file.
        let first = &self.plan.points.first()?.spec;
        simulate(first, self.seed(0, 0), &Halt::new()).err()
    }

    fn seed(&self, point: usize, index: u32) -> u64 {
        self.plan.points[point].spec.run.seed.wrapping_add(u64::from(index))
    }

    fn key(&self, point: usize, index: u32) -> Key {
        Key::new(&self.identities[point], self.seed(point, index))
    }

    /// Adds the runs that a point lacks; returns how many it needs with them.
    fn pending_runs(&mut self, point: usize, tasks: &mut Vec<Task>) -> usize {
        loop {
            let Goal::Study(all) = &self.goal else { return 0 };
            let Wanted { runs, enough } = all[point];
            let missing: Vec<Task> = (0..runs)
                .map(|index| Task {
                    point,
                    load: None,
                    seed: self.seed(point, index),
                    key: self.key(point, index),
                })
                .filter(|task| !self.store.holds(task.key) && self.failure(task.key).is_none())
                .collect();
            // A point without a mean needs no narrower interval.
            let failed = |index| self.failure(self.key(point, index)).is_some();
            if !missing.is_empty() || enough || (0..runs).any(failed) {
                tasks.extend(missing);
                return runs as usize;
            }
            let asked = self.plan.points[point].spec.run.precision.filter(|_| !self.options.quick);
            let more = asked.and_then(|asked| {
                let made = (0..runs).filter_map(|index| self.store.get(self.key(point, index)));
                precision::wanted(asked, &made.collect::<Vec<_>>())
            });
            if let Goal::Study(all) = &mut self.goal {
                all[point] = Wanted { runs: more.unwrap_or(runs), enough: more.is_none() };
            }
        }
    }

    /// Adds the runs that the searches of a point need next.
    fn pending_loads(
        &self,
        point: usize,
        channel: &str,
        grid: Grid,
        tasks: &mut Vec<Task>,
    ) -> Result<Pending, Error> {
        let (mut made, mut left) = (0, 0);
        for seed in self.seeds(point) {
            let (search, runs) = self.search(point, channel, grid, seed)?;
            made += runs.len();
            let Searched::Open(loads, steps) = search else { continue };
            left += steps;
            for load in loads {
                let key = self.key_at(point, channel, load, seed)?;
                tasks.push(Task { point, load: Some(load), seed, key });
            }
        }
        Ok(Pending { made, left })
    }

    fn seeds(&self, point: usize) -> Vec<u64> {
        let run = &self.plan.points[point].spec.run;
        (0..self.options.runs(run)).map(|index| self.seed(point, index)).collect()
    }

    /// The state of the search of one seed, and the runs on which it rests.
    fn search(
        &self,
        point: usize,
        channel: &str,
        grid: Grid,
        seed: u64,
    ) -> Result<(Searched, Vec<AtLoad>), Error> {
        let mut runs: Vec<AtLoad> = Vec::new();
        let (mut refusal, mut failed) = (None, None);
        let search = grid.search(&mut |load| {
            if let Some((_, run)) = runs.iter().find(|(other, _)| *other == load) {
                return verdict(run, channel);
            }
            let key = match self.key_at(point, channel, load, seed) {
                Ok(key) => key,
                Err(error) => {
                    refusal.get_or_insert(error);
                    return None;
                }
            };
            if let Some(failure) = self.failure(key) {
                failed.get_or_insert(failure);
                return None;
            }
            let run = self.store.get(key)?;
            let verdict = verdict(&run, channel);
            runs.push((load, run));
            verdict
        });
        let searched = match (failed, search) {
            (Some(failure), _) => Searched::Failed(failure),
            (None, Search::Open(loads, steps)) => Searched::Open(loads, steps),
            (None, Search::Found(limits)) => Searched::Found(limits),
        };
        refusal.map_or(Ok((searched, runs)), Err)
    }

    fn key_at(&self, point: usize, channel: &str, load: f64, seed: u64) -> Result<Key, Error> {
        let spec = at_load(&self.plan.points[point].spec, channel, load)?;
        Ok(Key::new(&identity(&spec)?, seed))
    }

    fn spec(&self, task: &Task) -> Result<Cow<'_, Spec>, Error> {
        let spec = &self.plan.points[task.point].spec;
        match (&self.goal, task.load) {
            (Goal::Limits(channel, _), Some(load)) => Ok(Cow::Owned(at_load(spec, channel, load)?)),
            _ => Ok(Cow::Borrowed(spec)),
        }
    }

    /// Adds the first runs of a point to the tables. One whose file was damaged is made again.
    fn add(&self, point: usize, count: u32, tables: &mut Tables) -> Result<(), Error> {
        let (mut runs, mut failures) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (seed, key) = (self.seed(point, index), self.key(point, index));
            if let Some(failure) = self.failure(key) {
                failures.push((seed, failure));
                continue;
            }
            if let Some(run) = self.store.get(key) {
                runs.push(run);
                continue;
            }
            match attempt(&self.plan.points[point].spec, seed, &Halt::new(), &Threads::one()) {
                Ok(run) => {
                    self.store.put(key, run.clone())?;
                    runs.push(run.into());
                }
                Err(failure) => failures.push((seed, failure)),
            }
        }
        match failures.first() {
            None => tables.add(&self.plan, point, &runs),
            Some((_, first)) => {
                let failed = FailedRuns {
                    point,
                    at: &self.plan.points[point].at,
                    channel: self.channel_of(point, first),
                    failures: failures.iter().map(|(seed, failure)| (*seed, failure)).collect(),
                };
                tables.add_failed(&self.plan, point, &runs, &failed);
            }
        }
        Ok(())
    }

    /// The channel whose rows report a failure: where it happened, or the first one with traffic.
    fn channel_of<'a>(&'a self, point: usize, failure: &'a Failure) -> &'a str {
        let spec = &self.plan.points[point].spec;
        let mut known = spec.workload.keys().chain(spec.channel.keys());
        match failure.channel.as_str() {
            "" => known.next().map_or("", String::as_str),
            channel => channel,
        }
    }

    /// The tables of a search: a row per point, and every run that it rests on.
    fn limits(
        &self,
        channel: &str,
        grid: Grid,
        unfinished: &BTreeSet<usize>,
        stopped: bool,
    ) -> Result<Outcome, Error> {
        let (mut points, mut replications) = (Table::new(), Table::new());
        let mut failed = 0;
        for (point, planned) in self.plan.points.iter().enumerate() {
            if unfinished.contains(&point) {
                continue;
            }
            let (mut limits, mut failures) = (Vec::new(), Vec::new());
            // In order of load, then of seed.
            let mut runs: BTreeMap<Loaded, ChannelRun> = BTreeMap::new();
            for seed in self.seeds(point) {
                let (search, of_seed) = self.search(point, channel, grid, seed)?;
                match search {
                    Searched::Found(found) => limits.push(found),
                    Searched::Failed(failure) => failures.push((seed, failure)),
                    Searched::Open(..) => {}
                }
                for (load, run) in of_seed {
                    let own = run.iter().find(|run| run.channel == channel).cloned();
                    runs.extend(own.map(|own| (Loaded { load: load.to_bits(), seed }, own)));
                }
            }
            if failures.is_empty() {
                points.push(limit_row(point, &planned.at, channel, &limits, &runs));
            } else {
                failed += 1;
                let failures = failures.iter().map(|(seed, failure)| (*seed, failure)).collect();
                let failed = FailedRuns { point, at: &planned.at, channel, failures };
                failed.point(limits.len(), &mut points);
            }
            for (Loaded { load, .. }, run) in &runs {
                let mut at = planned.at.clone();
                at.push((format!("workload.{channel}.load"), f64::from_bits(*load).into()));
                PointRuns { point, at: &at, runs: vec![run], operation: None }
                    .replications(&mut replications);
            }
        }
        if failed > 0 {
            FailedRuns::COLUMNS.iter().for_each(|name| points.move_last(name));
        }
        let tables = vec![
            ("points", points),
            ("replications", replications),
            ("derived", derived_table(&self.plan)),
        ];
        let mut meta = meta(&self.plan, stopped, &self.options);
        meta["figures"] = serde_json::json!([]);
        meta["published"] = serde_json::json!([]);
        meta["failed"] = failed.into();
        Ok(Outcome { tables, meta, stopped, failed, plan: self.plan.clone() })
    }
}

fn wanted(spec: &Spec, options: &Options) -> Wanted {
    Wanted { runs: options.runs(&spec.run), enough: false }
}

/// A point under another load.
fn at_load(spec: &Spec, channel: &str, load: f64) -> Result<Spec, Error> {
    let mut spec = spec.clone();
    let valid = Load::new(load).or_else(|error| {
        refuse_in_workload(channel, "load", &load.to_string(), &error.to_string())
    })?;
    if let Some(workload) = spec.workload.get_mut(channel) {
        workload.load = Some(valid);
    }
    Ok(spec)
}

fn verdict(run: &[ChannelRun], channel: &str) -> Option<Verdict> {
    run.iter().find(|run| run.channel == channel).map(|run| run.judgement.verdict)
}

/// What the search of a point found: means over seeds, and the accepted load where it was
/// saturated.
fn limit_row(
    point: usize,
    at: &[(String, Cell)],
    channel: &str,
    limits: &[Limits],
    runs: &BTreeMap<Loaded, ChannelRun>,
) -> Vec<(String, Cell)> {
    let mut row: Vec<(String, Cell)> = vec![("point".into(), (point as u64).into())];
    row.extend(at.iter().cloned());
    row.push(("channel".into(), channel.into()));
    let mut push = |name: &str, estimate: Option<Estimate>| {
        row.push((name.to_owned(), estimate.map(|found| found.mean).into()));
        let half_width = estimate.and_then(|found| found.half_width_95);
        row.push((format!("{name}_half_width"), half_width.into()));
    };
    let settles: Vec<Option<f64>> = limits.iter().map(|found| found.settles).collect();
    let saturated: Vec<Option<f64>> = limits.iter().map(|found| found.saturated).collect();
    push("settles_up_to_load", over_seeds(&settles));
    push("saturated_from_load", over_seeds(&saturated));
    let beyond = runs.values().filter(|run| run.judgement.verdict == Verdict::Saturated);
    let accepted = beyond
        .map(ChannelRun::accepted_load)
        .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))));
    row.push(("accepted_load".into(), accepted.into()));
    row.push(("replications".into(), (limits.len() as u64).into()));
    row.push(("runs".into(), (runs.len() as u64).into()));
    row
}
