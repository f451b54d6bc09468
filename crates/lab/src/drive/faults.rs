//! Intentional faults of a channel: damaged packets, slow hosts, disabled initiators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_fabric::link::ErrorSettings;
use weft_units::{Span, Time};

use super::receiver::ReceiverSettings;

/// The faults of a channel; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The errors of packets on the links.
    pub errors: ErrorSettings,
    /// The receive buffers of each adapter; unlimited if absent.
    pub receiver: Option<ReceiverSettings>,
    /// Initiators whose requests the switch does not forward.
    pub disabled: Vec<DisabledInitiator>,
}

impl Faults {
    /// The key of the first fault that is given, relative to the channel.
    pub fn first(&self) -> Option<&'static str> {
        if !self.errors.is_free_of_errors() {
            return Some("errors");
        }
        if self.receiver.is_some() {
            return Some("receiver");
        }
        (!self.disabled.is_empty()).then_some("disabled")
    }
}

/// An initiator that targets disable, for example because it may be faulty (Clint 3.3): their
/// enable vectors exclude it. Each channel has its own vector. Where signalling is carried, both
/// vectors travel in the configurations of the targets and take effect when the next one arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisabledInitiator {
    /// The host.
    pub host: u16,
    /// When it begins, counted from the start of the run.
    #[serde(default)]
    pub from: Span,
    /// The targets that disable it; all of them if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<u16>,
}

impl DisabledInitiator {
    /// Whether `target` leaves it out at `now`.
    pub fn is_left_out(&self, now: Time, target: u16) -> bool {
        Time::ZERO + self.from <= now && (self.by.is_empty() || self.by.contains(&target))
    }
}

/// The initiators that `target` accepts at `now`, one bit each: its enable vector.
pub fn enable_vector(disabled: &[DisabledInitiator], now: Time, target: u16) -> u64 {
    let out = disabled.iter().filter(|out| out.is_left_out(now, target));
    out.fold(u64::MAX, |set, out| set & !(1 << out.host))
}
