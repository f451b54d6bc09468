//! Rows of handlers: which ran when, and the memory of endpoints at the end.

use weft_units::Time;

use super::PointRuns;
use crate::drive::interface::{EndpointReport, HandlerCall, HandlerReport, UNNAMED};
use crate::table::Table;

impl PointRuns<'_> {
    /// Adds a row for each handler that ran, in order of the ends within a run.
    pub fn handlers(&self, table: &mut Table) {
        for (seed, report) in self.reports() {
            for call in &report.calls {
                let mut row = self.head(&self.runs[0].channel);
                let us = |time: Time| time.since(Time::ZERO).as_us();
                let HandlerCall { host, network, handler, from, posted, start, end, .. } = *call;
                row.push(("seed".into(), seed.into()));
                row.push(("posted_us".into(), us(posted).into()));
                row.push(("time_us".into(), us(start).into()));
                row.push(("until_us".into(), us(end).into()));
                row.push(("host".into(), f64::from(host).into()));
                row.push(("network".into(), f64::from(network).into()));
                row.push(("handler".into(), name(report, handler).into()));
                row.push(("initiator".into(), f64::from(from).into()));
                row.push(("arguments".into(), words(&call.arguments).into()));
                row.push(("payload_words".into(), f64::from(call.payload_words).into()));
                row.push(("outcome".into(), call.outcome.name().into()));
                table.push(row);
            }
        }
    }

    /// Adds a row for each endpoint as it was at the end of a run.
    pub fn endpoints(&self, table: &mut Table) {
        for (seed, report) in self.reports() {
            for endpoint in &report.endpoints {
                let EndpointReport { host, network, calls, failed, memory } = endpoint;
                let mut row = self.head(&self.runs[0].channel);
                row.push(("seed".into(), seed.into()));
                row.push(("host".into(), f64::from(*host).into()));
                row.push(("network".into(), f64::from(*network).into()));
                for (handler, calls) in (0..).zip(calls) {
                    row.push((format!("calls_{}", name(report, handler)), (*calls).into()));
                }
                row.push(("failed_calls".into(), (*failed).into()));
                row.push(("memory".into(), words(memory).into()));
                table.push(row);
            }
        }
    }

    fn reports(&self) -> impl Iterator<Item = (u64, &HandlerReport)> {
        self.runs.iter().filter_map(|run| Some((run.seed, run.handlers.as_ref()?)))
    }
}

/// The name of a handler; messages that name none call the one that does nothing.
fn name(report: &HandlerReport, handler: u16) -> &str {
    match report.names.get(usize::from(handler)).map(String::as_str) {
        None | Some("") => UNNAMED,
        Some(name) => name,
    }
}

/// Words of 32 bits in decimal, up to the last that is not zero.
fn words(words: &[u32]) -> String {
    let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    let written: Vec<String> = words[..used].iter().map(u32::to_string).collect();
    written.join(" ")
}
