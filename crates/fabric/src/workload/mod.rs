//! Workload: what programs submit to a channel, one source per host.
//!
//! Open-loop traffic is arrival process x burst x destination pattern, each a file here and each
//! with its own random stream per host, so that changing one does not change the draws of the
//! others, and changing the fabric changes none. Greedy and ping-pong sources depend on the fabric
//! and get the feedback for which they ask ([`Source::feedback`]).

mod arrivals;
mod burst;
mod error;
mod flows;
mod pattern;
mod settings;
mod source;
mod stream;

pub use arrivals::ArrivalsSettings;
pub use burst::{BurstLength, BurstSettings, BurstTargets};
pub use error::WorkloadError;
pub use flows::{
    ClosedLoop, FlowDemand, FlowGroup, FlowList, FlowLoop, FlowSizes, IncastSettings, ListedFlow,
};
pub use pattern::{Flow, PatternSettings, PermutationSettings};
pub use settings::{ChannelFacts, Listed, Pair, SourceSettings, WorkloadSettings};
pub use source::{Demand, Feedback, Source};
pub use stream::{
    FlowsSettings, HostRange, MessageStream, RandomFlows, StreamGroup, StreamList, StreamOperation,
};
