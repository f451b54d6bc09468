//! Flow control: what protects a buffer from overflow.
//!
//! Each kind is a pair of state machines, one at the buffer and one at the sender. The caller
//! reports what happened, and the machine returns the signal for the other one; how that travels,
//! and how long it takes, is decided elsewhere.

mod credits;
mod hysteresis;
mod quench;
mod stop_go;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

pub use credits::Credits;
pub use hysteresis::{Crossing, Hysteresis, Marks};
pub use quench::{QuenchMonitor, QuenchSettings, QuenchedSource, Quenching};
pub use stop_go::StopGoSettings;

/// What protects buffers from overflow: one key of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowControlSettings {
    /// The sender has a credit for each packet that the buffer can hold. It spends a credit with
    /// the first byte of a packet, and the credit returns over the cable when the last byte has
    /// left the buffer.
    #[default]
    Credits,
    /// Credits for each of several virtual channels, which share a cable and have separate buffers
    /// (Dally, "Virtual-Channel Flow Control", IEEE TPDS 3(2) 1992). A connection stays on one.
    VirtualChannelCredits(VirtualChannelSettings),
    /// A full input stops the cable that fills it, whatever is sent on that cable (cLAN G: the
    /// link-level flow control that replaces source quench).
    StopGo(StopGoSettings),
    /// A switch stops the source of the connection that fills it (cLAN C).
    SourceQuench(QuenchSettings),
}

/// Settings of virtual channels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualChannelSettings {
    /// How many virtual channels there are on each cable; at most 16. The buffer of an input is
    /// divided among them.
    pub channels: PositiveCount,
}

impl FlowControlSettings {
    /// The name of the kind in files.
    pub const fn name(&self) -> &'static str {
        match self {
            FlowControlSettings::Credits => "credits",
            FlowControlSettings::VirtualChannelCredits(_) => "virtual_channel_credits",
            FlowControlSettings::StopGo(_) => "stop_go",
            FlowControlSettings::SourceQuench(_) => "source_quench",
        }
    }
}
