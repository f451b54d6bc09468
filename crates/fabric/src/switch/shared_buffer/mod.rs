//! A packet switch as data centres have them: one memory in bytes that all ports share, a queue for
//! each port and traffic class, dynamic thresholds, priority flow control, marking and trimming.
//!
//! A packet is *in the memory* from its admission until its last byte has left. Lossless traffic is
//! accounted for by input, since a pause must go to the sender at that input; all other traffic by
//! output queue.

mod build;
mod cables;
mod counts;
mod credits;
mod departures;
mod division;
mod egress;
mod header;
mod headroom;
mod marks;
mod memory;
mod pass;
mod planned;
mod ports;
mod rule;
mod settings;
mod telemetry;
mod turns;

pub use build::PortsParts;
pub use counts::{ClassCounts, PauseCounts};
pub use credits::{Credit, InputCredit, MOST_CREDIT, credit_item, credit_of};
pub use header::Header;
pub use headroom::{HeadroomParts, headroom};
pub use memory::{Admission, Memory, MemoryParts};
pub use pass::Passage;
pub use ports::{FarEnd, Freed, Next, Ports, SwitchRule};
pub use settings::{
    ClassSettings, EcnLaw, EcnSettings, MarkAt, PauseThreshold, PfcSettings, QueueLimit,
    ScheduleSettings, SharedBufferSettings, SwitchForwarding, TrimSettings,
};
pub use telemetry::{HopTelemetry, Telemetry};

use weft_units::Bytes;

/// Traffic classes that there can be: the priority of IEEE 802.1Q has three bits.
pub const MOST_CLASSES: usize = 8;

/// The size of a pause frame on the wire: a MAC control frame has the least length of Ethernet
/// (IEEE 802.1Qbb, IEEE 802.3 clause 31).
pub const PAUSE_FRAME: Bytes = Bytes(64);
