//! The private extension module `weft._core`: converts, decides nothing.

use pyo3::prelude::*;

/// Rust core of Weft.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
