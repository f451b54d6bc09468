//! How messages get from the memory of a host into the FIFOs of its adapter and back: by DMA, or by
//! a processor that moves what is too small to be worth setting up a DMA, straight or through the
//! memory of the adapter, over a bus that both directions may share (Maestro 2, 3.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate, Span};

use super::Forwarding;

/// Settings of the path between memory and FIFOs; both directions are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferSettings {
    /// The DMA controller.
    pub dma: MoverSettings,
    /// The processor of the adapter, which moves short messages; without it all messages go by DMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pio: Option<PioSettings>,
    /// The path of messages that go by DMA.
    #[serde(default)]
    pub path: TransferPath,
    /// Whether both directions and both channels share one bus.
    #[serde(default)]
    pub bus: TransferBus,
    /// What the processor of the adapter does for a message; takes no time if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerSettings>,
    /// How many bytes of messages a host may keep in the memory that its system reserves for them
    /// (Maestro 3.4) until they have left, or until they are answered where that releases them;
    /// further messages wait. A message longer than this has the memory to itself. Unlimited if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Bytes>,
    /// Whether the controllers of a link, on both sides, work on a message before it is complete
    /// (Maestro 4.3).
    #[serde(default)]
    pub forwarding: Forwarding,
    /// The target answers every message with one of this payload, on the second pair of FIFOs, and
    /// the initiator measures the time until the response arrives (Maestro 4, remote-DMA latency).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledgment: Option<Bytes>,
}

/// Something that moves packets between memory and FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoverSettings {
    /// What a message costs before its first byte moves.
    #[serde(default)]
    pub set_up: Span,
    /// How fast bytes move.
    pub rate: Rate,
}

/// The processor of the adapter as a mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PioSettings {
    /// The largest payload that it moves; longer messages go by DMA.
    pub up_to: Bytes,
    /// Whose processor it is.
    #[serde(default)]
    pub by: PioBy,
    /// What a message costs before its first byte moves.
    #[serde(default)]
    pub set_up: Span,
    /// How fast bytes move.
    pub rate: Rate,
}

/// The path of messages that go by DMA (Maestro 3.3: the PCI interface moves messages "from the
/// host memory not only to the NI manager's DRAM but also to the FIFO buffers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TransferPath {
    /// Between the memory of the host and the FIFO, packet by packet.
    #[default]
    Direct,
    /// Through the memory of the adapter: its processor moves the message on, packet by packet,
    /// once all of it is there.
    Memory {
        /// How fast the processor moves bytes between its memory and the FIFO.
        rate: Rate,
    },
}

/// Whether the movers of an adapter share the bus to the memory of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransferBus {
    /// Each direction of each channel has a bus of its own.
    #[default]
    Independent,
    /// One packet at a time is on the bus, first come, first served.
    Shared,
}

/// What the processor of an adapter does for a message before its first byte is moved from or to the
/// memory of the host, one message after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManagerSettings {
    /// The time for a message, whatever its size.
    #[serde(default)]
    pub message: Span,
    /// The time to translate the address of a page; answers and barrier requests have no address.
    #[serde(default)]
    pub translation: Span,
    /// How large a page is.
    #[serde(default = "four_kib")]
    pub page: Bytes,
}

/// Whose processor moves short messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PioBy {
    /// The adapter's, which does nothing else during that time.
    #[default]
    Manager,
    /// The host's, straight into the FIFO, by its own addresses and without the processor of the
    /// adapter.
    Host,
}

fn four_kib() -> Bytes {
    Bytes(4_096)
}

impl TransferSettings {
    /// The processor that moves a message of this much payload, if one does.
    pub fn pio(&self, payload: Bytes) -> Option<PioSettings> {
        self.pio.filter(|pio| payload <= pio.up_to)
    }

    /// What moves a message of this much payload.
    pub fn mover(&self, payload: Bytes) -> MoverSettings {
        self.pio(payload)
            .map_or(self.dma, |pio| MoverSettings { set_up: pio.set_up, rate: pio.rate })
    }
}

impl ManagerSettings {
    /// What is done for a message with this much payload in pages of the host, if it has some
    /// there.
    pub fn span(&self, payload: Option<Bytes>) -> Span {
        let pages = payload.map_or(0, |payload| payload.0.div_ceil(self.page.0.max(1)));
        self.message + self.translation * pages
    }
}

#[cfg(test)]
impl TransferSettings {
    /// Packet by packet, by DMA alone, straight into the FIFO.
    pub(super) fn by_dma(dma: MoverSettings) -> TransferSettings {
        TransferSettings {
            dma,
            pio: None,
            path: TransferPath::Direct,
            bus: TransferBus::Independent,
            manager: None,
            reserved: None,
            forwarding: Forwarding::Packets,
            acknowledgment: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_messages_are_moved_by_the_processor() {
        let rate = Rate::from_bits_per_second(320_000_000);
        let dma = MoverSettings { set_up: Span::from_ns(900), rate };
        let mut settings = TransferSettings::by_dma(dma);
        assert_eq!(settings.mover(Bytes(1)), dma);
        let by = PioBy::Manager;
        settings.pio = Some(PioSettings { up_to: Bytes(11), by, set_up: Span::ZERO, rate });
        assert_eq!(settings.mover(Bytes(11)), MoverSettings { set_up: Span::ZERO, rate });
        assert_eq!(settings.mover(Bytes(12)), dma);
    }

    #[test]
    fn translation_is_paid_for_each_page_that_a_message_touches() {
        let ns = Span::from_ns;
        let (message, translation) = (ns(500), ns(200));
        let manager = ManagerSettings { message, translation, page: Bytes(4_096) };
        let spans = [None, Some(0), Some(1), Some(4_096), Some(4_097)]
            .map(|payload| manager.span(payload.map(Bytes)));
        assert_eq!(spans, [500, 500, 700, 700, 900].map(ns));
    }
}
