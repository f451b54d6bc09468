//! What goes wrong on a channel by intent: damaged packets, hosts that are too slow, initiators
//! that are disabled.

use weft_fabric::link::ErrorSettings;

use super::cluster::DisabledInitiator;
use super::receiver::ReceiverSettings;

/// What goes wrong on a channel; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// What happens to packets on the links.
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
