//! The attenuation of a copper link: cable, connectors and circuit board traces (Clint 3.5).
//!
//! No packet is slowed or lost by it in a simulation; the calculator tells whether a link of a
//! given length can work at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Decibel, DecibelPerLength, Length};

/// Settings of a link budget. The defaults are those of Clint 3.5 for the bulk link at
/// 2.5 Gbit/s, for one side of the link on each of two boards.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkBudgetSettings {
    /// Attenuation of the cable for each metre.
    pub cable: DecibelPerLength,
    /// Length of the cable.
    pub length: Length,
    /// Attenuation of one connector.
    pub connector: Decibel,
    /// How many connectors the signal passes.
    pub connectors: u16,
    /// Attenuation of one circuit board trace of maximum length.
    pub trace: Decibel,
    /// How many traces the signal passes.
    pub traces: u16,
}

/// Where the signal is attenuated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBudget {
    /// By the cable.
    pub cable: Decibel,
    /// By all connectors.
    pub connectors: Decibel,
    /// By all traces.
    pub traces: Decibel,
}

impl Default for LinkBudgetSettings {
    fn default() -> LinkBudgetSettings {
        LinkBudgetSettings {
            cable: DecibelPerLength(580),
            length: Length(5_000_000),
            connector: Decibel(1_000),
            connectors: 2,
            trace: trace_attenuation(DecibelPerInch::CLINT, 6),
            traces: 2,
        }
    }
}

/// An attenuation per inch of trace in thousandths of a decibel, as boards are laid out in inches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecibelPerInch(pub i64);

impl DecibelPerInch {
    /// Clint 3.5: 0.5 dB/in.
    pub const CLINT: DecibelPerInch = DecibelPerInch(500);
}

/// The attenuation of a trace of `inches` (Clint 3.5: 6 in x 0.5 dB/in = 3 dB).
pub const fn trace_attenuation(per_inch: DecibelPerInch, inches: u16) -> Decibel {
    Decibel(per_inch.0 * inches as i64)
}

impl LinkBudgetSettings {
    /// The attenuation, part by part.
    pub fn budget(&self) -> LinkBudget {
        LinkBudget {
            cable: self.cable.over(self.length),
            connectors: Decibel(self.connector.0 * i64::from(self.connectors)),
            traces: Decibel(self.trace.0 * i64::from(self.traces)),
        }
    }
}

impl LinkBudget {
    /// The attenuation of the whole link.
    pub const fn total(&self) -> Decibel {
        Decibel(self.cable.0 + self.connectors.0 + self.traces.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clint 3.5: 5 m at 0.58 dB/m are 2.9 dB, a trace of 6 in at 0.5 dB/in is 3 dB, a connector
    /// 1 dB; with two of each 10.9 dB.
    #[test]
    fn the_bulk_link_loses_10_9_db() {
        let budget = LinkBudgetSettings::default().budget();
        assert_eq!(budget.cable.to_string(), "2.9 dB");
        assert_eq!((budget.connectors, budget.traces), (Decibel(2_000), Decibel(6_000)));
        assert_eq!(budget.total().to_string(), "10.9 dB");
    }

    #[test]
    fn a_longer_cable_costs_by_the_metre() {
        let settings = LinkBudgetSettings {
            length: Length(12_500_000),
            connectors: 4,
            traces: 0,
            ..LinkBudgetSettings::default()
        };
        assert_eq!(settings.budget().total(), Decibel(7_250 + 4_000));
    }
}
