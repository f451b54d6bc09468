//! The receive buffers of an adapter in front of a host that takes its time.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span, Time};

/// Receive buffers, and how fast the host empties them. If none is free, the target answers with a
/// negative acknowledgment (Clint 3.3). For a host in full detail see `interface`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiverSettings {
    /// How many packets the adapter of a target holds.
    pub buffers: PositiveCount,
    /// How long the host takes for each packet, one at a time; it then frees the buffer.
    pub service: Span,
}

/// The receive buffers of one adapter.
#[derive(Clone, Debug)]
pub struct Receiver {
    settings: Option<ReceiverSettings>,
    /// When each buffer in use is free, in order.
    in_use: VecDeque<Time>,
}

impl Receiver {
    /// Free buffers; unlimited without settings.
    pub fn new(settings: Option<&ReceiverSettings>) -> Receiver {
        Receiver { settings: settings.cloned(), in_use: VecDeque::new() }
    }

    /// Whether there is always a buffer.
    pub fn is_unlimited(&self) -> bool {
        self.settings.is_none()
    }

    /// Takes a buffer for a packet that is whole at `now`. Returns whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        let Some(settings) = &self.settings else { return true };
        while self.in_use.front().is_some_and(|free| *free <= now) {
            self.in_use.pop_front();
        }
        if self.in_use.len() >= settings.buffers.as_usize() {
            return false;
        }
        let idle = self.in_use.back().copied().unwrap_or(now);
        self.in_use.push_back(idle.max(now) + settings.service);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two buffers and a service time of 10 ps: packets at 0 and 1 ps are done at 10 and 20 ps.
    #[test]
    fn a_buffer_is_free_when_the_host_is_done_with_its_packet() {
        let buffers = PositiveCount::new(2).expect("positive");
        let mut receiver = Receiver::new(Some(&ReceiverSettings { buffers, service: Span(10) }));
        let taken = [0, 1, 2, 9, 10, 11, 20, 29].map(|now| receiver.take(Time(now)));
        assert_eq!(taken, [true, true, false, false, true, false, true, false]);
        assert!(Receiver::new(None).take(Time(0)));
    }
}
