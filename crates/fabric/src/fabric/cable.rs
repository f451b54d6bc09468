//! How one cable differs from the `link` of its channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Fraction, Length, Rate, SpanPerLength};

use crate::link::LinkSettings;

/// Settings of a cable, or of all cables of a tier. Keys that are not given are those of the
/// channel's `link`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CableSettings {
    /// Data rate of one direction, without the line code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Length of the cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// Propagation delay of the cable for each metre.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_per_metre: Option<SpanPerLength>,
    /// Fraction of the rate taken by traffic that is not modelled packet by packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Fraction>,
}

impl CableSettings {
    /// Whether it is a cable like all others.
    pub fn is_default(&self) -> bool {
        *self == CableSettings::default()
    }

    /// The link over this cable on a channel whose link is `link`.
    pub fn over(&self, link: &LinkSettings) -> LinkSettings {
        LinkSettings {
            rate: self.rate.unwrap_or(link.rate),
            length: self.length.unwrap_or(link.length),
            delay_per_metre: self.delay_per_metre.unwrap_or(link.delay_per_metre),
            reserved: self.reserved.unwrap_or(link.reserved),
        }
    }
}
