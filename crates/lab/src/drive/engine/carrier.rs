//! Messages in place of sources.

use weft_units::Time;

use super::Engine;
use crate::drive::carrier::{Carrier, Message, Notice};

impl Carrier for Engine {
    fn offer(&mut self, now: Time, message: Message) {
        if let Some(feed) = self.supply.messages()
            && feed.post(now, message, &mut self.observations)
        {
            self.schedule(now, self.places.generates + u32::from(message.from), 0);
            self.next = self.next.min(now);
        }
    }

    fn next_time(&self) -> Time {
        self.supply.next_notice().unwrap_or(self.next)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while let Some(event) = self.parts.first().pop_until(now) {
            self.now = event.time;
            self.steps += 1;
            self.happen(event, &mut |_| {});
        }
        self.next = self.parts.first().earliest().unwrap_or(Time::NEVER);
        if let Some(feed) = self.supply.messages() {
            feed.messages.take_notices(notices);
        }
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        self.who_waits()
    }
}
