//! What is left under a schedule at the end of a run, and its further counts.

use weft_fabric::adapter::BulkPacket;
use weft_fabric::control::{Said, ScheduledArrival, Transfer};
use weft_protocol::packet::TransmissionReport;
use weft_units::Time;

use super::super::Engine;
use super::outlet::Outlet;
use super::{Pipelined, ScheduleCounters};
use crate::drive::interface::Interface;
use crate::drive::trace::TraceEntry;

impl Pipelined {
    /// Packets submitted whose first transmission has not started.
    pub fn unsent(&self) -> u64 {
        self.outlets.iter().map(Outlet::backlog).sum()
    }

    /// Packets sent at least once that their targets have not accepted: those in flight, and those
    /// that wait for retransmission.
    pub fn undelivered(&self) -> u64 {
        let of_host = |(index, outlet): (usize, &Outlet)| {
            let missing = |packet: &BulkPacket| self.transfers.is_missing(index, packet);
            outlet.to_send_again(missing) + self.transfers.missing(index)
        };
        self.outlets.iter().enumerate().map(of_host).sum()
    }

    /// The interface of each host that has one.
    pub fn interfaces(&self) -> impl Iterator<Item = (u16, &Interface)> {
        let hosts = (0..).zip(&self.outlets);
        hosts.filter_map(|(host, outlet)| Some((host, outlet.interface()?)))
    }

    /// The counts, with the names of their columns; without those that only signalling in packets has.
    pub fn columns(&self) -> Vec<(&'static str, f64)> {
        let ScheduleCounters { reported_errors, duplicates, unused_grants, .. } = self.counters;
        let mut columns = vec![
            ("reported_errors", reported_errors as f64),
            ("duplicates", duplicates as f64),
            ("unused_grants", unused_grants as f64),
        ];
        let misalignment = self.pipeline.misalignment();
        columns.extend(misalignment.map(|span| ("misalignment_ns", span.as_us() * 1e3)));
        columns
    }
}

impl Engine {
    /// The further counts of a schedule; empty without one.
    pub fn schedule_counters(&self) -> ScheduleCounters {
        self.adapters.pipelined.as_ref().map_or_else(Default::default, |own| own.counters)
    }

    /// A packet of the signalling that has arrived, for a trace.
    pub(in crate::drive::engine) fn signal_in_trace(
        &self,
        now: Time,
        arrival: ScheduledArrival,
    ) -> Option<TraceEntry> {
        let own = self.adapters.pipelined.as_ref()?;
        let entry = |kind, sequence, (initiator, target), slot, content| TraceEntry {
            time: arrival.start,
            until: now,
            kind,
            sequence,
            initiator,
            target,
            slot: Some(slot),
            content,
        };
        Some(match own.pipeline.signalling()?.said(arrival.token)? {
            Said::Configuration { host, cycle, packet } => {
                let asked = (0..16).filter(|target| packet.requests.0 >> target & 1 == 1);
                let asked: Vec<String> = asked.map(|target: u16| target.to_string()).collect();
                entry("cfg", cycle + 1, (Some((*host).into()), None), *cycle, asked.join(" "))
            }
            Said::Grant { host, cycle, packet } => {
                let granted = packet.target.map(|target| target.index().to_string());
                let granted = granted.unwrap_or_default();
                entry("gnt", cycle + 1, (None, Some((*host).into())), *cycle, granted)
            }
            Said::Acknowledgment { transfer, report } => {
                let Transfer { initiator, packet, cycle, .. } = *own.transfers.get(*transfer);
                let content = match report {
                    TransmissionReport::Accepted => "accepted",
                    TransmissionReport::NoReceiveBuffer => "no receive buffer",
                };
                let ends = (Some(packet.target.into()), Some(initiator.into()));
                entry("back", packet.sequence, ends, cycle + 2, content.to_owned())
            }
        })
    }
}
