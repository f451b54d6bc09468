//! A request: a file or a shipped name, or a composition as values.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_lab::Request;

/// A text, or a pair of texts: what messages call a composition, and the composition as JSON.
#[derive(FromPyObject)]
pub enum Asked {
    /// A file, or something shipped.
    Named(String),
    /// A composition without a file.
    Values(String, String),
}

impl Asked {
    /// The request for it.
    pub fn request(self, preset: Option<&str>, overrides: &[String]) -> PyResult<Request> {
        match self {
            Asked::Named(name) => Ok(Request::new(&name, preset, overrides)),
            Asked::Values(name, json) => {
                let values = serde_json::from_str(&json)
                    .map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
                Ok(Request::new(&name, preset, overrides).of_values(values))
            }
        }
    }
}
