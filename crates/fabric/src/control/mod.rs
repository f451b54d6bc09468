//! Control: who may send, when, and how an initiator learns what became of a packet.

mod bulk_node;
mod global_schedule;
mod slot_timing;
mod speculation;

pub use bulk_node::{BulkNode, GrantError, Granted};
pub use global_schedule::{
    GlobalSchedule, GlobalScheduleSettings, GrantNotice, NodeConfiguration, Reception,
    TransferReport,
};
pub use slot_timing::{SlotTiming, SlotTimingError, SlotTimingSettings};
pub use speculation::Speculation;
