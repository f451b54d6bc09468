//! Measurement: every latency definition by its own name, counters, conservation.

mod budget;
mod fairness;
mod histogram;
mod hops;
mod instants;
mod journey;
mod level;
mod links;
mod max_min;
mod observations;
mod part;
mod progress;
mod recorder;
mod repeat;
mod series;
mod spent;
mod standing;

pub use budget::{Budget, BudgetRow, Stage};
pub use fairness::Fairness;
pub use histogram::{Bucket, Histogram};
pub use hops::Hops;
pub use instants::Instants;
pub use journey::{Crossing, Ends, Journey, JourneyEnds};
pub use level::Level;
pub use links::LinkUse;
pub use max_min::{Capacity, max_min};
pub use observations::{
    ClassSeen, Collision, ConservationError, Drop, Latency, Observations, Passage,
};
pub use part::{Arrival, Loss, Submission, Told};
pub use progress::Progress;
pub use recorder::Recorder;
pub use series::Series;
pub use spent::{Spent, SpentTable};
pub use standing::Standing;
