//! Messages in place of sources: each host submits the packets of its messages one by one, the next
//! one when the previous one starts, so that a long message needs no room for its packets.

use std::collections::VecDeque;

use weft_fabric::measure::Observations;
use weft_units::{Bytes, Time};

use super::supply::Handed;
use crate::drive::carrier::{Message, MessageId, Messages};

/// The messages of a channel, and those with packets to submit.
#[derive(Debug)]
pub(in crate::drive) struct Feed {
    pub messages: Messages,
    hosts: Vec<Waiting>,
    /// The payload of every packet of a message but the last.
    payload: Bytes,
}

/// The messages of one host.
#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Unfed>,
    /// Whether the host will be asked for a packet.
    asked: bool,
}

/// A message with packets that have not been submitted.
#[derive(Clone, Copy, Debug)]
struct Unfed {
    id: MessageId,
    to: u16,
    packets: u32,
    size: Bytes,
    offered: Time,
}

/// A message that waits at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive) struct Queued {
    host: u16,
    /// Whether the host will be asked for a packet.
    asked: bool,
    message: MessageId,
}

impl Feed {
    pub fn new(hosts: usize, payload: Bytes) -> Feed {
        let messages = Messages::new(hosts, payload);
        let hosts = (0..hosts).map(|_| Waiting::default()).collect();
        Feed { messages, hosts, payload: payload.max(Bytes(1)) }
    }

    /// Accepts a message. Returns whether its host must be asked for a packet now.
    pub fn post(&mut self, now: Time, message: Message, seen: &mut Observations) -> bool {
        let (host, size) = (&mut self.hosts[usize::from(message.from)], message.size);
        self.messages.post(message, |id, to, packets| {
            seen.generate_all_from(message.from.into(), now, packets.into());
            host.messages.push_back(Unfed { id, to, packets, size, offered: now });
        });
        !std::mem::replace(&mut host.asked, true)
    }

    /// The next packet of a host that was asked for one, which has one.
    pub fn hand_over(&mut self, now: Time, host: u16) -> Handed {
        let host = &mut self.hosts[usize::from(host)];
        host.asked = false;
        let Some(oldest) = host.messages.front_mut() else {
            debug_assert!(false, "a host was asked for a packet that it has not");
            let (message, size) = (MessageId::NONE, Bytes(0));
            let (part, next) = (size, Time::NEVER);
            return Handed { to: 0, generated: now, message, size, part, next };
        };
        let Unfed { id, to, size, offered, .. } = *oldest;
        oldest.packets -= 1;
        let is_last = oldest.packets == 0;
        if is_last {
            host.messages.pop_front();
        }
        // The last packet has the rest, which is nothing for an empty message.
        let part = match is_last && size > Bytes(0) {
            true => Bytes((size.0 - 1) % self.payload.0 + 1),
            false => self.payload.min(size),
        };
        let (to, generated, next) = (to.into(), offered, Time::NEVER);
        Handed { to, generated, message: id, size, part, next }
    }

    /// Whether a host has a packet and has not been asked to send yet; it then counts as asked.
    pub fn ask(&mut self, host: u16) -> bool {
        let host = &mut self.hosts[usize::from(host)];
        !host.messages.is_empty() && !std::mem::replace(&mut host.asked, true)
    }

    /// The message with the most unstarted packets, among those that hosts are sending, and how many
    /// it has.
    pub fn longest(&self) -> Option<(MessageId, u32)> {
        let oldest = self.hosts.iter().filter_map(|host| host.messages.front());
        oldest.map(|own| (own.id, self.messages.unsent(own.id))).max_by_key(|own| own.1)
    }

    /// The messages that wait at hosts, and how many packets of each have not been submitted.
    pub fn queued(&self) -> (Vec<Queued>, Vec<u32>) {
        let (mut queued, mut packets) = (Vec::new(), Vec::new());
        for (number, host) in (0..).zip(&self.hosts) {
            let (host, asked, messages) = (number, host.asked, &host.messages);
            if asked && messages.is_empty() {
                queued.push(Queued { host, asked, message: MessageId::NONE });
            }
            for own in messages {
                queued.push(Queued { host, asked, message: own.id });
                packets.push(own.packets);
            }
        }
        (queued, packets)
    }

    /// Submits again, this many times, what has been submitted since the numbers that waited were
    /// `before`; no message is completed by that.
    pub fn go_on(&mut self, before: &[u32], times: u32) {
        let messages = self.hosts.iter_mut().flat_map(|host| &mut host.messages);
        for (own, before) in messages.zip(before) {
            own.packets -= (before - own.packets) * times;
        }
    }

    /// Packets that have not been submitted.
    pub fn waiting(&self) -> u64 {
        let messages = self.hosts.iter().flat_map(|host| &host.messages);
        messages.map(|message| u64::from(message.packets)).sum()
    }
}
