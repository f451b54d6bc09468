//! The outcomes of flows.

use weft_units::{Span, Time};

use super::Transports;
use crate::workload::FlowDemand;

/// The outcome of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When its last byte reached its target; never if it did not.
    pub end: Time,
    /// When its initiator knew that; never if it did not.
    pub acknowledged: Time,
    /// How long it takes alone on the same route.
    pub alone: Span,
    /// Packets of it that its target has.
    pub delivered: u32,
    /// Retransmissions of its packets since recording began.
    pub retransmitted: u32,
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome {
            end: Time::NEVER,
            acknowledged: Time::NEVER,
            alone: Span::ZERO,
            delivered: 0,
            retransmitted: 0,
        }
    }
}

/// Counts over all flows since recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets that started, of whichever time.
    pub sent: u64,
    /// Those of them that were retransmissions.
    pub retransmitted: u64,
    /// How often a sender inferred a loss from later packets.
    pub gaps: u64,
    /// Packets that arrived as headers, since switches had trimmed their payload.
    pub cut: u64,
    /// How often a retransmission timer expired.
    pub timeouts: u64,
    /// Packets that arrived marked.
    pub marked: u64,
    /// Congestion notifications that reached senders.
    pub notifications: u64,
    /// Grants of credits that reached senders.
    pub grants: u64,
    /// Packets that arrived after one with a higher number of their flow.
    pub out_of_order: u64,
    /// Packets that arrived and were discarded: duplicates, or packets after a gap under go-back-N.
    pub unneeded: u64,
    /// Bytes of flows that arrived, each counted once.
    pub payload: u64,
}

/// Packets that were submitted, or belong to flows that have begun, and have not arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldPackets {
    /// Those that were never sent.
    pub unsent: u64,
    /// Those that were sent.
    pub under_way: u64,
}

impl Transports {
    /// The counts.
    pub fn counts(&self) -> &FlowCounts {
        &self.counts
    }

    /// The outcome of each flow, in the order in which they begin.
    pub fn outcomes(&self) -> impl Iterator<Item = (&FlowDemand, &Outcome)> {
        self.flows.iter().zip(&self.outcomes)
    }

    /// Records how long a flow takes alone on the same route.
    pub fn note_alone(&mut self, flow: u32, span: Span) {
        self.outcomes[flow as usize].alone = span;
    }

    /// The packets of active flows that have not arrived.
    pub fn held(&self) -> HeldPackets {
        self.held_by(|_| self)
    }

    /// Like [`held`](Self::held) where the flows' initiators are divided among parts: `part`
    /// returns the part of a host.
    pub fn held_by<'a>(&'a self, part: impl Fn(u32) -> &'a Transports) -> HeldPackets {
        let mut held = HeldPackets::default();
        for (number, (flow, outcome)) in (0..).zip(self.outcomes()) {
            if let Some(own) = &part(flow.from).initiators[number as usize] {
                let fresh = u64::from(own.sender.fresh());
                held.unsent += u64::from(self.packets(number)) - fresh;
                held.under_way += fresh - u64::from(outcome.delivered);
            }
        }
        held
    }
}
