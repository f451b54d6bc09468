//! What a run shows of traffic classes: drops, marks, trims and pauses, and queues over time.

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::waiting::end_name;
use crate::drive::engine::{Engine, NetworkReport, SampleRow};

/// A class that one end of a cable paused at the other: which port paused which.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PauseRow {
    /// The directed port that stopped.
    pub link: u32,
    /// Where it is, in prose.
    pub stopped: String,
    /// The port that paused it.
    pub by: String,
    /// The class.
    pub class: u8,
    /// How often.
    pub stops: u64,
    /// For how long since records began.
    pub time: Span,
}

impl Engine {
    /// How long each directed port was busy since recording began.
    pub(in crate::drive::engine) fn busy(&self) -> Vec<Span> {
        let own = |port| Some(self.at_port(port).classed.as_ref()?.ports.busy(port));
        let of_graph = self.graph.busy();
        (0..).zip(of_graph).map(|(port, busy)| own(port).unwrap_or(busy)).collect()
    }

    /// What was noted of traffic classes, at the end of a run.
    pub(in crate::drive::engine) fn report_classes(&self) -> Option<NetworkReport> {
        let own = self.classed.as_ref()?;
        let (samples, carried, offered) = (own.samples.clone(), own.carried, Some(own.offered));
        let (pauses, classes) = (self.pause_rows(), self.class_columns());
        Some(NetworkReport {
            pauses,
            classes,
            samples,
            carried,
            offered,
            ..NetworkReport::default()
        })
    }

    /// Which port paused which.
    fn pause_rows(&self) -> Vec<PauseRow> {
        let (Some(own), Some(wiring)) = (&self.classed, self.names.as_deref()) else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for link in 0..own.switch_ports + own.ends {
            let Some(own) = &self.at_port(link).classed else { continue };
            let Some(peer) = self.graph.peer(link) else { continue };
            for class in 0..own.ports.classes() {
                let heard = own.ports.heard(self.now, link, class);
                if heard.stops > 0 || heard.stopped > Span::ZERO {
                    rows.push(PauseRow {
                        link,
                        stopped: end_name(wiring, link),
                        by: end_name(wiring, peer),
                        class: class as u8,
                        stops: heard.stops,
                        time: heard.stopped,
                    });
                }
            }
        }
        rows
    }

    /// Columns by class.
    fn class_columns(&self) -> Vec<(String, f64)> {
        let Some(own) = &self.classed else { return Vec::new() };
        let mut columns = Vec::new();
        let until = self.now;
        let seconds = until.since(self.observations.from).as_secs();
        for class in 0..own.ports.classes() {
            let mut column =
                |name: &str, value| columns.push((format!("class_{class}_{name}"), value));
            if let Some(seen) = self.observations.classes.get(class) {
                column("mb_per_s", seen.payload.0 as f64 / seconds * 1e-6);
                if let Some(mean) = seen.one_way.mean_ps() {
                    column("one_way_mean_us", mean * 1e-6);
                }
                for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
                    if let Some(latency) = seen.one_way.quantile(share) {
                        column(&format!("one_way_{name}_us"), latency.as_us());
                    }
                }
            }
            let at = |port| Some((port, &self.at_port(port).classed.as_ref()?.ports));
            let all = (0..own.switch_ports + own.ends).filter_map(at);
            let sum = |of: fn(&weft_fabric::switch::shared_buffer::ClassCounts) -> u64| {
                all.clone().map(|(port, own)| of(&own.counts(port, class))).sum::<u64>() as f64
            };
            column("dropped", sum(|own| own.dropped));
            column("trimmed", sum(|own| own.trimmed));
            column("marked", sum(|own| own.marked));
            column("pauses", sum(|own| own.pauses));
            let stopped = all.map(|(port, own)| own.heard(until, port, class).stopped);
            column("paused_us", stopped.sum::<Span>().as_us());
        }
        columns
    }

    /// Notes how busy cables were since the sample before, and what waits for each.
    #[cold]
    pub(super) fn sample_classed(&mut self, now: Time) {
        let Some(own) = &mut self.classed else { return };
        let Some(every) = own.sample else { return };
        for link in 0..own.switch_ports + own.ends {
            let busy_by = own.ports.busy_by(now, link);
            let before = std::mem::replace(&mut own.busy_before[link as usize], busy_by);
            let busy = Span(busy_by.0.saturating_sub(before.0));
            let bytes = own.ports.waiting_bytes(link);
            if busy > Span::ZERO || bytes > 0 {
                let classes = 0..own.ports.classes();
                let waiting = classes.map(|class| own.ports.waiting(link, class)).sum();
                let load = busy.0 as f64 / every.0 as f64;
                own.samples.push(SampleRow { time: now, link, load, waiting, held: 0, bytes });
            }
        }
        self.schedule(now + every, self.places.samples, 0);
    }
}
