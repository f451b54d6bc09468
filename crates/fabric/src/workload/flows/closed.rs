//! Closed loops: hosts that begin a flow when one of theirs has ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{PositiveCount, Span, Time};

use super::sizes::SizeLaw;
use super::{FlowDemand, Targets};

/// Each host has a fixed number of flows in progress, in place of a load. When the initiator of one
/// knows that its target has all of it, the next one begins, after a think time. If R is the mean
/// of that time plus the mean time from the beginning of a flow to its last acknowledgment, a host
/// begins `outstanding` / R flows a second (Little's law).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// How many flows a host has in progress.
    pub outstanding: PositiveCount,
    /// From the end of a flow until the next one begins.
    #[serde(default)]
    pub think: Span,
}

/// The flows of a group in a closed loop.
#[derive(Debug)]
pub struct FlowLoop {
    pub(super) group: u16,
    pub(super) class: u8,
    pub(super) think: Span,
    pub(super) end: Time,
    pub(super) sizes: SizeLaw,
    /// By host; `None` for one that sends to no other.
    pub(super) hosts: Vec<Option<LoopHost>>,
}

/// What a host draws its flows from.
#[derive(Debug)]
pub(super) struct LoopHost {
    pub targets: Targets,
    pub destinations: Stream,
    pub lengths: Stream,
}

impl FlowLoop {
    /// Whether these flows belong to a group.
    #[inline]
    pub fn is_of(&self, group: u16) -> bool {
        self.group == group
    }

    /// The flow that follows one of a host that has ended at `now`; none after the end of the group.
    pub fn next(&mut self, host: u32, now: Time) -> Option<FlowDemand> {
        self.begin(host, now + self.think)
    }

    pub(super) fn begin(&mut self, host: u32, start: Time) -> Option<FlowDemand> {
        let own = self.hosts.get_mut(host as usize)?.as_mut().filter(|_| start < self.end)?;
        let to = own.targets.draw(&mut own.destinations);
        let size = self.sizes.draw(&mut own.lengths);
        Some(FlowDemand { start, size, from: host, to, group: self.group, class: self.class })
    }
}
