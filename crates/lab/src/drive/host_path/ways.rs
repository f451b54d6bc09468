//! The latency budget of messages through hosts.

use weft_fabric::host::StageRecord;
use weft_fabric::measure::Budget;
use weft_units::Span;

/// The time that messages spent somewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    span: Span,
    messages: u64,
}

impl Spent {
    pub fn add(&mut self, span: Span) {
        self.span += span;
        self.messages += 1;
    }
}

/// The latency budget of messages: the stages of their hosts, and the channel, from when their last
/// packet left one host to when it reached the other.
#[derive(Clone, Debug)]
pub struct Ways {
    pub(super) stages: Vec<StageRecord>,
    pub(super) sends: usize,
    pub(super) on_channel: Spent,
    pub(super) connecting: Spent,
}

impl Ways {
    /// Adds the stages to a budget. If each message was one packet, `of_channel` are the stages that
    /// the channel recorded of its packets; otherwise the channel counts as one stage.
    pub fn spend(&self, budget: &mut Budget, of_channel: &Budget) {
        let (initiator, target) = self.stages.split_at(self.sends);
        let add = |budget: &mut Budget, one: &StageRecord, of_initiator| {
            if one.messages > 0 {
                let sum = one.residence.0.into();
                budget.add_named(&one.name, of_initiator, one.messages, sum);
            }
        };
        let Spent { span, messages } = self.connecting;
        if messages > 0 {
            budget.add_named("connection", true, messages, span.0.into());
        }
        initiator.iter().for_each(|one| add(budget, one, true));
        let Spent { span, messages } = self.on_channel;
        if messages > 0 && of_channel.total_ps() == u128::from(span.0) {
            budget.merge(of_channel);
        } else if messages > 0 {
            budget.add_named("channel", true, messages, span.0.into());
        }
        target.iter().for_each(|one| add(budget, one, false));
    }
}
