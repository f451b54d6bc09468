//! The engine as a carrier of messages, in place of sources.

use weft_units::Time;

use super::{Engine, FastForward, Horizon, Jump, Windows};
use crate::drive::carrier::{Carrier, Departure, Message, Notice, RemoteAccess, Ticket};

impl Carrier for Engine {
    fn offer(&mut self, now: Time, message: Message) {
        if let Some(forward) = &mut self.forward {
            forward.change();
        }
        if self.offer_as_flow(now, message) {
            return;
        }
        if self.adapters.is_on {
            if self.is_in_pipeline() {
                self.catch_up_before(now);
            }
            self.offer_to_adapter(now, message);
            self.next = self.next_with_adapters();
        } else if self.offer_to_station(now, message) {
            self.next = self.next_with_adapters();
        } else if self.turns.is_some() {
            self.offer_to_turns(now, message);
            self.next = self.next_with_adapters();
        } else if self.hub.is_some() {
            self.offer_to_hub(now, message);
            self.next = self.next_with_adapters();
        } else if let Some(feed) = self.supply.messages()
            && feed.post(now, message, &mut self.observations)
        {
            self.schedule(now, self.places.generates + u32::from(message.from), 0);
            self.next = self.next.min(now);
        }
    }

    fn next_time(&self) -> Time {
        let notice = self.supply.next_notice().or_else(|| self.next_notice_of_adapters());
        let notice = notice.or_else(|| self.hub.as_ref()?.next_notice());
        match notice {
            Some(notice) => notice,
            // The cycles of a schedule continue, but nothing waits for them.
            None if self.is_in_pipeline() && !self.adapters_carry_messages() => Time::NEVER,
            None => self.next,
        }
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        let before = notices.len();
        if !self.is_in_pipeline() || self.adapters_carry_messages() {
            while self.step(now).is_some() {}
        }
        self.next = if self.is_cut_off { Time::NEVER } else { self.next_with_adapters() };
        if let Some(feed) = self.supply.messages() {
            feed.messages.take_notices(notices);
        }
        self.take_notices_of_adapters(notices);
        if let Some(hub) = &mut self.hub {
            hub.take_notices(notices);
        }
        if let Some(forward) = &mut self.forward {
            forward.has_advanced(notices.len() > before);
        }
    }

    fn keeps_barrier(&self) -> bool {
        self.keeps_barrier_of_turns() || self.hub.as_deref().is_some_and(Windows::has_barrier)
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        let keeps = self.keeps_barrier();
        if keeps {
            match self.hub.is_some() {
                true => self.enter_barrier_at_hub(now, host, hosts, ticket),
                false => self.arrive_at_barrier(now, host, hosts, ticket),
            }
            self.next = self.next_with_adapters();
        }
        keeps
    }

    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        self.read_over_hub(now, read)
    }

    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        self.write_over_hub(now, write)
    }

    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        if let Some(hub) = &mut self.hub {
            hub.take_departures(departures);
        }
    }

    fn keeps_one_order(&self) -> bool {
        self.hub.as_deref().is_some_and(Windows::has_one_order)
    }

    fn begin_fast_forward(&mut self) -> Result<(), String> {
        Engine::begin_fast_forward(self)
    }

    #[inline]
    fn fast_forward(&mut self, horizon: Horizon) -> Option<Jump> {
        match self.forward.is_some() {
            true => self.look_for_period(horizon),
            false => None,
        }
    }

    fn fast_forwarded(&self) -> Option<FastForward> {
        Engine::fast_forwarded(self)
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        self.who_waits()
    }
}
