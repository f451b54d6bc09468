//! From a composition file to columns: read, assemble, run, measure.

pub mod drive;
