//! Rows of flows: completion times and slowdowns by group and size, and what was counted.

use weft_fabric::measure::Recorder;

use super::{PointRuns, QUANTILES, Row, estimate};
use crate::drive::engine::{FlowReport, MILLIONTHS};
use crate::simulate::ChannelRun;
use crate::statistics::replications;
use crate::table::Table;

/// Flows of a group, of one size or of all.
#[derive(Default)]
struct Pool {
    completion: Recorder,
    acknowledged: Recorder,
    alone: Recorder,
    slowdown: Recorder,
}

impl Pool {
    /// The flows of a group, of one bin or of all.
    fn add(&mut self, report: &FlowReport, group: &str, up_to: Option<Option<u64>>) {
        let is_of = |bin: &&crate::drive::engine::FlowBin| {
            bin.group == group && up_to.is_none_or(|up_to| bin.up_to == up_to)
        };
        for bin in report.bins.iter().filter(is_of) {
            self.completion.merge(&bin.completion);
            self.acknowledged.merge(&bin.acknowledged);
            self.alone.merge(&bin.alone);
            self.slowdown.merge(&bin.slowdown);
        }
    }

    /// The columns of completion times and slowdowns; empty if no flow ended.
    fn columns(&self) -> Vec<(String, Option<f64>)> {
        let (completion, slowdown) = (&self.completion, &self.slowdown);
        let mut columns = vec![
            ("flows".to_owned(), Some(completion.count() as f64)),
            ("completion_mean_us".to_owned(), completion.mean_ps().map(|mean| mean * 1e-6)),
        ];
        for (name, share) in QUANTILES {
            let value = completion.quantile(share).map(|own| own.as_us());
            columns.push((format!("completion_{name}_us"), value));
        }
        let acknowledged = &self.acknowledged;
        let as_us = |own: Option<weft_units::Span>| own.map(|own| own.as_us());
        columns.push(("acknowledged_min_us".to_owned(), as_us(acknowledged.min())));
        let mean = acknowledged.mean_ps().map(|mean| mean * 1e-6);
        columns.push(("acknowledged_mean_us".to_owned(), mean));
        columns.push(("acknowledged_max_us".to_owned(), as_us(acknowledged.max())));
        let alone = self.alone.mean_ps().map(|mean| mean * 1e-6);
        columns.push(("alone_mean_us".to_owned(), alone));
        let mean = slowdown.mean_ps().map(|mean| mean / MILLIONTHS);
        columns.push(("slowdown_mean".to_owned(), mean));
        for (name, share) in QUANTILES {
            let value = slowdown.quantile(share).map(|own| own.0 as f64 / MILLIONTHS);
            columns.push((format!("slowdown_{name}"), value));
        }
        columns
    }
}

impl PointRuns<'_> {
    /// Adds a row for each group of flows and size, over all runs of the point.
    pub fn flows(&self, table: &mut Table) {
        let Some(first) = self.runs.first() else { return };
        let Some(report) = &first.flows else { return };
        let reports = || self.runs.iter().filter_map(|run| run.flows.as_ref());
        for group in &report.groups {
            let bins = || reports().flat_map(|own| &own.bins).filter(|bin| bin.group == *group);
            let mut sizes: Vec<Option<u64>> = bins().map(|bin| bin.up_to).collect();
            sizes.sort_unstable_by_key(|up_to| up_to.unwrap_or(u64::MAX));
            sizes.dedup();
            for size in std::iter::once(None).chain(sizes.into_iter().map(Some)) {
                let mut pool = Pool::default();
                reports().for_each(|own| pool.add(own, group, size));
                let mut row = self.head(&first.channel);
                row.push(("group".into(), group.as_str().into()));
                row.push(("size".into(), name(size).as_str().into()));
                row.extend(pool.columns().into_iter().map(|(name, own)| (name, own.into())));
                table.push(row);
            }
        }
    }

    /// Adds the distribution of completion times of all flows, and of the flows of each group.
    pub(super) fn completions(&self, table: &mut Table) {
        let reports = || self.runs.iter().filter_map(|run| run.flows.as_ref());
        let Some(first) = reports().next() else { return };
        let mut all = Pool::default();
        for group in &first.groups {
            let mut pool = Pool::default();
            for report in reports() {
                pool.add(report, group, None);
                all.add(report, group, None);
            }
            self.histogram(&format!("{group}_completion"), &pool.completion, table);
        }
        self.histogram("completion", &all.completion, table);
    }

    /// The columns of flows of the point: means over its runs.
    pub(super) fn flow_columns(&self, row: &mut Row) {
        let all: Vec<_> = self.runs.iter().map(|run| columns(run)).collect();
        for (index, (name, _)) in all.first().into_iter().flatten().enumerate() {
            let values: Vec<f64> =
                all.iter().filter_map(|own| own.get(index).and_then(|own| own.1)).collect();
            estimate(name, replications(&values), row);
        }
    }
}

/// Columns of a run with flows: each group by its name, then what was counted of all.
pub(super) fn columns(run: &ChannelRun) -> Vec<(String, Option<f64>)> {
    let Some(report) = &run.flows else { return Vec::new() };
    let mut columns = Vec::new();
    for group in &report.groups {
        let mut pool = Pool::default();
        pool.add(report, group, None);
        columns
            .extend(pool.columns().into_iter().map(|(name, own)| (format!("{group}_{name}"), own)));
    }
    columns.push(("unfinished_flows".to_owned(), Some(report.unfinished as f64)));
    columns.extend(report.counts.iter().map(|(name, own)| (name.clone(), Some(*own))));
    columns
}

/// The name of a bin of sizes.
fn name(size: Option<Option<u64>>) -> String {
    match size {
        None => "all".to_owned(),
        Some(Some(up_to)) => format!("up to {}", weft_units::Bytes(up_to)),
        Some(None) => "larger".to_owned(),
    }
}
