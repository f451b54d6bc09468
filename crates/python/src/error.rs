//! Errors of the core as Python exceptions that carry the place and what is accepted.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

pyo3::create_exception!(
    weft._core,
    WeftError,
    PyValueError,
    "A file or a setting that cannot be used, with its place and what would be accepted."
);

/// An error of the core as an exception with attributes file, line, column, key, value, accepted
/// and message.
pub fn raise(error: weft_lab::Error) -> PyErr {
    let details = error.details();
    let exception = WeftError::new_err(error.to_string());
    let set = Python::attach(|py| -> PyResult<()> {
        let value = exception.value(py);
        value.setattr("file", details.file)?;
        value.setattr("line", details.line)?;
        value.setattr("column", details.column)?;
        value.setattr("key", details.key)?;
        value.setattr("value", details.value)?;
        value.setattr("accepted", details.accepted)?;
        value.setattr("message", details.message)
    });
    set.err().unwrap_or(exception)
}

/// A value as JSON text.
pub fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
