//! The private extension module `weft._core`: converts, decides nothing.
//!
//! Text crosses as JSON, columns cross as NumPy arrays (numbers) or lists (texts). The interpreter
//! lock is released while a run computes.

mod asked;
mod campaign;
mod error;
mod outcome;
mod program;
mod ranks;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weft_lab::Options;
use weft_lab::statistics::RatioTerm;

use asked::Asked;

/// The shipped interconnects, as a JSON list.
#[pyfunction]
fn systems() -> PyResult<String> {
    error::json(&weft_lab::systems().map_err(error::raise)?)
}

/// The shipped experiments, as a JSON list.
#[pyfunction]
fn experiments() -> PyResult<String> {
    error::json(&weft_lab::experiments().map_err(error::raise)?)
}

/// A composition with every parameter and its origin, as a JSON object.
#[pyfunction]
#[pyo3(signature = (asked, preset=None, overrides=Vec::new()))]
fn show(asked: Asked, preset: Option<&str>, overrides: Vec<String>) -> PyResult<String> {
    let request = asked.request(preset, &overrides)?;
    error::json(&weft_lab::show(&request).map_err(error::raise)?)
}

/// The JSON schema of a composition or an experiment file.
#[pyfunction]
fn schema() -> PyResult<String> {
    error::json(&weft_lab::schema())
}

/// The ratio of sums over replications, from pairs of (numerator, denominator), and the half width
/// of its 95 % interval if there are two or more; with denominators of one the mean. `None` if the
/// denominators sum up to zero.
#[pyfunction]
fn ratio(pairs: Vec<(f64, f64)>) -> Option<(f64, Option<f64>)> {
    let of = |(numerator, denominator)| RatioTerm { numerator, denominator };
    let terms: Vec<RatioTerm> = pairs.into_iter().map(of).collect();
    let found = weft_lab::statistics::ratio(&terms)?;
    Some((found.mean, found.half_width_95))
}

/// Runs an experiment and returns its tables. `progress` is called with (done, total, label) and
/// ends the run by returning `False`. `by` connects rank 0 to others, which simulate each run with it.
#[pyfunction]
fn run<'py>(
    py: Python<'py>,
    asked: Asked,
    preset: Option<&str>,
    overrides: Vec<String>,
    options: &str,
    progress: Option<Py<PyAny>>,
    by: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let exchange = by.map(ranks::connected).transpose()?;
    let request = asked.request(preset, &overrides)?;
    let options = parse_options(options)?;
    let mut raised = None;
    let outcome = py.detach(|| {
        let observe = &mut |done, total| {
            outcome::observe(progress.as_ref(), &mut raised, done, total, &request.name)
        };
        match &exchange {
            Some(exchange) => weft_lab::run_on_ranks(exchange, &request, &options, observe),
            None => weft_lab::run(&request, &options, observe),
        }
    });
    raised.map_or(Ok(()), Err)?;
    outcome::run(py, &outcome.map_err(error::raise)?)
}

/// Runs the experiments of a system and holds them against what was published.
#[pyfunction]
fn reproduce<'py>(
    py: Python<'py>,
    name: &str,
    options: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = parse_options(options)?;
    let mut raised = None;
    let outcome = py.detach(|| {
        weft_lab::reproduce(name, &options, &mut |done, total, label| {
            outcome::observe(progress.as_ref(), &mut raised, done, total, label)
        })
    });
    raised.map_or(Ok(()), Err)?;
    outcome::reproduction(py, &outcome.map_err(error::raise)?)
}

/// Returns the experiments that `reproduce` runs: name, overrides and options of each.
#[pyfunction]
fn chosen(
    py: Python<'_>,
    name: &str,
    options: &str,
) -> PyResult<Vec<(String, Vec<String>, String)>> {
    let options = parse_options(options)?;
    let chosen = py.detach(|| weft_lab::chosen(name, &options)).map_err(error::raise)?;
    chosen
        .into_iter()
        .map(|one| Ok((one.name, one.request.overrides, error::json(&one.options)?)))
        .collect()
}

fn parse_options(text: &str) -> PyResult<Options> {
    serde_json::from_str(text)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(format!("options: {error}")))
}

/// Rust core of Weft.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CODE", weft_lab::CODE)?;
    module.add("WeftError", module.py().get_type::<error::WeftError>())?;
    module.add_function(wrap_pyfunction!(systems, module)?)?;
    module.add_function(wrap_pyfunction!(experiments, module)?)?;
    module.add_function(wrap_pyfunction!(show, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(ratio, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::follow, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::dismiss, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(chosen, module)?)?;
    module.add_function(wrap_pyfunction!(campaign::simulate, module)?)?;
    module.add_class::<campaign::PyCampaign>()?;
    module.add_class::<program::Machine>()?;
    module.add_function(wrap_pyfunction!(program::size, module)?)?;
    module.add_function(wrap_pyfunction!(program::span, module)?)?;
    module.add_function(wrap_pyfunction!(program::trace_generate, module)?)?;
    module.add_function(wrap_pyfunction!(program::trace_run, module)?)?;
    Ok(())
}
