//! The cost of crossing the bus between a host and its adapter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate, Span};

/// Costs of the bus between host and adapter. All default to zero: the paper names the overhead
/// and gives no number (Clint 3.1, footnote 2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusSettings {
    /// What a write of the host to a register of the adapter costs the host. Such a write crosses
    /// the bus alone and needs an address translation.
    pub host_write: Span,
    /// What polling a valid bit in its own memory costs the host.
    pub poll: Span,
    /// From the adapter's decision to copy to the first byte of the copy.
    pub dma_setup: Span,
    /// Rate of a copy by the adapter; without it a copy takes only its set-up.
    pub dma_rate: Option<Rate>,
}

impl BusSettings {
    /// How long the adapter's copy of `size` occupies the bus.
    pub fn copy(&self, size: Bytes) -> Span {
        self.dma_setup + self.dma_rate.map_or(Span::ZERO, |rate| rate.span(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus of 66 MHz and 32 bits, 2112 Mbit/s: 2080 bytes take 7879 ns and the set-up.
    #[test]
    fn a_copy_is_set_up_and_bytes() {
        assert_eq!(BusSettings::default().copy(Bytes(2080)), Span::ZERO);
        let bus = BusSettings {
            dma_setup: Span::from_ns(500),
            dma_rate: Some(Rate::from_bits_per_second(2_112_000_000)),
            ..BusSettings::default()
        };
        assert_eq!(bus.copy(Bytes(2080)), Span(500_000 + 7_878_788));
        assert_eq!(bus.copy(Bytes(0)), Span::from_ns(500));
    }
}
