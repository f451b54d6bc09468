//! Switches without a schedule: each output decides when packets arrive.
//!
//! The caller reports every arrival at an input ([`Arrival`]), and the switch decides once for all
//! arrivals of one picosecond at an output. Times at the outputs do not include the latency of the
//! switch, which is added where a packet leaves it.

mod barrier_tree;
mod chain;
mod crossbar;
mod fifo_bus;
mod hub;
mod input_queued;
mod output_buffered;
mod output_queued;
mod ring;
pub mod shared_buffer;
mod shared_memory;
mod simultaneous;
mod switch_box;

use weft_units::{Span, Time};

pub use barrier_tree::{BarrierTree, Counted};
pub use chain::Chain;
pub use crossbar::{AcknowledgmentRule, Blocked, Contention, Crossbar, CrossbarSettings, Met};
pub use fifo_bus::{
    BarrierCounter, BusController, FifoBusSettings, HeaderQueues, MulticastStart, Transfer,
};
pub use hub::{
    ArbiterSettings, Awaited, Hub, HubRequest, HubScheduler, HubSettings, HubSide, HubTimes,
    HubTimesParts, MAX_HUB_PORTS, Synchronisation, TimesOfSize, TransferSettings,
};
pub(crate) use input_queued::CellSwitch;
pub use input_queued::{
    BusParts, FifoCrossbarParts, Grant, InputQueued, InputQueuedParts, InputQueuedSettings,
    InputQueues, Outbox, StopSettings,
};
pub use output_buffered::{OutputBuffered, OutputBufferedSettings, Overflow};
pub use output_queued::OutputQueuedSettings;
pub use ring::{
    BridgeSettings, RingDemand, RingKind, RingLinkSettings, RingNode, RingSettings, RingTurn,
};
pub use shared_buffer::SharedBufferSettings;
pub use shared_memory::{SharedMemorySettings, SharedQueues};
pub use simultaneous::Simultaneous;
pub use switch_box::{BoxPorts, BoxRules, CONTROLLER, Header, SwitchBox, bits};

/// The kinds of packet that a switch distinguishes, by falling priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// A packet that keeps to a global schedule, by which no two of them ever meet; it has priority
    /// over all others (Clint 3.3: `cfg`, `gnt` and `back`).
    Scheduled,
    /// An acknowledgment packet; it has priority over requests.
    Acknowledgment,
    /// A request packet.
    Request,
}

/// The port by which a packet comes to a switch, and the one by which it leaves; counted at the switch or among the
/// ports of all switches, as each function says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// Where it comes in.
    pub input: u32,
    /// Where it leaves.
    pub output: u32,
}

impl PortPair {
    /// The same ports, counted from this one on, which is the first of their switch.
    #[inline]
    fn counted_from(self, first: u32) -> PortPair {
        PortPair { input: self.input - first, output: self.output - first }
    }
}

/// The first byte of a packet at an input of the switch.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<K> {
    /// The input port.
    pub input: u16,
    /// Its kind.
    pub kind: PacketKind,
    /// How long it occupies a link.
    pub span: Span,
    /// The caller's name of the packet.
    pub key: K,
}

/// Against what a packet lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A request packet at the same output.
    ToRequest,
    /// An acknowledgment packet at the same output.
    ToAcknowledgment,
    /// A packet that keeps to the global schedule, at the same output.
    ToScheduled,
    /// A transfer of the channel that shares the link to the target, which it would delay too much.
    ToTransfer,
    /// All buffers of the output were full.
    Overflow,
}

/// The effect of a decision of an output on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<K> {
    /// It leaves by the output; its last byte leaves the switch at `end`.
    Forwarded {
        /// The packet.
        key: K,
        /// When the last byte leaves the switch, unless something is inserted before it.
        end: Time,
    },
    /// It is dropped on its arrival.
    Dropped {
        /// The packet.
        key: K,
        /// Against what it lost.
        loss: Loss,
    },
    /// It had been forwarded in part; the rest of it is dropped.
    Killed {
        /// The packet.
        key: K,
        /// The packet type that displaced it.
        loss: Loss,
    },
    /// Other bytes are inserted into it: its last byte leaves later than was said.
    Stretched {
        /// The packet.
        key: K,
        /// By how much later.
        by: Span,
    },
    /// Back pressure holds it on its link, from now on until it is forwarded.
    Blocked {
        /// The packet.
        key: K,
    },
}
