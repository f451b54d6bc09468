//! The state of a flow at its initiator and at its target.

use std::mem::offset_of;

use weft_protocol::congestion::{CongestionControl, Demand};
use weft_protocol::spraying::Spraying;
use weft_protocol::transport::{Answer, Notifier, Receiver, Sender};
use weft_units::{Bytes, Span, Time};

use super::Transports;
use crate::workload::FlowDemand;

/// The state of a flow at its initiator: first what every packet needs, in as few lines of the cache as that takes, and
/// at the end what only some flows have.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Initiator {
    /// When the next packet may start.
    pub ready: Time,
    /// When something new was received, or something was sent while nothing was in flight.
    pub progress: Time,
    /// How many bytes its queue pair had carried before, if these are kept: congestion control continues from there.
    pub before: u64,
    /// Its queue pair, if these are kept.
    pub queue_pair: u32,
    /// The next flow in the list of those that may send.
    pub behind: u32,
    /// Whether it is in that list.
    pub is_queued: bool,
    /// Whether a wake-up is scheduled because it may send, and one because of its timer.
    pub is_waking: bool,
    pub has_timer: bool,
    pub control: CongestionControl,
    pub sender: Sender,
    pub spraying: Option<Spraying>,
}

/// The state of a flow at its target.
#[derive(Debug)]
pub(super) struct Target {
    pub receiver: Receiver,
    pub notifier: Notifier,
    /// Its queue pair, if these are kept.
    pub queue_pair: u32,
    /// Bytes received since its last acknowledgment.
    pub owed: u64,
    /// Whether its sender waits for an acknowledgment, which is due once no packet before is
    /// missing.
    pub is_asked: bool,
    /// The credits of the flow, if it needs any.
    pub demand: Demand,
}

impl Initiator {
    /// How many of its first bytes hold what a packet of a flow with go-back-N reads, except whether the flow is
    /// sprayed.
    pub const OF_GO_BACK_N: usize = offset_of!(Initiator, sender) + Sender::OF_GO_BACK_N;

    /// Whether the next packet fits the window and has credit, whenever it may start.
    #[inline]
    pub fn may_send(&self, packet: u64, most: Option<Bytes>) -> bool {
        self.sender.next().is_some() && self.fits(packet, most)
    }

    /// Whether it could send but has no credits.
    pub fn lacks_credit(&self) -> bool {
        !self.control.has_credit() && self.sender.next().is_some()
    }

    /// The credit number that it requests. All packets have the same size but the last one, which is `short`
    /// of it.
    pub fn pull_target(&self, packet: u64, short: u64) -> u32 {
        let waiting = u64::from(self.sender.waiting()) * packet;
        let short = if self.sender.has_last_to_send() { short } else { 0 };
        self.control.pull_target(waiting.saturating_sub(short))
    }

    /// Whether another packet fits the window and has credit.
    #[inline]
    pub fn fits(&self, packet: u64, most: Option<Bytes>) -> bool {
        let outstanding = u64::from(self.sender.outstanding());
        let after = ((outstanding + 1) * packet) as f64;
        let window = self.control.window().min(most.map_or(f64::INFINITY, |own| own.0 as f64));
        self.control.has_credit() && (outstanding == 0 || after <= window)
    }

    /// The interval from the start of a packet to the next at the present rate.
    #[inline]
    pub fn gap(&mut self, now: Time, size: Bytes) -> Span {
        let rate = self.control.rate(now);
        Span(rounded(size.0 as f64 * 8e12 / rate))
    }
}

/// The nearest whole number, and of two equally near ones the larger: what a function of a library takes a call and
/// eighty instructions for.
#[inline]
fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    // Of a number that has a fraction, the whole part has no more digits than the number.
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

impl Target {
    /// Counts a received packet. Returns whether to acknowledge it now.
    pub fn owes(&mut self, size: u64, after: u64, asks: bool) -> bool {
        self.owed += size;
        self.is_asked |= asks;
        let is_answered = self.is_asked && self.receiver.is_in_order();
        if is_answered {
            self.is_asked = false;
        }
        asks || is_answered || self.owed >= after
    }

    /// An acknowledgment covers the packets before its own, too.
    pub fn tell_before(&mut self, answer: Answer) -> Answer {
        self.owed = 0;
        Answer { before: self.receiver.before(answer.number), ..answer }
    }
}

impl Transports {
    /// In a closed loop the next flow of a host follows one that has ended at its initiator.
    pub(super) fn follow(&mut self, now: Time, flow: u32) {
        let FlowDemand { from, group, .. } = self.flows[flow as usize];
        let mut loops = self.loops.iter_mut();
        if let Some(next) = loops.find(|own| own.is_of(group)).and_then(|own| own.next(from, now)) {
            self.add(next);
        }
    }

    /// The target's state of a flow that begins, with its queue pair.
    pub(super) fn fresh_target(
        &self,
        flow: u32,
        queue_pair: u32,
        notifier: Notifier,
    ) -> Box<Target> {
        let receiver = Receiver::new(self.settings.reliability, self.packets(flow));
        let demand = Demand::default();
        Box::new(Target { receiver, notifier, queue_pair, owed: 0, is_asked: false, demand })
    }

    /// The target of a flow has state from the first packet there on, until it has all of it.
    #[inline]
    pub(super) fn begin_target(&mut self, flow: u32) {
        if self.targets[flow as usize].is_none() {
            self.begin_target_anew(flow);
        }
    }

    #[cold]
    fn begin_target_anew(&mut self, flow: u32) {
        let number = flow as usize;
        if self.outcomes[number].end == Time::NEVER {
            self.targets[number] = Some(self.fresh_target(flow, 0, Notifier::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    /// Against the library, next to every boundary.
    #[test]
    fn numbers_are_rounded_as_by_the_library() {
        let two = |power: i32| 2_f64.powi(power);
        let mut numbers = vec![0.0, 0.5, 1.5, 2.5, 1e-300, 1e300, f64::INFINITY, f64::NAN];
        for power in 0..66 {
            for offset in [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0] {
                numbers.push(two(power) + offset);
            }
        }
        for number in numbers {
            for near in [number.next_down(), number, number.next_up()] {
                assert_eq!(rounded(near), libm::round(near) as u64, "{near:e}");
            }
        }
    }
}
