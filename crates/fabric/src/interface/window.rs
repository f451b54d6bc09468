//! The host side of a mapped window: stores become packets on the bus of the initiator, packets
//! become writes on the bus of the target (Memory Channel 2, The PCI Adapter Card and Figure 9).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::window::{
    Cluster, HostWrites, MapError, NetworkPage, Node, PageSize, ReceivePage, TransmitPage,
};
use weft_units::{Bytes, Fraction, PositiveCount, Rate, Span};

use super::{
    AccessSettings, ClusterSettings, ConfigurationSettings, DetectionSettings, RecoverableSettings,
};

mod clocks;
mod damage;
mod host_bus;
mod logs;
mod members;
mod numbering;
mod operations;
mod page_tables;
mod recovery;

pub use clocks::Clocks;
pub use damage::{Damage, Damageable, DamagedChannel, Leg};
pub use host_bus::{BusTurn, HostBus, Stores, StoresFor, TakenStore};
pub use logs::{Answer, Entry, Logs};
pub use members::{Joining, Members, News, Sent, Silent};
pub use numbering::{Numbering, NumberingStep, Paired};
pub use operations::{Act, Operations, Question, Recoverable, Request, SHORT};
pub use page_tables::{Lookup, MappedStore, PageTables, Through};
pub use recovery::{
    Admitted, PathPacket, RecoveryMessage, RecoveryRules, RecoverySoftware, SoftwareAct,
    SoftwareTimer,
};

/// Settings of the window of each host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSettings {
    /// The granularity of the mapping: 4 KiB or 8 KiB.
    pub page: PageSize,
    /// The size of the window.
    pub size: Bytes,
    /// The largest write of a host; longer runs of stores become several writes. Each submission of
    /// a source is one such write.
    pub write: Bytes,
    /// From a store of the processor to the bus.
    #[serde(default)]
    pub store: Span,
    /// The bus that packets of both directions share. Without it, crossing the bus takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<WindowBusSettings>,
    /// From the last word that the adapter receives to the first byte on the link: the packet is
    /// stored, then forwarded.
    #[serde(default)]
    pub transmit: Span,
    /// From the last byte on the link to the request for the bus: the packet is stored and checked,
    /// then forwarded.
    #[serde(default)]
    pub receive: Span,
    /// From the end of the write on the bus of the target to its memory.
    #[serde(default)]
    pub memory: Span,
    /// From memory to the program that polls it, on average.
    #[serde(default)]
    pub poll: Span,
    /// How many packets the adapter of the target holds in front of the bus.
    pub receive_buffers: PositiveCount,
    /// The size of a control packet, which tells the other side of a link about new room. It
    /// precedes data packets that have not begun; with a bus, control has separate lines.
    #[serde(default)]
    pub control: Bytes,
    /// How many buffers must become free before a control packet reports them; all of them if there
    /// are fewer.
    #[serde(default = "one_place")]
    pub places_per_control: PositiveCount,
    /// A flag after each message, for messages of varying length. Without it, a program polls the
    /// last word of the message itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<FlagSettings>,
    /// How each write of a source is made recoverable, so that its target uses it only once all of
    /// it is known to have arrived. Without it, the target uses whatever is in its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<RecoverableSettings>,
    /// The code by which adapters find damaged packets. For channels with `errors`.
    #[serde(default)]
    pub detection: DetectionSettings,
    /// From an error that an adapter detects to the first message of the cluster software about it,
    /// over pages that stay enabled under error.
    #[serde(default)]
    pub recovery: Span,
    /// Membership, recovery, fail-over and clock of the cluster. Without it no node leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterSettings>,
    /// How nodes come on line. Without it all nodes have their numbers from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ConfigurationSettings>,
    /// The share of the writes of sources that go to a page mapped as broadcast.
    #[serde(default)]
    pub broadcast: Fraction,
    /// Whether the adapters can read the memory of other nodes. Without it programs send messages.
    #[serde(default)]
    pub remote_read: bool,
    /// Whether the adapters support conditional writes, each answered by one acknowledgment that
    /// says whether it was accepted. Without it, recoverable writes take round trips.
    #[serde(default)]
    pub conditional_write: bool,
    /// Whether every run is checked against the three ordering rules.
    #[serde(default)]
    pub check_order: bool,
    /// Which pages are mapped: those of `outgoing` and `incoming`, or, without lists, pages of
    /// every node to every other.
    #[serde(default)]
    pub mappings: MappingSettings,
    /// Whether adapters remap incoming pages.
    #[serde(default)]
    pub remapping: bool,
    /// From a packet in memory to its program where the page interrupts the processor, which then
    /// does not poll. For incoming pages with `interrupt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Span>,
    /// Outgoing pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<OutgoingPage>,
    /// Incoming pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incoming: Vec<IncomingPage>,
    /// Accesses of single programs, in addition to the traffic of sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<AccessSettings>,
}

/// The bus between a host and its adapter (PCI).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowBusSettings {
    /// Its rate in data cycles.
    pub rate: Rate,
    /// The width: the bytes of one cycle.
    pub word: Bytes,
    /// Cycles of each transaction before its data.
    #[serde(default)]
    pub overhead: u32,
    /// Cycles after each write of the host before the next one.
    #[serde(default)]
    pub stall: u32,
}

/// Which pages are mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MappingSettings {
    /// The listed pages. A store goes through the entry of its page on both sides; a store to a
    /// page that is not mapped does not arrive.
    #[default]
    Listed,
    /// Every node has plain pages to every other, one to all others, and pages that can be read and
    /// conditionally written. Their memory is not counted, since nothing says how many there are.
    All,
}

/// A flag that announces a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlagSettings {
    /// The size of its packet.
    pub size: Bytes,
    /// From the flag to the message: the time to read it from memory.
    #[serde(default)]
    pub read: Span,
}

/// A page that a node maps outgoing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutgoingPage {
    /// The node.
    pub node: Node,
    /// The page.
    pub page: NetworkPage,
    /// Where it goes, and its attributes.
    pub entry: TransmitPage,
}

/// A page that a node maps incoming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IncomingPage {
    /// The node.
    pub node: Node,
    /// The page.
    pub page: NetworkPage,
    /// Its attributes.
    pub entry: ReceivePage,
}

fn one_place() -> PositiveCount {
    PositiveCount::ONE
}

impl WindowSettings {
    /// How stores become packets of at most `payload`.
    pub fn writes(&self, payload: Bytes) -> HostWrites {
        HostWrites { write: self.write, payload }
    }

    /// How long a packet of a size takes on the bus.
    #[inline]
    pub fn transaction(&self, size: Bytes) -> Span {
        self.bus.as_ref().map_or(Span::ZERO, |bus| bus.transaction(size))
    }

    /// Whether there are page control tables, through whose entries all stores go.
    pub fn is_listed(&self) -> bool {
        self.mappings == MappingSettings::Listed
    }

    /// The page control tables of the cluster, as they are mapped.
    ///
    /// # Errors
    /// If nodes and ports, or the mappings, do not fit.
    pub fn cluster(&self, nodes: u16, ports: u16, payload: Bytes) -> Result<Cluster, MapError> {
        let mut cluster = Cluster::new(nodes, ports, self.page, self.size, self.writes(payload))?;
        for OutgoingPage { node, page, entry } in &self.outgoing {
            cluster.map_outgoing(*node, *page, *entry)?;
        }
        for IncomingPage { node, page, entry } in &self.incoming {
            cluster.map_incoming(*node, *page, *entry)?;
        }
        cluster.check_consent()?;
        Ok(cluster)
    }
}

impl WindowBusSettings {
    /// One cycle.
    pub fn cycle(&self) -> Span {
        self.rate.span(self.word)
    }

    /// How long a transaction takes: overhead, and a cycle for each word.
    pub fn transaction(&self, size: Bytes) -> Span {
        let cycles = u64::from(self.overhead) + size.0.div_ceil(self.word.0.max(1));
        self.cycles(cycles)
    }

    /// How long the bus rests after a write of the host.
    pub fn stall_span(&self) -> Span {
        self.cycles(u64::from(self.stall))
    }

    /// A number of cycles, rounded once.
    pub fn cycles(&self, cycles: u64) -> Span {
        self.rate.span(Bytes(self.word.0 * cycles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 33 MHz x 32 bit: 8 bytes take 3 + 2 cycles, 32 bytes 3 + 8.
    #[test]
    fn transactions_by_hand() {
        let bus = WindowBusSettings {
            rate: Rate::from_bits_per_second(1_056_000_000),
            word: Bytes(4),
            overhead: 3,
            stall: 1,
        };
        assert_eq!(bus.cycle(), Span(30_303));
        assert_eq!(bus.transaction(Bytes(8)), Span(151_515));
        assert_eq!(bus.transaction(Bytes(32)), Span(333_333));
        assert_eq!(bus.transaction(Bytes(5)), bus.transaction(Bytes(8)));
    }
}
