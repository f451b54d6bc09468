//! Hosts: packets wait for the link and for space in the buffer of the switch.

use weft_kernel::Id;
use weft_units::Time;

use super::super::ends::Handed;
use super::sender::Sender;
use super::{Event, InputQueuedNetwork, Link, MessageId, Note, Packet};

/// The sending side of a host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// The port of the switch at the other end of the cable.
    pub port: u32,
    pub sender: Sender,
    /// How many packets wait, the oldest and the youngest.
    pub waiting: u64,
    oldest: Link,
    youngest: Link,
    /// Until when the link is busy.
    free: Time,
    /// The earliest time for which [`Event::Send`] is scheduled.
    pub wake: Time,
}

impl Host {
    pub fn new(port: u32, sender: Sender) -> Host {
        let (oldest, youngest) = (None, None);
        Host { port, sender, waiting: 0, oldest, youngest, free: Time::ZERO, wake: Time::NEVER }
    }
}

impl InputQueuedNetwork {
    #[inline]
    pub(super) fn generate(&mut self, now: Time, number: u16) {
        let Handed { to, generated, message, next, .. } = self.ends.hand_over(now, number);
        if next < Time::NEVER {
            self.agenda.push(next, Event::Generate(number));
        }
        let heading = self.routes.depart(number, to);
        let note = Note { heading, behind: None, slot: now, hops: 0 };
        let packet = Packet { generated, start: now, from: number, to, message, note };
        let id = self.ends.packets.insert(packet);
        let host = &mut self.hosts[usize::from(number)];
        host.waiting += 1;
        match host.youngest.replace(id) {
            Some(before) => self.ends.packets[before].note.behind = Some(id),
            None => {
                host.oldest = Some(id);
                self.send(now, number);
            }
        }
    }

    /// Sends the oldest packet of a host if it may leave, or sees to it that it is looked at when
    /// it may.
    pub(super) fn send(&mut self, now: Time, number: u16) {
        let host = &mut self.hosts[usize::from(number)];
        if host.wake == now {
            host.wake = Time::NEVER;
        }
        let Some(id) = host.oldest else { return };
        if host.free <= now && host.sender.has_credit(now) {
            self.start(now, number, id);
        }
        let host = &mut self.hosts[usize::from(number)];
        if host.oldest.is_none() {
            return;
        }
        let at = host.sender.credit_at(now).map(|credit| credit.max(host.free));
        if let Some(at) = at.filter(|at| *at < host.wake) {
            host.wake = at;
            self.agenda.push(at, Event::Send(number));
        }
    }

    fn start(&mut self, now: Time, number: u16, id: Id<Packet>) {
        let host = &mut self.hosts[usize::from(number)];
        let packet = &mut self.ends.packets[id];
        packet.start = now;
        let message = packet.message;
        host.waiting -= 1;
        host.oldest = packet.note.behind.take();
        if host.oldest.is_none() {
            host.youngest = None;
        }
        host.sender.spend();
        host.free = now + self.timing.packet;
        self.ends.observations.attempt(now);
        let (port, slot) = (host.port, self.timing.slot_after(now));
        self.expect(id, port, slot);
        if message != MessageId::NONE
            && let Some((feed, _)) = self.ends.messages()
            && feed.messages.start(message)
        {
            self.agenda.push(now + self.timing.packet, Event::Sent(message));
        }
        // The buffer of a greedy source is free when the transmission starts.
        if self.ends.has_another(number) {
            self.agenda.push(now, Event::Generate(number));
        }
    }
}
