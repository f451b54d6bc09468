//! How messages get from the memory of a host into the FIFOs of its adapter and back: by DMA, or by
//! a processor that moves what is too small to be worth setting up a DMA (Maestro 2, 3.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate, Span};

use super::Forwarding;

/// Settings of the way between memory and FIFOs; both directions are alike and independent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferSettings {
    /// The DMA controller.
    pub dma: MoverSettings,
    /// The processor of the adapter, which moves short messages; without it all go by DMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pio: Option<PioSettings>,
    /// Whether the controller of the link works on a message that is not there as a whole, on
    /// both sides (Maestro 4.3).
    #[serde(default)]
    pub forwarding: Forwarding,
    /// The target answers every message with one of this payload, on the second pair of FIFOs, and
    /// the initiator counts the time until it has it (Maestro 4, remote-DMA latency).
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
    /// What a message costs before its first byte moves.
    #[serde(default)]
    pub set_up: Span,
    /// How fast bytes move.
    pub rate: Rate,
}

impl TransferSettings {
    /// What moves a message of so much payload.
    pub fn mover(&self, payload: Bytes) -> MoverSettings {
        match self.pio {
            Some(PioSettings { up_to, set_up, rate }) if payload <= up_to => {
                MoverSettings { set_up, rate }
            }
            _ => self.dma,
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
        let mut settings = TransferSettings {
            dma,
            pio: None,
            forwarding: Forwarding::Packets,
            acknowledgment: None,
        };
        assert_eq!(settings.mover(Bytes(1)), dma);
        settings.pio = Some(PioSettings { up_to: Bytes(11), set_up: Span::ZERO, rate });
        assert_eq!(settings.mover(Bytes(11)), MoverSettings { set_up: Span::ZERO, rate });
        assert_eq!(settings.mover(Bytes(12)), dma);
    }
}
