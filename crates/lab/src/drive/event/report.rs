//! What is still in the channel, and who waits for whom.

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_protocol::retransmit::{ControlSettings, Standing};
use weft_units::Time;

use super::EventChannel;
use super::host::Host;
use super::switch::Switch;
use crate::drive::Channel;
use crate::drive::trace::TraceEntry;

impl Channel for EventChannel {
    /// Runs the channel on its own queue; a later call goes on from there.
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        // The queue is taken out for the loop, so that the channel can schedule into it.
        let mut queue = std::mem::take(&mut self.queue);
        if !self.started {
            self.start(&mut |time, event| queue.push(time, event));
        }
        let mut stopped = None;
        while queue.next_time().is_some_and(|time| time <= until) {
            stopped = halt.check(self.steps);
            if stopped.is_some() {
                break;
            }
            let Some((now, event)) = queue.pop() else { break };
            self.steps += 1;
            self.handle(now, event, &mut |time, event| queue.push(time, event));
        }
        self.queue = queue;
        stopped
    }

    /// Packets handed over whose first transmission has not started.
    fn backlog(&self) -> u64 {
        let unsent = |host: &Host| {
            let interface = host.interface.as_ref();
            interface.map_or(0, |quick| quick.interface.unsent()) + host.queue.len()
        };
        self.hosts.iter().map(|host| unsent(host) as u64 + fresh(host)).sum()
    }

    /// Packets sent at least once that their target has not handed over: by what the initiators
    /// have numbered and the targets have seen, not by counting deliveries. With
    /// [`Channel::backlog`] it accounts for every packet neither delivered nor abandoned.
    fn in_flight(&self) -> u64 {
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

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.observations)
    }

    fn into_observations(self) -> Observations {
        self.observations
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        self.interface_columns(until)
    }

    fn record_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl EventChannel {
    /// Who waits for whom, one sentence a line: for a run that does not get on.
    pub(super) fn who_waits(&self) -> Vec<String> {
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
