//! Programs that are written in Python, and traces: the machine that they run on.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use weft_lab::drive::carrier::Destination;
use weft_lab::program::settings::{Ways, open};
use weft_lab::program::{
    self, OpId, Outgoing, Placement, ProgramChannel, ProgramError, Rule, Wanted,
};
use weft_lab::spec::Tree;
use weft_lab::trace::settings::TraceSettings;
use weft_lab::trace::{goal, play};
use weft_lab::{Bytes, PositiveCount, Span, Table, Time};

use crate::asked::Asked;
use crate::{error, outcome};

/// The result of an operation: picosecond, rank, tag, bytes, value.
type Received = (u64, u16, u32, u64, u64);

/// Ranks on the channels of a system, in simulated time.
#[pyclass(unsendable)]
pub struct Machine {
    inner: program::Machine<ProgramChannel>,
    done: Vec<OpId>,
    seed: u64,
}

impl Machine {
    fn raise(&self, error: ProgramError) -> PyErr {
        error::raise(weft_lab::Error::Program { seed: self.seed, error })
    }

    fn outgoing(
        &self,
        rank: u16,
        to: Vec<u16>,
        tag: u32,
        size: u64,
        value: u64,
        channel: Option<&str>,
    ) -> PyResult<Outgoing> {
        let channel = match channel {
            None => None,
            Some(name) => Some(self.inner.channel(name).ok_or_else(|| {
                let problem = format!("no rule of the program leads to channel {name}");
                self.raise(ProgramError::Program(problem))
            })?),
        };
        let to = match to[..] {
            [one] => Destination::Host(one),
            _ if to.is_empty() || to.iter().any(|host| *host >= 64) => {
                let problem = "several targets at once are ranks below 64, and not none";
                return Err(self.raise(ProgramError::Program(problem.to_owned())));
            }
            _ => Destination::Hosts(to.iter().fold(0, |set, host| set | 1 << host)),
        };
        Ok(Outgoing { from: rank, to, tag, size: Bytes(size), value, channel, nic: 0 })
    }
}

/// Rules of routes, as JSON.
fn rules(route: &str) -> PyResult<Vec<Rule>> {
    serde_json::from_str(route).map_err(|error| PyValueError::new_err(format!("route: {error}")))
}

/// Settings that Python wrote as JSON.
fn written<T: DeserializeOwned>(name: &str, text: &str) -> PyResult<T> {
    let read = Tree::from_written(name, text).and_then(|tree| tree.read());
    read.map_err(|error| error::raise(error.into()))
}

/// A placement, as JSON, and how many ranks a host has at most.
fn placed(placement: &str, on_each: Option<u32>) -> PyResult<(Placement, Option<PositiveCount>)> {
    let placed = serde_json::from_str(placement);
    let placed = placed.map_err(|error| PyValueError::new_err(format!("placement: {error}")))?;
    let counted = |count| {
        let problem = "ranks_per_host = 0, where 1 or more are accepted";
        PositiveCount::new(count).ok_or_else(|| PyValueError::new_err(problem))
    };
    Ok((placed, on_each.map(counted).transpose()?))
}

#[pymethods]
impl Machine {
    #[new]
    #[pyo3(signature = (asked, preset, overrides, ranks, channel, route, placement, ranks_per_host, seed))]
    #[allow(clippy::too_many_arguments, reason = "the seam to Python has no records")]
    fn new(
        asked: Asked,
        preset: Option<&str>,
        overrides: Vec<String>,
        ranks: Option<u16>,
        channel: Option<&str>,
        route: &str,
        placement: &str,
        ranks_per_host: Option<u32>,
        seed: u64,
    ) -> PyResult<Machine> {
        let request = asked.request(preset, &overrides)?;
        let route = rules(route)?;
        let (placement, ranks_per_host) = placed(placement, ranks_per_host)?;
        let ways = Ways { channel, route: &route, placement: &placement, ranks_per_host };
        let inner = open(&request, ways, ranks, seed).map_err(error::raise)?;
        Ok(Machine { inner, done: Vec::new(), seed })
    }

    fn ranks(&self) -> u16 {
        self.inner.ranks()
    }

    fn now(&self) -> u64 {
        self.inner.now().0
    }

    #[pyo3(signature = (rank, to, tag, size, value, channel))]
    fn send(
        &mut self,
        rank: u16,
        to: Vec<u16>,
        tag: u32,
        size: u64,
        value: u64,
        channel: Option<&str>,
    ) -> PyResult<usize> {
        let message = self.outgoing(rank, to, tag, size, value, channel)?;
        Ok(self.inner.send(message).index())
    }

    #[pyo3(signature = (rank, source, tag))]
    fn receive(&mut self, rank: u16, source: Option<u16>, tag: Option<u32>) -> usize {
        self.inner.receive(rank, Wanted { from: source, tag }).index()
    }

    fn compute(&mut self, rank: u16, picoseconds: u64) -> usize {
        self.inner.compute(rank, Span(picoseconds)).index()
    }

    #[pyo3(signature = (rank, to, address, value, size, channel))]
    fn store(
        &mut self,
        rank: u16,
        to: Vec<u16>,
        address: u64,
        value: u64,
        size: u64,
        channel: Option<&str>,
    ) -> PyResult<usize> {
        let message = self.outgoing(rank, to, 0, size, value, channel)?;
        Ok(self.inner.store(message, address).index())
    }

    fn load(&self, rank: u16, address: u64) -> u64 {
        self.inner.load(rank, address)
    }

    fn until(&mut self, rank: u16, address: u64, least: u64) -> usize {
        self.inner.until(rank, address, least).index()
    }

    fn read(&mut self, rank: u16, target: u16, address: u64, size: u64) -> usize {
        self.inner.read(rank, target, address, Bytes(size)).index()
    }

    fn conditional_write(
        &mut self,
        rank: u16,
        target: u16,
        address: u64,
        value: u64,
        size: u64,
    ) -> usize {
        self.inner.conditional_write(rank, target, address, value, Bytes(size)).index()
    }

    fn departure(&mut self, rank: u16, number: usize) -> usize {
        self.inner.departure(rank, number).index()
    }

    fn departed(&self, rank: u16) -> Vec<u16> {
        self.inner.departed(rank).to_vec()
    }

    /// The ranks that have stopped and were not taken yet.
    fn take_stopped(&mut self) -> Vec<u16> {
        let mut stopped = Vec::new();
        self.inner.take_stopped(&mut stopped);
        stopped
    }

    fn outcome(&self, op: usize) -> Option<Received> {
        let received = self.inner.outcome(OpId::new(op))?;
        let program::Received { time, from, tag, size, value } = received;
        Some((time.0, from, tag, size.0, value))
    }

    fn block(&mut self, op: usize) {
        self.inner.block(OpId::new(op));
    }

    fn release(&mut self, op: usize) {
        self.inner.release(OpId::new(op));
    }

    /// The operations that are over and were not taken yet; raises what a program did wrong.
    fn take_done(&mut self) -> PyResult<Vec<usize>> {
        if let Some(error) = self.inner.failure() {
            return Err(self.raise(error));
        }
        self.inner.take_done(&mut self.done);
        Ok(self.done.drain(..).map(OpId::index).collect())
    }

    /// Goes on to the next instant, or skips periods before it; raises a description of what waits for what if
    /// there is no next instant.
    fn step(&mut self) -> PyResult<()> {
        self.inner.fast_forward(u64::MAX);
        if self.inner.step() { Ok(()) } else { Err(self.raise(self.inner.deadlock())) }
    }

    /// The account of the ranks' time, given when each rank ended.
    fn tables<'py>(&self, py: Python<'py>, ends: Vec<u64>) -> PyResult<Bound<'py, PyDict>> {
        let ends: Vec<Time> = ends.into_iter().map(Time).collect();
        outcome::tables(py, &tables(&self.inner, ends))
    }
}

/// The account of the ranks' time, given when each ended, and what fast-forward skipped.
fn tables(
    machine: &program::Machine<ProgramChannel>,
    ends: Vec<Time>,
) -> Vec<(&'static str, Table)> {
    let mut tables = Vec::from(machine.report(ends).tables());
    tables.push(("fast_forward", machine.fast_forward_table()));
    tables
}

/// A size such as "64 B" in bytes.
#[pyfunction]
pub fn size(text: &str) -> PyResult<u64> {
    let size: Result<Bytes, _> = text.parse();
    size.map(|size| size.0).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A span such as "3 us" in picoseconds.
#[pyfunction]
pub fn span(text: &str) -> PyResult<u64> {
    let span: Result<Span, _> = text.parse();
    span.map(|span| span.0).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A collective operation, as JSON, as a GOAL text.
#[pyfunction]
pub fn trace_generate(collective: &str, ranks: u16) -> PyResult<String> {
    let trace: TraceSettings = written("collective", collective)?;
    if ranks < 2 {
        return Err(PyValueError::new_err(format!("{ranks} ranks, where 2 or more are accepted")));
    }
    let schedule = trace.schedule_for(ranks);
    schedule.map(|schedule| goal::write(&schedule)).map_err(|error| error::raise(error.into()))
}

/// Runs a trace on the channels of a system, and returns where the time went and how many messages
/// were shorter than what received them asks for. `progress` is called
/// with (operations done, operations in all, label) and ends the run by returning `False`.
#[pyfunction]
#[pyo3(signature = (asked, preset, overrides, trace, channel, route, placement, ranks_per_host, seed, progress=None))]
#[allow(clippy::too_many_arguments, reason = "the seam to Python has no records")]
pub fn trace_run<'py>(
    py: Python<'py>,
    asked: Asked,
    preset: Option<&str>,
    overrides: Vec<String>,
    trace: &str,
    channel: Option<&str>,
    route: &str,
    placement: &str,
    ranks_per_host: Option<u32>,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, u64)> {
    let request = asked.request(preset, &overrides)?;
    let route = rules(route)?;
    let (placement, ranks_per_host) = placed(placement, ranks_per_host)?;
    let trace: TraceSettings = written("trace", trace)?;
    let mut raised = None;
    let played = py.detach(|| {
        let ways = Ways { channel, route: &route, placement: &placement, ranks_per_host };
        let machine = open(&request, ways, None, seed)?;
        let schedule = trace.schedule_for(machine.ranks())?;
        let played = play(&schedule, machine, &weft_lab::Halt::new(), &mut |done, all| {
            outcome::observe(progress.as_ref(), &mut raised, done, all, "operations")
        });
        let played = played.map_err(|error| weft_lab::Error::Program { seed, error })?;
        Ok((tables(&played.machine, played.ends), played.shorter))
    });
    raised.map_or(Ok(()), Err)?;
    let (tables, shorter) = played.map_err(error::raise)?;
    Ok((outcome::tables(py, &tables)?, shorter))
}
