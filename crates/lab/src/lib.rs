//! From a composition file to columns: read, assemble, run, measure.
//!
//! [`run`] carries out a [`Request`]: the file and its layers become one tree ([`spec`]), the tree
//! becomes the points of a [`Plan`], each point with each seed is one call of [`simulate`], and the
//! runs become the tables of an [`Outcome`]. [`reproduce`] does so for every experiment of a system
//! and holds the result against what was published.

pub mod assemble;
mod beside;
mod campaign;
mod catalogue;
pub mod composition;
mod counted;
mod couple;
mod derived;
mod describe;
pub mod drive;
mod error;
mod exchange;
pub mod experiment;
mod failure;
mod first_look;
mod fit;
mod job;
mod keys;
mod notes;
mod paired;
mod parallel;
mod plan;
mod precision;
pub mod price;
pub mod program;
mod ranks;
mod reproduce;
mod rows;
mod saturation;
mod shape;
mod shipped;
mod simulate;
mod source;
pub mod spec;
pub mod statistics;
mod store;
mod study;
mod table;
mod task;
mod threads;
pub mod trace;

pub use beside::side_by_side;
pub use campaign::Campaign;
pub use catalogue::{ExperimentEntry, Shown, SystemEntry, experiments, schema, show, systems};
pub use describe::Description;
pub use error::{Details, Error};
pub use exchange::Exchange;
pub use failure::Failure;
pub use first_look::{Chosen, Reduced};
pub use job::{CODE, Job, Key, KeyError, identity};
pub use notes::notes;
pub use plan::{Outline, Plan, Point};
pub use ranks::{dismiss, follow};
pub use reproduce::{Reproduction, chosen, reproduce};
pub use saturation::SaturationOptions;
pub use simulate::{ChannelRun, simulate, simulate_on};
pub use source::{Given, Override, Request};
pub use store::{Store, decode, encode};
pub use study::{Options, Outcome, run, run_on_ranks};
pub use table::{Cell, Column, Data, Table};
pub use task::{Progress, Task};
pub use threads::Threads;
pub use weft_kernel::Halt;
pub use weft_units::{Bytes, PositiveCount, Span, Time};
