//! Links: how long a packet occupies one, how long a signal travels, the line code, and losses.

mod budget;
mod coding;
mod errors;
mod flow_control;
mod lane;
mod lane_sender;
mod room;
mod serial;
mod shared;
mod turns;

pub use budget::{DecibelPerInch, LinkBudget, LinkBudgetSettings, trace_attenuation};
pub use coding::LineCode;
pub use errors::{DamagedPacket, DamagedSlot, ErrorSettings, Errors, LinkErrorSettings};
pub use flow_control::{FlowControl, MOST_CHANNELS, Quench, StopGo};
pub use lane::Lane;
pub use lane_sender::{Commitment, LaneSender, Sendable};
pub use room::Room;
pub use serial::LinkSettings;
pub use shared::{SharedLinkSettings, SharedLinkTiming, SharedLinks};
pub use turns::{
    BurstSettings, DecisionSettings, HoldSettings, PhaseSettings, TurnError, TurnEvent, TurnLink,
    TurnSettings, TurnTiming,
};
