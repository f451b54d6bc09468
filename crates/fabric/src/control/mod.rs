//! Control: which hosts may send when, and how an initiator learns what became of a packet.

mod bulk_node;
mod calendar;
mod distances;
mod global_schedule;
mod pipeline;
mod pipeline_timing;
mod recovery;
mod scheduled_packet;
mod signalling;
mod slot_timing;
mod speculation;
mod transfers;

pub use bulk_node::{BulkNode, GrantError, Granted};
pub use calendar::Calendar;
pub use distances::{Alignment, Distances};
pub use global_schedule::{
    GlobalSchedule, GlobalScheduleSettings, GrantNotice, NodeConfiguration, Reception,
    TransferReport,
};
pub use pipeline::Pipeline;
pub use pipeline_timing::{CarriedTiming, PipelineTiming};
pub use recovery::{OnError, Recovery, RecoverySettings};
pub use scheduled_packet::{Route, ScheduledArrival, ScheduledPacket};
pub use signalling::{CarriedSettings, Heard, Said, Signalling, SignallingSettings};
pub use slot_timing::{SlotTiming, SlotTimingError, SlotTimingSettings};
pub use speculation::Speculation;
pub use transfers::{Failure, Settled, Taken, Transfer, Transfers};
