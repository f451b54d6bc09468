//! Messages of programs as flows: each is one of its own, which begins when it is handed over.

use weft_fabric::workload::FlowDemand;
use weft_units::Time;

use super::Flows;
use crate::drive::carrier::{Message, MessageId};
use crate::drive::engine::Engine;

/// The name of the group of flows that messages are.
const GROUP: &str = "messages";

impl Flows {
    /// The message that a flow is, if it is one.
    pub(super) fn message(&self, flow: u32) -> MessageId {
        self.messages.get(flow as usize).copied().unwrap_or(MessageId::NONE)
    }
}

impl Engine {
    /// A program hands over a message. Returns whether the channel carries it as a flow.
    pub(in crate::drive::engine) fn offer_as_flow(&mut self, now: Time, message: Message) -> bool {
        let (Some(flows), Some(feed)) = (&mut self.flows, self.supply.messages()) else {
            return false;
        };
        if flows.groups.is_empty() {
            flows.groups.push(GROUP.to_owned());
        }
        let (from, size, class) = (message.from.into(), message.size, flows.class);
        feed.messages.post(message, |id, to, _| {
            let (start, to, group) = (now, to.into(), 0);
            flows.transports.add(FlowDemand { start, size, from, to, group, class });
            flows.messages.push(id);
        });
        self.schedule_wakes();
        self.look_for_ways_again();
        self.next = self.next.min(now);
        true
    }

    /// A packet of a flow is at its target that was not there before.
    pub(super) fn part_arrived(&mut self, now: Time, flow: u32) {
        let Some(flows) = &self.flows else { return };
        let message = flows.message(flow);
        if message != MessageId::NONE
            && let Some(feed) = self.supply.messages()
        {
            feed.messages.arrive(now, message);
        }
    }
}
