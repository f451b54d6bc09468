//! The ranks of one run, which an object of Python connects.

use std::process::abort;
use std::sync::Arc;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft_lab::Exchange;

use crate::error;

/// Ranks connected by an object with the attributes `rank` and `ranks` and a method `exchange(counts,
/// given)`: `counts[r]` bytes of `given` are for rank r. It returns how many bytes come from each, and all of
/// them as an array of `uint8`.
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
    fn call(&self, given: &[Vec<u8>], taken: &mut [Vec<u8>]) -> PyResult<()> {
        Python::attach(|py| {
            let counts: Vec<usize> = given.iter().map(Vec::len).collect();
            let bytes = PyBytes::new_with(py, counts.iter().sum(), |all| {
                let mut left = all;
                for one in given {
                    let (own, rest) = left.split_at_mut(one.len());
                    own.copy_from_slice(one);
                    left = rest;
                }
                Ok(())
            })?;
            let come = self.by.call_method1(py, "exchange", (counts, bytes))?;
            let (counts, bytes): (Vec<usize>, PyReadonlyArray1<'_, u8>) = come.extract(py)?;
            let mut left = bytes.as_slice()?;
            for (one, count) in taken.iter_mut().zip(counts) {
                let (own, rest) = left.split_at(count.min(left.len()));
                one.clear();
                one.extend_from_slice(own);
                left = rest;
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

    fn exchange(&self, given: &[Vec<u8>], taken: &mut [Vec<u8>]) {
        // The object says what went wrong and ends all ranks; what it could not say ends this one, and MPI the
        // others.
        if self.call(given, taken).is_err() {
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
