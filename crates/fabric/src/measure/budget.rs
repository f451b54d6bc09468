//! Where the time went: the stages between the generation of a packet and its delivery.

use serde::{Deserialize, Serialize};
use weft_units::Span;

/// One stage of the path of a packet. A part adds the spans of the stages that it causes; stages
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
    /// Waiting at the target for older packets of the pair, where their order is restored.
    OrderWait,
    /// Host and bus of the initiator: from generation until the adapter holds the whole message,
    /// where the channel has an interface.
    InitiatorHost,
    /// Adapter, bus and program of the target after the last byte.
    TargetHost,
}

impl Stage {
    /// Every stage, in the order of the path.
    pub const ALL: [Stage; 10] = [
        Stage::InitiatorHost,
        Stage::BufferWait,
        Stage::SlotWait,
        Stage::Retry,
        Stage::Transmission,
        Stage::Wire,
        Stage::Switch,
        Stage::SwitchWait,
        Stage::OrderWait,
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
            Stage::OrderWait => "order_wait",
            Stage::InitiatorHost => "initiator_host",
            Stage::TargetHost => "target_host",
        }
    }
}

/// Exact sums of the spans spent in each stage: those that every channel knows, and those that a
/// composition names for its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    counts: [u64; Stage::ALL.len()],
    sums: [u128; Stage::ALL.len()],
    named: Vec<NamedSum>,
}

/// A stage with the name that a composition gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NamedSum {
    name: String,
    of_initiator: bool,
    count: u64,
    sum: u128,
}

/// A stage that was used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetRow<'a> {
    /// Its name.
    pub stage: &'a str,
    /// What a packet spent there in the mean, in picoseconds.
    pub mean_ps: f64,
    /// Its share of the time in all stages.
    pub share: f64,
}

impl Budget {
    /// Adds the span that one packet spent in a stage.
    #[inline]
    pub fn add(&mut self, stage: Stage, span: Span) {
        self.counts[stage as usize] += 1;
        self.sums[stage as usize] += u128::from(span.0);
    }

    /// Adds the spans that one packet spent in several stages.
    #[inline]
    pub fn add_all(&mut self, stages: &[(Stage, Span)]) {
        stages.iter().for_each(|(stage, span)| self.add(*stage, *span));
    }

    /// Adds the same span for a number of packets.
    pub fn add_times(&mut self, stage: Stage, span: Span, packets: u64) {
        self.counts[stage as usize] += packets;
        self.sums[stage as usize] += u128::from(span.0) * u128::from(packets);
    }

    /// Adds what `count` packets spent together, `sum_ps` picoseconds, in a stage.
    pub(super) fn add_sum(&mut self, stage: Stage, count: u64, sum_ps: u128) {
        self.counts[stage as usize] += count;
        self.sums[stage as usize] += sum_ps;
    }

    /// Adds what `count` messages spent together, `sum_ps` picoseconds, in a stage that has a name
    /// of its own. Named stages are looked up by name: to be called once a run, not once a message.
    /// They are shown in the order in which they first come, those of the initiator before and
    /// those of the target behind all others.
    pub fn add_named(&mut self, name: &str, of_initiator: bool, count: u64, sum_ps: u128) {
        let same = |one: &&mut NamedSum| one.name == name && one.of_initiator == of_initiator;
        match self.named.iter_mut().find(same) {
            Some(one) => {
                one.count += count;
                one.sum += sum_ps;
            }
            None => {
                let name = name.to_owned();
                self.named.push(NamedSum { name, of_initiator, count, sum: sum_ps });
            }
        }
    }

    /// Pools the spans of another run with these.
    pub fn merge(&mut self, other: &Budget) {
        for stage in Stage::ALL {
            self.counts[stage as usize] += other.counts[stage as usize];
            self.sums[stage as usize] += other.sums[stage as usize];
        }
        for one in &other.named {
            self.add_named(&one.name, one.of_initiator, one.count, one.sum);
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
        let named: u128 = self.named.iter().map(|one| one.sum).sum();
        self.sums.iter().sum::<u128>() + named
    }

    /// The stages that were used. `packets` is the number of packets that the whole is spread over.
    pub fn rows(&self, packets: u64) -> impl Iterator<Item = BudgetRow<'_>> {
        let total = self.total_ps().max(1) as f64;
        let named = |of_initiator: bool| {
            let of_side = self.named.iter().filter(move |one| one.of_initiator == of_initiator);
            of_side.map(|one| (one.name.as_str(), one.count, one.sum))
        };
        let fixed = Stage::ALL.map(|stage| (stage.name(), self.count(stage), self.sum_ps(stage)));
        let all = named(true).chain(fixed).chain(named(false));
        all.filter(|(_, count, _)| *count > 0).map(move |(stage, _, sum)| BudgetRow {
            stage,
            mean_ps: sum as f64 / packets.max(1) as f64,
            share: sum as f64 / total,
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
        let row = |stage| BudgetRow { stage, mean_ps: 25.0, share: 0.5 };
        assert_eq!(rows, [row("slot_wait"), row("wire")]);
        budget.merge(&budget.clone());
        assert_eq!((budget.total_ps(), budget.count(Stage::SlotWait)), (200, 2));
    }

    #[test]
    fn stages_of_hosts_stand_around_those_of_the_channel() {
        let mut budget = Budget::default();
        budget.add_named("receive_copy", false, 2, 60);
        budget.add_named("copy", true, 2, 20);
        budget.add(Stage::Wire, Span(20));
        let mut pooled = budget.clone();
        pooled.merge(&budget);
        assert_eq!(pooled.total_ps(), 200);
        let rows: Vec<_> = pooled.rows(4).collect();
        let expected = [("copy", 10.0, 0.2), ("wire", 10.0, 0.2), ("receive_copy", 30.0, 0.6)];
        let row = |(stage, mean_ps, share)| BudgetRow { stage, mean_ps, share };
        assert_eq!(rows, expected.map(row));
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
