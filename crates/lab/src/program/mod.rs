//! Programs: what the ranks of a parallel program do, in simulated time, over any channel.
//!
//! A [`Machine`] holds ranks, channels and time; a [`Crew`] runs sequential programs on it, each on
//! a [`Node`]; the [`library`] has programs that measure an interconnect. [`settings`] describes all
//! that in a file.

mod account;
pub(crate) mod background;
mod error;
pub mod library;
mod machine;
mod matching;
mod node;
mod operation;
mod ordered_lock;
mod placement;
mod policy;
pub mod settings;
mod tables;

pub use account::{Account, Activity, Interval, Passage, Spent};
pub use background::ProgramChannel;
pub use error::ProgramError;
pub use machine::{CLOCK_END, Machine};
pub(crate) use matching::KeyHasher;
pub use matching::{RESERVED_TAGS, Wanted};
pub use node::{Crew, Node, Operation};
pub use operation::{OpId, Outgoing, Received};
pub use ordered_lock::OrderedLock;
pub use placement::Placement;
pub use policy::{Kind, Policy, Rule};
pub use tables::{RankReport, RankRow};
