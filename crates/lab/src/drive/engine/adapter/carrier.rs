//! Messages over adapters. Packets of a pair are numbered in the order in which they were
//! submitted, so that counting them determines the message of each.

use weft_units::Time;

use super::Engine;
use crate::drive::carrier::{Message, MessageId, Messages, Notice};

impl Engine {
    /// Takes a message over at an adapter.
    pub(in crate::drive::engine) fn offer_to_adapter(&mut self, now: Time, message: Message) {
        let (hosts, payload) = (self.adapters.hosts.len(), self.payload);
        let build = || Box::new(Messages::new(hosts, payload));
        let mut messages = self.adapters.messages.take().unwrap_or_else(build);
        let mut refused = Vec::new();
        let from = message.from;
        messages.post(message, |id, to, packets| {
            let accepted = (0..packets).filter(|_| self.take_over(now, from, to)).count();
            if accepted == 0 {
                refused.push(id);
            }
        });
        refused.into_iter().for_each(|id| messages.refuse(now, id));
        self.adapters.messages = Some(messages);
        if self.is_in_pipeline() {
            return self.serve_outlet(now, from.into());
        }
        self.serve_interface(now, from.into());
        self.transmit(now, from.into());
    }

    /// Whether submitted messages are in flight.
    pub(in crate::drive) fn adapters_carry_messages(&self) -> bool {
        self.adapters.messages.as_ref().is_some_and(|messages| !messages.is_empty())
    }

    /// The time of the oldest notice that has not been taken.
    pub(in crate::drive) fn next_notice_of_adapters(&self) -> Option<Time> {
        self.adapters.messages.as_ref().and_then(|messages| messages.next_notice())
    }

    /// Appends the notices of messages.
    pub(in crate::drive) fn take_notices_of_adapters(&mut self, notices: &mut Vec<Notice>) {
        if let Some(messages) = &mut self.adapters.messages {
            messages.take_notices(notices);
        }
    }

    /// A packet joins those that wait at a host. Returns whether it is allowed.
    pub(super) fn take_over(&mut self, now: Time, host: u16, target: u16) -> bool {
        self.observations.generate_from(usize::from(host), now);
        if self.is_in_pipeline() {
            return self.take_over_in_slot(now, host, target);
        }
        let state = &mut self.adapters.hosts[usize::from(host)];
        if state.interface.is_none() {
            state.initiator.queue.push(target, now);
            return true;
        }
        let passes = self.submit_letter(now, host, target);
        if !passes {
            self.refuse_letter(now, host);
        }
        passes
    }

    /// The next packets of a pair are at their target, and so are all before them. Behind an interface
    /// a message has arrived when its handler has ended.
    #[inline]
    pub(super) fn arrive_in_order(&mut self, now: Time, from: u16, to: u16, count: u32) {
        if let Some(messages) = &mut self.adapters.messages
            && self.adapters.hosts[usize::from(to)].interface.is_none()
        {
            messages.arrive_next(now, from, to, count);
        }
    }

    /// Tells that a message has left its host, if its last packet has: inserted acknowledgments
    /// and back pressure hold it longer than was known when it started.
    #[inline]
    pub(in crate::drive::engine) fn leave_host(&mut self, now: Time, host: u32) {
        let state = &mut self.adapters.hosts[host as usize];
        if state.leaving == MessageId::NONE {
            return;
        }
        let until = state.initiator.request_until;
        if until > now {
            if until < Time::NEVER {
                self.schedule(until, self.places.sends + host, 0);
            }
            return;
        }
        let message = std::mem::replace(&mut state.leaving, MessageId::NONE);
        if let Some(messages) = &mut self.adapters.messages {
            messages.sent(now, message);
        }
    }
}
