//! Hosts: packets wait for the link and for space in the buffer of the switch.

use weft_fabric::fabric::Routes;
use weft_kernel::Id;
use weft_units::Time;

use super::super::supply::Handed;
use super::sender::Sender;
use super::{Event, InputQueuedNetwork, Link, MessageId, Note, Packet};

/// The sending side of a host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// The port of the switch at the other end of the cable.
    pub port: u32,
    /// Credits for that switch, of each virtual channel; none without credits.
    pub senders: Vec<Sender>,
    /// Whether the switch has stopped it.
    pub is_stopped: bool,
    /// How many packets wait, the oldest and the youngest.
    pub waiting: u64,
    pub oldest: Link,
    youngest: Link,
    /// Until when the link is busy.
    free: Time,
    /// The earliest time for which [`Event::Send`] is scheduled.
    pub wake: Time,
}

impl Host {
    pub fn new(port: u32, senders: Vec<Sender>) -> Host {
        Host {
            port,
            senders,
            is_stopped: false,
            waiting: 0,
            oldest: None,
            youngest: None,
            free: Time::ZERO,
            wake: Time::NEVER,
        }
    }

    /// From when on a packet of a virtual channel may be sent; `None` if that is not known.
    #[inline]
    fn ready_at(&mut self, now: Time, channel: u8) -> Option<Time> {
        if self.is_stopped {
            return None;
        }
        let credit = match self.senders.get_mut(usize::from(channel)) {
            Some(sender) => sender.credit_at(now)?,
            None => now,
        };
        Some(credit.max(self.free))
    }
}

impl InputQueuedNetwork {
    #[inline]
    pub(super) fn generate(&mut self, now: Time, number: u16) {
        let Handed { to, generated, message, next, .. } = self.ends.hand_over(now, number);
        let to = to as u16;
        if next < Time::NEVER {
            self.agenda.push(next, Event::Generate(number));
        }
        let heading = self.routes.depart(number, to);
        let channel = Routes::class(number, to, self.flow.classes()) * self.flow.lanes;
        let note = Note { heading, behind: None, hops: 0, channel };
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
        let channel = self.ends.packets[id].note.channel;
        if host.ready_at(now, channel).is_some_and(|ready| ready <= now) {
            self.start(now, number, id);
        }
        let host = &mut self.hosts[usize::from(number)];
        let Some(id) = host.oldest else { return };
        let channel = self.ends.packets[id].note.channel;
        let at = host.ready_at(now, channel);
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
        if let Some(sender) = host.senders.get_mut(usize::from(packet.note.channel)) {
            sender.spend();
        }
        host.free = now + self.timing.packet;
        self.ends.observations.attempt(now);
        let link = self.owner.len() + usize::from(number);
        self.ends.observations.occupy(link, now, self.timing.packet);
        let (port, slot) = (host.port, self.timing.slot_after(now));
        self.expect(id, port, slot);
        self.take_part(slot);
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

    /// A credit for a host will be back at `time`.
    pub(super) fn restore(&mut self, number: u16, channel: u8, time: Time) {
        let host = &mut self.hosts[usize::from(number)];
        let Some(sender) = host.senders.get_mut(usize::from(channel)) else { return };
        sender.restore(time);
        if std::mem::take(&mut sender.starved) && time < host.wake {
            host.wake = time;
            self.agenda.push(time, Event::Send(number));
        }
    }

    /// A host hears that it has to stop, or that it may go on.
    pub(super) fn stop(&mut self, now: Time, number: u16, stops: bool) {
        self.hosts[usize::from(number)].is_stopped = stops;
        if !stops {
            self.send(now, number);
        }
    }
}
