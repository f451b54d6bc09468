//! What a composition says about the channels of a cluster that act together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_fabric::control::Speculation;
use weft_fabric::link::SharedLinkSettings;
use weft_units::{Bytes, Limit, Span};

/// How configurations, grants and acknowledgments of a scheduled channel travel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignallingSettings {
    /// Without packets: requests are known when they are sampled, grants when they are used,
    /// outcomes when the acknowledgment stage is over.
    #[default]
    Ideal,
    /// As packets on another channel (Clint 3.2: "all signaling for the bulk channel is done via
    /// the quick channel").
    Carried(CarriedSettings),
}

/// Settings of signalling that travels as packets on another channel (Clint 3.2, Table 1; 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CarriedSettings {
    /// The channel that carries it: one with a crossbar that drops, and nothing `reserved` on its
    /// link, since what would be reserved travels as packets now.
    pub by: String,
    /// Size of a configuration packet (`cfg`), from every adapter to the switch once a slot.
    pub configuration: Bytes,
    /// Size of a grant packet (`gnt`), from the switch to every adapter once a slot.
    pub grant: Bytes,
    /// Size of an acknowledgment packet (`back`), from the target of each transfer to its
    /// initiator, over the connections of the transfer in the opposite direction.
    pub acknowledgment: Bytes,
    /// From the arrival of the configurations to the moment at which the grants enter the output
    /// stages of the switch.
    pub arbitration: Span,
    /// From the last byte of a request to the moment when its acknowledgment is ready to be sent.
    #[serde(default)]
    pub turn_around: Span,
    /// Both channels are virtual channels of one link, which they share on demand. An option that
    /// the paper names and did not build (Clint 2). Both have the same `link` then, and switches of
    /// the same `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_link: Option<SharedLinkSettings>,
}

/// What is done about a transfer that failed (Clint 3.1, 3.3: `trErr`). The paper says that the
/// error is reported to the host and not what the host does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoverySettings {
    /// How often the adapter transmits a packet before it reports the error to the host. With 1
    /// every error is reported.
    pub attempts: Limit,
    /// What the host does with a packet whose error is reported.
    pub on_error: OnError,
}

/// What the host does with a packet whose transmission error is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It hands it over once more, before later packets of the same pair.
    #[default]
    SendAgain,
    /// It gives it up.
    GiveUp,
}

impl Default for RecoverySettings {
    fn default() -> RecoverySettings {
        RecoverySettings { attempts: Limit::Unlimited, on_error: OnError::default() }
    }
}

/// How hosts at different distances from the switch fall into step (Clint 3.3). The grants, which leave
/// the switch together, tell them of the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// By the grants alone: the packet of a host comes to the switch earlier by twice what its cable is
    /// shorter, and the gap of a slot covers it.
    #[default]
    Gap,
    /// Every host has measured the round trip of its link, and waits for as much longer as its cable is
    /// shorter: the packets of a slot come to the switch together. The paper names it and did not build
    /// it; here the measurement is exact.
    RoundTrips,
}

/// Whether a scheduled switch asks for more than requests and grants without packets.
pub(crate) fn is_detailed(signalling: &SignallingSettings, speculation: Speculation) -> bool {
    *signalling != SignallingSettings::Ideal || speculation != Speculation::Off
}
