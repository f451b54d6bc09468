//! Messages of a program on a channel under a schedule. Packets of a pair start for the first time, and are
//! accepted, in order, so that they need not name their messages.

use weft_fabric::adapter::BulkPacket;
use weft_units::Time;

use super::super::{Adapters, Engine};
use crate::drive::carrier::MessageId;

impl Engine {
    /// Whether hosts send under a schedule that itself tells them what became of their packets.
    #[inline]
    pub(in crate::drive::engine) fn is_in_pipeline(&self) -> bool {
        self.adapters.pipelined.is_some()
    }

    /// Processes everything due before `now`: schedulers advance in slots in which nothing is in flight,
    /// too.
    pub(in crate::drive::engine) fn catch_up_before(&mut self, now: Time) {
        if now > Time::ZERO {
            while self.step(Time(now.0 - 1)).is_some() {}
        }
    }

    /// A packet of a message joins those that wait at a host. Returns whether it is allowed.
    pub(in super::super) fn take_over_in_slot(&mut self, now: Time, host: u16, to: u16) -> bool {
        let Some(own) = &mut self.adapters.pipelined else { return false };
        let passes = own.outlets[usize::from(host)].offer(now, to);
        if !passes {
            self.refuse_letter(now, host);
        }
        passes
    }

    /// A packet starts for the first time, and if it is the last of a message that will have left: later
    /// where others go before it on shared links, which is known then.
    pub(super) fn start_message_in_slot(&mut self, now: Time, host: u32, packet: &BulkPacket) {
        let Adapters { pipelined: Some(own), messages: Some(messages), hosts, .. } =
            &mut self.adapters
        else {
            return;
        };
        if packet.first != Some(now) {
            return;
        }
        let left = now + own.pipeline.timing().packet;
        if let Some(message) = messages.start_next(host as u16, packet.target) {
            hosts[host as usize].leaving = message;
            self.schedule(left, self.places.sends + host, 0);
        }
    }

    /// The last byte of a message has left, unless others went before it on shared links.
    pub(in super::super) fn leave_in_slot(&mut self, now: Time, host: u32) {
        let end = self.shared_links().map(|links| links.left(host as u16));
        if let Some(end) = end.filter(|end| *end > now) {
            return self.schedule(end, self.places.sends + host, 0);
        }
        let leaving = &mut self.adapters.hosts[host as usize].leaving;
        let message = std::mem::replace(leaving, MessageId::NONE);
        if let Some(messages) = &mut self.adapters.messages {
            messages.sent(now, message);
        }
    }

    /// A target has accepted a packet. Behind an interface it has arrived when its handler has
    /// ended.
    pub(super) fn arrive_from_slot(&mut self, now: Time, initiator: u16, target: u16) {
        let Adapters { pipelined: Some(own), messages: Some(messages), .. } = &mut self.adapters
        else {
            return;
        };
        if own.outlets[usize::from(target)].interface().is_none() {
            messages.arrive_next(now, initiator, target, 1);
        }
    }

    /// A packet is given up that its target has not taken.
    pub(super) fn lose_from_slot(&mut self, now: Time, initiator: u16, packet: &BulkPacket) {
        if let Some(messages) = &mut self.adapters.messages {
            // Messages number the packets of a pair modulo 2^32.
            messages.lose(now, initiator, packet.target, packet.sequence as u32);
        }
    }
}
