//! A full-duplex serial link.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Fraction, Length, Rate, Span, SpanPerLength};

/// Settings of a serial link between a host and its switch; both directions are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSettings {
    /// Data rate of one direction, without the line code.
    pub rate: Rate,
    /// Length of the cable.
    #[serde(default)]
    pub length: Length,
    /// Propagation delay of the cable for each metre.
    #[serde(default)]
    pub delay_per_metre: SpanPerLength,
    /// Fraction of the rate taken by traffic that is not modelled packet by packet. It lengthens
    /// every packet (Clint 4.2: bulk acknowledgments, configurations and grants "are modeled as a
    /// reduction of the available bandwidth").
    #[serde(default)]
    pub reserved: Fraction,
}

impl LinkSettings {
    /// The time that a packet of `size` occupies the link, rounded to the nearest picosecond.
    /// `reserved` must be less than 1.
    pub fn span(&self, size: Bytes) -> Span {
        let whole = self.rate.span(size);
        if self.reserved.get() == 0.0 {
            return whole;
        }
        Span((whole.0 as f64 / (1.0 - self.reserved.get())).round() as u64)
    }

    /// The time that a signal travels from one end to the other.
    pub fn propagation(&self) -> Span {
        self.delay_per_metre.span(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clint 2, 3.2: 36 bytes at 528 Mbit/s are 545.45 ns; 5 % less bandwidth makes 574.16 ns.
    #[test]
    fn a_reserved_fraction_prolongs_a_packet() {
        let mut link = LinkSettings {
            rate: Rate::from_bits_per_second(528_000_000),
            length: Length(5_000_000),
            delay_per_metre: SpanPerLength(5_000_000),
            reserved: Fraction::default(),
        };
        assert_eq!(link.span(Bytes(36)), Span(545_455));
        assert_eq!(link.propagation(), Span(25_000));
        link.reserved = Fraction::new(0.05).expect("a fraction");
        assert_eq!(link.span(Bytes(36)), Span(574_163));
    }
}
