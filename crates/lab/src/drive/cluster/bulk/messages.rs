//! Messages of a program on a bulk channel. Packets of a pair start for the first time, and are taken, in
//! order, so that they need not name their messages.

use weft_fabric::adapter::BulkPacket;
use weft_fabric::measure::Drop;
use weft_units::Time;

use super::BulkChannel;
use crate::drive::carrier::{Message, MessageId, Messages, Notice};
use crate::drive::cluster::Event;
use crate::drive::interface::Letter;

impl BulkChannel {
    /// A program hands a message over.
    pub(in crate::drive::cluster) fn offer(
        &mut self,
        now: Time,
        message: Message,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let BulkChannel { messages, parts, hosts, observations, .. } = self;
        let ports = hosts.len();
        let sender = &mut hosts[usize::from(message.from)].sender;
        let messages =
            messages.get_or_insert_with(|| Box::new(Messages::new(ports, parts.payload)));
        let mut refused = Vec::new();
        messages.post(message, |id, to, packets| {
            for _ in 0..packets {
                observations.generate_from(message.from.into(), now);
                if !sender.offer(now, to) {
                    observations.drop(Drop::Protected, now);
                    observations.abandon_from(message.from.into(), now);
                    refused.push(id);
                }
            }
        });
        // An interface that keeps a pair apart refuses all packets of a message.
        refused.dedup();
        refused.into_iter().for_each(|id| messages.refuse(now, id));
        self.serve(now, message.from, schedule);
    }

    /// A packet starts for the first time, and its last byte will have left: later where others go
    /// before it on shared links, which is known then.
    pub(super) fn start_message(
        &mut self,
        now: Time,
        initiator: u16,
        packet: &BulkPacket,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Some(messages) = &mut self.messages else { return };
        if packet.first == Some(now)
            && let Some(message) = messages.start_next(initiator, packet.target)
        {
            schedule(now + self.timing().packet, Event::Left(initiator, message));
        }
    }

    /// The last byte of a message has left.
    pub(in crate::drive::cluster) fn leave(&mut self, now: Time, message: MessageId) {
        if let Some(messages) = &mut self.messages {
            messages.sent(now, message);
        }
    }

    /// A packet is taken by its target. Behind an interface it is there when its handler has ended.
    pub(super) fn arrive_for_message(&mut self, now: Time, initiator: u16, target: u16) {
        if let Some(messages) = &mut self.messages
            && self.hosts[usize::from(target)].sender.interface().is_none()
        {
            messages.arrive_next(now, initiator, target, 1);
        }
    }

    /// A packet is given up that its target has not taken.
    pub(super) fn lose_for_message(&mut self, now: Time, initiator: u16, packet: &BulkPacket) {
        if let Some(messages) = &mut self.messages {
            // Messages number the packets of a pair modulo 2^32.
            messages.lose(now, initiator, packet.target, packet.sequence as u32);
        }
    }

    /// Whether messages of a program are under way.
    pub(in crate::drive::cluster) fn carries_messages(&self) -> bool {
        self.messages.as_ref().is_some_and(|messages| !messages.is_empty())
    }

    pub(in crate::drive::cluster) fn next_notice(&self) -> Option<Time> {
        self.messages.as_ref().and_then(|messages| messages.next_notice())
    }

    pub(in crate::drive::cluster) fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        if let Some(messages) = &mut self.messages {
            messages.take_notices(notices);
        }
    }
}

/// The handler of a message at its target has ended.
pub(super) fn handle(messages: &mut Option<Box<Messages>>, now: Time, letter: Letter) {
    let Letter { from, to, sequence, .. } = letter;
    if let Some(messages) = messages {
        // Messages number the packets of a pair modulo 2^32.
        messages.arrive_numbered(now, from, to, sequence as u32);
    }
}
