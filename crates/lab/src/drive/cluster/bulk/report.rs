//! What is left in a bulk channel, and what it counted besides.

use weft_fabric::adapter::BulkPacket;
use weft_fabric::control::{Said, ScheduledArrival, Transfer};
use weft_protocol::packet::TransmissionReport;
use weft_units::{Span, Time};

use super::{BulkChannel, Host};
use crate::drive::interface::InterfaceCounters;
use crate::drive::trace::TraceEntry;

impl BulkChannel {
    /// How far apart the packets of a slot came to the switch, where hosts are at different distances.
    pub(in crate::drive::cluster) fn misalignment(&self) -> Option<Span> {
        self.parts.pipeline.misalignment()
    }

    /// What the interfaces did, as columns of a run until `until`; none without interfaces.
    pub(in crate::drive::cluster) fn interface_columns(
        &self,
        until: Time,
    ) -> Vec<(&'static str, f64)> {
        if self.parts.interface.is_none() {
            return Vec::new();
        }
        let mut sum = InterfaceCounters::default();
        for interface in self.hosts.iter().filter_map(|host| host.sender.interface()) {
            interface.count(until, &mut sum);
        }
        sum.columns(self.hosts(), until)
    }

    /// Packets handed over whose first transmission has not started.
    pub fn backlog(&self) -> u64 {
        self.hosts.iter().map(|host| host.sender.backlog()).sum()
    }

    /// Packets sent at least once that their target has not taken: those that the initiators hold,
    /// by what the targets have seen.
    pub fn in_flight(&self) -> u64 {
        let of_host = |(index, host): (usize, &Host)| {
            let missing = |packet: &BulkPacket| self.transfers.is_missing(index, packet);
            host.sender.to_send_again(missing) + self.transfers.missing(index)
        };
        self.hosts.iter().enumerate().map(of_host).sum()
    }

    /// A packet of the signalling that has arrived, for a trace.
    pub(in crate::drive::cluster) fn trace_entry(
        &self,
        now: Time,
        arrival: ScheduledArrival,
    ) -> Option<TraceEntry> {
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
        Some(match self.parts.pipeline.signalling()?.said(arrival.token)? {
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
                let Transfer { initiator, packet, cycle, .. } = *self.transfers.get(*transfer);
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
