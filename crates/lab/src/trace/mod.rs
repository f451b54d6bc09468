//! Recorded and generated programs: what each rank sends, receives and computes, and what waits for
//! what. [`goal`], [`independent`], [`chakra`] and [`flows`] read them, [`collectives`] makes them, [`play`] runs
//! them on the channels of any system.

pub mod chakra;
pub mod collectives;
mod error;
pub mod flows;
pub mod goal;
pub mod independent;
mod play;
mod schedule;
pub mod settings;

pub use error::TraceError;
pub use play::{Played, play};
pub use schedule::{Action, After, Edge, LARGEST, Operation, Schedule, Script, Sent};
