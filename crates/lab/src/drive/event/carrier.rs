//! Messages over an event-driven channel. Packets of a pair are numbered in the order in which they
//! were handed over, so that counting them tells to which message each belongs.

use weft_fabric::measure::Drop;
use weft_units::Time;

use super::{Event, EventChannel, Happening};
use crate::drive::carrier::{Carrier, Message, MessageId, Messages, Notice};

impl Carrier for EventChannel {
    fn offer(&mut self, now: Time, message: Message) {
        let (hosts, payload) = (self.hosts.len(), self.parts.payload);
        let mut messages =
            self.messages.take().unwrap_or_else(|| Box::new(Messages::new(hosts, payload)));
        let mut queue = std::mem::take(&mut self.queue);
        let schedule = &mut |time, event| queue.push(time, event);
        let mut refused = Vec::new();
        let from = message.from;
        messages.post(message, |id, to, packets| {
            let accepted = (0..packets).filter(|_| self.take_over(now, from, to)).count();
            if accepted == 0 {
                refused.push(id);
            }
        });
        refused.into_iter().for_each(|id| messages.refuse(now, id));
        self.messages = Some(messages);
        self.serve(now, from, schedule);
        self.transmit(now, from, schedule);
        self.queue = queue;
    }

    fn next_time(&self) -> Time {
        let notice = self.messages.as_ref().and_then(|messages| messages.next_notice());
        notice.or_else(|| self.queue.next_time()).unwrap_or(Time::NEVER)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        let mut queue = std::mem::take(&mut self.queue);
        while let Some((now, event)) = queue.pop_until(now) {
            self.steps += 1;
            self.handle(now, event, &mut |time, event| queue.push(time, event));
        }
        self.queue = queue;
        if let Some(messages) = &mut self.messages {
            messages.take_notices(notices);
        }
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        self.who_waits()
    }
}

impl EventChannel {
    /// A packet joins those that wait at a host. Returns whether it may pass.
    pub(super) fn take_over(&mut self, now: Time, host: u16, target: u16) -> bool {
        self.observations.generate_from(usize::from(host), now);
        if self.hosts[usize::from(host)].interface.is_none() {
            self.hosts[usize::from(host)].queue.push(target, now);
            return true;
        }
        let passes = self.submit(now, host, target);
        if !passes {
            self.observations.drop(Drop::Protected, now);
            self.observations.abandon(now);
        }
        passes
    }

    /// The next packets of a pair are at their target, and so are all before them.
    #[inline]
    pub(super) fn arrive_in_order(&mut self, now: Time, from: u16, to: u16, count: u32) {
        if let Some(messages) = &mut self.messages {
            messages.arrive_next(now, from, to, count);
        }
    }

    /// Tells that a message has left its host, if its last packet has: inserted acknowledgments
    /// and back pressure hold it longer than was known when it started.
    #[inline]
    pub(super) fn leave(&mut self, now: Time, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        let state = &mut self.hosts[usize::from(host)];
        if state.leaving == MessageId::NONE {
            return;
        }
        if state.request_until > now {
            if state.request_until < Time::NEVER {
                schedule(state.request_until, Event(Happening::Sent(host)));
            }
            return;
        }
        let message = std::mem::replace(&mut state.leaving, MessageId::NONE);
        if let Some(messages) = &mut self.messages {
            messages.sent(now, message);
        }
    }
}
