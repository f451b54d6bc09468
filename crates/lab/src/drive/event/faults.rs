//! What goes wrong on a channel by intent: damaged packets, hosts that are too slow, initiators
//! that are disabled.

use weft_fabric::link::ErrorSettings;
use weft_kernel::Streams;
use weft_units::Time;

use super::host::Host;
use crate::drive::cluster::DisabledInitiator;
use crate::drive::receiver::{Receiver, ReceiverSettings};

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

    pub(super) fn apply(&self, hosts: &mut [Host], streams: &Streams, channel: &str) {
        for (index, host) in (0..).zip(hosts.iter_mut()) {
            host.receiver = Receiver::new(self.receiver.as_ref());
            if !self.errors.is_free_of_errors() {
                host.errors = Some(self.errors.build(streams, channel, index));
            }
        }
        for disabled in &self.disabled {
            if let Some(host) = hosts.get_mut(usize::from(disabled.host)) {
                host.disabled_from = Time::ZERO + disabled.from;
            }
        }
    }
}
