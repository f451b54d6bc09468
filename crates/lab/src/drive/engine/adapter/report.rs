//! What is still in adapters and between them, and what waits for what.

use weft_fabric::switch::Blocked;
use weft_protocol::retransmit::{ControlSettings, Standing};
use weft_units::Time;

use super::Engine;
use super::host::Host;
use super::slots::Slots;
use crate::drive::trace::{TraceEntry, of_passages};

impl Engine {
    /// Packets submitted to adapters whose first transmission has not started.
    pub(in crate::drive::engine) fn unsent(&self) -> u64 {
        if let Some(left) = self.left_by_slots() {
            return left.unsent;
        }
        if let Some(own) = &self.adapters.pipelined {
            return own.unsent();
        }
        let of_host = |host: &Host| {
            let interface = host.interface.as_ref();
            let initiator = &host.initiator;
            let waiting = interface.map_or(0, |quick| quick.interface.unsent());
            (waiting + initiator.queue.len()) as u64 + initiator.fresh()
        };
        self.adapters.hosts.iter().map(of_host).sum()
    }

    /// Packets sent at least once that their target has not delivered: from the numbers that
    /// initiators have assigned and targets have received, not by counting deliveries. With
    /// [`unsent`](Self::unsent) it accounts for every packet neither delivered nor abandoned.
    pub(in crate::drive::engine) fn undelivered(&self) -> u64 {
        if let Some(left) = self.left_by_slots() {
            return left.under_way;
        }
        if let Some(own) = &self.adapters.pipelined {
            return own.undelivered();
        }
        let hosts = &self.adapters.hosts;
        if self.adapters.control == ControlSettings::Unacknowledged {
            return self.packets.len() as u64;
        }
        let missing = |(initiator, host): (usize, &Host)| {
            let of_pair = |(target, other): (u16, &Host)| {
                let numbered = host.initiator.window.numbered(target);
                u64::from(numbered.wrapping_sub(other.received[initiator].arrived()))
            };
            let numbered: u64 = (0..).zip(hosts).map(of_pair).sum();
            numbered - host.initiator.fresh() + host.early.len() as u64
        };
        hosts.iter().enumerate().map(missing).sum()
    }

    /// Records transmissions from now on: in a star each one, once it is known that it reaches its
    /// destination completely; otherwise what arrives. In slots the switch decides which.
    pub(in crate::drive::engine) fn note_transmissions(&mut self) {
        let is_star = self.adapters.is_on && self.graph.switches() == 1;
        let is_named = |own: &Slots| own.parts.traced_as.is_some() && !self.graph.is_mixed();
        match is_star && self.adapters.slots.as_deref().is_none_or(is_named) {
            true => self.adapters.trace = Some(Vec::new()),
            false => self.observations.note_passages(),
        }
    }

    /// What has been recorded so far.
    pub(in crate::drive::engine) fn noted_transmissions(&mut self) -> Vec<TraceEntry> {
        match &mut self.adapters.trace {
            Some(trace) => {
                if self.adapters.slots.is_some() {
                    // Transmissions that begin in one slot were recorded in the order of targets.
                    trace.sort_by_key(|entry| (entry.time, entry.initiator));
                }
                std::mem::take(trace)
            }
            None => of_passages("packet", self.observations.take_passages()),
        }
    }

    /// What waits for what at adapters and in front of crossbars, one sentence per line: for a run
    /// that is stuck.
    pub(in crate::drive::engine) fn who_waits_at_adapters(&self) -> Vec<String> {
        let mut lines = self.who_is_blocked();
        for (index, host) in self.adapters.hosts.iter().enumerate() {
            for held in host.initiator.window.iter() {
                let what = match held.standing {
                    Standing::Fresh => "its turn to be sent",
                    Standing::Sent => "the outcome of its transmission",
                    Standing::Failed => "its turn to be sent again",
                };
                let (target, sequence) = (held.target, held.sequence);
                lines.push(format!(
                    "packet {sequence} of host {index} to host {target} waits for {what}"
                ));
            }
            lines.extend(self.who_waits_in_queues(index, host));
        }
        lines
    }

    fn who_waits_in_queues(&self, index: usize, host: &Host) -> Vec<String> {
        let mut lines = Vec::new();
        let initiator = &host.initiator;
        if !initiator.queue.is_empty() {
            let count = initiator.queue.len();
            lines.push(format!("{count} packets of host {index} wait for a send buffer"));
        }
        for early in &host.early {
            let expected = host.received[usize::from(early.initiator)].expected();
            let (initiator, sequence) = (early.initiator, early.sequence);
            lines.push(format!(
                "packet {sequence} at host {index} waits for packet {expected} of host {initiator}"
            ));
        }
        if !initiator.acknowledgments.is_empty() {
            let count = initiator.acknowledgments.len();
            let held = initiator.request_until == Time::NEVER;
            let why = if held { ", which back pressure holds" } else { "" };
            lines.push(format!("{count} acknowledgments of host {index} wait for its link{why}"));
        }
        lines
    }

    /// Crossbars that hold packets back have a port for each host and no others.
    fn who_is_blocked(&self) -> Vec<String> {
        let host_at = |port: u32| {
            let host = self.graph.peer(port).and_then(|peer| peer.checked_sub(self.places.hosts));
            host.unwrap_or_default()
        };
        let line = |Blocked { output, packet, holder }: Blocked<u32, u32>| {
            let from = self.adapters.flights[packet as usize].from;
            let by = match holder {
                Some(input) => format!(", which a packet of host {} occupies", host_at(input)),
                None => String::new(),
            };
            format!("host {from} is held by back pressure of output {}{by}", host_at(output))
        };
        self.graph.blocked().into_iter().map(line).collect()
    }
}
