//! The ranks of one run, which an object of Python connects.

use std::process::abort;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use weft_lab::Exchange;

use crate::error;

/// Ranks that are connected by an object with the attributes `rank` and `ranks` and a method
/// `exchange(given)`: an array of `uint8` for each rank. It returns one from each.
#[derive(Debug)]
struct Connected {
    rank: u32,
    ranks: u32,
    by: Py<PyAny>,
}

pub fn connected(by: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Exchange>> {
    let (rank, ranks) = (by.getattr("rank")?.extract()?, by.getattr("ranks")?.extract()?);
    Ok(Arc::new(Connected { rank, ranks, by: by.clone().unbind() }))
}

impl Connected {
    fn call(&self, given: &mut [Vec<u8>], take: &mut dyn FnMut(u32, &[u8])) -> PyResult<()> {
        Python::attach(|py| {
            // The arrays have the very bytes, and are gone with the call.
            let array = |one: &mut Vec<u8>| PyArray1::from_vec(py, std::mem::take(one));
            let given: Vec<_> = given.iter_mut().map(array).collect();
            let come = self.by.call_method1(py, "exchange", (given,))?;
            let come: Vec<PyReadonlyArray1<'_, u8>> = come.extract(py)?;
            for (rank, bytes) in (0..).zip(&come) {
                take(rank, bytes.as_slice()?);
            }
            Ok(())
        })
    }
}

impl Exchange for Connected {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn exchange(&self, given: &mut [Vec<u8>], take: &mut dyn FnMut(u32, &[u8])) {
        // The object says what went wrong and ends all ranks; what it could not say ends this one, and MPI the
        // others.
        if self.call(given, take).is_err() {
            abort();
        }
    }
}

/// The work of every other rank, until rank 0 dismisses it.
#[pyfunction]
pub fn follow(by: &Bound<'_, PyAny>) -> PyResult<()> {
    let exchange = connected(by)?;
    by.py().detach(|| weft_lab::follow(&exchange)).map_err(error::raise)
}

/// Rank 0 lets the others go.
#[pyfunction]
pub fn dismiss(by: &Bound<'_, PyAny>) -> PyResult<()> {
    let exchange = connected(by)?;
    by.py().detach(|| weft_lab::dismiss(&exchange));
    Ok(())
}
