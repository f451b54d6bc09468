//! A study that other processes carry out, as a Python object.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use weft_lab::{Campaign, Failure, Job, Key, Progress, Task};

use crate::asked::Asked;
use crate::{error, outcome, parse_options};

/// A study whose runs are sent to other processes and collected.
#[pyclass(name = "Campaign", module = "weft._core", frozen)]
pub struct PyCampaign(Mutex<Option<State>>);

struct State {
    campaign: Campaign,
    /// The runs that were pending at the last request.
    tasks: Vec<Task>,
}

/// How a run ended that `simulate` carried out.
#[derive(FromPyObject)]
pub enum Ended {
    /// Without a result: why, as JSON.
    Failed(String),
    /// With the run, as bytes.
    Run(Vec<u8>),
}

#[pymethods]
impl PyCampaign {
    #[new]
    fn new(
        py: Python<'_>,
        asked: Asked,
        preset: Option<&str>,
        overrides: Vec<String>,
        options: &str,
    ) -> PyResult<PyCampaign> {
        let request = asked.request(preset, &overrides)?;
        let options = parse_options(options)?;
        let campaign = py.detach(|| Campaign::new(&request, &options)).map_err(error::raise)?;
        Ok(PyCampaign(Mutex::new(Some(State { campaign, tasks: Vec::new() }))))
    }

    /// Looks for the runs that are needed next and not there; returns how many, and how many of how
    /// many the study has.
    fn pending(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        py.detach(|| {
            self.with(|state| {
                state.tasks = state.campaign.pending().map_err(error::raise)?;
                let Progress { done, total } = state.campaign.progress();
                Ok((state.tasks.len(), done, total))
            })
        })
    }

    /// The pending runs from `first` up to `last` as JSON, for `simulate`.
    fn jobs(&self, py: Python<'_>, first: usize, last: usize) -> PyResult<String> {
        py.detach(|| {
            self.with(|state| {
                let tasks = state.tasks.get(first..last).unwrap_or_default();
                let jobs: Result<Vec<Job>, _> =
                    tasks.iter().map(|task| state.campaign.job(task)).collect();
                error::json(&jobs.map_err(error::raise)?)
            })
        })
    }

    /// Keeps what `simulate` returned.
    fn put(&self, py: Python<'_>, runs: Vec<(String, Ended)>) -> PyResult<()> {
        py.detach(|| {
            self.with(|state| {
                for (key, ended) in &runs {
                    let key: Key = key.parse().map_err(|error: weft_lab::KeyError| {
                        PyRuntimeError::new_err(error.to_string())
                    })?;
                    match ended {
                        Ended::Failed(told) => state.campaign.fail(key, read(told)?),
                        Ended::Run(bytes) => {
                            let store = state.campaign.store();
                            store.put_encoded(key, bytes).map_err(error::raise)?;
                        }
                    }
                }
                Ok(())
            })
        })
    }

    /// The tables of the runs that exist. Ends the campaign.
    fn outcome<'py>(&self, py: Python<'py>, stopped: bool) -> PyResult<Bound<'py, PyDict>> {
        let state = self.lock().take().ok_or_else(over)?;
        let outcome = py.detach(|| state.campaign.outcome(stopped)).map_err(error::raise)?;
        outcome::run(py, &outcome)
    }
}

impl PyCampaign {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        work(self.lock().as_mut().ok_or_else(over)?)
    }
}

fn over() -> PyErr {
    PyRuntimeError::new_err("the tables of this campaign were taken; it is over")
}

fn read(failure: &str) -> PyResult<Failure> {
    serde_json::from_str(failure)
        .map_err(|error| PyRuntimeError::new_err(format!("a failure came back damaged: {error}")))
}

/// Carries out runs that `Campaign.jobs` wrote down, on any machine; returns the key of each, and
/// the run, or as text why it failed. The interpreter lock is released meanwhile.
#[pyfunction]
#[pyo3(signature = (jobs, workers=NonZeroUsize::MIN))]
pub fn simulate<'py>(
    py: Python<'py>,
    jobs: &str,
    workers: NonZeroUsize,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let jobs = Job::read_all(jobs).map_err(error::raise)?;
    let runs = py.detach(|| carry_out(&jobs, workers)).map_err(error::raise)?;
    let cross = |ended: Ended| match ended {
        Ended::Run(bytes) => PyBytes::new(py, &bytes).into_any(),
        Ended::Failed(told) => PyString::new(py, &told).into_any(),
    };
    Ok(runs.into_iter().map(|(key, ended)| (key, cross(ended))).collect())
}

fn carry_out(jobs: &[Job], workers: NonZeroUsize) -> Result<Vec<(String, Ended)>, weft_lab::Error> {
    let each = jobs.len().div_ceil(workers.get()).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = jobs
            .chunks(each)
            .map(|jobs| {
                scope.spawn(move || {
                    let halt = weft_lab::Halt::new();
                    let run = |job: &Job| {
                        let (key, run) = job.carry_out(&halt)?;
                        let ended = match run {
                            Ok(run) => Ended::Run(weft_lab::encode(&run)?),
                            Err(failure) => Ended::Failed(written(&failure)?),
                        };
                        Ok((key.to_string(), ended))
                    };
                    jobs.iter().map(run).collect::<Result<Vec<_>, weft_lab::Error>>()
                })
            })
            .collect();
        let mut all = Vec::new();
        for part in parts {
            match part.join() {
                Ok(runs) => all.extend(runs?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })
}

fn written(failure: &Failure) -> Result<String, weft_lab::Error> {
    serde_json::to_string(failure)
        .map_err(|error| weft_lab::Error::Job { problem: error.to_string() })
}
