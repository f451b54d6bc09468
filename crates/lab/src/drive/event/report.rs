//! What is still in the channel, and who waits for whom.

use weft_protocol::retransmit::{ControlSettings, Standing};
use weft_units::Time;

use super::EventChannel;
use super::host::Host;
use super::switch::Switch;

impl EventChannel {
    /// Packets handed over whose first transmission has not started.
    pub fn backlog(&self) -> u64 {
        let unsent = |host: &Host| {
            let interface = host.interface.as_ref();
            interface.map_or(0, |quick| quick.interface.unsent()) + host.queue.len()
        };
        self.hosts.iter().map(|host| unsent(host) as u64 + fresh(host)).sum()
    }

    /// Packets sent at least once that their target has not handed over: by what the initiators
    /// have numbered and the targets have seen, not by counting deliveries. With
    /// [`EventChannel::backlog`] it accounts for every packet neither delivered nor abandoned.
    pub fn in_flight(&self) -> u64 {
        if self.parts.control == ControlSettings::Unacknowledged {
            return self.flights.len() as u64;
        }
        let missing = |(initiator, host): (usize, &Host)| {
            let of_pair = |(target, other): (u16, &Host)| {
                let numbered = host.window.numbered(target);
                u64::from(numbered.wrapping_sub(other.received[initiator].arrived()))
            };
            let numbered: u64 = (0..).zip(&self.hosts).map(of_pair).sum();
            numbered - fresh(host) + host.early.len() as u64
        };
        self.hosts.iter().enumerate().map(missing).sum()
    }

    /// Who waits for whom, one sentence a line: for a run that does not get on.
    pub fn waiting(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Switch::Crossbar(switch) = &self.switch {
            for (output, id, holder) in switch.blocked() {
                let from = self.flights[id].from;
                let by = match holder {
                    Some(input) => format!(", which a packet of host {input} occupies"),
                    None => String::new(),
                };
                let line = format!("host {from} is held by back pressure of output {output}{by}");
                lines.push(line);
            }
        }
        for (index, host) in self.hosts.iter().enumerate() {
            for held in host.window.iter() {
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
            if !host.queue.is_empty() {
                let count = host.queue.len();
                lines.push(format!("{count} packets of host {index} wait for a send buffer"));
            }
            for early in &host.early {
                let expected = host.received[usize::from(early.initiator)].expected();
                let (initiator, sequence) = (early.initiator, early.sequence);
                lines.push(format!(
                    "packet {sequence} at host {index} waits for packet {expected} of host \
                     {initiator}"
                ));
            }
            if !host.acknowledgments.is_empty() {
                let count = host.acknowledgments.len();
                let held = host.request_until == Time::NEVER;
                let why = if held { ", which back pressure holds" } else { "" };
                lines.push(format!(
                    "{count} acknowledgments of host {index} wait for its link{why}"
                ));
            }
        }
        lines
    }
}

/// Packets in send buffers that have never been sent.
fn fresh(host: &Host) -> u64 {
    host.window.iter().filter(|held| held.standing == Standing::Fresh).count() as u64
}
