//! What a run shows of flows: completion times and slowdowns by size.

use serde::{Deserialize, Serialize};
use weft_fabric::measure::Recorder;
use weft_units::{Span, Time};

use super::Flows;

/// What became of the flows that began since records did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FlowReport {
    /// The names of all groups.
    pub groups: Vec<String>,
    /// By group, and in it by size from small to large; only those with flows.
    pub bins: Vec<FlowBin>,
    /// Flows that had not come to an end when the run did.
    pub unfinished: u64,
    /// Those of them that have no route left then.
    #[serde(default)]
    pub unreachable: u64,
    /// Bytes of flows that began, since the start of the run.
    pub offered: u64,
    /// Bytes of flows that arrived, each counted once, since recording began.
    pub accepted: u64,
    /// What was counted, with the names of its columns.
    pub counts: Vec<(String, f64)>,
}

/// Flows of one group of about one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowBin {
    /// The group.
    pub group: String,
    /// The largest size, in bytes; `None` where there is none.
    pub up_to: Option<u64>,
    /// From the beginning of a flow until its last byte is with its target.
    pub completion: Recorder,
    /// From the beginning of a flow until its initiator knows that the target has all of it; only
    /// of flows of which it knew that when the run ended.
    pub acknowledged: Recorder,
    /// How long they take alone on the same routes.
    pub alone: Recorder,
    /// Completion time over that of the flow alone on the same route, in millionths.
    pub slowdown: Recorder,
}

/// The largest sizes of all bins but the last, in bytes.
const UP_TO: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// What a slowdown is multiplied with to be recorded as a whole number.
pub const MILLIONTHS: f64 = 1e6;

impl Flows {
    /// What became of flows, at the end of a run.
    pub fn report(&self, from: Time, now: Time) -> FlowReport {
        let counts = self.transports.counts();
        let groups = self.groups.clone();
        let mut report = FlowReport { groups, accepted: counts.payload, ..FlowReport::default() };
        let bin_of = |size: u64| UP_TO.partition_point(|up_to| *up_to < size);
        let bins = UP_TO.len() + 1;
        let mut all: Vec<[Recorder; 4]> = Vec::new();
        all.resize_with(self.groups.len() * bins, Default::default);
        for (flow, outcome) in self.transports.outcomes().filter(|own| own.0.start <= now) {
            report.offered += flow.size.0;
            if flow.start < from {
                continue;
            }
            if outcome.end == Time::NEVER {
                report.unfinished += 1;
                continue;
            }
            let (took, alone) = (outcome.end.since(flow.start), outcome.alone.0.max(1));
            let slowdown = (took.0 as f64 / alone as f64).max(1.0);
            let place = usize::from(flow.group) * bins + bin_of(flow.size.0);
            let slowdown = Span(libm::round(slowdown * MILLIONTHS) as u64);
            let [completion, acknowledged, alone, slowdowns] = &mut all[place];
            completion.record(outcome.end, took);
            alone.record(outcome.end, outcome.alone);
            slowdowns.record(outcome.end, slowdown);
            if outcome.acknowledged <= now {
                acknowledged.record(outcome.end, outcome.acknowledged.since(flow.start));
            }
        }
        for (place, [completion, acknowledged, alone, slowdown]) in all.into_iter().enumerate() {
            if completion.count() > 0 {
                let group = self.groups[place / bins].clone();
                let up_to = UP_TO.get(place % bins).copied();
                report.bins.push(FlowBin {
                    group,
                    up_to,
                    completion,
                    acknowledged,
                    alone,
                    slowdown,
                });
            }
        }
        report.counts = vec![
            ("sent_packets".to_owned(), counts.sent as f64),
            ("retransmitted_packets".to_owned(), counts.retransmitted as f64),
            ("unneeded_packets".to_owned(), counts.unneeded as f64),
            ("out_of_order_packets".to_owned(), counts.out_of_order as f64),
            ("marked_packets".to_owned(), counts.marked as f64),
            ("congestion_notifications".to_owned(), counts.notifications as f64),
            ("credit_grants".to_owned(), counts.grants as f64),
            ("gaps".to_owned(), counts.gaps as f64),
            ("cut_packets".to_owned(), counts.cut as f64),
            ("timeouts".to_owned(), counts.timeouts as f64),
        ];
        report
    }
}
