//! The parts of an interconnect in simulated time: a folder per layer, a file per part.
//!
//! A part is told the time and returns what happens next; it owns no clock, no thread and no I/O.

pub mod adapter;
pub mod control;
pub mod fabric;
pub mod graph;
pub mod host;
pub mod interface;
pub mod link;
pub mod measure;
pub mod message;
pub mod scheduler;
pub mod switch;
pub mod workload;
