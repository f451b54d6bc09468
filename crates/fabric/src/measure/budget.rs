//! Where the time went: the stages between the generation of a packet and its delivery.

use serde::{Deserialize, Serialize};
use weft_units::Span;

/// One stage on the way of a packet. A part adds the spans of the stages that it causes; stages
/// that follow each other without gap add up to a latency definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From generation until the packet has a send buffer of the adapter.
    BufferWait,
    /// From the send buffer until the schedule, or a free link, lets the packet start.
    SlotWait,
    /// From the start of the first transmission to the start of the one that succeeds.
    Retry,
    /// The packet's length at the rate of the link.
    Transmission,
    /// Propagation on every wire of the path.
    Wire,
    /// Forwarding latency of every switch on the path, without waiting.
    Switch,
    /// Waiting inside switches: held back, or queued.
    SwitchWait,
    /// Adapter, bus and program of the initiator before the packet is generated on the channel.
    InitiatorHost,
    /// Adapter, bus and program of the target after the last byte.
    TargetHost,
}

impl Stage {
    /// Every stage, in the order of the way.
    pub const ALL: [Stage; 9] = [
        Stage::InitiatorHost,
        Stage::BufferWait,
        Stage::SlotWait,
        Stage::Retry,
        Stage::Transmission,
        Stage::Wire,
        Stage::Switch,
        Stage::SwitchWait,
        Stage::TargetHost,
    ];

    /// The name in columns and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::BufferWait => "buffer_wait",
            Stage::SlotWait => "slot_wait",
            Stage::Retry => "retry",
            Stage::Transmission => "transmission",
            Stage::Wire => "wire",
            Stage::Switch => "switch",
            Stage::SwitchWait => "switch_wait",
            Stage::InitiatorHost => "initiator_host",
            Stage::TargetHost => "target_host",
        }
    }
}

/// Exact sums of the spans spent in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    counts: [u64; Stage::ALL.len()],
    sums: [u128; Stage::ALL.len()],
}

impl Budget {
    /// Adds the span that one packet spent in a stage.
    #[inline]
    pub fn add(&mut self, stage: Stage, span: Span) {
        self.counts[stage as usize] += 1;
        self.sums[stage as usize] += u128::from(span.0);
    }

    /// Adds the same span for a number of packets.
    pub fn add_times(&mut self, stage: Stage, span: Span, packets: u64) {
        self.counts[stage as usize] += packets;
        self.sums[stage as usize] += u128::from(span.0) * u128::from(packets);
    }

    /// Pools the spans of another run with these.
    pub fn merge(&mut self, other: &Budget) {
        for stage in Stage::ALL {
            self.counts[stage as usize] += other.counts[stage as usize];
            self.sums[stage as usize] += other.sums[stage as usize];
        }
    }

    /// How many spans were added to a stage.
    pub fn count(&self, stage: Stage) -> u64 {
        self.counts[stage as usize]
    }

    /// The time spent in a stage, in picoseconds.
    pub fn sum_ps(&self, stage: Stage) -> u128 {
        self.sums[stage as usize]
    }

    /// The time spent in all stages, in picoseconds: what a latency definition that consists of
    /// exactly these stages must sum up to.
    pub fn total_ps(&self) -> u128 {
        self.sums.iter().sum()
    }

    /// The stages that were used: stage, mean per packet in picoseconds, share of the whole.
    /// `packets` is the number of packets that the whole is spread over.
    pub fn rows(&self, packets: u64) -> impl Iterator<Item = (Stage, f64, f64)> {
        let total = self.total_ps().max(1) as f64;
        Stage::ALL.into_iter().filter(|&stage| self.count(stage) > 0).map(move |stage| {
            let sum = self.sum_ps(stage) as f64;
            (stage, sum / packets.max(1) as f64, sum / total)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_packets_by_hand() {
        let mut budget = Budget::default();
        budget.add(Stage::Wire, Span(25));
        budget.add(Stage::Wire, Span(25));
        budget.add(Stage::SlotWait, Span(50));
        assert_eq!((budget.total_ps(), budget.count(Stage::Wire)), (100, 2));
        let rows: Vec<_> = budget.rows(2).collect();
        assert_eq!(rows, [(Stage::SlotWait, 25.0, 0.5), (Stage::Wire, 25.0, 0.5)]);
        budget.merge(&budget.clone());
        assert_eq!((budget.total_ps(), budget.count(Stage::SlotWait)), (200, 2));
    }

    #[test]
    fn an_empty_budget_has_no_rows() {
        assert_eq!(Budget::default().rows(0).count(), 0);
    }

    #[test]
    fn every_stage_has_its_place_and_its_name() {
        let mut seen: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), Stage::ALL.len());
        assert!(Stage::ALL.iter().all(|&stage| (stage as usize) < Stage::ALL.len()));
    }
}
