//! Adapters: where packets wait at a host, and what may start next on its link.

mod bulk_sender;
mod initiator;
mod packet_queue;
mod send_buffers;
mod throttle;
mod transport;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Limit;

pub use bulk_sender::{BulkPacket, BulkSender};
pub use initiator::{Initiator, Past};
pub use packet_queue::{Feed, PacketQueue, PerTargetSettings};
pub use send_buffers::{Buffered, SendBuffers};
pub use throttle::{Throttle, ThrottleSettings};
pub use transport::{
    Arrived, Content, FlowCounts, HeldPackets, Outcome, Outgoing, QueuePairs, SeenOnPath, Segment,
    TransportParts, TransportSettings, Transports, Wake,
};

/// Settings of the adapter of one host on one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterSettings {
    /// How many packets the adapter holds; further packets wait in the host's packet queue.
    pub send_buffers: Limit,
    /// Which waiting packet moves into a send buffer that becomes free.
    #[serde(default)]
    pub feed: Feed,
    /// When a send buffer becomes free. By default on the acknowledgment if there is one, otherwise
    /// at the start of the transmission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    /// What happens to an acknowledgment that is ready while the adapter sends a request.
    #[serde(default)]
    pub acknowledgments: Insertion,
    /// Limit on the use of the channel by one host. The paper names this option but did not build
    /// it (Clint 3.4: "a throttling mechanism could be added to the nodes").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleSettings>,
    /// How it carries flows. Required for workloads of flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportSettings>,
}

/// When a send buffer becomes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// When the transmission of its packet starts.
    Transmission,
    /// When its packet is known to have arrived.
    Acknowledgment,
}

/// What happens to an acknowledgment that is ready while the adapter sends a request (Clint 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Insertion {
    /// It waits for the end of the request (architecture Q1).
    #[default]
    Wait,
    /// Its bytes are inserted immediately; the rest of the request follows them (architecture Q2).
    Interleave,
}
