//! The outcomes of flows.

use weft_units::{Span, Time};

use super::Transports;

/// How one flow went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When its last byte was with its target; never if it was not.
    pub end: Time,
    /// When its initiator knew that; never if it did not.
    pub acknowledged: Time,
    /// How long it takes alone on the same way.
    pub alone: Span,
    /// Packets of it that its target has.
    pub delivered: u32,
    /// Packets of it that were sent again since records began.
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

/// What was counted of all flows since records began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets that started, of whichever time.
    pub sent: u64,
    /// Those of them that were sent before.
    pub retransmitted: u64,
    /// How often a sender learned of a loss by what came after it.
    pub gaps: u64,
    /// Packets that came as headers, since switches had cut their payload off.
    pub cut: u64,
    /// How often a retransmission timer expired.
    pub timeouts: u64,
    /// Packets that came marked.
    pub marked: u64,
    /// Congestion notifications that reached senders.
    pub notifications: u64,
    /// Grants of credits that reached senders.
    pub grants: u64,
    /// Packets that came behind one with a higher number of their flow.
    pub out_of_order: u64,
    /// Packets that came and were not kept: twice, or with go-back-N behind a gap.
    pub unneeded: u64,
    /// Bytes of flows that came, each once.
    pub payload: u64,
}

impl Transports {
    /// What was counted.
    pub fn counts(&self) -> &FlowCounts {
        &self.counts
    }

    /// Packets of flows that have begun which were never sent, and those that were and have not come.
    pub fn held(&self) -> (u64, u64) {
        let mut held = (0, 0);
        for (number, outcome) in (0..).zip(&self.outcomes) {
            if let Some(own) = &self.initiators[number as usize] {
                let fresh = u64::from(own.sender.fresh());
                held.0 += u64::from(self.packets(number)) - fresh;
                held.1 += fresh - u64::from(outcome.delivered);
            }
        }
        held
    }
}
