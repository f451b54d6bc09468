//! Outcomes of the core as Python dictionaries of columns.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use weft_lab::{Data, Outcome, Reproduction, Table};

use crate::error;

/// The tables of one run, with what their columns mean.
pub fn run<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("tables", tables(py, &outcome.tables)?)?;
    result.set_item("columns", error::json(&outcome.descriptions())?)?;
    result.set_item("meta", error::json(&outcome.meta)?)?;
    Ok(result)
}

/// Tables by name, each a dictionary of columns.
pub fn tables<'py>(
    py: Python<'py>,
    tables: &[(&'static str, Table)],
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    for (name, table) in tables {
        result.set_item(name, columns(py, table)?)?;
    }
    Ok(result)
}

/// The checks of a system and the runs that they were made on.
pub fn reproduction<'py>(
    py: Python<'py>,
    reproduction: &Reproduction,
) -> PyResult<Bound<'py, PyDict>> {
    let result = run(py, &reproduction.summary)?;
    let runs = PyDict::new(py);
    for (name, outcome) in &reproduction.runs {
        runs.set_item(name, run(py, outcome)?)?;
    }
    result.set_item("runs", runs)?;
    Ok(result)
}

/// Tells Python how far a run is. The run continues unless the callback returns `False` or raises;
/// what it raised is kept for the caller.
pub fn observe(
    progress: Option<&Py<PyAny>>,
    raised: &mut Option<PyErr>,
    done: usize,
    total: usize,
    label: &str,
) -> bool {
    let Some(progress) = progress else { return true };
    Python::attach(|py| match progress.call1(py, (done, total, label)) {
        Ok(answer) => !answer.is(pyo3::types::PyBool::new(py, false)),
        Err(error) => {
            *raised = Some(error);
            false
        }
    })
}

fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    for column in table.columns() {
        match &column.data {
            Data::Number(values) => {
                result.set_item(&column.name, values.clone().into_pyarray(py))?;
            }
            Data::Text(values) => result.set_item(&column.name, PyList::new(py, values)?)?,
        }
    }
    Ok(result)
}
